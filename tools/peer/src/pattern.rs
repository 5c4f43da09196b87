// SPDX-License-Identifier: GPL-2.0
//! The payload: a byte for each (seed, connection, side, offset).
//!
//! One block of random bytes repeats with a prime period, and each lane (one
//! direction of one connection) enters it at a place of its own. A sender sends
//! slices of the block and a receiver compares with slices of it, so neither
//! computes anything per byte. Because the period is a prime, no packet, page or
//! buffer size divides it: data that is lost, repeated, reordered or delivered
//! to the wrong connection does not compare equal.

use std::ops::Range;
use std::sync::Arc;

use crate::plan::Side;

/// The largest prime below 1 MiB.
const PERIOD: usize = 1_048_573;

/// The longest slice of a lane that can be asked for.
pub const MAX_SLICE: usize = PERIOD;

/// How many bytes identify a place in the block when looking for one.
const NEEDLE: usize = 16;

/// The bytes of a source of `vsock-wire` count modulo this.
const COUNT: usize = 251;

/// The random block of one seed, or a source's.
#[derive(Debug)]
pub struct Pattern {
    /// None if all lanes are the same.
    seed: Option<u64>,
    period: usize,
    /// One period, and then again as much as the longest slice.
    block: Vec<u8>,
}

impl Pattern {
    /// Makes the block of a seed.
    pub fn new(seed: u64) -> Arc<Self> {
        let mut state = seed;
        let mut block = Vec::with_capacity(PERIOD + MAX_SLICE + 8);
        while block.len() < PERIOD {
            block.extend_from_slice(&splitmix64(&mut state).to_le_bytes());
        }
        block.truncate(PERIOD);
        block.extend_from_within(..MAX_SLICE);
        Arc::new(Self {
            seed: Some(seed),
            period: PERIOD,
            block,
        })
    }

    /// What a source of `vsock-wire` sends on every connection.
    pub fn counting() -> Arc<Self> {
        let block = (0..COUNT + MAX_SLICE).map(|n| (n % COUNT) as u8);
        Arc::new(Self {
            seed: None,
            period: COUNT,
            block: block.collect(),
        })
    }

    /// The payload that `side` sends on a connection.
    pub fn lane(self: &Arc<Self>, connection: u32, side: Side) -> Lane {
        let side = match side {
            Side::Listen => 0,
            Side::Connect => 1,
        };
        let phase = self.seed.map_or(0, |seed| {
            let mut state = seed ^ (((u64::from(connection) << 1) | side) << 32);
            splitmix64(&mut state) % self.period as u64
        });
        Lane {
            pattern: Arc::clone(self),
            phase,
        }
    }
}

/// The payload of one direction of one connection.
#[derive(Clone, Debug)]
pub struct Lane {
    pattern: Arc<Pattern>,
    phase: u64,
}

/// The first byte of a slice that is not as it was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Difference {
    /// Offset in the lane.
    pub offset: u64,
    /// The byte that was sent.
    pub expected: u8,
    /// The byte that arrived.
    pub got: u8,
    /// How many bytes of the slice are wrong.
    pub wrong_bytes: u64,
    /// The offset nearest to this one whose payload the bytes are, if any is.
    pub belongs_at: Option<u64>,
}

impl Lane {
    fn range(&self, offset: u64, len: usize) -> Range<usize> {
        assert!(len <= MAX_SLICE, "a slice of {len} bytes is too long");
        let period = self.pattern.period as u64;
        let start = ((self.phase + offset % period) % period) as usize;
        start..start + len
    }

    /// The payload at `offset`, at most [`MAX_SLICE`] bytes of it.
    pub fn at(&self, offset: u64, len: usize) -> &[u8] {
        &self.pattern.block[self.range(offset, len)]
    }

