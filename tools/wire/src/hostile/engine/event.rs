// SPDX-License-Identifier: GPL-2.0
//! Events, which the guest is told of by a queue of their own.

use std::time::Instant;

use super::{Engine, Go};
use crate::hostile::script::Event;

/// Milliseconds that the guest may take to have a buffer for one.
const WITHIN: u64 = 20_000;

/// What the guest is to be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct News {
    /// Which event.
    pub id: u32,
    /// Bytes written, as the used entry says.
    pub used: u32,
    /// The CID that the guest has from here on, if that is another one.
    pub cid: Option<u32>,
}

impl Engine {
    /// Tell the guest of an event: whoever drives the script does that, once there is a buffer.
    pub(super) fn tell(&mut self, event: &Event, now: Instant) -> Go {
        if std::mem::take(&mut self.told) {
            return Go::On;
        }
        if self.news.is_none() {
            let cid = event.cid.as_ref().map(|cid| self.number(cid) as u32);
            self.news = Some(News {
                id: self.number(&event.id) as u32,
                used: self.number(&event.used) as u32,
                cid,
            });
        }
        self.block(now, WITHIN, || {
            "a buffer in an event queue that is the wire's to serve".into()
        })
    }

    /// What the guest is yet to be told.
    pub fn news(&self) -> Option<News> {
        self.news.filter(|_| !self.ended)
    }

    /// The guest was told.
    pub fn was_told(&mut self) {
        let news = self.news.take();
        self.guest_cid = news.and_then(|news| news.cid).unwrap_or(self.guest_cid);
        self.told = true;
        self.ready = true;
    }
}
