// SPDX-License-Identifier: GPL-2.0
//! Gives each virtual CPU of a guest under KVM, and the host's vhost worker, a CPU of its own, so that
//! no round is slower because the scheduler moved them together.

use std::fs;

use anyhow::{Context as _, Result};
use nix::sched::{CpuSet, sched_getaffinity, sched_setaffinity};
use nix::unistd::Pid;
use qapi::qmp::{CpuInfoFast, query_cpus_fast};
use rig::Machine;
use vsock_peer::threads::is_vhost_worker;

/// Pins, and says how, or why not.
pub(crate) fn pin(guest: &Machine) -> Result<String> {
    let mut threads = virtual_cpus(guest)?;
    let count = threads.len();
    if let Some(&thread) = threads.first() {
        threads.extend(vhost_workers(thread)?);
    }
    let us = Pid::from_raw(0);
    let ours = sched_getaffinity(us).context("asking which CPUs there are")?;
    let free: Vec<usize> = (0..CpuSet::count())
        .filter(|&cpu| ours.is_set(cpu).unwrap_or(false))
        .collect();
    if free.len() < threads.len() {
        return Ok(format!(
            "not pinned: {} CPUs are too few for {count} virtual ones and vhost",
            free.len()
        ));
    }
    for (&thread, &cpu) in threads.iter().zip(&free) {
        let mut one = CpuSet::new();
        one.set(cpu)
            .and_then(|()| sched_setaffinity(thread, &one))
            .with_context(|| format!("pinning thread {thread} to CPU {cpu}"))?;
    }
    let vhost = threads.len() - count;
    Ok(format!(
        "{count} virtual CPUs and {vhost} vhost workers pinned to a CPU each"
    ))
}

fn virtual_cpus(guest: &Machine) -> Result<Vec<Pid>> {
    let cpus = guest.monitor()?.execute(query_cpus_fast {})?;
    let thread = |cpu: &CpuInfoFast| match cpu {
        CpuInfoFast::x86_64(cpu) | CpuInfoFast::i386(cpu) => i32::try_from(cpu.thread_id).ok(),
        _ => None,
    };
    Ok(cpus.iter().filter_map(thread).map(Pid::from_raw).collect())
}

/// The vhost threads of the process that a thread belongs to.
fn vhost_workers(thread: Pid) -> Result<Vec<Pid>> {
    let tasks = format!("/proc/{thread}/task");
    let mut workers = Vec::new();
    for task in fs::read_dir(&tasks).with_context(|| format!("reading {tasks}"))? {
        let task = task?;
        let number = task.file_name().to_str().and_then(|name| name.parse().ok());
        let worker = number.filter(|_| is_vhost_worker(&task.path()));
        workers.extend(worker.map(Pid::from_raw));
    }
    Ok(workers)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_vhost_threads_are_workers() {
        let (tell, told) = std::sync::mpsc::channel::<()>();
        let (begin, begun) = std::sync::mpsc::channel();
        let worker = std::thread::Builder::new().name("vhost-1".into());
        // A thread names itself, before it does anything else.
        let worker = worker.spawn(move || {
            begin.send(()).unwrap();
            told.recv()
        });
        let worker = worker.unwrap();
        begun.recv().unwrap();
        assert_eq!(vhost_workers(nix::unistd::gettid()).unwrap().len(), 1);
        drop(tell);
        assert!(worker.join().unwrap().is_err());
    }
}
