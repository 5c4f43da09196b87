// SPDX-License-Identifier: GPL-2.0
//! Sockets that are opened and held, whatever the peer does to them.

use std::collections::VecDeque;
use std::os::fd::AsFd;
use std::time::Instant;

use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::socket::{MsgFlags, getsockopt, sockopt};
use nix::unistd::read;

use crate::cli::Hold;
use crate::plan::{Kind, Plan};
use crate::report::{Fault, Line, print};
use crate::socket::{Listener, Socket};

/// The peer will send no more; the crate does not know it.
const RDHUP: PollFlags = PollFlags::from_bits_retain(nix::libc::POLLRDHUP);

/// Bytes of one read or write.
const PIECE: usize = 64 * 1024;

/// Connections that fail one after the other, before no further one is tried.
const TRIES: u32 = 1000;

/// Connections that may at least wait to be accepted.
const BACKLOG: u32 = 4;

struct Held {
    number: u32,
    socket: Socket,
    /// Bytes still to be written.
    left: u64,
}

struct Holder<'a> {
    request: &'a Hold,
    plan: Plan,
    next: u32,
    held: VecDeque<Held>,
    /// What has ended, not closed yet.
    ended: Vec<Socket>,
}

/// Holds sockets until the standard input ends.
pub fn hold(request: &Hold) -> Result<(), Fault> {
    let mut plan = Plan::echo(request.kind, request.count.max(BACKLOG));
    plan.buffer_size = request.buffer_size;
    let listener = match request.listen {
        Some(port) => {
            let tell = |port| print(&Line::Listening { port });
            let listener = Listener::open(&plan, port, tell);
            Some(listener.map_err(|(_, fault)| fault)?)
        }
        None => None,
    };
    let mut holder = Holder {
        request,
        plan,
        next: 0,
        held: VecDeque::new(),
        ended: Vec::new(),
    };
    if listener.is_none() {
        (0..request.count).for_each(|_| holder.connect());
    }
    let taking = listener.as_ref().filter(|_| request.count > 0);
    while holder.turn(taking)? {}
    Ok(())
}

impl Holder<'_> {
    fn connect(&mut self) {
        const HOST: u32 = 2;
        let port = self.request.connect.unwrap_or_default();
        for _ in 0..TRIES {
            match Socket::connect(&self.plan, HOST, port) {
                Ok(socket) => return self.add(socket),
                Err(errno) => self.say_ended(self.next, &name(errno)),
            }
            self.next += 1;
            if !self.request.again {
                return;
            }
        }
    }

    fn add(&mut self, socket: Socket) {
        let number = self.next;
        self.next += 1;
        if !self.request.again {
            print(&Line::Held { connection: number });
        }
        self.held.push_back(Held {
            number,
            socket,
            left: self.request.write,
        });
    }

    /// Who makes connections again and again would say too much.
    fn say_ended(&self, connection: u32, how: &str) {
        if !self.request.again {
            let how = how.to_owned();
            print(&Line::Ended { connection, how });
        }
    }

    /// Waits for something to happen, and does what follows. False at the end of the standard input.
    fn turn(&mut self, listener: Option<&Listener>) -> Result<bool, Fault> {
        let failed = |errno| Fault::call("waiting", errno);
        let stdin = std::io::stdin();
        let mut fds = vec![PollFd::new(stdin.as_fd(), PollFlags::POLLIN)];
        fds.extend(listener.map(|listener| PollFd::new(listener.as_fd(), PollFlags::POLLIN)));
        let first = fds.len();
        for held in &self.held {
            let mut wanted = RDHUP;
            wanted.set(PollFlags::POLLIN, self.request.read);
            wanted.set(PollFlags::POLLOUT, held.left > 0);
            fds.push(PollFd::new(held.socket.as_fd(), wanted));
        }
        match poll(&mut fds, PollTimeout::NONE) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(errno) => return Err(failed(errno)),
        }
        let seen = |fd: &PollFd<'_>| fd.revents().unwrap_or(PollFlags::empty());
        let told = !seen(&fds[0]).is_empty();
        let came_in = first > 1 && !seen(&fds[1]).is_empty();
        let events: Vec<PollFlags> = fds[first..].iter().map(seen).collect();
        drop(fds);
        let ended = self.serve_all(&events);
        // Behind it, so that nothing is left unsaid that happened before.
        if told && read(stdin.as_fd(), &mut [0; 64]).map_err(failed)? == 0 {
            return Ok(false);
        }
        if self.request.again && self.request.listen.is_none() {
            (0..ended).for_each(|_| self.connect());
        }
        if let Some(listener) = listener.filter(|_| came_in) {
            self.accept(listener)?;
        }
        Ok(true)
    }

    fn accept(&mut self, listener: &Listener) -> Result<(), Fault> {
        match listener.accept(Instant::now()) {
            Ok(socket) => self.add(socket),
            // It may be gone again.
            Err(Errno::ETIMEDOUT | Errno::ECONNABORTED | Errno::ECONNRESET) => {}
            Err(errno) => return Err(Fault::call("accepting", errno)),
        }
        if self.held.len() > self.request.count as usize {
            self.held.pop_front();
        }
        Ok(())
    }

    /// Does what the sockets ask for; returns how many have ended.
    fn serve_all(&mut self, events: &[PollFlags]) -> usize {
        let held = std::mem::take(&mut self.held);
        let before = held.len();
        for (mut held, events) in held.into_iter().zip(events) {
            match self.serve(&mut held, *events) {
                None => self.held.push_back(held),
                Some(how) => {
                    self.say_ended(held.number, &how);
                    // Closing it would be heard by the peer, at no moment that it could know of.
                    if !self.request.again {
                        self.ended.push(held.socket);
                    }
                }
            }
        }
        before - self.held.len()
    }

    /// What one socket asks for. Says how it has ended, if it has.
    fn serve(&self, held: &mut Held, events: PollFlags) -> Option<String> {
        let error = getsockopt(&held.socket.as_fd(), sockopt::SocketError).unwrap_or(0);
        if error != 0 {
            return Some(name(Errno::from_raw(error)));
        }
        if events.contains(PollFlags::POLLIN) {
            match held.socket.receive(&mut vec![0; PIECE]) {
                // An empty message is no end.
                Ok(received) if received.len == 0 && self.request.kind == Kind::Stream => {
                    return Some("closed".into());
                }
                Ok(_) => {}
                Err(errno) => return Some(name(errno)),
            }
        }
        if events.contains(PollFlags::POLLOUT) {
            let len = held.left.min(PIECE as u64) as usize;
            match held.socket.send(&vec![0; len], MsgFlags::MSG_DONTWAIT) {
                Ok(sent) => held.left -= sent as u64,
                Err(Errno::EAGAIN) => {}
                Err(errno) => return Some(name(errno)),
            }
        }
        let over = PollFlags::POLLHUP | PollFlags::POLLERR | RDHUP;
        events.intersects(over).then(|| "closed".into())
    }
}

/// The error's name, such as `ECONNRESET`.
fn name(errno: Errno) -> String {
    format!("{errno:?}")
}
