// SPDX-License-Identifier: GPL-2.0
//! The packets that wait for one guest.

use std::collections::VecDeque;

use crate::packet::{Origin, Packet};
use crate::route::PortId;
use crate::service::host::Host;

/// Packets without a chain that may wait for one guest: the last ones of
/// guests that are gone.
const MAX_ORPHANS: usize = 1024;

/// Packets to a guest, oldest first. Bounded, because the chain that each came
/// from is held, and nobody can have more chains than its ring.
#[derive(Default)]
pub(super) struct Inbox {
    packets: VecDeque<Packet>,
    /// One of them is the host's; more than one never is.
    host_waits: bool,
    /// How many at the head are already counted as held.
    counted_held: usize,
}

impl Inbox {
    /// How many packets wait.
    pub(super) fn len(&self) -> usize {
        self.packets.len()
    }

    /// Whether none waits.
    pub(super) fn is_empty(&self) -> bool {
        self.packets.is_empty()
    }

    /// Put a packet behind all others.
    pub(super) fn push(&mut self, packet: Packet) {
        self.packets.push_back(packet);
    }

    /// The packet that is next for the guest, if there is one. The host makes
    /// one only when its last has gone: so its connections take turns at the
    /// guest's buffers, and not at a line in front of them in which who sends
    /// much is ahead of everybody else; and their counters are fresh.
    pub(super) fn next(&mut self, host: &mut Host) -> Option<&mut Packet> {
        if !self.host_waits {
            if let Some(packet) = host.next_packet() {
                self.host_waits = true;
                self.packets.push_back(packet);
            }
        }
        self.packets.front_mut()
    }

    /// The first packet is through.
    pub(super) fn pop(&mut self) {
        let gone = self.packets.pop_front();
        self.host_waits &= !gone.is_some_and(|packet| packet.is_of_host());
        self.counted_held = self.counted_held.saturating_sub(1);
    }

    /// Take all of them.
    pub(super) fn take(&mut self) -> Vec<Packet> {
        self.counted_held = 0;
        self.host_waits = false;
        self.packets.drain(..).collect()
    }

    /// They have to wait. How many of them were not told so before?
    pub(super) fn count_held(&mut self) -> u64 {
        let new = self.packets.len() - self.counted_held;
        self.counted_held = self.packets.len();
        new as u64
    }

    /// The guest at `sender` takes its TX ring away: detach the packets that
    /// wait here from their chains, whose heads are added to `heads`. They wait
    /// on without, but not any number of them. Returns how many were dropped.
    pub(super) fn orphan(&mut self, sender: PortId, heads: &mut Vec<u16>) -> u64 {
        let before = self.packets.len();
        let mut orphans = 0;
        self.packets.retain_mut(|packet| {
            if packet.origin().is_some_and(|origin| origin.port == sender) {
                heads.extend(packet.take_origin().map(|Origin { head, .. }| head));
            }
            let orphan = packet.origin().is_none() && !packet.is_of_host();
            orphans += usize::from(orphan);
            !orphan || orphans <= MAX_ORPHANS
        });
        self.counted_held = self.counted_held.min(self.packets.len());
        (before - self.packets.len()) as u64
    }
}
