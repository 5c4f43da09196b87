// SPDX-License-Identifier: GPL-2.0
//! Takes cases through boots: each with the C driver first and then with ours.

use std::io::Write;

use anyhow::{Context as _, Result};
use rig::{Pair, Progress, Rig, RigKind, Stalls, Step};

use super::matrix::Matrix;
use crate::case::Case;
use crate::case::fixture::{Fixture, Length, Subject};
use crate::case::races::Races;
use crate::case::tap::{Tap, TestResult, Verdict};
use crate::case::turn::{self, Turn};

/// What all boots of one run share.
pub(crate) struct Runner<'a, W> {
    /// Where results go as they come.
    pub tap: &'a mut Tap<W>,
    /// Where they go for the end.
    pub matrix: &'a mut Matrix,
    /// The machines.
    pub rig: &'a Rig,
    /// How long loops are.
    pub length: Length,
    /// Where data races go, if the kernel looks for them.
    pub races: Option<&'a mut Races>,
    /// Counts the rig's stalls.
    pub stalls: &'a mut Stalls,
    /// Tells of what goes on.
    pub progress: &'a Progress,
}

/// What came of one case with both drivers.
struct Both {
    c: Vec<TestResult>,
    ours: Vec<TestResult>,
}

/// How far a boot came.
#[derive(Default)]
struct Reached {
    /// Cases that both drivers are through with.
    done: Vec<Both>,
    /// What came of the next one with the C driver, if that had its turn.
    c: Option<Vec<TestResult>>,
    /// Something was tried.
    begun: bool,
}

impl<W: Write> Runner<'_, W> {
    /// Runs every case.
    pub(crate) fn run(&mut self, cases: &[Case]) {
        let mut left = cases;
        let mut c = None;
        while !left.is_empty() {
            let reached = self.boot_and_run(left, c);
            left = &left[reached.done.len()..];
            c = reached.c;
        }
    }

    /// Runs cases in one boot, as far as it carries: at least one driver's turn at one case further.
    /// `c` is what came of the first one with the C driver in the boot before.
    fn boot_and_run(&mut self, cases: &[Case], c: Option<Vec<TestResult>>) -> Reached {
        let kind = self.rig.kind();
        let step = self.progress.step(format!("running on the {kind} rig"));
        // A stall throws away what came before it in the boot, so nothing is shown until the end.
        let at_once = kind != RigKind::Nested;
        let mut reached = Reached::default();
        let (length, progress) = (self.length, self.progress);
        let (tap, matrix) = (&mut *self.tap, &mut *self.matrix);
        let mut races = self.races.as_deref_mut();
        let mut show = |both: &Both| {
            both.show(tap);
            matrix.add(&both.c, &both.ours);
        };
        let part = "conformance";
        let ended = self.rig.run_part(part, self.stalls, progress, |pair| {
            reached = Reached {
                c: c.clone(),
                ..Reached::default()
            };
            let mut boot = Boot::begin(pair, length, &step)?;
            if let Some(races) = &mut races {
                races.begin(&boot.c)?;
            }
            for case in cases {
                reached.begun = true;
                let broke = boot.run(case, &mut reached, races.as_deref_mut());
                if at_once && reached.c.is_none() {
                    reached.done.last().into_iter().for_each(&mut show);
                }
                broke?;
            }
            Ok(())
        });
        if !at_once {
            reached.done.iter().for_each(&mut show);
        }
        match ended {
            Ok(()) => step.done(),
            Err(error) => {
                drop(step);
                self.explain(&error, &mut reached, cases);
            }
        }
        reached
    }

    /// Makes results of the failure of a whole boot.
    fn explain(&mut self, error: &anyhow::Error, reached: &mut Reached, cases: &[Case]) {
        let kind = self.rig.kind();
        let mut fail = |name: String, why: String| {
            let result = TestResult {
                name,
                verdict: Verdict::Fail(why),
                took: None,
            };
            self.tap.result(&result);
            self.matrix.add(&[], &[result]);
        };
        if reached.begun {
            // The C driver's failure is its row's affair, and ours goes on in another boot; a case of ours
            // that broke the boot has failed by itself.
            let known = reached.c.is_some() || reached.done.last().is_some_and(Both::ours_failed);
            if !known {
                let name = format!("{kind}: the boot ends in order");
                fail(name, format!("{error:#}"));
            }
            return;
        }
        fail(
            format!("{kind}: the rig boots and both drivers load"),
            format!("{error:#}"),
        );
        // Another boot would fail the same way, for each of them.
        for case in cases {
            let name = format!("{kind}: {}", case.title());
            fail(name, "not run: there is no boot to run it in".into());
            let (c, ours) = (Vec::new(), Vec::new());
            reached.done.push(Both { c, ours });
        }
        reached.c = None;
    }
}

