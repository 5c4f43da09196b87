// SPDX-License-Identifier: GPL-2.0
//! Test results in the Test Anything Protocol, with a last line for people.

use std::fmt::Write as _;
use std::io::Write;
use std::time::Duration;

use rig::Progress;

/// What came of one test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// It holds.
    Pass,
    /// It does not; the text says what was seen.
    Fail(String),
    /// It does not with the C driver either, in the same boot.
    FailsWithC(String),
    /// It could not be tried, and why.
    Skip(String),
}

/// One test and what came of it.
#[derive(Clone, Debug)]
pub(crate) struct TestResult {
    /// What the test shows, after its place.
    pub name: String,
    /// What came of it.
    pub verdict: Verdict,
    /// How long it took, if that was measured.
    pub took: Option<Duration>,
}

/// Prints results as they come, and counts them.
pub(crate) struct Tap<W> {
    out: W,
    progress: Progress,
    passed: usize,
    failed: usize,
    fails_with_c: Vec<String>,
    skipped: usize,
}

impl<W: Write> Tap<W> {
    /// A report onto `out`, with the progress bars out of its way.
    pub(crate) fn new(out: W, progress: Progress) -> Self {
        Self {
            out,
            progress,
            passed: 0,
            failed: 0,
            fails_with_c: Vec::new(),
            skipped: 0,
        }
    }

    /// A line that is no result.
    pub(crate) fn note(&mut self, text: &str) {
        self.put(&comment(text));
    }

    /// Prints and counts one result.
    pub(crate) fn result(&mut self, result: &TestResult) {
        let number = self.passed + self.failed + self.fails_with_c.len() + self.skipped + 1;
        let mut text = String::new();
        let (ok, after, why) = match &result.verdict {
            Verdict::Pass => {
                self.passed += 1;
                ("ok", String::new(), "")
            }
            Verdict::Fail(why) => {
                self.failed += 1;
                ("not ok", String::new(), why.as_str())
            }
            Verdict::FailsWithC(why) => {
                self.fails_with_c.push(result.name.clone());
                let after = " # TODO the C driver fails as well in the same boot";
                ("not ok", after.to_owned(), why.as_str())
            }
            Verdict::Skip(why) => {
                self.skipped += 1;
                ("ok", format!(" # SKIP {why}"), "")
            }
        };
        let _ = write!(
            text,
            "{ok} {number} - {}{after}",
            result.name.replace('#', "\\#")
        );
        // Only where it is worth knowing: short ones would be noise.
        if let Some(took) = result.took.filter(|took| took.as_secs() >= 2) {
            let _ = write!(text, " ({:.1} s)", took.as_secs_f64());
        }
        text.push('\n');
        if !why.is_empty() {
            text += &comment(why);
        }
        self.put(&text);
    }

    /// Prints the plan and the sums; returns whether everything passed.
    pub(crate) fn finish(mut self) -> bool {
        let total = self.passed + self.failed + self.fails_with_c.len() + self.skipped;
        let mut text = format!("1..{total}\n");
        if self.skipped > 0 {
            let _ = writeln!(text, "# {} skipped", self.skipped);
        }
        for name in &self.fails_with_c {
            let _ = writeln!(text, "# fails with the C driver as well: {name}");
        }
        let _ = writeln!(text, "{} passed, {} failed", self.passed, self.failed);
        self.put(&text);
        self.failed == 0
    }

    fn put(&mut self, text: &str) {
        let out = &mut self.out;
        // A reader that has gone away misses the rest; the exit code still tells.
        self.progress
            .suspended(|| drop(out.write_all(text.as_bytes()).and_then(|()| out.flush())));
    }
}

fn comment(text: &str) -> String {
    let lines = text.lines().map(|line| ["# ", line, "\n"]);
    lines.flatten().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn report(verdicts: &[Verdict]) -> (String, bool) {
        let mut out = Vec::new();
        let mut tap = Tap::new(&mut out, Progress::new());
        for verdict in verdicts {
            tap.result(&TestResult {
                name: "wire: it works".into(),
                verdict: verdict.clone(),
                took: None,
            });
        }
        let passed = tap.finish();
        (String::from_utf8(out).unwrap(), passed)
    }

    #[test]
    fn the_last_line_counts() {
        let (text, passed) = report(&[Verdict::Pass, Verdict::Fail("two\nlines".into())]);
        assert!(!passed);
        assert_eq!(
            text,
            "ok 1 - wire: it works\nnot ok 2 - wire: it works\n# two\n# lines\n1..2\n\
             1 passed, 1 failed\n"
        );
    }

    #[test]
    fn what_fails_with_c_is_shown_and_no_failure_of_ours() {
        let (text, passed) = report(&[
            Verdict::FailsWithC("why".into()),
            Verdict::Skip("no".into()),
        ]);
        assert!(passed);
        assert!(text.starts_with("not ok 1 - wire: it works # TODO the C driver fails as well"));
        assert!(text.contains("ok 2 - wire: it works # SKIP no\n"));
        assert!(text.contains("# fails with the C driver as well: wire: it works\n"));
        assert!(text.ends_with("0 passed, 0 failed\n"));
    }
}
