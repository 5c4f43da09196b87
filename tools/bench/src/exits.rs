// SPDX-License-Identifier: GPL-2.0
//! What the host's KVM counts of the guest: how often it had to leave it, and why.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use rig::{Machine, RigKind};

use crate::site::Site;

/// Sums over all guests of the host, which has one.
const FOLDER: &str = "/sys/kernel/debug/kvm";

/// Counters by name, as they stand, or the growth between two looks.
pub(crate) type Exits = BTreeMap<String, u64>;

/// The counters that say how much the two have to do with each other.
const COUNTERS: [&str; 6] = [
    "exits",
    "halt_exits",
    "insn_emulation",
    "io_exits",
    "irq_injections",
    "mmio_exits",
];

/// The name under which all ways out of a guest are counted together.
pub(crate) const ALL: &str = "exits";

/// The counters of the machine that hosts the guest; `None` where there is none that can be asked.
pub(crate) fn read(site: Site<'_>, kind: RigKind) -> Result<Option<Exits>> {
    match (site, kind) {
        (Site::Pair(pair), RigKind::Nested) => of(pair.far()).map(Some),
        _ => Ok(None),
    }
}

fn of(host: &Machine) -> Result<Exits> {
    let counter = |name: &str| -> Result<(String, u64)> {
        let text = host.read_text(&format!("{FOLDER}/{name}"))?;
        let count = text.trim().parse();
        Ok((
            name.into(),
            count.with_context(|| format!("KVM's counter {name} is '{text}'"))?,
        ))
    };
    COUNTERS.into_iter().map(counter).collect()
}

/// The growth since `before`.
pub(crate) fn since(now: &Exits, before: &Exits) -> Exits {
    let grown = |(name, count): (&String, &u64)| {
        let before = before.get(name).copied().unwrap_or(0);
        (name.clone(), count.saturating_sub(before))
    };
    now.iter().map(grown).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_grow() {
        let exits = |count| Exits::from([(ALL.to_owned(), count)]);
        assert_eq!(since(&exits(12), &exits(5)), exits(7));
    }
}
