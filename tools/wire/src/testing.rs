// SPDX-License-Identifier: GPL-2.0
//! What the tests share: guests without a virtual machine.

mod driver;
mod frontend;
mod guest;

pub(crate) use driver::{MEMORY, Piece, RING, Received};
pub(crate) use frontend::Qemu;
pub(crate) use guest::Guest;

use crate::header::{Header, TYPE_STREAM, op};

/// A stream packet with payload.
pub(crate) fn rw(src: u32, dst: u32, len: usize) -> Header {
    Header {
        src_cid: u64::from(src).into(),
        dst_cid: u64::from(dst).into(),
        src_port: 1000.into(),
        dst_port: 2000.into(),
        len: (len as u32).into(),
        kind: TYPE_STREAM.into(),
        op: op::RW.into(),
        ..Header::zeroed()
    }
}

/// Bytes that do not repeat soon.
pub(crate) fn bytes(len: usize) -> Vec<u8> {
    (0..len).map(|i| (i % 251) as u8).collect()
}
