// SPDX-License-Identifier: GPL-2.0
//! The scripts, as files.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result, ensure};
use rig::Checkout;
use vsock_wire::hostile::script::Script;

/// A script and its name.
#[derive(Clone, Debug)]
pub(crate) struct Scripted {
    /// The name of its file, without what all have in common.
    pub name: String,
    /// What the wire is given.
    pub text: String,
    /// What the wire makes of it.
    pub script: Script,
}

/// How the files' names end.
pub(crate) const EXTENSION: &str = "script";

impl Scripted {
    /// Reads one.
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let text = fs::read_to_string(path);
        let text = text.with_context(|| format!("reading the script {}", path.display()))?;
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        Self::new(&name, text).with_context(|| format!("in the script {}", path.display()))
    }

    /// Makes one of its text.
    pub(crate) fn new(name: &str, text: String) -> Result<Self> {
        let script = text.parse().map_err(anyhow::Error::msg)?;
        Ok(Self {
            name: name.to_owned(),
            text,
            script,
        })
    }
}

/// Where they stand in a checkout.
fn folder(checkout: &Checkout) -> PathBuf {
    checkout.top().join("tools/wire/scripts")
}

/// All scripts of a checkout, in the order of their names.
pub(crate) fn all(checkout: &Checkout) -> Result<Vec<Scripted>> {
    let folder = folder(checkout);
    let listing = || format!("listing {}", folder.display());
    let mut paths = Vec::new();
    for entry in fs::read_dir(&folder).with_context(listing)? {
        let path = entry.with_context(listing)?.path();
        if path
            .extension()
            .is_some_and(|extension| extension == EXTENSION)
        {
            paths.push(path);
        }
    }
    paths.sort();
    ensure!(!paths.is_empty(), "{} holds no scripts", folder.display());
    paths.iter().map(|path| Scripted::read(path)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_script_of_the_checkout_is_understood() {
        let mut count = 0;
        for entry in fs::read_dir(folder(&Checkout::find().unwrap())).unwrap() {
            let script = Scripted::read(&entry.unwrap().path()).unwrap();
            assert!(script.text.starts_with("# SPDX"), "{}", script.name);
            count += 1;
        }
        assert!(count > 0);
    }
}
