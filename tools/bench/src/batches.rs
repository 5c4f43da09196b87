// SPDX-License-Identifier: GPL-2.0
//! How many packets the receive batches of our driver had.

use anyhow::{Context as _, Result};
use serde::Serialize;

/// Batches by their size: the key is the least of a power of two's span.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Batches(pub Vec<(u64, u64)>);

impl Batches {
    /// Finds them among the driver's counters, lines of `name value`.
    pub(crate) fn parse(stats: &str) -> Result<Self> {
        let mut batches = Vec::new();
        for line in stats.lines() {
            let Some(rest) = line.strip_prefix("rx_batch_size_") else {
                continue;
            };
            let pair = rest
                .split_once(char::is_whitespace)
                .and_then(|(size, count)| Some((size.parse().ok()?, count.trim().parse().ok()?)));
            batches.push(pair.with_context(|| format!("no counter: {line:?}"))?);
        }
        batches.sort_unstable();
        Ok(Batches(batches))
    }

    /// What was added since `before`.
    pub(crate) fn since(mut self, before: &Self) -> Self {
        for (size, count) in &mut self.0 {
            let earlier = before.0.iter().find(|(other, _)| other == size);
            *count = count.saturating_sub(earlier.map_or(0, |&(_, count)| count));
        }
        self
    }

    /// Adds others.
    pub(crate) fn add(&mut self, other: &Self) {
        for &(size, count) in &other.0 {
            match self.0.iter_mut().find(|(known, _)| *known == size) {
                Some((_, sum)) => *sum += count,
                None => self.0.push((size, count)),
            }
        }
        self.0.sort_unstable();
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.0.iter().map(|&(_, count)| count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_and_sums() {
        let before = Batches::parse("rx_packets 5\nrx_batch_size_1 10\nrx_batch_size_2 0\n");
        let after = Batches::parse("rx_batch_size_2 7\nrx_batch_size_1 15\n").unwrap();
        let mut grown = after.since(&before.unwrap());
        assert_eq!(grown.0, [(1, 5), (2, 7)]);
        grown.add(&Batches(vec![(2, 1), (4, 2)]));
        assert_eq!(grown.0, [(1, 5), (2, 8), (4, 2)]);
        assert_eq!(grown.count(), 15);
        assert!(Batches::parse("rx_batch_size_1 many").is_err());
    }
}
