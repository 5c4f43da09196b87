// SPDX-License-Identifier: GPL-2.0
//! A whole run: rigs, boots, rounds, turns.

use std::cell::Cell;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use rig::{Alone, Driver, Progress, Rig, RigConfig, RigKind, RunDir, Stalls, Step};
use serde::Deserialize;

use crate::batches::Batches;
use crate::case::Case;
use crate::contender::Contender;
use crate::exits;
use crate::leaving::{self, Leaving};
use crate::meter::Meter;
use crate::options::Options;
use crate::pin::pin;
use crate::placement::{Placement, bind_interrupts};
use crate::report::{Measurements, Report};
use crate::sample::{Place, Sample, SampleLog};
use crate::schedule::{self, Boot};
use crate::site::{self, SINK, Site};
use crate::sizes::Sizes;
use crate::traffic;

/// How long a transfer is to take, long enough for its begin and end not to matter.
const TRANSFER: Duration = Duration::from_millis(600);
const QUICK_TRANSFER: Duration = Duration::from_millis(300);

/// What a run needs from whoever prepared it.
#[derive(Debug)]
pub struct Bench {
    /// The guests' kernel, programs and modules, ours among them.
    pub config: RigConfig,
    /// Which rigs, unless the options say which.
    pub kinds: Vec<RigKind>,
    /// What the numbers were measured on, a line or two for the report.
    pub machine: String,
    /// Where logs go.
    pub run: RunDir,
    /// Where results go.
    pub folder: PathBuf,
    /// Tells of what goes on.
    pub progress: Progress,
}

impl Bench {
    /// Measures, prints the tables and keeps everything in the folder.
    pub fn measure(&self, options: &Options) -> Result<()> {
        let contenders = Contender::all(&options.extra)?;
        let kinds = match options.rig {
            Some(kind) => vec![kind],
            None => self.kinds.clone(),
        };
        let mut report = Report::open(&self.folder, &self.machine, options)?;
        for kind in kinds {
            let cases: Vec<Case> = cases(options, kind);
            if cases.is_empty() {
                self.progress
                    .say(format!("no case is wanted on the {kind} rig"));
                continue;
            }
            let campaign = Campaign {
                bench: self,
                options,
                kind,
                contenders: &contenders,
                cases,
            };
            report.add(campaign.run()?)?;
        }
        report.finish()
    }
}

/// The cases that are wanted on a rig.
pub(crate) fn cases(options: &Options, kind: RigKind) -> Vec<Case> {
    let mut cases = Case::all(options.quick, kind != RigKind::GuestBound);
    cases.retain(|case| options.wanted(&case.to_string()));
    cases
}

/// The part of a run on one rig.
struct Campaign<'a> {
    bench: &'a Bench,
    options: &'a Options,
    kind: RigKind,
    contenders: &'a [Contender],
    cases: Vec<Case>,
}

impl Campaign<'_> {
    fn run(self) -> Result<Measurements> {
        let mut config = self.bench.config.clone();
        config
            .files
            .extend(self.contenders.iter().flat_map(Contender::files));
        if self.kind == RigKind::GuestBound {
            config.wire_options.extend(site::services(&self.cases));
        }
        let progress = &self.bench.progress;
        let rig = Rig::open(self.kind, config, &self.bench.run, progress)?;
        let mut stalls = Stalls::default();
        let transfer = match self.options.quick {
            true => QUICK_TRANSFER,
            false => TRANSFER,
        };
        let mut sizes = Sizes::new(transfer);
        let rounds = self.options.rounds();
        let boots = schedule::boots(self.kind, &self.cases, self.contenders, rounds, transfer);
        let mut log = SampleLog::create(&self.bench.folder, self.kind)?;
        let mut samples = Vec::new();
        let mut pinned = None;
        let mut leaving = Leaving::default();
        for (number, boot) in boots.iter().enumerate() {
            let name = format!("bench, boot {} of {}", number + 1, boots.len());
            let step = progress.step(&name);
            let measured = match self.kind {
                RigKind::GuestBound => {
                    let part = |alone: &Alone| {
                        let sunk = Cell::new(0);
                        let site = Site::Alone(alone, &sunk);
                        Ok((self.boot(site, boot, &mut sizes, &step)?, sunk.get()))
                    };
                    let ((samples, sunk), stats) =
                        rig.run_alone(&name, &mut stalls, progress, part)?;
                    check_sink(sunk, &stats)?;
                    samples
                }
                _ => rig.run_part(&name, &mut stalls, progress, |pair| {
                    match self.kind {
                        RigKind::Wire => pair.far().use_driver(&Driver::c())?,
                        RigKind::Kvm => pinned = Some(pin(pair.dut())?),
                        _ => {}
                    }
                    let has_host = self.kind != RigKind::Wire;
                    let prices = has_host.then(|| leaving::measure(pair.dut()));
                    let prices = prices.transpose()?;
                    let samples = self.boot(Site::Pair(pair), boot, &mut sizes, &step)?;
                    // What a boot that stalls has brought is thrown away with it.
                    if let Some(prices) = prices {
                        leaving.add(prices);
                    }
                    Ok(samples)
                })?,
            };
            // At once: what a boot has brought must not be lost with a later one.
            log.add(&measured)?;
            samples.extend(measured);
            step.done();
        }
        Ok(Measurements {
            kind: self.kind,
            cases: self.cases,
            drivers: self.contenders.iter().map(|c| c.name.clone()).collect(),
            rounds,
            stalls,
            pinned,
            leaving,
            samples,
        })
    }
    /// One boot: its rounds, in each of which every driver has its turns.
    fn boot(
        &self,
        site: Site<'_>,
        boot: &Boot,
        sizes: &mut Sizes,
        step: &Step,
    ) -> Result<Vec<Sample>> {
        let mut samples = Vec::new();
        for round in boot.rounds.clone() {
            let counting = round == self.options.rounds();
            let order = schedule::order(round, self.contenders.len());
            for cases in schedule::turns(&boot.cases) {
                for &index in &order {
                    let contender = &self.contenders[index];
                    if !cases.iter().any(|&case| contender.meets(case)) {
                        continue;
                    }
                    contender.load(site.guest())?;
                    bind_interrupts(site.guest(), self.bench.config.cpus)?;
                    for &case in cases.iter().filter(|&&case| contender.meets(case)) {
                        let name = &contender.name;
                        step.detail(format!("round {}, {name}, {case}", round + 1));
                        let operations = sizes.find(site, case)?;
                        let rig = self.kind.to_string();
                        let place = Place {
                            rig: &rig,
                            round,
                            driver: name,
                            placement: Placement::of(case, round),
                        };
                        let sample = if counting {
                            self.count(site, contender, &place, case, operations)
                        } else {
                            self.time(site, &place, case, operations)
                        };
                        samples.push(sample.with_context(|| format!("with the driver {name}"))?);
                    }
                }
            }
        }
        Ok(samples)
    }
}

