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
