// SPDX-License-Identifier: GPL-2.0
//! The command line, and what it refuses.

mod churn;
mod datagrams;
mod hold;
mod pledge;

use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};

use self::churn::ChurnOptions;
pub use self::datagrams::Datagrams;
pub use self::hold::Hold;
pub use self::pledge::Pledge;
use crate::block::Blocking;
use crate::churn::Churn;
use crate::habits::Habits;
use crate::leave::Leave;
use crate::pattern::MAX_SLICE;
use crate::plan::{End, Flow, Kind, Partner, Plan, Side};

/// One end of a byte-exact AF_VSOCK transfer; give both ends the same options.
#[derive(Debug, Parser)]
#[command(version)]
pub struct Options {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Print this machine's context ID.
    Cid,
    /// Send back what comes to whoever connects, until killed.
    Echo {
        /// Port to listen on; 0 takes a free one, which the first output line names.
        #[arg(long)]
        port: u32,
        /// Socket type.
        #[arg(long = "type", value_enum, default_value = "stream")]
        kind: Kind,
    },
    /// Open sockets and hold them, until the standard input ends; say how each ends.
    Hold(Hold),
    /// Make one call that blocks, and tell how it comes back.
    Block {
        /// Which call.
        call: Blocking,
        /// Context ID of a `hold`, or of one that does not answer.
        #[arg(long)]
        cid: u32,
        /// Its port.
        #[arg(long)]
        port: u32,
        /// Socket type.
        #[arg(long = "type", value_enum, default_value = "stream")]
        kind: Kind,
    },
    /// Send with MSG_ZEROCOPY, and tell of the completions until the standard input ends.
    Pledge(Pledge),
    /// Leave the guest for its host and come back, and tell how long that takes.
    Leave(Leave),
    /// Send a payload as UNIX datagrams, and wait until all of them have been taken.
    Datagrams(Datagrams),
    /// Make connections again and again, with traffic both ways, until the standard input ends.
    Churn {
        #[command(subcommand)]
        role: Role<ChurnOptions>,
    },
    #[command(flatten)]
    Transfer(Role<Transfer>),
}

/// One of the two ends of connections, and what these are like.
#[derive(Debug, Subcommand)]
enum Role<T: Args> {
    /// Wait for connections.
    Listen {
        /// Port to listen on; 0 takes a free one, which the first output line names.
        #[arg(long)]
        port: u32,
        #[command(flatten)]
        options: T,
    },
    /// Connect; in a transfer one connection after the other, so that both ends number them alike.
    Connect {
        /// Context ID of the listener.
        #[arg(long)]
        cid: u32,
        /// Port of the listener.
        #[arg(long)]
        port: u32,
        #[command(flatten)]
        options: T,
    },
}

/// The options that both ends share. Sizes take K, M and G, powers of 1024.
#[derive(Args, Debug)]
struct Transfer {
    /// Which way the payload goes, seen from this end.
    #[arg(long, value_enum)]
    flow: Flow,
    /// Socket type.
    #[arg(long = "type", value_enum, default_value = "stream")]
    kind: Kind,
    /// Connections at once, or one after the other for dial and answer.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    connections: u32,
    /// Payload of one connection in one direction.
    #[arg(long, default_value = "1M", value_parser = size)]
    bytes: u64,
    /// Bytes of one write, and so of one SEQPACKET message.
    #[arg(long, default_value = "64K", value_parser = io_size)]
    write_size: usize,
    /// Bytes asked for by one read.
    #[arg(long, default_value = "64K", value_parser = io_size)]
    read_size: usize,
    /// What the payload is made from.
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// SO_VM_SOCKETS_BUFFER_SIZE of every connection.
    #[arg(long, value_parser = size)]
    buffer_size: Option<u64>,
    /// Send with MSG_ZEROCOPY, and account for every completion.
    #[arg(long)]
    zerocopy: bool,
    /// SEQPACKET: mark every message with MSG_EOR, and expect the mark.
    #[arg(long)]
    eor: bool,
    /// How a sender ends its connection.
    #[arg(long, value_enum, default_value = "half-close")]
    end: End,
    /// What is at the other end.
    #[arg(long, value_enum, default_value = "peer")]
    partner: Partner,
    #[command(flatten)]
    habits: Habits,
    /// Seconds until everything has to be over.
    #[arg(long, default_value_t = 60)]
    timeout: u64,
}

/// The command line that asks a `vsock-peer` for a plan: the inverse of [`Options`].
pub fn arguments(plan: &Plan, place: Place) -> Vec<String> {
    let mut args = match place {
        Place::Here { port } => vec!["listen".to_owned(), format!("--port={port}")],
        Place::There { cid, port } => vec![
            "connect".to_owned(),
            format!("--cid={cid}"),
            format!("--port={port}"),
        ],
    };
    args.extend([
        format!("--flow={}", name(plan.flow)),
        format!("--type={}", name(plan.kind)),
        format!("--connections={}", plan.connections),
        format!("--bytes={}", plan.bytes),
        format!("--write-size={}", plan.write_size),
        format!("--read-size={}", plan.read_size),
        format!("--seed={}", plan.seed),
        format!("--end={}", name(plan.end)),
        format!("--partner={}", name(plan.partner)),
        format!("--timeout={}", plan.timeout.as_secs()),
    ]);
    args.extend(plan.buffer_size.map(|size| format!("--buffer-size={size}")));
    args.extend(plan.zerocopy.then(|| "--zerocopy".to_owned()));
    args.extend(plan.eor.then(|| "--eor".to_owned()));
    args.extend(plan.habits.arguments());
    args
}

