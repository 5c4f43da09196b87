// SPDX-License-Identifier: GPL-2.0

//! The heartbeat: it shows that the machine's clock runs and its programs are scheduled, and it does
//! nothing else, so that whatever else stands still does not stop it.

use std::io::Write;
use std::thread;

/// Begins to write heartbeats to `port`.
pub(crate) fn start(mut port: impl Write + Send + 'static) {
    thread::spawn(move || {
        // Nobody is left to tell when this fails: the lab sees that the beats stay away.
        while port.write_all(b".\n").is_ok() {
            thread::sleep(proto::port::BEAT_EVERY);
        }
    });
}
