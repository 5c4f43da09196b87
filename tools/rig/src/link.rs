// SPDX-License-Identifier: GPL-2.0

//! The link to a machine's agent.

use crate::board::Seat;
use crate::error::{Error, IoContext as _, Result};
use proto::{Answer, Call, Note, Request};
use std::io::BufReader;
use std::os::unix::net::UnixStream;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

/// An agent that lives answers within this time; unloading a module waits for its users' grace periods.
const ANSWER_LIMIT: Duration = Duration::from_secs(60);
/// A machine that has stopped takes nothing more; then writing must end, for the board to tell why.
const WRITE_LIMIT: Duration = Duration::from_secs(30);

/// Sends requests to one agent and waits for their answers.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    seat: Seat,
    port: Arc<Mutex<UnixStream>>,
}

impl Link {
    /// Takes over the port, and posts what comes from it.
    pub(crate) fn open(seat: Seat, port: UnixStream) -> Result<Self> {
        let what = || format!("set up the port of {}'s agent", seat.name());
        port.set_write_timeout(Some(WRITE_LIMIT)).context(what)?;
        let input = port.try_clone().context(what)?;
        let poster = seat.clone();
        thread::spawn(move || {
            let mut input = BufReader::new(input);
            loop {
                match proto::read_line::<Note>(&mut input) {
                    Ok(Some(note)) => poster.note(note),
                    Ok(None) => break,
                    Err(error) if error.kind() == std::io::ErrorKind::InvalidData => {
                        poster.gone(format!("its agent talks rubbish: {error}"));
                    }
                    Err(_) => break,
                }
            }
        });
        let port = Arc::new(Mutex::new(port));
        Ok(Link { seat, port })
    }

    pub(crate) fn seat(&self) -> &Seat {
        &self.seat
    }

    /// Sends a request and waits for its answer; `what` completes "the machine could not …".
    pub(crate) fn call(&self, what: String, call: Call) -> Result<Answer> {
        let id = self.seat.next_id();
        if let Err(error) = self.write(&Request { id, call }) {
            // If the machine is in trouble, that is the better reason.
            self.seat.check()?;
            return Err(error);
        }
        let waiting = format!("the answer to the request to {what}");
        let result = self
            .seat
            .wait(waiting, ANSWER_LIMIT, |seat| seat.replies.remove(&id))?;
        result.map_err(|failure| Error::Refused {
            machine: self.seat.name().into(),
            what,
            errno: failure.errno,
            message: failure.message,
        })
    }

    /// Sends a request whose answer does not matter.
    pub(crate) fn send(&self, call: Call) {
        let id = self.seat.next_id();
        // Used where the machine may be gone, which others find out.
        let _ = self.write(&Request { id, call });
    }

    fn write(&self, request: &Request) -> Result<()> {
        let mut port = self.port.lock().unwrap_or_else(PoisonError::into_inner);
        proto::write_line(&mut *port, request)
            .context(|| format!("write to the agent of {}", self.seat.name()))
    }
}
