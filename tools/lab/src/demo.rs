// SPDX-License-Identifier: GPL-2.0
//! `lab demo`: the C driver and this one in the same guest, by turns, and a table of both.

mod measure;
mod table;

use std::fs;
use std::time::Duration;

use anyhow::{Context as _, Result};
use rig::{Driver, Rig, RigKind, Stalls};

use crate::workbench::Workbench;
use measure::{Measured, measure};

/// What to measure.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Only on this rig: wire, nested or kvm. Otherwise on the wire and on a real host.
    #[arg(long)]
    rig: Option<RigKind>,
    /// Seconds of measuring on each rig; more make more rounds.
    #[arg(long, default_value_t = 45)]
    seconds: u64,
    /// The driver that is put beside C's; with c, the same one, which shows the spread.
    #[arg(long, value_enum, default_value = "rust")]
    driver: crate::case::fixture::Subject,
}

/// Measures, prints the table, and keeps it in `build/demo`.
pub(crate) fn demo(options: &Options) -> Result<()> {
    let workbench = Workbench::open("demo")?;
    let module = match options.driver {
        crate::case::fixture::Subject::Rust => Some(workbench.module()?),
        crate::case::fixture::Subject::C => None,
    };
    let kinds = match options.rig {
        Some(kind) => vec![kind],
        None => workbench.choice.kinds(),
    };
    let drivers = [Driver::c(), options.driver.driver()];
    let budget = Duration::from_secs(options.seconds);
    let mut stalls = Stalls::default();
    let mut measured: Vec<Measured> = Vec::new();
    for kind in kinds {
        let config = workbench.rig_config(module.as_deref());
        let rig = Rig::open(kind, config, &workbench.run, &workbench.progress)?;
        let name = format!("demo on the {kind} rig");
        measured.push(
            rig.run_part(&name, &mut stalls, &workbench.progress, |pair| {
                measure(pair, &drivers, budget, &workbench.progress)
            })?,
        );
    }

    let head = table::head(&workbench, &stalls);
    let names = [drivers[0].name(), drivers[1].name()];
    let text = format!("{head}\n{}", table::text(&measured, names));
    print!("\n{text}");

    let folder = workbench.checkout.top().join("build/demo");
    let keep = |name: &str, contents: &str| {
        let path = folder.join(name);
        fs::write(&path, contents).with_context(|| format!("writing {}", path.display()))
    };
    fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
    keep("table.txt", &text)?;
    let markdown = format!("{head}\n{}", table::markdown(&measured, names));
    keep("table.md", &markdown)?;
    let json = serde_json::to_string_pretty(&measured)?;
    keep("rounds.json", &json)?;
    println!(
        "\nkept in {}; logs are in {}",
        folder.display(),
        workbench.run.path().display()
    );
    Ok(())
}