    /// Compares what arrived at `offset` with what was sent.
    pub fn compare(&self, offset: u64, got: &[u8]) -> Result<(), Difference> {
        let expected = self.at(offset, got.len());
        if expected == got {
            return Ok(());
        }
        let wrong = |&(e, g): &(&u8, &u8)| e != g;
        let mut pairs = expected.iter().zip(got);
        let first = pairs.clone().position(|(e, g)| e != g).unwrap_or(0);
        let wrong_bytes = pairs.by_ref().filter(wrong).count() as u64;
        Err(Difference {
            offset: offset + first as u64,
            expected: expected[first],
            got: got[first],
            wrong_bytes,
            belongs_at: self.locate(offset + first as u64, &got[first..]),
        })
    }

    /// Where in this lane the bytes come from, as near to `offset` as possible.
    ///
    /// Tells lost or repeated data, which only moved, from corrupted data.
    fn locate(&self, offset: u64, got: &[u8]) -> Option<u64> {
        let needle = got.get(..NEEDLE)?;
        let here = self.range(offset, NEEDLE).start;
        let period = self.pattern.period;
        let block = &self.pattern.block[..period + NEEDLE - 1];
        let found = block.windows(NEEDLE).position(|w| w == needle)?;
        let ahead = (found + period - here) % period;
        let behind = (period - ahead) as u64;
        if behind < ahead as u64 && behind <= offset {
            Some(offset - behind)
        } else {
            Some(offset + ahead as u64)
        }
    }
}

/// Sebastiano Vigna's SplitMix64, enough for bytes that only have to differ.
fn splitmix64(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut z = *state;
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lane() -> Lane {
        Pattern::new(7).lane(0, Side::Connect)
    }

    #[test]
    fn a_byte_does_not_depend_on_how_it_is_asked_for() {
        let lane = lane();
        let whole = lane.at(1000, 5000).to_vec();
        let pieces: Vec<u8> = (0..5000)
            .flat_map(|i| lane.at(1000 + i, 1).to_vec())
            .collect();
        assert_eq!(whole, pieces);
    }

    #[test]
    fn slices_run_across_the_period() {
        let lane = lane();
        for offset in [0, PERIOD as u64 - 10, PERIOD as u64, 67 * PERIOD as u64 - 3] {
            let slice = lane.at(offset, 20).to_vec();
            assert_eq!(slice[10..], *lane.at(offset + 10, 10));
        }
        assert_eq!(lane.at(3, MAX_SLICE).len(), MAX_SLICE);
    }

    #[test]
    fn a_source_counts() {
        let lane = Pattern::counting().lane(3, Side::Listen);
        assert_eq!(lane.at(0, 3), [0, 1, 2]);
        assert_eq!(lane.at(250, 3), [250, 0, 1]);
        assert_eq!(lane.at(251 * 100_000 + 7, 2), [7, 8]);
        assert_eq!(lane.at(1, MAX_SLICE).len(), MAX_SLICE);
    }

    #[test]
    fn seeds_connections_and_sides_differ() {
        let pattern = Pattern::new(7);
        let base = pattern.lane(0, Side::Connect).at(0, 64).to_vec();
        assert_ne!(base, pattern.lane(1, Side::Connect).at(0, 64));
        assert_ne!(base, pattern.lane(0, Side::Listen).at(0, 64));
        assert_ne!(base, Pattern::new(8).lane(0, Side::Connect).at(0, 64));
        assert_eq!(base, Pattern::new(7).lane(0, Side::Connect).at(0, 64));
    }

    #[test]
    fn the_first_wrong_byte_is_named() {
        let lane = lane();
        let mut got = lane.at(100, 1000).to_vec();
        got[500] ^= 0x01;
        got[900] ^= 0xff;
        let difference = lane.compare(100, &got).unwrap_err();
        assert_eq!(difference.offset, 600);
        assert_eq!(difference.got ^ difference.expected, 0x01);
        assert_eq!(difference.wrong_bytes, 2);
        assert_eq!(difference.belongs_at, None);
    }

    #[test]
    fn lost_and_repeated_data_is_recognized() {
        let lane = lane();
        let lost = lane.compare(5000, lane.at(9096, 64)).unwrap_err();
        assert_eq!((lost.offset, lost.belongs_at), (5000, Some(9096)));
        let repeated = lane.compare(9096, lane.at(5000, 64)).unwrap_err();
        assert_eq!((repeated.offset, repeated.belongs_at), (9096, Some(5000)));
    }
}
