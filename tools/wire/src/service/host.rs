// SPDX-License-Identifier: GPL-2.0
//! The host's side of one guest: its services and their connections.

use std::collections::{HashMap, VecDeque};

use super::connection::{Connection, Verdict};
use super::report::{ServiceReport, ServiceStats};
use super::spec::ServiceSpec;
use crate::header::{Header, TYPE_SEQPACKET, TYPE_STREAM, op};
use crate::packet::Packet;

/// The host's CID.
pub const HOST_CID: u64 = 2;

/// Connections that one guest may have at once.
const MAX_CONNECTIONS: usize = 4096;

/// Packets of one connection before the others have their turn.
const BURST: usize = 32;

/// What to do with a packet that came for the host.
#[derive(Debug, PartialEq, Eq)]
pub enum Heard {
    /// Nothing more.
    Done,
    /// Answer with a reset.
    Refuse,
}

/// The port of a guest and the port of a service.
type Ports = (u32, u32);

struct Entry {
    connection: Connection,
    /// Index into the services.
    service: usize,
    /// It stands in one of the lines.
    lined_up: bool,
}

/// The services as one guest sees them.
pub struct Host {
    services: Vec<ServiceStats>,
    connections: HashMap<Ports, Entry>,
    /// Connections that may have a packet for the guest, and had none the moment
    /// before. Each has one before all others, so that who says a word now and
    /// then does not wait for those that never end.
    fresh: VecDeque<Ports>,
    /// Connections that had more than that, in turn.
    line: VecDeque<Ports>,
    /// Packets that the first in line may still send in its turn.
    turn: usize,
}

impl Host {
    /// A host with these services.
    pub fn new(specs: &[ServiceSpec]) -> Self {
        Host {
            services: specs.iter().cloned().map(ServiceStats::new).collect(),
            connections: HashMap::new(),
            fresh: VecDeque::new(),
            line: VecDeque::new(),
            turn: BURST,
        }
    }

    /// The guest is gone, and its connections with it.
    pub fn clear(&mut self) {
        self.connections.clear();
        self.fresh.clear();
        self.line.clear();
        self.turn = BURST;
    }

    /// Whether a packet is for a service.
    pub fn serves(&self, header: &Header) -> bool {
        let port = header.dst_port.get();
        let mut services = self.services.iter();
        header.dst_cid.get() == HOST_CID && services.any(|service| service.spec().port == port)
    }

    /// A packet came from the guest.
    pub fn receive(&mut self, packet: &Packet) -> Heard {
        let header = packet.header();
        let ports = (header.src_port.get(), header.dst_port.get());
        let Some(entry) = self.connections.get_mut(&ports) else {
            return self.accept(packet, ports);
        };
        let stats = &mut self.services[entry.service];
        let verdict = entry
            .connection
            .receive(header, packet.payload().clone(), stats);
        if verdict == Verdict::Open {
            self.line_up(ports);
            return Heard::Done;
        }
        self.remove(ports);
        match verdict {
            Verdict::Reset => Heard::Refuse,
            _ => Heard::Done,
        }
    }

    fn accept(&mut self, packet: &Packet, ports: Ports) -> Heard {
        let header = packet.header();
        let known_type = matches!(header.kind.get(), TYPE_STREAM | TYPE_SEQPACKET);
        let service = self
            .services
            .iter()
            .position(|service| service.spec().port == ports.1);
        let full = self.connections.len() >= MAX_CONNECTIONS;
        let Some(service) =
            service.filter(|_| known_type && !full && header.op.get() == op::REQUEST)
        else {
            // Resets are refused by silence, which is the caller's part.
            return Heard::Refuse;
        };
        let connection = Connection::accept(header, &mut self.services[service]);
        let entry = Entry {
            connection,
            service,
            lined_up: false,
        };
        self.connections.insert(ports, entry);
        self.line_up(ports);
        Heard::Done
    }

    fn remove(&mut self, ports: Ports) {
        let gone = self.connections.remove(&ports);
        if gone.is_some_and(|entry| entry.lined_up) {
            if self.line.front() == Some(&ports) {
                self.turn = BURST;
            }
            for line in [&mut self.fresh, &mut self.line] {
                line.retain(|&other| other != ports);
            }
        }
    }

    fn line_up(&mut self, ports: Ports) {
        if let Some(entry) = self.connections.get_mut(&ports) {
            if !entry.lined_up && entry.connection.has_output() {
                entry.lined_up = true;
                self.fresh.push_back(ports);
            }
        }
    }

    /// Whether there may be packets for the guest.
    pub fn has_output(&self) -> bool {
        !(self.fresh.is_empty() && self.line.is_empty())
    }

    /// The next packet for the guest.
    pub fn next_packet(&mut self) -> Option<Packet> {
        loop {
            let fresh = self.fresh.pop_front();
            let ports = fresh.or_else(|| self.line.front().copied())?;
            let entry = self.connections.get_mut(&ports)?;
            let stats = &mut self.services[entry.service];
            let used_batch = stats.spec().used_batch;
            let packet = entry.connection.next_packet(stats);
            let packet =
                packet.map(|(header, payload)| Packet::of_host(header, payload, used_batch));
            let has_more = entry.connection.has_output();
            entry.lined_up = has_more;
            if fresh.is_none() {
                self.turn -= 1;
                if has_more && self.turn > 0 {
                    return packet;
                }
                self.turn = BURST;
                self.line.pop_front();
            }
            if has_more {
                self.line.push_back(ports);
            }
            if packet.is_some() {
                return packet;
            }
        }
    }

    /// The services' parts of a report.
    pub fn report(&self) -> Vec<ServiceReport> {
        let open = |index| {
            let of_service = |entry: &&Entry| entry.service == index;
            self.connections.values().filter(of_service).count() as u64
        };
        let services = self.services.iter().enumerate();
        services
            .map(|(index, service)| service.report(open(index)))
            .collect()
    }
}
