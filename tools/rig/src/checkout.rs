// SPDX-License-Identifier: GPL-2.0

//! The checkout that the lab works for, and the folder of one run in it.

use crate::error::{Error, IoContext as _, Result};
use std::fs;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

/// So many runs are kept, so that logs do not fill the disk.
const KEEP_RUNS: usize = 20;

/// The checkout that the lab works for.
#[derive(Clone, Debug)]
pub struct Checkout {
    top: PathBuf,
}

/// The folder of one run: logs, and what its machines were started with.
#[derive(Clone, Debug)]
pub struct RunDir {
    path: PathBuf,
}

impl Checkout {
    /// Looks for it from the working folder upwards.
    pub fn find() -> Result<Self> {
        let here = std::env::current_dir().context(|| "find the working folder".into())?;
        let top = here
            .ancestors()
            .find(|folder| folder.join("tools/labroot.sh").is_file())
            .ok_or_else(|| {
                let here = here.display();
                Error::Setup(format!(
                    "{here} is not in a checkout of virtio_vsock_rs; change into one and run this again"
                ))
            })?;
        Ok(Checkout { top: top.into() })
    }

    /// Its top folder.
    pub fn top(&self) -> &Path {
        &self.top
    }

    /// Makes the folder `build/lab/<time>-<name>` of a new run, and removes those of old runs.
    pub fn new_run(&self, name: &str) -> Result<RunDir> {
        let runs = self.top.join("build/lab");
        let time = humantime::format_rfc3339_seconds(SystemTime::now());
        let time = time.to_string().replace([':', 'Z'], "");
        fs::create_dir_all(&runs).context(|| format!("make {}", runs.display()))?;
        // Others may begin one of the same name in the same second.
        let path = make_new(&runs, &format!("{time}-{name}"))?;
        let mut old: Vec<_> = fs::read_dir(&runs)
            .context(|| format!("read {}", runs.display()))?
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|path| path.is_dir())
            .collect();
        // Names begin with the time, so their order is that of the runs.
        old.sort();
        for path in old.iter().rev().skip(KEEP_RUNS) {
            // Another lab may be removing the same one.
            let _ = fs::remove_dir_all(path);
        }
        Ok(RunDir { path })
    }
}

impl RunDir {
    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Makes a folder in it, with a number added if there is one of that name: one for each boot.
    pub(crate) fn subfolder(&self, name: &str) -> Result<PathBuf> {
        make_new(&self.path, name)
    }
}

/// Makes a folder whose name ends in the first number that is free.
fn make_new(parent: &Path, name: &str) -> Result<PathBuf> {
    for number in 1.. {
        let path = parent.join(format!("{name}-{number}"));
        match fs::create_dir(&path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(source) => {
                let what = format!("make {}", path.display());
                return Err(Error::Io { what, source });
            }
        }
    }
    unreachable!("the numbers do not end")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_that_begin_together_have_folders_of_their_own() {
        let top = tempfile::tempdir().unwrap();
        let checkout = Checkout {
            top: top.path().into(),
        };
        let runs = [(); 2].map(|()| checkout.new_run("check").unwrap());
        assert_ne!(runs[0].path(), runs[1].path());
        assert!(runs.iter().all(|run| run.path().is_dir()));
    }
}
