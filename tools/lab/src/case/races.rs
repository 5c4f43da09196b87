// SPDX-License-Identifier: GPL-2.0
//! What a kernel with KCSAN reports: data races, those that either driver has a part in told from the
//! kernel's own.
//!
//! KCSAN looks at samples, and finds races everywhere in a kernel. A report therefore ends no boot and
//! fails no case. They are gathered, each is a row of the matrix with what was seen of it with either
//! driver, and at the end ours must have no part in one that the C driver has none in, in this run or
//! in earlier ones.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use anyhow::Result;
use regex::Regex;
use rig::Mark;

use super::fixture::{Fixture, Subject};
use super::tap::{TestResult, Verdict};

/// How a report begins, behind which stands what it is about.
const BEGIN: &str = "BUG: KCSAN: ";

/// The line behind a report.
const END: &str = "==========";

/// The beginnings of what races are about that the C driver was seen to have a part in, in the same
/// cases as ours: a run that looks at samples may show one of them with ours alone.
///
/// `virtqueue_disable_cb()` reads `vq->event_triggered` plainly, which `vring_interrupt()` sets with
/// `data_race()`.
const OF_BOTH: [&str; 1] = ["data-race in virtqueue_disable_cb+"];

/// Whose code a frame is. Modules stand behind their functions; the C driver's name is also the
/// beginning of that of the code that both drivers share.
static FRAME: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"\[(virtio_vsock_rs|vmw_vsock_virtio_transport)\b[^\]]*\]")
        .expect("the pattern is constant and valid")
});

/// One report.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Report {
    title: String,
    text: String,
}

impl Report {
    /// The driver that has a part in it.
    fn driver(&self) -> Option<Subject> {
        let found = FRAME.captures(&self.text)?;
        Some(match &found[1] {
            "virtio_vsock_rs" => Subject::Rust,
            _ => Subject::C,
        })
    }
}

/// The reports in lines of a kernel's log, but for one whose end has not come yet.
fn parse<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<Report> {
    let mut reports = Vec::new();
    let mut open: Option<Report> = None;
    for line in lines {
        if let Some(title) = line.strip_prefix(BEGIN) {
            let (title, text) = (title.to_owned(), String::new());
            open = Some(Report { title, text });
        } else if line.starts_with(END) {
            reports.extend(open.take());
        } else if let Some(report) = &mut open {
            report.text += line;
            report.text.push('\n');
        }
    }
    reports
}

/// What was seen of one race with one driver.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// How often, and how often with the driver in it.
    times: u64,
    as_part: u64,
    /// In which case first, and what was said; of one that the driver has a part in, if there is one.
    first: String,
}

impl Seen {
    fn add(&mut self, case: &str, report: &Report, part: bool) {
        if self.times == 0 || (part && self.as_part == 0) {
            self.first = format!("in {case}:\n{}", report.text.trim_end());
        }
        self.times += 1;
        self.as_part += u64::from(part);
    }
}

/// All races of a run, by what they are about.
#[derive(Debug, Default)]
pub(crate) struct Races {
    seen: BTreeMap<String, [Seen; 2]>,
    /// The boot under way: the place in its log from which on reports are read, and how many were.
    boot: Option<(Mark, usize)>,
}

impl Races {
    /// Begins to read the log of a guest that has booted.
    pub(crate) fn begin(&mut self, fixture: &Fixture<'_>) -> Result<()> {
        self.boot = Some((fixture.guest().mark()?, 0));
        Ok(())
    }

    /// Takes what was reported since the last time. A report that names no driver is counted for the
    /// one whose turn it was.
    pub(crate) fn take(&mut self, fixture: &Fixture<'_>, case: &str) -> Result<()> {
        let Some((mark, taken)) = self.boot else {
            return Ok(());
        };
        let records = fixture.guest().klog_since(mark)?;
        let reports = parse(records.iter().map(|record| record.text.as_str()));
        for report in &reports[taken.min(reports.len())..] {
            self.add(fixture.subject, case, report);
        }
        self.boot = Some((mark, reports.len()));
        Ok(())
    }

    fn add(&mut self, turn: Subject, case: &str, report: &Report) {
        let driver = report.driver();
        let seen = self.seen.entry(report.title.clone()).or_default();
        seen[place(driver.unwrap_or(turn))].add(case, report, driver.is_some());
    }

