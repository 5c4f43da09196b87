// SPDX-License-Identifier: GPL-2.0
//! The form of a check: what it shows, where it makes sense, and how it finds out.

use anyhow::Result;

use super::fixture::Fixture;
use super::tap::Verdict;

/// What a case that ran to its end found out.
pub(crate) enum Outcome {
    /// What the case is named for holds.
    Holds,
    /// It could not be tried here, and why.
    Skipped(String),
    /// It consists of tests of their own, each with its name.
    Each(Vec<(String, Verdict)>),
}

type Run = Box<dyn Fn(&Fixture<'_>) -> Result<Outcome>>;

/// One check. What does not hold is an error, whose text says what was seen.
pub(crate) struct Case {
    /// The noun that it is about, which is the name of its file.
    pub noun: &'static str,
    /// What it shows, as a sentence or a part of one.
    pub name: String,
    /// It needs what only our driver has.
    pub ours_only: bool,
    /// It is part of the short pass against a real vhost-vsock.
    pub short: bool,
    /// It is part of the whole pass.
    pub whole: bool,
    /// Kernel messages that it provokes, as regular expressions.
    pub provokes: Vec<&'static str>,
    run: Run,
}

impl Case {
    /// A case that holds if `run` returns.
    pub(crate) fn new(
        name: impl Into<String>,
        run: impl Fn(&Fixture<'_>) -> Result<()> + 'static,
    ) -> Self {
        Self::with_outcome(name, move |fixture| run(fixture).map(|()| Outcome::Holds))
    }

    /// A case that has more to tell than that it holds.
    pub(crate) fn with_outcome(
        name: impl Into<String>,
        run: impl Fn(&Fixture<'_>) -> Result<Outcome> + 'static,
    ) -> Self {
        Self {
            noun: "",
            name: name.into(),
            ours_only: false,
            short: false,
            whole: true,
            provokes: Vec::new(),
            run: Box::new(run),
        }
    }

    /// Its whole name.
    pub(crate) fn title(&self) -> String {
        format!("{}: {}", self.noun, self.name)
    }

    /// Marks a case that makes no sense with the C driver, which has no such thing.
    pub(crate) fn ours_only(mut self) -> Self {
        self.ours_only = true;
        self
    }

    /// Puts it into the short pass, too.
    pub(crate) fn short(mut self) -> Self {
        self.short = true;
        self
    }

    /// Leaves it out of the whole pass, which has its like at greater length.
    pub(crate) fn only_short(mut self) -> Self {
        self.whole = false;
        self.short()
    }

    /// Names kernel messages that it provokes, as regular expressions.
    pub(crate) fn provokes(mut self, patterns: impl IntoIterator<Item = &'static str>) -> Self {
        self.provokes.extend(patterns);
        self
    }

    /// Finds out.
    pub(crate) fn run(&self, fixture: &Fixture<'_>) -> Result<Outcome> {
        (self.run)(fixture)
    }
}
