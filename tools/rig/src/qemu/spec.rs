// SPDX-License-Identifier: GPL-2.0

//! What a virtual machine consists of, and how that is said to QEMU.

use crate::choose::Accelerator;
use std::path::{Path, PathBuf};

/// Part of every kernel's command line. Warnings and worse go to the console, where they survive a
/// panic; an oops is a panic, and a panic ends QEMU (`-no-reboot`), so that nothing waits for a guest
/// that is broken. `printk.devkmsg` lets the lab's marks into the log at any rate. The TSC's watchdog
/// and the check of the timer's interrupt only measure how busy the emulating machine is; the latter
/// ends in a panic, "IO-APIC + timer doesn't work", and a guest that knows its KVM leaves it out itself.
const CMDLINE: &str = "console=ttyS0 loglevel=5 panic=-1 oops=panic printk.devkmsg=on log_buf_len=1M \
     sysctl.kernel.hung_task_timeout_secs=60 net.ifnames=0 tsc=nowatchdog no_timer_check";

/// Slots of PCI Express into which vsock devices can be plugged while the guest runs; the older bus
/// takes them anywhere.
const HOT_SLOTS: u8 = 2;

/// What the devices of a virtual machine sit on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Chassis {
    /// PCI Express, and memory that the devices of other processes look into.
    Shared,
    /// A PC with the older PCI bus and private memory: under a nested KVM it boots twice as fast.
    Private,
}

/// A virtual machine.
#[derive(Clone, Debug)]
pub(crate) struct VmSpec {
    pub(crate) name: String,
    pub(crate) chassis: Chassis,
    pub(crate) accelerator: Accelerator,
    pub(crate) cpu: String,
    pub(crate) cpus: u32,
    /// In MiB.
    pub(crate) memory: u32,
    pub(crate) kernel: PathBuf,
    pub(crate) initrd: PathBuf,
    /// Added to the kernel's command line.
    pub(crate) cmdline: String,
    /// Its ports work on after it has slept.
    pub(crate) keeps_ports: bool,
    /// Further options of QEMU, such as its other devices.
    pub(crate) options: Vec<String>,
}

/// Where a character device of a virtual machine leads to.
#[derive(Clone, Debug)]
pub(crate) enum Backend {
    /// A listening socket.
    Socket(PathBuf),
    /// A port of the virtual machine in which QEMU itself runs.
    Port(String),
}

/// Where all character devices of a virtual machine lead to.
#[derive(Clone, Debug)]
pub(crate) struct Wiring {
    pub(crate) console: Backend,
    pub(crate) agent: Backend,
    pub(crate) beat: Backend,
    pub(crate) terminal: Backend,
    pub(crate) monitor: Backend,
    /// Further ports: the name, and where it leads to.
    pub(crate) more: Vec<(String, Backend)>,
}

impl Wiring {
    /// The five that every virtual machine has, in the order of the fields.
    pub(crate) fn all(self) -> [Backend; 5] {
        [
            self.console,
            self.agent,
            self.beat,
            self.terminal,
            self.monitor,
        ]
    }
}

impl VmSpec {
    /// The arguments of `qemu-system-x86_64`.
    pub(crate) fn arguments(&self, wiring: &Wiring) -> Vec<String> {
        let mut line = Line::default();
        line.add("-name", format!("{},debug-threads=on", self.name));
        line.words("-nodefaults -no-user-config -display none -no-reboot");
        line.chassis(self.chassis, self.memory);
        line.add(
            "-accel",
            match self.accelerator {
                Accelerator::Tcg => "tcg,thread=multi",
                Accelerator::Kvm => "kvm",
            },
        );
        line.add("-cpu", &self.cpu);
        line.add("-smp", self.cpus.to_string());
        line.add("-kernel", shown(&self.kernel));
        line.add("-initrd", shown(&self.initrd));
        line.add("-append", format!("{CMDLINE} {}", self.cmdline).trim_end());

        line.chardev("console", &wiring.console);
        line.add("-serial", "chardev:console");
        line.chardev("monitor", &wiring.monitor);
        line.add("-qmp", "chardev:monitor");
        line.ports(self.keeps_ports);
        line.chardev("terminal", &wiring.terminal);
        line.add("-device", "virtconsole,bus=ports.0,chardev=terminal");
        line.port(proto::port::AGENT, "agent", &wiring.agent);
        line.port(proto::port::BEAT, "beat", &wiring.beat);
        for (number, (name, backend)) in wiring.more.iter().enumerate() {
            line.port(name, &format!("more{number}"), backend);
        }
        line.0.extend(self.options.iter().cloned());
        line.0
    }

    /// Adds an option with its value.
    pub(crate) fn option(&mut self, name: &str, value: impl Into<String>) {
        self.options.extend([name.into(), value.into()]);
    }
}