    /// A row for each race: what was seen of it with the C driver, and with ours.
    pub(crate) fn rows(&self) -> Vec<(Vec<TestResult>, Vec<TestResult>)> {
        let rows = self.seen.iter().map(|(title, [c, ours])| {
            let result = |verdict| TestResult {
                name: format!("wire: races: {title}"),
                verdict,
                took: None,
            };
            let told = |seen: &Seen| format!("seen {} times, {}", seen.times, seen.first);
            let own = "the kernel's own: neither driver is in it";
            let verdict = |seen: &Seen, other: &Seen| match (seen.times, seen.as_part) {
                (0, _) => None,
                (times, 0) => Some(Verdict::Skip(format!("{own}; seen {times} times"))),
                _ if other.as_part > 0 => Some(Verdict::FailsWithC(told(seen))),
                (times, _) if is_of_both(title) => Some(Verdict::Skip(format!(
                    "the C driver has a part in it, too, as other runs showed; seen {times} times"
                ))),
                _ => Some(Verdict::Fail(told(seen))),
            };
            let one = |seen, other| verdict(seen, other).map(result).into_iter().collect();
            (one(c, ours), one(ours, c))
        });
        rows.collect()
    }
}

fn is_of_both(title: &str) -> bool {
    OF_BOTH.iter().any(|known| title.starts_with(known))
}

fn place(subject: Subject) -> usize {
    match subject {
        Subject::C => 0,
        Subject::Rust => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOG: &str = "lab: begin\n\
        ==================================================================\n\
        BUG: KCSAN: data-race in virtio_transport_inc_tx_pkt / virtio_transport_space_update\n\
        \n\
        write to 0xffff888003a0b164 of 4 bytes by task 77 on cpu 1:\n \
        virtio_transport_inc_tx_pkt+0x41/0x60 [vmw_vsock_virtio_transport_common]\n \
        virtio_transport_recv_pkt+0x9/0x10 [vmw_vsock_virtio_transport_common]\n \
        _RNvXNtC+0x80/0x90 [virtio_vsock_rs]\n\
        ==================================================================\n\
        BUG: KCSAN: data-race in tick_do / tick_did\n\
        \n\
        read to 0x1 of 4 bytes by interrupt on cpu 0:\n \
        tick_do+0x1/0x2\n\
        ==================================================================\n\
        BUG: KCSAN: data-race in unfinished / report\n";

    fn reports() -> Vec<Report> {
        parse(LOG.lines())
    }

    #[test]
    fn reports_are_found_whole_and_with_the_driver_in_them() {
        let reports = reports();
        assert_eq!(reports.len(), 2);
        assert!(
            reports[0]
                .title
                .ends_with("/ virtio_transport_space_update")
        );
        assert_eq!(reports[0].driver(), Some(Subject::Rust));
        assert_eq!(reports[1].driver(), None);
        let shared = "x+0x1/0x2 [vmw_vsock_virtio_transport_common]\n";
        let of = |text: &str| Report {
            title: String::new(),
            text: text.to_owned(),
        };
        assert_eq!(of(shared).driver(), None);
        let with = format!("{shared} y+0x1/0x2 [vmw_vsock_virtio_transport]\n");
        assert_eq!(of(&with).driver(), Some(Subject::C));
        let unsigned = "y+0x1/0x2 [virtio_vsock_rs OE]\n";
        assert_eq!(of(unsigned).driver(), Some(Subject::Rust));
    }

    #[test]
    fn only_a_race_of_ours_alone_fails() {
        let [race, own] = &reports()[..] else {
            panic!("there are two");
        };
        let mut races = Races::default();
        races.add(Subject::C, "a case", race);
        races.add(Subject::Rust, "a case", own);
        let rows = races.rows();
        let verdicts = |rows: &[(Vec<TestResult>, Vec<TestResult>)], at: usize| {
            let one = |results: &[TestResult]| results.first().map(|one| one.verdict.clone());
            (one(&rows[at].0), one(&rows[at].1))
        };
        assert!(matches!(verdicts(&rows, 0), (None, Some(Verdict::Skip(_)))));
        // It names our driver, whoever's turn it was.
        assert!(matches!(verdicts(&rows, 1), (None, Some(Verdict::Fail(_)))));
        let of_c = Report {
            text: race
                .text
                .replace("[virtio_vsock_rs]", "[vmw_vsock_virtio_transport]"),
            ..race.clone()
        };
        races.add(Subject::C, "another", &of_c);
        let both = verdicts(&races.rows(), 1);
        assert!(
            matches!(both, (Some(_), Some(Verdict::FailsWithC(_)))),
            "{both:?}"
        );
    }

    #[test]
    fn a_race_known_of_both_needs_not_be_seen_with_both_again() {
        let mut report = reports().remove(0);
        let verdict = |report: &Report| {
            let mut races = Races::default();
            races.add(Subject::Rust, "a case", report);
            races.rows()[0].1[0].verdict.clone()
        };
        assert!(matches!(verdict(&report), Verdict::Fail(_)));
        report.title = "data-race in virtqueue_disable_cb+0x61/0x120".into();
        assert!(matches!(verdict(&report), Verdict::Skip(_)));
        // Another race that this function has a part in.
        report.title = "data-race in virtqueue_disable_cb / virtqueue_add_split".into();
        assert!(matches!(verdict(&report), Verdict::Fail(_)));
    }
}
