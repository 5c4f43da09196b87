// SPDX-License-Identifier: GPL-2.0
//! Builds mutants, one after the other, in a copy of the sources.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use rig::logged;

use super::list::Mutant;
use crate::workbench::Workbench;

/// What a module is built from.
const SOURCES: [&str; 3] = ["Makefile", "Kbuild", "rust"];

/// A copy of the sources, in which one file at a time is changed.
pub(super) struct Nursery<'a> {
    bench: &'a Workbench,
    sources: PathBuf,
    modules: PathBuf,
}

impl<'a> Nursery<'a> {
    /// Copies the sources. What is there already and the same keeps its time, so that little is built.
    pub(super) fn new(bench: &'a Workbench) -> Result<Self> {
        let folder = bench.checkout.top().join("build/mutants");
        let sources = folder.join("source");
        fs::create_dir_all(&sources).with_context(|| format!("making {}", sources.display()))?;
        for name in SOURCES {
            mirror(&bench.checkout.top().join(name), &sources.join(name))?;
        }
        let modules = folder.join(bench.kernel.release());
        fs::create_dir_all(&modules).with_context(|| format!("making {}", modules.display()))?;
        Ok(Self {
            bench,
            sources,
            modules,
        })
    }

    /// Builds the mutant; returns its module.
    pub(super) fn build(&self, mutant: &Mutant, number: usize) -> Result<PathBuf> {
        let place = mutant.place(&self.sources);
        let what = || format!("changing {}", place.display());
        let honest = fs::read_to_string(&place).with_context(what)?;
        fs::write(&place, mutant.apply(&honest)?).with_context(what)?;
        let built = self.make(number);
        // Whatever came of it, the next one begins with the sources as they are.
        fs::write(&place, honest).with_context(what)?;
        built
    }

    fn make(&self, number: usize) -> Result<PathBuf> {
        let step = self.bench.progress.step("building a mutant");
        let log = self.bench.run.path().join(format!("mutant-{number}.log"));
        let objects = self.modules.join("objects");
        fs::create_dir_all(&objects).with_context(|| format!("making {}", objects.display()))?;
        logged(
            &mut self.bench.make_of(&self.sources, &objects),
            &log,
            &step,
        )?;
        step.done();
        let module = self.modules.join(format!("mutant-{number}.ko"));
        // Debug information is most of it, and each mutant goes to the guest by a narrow way.
        let mut strip = Command::new("strip");
        strip.args(["--strip-debug", "-o"]).arg(&module);
        let stripped = strip.arg(objects.join("virtio_vsock_rs.ko")).status();
        let stripped = stripped.context("running strip (is binutils installed?)")?;
        ensure!(stripped.success(), "strip failed: {stripped}");
        Ok(module)
    }
}

/// Makes `to` the same as `from`, and touches nothing that is the same.
fn mirror(from: &Path, to: &Path) -> Result<()> {
    let what = || format!("copying {} to {}", from.display(), to.display());
    if !from.is_dir() {
        let new = fs::read(from).with_context(what)?;
        if fs::read(to).is_ok_and(|old| old == new) {
            return Ok(());
        }
        return fs::write(to, new).with_context(what);
    }
    fs::create_dir_all(to).with_context(what)?;
    let names = |folder: &Path| -> std::io::Result<Vec<_>> {
        fs::read_dir(folder)?
            .map(|entry| entry.map(|entry| entry.file_name()))
            .collect()
    };
    let wanted = names(from).with_context(what)?;
    for name in names(to).with_context(what)? {
        if wanted.contains(&name) {
            continue;
        }
        let old = to.join(name);
        let removed = match old.is_dir() {
            true => fs::remove_dir_all(&old),
            false => fs::remove_file(&old),
        };
        removed.with_context(what)?;
    }
    for name in wanted {
        mirror(&from.join(&name), &to.join(&name))?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mirror_follows_and_keeps_times() {
        let folder = tempfile::tempdir().unwrap();
        let (from, to) = (folder.path().join("from"), folder.path().join("to"));
        fs::create_dir_all(from.join("sub")).unwrap();
        fs::write(from.join("sub/a"), "1").unwrap();
        fs::write(from.join("b"), "1").unwrap();
        mirror(&from, &to).unwrap();
        let time = |path: &Path| fs::metadata(path).unwrap().modified().unwrap();
        let before = time(&to.join("sub/a"));
        fs::remove_file(from.join("b")).unwrap();
        mirror(&from, &to).unwrap();
        assert_eq!(time(&to.join("sub/a")), before);
        assert!(!to.join("b").exists());
        fs::write(from.join("sub/a"), "2").unwrap();
        mirror(&from, &to).unwrap();
        assert_eq!(fs::read(to.join("sub/a")).unwrap(), b"2");
    }
}
