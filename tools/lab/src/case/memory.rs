// SPDX-License-Identifier: GPL-2.0
//! The guest kernel's memory, looked at for leaks.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use bench::spread::Spread;
use rig::{Machine, Program};

use super::fixture::PATIENCE;

/// Shrinking hands back what the allocator only keeps at hand, so that what is
/// counted afterwards is in use. The shell itself reads the slabs: a program of its own would take a slab
/// for its CPU, of which all objects then count as used.
pub(crate) const MEASURE: &str = "
    sync
    echo 3 > /proc/sys/vm/drop_caches
    for cache in /sys/kernel/slab/*; do
        if [ ! -L $cache ]; then echo 1 > $cache/shrink; fi
    done
    { read -r line; read -r line; while read -r line; do echo \"$line\"; done; } < /proc/slabinfo
    echo end of slabs
    cat /proc/meminfo
    awk '$1 == \"count:\" { pages += $2 } END { print \"PerCpuFree: \" 4 * pages \" kB\" }' /proc/zoneinfo";

/// Whom memory belongs to, as a machine tells that has run [`MEASURE`]; what is left belongs to drivers'
/// pages, and to nobody. (Free pages that a CPU keeps at hand are not in MemFree.)
const OWNED: [&str; 11] = [
    "MemFree",
    "PerCpuFree",
    "Buffers",
    "Cached",
    "AnonPages",
    "SReclaimable",
    "SUnreclaim",
    "KernelStack",
    "PageTables",
    "VmallocUsed",
    "Percpu",
];

/// What grows in steps of pages, and so shows what slabs do not. (PageTables does not belong here: it
/// is that of the programs which happen to run.)
const PAGES: [&str; 2] = ["VmallocUsed", "Percpu"];

/// How often each point is measured. What is in use for a moment only is seen by some of the
/// measurements, so that the least of them counts.
const TRIES: usize = 3;

/// Growth from here on is a leak, in objects or kilobytes a round. A leak of one object a round is
/// one; what comes and goes at the points of measuring takes something off it now and then.
const LEAK: f64 = 0.75;

/// Objects in use by slab cache, and kilobytes by kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    objects: BTreeMap<String, u64>,
    kilobytes: BTreeMap<String, u64>,
    unaccounted: u64,
}

/// What the kernel tells of its memory.
pub(crate) struct Meminfo<'a>(BTreeMap<&'a str, u64>);

impl<'a> Meminfo<'a> {
    /// From the part of [`MEASURE`]'s text that is like `/proc/meminfo`.
    pub(crate) fn parse(text: &'a str) -> Self {
        let kilobytes = text.lines().filter_map(|line| {
            let (name, value) = line.split_once(':')?;
            Some((name, value.trim().strip_suffix(" kB")?.parse().ok()?))
        });
        Self(kilobytes.collect())
    }

    /// The kilobytes of one kind.
    pub(crate) fn of(&self, name: &str) -> Result<u64> {
        let found = self.0.get(name).copied();
        found.with_context(|| format!("the guest's /proc/meminfo has no {name}"))
    }

    /// Kilobytes in pages that nothing accounts for: those of drivers, and those that are lost.
    pub(crate) fn unaccounted(&self) -> Result<u64> {
        let mut owned = 0;
        for name in OWNED {
            owned += self.of(name)?;
        }
        Ok(self.of("MemTotal")?.saturating_sub(owned))
    }
}

impl Memory {
    /// Measures it.
    pub(crate) fn of(machine: &Machine) -> Result<Self> {
        let mut least = Self::once(machine)?;
        for _ in 1..TRIES {
            let again = Self::once(machine)?;
            lower(&mut least.objects, &again.objects);
            lower(&mut least.kilobytes, &again.kilobytes);
            least.unaccounted = least.unaccounted.min(again.unaccounted);
        }
        Ok(least)
    }

    /// Kilobytes in pages that nothing accounts for.
    pub(crate) fn unaccounted(&self) -> u64 {
        self.unaccounted
    }

    fn once(machine: &Machine) -> Result<Self> {
        let output = machine.run(Program::new("sh").args(["-c", MEASURE]), PATIENCE)?;
        Self::parse(&output.success()?.text())
    }

    fn parse(text: &str) -> Result<Self> {
        let (slabs, meminfo) = text
            .split_once("end of slabs\n")
            .with_context(|| format!("the guest's memory was not shown:\n{text}"))?;
        let mut objects = BTreeMap::new();
        for line in slabs.lines() {
            let mut fields = line.split_whitespace();
            let (Some(name), Some(count)) = (fields.next(), fields.next()) else {
                continue;
            };
            let count: u64 = count
                .parse()
                .with_context(|| format!("not a line of slabinfo: {line}"))?;
            *objects.entry(class(name)).or_default() += count;
        }
        let meminfo = Meminfo::parse(meminfo);
        let mut kilobytes = BTreeMap::new();
        for name in PAGES {
            kilobytes.insert(name.to_owned(), meminfo.of(name)?);
        }
        Ok(Self {
            objects,
            kilobytes,
            unaccounted: meminfo.unaccounted()?,
        })
    }

    /// What grew steadily from one of `points` to the next, which are `rounds` apart.
    ///
    /// Steadily: the median of the slopes between any two points says so. A leak grows always; what
    /// only fills up, or is in use by chance at one of the points, moves few of these slopes. And a leak
    /// grows at nearly every point.
    pub(crate) fn lost(points: &[Self], rounds: usize) -> Vec<String> {
        let grown = |pick: fn(&Self) -> &BTreeMap<String, u64>, unit: &str| -> Vec<String> {
            let names = points
                .first()
                .map(pick)
                .into_iter()
                .flat_map(|map| map.keys());
            let grew = names.filter_map(|name| {
                let series: Option<Vec<u64>> = points
                    .iter()
                    .map(|point| pick(point).get(name).copied())
                    .collect();
                let series = series?;
                let slope = steady_growth(&series)? / rounds as f64;
                if !mostly_grows(&series) {
                    return None;
                }
                let shown: Vec<String> = series.iter().map(u64::to_string).collect();
                let shown = shown.join(", then ");
                (slope >= LEAK).then(|| format!("{name}: {shown} {unit}, {slope:.2} a round"))
            });
            grew.collect()
        };
        let mut lost = grown(|memory| &memory.objects, "objects");
        lost.extend(grown(|memory| &memory.kilobytes, "kB"));
        lost
    }
}

/// The class of a slab cache. A kernel may have several caches of one class, and choose one of them
/// by who allocates.
fn class(cache: &str) -> String {
    let size = cache
        .strip_prefix("kmalloc-rnd-")
        .and_then(|rest| rest.split_once('-'));
    match size {
        Some((_, size)) => format!("kmalloc-{size}"),
        None => cache.to_owned(),
    }
}

fn lower(least: &mut BTreeMap<String, u64>, again: &BTreeMap<String, u64>) {
    for (name, value) in least {
        *value = (*value).min(again.get(name).copied().unwrap_or(0));
    }
}

/// Whether it grows from one point to the next but for one exception. A step up alone, of something
/// that was opened and stays, tilts the median of a short series as well.
fn mostly_grows(series: &[u64]) -> bool {
    let grows = series.windows(2).filter(|pair| pair[1] > pair[0]).count();
    grows + 2 >= series.len()
}

/// The median of the slopes between any two points of the series (Theil and Sen's estimate).
fn steady_growth(series: &[u64]) -> Option<f64> {
    let mut slopes = Vec::new();
    for (from, first) in series.iter().enumerate() {
        for (to, last) in series.iter().enumerate().skip(from + 1) {
            slopes.push((*last as f64 - *first as f64) / (to - from) as f64);
        }
    }
    Spread::of(slopes).map(|slopes| slopes.median())
}

/// Text as a machine gives it, with so much of each kind.
#[cfg(test)]
pub(crate) fn meminfo(total: u64, of: impl Fn(&str) -> u64) -> String {
    let kinds = OWNED.iter().map(|&name| (name, of(name)));
    let kinds = kinds.chain([("MemTotal", total)]);
    let lines = kinds.map(|(name, kilobytes)| format!("{name}: {kilobytes} kB\n"));
    lines.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(objects: u64, vmalloc: u64) -> Memory {
        let text = format!(
            "kmalloc-64 {objects} 9999 64 64 1 : tunables 0 0 0 : slabdata 1 1 0\n\
             kmalloc-rnd-01-512 300 9999 64 64 1 : tunables 0 0 0 : slabdata 1 1 0\n\
             kmalloc-rnd-12-512 30 9999 64 64 1 : tunables 0 0 0 : slabdata 1 1 0\n\
             dentry 500 600 192 21 1 : tunables 0 0 0 : slabdata 1 1 0\n\
             end of slabs\n{}",
            meminfo(500_000, |name| if name == "VmallocUsed" {
                vmalloc
            } else {
                1000
            })
        );
        Memory::parse(&text).unwrap()
    }

    #[test]
    fn what_nothing_accounts_for_is_the_rest() {
        let text = meminfo(50_000, |_| 1000);
        assert_eq!(Meminfo::parse(&text).unaccounted().unwrap(), 39_000);
        assert!(
            Meminfo::parse("MemTotal: 50000 kB\n")
                .unaccounted()
                .is_err()
        );
    }

    fn lost(objects: [u64; 5], vmalloc: [u64; 5]) -> Vec<String> {
        let points = objects.into_iter().zip(vmalloc);
        let points: Vec<Memory> = points.map(|(objects, kb)| memory(objects, kb)).collect();
        Memory::lost(&points, 10)
    }

    #[test]
    fn steady_growth_is_a_leak() {
        assert_eq!(
            lost([100, 110, 120, 130, 140], [9; 5]),
            ["kmalloc-64: 100, then 110, then 120, then 130, then 140 objects, 1.00 a round"]
        );
        assert_eq!(lost([100; 5], [10, 90, 170, 250, 330]).len(), 1);
    }

    /// As seen in a guest whose driver lost one object each time it was loaded; the second has lost
    /// by chance two objects more at one point, and the third is the noisiest class, leaking.
    #[test]
    fn noise_hides_no_leak() {
        for objects in [
            [2563, 2573, 2583, 2593, 2604],
            [2565, 2573, 2583, 2595, 2603],
            [548, 569, 580, 592, 574],
        ] {
            assert_eq!(lost(objects, [9; 5]).len(), 1, "{objects:?}");
        }
    }

    #[test]
    fn a_step_and_noise_are_none() {
        for objects in [
            [100, 500, 505, 505, 505],
            [1, 1, 1, 61, 61],
            [90, 90, 90, 90, 500],
            [548, 559, 560, 562, 534],
            [913, 854, 854, 914, 855],
        ] {
            assert!(lost(objects, [9; 5]).is_empty(), "{objects:?}");
        }
    }

    #[test]
    fn caches_of_one_class_are_one() {
        assert_eq!(memory(1, 1).objects["kmalloc-512"], 330);
    }

    #[test]
    fn what_is_no_measurement_is_refused() {
        assert!(Memory::parse("sh: not found").is_err());
        assert!(Memory::parse("kmalloc-64 many 1\nend of slabs\n").is_err());
    }
}
