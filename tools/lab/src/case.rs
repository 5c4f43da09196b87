// SPDX-License-Identifier: GPL-2.0
//! The form of a case of `lab check` and `lab conformance`: what it shows, where it makes sense, and
//! how it finds out.

mod binding;
pub(crate) mod fixture;
pub(crate) mod memory;
pub(crate) mod messages;
pub(crate) mod mode;
pub(crate) mod races;
pub(crate) mod tap;
pub(crate) mod turn;

use anyhow::Result;
use rig::{GuestSetup, RigKind};

use fixture::Fixture;
use tap::TestResult;

/// What a case that ran to its end found out.
pub(crate) enum Outcome {
    /// What the case is named for holds.
    Holds,
    /// It could not be tried here, and why.
    Skipped(String),
    /// It consists of tests of their own, each with its name.
    Each(Vec<TestResult>),
}

type Run = Box<dyn Fn(&Fixture<'_>) -> Result<Outcome>>;

/// One case. What does not hold is an error, whose text says what was seen.
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
    /// A case of the conformance is part of `lab check`, too.
    pub quick: bool,
    /// A debug kernel's checkers may see something in it.
    pub debug: bool,
    /// What is unusual about the guest that it needs.
    pub setup: GuestSetup,
    /// Kernel messages that it provokes, as regular expressions.
    pub provokes: Vec<&'static str>,
    /// The rigs that have what it needs.
    rigs: Vec<RigKind>,
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
            quick: false,
            debug: false,
            setup: GuestSetup::default(),
            provokes: Vec::new(),
            rigs: vec![RigKind::Wire, RigKind::Nested, RigKind::Kvm],
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

    /// Makes a case of the conformance a part of `lab check`, where it has a few seconds.
    pub(crate) fn quick(mut self) -> Self {
        self.quick = true;
        self
    }

    /// Makes it a part of `lab check-debug`, as those are that are short or quick.
    pub(crate) fn debug(mut self) -> Self {
        self.debug = true;
        self
    }

    /// Whether it is a part of `lab check-debug`.
    pub(crate) fn belongs_to_debug(&self) -> bool {
        self.short || self.quick || self.debug
    }

    /// Gives it a guest that is set up otherwise than usual.
    pub(crate) fn setup(mut self, setup: GuestSetup) -> Self {
        self.setup = setup;
        self
    }

    /// Says that only these rigs have what it needs.
    pub(crate) fn only_on(mut self, rigs: impl IntoIterator<Item = RigKind>) -> Self {
        self.rigs = rigs.into_iter().collect();
        self
    }

    /// Whether a rig has what it needs.
    pub(crate) fn runs_on(&self, rig: RigKind) -> bool {
        self.rigs.contains(&rig)
    }

    /// Whether it can share a boot of a guest that is set up so on that rig.
    pub(crate) fn can_share(&self, rig: RigKind, setup: &GuestSetup) -> bool {
        self.runs_on(rig) && self.setup == *setup
    }

    /// Names kernel messages that it provokes, as regular expressions.
    pub(crate) fn provokes(mut self, patterns: impl IntoIterator<Item = &'static str>) -> Self {
        self.provokes.extend(patterns);
        self
    }

    /// Finds out.
    fn run(&self, fixture: &Fixture<'_>) -> Result<Outcome> {
        (self.run)(fixture)
    }
}

/// One table of the cases of several nouns, in this order.
pub(crate) fn table(nouns: impl IntoIterator<Item = (&'static str, Vec<Case>)>) -> Vec<Case> {
    let named = nouns.into_iter().flat_map(|(noun, cases)| {
        cases.into_iter().map(move |mut case| {
            case.noun = noun;
            case
        })
    });
    named.collect()
}

/// Cases by the boots that they share: those next to each other whose guests are set up alike, and on
/// a rig whose boots have to be short, of one noun each.
pub(crate) fn boots(cases: Vec<Case>, short_lives: bool) -> Vec<Vec<Case>> {
    let mut boots: Vec<Vec<Case>> = Vec::new();
    for case in cases {
        let joins = |boot: &Vec<Case>| {
            let last = &boot[boot.len() - 1];
            last.setup == case.setup && (!short_lives || last.noun == case.noun)
        };
        match boots.last_mut().filter(|boot| joins(boot)) {
            Some(boot) => boot.push(case),
            None => boots.push(vec![case]),
        }
    }
    boots
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sizes(boots: &[Vec<Case>]) -> Vec<usize> {
        boots.iter().map(Vec::len).collect()
    }

    fn some() -> Vec<Case> {
        let case = |name: &str| Case::new(name, |_| Ok(()));
        let odd = || GuestSetup::default().without_indirect();
        table([
            ("one", vec![case("a"), case("b"), case("c")]),
            ("two", vec![case("d"), case("e").setup(odd())]),
            ("three", vec![case("f").setup(odd()), case("g")]),
        ])
    }

    #[test]
    fn cases_share_a_boot_unless_they_cannot() {
        assert_eq!(sizes(&boots(some(), false)), [4, 2, 1]);
    }

    #[test]
    fn short_lives_hold_one_noun_each() {
        assert_eq!(sizes(&boots(some(), true)), [3, 1, 1, 1, 1]);
    }
}
