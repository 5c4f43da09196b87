// SPDX-License-Identifier: GPL-2.0
//! Rounds of `vsock_perf` with two drivers by turns.

use std::time::{Duration, Instant};

use anyhow::{Context as _, Result};
use bench::perf::{self, Run};
use bench::spread::Spread;
use rig::{Driver, Pair, Progress, RigKind};
use serde::Serialize;

/// Bytes of one `write()`.
const WRITE_SIZES: [u64; 3] = [64, 1024, 65_536];

/// How long one transfer is to take: long enough for its start not to matter.
const TRANSFER: Duration = Duration::from_millis(700);

/// The first try of a transfer, from whose rate its size is computed.
const PILOT_WRITES: u64 = 500;
const PILOT_MOST: u64 = 4 << 20;

/// Rounds of each driver: fewer have no spread, more change nothing any more.
const FEWEST: usize = 2;
const MOST: usize = 8;

/// Which way the bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Way {
    /// From the far side to the guest.
    HostToGuest,
    /// From the guest to the far side.
    GuestToHost,
}

/// One line of the table.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    /// Which way.
    pub way: Way,
    /// Bytes of one `write()`.
    pub write_size: u64,
    /// Bytes of one transfer.
    pub bytes: u64,
    /// Gigabits a second in each round, of the first driver and of the second.
    pub gbits: [Vec<f64>; 2],
}

/// What was measured on one rig.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Measured {
    /// Which rig.
    pub rig: String,
    /// Which kind of far side it has.
    #[serde(skip)]
    pub kind: RigKind,
    /// A line for each way and size.
    pub rows: Vec<Row>,
}

impl Row {
    /// The rates of a driver.
    pub(crate) fn rates(&self, driver: usize) -> Option<Spread> {
        Spread::of(self.gbits[driver].iter().copied())
    }

    /// The second driver's rate by the first one's, round by round: both of a round ran side by side,
    /// so what the machine was doing meanwhile cancels out.
    pub(crate) fn ratio(&self) -> Option<Spread> {
        let pairs = self.gbits[0].iter().zip(&self.gbits[1]);
        Spread::of(pairs.map(|(first, second)| second / first))
    }
}

/// Measures in rounds whose order turns about, as many as the budget allows.
pub(crate) fn measure(
    pair: &Pair,
    drivers: &[Driver; 2],
    budget: Duration,
    progress: &Progress,
) -> Result<Measured> {
    let kind = pair.kind();
    let step = progress.step(format!("measuring on the {kind} rig"));
    if kind == RigKind::Wire {
        pair.far().use_driver(&Driver::c())?;
    }
    step.detail("finding out how much to send");
    let begin = Instant::now();
    pair.dut().use_driver(&drivers[0])?;
    let ways = [Way::HostToGuest, Way::GuestToHost];
    let cells = ways
        .into_iter()
        .flat_map(|way| WRITE_SIZES.map(|size| (way, size)));
    let mut rows = cells
        .map(|(way, write_size)| {
            let bytes = sized(pair, way, write_size)?;
            let gbits = [Vec::new(), Vec::new()];
            Ok(Row {
                way,
                write_size,
                bytes,
                gbits,
            })
        })
        .collect::<Result<Vec<Row>>>()?;

    let mut longest = Duration::ZERO;
    for round in 0..MOST {
        let round_begin = Instant::now();
        // C first, Rust first, C first …: a drift of the machine favours neither.
        let order = if round % 2 == 0 { [0, 1] } else { [1, 0] };
        for driver in order {
            let name = drivers[driver].name();
            step.detail(format!("round {}, {name}", round + 1));
            pair.dut()
                .use_driver(&drivers[driver])
                .with_context(|| format!("changing to {name}"))?;
            for row in &mut rows {
                let run = Run {
                    write_size: row.write_size,
                    bytes: row.bytes,
                };
                let rate = transfer(pair, row.way, run).with_context(|| name.to_owned())?;
                row.gbits[driver].push(rate);
            }
        }
        longest = longest.max(round_begin.elapsed());
        if round + 1 >= FEWEST && begin.elapsed() + longest > budget {
            break;
        }
    }
    step.done();
    Ok(Measured {
        rig: kind.to_string(),
        kind,
        rows,
    })
}

/// Bytes that take about [`TRANSFER`].
///
/// The first try is mostly its own beginning, so a second one, of half the time, corrects it.
fn sized(pair: &Pair, way: Way, write_size: u64) -> Result<u64> {
    let mut bytes = (PILOT_WRITES * write_size).min(PILOT_MOST);
    for part in [0.5, 1.0] {
        let gbits = transfer(pair, way, Run { write_size, bytes })?;
        let writes = gbits * 1e9 / 8.0 * TRANSFER.as_secs_f64() * part / write_size as f64;
        bytes = (writes.ceil() as u64).max(PILOT_WRITES / 10) * write_size;
    }
    Ok(bytes)
}

fn transfer(pair: &Pair, way: Way, run: Run) -> Result<f64> {
    let (from, to) = match way {
        Way::HostToGuest => (pair.far(), pair.dut()),
        Way::GuestToHost => (pair.dut(), pair.far()),
    };
    let rate = perf::measure(run, perf::End::of(from), perf::End::of(to));
    rate.with_context(|| format!("{} bytes in writes of {}", run.bytes, run.write_size))
}
