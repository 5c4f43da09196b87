// SPDX-License-Identifier: GPL-2.0
//! Puts mutants on trial: several in one boot, each in the place of the honest driver.

use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use rig::{Driver, Expected, Pair, Rig, RigKind, Stalls, Step};

use super::Suspect;
use crate::case::Case;
use crate::case::fixture::{Fixture, Length, Subject};
use crate::case::tap::Verdict;
use crate::case::turn;
use crate::services;
use crate::workbench::Workbench;

/// What came of a mutant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    /// A test noticed it.
    Killed {
        /// The test.
        by: String,
        /// What it saw.
        why: String,
        /// How long that took.
        took: Duration,
    },
    /// None did.
    Alive,
}

/// All trials on one kernel.
pub(super) struct Trials<'a> {
    /// The kernel, and where logs go.
    pub bench: &'a Workbench,
    /// The driver as it is.
    pub honest: &'a Path,
    /// The mutants, all for the same guest.
    pub suspects: &'a [Suspect],
    /// Their modules.
    pub built: &'a [PathBuf],
    /// All cases.
    pub cases: &'a [Case],
}

impl Trials<'_> {
    /// Tries one after the other; a mutant that breaks the machine costs a boot.
    pub(super) fn run(&self, stalls: &mut Stalls) -> Result<Vec<Fate>> {
        let mut config = self.bench.rig_config(Some(self.honest));
        config.lab_root = true;
        config.wire_options.extend(services::options());
        config.setup = self.suspects[0].setup.clone();
        // A mutant's unit tests are meant to fail, and leave the machine as it was.
        config.expected = Expected::new([r"\bnot ok \d+ "])?;
        let progress = &self.bench.progress;
        let rig = Rig::open(RigKind::Wire, config, &self.bench.run, progress)?;
        let step = progress.step("trying the mutants");
        let mut fates = Vec::new();
        let mut honest_passed = false;
        while fates.len() < self.suspects.len() {
            let before = (honest_passed, fates.len());
            let ended = rig.run_part("mutants", stalls, progress, |pair| {
                let trial = Trial::begin(self, pair, &step)?;
                if !honest_passed {
                    trial.honest()?;
                    honest_passed = true;
                }
                while fates.len() < self.suspects.len() {
                    trial.mutant(&mut fates)?;
                }
                Ok(())
            });
            if let Err(error) = ended {
                // It is a mutant's doing, unless nothing was tried.
                if before == (honest_passed, fates.len()) {
                    return Err(error);
                }
                progress.say(format!("that boot is over: {error:#}"));
            }
        }
        step.done();
        Ok(fates)
    }
}

/// One boot.
struct Trial<'a> {
    all: &'a Trials<'a>,
    fixture: Fixture<'a>,
    /// Where the guest has the driver's module.
    place: String,
    step: &'a Step,
}

impl<'a> Trial<'a> {
    fn begin(all: &'a Trials<'a>, pair: &'a Pair, step: &'a Step) -> Result<Self> {
        let fixture = Fixture {
            pair,
            subject: Subject::Rust,
            length: Length::Quick,
            compare: false,
        };
        turn::begin(&fixture)?;
        let find = format!("find /lib/modules -name {}.ko", Driver::rust().name());
        let place = fixture.guest_shell(&find)?.text().trim().to_owned();
        ensure!(!place.is_empty(), "the guest has no module of ours");
        Ok(Self {
            all,
            fixture,
            place,
            step,
        })
    }

    /// What kills a mutant has to let the honest driver live.
    fn honest(&self) -> Result<()> {
        let mut cases: Vec<usize> = self
            .all
            .suspects
            .iter()
            .flat_map(|suspect| suspect.cases.iter().copied())
            .collect();
        cases.sort_unstable();
        cases.dedup();
        for case in cases {
            let case = &self.all.cases[case];
            self.step
                .detail(format!("the driver as it is: {}", case.title()));
            if let Some(why) = self.complaint(case) {
                bail!(
                    "the driver as it is fails at what should notice mutants: {}: {why}",
                    case.title()
                );
            }
        }
        Ok(())
    }

    /// Tries the next mutant, and adds its fate; an error afterwards means that this boot is over.
    fn mutant(&self, fates: &mut Vec<Fate>) -> Result<()> {
        let number = fates.len();
        let suspect = &self.all.suspects[number];
        let name = &suspect.mutant.name;
        let begin = Instant::now();
        let killed = |by: String, why: String| Fate::Killed {
            by,
            why,
            took: begin.elapsed(),
        };
        self.step.detail(format!(
            "{} of {}: {name}",
            number + 1,
            self.all.suspects.len()
        ));
        self.fixture.unload()?;
        self.put(&self.all.built[number])?;
        if let Err(error) = self.fixture.settle() {
            let fate = killed("the driver loads".into(), format!("{error:#}"));
            self.seal(name, fate, fates);
            return self.after();
        }
        for case in &suspect.cases {
            let case = &self.all.cases[*case];
            self.step.detail(format!("{name}: {}", case.title()));
            let Some(why) = self.complaint(case) else {
                continue;
            };
            if let Err(error) = self.fixture.pair.check() {
                // No mutant is killed by the emulation.
                if error.is_rig_stall() {
                    return Err(error.into());
                }
            }
            self.seal(name, killed(case.title(), why), fates);
            return self.after();
        }
        self.seal(name, Fate::Alive, fates);
        self.after()
    }

    /// Adds a mutant's fate, and tells it: the table comes at the end, which is some time away.
    fn seal(&self, name: &str, fate: Fate, fates: &mut Vec<Fate>) {
        let told = match &fate {
            Fate::Killed { by, took, .. } => {
                format!("killed after {:.0} s by {by}", took.as_secs_f64())
            }
            Fate::Alive => "alive".into(),
        };
        self.all.bench.progress.say(format!("{name}: {told}"));
        fates.push(fate);
    }

    /// What a case has to say against the driver that is loaded.
    fn complaint(&self, case: &Case) -> Option<String> {
        let turn = turn::take(&self.fixture, case);
        turn.results
            .into_iter()
            .find_map(|result| match result.verdict {
                Verdict::Fail(why) | Verdict::FailsWithC(why) => Some(why),
                Verdict::Pass | Verdict::Skip(_) => None,
            })
    }

    fn put(&self, module: &Path) -> Result<()> {
        let put = self.fixture.guest().put(module, &self.place, 0o644);
        put.with_context(|| format!("putting {} into the guest", module.display()))
    }

    /// The honest driver has to work where a mutant was.
    fn after(&self) -> Result<()> {
        self.fixture.pair.check()?;
        self.put(self.all.honest)?;
        turn::recover(&self.fixture)
    }
}
