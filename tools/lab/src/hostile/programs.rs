// SPDX-License-Identifier: GPL-2.0
//! What the guest runs while a script is played: sockets that are held.

use std::collections::BTreeMap;

use anyhow::Result;
use rig::{Job, Machine, Program};
use vsock_peer::report::Line;
use vsock_wire::hostile::script::GuestProgram;

use crate::case::fixture::PATIENCE;

/// The programs of a script.
pub(crate) struct Programs(Vec<Job>);

impl Programs {
    /// Starts those that listen, or those that connect.
    pub(crate) fn start(
        guest: &Machine,
        programs: &[GuestProgram],
        listening: bool,
    ) -> Result<Self> {
        let wanted = programs
            .iter()
            .filter(|program| program.listens == listening);
        let mut jobs = Vec::new();
        for program in wanted {
            let mut job = guest.spawn(Program::new("vsock-peer").args(arguments(program)))?;
            if listening {
                job.wait_line("the port it listens on", PATIENCE, Line::listening_port)?;
            }
            jobs.push(job);
        }
        Ok(Self(jobs))
    }

    /// Has them close their sockets; returns how many of those had ended before, and how.
    pub(crate) fn end(self) -> Result<BTreeMap<String, u64>> {
        let mut ends = BTreeMap::new();
        for job in self.0 {
            job.input(b"", true)?;
            let output = job.wait(PATIENCE)?.success()?;
            for line in output.text().lines() {
                if let Ok(Line::Ended { how, .. }) = serde_json::from_str(line) {
                    *ends.entry(how).or_default() += 1;
                }
            }
        }
        Ok(ends)
    }
}

fn arguments(program: &GuestProgram) -> Vec<String> {
    let place = if program.listens { "listen" } else { "connect" };
    let kind = if program.seqpacket {
        "seqpacket"
    } else {
        "stream"
    };
    let mut args = vec![
        "hold".to_owned(),
        format!("--{place}={}", program.port),
        format!("--type={kind}"),
        format!("--count={}", program.count),
        format!("--write={}", program.writes),
    ];
    args.extend(
        program
            .buffer
            .map(|buffer| format!("--buffer-size={buffer}")),
    );
    args.extend(program.reads.then(|| "--read".to_owned()));
    args.extend(program.again.then(|| "--again".to_owned()));
    args
}
