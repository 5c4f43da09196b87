// SPDX-License-Identifier: GPL-2.0
//! The wire between the guests: takes packets from each and delivers them.
//!
//! All ports stand behind one lock, and whoever holds it does all the work
//! there is. A queue's own lock is only ever taken inside, one at a time, so no
//! two guests can wait for each other. The guests are the slow part here: there
//! is nothing to win by serving them in parallel.

use std::sync::mpsc::{Receiver, sync_channel};
use std::time::Instant;

use bytes::Bytes;

use crate::args::{PortSpec, UsedBatch};
use crate::hostile::engine::Engine;
use crate::hostile::report::Report as ScriptReport;
use crate::hostile::script::Script;
use crate::packet::{Origin, Packet};
use crate::port::{Port, Side};
use crate::queue::{Memory, Vring};
use crate::route::{PortId, Route, route};
use crate::service::host::Heard;
use crate::service::spec::ServiceSpec;
use crate::stats::Report;

/// Rounds over all ports before others may have the wire: a guest that is as
/// fast as its host could otherwise keep it for ever.
const ROUNDS: usize = 64;

/// All ports, and the packets between them.
pub struct Wire {
    ports: Vec<Port>,
}

impl Wire {
    /// A wire with these ends, no guest at any.
    pub fn new(specs: &[PortSpec], used_batch: UsedBatch, services: &[ServiceSpec]) -> Self {
        let port = |spec: &PortSpec| Port::new(spec.clone(), used_batch, services);
        Wire {
            ports: specs.iter().map(port).collect(),
        }
    }

    /// A QEMU connected to the port.
    pub fn connect(&mut self, id: PortId) {
        self.port(id).stats.connections += 1;
    }

    /// The guest kicked the queue, or the queue began to run. `queues` are told
    /// each time, because this is when the device first sees them. The work
    /// that follows from it is the caller's to start.
    pub fn kick(&mut self, id: PortId, side: Side, queues: &[Vring], memory: &Memory) {
        let port = self.port(id);
        if !port.is_attached() {
            let [rx, tx, rest @ ..] = queues else { return };
            let packets = [rx.clone(), tx.clone()];
            port.attach(packets, rest.first().cloned(), memory.clone());
        }
        port.kick(side);
    }

    /// The guest kicked its event queue, or that began to run.
    pub fn kick_event(&mut self, id: PortId) {
        self.port(id).kick_event();
    }

    /// The CID of the guest at a port.
    pub fn cid(&self, id: PortId) -> u32 {
        self.ports[id.0].cid()
    }

    /// The queue stops: the driver resets its device, or the guest stops. The
    /// guest waits until this is done. Others may have work after it.
    pub fn stop(&mut self, id: PortId, side: Side) {
        match side {
            Side::Rx => self.stop_rx(id),
            Side::Tx => self.stop_tx(id),
        }
    }

    /// QEMU left. Others may have work after it.
    pub fn disconnect(&mut self, id: PortId) {
        self.stop_rx(id);
        self.stop_tx(id);
        self.port(id).detach();
    }

    /// What was counted so far.
    pub fn report(&self) -> Report {
        Report {
            ports: self.ports.iter().map(Port::report).collect(),
        }
    }

    /// The port of the guest with this CID.
    pub fn find(&self, cid: u32) -> Option<PortId> {
        let at = self.ports.iter().position(|port| port.cid() == cid);
        at.map(PortId)
    }

    /// Begin to do to a guest what a script says. The channel tells when that is
    /// over. The work that follows is the caller's to start.
    pub fn start_script(&mut self, id: PortId, script: Script) -> anyhow::Result<Receiver<()>> {
        let (ended, over) = sync_channel(1);
        let port = self.port(id);
        let engine = Engine::new(script, port.cid());
        port.start_script(engine, ended)?;
        Ok(over)
    }

    /// Tell a script the time, in case that it waits for one.
    pub fn tick(&mut self, id: PortId, now: Instant) {
        self.port(id).tick(now);
    }

    /// Whether a script has to be told the time more often, because it watches for a driver's first
    /// buffers.
    pub fn is_watching(&self, id: PortId) -> bool {
        self.ports[id.0].is_watching()
    }

    /// End a script, whether it is over or not.
    pub fn end_script(&mut self, id: PortId) -> ScriptReport {
        self.port(id).end_script().unwrap_or_default()
    }