impl Both {
    fn ours_failed(&self) -> bool {
        let failed = |result: &TestResult| matches!(result.verdict, Verdict::Fail(_));
        self.ours.iter().any(failed)
    }

    /// Our results decide; the C driver's failures are told.
    fn show(&self, tap: &mut Tap<impl Write>) {
        for result in &self.ours {
            tap.result(result);
        }
        for result in &self.c {
            if let Verdict::Fail(why) = &result.verdict {
                tap.note(&format!(
                    "with the C driver, {}, fails:\n{why}",
                    result.name
                ));
            }
        }
    }
}

/// One boot, and both drivers' view of it.
struct Boot<'a> {
    c: Fixture<'a>,
    ours: Fixture<'a>,
    step: &'a Step,
}

impl<'a> Boot<'a> {
    fn begin(pair: &'a Pair, length: Length, step: &'a Step) -> Result<Self> {
        let fixture = |subject| Fixture {
            pair,
            subject,
            length,
            compare: false,
        };
        let (c, ours) = (fixture(Subject::C), fixture(Subject::Rust));
        turn::begin(&c)?;
        Ok(Self { c, ours, step })
    }

    /// Gives both drivers their turns; an error says that the machines are gone or wedged.
    fn run(
        &mut self,
        case: &Case,
        reached: &mut Reached,
        mut races: Option<&mut Races>,
    ) -> Result<()> {
        let mut take = |fixture: &Fixture<'_>| match &mut races {
            Some(races) => races.take(fixture, &case.title()),
            None => Ok(()),
        };
        let c = match reached.c.take() {
            Some(results) => results,
            None => {
                self.step.detail(format!("{}, C", case.title()));
                let mut turn = turn::take(&self.c, case);
                let handed = self.hand_over(case, &mut turn).and(take(&self.c));
                if handed.is_err() {
                    reached.c = Some(turn.results);
                    return handed;
                }
                turn.results
            }
        };
        self.step.detail(format!("{}, ours", case.title()));
        let turn = turn::take(&self.ours, case);
        let ours = turn.results;
        reached.done.push(Both { c, ours });
        if turn.broke {
            self.step.detail("finding out what the failure left behind");
            turn::recover(&self.ours)?;
        }
        take(&self.ours)
    }

    /// What the C driver left behind must not fail ours: either ours, loaded in its place, moves bytes,
    /// or this boot is over, by the C driver's fault.
    fn hand_over(&self, case: &Case, turn: &mut Turn) -> Result<()> {
        if turn.broke {
            self.step
                .detail("finding out what the C driver left behind");
            return turn::recover(&self.ours);
        }
        let handed = self.ours.settle();
        let handed =
            handed.context("after it the C driver could not be unloaded, or ours not loaded");
        if let Err(error) = &handed {
            turn.results = vec![TestResult {
                name: format!("{}: {}", self.c.pair.kind(), case.title()),
                verdict: Verdict::Fail(format!("{error:#}")),
                took: None,
            }];
        }
        handed
    }
}
