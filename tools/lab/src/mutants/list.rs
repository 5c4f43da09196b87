// SPDX-License-Identifier: GPL-2.0
//! The list of mutants.

use std::path::{Component, Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;

/// Where the list stands in a checkout.
pub(super) const PLACE: &str = "tools/lab/mutants.toml";
const TEXT: &str = include_str!("../../mutants.toml");

/// The kernel on which a mutant can be noticed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Kernel {
    /// The stock kernel.
    #[default]
    Stock,
    /// The debug kernel: by a unit test, or by one of its checkers.
    Debug,
}

/// One change of the sources.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Mutant {
    /// What it does, in a few words.
    pub name: String,
    /// The file that it changes.
    pub file: PathBuf,
    /// The text that it replaces, which stands there once.
    pub find: String,
    /// What it puts there.
    pub replace: String,
    /// The cases that should notice, as regular expressions of their titles.
    pub tests: Vec<String>,
    /// Where they do.
    #[serde(default)]
    pub kernel: Kernel,
    /// Why no test can see it, if that is so.
    pub alive: Option<String>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    mutant: Vec<Mutant>,
}

/// Reads the list.
pub(super) fn read() -> Result<Vec<Mutant>> {
    parse(TEXT).context(PLACE)
}

fn parse(text: &str) -> Result<Vec<Mutant>> {
    let File { mutant: mutants } = toml::from_str(text)?;
    for (number, mutant) in mutants.iter().enumerate() {
        let name = &mutant.name;
        let again = mutants[..number].iter().any(|other| other.name == *name);
        ensure!(!again, "{name:?} stands there twice");
        ensure!(!mutant.tests.is_empty(), "{name:?} has no tests");
        ensure!(
            mutant.find != mutant.replace && !mutant.find.is_empty(),
            "{name:?} changes nothing"
        );
        let inside = |part: Component<'_>| matches!(part, Component::Normal(_));
        ensure!(
            mutant.file.components().all(inside) && mutant.file.starts_with("rust"),
            "{name:?} changes {}, which is not in rust/",
            mutant.file.display()
        );
    }
    Ok(mutants)
}

impl Mutant {
    /// The file's text with the change.
    pub(super) fn apply(&self, text: &str) -> Result<String> {
        let count = text.matches(&self.find).count();
        ensure!(
            count == 1,
            "the text that it replaces stands {count} times in {}, instead of once: the driver has \
             changed; bring {PLACE} up to date",
            self.file.display()
        );
        Ok(text.replacen(&self.find, &self.replace, 1))
    }

    /// The file in a folder with the sources.
    pub(super) fn place(&self, sources: &Path) -> PathBuf {
        sources.join(&self.file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: &str = "[[mutant]]\nname = \"a\"\nfile = \"rust/x.rs\"\nfind = \"1\"\n\
                       replace = \"2\"\ntests = [\"load\"]\n";

    #[test]
    fn the_list_in_the_checkout_fits_the_sources() {
        let checkout = rig::Checkout::find().unwrap();
        for mutant in read().unwrap() {
            let text = std::fs::read_to_string(mutant.place(checkout.top())).unwrap();
            if let Err(error) = mutant.apply(&text) {
                panic!("{}: {error}", mutant.name);
            }
        }
    }

    #[test]
    fn a_mutant_is_read_and_applied() {
        let mutants = parse(ONE).unwrap();
        assert_eq!(mutants[0].kernel, Kernel::Stock);
        assert_eq!(mutants[0].apply("0 1 3").unwrap(), "0 2 3");
        assert!(mutants[0].apply("1 1").is_err());
        assert!(mutants[0].apply("3").is_err());
    }

    #[test]
    fn nonsense_is_refused() {
        assert!(parse(&format!("{ONE}{ONE}")).is_err());
        assert!(parse(&ONE.replace("\"2\"", "\"1\"")).is_err());
        assert!(parse(&ONE.replace("[\"load\"]", "[]")).is_err());
        assert!(parse(&ONE.replace("rust/x.rs", "rust/../x.rs")).is_err());
        assert!(parse(&ONE.replace("rust/x.rs", "tools/x.rs")).is_err());
        assert!(parse(&ONE.replace("tests", "test")).is_err());
    }
}
