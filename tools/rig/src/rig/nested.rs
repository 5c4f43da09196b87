// SPDX-License-Identifier: GPL-2.0

//! The nested rig: a host VM by emulation, with the lab root for its programs, and under its KVM the
//! guest, with the real vhost-vsock device.
//!
//! The guest's QEMU runs in the host VM. Its character devices lead to ports of the host VM, and from
//! there to the lab: the guest is reached without help from any program in between.

mod carried;

pub(crate) use carried::Carried;

use super::Rig;
use super::hosted::{self, SETUP_LIMIT};
use crate::board::{BOOT_LIMIT, Board};
use crate::checkout::RunDir;
use crate::choose::Accelerator;
use crate::error::{Error, Result};
use crate::fault::Expected;
use crate::image::{Image, ImageSpec};
use crate::machine::{Machine, Traits};
use crate::pair::Parts;
use crate::progress::Step;
use crate::qemu::{self, Backend, Chassis, Ports, Vm, VmSpec, VsockBackend, VsockDevices, Wiring};
use crate::setup::GuestSetup;
use crate::share;
use crate::sockets::SocketDir;
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The addresses of the guest's first and second device.
const GUEST_CIDS: [u32; 2] = [3, 4];
/// What the guest's QEMU boots, in the host VM's image.
const GUEST_KERNEL: &str = "/guest/vmlinuz";
const GUEST_IMAGE: &str = "/guest/guest.cpio";
/// Where the lab root in the host VM has `/guest`.
const GUEST_FOLDER: &str = "/mnt";
/// The port of the host VM that is forwarded to the guest's servers.
const FORWARDED_PORT: u16 = 5555;
/// The host VM's memory in MiB, besides the guest's.
const HOST_MEMORY: u32 = 3584;
/// The names of the guest's character devices, as ports of the host VM.
const PORTS: [&str; 5] = ["console", "agent", "beat", "terminal", "monitor"];

/// Makes the host VM's image: the guests' own, and in it what the guest boots.
pub(super) fn host_image(spec: &ImageSpec<'_>, guest: &Image, run: &RunDir) -> Result<Image> {
    let mut files = spec.files.to_vec();
    files.push((spec.kernel.image(), GUEST_KERNEL.into()));
    files.push((guest.path().into(), GUEST_IMAGE.into()));
    let spec = ImageSpec {
        files: &files,
        ..*spec
    };
    Image::build(&spec, &run.path().join("nested-host.cpio"))
}

pub(super) fn boot(rig: &Rig, logs: &Path, step: &Step) -> Result<Parts> {
    let board = Board::new();
    let sockets = SocketDir::new()?;
    let seat = |name| board.seat(name, true, logs, &rig.config.expected);
    let (host_seat, guest_seat) = (seat("host")?, seat("dut")?);

    step.detail("booting the host VM");
    let mut spec = host_spec(rig)?;
    let share = share::serve(&mut spec, &sockets, &host_seat, logs)?;
    let ports = Ports::listen(&sockets, "host")?;
    let guest_ports = Ports::listen(&sockets, "dut")?;
    let mut wiring = ports.wiring();
    let guest_sockets = guest_ports.wiring().all();
    wiring.more = PORTS
        .iter()
        .zip(guest_sockets)
        .map(|(name, port)| (port_name(name), port))
        .collect();
    let (vm, connected) = Vm::start(&spec, ports, &wiring, &host_seat, logs)?;
    let guest_connected = guest_ports.accept(&host_seat)?;
    let traits = |cid, image: &Image, vsock: Option<VsockDevices>| Traits {
        cid,
        lab_root: vsock.is_none(),
        manifest: image.manifest().clone(),
        vsock,
        noise: Expected::noise_of(Accelerator::Tcg),
    };
    let host_traits = traits(hosted::HOST_CID, rig.host_image()?, None);
    let host = qemu::connect(&host_seat, connected, host_traits)?;
    qemu::await_agent(&host, BOOT_LIMIT)?;
    ready_host(&host)?;

    step.detail("booting the guest under the host VM's KVM");
    let vsock = vsock_devices(&rig.config.setup, GUEST_CIDS[0]);
    let guest_traits = traits(GUEST_CIDS[0], &rig.image, Some(vsock));
    let dut = qemu::connect(&guest_seat, guest_connected, guest_traits)?;
    let carried = Carried::start(guest_spec(rig), guest_wiring(&host)?, &host, &guest_seat)?;
    // It can stall before its agent is up; no driver of ours is loaded then that could be to blame.
    guest_seat.await_heart();
    qemu::await_agent(&dut, BOOT_LIMIT)?;
    hosted::bring_up_network(&dut, hosted::GUEST_ADDRESS)?;
    let (to_dut, to_far) = hosted::control_paths(FORWARDED_PORT, hosted::CONTROL_PORT);
    Ok(Parts {
        dut,
        far: host,
        to_dut,
        to_far,
        wire: None,
        carried: Some(carried),
        carriers: vec![Box::new(vm), Box::new(share), Box::new(sockets)],
    })
}

