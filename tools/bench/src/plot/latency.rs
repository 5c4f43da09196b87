// SPDX-License-Identifier: GPL-2.0
//! The distribution of round trips: which share took at most how long.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Result;
use plotters::prelude::*;

use super::panels::{self, Panel, colour, failed};
use crate::case::Case;
use crate::report::Measurements;

/// Microseconds, and the share of round trips that took at most so long.
type Curve = Vec<(f64, f64)>;

/// The slowest round trips of all rounds are single accidents of the machine.
const SHOWN: f64 = 0.995;

/// Draws a panel for each ping-pong.
pub(super) fn draw(path: &Path, measured: &Measurements) -> Result<()> {
    let pings: Vec<Case> = measured
        .cases
        .iter()
        .copied()
        .filter(|case| matches!(case, Case::PingPong { .. }))
        .collect();
    let title = format!("Round trips, cumulative ({} rig)", measured.kind);
    panels::draw(path, &title, pings.len(), |index, area| {
        let case = pings[index];
        let curves = measured
            .drivers
            .iter()
            .map(|driver| curve(measured, case, driver));
        panel(area, case, &measured.drivers, &curves.collect::<Vec<_>>())
    })
}

/// All rounds together, but not the one with probes.
fn curve(measured: &Measurements, case: Case, driver: &str) -> Curve {
    let mut sums: BTreeMap<u64, u64> = BTreeMap::new();
    let samples = measured.samples.iter();
    for sample in samples.filter(|s| s.case == case && s.driver == driver && s.counts.is_none()) {
        for (us, count) in sample.latency.iter().flat_map(|latency| &latency.steps) {
            // Nanoseconds, which have an order.
            *sums.entry((us * 1e3) as u64).or_default() += count;
        }
    }
    let total: u64 = sums.values().sum();
    let mut so_far = 0;
    let curve = sums.into_iter().map(|(nanoseconds, count)| {
        so_far += count;
        (nanoseconds as f64 / 1e3, so_far as f64 / total as f64)
    });
    curve.collect()
}

fn panel(area: &Panel<'_>, case: Case, drivers: &[String], curves: &[Curve]) -> Result<()> {
    let times = || curves.iter().flatten().map(|&(us, _)| us);
    let ends = curves
        .iter()
        .filter_map(|curve| curve.iter().find(|point| point.1 >= SHOWN))
        .map(|&(us, _)| us);
    let (first, last) = (times().fold(f64::MAX, f64::min), ends.fold(0.0, f64::max));
    if first >= last {
        return Ok(());
    }
    let mut chart = ChartBuilder::on(area)
        .caption(case.to_string(), ("sans-serif", 16))
        .margin(10)
        .x_label_area_size(40)
        .y_label_area_size(50)
        .build_cartesian_2d(
            (first * 0.95..last * 1.05).log_scale().base(2.0),
            0f64..1f64,
        )
        .map_err(failed)?;
    chart
        .configure_mesh()
        .x_desc("us, logarithmic")
        .y_desc("share of round trips")
        .x_label_formatter(&|x| format!("{x:.0}"))
        .y_label_formatter(&|y| format!("{:.0} %", y * 100.0))
        .light_line_style(TRANSPARENT)
        .draw()
        .map_err(failed)?;
    for (index, (driver, curve)) in drivers.iter().zip(curves).enumerate() {
        if curve.is_empty() {
            continue;
        }
        let colour = colour(index);
        let shown = curve.iter().copied().filter(|&(us, _)| us <= last);
        chart
            .draw_series(LineSeries::new(shown, colour.stroke_width(2)))
            .map_err(failed)?
            .label(driver)
            .legend(move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2)));
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::LowerRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()
        .map_err(failed)
}
