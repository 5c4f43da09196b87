// SPDX-License-Identifier: GPL-2.0
//! Packets in a receive batch of our driver.

use std::path::Path;

use anyhow::Result;
use plotters::prelude::*;

use super::panels::{self, Panel, colour, failed, size};
use crate::batches::Batches;
use crate::case::{Case, Reads, Way};
use crate::report::Measurements;

/// The driver whose batches these are.
const OURS: &str = "ours";

/// Draws a panel for each size of a single stream to the guest.
pub(super) fn draw(path: &Path, measured: &Measurements) -> Result<()> {
    let panels: Vec<(usize, Batches)> = measured
        .cases
        .iter()
        .filter_map(|&case| match case {
            Case::Stream {
                way: Way::ToGuest,
                write_size,
                reads: Reads::Fixed,
                streams: 1,
            } => Some((write_size, batches(measured, case))),
            _ => None,
        })
        .filter(|(_, batches)| batches.count() > 0)
        .collect();
    let title = format!("Packets in a receive batch ({} rig)", measured.kind);
    panels::draw(path, &title, panels.len(), |index, area| {
        let (write_size, batches) = &panels[index];
        panel(area, *write_size, batches)
    })
}

fn batches(measured: &Measurements, case: Case) -> Batches {
    let mut sum = Batches::default();
    let samples = measured.samples.iter();
    for sample in samples.filter(|sample| sample.case == case && sample.driver == OURS) {
        sample.batches.iter().for_each(|batches| sum.add(batches));
    }
    sum
}

fn panel(area: &Panel<'_>, write_size: usize, batches: &Batches) -> Result<()> {
    let total = batches.count() as f64;
    let share = |count: u64| count as f64 / total;
    let highest = batches
        .0
        .iter()
        .map(|&(_, count)| share(count))
        .fold(0.0, f64::max);
    // Powers of two, so a bar stands at the logarithm.
    let last = batches
        .0
        .iter()
        .rposition(|&(_, count)| count > 0)
        .unwrap_or(0);
    let labels: Vec<String> = batches.0.iter().map(|&(size, _)| span(size)).collect();
    let mut chart = ChartBuilder::on(area)
        .caption(
            format!("{} writes to the guest, {total} batches", size(write_size)),
            ("sans-serif", 16),
        )
        .margin(10)
        .x_label_area_size(40)
        .y_label_area_size(50)
        .build_cartesian_2d((0..last).into_segmented(), 0f64..highest * 1.1)
        .map_err(failed)?;
    chart
        .configure_mesh()
        .disable_x_mesh()
        .x_desc("packets")
        .y_desc("share of batches")
        .x_labels(labels.len())
        .x_label_formatter(&|x| match x {
            SegmentValue::CenterOf(n) => labels.get(*n).cloned().unwrap_or_default(),
            _ => String::new(),
        })
        .y_label_formatter(&|y| format!("{:.0} %", y * 100.0))
        .light_line_style(TRANSPARENT)
        .draw()
        .map_err(failed)?;
    let bars = batches.0[..=last]
        .iter()
        .enumerate()
        .map(|(n, &(_, count))| {
            let corners = [
                (SegmentValue::Exact(n), 0.0),
                (SegmentValue::Exact(n + 1), share(count)),
            ];
            let mut bar = Rectangle::new(corners, colour(1).filled());
            bar.set_margin(0, 0, 4, 4);
            bar
        });
    chart.draw_series(bars).map_err(failed).map(drop)
}

/// The sizes that a bar stands for.
fn span(size: u64) -> String {
    match size {
        1 => "1".into(),
        size => format!("{size}–{}", 2 * size - 1),
    }
}
