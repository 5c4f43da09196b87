// SPDX-License-Identifier: GPL-2.0
//! Takes a whole capture through the rules.

use std::collections::HashMap;
use std::fmt;

use vsock_wire::header::op;

use crate::connection::{Connection, End};
use crate::packet::{Address, Packet};

/// A connection of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Opened {
    /// Who asked for it.
    pub connector: Address,
    /// Who was asked.
    pub acceptor: Address,
    /// How many others were asked for at the same address before.
    pub number: u32,
}

/// Something in a capture that must not be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The frame, counted from 1.
    pub frame: usize,
    /// The packet in it.
    pub packet: String,
    /// What is wrong with it.
    pub what: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "frame {} ({}): {}", self.frame, self.packet, self.what)
    }
}

/// What a capture that is in order holds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Packets.
    pub packets: usize,
    /// Each connection with the payload bytes that its connector and its acceptor sent.
    pub connections: Vec<(Opened, [u64; 2])>,
}

/// Checks a capture. `payload` compares what an end of a connection sent at an offset of its stream
/// with what it should be, and says what is wrong.
pub fn check(
    packets: &[Packet],
    payload: impl Fn(&Opened, End, u64, &[u8]) -> Result<(), String>,
) -> Result<Summary, Vec<Violation>> {
    let mut checker = Checker {
        payload,
        opened: Vec::new(),
        present: HashMap::new(),
        asked: HashMap::new(),
        last: HashMap::new(),
        violations: Vec::new(),
    };
    for (index, packet) in packets.iter().enumerate() {
        checker.take(packets, index, packet);
    }
    if !checker.violations.is_empty() {
        return Err(checker.violations);
    }
    let connections = checker.opened.iter().map(|(opened, connection)| {
        let ends = [End::Connector, End::Acceptor];
        (*opened, ends.map(|end| connection.bytes(end)))
    });
    Ok(Summary {
        packets: packets.len(),
        connections: connections.collect(),
    })
}

struct Checker<F> {
    payload: F,
    /// Every connection so far.
    opened: Vec<(Opened, Connection)>,
    /// The newest one of each pair of addresses, the connector's first.
    present: HashMap<(Address, Address), usize>,
    /// How many connections an address was asked for.
    asked: HashMap<Address, u32>,
    /// The last packet with payload of each pair of addresses, the sender's first.
    last: HashMap<(Address, Address), usize>,
    violations: Vec<Violation>,
}

impl<F: Fn(&Opened, End, u64, &[u8]) -> Result<(), String>> Checker<F> {
    fn take(&mut self, packets: &[Packet], index: usize, packet: &Packet) {
        let mut wrong = Vec::new();
        if packet.header.op.get() == op::REQUEST {
            wrong.extend(self.ask(packet));
        }
        match self.find(packet) {
            Some((place, end)) => {
                let (opened, connection) = &mut self.opened[place];
                let offset = connection.bytes(end);
                wrong.extend(connection.take(end, &packet.header));
                if packet.header.op.get() == op::RW {
                    let compared = (self.payload)(opened, end, offset, &packet.payload);
                    let again = compared.err().map(|what| self.again(packets, packet, what));
                    wrong.extend(again);
                    let way = (packet.source(), packet.target());
                    self.last.insert(way, index);
                } else if !packet.payload.is_empty() {
                    wrong.push("its operation has no payload, and it carries some".to_owned());
                }
            }
            // To what no connection is known of, the answer is a reset.
            None if packet.header.op.get() == op::RST => {}
            None => wrong.push("nobody has asked for such a connection".to_owned()),
        }
        let violations = wrong.into_iter().map(|what| Violation {
            frame: index + 1,
            packet: packet.to_string(),
            what,
        });
        self.violations.extend(violations);
    }

    /// Opens a connection.
    fn ask(&mut self, packet: &Packet) -> Option<String> {
        let (connector, acceptor) = (packet.source(), packet.target());
        let present = self.present.get(&(connector, acceptor));
        if present.is_some_and(|place| self.opened[*place].1.stands()) {
            let what = "it asks for a connection that is there already: captured twice?";
            return Some(what.to_owned());
        }
        let asked = self.asked.entry(acceptor).or_default();
        let opened = Opened {
            connector,
            acceptor,
            number: *asked,
        };
        *asked += 1;
        let place = self.opened.len();
        self.present.insert((connector, acceptor), place);
        self.opened.push((opened, Connection::default()));
        None
    }

    /// The connection that a packet belongs to, and its sender's end.
    fn find(&self, packet: &Packet) -> Option<(usize, End)> {
        let (source, target) = (packet.source(), packet.target());
        let present = |connector, acceptor| self.present.get(&(connector, acceptor)).copied();
        let out = present(source, target).map(|place| (place, End::Connector));
        let back = || present(target, source).map(|place| (place, End::Acceptor));
        out.or_else(back)
    }

    /// Tells data that came twice from what is wrong otherwise.
    fn again(&self, packets: &[Packet], packet: &Packet, what: String) -> String {
        let last = self.last.get(&(packet.source(), packet.target()));
        match last.filter(|last| packets[**last] == *packet) {
            Some(last) => format!("it is frame {} once more: captured twice", last + 1),
            None => what,
        }
    }
}
