// SPDX-License-Identifier: GPL-2.0
//! The report's plots.

mod batches;
mod latency;
mod panels;
mod ratios;

use std::path::Path;

use anyhow::{Context as _, Result};

use crate::report::Measurements;
use crate::summary::Row;

/// Draws what there is to draw of a rig, as SVG files in the folder.
pub(crate) fn all(folder: &Path, measured: &Measurements, rows: &[Row]) -> Result<()> {
    let path = |name: &str| folder.join(format!("{name}-{}.svg", measured.kind));
    ratios::draw(&path("ratio"), measured, rows).context("plotting the ratios")?;
    latency::draw(&path("latency"), measured).context("plotting the latencies")?;
    batches::draw(&path("batches"), measured).context("plotting the batches")
}

#[cfg(test)]
mod tests {
    use rig::{RigKind, Stalls};
    use vsock_peer::latency::Times;

    use super::*;
    use crate::batches::Batches;
    use crate::case::Case;
    use crate::meter::Counts;
    use crate::placement::Placement;
    use crate::sample::{Place, Sample};
    use crate::summary;
    use crate::traffic::Measured;

    const DRIVERS: [&str; 3] = ["c", "ours", "a-third"];
    const ROUNDS: u32 = 3;

    /// What a run could have measured: each driver faster than the one before, with some noise.
    fn sample(round: u32, case: Case, driver: usize) -> Sample {
        let noise = 1.0 + 0.05 * f64::from((round * 7 + driver as u32 * 3) % 5);
        let mut times = Times::default();
        for ping in 0..500 {
            let spread = 1.0 + f64::from(ping * ping % 83) / 80.0;
            times.add(std::time::Duration::from_secs_f64(
                1e-3 * noise * spread / (1.0 + driver as f64),
            ));
        }
        let bytes = 100 * case.operation_bytes().unwrap_or(0) as u64;
        let measured = Measured {
            operations: 100,
            bytes,
            seconds: noise / (1.0 + driver as f64 / 2.0),
            usage: None,
            far: None,
            latency: times.latency(),
        };
        let place = Place {
            rig: "rig",
            round,
            driver: DRIVERS[driver],
            placement: Placement::Free,
        };
        let mut sample = Sample::new(&place, case, measured);
        if round == ROUNDS {
            sample.counts = Some(Counts::default());
            let sizes = (0..11).map(|n| (1 << n, if n < 8 { 10 * n } else { 0 }));
            sample.batches = (driver == 1).then(|| Batches(sizes.collect()));
        }
        sample
    }

    #[test]
    fn everything_is_drawn() {
        let cases = Case::all(false, true);
        let mut samples = Vec::new();
        for round in 0..=ROUNDS {
            for &case in &cases {
                samples.extend((0..DRIVERS.len()).map(|driver| sample(round, case, driver)));
            }
        }
        let measured = Measurements {
            kind: RigKind::Nested,
            cases,
            drivers: DRIVERS.map(String::from).to_vec(),
            rounds: ROUNDS,
            stalls: Stalls::default(),
            pinned: None,
            leaving: Default::default(),
            samples,
        };
        let rows = summary::rows(&measured.samples, &measured.cases, &measured.drivers);
        let folder = tempfile::tempdir().unwrap();
        all(folder.path(), &measured, &rows).unwrap();
        for (name, text) in [
            ("ratio", "a-third"),
            ("latency", "ping-pong/4096"),
            ("batches", "64 KiB writes"),
        ] {
            let path = folder.path().join(format!("{name}-nested.svg"));
            let svg = std::fs::read_to_string(path).unwrap();
            assert!(svg.contains(text), "{name}");
        }
        // For a look at them: BENCH_PLOTS=folder cargo test -p bench everything_is_drawn
        if let Some(keep) = std::env::var_os("BENCH_PLOTS") {
            all(Path::new(&keep), &measured, &rows).unwrap();
        }
    }
}