impl Campaign<'_> {
    /// A transfer without probes.
    fn time(
        &self,
        site: Site<'_>,
        place: &Place<'_>,
        case: Case,
        operations: u64,
    ) -> Result<Sample> {
        let before = exits::read(site, self.kind)?;
        let measured = traffic::run(site, case, operations, self.cpu(place))?;
        let after = exits::read(site, self.kind)?;
        let mut sample = Sample::new(place, case, measured);
        sample.exits = after
            .zip(before)
            .map(|(after, before)| exits::since(&after, &before));
        Ok(sample)
    }

    /// Where the guest's program is to run.
    fn cpu(&self, place: &Place<'_>) -> Option<u32> {
        place.placement.cpu(self.bench.config.cpus)
    }

    /// A transfer with probes.
    fn count(
        &self,
        site: Site<'_>,
        contender: &Contender,
        place: &Place<'_>,
        case: Case,
        operations: u64,
    ) -> Result<Sample> {
        let guest = site.guest();
        let batches = || -> Result<Option<Batches>> {
            let counters = contender.counters(guest)?;
            counters.as_deref().map(Batches::parse).transpose()
        };
        let before = batches()?;
        let meter = Meter::begin(site, self.kind)?;
        let measured = traffic::run(site, case, operations, self.cpu(place))?;
        let counts = meter.end()?;
        let grown = batches()?
            .zip(before)
            .map(|(after, before)| after.since(&before));
        let mut sample = Sample::new(place, case, measured);
        sample.counts = Some(counts);
        sample.batches = grown;
        Ok(sample)
    }
}

/// The part of the wire's counters that tells what a service took.
#[derive(Debug, Deserialize)]
struct WireStats {
    ports: Vec<PortStats>,
}

#[derive(Debug, Deserialize)]
struct PortStats {
    services: Vec<ServiceStats>,
}

#[derive(Debug, Deserialize)]
struct ServiceStats {
    port: u32,
    bytes_in: u64,
}

/// The sink compares nothing, but it counts: it must have taken as much as was sent.
fn check_sink(sent: u64, stats: &str) -> Result<()> {
    let stats: WireStats = serde_json::from_str(stats).context("the wire's counters")?;
    let services = stats.ports.iter().flat_map(|port| &port.services);
    let sinks = services.filter(|service| service.port == SINK);
    let taken: u64 = sinks.map(|service| service.bytes_in).sum();
    ensure!(
        taken == sent,
        "the guest sent {sent} bytes to the wire's sink, which took {taken}"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sink_is_held_to_what_was_sent() {
        let stats = r#"{"ports":[{"cid":3,"services":[
            {"kind":"sink","port":1000,"bytes_in":42,"packets_in":1},
            {"kind":"echo","port":1001,"bytes_in":7,"packets_in":1}]}]}"#;
        check_sink(42, stats).unwrap();
        assert!(check_sink(43, stats).is_err());
    }
}
