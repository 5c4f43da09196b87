// SPDX-License-Identifier: GPL-2.0

//! What PID 1 has to do before it can serve.

use crate::{beat, modules, ports, serve};
use anyhow::{Context as _, Result};
use nix::mount::{MsFlags, mount};
use nix::sys::reboot::{RebootMode, reboot};
use std::fs;

/// What is mounted where, in this order.
const MOUNTS: [(&str, &str); 9] = [
    ("proc", "/proc"),
    ("sysfs", "/sys"),
    ("devtmpfs", "/dev"),
    ("devpts", "/dev/pts"),
    ("tmpfs", "/dev/shm"),
    ("tmpfs", "/tmp"),
    ("tmpfs", "/run"),
    ("debugfs", "/sys/kernel/debug"),
    ("tracefs", "/sys/kernel/tracing"),
];
/// Names the modules without which there are no ports, one file a line.
const BOOT_LIST: &str = "/lib/modules/boot";

/// Readies the machine and serves the lab; the machine ends when this does.
pub(crate) fn run() -> Result<()> {
    if let Err(error) = prepare_and_serve() {
        // The kernel's log reaches the console, which is all there is left.
        let _ = fs::write("/dev/kmsg", format!("<2>lab-agent: {error:#}\n"));
    }
    power_off()
}

fn prepare_and_serve() -> Result<()> {
    for (kind, place) in MOUNTS {
        fs::create_dir_all(place).with_context(|| format!("make {place}"))?;
        mount(
            Some(kind),
            place,
            Some(kind),
            MsFlags::empty(),
            None::<&str>,
        )
        .with_context(|| format!("mount {kind} on {place}"))?;
    }
    // SAFETY: no other thread runs yet that could read the environment.
    unsafe {
        std::env::set_var("PATH", "/bin:/sbin:/usr/bin:/usr/sbin");
        std::env::set_var("HOME", "/tmp");
        std::env::set_var("TERM", "linux");
    }
    for module in fs::read_to_string(BOOT_LIST).unwrap_or_default().lines() {
        modules::load(module, "").with_context(|| format!("load {module}"))?;
    }
    beat::start(ports::open(proto::port::BEAT)?);
    let link = ports::open(proto::port::AGENT)?;
    let output = link.try_clone().context("clone the agent's port")?;
    serve::serve(ports::Patient(link), output, serve::Place::Machine)
}

/// Ends the machine.
pub(crate) fn power_off() -> Result<()> {
    nix::unistd::sync();
    let Err(errno) = reboot(RebootMode::RB_POWER_OFF);
    Err(errno).context("switch off")
}
