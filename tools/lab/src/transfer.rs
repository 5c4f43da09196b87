// SPDX-License-Identifier: GPL-2.0
//! One byte-exact transfer between the two machines of a pair.

use std::fmt;
use std::time::Duration;

use anyhow::{Context as _, Result, bail};
use rig::{Job, Machine, Program};
use vsock_peer::cli::{Place, arguments};
use vsock_peer::habits::Habits;
use vsock_peer::plan::{End, Flow, Kind, Partner, Plan, Side};
use vsock_peer::report::{Line, Report};

/// What is added to a transfer's own deadline for starting and ending the programs.
const GRACE: Duration = Duration::from_secs(20);

/// A buffer for thousands of small SEQPACKET messages. The kernel charges each its overhead of some
/// 600 bytes, whatever it holds, and resets a connection whose reader falls behind by more than the
/// buffer; it merges what belongs to a STREAM, but not messages.
const ROOMY: u64 = 2 << 20;

/// Which way the payload goes, seen from the guest under test.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// The far side sends.
    ToGuest,
    /// The guest under test sends.
    FromGuest,
    /// Both send at once.
    BothWays,
}

/// A transfer to be made; all of it is compared byte by byte.
#[derive(Clone, Debug)]
pub(crate) struct Transfer {
    /// Socket type.
    pub kind: Kind,
    /// Which way.
    pub direction: Direction,
    /// Connections at once.
    pub connections: u32,
    /// Payload bytes a connection and a direction.
    pub bytes: u64,
    /// Bytes of one write, and so of one SEQPACKET message.
    pub write_size: usize,
    /// Bytes asked for by one read.
    pub read_size: usize,
    /// `SO_VM_SOCKETS_BUFFER_SIZE` on both ends, or the kernel's default.
    pub buffer_size: Option<u64>,
    /// Send with `MSG_ZEROCOPY`.
    pub zerocopy: bool,
    /// Mark each message with `MSG_EOR`.
    pub eor: bool,
    /// How the sender ends.
    pub end: End,
    /// What makes it harder.
    pub habits: Habits,
    /// Whether the guest under test connects; otherwise it listens.
    pub guest_connects: bool,
    /// The end of every wait.
    pub timeout: Duration,
}

impl Transfer {
    /// A transfer with everything that is not named here as most programs have it.
    pub(crate) fn new(kind: Kind, direction: Direction, write_size: usize, bytes: u64) -> Self {
        Self {
            kind,
            direction,
            connections: 1,
            bytes,
            write_size,
            read_size: 65536,
            buffer_size: (kind == Kind::Seqpacket && write_size < 1024).then_some(ROOMY),
            zerocopy: false,
            eor: false,
            end: End::HalfClose,
            habits: Habits::default(),
            guest_connects: direction == Direction::FromGuest,
            timeout: Duration::from_secs(60),
        }
    }

    /// The same over several connections at once.
    pub(crate) fn over(mut self, connections: u32) -> Self {
        self.connections = connections;
        self
    }

    /// Payload bytes that the guest under test receives in all.
    pub(crate) fn bytes_to_guest(&self) -> u64 {
        match self.direction {
            Direction::FromGuest => 0,
            Direction::ToGuest | Direction::BothWays => self.bytes * u64::from(self.connections),
        }
    }

    fn plan(&self, guest: bool) -> Plan {
        let sends = match self.direction {
            Direction::ToGuest => !guest,
            Direction::FromGuest => guest,
            Direction::BothWays => true,
        };
        let flow = match self.direction {
            Direction::BothWays => Flow::Both,
            _ if sends => Flow::Send,
            _ => Flow::Receive,
        };
        Plan {
            side: if guest == self.guest_connects {
                Side::Connect
            } else {
                Side::Listen
            },
            flow,
            kind: self.kind,
            connections: self.connections,
            bytes: self.bytes,
            write_size: self.write_size,
            read_size: self.read_size,
            seed: 1,
            buffer_size: self.buffer_size,
            zerocopy: self.zerocopy && sends,
            eor: self.eor,
            end: self.end,
            partner: Partner::Peer,
            habits: self.habits.clone(),
            timeout: self.timeout,
        }
    }
}

/// Transfers that show that a driver works at all.
pub(crate) fn smoke() -> Vec<Transfer> {
    let size = 4096;
    [Kind::Stream, Kind::Seqpacket]
        .map(|kind| Transfer::new(kind, Direction::BothWays, size, 256 << 10))
        .into()
}

