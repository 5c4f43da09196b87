// SPDX-License-Identifier: GPL-2.0
//! Debian's programs in a machine: the lab root, in which they are installed as Debian made them.

use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rig::{Job, Machine, Output, Program};

use crate::case::fixture::until;

/// A program has to be read through the file system first, and is emulated.
const PATIENCE: Duration = Duration::from_secs(60);

/// The lab root in a machine, from where programs see files of theirs in `/tmp`.
pub(super) struct Debian<'a> {
    machine: &'a Machine,
    root: &'static str,
    /// The network namespace of the programs, if it is another one: a name that `ip netns` knows.
    namespace: Option<String>,
}

/// A file in `/tmp` of a machine, and what is in it.
pub(super) struct Random {
    /// Its path.
    pub path: String,
    /// Its SHA-256.
    pub hash: String,
}

impl<'a> Debian<'a> {
    /// Makes it ready.
    pub(super) fn of(machine: &'a Machine) -> Result<Self> {
        // By it, `ss` knows vsock sockets.
        machine.need("vsock_diag")?;
        let root = machine.lab_root()?;
        Ok(Self {
            machine,
            root,
            namespace: None,
        })
    }

    /// The same with the programs in another network namespace.
    pub(super) fn in_namespace(&self, name: &str) -> Self {
        Self {
            namespace: Some(name.to_owned()),
            ..*self
        }
    }

    /// The machine that it is in.
    pub(super) fn machine(&self) -> &'a Machine {
        self.machine
    }

    /// Named by its path, because the guests' own busybox would take another name for its own.
    fn shell(&self, script: &str) -> Program {
        let mut argv = Vec::new();
        if let Some(name) = &self.namespace {
            argv.extend([
                "/usr/bin/nsenter".to_owned(),
                format!("--net=/run/netns/{name}"),
            ]);
        }
        argv.extend(["/bin/sh", "-ec", script].map(Into::into));
        Program::from(argv).root(self.root).env("HOME", "/tmp")
    }

    /// Starts a line of shell.
    pub(super) fn start(&self, script: &str) -> Result<Job> {
        Ok(self.machine.spawn(self.shell(script))?)
    }

    /// Runs a line of shell to its end, whichever that is.
    pub(super) fn attempt(&self, script: &str) -> Result<Output> {
        Ok(self.machine.run(self.shell(script), PATIENCE)?)
    }

    /// Runs a line of shell, which has to succeed; returns what it printed.
    pub(super) fn sh(&self, script: &str) -> Result<String> {
        Ok(self.attempt(script)?.success()?.text())
    }

    /// Makes a file of random bytes.
    pub(super) fn random(&self, name: &str, bytes: u64) -> Result<Random> {
        let path = format!("/tmp/{name}");
        self.sh(&format!("head -c {bytes} /dev/urandom > {path}"))?;
        let hash = self.hash(&path)?;
        Ok(Random { path, hash })
    }

    /// The SHA-256 of a file.
    pub(super) fn hash(&self, path: &str) -> Result<String> {
        let line = self.sh(&format!("sha256sum {path}"))?;
        let hash = line.split_whitespace().next();
        hash.map(Into::into)
            .with_context(|| format!("sha256sum printed {line:?}"))
    }

    /// Reads a file.
    pub(super) fn read(&self, path: &str) -> Result<Vec<u8>> {
        Ok(self.machine.read(&format!("{}{path}", self.root))?)
    }

    /// Fails unless a file holds the same as another one.
    pub(super) fn same(&self, path: &str, original: &Random) -> Result<()> {
        let hash = self.hash(path)?;
        let size = |path: &str| self.sh(&format!("stat -c %s {path}"));
        ensure!(
            hash == original.hash,
            "what arrived in {path} of {} has the hash {hash} and {} bytes, and {} was sent",
            self.machine.name(),
            size(path)?.trim(),
            original.hash
        );
        Ok(())
    }

    /// Waits until somebody listens on a vsock port; `server` is who is to.
    pub(super) fn await_listener(&self, server: &Job, port: u32) -> Result<()> {
        let what = format!("somebody to listen on vsock port {port}");
        let script = format!("ss --vsock --listening --numeric | grep -q ':{port} '");
        until(&what, PATIENCE, || {
            if let Some(exit) = server.exit() {
                anyhow::bail!("the server ended ({exit}):\n{}", server.tail());
            }
            Ok(self.attempt(&script)?.exit.success().then_some(()))
        })
    }

    /// Waits for a program's end, which has to be a success.
    pub(super) fn finish(&self, job: Job) -> Result<String> {
        Ok(job.wait(PATIENCE)?.success()?.text())
    }
}
