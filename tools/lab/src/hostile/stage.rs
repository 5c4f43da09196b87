// SPDX-License-Identifier: GPL-2.0
//! Plays a script to a driver, and looks at what it left behind.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail};
use rig::{Driver, Expected, Machine, Wire};
use vsock_wire::hostile::report::Report;

use super::honest;
use super::leftovers::Leftovers;
use super::programs::Programs;
use super::script::Scripted;
use super::seen::Seen;
use crate::case::fixture::{EAGAIN, EBUSY, PATIENCE, Subject, until};
use crate::counters::{Counters, STATS};

/// The longest that a script may take.
const LONGEST: Duration = Duration::from_secs(600);

/// A guest, its device, and the driver between them.
pub(crate) struct Stage<'a> {
    guest: &'a Machine,
    wire: &'a Wire,
    subject: Subject,
    /// The guest's memory before the next script, or before the first.
    before: Leftovers,
    /// Scripts are parts of one, which must not leave anything behind however long it is.
    lasting: bool,
}

impl<'a> Stage<'a> {
    /// Loads the driver, and has it do everything once, so that what is only made once is there.
    pub(crate) fn set(guest: &'a Machine, wire: &'a Wire, subject: Subject) -> Result<Self> {
        load(guest, &subject.driver())?;
        honest::transfer(guest)?;
        honest::transfer(guest)?;
        Ok(Self {
            guest,
            wire,
            subject,
            before: Leftovers::of(guest)?,
            lasting: false,
        })
    }

    /// Holds what each script leaves behind against the guest's memory before the first: what is lost
    /// of one packet in a thousand adds up.
    pub(crate) fn lasting(mut self) -> Self {
        self.lasting = true;
        self
    }

    /// Plays a script. An error is the end of the machine, or of the driver; all else is in what was
    /// seen.
    pub(crate) fn play(&mut self, scripted: &Scripted) -> Result<Seen> {
        let guest = self.guest;
        let mark = guest.mark()?;
        let counters = self.counters()?;
        let mut faults = Vec::new();
        let listening = Programs::start(guest, &scripted.script.guests, true)?;
        let mut script = self.wire.run(guest.cid(), &scripted.text)?;
        let connecting = Programs::start(guest, &scripted.script.guests, false)?;
        let report = report_of(&mut script, guest, LONGEST)?;
        faults.extend(report.error.clone());
        let mut ends = connecting.end()?;
        for (how, count) in listening.end()? {
            *ends.entry(how).or_default() += count;
        }
        guest.check()?;
        if scripted.script.reload {
            load(guest, &self.subject.driver()).context("loading the driver anew")?;
        }
        if let Err(error) = honest::transfer(guest) {
            guest.check()?;
            faults.push(format!("{error:#}"));
        }
        let (after, grown) = self.before.settle(guest)?;
        faults.extend(grown.iter().map(|grown| format!("left behind: {grown}")));
        let counters = match (counters, self.counters()?) {
            // Loaded anew, it counts anew.
            (_, Some(_)) if scripted.script.reload => None,
            (Some(before), Some(after)) => Some(after.since(&before)),
            _ => None,
        };
        for (connection, op, wanted) in &scripted.script.answers {
            let answers = report.answers.get(connection);
            let answered = answers
                .and_then(|answers| answers.get(op))
                .copied()
                .unwrap_or(0);
            if answered != *wanted {
                faults.push(format!("{answered} {op} for {connection}, not {wanted}"));
            }
        }
        if let Some(counters) = &counters {
            faults.extend(miscounted(scripted, counters)?);
        }
        let expected = Expected::new(&scripted.script.provokes)?;
        let expected = Expected::out_of_tree_module().and(&expected);
        if let Err(error) = guest.check_quiet(mark, &expected) {
            guest.check()?;
            faults.push(error.to_string());
        }
        if !self.lasting {
            self.before = after;
        }
        if !faults.is_empty() {
            // What failed here must not fail the next one as well.
            load(guest, &self.subject.driver()).context("loading the driver after a failure")?;
            honest::transfer(guest).context("after the driver was loaded anew")?;
            self.before = Leftovers::of(guest)?;
        }
        Ok(Seen {
            report,
            ends,
            counters,
            faults,
        })
    }

    fn counters(&self) -> Result<Option<Counters>> {
        if self.subject == Subject::C {
            return Ok(None);
        }
        Counters::parse(&self.guest.read_text(STATS)?).map(Some)
    }
}

/// Waits for the end of a script that is played to a guest, for at most so long, and reads what came of it.
pub(crate) fn report_of(
    script: &mut rig::Script,
    guest: &Machine,
    longest: Duration,
) -> Result<Report> {
    let deadline = Instant::now() + longest;
    loop {
        if let Some(line) = script.poll(Duration::from_millis(200))? {
            return Ok(serde_json::from_str(&line)?);
        }
        guest.check()?;
        if Instant::now() > deadline {
            bail!("the script is not over after {} s", longest.as_secs());
        }
    }
}

/// What the driver counted otherwise than the script says.
fn miscounted(scripted: &Scripted, counters: &Counters) -> Result<Vec<String>> {
    let mut faults = Vec::new();
    for (name, wanted) in &scripted.script.counts {
        let counted = counters.get(name)?;
        if counted != *wanted {
            faults.push(format!("{name} grew by {counted}, not by {wanted}"));
        }
    }
    for name in &scripted.script.grows {
        if counters.get(name)? == 0 {
            faults.push(format!("{name} did not grow"));
        }
    }
    Ok(faults)
}

/// Loads a driver in the place of the one that is there, once closed connections have let go of that.
fn load(guest: &Machine, driver: &Driver) -> Result<()> {
    until(
        "the closed connections to let go of the driver",
        PATIENCE,
        || match guest.use_driver(driver) {
            Ok(()) => Ok(Some(())),
            Err(error) if matches!(error.errno(), Some(EAGAIN | EBUSY)) => Ok(None),
            Err(error) => Err(error.into()),
        },
    )
}
