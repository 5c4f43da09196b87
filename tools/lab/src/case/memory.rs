// SPDX-License-Identifier: GPL-2.0
//! The guest kernel's memory, looked at for leaks.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use rig::{Machine, Program};

use super::fixture::PATIENCE;

/// Shrinking hands back what the allocator only keeps at hand, so that what is
/// counted afterwards is in use.
const MEASURE: &str = "
    sync
    for cache in /sys/kernel/slab/*; do
        if [ ! -L $cache ]; then echo 1 > $cache/shrink; fi
    done
    sed -n '3,$p' /proc/slabinfo
    echo end of slabs
    cat /proc/meminfo";

/// What grows in steps of pages, and so shows what slabs do not.
const PAGES: [&str; 3] = ["VmallocUsed", "Percpu", "PageTables"];

/// Objects in use by slab cache, and kilobytes by kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    objects: BTreeMap<String, u64>,
    kilobytes: BTreeMap<String, u64>,
}

impl Memory {
    /// Measures it.
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
            Some((fields.next()?.to_owned(), fields.next()?.parse().ok()?))
        });
        let kilobytes = meminfo.lines().filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            let value = value.trim().strip_suffix(" kB")?.parse().ok()?;
            PAGES.contains(&name).then(|| (name.to_owned(), value))
        });
        Ok(Self {
            objects: objects.collect(),
            kilobytes: kilobytes.collect(),
        })
    }

    /// What grew by one or more a round in both of two stretches of as many rounds,
    /// of which this is the beginning.
    ///
    /// A leak grows always; what only fills up, or is in use by chance at one of
    /// the three points, does not.
    pub(crate) fn lost(&self, middle: &Self, end: &Self, rounds: u64) -> Vec<String> {
        let grown = |pick: fn(&Self) -> &BTreeMap<String, u64>, unit: &str| -> Vec<String> {
            let grew = pick(end).iter().filter_map(|(name, last)| {
                let first = pick(self).get(name)?;
                let half = pick(middle).get(name)?;
                let steady = *half >= first + rounds && *last >= half + rounds;
                steady.then(|| format!("{name}: {first}, then {half}, then {last} {unit}"))
            });
            grew.collect()
        };
        let mut lost = grown(|memory| &memory.objects, "objects");
        lost.extend(grown(|memory| &memory.kilobytes, "kB"));
        lost
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(objects: u64, vmalloc: u64) -> Memory {
        let text = format!(
            "kmalloc-64 {objects} 9999 64 64 1 : tunables 0 0 0 : slabdata 1 1 0\n\
             dentry 500 600 192 21 1 : tunables 0 0 0 : slabdata 1 1 0\n\
             end of slabs\nMemTotal: 1 kB\nVmallocUsed: {vmalloc} kB\n"
        );
        Memory::parse(&text).unwrap()
    }

    #[test]
    fn steady_growth_is_a_leak() {
        let lost = memory(100, 10).lost(&memory(120, 10), &memory(141, 10), 20);
        assert_eq!(lost, ["kmalloc-64: 100, then 120, then 141 objects"]);
        let lost = memory(100, 10).lost(&memory(100, 90), &memory(100, 170), 20);
        assert_eq!(lost, ["VmallocUsed: 10, then 90, then 170 kB"]);
    }

    #[test]
    fn a_step_is_none() {
        assert!(
            memory(100, 10)
                .lost(&memory(500, 90), &memory(505, 90), 20)
                .is_empty()
        );
        assert!(
            memory(100, 10)
                .lost(&memory(90, 10), &memory(500, 10), 20)
                .is_empty()
        );
    }

    #[test]
    fn what_is_no_measurement_is_refused() {
        assert!(Memory::parse("sh: not found").is_err());
    }
}
