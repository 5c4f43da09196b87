// SPDX-License-Identifier: GPL-2.0
//! All connections of one end, from their establishment to the report.

use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Instant;

use crate::cli::Place;
use crate::dial::dial;
use crate::echo::echo;
use crate::latency::Times;
use crate::pattern::Pattern;
use crate::ping::ping;
use crate::plan::{End, Flow, Partner, Plan};
use crate::progress::Progress;
use crate::receive::{await_end, receive};
use crate::report::{Fault, Outcome, Report};
use crate::send::send;
use crate::socket::{Listener, Socket};
use crate::usage::Usage;

/// Does what the plan says; `listening` is told the port once it is open.
pub fn run(plan: &Plan, place: Place, listening: impl FnOnce(u32)) -> Report {
    let deadline = Instant::now() + plan.timeout;
    let failed = |(connection, fault): (Option<u32>, Fault)| {
        let mut report = Report::new(plan);
        report.fail(connection, &fault);
        report
    };
    if matches!(plan.flow, Flow::Dial | Flow::Answer) {
        return dial(plan, place, deadline, listening).unwrap_or_else(failed);
    }
    // Made first, so that no connection waits for it.
    let pattern = match plan.partner {
        Partner::Service if plan.flow == Flow::Receive => Pattern::counting(),
        _ => Pattern::new(plan.seed),
    };
    let sockets = match place {
        Place::Here { port } => accept_all(plan, port, deadline, listening),
        Place::There { cid, port } => connect_all(plan, cid, port),
    };
    match sockets {
        Ok(sockets) => transfer(plan, &pattern, sockets, deadline),
        Err(fault) => failed(fault),
    }
}

type Establish = Result<Vec<Socket>, (Option<u32>, Fault)>;

fn accept_all(plan: &Plan, port: u32, deadline: Instant, listening: impl FnOnce(u32)) -> Establish {
    let listener = Listener::open(plan, port, listening)?;
    (0..plan.connections)
        .map(|connection| {
            listener.accept(deadline).map_err(|errno| {
                let doing = format!("waiting for connection {connection} to come in");
                (Some(connection), Fault::call(doing, errno))
            })
        })
        .collect()
}

/// One after the other: the accept queue keeps the order, so that both ends
/// give a connection the same number.
fn connect_all(plan: &Plan, cid: u32, port: u32) -> Establish {
    (0..plan.connections)
        .map(|connection| {
            Socket::connect(plan, cid, port).map_err(|errno| {
                let doing = format!("connecting to CID {cid} port {port}");
                (Some(connection), Fault::call(doing, errno))
            })
        })
        .collect()
}

/// One thread of a connection: what it is for, and where it stands.
struct Worker {
    connection: u32,
    socket: Arc<Socket>,
    progress: Arc<Progress>,
    done: bool,
}

/// Moves the payload over connections that stand.
pub fn transfer(
    plan: &Plan,
    pattern: &Arc<Pattern>,
    sockets: Vec<Socket>,
    deadline: Instant,
) -> Report {
    let (before, begin) = (Usage::now(), Instant::now());
    let mut times = Times::default();
    let mut report = Report::new(plan);
    let (sender, outcomes) = mpsc::channel();
    let mut workers: Vec<Worker> = Vec::new();
    for (connection, socket) in (0..).zip(sockets) {
        let socket = Arc::new(socket);
        for (of, job) in jobs(plan, pattern, connection, &socket, deadline) {
            let progress = Arc::new(Progress::new(of));
            let index = workers.len();
            workers.push(Worker {
                connection,
                socket: Arc::clone(&socket),
                progress: Arc::clone(&progress),
                done: false,
            });
            let sender = sender.clone();
            thread::spawn(move || {
                let outcome = job(&progress);
                // Nobody listens any more once the deadline has passed.
                let _ = sender.send((index, outcome));
            });
        }
    }
    drop(sender);

    while workers.iter().any(|worker| !worker.done) {
        let left = deadline.saturating_duration_since(Instant::now());
        match outcomes.recv_timeout(left) {
            Ok((index, outcome)) => {
                let worker = &mut workers[index];
                worker.done = true;
                times.merge(&outcome.times);
                report.add(worker.connection, outcome);
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
                give_up(plan, &workers, &mut report);
                break;
            }
        }
    }
    report.seconds = begin.elapsed().as_secs_f64();
    report.usage = Usage::now().since(&before);
    report.latency = times.latency();
    report
}

/// Names what each unfinished worker waits for, and wakes it.
fn give_up(plan: &Plan, workers: &[Worker], report: &mut Report) {
    for worker in workers.iter().filter(|worker| !worker.done) {
        let fault = Fault::Timeout {
            doing: worker.progress.get().to_string(),
            seconds: plan.timeout.as_secs(),
        };
        report.fail(Some(worker.connection), &fault);
        worker.socket.abort();
    }
}

type Job = Box<dyn FnOnce(&Progress) -> Outcome + Send>;

/// The threads that a connection needs, each with the bytes it expects to move.
fn jobs(
    plan: &Plan,
    pattern: &Arc<Pattern>,
    connection: u32,
    socket: &Arc<Socket>,
    deadline: Instant,
) -> Vec<(Option<u64>, Job)> {
    let ours = pattern.lane(connection, plan.side);
    let theirs = pattern.lane(connection, plan.side.opposite());

    let sending = |then_end: bool| -> Job {
        let (plan, socket) = (plan.clone(), Arc::clone(socket));
        let (lane, silent) = (ours.clone(), theirs.clone());
        Box::new(move |progress| {
            let mut outcome = send(&socket, &lane, &plan, deadline, progress);
            if then_end && outcome.fault.is_none() && plan.end == End::HalfClose {
                outcome.fault = await_end(&socket, &silent, &plan, progress).err();
            }
            outcome
        })
    };
    let receiving = |lane| -> Job {
        let (plan, socket) = (plan.clone(), Arc::clone(socket));
        Box::new(move |progress| receive(&socket, &lane, &plan, deadline, progress))
    };
    let bytes = Some(plan.bytes);
    match plan.flow {
        Flow::Send => vec![(bytes, sending(true))],
        Flow::Receive => vec![(bytes, receiving(theirs))],
        Flow::Both => vec![(bytes, sending(false)), (bytes, receiving(theirs))],
        Flow::Bounce => vec![(bytes, sending(false)), (bytes, receiving(ours.clone()))],
        Flow::Ping => {
            let (plan, socket) = (plan.clone(), Arc::clone(socket));
            let ping = move |progress: &Progress| ping(&socket, &ours, &plan, progress);
            vec![(bytes, Box::new(ping))]
        }
        Flow::Dial | Flow::Answer => unreachable!("they have no payload"),
        Flow::Echo => {
            let (plan, socket) = (plan.clone(), Arc::clone(socket));
            vec![(
                None,
                Box::new(move |progress| echo(&socket, &plan, progress)),
            )]
        }
    }
}
