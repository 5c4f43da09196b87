// SPDX-License-Identifier: GPL-2.0
//! Puts packets, or what a script calls so, onto the guest's RX ring.

use std::sync::LazyLock;
use std::time::{Duration, Instant};

use vm_memory::{Bytes, GuestAddress};
use zerocopy::IntoBytes;

use super::{Engine, Order};
use crate::chain::Buffer;
use crate::header::{HEADER_LEN, Header, MAX_PAYLOAD, op};
use crate::hostile::fields::{get, set, value_of};
use crate::hostile::partner::Partner;
use crate::hostile::script::{Field, Packet};
use crate::hostile::value::{Name, Value};
use crate::queue::{Broken, Round};

/// What payload is made of.
static PATTERN: LazyLock<Vec<u8>> =
    LazyLock::new(|| (0..MAX_PAYLOAD).map(|n| (n % 251) as u8).collect());

/// What names in a packet's values stand for.
struct Moment {
    credit: u64,
    posted: u64,
}

impl Engine {
    /// Send a packet. False says that there is no buffer for it.
    pub(super) fn send(
        &mut self,
        packet: &Packet,
        round: &mut Round<'_>,
    ) -> Result<Result<bool, String>, Broken> {
        let at = match self.partner_of(packet) {
            Ok(at) => at,
            Err(why) => return Ok(Err(why)),
        };
        let mut nobody = Partner::nobody();
        let mut moment = Moment {
            credit: at.map_or(0, |at| self.partners[at].credit()),
            posted: 0,
        };
        if let Some(id) = value_of(&packet.fields, Field::Id) {
            // No buffer is taken: one is named that was, or that never was.
            let id = self.value(id, 0, &moment) as u32;
            let used = value_of(&packet.fields, Field::Used);
            let used = used.map_or(HEADER_LEN as u64, |used| self.value(used, 44, &moment));
            self.report.wrong += 1;
            self.used(id, used as u32, round)?;
            return Ok(Ok(true));
        }
        let Some(chain) = self.next_chain(round)? else {
            return Ok(Ok(false));
        };
        let mapped = round.memory().clone();
        let head = u32::from(chain.head_index());
        let address = chain.clone().writable().next().map(|first| first.addr());
        let (Some(address), Some(buffer)) = (address, Buffer::new(&chain, &mapped)) else {
            self.used(head, 0, round)?;
            return Ok(Ok(true));
        };
        moment.posted = (buffer.room() + HEADER_LEN) as u64;
        let payload = value_of(&packet.fields, Field::Payload);
        let payload = payload.map_or(0, |payload| self.value(payload, 0, &moment));
        let written = payload.min(buffer.room() as u64).min(MAX_PAYLOAD as u64) as usize;

        let guest_cid = self.guest_cid;
        let partner = at.map_or(&mut nobody, |at| &mut self.partners[at]);
        let mut right = partner.header(guest_cid, op::RW);
        right.len = (payload as u32).into();
        let mut header = right;
        for (field, value) in packet
            .fields
            .iter()
            .filter(|(field, _)| field.is_of_header())
        {
            let value = self.value(value, get(&right, *field), &moment);
            set(&mut header, *field, value);
        }
        let honest = HEADER_LEN as u64 + payload;
        let used = value_of(&packet.fields, Field::Used);
        let used = used.map_or(honest, |used| self.value(used, honest, &moment)) as u32;

        let is_right = at.is_some() && header == right && u64::from(used) == honest;
        self.report.wrong += u64::from(!is_right);
        if let Some(at) = at {
            if is_payload(&header, &right, used, moment.posted) {
                self.partners[at].sent(header.len.get());
            }
        }
        // A buffer that was posted takes what fits; that was looked at above.
        let _ = buffer.fill(&header, &PATTERN[..written]);
        if self.batch.is_none() {
            self.shown.clear();
        }
        self.shown.push((address, header));
        self.used(head, used, round)?;
        Ok(Ok(true))
    }

    /// Show a header alone, at once. False says that there is no buffer for it.
    pub(super) fn show_header(
        &mut self,
        round: &mut Round<'_>,
        header: &Header,
    ) -> Result<bool, Broken> {
        let Some(chain) = round.take()? else {
            return Ok(false);
        };
        let mapped = round.memory().clone();
        let filled = Buffer::new(&chain, &mapped).and_then(|buffer| buffer.fill(header, &[]).ok());
        self.report.sent += 1;
        self.report.publications += 1;
        round.publish_as_told(&[(chain.head_index().into(), filled.unwrap_or(0))])?;
        Ok(true)
    }

