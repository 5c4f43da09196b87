// SPDX-License-Identifier: GPL-2.0
//! `lab fuzz`: packets drawn at random, by the million, until the time is over or something is found.
//!
//! Rounds of bursts are played one after the other; a burst depends on the seed and its number alone.
//! After each round the guest has to be well, an honest connection has to move its bytes, and memory has
//! to be back to where it was. What fails is kept as a script, and made smaller by [`shrink`].

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context as _, Result};
use rig::{Alone, Rig, RigKind, Stalls, Step as Shown};
use vsock_wire::hostile::script::{Script, Step};

use super::script::{EXTENSION, Scripted};
use super::seen::Seen;
use super::shrink;
use super::stage::Stage;
use crate::case::fixture::Subject;
use crate::services;
use crate::workbench::Workbench;

/// What surrounds the bursts: connections that are made anew whenever they end, one of which nobody
/// reads. When they do so, and what a packet meets there, is a matter of timing.
const SCENE: &str = "
timing
guest connect=5000 again=yes buffer=64K
guest connect=5001 again=yes read=yes buffer=64K
guest connect=5002 again=yes read=yes buffer=64K type=seqpacket
guest listen=7000 count=16
serve a at=5000
serve b at=5001
serve s at=5002
";

/// Bursts of the first round; later ones are sized by its rate.
const FIRST_ROUND: u64 = 400;

/// How long a round is to take, after which a look is taken at what takes time to look at.
const ROUND: Duration = Duration::from_secs(40);

/// Tries to make a failure smaller; each may take a boot.
const TRIES: usize = 24;

/// How long, and from where.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Options {
    /// Seconds of fuzzing.
    #[arg(long, env = "SECONDS", default_value_t = 60)]
    seconds: u64,
    /// Where the draws begin; without it, somewhere else each time.
    #[arg(long, env = "SEED")]
    seed: Option<u64>,
    /// The driver to fuzz.
    #[arg(long, value_enum, default_value = "rust")]
    driver: Subject,
    /// Take this build of the module, instead of building it.
    #[arg(long, value_name = "FILE")]
    module: Option<std::path::PathBuf>,
}

/// What was found.
struct Finding {
    /// The first burst that may be to blame, and how many may.
    first: u64,
    count: u64,
    what: String,
}

/// Fuzzes; returns whether nothing was found.
pub(crate) fn fuzz(options: &Options) -> Result<bool> {
    let clock = || SystemTime::now().duration_since(UNIX_EPOCH);
    let seed = match options.seed {
        Some(seed) => seed,
        None => clock()?.as_nanos() as u64 % 1_000_000_007,
    };
    let workbench = Workbench::open("fuzz")?;
    let module = workbench.module_or(options.module.as_ref())?;
    let mut config = workbench.rig_config(Some(&module));
    config.wire_options.extend(services::options());
    let rig = Rig::open(
        RigKind::GuestBound,
        config,
        &workbench.run,
        &workbench.progress,
    )?;
    let mut campaign = Campaign {
        seed,
        subject: options.driver,
        rig: &rig,
        workbench: &workbench,
        stalls: Stalls::default(),
        packets: 0,
        wrong: 0,
        spent: Duration::ZERO,
        next: 0,
    };
    println!(
        "seed {seed} (SEED={seed} replays); kernel {}; driver {}",
        workbench.kernel.release(),
        options.driver.driver().name()
    );
    let found = campaign.run(Duration::from_secs(options.seconds))?;
    println!("{}", campaign.rate());
    match found {
        None => {
            println!("nothing found; {}; 1 passed, 0 failed", campaign.stalls);
            Ok(true)
        }
        Some(finding) => {
            campaign.keep(&finding)?;
            println!("0 passed, 1 failed");
            Ok(false)
        }
    }
}

struct Campaign<'a> {
    seed: u64,
    subject: Subject,
    rig: &'a Rig,
    workbench: &'a Workbench,
    stalls: Stalls,
    /// Packets that were sent, and those of them that no honest device sends.
    packets: u64,
    wrong: u64,
    /// Time that packets were sent in.
    spent: Duration,
    /// The next burst.
    next: u64,
}