#[derive(Default)]
struct Line(Vec<String>);

impl Line {
    fn words(&mut self, words: &str) {
        self.0.extend(words.split(' ').map(Into::into));
    }

    fn add(&mut self, option: &str, value: impl Into<String>) {
        self.0.extend([option.into(), value.into()]);
    }

    fn chassis(&mut self, chassis: Chassis, memory: u32) {
        self.add("-m", format!("{memory}M"));
        if chassis == Chassis::Private {
            self.add("-machine", "pc");
            return;
        }
        self.add("-machine", "q35,memory-backend=memory");
        let memory = format!("memory-backend-memfd,id=memory,size={memory}M,share=on");
        self.add("-object", memory);
        (0..HOT_SLOTS).for_each(|slot| self.root_port(slot));
    }

    /// What the ports sit on. The kernel's driver for that loses them when the machine sleeps: after it the
    /// driver asks which of them are open before it has buffers for the answer. One that the device says it
    /// keeps its state for is left as it is, and QEMU has that for devices in a slot of PCI Express.
    fn ports(&mut self, keep: bool) {
        let device = "virtio-serial-pci,id=ports,max_ports=16";
        if !keep {
            return self.add("-device", device);
        }
        self.root_port(HOT_SLOTS);
        let bus = slot_id(HOT_SLOTS);
        let device = format!("{device},bus={bus},x-pcie-pm-no-soft-reset=on");
        self.add("-device", device);
    }

    fn root_port(&mut self, slot: u8) {
        let (id, number) = (slot_id(slot), slot_number(slot));
        let port = format!("pcie-root-port,id={id},chassis={number},slot={number}");
        self.add("-device", port);
    }

    fn chardev(&mut self, id: &str, backend: &Backend) {
        self.add(
            "-chardev",
            match backend {
                Backend::Socket(path) => format!("socket,id={id},path={}", shown(path)),
                // Opened once for both directions, as such a port wants it.
                Backend::Port(path) => format!("pipe,id={id},path={}", escaped(path)),
            },
        );
    }

    fn port(&mut self, name: &str, id: &str, backend: &Backend) {
        self.chardev(id, backend);
        self.add(
            "-device",
            format!("virtserialport,bus=ports.0,chardev={id},name={name}"),
        );
    }
}

/// What QEMU calls a slot.
pub(crate) fn slot_id(slot: u8) -> String {
    format!("slot{slot}")
}

/// The number under which the guest finds it.
pub(crate) fn slot_number(slot: u8) -> u8 {
    slot + 1
}

fn shown(path: &Path) -> String {
    escaped(&path.to_string_lossy())
}

/// QEMU takes a doubled comma for a comma.
fn escaped(text: &str) -> String {
    text.replace(',', ",,")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec() -> VmSpec {
        VmSpec {
            name: "dut".into(),
            chassis: Chassis::Shared,
            accelerator: Accelerator::Tcg,
            cpu: "max".into(),
            cpus: 2,
            memory: 512,
            kernel: "/k/vmlinuz".into(),
            initrd: "/k/guest.cpio".into(),
            cmdline: "extra=1".into(),
            keeps_ports: false,
            options: Vec::new(),
        }
    }

    fn wiring() -> Wiring {
        let socket = |name: &str| Backend::Socket(format!("/tmp/a,b/{name}").into());
        Wiring {
            console: socket("console"),
            agent: Backend::Port("/dev/vport1p3".into()),
            beat: socket("beat"),
            terminal: socket("terminal"),
            monitor: socket("monitor"),
            more: vec![("lab.l2.agent".into(), socket("l2"))],
        }
    }

    #[test]
    fn arguments_say_what_was_asked_for() {
        let mut spec = spec();
        spec.option("-device", "vhost-vsock-pci,guest-cid=3");
        let arguments = spec.arguments(&wiring());
        let follows = |option: &str, value: &str| {
            arguments
                .windows(2)
                .any(|pair| pair[0] == option && pair[1] == value)
        };
        assert!(follows(
            "-chardev",
            "socket,id=console,path=/tmp/a,,b/console"
        ));
        assert!(follows("-chardev", "pipe,id=agent,path=/dev/vport1p3"));
        assert!(follows(
            "-device",
            "virtserialport,bus=ports.0,chardev=more0,name=lab.l2.agent"
        ));
        assert!(follows("-device", "vhost-vsock-pci,guest-cid=3"));
        assert!(follows("-accel", "tcg,thread=multi"));
        assert!(follows("-machine", "q35,memory-backend=memory"));
        spec.chassis = Chassis::Private;
        assert!(
            !spec
                .arguments(&wiring())
                .iter()
                .any(|word| word.contains("memfd"))
        );
        assert!(arguments.iter().any(|word| word.ends_with(" extra=1")));
    }
}
