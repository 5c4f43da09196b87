// SPDX-License-Identifier: GPL-2.0

//! The process that passes packets between the guests.

use crate::board::Seat;
use crate::error::{Error, Result};
use crate::process::{Observer, Process};
use crate::rig::Rig;
use crate::sockets::SocketDir;
use crate::wire::Wire;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

/// Where among the logs the wire leaves its counters.
pub(super) const STATS: &str = "wire-stats.json";

/// Starts the wire with these ports and waits until it is ready.
pub(super) fn start(
    rig: &Rig,
    ports: &[(u32, PathBuf)],
    sockets: &SocketDir,
    seat: &Seat,
    logs: &Path,
) -> Result<(Process, Wire)> {
    const LIMIT: Duration = Duration::from_secs(20);
    let mut command = Command::new(&rig.config.programs.wire);
    for (cid, socket) in ports {
        let socket = socket.display();
        command
            .arg("--port")
            .arg(format!("cid={cid},socket={socket}"));
    }
    let control = sockets.path("wire-control");
    command.arg("--control").arg(&control);
    command.arg("--stats").arg(logs.join(STATS));
    command.args(&rig.config.wire_options).stdin(Stdio::null());
    let log = logs.join("wire.log");
    let (tell, ready) = channel();
    let observer = WireObserver {
        seat: seat.clone(),
        ready: Some(tell),
        log: log.clone(),
    };
    // Asked to end, it writes its counters.
    let process = Process::start(&mut command, &log, observer)?.gently();
    match ready.recv_timeout(LIMIT) {
        Ok(()) => Ok((process, Wire::at(control))),
        Err(RecvTimeoutError::Timeout) => Err(Error::TimedOut {
            machine: "the wire".into(),
            what: "the line `ready`".into(),
            after: LIMIT,
        }),
        Err(RecvTimeoutError::Disconnected) => {
            seat.check()?;
            Err(Error::Setup(format!(
                "the wire ended before it was ready; see {}",
                log.display()
            )))
        }
    }
}

/// Hears of the wire's readiness, and posts its end as the end of a guest.
struct WireObserver {
    seat: Seat,
    ready: Option<Sender<()>>,
    log: PathBuf,
}

impl Observer for WireObserver {
    fn said(&mut self, line: &str) {
        if line.trim() == "ready" {
            // Taken, so that it closes; the receiver may have given up.
            let _ = self.ready.take().map(|ready| ready.send(()));
        }
    }

    fn ended(&mut self, status: ExitStatus) {
        let said = std::fs::read_to_string(&self.log).unwrap_or_default();
        self.seat
            .gone(format!("the wire ended ({status}) {}", said.trim_end()));
        self.ready = None;
    }
}
