// SPDX-License-Identifier: GPL-2.0
//! One guest's end of the wire.

mod inbox;
mod play;

use crate::args::{PortSpec, UsedBatch};
use crate::chain::{Buffer, read_packet};
use crate::packet::{Origin, Packet};
use crate::queue::{Broken, GuestQueue, Memory, Vring};
use crate::route::PortId;
use crate::service::host::{Heard, Host};
use crate::service::spec::ServiceSpec;
use crate::stats::{PortReport, PortStats};

use inbox::Inbox;
use play::Play;

/// Packets taken from one guest before the others have their turn.
const COLLECT_PACKETS: usize = 64;
/// Payload bytes taken from one guest before the others have their turn.
const COLLECT_BYTES: usize = 512 * 1024;
/// Buffers filled for one guest before the others have their turn.
const DELIVER_BUFFERS: usize = 256;

/// The two queues of a guest that have packets. The discriminants are the queues' numbers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Packets to the guest.
    Rx = 0,
    /// Packets from the guest.
    Tx = 1,
}

struct Link {
    rx: GuestQueue,
    tx: GuestQueue,
    /// The third queue. That of QEMU's own socket device never leaves QEMU, and does not run here.
    event: Option<GuestQueue>,
}

/// A guest's end of the wire, whether a guest is there or not.
pub struct Port {
    spec: PortSpec,
    used_batch: UsedBatch,
    link: Option<Link>,
    host: Host,
    /// Packets to the guest.
    inbox: Inbox,
    /// Chains of the guest's TX ring that are not given back yet.
    holding: usize,
    /// Chains that may be given back at the end of the round.
    done: Vec<u16>,
    /// The guest may have put packets on the TX ring.
    tx_work: bool,
    /// The RX ring was empty at the last look; the guest kicks when it is not.
    rx_empty: bool,
    rx_broken: bool,
    tx_broken: bool,
    /// What the device does to the guest that no honest one would.
    play: Option<Play>,
    /// What was counted.
    pub stats: PortStats,
}

impl Port {
    /// A port that no guest uses yet.
    pub fn new(spec: PortSpec, used_batch: UsedBatch, services: &[ServiceSpec]) -> Self {
        Port {
            spec,
            used_batch,
            link: None,
            host: Host::new(services),
            inbox: Inbox::default(),
            holding: 0,
            done: Vec::new(),
            tx_work: false,
            rx_empty: false,
            rx_broken: false,
            tx_broken: false,
            play: None,
            stats: PortStats::default(),
        }
    }

    /// The guest's CID.
    pub fn cid(&self) -> u32 {
        self.spec.cid
    }

    /// Whether the guest's driver is there to receive packets.
    pub fn is_up(&self) -> bool {
        !self.rx_broken && self.link.as_ref().is_some_and(|link| link.rx.is_live())
    }

    /// Whether the guest may have packets to take.
    pub fn has_tx_work(&self) -> bool {
        let deaf = self.play.as_ref().is_some_and(|play| play.engine.is_deaf());
        self.tx_work && !deaf
    }

    /// Whether there are packets for the guest, and it may have room for them.
    pub fn has_rx_work(&self) -> bool {
        let of_host = || self.host.has_output() && self.is_up();
        !self.rx_empty && (!self.inbox.is_empty() || of_host())
    }

    /// Whether chains wait to be given back.
    pub fn has_done(&self) -> bool {
        !self.done.is_empty()
    }

    /// A QEMU is there, with these queues in this memory.
    pub fn attach(&mut self, [rx, tx]: [Vring; 2], event: Option<Vring>, memory: Memory) {
        let queue = |vring| GuestQueue::new(vring, memory.clone());
        self.link = Some(Link {
            rx: queue(rx),
            tx: queue(tx),
            event: event.map(queue),
        });
    }

    /// Whether a QEMU is there and its queues are known.
    pub fn is_attached(&self) -> bool {
        self.link.is_some()
    }

