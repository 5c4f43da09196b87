// SPDX-License-Identifier: GPL-2.0
//! One transfer, byte-exact, with what the guest spent on it.

use std::time::Duration;

use anyhow::{Context as _, Result, bail, ensure};
use rig::{Job, Machine, Program};
use vsock_peer::cli::{Place, arguments};
use vsock_peer::habits::Habits;
use vsock_peer::latency::Latency;
use vsock_peer::plan::{End, Flow, Kind, Partner, Plan, Side};
use vsock_peer::report::{Line, Report};
use vsock_peer::usage::Usage;

use crate::case::{BULK_WRITE, Case, FIXED_READ, Reads, Way};
use crate::perf;
use crate::placement;
use crate::site::{BUFFER, ECHO, HOST_CID, SINK, Site, source};

/// The program at either end.
const PEER: &str = "vsock-peer";
/// The end of every transfer's waits.
const TIMEOUT: Duration = Duration::from_secs(90);
/// What is added to them for starting and ending programs.
const GRACE: Duration = Duration::from_secs(20);
/// More than any bulk stream sends before it is stopped.
const ENDLESS: u64 = 1 << 40;

/// What one transfer was like.
#[derive(Clone, Debug)]
pub(crate) struct Measured {
    /// Operations that were made: writes, round trips, connections.
    pub operations: u64,
    /// Payload bytes.
    pub bytes: u64,
    /// How long it took, as the guest's program saw it; with `vsock_perf`, the receiver's.
    pub seconds: f64,
    /// What the guest spent meanwhile; unknown with `vsock_perf`.
    pub usage: Option<Usage>,
    /// What the machine at the other end spent, if there is one.
    pub far: Option<Usage>,
    /// Of round trips.
    pub latency: Option<Latency>,
}

/// Makes so many operations of a case, with the guest's program on `cpu`, or on any.
pub(crate) fn run(
    site: Site<'_>,
    case: Case,
    operations: u64,
    cpu: Option<u32>,
) -> Result<Measured> {
    let run = || match case {
        Case::Perf { way, write_size } => second_opinion(site, way, write_size, operations, cpu),
        Case::PingPong {
            beside_bulk: true, ..
        } => beside_bulk(site, || exchange(site, case, operations, cpu)),
        _ => exchange(site, case, operations, cpu),
    };
    run().with_context(|| format!("{case}, {operations} operations"))
}

/// What the guest's end of a case is to do.
fn plan(case: Case, operations: u64) -> Plan {
    let payload = |size: usize| operations * size as u64;
    let base = Plan {
        side: Side::Connect,
        flow: Flow::Dial,
        kind: Kind::Stream,
        connections: 1,
        bytes: 1,
        write_size: FIXED_READ,
        read_size: FIXED_READ,
        seed: 1,
        buffer_size: Some(BUFFER),
        zerocopy: false,
        eor: false,
        end: End::HalfClose,
        partner: Partner::Peer,
        habits: Habits::default(),
        timeout: TIMEOUT,
    };
    match case {
        Case::Stream {
            way,
            write_size,
            reads,
            streams,
        } => Plan {
            flow: match way {
                Way::ToGuest => Flow::Receive,
                Way::FromGuest => Flow::Send,
            },
            connections: streams,
            bytes: operations.div_ceil(u64::from(streams)) * write_size as u64,
            write_size,
            read_size: match reads {
                Reads::Fixed => FIXED_READ,
                Reads::AsWritten => write_size,
            },
            ..base
        },
        Case::PingPong { size, .. } => Plan {
            flow: Flow::Ping,
            bytes: payload(size),
            write_size: size,
            ..base
        },
        Case::Connect => Plan {
            connections: u32::try_from(operations).unwrap_or(u32::MAX),
            ..base
        },
        Case::Perf { .. } => unreachable!("it has a program of its own"),
    }
}

fn exchange(site: Site<'_>, case: Case, operations: u64, cpu: Option<u32>) -> Result<Measured> {
    let plan = plan(case, operations);
    let (guest, far) = Exchange::begin(site, plan.clone(), cpu)?.end()?;
    let bytes = match plan.flow {
        Flow::Dial => 0,
        _ => plan.bytes * u64::from(plan.connections),
    };
    let operations = match case.operation_bytes() {
        Some(size) => bytes / size as u64,
        None => u64::from(plan.connections),
    };
    Ok(Measured {
        operations,
        bytes,
        seconds: guest.seconds,
        usage: Some(guest.usage),
        far: far.map(|report| report.usage),
        latency: guest.latency,
    })
}

