// SPDX-License-Identifier: GPL-2.0
//! Measures drivers side by side: several in one guest, by turns, in rounds.
//!
//! In the order of a run: [`options`] say what is wanted, [`case`] has the table of what is measured and
//! [`contender`] the drivers; [`campaign`] boots rigs and goes through the rounds, in each of which
//! [`traffic`] makes one transfer at a time on a [`site`], on the CPU that [`placement`] says, and [`meter`] counts what is too costly to
//! count while it is timed. Every transfer is kept as a [`sample`]; [`summary`] makes medians and, by
//! [`ratio`], ratios with intervals of them, and [`table`] and [`plot`] show these.

#![forbid(unsafe_code)]

mod batches;
mod campaign;
mod case;
mod contender;
mod exits;
mod leaving;
mod meter;
mod metric;
mod options;
pub mod perf;
mod pin;
mod placement;
mod plot;
mod ratio;
mod report;
mod sample;
mod schedule;
mod site;
mod sizes;
pub mod spread;
mod summary;
mod table;
mod traffic;

pub use campaign::Bench;
pub use options::Options;