    fn port(&mut self, id: PortId) -> &mut Port {
        &mut self.ports[id.0]
    }

    fn ids(&self) -> impl Iterator<Item = PortId> + use<> {
        (0..self.ports.len()).map(PortId)
    }

    /// Work until every guest is either idle or has no room left. Returns
    /// whether there is more to do, because this took long enough.
    pub fn work(&mut self) -> bool {
        let (mut sent, mut finished) = (Vec::new(), Vec::new());
        let busy = |port: &Port| {
            let script = port.has_script_work();
            script || port.has_tx_work() || port.has_rx_work() || port.has_done()
        };
        for _ in 0..ROUNDS {
            if !self.ports.iter().any(busy) {
                return false;
            }
            for id in self.ids() {
                if self.port(id).has_tx_work() {
                    self.port(id).collect(id, &mut sent);
                    sent.drain(..).for_each(|packet| self.forward(id, packet));
                }
            }
            for id in self.ids() {
                if self.port(id).has_script_work() && self.port(id).drive_script().is_err() {
                    self.refuse_waiting(id);
                }
                if self.port(id).has_rx_work() && self.port(id).deliver(&mut finished).is_err() {
                    self.refuse_waiting(id);
                }
            }
            self.settle(finished.drain(..));
            for id in self.ids() {
                if self.port(id).has_done() {
                    self.port(id).give_back();
                }
            }
        }
        true
    }

    fn settle(&mut self, origins: impl IntoIterator<Item = Origin>) {
        for origin in origins {
            self.port(origin.port).settle(origin.head);
        }
    }

    /// Send a packet of `sender`'s guest on its way.
    fn forward(&mut self, sender: PortId, packet: Packet) {
        let header = *packet.header();
        let cid = self.port(sender).cid();
        let find = |cid| {
            let at = |port: &Port| u64::from(port.cid()) == cid && port.is_up();
            self.ports.iter().position(at).map(PortId)
        };
        match route(&header, cid, find) {
            Route::Forward(receiver) => self.port(receiver).push(packet),
            _ if self.port(sender).hear_in_script(&header) => self.settle(packet.origin()),
            Route::Host => match self.port(sender).hear(&packet) {
                Heard::Done => self.settle(packet.origin()),
                Heard::Refuse => self.refuse(sender, packet),
            },
            Route::Refuse(_) | Route::Unheard => self.refuse(sender, packet),
            Route::ForeignSource => {
                self.port(sender).stats.drops.foreign_source += 1;
                self.settle(packet.origin());
            }
        }
    }

    /// Answer a packet with a reset, if it can have one. The packet's chain is
    /// held until the answer is delivered, so that a guest that does not read
    /// its answers cannot pile them up here.
    fn refuse(&mut self, sender: PortId, packet: Packet) {
        let origin = packet.origin();
        let port = self.port(sender);
        match packet.header().reset() {
            Some(reset) if port.is_up() => {
                port.stats.resets += 1;
                port.push(Packet::new(reset, Bytes::new(), origin));
            }
            _ => {
                port.stats.drops.unheard += 1;
                self.settle(origin);
            }
        }
    }

    /// The guest is gone, or its RX ring is: whoever wrote to it must hear.
    fn refuse_waiting(&mut self, id: PortId) {
        for packet in self.port(id).take_inbox() {
            let Some(origin) = packet.origin() else {
                self.port(id).stats.drops.receiver_left += 1;
                continue;
            };
            self.port(origin.port).stats.drops.receiver_left += 1;
            self.refuse(origin.port, packet);
        }
    }

    fn stop_rx(&mut self, id: PortId) {
        self.refuse_waiting(id);
        self.port(id).stop(Side::Rx);
    }

    /// The guest takes its TX ring away. The wire has copies of the packets:
    /// only the chains have to go back now.
    fn stop_tx(&mut self, id: PortId) {
        let mut heads = Vec::new();
        let lost: u64 = self
            .ports
            .iter_mut()
            .map(|port| port.orphan(id, &mut heads))
            .sum();
        let port = self.port(id);
        port.stats.drops.sender_left += lost;
        heads.into_iter().for_each(|head| port.settle(head));
        port.give_all_back();
        port.stop(Side::Tx);
    }
}

#[cfg(test)]
mod tests;
