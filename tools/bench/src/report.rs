// SPDX-License-Identifier: GPL-2.0
//! What is shown and kept of a run.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use rig::{RigKind, Stalls};

use crate::case::Case;
use crate::leaving::Leaving;
use crate::options::Options;
use crate::plot;
use crate::sample::Sample;
use crate::summary::{self, Row};
use crate::table;

/// What was measured on one rig.
#[derive(Debug)]
pub(crate) struct Measurements {
    /// Which rig.
    pub kind: RigKind,
    /// The cases, in the order of the table.
    pub cases: Vec<Case>,
    /// The drivers, the baseline first.
    pub drivers: Vec<String>,
    /// Rounds, without the one with probes.
    pub rounds: u32,
    /// How often the rig stalled.
    pub stalls: Stalls,
    /// How threads were pinned to CPUs, where that is of use.
    pub pinned: Option<String>,
    /// What leaving the guest costs, where that has a host of its own.
    pub leaving: Leaving,
    /// Every transfer.
    pub samples: Vec<Sample>,
}

/// A report that grows by rigs; what is there is kept even if the next rig fails.
#[derive(Debug)]
pub(crate) struct Report {
    folder: PathBuf,
    machine: String,
    rows: Vec<Row>,
    text: String,
}

impl Report {
    /// An empty one, in a folder that is made.
    pub(crate) fn open(folder: &Path, machine: &str, options: &Options) -> Result<Self> {
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        // What an earlier run has left must not look like this one's.
        for entry in
            fs::read_dir(folder).with_context(|| format!("reading {}", folder.display()))?
        {
            let path = entry?.path();
            if path.is_file() {
                fs::remove_file(&path).with_context(|| format!("removing {}", path.display()))?;
            }
        }
        let quick = if options.quick {
            "QUICK: few rounds, short transfers; the intervals say how little is certain.\n"
        } else {
            ""
        };
        Ok(Report {
            folder: folder.into(),
            machine: format!("{machine}\n{quick}"),
            rows: Vec::new(),
            text: String::new(),
        })
    }

    /// Shows and keeps what was measured on a rig.
    pub(crate) fn add(&mut self, measured: Measurements) -> Result<()> {
        let rows = summary::rows(&measured.samples, &measured.cases, &measured.drivers);
        let mut text = String::new();
        if self.text.is_empty() {
            text += &format!("{}{}", self.machine, table::LEGEND);
        }
        let pinned = measured.pinned.as_ref();
        text += &format!(
            "\nThe {} rig, {} rounds, {}{}.\n{}{}",
            measured.kind,
            measured.rounds,
            measured.stalls,
            pinned.map(|how| format!("; {how}")).unwrap_or_default(),
            measured.leaving,
            table::text(&rows)
        );
        print!("{text}");
        self.text += &text;
        plot::all(&self.folder, &measured, &rows)?;
        self.rows.extend(rows);
        self.write("table.txt", &self.text)?;
        self.write("summary.json", &serde_json::to_string_pretty(&self.rows)?)
    }

    /// Says where everything is.
    pub(crate) fn finish(self) -> Result<()> {
        println!(
            "\nkept in {}: table.txt, summary.json, plots as SVG, each transfer in samples-*.jsonl",
            self.folder.display()
        );
        Ok(())
    }

    fn write(&self, name: &str, contents: &str) -> Result<()> {
        let path = self.folder.join(name);
        fs::write(&path, contents).with_context(|| format!("writing {}", path.display()))
    }
}