    /// The next buffer. If there is none, what a batch has so far is shown, as
    /// the guest posts no more before that.
    fn next_chain(&mut self, round: &mut Round<'_>) -> Result<Option<crate::chain::Chain>, Broken> {
        if let Some(chain) = round.take()? {
            return Ok(Some(chain));
        }
        self.publish(round)?;
        Ok(None)
    }

    /// A buffer is used, which is shown with its batch, or at once.
    fn used(&mut self, id: u32, len: u32, round: &mut Round<'_>) -> Result<(), Broken> {
        self.last_id = id;
        match &mut self.batch {
            Some((_, entries)) => {
                entries.push((id, len));
                if entries.len() < usize::from(round.size()) {
                    return Ok(());
                }
                self.publish(round)
            }
            None => {
                self.report.sent += 1;
                self.report.publications += 1;
                round.publish_as_told(&[(id, len)])
            }
        }
    }

    /// Show what the batch has.
    pub(super) fn publish(&mut self, round: &mut Round<'_>) -> Result<(), Broken> {
        let Some((order, entries)) = &mut self.batch else {
            return Ok(());
        };
        if entries.is_empty() {
            return Ok(());
        }
        match order {
            Order::Posted => {}
            Order::Reversed => entries.reverse(),
            Order::Shuffled => self.rng.shuffle(entries),
        }
        self.report.sent += entries.len() as u64;
        self.report.publications += 1;
        self.last_id = entries.last().map_or(self.last_id, |(id, _)| *id);
        round.publish_as_told(entries)?;
        entries.clear();
        Ok(())
    }

    /// Write another header over those that were shown last, and theirs again,
    /// until the time is over or the guest has seen them.
    pub(super) fn change(
        &mut self,
        time: Duration,
        fields: &[(Field, Value)],
        round: &mut Round<'_>,
    ) {
        let shown = std::mem::take(&mut self.shown);
        let moment = Moment {
            credit: 0,
            posted: 0,
        };
        let changed: Vec<(GuestAddress, [Header; 2])> = shown
            .iter()
            .map(|(address, header)| {
                let mut other = *header;
                for (field, value) in fields {
                    let value = self.value(value, get(header, *field), &moment);
                    set(&mut other, *field, value);
                }
                (*address, [other, *header])
            })
            .collect();
        round.interrupt();
        let memory = round.memory().clone();
        let begin = Instant::now();
        while begin.elapsed() < time && !round.is_all_seen() {
            for turn in 0..2 {
                for (address, headers) in &changed {
                    // It was written before; should it be gone, so is the guest.
                    let _ = memory.write_slice(headers[turn].as_bytes(), *address);
                }
            }
        }
    }

    /// The connection that a packet is for, if it is for one that stands.
    fn partner_of(&self, packet: &Packet) -> Result<Option<usize>, String> {
        let Some(name) = &packet.connection else {
            return Ok(None);
        };
        let at = self
            .partners
            .iter()
            .position(|partner| partner.name == *name);
        match at.is_some() || self.serves.iter().any(|(_, served)| served == name) {
            true => Ok(at),
            false => Err(format!(
                "there is no connection '{name}'; accept, serve or connect it first"
            )),
        }
    }

    /// A number that is for no packet.
    pub(super) fn number(&mut self, value: &Value) -> u64 {
        let moment = Moment {
            credit: 0,
            posted: 0,
        };
        self.value(value, 0, &moment)
    }

    fn value(&mut self, value: &Value, right: u64, moment: &Moment) -> u64 {
        let count = |depth: usize| {
            let at = self.loops.len().checked_sub(depth);
            at.map_or(0, |at| self.loops[at].0)
        };
        let port = |name: &String, pick: fn(&Partner) -> u32| {
            let partner = self.partners.iter().find(|partner| partner.name == *name);
            partner.map_or(0, |partner| pick(partner).into())
        };
        let mut rng = self.rng.clone();
        let number = value.get(&mut rng, &|name| match name {
            Name::Right => right,
            Name::Credit => moment.credit,
            Name::Posted => moment.posted,
            Name::Inner => count(1),
            Name::Outer => count(2),
            Name::Last => self.last_id.into(),
            Name::Guest => self.guest_cid.into(),
            Name::GuestPort(name) => port(name, |partner| partner.guest_port),
            Name::HostPort(name) => port(name, |partner| partner.host_port),
        });
        self.rng = rng;
        number
    }
}

/// Whether the guest takes it for payload of the connection for which `right`
/// is right.
fn is_payload(header: &Header, right: &Header, used: u32, posted: u64) -> bool {
    let len = u64::from(header.len.get());
    let address = |header: &Header| {
        let ports = (header.src_port, header.dst_port);
        (header.src_cid, header.dst_cid, ports, header.kind)
    };
    header.op.get() == op::RW
        && address(header) == address(right)
        && u64::from(used) <= posted
        && len + HEADER_LEN as u64 <= u64::from(used)
}
