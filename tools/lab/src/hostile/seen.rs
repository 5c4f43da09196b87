// SPDX-License-Identifier: GPL-2.0
//! What was seen of a driver while a script was played, and the two drivers side by side.

use std::collections::BTreeMap;

use vsock_wire::hostile::report::Report;

use crate::counters::Counters;

/// What was seen of one driver.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    /// What the device has to say.
    pub report: Report,
    /// How sockets of the guest's programs ended, and how many.
    pub ends: BTreeMap<String, u64>,
    /// What our driver's counters grew by.
    pub counters: Option<Counters>,
    /// What should not be.
    pub faults: Vec<String>,
}

/// A script, and what was seen of the two drivers; an error is the end of the machine.
#[derive(Debug)]
pub(crate) struct Row {
    /// The script's name.
    pub name: String,
    /// Whether answers are a matter of timing, and not compared.
    pub timing: bool,
    /// Of the C driver.
    pub c: Result<Seen, String>,
    /// Of ours.
    pub ours: Result<Seen, String>,
}

impl Seen {
    /// What the device and the programs heard, as a line for each that says something. How
    /// often credit is told is the driver's affair, and left out.
    pub(crate) fn answers(&self) -> Vec<String> {
        let mut lines: Vec<String> = Vec::new();
        for (connection, answers) in &self.report.answers {
            let told = answers.iter().filter(|(op, _)| !op.starts_with("credit"));
            let words: Vec<String> = told.map(|(op, count)| format!("{count} {op}")).collect();
            if !words.is_empty() {
                lines.push(format!("{connection}: {}", words.join(", ")));
            }
        }
        let ends = self
            .ends
            .iter()
            .map(|(how, count)| format!("{count} {how}"));
        let ends: Vec<String> = ends.collect();
        if !ends.is_empty() {
            lines.push(format!("sockets: {}", ends.join(", ")));
        }
        lines
    }
}

impl Row {
    /// What is wrong with our driver; nothing, if it passed.
    pub(crate) fn complaints(&self) -> Vec<String> {
        let ours = match &self.ours {
            Ok(seen) => seen,
            Err(end) => return vec![end.clone()],
        };
        let mut complaints = ours.faults.clone();
        // A control that broke is none.
        if let Ok(c) = &self.c {
            if !self.timing && c.faults.is_empty() && c.answers() != ours.answers() {
                complaints.push("it answers otherwise than the C driver".into());
            }
        }
        complaints
    }

    /// Whether our driver passed.
    pub(crate) fn passed(&self) -> bool {
        self.complaints().is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(resets: u64, updates: u64, faults: &[&str]) -> Result<Seen, String> {
        let answers = [
            ("rst".to_owned(), resets),
            ("credit_update".to_owned(), updates),
        ];
        let report = Report {
            answers: [("a".to_owned(), answers.into())].into(),
            ..Report::default()
        };
        Ok(Seen {
            report,
            ends: [("ENOBUFS".to_owned(), 1)].into(),
            counters: None,
            faults: faults.iter().map(ToString::to_string).collect(),
        })
    }

    fn row(c: Result<Seen, String>, ours: Result<Seen, String>) -> Row {
        let name = "name".into();
        let timing = false;
        Row {
            name,
            timing,
            c,
            ours,
        }
    }

    #[test]
    fn answers_have_to_be_the_same_but_for_credit() {
        assert!(row(seen(1, 0, &[]), seen(1, 9, &[])).passed());
        let different = row(seen(1, 0, &[]), seen(2, 0, &[]));
        assert!(different.complaints()[0].contains("otherwise"));
        assert_eq!(
            seen(1, 5, &[]).unwrap().answers(),
            ["a: 1 rst", "sockets: 1 ENOBUFS"]
        );
    }

    #[test]
    fn timing_excuses_other_answers() {
        let mut row = row(seen(1, 0, &[]), seen(2, 0, &[]));
        row.timing = true;
        assert!(row.passed());
    }

    #[test]
    fn a_control_that_broke_excuses_other_answers_and_nothing_else() {
        assert!(row(Err("oops".into()), seen(2, 0, &[])).passed());
        assert!(row(seen(1, 0, &["leak"]), seen(2, 0, &[])).passed());
        assert!(!row(Err("oops".into()), seen(2, 0, &["leak"])).passed());
        assert!(!row(seen(1, 0, &[]), Err("oops".into())).passed());
    }
}
