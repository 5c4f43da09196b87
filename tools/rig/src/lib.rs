// SPDX-License-Identifier: GPL-2.0

//! Kernels, guest images, virtual machines, and the rigs made of them.
//!
//! The way through, in the order a caller takes it:
//!
//! 1. [`Checkout::find`], [`Cache::open`] and [`Progress::new`]: where things are, and how to tell of work.
//! 2. [`Kernel::prepare`]: a stock Debian kernel, its source made ready for modules, its vsock tests.
//! 3. [`Programs::build`]: the agent, the traffic program and the wire.
//! 4. [`Choice::make`]: which [`RigKind`] this machine can carry, and why.
//! 5. [`Rig::open`], then [`Rig::run_part`] (or [`Rig::boot`]): a [`Pair`] of machines, one with the driver
//!    under test and its peer, on each of which a [`Machine`] handle runs [`Job`]s.

mod alone;
mod beat;
mod board;
mod cache;
mod checkout;
mod choose;
mod driver;
mod error;
mod fault;
mod image;
mod job;
mod journal;
mod kernel;
mod link;
mod logged;
mod machine;
mod pair;
mod process;
mod programs;
mod progress;
mod qemu;
mod rig;
mod setup;
mod share;
mod sockets;
mod stall;
mod terminal;
mod until;
mod wire;

pub use alone::Alone;
pub use cache::Cache;
pub use checkout::{Checkout, RunDir};
pub use choose::{Accelerator, Choice, RigKind};
pub use driver::Driver;
pub use error::{Error, Result};
pub use fault::Expected;
pub use job::{Job, Output, Program};
pub use kernel::{Kernel, TestPrograms};
pub use logged::logged;
pub use machine::{Machine, Mark, ModuleInfo};
pub use pair::{ControlPath, Pair, Side};
pub use programs::Programs;
pub use progress::{Progress, Step};
pub use proto::{Exit, KlogRecord, Level};
pub use qemu::{Qmp, VsockDevice};
pub use rig::{Rig, RigConfig};
pub use setup::GuestSetup;
pub use stall::Stalls;
pub use wire::{Script, Wire};
