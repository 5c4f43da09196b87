// SPDX-License-Identifier: GPL-2.0
//! `lab bench`: drivers side by side on both kinds of rigs; tables, and plots in `build/bench`.

use anyhow::Result;
use bench::{Bench, Options};
use rig::RigKind;

use crate::workbench::Workbench;

/// Measures, or only lists what would be measured.
pub(crate) fn bench(options: &Options) -> Result<()> {
    if options.list {
        options.list();
        return Ok(());
    }
    let workbench = Workbench::open("bench")?;
    let module = workbench.module()?;
    let choice = &workbench.choice;
    let kinds = match choice.kinds()[..] {
        [forced] => vec![forced],
        _ => vec![RigKind::GuestBound, choice.real_host()],
    };
    let kernel = workbench.kernel_name();
    let machine = format!(
        "Drivers in one guest by turns, on {kernel}.\n{}",
        choice.why()
    );
    let bench = Bench {
        config: workbench.rig_config(Some(&module)),
        kinds,
        machine,
        run: workbench.run.clone(),
        folder: workbench.checkout.top().join("build/bench"),
        progress: workbench.progress.clone(),
    };
    bench.measure(options)
}
