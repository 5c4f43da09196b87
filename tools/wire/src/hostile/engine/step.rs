// SPDX-License-Identifier: GPL-2.0
//! One step of a script.

use std::time::{Duration, Instant};

use super::{Engine, Frame, Go};
use crate::header::{Header, op};
use crate::hostile::draw;
use crate::hostile::partner::Partner;
use crate::hostile::program::compile;
use crate::hostile::script::Step;
use crate::queue::{Broken, Round};

impl Engine {
    /// Do what the step says, as far as that can be done now.
    pub(super) fn step(
        &mut self,
        step: &Step,
        round: &mut Round<'_>,
        now: Instant,
    ) -> Result<Go, Broken> {
        Ok(match step {
            Step::Accept {
                name,
                port,
                answer,
                within,
            } => {
                let request = |header: &Header| {
                    header.op.get() == op::REQUEST && header.dst_port.get() == *port
                };
                match self.take_heard(request) {
                    Some(request) => {
                        self.bind(name, &request, *answer);
                        Go::On
                    }
                    None => self.block(now, *within, || format!("a connection to port {port}")),
                }
            }
            Step::Serve { name, port } => {
                self.serves.push((*port, name.clone()));
                Go::On
            }
            Step::Connect {
                name,
                from,
                to,
                kind,
                within,
            } => return self.connect(Partner::new(name, *from, *to, *kind), *within, round, now),
            Step::Send(packet) => match self.send(packet, round)? {
                Ok(true) => Go::On,
                Ok(false) => Go::Blocked,
                Err(why) => Go::Failed(why),
            },
            Step::Wait(wait) => self.wait(wait, now),
            Step::Sync => return self.sync(round, now),
            Step::Notify { tx, times } => {
                match tx {
                    true => self.tx_interrupts += times,
                    false => (0..*times).for_each(|_| round.interrupt()),
                }
                Go::On
            }
            Step::Change {
                microseconds,
                fields,
            } => {
                self.change(Duration::from_micros(*microseconds), fields, round);
                Go::On
            }
            Step::Event(event) => self.tell(event, now),
            Step::Hold(on) => {
                self.hold = *on;
                Go::On
            }
            Step::Deaf(on) => {
                self.deaf = *on;
                Go::On
            }
            Step::Fuzz { first, count } => {
                if self.drawn == *count {
                    self.drawn = 0;
                    return Ok(Go::On);
                }
                let burst = draw::burst(self.seed, first + self.drawn);
                self.drawn += 1;
                self.frames.push(Frame {
                    program: compile(burst),
                    next: 0,
                });
                Go::Into
            }
            Step::Batch(..) | Step::Repeat(..) => unreachable!("compiled into instructions"),
        })
    }
}
