// SPDX-License-Identifier: GPL-2.0

//! What is wrong with the machines of a boot, if anything is.

use super::{BOOT_LIMIT, Gone, Heart, SeatState};
use crate::error::Error;
use crate::fault;
use crate::journal::Journal;
use std::time::Duration;

/// A machine without a heartbeat for so long has stopped. Emulation on a busy machine is slow, and a
/// false alarm costs more than the wait. A kernel that still runs has complained by then of a CPU that
/// does not: after 20 s of a program or worker that does not let go of it, after 21 s of one that holds
/// up RCU.
pub(super) const BEAT_LIMIT: Duration = Duration::from_secs(30);
/// Within this time it is known why there is no heartbeat.
pub(super) const SILENCE_IS_TOLD: Duration = Duration::from_secs(60);
/// A fault's last lines may follow for so long after its first, and so long after each other or after
/// the machine's end.
const FAULT_LIMIT: Duration = Duration::from_secs(4);
const FAULT_PAUSE: Duration = Duration::from_millis(700);
/// For how long a kernel waits for a CPU to answer its non-maskable interrupt (ten seconds, as
/// `nmi_trigger_cpumask_backtrace()` in lib/nmi_backtrace.c has it), and for the line that says so.
const ANSWER_LIMIT: Duration = Duration::from_secs(13);

/// What there is to say of all machines.
pub(super) enum Trouble {
    /// Nothing.
    None,
    /// Something, whose last lines are still coming in.
    Unfolding,
    /// This.
    Now(Error),
}

/// What is wrong on the board: a kernel's fault before an end that it may have caused, and both before
/// a silence.
pub(super) fn trouble(state: &[SeatState]) -> Trouble {
    if let Some(seat) = state.iter().find(|seat| seat.faulty().is_some()) {
        return seat.fault();
    }
    let mut present = state.iter().filter(|seat| !seat.leaving);
    if let Some((seat, gone)) = present.find_map(|seat| Some((seat, seat.gone.as_ref()?))) {
        if gone.when.elapsed() < FAULT_PAUSE {
            return Trouble::Unfolding;
        }
        return Trouble::Now(seat.ended(gone));
    }
    let silent = state.iter().find_map(|seat| Some((seat, seat.silence()?)));
    let Some((seat, silent)) = silent else {
        return Trouble::None;
    };
    let (machine, log) = (seat.name.to_string(), seat.console.path().to_owned());
    Trouble::Now(match seat.stalls {
        true => Error::RigStalled {
            machine,
            silent,
            log,
        },
        false => Error::MachineHung {
            machine,
            silent,
            tail: seat.console.tail(),
            log,
        },
    })
}

impl SeatState {
    /// What the machine's end is. Where emulation nests, machines reset themselves now and then, as
    /// after a triple fault: their heart stops, without a word from their kernel (a panic has many).
    fn ended(&self, gone: &Gone) -> Error {
        let (machine, log) = (self.name.to_string(), self.console.path().into());
        if self.stalls && gone.by_itself {
            return Error::RigReset { machine, log };
        }
        Error::MachineGone {
            machine,
            how: gone.how.clone(),
            tail: self.console.tail(),
            log,
        }
    }

    /// How long nothing has been heard of a machine that should have been heard of. One that is being
    /// switched off is quiet in the end, but can stop before that.
    fn silence(&self) -> Option<Duration> {
        let (since, limit) = match self.beat {
            Heart::Unheard | Heart::Held => return None,
            Heart::Awaited(since) => (since, BOOT_LIMIT),
            Heart::Beating(since) => (since, BEAT_LIMIT),
        };
        let silent = since.elapsed();
        (self.gone.is_none() && silent > limit).then_some(silent)
    }

    /// The log that tells of a fault; of two, the one that tells more of it.
    fn faulty(&self) -> Option<&Journal> {
        let faulty = [&self.console, &self.kernel];
        let faulty = faulty
            .into_iter()
            .filter(|journal| journal.fault().is_some());
        faulty.max_by_key(|journal| journal.tail().len())
    }

    fn fault(&self) -> Trouble {
        let Some(journal) = self.faulty() else {
            return Trouble::None;
        };
        let last = self.console.last().max(self.kernel.last());
        let over = journal.fault_age().is_some_and(|age| age > FAULT_LIMIT);
        if !over && last.elapsed() < FAULT_PAUSE {
            return Trouble::Unfolding;
        }
        let (machine, log) = (self.name.to_string(), journal.path().into());
        let line = journal.fault().unwrap_or_default();
        let silent = match self.stopped_in_boot(line) {
            Some(silent) => Some(silent),
            None => match self.stopped_by_emulation(journal) {
                Stopped::Perhaps => return Trouble::Unfolding,
                Stopped::For(silent) => Some(silent),
                Stopped::No => None,
            },
        };
        Trouble::Now(match silent {
            Some(silent) => Error::RigStalled {
                machine,
                silent,
                log,
            },
            None => Error::KernelFault {
                machine,
                line: line.into(),
                tail: journal.tail(),
                log,
            },
        })
    }

    /// For how long the machine boots, if its kernel says that a CPU stopped before there was a
    /// heartbeat, where emulation does such things: nothing of ours has run in it by then.
    fn stopped_in_boot(&self, line: &str) -> Option<Duration> {
        match self.beat {
            Heart::Awaited(since) if self.stalls && fault::is_stopped_cpu(line) => {
                Some(since.elapsed())
            }
            _ => None,
        }
    }

    /// Whether it is the emulation that stopped a CPU, where it does such things. No code of a kernel
    /// keeps its CPU from taking a non-maskable interrupt; so one that is told to show where it is, and
    /// does not, is not run at all, and the heart that has to pass through it stands still.
    fn stopped_by_emulation(&self, journal: &Journal) -> Stopped {
        let Heart::Beating(last) = self.beat else {
            return Stopped::No;
        };
        if !self.stalls || fault::unanswered(journal.since_fault()).is_none() {
            return Stopped::No;
        }
        let asked = journal.fault_age().unwrap_or_default();
        match asked > ANSWER_LIMIT {
            false => Stopped::Perhaps,
            true if last.elapsed() > asked => Stopped::For(last.elapsed()),
            true => Stopped::No,
        }
    }
}

/// Whether the emulation has stopped one of a machine's CPUs.
enum Stopped {
    /// It has not.
    No,
    /// The CPU may still answer.
    Perhaps,
    /// It has, since the last heartbeat.
    For(Duration),
}
