// SPDX-License-Identifier: GPL-2.0
//! Steps that take until something happens.

use std::time::{Duration, Instant};

use super::{Engine, Go, NOBODY, Waiting};
use crate::header::{Header, op};
use crate::hostile::partner::Partner;
use crate::hostile::report::op_name;
use crate::hostile::script::Wait;
use crate::queue::{Broken, Round};

/// The first port of the host from which [`super::Step::Sync`] sends.
const SYNC_PORTS: u32 = 0xffff_0000;

/// The longest that the guest may take to deal with what was sent.
const SYNC_WITHIN: u64 = 60_000;

impl Engine {
    /// Begin to wait, unless that was done.
    pub(super) fn wait_from(&mut self, now: Instant, time: Duration) -> &mut Waiting {
        self.waiting.get_or_insert(Waiting {
            since: now,
            until: now + time,
            got: 0,
        })
    }

    /// The step waits, or has waited long enough.
    pub(super) fn block(&mut self, now: Instant, within: u64, what: impl Fn() -> String) -> Go {
        let waiting = self.wait_from(now, Duration::from_millis(within));
        if waiting.until > now {
            return Go::Blocked;
        }
        let waited = (now - waiting.since).as_secs_f64();
        Go::Failed(format!("waited {waited:.1} s in vain for {}", what()))
    }

    /// What the guest had to do has been done.
    fn has_waited(&mut self, now: Instant) {
        if let Some(waiting) = &self.waiting {
            let waited = (now - waiting.since).as_secs_f64();
            self.report.slowest = self.report.slowest.max(waited);
        }
    }

    /// The oldest packet of this kind that the guest sent.
    pub(super) fn take_heard(&mut self, wanted: impl Fn(&Header) -> bool) -> Option<Header> {
        let at = self.heard.iter().position(wanted)?;
        self.heard.remove(at)
    }

    pub(super) fn wait(&mut self, wait: &Wait, now: Instant) -> Go {
        match wait {
            Wait::Time(milliseconds) => {
                let waiting = self.wait_from(now, Duration::from_millis(*milliseconds));
                match waiting.until <= now {
                    true => Go::On,
                    false => Go::Blocked,
                }
            }
            Wait::Reset { within } => match std::mem::take(&mut self.was_reset) {
                true => Go::On,
                false => self.block(now, *within, || "the driver to let go of the device".into()),
            },
            Wait::Packets {
                connection,
                op,
                port,
                count,
                within,
            } => {
                let of = connection.as_ref().map(|name| {
                    let partner = self.partners.iter().find(|partner| partner.name == *name);
                    partner.map(|partner| (partner.host_port, partner.guest_port))
                });
                let wanted = |header: &Header| {
                    let ports = (header.dst_port.get(), header.src_port.get());
                    of.is_none_or(|of| of == Some(ports))
                        && op.is_none_or(|op| op == header.op.get())
                        && port.is_none_or(|port| port == ports.0)
                };
                let before = self.heard.len();
                let got = self.wait_from(now, Duration::from_millis(*within)).got;
                let mut left = count - got;
                self.heard.retain(|header| {
                    let take = left > 0 && wanted(header);
                    left -= u64::from(take);
                    !take
                });
                let new = (before - self.heard.len()) as u64;
                self.wait_from(now, Duration::ZERO).got += new;
                if left == 0 {
                    self.has_waited(now);
                    return Go::On;
                }
                self.block(now, *within, || {
                    let op = op.map_or("any".into(), op_name);
                    let of = connection
                        .as_deref()
                        .map_or(String::new(), |name| format!(" of {name}"));
                    let got = count - left;
                    format!("{count} packets{of} with operation {op}; {got} came")
                })
            }
        }
    }

    /// Connect to the guest.
    pub(super) fn connect(
        &mut self,
        mut partner: Partner,
        within: u64,
        round: &mut Round<'_>,
        now: Instant,
    ) -> Result<Go, Broken> {
        if self.waiting.is_none() {
            let request = partner.header(self.guest_cid, op::REQUEST);
            if !self.show_header(round, &request)? {
                return Ok(Go::Blocked);
            }
            self.add_partner(partner);
            self.wait_from(now, Duration::from_millis(within));
            return Ok(Go::Blocked);
        }
        let name = partner.name.clone();
        let answer = self.take_heard(|header| partner.owns(header));
        Ok(match answer.map(|header| header.op.get()) {
            Some(op::RESPONSE) => {
                self.has_waited(now);
                Go::On
            }
            Some(other) => Go::Failed(format!(
                "the guest answered the request of {name} with {}",
                op_name(other)
            )),
            None => self.block(now, within, || format!("the guest to accept {name}")),
        })
    }

    /// The guest answers what is for nobody with a reset, in its turn: when that
    /// comes, all that was sent before has been dealt with.
    pub(super) fn sync(&mut self, round: &mut Round<'_>, now: Instant) -> Result<Go, Broken> {
        let host_port = SYNC_PORTS + self.syncs % 0x1000;
        let mut probe = Partner::new("", host_port, NOBODY, crate::header::TYPE_STREAM);
        if self.waiting.is_none() {
            let probe = probe.header(self.guest_cid, op::RW);
            if !self.show_header(round, &probe)? {
                return Ok(Go::Blocked);
            }
            self.wait_from(now, Duration::from_millis(SYNC_WITHIN));
            return Ok(Go::Blocked);
        }
        if self.take_heard(|header| probe.owns(header)).is_some() {
            self.syncs += 1;
            self.heard.clear();
            return Ok(Go::On);
        }
        Ok(self.block(now, SYNC_WITHIN, || {
            "the guest to deal with what was sent".into()
        }))
    }
}
