// SPDX-License-Identifier: GPL-2.0

//! Virtual machines.

mod launch;
mod monitor;
mod probe;
mod spec;
mod vsock;

pub(crate) use launch::{Ports, Vm, await_agent, connect};
pub use monitor::Qmp;
pub(crate) use probe::probe;
pub(crate) use spec::{Backend, Chassis, VmSpec, Wiring};
pub use vsock::VsockDevice;
pub(crate) use vsock::{VsockBackend, VsockDevices};
