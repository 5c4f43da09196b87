// SPDX-License-Identifier: GPL-2.0
//! The demo's table, for the terminal and for a README.

use bench::spread::Spread;
use comfy_table::{CellAlignment, Table, presets};
use rig::{RigKind, Stalls};

use super::measure::{Measured, Row, Way};
use crate::workbench::Workbench;

/// What the numbers were measured on, and how.
pub(crate) fn head(workbench: &Workbench, stalls: &Stalls) -> String {
    let kernel = workbench.kernel_name();
    let mut head = format!(
        "Both drivers in one guest, by turns, on {kernel}.\n\
         vsock_perf, Gbit/s at the receiver: median (middle half) of the rounds;\n\
         the ratio is taken round by round.\n\
         {}\n",
        workbench.choice.why()
    );
    if stalls.count() > 0 {
        head += &format!("{stalls}.\n");
    }
    head
}

/// For the terminal.
pub(crate) fn text(measured: &[Measured], drivers: [&str; 2]) -> String {
    render(measured, drivers, presets::UTF8_FULL_CONDENSED)
}

/// For a README.
pub(crate) fn markdown(measured: &[Measured], drivers: [&str; 2]) -> String {
    render(measured, drivers, presets::ASCII_MARKDOWN)
}

fn render(measured: &[Measured], drivers: [&str; 2], preset: &str) -> String {
    let mut table = Table::new();
    table.load_preset(preset);
    table.set_header([
        "rig",
        "way",
        "write size",
        drivers[0],
        drivers[1],
        "ratio",
        "rounds",
    ]);
    for column in 2..7 {
        if let Some(column) = table.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    for rig in measured {
        for row in &rig.rows {
            table.add_row(cells(rig, row));
        }
    }
    format!("{table}\n")
}

fn cells(rig: &Measured, row: &Row) -> [String; 7] {
    let shown = |spread: Option<Spread>| spread.map_or("-".into(), |spread| spread.to_string());
    [
        rig.rig.clone(),
        way(rig.kind, row.way).to_owned(),
        size(row.write_size),
        shown(row.rates(0)),
        shown(row.rates(1)),
        shown(row.ratio()),
        row.gbits[0].len().to_string(),
    ]
}

/// On the wire, the far side is a guest as well.
fn way(kind: RigKind, way: Way) -> &'static str {
    match (kind, way) {
        (RigKind::Wire, Way::HostToGuest) => "peer → guest",
        (RigKind::Wire, Way::GuestToHost) => "guest → peer",
        (_, Way::HostToGuest) => "host → guest",
        (_, Way::GuestToHost) => "guest → host",
    }
}

fn size(bytes: u64) -> String {
    match bytes {
        bytes if bytes >= 1024 => format!("{} KiB", bytes / 1024),
        bytes => format!("{bytes} B"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_has_medians_and_the_ratio_of_its_rounds() {
        let row = Row {
            way: Way::HostToGuest,
            write_size: 65_536,
            bytes: 1 << 20,
            gbits: [vec![1.0, 2.0, 4.0], vec![2.0, 2.0, 8.0]],
        };
        let measured = Measured {
            rig: "wire".into(),
            kind: RigKind::Wire,
            rows: vec![row],
        };
        let text = markdown(&[measured], ["c", "rust"]);
        assert!(text.contains("| peer → guest |"), "{text}");
        assert!(text.contains("64 KiB"), "{text}");
        assert!(text.contains("2.00 (1.50–2.00)"), "{text}");
    }
}
