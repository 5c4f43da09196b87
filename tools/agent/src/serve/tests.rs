// SPDX-License-Identifier: GPL-2.0

use super::*;
use proto::{Command, Exit, Failure, JobId, Stream, WriteHow};
use std::collections::HashMap;
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// The lab's end of a link to an agent in this process.
struct Lab {
    output: UnixStream,
    input: BufReader<UnixStream>,
    last: u64,
    outputs: HashMap<JobId, (Vec<u8>, Vec<u8>)>,
    exits: HashMap<JobId, Exit>,
}

impl Lab {
    fn connect() -> Self {
        let (ours, theirs) = UnixStream::pair().unwrap();
        let input = theirs.try_clone().unwrap();
        thread::spawn(move || serve(input, theirs, Place::Process).unwrap());
        ours.set_read_timeout(Some(Duration::from_secs(30)))
            .unwrap();
        let mut lab = Lab {
            input: BufReader::new(ours.try_clone().unwrap()),
            output: ours,
            last: 0,
            outputs: HashMap::new(),
            exits: HashMap::new(),
        };
        let hello = proto::read_line(&mut lab.input).unwrap();
        assert!(matches!(hello, Some(Note::Hello(hello)) if hello.version == proto::VERSION));
        lab
    }

    fn call(&mut self, call: Call) -> Result<Answer, Failure> {
        self.last += 1;
        let id = self.last;
        proto::write_line(&mut self.output, &Request { id, call }).unwrap();
        loop {
            if let Some((answered, result)) = self.listen() {
                assert_eq!(answered, id);
                return result;
            }
        }
    }

    /// Takes in one note; returns what it answers, if it does.
    fn listen(&mut self) -> Option<(u64, Result<Answer, Failure>)> {
        match proto::read_line(&mut self.input)
            .unwrap()
            .expect("the agent hung up")
        {
            Note::Reply { id, result } => return Some((id, result)),
            Note::Output { job, stream, data } => {
                assert!(!self.exits.contains_key(&job), "output after the end");
                let (out, err) = self.outputs.entry(job).or_default();
                match stream {
                    Stream::Out => out.extend(data),
                    Stream::Err => err.extend(data),
                }
            }
            Note::Exit { job, exit } => {
                assert_eq!(self.exits.insert(job, exit), None, "two ends of one job");
            }
            other => panic!("unexpected: {other:?}"),
        }
        None
    }

    fn spawn(&mut self, number: u64, argv: &[&str]) -> Result<Answer, Failure> {
        let argv = argv.iter().map(ToString::to_string).collect();
        let command = Command {
            argv,
            env: vec![("GREETING".into(), "hello".into())],
        };
        self.call(Call::Spawn {
            job: JobId(number),
            command,
        })
    }

    fn end_of(&mut self, number: u64) -> (Exit, String, String) {
        let job = JobId(number);
        while !self.exits.contains_key(&job) {
            assert!(self.listen().is_none());
        }
        let (out, err) = self.outputs.remove(&job).unwrap_or_default();
        let text = |bytes| String::from_utf8(bytes).unwrap();
        (self.exits[&job], text(out), text(err))
    }
}

/// One test, because an agent waits for every child of its process.
#[test]
fn a_session() {
    let mut lab = Lab::connect();

    lab.spawn(1, &["sh", "-c", "echo $GREETING; echo oh >&2; exit 5"])
        .unwrap();
    assert_eq!(
        lab.end_of(1),
        (Exit::Code(5), "hello\n".into(), "oh\n".into())
    );

    let missing = lab.spawn(2, &["no-such-program"]).unwrap_err();
    assert_eq!(missing.errno, Some(nix::libc::ENOENT));
    assert!(lab.spawn(3, &[]).is_err());

    // Two at once; the first one waits for its input, the second one for its end.
    lab.spawn(4, &["cat"]).unwrap();
    lab.spawn(5, &["sh", "-c", "sleep 1000 & echo started; wait"])
        .unwrap();
    lab.call(Call::Input {
        job: JobId(4),
        data: b"one ".to_vec(),
        end: false,
    })
    .unwrap();
    lab.call(Call::Input {
        job: JobId(4),
        data: b"two".to_vec(),
        end: true,
    })
    .unwrap();
    assert_eq!(
        lab.end_of(4),
        (Exit::Code(0), "one two".into(), String::new())
    );
    // The signal reaches what the job has started, too; otherwise its output would stay open.
    lab.call(Call::Signal {
        job: JobId(5),
        signal: nix::libc::SIGKILL,
    })
    .unwrap();
    assert_eq!(lab.end_of(5).0, Exit::Signal(nix::libc::SIGKILL));
    let gone = lab
        .call(Call::Signal {
            job: JobId(5),
            signal: 9,
        })
        .unwrap_err();
    assert_eq!(gone.errno, Some(nix::libc::ESRCH));

    let path = std::env::temp_dir().join(format!("lab-agent-test-{}", std::process::id()));
    let path = path.to_string_lossy().into_owned();
    let write = |how, data: &[u8]| Call::Write {
        path: path.clone(),
        data: data.into(),
        how,
    };
    assert!(
        lab.call(write(WriteHow::InPlace, b"x")).is_err(),
        "it is not there yet"
    );
    lab.call(write(WriteHow::Create { mode: 0o600 }, b"abc"))
        .unwrap();
    lab.call(write(WriteHow::Append, b"def")).unwrap();
    lab.call(write(WriteHow::InPlace, b"X")).unwrap();
    let read = |offset| Call::Read {
        path: path.clone(),
        offset,
    };
    let data = |data: &[u8]| Answer::Data {
        data: data.into(),
        end: true,
    };
    assert_eq!(lab.call(read(0)).unwrap(), data(b"Xbcdef"));
    assert_eq!(lab.call(read(4)).unwrap(), data(b"ef"));
    fs::remove_file(&path).unwrap();
    assert_eq!(
        lab.call(read(0)).unwrap_err().errno,
        Some(nix::libc::ENOENT)
    );
}
