// SPDX-License-Identifier: GPL-2.0
//! A device that cannot be given any page as it is.

use anyhow::Result;
use rig::{GuestSetup, RigKind};
use vsock_peer::plan::Kind;

use crate::case::Case;
use crate::case::fixture::Fixture;
use crate::transfer::{Direction, Transfer};

/// Writes of less than a packet, of one, and of several.
const WRITES: [usize; 5] = [100, 4096, 65_536, 200_000, 256 << 10];

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    let dma_addresses = || GuestSetup::default().access_platform();
    let bounced = || dma_addresses().kernel_option("swiotlb=force");
    let setups = [
        ("a device that wants DMA addresses", dma_addresses()),
        ("all of its buffers bounced (swiotlb=force)", bounced()),
    ];
    let of = |(what, setup): (&str, GuestSetup)| {
        [false, true].map(|zerocopy| {
            let with = if zerocopy { ", with MSG_ZEROCOPY" } else { "" };
            let name = format!("{what}: transfers are exact, both ways{with}");
            Case::new(name, move |fixture| transfers(fixture, zerocopy))
                .setup(setup.clone())
                .only_on([RigKind::Wire])
        })
    };
    setups.into_iter().flat_map(of).collect()
}

/// With MSG_ZEROCOPY, every send has to be completed once; that its bytes were copied after all is the
/// kernel's choice.
fn transfers(fixture: &Fixture<'_>, zerocopy: bool) -> Result<()> {
    for kind in [Kind::Stream, Kind::Seqpacket] {
        for write_size in WRITES {
            let bytes = fixture.rounds(256 << 10, 2 << 20, 64 << 20);
            // The kernel accounts a message's overhead of some 600 bytes, too.
            let bytes = bytes.min(write_size as u64 * 2000);
            let mut transfer = Transfer::new(kind, Direction::BothWays, write_size, bytes).over(2);
            transfer.zerocopy = zerocopy;
            fixture.transfer(&transfer)?;
        }
    }
    Ok(())
}
