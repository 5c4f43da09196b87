// SPDX-License-Identifier: GPL-2.0

//! The kvm rig: the guest runs directly under this machine's KVM, and the host side is this machine.

use super::Rig;
use super::hosted;
use crate::beat::watch_heart;
use crate::board::{BOOT_LIMIT, Board, Seat};
use crate::choose::Accelerator;
use crate::error::{Error, IoContext as _, Result};
use crate::fault::Expected;
use crate::link::Link;
use crate::machine::{Machine, Traits};
use crate::pair::Parts;
use crate::process::Process;
use crate::progress::Step;
use crate::qemu::{self, Chassis, Ports, Vm, VmSpec, VsockBackend, VsockDevices};
use crate::sockets::SocketDir;
use std::net::TcpListener;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::Arc;
use std::time::Duration;

/// A process of this machine answers at once.
const CONNECT_LIMIT: Duration = Duration::from_secs(20);

pub(super) fn boot(rig: &Rig, logs: &Path, step: &Step) -> Result<Parts> {
    for device in ["/dev/kvm", "/dev/vhost-vsock"] {
        if !Path::new(device).exists() {
            return Err(Error::Setup(format!(
                "the kvm rig needs {device}; `modprobe kvm vhost_vsock` on this machine may bring it"
            )));
        }
    }
    let board = Board::new();
    let sockets = SocketDir::new()?;
    let seat = |name| board.seat(name, false, logs, &rig.config.expected);
    let (host_seat, guest_seat) = (seat("host")?, seat("dut")?);
    let (agent, far) = start_host(rig, &sockets, &host_seat, logs)?;

    step.detail("booting the guest");
    let (cid, forwarded, control) = (free_cid(), free_port()?, free_port()?);
    let config = &rig.config;
    let mut spec = VmSpec {
        name: "dut".into(),
        chassis: Chassis::Private,
        accelerator: Accelerator::Kvm,
        cpu: "host".into(),
        cpus: config.cpus,
        memory: config.memory,
        kernel: config.kernel.image(),
        initrd: rig.image.path().into(),
        cmdline: format!(
            "{} {}",
            config.kernel.command_line(),
            config.setup.command_line()
        ),
        keeps_ports: false,
        options: Vec::new(),
    };
    let vsock = VsockDevices {
        backend: VsockBackend::Vhost([cid, cid + 1]),
        setup: config.setup.clone(),
    };
    vsock.add_first(&mut spec);
    hosted::add_network(&mut spec, forwarded);
    let ports = Ports::listen(&sockets, "dut")?;
    let wiring = ports.wiring();
    let (vm, connected) = Vm::start(&spec, ports, &wiring, &guest_seat, logs)?;
    let traits = Traits {
        cid,
        manifest: rig.image.manifest().clone(),
        vsock: Some(vsock),
        lab_root: false,
        noise: Expected::noise_of(Accelerator::Kvm),
    };
    let dut = qemu::connect(&guest_seat, connected, traits)?;
    qemu::await_agent(&dut, BOOT_LIMIT)?;
    hosted::bring_up_network(&dut, hosted::GUEST_ADDRESS)?;
    let (to_dut, to_far) = hosted::control_paths(forwarded, control);
    Ok(Parts {
        dut,
        far,
        to_dut,
        to_far,
        wire: None,
        carried: None,
        carriers: vec![Box::new(vm), Box::new(agent), Box::new(sockets)],
    })
}

/// Starts an agent as a process of this machine, so that both sides are driven in the same way.
fn start_host(
    rig: &Rig,
    sockets: &SocketDir,
    seat: &Seat,
    logs: &Path,
) -> Result<(Process, Machine)> {
    let programs = sockets.path("bin");
    std::fs::create_dir(&programs).context(|| format!("make {}", programs.display()))?;
    let tests = rig.config.kernel.tests();
    for program in tests
        .all()
        .into_iter()
        .chain([rig.config.programs.peer.as_path()])
    {
        let link = programs.join(program.file_name().unwrap_or_default());
        symlink(program, &link).context(|| format!("make {}", link.display()))?;
    }
    let path = std::env::var("PATH").unwrap_or_default();
    let (agent, beat) = (sockets.expect("host-agent")?, sockets.expect("host-beat")?);
    let mut command = Command::new(&rig.config.programs.agent);
    command
        .arg("--connect")
        .arg(agent.path())
        .arg(beat.path())
        .stdin(Stdio::null());
    command.env("PATH", format!("{}:{path}", programs.display()));
    let watched = seat.clone();
    let process = Process::start(
        &mut command,
        &logs.join("host-agent.log"),
        move |status: ExitStatus| {
            watched.gone(format!("its agent ended ({status}); see host-agent.log"));
        },
    )?;
    let agent = agent.accept(CONNECT_LIMIT, || seat.check())?;
    watch_heart(seat.clone(), beat.accept(CONNECT_LIMIT, || seat.check())?);
    let link = Link::open(seat.clone(), agent)?;
    let traits = Traits {
        cid: hosted::HOST_CID,
        manifest: Arc::default(),
        vsock: None,
        lab_root: false,
        noise: Expected::default(),
    };
    let machine = Machine::new(link, traits, None, None, None);
    qemu::await_agent(&machine, CONNECT_LIMIT)?;
    Ok((process, machine))
}

/// An even vsock address that, like the next one, no other guest of this machine is likely to have.
fn free_cid() -> u32 {
    0x1000_0000 + 2 * std::process::id()
}

/// A TCP port that nobody uses now.
fn free_port() -> Result<u16> {
    let what = || "find a free port".to_owned();
    let listener = TcpListener::bind("127.0.0.1:0").context(what)?;
    Ok(listener.local_addr().context(what)?.port())
}
