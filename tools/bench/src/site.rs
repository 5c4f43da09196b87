// SPDX-License-Identifier: GPL-2.0
//! Where traffic runs: a guest, and what is at the other end.

use std::cell::Cell;

use rig::{Alone, Machine, Pair};

use crate::case::{BULK_WRITE, Case, Way};

/// The buffer that every receiver grants, so that credit does not end a batch.
pub(crate) const BUFFER: u64 = 1 << 20;

/// A guest under test and its peer.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Site<'a> {
    /// The peer is another Linux.
    Pair(&'a Pair),
    /// The peer is the services of the wire; counted are the bytes that went to its sink.
    Alone(&'a Alone, &'a Cell<u64>),
}

impl<'a> Site<'a> {
    /// The guest under test.
    pub(crate) fn guest(self) -> &'a Machine {
        match self {
            Site::Pair(pair) => pair.dut(),
            Site::Alone(alone, _) => alone.dut(),
        }
    }
}

/// The host's address, at which the services are.
pub(crate) const HOST_CID: u32 = 2;
/// The port of the service that takes everything.
pub(crate) const SINK: u32 = 1000;
/// The port of the service that sends everything back.
pub(crate) const ECHO: u32 = 1001;

/// The port of the service that sends packets of this size.
pub(crate) fn source(size: usize) -> u32 {
    const FIRST: u32 = 100_000;
    FIRST + u32::try_from(size).expect("a packet has at most 64 KiB")
}

/// The options that make the wire offer what these cases need.
pub(crate) fn services(cases: &[Case]) -> Vec<String> {
    let mut sizes: Vec<usize> = vec![BULK_WRITE];
    sizes.extend(cases.iter().filter_map(|case| match case {
        Case::Stream {
            way: Way::ToGuest,
            write_size,
            ..
        } => Some(*write_size),
        _ => None,
    }));
    sizes.sort_unstable();
    sizes.dedup();
    let source = |size: &usize| format!("source={},size={size},buffer={BUFFER}", source(*size));
    [
        format!("sink={SINK},buffer={BUFFER}"),
        format!("echo={ECHO},buffer={BUFFER}"),
    ]
    .into_iter()
    .chain(sizes.iter().map(source))
    .flat_map(|service| ["--service".to_owned(), service])
    .collect()
}
