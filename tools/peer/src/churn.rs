// SPDX-License-Identifier: GPL-2.0
//! Connections that are made again and again, whatever happens to them.
//!
//! Both ends send and receive at once, each byte compared. A connection that is reset, refused or cut
//! is counted and followed by the next: what is wrong is a byte that was not sent, and a call that
//! does not come back.

use std::io::Read as _;
use std::sync::Arc;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use nix::errno::Errno;
use nix::sys::socket::MsgFlags;

use crate::cli::Place;
use crate::pattern::{Lane, Pattern};
use crate::plan::{Kind, Plan, Side};
use crate::report::{Fault, Line, print};
use crate::socket::{Listener, Socket};
use crate::tally::{Board, Call, Tally};

/// What the connections are like.
#[derive(Clone, Debug)]
pub struct Churn {
    /// The socket type.
    pub kind: Kind,
    /// Connections that the connecting end keeps up at once.
    pub connections: u32,
    /// Payload of a connection in each direction, after which it is ended in order.
    pub bytes: u64,
    /// Bytes of one write.
    pub write_size: usize,
    /// How long a connection may stand still, in both directions.
    pub patience: Duration,
    /// Whether one that stood still for so long is only given up. The end whose peer may vanish
    /// without a word has to; otherwise it is a fault.
    pub give_up: bool,
}

/// How often what was counted is told, if it changed.
const TELL: Duration = Duration::from_millis(50);

/// Between two attempts to connect, so that a guest without a device has other work done, too.
const BREATH: Duration = Duration::from_millis(2);

/// How long the threads may take to end; one that connects finds out after two seconds.
const END: Duration = Duration::from_secs(15);

/// Connections that may wait to be accepted.
const BACKLOG: u32 = 256;

/// Churns until the standard input ends; `listening` is told the port once it is open. Returns whether
/// nothing was wrong.
pub fn churn(churn: &Churn, place: Place, listening: impl FnOnce(u32)) -> Result<bool, Fault> {
    let board = Arc::new(Board::new(churn.patience, churn.give_up));
    let ends = Arc::new(Ends {
        churn: churn.clone(),
        pattern: Pattern::new(1),
        board: Arc::clone(&board),
        plan: Plan::echo(churn.kind, BACKLOG),
    });
    let workers = match place {
        Place::Here { port } => {
            let listener = Listener::open(&ends.plan, port, listening);
            let listener = listener.map_err(|(_, fault)| fault)?;
            vec![thread::spawn(move || ends.listen(&listener))]
        }
        Place::There { cid, port } => (0..churn.connections)
            .map(|_| {
                let ends = Arc::clone(&ends);
                thread::spawn(move || ends.connect(cid, port))
            })
            .collect(),
    };
    let stop = thread::spawn({
        let board = Arc::clone(&board);
        move || {
            // Whatever comes, or an end, ends it.
            let _ = std::io::stdin().read(&mut [0; 1]);
            board.stop();
        }
    });
    let mut told = Tally::default();
    while !board.is_stopping() {
        board.look_for_stalls();
        tell(&board, &mut told);
        thread::sleep(TELL);
    }
    let _ = stop.join();
    await_workers(&board, workers);
    told = Tally::default();
    tell(&board, &mut told);
    Ok(told.faults.is_empty())
}

/// Tells what was counted, if that is not what was told last.
fn tell(board: &Board, told: &mut Tally) {
    let tally = board.tally();
    if tally != *told {
        print(&Line::Churn(Box::new(tally.clone())));
        *told = tally;
    }
}

/// Waits for all threads to see that it is over; one that does not is stuck in a call.
fn await_workers(board: &Board, workers: Vec<JoinHandle<()>>) {
    let deadline = Instant::now() + END;
    while !workers.iter().all(JoinHandle::is_finished) || !board.is_empty() {
        board.abort_all();
        if Instant::now() > deadline {
            board.note_stuck();
            return;
        }
        thread::sleep(TELL);
    }
}

/// What the threads of one end share.
struct Ends {
    churn: Churn,
    pattern: Arc<Pattern>,
    board: Arc<Board>,
    plan: Plan,
}

impl Ends {
    fn listen(self: &Arc<Self>, listener: &Listener) {
        while !self.board.is_stopping() {
            match listener.accept(Instant::now() + TELL) {
                Ok(socket) => {
                    let ends = Arc::clone(self);
                    thread::spawn(move || ends.carry(socket, Side::Listen));
                }
                Err(Errno::ETIMEDOUT) => {}
                Err(errno) => self.board.count(format!("accept {errno:?}")),
            }
        }
    }

