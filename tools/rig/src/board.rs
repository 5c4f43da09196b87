// SPDX-License-Identifier: GPL-2.0

//! The board on which everything that happens to the machines of one boot is posted.
//!
//! Threads read the machines' ports and post; callers wait. A wait ends when what it is for has
//! happened, when its time is over, or when *any* machine of the boot is in trouble, so that the fault
//! of one is never mistaken for the slowness of another.

mod trouble;

use crate::error::{Error, Result};
use crate::fault::Expected;
use crate::journal::Journal;
use proto::{Answer, Exit, Failure, Hello, JobId, KlogRecord, Note, Stream};
use std::collections::HashMap;
use std::fmt;
use std::path::Path;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use trouble::{Trouble, trouble};

/// An emulated machine boots within seconds, on a busy one within a minute.
pub(crate) const BOOT_LIMIT: Duration = Duration::from_secs(120);

/// All machines of one boot.
#[derive(Debug, Default)]
pub(crate) struct Board {
    state: Mutex<Vec<SeatState>>,
    changed: Condvar,
}

/// One machine's place on the board.
#[derive(Clone, Debug)]
pub(crate) struct Seat {
    board: Arc<Board>,
    index: usize,
    name: Arc<str>,
}

/// What is known of one machine.
#[derive(Debug)]
pub(crate) struct SeatState {
    name: Arc<str>,
    /// Whether its emulation is known to stop now and then.
    stalls: bool,
    pub(crate) console: Journal,
    pub(crate) kernel: Journal,
    pub(crate) klog: Vec<KlogRecord>,
    pub(crate) klog_lost: bool,
    pub(crate) hello: Option<Hello>,
    pub(crate) replies: HashMap<u64, Result<Answer, Failure>>,
    pub(crate) jobs: HashMap<JobId, JobState>,
    last_id: u64,
    beat: Heart,
    /// How many heartbeats were heard.
    beats: u64,
    gone: Option<Gone>,
    /// Set when it is about to be switched off: then nothing about it is trouble.
    pub(crate) leaving: bool,
}

/// What is known of a job.
#[derive(Debug, Default)]
pub(crate) struct JobState {
    pub(crate) stdout: Vec<u8>,
    pub(crate) stderr: Vec<u8>,
    pub(crate) exit: Option<Exit>,
    /// The machine that this job is the QEMU of.
    carries: Option<Seat>,
}

/// The end of a machine, or of something that it needs.
#[derive(Debug)]
struct Gone {
    how: String,
    when: Instant,
    /// Whether its QEMU ended as it does when the guest has reset itself: in good order, wordlessly.
    by_itself: bool,
}

impl Gone {
    fn qemu(exit: impl fmt::Display, success: bool, said: &str) -> Self {
        let said = said.trim_end();
        Gone {
            how: format!("its QEMU ended ({exit}) {said}").trim_end().into(),
            when: Instant::now(),
            by_itself: success && said.is_empty(),
        }
    }
}

#[derive(Clone, Copy, Debug)]
enum Heart {
    /// Not heard yet; whoever boots the machine has a limit of their own.
    Unheard,
    /// Not heard yet, on a machine whose emulation may stop before it is; since then.
    Awaited(Instant),
    /// Last heard then.
    Beating(Instant),
    /// Held on purpose; what is still heard was sent before.
    Held,
}

impl Board {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    /// Adds a machine. Its logs are `<name>-console.log` and `<name>-kernel.log` in `logs`.
    pub(crate) fn seat(
        self: &Arc<Self>,
        name: &str,
        stalls: bool,
        logs: &Path,
        expected: &Expected,
    ) -> Result<Seat> {
        let name: Arc<str> = name.into();
        let journal =
            |kind| Journal::create(logs.join(format!("{name}-{kind}.log")), expected.clone());
        let seat = SeatState {
            stalls,
            console: journal("console")?,
            kernel: journal("kernel")?,
            klog: Vec::new(),
            klog_lost: false,
            hello: None,
            replies: HashMap::new(),
            jobs: HashMap::new(),
            last_id: 0,
            beat: Heart::Unheard,
            beats: 0,
            gone: None,
            leaving: false,
            name: name.clone(),
        };
        let mut state = self.lock();
        state.push(seat);
        let index = state.len() - 1;
        drop(state);
        Ok(Seat {
            board: self.clone(),
            index,
            name,
        })
    }

