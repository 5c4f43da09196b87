// SPDX-License-Identifier: GPL-2.0
//! Takes cases through one boot, or through more if one of them kills the machines.

use std::io::Write;

use anyhow::Result;
use rig::{Pair, Progress, Rig, RigKind, Stalls, Step};

use crate::case::Case;
use crate::case::fixture::{Fixture, Length, Subject};
use crate::case::messages::Watch;
use crate::case::tap::{Tap, TestResult, Verdict};
use crate::case::turn;

/// Cases for which the nested rig is booted: it seldom lives for long, and a boot that stalls takes all
/// that was run in it with it.
const NESTED_CASES: usize = 6;

/// What all boots of one run share.
pub(crate) struct Runner<'a, W> {
    /// Where results go.
    pub tap: &'a mut Tap<W>,
    /// The machines.
    pub rig: &'a Rig,
    /// The driver under test.
    pub subject: Subject,
    /// Counts the rig's stalls.
    pub stalls: &'a mut Stalls,
    /// Tells of what goes on.
    pub progress: &'a Progress,
}

impl<W: Write> Runner<'_, W> {
    /// Runs every case.
    pub(crate) fn run(&mut self, cases: &[Case]) {
        let most = match self.rig.kind() {
            RigKind::Nested => NESTED_CASES,
            _ => cases.len(),
        };
        let mut left = cases;
        while !left.is_empty() {
            let done = self.boot_and_run(&left[..left.len().min(most)]);
            left = &left[done..];
        }
    }

    /// Runs cases in one boot, as far as it carries; returns how many that were, at least one.
    fn boot_and_run(&mut self, cases: &[Case]) -> usize {
        let kind = self.rig.kind();
        let step = self.progress.step(format!("checking on the {kind} rig"));
        // A stall throws away what came before it in the boot, so nothing is shown until the end.
        let at_once = kind != RigKind::Nested;
        let mut results: Vec<TestResult> = Vec::new();
        let mut begun = 0;
        let (tap, subject, progress) = (&mut *self.tap, self.subject, self.progress);
        let ended = self.rig.run_part("check", self.stalls, progress, |pair| {
            results.clear();
            begun = 0;
            let mut boot = Boot::begin(pair, subject)?;
            for case in cases {
                begun += 1;
                step.detail(case.title());
                let (new, fatal) = boot.run(case, &step);
                if at_once {
                    new.iter().for_each(|result| tap.result(result));
                } else {
                    results.extend(new);
                }
                if let Some(error) = fatal {
                    return Err(error);
                }
            }
            boot.end()
        });
        results.iter().for_each(|result| self.tap.result(result));
        match ended {
            Ok(()) => {
                step.done();
                self.tap.result(&TestResult {
                    name: format!(
                        "{kind}: messages: no kernel message above notice level that was not provoked"
                    ),
                    verdict: Verdict::Pass,
                    took: None,
                });
            }
            Err(error) => {
                drop(step);
                let what = if begun == 0 {
                    "the rig boots and the driver loads"
                } else {
                    "the boot ends in order, without a kernel message above notice level"
                };
                self.tap.result(&TestResult {
                    name: format!("{kind}: {what}"),
                    verdict: Verdict::Fail(format!("{error:#}")),
                    took: None,
                });
            }
        }
        if begun == 0 {
            // Another boot would fail the same way, for each of them.
            for case in cases {
                self.tap.result(&TestResult {
                    name: format!("{kind}: {}", case.title()),
                    verdict: Verdict::Fail("not run: there is no boot to run it in".into()),
                    took: None,
                });
            }
            return cases.len();
        }
        begun
    }
}

/// One boot, with the driver under test in its place.
struct Boot<'a> {
    fixture: Fixture<'a>,
    whole: Watch<'a>,
    /// Messages of the cases so far.
    provoked: Vec<&'static str>,
}

impl<'a> Boot<'a> {
    fn begin(pair: &'a Pair, subject: Subject) -> Result<Self> {
        let fixture = Fixture {
            pair,
            subject,
            length: Length::Quick,
            compare: true,
        };
        let whole = Watch::begin(&fixture)?;
        turn::begin(&fixture)?;
        Ok(Self {
            fixture,
            whole,
            provoked: Vec::new(),
        })
    }

    /// Runs a case; an error besides its results means that the machines are gone.
    fn run(&mut self, case: &Case, step: &Step) -> (Vec<TestResult>, Option<anyhow::Error>) {
        self.provoked.extend(&case.provokes);
        let turn = turn::take(&self.fixture, case);
        if !turn.broke {
            return (turn.results, None);
        }
        step.detail("finding out what the failure left behind");
        (turn.results, turn::recover(&self.fixture).err())
    }

    fn end(&self) -> Result<()> {
        self.whole.end(&self.provoked)
    }
}
