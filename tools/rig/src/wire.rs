// SPDX-License-Identifier: GPL-2.0

//! The wire of a boot, while it runs: it takes scripts and shows its counters.

use crate::error::{Error, IoContext as _, Result};
use std::io::{BufRead as _, BufReader, ErrorKind, Write as _};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::time::Duration;

/// The longest that a script may take to begin.
const BEGIN: Duration = Duration::from_secs(20);

/// The device of a rig's guests, of which can be asked what no honest one would do.
#[derive(Clone, Debug)]
pub struct Wire {
    control: PathBuf,
}

/// A script under way; dropped, it is ended.
#[derive(Debug)]
pub struct Script {
    answer: BufReader<UnixStream>,
    /// What was read of a line that is not whole yet.
    line: String,
    /// The answer, if it came before the script began.
    early: Option<String>,
}

impl Wire {
    pub(crate) fn at(control: PathBuf) -> Self {
        Wire { control }
    }

    /// Has the device of the guest with this CID do what a script says.
    pub fn run(&self, cid: u32, script: &str) -> Result<Script> {
        let mut stream = self.connect()?;
        write!(stream, "run {cid} {}\n{script}", script.len())
            .context(|| "give the wire a script".into())?;
        let mut script = Script {
            answer: BufReader::new(stream),
            line: String::new(),
            early: None,
        };
        // The guest must not be told to do its part before.
        match script.poll(BEGIN)? {
            Some(line) if line.trim() == "begun" => Ok(script),
            // It did not come to that; the answer says why.
            Some(line) => {
                script.early = Some(line);
                Ok(script)
            }
            None => Err(Error::TimedOut {
                machine: "the wire".into(),
                what: "a script's beginning".into(),
                after: BEGIN,
            }),
        }
    }

    /// Its counters, as JSON.
    pub fn stats(&self) -> Result<String> {
        let mut stream = self.connect()?;
        let mut text = String::new();
        stream
            .write_all(b"stats\n")
            .and_then(|()| BufReader::new(stream).read_line(&mut text))
            .context(|| "ask the wire for its counters".into())?;
        Ok(text)
    }

    fn connect(&self) -> Result<UnixStream> {
        let path = &self.control;
        UnixStream::connect(path).context(|| format!("connect to the wire at {}", path.display()))
    }
}

impl Script {
    /// Waits for its end, for at most so long, and returns what came of it as JSON; None if it is not
    /// over. To be called again then.
    pub fn poll(&mut self, time: Duration) -> Result<Option<String>> {
        if let Some(answer) = self.early.take() {
            return Ok(Some(answer));
        }
        // A timeout of zero would be none.
        let patience = time.max(Duration::from_millis(1));
        let stream = self.answer.get_ref();
        stream
            .set_read_timeout(Some(patience))
            .context(|| "set a timeout".into())?;
        match self.answer.read_line(&mut self.line) {
            Ok(0) => Err(Error::Setup(
                "the wire ended in the middle of a script; see wire.log".into(),
            )),
            Ok(_) => Ok(Some(std::mem::take(&mut self.line))),
            Err(error) if is_early(error.kind()) => Ok(None),
            Err(source) => {
                let what = "hear of a script's end".into();
                Err(Error::Io { what, source })
            }
        }
    }
}

fn is_early(kind: ErrorKind) -> bool {
    matches!(
        kind,
        ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
    )
}
