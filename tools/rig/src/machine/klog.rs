// SPDX-License-Identifier: GPL-2.0

//! The kernel log of a machine.
//!
//! That of the machine that the lab itself runs on, the host side of the kvm rig, is not watched: what
//! is in it is not the rig's doing.

use super::Machine;
use crate::error::{Error, Result};
use crate::fault::Expected;
use proto::{KlogRecord, Level};
use std::time::Duration;

/// A place in a machine's kernel log.
#[derive(Clone, Copy, Debug)]
pub struct Mark(usize);

impl Machine {
    /// Marks the present end of the kernel log.
    ///
    /// All that the kernel logged before is before the mark: the log reaches the lab late, so the
    /// machine is made to log a line of its own, and that line is waited for.
    pub fn mark(&self) -> Result<Mark> {
        if !self.is_virtual() {
            return Ok(Mark(0));
        }
        let line = format!("lab: mark {}", self.seat().next_id());
        self.write("/dev/kmsg", format!("<7>{line}\n"))?;
        let what = "a mark in the kernel log".to_owned();
        self.seat().wait(what, Duration::from_secs(20), |seat| {
            let found = seat
                .klog
                .iter()
                .rposition(|record| record.text.ends_with(&line))?;
            Some(Mark(found + 1))
        })
    }

    /// What the kernel has logged since a mark, up to now.
    pub fn klog_since(&self, mark: Mark) -> Result<Vec<KlogRecord>> {
        let end = self.mark()?;
        self.seat().look(|seat| {
            let records = seat.klog[mark.0..end.0].iter();
            Ok(records
                .filter(|record| !record.from_user)
                .cloned()
                .collect())
        })
    }

    /// Waits for a kernel message after `mark` that `wanted` makes something of.
    pub fn wait_klog<T>(
        &self,
        what: &str,
        mark: Mark,
        timeout: Duration,
        mut wanted: impl FnMut(&KlogRecord) -> Option<T>,
    ) -> Result<T> {
        let mut next = mark.0;
        self.seat()
            .wait(format!("{what} in the kernel log"), timeout, |seat| {
                while let Some(record) = seat.klog.get(next) {
                    next += 1;
                    if let Some(found) = wanted(record) {
                        return Some(found);
                    }
                }
                None
            })
    }

    /// Fails if the kernel has logged anything at warning level or above since `mark` that is not
    /// expected, or if records were lost. What every kernel says now and then when it is emulated is
    /// expected.
    pub fn check_quiet(&self, mark: Mark, expected: &Expected) -> Result<()> {
        let fine = |text: &str| expected.covers(text) || self.traits.noise.covers(text);
        let unexpected: Vec<String> = self
            .klog_since(mark)?
            .iter()
            .filter(|record| record.level <= Level::WARNING && !fine(&record.text))
            .map(ToString::to_string)
            .collect();
        let lost = self.seat().look(|seat| seat.klog_lost);
        if unexpected.is_empty() && !lost {
            return Ok(());
        }
        let mut lines = unexpected.join("\n");
        if lost {
            lines.push_str("\n(and records were lost)");
        }
        let machine = self.name().into();
        Err(Error::UnexpectedMessages { machine, lines })
    }
}
