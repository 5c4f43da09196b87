// SPDX-License-Identifier: GPL-2.0

//! One guest on the wire, with nothing at the other end but the wire's own services.

use super::{DUT, boot_limit, device, start};
use crate::alone::Alone;
use crate::board::Board;
use crate::error::Result;
use crate::progress::Step;
use crate::qemu;
use crate::rig::Rig;
use crate::sockets::SocketDir;
use std::path::Path;

pub(in crate::rig) fn boot(rig: &Rig, logs: &Path, step: &Step) -> Result<Alone> {
    let board = Board::new();
    let sockets = SocketDir::new()?;
    let seat = board.seat(DUT.name, false, logs, &rig.config.expected)?;
    step.detail("starting the wire");
    let ports: Vec<_> = DUT.ports(&sockets).collect();
    let (process, wire) = device::start(rig, &ports, &sockets, &seat, logs)?;
    step.detail("waiting for the guest");
    let (vm, dut) = start(rig, &DUT, &sockets, &seat, logs)?;
    qemu::await_agent(&dut, boot_limit(rig))?;
    Ok(Alone::new(
        dut,
        wire,
        logs.join(device::STATS),
        // The wire ends after the guest, and writes its counters then.
        vec![Box::new(vm), Box::new(process), Box::new(sockets)],
    ))
}
