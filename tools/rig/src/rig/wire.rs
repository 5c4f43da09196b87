// SPDX-License-Identifier: GPL-2.0

//! The wire rig: two guests, each with a vhost-user vsock device, joined by one process that passes
//! their packets.

mod alone;
mod device;

pub(super) use alone::boot as boot_alone;

use super::Rig;
use super::hosted::{CONTROL_PORT, bring_up_network};
use crate::board::{BOOT_LIMIT, Board, Seat};
use crate::choose::Accelerator;
use crate::error::Result;
use crate::fault::Expected;
use crate::machine::{Machine, Traits};
use crate::pair::{ControlPath, Parts};
use crate::process::Process;
use crate::progress::Step;
use crate::qemu::{self, Chassis, Ports, Vm, VmSpec, VsockBackend, VsockDevices};
use crate::setup::GuestSetup;
use crate::share;
use crate::sockets::SocketDir;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// One of the two guests.
struct Guest<'a> {
    name: &'a str,
    /// The addresses of its first and its second device.
    cids: [u32; 2],
    /// Its number on the network that joins the two for what is not vsock.
    host: u8,
    other: u8,
}

/// The processes that carry a guest, ended in this order.
struct Carriers {
    _vm: Vm,
    _share: Option<Process>,
}

const DUT: Guest<'_> = Guest {
    name: "dut",
    cids: [3, 5],
    host: 1,
    other: 2,
};
const FAR: Guest<'_> = Guest {
    name: "far",
    cids: [4, 6],
    host: 2,
    other: 1,
};

pub(super) fn boot(rig: &Rig, logs: &Path, step: &Step) -> Result<Parts> {
    let board = Board::new();
    let sockets = SocketDir::new()?;
    let seat = |guest: &Guest<'_>| board.seat(guest.name, false, logs, &rig.config.expected);
    let (dut_seat, far_seat) = (seat(&DUT)?, seat(&FAR)?);
    step.detail("starting the wire");
    let ports: Vec<_> = [DUT, FAR]
        .iter()
        .flat_map(|guest| guest.ports(&sockets))
        .collect();
    let (wire, control_of_wire) = device::start(rig, &ports, &sockets, &dut_seat, logs)?;
    let (dut_vm, dut) = start(rig, &DUT, &sockets, &dut_seat, logs)?;
    let (far_vm, far) = start(rig, &FAR, &sockets, &far_seat, logs)?;
    for (guest, machine) in [(DUT, &dut), (FAR, &far)] {
        step.detail(format!("waiting for {}", guest.name));
        qemu::await_agent(machine, boot_limit(rig))?;
        bring_up_network(machine, &address(guest.host))?;
    }
    let control = |guest: &Guest<'_>| ControlPath {
        listen: CONTROL_PORT,
        host: address(guest.host),
        port: CONTROL_PORT,
    };
    Ok(Parts {
        dut,
        far,
        to_dut: control(&DUT),
        to_far: control(&FAR),
        wire: Some(control_of_wire),
        carried: None,
        // The wire ends last, because a guest whose device goes away has something to say of it.
        carriers: vec![
            Box::new(dut_vm),
            Box::new(far_vm),
            Box::new(wire),
            Box::new(sockets),
        ],
    })
}

/// The longest that a guest may take to boot.
fn boot_limit(rig: &Rig) -> Duration {
    // Its checkers make a debug kernel several times as slow.
    match rig.config.kernel.is_debug() {
        true => 3 * BOOT_LIMIT,
        false => BOOT_LIMIT,
    }
}

fn address(host: u8) -> String {
    format!("10.99.0.{host}")
}

impl Guest<'_> {
    /// The wire's sockets for its two devices.
    fn sockets(&self, sockets: &SocketDir) -> [PathBuf; 2] {
        ["vsock", "spare"].map(|device| sockets.path(&format!("{}-{device}", self.name)))
    }

    /// The wire's ports for them.
    fn ports(&self, sockets: &SocketDir) -> impl Iterator<Item = (u32, PathBuf)> {
        self.cids.into_iter().zip(self.sockets(sockets))
    }
}

fn start(
    rig: &Rig,
    guest: &Guest<'_>,
    sockets: &SocketDir,
    seat: &Seat,
    logs: &Path,
) -> Result<(Carriers, Machine)> {
    let config = &rig.config;
    let under_test = guest.name == DUT.name;
    // The peer is as usual, whatever the guest under test is like.
    let setup = match under_test {
        true => config.setup.clone(),
        false => GuestSetup::default(),
    };
    let (kernel, image) = match (&config.far_kernel, &rig.far_image) {
        (Some(kernel), Some(image)) if !under_test => (kernel, image),
        _ => (&config.kernel, &rig.image),
    };
    let mut spec = VmSpec {
        name: guest.name.into(),
        chassis: Chassis::Shared,
        accelerator: config.accelerator,
        cpu: match config.accelerator {
            Accelerator::Tcg => "max".into(),
            Accelerator::Kvm => "host".into(),
        },
        cpus: config.cpus,
        memory: config.memory,
        kernel: kernel.image(),
        initrd: image.path().into(),
        cmdline: format!("{} {}", kernel.command_line(), setup.command_line()),
        keeps_ports: setup.is_sleeper(),
        options: Vec::new(),
    };
    let lab_root = config.lab_root && !setup.is_sleeper();
    if setup.has_native_hotplug() {
        spec.option(
            "-global",
            "ICH9-LPC.acpi-pci-hotplug-with-bridge-support=off",
        );
    }
    let vsock = VsockDevices {
        backend: VsockBackend::Wire(guest.sockets(sockets)),
        setup,
    };
    vsock.add_first(&mut spec);
    let share = match lab_root {
        true => Some(share::serve(&mut spec, sockets, seat, logs)?),
        false => None,
    };
    let network = |host: u8| sockets.path(&format!("network{host}"));
    let (local, remote) = (network(guest.host), network(guest.other));
    spec.option(
        "-netdev",
        format!(
            "dgram,id=network,local.type=unix,local.path={},remote.type=unix,remote.path={}",
            local.display(),
            remote.display()
        ),
    );
    let mac = format!("52:54:00:00:00:{:02x}", guest.host);
    spec.option(
        "-device",
        format!("virtio-net-pci,netdev=network,mac={mac}"),
    );
    let ports = Ports::listen(sockets, guest.name)?;
    let wiring = ports.wiring();
    let (vm, connected) = Vm::start(&spec, ports, &wiring, seat, logs)?;
    let machine = qemu::connect(
        seat,
        connected,
        Traits {
            cid: guest.cids[0],
            manifest: image.manifest().clone(),
            vsock: Some(vsock),
            lab_root,
            // A report of a race is many lines above notice level, and the kernel's own code races as
            // well. What else a kernel may not say is looked at on the others.
            noise: match kernel.looks_for_races() {
                true => Expected::anything(),
                false => Expected::noise_of(config.accelerator),
            },
        },
    )?;
    Ok((
        Carriers {
            _vm: vm,
            _share: share,
        },
        machine,
    ))
}
