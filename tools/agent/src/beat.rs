// SPDX-License-Identifier: GPL-2.0

//! The heartbeat: it shows that the machine's clock runs and its programs are scheduled, on each of its
//! CPUs, and it does nothing else, so that whatever else stands still does not stop it.

use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use std::io::Write;
use std::thread;

/// Begins to write heartbeats to `port`.
///
/// Each comes from the next CPU, so that they stay away as soon as one CPU stands still.
pub(crate) fn start(mut port: impl Write + Send + 'static) {
    thread::spawn(move || {
        let mut cpus = usable_cpus().into_iter().cycle();
        // Nobody is left to tell when this fails: the lab sees that the beats stay away.
        while port.write_all(b".\n").is_ok() {
            if let Some(cpu) = cpus.next() {
                // A CPU that is switched off meanwhile is no reason not to beat.
                let _ = go_to(cpu);
            }
            thread::sleep(proto::port::BEAT_EVERY);
        }
    });
}

/// The CPUs that this thread may use.
fn usable_cpus() -> Vec<usize> {
    let all = sched_getaffinity(Pid::from_raw(0)).unwrap_or_default();
    (0..CpuSet::count())
        .filter(|&cpu| all.is_set(cpu).unwrap_or(false))
        .collect()
}

/// Returns once this thread runs on `cpu`.
fn go_to(cpu: usize) -> nix::Result<()> {
    let mut one = CpuSet::new();
    one.set(cpu)?;
    sched_setaffinity(Pid::from_raw(0), &one)
}
