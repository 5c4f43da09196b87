// SPDX-License-Identifier: GPL-2.0
//! Lets others have scripts run, and read the counters, while the program runs.
//!
//! Who connects to the socket asks one thing, by a line:
//!
//! - `run CID BYTES`, and then so many bytes of script: the device of the guest with
//!   this CID does what the script says. The answer is the line `begun` as soon as it
//!   does, and once that is over a [`Report`](super::report::Report) as JSON. Who closes
//!   the connection before has the script end.
//! - `stats`: the answer is what `--stats` would write.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};

use super::report::Report;
use super::script::Script;
use crate::device::work;
use crate::route::PortId;
use crate::wire::Wire;

/// How often a script is told the time.
const TICK: Duration = Duration::from_millis(10);

/// How often it is told while it watches for a driver's first buffers.
const WATCH: Duration = Duration::from_micros(20);

/// The longest script that is taken.
const MAX_SCRIPT: u64 = 64 << 20;

/// Serve one after the other who connects, each in a thread of its own.
pub fn serve(wire: &Arc<Mutex<Wire>>, listener: &UnixListener) -> anyhow::Error {
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) => return anyhow::Error::new(error).context("cannot accept"),
        };
        let wire = wire.clone();
        let serve = move || {
            let answered = answer(&wire, &stream);
            let text = match answered {
                Ok(text) => text,
                // It is for whoever asked, in the form of a report.
                Err(error) => as_json(&Report {
                    error: Some(format!("{error:#}")),
                    ..Report::default()
                }),
            };
            // Who does not wait for the answer does not miss it.
            let _ = writeln!(&stream, "{text}");
        };
        if let Err(error) = std::thread::Builder::new()
            .name("control".into())
            .spawn(serve)
        {
            return anyhow::Error::new(error).context("cannot start a thread");
        }
    }
}

fn as_json(report: &Report) -> String {
    serde_json::to_string(report).expect("a report has nothing that JSON has not")
}

fn answer(wire: &Mutex<Wire>, stream: &UnixStream) -> anyhow::Result<String> {
    let mut reader = BufReader::new(stream);
    let mut line = String::new();
    reader.by_ref().take(100).read_line(&mut line)?;
    let words: Vec<&str> = line.split_whitespace().collect();
    match words[..] {
        ["stats"] => {
            let report = lock(wire).report();
            Ok(serde_json::to_string(&report)?)
        }
        ["run", cid, bytes] => {
            let cid = cid.parse().context("the CID is no number")?;
            let bytes: u64 = bytes.parse().context("the length is no number")?;
            anyhow::ensure!(
                bytes <= MAX_SCRIPT,
                "a script has {MAX_SCRIPT} bytes at most"
            );
            let mut text = String::new();
            let read = reader.take(bytes).read_to_string(&mut text)?;
            anyhow::ensure!(read as u64 == bytes, "the script ended early");
            let begun = || {
                // Who does not listen will be found gone.
                let _ = writeln!({ stream }, "begun");
            };
            let report = run(wire, cid, &text, begun, || is_gone(stream))?;
            Ok(as_json(&report))
        }
        _ => bail!(
            "'{}' is not understood; ask run CID BYTES, or stats",
            line.trim()
        ),
    }
}

fn lock(wire: &Mutex<Wire>) -> std::sync::MutexGuard<'_, Wire> {
    wire.lock().expect("no thread panics with the wire")
}

/// Run a script for the guest with this CID to its end, or until it is aborted; `begun` is
/// called when it has begun.
pub fn run(
    wire: &Mutex<Wire>,
    cid: u32,
    text: &str,
    begun: impl FnOnce(),
    aborted: impl Fn() -> bool,
) -> anyhow::Result<Report> {
    let script: Script = text.parse().map_err(anyhow::Error::msg)?;
    let id = lock(wire).find(cid);
    let id = id.with_context(|| format!("there is no port for CID {cid}"))?;
    let ended = lock(wire).start_script(id, script)?;
    begun();
    work(wire);
    loop {
        let pause = match lock(wire).is_watching(id) {
            true => WATCH,
            false => TICK,
        };
        let over = ended.recv_timeout(pause).is_ok();
        lock(wire).tick(id, Instant::now());
        work(wire);
        if over || aborted() {
            return Ok(end(wire, id));
        }
    }
}

fn end(wire: &Mutex<Wire>, id: PortId) -> Report {
    let report = lock(wire).end_script(id);
    work(wire);
    report
}

/// Whether whoever asked has closed the connection. Nothing is sent after the script.
fn is_gone(stream: &UnixStream) -> bool {
    let mut reader = stream;
    let peeked = stream
        .set_nonblocking(true)
        .and_then(|()| reader.read(&mut [0]));
    let gone = matches!(peeked, Ok(0));
    stream.set_nonblocking(false).is_err() || gone
}
