// SPDX-License-Identifier: GPL-2.0
//! The program as others run it: its output, its files, its signals, its ends.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde_json::Value;
use tempfile::TempDir;
use vhost::VhostBackend;
use vhost::vhost_user::{Frontend, VhostUserFrontend};

/// How long anything may take.
const LIMIT: Duration = Duration::from_secs(20);

struct Program {
    child: Child,
    stdout: BufReader<ChildStdout>,
    folder: TempDir,
}

fn command(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_vsock-wire"));
    for cid in [3, 4] {
        command.arg("--port");
        command.arg(format!(
            "cid={cid},socket={}",
            folder.join(cid.to_string()).display()
        ));
    }
    command.arg("--stats").arg(folder.join("stats"));
    command.arg("--control").arg(folder.join("control"));
    command
}

impl Program {
    fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut child = command(folder.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        stdout.read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Program {
            child,
            stdout,
            folder,
        }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    fn signal(&self, signal: Signal) {
        kill(Pid::from_raw(self.child.id() as i32), signal).unwrap();
    }

    fn stats(&self) -> Option<Value> {
        serde_json::from_str(&fs::read_to_string(self.path("stats")).ok()?).ok()
    }

    /// End the program, which must be in order, and quiet.
    fn end(mut self, signal: Signal) -> Value {
        self.signal(signal);
        assert!(self.child.wait().unwrap().success());
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).unwrap();
        assert_eq!(rest, "");
        assert!(!self.path("3").exists() && !self.path("4").exists());
        self.stats().unwrap()
    }

    /// Ask something at the control socket, and hear the answer's first line.
    fn ask(&self, question: &str) -> String {
        let mut control = UnixStream::connect(self.path("control")).unwrap();
        control.set_read_timeout(Some(LIMIT)).unwrap();
        control.write_all(question.as_bytes()).unwrap();
        let mut answer = String::new();
        BufReader::new(control).read_line(&mut answer).unwrap();
        answer
    }

    fn descriptors(&self) -> usize {
        fs::read_dir(format!("/proc/{}/fd", self.child.id()))
            .unwrap()
            .count()
    }
}

