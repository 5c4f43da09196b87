// SPDX-License-Identifier: GPL-2.0
//! What each kind of service does with payload, apart from how it travels.

use std::collections::VecDeque;
use std::sync::LazyLock;
use std::time::Instant;

use bytes::Bytes;

use super::report::ServiceStats;
use super::spec::{Kind, ServiceSpec};
use crate::header::{FLAG_EOM, FLAG_EOR, MAX_PAYLOAD};

/// Empty messages that an echo keeps for a peer that does not read.
const MAX_EMPTY: usize = 1024;

/// The byte at offset `n` of what a service makes is `n % PERIOD`.
const PERIOD: usize = 251;

static PATTERN: LazyLock<Bytes> = LazyLock::new(|| {
    (0..MAX_PAYLOAD + PERIOD)
        .map(|n| (n % PERIOD) as u8)
        .collect()
});

/// A piece of payload on its way out.
#[derive(Debug, PartialEq, Eq)]
pub struct Piece {
    /// The bytes.
    pub payload: Bytes,
    /// The packet's flags, as far as they are the payload's.
    pub flags: u32,
    /// Bytes of the receive buffer that became free with it.
    pub freed: usize,
}

/// The state of one connection's service.
#[derive(Debug)]
pub struct Behaviour {
    state: State,
    size: usize,
    /// What is left to be made; None for no end.
    left: Option<u64>,
    /// Offset of the next byte that is made, in the pattern.
    offset: usize,
    /// What is left of the packet that is being made, when credit split it.
    packet_left: usize,
    input_ended: bool,
}

#[derive(Debug)]
enum State {
    Sink,
    Source,
    Echo {
        queue: VecDeque<(Bytes, u32)>,
        empty: usize,
    },
    /// Bytes that the peer owes, and when the packet went out that it answers.
    PingPong {
        owed: usize,
        since: Instant,
    },
}

impl Behaviour {
    /// A new connection's.
    pub fn new(spec: &ServiceSpec) -> Self {
        let state = match spec.kind {
            Kind::Sink => State::Sink,
            Kind::Source => State::Source,
            Kind::Echo => State::Echo {
                queue: VecDeque::new(),
                empty: 0,
            },
            Kind::PingPong => State::PingPong {
                owed: 0,
                since: Instant::now(),
            },
        };
        Behaviour {
            state,
            size: spec.size,
            left: spec.bytes,
            offset: 0,
            packet_left: 0,
            input_ended: false,
        }
    }

    /// Payload came. Returns how much of the receive buffer is free again at
    /// once, or None if the peer asks for too much.
    pub fn receive(
        &mut self,
        payload: Bytes,
        flags: u32,
        stats: &mut ServiceStats,
    ) -> Option<usize> {
        let len = payload.len();
        match &mut self.state {
            State::Sink | State::Source => {}
            State::Echo { queue, empty } => {
                *empty += usize::from(len == 0);
                queue.push_back((payload, flags & (FLAG_EOM | FLAG_EOR)));
                return (*empty <= MAX_EMPTY).then_some(0);
            }
            State::PingPong { owed, since } => {
                if len > 0 && len >= *owed && *owed > 0 {
                    stats.round_trip(since.elapsed());
                }
                *owed = owed.saturating_sub(len);
            }
        }
        Some(len)
    }

    /// The peer will send no more.
    pub fn end_of_input(&mut self) {
        self.input_ended = true;
    }

    /// Whether there is nothing left to do.
    pub fn is_finished(&self) -> bool {
        match &self.state {
            State::Sink => self.input_ended,
            State::Source => self.made_all(),
            State::Echo { queue, .. } => self.input_ended && queue.is_empty(),
            State::PingPong { owed, .. } => self.input_ended || (*owed == 0 && self.made_all()),
        }
    }

    fn made_all(&self) -> bool {
        self.packet_left == 0 && self.left == Some(0)
    }

    /// The size of the next packet to send; None if there is none now.
    pub fn next_size(&self) -> Option<usize> {
        match &self.state {
            State::Sink => None,
            State::Echo { queue, .. } => queue.front().map(|(payload, _)| payload.len()),
            State::PingPong { owed, .. } if *owed > 0 && self.packet_left == 0 => None,
            State::Source | State::PingPong { .. } => {
                let whole = self
                    .left
                    .map_or(self.size, |left| left.min(self.size as u64) as usize);
                Some(if self.packet_left > 0 {
                    self.packet_left
                } else {
                    whole
                })
                .filter(|&size| size > 0)
            }
        }
    }

