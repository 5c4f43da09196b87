// SPDX-License-Identifier: GPL-2.0

//! Boots a rig, loads the kernel's own driver on both sides and runs vsock_perf in both directions.
//!
//! `tools/labroot.sh run cargo run -p rig --example smoke -- [wire|nested|kvm] [MODULE.ko]`, from the
//! folder `tools`; with a module, the guest under test runs with that one as well.

use anyhow::{Context as _, Result, ensure};
use rig::{
    Cache, Checkout, Choice, Driver, Expected, Kernel, Pair, Program, Programs, Progress, Rig,
    RigConfig, RigKind, Side, Stalls,
};
use std::path::Path;
use std::time::Duration;

const LIMIT: Duration = Duration::from_secs(60);

fn main() -> Result<()> {
    let mut arguments = std::env::args().skip(1);
    let kind = arguments.next();
    let modules: Vec<String> = arguments.collect();
    let checkout = Checkout::find()?;
    let cache = Cache::open()?;
    let progress = Progress::new();
    let run = checkout.new_run("smoke")?;
    let kernel = Kernel::prepare(&cache, &progress)?;
    let programs = Programs::build(&checkout, &progress)?;
    let choice = Choice::make(&cache, &kernel, &programs, &run, &progress)?;
    progress.say(choice.why());
    let kind: RigKind = match kind {
        Some(name) => name.parse()?,
        None => choice.everyday(),
    };

    let mut config = RigConfig::new(&kernel, &programs);
    config.accelerator = choice.accelerator();
    let mut drivers = vec![Driver::c()];
    for module in &modules {
        config = config.module(module);
        let name = Path::new(module)
            .file_stem()
            .context("a module's file has a name")?;
        drivers.push(Driver::module(name.to_string_lossy()));
    }
    let rig = Rig::open(kind, config, &run, &progress)?;
    let mut stalls = Stalls::default();
    rig.run_part("smoke", &mut stalls, &progress, |pair| {
        if kind == RigKind::Wire {
            pair.far().use_driver(&Driver::c())?;
        }
        for driver in &drivers {
            let mark = pair.dut().mark()?;
            pair.dut().use_driver(driver)?;
            for receiver in [Side::Dut, Side::Far] {
                let rate = perf(pair, receiver)?;
                println!("{kind}, {}, {receiver:?} receives: {rate}", driver.name());
            }
            pair.dut()
                .check_quiet(mark, &Expected::out_of_tree_module())?;
        }
        Ok(())
    })?;
    println!("{stalls}");
    Ok(())
}

/// What the receiver says of the throughput.
fn perf(pair: &Pair, receiver: Side) -> Result<String> {
    let (to, from) = (pair.side(receiver), pair.side(receiver.other()));
    let receiving = to.spawn(Program::new("vsock_perf").args(["--rcvlowat", "1"]))?;
    let cid = to.cid().to_string();
    let sending = ["--sender", &cid, "--bytes", "8M", "--buf-size", "4K"];
    let sending = Program::new("vsock_perf").args(sending);
    // The receiver does not say when it listens, so the sender tries until it does.
    while !from.run(sending.clone(), LIMIT)?.exit.success() {
        ensure!(
            receiving.exit().is_none(),
            "vsock_perf ended early: {}",
            receiving.tail()
        );
    }
    let text = receiving.wait(LIMIT)?.success()?.text();
    let line = text.lines().find(|line| line.contains("rx performance"));
    Ok(line.unwrap_or(&text).trim().to_owned())
}
