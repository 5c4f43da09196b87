// SPDX-License-Identifier: GPL-2.0
//! Where a packet goes.

use crate::header::Header;
use crate::service::host::HOST_CID;

/// A port's place in the wire's table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PortId(pub usize);

/// What to do with a packet that a guest sent.
#[derive(Debug, PartialEq, Eq)]
pub enum Route {
    /// Pass it to this port's guest.
    Forward(PortId),
    /// It is for the sender's host.
    Host,
    /// Nobody is there: answer the sender with this reset.
    Refuse(Header),
    /// Nobody is there, and the packet is itself a reset.
    Unheard,
    /// The source address is not the sender's own.
    ForeignSource,
}

/// Decide the way of a packet from the guest with `sender` as its CID. `find`
/// knows which port, if any, serves a CID and has a guest to receive packets.
pub fn route(header: &Header, sender: u32, find: impl FnOnce(u64) -> Option<PortId>) -> Route {
    if header.src_cid.get() != u64::from(sender) {
        return Route::ForeignSource;
    }
    if header.dst_cid.get() == HOST_CID {
        return Route::Host;
    }
    if let Some(port) = find(header.dst_cid.get()) {
        return Route::Forward(port);
    }
    match header.reset() {
        Some(reset) => Route::Refuse(reset),
        None => Route::Unheard,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::header::op;

    fn packet(src: u64, dst: u64, op: u16) -> Header {
        Header {
            src_cid: src.into(),
            dst_cid: dst.into(),
            op: op.into(),
            ..Header::zeroed()
        }
    }

    fn find(cid: u64) -> Option<PortId> {
        match cid {
            3 => Some(PortId(0)),
            4 => Some(PortId(1)),
            _ => None,
        }
    }

    #[test]
    fn packets_go_to_the_port_with_their_cid() {
        assert_eq!(
            route(&packet(3, 4, op::RW), 3, find),
            Route::Forward(PortId(1))
        );
        assert_eq!(
            route(&packet(3, 3, op::RW), 3, find),
            Route::Forward(PortId(0))
        );
        assert_eq!(
            route(&packet(4, 3, op::RST), 4, find),
            Route::Forward(PortId(0))
        );
    }

    #[test]
    fn an_address_without_a_guest_refuses() {
        for dst in [0, 1, 5, 0xffff_ffff, (1 << 32) + 4] {
            let sent = packet(3, dst, op::REQUEST);
            assert_eq!(
                route(&sent, 3, find),
                Route::Refuse(sent.reset().unwrap()),
                "{dst}"
            );
        }
        assert_eq!(route(&packet(3, 5, op::RST), 3, find), Route::Unheard);
    }

    #[test]
    fn every_guest_has_its_host() {
        assert_eq!(route(&packet(3, 2, op::RW), 3, find), Route::Host);
        assert_eq!(route(&packet(4, 2, op::RST), 4, find), Route::Host);
        assert_eq!(route(&packet(4, 2, op::RW), 3, find), Route::ForeignSource);
    }

    #[test]
    fn nobody_speaks_for_another() {
        for src in [0, 2, 4, 0xffff_ffff, (1 << 32) + 3] {
            assert_eq!(
                route(&packet(src, 4, op::RW), 3, find),
                Route::ForeignSource,
                "{src}"
            );
        }
    }
}
