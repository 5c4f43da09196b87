// SPDX-License-Identifier: GPL-2.0
//! `lab used-batch`: what it brings that the device publishes used entries in batches.
//!
//! The same source at three ports of the wire, which publishes its packets one by one, at most so many
//! at once, or all of a round's; measured by turns in one boot.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use bench::spread::Spread;
use comfy_table::{CellAlignment, Table, presets};
use rig::{Alone, Driver, Program, Rig, RigKind, Stalls, Step};
use serde_json::Value;

use crate::case::fixture::Subject;
use crate::services::HOST_CID;
use crate::transfer::report;
use crate::workbench::Workbench;

/// The ways, as the wire's option takes them; the others are compared with the first.
const WAYS: [&str; 3] = ["off", "16", "on"];

/// The port of the first way's source.
const PORT: usize = 2000;

/// The end of every transfer's waits.
const TIMEOUT: Duration = Duration::from_secs(90);

/// How long a transfer is to take.
const TRANSFER: f64 = 0.7;

/// The first transfer, by whose rate the others are sized.
const PILOT: u64 = 256 << 10;

/// What to measure.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Bytes of a packet.
    #[arg(long, default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=65536))]
    size: u32,
    /// Rounds, in each of which every way has a turn.
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(2..=1000))]
    rounds: u32,
    /// The guest's driver.
    #[arg(long, value_enum, default_value = "rust")]
    driver: Subject,
}

/// One way's measurements.
#[derive(Clone, Debug, Default)]
struct Way {
    gbits: Vec<f64>,
    used: u64,
    publications: u64,
}

/// Measures, and prints a table.
pub(crate) fn used_batch(options: &Options) -> Result<()> {
    let workbench = Workbench::open("used-batch")?;
    let module = match options.driver {
        Subject::Rust => Some(workbench.module()?),
        Subject::C => None,
    };
    let mut config = workbench.rig_config(module.as_deref());
    for (at, way) in WAYS.iter().enumerate() {
        let (port, size) = (PORT + at, options.size);
        config.wire_options.extend([
            "--service".to_owned(),
            format!("source={port},size={size},used-batch={way}"),
        ]);
    }
    let progress = &workbench.progress;
    let rig = Rig::open(RigKind::GuestBound, config, &workbench.run, progress)?;
    let mut stalls = Stalls::default();
    let shown = progress.step("measuring");
    let (ways, _) = rig.run_alone("used-batch", &mut stalls, progress, |alone| {
        measure(alone, options, &shown)
    })?;
    shown.done();
    println!(
        "From the wire's source to {}, packets of {} B, {} rounds by turns, on {}.\n\
         Gbit/s and the ratio to one by one: median (middle half); {stalls}.",
        options.driver.driver().name(),
        options.size,
        options.rounds,
        workbench.kernel_name()
    );
    println!("{}", table(&ways));
    Ok(())
}

fn measure(alone: &Alone, options: &Options, shown: &Step) -> Result<[Way; 3]> {
    let driver: Driver = options.driver.driver();
    alone.dut().use_driver(&driver)?;
    shown.detail("finding out how much to send");
    let mut bytes = PILOT;
    // The first try is mostly its own beginning; the second one corrects it.
    for _ in 0..2 {
        let gbits = transfer(alone, 0, bytes)?;
        bytes = ((gbits * 1e9 / 8.0 * TRANSFER) as u64).max(PILOT);
    }
    let mut ways: [Way; 3] = Default::default();
    for round in 0..options.rounds as usize {
        shown.detail(format!("round {}", round + 1));
        for turn in 0..WAYS.len() {
            // Each comes first, and last, as often as the others.
            let at = (round + turn) % WAYS.len();
            let before = queue(alone)?;
            let gbits = transfer(alone, at, bytes);
            let gbits = gbits.with_context(|| format!("used-batch={}", WAYS[at]))?;
            let after = queue(alone)?;
            ways[at].gbits.push(gbits);
            ways[at].used += after[0] - before[0];
            ways[at].publications += after[1] - before[1];
        }
    }
    Ok(ways)
}

/// Gbit/s of a transfer from the source of a way.
fn transfer(alone: &Alone, way: usize, bytes: u64) -> Result<f64> {
    let program = Program::new("vsock-peer").args([
        "connect".to_owned(),
        format!("--cid={HOST_CID}"),
        format!("--port={}", PORT + way),
        "--flow=receive".to_owned(),
        "--partner=service".to_owned(),
        format!("--bytes={bytes}"),
        format!("--timeout={}", TIMEOUT.as_secs()),
    ]);
    let report = report(alone.dut().spawn(program)?, TIMEOUT * 2)?;
    ensure!(report.exact, "{}", report.complaints().join("\n"));
    Ok(bytes as f64 * 8.0 / 1e9 / report.seconds)
}

/// Used entries of the guest's RX queue, and how often its index was moved for them.
fn queue(alone: &Alone) -> Result<[u64; 2]> {
    let stats: Value = serde_json::from_str(&alone.wire().stats()?)?;
    let queue = &stats["ports"][0]["rx_queue"];
    let counts = ["used", "publications"].map(|name| queue[name].as_u64());
    let [Some(used), Some(publications)] = counts else {
        bail!("the wire's counters have no used entries:\n{stats}");
    };
    Ok([used, publications])
}

fn table(ways: &[Way; 3]) -> Table {
    let mut table = Table::new();
    table.load_preset(presets::UTF8_FULL_CONDENSED);
    table.set_header(["used entries", "at once, mean", "Gbit/s", "ratio"]);
    for (name, way) in WAYS.iter().zip(ways) {
        let shown = |spread: Option<Spread>| spread.map_or("-".into(), |spread| spread.to_string());
        let ratios = way.gbits.iter().zip(&ways[0].gbits);
        let ratio = Spread::of(ratios.map(|(this, first)| this / first));
        table.add_row([
            match *name {
                "off" => "one by one".to_owned(),
                "on" => "all of a round".to_owned(),
                most => format!("at most {most}"),
            },
            format!("{:.1}", way.used as f64 / way.publications.max(1) as f64),
            shown(Spread::of(way.gbits.iter().copied())),
            shown(ratio),
        ]);
    }
    for column in 1..4 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ratios_are_taken_round_by_round() {
        let way = |gbits: [f64; 3], publications| Way {
            gbits: gbits.into(),
            used: 100,
            publications,
        };
        let ways = [
            way([1.0, 2.0, 4.0], 100),
            way([2.0, 2.0, 4.0], 10),
            way([2.0, 4.0, 8.0], 4),
        ];
        let text = table(&ways).to_string();
        assert!(text.contains("25.0"), "{text}");
        assert!(text.contains("2.00 (2.00–2.00)"), "{text}");
    }
}
