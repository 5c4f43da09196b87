// SPDX-License-Identifier: GPL-2.0

//! Threads that read a machine's console and its heartbeat.

use crate::board::Seat;
use std::io::{BufRead as _, BufReader, Read as _};
use std::os::unix::net::UnixStream;
use std::thread;

/// Posts each line of the console, until it is closed.
pub(crate) fn watch_console(seat: Seat, console: UnixStream) {
    thread::spawn(move || {
        for line in BufReader::new(console).split(b'\n') {
            let Ok(line) = line else { break };
            let line = String::from_utf8_lossy(&line);
            seat.console(line.trim_end_matches('\r'));
        }
    });
}

/// Posts each heartbeat, until the port is closed.
pub(crate) fn watch_heart(seat: Seat, mut port: UnixStream) {
    thread::spawn(move || {
        let mut buffer = [0; 256];
        // The bytes mean nothing; that they come is what counts.
        while port.read(&mut buffer).is_ok_and(|length| length > 0) {
            seat.beat();
        }
    });
}
