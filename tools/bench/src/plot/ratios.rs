// SPDX-License-Identifier: GPL-2.0
//! Throughput as a ratio to the stock driver's, by the size of a write.

use std::path::Path;

use anyhow::Result;
use plotters::prelude::*;

use super::panels::{self, Panel, colour, failed};
use crate::case::{Case, Reads, Way};
use crate::metric::Metric;
use crate::report::Measurements;
use crate::summary::Row;

/// A ratio and its interval at a size.
type Point = (f64, f64, Option<(f64, f64)>);

/// What one panel shows.
struct View {
    title: &'static str,
    way: Way,
    reads: Reads,
}

const VIEWS: [View; 4] = [
    View {
        title: "host to guest, receiver reads 64 KiB",
        way: Way::ToGuest,
        reads: Reads::Fixed,
    },
    View {
        title: "guest to host, receiver reads 64 KiB",
        way: Way::FromGuest,
        reads: Reads::Fixed,
    },
    View {
        title: "host to guest, receiver reads as much as was written",
        way: Way::ToGuest,
        reads: Reads::AsWritten,
    },
    View {
        title: "guest to host, receiver reads as much as was written",
        way: Way::FromGuest,
        reads: Reads::AsWritten,
    },
];

/// Draws a panel for each way and receiver that was measured.
pub(super) fn draw(path: &Path, measured: &Measurements, rows: &[Row]) -> Result<()> {
    let views: Vec<(&View, Vec<Vec<Point>>)> = VIEWS
        .iter()
        .map(|view| {
            let lines = measured
                .drivers
                .iter()
                .map(|driver| points(rows, view, driver));
            (view, lines.collect())
        })
        .filter(|(_, lines): &(_, Vec<Vec<Point>>)| lines.iter().any(|line| !line.is_empty()))
        .collect();
    let title = format!(
        "Throughput, ratio to the stock C driver with 95 % intervals ({} rig)",
        measured.kind
    );
    panels::draw(path, &title, views.len(), |index, area| {
        let (view, lines) = &views[index];
        panel(area, view.title, &measured.drivers, lines)
    })
}

fn points(rows: &[Row], view: &View, driver: &str) -> Vec<Point> {
    let point = |row: &Row| match row.case {
        Case::Stream {
            way,
            write_size,
            reads,
            streams: 1,
        } if way == view.way && reads == view.reads => {
            Some((write_size as f64, row.ratio_to_c?, row.low.zip(row.high)))
        }
        _ => None,
    };
    let of_driver = rows
        .iter()
        .filter(|row| row.metric == Metric::Throughput && row.driver == driver);
    of_driver.filter_map(point).collect()
}

fn panel(area: &Panel<'_>, title: &str, drivers: &[String], lines: &[Vec<Point>]) -> Result<()> {
    let all = || lines.iter().flatten();
    let ends = |&(_, ratio, interval): &Point| {
        let (low, high) = interval.unwrap_or((ratio, ratio));
        // A wide interval of few rounds must not squeeze everything else.
        (low.max(ratio / 2.0), high.min(ratio * 2.0))
    };
    let low = all().map(|point| ends(point).0).fold(1.0, f64::min);
    let high = all().map(|point| ends(point).1).fold(1.0, f64::max);
    // At the top there is room for the legend.
    let (low, high) = (low * 0.95, high + 0.3 * (high - low));
    let mut chart = ChartBuilder::on(area)
        .caption(title, ("sans-serif", 16))
        .margin(10)
        .x_label_area_size(40)
        .y_label_area_size(50)
        .build_cartesian_2d((45f64..92_000f64).log_scale().base(2.0), low..high)
        .map_err(failed)?;
    chart
        .configure_mesh()
        .x_desc("bytes of a write")
        .y_desc("times the C driver's")
        .x_label_formatter(&|x| panels::size(*x as usize))
        .y_label_formatter(&|y| format!("{y:.2}"))
        .light_line_style(TRANSPARENT)
        .draw()
        .map_err(failed)?;
    let one = [(45.0, 1.0), (92_000.0, 1.0)];
    chart
        .draw_series(LineSeries::new(one, colour(0).stroke_width(2)))
        .map_err(failed)?
        .label("c")
        .legend(legend(colour(0)));
    for (index, (driver, line)) in drivers.iter().zip(lines).enumerate() {
        if line.is_empty() {
            continue;
        }
        let colour = colour(index);
        let middle = line.iter().map(|&(x, y, _)| (x, y));
        chart
            .draw_series(LineSeries::new(middle.clone(), colour.stroke_width(2)))
            .map_err(failed)?
            .label(driver)
            .legend(legend(colour));
        let dots = middle.map(|at| Circle::new(at, 3, colour.filled()));
        chart.draw_series(dots).map_err(failed)?;
        // A little apart, so that intervals at the same size are all seen.
        let apart = 1.0 + 0.03 * (index as f64 - drivers.len() as f64 / 2.0);
        let bars = line.iter().filter(|point| point.2.is_some()).map(|point| {
            let (x, (bottom, top)) = (point.0 * apart, ends(point));
            PathElement::new([(x, bottom), (x, top)], colour.mix(0.6).stroke_width(1))
        });
        chart.draw_series(bars).map_err(failed)?;
    }
    chart
        .configure_series_labels()
        .position(SeriesLabelPosition::UpperRight)
        .background_style(WHITE.mix(0.8))
        .border_style(BLACK.mix(0.3))
        .draw()
        .map_err(failed)
}

fn legend(colour: RGBColor) -> impl Fn((i32, i32)) -> PathElement<(i32, i32)> {
    move |(x, y)| PathElement::new([(x, y), (x + 18, y)], colour.stroke_width(2))
}
