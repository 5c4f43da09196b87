// SPDX-License-Identifier: GPL-2.0

//! The lab's agent: PID 1 of every virtual machine, or an ordinary process on the machine that the lab
//! itself runs on. It does what the lab asks for and decides nothing.

mod beat;
mod files;
mod init;
mod jobs;
mod kmsg;
mod modules;
mod outbox;
mod ports;
mod reaper;
mod serve;

use anyhow::{Context as _, Result, bail};
use std::os::unix::net::UnixStream;

fn main() -> Result<()> {
    if std::process::id() == 1 {
        return init::run();
    }
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [flag, agent, beat] = arguments.as_slice() else {
        bail!(
            "usage: lab-agent --connect AGENT-SOCKET BEAT-SOCKET (or as PID 1 of a virtual machine)"
        );
    };
    if flag != "--connect" {
        bail!("unknown option {flag}; usage: lab-agent --connect AGENT-SOCKET BEAT-SOCKET");
    }
    let connect = |path| UnixStream::connect(path).with_context(|| format!("connect to {path}"));
    beat::start(connect(beat)?);
    let link = connect(agent)?;
    let input = link.try_clone().context("clone the link")?;
    serve::serve(input, link, serve::Place::Process)
}