impl fmt::Display for Transfer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            Kind::Stream => "STREAM",
            Kind::Seqpacket => "SEQPACKET",
        };
        let direction = match self.direction {
            Direction::ToGuest => "to the guest",
            Direction::FromGuest => "from the guest",
            Direction::BothWays => "both ways",
        };
        let (bytes, write_size) = (self.bytes, self.write_size);
        write!(
            f,
            "{kind} {direction}, {bytes} bytes in writes of {write_size}"
        )?;
        if self.connections > 1 {
            write!(f, ", {} connections", self.connections)?;
        }
        f.write_str(if self.zerocopy { ", MSG_ZEROCOPY" } else { "" })?;
        f.write_str(if self.eor { ", MSG_EOR" } else { "" })?;
        f.write_str(match self.end {
            End::HalfClose => "",
            End::Close => ", closed at once",
        })
    }
}

/// One end: where it runs, and the CID by which the other reaches it.
#[derive(Clone, Copy)]
pub(crate) struct Endpoint<'a> {
    /// The machine.
    pub machine: &'a Machine,
    /// Its context ID.
    pub cid: u32,
}

/// A transfer under way.
pub(crate) struct Running<'t> {
    transfer: &'t Transfer,
    /// The program in the guest under test.
    pub guest: Job,
    /// The program on the far side.
    pub far: Job,
}

/// Makes the transfer; anything but an exact one is an error that says what was seen.
pub(crate) fn run(transfer: &Transfer, guest: Endpoint<'_>, far: Endpoint<'_>) -> Result<()> {
    begin(transfer, guest, far)
        .and_then(Running::finish)
        .with_context(|| transfer.to_string())
}

/// Starts both ends; the connections stand or are being made when it returns.
pub(crate) fn begin<'t>(
    transfer: &'t Transfer,
    guest: Endpoint<'_>,
    far: Endpoint<'_>,
) -> Result<Running<'t>> {
    let (listener, connector) = if transfer.guest_connects {
        (far, guest)
    } else {
        (guest, far)
    };
    let (listening, port) = listen(transfer, listener.machine)?;
    let cid = listener.cid;
    let plan = transfer.plan(transfer.guest_connects);
    let connecting = start(connector.machine, &plan, Place::There { cid, port })?;
    let (guest, far) = if transfer.guest_connects {
        (connecting, listening)
    } else {
        (listening, connecting)
    };
    Ok(Running {
        transfer,
        guest,
        far,
    })
}

/// Starts the end that listens, on the machine whose that is; returns its port.
pub(crate) fn listen(transfer: &Transfer, machine: &Machine) -> Result<(Job, u32)> {
    let plan = transfer.plan(!transfer.guest_connects);
    let mut listening = start(machine, &plan, Place::Here { port: 0 })?;
    let port = listening.wait_line("the port it listens on", GRACE, Line::listening_port)?;
    Ok((listening, port))
}

impl Running<'_> {
    /// Waits for both ends; anything but an exact transfer is an error that says what was seen.
    pub(crate) fn finish(self) -> Result<()> {
        let patience = self.transfer.timeout + GRACE;
        let guest = report(self.guest, patience)?;
        let far = report(self.far, patience)?;
        if guest.exact && far.exact {
            return Ok(());
        }
        let complaints = |name: &str, report: &Report| {
            let lines = report.complaints();
            let lines: Vec<String> = lines.iter().map(|line| format!("{name}: {line}")).collect();
            lines.join("\n")
        };
        let (guest, far) = (complaints("guest", &guest), complaints("far side", &far));
        bail!("{}", [guest, far].join("\n").trim().to_owned());
    }
}

fn start(machine: &Machine, plan: &Plan, place: Place) -> Result<Job> {
    let program = Program::new("vsock-peer").args(arguments(plan, place));
    Ok(machine.spawn(program)?)
}

/// Waits for a program's end, and reads what it reports.
pub(crate) fn report(job: Job, patience: Duration) -> Result<Report> {
    let output = job.wait(patience)?;
    let text = output.text();
    match Line::last(&text) {
        Some(Line::Report(report)) => Ok(*report),
        _ => bail!(
            "vsock-peer printed no report ({}):\n{text}{}",
            output.exit,
            output.errors()
        ),
    }
}
