// SPDX-License-Identifier: GPL-2.0

//! The wire rig: two guests, each with a vhost-user vsock device, joined by one process that passes
//! their packets.

use super::Rig;
use super::hosted::{CONTROL_PORT, bring_up_network};
use crate::board::{Board, Seat};
use crate::choose::Accelerator;
use crate::error::{Error, Result};
use crate::machine::Machine;
use crate::pair::{ControlPath, Parts};
use crate::process::{Observer, Process};
use crate::progress::Step;
use crate::qemu::{self, BOOT_LIMIT, Ports, Vm, VmSpec};
use crate::sockets::SocketDir;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::Duration;

const DUT_CID: u32 = 3;
const FAR_CID: u32 = 4;

/// One of the two guests.
struct Guest<'a> {
    name: &'a str,
    cid: u32,
    /// Its number on the network that joins the two for what is not vsock.
    host: u8,
    other: u8,
}

const DUT: Guest<'_> = Guest {
    name: "dut",
    cid: DUT_CID,
    host: 1,
    other: 2,
};
const FAR: Guest<'_> = Guest {
    name: "far",
    cid: FAR_CID,
    host: 2,
    other: 1,
};

pub(super) fn boot(rig: &Rig, logs: &Path, step: &Step) -> Result<Parts> {
    let board = Board::new();
    let sockets = SocketDir::new()?;
    let seat = |guest: &Guest<'_>| board.seat(guest.name, false, logs, &rig.config.expected);
    let (dut_seat, far_seat) = (seat(&DUT)?, seat(&FAR)?);
    step.detail("starting the wire");
    let wire = start_wire(rig, &sockets, &dut_seat, logs)?;
    let (dut_vm, dut) = start(rig, &DUT, &sockets, &dut_seat, logs)?;
    let (far_vm, far) = start(rig, &FAR, &sockets, &far_seat, logs)?;
    for (guest, machine) in [(DUT, &dut), (FAR, &far)] {
        step.detail(format!("waiting for {}", guest.name));
        qemu::await_agent(machine, BOOT_LIMIT)?;
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
        // The wire ends last, because a guest whose device goes away has something to say of it.
        carriers: vec![
            Box::new(dut_vm),
            Box::new(far_vm),
            Box::new(wire),
            Box::new(sockets),
        ],
    })
}

fn address(host: u8) -> String {
    format!("10.99.0.{host}")
}

fn start_wire(rig: &Rig, sockets: &SocketDir, seat: &Seat, logs: &Path) -> Result<Process> {
    const LIMIT: Duration = Duration::from_secs(20);
    let mut command = Command::new(&rig.config.programs.wire);
    for guest in [DUT, FAR] {
        let socket = device_socket(sockets, &guest);
        command
            .arg("--port")
            .arg(format!("cid={},socket={}", guest.cid, socket.display()));
    }
    command.arg("--stats").arg(logs.join("wire-stats.json"));
    command.args(&rig.config.wire_options).stdin(Stdio::null());
    let log = logs.join("wire.log");
    let (tell, ready) = channel();
    let observer = WireObserver {
        seat: seat.clone(),
        ready: Some(tell),
        log: log.clone(),
    };
    // Asked to end, it writes its counters.
    let process = Process::start(&mut command, &log, observer)?.gently();
    match ready.recv_timeout(LIMIT) {
        Ok(()) => Ok(process),
        Err(RecvTimeoutError::Timeout) => Err(Error::TimedOut {
            machine: "the wire".into(),
            what: "the line `ready`".into(),
            after: LIMIT,
        }),
        Err(RecvTimeoutError::Disconnected) => {
            seat.check()?;
            Err(Error::Setup(format!(
                "the wire ended before it was ready; see {}",
                log.display()
            )))
        }
    }
}

/// Hears of the wire's readiness, and posts its end as the end of a guest.
struct WireObserver {
    seat: Seat,
    ready: Option<Sender<()>>,
    log: PathBuf,
}

impl Observer for WireObserver {
    fn said(&mut self, line: &str) {
        if line.trim() == "ready" {
            // Taken, so that it closes; the receiver may have given up.
            let _ = self.ready.take().map(|ready| ready.send(()));
        }
    }

    fn ended(&mut self, status: ExitStatus) {
        let said = std::fs::read_to_string(&self.log).unwrap_or_default();
        self.seat
            .gone(format!("the wire ended ({status}) {}", said.trim_end()));
        self.ready = None;
    }
}

fn device_socket(sockets: &SocketDir, guest: &Guest<'_>) -> PathBuf {
    sockets.path(&format!("{}-vsock", guest.name))
}

fn start(
    rig: &Rig,
    guest: &Guest<'_>,
    sockets: &SocketDir,
    seat: &Seat,
    logs: &Path,
) -> Result<(Vm, Machine)> {
    let config = &rig.config;
    let mut spec = VmSpec {
        name: guest.name.into(),
        accelerator: config.accelerator,
        cpu: match config.accelerator {
            Accelerator::Tcg => "max".into(),
            Accelerator::Kvm => "host".into(),
        },
        cpus: config.cpus,
        memory: config.memory,
        kernel: config.kernel.image(),
        initrd: rig.image.path().into(),
        cmdline: String::new(),
        options: Vec::new(),
    };
    let device = device_socket(sockets, guest);
    spec.option(
        "-chardev",
        format!("socket,id=vsock,path={}", device.display()),
    );
    spec.option(
        "-device",
        "vhost-user-vsock-pci,id=vsock0,chardev=vsock,bus=slot0",
    );
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
    let machine = qemu::connect(seat, connected, guest.cid, rig.image.manifest())?;
    Ok((vm, machine))
}
