// SPDX-License-Identifier: GPL-2.0

//! The way of notes to the lab.

use proto::Note;
use std::io::Write;
use std::sync::{Arc, Mutex, PoisonError};

/// Sends notes, whole and one after the other, from any thread.
#[derive(Clone)]
pub(crate) struct Outbox(Arc<Mutex<Box<dyn Write + Send>>>);

impl Outbox {
    pub(crate) fn new(port: impl Write + Send + 'static) -> Self {
        Outbox(Arc::new(Mutex::new(Box::new(port))))
    }

    pub(crate) fn send(&self, note: &Note) {
        let mut port = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // Without a lab there is nobody to tell.
        let _ = proto::write_line(&mut *port, note);
    }
}
