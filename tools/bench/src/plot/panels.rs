// SPDX-License-Identifier: GPL-2.0
//! A picture of panels side by side.

use std::path::Path;

use anyhow::{Result, anyhow};
use plotters::coord::Shift;
use plotters::prelude::*;

/// A part of a picture that is drawn into.
pub(super) type Panel<'a> = DrawingArea<SVGBackend<'a>, Shift>;

const WIDTH: u32 = 560;
const HEIGHT: u32 = 420;
const TITLE: u32 = 40;
const COLUMNS: usize = 2;

/// Colours that are told apart by people who see fewer of them, too (Okabe and Ito's).
const COLOURS: [RGBColor; 7] = [
    RGBColor(0x33, 0x33, 0x33),
    RGBColor(0xd5, 0x5e, 0x00),
    RGBColor(0x00, 0x72, 0xb2),
    RGBColor(0x00, 0x9e, 0x73),
    RGBColor(0xcc, 0x79, 0xa7),
    RGBColor(0xe6, 0x9f, 0x00),
    RGBColor(0x56, 0xb4, 0xe9),
];

/// The colour of the n-th driver.
pub(super) fn colour(n: usize) -> RGBColor {
    COLOURS[n % COLOURS.len()]
}

/// A size as people say it.
pub(super) fn size(bytes: usize) -> String {
    match bytes {
        bytes if bytes >= 1024 => format!("{} KiB", bytes / 1024),
        bytes => format!("{bytes} B"),
    }
}

/// Draws `count` panels under a title; nothing if there are none.
pub(super) fn draw(
    path: &Path,
    title: &str,
    count: usize,
    mut panel: impl FnMut(usize, &Panel<'_>) -> Result<()>,
) -> Result<()> {
    if count == 0 {
        return Ok(());
    }
    let columns = count.min(COLUMNS);
    let lines = count.div_ceil(columns);
    let picture = (
        WIDTH * u32::try_from(columns)?,
        HEIGHT * u32::try_from(lines)? + TITLE,
    );
    let root = SVGBackend::new(path, picture).into_drawing_area();
    root.fill(&WHITE).map_err(failed)?;
    let font = ("sans-serif", 20);
    let below = root.titled(title, font).map_err(failed)?;
    for (index, area) in below.split_evenly((lines, columns)).iter().enumerate() {
        if index < count {
            panel(index, area)?;
        }
    }
    root.present().map_err(failed)
}

/// Plotters' errors borrow; ours do not.
pub(super) fn failed(error: impl std::fmt::Display) -> anyhow::Error {
    anyhow!("{error}")
}