    /// Take the next packet, or as much of it as `room` lets through. There
    /// must be one.
    pub fn take(&mut self, room: usize) -> Piece {
        if let State::Echo { queue, empty } = &mut self.state {
            let (payload, flags) = queue.front_mut().expect("the caller asked before");
            if payload.len() > room {
                let payload = payload.split_to(room);
                return Piece {
                    freed: payload.len(),
                    payload,
                    flags: 0,
                };
            }
            let (payload, flags) = (std::mem::take(payload), *flags);
            queue.pop_front();
            *empty -= usize::from(payload.is_empty());
            return Piece {
                freed: payload.len(),
                payload,
                flags,
            };
        }
        let size = self.next_size().expect("the caller asked before");
        if self.packet_left == 0 {
            self.packet_left = size;
            self.left = self.left.map(|left| left - size as u64);
            if let State::PingPong { owed, since } = &mut self.state {
                (*owed, *since) = (size, Instant::now());
            }
        }
        let len = size.min(room);
        self.packet_left -= len;
        let payload = PATTERN.slice(self.offset..self.offset + len);
        self.offset = (self.offset + len) % PERIOD;
        let flags = if self.packet_left == 0 { FLAG_EOM } else { 0 };
        Piece {
            payload,
            flags,
            freed: 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn behaviour(spec: &str) -> (Behaviour, ServiceStats) {
        let spec = spec.parse().unwrap();
        (Behaviour::new(&spec), ServiceStats::new(spec))
    }

    fn drain(behaviour: &mut Behaviour, room: usize) -> Vec<(usize, u32)> {
        let mut sizes = Vec::new();
        while behaviour.next_size().is_some() {
            let piece = behaviour.take(room);
            sizes.push((piece.payload.len(), piece.flags));
        }
        sizes
    }

    #[test]
    fn a_source_makes_packets_of_its_size_and_stops() {
        let (mut source, _) = behaviour("source=1,size=300,bytes=700");
        assert!(!source.is_finished());
        assert_eq!(drain(&mut source, 1000), [(300, 1), (300, 1), (100, 1)]);
        assert!(source.is_finished());
    }

    #[test]
    fn a_source_without_an_end_goes_on() {
        let (mut source, _) = behaviour("source=1,size=9");
        for _ in 0..1000 {
            assert_eq!(source.take(100).payload.len(), 9);
        }
        assert!(!source.is_finished());
    }

    #[test]
    fn what_credit_splits_ends_once_and_the_bytes_run_on() {
        let (mut source, _) = behaviour("source=1,size=300,bytes=600");
        let mut bytes = Vec::new();
        let mut ends = Vec::new();
        while source.next_size().is_some() {
            let piece = source.take(200);
            bytes.extend(piece.payload);
            ends.push(piece.flags);
        }
        assert_eq!(ends, [0, 1, 0, 1]);
        assert!(bytes.iter().enumerate().all(|(n, &b)| b == (n % 251) as u8));
        assert_eq!(bytes.len(), 600);
    }

    #[test]
    fn a_sink_frees_at_once_and_ends_with_its_peer() {
        let (mut sink, mut stats) = behaviour("sink=1");
        assert_eq!(
            sink.receive(Bytes::from_static(b"abc"), 0, &mut stats),
            Some(3)
        );
        assert_eq!(sink.next_size(), None);
        assert!(!sink.is_finished());
        sink.end_of_input();
        assert!(sink.is_finished());
    }

    #[test]
    fn an_echo_keeps_messages_and_frees_what_it_sent() {
        let (mut echo, mut stats) = behaviour("echo=1");
        assert_eq!(
            echo.receive(Bytes::from_static(b"hello"), 3, &mut stats),
            Some(0)
        );
        assert_eq!(echo.receive(Bytes::new(), 1, &mut stats), Some(0));
        echo.end_of_input();
        assert!(!echo.is_finished());
        let piece = |payload: &'static [u8], flags, freed| Piece {
            payload: Bytes::from_static(payload),
            flags,
            freed,
        };
        assert_eq!(echo.take(3), piece(b"hel", 0, 3));
        assert_eq!(echo.take(3), piece(b"lo", 3, 2));
        assert_eq!(echo.take(3), piece(b"", 1, 0));
        assert!(echo.is_finished());
    }

    #[test]
    fn an_echo_does_not_pile_up_empty_messages() {
        let (mut echo, mut stats) = behaviour("echo=1");
        let mut empty = || echo.receive(Bytes::new(), FLAG_EOM, &mut stats);
        assert!((0..MAX_EMPTY).all(|_| empty() == Some(0)));
        assert_eq!(empty(), None);
    }

    #[test]
    fn ping_waits_for_pong() {
        let (mut ping, mut stats) = behaviour("ping-pong=1,size=10,bytes=20");
        assert_eq!(drain(&mut ping, 100), [(10, 1)]);
        assert_eq!(
            ping.receive(Bytes::from_static(b"1234567"), 0, &mut stats),
            Some(7)
        );
        assert_eq!(ping.next_size(), None);
        assert_eq!(stats.round_trips(), 0);
        ping.receive(Bytes::from_static(b"890"), 0, &mut stats);
        assert_eq!(stats.round_trips(), 1);
        assert_eq!(drain(&mut ping, 100), [(10, 1)]);
        assert!(!ping.is_finished());
        ping.receive(Bytes::from_static(b"1234567890"), 0, &mut stats);
        assert!(ping.is_finished());
        assert_eq!(stats.round_trips(), 2);
    }
}
