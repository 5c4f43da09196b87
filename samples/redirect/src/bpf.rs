// SPDX-License-Identifier: GPL-2.0
//! Redirection in the kernel: a BPF program at the UNIX socket picks the vsock socket out of a map.

use std::os::fd::BorrowedFd;

use aya::maps::{Array, Map, MapData, SockMap};
use aya::programs::SkSkb;
use aya::{Ebpf, EbpfError, include_bytes_aligned};

use crate::count::Counts;

/// What clang made of `verdict.bpf.c`.
static OBJECT: &[u8] = include_bytes_aligned!(concat!(env!("OUT_DIR"), "/verdict.o"));

/// The program and its maps. Dropped, it lets go of both sockets.
pub(crate) struct Redirection {
    _maps: [SockMap<MapData>; 2],
    counted: Array<MapData, [u64; 4]>,
    _program: Ebpf,
}

impl Redirection {
    /// Redirects from one socket to the other.
    ///
    /// Only datagrams that come from now on are: the kernel looks at one for each that arrives, so that
    /// one which is there already would stay, and be sent in the place of the next. A socket that has no
    /// address yet has none.
    pub(crate) fn begin(from: BorrowedFd<'_>, to: BorrowedFd<'_>) -> Result<Self, EbpfError> {
        let mut ebpf = Ebpf::load(OBJECT)?;
        let mut source = SockMap::try_from(map(&mut ebpf, "source"))?;
        let mut target = SockMap::try_from(map(&mut ebpf, "target"))?;
        let counted = Array::try_from(map(&mut ebpf, "counted"))?;
        let program = ebpf.program_mut("verdict");
        let program: &mut SkSkb = program.expect("the object has it").try_into()?;
        program.load()?;
        program.attach(source.fd())?;
        // The target's map has no program: what the host sends is not to be redirected.
        target.set(0, &to, 0)?;
        source.set(0, &from, 0)?;
        Ok(Self {
            _maps: [source, target],
            counted,
            _program: ebpf,
        })
    }

    /// What it has done so far. A datagram counts once the vsock socket has it in its queue.
    pub(crate) fn counts(&self) -> Result<Counts, EbpfError> {
        Ok(Counts::from(self.counted.get(&0, 0)?))
    }
}

fn map(ebpf: &mut Ebpf, name: &str) -> Map {
    ebpf.take_map(name).expect("the object has it")
}
