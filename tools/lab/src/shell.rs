// SPDX-License-Identifier: GPL-2.0
//! `lab shell`: a prompt in a guest, with somebody to talk to.

use std::time::Duration;

use anyhow::{Result, ensure};
use rig::{Driver, Pair, Rig, RigKind};
use vsock_peer::report::Line;

use crate::case::fixture::Subject;
use crate::workbench::Workbench;

/// The longest that the echo may take to be there.
const PATIENCE: Duration = Duration::from_secs(20);

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
    let (here, there) = match options.far {
        false => (pair.dut(), pair.far()),
        true => (pair.far(), pair.dut()),
    };
    let echo = ["vsock-peer".into(), "echo".into(), format!("--port={PORT}")];
    // It ends with the shell.
    let mut echo = there.spawn(echo)?;
    echo.wait_line("the port it listens on", PATIENCE, Line::listening_port)?;
    println!("{}", welcome(&pair, options, there.cid()));
    here.shell()?;
    drop(echo);
    pair.power_off()?;
    Ok(())
}

fn welcome(pair: &Pair, options: &Options, there: u32) -> String {
    let kind = pair.kind();
    let driver = options.driver.driver();
    let driver = driver.name();
    let other = match options.driver {
        Subject::Rust => Driver::c(),
        Subject::C => Driver::rust(),
    };
    let other = other.name();
    let here = match options.far {
        false => format!("the guest of the {kind} rig, with {driver} loaded"),
        true => format!("the far side of the {kind} rig; its guest has {driver} loaded"),
    };
    format!(
        "
You are on {here}.
On the other side, CID {there}, an echo listens on port {PORT}. Things to try:

  vsock-peer connect --cid {there} --port {PORT} --flow bounce
      send 1 MiB there and back; every byte is compared
  cat /sys/kernel/debug/virtio_vsock_rs/stats
      what the driver in the guest has counted
  echo 0 > /sys/kernel/debug/virtio_vsock_rs/rx_batch
      without batching; 1 brings it back
  rmmod {driver} && modprobe {other}
      the other driver instead
  vsock_perf --help; vsock_test --help
      the kernel's own programs

`exit` or Ctrl-] ends it.
"
    )
}
