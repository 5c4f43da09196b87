// SPDX-License-Identifier: GPL-2.0
//! A script as it is held in memory.

use super::value::Value;

/// What the device does to one guest.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Script {
    /// Where random draws begin.
    pub seed: u64,
    /// Programs that the guest has to run meanwhile; the device does not care.
    pub guests: Vec<GuestProgram>,
    /// Kernel messages of the guest that the script provokes, as regular expressions.
    pub provokes: Vec<String>,
    /// What this project's driver has to have counted afterwards.
    pub counts: Vec<(String, u64)>,
    /// Counters of this project's driver that have to have grown.
    pub grows: Vec<String>,
    /// What the guest has to have answered: a connection, an operation, how often.
    pub answers: Vec<(String, String, u64)>,
    /// Whether what the guest answers is a matter of timing.
    pub timing: bool,
    /// Whether the guest needs its driver loaded anew afterwards, because the
    /// script breaks a queue.
    pub reload: bool,
    /// What is done, in this order.
    pub steps: Vec<Step>,
}

/// A program in the guest: sockets that are opened and held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GuestProgram {
    /// The port that it connects to at the host, or listens on.
    pub port: u32,
    /// Whether it listens.
    pub listens: bool,
    /// Whether its sockets are SEQPACKET ones.
    pub seqpacket: bool,
    /// How many connections it makes.
    pub count: u32,
    /// Whether it reads what comes, and throws it away.
    pub reads: bool,
    /// Whether it makes a new connection for each that ends.
    pub again: bool,
    /// Bytes that it writes on each connection.
    pub writes: u64,
    /// The receive buffer of its sockets, if not the kernel's default.
    pub buffer: Option<u64>,
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Wait for a connection to this port of the host, and accept it.
    Accept {
        /// What the connection is called from here on.
        name: String,
        /// The host's port.
        port: u32,
        /// Whether to answer the request.
        answer: bool,
        /// Milliseconds to wait.
        within: u64,
    },
    /// From here on accept every connection to this port of the host; the name
    /// is that of the newest.
    Serve {
        /// What the newest connection is called.
        name: String,
        /// The host's port.
        port: u32,
    },
    /// Connect to a port of the guest, and wait until it accepts.
    Connect {
        /// What the connection is called from here on.
        name: String,
        /// The host's port.
        from: u32,
        /// The guest's port.
        to: u32,
        /// The type, as in the header.
        kind: u16,
        /// Milliseconds to wait.
        within: u64,
    },
    /// Put a packet, or what is called one, on the guest's RX ring.
    Send(Packet),
    /// Show the guest all packets of the steps inside at once.
    Batch(Order, Vec<Step>),
    /// Do the steps inside so often.
    Repeat(Value, Vec<Step>),
    /// Wait for something.
    Wait(Wait),
    /// Wait until the guest has dealt with all that was sent.
    Sync,
    /// Interrupt the guest although there is nothing new.
    Notify {
        /// Which queue the interrupts are for.
        tx: bool,
        /// How many.
        times: u64,
    },
    /// Change the header of the packets that were sent last, back and forth,
    /// while the guest reads them.
    Change {
        /// For how long at most.
        microseconds: u64,
        /// The header's other state.
        fields: Vec<(Field, Value)>,
    },
    /// Tell the guest of an event.
    Event(Event),
    /// Take the guest's packets, but do not give their buffers back; or do so again.
    Hold(bool),
    /// Do not look at what the guest sends; or do so again.
    Deaf(bool),
    /// Bursts drawn at random: those with numbers from `first` on, `count` of them.
    Fuzz {
        /// The number of the first burst.
        first: u64,
        /// How many bursts.
        count: u64,
    },
}

/// An event, or what is called one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Event {
    /// Which one.
    pub id: Value,
    /// Bytes written, as the used entry says.
    pub used: Value,
    /// The CID that the guest finds in the device's configuration from here on.
    pub cid: Option<Value>,
}

/// A packet, by what is not right about it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Packet {
    /// The connection that it is right for, but for its fields.
    pub connection: Option<String>,
    /// What it has instead of what would be right.
    pub fields: Vec<(Field, Value)>,
}

/// The order in which a batch's buffers are given back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Order {
    /// As the guest has posted them.
    #[default]
    Posted,
    /// The last one first.
    Reversed,
    /// At random.
    Shuffled,
}

/// What to wait for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Packets of the guest.
    Packets {
        /// Only those of this connection.
        connection: Option<String>,
        /// Only those with this operation.
        op: Option<u16>,
        /// Only those to this port of the host.
        port: Option<u32>,
        /// How many.
        count: u64,
        /// For so many milliseconds at most; then the script has failed.
        within: u64,
    },
    /// For the driver to let go of the device.
    Reset {
        /// For so many milliseconds at most; then the script has failed.
        within: u64,
    },
    /// For so many milliseconds.
    Time(u64),
}

/// What a script can say of a packet, in the order in which it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Field {
    /// Context identifier of the sender.
    Src,
    /// Context identifier of the receiver.
    Dst,
    /// Port of the sender.
    SrcPort,
    /// Port of the receiver.
    DstPort,
    /// Bytes of payload, as the header says.
    Len,
    /// Socket type.
    Type,
    /// Operation.
    Op,
    /// Flags.
    Flags,
    /// The sender's receive buffer.
    BufAlloc,
    /// What was taken out of it.
    FwdCnt,
    /// Bytes written behind the header.
    Payload,
    /// Bytes written, as the used entry says.
    Used,
    /// The used entry's buffer, instead of the one that was written.
    Id,
}

impl Field {
    /// All of them, and how a script calls them.
    pub const NAMES: [(Field, &'static str); 13] = [
        (Field::Src, "src"),
        (Field::Dst, "dst"),
        (Field::SrcPort, "src_port"),
        (Field::DstPort, "dst_port"),
        (Field::Len, "len"),
        (Field::Type, "type"),
        (Field::Op, "op"),
        (Field::Flags, "flags"),
        (Field::BufAlloc, "buf_alloc"),
        (Field::FwdCnt, "fwd_cnt"),
        (Field::Payload, "payload"),
        (Field::Used, "used"),
        (Field::Id, "id"),
    ];

    /// How a script calls it.
    pub fn name(self) -> &'static str {
        let named = Self::NAMES.iter().find(|(field, _)| *field == self);
        named.map_or("", |(_, name)| name)
    }

    /// Whether it stands in the header.
    pub fn is_of_header(self) -> bool {
        !matches!(self, Field::Payload | Field::Used | Field::Id)
    }
}
