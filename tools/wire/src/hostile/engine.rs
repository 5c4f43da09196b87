// SPDX-License-Identifier: GPL-2.0
//! Does what a script says, as far as the guest lets it at each moment.

mod event;
mod send;
mod step;
mod wait;

use std::collections::VecDeque;
use std::time::{Duration, Instant};

use fastrand::Rng;
use vm_memory::GuestAddress;

use super::partner::Partner;
use super::program::{Op, Program, compile};
use super::report::{OTHERS, Report, op_name};
use super::script::{Order, Script, Step, Wait};
use crate::args::UsedBatch;
use crate::header::{Header, op};
use crate::queue::{Broken, GuestQueue, Round};
use crate::stats::QueueStats;
pub use event::News;

/// Steps in one go, before others may have the wire.
const BUDGET: usize = 512;

/// Packets of the guest that are kept for steps that wait for them.
const KEPT: usize = 1024;

/// How long a guest may be without a driver.
const DRIVERLESS: Duration = Duration::from_secs(60);

/// The port of the guest that nobody has, to which [`Step::Sync`] sends.
const NOBODY: u32 = u32::MAX - 1;

/// A script under way.
pub struct Engine {
    guest_cid: u32,
    seed: u64,
    rng: Rng,
    /// The programs under way, the last one inside of the one before.
    frames: Vec<Frame>,
    /// How often each open repetition went round, and how often it has to.
    loops: Vec<(u64, u64)>,
    /// The next burst of a [`Step::Fuzz`], counted from its first.
    drawn: u64,
    partners: Vec<Partner>,
    /// Ports at which everything is accepted, and the names.
    serves: Vec<(u32, String)>,
    /// Answers that go out before the next step.
    outbox: VecDeque<Header>,
    /// What the guest sent and no step has used yet.
    heard: VecDeque<Header>,
    batch: Option<(Order, Vec<(u32, u32)>)>,
    /// Where the headers lie that were shown last, and what they say.
    shown: Vec<(GuestAddress, Header)>,
    last_id: u32,
    waiting: Option<Waiting>,
    /// Since when there has been no queue to work on.
    driverless: Option<Instant>,
    /// What had been sent when there last was none.
    sent_before: Option<u64>,
    syncs: u32,
    was_reset: bool,
    tx_interrupts: u64,
    /// An event that the guest is yet to be told of.
    news: Option<News>,
    /// It was told of the one of this step.
    told: bool,
    hold: bool,
    deaf: bool,
    held: Vec<u16>,
    ready: bool,
    /// The latest time that it was told.
    now: Option<Instant>,
    begun: Option<Instant>,
    ended: bool,
    report: Report,
}

struct Frame {
    program: Program,
    next: usize,
}

/// A step that waits.
struct Waiting {
    since: Instant,
    until: Instant,
    got: u64,
}

/// How the script goes on after a step.
enum Go {
    /// With the next one.
    On,
    /// With those that it stands for; then it is looked at again.
    Into,
    /// With the same one, once something has happened.
    Blocked,
    /// Not at all.
    Failed(String),
}

impl Engine {
    /// A script for the guest with this CID, not begun.
    pub fn new(script: Script, guest_cid: u32) -> Self {
        let program = compile(script.steps);
        Engine {
            guest_cid,
            seed: script.seed,
            rng: Rng::with_seed(script.seed),
            frames: vec![Frame { program, next: 0 }],
            loops: Vec::new(),
            drawn: 0,
            partners: Vec::new(),
            serves: Vec::new(),
            outbox: VecDeque::new(),
            heard: VecDeque::new(),
            batch: None,
            shown: Vec::new(),
            last_id: 0,
            waiting: None,
            driverless: None,
            sent_before: None,
            syncs: 0,
            was_reset: false,
            tx_interrupts: 0,
            news: None,
            told: false,
            hold: false,
            deaf: false,
            held: Vec::new(),
            ready: true,
            now: None,
            begun: None,
            ended: false,
            report: Report::default(),
        }
    }

    /// Whether there may be something to do.
    pub fn has_work(&self) -> bool {
        self.ready && !self.ended
    }

    /// The guest may have posted buffers.
    pub fn kick(&mut self) {
        self.ready = true;
    }

    /// The guest's driver let go of the device.
    pub fn reset(&mut self) {
        self.was_reset = true;
        self.ready = true;
        self.heard.clear();
        self.outbox.clear();
        self.shown.clear();
        self.batch = self.batch.take().map(|(order, _)| (order, Vec::new()));
    }

    /// Time went by.
    pub fn tick(&mut self, now: Instant) {
        self.now = Some(now);
        let waited = self.waiting.as_ref().is_some_and(|wait| wait.until <= now);
        self.ready |= waited || self.is_watching();
    }

    /// Whether a driver is yet to come, or has been sent nothing: its first buffers are looked for
    /// from moment to moment, so that they are used before it has told of them.
    pub fn is_watching(&self) -> bool {
        !self.ended && self.sent_before == Some(self.report.sent)
    }

    /// What came of it, if it is over.
    pub fn report(&self) -> Option<&Report> {
        self.ended.then_some(&self.report)
    }

    /// Whether buffers of the guest's packets are kept.
    pub fn is_holding(&self) -> bool {
        self.hold && !self.ended
    }

    /// Whether the guest's packets are not looked at.
    pub fn is_deaf(&self) -> bool {
        self.deaf && !self.ended
    }

    /// Keep the buffer of a packet.
    pub fn keep(&mut self, head: u16) {
        self.held.push(head);
    }

    /// The buffers that were kept and are so no more.
    pub fn let_go(&mut self) -> Vec<u16> {
        match self.is_holding() {
            true => Vec::new(),
            false => std::mem::take(&mut self.held),
        }
    }