fn host_spec(rig: &Rig) -> Result<VmSpec> {
    Ok(VmSpec {
        name: "host".into(),
        chassis: Chassis::Shared,
        accelerator: Accelerator::Tcg,
        cpu: "max,+svm".into(),
        cpus: 2,
        memory: HOST_MEMORY + rig.config.memory,
        kernel: rig.config.kernel.image(),
        initrd: rig.host_image()?.path().into(),
        cmdline: String::new(),
        keeps_ports: false,
        options: Vec::new(),
    })
}

/// Loads what makes the host VM a host, and lays out the lab root for the guest's QEMU.
fn ready_host(host: &Machine) -> Result<()> {
    let none: &[&str] = &[];
    host.insmod("kvm_amd", none)?;
    host.insmod("vhost_vsock", none)?;
    let root = host.lab_root()?;
    let script = format!(
        "ip link set lo up\n\
         mount -o bind /guest {root}{GUEST_FOLDER}\n\
         test -c /dev/kvm -a -c /dev/vhost-vsock\n"
    );
    host.run(["sh", "-exc", &script], SETUP_LIMIT)?.success()?;
    Ok(())
}

/// The guest with its first device under each address.
fn guest_spec(rig: &Rig) -> impl Fn(u32) -> VmSpec + Send + use<> {
    let config = &rig.config;
    let inside = |path: &str| PathBuf::from(path.replacen("/guest", GUEST_FOLDER, 1));
    let bare = VmSpec {
        name: "dut".into(),
        chassis: Chassis::Private,
        accelerator: Accelerator::Kvm,
        // With the TSC deadline timer, the emulated guest stalls far more often.
        cpu: "host,-tsc-deadline".into(),
        cpus: config.cpus,
        memory: config.memory,
        kernel: inside(GUEST_KERNEL),
        initrd: inside(GUEST_IMAGE),
        cmdline: format!(
            "{} {}",
            config.kernel.command_line(),
            config.setup.command_line()
        ),
        keeps_ports: false,
        options: Vec::new(),
    };
    let setup = config.setup.clone();
    move |cid| {
        let mut spec = bare.clone();
        vsock_devices(&setup, cid).add_first(&mut spec);
        hosted::add_network(&mut spec, FORWARDED_PORT);
        spec
    }
}

fn vsock_devices(setup: &GuestSetup, cid: u32) -> VsockDevices {
    VsockDevices {
        backend: VsockBackend::Vhost([cid, GUEST_CIDS[1]]),
        setup: setup.clone(),
    }
}

/// The wiring of the guest's QEMU: each character device leads to the host VM's port for it.
fn guest_wiring(host: &Machine) -> Result<Wiring> {
    let script = "cd /sys/class/virtio-ports; for port in *; do echo $port $(cat $port/name); done";
    let listed = host
        .run(["sh", "-c", script], SETUP_LIMIT)?
        .success()?
        .text();
    let devices: HashMap<&str, &str> = listed
        .lines()
        .filter_map(|line| line.split_once(' '))
        .map(|(device, name)| (name.trim(), device))
        .collect();
    let port = |name: &str| match devices.get(port_name(name).as_str()) {
        Some(device) => Ok(Backend::Port(format!("/dev/{device}"))),
        None => Err(Error::Setup(format!(
            "the host VM has no port for the guest's {name}: {listed}"
        ))),
    };
    let [console, agent, beat, terminal, monitor] = PORTS.map(port);
    Ok(Wiring {
        console: console?,
        agent: agent?,
        beat: beat?,
        terminal: terminal?,
        monitor: monitor?,
        more: Vec::new(),
    })
}

fn port_name(device: &str) -> String {
    format!("lab.guest.{device}")
}

impl Rig {
    fn host_image(&self) -> Result<&Image> {
        let image = self.host_image.as_ref();
        image.ok_or_else(|| Error::Setup("this rig was not opened as a nested one".into()))
    }
}
