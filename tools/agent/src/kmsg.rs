// SPDX-License-Identifier: GPL-2.0

//! Forwards the kernel log.

use crate::outbox::Outbox;
use anyhow::{Context as _, Result};
use nix::libc;
use proto::{KlogRecord, Note};
use std::fs::File;
use std::io::Read as _;
use std::thread;

/// The kernel's longest record, with its dictionary.
const RECORD: usize = 16 * 1024;

/// Begins to forward every record from the first one on.
pub(crate) fn start(outbox: Outbox) -> Result<()> {
    let mut log = File::open("/dev/kmsg").context("open /dev/kmsg")?;
    thread::spawn(move || {
        let mut buffer = vec![0; RECORD];
        loop {
            match log.read(&mut buffer) {
                Ok(0) => break,
                Ok(length) => {
                    let text = String::from_utf8_lossy(&buffer[..length]);
                    if let Some(record) = KlogRecord::parse(&text) {
                        outbox.send(&Note::Klog(record));
                    }
                }
                Err(error) if error.raw_os_error() == Some(libc::EPIPE) => {
                    outbox.send(&Note::KlogLost)
                }
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
    });
    Ok(())
}