fn name(value: impl ValueEnum) -> String {
    let value = value.to_possible_value().expect("no value is hidden");
    value.get_name().to_owned()
}

/// Where the listener is.
#[derive(Clone, Copy, Debug)]
pub enum Place {
    /// Here, on this port.
    Here {
        /// The port, 0 for any.
        port: u32,
    },
    /// There, at this address.
    There {
        /// Context ID.
        cid: u32,
        /// Port.
        port: u32,
    },
}

/// What a command line asks for.
#[derive(Clone, Debug)]
pub enum Request {
    /// This machine's context ID.
    Cid,
    /// An echo for whoever connects.
    Echo {
        /// The port, 0 for any.
        port: u32,
        /// The socket type.
        kind: Kind,
    },
    /// Sockets that are held.
    Hold(Hold),
    /// A call that blocks.
    Block {
        /// Which.
        call: Blocking,
        /// The peer's context ID.
        cid: u32,
        /// The peer's port.
        port: u32,
        /// The socket type.
        kind: Kind,
    },
    /// Zero-copy sends that are completed late.
    Pledge(Pledge),
    /// Ways out of the guest.
    Leave(Leave),
    /// A payload in UNIX datagrams.
    Datagrams(Datagrams),
    /// Connections that are made again and again.
    Churn(Churn, Place),
    /// One end of a transfer.
    Transfer(Plan, Place),
}

impl Options {
    /// What is asked for.
    pub fn request(&self) -> Request {
        match &self.command {
            Command::Cid => Request::Cid,
            &Command::Echo { port, kind } => Request::Echo { port, kind },
            Command::Hold(hold) => Request::Hold(hold.clone()),
            &Command::Block {
                call,
                cid,
                port,
                kind,
            } => Request::Block {
                call,
                cid,
                port,
                kind,
            },
            Command::Pledge(pledge) => Request::Pledge(pledge.clone()),
            &Command::Leave(leave) => Request::Leave(leave),
            Command::Datagrams(datagrams) => Request::Datagrams(datagrams.clone()),
            Command::Churn { role } => Request::Churn(role.options().churn(), role.place()),
            Command::Transfer(role) => Request::Transfer(role.plan(), role.place()),
        }
    }
}

impl<T: Args> Role<T> {
    fn options(&self) -> &T {
        match self {
            Role::Listen { options, .. } | Role::Connect { options, .. } => options,
        }
    }

    fn place(&self) -> Place {
        match *self {
            Role::Listen { port, .. } => Place::Here { port },
            Role::Connect { cid, port, .. } => Place::There { cid, port },
        }
    }
}

impl Role<Transfer> {
    fn plan(&self) -> Plan {
        let transfer = self.options();
        Plan {
            side: match self {
                Role::Listen { .. } => Side::Listen,
                Role::Connect { .. } => Side::Connect,
            },
            flow: transfer.flow,
            kind: transfer.kind,
            connections: transfer.connections,
            bytes: transfer.bytes,
            write_size: transfer.write_size,
            read_size: transfer.read_size,
            seed: transfer.seed,
            buffer_size: transfer.buffer_size,
            zerocopy: transfer.zerocopy,
            eor: transfer.eor,
            end: transfer.end,
            partner: transfer.partner,
            habits: transfer.habits.clone(),
            timeout: Duration::from_secs(transfer.timeout),
        }
    }
}

fn size(text: &str) -> Result<u64, String> {
    match parse_size::Config::new().with_binary().parse_size(text) {
        Ok(0) => Err("must be at least 1".into()),
        Ok(size) => Ok(size),
        Err(error) => Err(error.to_string()),
    }
}

fn io_size(text: &str) -> Result<usize, String> {
    match usize::try_from(size(text)?) {
        Ok(size) if size <= MAX_SLICE => Ok(size),
        _ => Err(format!(
            "must be at most {MAX_SLICE}, the longest payload slice"
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Options::command().debug_assert();
    }

    #[test]
    fn arguments_ask_for_the_plan_they_were_made_from() {
        let plan = Plan {
            side: Side::Connect,
            flow: Flow::Bounce,
            kind: Kind::Seqpacket,
            connections: 8,
            bytes: 64 << 20,
            write_size: 4097,
            read_size: 127,
            seed: 9,
            buffer_size: Some(1 << 20),
            zerocopy: true,
            eor: true,
            end: End::Close,
            partner: Partner::Service,
            habits: Habits {
                read_when_full: true,
                shrink: Some(100),
                rcvlowat: Some(4096),
                mute: true,
                mixed: true,
                peek: true,
                truncate: true,
                sockmap: Some(0),
            },
            timeout: Duration::from_secs(7),
        };
        let args = arguments(&plan, Place::There { cid: 3, port: 1234 });
        let options = Options::try_parse_from(std::iter::once("vsock-peer".into()).chain(args));
        match options.unwrap().request() {
            Request::Transfer(asked, _) => assert_eq!(asked, plan),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn sizes_are_powers_of_1024() {
        assert_eq!(size("64K"), Ok(65536));
        assert_eq!(size("64M"), Ok(64 << 20));
        assert_eq!(size("127"), Ok(127));
    }

    #[test]
    fn sizes_that_make_no_sense_are_refused() {
        assert!(size("0").is_err());
        assert!(size("many").is_err());
        assert!(io_size("2M").is_err());
    }
}
