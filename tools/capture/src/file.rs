// SPDX-License-Identifier: GPL-2.0
//! Capture files, as `tcpdump -w` writes them.

use std::io::Read;

use pcap_file::pcap::PcapReader;
use pcap_file::{DataLink, PcapError};

use crate::packet::{Malformed, Packet};

/// `DLT_VSOCK`: what libpcap calls vsockmon's frames.
pub const LINK: u32 = 271;

/// Why a file is no capture to be checked. Frames count from 1, as with other tools.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// It is not in the format.
    #[error("it is not a capture file: {0}")]
    Format(#[from] PcapError),
    /// It is a capture of something else.
    #[error("it is a capture of link type {0}, not of vsock ({LINK})")]
    Link(u32),
    /// A frame was cut off by the capture's snapshot length.
    #[error("frame {number} has {captured} of its {length} bytes: capture with `-s 0`")]
    Cut {
        /// Which one.
        number: usize,
        /// What is left of it.
        captured: usize,
        /// What it was.
        length: usize,
    },
    /// A frame is no packet.
    #[error("frame {number}: {why}")]
    Frame {
        /// Which one.
        number: usize,
        /// Why.
        why: Malformed,
    },
}

/// Reads a capture whole.
pub fn read(file: impl Read) -> Result<Vec<Packet>, Unreadable> {
    let mut reader = PcapReader::new(file)?;
    let link = reader.header().datalink;
    if u32::from(link) != u32::from(DataLink::from(LINK)) {
        return Err(Unreadable::Link(link.into()));
    }
    let mut packets = Vec::new();
    while let Some(frame) = reader.next_packet() {
        let frame = frame?;
        let number = packets.len() + 1;
        let (captured, length) = (frame.data.len(), frame.orig_len as usize);
        if captured != length {
            return Err(Unreadable::Cut {
                number,
                captured,
                length,
            });
        }
        let packet = Packet::parse(&frame.data);
        packets.push(packet.map_err(|why| Unreadable::Frame { number, why })?);
    }
    Ok(packets)
}