    fn lock(&self) -> MutexGuard<'_, Vec<SeatState>> {
        // A thread that panicked while posting left at worst a line unposted.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Seat {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Looks at what is known now.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&SeatState) -> T) -> T {
        look(&self.board.lock()[self.index])
    }

    /// Posts something.
    pub(crate) fn post<T>(&self, post: impl FnOnce(&mut SeatState) -> T) -> T {
        let mut state = self.board.lock();
        let posted = post(&mut state[self.index]);
        drop(state);
        self.board.changed.notify_all();
        posted
    }

    /// Waits until `done` makes something of this machine's state, for at most `timeout`.
    pub(crate) fn wait<T>(
        &self,
        what: String,
        timeout: Duration,
        mut done: impl FnMut(&mut SeatState) -> Option<T>,
    ) -> Result<T> {
        let started = Instant::now();
        let mut state = self.board.lock();
        loop {
            let settled = match trouble(&state) {
                Trouble::None => true,
                Trouble::Now(error) => return Err(error),
                // Its last lines are still coming in; nothing else matters any more.
                Trouble::Unfolding => false,
            };
            if settled {
                if let Some(result) = done(&mut state[self.index]) {
                    return Ok(result);
                }
            }
            let elapsed = started.elapsed();
            if settled && elapsed >= timeout {
                let machine = self.name.to_string();
                return Err(Error::TimedOut {
                    machine,
                    what,
                    after: timeout,
                });
            }
            // A second at most, because silence posts nothing: hearts are looked at from here.
            let pause = match settled {
                true => (timeout - elapsed).min(Duration::from_secs(1)),
                false => Duration::from_millis(100),
            };
            let waited = self.board.changed.wait_timeout(state, pause);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// Fails if any machine of the boot is in trouble.
    pub(crate) fn check(&self) -> Result<()> {
        self.wait("nothing".into(), Duration::from_secs(1), |_| Some(()))
    }

    pub(crate) fn next_id(&self) -> u64 {
        self.post(|seat| {
            seat.last_id += 1;
            seat.last_id
        })
    }

    pub(crate) fn open_job(&self) -> JobId {
        let id = JobId(self.next_id());
        self.post(|seat| seat.jobs.insert(id, JobState::default()));
        id
    }

    pub(crate) fn close_job(&self, id: JobId) {
        self.post(|seat| seat.jobs.remove(&id));
    }

    /// Posts what an agent said.
    pub(crate) fn note(&self, note: Note) {
        let carried = match &note {
            Note::Exit { job, exit } => self.look(|seat| seat.carried_by(*job, *exit)),
            _ => None,
        };
        if let Some((carried, gone)) = carried {
            carried.post_gone(gone);
        }
        self.post(|seat| match note {
            Note::Hello(hello) => seat.hello = Some(hello),
            Note::Reply { id, result } => drop(seat.replies.insert(id, result)),
            Note::Output { job, stream, data } => {
                // A job that nobody waits for any more may still be talking.
                if let Some(job) = seat.jobs.get_mut(&job) {
                    match stream {
                        Stream::Out => job.stdout.extend(data),
                        Stream::Err => job.stderr.extend(data),
                    }
                }
            }
            Note::Exit { job, exit } => {
                if let Some(job) = seat.jobs.get_mut(&job) {
                    job.exit = Some(exit);
                }
            }
            Note::Klog(record) => {
                seat.kernel.add(&record.to_string(), !record.from_user);
                seat.klog.push(record);
            }
            Note::KlogLost => {
                seat.kernel.add("(records were lost)", false);
                seat.klog_lost = true;
            }
        });
    }

    /// Says that `job` is the QEMU of another machine, which is gone when it ends.
    pub(crate) fn carry(&self, job: JobId, carried: Seat) {
        self.post(|seat| {
            if let Some(job) = seat.jobs.get_mut(&job) {
                job.carries = Some(carried);
            }
        });
    }

    /// Says that `job` may end without another machine being gone.
    pub(crate) fn let_go(&self, job: JobId) {
        self.post(|seat| {
            if let Some(job) = seat.jobs.get_mut(&job) {
                job.carries = None;
            }
        });
    }

    /// Posts a line of the console.
    pub(crate) fn console(&self, line: &str) {
        self.post(|seat| seat.console.add(line, true));
    }

    /// Posts a heartbeat.
    pub(crate) fn beat(&self) {
        self.post(|seat| {
            seat.beats += 1;
            if !matches!(seat.beat, Heart::Held) {
                seat.beat = Heart::Beating(Instant::now());
            }
        });
    }

    /// Waits for `count` heartbeats more, or for what says why they do not come.
    pub(crate) fn wait_beats(&self, count: u64) -> Result<()> {
        let enough = self.look(|seat| seat.beats) + count;
        let what = format!("{count} heartbeats");
        self.wait(what, trouble::SILENCE_IS_TOLD, |seat| {
            (seat.beats >= enough).then_some(())
        })
    }

    /// Begins to wait for the first heartbeat of a machine that boots now.
    pub(crate) fn await_heart(&self) {
        self.post(|seat| seat.beat = Heart::Awaited(Instant::now()));
    }

    /// Stops watching the heartbeat, because the machine is about to be held.
    pub(crate) fn hold_heart(&self) {
        self.post(|seat| seat.beat = Heart::Held);
    }

    /// Watches it again from the next heartbeat on.
    pub(crate) fn release_heart(&self) {
        self.post(|seat| seat.beat = Heart::Unheard);
    }

    /// Posts that the machine, or something that it needs, has ended.
    pub(crate) fn gone(&self, how: String) {
        self.post_gone(Gone {
            how,
            when: Instant::now(),
            by_itself: false,
        });
    }

    /// Posts that the machine's QEMU has ended, `exit` being how, having said so much.
    pub(crate) fn qemu_ended(&self, exit: impl fmt::Display, success: bool, said: &str) {
        self.post_gone(Gone::qemu(exit, success, said));
    }

    fn post_gone(&self, gone: Gone) {
        self.post(|seat| {
            seat.gone.get_or_insert(gone);
        });
    }

    /// Waits until the machine has ended.
    pub(crate) fn wait_gone(&self, what: String, timeout: Duration) -> Result<()> {
        self.wait(what, timeout, |seat| seat.gone.as_ref().map(|_| ()))
    }
}

impl SeatState {
    /// The machine whose QEMU this job was, and what there is to say of its end.
    fn carried_by(&self, job: JobId, exit: Exit) -> Option<(Seat, Gone)> {
        let job = self.jobs.get(&job)?;
        let said = String::from_utf8_lossy(&job.stderr);
        let gone = Gone::qemu(exit, exit.success(), &said);
        Some((job.carries.clone()?, gone))
    }
}

#[cfg(test)]
mod tests;
