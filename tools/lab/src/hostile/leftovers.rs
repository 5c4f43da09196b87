// SPDX-License-Identifier: GPL-2.0
//! What a script left behind in the guest's memory.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use rig::{Machine, Program};

use crate::case::fixture::PATIENCE;
use crate::case::memory::{MEASURE, Meminfo};

/// The cache of the kernel's areas of virtual memory, which it frees by the thousand and seldom:
/// those of the stacks of ended programs fill it for long. What is mapped in them is looked at.
const LAZY: &str = "vmap_area";

/// Objects that come and go with whatever else a guest does.
const NOISE: u64 = 100;

/// The same, of kilobytes in pages that nothing accounts for.
const NOISE_KB: u64 = 1000;

/// Memory is freed late: sockets after an RCU grace period, closed connections when the peer has
/// confirmed.
const SETTLES: Duration = Duration::from_secs(15);

/// Objects in use by slab cache, and kilobytes: in pages that nothing accounts for, and in areas of
/// virtual memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Leftovers {
    objects: BTreeMap<String, u64>,
    pages: u64,
    mapped: u64,
}

impl Leftovers {
    /// Measures.
    pub(crate) fn of(machine: &Machine) -> Result<Self> {
        let output = machine.run(Program::new("sh").args(["-c", MEASURE]), PATIENCE)?;
        Self::parse(&output.success()?.text())
    }

    fn parse(text: &str) -> Result<Self> {
        let (slabs, meminfo) = text
            .split_once("end of slabs\n")
            .with_context(|| format!("the guest's memory was not shown:\n{text}"))?;
        let objects = slabs.lines().filter_map(|line| {
            let mut fields = line.split_whitespace();
            let (name, count) = (fields.next()?, fields.next()?.parse().ok()?);
            (name != LAZY).then(|| (name.to_owned(), count))
        });
        let meminfo = Meminfo::parse(meminfo);
        Ok(Self {
            objects: objects.collect(),
            pages: meminfo.unaccounted()?,
            mapped: meminfo.of("VmallocUsed")?,
        })
    }

    /// What grew by more than it does by itself, however much was sent meanwhile.
    pub(crate) fn grown(&self, after: &Self) -> Vec<String> {
        let mut grown: Vec<String> = after
            .objects
            .iter()
            .filter_map(|(name, last)| {
                let first = self.objects.get(name).copied().unwrap_or(0);
                (*last > first + NOISE).then(|| format!("{name}: {first}, then {last} objects"))
            })
            .collect();
        let kilobytes = [
            ("pages that nothing accounts for", self.pages, after.pages),
            ("virtual memory", self.mapped, after.mapped),
        ];
        for (what, first, last) in kilobytes {
            if last > first + NOISE_KB {
                grown.push(format!("{what}: {first}, then {last} kB"));
            }
        }
        grown
    }

    /// Measures until nothing is left behind that was not there before, or it has had the time to go.
    pub(crate) fn settle(&self, machine: &Machine) -> Result<(Self, Vec<String>)> {
        let deadline = Instant::now() + SETTLES;
        loop {
            let after = Self::of(machine)?;
            let grown = self.grown(&after);
            if grown.is_empty() || Instant::now() > deadline {
                return Ok((after, grown));
            }
            // What is waited for takes time, and asking takes more of the guest than that.
            std::thread::sleep(Duration::from_millis(300));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::memory::meminfo;

    fn leftovers(objects: u64, free: u64) -> Leftovers {
        leftovers_with(objects, free, 1000)
    }

    fn leftovers_with(objects: u64, free: u64, mapped: u64) -> Leftovers {
        let kinds = meminfo(500_000, |name| match name {
            "MemFree" => free,
            "VmallocUsed" => mapped,
            _ => 1000,
        });
        let text = format!(
            "skbuff_head_cache {objects} 9999 64 64 1 : tunables 0 0 0 : slabdata 1 1 0\n\
             vmap_area {mapped} 9999 64 64 1 : tunables 0 0 0 : slabdata 1 1 0\n\
             end of slabs\n{kinds}"
        );
        Leftovers::parse(&text).unwrap()
    }

    #[test]
    fn a_leak_is_seen() {
        let before = leftovers(100, 400_000);
        assert!(before.grown(&leftovers(200, 400_000)).is_empty());
        let grown = before.grown(&leftovers(500, 400_000));
        assert_eq!(grown, ["skbuff_head_cache: 100, then 500 objects"]);
        let grown = before.grown(&leftovers(100, 396_000));
        assert!(
            grown[0].starts_with("pages that nothing accounts for"),
            "{grown:?}"
        );
        assert!(before.grown(&leftovers(200, 399_000)).is_empty());
    }

    #[test]
    fn areas_of_virtual_memory_count_by_what_is_in_them() {
        let before = leftovers(100, 400_000);
        let after = leftovers_with(100, 399_500, 1500);
        assert!(before.grown(&after).is_empty());
        let grown = before.grown(&leftovers_with(100, 395_000, 6000));
        assert_eq!(grown, ["virtual memory: 1000, then 6000 kB"]);
    }

    #[test]
    fn what_is_no_measurement_is_refused() {
        assert!(Leftovers::parse("sh: not found").is_err());
        assert!(Leftovers::parse("end of slabs\nMemTotal: 5 kB\n").is_err());
    }
}
