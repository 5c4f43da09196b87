// SPDX-License-Identifier: GPL-2.0

//! A locked socket, as what a batch holds.

use super::batch::Run;
use vsock_kernel::vsock::{
    Header,
    RxBuffer,
    RxPacket,
    RxRun, //
};

impl Run for RxRun {
    type Header = Header;
    type Packet = RxPacket;
    type Buffer = RxBuffer;

    #[inline]
    fn is_same_flow(&self, hdr: &Header) -> bool {
        self.is_same_flow(hdr)
    }

    #[inline]
    fn admits(&self, hdr: &Header) -> bool {
        self.admits(hdr)
    }

    #[inline]
    fn take(&mut self, packet: RxPacket) -> Option<RxBuffer> {
        self.take(packet)
    }
}
