// SPDX-License-Identifier: GPL-2.0

//! Starting a virtual machine and connecting the lab to it.

use super::monitor::Qmp;
use super::spec::{Backend, VmSpec, Wiring};
use crate::beat::{watch_console, watch_heart};
use crate::board::Seat;
use crate::error::{Error, IoContext as _, Result};
use crate::link::Link;
use crate::machine::{Machine, Traits};
use crate::process::Process;
use crate::sockets::{Expectation, SocketDir};
use std::fs;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::time::Duration;

/// QEMU connects its character devices before anything else.
const CONNECT_LIMIT: Duration = Duration::from_secs(30);

/// The sockets for the character devices of one virtual machine.
#[derive(Debug)]
pub(crate) struct Ports {
    console: Expectation,
    agent: Expectation,
    beat: Expectation,
    terminal: Expectation,
    monitor: Expectation,
}

/// The connections that the sockets have brought.
#[derive(Debug)]
pub(crate) struct Connected {
    console: UnixStream,
    agent: UnixStream,
    beat: UnixStream,
    terminal: UnixStream,
    monitor: UnixStream,
}

/// A virtual machine's QEMU on this machine; dropped, it is killed.
#[derive(Debug)]
pub(crate) struct Vm {
    _process: Process,
}

impl Ports {
    /// Begins to listen; the sockets' names begin with `prefix`.
    pub(crate) fn listen(sockets: &SocketDir, prefix: &str) -> Result<Self> {
        let expect = |name: &str| sockets.expect(&format!("{prefix}-{name}"));
        Ok(Ports {
            console: expect("console")?,
            agent: expect("agent")?,
            beat: expect("beat")?,
            terminal: expect("terminal")?,
            monitor: expect("monitor")?,
        })
    }

    /// The wiring of a virtual machine whose QEMU runs here.
    pub(crate) fn wiring(&self) -> Wiring {
        let socket = |port: &Expectation| Backend::Socket(port.path().into());
        Wiring {
            console: socket(&self.console),
            agent: socket(&self.agent),
            beat: socket(&self.beat),
            terminal: socket(&self.terminal),
            monitor: socket(&self.monitor),
            more: Vec::new(),
        }
    }

    /// Waits for the connections, unless `seat` is in trouble before.
    pub(crate) fn accept(self, seat: &Seat) -> Result<Connected> {
        let accept = |port: Expectation| port.accept(CONNECT_LIMIT, || seat.check());
        Ok(Connected {
            console: accept(self.console)?,
            agent: accept(self.agent)?,
            beat: accept(self.beat)?,
            terminal: accept(self.terminal)?,
            monitor: accept(self.monitor)?,
        })
    }
}

impl Vm {
    /// Starts a virtual machine and waits until it has connected itself, but not until it has booted.
    pub(crate) fn start(
        spec: &VmSpec,
        ports: Ports,
        wiring: &Wiring,
        seat: &Seat,
        logs: &Path,
    ) -> Result<(Self, Connected)> {
        let arguments = spec.arguments(wiring);
        let mut command = Command::new("qemu-system-x86_64");
        command.args(&arguments).stdin(Stdio::null());
        let line = shlex::try_join(arguments.iter().map(String::as_str)).unwrap_or_default();
        let record = logs.join(format!("{}-qemu.cmd", spec.name));
        fs::write(&record, format!("qemu-system-x86_64 {line}\n"))
            .context(|| format!("write {}", record.display()))?;
        let log = logs.join(format!("{}-qemu.log", spec.name));
        let (watched, said) = (seat.clone(), log.clone());
        let process = Process::start(&mut command, &log, move |status: ExitStatus| {
            let said = fs::read_to_string(&said).unwrap_or_default();
            watched.qemu_ended(status, status.success(), &said);
        })?;
        let connected = ports.accept(seat)?;
        Ok((Vm { _process: process }, connected))
    }
}

/// Puts threads to the connections, and makes a handle of them. Nothing is waited for.
pub(crate) fn connect(seat: &Seat, connected: Connected, traits: Traits) -> Result<Machine> {
    let console = connected.console.try_clone();
    let console = console.context(|| format!("use the console of {} twice", seat.name()))?;
    watch_console(seat.clone(), connected.console);
    watch_heart(seat.clone(), connected.beat);
    let link = Link::open(seat.clone(), connected.agent)?;
    let monitor = Qmp::open(seat.name(), connected.monitor)?;
    Ok(Machine::new(
        link,
        traits,
        Some(monitor),
        Some(connected.terminal),
        Some(console),
    ))
}

/// Waits until the machine's agent has said hello.
pub(crate) fn await_agent(machine: &Machine, timeout: Duration) -> Result<()> {
    let what = "its agent, after the boot".to_owned();
    let hello = machine
        .seat()
        .wait(what, timeout, |seat| seat.hello.clone())?;
    if hello.version != proto::VERSION {
        return Err(Error::Setup(format!(
            "the agent of {} speaks version {} of the protocol and the lab {}; build both anew",
            machine.name(),
            hello.version,
            proto::VERSION
        )));
    }
    Ok(())
}