    /// All buffers that were kept.
    pub fn let_go_of_all(&mut self) -> Vec<u16> {
        std::mem::take(&mut self.held)
    }

    /// Interrupts to be made for the TX queue.
    pub fn take_tx_interrupts(&mut self) -> u64 {
        std::mem::take(&mut self.tx_interrupts)
    }

    /// A packet of the guest came that is for nobody else.
    pub fn hear(&mut self, header: &Header) {
        self.ready = true;
        if header.src_port.get() != NOBODY {
            let owner = self
                .partners
                .iter_mut()
                .find(|partner| partner.owns(header));
            let name = match owner {
                Some(partner) => {
                    partner.hear(header);
                    &partner.name
                }
                None => OTHERS,
            };
            if !self.report.answers.contains_key(name) {
                self.report
                    .answers
                    .insert(name.to_owned(), Default::default());
            }
            if let Some(answers) = self.report.answers.get_mut(name) {
                *answers.entry(op_name(header.op.get())).or_default() += 1;
            }
        }
        let port = header.dst_port.get();
        let served = self.serves.iter().find(|(served, _)| *served == port);
        if let (op::REQUEST, Some((_, name))) = (header.op.get(), served) {
            let name = name.clone();
            self.bind(&name, header, true);
            return;
        }
        if self.heard.len() == KEPT {
            self.heard.pop_front();
        }
        self.heard.push_back(*header);
    }

    /// A request becomes the connection of this name.
    fn bind(&mut self, name: &str, request: &Header, answer: bool) {
        let (host_port, guest_port) = (request.dst_port.get(), request.src_port.get());
        let mut partner = Partner::new(name, host_port, guest_port, request.kind.get());
        partner.hear(request);
        if answer {
            self.outbox
                .push_back(partner.header(self.guest_cid, op::RESPONSE));
        }
        self.add_partner(partner);
    }

    fn add_partner(&mut self, partner: Partner) {
        self.partners.retain(|other| other.name != partner.name);
        self.partners.push(partner);
    }

    /// Do what can be done now.
    pub fn drive(
        &mut self,
        rx: &GuestQueue,
        stats: &mut QueueStats,
        now: Instant,
    ) -> Result<(), Broken> {
        self.ready = false;
        let now = self.now.map_or(now, |told| told.max(now));
        let begun = *self.begun.get_or_insert(now);
        let Some(mut round) = rx.open(UsedBatch::On, stats) else {
            self.wait_for_driver(now);
            return Ok(());
        };
        self.driverless = None;
        round.silence()?;
        for _ in 0..BUDGET {
            let go = self.instruction(&mut round, now)?;
            match go {
                Go::Failed(why) => self.fail(why),
                Go::Blocked => return Ok(()),
                Go::On | Go::Into => {}
            }
            if self.ended {
                self.report.seconds = (now - begun).as_secs_f64();
                return Ok(());
            }
        }
        self.ready = true;
        Ok(())
    }

    /// It cannot go on.
    pub fn fail(&mut self, why: String) {
        self.report.error = Some(why);
        self.ended = true;
    }

    /// With no queue to work on, time goes by all the same.
    fn wait_for_driver(&mut self, now: Instant) {
        let reset = matches!(self.current(), Some(Op::Do(Step::Wait(Wait::Reset { .. }))));
        let since = *self.driverless.get_or_insert(now);
        self.sent_before = Some(self.report.sent);
        if reset && std::mem::take(&mut self.was_reset) {
            self.done();
            self.ready = true;
            self.ended = self.is_at_end();
        } else if now - since > DRIVERLESS {
            let seconds = DRIVERLESS.as_secs();
            self.fail(format!("the guest had no driver for {seconds} s"));
        }
    }

    /// Whether nothing is left to do.
    fn is_at_end(&self) -> bool {
        let over = |frame: &Frame| frame.next >= frame.program.len();
        self.frames.iter().all(over)
    }

    fn current(&self) -> Option<&Op> {
        let frame = self.frames.last()?;
        frame.program.get(frame.next)
    }

    /// The step is done, and the next one's turn comes.
    fn done(&mut self) {
        self.waiting = None;
        if let Some(frame) = self.frames.last_mut() {
            frame.next += 1;
        }
    }

    fn jump(&mut self, to: usize) {
        if let Some(frame) = self.frames.last_mut() {
            frame.next = to;
        }
    }

    fn instruction(&mut self, round: &mut Round<'_>, now: Instant) -> Result<Go, Broken> {
        while let Some(header) = self.outbox.front().copied() {
            if !self.show_header(round, &header)? {
                return Ok(Go::Blocked);
            }
            self.outbox.pop_front();
        }
        let Some(frame) = self.frames.last() else {
            self.ended = true;
            return Ok(Go::On);
        };
        let (program, at) = (frame.program.clone(), frame.next);
        match program.get(at) {
            None => {
                self.frames.pop();
            }
            Some(Op::Repeat(times, behind)) => match self.number(times) {
                0 => self.jump(*behind),
                times => {
                    self.loops.push((0, times));
                    self.done();
                }
            },
            Some(Op::Again(start)) => match self.loops.last_mut() {
                Some((round, times)) if *round + 1 < *times => {
                    *round += 1;
                    self.jump(*start);
                }
                _ => {
                    self.loops.pop();
                    self.done();
                }
            },
            Some(Op::Batch(order)) => {
                self.batch = Some((*order, Vec::new()));
                self.shown.clear();
                self.done();
            }
            Some(Op::Publish) => {
                self.publish(round)?;
                self.batch = None;
                self.done();
            }
            Some(Op::Do(step)) => {
                let go = self.step(step, round, now)?;
                if matches!(go, Go::On) {
                    self.done();
                }
                return Ok(go);
            }
        }
        Ok(Go::On)
    }
}