impl Campaign<'_> {
    fn run(&mut self, time: Duration) -> Result<Option<Finding>> {
        let progress = &self.workbench.progress;
        let shown = progress.step("fuzzing");
        let (rig, mut stalls) = (self.rig, self.stalls);
        // Bursts up to here were found to be well.
        let mut good = self.next;
        let played = rig.run_alone("fuzz", &mut stalls, progress, |alone| {
            // After a stall the round that it broke off begins anew.
            self.next = good;
            self.rounds(alone, time, &shown, &mut good)
        });
        self.stalls = stalls;
        let what = match played {
            Ok((None, _)) => {
                shown.done();
                return Ok(None);
            }
            Ok((Some(what), _)) => what,
            // Nothing was begun, so that nothing that was sent is to blame.
            Err(error) if self.next == good => return Err(error),
            Err(error) => format!("{error:#}"),
        };
        Ok(Some(Finding {
            first: good,
            count: self.next - good,
            what,
        }))
    }

    /// Rounds in one boot, until the time is over or one says what it found.
    fn rounds(
        &mut self,
        alone: &Alone,
        time: Duration,
        shown: &Shown,
        good: &mut u64,
    ) -> Result<Option<String>> {
        let mut stage = Stage::set(alone.dut(), alone.wire(), self.subject)?.lasting();
        let mut bursts = FIRST_ROUND;
        while self.spent < time {
            let steps = vec![Step::Fuzz {
                first: self.next,
                count: bursts,
            }];
            let script = scene(self.seed, steps)?;
            self.next += bursts;
            shown.detail(self.rate());
            let seen = stage.play(&script)?;
            self.packets += seen.report.sent;
            self.wrong += seen.report.wrong;
            let took = seen.report.seconds.max(0.01);
            self.spent += Duration::from_secs_f64(took);
            if !seen.faults.is_empty() {
                return Ok(Some(seen.faults.join("\n")));
            }
            *good = self.next;
            let left = time.saturating_sub(self.spent).min(ROUND);
            bursts = ((bursts as f64 / took * left.as_secs_f64()) as u64).max(1);
        }
        Ok(None)
    }

    fn rate(&self) -> String {
        format!(
            "{} packets, {} of them no honest device's, in {} bursts and {:.0} s: {:.0} a second",
            self.packets,
            self.wrong,
            self.next,
            self.spent.as_secs_f64(),
            self.packets as f64 / self.spent.as_secs_f64().max(0.001)
        )
    }

    /// Writes down what fails, and makes it smaller.
    fn keep(&mut self, finding: &Finding) -> Result<()> {
        println!("FOUND: {}", finding.what);
        let folder = self.workbench.checkout.top().join("build/fuzz");
        fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        let name = format!("{}-{}", self.seed, finding.first);
        let whole: Vec<Step> = (0..finding.count)
            .map(|number| Step::Fuzz {
                first: finding.first + number,
                count: 1,
            })
            .collect();
        let path = folder.join(format!("{name}.{EXTENSION}"));
        self.write(&path, &finding.what, whole.clone())?;
        println!(
            "kept as {}; 'lab hostile {}' plays it again",
            path.display(),
            path.display()
        );
        let seed = self.seed;
        let small = shrink::shrink(seed, whole, TRIES, |steps| self.fails(steps))?;
        match small {
            None => println!("played again it does not fail: it is a matter of timing"),
            Some(steps) => {
                let path = folder.join(format!("{name}-small.{EXTENSION}"));
                let count = shrink::packets(&steps);
                self.write(&path, &finding.what, steps)?;
                println!("{count} packets or bursts are enough: {}", path.display());
            }
        }
        Ok(())
    }

    fn write(&self, path: &Path, what: &str, steps: Vec<Step>) -> Result<()> {
        let why: Vec<String> = what.lines().map(|line| format!("# {line}")).collect();
        let text = format!("{}\n{}", why.join("\n"), scene(self.seed, steps)?.script);
        fs::write(path, text).with_context(|| format!("writing {}", path.display()))
    }

    /// Whether these steps fail, in a boot of their own.
    fn fails(&mut self, steps: &[Step]) -> Result<bool> {
        let progress = &self.workbench.progress;
        let shown = progress.step("making it smaller");
        shown.detail(format!("{} steps", steps.len()));
        let script = scene(self.seed, steps.to_vec())?;
        let mut begun = false;
        let (rig, subject) = (self.rig, self.subject);
        let played = rig.run_alone("fuzz", &mut self.stalls, progress, |alone| {
            begun = false;
            let mut stage = Stage::set(alone.dut(), alone.wire(), subject)?;
            begun = true;
            // What is kept has to fail again: a leak that is only just seen may not be, the next time.
            let fails = |seen: &Seen| !seen.faults.is_empty();
            Ok(fails(&stage.play(&script)?) && fails(&stage.play(&script)?))
        });
        shown.done();
        match played {
            Ok((fails, _)) => Ok(fails),
            Err(_) if begun => Ok(true),
            Err(error) => Err(error),
        }
    }
}

/// The scene with these steps in it.
fn scene(seed: u64, steps: Vec<Step>) -> Result<Scripted> {
    let mut script: Script = SCENE.parse().map_err(anyhow::Error::msg)?;
    script.seed = seed;
    script.steps.extend(steps);
    script.steps.push(Step::Sync);
    Scripted::new("fuzz", script.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_scene_can_be_written_and_read() {
        let steps = vec![Step::Fuzz { first: 3, count: 9 }];
        let scripted = scene(5, steps).unwrap();
        assert_eq!((scripted.script.seed, scripted.script.guests.len()), (5, 4));
        assert!(
            scripted.text.contains("fuzz first=3 bursts=9"),
            "{}",
            scripted.text
        );
    }
}
