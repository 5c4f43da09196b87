// SPDX-License-Identifier: GPL-2.0
//! Each case with each driver's verdict, as a table.

use std::fs;
use std::path::Path;
use std::time::Duration;

use anyhow::{Context as _, Result};
use comfy_table::{Cell, CellAlignment, Table, presets};
use serde::Serialize;

use crate::case::tap::{TestResult, Verdict};

/// What came of one case with one driver.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Mark {
    verdict: &'static str,
    seconds: Option<String>,
    /// What was seen, or why it was not tried.
    why: Option<String>,
}

/// One case.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
struct Row {
    case: String,
    c: Option<Mark>,
    ours: Option<Mark>,
}

/// Every case that was run.
#[derive(Clone, Debug, Default)]
pub(crate) struct Matrix {
    rows: Vec<Row>,
}

impl From<&TestResult> for Mark {
    fn from(result: &TestResult) -> Self {
        let (verdict, why) = match &result.verdict {
            Verdict::Pass => ("pass", None),
            Verdict::Fail(why) | Verdict::FailsWithC(why) => ("FAIL", Some(why)),
            Verdict::Skip(why) => ("skip", Some(why)),
        };
        let seconds = |took: Duration| format!("{:.1}", took.as_secs_f64());
        Mark {
            verdict,
            seconds: result.took.map(seconds),
            why: why.cloned(),
        }
    }
}

impl Matrix {
    /// Whether nothing was run.
    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// Adds what came of one case, test by test.
    pub(crate) fn add(&mut self, c: &[TestResult], ours: &[TestResult]) {
        let begin = self.rows.len();
        let rows = &mut self.rows;
        let mut row = |name: &str| {
            let known = rows[begin..].iter().position(|row| row.case == name);
            let place = begin + known.unwrap_or(rows.len() - begin);
            if known.is_none() {
                let case = name.to_owned();
                let (c, ours) = (None, None);
                rows.push(Row { case, c, ours });
            }
            place
        };
        let ours: Vec<_> = ours.iter().map(|test| (row(&test.name), test)).collect();
        let c: Vec<_> = c.iter().map(|test| (row(&test.name), test)).collect();
        for (place, test) in ours {
            self.rows[place].ours = Some(test.into());
        }
        for (place, test) in c {
            self.rows[place].c = Some(test.into());
        }
    }

    /// The table, and below it what was seen where a driver fails.
    pub(crate) fn text(&self) -> String {
        let mut table = Table::new();
        table.load_preset(presets::NOTHING);
        table.set_header(["case", "C", "s", "ours", "s"]);
        for row in &self.rows {
            let mut cells = vec![Cell::new(&row.case)];
            for mark in [&row.c, &row.ours] {
                let verdict = mark.as_ref().map_or("-", |mark| mark.verdict);
                let seconds = mark.as_ref().and_then(|mark| mark.seconds.as_deref());
                cells.push(Cell::new(verdict));
                let seconds = Cell::new(seconds.unwrap_or_default());
                cells.push(seconds.set_alignment(CellAlignment::Right));
            }
            table.add_row(cells);
        }
        let lines = table.lines().map(|line| format!("{}\n", line.trim_end()));
        let mut text: String = lines.collect();
        for row in &self.rows {
            for (driver, mark) in [("C", &row.c), ("ours", &row.ours)] {
                let failed = mark.as_ref().filter(|mark| mark.verdict == "FAIL");
                if let Some(why) = failed.and_then(|mark| mark.why.as_ref()) {
                    let why = why.replace('\n', "\n    ");
                    text += &format!("\n{}, {driver}:\n    {why}\n", row.case);
                }
            }
        }
        text + "\n"
    }

    /// Writes it into a folder, as text and as JSON.
    pub(crate) fn keep(&self, folder: &Path, notes: &[String]) -> Result<()> {
        fs::create_dir_all(folder).with_context(|| format!("making {}", folder.display()))?;
        let json = serde_json::json!({ "notes": notes, "cases": self.rows });
        let text = format!("{}\n\n{}", notes.join("\n"), self.text());
        let files = [
            ("matrix.txt", text),
            ("matrix.json", serde_json::to_string_pretty(&json)?),
        ];
        for (name, contents) in files {
            let path = folder.join(name);
            fs::write(&path, contents).with_context(|| format!("writing {}", path.display()))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn result(name: &str, verdict: Verdict, took: Option<u64>) -> TestResult {
        TestResult {
            name: name.into(),
            verdict,
            took: took.map(Duration::from_secs),
        }
    }

    #[test]
    fn both_drivers_share_a_row() {
        let mut matrix = Matrix::default();
        let fails = Verdict::Fail("byte 7 is\nwrong".into());
        matrix.add(
            &[result("a", fails, Some(3))],
            &[result("a", Verdict::Pass, Some(2))],
        );
        matrix.add(
            &[result("b: 1", Verdict::Pass, None)],
            &[
                result("b: 1", Verdict::Pass, None),
                result("b: 2", Verdict::Skip("no".into()), None),
            ],
        );
        let text = matrix.text();
        let words: Vec<Vec<&str>> = text
            .lines()
            .map(|line| line.split_whitespace().collect())
            .collect();
        assert_eq!(words[1], ["a", "FAIL", "3.0", "pass", "2.0"]);
        assert_eq!(words[2], ["b:", "1", "pass", "pass"]);
        assert_eq!(words[3], ["b:", "2", "-", "skip"]);
        assert!(
            text.contains("\na, C:\n    byte 7 is\n    wrong\n"),
            "{text}"
        );
    }
}