    /// QEMU left; its queues must have been stopped.
    pub fn detach(&mut self) {
        self.link = None;
    }

    /// The guest kicked, or the queue began to run.
    pub fn kick(&mut self, side: Side) {
        match side {
            Side::Rx => {
                self.stats.rx_queue.kicks += 1;
                self.rx_empty = false;
                if let Some(play) = &mut self.play {
                    play.engine.kick();
                }
            }
            Side::Tx => {
                self.stats.tx_queue.kicks += 1;
                self.tx_work = !self.tx_broken;
            }
        }
    }

    /// The guest kicked its event queue, of which nobody but a script takes notice.
    pub fn kick_event(&mut self) {
        if let Some(play) = &mut self.play {
            play.engine.kick();
        }
    }

    /// Put a packet behind those that wait for the guest.
    pub fn push(&mut self, packet: Packet) {
        self.inbox.push(packet);
        if self.rx_empty {
            self.stats.held += self.inbox.count_held();
        }
    }

    /// The guest sent a packet to its host.
    pub fn hear(&mut self, packet: &Packet) -> Heard {
        self.host.receive(packet)
    }

    /// Take back all packets that wait for the guest.
    pub fn take_inbox(&mut self) -> Vec<Packet> {
        self.inbox.take()
    }

    /// The guest at `sender` takes its TX ring away: detach the packets that
    /// wait here from their chains, whose heads are added to `heads`. They wait
    /// on without, but not any number of them. Returns how many were dropped.
    pub fn orphan(&mut self, sender: PortId, heads: &mut Vec<u16>) -> u64 {
        self.inbox.orphan(sender, heads)
    }

    /// Take packets off the TX ring, in their order, as many as a turn allows.
    /// Chains without a packet go back at once.
    pub fn collect(&mut self, id: PortId, packets: &mut Vec<Packet>) {
        match self.try_collect(id, packets) {
            Ok(more) => self.tx_work = more,
            Err(Broken) => {
                self.tx_work = false;
                self.tx_broken = true;
                self.stats.tx_queue.broken += 1;
            }
        }
    }

    fn try_collect(&mut self, id: PortId, packets: &mut Vec<Packet>) -> Result<bool, Broken> {
        let Some(link) = &self.link else {
            return Ok(false);
        };
        let Some(mut round) = link.tx.open(UsedBatch::On, &mut self.stats.tx_queue) else {
            return Ok(false);
        };
        round.silence()?;
        let mut bytes = 0;
        for _ in 0..COLLECT_PACKETS {
            if self.holding >= usize::from(round.size()) {
                // An honest guest has no more chains than this. Giving some
                // back is what brings the port its next turn.
                return Ok(false);
            }
            let Some(chain) = round.take()? else {
                return Ok(false);
            };
            let head = chain.head_index();
            match read_packet(&chain, round.memory()) {
                Ok((header, payload)) => {
                    self.stats.tx_packets += 1;
                    self.stats.tx_bytes += payload.len() as u64;
                    self.holding += 1;
                    bytes += payload.len();
                    packets.push(Packet::new(
                        header,
                        payload,
                        Some(Origin { port: id, head }),
                    ));
                }
                Err(reason) => {
                    self.stats.drops.malformed(reason);
                    round.give_back(head, 0);
                }
            }
            if bytes >= COLLECT_BYTES {
                break;
            }
        }
        Ok(true)
    }

    /// Put packets into the guest's RX buffers, as many as a turn allows: those
    /// that wait, and the host's in between. The chains of those that are through
    /// are added to `finished`.
    pub fn deliver(&mut self, finished: &mut Vec<Origin>) -> Result<(), Broken> {
        let result = self.try_deliver(finished);
        if self.rx_empty {
            self.stats.held += self.inbox.count_held();
        }
        if result.is_err() {
            self.rx_broken = true;
            self.stats.rx_queue.broken += 1;
        }
        result
    }

