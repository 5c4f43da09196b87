// SPDX-License-Identifier: GPL-2.0

//! Runs a command of some length: what it says goes to a log and, line by line, to a [`Step`].

use crate::error::{Error, IoContext as _, Result};
use crate::progress::Step;
use std::collections::VecDeque;
use std::fs::File;
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};

/// So many of the last lines are shown when the command fails.
const TAIL: usize = 20;

/// Runs a command, adds what it says to `log`, and shows its last line as the step's detail.
pub fn logged(command: &mut Command, log: &Path, step: &Step) -> Result<()> {
    let mut shell = Command::new("sh");
    // One pipe for both outputs keeps their order.
    shell.args(["-c", "exec \"$@\" 2>&1", "sh"]);
    shell.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    let what = || format!("run {command:?}");
    let mut child = shell
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .context(what)?;
    let mut file = File::options()
        .create(true)
        .append(true)
        .open(log)
        .context(|| format!("write {}", log.display()))?;
    let mut last = VecDeque::new();
    if let Some(output) = child.stdout.take() {
        for line in BufReader::new(output).split(b'\n') {
            let line = line.context(what)?;
            let line = String::from_utf8_lossy(&line).into_owned();
            writeln!(file, "{line}").context(|| format!("write {}", log.display()))?;
            step.detail(line.trim());
            last.push_back(line);
            if last.len() > TAIL {
                last.pop_front();
            }
        }
    }
    let status = child.wait().context(what)?;
    if status.success() {
        return Ok(());
    }
    let last: Vec<String> = last.into();
    Err(Error::Setup(format!(
        "{command:?} failed ({status}):\n{}\nThe whole log is {}",
        last.join("\n"),
        log.display()
    )))
}
