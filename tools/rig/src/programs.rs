// SPDX-License-Identifier: GPL-2.0

//! Builds the workspace's own programs that a rig is made of.

use crate::checkout::Checkout;
use crate::error::{Error, IoContext as _, Result};
use crate::logged::logged;
use crate::progress::Progress;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Named explicitly, the target keeps its flags away from build scripts and from the host's programs.
const GUEST_TARGET: &str = "x86_64-unknown-linux-gnu";

/// The workspace's programs, built.
#[derive(Clone, Debug)]
pub struct Programs {
    /// PID 1 of every machine, static.
    pub agent: PathBuf,
    /// The byte-exact traffic program, static.
    pub peer: PathBuf,
    /// The sample that passes UNIX datagrams on, static.
    pub redirect: PathBuf,
    /// The vhost-user device that joins two guests.
    pub wire: PathBuf,
}

impl Programs {
    /// Builds them with cargo, or finds that nothing is to be done.
    pub fn build(checkout: &Checkout, progress: &Progress) -> Result<Self> {
        let step = progress.step("building the guests' programs and the wire");
        let workspace = checkout.top().join("tools");
        let log = checkout.top().join("build/programs.log");
        let folder = checkout.top().join("build");
        std::fs::create_dir_all(&folder).context(|| format!("make {}", folder.display()))?;

        let mut guests = cargo(&workspace);
        guests.args([
            "--package=lab-agent",
            "--package=vsock-peer",
            "--package=redirect",
            "--target",
            GUEST_TARGET,
        ]);
        guests.env(
            "RUSTFLAGS",
            "-C target-feature=+crt-static -C strip=debuginfo",
        );
        logged(&mut guests, &log, &step)?;
        let mut host = cargo(&workspace);
        logged(host.arg("--package=vsock-wire"), &log, &step)?;

        let target = std::env::var_os("CARGO_TARGET_DIR")
            .map_or_else(|| workspace.join("target"), PathBuf::from);
        let guests = target.join(GUEST_TARGET).join("release");
        let programs = Programs {
            agent: guests.join("lab-agent"),
            peer: guests.join("vsock-peer"),
            redirect: guests.join("redirect"),
            wire: target.join("release/vsock-wire"),
        };
        for program in [
            &programs.agent,
            &programs.peer,
            &programs.redirect,
            &programs.wire,
        ] {
            if !program.is_file() {
                let (program, log) = (program.display(), log.display());
                return Err(Error::Setup(format!("cargo built no {program}; see {log}")));
            }
        }
        step.done();
        Ok(programs)
    }
}

fn cargo(workspace: &Path) -> Command {
    let mut cargo = Command::new("cargo");
    cargo.args(["build", "--release", "--locked", "--manifest-path"]);
    cargo.arg(workspace.join("Cargo.toml"));
    cargo
}
