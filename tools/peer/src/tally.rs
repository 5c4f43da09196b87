// SPDX-License-Identifier: GPL-2.0
//! What comes of connections that are made again and again, and which of them stand.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use serde::{Deserialize, Serialize};

use crate::socket::Socket;

/// Faults that are told; more of them say nothing new.
const FAULTS: usize = 20;

/// What was counted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Tally {
    /// Connections that stood.
    pub opened: u64,
    /// Connections whose whole payload arrived both ways.
    pub completed: u64,
    /// Connections that were given up because they stood still.
    pub given_up: u64,
    /// Connections that stand now.
    pub standing: u64,
    /// Payload that was sent.
    pub sent: u64,
    /// Payload that was received, every byte of it right.
    pub received: u64,
    /// Calls that failed, by call and error.
    pub errors: BTreeMap<String, u64>,
    /// What must not be.
    pub faults: Vec<String>,
}

/// A call on a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Call {
    /// `send()`.
    Send,
    /// `recv()`.
    Receive,
    /// `shutdown()`.
    Shutdown,
}

/// All connections of one end.
#[derive(Debug)]
pub struct Board {
    tally: Mutex<Tally>,
    standing: Mutex<HashMap<u64, Entry>>,
    next: AtomicU64,
    stopping: AtomicBool,
    patience: Duration,
    give_up: bool,
}

/// A connection that stands.
#[derive(Debug)]
struct Entry {
    number: u32,
    socket: Arc<Socket>,
    progress: Arc<Progress>,
    seen: u64,
    since: Instant,
}

/// How far a connection has come.
#[derive(Debug, Default)]
pub struct Progress {
    sent: AtomicU64,
    received: AtomicU64,
    given_up: AtomicBool,
}

impl Progress {
    /// Notes bytes that were sent.
    pub fn sent(&self, bytes: usize) {
        self.sent.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    fn all(&self) -> (u64, u64) {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (read(&self.sent), read(&self.received))
    }
}

/// A connection's place on the board; it leaves when this is dropped.
#[derive(Debug)]
pub struct Seat<'a> {
    board: &'a Board,
    id: u64,
    progress: Arc<Progress>,
}

impl Board {
    /// A board without connections.
    pub fn new(patience: Duration, give_up: bool) -> Self {
        Self {
            tally: Mutex::default(),
            standing: Mutex::default(),
            next: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            patience,
            give_up,
        }
    }

    /// Says that all is to end.
    pub fn stop(&self) {
        self.stopping.store(true, Ordering::Relaxed);
    }

    /// Whether all is to end.
    pub fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Relaxed)
    }

    /// Whether no connection stands.
    pub fn is_empty(&self) -> bool {
        self.entries().is_empty()
    }

    /// Takes a connection in.
    pub fn enter(&self, number: u32, socket: &Arc<Socket>) -> Seat<'_> {
        let id = self.next.fetch_add(1, Ordering::Relaxed);
        let progress = Arc::<Progress>::default();
        let entry = Entry {
            number,
            socket: Arc::clone(socket),
            progress: Arc::clone(&progress),
            seen: 0,
            since: Instant::now(),
        };
        self.entries().insert(id, entry);
        self.sums().opened += 1;
        Seat {
            board: self,
            id,
            progress,
        }
    }

    /// What was counted up to now.
    pub fn tally(&self) -> Tally {
        // Both locks at once: a connection that leaves takes its bytes from one to the other.
        let standing = self.entries();
        let mut tally = self.sums().clone();
        tally.standing = standing.len() as u64;
        for entry in standing.values() {
            let (sent, received) = entry.progress.all();
            tally.sent += sent;
            tally.received += received;
        }
        tally
    }

    /// Counts a connection whose whole payload arrived.
    pub fn completed(&self) {
        self.sums().completed += 1;
    }

    /// Counts a connection that ended early.
    pub fn cut(&self, call: Call, errno: Option<Errno>) {
        let call = match call {
            Call::Send => "send",
            Call::Receive => "recv",
            Call::Shutdown => "shutdown",
        };
        self.count(match errno {
            Some(errno) => format!("{call} {errno:?}"),
            None => format!("{call} end"),
        });
    }

    /// Counts a call that failed.
    pub fn count(&self, what: String) {
        *self.sums().errors.entry(what).or_default() += 1;
    }

    /// Notes what must not be.
    pub fn fault(&self, what: String) {
        let mut sums = self.sums();
        if sums.faults.len() < FAULTS {
            sums.faults.push(what);
        }
    }

    /// Ends connections that stand still for too long.
    pub fn look_for_stalls(&self) {
        let mut still = Vec::new();
        for entry in self.entries().values_mut() {
            let (sent, received) = entry.progress.all();
            if sent + received != entry.seen {
                entry.seen = sent + received;
                entry.since = Instant::now();
            } else if entry.since.elapsed() > self.patience {
                entry.since = Instant::now();
                entry.progress.given_up.store(true, Ordering::Relaxed);
                entry.socket.abort();
                still.push((entry.number, sent, received));
            }
        }
        for (number, sent, received) in still {
            if self.give_up {
                self.sums().given_up += 1;
            } else {
                let seconds = self.patience.as_secs();
                self.fault(format!(
                    "the connection from port {number} stood still for {seconds} s, \
                     after {sent} bytes sent and {received} received"
                ));
            }
        }
    }

    /// Wakes whoever is blocked on a connection.
    pub fn abort_all(&self) {
        for entry in self.entries().values() {
            entry.socket.abort();
        }
    }

    /// Notes every connection that does not end.
    pub fn note_stuck(&self) {
        let stuck: Vec<_> = self
            .entries()
            .values()
            .map(|entry| (entry.number, entry.progress.all()))
            .collect();
        if stuck.is_empty() {
            self.fault("a thread did not come back from connect() or accept()".into());
        }
        for (number, (sent, received)) in stuck {
            self.fault(format!(
                "the connection from port {number} did not end although it was shut down, \
                 after {sent} bytes sent and {received} received"
            ));
        }
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<u64, Entry>> {
        self.standing.lock().expect("no thread panics with it")
    }

    fn sums(&self) -> MutexGuard<'_, Tally> {
        self.tally.lock().expect("no thread panics with it")
    }
}

