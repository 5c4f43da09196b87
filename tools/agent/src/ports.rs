// SPDX-License-Identifier: GPL-2.0

//! Ports of the virtio-serial device.

use anyhow::{Context as _, Result, bail};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read};
use std::path::PathBuf;
use std::thread;
use std::time::{Duration, Instant};

const CLASS: &str = "/sys/class/virtio-ports";
/// The device tells of its ports soon after it is found, but not at once.
const LIMIT: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(20);

/// Opens the port of this name, when the device has told of it.
pub(crate) fn open(name: &str) -> Result<File> {
    let started = Instant::now();
    loop {
        if let Some(path) = find(name) {
            let port = OpenOptions::new().read(true).write(true).open(&path);
            return port.with_context(|| format!("open {}", path.display()));
        }
        if started.elapsed() > LIMIT {
            bail!(
                "no virtio-serial port {name} came within {} s",
                LIMIT.as_secs()
            );
        }
        thread::sleep(PAUSE);
    }
}

fn find(name: &str) -> Option<PathBuf> {
    let ports = fs::read_dir(CLASS).ok()?;
    ports.filter_map(io::Result::ok).find_map(|port| {
        let told = fs::read_to_string(port.path().join("name")).ok()?;
        (told.trim() == name).then(|| PathBuf::from("/dev").join(port.file_name()))
    })
}

/// Reads a port. As long as nobody has it open on the other side, a port reads as ended; that is not
/// the end, but a reason to wait.
pub(crate) struct Patient(pub(crate) File);

impl Read for Patient {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            match self.0.read(buffer) {
                Ok(0) if !buffer.is_empty() => thread::sleep(PAUSE),
                other => return other,
            }
        }
    }
}
