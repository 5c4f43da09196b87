// SPDX-License-Identifier: GPL-2.0
//! The module's unit tests, which its kernel runs whenever it is loaded.

use anyhow::{Result, ensure};
use regex::Regex;

use crate::case::fixture::Fixture;
use crate::case::tap::{TestResult, Verdict};
use crate::case::{Case, Outcome};

/// The module's suites. One that is missing was not run.
const SUITES: [&str; 8] = [
    "virtio_vsock_rs_batch",
    "virtio_vsock_rs_config",
    "virtio_vsock_rs_credit",
    "virtio_vsock_rs_header",
    "virtio_vsock_rs_rx_packet",
    "virtio_vsock_rs_scatterlist",
    "virtio_vsock_rs_send_queue",
    "virtio_vsock_rs_stats",
];

/// Shows what came of the suites of the loaded module.
const SHOW: &str = "cd /sys/kernel/debug/kunit && for suite in virtio_vsock_rs_*; do
        echo \"suite $suite\"; cat \"$suite/results\"
    done";

/// The cases of this file.
pub(super) fn cases() -> Vec<Case> {
    vec![Case::with_outcome("the module's unit tests pass", suites).ours_only()]
}

fn suites(fixture: &Fixture<'_>) -> Result<Outcome> {
    let there = fixture.guest_shell("test -d /sys/kernel/debug/kunit && echo yes; true")?;
    if there.text().trim() != "yes" {
        return Ok(Outcome::Skipped("this kernel has no KUnit".into()));
    }
    fixture.reload([])?;
    let shown = fixture.guest_shell(SHOW)?.text();
    let results = parse(&shown)?;
    for suite in SUITES {
        let prefix = format!("{suite}: ");
        ensure!(
            results
                .iter()
                .any(|result| result.name.starts_with(&prefix)),
            "{suite} was not run:\n{shown}"
        );
    }
    Ok(Outcome::Each(results))
}

/// The tests in what KUnit shows of its suites.
fn parse(text: &str) -> Result<Vec<TestResult>> {
    // Tests are indented; the line of their suite is not.
    let test = Regex::new(r"^\s+(not )?ok \d+ (\S+)")?;
    let mut suite = "";
    let mut said = Vec::new();
    let mut results = Vec::new();
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("suite ") {
            suite = name;
            said.clear();
        } else if let Some(found) = test.captures(line) {
            let verdict = match (found.get(1).is_some(), line.contains("# SKIP")) {
                (false, true) => Verdict::Skip("KUnit skipped it".into()),
                (false, false) => Verdict::Pass,
                (true, _) => Verdict::Fail(said.join("\n")),
            };
            results.push(TestResult {
                name: format!("{suite}: {}", &found[2]),
                verdict,
                took: None,
            });
            said.clear();
        } else {
            said.push(line);
        }
    }
    ensure!(!results.is_empty(), "KUnit has run nothing:\n{text}");
    Ok(results)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tests_are_found_in_their_suites() {
        let text = "suite a\n    KTAP version 1\n    # Subtest: a\n    1..2\n    ok 1 one\n    \
                    # two: ASSERTION FAILED at x.rs:1\n    not ok 2 two\n# a: pass:1\nnot ok 1 a\n\
                    suite b\n    ok 1 three # SKIP no\n";
        let results = parse(text).unwrap();
        let shown: Vec<_> = results.iter().map(|result| result.name.as_str()).collect();
        assert_eq!(shown, ["a: one", "a: two", "b: three"]);
        assert_eq!(results[0].verdict, Verdict::Pass);
        assert!(matches!(&results[1].verdict, Verdict::Fail(why) if why.contains("ASSERTION")));
        assert!(matches!(results[2].verdict, Verdict::Skip(_)));
        assert!(parse("suite a\n").is_err());
    }
}
