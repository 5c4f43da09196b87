// SPDX-License-Identifier: GPL-2.0
//! A connection of a script: what an honest partner would know of it.

use crate::header::{Header, TYPE_STREAM, op};
use crate::service::credit::Credit;
use crate::service::host::HOST_CID;

/// The receive buffer that a script's connections announce.
const BUFFER: u32 = 256 * 1024;

/// One connection, or none yet.
#[derive(Debug)]
pub(super) struct Partner {
    /// What the script calls it.
    pub name: String,
    /// The host's port.
    pub host_port: u32,
    /// The guest's port, 0 as long as it is not known.
    pub guest_port: u32,
    kind: u16,
    credit: Credit,
}

impl Partner {
    /// A connection between these ports, of which nothing was said yet.
    pub(super) fn new(name: &str, host_port: u32, guest_port: u32, kind: u16) -> Self {
        Partner {
            name: name.to_owned(),
            host_port,
            guest_port,
            kind,
            credit: Credit::new(BUFFER),
        }
    }

    /// No connection at all.
    pub(super) fn nobody() -> Self {
        Self::new("", 0, 0, TYPE_STREAM)
    }

    /// Whether a packet of the guest belongs to it.
    pub(super) fn owns(&self, header: &Header) -> bool {
        (header.dst_port.get(), header.src_port.get()) == (self.host_port, self.guest_port)
    }

    /// A packet of the guest came for it; payload is taken at once.
    pub(super) fn hear(&mut self, header: &Header) {
        self.credit.learn(header);
        if header.op.get() == op::RW {
            let len = header.len.get() as usize;
            if self.credit.receive(len).is_ok() {
                self.credit.forward(len);
            }
        }
    }

    /// The right header of a packet to the guest.
    pub(super) fn header(&mut self, guest_cid: u32, op: u16) -> Header {
        let mut header = Header {
            src_cid: HOST_CID.into(),
            dst_cid: u64::from(guest_cid).into(),
            src_port: self.host_port.into(),
            dst_port: self.guest_port.into(),
            kind: self.kind.into(),
            op: op.into(),
            ..Header::zeroed()
        };
        self.credit.announce(&mut header);
        header
    }

    /// How much may be sent.
    pub(super) fn credit(&self) -> u64 {
        self.credit.room() as u64
    }

    /// The guest got payload that counts.
    pub(super) fn sent(&mut self, len: u32) {
        self.credit.send(len as usize);
    }
}
