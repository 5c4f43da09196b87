// SPDX-License-Identifier: GPL-2.0
//! What the user wants measured.

use std::path::PathBuf;
use std::str::FromStr;

use clap::builder::BoolishValueParser;
use regex::Regex;
use rig::RigKind;

/// What to measure, and how thoroughly.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Only on this rig: guest-bound, nested, kvm or wire. Otherwise guest-bound, and on a real host.
    #[arg(long)]
    pub rig: Option<RigKind>,
    /// Few rounds of few cases: minutes instead of hours, and wide intervals.
    #[arg(long, env = "QUICK", value_parser = BoolishValueParser::new())]
    pub quick: bool,
    /// Rounds; otherwise 8, or 3 if it is to be quick.
    #[arg(long, env = "ROUNDS", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub rounds: Option<u32>,
    /// More drivers: each a folder with another build's virtio_vsock_rs.ko, or with a
    /// vmw_vsock_virtio_transport_common.ko and a vmw_vsock_virtio_transport.ko that take the place
    /// of the kernel's.
    #[arg(long, env = "EXTRA", value_name = "NAME:FOLDER", value_delimiter = ',')]
    pub extra: Vec<Extra>,
    /// Only cases whose name, as --list shows it, matches this regular expression.
    #[arg(long, value_name = "PATTERN")]
    pub only: Option<Regex>,
    /// Print the names of the cases and end.
    #[arg(long)]
    pub list: bool,
}

/// A set of modules to be measured beside the others.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Extra {
    /// What tables call it.
    pub name: String,
    /// Where its modules are.
    pub folder: PathBuf,
}

/// The names that the drivers have that are always measured.
const TAKEN: [&str; 4] = ["c", "ours", "no-batch", "no-fast-path"];

impl FromStr for Extra {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (name, folder) = text
            .split_once(':')
            .ok_or_else(|| format!("'{text}' names no folder; give NAME:FOLDER"))?;
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.+".contains(c);
        if name.is_empty() || !name.chars().all(plain) {
            return Err(format!(
                "'{name}' is no name for a driver; use letters, digits and -_.+"
            ));
        }
        if TAKEN.contains(&name) {
            return Err(format!("'{name}' is the name of another driver"));
        }
        Ok(Extra {
            name: name.into(),
            folder: folder.into(),
        })
    }
}

impl Options {
    /// How many rounds there are to be.
    pub fn rounds(&self) -> u32 {
        self.rounds.unwrap_or(if self.quick { 3 } else { 8 })
    }

    /// Prints the names of the cases.
    pub fn list(&self) {
        let kind = self.rig.unwrap_or(RigKind::Nested);
        let cases = crate::campaign::cases(self, kind);
        cases.iter().for_each(|case| println!("{case}"));
    }

    /// Whether a case is asked for.
    pub fn wanted(&self, name: &str) -> bool {
        self.only
            .as_ref()
            .is_none_or(|pattern| pattern.is_match(name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extra_drivers_have_names_and_folders() {
        let extra: Extra = "peer:/some/folder".parse().unwrap();
        assert_eq!(extra.name, "peer");
        assert_eq!(extra.folder, PathBuf::from("/some/folder"));
        for bad in ["peer", ":/a", "a b:/a", "c:/a", "../x:/a"] {
            assert!(bad.parse::<Extra>().is_err(), "{bad}");
        }
    }
}
