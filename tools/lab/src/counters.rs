// SPDX-License-Identifier: GPL-2.0
//! The driver's counters, as its debugfs file `stats` prints them.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};

/// Counters by name: absolute ones, or what was added between two readings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Counters(BTreeMap<String, u64>);

/// Where it is.
pub(crate) const STATS: &str = "/sys/kernel/debug/virtio_vsock_rs/stats";

/// The bounds of the batch size histogram, as in the counters' names.
const BATCH_SIZES: [u64; 11] = [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];

impl Counters {
    /// Reads lines of `name value`.
    pub(crate) fn parse(text: &str) -> Result<Self> {
        let lines = text.lines().map(|line| {
            let (name, value) = line
                .split_once(char::is_whitespace)
                .with_context(|| format!("no value in the counter line {line:?}"))?;
            let value = value.trim().parse();
            let value = value.with_context(|| format!("no number in the counter line {line:?}"))?;
            Ok((name.to_owned(), value))
        });
        lines.collect::<Result<_>>().map(Self)
    }

    /// One counter; a name that the driver does not print is an error, not a zero.
    pub(crate) fn get(&self, name: &str) -> Result<u64> {
        self.0
            .get(name)
            .copied()
            .with_context(|| format!("the driver has no counter {name}"))
    }

    /// What was added since `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        let since = self.0.iter().map(|(name, value)| {
            let before = before.0.get(name).copied().unwrap_or(0);
            (name.clone(), value.saturating_sub(before))
        });
        Self(since.collect())
    }

    /// The sum of all counters whose names begin with `prefix`.
    pub(crate) fn sum(&self, prefix: &str) -> u64 {
        let with_prefix = self.0.iter().filter(|(name, _)| name.starts_with(prefix));
        with_prefix.map(|(_, value)| value).sum()
    }

    /// Batches of at least `size` packets; `size` has to be a power of two.
    pub(crate) fn batches_from(&self, size: u64) -> Result<u64> {
        let sizes = BATCH_SIZES.iter().filter(|&&bound| bound >= size);
        sizes
            .map(|bound| self.get(&format!("rx_batch_size_{bound}")))
            .sum()
    }

    /// Those that are not zero, for a message.
    pub(crate) fn shown(&self) -> String {
        let some = self.0.iter().filter(|(_, value)| **value > 0);
        let words: Vec<String> = some
            .map(|(name, value)| format!("{name} {value}"))
            .collect();
        words.join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(text: &str) -> Counters {
        Counters::parse(text).unwrap()
    }

    #[test]
    fn differences_and_sums() {
        let before = counters("rx_packets 10\nrx_batch_end_idle 1\n");
        let after = counters("rx_packets 25\nrx_batch_end_idle 3\nrx_batch_end_flow 4\n");
        let added = after.since(&before);
        assert_eq!(added.get("rx_packets").unwrap(), 15);
        assert_eq!(added.sum("rx_batch_end_"), 6);
        assert!(added.get("rx_bytes").is_err());
        assert_eq!(
            added.shown(),
            "rx_batch_end_flow 4, rx_batch_end_idle 2, rx_packets 15"
        );
    }

    #[test]
    fn batches_are_counted_by_size() {
        let lines = BATCH_SIZES.map(|size| format!("rx_batch_size_{size} {size}"));
        let text = lines.join("\n");
        assert_eq!(counters(&text).batches_from(256).unwrap(), 256 + 512 + 1024);
        assert!(counters("rx_packets 1").batches_from(2).is_err());
    }

    #[test]
    fn rubbish_is_refused() {
        assert!(Counters::parse("rx_packets").is_err());
        assert!(Counters::parse("rx_packets many").is_err());
    }
}
