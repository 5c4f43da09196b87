// SPDX-License-Identifier: GPL-2.0

//! One log of one machine: whole in a file, its last lines at hand, watched for faults.

use crate::error::{IoContext as _, Result};
use crate::fault::{Expected, is_fault};
use std::collections::VecDeque;
use std::fs::File;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// So many lines are at hand.
const KEPT: usize = 400;
/// So many are shown before the one that matters, and so many after it.
const BEFORE: u64 = 4;
const AFTER: u64 = 40;

#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    file: File,
    lines: VecDeque<String>,
    /// The number of lines that came before the first one at hand.
    dropped: u64,
    expected: Expected,
    fault: Option<Found>,
    last: Instant,
}

/// The first fault.
#[derive(Clone, Debug)]
struct Found {
    line: String,
    number: u64,
    since: Instant,
}

impl Journal {
    pub(crate) fn create(path: PathBuf, expected: Expected) -> Result<Self> {
        let file = File::create(&path).context(|| format!("write {}", path.display()))?;
        Ok(Journal {
            path,
            file,
            lines: VecDeque::new(),
            dropped: 0,
            expected,
            fault: None,
            last: Instant::now(),
        })
    }

    /// Adds a line. `ours` says that the kernel wrote it, and not a program through the kernel.
    pub(crate) fn add(&mut self, line: &str, ours: bool) {
        if let Err(error) = writeln!(self.file, "{line}") {
            // A full disk must not hide what the machine says.
            self.lines
                .push_back(format!("(the log file failed: {error})"));
        }
        if ours && self.fault.is_none() && is_fault(line, &self.expected) {
            let number = self.dropped + self.lines.len() as u64;
            self.fault = Some(Found {
                line: line.into(),
                number,
                since: Instant::now(),
            });
        }
        self.lines.push_back(line.into());
        while self.lines.len() > KEPT {
            self.lines.pop_front();
            self.dropped += 1;
        }
        self.last = Instant::now();
    }

    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// The line of the first fault, if there is one.
    pub(crate) fn fault(&self) -> Option<&str> {
        self.fault.as_ref().map(|found| found.line.as_str())
    }

    /// How long ago the first fault's line came.
    pub(crate) fn fault_age(&self) -> Option<Duration> {
        self.fault.as_ref().map(|found| found.since.elapsed())
    }

    /// The first fault's line and what is at hand of those after it.
    pub(crate) fn since_fault(&self) -> impl Iterator<Item = &str> {
        let number = self.fault.as_ref().map_or(u64::MAX, |found| found.number);
        let skip = index(number.saturating_sub(self.dropped));
        self.lines.iter().skip(skip).map(String::as_str)
    }

    /// Has all of it come so much earlier.
    #[cfg(test)]
    pub(crate) fn age(&mut self, by: Duration) {
        let earlier = |then: Instant| then.checked_sub(by).expect("this machine is up for longer");
        self.last = earlier(self.last);
        if let Some(fault) = &mut self.fault {
            fault.since = earlier(fault.since);
        }
    }

    /// When the last line came.
    pub(crate) fn last(&self) -> Instant {
        self.last
    }

    /// The lines around the first fault, or the last ones.
    pub(crate) fn tail(&self) -> String {
        let end = self.dropped + self.lines.len() as u64;
        let (from, to) = match &self.fault {
            Some(found) => (found.number.saturating_sub(BEFORE), found.number + AFTER),
            None => (end.saturating_sub(AFTER / 2), end),
        };
        let skip = from.saturating_sub(self.dropped);
        let take = to.saturating_sub(self.dropped.max(from));
        let lines = self.lines.iter().skip(index(skip)).take(index(take));
        let lines: Vec<_> = lines.map(|line| format!("  | {line}")).collect();
        lines.join("\n")
    }
}

fn index(number: u64) -> usize {
    usize::try_from(number).unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn journal(folder: &Path) -> Journal {
        Journal::create(folder.join("log"), Expected::default()).unwrap()
    }

    #[test]
    fn the_tail_shows_the_fault_and_what_follows() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = journal(folder.path());
        for number in 0..1000 {
            journal.add(&format!("line {number}"), true);
        }
        journal.add("BUG: broken", true);
        assert_eq!(journal.fault(), Some("BUG: broken"));
        for number in 1001..1100 {
            journal.add(&format!("line {number}"), true);
        }
        journal.add("BUG: another", true);
        assert_eq!(journal.fault(), Some("BUG: broken"), "the first one counts");
        let tail = journal.tail();
        assert!(tail.starts_with("  | line 996\n"), "{tail}");
        assert!(tail.ends_with("  | line 1039"), "{tail}");
        let whole = std::fs::read_to_string(journal.path()).unwrap();
        assert_eq!(whole.lines().count(), 1101);
    }

    #[test]
    fn a_program_cannot_raise_the_alarm() {
        let folder = tempfile::tempdir().unwrap();
        let mut journal = journal(folder.path());
        journal.add("BUG: says a program", false);
        assert_eq!(journal.fault(), None);
        assert_eq!(journal.tail(), "  | BUG: says a program");
    }
}
