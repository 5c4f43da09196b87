// SPDX-License-Identifier: GPL-2.0
//! Connections without payload, each opened and ended in order before the next.

use std::os::fd::AsFd;
use std::time::Instant;

use nix::errno::Errno;
use nix::poll::PollFlags;

use crate::cli::Place;
use crate::plan::Plan;
use crate::report::{Fault, Report};
use crate::socket::{Listener, Socket, wait};
use crate::usage::Usage;

/// Opens or answers all connections of the plan.
pub fn dial(
    plan: &Plan,
    place: Place,
    deadline: Instant,
    listening: impl FnOnce(u32),
) -> Result<Report, (Option<u32>, Fault)> {
    let mut report = Report::new(plan);
    let door = match place {
        Place::Here { port } => Door::Open(Listener::open(plan, port, listening)?),
        Place::There { cid, port } => Door::Closed { cid, port },
    };
    let (before, begin) = (Usage::now(), Instant::now());
    for connection in 0..plan.connections {
        door.pass(plan, deadline)
            .and_then(|socket| peers_end(&socket, deadline))
            .map_err(|fault| (Some(connection), fault))?;
    }
    report.seconds = begin.elapsed().as_secs_f64();
    report.usage = Usage::now().since(&before);
    Ok(report)
}

/// Where connections come from.
enum Door {
    /// They come in here.
    Open(Listener),
    /// They are opened there.
    Closed { cid: u32, port: u32 },
}

impl Door {
    /// The next connection; one that was opened from here says at once that it has nothing to say.
    fn pass(&self, plan: &Plan, deadline: Instant) -> Result<Socket, Fault> {
        match *self {
            Self::Open(ref listener) => listener
                .accept(deadline)
                .map_err(|errno| Fault::call("waiting for it to come in", errno)),
            Self::Closed { cid, port } => {
                let doing = || format!("connecting to CID {cid} port {port}");
                let socket = Socket::connect(plan, cid, port);
                let socket = socket.map_err(|errno| Fault::call(doing(), errno))?;
                let ended = socket.half_close();
                ended.map_err(|errno| Fault::call("shutting down writing", errno))?;
                Ok(socket)
            }
        }
    }
}

/// Waits until the peer has ended its side, too, without having said anything.
fn peers_end(socket: &Socket, deadline: Instant) -> Result<(), Fault> {
    let doing = "waiting for the peer to end";
    wait(socket.as_fd(), PollFlags::POLLIN, deadline).map_err(|errno| Fault::call(doing, errno))?;
    loop {
        match socket.receive(&mut [0]) {
            Ok(received) if received.len == 0 => return Ok(()),
            Ok(_) => {
                return Err(Fault::Excess {
                    got: 1,
                    expected: 0,
                });
            }
            Err(Errno::EINTR) => {}
            Err(errno) => return Err(Fault::call(doing, errno)),
        }
    }
}
