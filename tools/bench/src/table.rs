// SPDX-License-Identifier: GPL-2.0
//! The report's tables, for the terminal.

use comfy_table::{CellAlignment, Table, presets};

use crate::metric::Metric;
use crate::summary::Row;

/// What the tables do not say themselves.
pub(crate) const LEGEND: &str = "\
Medians of the rounds; [ratio to the stock C driver, with the 95 % interval from the paired rounds].
Payload is compared byte by byte where it is received, except by the wire's sink, which counts it.
no-batch, no-fast-path: ours with that switch off, where it can matter.
CPU: busy time of all the guest's CPUs a write, round trip or connection (/proc/stat, in the guest's program).
far: busy time of all CPUs at the other end, its guests included; of this, where that is the guest's host,
sender (or receiver): the program (getrusage); vhost: its vhost worker; guest: the guest's threads (schedstat).
No driver in a guest can be faster than one sender and one vhost worker are.
irq: interrupts of the vsock device (/proc/interrupts). woken: times that the guest's program was (getrusage).
exits: of the guest to its host (KVM's counter, with the programs' start and end); what one costs is above the table
(CPUID, which a guest cannot do itself: vsock-peer leave).
kicks (kprobe on vp_notify; with a nested guest, on the host's vhost_poll_wakeup), credit updates and data-ready
calls (tracepoints): from one more round with probes.
These by the MiB of a stream, otherwise by the round trip or connection.
";

/// The columns of a table: a title, and the quantities of which a row has at most one.
struct Column {
    title: &'static str,
    metrics: &'static [Metric],
    with_ratio: bool,
}

const fn column(title: &'static str, metrics: &'static [Metric], with_ratio: bool) -> Column {
    Column {
        title,
        metrics,
        with_ratio,
    }
}

const SPEED: [Column; 1] = [column(
    "MiB/s or 1/s",
    &[Metric::Throughput, Metric::ConnectionRate],
    true,
)];
const LATENCY: [Column; 3] = [
    column("p1 us", &[Metric::LatencyP1], true),
    column("mean us", &[Metric::LatencyMean], true),
    column("p99 us", &[Metric::LatencyP99], true),
];
const COSTS: [Column; 11] = [
    column("CPU us", &[Metric::CpuTime], true),
    column("far us", &[Metric::FarTime], false),
    column("sender", &[Metric::SenderTime], false),
    column("vhost", &[Metric::VhostTime], false),
    column("guest", &[Metric::GuestTime], true),
    column("irq", &[Metric::Interrupts], false),
    column("woken", &[Metric::Wakeups], false),
    column("exits", &[Metric::Exits], false),
    column("kicks", &[Metric::Kicks], false),
    column("credit", &[Metric::CreditUpdates], false),
    column("ready", &[Metric::DataReady], false),
];

/// The tables of a rig: of speeds, and of latencies.
pub(crate) fn text(rows: &[Row]) -> String {
    let tables = [&SPEED[..], &LATENCY[..]].map(|headline| table(rows, headline));
    let mut text = String::new();
    for table in tables.into_iter().flatten() {
        text += &format!("{table}\n");
    }
    text
}

fn table(rows: &[Row], headline: &[Column]) -> Option<Table> {
    let columns: Vec<&Column> = headline.iter().chain(&COSTS).collect();
    let mut lines: Vec<(&str, &str)> = rows
        .iter()
        .filter(|row| {
            headline
                .iter()
                .any(|column| column.metrics.contains(&row.metric))
        })
        .map(|row| (row.case_name.as_str(), row.driver.as_str()))
        .collect();
    lines.dedup();
    let mut seen = std::collections::HashSet::new();
    lines.retain(|line| seen.insert(*line));
    if lines.is_empty() {
        return None;
    }
    let mut table = Table::new();
    table.load_preset(presets::UTF8_BORDERS_ONLY);
    let titles = columns.iter().map(|column| column.title);
    table.set_header(["case", "driver"].into_iter().chain(titles));
    for index in 2..columns.len() + 2 {
        if let Some(column) = table.column_mut(index) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut last = "";
    for (case, driver) in lines {
        let find = |column: &&Column| {
            rows.iter().find(|row| {
                row.case_name == case
                    && row.driver == driver
                    && column.metrics.contains(&row.metric)
            })
        };
        let cells = columns.iter().map(|column| match find(column) {
            Some(row) => cell(row, column.with_ratio),
            None => String::new(),
        });
        let shown = if case == last { "" } else { case };
        last = case;
        let start = [shown.to_owned(), driver.to_owned()];
        table.add_row(start.into_iter().chain(cells));
    }
    Some(table)
}

fn cell(row: &Row, with_ratio: bool) -> String {
    let median = number(row.median);
    match (row.ratio_to_c, row.low.zip(row.high)) {
        (Some(ratio), Some((low, high))) if with_ratio => {
            format!("{median} [{ratio:.2} {low:.2}–{high:.2}]")
        }
        (Some(ratio), None) if with_ratio => format!("{median} [{ratio:.2}]"),
        _ => median,
    }
}

/// Three digits that count.
fn number(value: f64) -> String {
    match value.abs() {
        v if v >= 100.0 || v == 0.0 => format!("{value:.0}"),
        v if v >= 10.0 => format!("{value:.1}"),
        v if v >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::Case;

    fn row(metric: Metric, driver: &str, median: f64, ratio: Option<f64>) -> Row {
        Row {
            rig: "rig".into(),
            case_name: Case::Connect.to_string(),
            case: Case::Connect,
            metric,
            driver: driver.into(),
            median,
            unit: metric.unit(Case::Connect),
            rounds: 3,
            ratio_to_c: ratio,
            low: ratio.map(|ratio| ratio - 0.1),
            high: ratio.map(|ratio| ratio + 0.1),
        }
    }

    #[test]
    fn a_driver_has_a_line_with_all_its_numbers() {
        let rows = [
            row(Metric::ConnectionRate, "c", 200.0, None),
            row(Metric::ConnectionRate, "ours", 300.0, Some(1.5)),
            row(Metric::Kicks, "c", 4.0, None),
            row(Metric::Kicks, "ours", 3.0, Some(0.75)),
        ];
        let text = text(&rows);
        let line = text.lines().find(|line| line.contains("ours")).unwrap();
        assert!(line.contains("300 [1.50 1.40–1.60]"), "{text}");
        assert!(line.contains("3.00"), "{text}");
        assert!(!text.contains("p99"), "{text}");
    }
}
