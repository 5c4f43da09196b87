// SPDX-License-Identifier: GPL-2.0
//! What the wire counted.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, ensure};
use serde::Serialize;

use crate::chain::Malformed;
use crate::service::report::ServiceReport;

/// Everything counted about one port since the program started.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PortStats {
    /// Connections that QEMU made.
    pub connections: u64,
    /// Times that the guest's driver, or QEMU, let go of the RX queue.
    pub stops: u64,
    /// Packets taken from the guest.
    pub tx_packets: u64,
    /// Payload bytes in them.
    pub tx_bytes: u64,
    /// Packets delivered to the guest, each once however many buffers it took.
    pub rx_packets: u64,
    /// Payload bytes in them.
    pub rx_bytes: u64,
    /// Packets that had to wait for room in the guest's RX ring.
    pub held: u64,
    /// Packets split over several RX buffers.
    pub splits: u64,
    /// RX buffers that split packets took together.
    pub fragments: u64,
    /// Resets made for packets of the guest that nobody was there to take.
    pub resets: u64,
    /// Packets of the guest that came to nothing.
    pub drops: Drops,
    /// RX buffers that could not be filled and went back empty.
    pub bad_buffers: u64,
    /// How the RX queue was served.
    pub rx_queue: QueueStats,
    /// How the TX queue was served.
    pub tx_queue: QueueStats,
    /// How the event queue was served, by scripts.
    pub event_queue: QueueStats,
}

/// Packets of a guest that were dropped, by reason.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Drops {
    /// The chain has no room for a header.
    pub short: u64,
    /// The chain is longer than any packet.
    pub long: u64,
    /// The header promises more payload than the chain has.
    pub payload: u64,
    /// The chain does not consist of readable guest memory.
    pub descriptors: u64,
    /// The source CID is not the guest's.
    pub foreign_source: u64,
    /// A reset, or the answer to a packet, that nobody is there to hear.
    pub unheard: u64,
    /// The receiver's guest left while the packet waited.
    pub receiver_left: u64,
    /// The sender's guest left, and too many of its packets waited already.
    pub sender_left: u64,
}

impl Drops {
    /// Count a chain that holds no packet.
    pub fn malformed(&mut self, reason: Malformed) {
        *match reason {
            Malformed::Short => &mut self.short,
            Malformed::Long => &mut self.long,
            Malformed::Payload => &mut self.payload,
            Malformed::Descriptors => &mut self.descriptors,
        } += 1;
    }
}

/// How a queue was served.
#[derive(Clone, Debug, Default, Serialize)]
pub struct QueueStats {
    /// Kicks by the guest.
    pub kicks: u64,
    /// Used entries given back to the guest.
    pub used: u64,
    /// Times the used index was moved; `used` over this is the mean batch.
    pub publications: u64,
    /// Interrupts asked for.
    pub signals: u64,
    /// Rings found broken; one that is broken rests until the guest resets it.
    pub broken: u64,
}

/// One port of the report.
#[derive(Debug, Serialize)]
pub struct PortReport {
    /// The guest's CID.
    pub cid: u32,
    /// The socket that QEMU connects to.
    pub socket: PathBuf,
    /// Whether the guest's driver is there to receive packets now.
    pub up: bool,
    /// Packets that wait for the guest now.
    pub waiting: usize,
    /// The guest's TX chains that are held now.
    pub holding: usize,
    /// The counters.
    #[serde(flatten)]
    pub stats: PortStats,
    /// The host's services to this guest.
    pub services: Vec<ServiceReport>,
}

/// The counters of all ports at one moment.
#[derive(Debug, Serialize)]
pub struct Report {
    /// In the order of the command line.
    pub ports: Vec<PortReport>,
}

impl Report {
    /// Whether `write` has a chance, before hours of counting.
    pub fn check_path(path: &Path) -> anyhow::Result<()> {
        let folder = path.parent().filter(|f| !f.as_os_str().is_empty());
        let folder = folder.unwrap_or(Path::new("."));
        ensure!(
            folder.is_dir(),
            "the folder of the counters, {}, does not exist; make it, or give another --stats",
            folder.display()
        );
        ensure!(
            !path.is_dir(),
            "{} is a folder; give --stats a file in it",
            path.display()
        );
        Ok(())
    }

    /// Put the report into `path` in one step, so that a reader never sees half
    /// of one. A pipe or a terminal is written to as it is.
    pub fn write(&self, path: &Path) -> anyhow::Result<()> {
        let text = serde_json::to_string_pretty(self)? + "\n";
        let written = match fs::metadata(path) {
            Ok(found) if !found.is_file() => fs::write(path, text),
            _ => {
                let mut name = path.file_name().unwrap_or_default().to_owned();
                name.push(".part");
                let part = path.with_file_name(name);
                fs::write(&part, text).and_then(|()| fs::rename(&part, path))
            }
        };
        written.with_context(|| format!("cannot write the counters into {}", path.display()))
    }
}