/// Does something while a stream of small writes runs to the guest.
fn beside_bulk<T>(site: Site<'_>, work: impl FnOnce() -> Result<T>) -> Result<T> {
    let bulk = Case::Stream {
        way: Way::ToGuest,
        write_size: BULK_WRITE,
        reads: Reads::Fixed,
        streams: 1,
    };
    let plan = Plan {
        bytes: ENDLESS,
        timeout: TIMEOUT + GRACE,
        ..plan(bulk, 1)
    };
    let bulk = Exchange::begin(site, plan, None)?;
    let done = work()?;
    bulk.stop().context("the stream beside it")?;
    Ok(done)
}

/// The programs of a transfer under way.
struct Exchange {
    guest: Job,
    /// None if a service is at the other end.
    far: Option<Job>,
}

impl Exchange {
    /// Starts a transfer of which the guest does `plan`'s part.
    fn begin(site: Site<'_>, plan: Plan, cpu: Option<u32>) -> Result<Self> {
        let program = placement::program(PEER, cpu);
        match site {
            Site::Alone(alone, sunk) => {
                if plan.flow == Flow::Send {
                    sunk.set(sunk.get() + plan.bytes * u64::from(plan.connections));
                }
                let port = match plan.flow {
                    Flow::Receive => source(plan.write_size),
                    Flow::Ping => ECHO,
                    _ => SINK,
                };
                let plan = Plan {
                    partner: Partner::Service,
                    ..plan
                };
                let place = Place::There {
                    cid: HOST_CID,
                    port,
                };
                let guest = start(alone.dut(), program, &plan, place)?;
                Ok(Self { guest, far: None })
            }
            Site::Pair(pair) => {
                let peer = Program::new(PEER);
                // The receiver listens, as with vsock_perf.
                let listens = plan.flow == Flow::Receive;
                let far = Plan {
                    flow: plan.flow.opposite(),
                    side: if listens { Side::Connect } else { Side::Listen },
                    ..plan.clone()
                };
                let guest = Plan {
                    side: far.side.opposite(),
                    ..plan
                };
                let (guest, far) = if listens {
                    let (guest, place) = listen(pair.dut(), program, &guest)?;
                    (guest, start(pair.far(), peer, &far, place)?)
                } else {
                    let (far, place) = listen(pair.far(), peer, &far)?;
                    (start(pair.dut(), program, &guest, place)?, far)
                };
                let far = Some(far);
                Ok(Self { guest, far })
            }
        }
    }

    /// Waits for its end; returns what the guest saw, and the far side, if both saw an exact transfer.
    fn end(self) -> Result<(Report, Option<Report>)> {
        let guest = report(self.guest).context("in the guest")?;
        let far = self.far.map(|job| report(job).context("on the far side"));
        Ok((guest, far.transpose()?))
    }

    /// Stops it; had it ended before, that is an error.
    fn stop(self) -> Result<()> {
        for job in [Some(&self.guest), self.far.as_ref()].into_iter().flatten() {
            ensure!(job.exit().is_none(), "it had ended:\n{}", job.tail());
        }
        self.guest.kill()?;
        self.far.map(Job::kill).transpose()?;
        Ok(())
    }
}

fn listen(machine: &Machine, program: Program, plan: &Plan) -> Result<(Job, Place)> {
    let mut job = start(machine, program, plan, Place::Here { port: 0 })?;
    let port = job.wait_line("the port it listens on", GRACE, Line::listening_port)?;
    let cid = machine.cid();
    Ok((job, Place::There { cid, port }))
}

fn start(machine: &Machine, program: Program, plan: &Plan, place: Place) -> Result<Job> {
    Ok(machine.spawn(program.args(arguments(plan, place)))?)
}

fn report(job: Job) -> Result<Report> {
    let output = job.wait(TIMEOUT + GRACE)?;
    let text = output.text();
    let Some(Line::Report(report)) = Line::last(&text) else {
        let errors = output.errors();
        bail!(
            "vsock-peer printed no report ({}):\n{text}{errors}",
            output.exit
        );
    };
    ensure!(report.exact, "{}", report.complaints().join("\n"));
    Ok(*report)
}

fn second_opinion(
    site: Site<'_>,
    way: Way,
    write_size: usize,
    operations: u64,
    cpu: Option<u32>,
) -> Result<Measured> {
    let Site::Pair(pair) = site else {
        bail!("vsock_perf needs a Linux at either end");
    };
    let far = perf::End::of(pair.far());
    let guest = perf::End {
        machine: pair.dut(),
        program: placement::program(perf::PROGRAM, cpu),
    };
    let (from, to) = match way {
        Way::ToGuest => (far, guest),
        Way::FromGuest => (guest, far),
    };
    let bytes = operations * write_size as u64;
    let run = perf::Run {
        write_size: write_size as u64,
        bytes,
    };
    let gbits = perf::measure(run, from, to)?;
    Ok(Measured {
        operations,
        bytes,
        seconds: bytes as f64 * 8.0 / (gbits * 1e9),
        usage: None,
        far: None,
        latency: None,
    })
}