impl Seat<'_> {
    /// Where the sending thread notes how far it is.
    pub fn progress(&self) -> Arc<Progress> {
        Arc::clone(&self.progress)
    }

    /// Notes bytes that were received.
    pub fn received(&self, bytes: usize) {
        let bytes = bytes as u64;
        self.progress.received.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Whether the connection was ended because it stood still.
    pub fn was_given_up(&self) -> bool {
        self.progress.given_up.load(Ordering::Relaxed)
    }
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        // Both locks at once, and in the same order as in `tally`.
        let mut standing = self.board.entries();
        let mut sums = self.board.sums();
        standing.remove(&self.id);
        let (sent, received) = self.progress.all();
        sums.sent += sent;
        sums.received += received;
    }
}

#[cfg(test)]
mod tests {
    use std::os::fd::OwnedFd;

    use nix::sys::socket::{AddressFamily, SockFlag, SockType, socketpair};

    use super::*;

    fn connection() -> (Arc<Socket>, OwnedFd) {
        let (near, far) = socketpair(
            AddressFamily::Unix,
            SockType::Stream,
            None,
            SockFlag::SOCK_CLOEXEC,
        )
        .unwrap();
        (Arc::new(near.into()), far)
    }

    #[test]
    fn standing_connections_count_as_those_that_are_gone_do() {
        let board = Board::new(Duration::from_secs(9), false);
        let (socket, _far) = connection();
        let seat = board.enter(7, &socket);
        seat.progress().sent(10);
        seat.received(3);
        let tally = board.tally();
        assert_eq!((tally.sent, tally.received, tally.standing), (10, 3, 1));
        drop(seat);
        let tally = board.tally();
        assert_eq!((tally.sent, tally.received, tally.standing), (10, 3, 0));
        assert_eq!(tally.opened, 1);
    }

    #[test]
    fn standing_still_is_a_fault_or_given_up() {
        for give_up in [false, true] {
            let board = Board::new(Duration::ZERO, give_up);
            let (socket, _far) = connection();
            let seat = board.enter(7, &socket);
            std::thread::sleep(Duration::from_millis(2));
            board.look_for_stalls();
            assert!(seat.was_given_up());
            let tally = board.tally();
            assert_eq!(tally.given_up, u64::from(give_up));
            assert_eq!(tally.faults.len(), usize::from(!give_up));
            // Its thread would be woken.
            assert_eq!(socket.receive(&mut [0]).unwrap().len, 0);
        }
    }

    #[test]
    fn what_is_stuck_is_named() {
        let board = Board::new(Duration::ZERO, false);
        board.note_stuck();
        let (socket, _far) = connection();
        let _seat = board.enter(77, &socket);
        board.note_stuck();
        let faults = board.tally().faults;
        assert!(faults[0].contains("connect()"), "{faults:?}");
        assert!(faults[1].contains("port 77"), "{faults:?}");
    }
}