    fn try_deliver(&mut self, finished: &mut Vec<Origin>) -> Result<(), Broken> {
        let round = self
            .link
            .as_ref()
            .and_then(|link| link.rx.open(self.used_batch, &mut self.stats.rx_queue));
        let Some(mut round) = round else {
            // It rests for a moment; it will be as a kick when it runs again.
            self.rx_empty = true;
            return Ok(());
        };
        round.silence()?;
        for _ in 0..DELIVER_BUFFERS {
            let Some(packet) = self.inbox.next(&mut self.host) else {
                break;
            };
            let Some(chain) = round.take()? else {
                self.rx_empty = true;
                break;
            };
            round.set_batch(packet.used_batch().unwrap_or(self.used_batch));
            let written = Buffer::new(&chain, round.memory()).and_then(|buffer| {
                let fragment = packet.fragment(buffer.room())?;
                let payload = &packet.payload()[fragment.payload.clone()];
                let written = buffer.fill(&fragment.header, payload).ok()?;
                packet.advance(&fragment);
                Some(written)
            });
            self.stats.bad_buffers += u64::from(written.is_none());
            round.give_back(chain.head_index(), written.unwrap_or(0));
            if packet.pending() {
                continue;
            }
            self.stats.rx_packets += 1;
            self.stats.rx_bytes += packet.payload().len() as u64;
            if packet.fragments() > 1 {
                self.stats.splits += 1;
                self.stats.fragments += u64::from(packet.fragments());
            }
            finished.extend(packet.origin());
            self.inbox.pop();
        }
        Ok(())
    }

    /// A packet of the guest is through: its chain may go back.
    pub fn settle(&mut self, head: u16) {
        match &mut self.play {
            Some(play) if play.engine.is_holding() => play.engine.keep(head),
            _ => self.done.push(head),
        }
    }

    /// Give the chains of packets that are through back to the guest.
    pub fn give_back(&mut self) {
        self.return_chains(Vec::new());
    }

    /// Give all of them back, even those that a script keeps: the queue stops.
    pub fn give_all_back(&mut self) {
        let kept = self.play.as_mut().map(|play| play.engine.let_go_of_all());
        self.return_chains(kept.unwrap_or_default());
    }

    fn return_chains(&mut self, kept: Vec<u16>) {
        self.done.extend(kept);
        let heads = std::mem::take(&mut self.done);
        let held = self.holding;
        self.holding -= heads.len();
        let Some(link) = &self.link else { return };
        // The queue may be about to stop, and then this is the last chance.
        let mut round = link
            .tx
            .open_stopped(UsedBatch::On, &mut self.stats.tx_queue);
        for head in heads {
            round.give_back(head, 0);
        }
        // All chains were held, so that the ring was not looked at to its end.
        self.tx_work |= held >= usize::from(round.size()) && !self.tx_broken;
    }

    /// The guest's driver, or QEMU, let go of a queue. Nothing may wait for it,
    /// or be held from it, any more.
    pub fn stop(&mut self, side: Side) {
        // A driver that lets go of one lets go of both, and of all connections.
        self.host.clear();
        if let Some(play) = &mut self.play {
            play.engine.reset();
        }
        match side {
            Side::Rx => {
                debug_assert!(self.inbox.is_empty());
                self.stats.stops += 1;
                self.rx_empty = false;
                self.rx_broken = false;
            }
            Side::Tx => {
                debug_assert_eq!(self.holding, 0);
                self.tx_work = false;
                self.tx_broken = false;
            }
        }
    }

    /// The port's part of a report.
    pub fn report(&self) -> PortReport {
        PortReport {
            cid: self.spec.cid,
            socket: self.spec.socket.clone(),
            up: self.is_up(),
            waiting: self.inbox.len(),
            holding: self.holding,
            stats: self.stats.clone(),
            services: self.host.report(),
        }
    }
}
