// SPDX-License-Identifier: GPL-2.0

//! The two machines of a rig that has booted.

use crate::choose::RigKind;
use crate::error::{Error, Result};
use crate::machine::Machine;
use crate::rig::Carried;
use crate::wire::Wire;
use std::any::Any;

/// One of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Side {
    /// The guest with the driver under test.
    Dut,
    /// Its peer: the other guest on the wire, the host elsewhere.
    Far,
}

/// How a program on one side reaches a TCP server on the other, for tests that talk over both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ControlPath {
    /// The port on which the server listens.
    pub listen: u16,
    /// The address that its client connects to.
    pub host: String,
    /// The port that its client connects to.
    pub port: u16,
}

/// A guest with the driver under test, and its peer; dropped, all of it is ended.
#[derive(Debug)]
pub struct Pair {
    kind: RigKind,
    dut: Machine,
    far: Machine,
    to_dut: ControlPath,
    to_far: ControlPath,
    wire: Option<Wire>,
    carried: Option<Carried>,
    /// The processes that carry the machines; ended in this order when the pair is dropped.
    carriers: Vec<Box<dyn Any + Send>>,
}

/// What a rig's boot has put together.
pub(crate) struct Parts {
    pub(crate) dut: Machine,
    pub(crate) far: Machine,
    pub(crate) to_dut: ControlPath,
    pub(crate) to_far: ControlPath,
    pub(crate) wire: Option<Wire>,
    /// The guest under test, where it is carried by the peer and can be moved.
    pub(crate) carried: Option<Carried>,
    pub(crate) carriers: Vec<Box<dyn Any + Send>>,
}

impl Side {
    /// The opposite one.
    pub fn other(self) -> Side {
        match self {
            Side::Dut => Side::Far,
            Side::Far => Side::Dut,
        }
    }
}

impl Pair {
    pub(crate) fn new(kind: RigKind, parts: Parts) -> Self {
        let Parts {
            dut,
            far,
            to_dut,
            to_far,
            wire,
            carried,
            carriers,
        } = parts;
        Pair {
            kind,
            dut,
            far,
            to_dut,
            to_far,
            wire,
            carried,
            carriers,
        }
    }

    /// Which kind of rig it is.
    pub fn kind(&self) -> RigKind {
        self.kind
    }

    /// The guest with the driver under test.
    pub fn dut(&self) -> &Machine {
        &self.dut
    }

    /// Its peer.
    pub fn far(&self) -> &Machine {
        &self.far
    }

    /// The machine on one side.
    pub fn side(&self, side: Side) -> &Machine {
        match side {
            Side::Dut => &self.dut,
            Side::Far => &self.far,
        }
    }

    /// How a TCP client on the other side reaches a server on `server`'s side.
    pub fn control_path(&self, server: Side) -> &ControlPath {
        match server {
            Side::Dut => &self.to_dut,
            Side::Far => &self.to_far,
        }
    }

    /// The wire between them, on the wire rig, which can be told to do what no honest device would.
    pub fn wire(&self) -> Option<&Wire> {
        self.wire.as_ref()
    }

    /// Moves the guest under test to another QEMU, in which it has another CID: its state is saved to a
    /// file, its QEMU ends, and another one begins from there. Programs of the guest are not asked. The
    /// nested rig does it.
    pub fn move_guest(&self, cid: u32) -> Result<()> {
        let carried = self.carried.as_ref().ok_or_else(|| {
            let kind = self.kind;
            Error::Setup(format!(
                "the {kind} rig cannot move its guest; take RIG=nested"
            ))
        })?;
        carried.move_to(&self.dut, &self.far, cid)
    }

    /// Fails if either machine is in trouble.
    pub fn check(&self) -> Result<()> {
        self.dut.check()
    }

    /// Waits until both machines' hearts have beaten on each of their CPUs, which says that all of them
    /// run. Fails with what is the matter with one that does not.
    pub fn check_hearts(&self) -> Result<()> {
        self.dut.check_heart()?;
        self.far.check_heart()
    }

    /// Switches both off in an orderly way, so that what their kernels say at the end is seen, too.
    pub fn power_off(mut self) -> Result<()> {
        self.dut.power_off()?;
        self.far.power_off()?;
        self.carried = None;
        self.carriers.clear();
        Ok(())
    }
}