/// Ask again and again until the answer is there, or time is up.
#[track_caller]
fn wait_for<T>(what: &str, ask: impl Fn() -> Option<T>) -> T {
    let start = Instant::now();
    loop {
        if let Some(answer) = ask() {
            return answer;
        }
        assert!(start.elapsed() < LIMIT, "{what} did not come in {LIMIT:?}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

fn connections(stats: &Value, port: usize) -> u64 {
    stats["ports"][port]["connections"].as_u64().unwrap()
}

#[test]
fn signals_end_it_in_order() {
    for signal in [Signal::SIGTERM, Signal::SIGINT] {
        let stats = Program::start().end(signal);
        assert_eq!(stats["ports"][0]["cid"], 3);
        assert_eq!(stats["ports"][1]["up"], false);
        assert_eq!(stats["ports"][1]["tx_packets"], 0);
    }
}

#[test]
fn counters_are_written_when_asked_for() {
    let program = Program::start();
    assert!(program.stats().is_none());
    program.signal(Signal::SIGUSR1);
    let stats = wait_for("the counters", || program.stats());
    assert_eq!(connections(&stats, 0), 0);
    program.end(Signal::SIGTERM);
}

#[test]
fn guests_that_come_and_go_leave_nothing_behind() {
    let program = Program::start();
    let come_and_go = |times| {
        for _ in 0..times {
            let mut frontend = Frontend::connect(program.path("3"), 2).unwrap();
            frontend.set_owner().unwrap();
            let features = frontend.get_features().unwrap();
            frontend.set_features(features).unwrap();
            frontend.get_protocol_features().unwrap();
        }
        // The port listens again when the last one is done with.
        Frontend::connect(program.path("3"), 2)
            .unwrap()
            .get_features()
            .unwrap();
    };
    come_and_go(3);
    let few = program.descriptors();
    come_and_go(50);
    // How many a port needs depends on the moment; one left behind by each of
    // fifty connections would not.
    wait_for("the end of all connections", || {
        (program.descriptors() < few + 25).then_some(())
    });
    let stats = program.end(Signal::SIGTERM);
    assert_eq!(connections(&stats, 0), 55);
    assert_eq!(connections(&stats, 1), 0);
}

#[test]
fn questions_and_scripts_are_taken_while_it_runs() {
    let program = Program::start();
    let stats: Value = serde_json::from_str(&program.ask("stats\n")).unwrap();
    assert_eq!(stats["ports"][1]["cid"], 4);
    for (question, why) in [
        ("what\n", "ask run CID BYTES, or stats"),
        ("run 3 4\nsned", "line 1: 'sned' is no step"),
        ("run 9 4\nsync", "no port for CID 9"),
        ("run 3 many\n", "the length is no number"),
    ] {
        let error = program.ask(question);
        assert!(error.contains(why), "{question}: {error}");
    }
    // A script that waits for a guest ends with whoever asked for it.
    let mut control = UnixStream::connect(program.path("control")).unwrap();
    control.write_all(b"run 3 4\nsync").unwrap();
    let mut begun = [0; 6];
    control.read_exact(&mut begun).unwrap();
    assert_eq!(&begun, b"begun\n");
    let busy = |wanted: bool| {
        wait_for("another script to be taken or not", || {
            let answer = program.ask("run 3 0\n");
            assert!(answer == "begun\n" || answer.contains("another script runs"));
            ((answer != "begun\n") == wanted).then_some(())
        })
    };
    busy(true);
    drop(control);
    busy(false);
    program.end(Signal::SIGTERM);
}

#[test]
fn counters_can_go_into_a_pipe() {
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let mut child = Command::new(env!("CARGO_BIN_EXE_vsock-wire"))
        .args(["--port", &format!("cid=3,socket={}", socket.display())])
        .args(["--stats", "/dev/stdout"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    stdout.read_line(&mut line).unwrap();
    kill(Pid::from_raw(child.id() as i32), Signal::SIGTERM).unwrap();
    let mut text = String::new();
    stdout.read_to_string(&mut text).unwrap();
    assert!(child.wait().unwrap().success());
    let stats: Value = serde_json::from_str(&text).unwrap();
    assert_eq!(connections(&stats, 0), 0);
}

#[test]
fn bad_arguments_say_what_to_do() {
    let folder = tempfile::tempdir().unwrap();
    let live = Program::start();
    let missing = folder.path().join("none").join("socket");
    let taken = live.path("3");
    for (args, why) in [
        (vec![], "--port"),
        (vec!["--port", "cid=2,socket=/x"], "CID 2 is reserved"),
        (vec!["--port", "cid=3"], "socket=PATH is missing"),
        (
            vec!["--port", "cid=3,socket=/a", "--port", "cid=3,socket=/b"],
            "CID 3 is given to two ports",
        ),
        (
            vec!["--port", &format!("cid=3,socket={}", missing.display())],
            "mkdir -p",
        ),
        (
            vec!["--port", &format!("cid=3,socket={}", taken.display())],
            "another program listens",
        ),
        (
            vec!["--port", "cid=3,socket=/a", "--stats", "/nowhere/stats"],
            "give another --stats",
        ),
        (
            vec!["--port", "cid=3,socket=/a", "--stats", "/tmp"],
            "is a folder",
        ),
        (
            vec!["--port", "cid=3,socket=/a", "--script", "/nowhere/a.script"],
            "cannot read the script",
        ),
        (
            vec!["--port", "cid=3,socket=/a", "--service", "drain=1"],
            "there are sink, source, echo and ping-pong",
        ),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_vsock-wire"));
        let output = command.args(&args).output().unwrap();
        assert!(!output.status.success(), "{args:?}");
        assert_eq!(output.stdout, b"");
        let error = String::from_utf8(output.stderr).unwrap();
        assert!(error.contains(why), "{args:?}: {error}");
    }
    live.end(Signal::SIGTERM);
}

#[test]
fn a_socket_left_by_a_killed_one_is_taken_over() {
    let mut dead = Program::start();
    dead.child.kill().unwrap();
    dead.child.wait().unwrap();
    assert!(dead.path("3").exists());
    let mut child = command(dead.folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut stdout = BufReader::new(child.stdout.take().unwrap());
    stdout.read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    Program {
        child,
        stdout,
        folder: dead.folder,
    }
    .end(Signal::SIGTERM);
}
