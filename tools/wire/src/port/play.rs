// SPDX-License-Identifier: GPL-2.0
//! A port whose device does what a script says.

use std::sync::mpsc::SyncSender;
use std::time::Instant;

use vm_memory::Bytes;

use super::Port;
use crate::args::UsedBatch;
use crate::header::Header;
use crate::hostile::engine::{Engine, News};
use crate::hostile::report::Report;
use crate::queue::{Broken, GuestQueue};
use crate::stats::QueueStats;

/// A script under way, and whom to tell when it is over.
pub(super) struct Play {
    pub(super) engine: Engine,
    ended: SyncSender<()>,
}

impl Port {
    /// Whether a script is under way and may have something to do.
    pub fn has_script_work(&self) -> bool {
        let work = self
            .play
            .as_ref()
            .is_some_and(|play| play.engine.has_work());
        work && self.link.is_some() && !self.rx_broken
    }

    /// Whether a script watches for a driver's first buffers.
    pub fn is_watching(&self) -> bool {
        let play = self.play.as_ref();
        play.is_some_and(|play| play.engine.is_watching())
    }

    /// Begin to do what a script says; `ended` is told when that is over.
    pub fn start_script(&mut self, engine: Engine, ended: SyncSender<()>) -> anyhow::Result<()> {
        anyhow::ensure!(
            self.play.is_none(),
            "another script runs for CID {}; wait for its end",
            self.cid()
        );
        self.play = Some(Play { engine, ended });
        Ok(())
    }

    /// Go on with the script.
    pub fn drive_script(&mut self) -> Result<(), Broken> {
        let (Some(play), Some(link)) = (&mut self.play, &self.link) else {
            return Ok(());
        };
        let driven = play
            .engine
            .drive(&link.rx, &mut self.stats.rx_queue, Instant::now());
        for _ in 0..play.engine.take_tx_interrupts() {
            let stats = &mut self.stats.tx_queue;
            link.tx.open_stopped(UsedBatch::On, stats).interrupt();
        }
        if let (Some(news), Some(queue)) = (play.engine.news(), &link.event) {
            match tell(news, queue, &mut self.stats.event_queue) {
                Ok(true) => {
                    // Who reads the configuration waits for the wire, and so finds it there.
                    self.spec.cid = news.cid.unwrap_or(self.spec.cid);
                    play.engine.was_told();
                }
                Ok(false) => {}
                Err(Broken) => {
                    let why = "the guest has broken its event queue";
                    play.engine.fail(why.into());
                }
            }
        }
        if driven.is_err() {
            let why = "the guest has broken its ring";
            play.engine.fail(why.into());
        }
        if play.engine.report().is_some() {
            // Who started it may have gone, and had it told before.
            let _ = play.ended.try_send(());
        }
        self.done.extend(play.engine.let_go());
        if driven.is_err() {
            self.rx_broken = true;
            self.stats.rx_queue.broken += 1;
        }
        driven
    }

    /// Tell the script the time.
    pub fn tick(&mut self, now: Instant) {
        if let Some(play) = &mut self.play {
            play.engine.tick(now);
            if self.rx_broken && play.engine.report().is_none() {
                play.engine.fail("the guest has broken its ring".into());
                let _ = play.ended.try_send(());
            }
        }
    }

    /// End the script, whether it is over or not.
    pub fn end_script(&mut self) -> Option<Report> {
        let mut play = self.play.take()?;
        self.done.extend(play.engine.let_go_of_all());
        let report = play.engine.report().cloned();
        Some(report.unwrap_or_else(|| Report {
            error: Some("it was aborted".into()),
            ..Report::default()
        }))
    }

    /// Let the script have a packet of the guest, if there is one under way and
    /// no service is meant.
    pub fn hear_in_script(&mut self, header: &Header) -> bool {
        let service = self.host.serves(header);
        let play = self.play.as_mut().filter(|_| !service);
        let engine = play.map(|play| &mut play.engine);
        let engine = engine.filter(|engine| engine.report().is_none());
        engine.map(|engine| engine.hear(header)).is_some()
    }
}

/// Puts an event into a buffer of the guest's. False says that it has none there.
fn tell(news: News, queue: &GuestQueue, stats: &mut QueueStats) -> Result<bool, Broken> {
    let Some(mut round) = queue.open(UsedBatch::On, stats) else {
        return Ok(false);
    };
    round.silence()?;
    let Some(chain) = round.take()? else {
        return Ok(false);
    };
    let head = chain.head_index();
    if let Some(buffer) = chain.writable().next() {
        // A guest whose buffer is not in its memory is told of nothing.
        let _ = round
            .memory()
            .write_slice(&news.id.to_le_bytes(), buffer.addr());
    }
    round.publish_as_told(&[(head.into(), news.used)])?;
    Ok(true)
}
