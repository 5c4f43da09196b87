// SPDX-License-Identifier: GPL-2.0
//! What single threads of this machine cost: this program, and those that serve a guest's vsock device.
//!
//! Each of them can use one CPU at most, so that what it needs for a packet bounds what any guest can
//! receive, whatever its driver does.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::LazyLock;

use nix::sys::resource::{Usage, UsageWho, getrusage};
use nix::sys::time::{TimeVal, TimeValLike as _};

/// Does a thread, which is a folder of `/proc`, serve a vhost device? Such belong to its QEMU.
///
/// The kernel names them so. One that has ended meanwhile does not serve.
pub fn is_vhost_worker(task: &Path) -> bool {
    fs::read_to_string(task.join("comm")).is_ok_and(|name| name.starts_with("vhost-"))
}

/// The threads that serve guests of this machine: looked for once, before anything is timed.
static SERVING: LazyLock<Vec<Thread>> = LazyLock::new(|| Thread::serving(Path::new("/proc")));

/// A thread, and how its time is counted.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Thread {
    /// Is it a vhost worker, or another of the same process?
    vhost: bool,
    /// Its scheduler statistics.
    schedstat: PathBuf,
}

impl Thread {
    /// All threads of processes that have a vhost worker.
    fn serving(proc: &Path) -> Vec<Thread> {
        let mut threads = Vec::new();
        for process in entries(proc) {
            let tasks = entries(&process.join("task"));
            let mut of_process: Vec<Thread> = tasks
                .iter()
                .map(|task| Thread {
                    vhost: is_vhost_worker(task),
                    schedstat: task.join("schedstat"),
                })
                .collect();
            if of_process.iter().any(|thread| thread.vhost) {
                threads.append(&mut of_process);
            }
        }
        threads
    }

    /// How long it has run, in microseconds; one that is gone has not.
    fn ran_us(&self) -> u64 {
        let text = fs::read_to_string(&self.schedstat).unwrap_or_default();
        let ran = text.split_whitespace().next();
        ran.and_then(|ns| ns.parse::<u64>().ok())
            .map_or(0, |ns| ns / 1000)
    }
}

/// What is in a folder; nothing if it cannot be read, as that of a process that has ended.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).collect()
}

/// How long this program has run on any CPU, in microseconds.
pub(crate) fn own_us() -> u64 {
    let time = |time: TimeVal| u64::try_from(time.num_microseconds()).unwrap_or(0);
    let of = |usage: Usage| time(usage.user_time()) + time(usage.system_time());
    getrusage(UsageWho::RUSAGE_SELF).map_or(0, of)
}

/// How long this machine's vhost workers have run, and the other threads of the same processes, which
/// are a guest's CPUs above all; in microseconds.
pub(crate) fn serving_us() -> (u64, u64) {
    let sum = |vhost: bool| {
        let threads = SERVING.iter().filter(|thread| thread.vhost == vhost);
        threads.map(Thread::ran_us).sum()
    };
    (sum(true), sum(false))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_beside_a_vhost_worker_serve_a_guest() {
        let proc = tempfile::tempdir().unwrap();
        for (task, name, ran) in [
            ("7/task/7", "qemu", "2000000 5 1"),
            ("7/task/8", "vhost-7", "3000000 5 1"),
            ("9/task/9", "sh", "4000000 5 1"),
        ] {
            let task = proc.path().join(task);
            fs::create_dir_all(&task).unwrap();
            fs::write(task.join("comm"), format!("{name}\n")).unwrap();
            fs::write(task.join("schedstat"), format!("{ran}\n")).unwrap();
        }
        let mut found = Thread::serving(proc.path());
        found.sort();
        let ran = |thread: &Thread| (thread.vhost, thread.ran_us());
        assert_eq!(
            found.iter().map(ran).collect::<Vec<_>>(),
            [(false, 2000), (true, 3000)]
        );
    }

    #[test]
    fn a_program_that_works_has_run() {
        let before = own_us();
        let mut sum = 0_u64;
        while own_us() < before + 1000 {
            sum = std::hint::black_box(sum.wrapping_add(1));
        }
    }
}
