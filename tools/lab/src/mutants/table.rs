// SPDX-License-Identifier: GPL-2.0
//! What came of each mutant, as a table.

use comfy_table::{Cell, Table as Grid, presets};

use super::list::Mutant;
use super::trial::Fate;

/// Longer explanations are cut, and stand in the logs.
const WIDEST: usize = 100;

/// One mutant.
#[derive(Clone, Debug)]
pub(super) struct Row {
    /// What it is.
    pub mutant: Mutant,
    /// What came of it.
    pub fate: Fate,
}

/// All mutants that were tried.
#[derive(Debug, Default)]
pub(super) struct Table {
    rows: Vec<Row>,
}

impl Table {
    /// Adds one.
    pub(super) fn add(&mut self, row: Row) {
        self.rows.push(row);
    }

    /// Prints the table and the sums; returns whether each is killed, or excused.
    pub(super) fn finish(&self) -> bool {
        println!("{}", self.grid());
        let (text, good) = self.sums();
        print!("{text}");
        good
    }

    fn grid(&self) -> Grid {
        let mut grid = Grid::new();
        grid.load_preset(presets::NOTHING);
        grid.set_header(["mutant", "file", "fate", "s", "noticed by"]);
        for Row { mutant, fate } in &self.rows {
            let (fate, seconds, by) = match fate {
                Fate::Killed { by, why, took } => (
                    "killed",
                    format!("{:.0}", took.as_secs_f64()),
                    format!("{by}\n  {}", first_line(why)),
                ),
                Fate::Alive => {
                    let excuse = mutant.alive.clone();
                    ("ALIVE", String::new(), excuse.unwrap_or_default())
                }
            };
            grid.add_row([
                Cell::new(&mutant.name),
                Cell::new(mutant.file.display()),
                Cell::new(fate),
                Cell::new(seconds),
                Cell::new(by),
            ]);
        }
        grid
    }

    fn sums(&self) -> (String, bool) {
        let is_alive = |row: &&Row| row.fate == Fate::Alive;
        let alive: Vec<&Row> = self.rows.iter().filter(is_alive).collect();
        let killed = self.rows.len() - alive.len();
        let mut text = String::new();
        for row in &self.rows {
            if row.fate != Fate::Alive && row.mutant.alive.is_some() {
                let name = &row.mutant.name;
                text += &format!("{name}: it is noticed by now; take out why it cannot be\n");
            }
        }
        let bad: Vec<&&Row> = alive
            .iter()
            .filter(|row| row.mutant.alive.is_none())
            .collect();
        for row in &bad {
            text += &format!("alive, without a reason: {}\n", row.mutant.name);
        }
        text += &format!("{killed} killed, {} alive\n", alive.len());
        (text, bad.is_empty())
    }
}

fn first_line(text: &str) -> String {
    let line = text.lines().next().unwrap_or_default();
    line.chars().take(WIDEST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn row(fate: Fate, alive: Option<&str>) -> Row {
        let mutant = Mutant {
            name: "no lock".into(),
            file: "rust/x.rs".into(),
            find: "1".into(),
            replace: "2".into(),
            tests: vec!["load".into()],
            kernel: Default::default(),
            alive: alive.map(Into::into),
        };
        Row { mutant, fate }
    }

    fn killed() -> Fate {
        Fate::Killed {
            by: "load".into(),
            why: "it does not\nwork".into(),
            took: Duration::from_secs(1),
        }
    }

    #[test]
    fn one_that_is_alive_without_a_reason_fails_the_run() {
        let mut table = Table::default();
        table.add(row(killed(), None));
        assert_eq!(table.sums(), ("1 killed, 0 alive\n".into(), true));
        table.add(row(Fate::Alive, Some("nobody can see it")));
        assert_eq!(table.sums(), ("1 killed, 1 alive\n".into(), true));
        table.add(row(Fate::Alive, None));
        let (text, good) = table.sums();
        assert!(!good);
        assert!(text.ends_with("alive, without a reason: no lock\n1 killed, 2 alive\n"));
        assert!(table.grid().to_string().contains("it does not"));
    }

    #[test]
    fn a_stale_excuse_is_told() {
        let mut table = Table::default();
        table.add(row(killed(), Some("nobody can see it")));
        let (text, good) = table.sums();
        assert!(good);
        assert!(text.starts_with("no lock: it is noticed by now"));
    }
}
