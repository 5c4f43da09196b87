// SPDX-License-Identifier: GPL-2.0
//! The program from its arguments to its end.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use anyhow::Context;
use signal_hook::consts::{SIGINT, SIGTERM, SIGUSR1};
use signal_hook::iterator::Signals;
use vhost::vhost_user::Listener;

use crate::args::{Args, OnOff};
use crate::device::Offer;
use crate::hostile::control;
use crate::hostile::script::Script;
use crate::route::PortId;
use crate::serve::serve;
use crate::socket::listen;
use crate::stats::Report;
use crate::wire::Wire;

/// What the main thread waits for.
enum Event {
    Signal(i32),
    PortFailed(anyhow::Error),
}

/// Run the wire until a signal ends it.
pub fn run(args: Args) -> anyhow::Result<()> {
    args.check()?;
    args.stats.as_deref().map_or(Ok(()), Report::check_path)?;
    let script = args.script.as_deref().map(read_script).transpose()?;
    let (events, inbox) = mpsc::channel();
    // Before the first socket is made: a signal from here on ends the program
    // in order.
    watch_signals(events.clone())?;

    let wire = Wire::new(&args.ports, args.used_batch, &args.services);
    let wire = Arc::new(Mutex::new(wire));
    let offer = Offer {
        seqpacket: args.seqpacket == OnOff::On,
        queue_size: args.queue_size,
    };
    let mut sockets = Sockets::default();
    let mut listeners = Vec::new();
    for port in &args.ports {
        listeners.push(listen(&port.socket)?);
        sockets.paths.push(port.socket.as_path());
    }
    for (index, listener) in listeners.into_iter().enumerate() {
        let (wire, events) = (wire.clone(), events.clone());
        let (port, cid) = (PortId(index), args.ports[index].cid);
        thread::Builder::new()
            .name(format!("serve-{cid}"))
            .spawn(move || {
                let end = serve(&wire, port, cid, offer, Listener::from(listener));
                let error = end.expect_err("a port is served for ever");
                let error = error.context(format!("the port of CID {cid} failed"));
                // Nobody listens when the program is about to end anyway.
                let _ = events.send(Event::PortFailed(error));
            })
            .context("cannot start a thread")?;
    }
    if let Some(path) = &args.control {
        let listener = listen(path)?;
        sockets.paths.push(path);
        let (wire, events) = (wire.clone(), events.clone());
        thread::Builder::new()
            .name("controls".into())
            .spawn(move || {
                let error = control::serve(&wire, &listener).context("the control socket failed");
                let _ = events.send(Event::PortFailed(error));
            })
            .context("cannot start a thread")?;
    }
    let mut stdout = std::io::stdout();
    writeln!(stdout, "ready")
        .and_then(|()| stdout.flush())
        .context("cannot say ready on the standard output")?;

    if let Some(text) = script {
        start_script(text, args.ports[0].cid, &wire, events)?;
    }

    let report = || {
        wire.lock()
            .expect("no thread panics with the wire")
            .report()
    };
    let end = loop {
        match inbox.recv().expect("this thread keeps a sender") {
            Event::Signal(SIGUSR1) => write_stats(&args, &report()).unwrap_or_else(|error| {
                log::error!("{error:#}");
            }),
            Event::Signal(_) => break Ok(()),
            Event::PortFailed(error) => break Err(error),
        }
    };
    let written = write_stats(&args, &report());
    end.and(written)
}

/// The script of the command line, looked at before anything begins.
fn read_script(path: &Path) -> anyhow::Result<String> {
    let text = fs::read_to_string(path);
    let text = text.with_context(|| format!("cannot read the script {}", path.display()))?;
    let parsed: Result<Script, String> = text.parse();
    let in_it = || format!("in the script {}", path.display());
    parsed.map_err(anyhow::Error::msg).with_context(in_it)?;
    Ok(text)
}

/// Runs a script for the guest with this CID, and prints what came of it.
fn start_script(
    text: String,
    cid: u32,
    wire: &Arc<Mutex<Wire>>,
    events: mpsc::Sender<Event>,
) -> anyhow::Result<()> {
    let wire = wire.clone();
    let run = move || {
        let report = control::run(&wire, cid, &text, || (), || false).and_then(|report| {
            let text = serde_json::to_string(&report)?;
            Ok(writeln!(std::io::stdout(), "{text}")?)
        });
        if let Err(error) = report {
            let _ = events.send(Event::PortFailed(error.context("the script failed")));
        }
    };
    let thread = thread::Builder::new().name("script".into()).spawn(run);
    thread.map(drop).context("cannot start a thread")
}

fn write_stats(args: &Args, report: &Report) -> anyhow::Result<()> {
    match &args.stats {
        Some(path) => report.write(path),
        None => Ok(()),
    }
}

fn watch_signals(events: mpsc::Sender<Event>) -> anyhow::Result<()> {
    let mut signals = Signals::new([SIGTERM, SIGINT, SIGUSR1]).context("cannot catch signals")?;
    thread::Builder::new()
        .name("signals".into())
        .spawn(move || {
            for signal in signals.forever() {
                if events.send(Event::Signal(signal)).is_err() {
                    return;
                }
            }
        })
        .context("cannot start a thread")?;
    Ok(())
}

/// The sockets in the file system, removed at every way out.
#[derive(Default)]
struct Sockets<'a> {
    paths: Vec<&'a Path>,
}

impl Drop for Sockets<'_> {
    fn drop(&mut self) {
        for path in &self.paths {
            let _ = fs::remove_file(path);
        }
    }
}
