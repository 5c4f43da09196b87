// SPDX-License-Identifier: GPL-2.0
//! `lab shell`: a prompt in a guest, with somebody to talk to.

use anyhow::{Result, ensure};
use rig::{Driver, Machine, Pair, Program, Rig, RigKind};

use crate::check::Subject;
use crate::workbench::Workbench;

/// Where the far side listens.
const PORT: u32 = 1234;

/// What to boot.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// wire, nested or kvm; the wire is what boots fastest.
    #[arg(long)]
    rig: Option<RigKind>,
    /// The driver that is loaded to begin with.
    #[arg(long, value_enum, default_value = "rust")]
    driver: Subject,
    /// Give the prompt to the far side instead of the guest with the driver.
    #[arg(long)]
    far: bool,
}

/// Boots, says what there is to try, and hands over the terminal.
pub(crate) fn shell(options: &Options) -> Result<()> {
    use std::io::IsTerminal as _;
    ensure!(
        std::io::stdin().is_terminal(),
        "the shell needs a terminal; `lab check` and `lab demo` do not"
    );
    let workbench = Workbench::open("shell")?;
    let module = workbench.module()?;
    let kind = options.rig.unwrap_or_else(|| workbench.choice.everyday());
    let config = workbench.rig_config(Some(&module));
    let rig = Rig::open(kind, config, &workbench.run, &workbench.progress)?;
    let pair = rig.boot(&workbench.progress)?;
    if kind == RigKind::Wire {
        pair.far().use_driver(&Driver::c())?;
    }
    pair.dut().use_driver(&options.driver.driver())?;
    // An echo for whoever connects, as long as the shell lasts.
    let echo = Program::new("vsock-peer").args(["listen", "--flow=echo", "--connections=1"]);
    let echo = echo.args([format!("--port={PORT}"), "--timeout=86400".into()]);
    let _echo = pair.far().spawn(echo)?;
    println!("{}", welcome(&pair, options));
    machine(&pair, options).shell()?;
    pair.power_off()?;
    Ok(())
}

fn machine<'a>(pair: &'a Pair, options: &Options) -> &'a Machine {
    if options.far { pair.far() } else { pair.dut() }
}

fn welcome(pair: &Pair, options: &Options) -> String {
    let (dut, far) = (pair.dut().cid(), pair.far().cid());
    let driver = options.driver.driver();
    let (driver, other) = (driver.name(), Driver::c());
    let other = other.name();
    let here = if options.far {
        "the far side"
    } else {
        "the guest"
    };
    format!(
        "
You are on {here} of the {kind} rig. The guest has CID {dut} and {driver} loaded;
its far side has CID {far}, where an echo listens on port {PORT}. Things to try:

  vsock-peer connect --cid {far} --port {PORT} --flow bounce    send 1 MiB there and back, compared
  cat /sys/kernel/debug/virtio_vsock_rs/stats                what the driver counted
  echo 0 > /sys/kernel/debug/virtio_vsock_rs/rx_batch        without batching (1: with)
  rmmod {driver} && modprobe {other}   the C driver instead
  vsock_perf, vsock_test                                     the kernel's own programs

`exit` or Ctrl-] ends it.
",
        kind = pair.kind()
    )
}
