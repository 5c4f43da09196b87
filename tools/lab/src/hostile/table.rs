// SPDX-License-Identifier: GPL-2.0
//! Both drivers side by side.

use comfy_table::{ContentArrangement, Table, presets};

use super::seen::{Row, Seen};

/// The width of the table where the terminal does not tell its own.
const WIDTH: u16 = 150;

/// The table, for the terminal.
pub(crate) fn text(rows: &[Row]) -> String {
    let mut table = Table::new();
    table
        .load_preset(presets::UTF8_FULL_CONDENSED)
        .set_content_arrangement(ContentArrangement::Dynamic);
    if table.width().is_none() {
        table.set_width(WIDTH);
    }
    table.set_header([
        "script",
        "packets",
        "the C driver answers",
        "ours answers",
        "ours counts",
        "verdict",
    ]);
    for row in rows {
        table.add_row([
            row.name.clone(),
            packets(row),
            answers(&row.c, true),
            answers(&row.ours, false),
            counts(&row.ours),
            verdict(row),
        ]);
    }
    format!("{table}")
}

fn packets(row: &Row) -> String {
    let ours = row.ours.as_ref().ok();
    ours.map_or_else(|| "-".into(), |seen| seen.report.sent.to_string())
}

fn answers(seen: &Result<Seen, String>, with_faults: bool) -> String {
    let mut lines = match seen {
        Ok(seen) => seen.answers(),
        Err(end) => vec![format!("DIED: {}", first_lines(end))],
    };
    if let (Ok(seen), true) = (seen, with_faults) {
        lines.extend(
            seen.faults
                .iter()
                .map(|fault| format!("FAULT: {}", first_lines(fault))),
        );
    }
    lines.join("\n")
}

/// Why packets were dropped, and what else is worth a look.
fn counts(seen: &Result<Seen, String>) -> String {
    let counters = seen.as_ref().ok().and_then(|seen| seen.counters.as_ref());
    let Some(counters) = counters else {
        return String::new();
    };
    let names = [
        "rx_packets",
        "rx_drop_short",
        "rx_drop_long",
        "rx_drop_payload",
        "replies_stalled",
    ];
    let told = names.iter().filter_map(|name| match counters.get(name) {
        Ok(0) | Err(_) => None,
        Ok(count) => Some(format!("{name} {count}")),
    });
    told.collect::<Vec<_>>().join("\n")
}

fn verdict(row: &Row) -> String {
    let complaints = row.complaints();
    if complaints.is_empty() {
        return match &row.c {
            Ok(c) if c.faults.is_empty() && row.timing => "well".into(),
            Ok(c) if c.faults.is_empty() => "same".into(),
            _ => "ok; C is not".into(),
        };
    }
    let lines = complaints.iter().map(|complaint| first_lines(complaint));
    format!("FAILED\n{}", lines.collect::<Vec<_>>().join("\n"))
}

fn first_lines(text: &str) -> String {
    const LINES: usize = 4;
    text.lines().take(LINES).collect::<Vec<_>>().join("\n")
}
