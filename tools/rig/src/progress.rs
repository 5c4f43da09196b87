// SPDX-License-Identifier: GPL-2.0

//! Tells people what goes on: a spinner on a terminal, plain lines elsewhere, always on stderr.

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};
use std::io::IsTerminal as _;
use std::time::{Duration, Instant};

/// Where work is told of. Clones tell in the same place.
#[derive(Clone, Debug)]
pub struct Progress {
    bars: Option<MultiProgress>,
}

/// One piece of work under way; it ends with [`Step::done`], or as broken off when dropped.
#[derive(Debug)]
pub struct Step {
    progress: Progress,
    bar: Option<ProgressBar>,
    what: String,
    since: Instant,
    ended: bool,
}

impl Default for Progress {
    fn default() -> Self {
        Self::new()
    }
}

impl Progress {
    /// Bars if stderr is a terminal that wants them, plain lines otherwise.
    pub fn new() -> Self {
        let fancy = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
        Progress {
            bars: fancy.then(MultiProgress::new),
        }
    }

    /// Begins a piece of work.
    pub fn step(&self, what: impl Into<String>) -> Step {
        let what = what.into();
        let bar = self.bars.as_ref().map(|bars| {
            let bar = bars.add(ProgressBar::new_spinner());
            let style = ProgressStyle::with_template("{spinner} {prefix} {msg:.dim} [{elapsed}]")
                .unwrap_or_else(|_| ProgressStyle::default_spinner());
            bar.set_style(style);
            bar.set_prefix(what.clone());
            bar.enable_steady_tick(Duration::from_millis(120));
            bar
        });
        if bar.is_none() {
            eprintln!("lab: {what} …");
        }
        Step {
            progress: self.clone(),
            bar,
            what,
            since: Instant::now(),
            ended: false,
        }
    }

    /// Prints a line that stays.
    pub fn say(&self, line: impl AsRef<str>) {
        let line = line.as_ref();
        match &self.bars {
            Some(bars) => {
                // Only a closed stderr makes this fail, and then nobody reads it.
                let _ = bars.println(line);
            }
            None => eprintln!("lab: {line}"),
        }
    }

    /// Runs `f` with the bars hidden, for something else that draws on the terminal.
    pub fn suspended<T>(&self, f: impl FnOnce() -> T) -> T {
        match &self.bars {
            Some(bars) => bars.suspend(f),
            None => f(),
        }
    }
}

impl Step {
    /// Tells of a detail: on a terminal it replaces the last one, elsewhere it is not worth a line.
    pub fn detail(&self, detail: impl Into<String>) {
        if let Some(bar) = &self.bar {
            bar.set_message(detail.into());
        }
    }

    /// Ends the work, with its time if it took long enough to wonder.
    pub fn done(mut self) {
        self.end("done");
    }

    fn end(&mut self, how: &str) {
        if std::mem::replace(&mut self.ended, true) {
            return;
        }
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
        let seconds = self.since.elapsed().as_secs_f64();
        let what = &self.what;
        if self.progress.bars.is_none() || seconds > 2.0 || how != "done" {
            self.progress.say(format!("{what}: {how} ({seconds:.1} s)"));
        }
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        self.end("broken off");
    }
}