    fn connect(self: &Arc<Self>, cid: u32, port: u32) {
        while !self.board.is_stopping() {
            let begin = Instant::now();
            match Socket::connect(&self.plan, cid, port) {
                Ok(socket) => self.carry(socket, Side::Connect),
                Err(errno) => {
                    self.board.count(format!("connect {errno:?}"));
                    // The kernel gives up by itself after two seconds.
                    if begin.elapsed() > self.churn.patience && !self.churn.give_up {
                        let took = begin.elapsed().as_secs_f64();
                        self.board
                            .fault(format!("connect() took {took:.1} s, then {errno:?}"));
                    }
                    thread::sleep(BREATH);
                }
            }
        }
    }

    /// Takes a connection through its life.
    fn carry(self: &Arc<Self>, socket: Socket, side: Side) {
        // Both ends know the port of the one that connected, and no other connection has it.
        let number = match side {
            Side::Connect => socket.local_port(),
            Side::Listen => socket.remote_port(),
        };
        let number = match number {
            Ok(number) => number,
            Err(errno) => return self.board.count(format!("name {errno:?}")),
        };
        let socket = Arc::new(socket);
        let seat = self.board.enter(number, &socket);
        let sender = {
            let (ends, socket) = (Arc::clone(self), Arc::clone(&socket));
            let lane = self.pattern.lane(number, side);
            let progress = seat.progress();
            thread::spawn(move || ends.send(&socket, &lane, |bytes| progress.sent(bytes)))
        };
        let lane = self.pattern.lane(number, side.opposite());
        let received = self.receive(&socket, &lane, number, |bytes| seat.received(bytes));
        if !matches!(received, Ending::Whole) {
            // The other direction is as good as over; its thread may be blocked.
            socket.abort();
        }
        let sent = sender.join().unwrap_or(Ending::Cut(Call::Send, None));
        let wrong = seat.was_given_up() || self.board.is_stopping();
        match (received, sent) {
            (Ending::Whole, Ending::Whole) => self.board.completed(),
            (Ending::Cut(call, errno), _) | (_, Ending::Cut(call, errno)) if !wrong => {
                self.board.cut(call, errno);
            }
            _ => {}
        }
    }

    fn send(&self, socket: &Socket, lane: &Lane, progress: impl Fn(usize)) -> Ending {
        let mut offset = 0;
        while offset < self.churn.bytes {
            let left = self.churn.bytes - offset;
            let len = left.min(self.churn.write_size as u64) as usize;
            match socket.send(lane.at(offset, len), MsgFlags::empty()) {
                Ok(sent) => {
                    offset += sent as u64;
                    progress(sent);
                }
                Err(Errno::EINTR) => {}
                Err(errno) => return Ending::Cut(Call::Send, Some(errno)),
            }
        }
        match socket.half_close() {
            Ok(()) => Ending::Whole,
            Err(errno) => Ending::Cut(Call::Shutdown, Some(errno)),
        }
    }

    fn receive(
        &self,
        socket: &Socket,
        lane: &Lane,
        number: u32,
        progress: impl Fn(usize),
    ) -> Ending {
        let mut buffer = vec![0; self.churn.write_size.max(65_536)];
        let mut offset = 0;
        loop {
            match socket.receive(&mut buffer) {
                Ok(received) if received.len == 0 && offset == self.churn.bytes => {
                    return Ending::Whole;
                }
                Ok(received) if received.len == 0 => return Ending::Cut(Call::Receive, None),
                Ok(received) => {
                    if let Err(wrong) = lane.compare(offset, &buffer[..received.len]) {
                        self.board.fault(format!(
                            "the connection from port {number} got a wrong byte: {wrong:?}"
                        ));
                        return Ending::Cut(Call::Receive, None);
                    }
                    offset += received.len as u64;
                    progress(received.len);
                    if offset > self.churn.bytes {
                        let most = self.churn.bytes;
                        self.board.fault(format!(
                            "the connection from port {number} got {offset} bytes of {most}"
                        ));
                        return Ending::Cut(Call::Receive, None);
                    }
                }
                Err(Errno::EINTR) => {}
                Err(errno) => return Ending::Cut(Call::Receive, Some(errno)),
            }
        }
    }
}

/// How one direction of a connection ended.
enum Ending {
    /// With all of its payload.
    Whole,
    /// Before that, in this call; without an error number the stream ended.
    Cut(Call, Option<Errno>),
}
