// SPDX-License-Identifier: GPL-2.0

//! What is made once and kept, outside of any checkout.

use crate::error::{Error, IoContext as _, Result};
use nix::fcntl::{Flock, FlockArg};
use std::fs::{self, File};
use std::path::{Path, PathBuf};

/// The folder of things made once. An entry is whole or absent: it is made beside its place and renamed.
#[derive(Clone, Debug)]
pub struct Cache {
    folder: PathBuf,
}

impl Cache {
    /// Opens the folder that `LAB_CACHE` names, as `tools/labroot.sh run` sets it.
    pub fn open() -> Result<Self> {
        let folder = std::env::var_os("LAB_CACHE").ok_or_else(|| {
            Error::Setup("LAB_CACHE is not set; start this with `tools/labroot.sh run …`".into())
        })?;
        Self::at(folder.into())
    }

    /// Opens a folder of the caller's choice.
    pub fn at(folder: PathBuf) -> Result<Self> {
        fs::create_dir_all(&folder).context(|| format!("make {}", folder.display()))?;
        Ok(Cache { folder })
    }

    /// Where it is.
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// The place of an entry, whether it is there or not.
    pub fn entry(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Returns the folder `name`, after `make` has filled it if it was not there.
    ///
    /// Of several processes that want it at once, one makes it and the others wait; `on_wait` is
    /// called before such a wait.
    pub fn folder_or_make(
        &self,
        name: &str,
        on_wait: impl FnOnce(),
        make: impl FnOnce(&Path) -> Result<()>,
    ) -> Result<PathBuf> {
        let place = self.entry(name);
        if place.is_dir() {
            return Ok(place);
        }
        let _lock = self.lock(name, on_wait)?;
        if place.is_dir() {
            return Ok(place);
        }
        let part = self.entry(&format!("{name}.part"));
        if part.exists() {
            fs::remove_dir_all(&part).context(|| format!("remove {}", part.display()))?;
        }
        fs::create_dir(&part).context(|| format!("make {}", part.display()))?;
        make(&part)?;
        fs::rename(&part, &place).context(|| format!("rename {}", part.display()))?;
        Ok(place)
    }

    /// Takes the lock of an entry, which ends with the returned value or with the process.
    pub(crate) fn lock(&self, name: &str, on_wait: impl FnOnce()) -> Result<Flock<File>> {
        let path = self.entry(&format!(".{name}.lock"));
        let what = || format!("lock {}", path.display());
        let file = File::create(&path).context(what)?;
        match Flock::lock(file, FlockArg::LockExclusiveNonblock) {
            Ok(lock) => Ok(lock),
            Err((file, _)) => {
                on_wait();
                Flock::lock(file, FlockArg::LockExclusive).map_err(|(_, errno)| Error::Io {
                    what: what(),
                    source: errno.into(),
                })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_entry_is_whole_or_absent() {
        let folder = tempfile::tempdir().unwrap();
        let cache = Cache::at(folder.path().join("cache")).unwrap();
        let failed = cache.folder_or_make(
            "x",
            || (),
            |part| {
                fs::write(part.join("half"), "").unwrap();
                Err(Error::Setup("no".into()))
            },
        );
        assert!(failed.is_err());
        assert!(!cache.entry("x").exists());

        let made = cache.folder_or_make(
            "x",
            || (),
            |part| {
                assert!(!part.join("half").exists(), "the last try's rest is gone");
                fs::write(part.join("whole"), "").context(String::new)
            },
        );
        assert!(made.unwrap().join("whole").exists());

        let kept = cache.folder_or_make("x", || (), |_| panic!("it is there"));
        assert!(kept.unwrap().join("whole").exists());
    }
}
