// SPDX-License-Identifier: GPL-2.0

//! A stock Debian kernel: its image and modules, its source made ready for modules of our own, and
//! the vsock programs of its own test suite.

mod apt;
mod build;
mod release;

use crate::cache::Cache;
use crate::error::{Error, IoContext as _, Result};
use crate::progress::Progress;
use release::Release;
use std::fs;
use std::path::{Path, PathBuf};

/// Names what an entry of the cache is made of and how; raise the number when the recipe changes.
const RECIPE: &str = "kernel recipe 1\n";

/// A kernel that stands ready in the cache.
#[derive(Clone, Debug)]
pub struct Kernel {
    release: Release,
    folder: PathBuf,
}

/// The vsock programs of the kernel's own test suite, statically linked.
#[derive(Clone, Debug)]
pub struct TestPrograms {
    /// The functional tests.
    pub vsock_test: PathBuf,
    /// The throughput program.
    pub vsock_perf: PathBuf,
    /// The tests of socket diagnosis.
    pub vsock_diag_test: PathBuf,
    /// The io_uring tests.
    pub vsock_uring_test: PathBuf,
}

impl Kernel {
    /// Chooses a kernel and makes it ready, which takes two minutes if the cache does not have it.
    ///
    /// The choice: the release that the environment variable `KERNEL` names; otherwise the newest 7.3
    /// that the cache has; otherwise the newest 7.3 that Debian's backports offer.
    pub fn prepare(cache: &Cache, progress: &Progress) -> Result<Self> {
        let release = match std::env::var("KERNEL") {
            Ok(name) if !name.trim().is_empty() => {
                Release::parse(name.trim()).ok_or_else(|| {
                    Error::Setup(format!(
                        "KERNEL={name} is not the release of a Debian cloud kernel such as \
                     7.3.4+deb13-cloud-amd64; `apt-cache search linux-image-7.3` in the lab root \
                     (tools/labroot.sh run …) lists what there is"
                    ))
                })?
            }
            _ => match Self::newest_prepared(cache)? {
                Some(release) => release,
                None => apt::newest_offered(progress)?,
            },
        };
        Self::prepare_release(cache, release, progress)
    }

    fn prepare_release(cache: &Cache, release: Release, progress: &Progress) -> Result<Self> {
        let name = format!("kernel-{release}");
        let stale = cache.entry(&name);
        if stale.is_dir() && !is_current(&stale) {
            let _lock = cache.lock(&name, || ())?;
            if !is_current(&stale) {
                fs::remove_dir_all(&stale).context(|| format!("remove {}", stale.display()))?;
            }
        }
        let on_wait = || progress.say(format!("another lab is preparing {name}; waiting for it"));
        let folder = cache.folder_or_make(&name, on_wait, |part| {
            build::all(&release, part, progress)?;
            fs::write(part.join("recipe"), RECIPE).context(|| "write the recipe".into())
        })?;
        Ok(Kernel { release, folder })
    }

    fn newest_prepared(cache: &Cache) -> Result<Option<Release>> {
        let folder = cache.folder();
        let entries = fs::read_dir(folder).context(|| format!("read {}", folder.display()))?;
        let prepared = entries.filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().into_string().ok()?;
            let release = Release::parse(name.strip_prefix("kernel-")?)?;
            (release.is_wanted_series() && is_current(&entry.path())).then_some(release)
        });
        Ok(prepared.max())
    }

    /// Its release, as `uname -r` prints it.
    pub fn release(&self) -> &str {
        self.release.as_str()
    }

    /// The source, prepared so that modules built against it load on this kernel: the `KDIR` of the build.
    pub fn source(&self) -> PathBuf {
        self.folder.join("source")
    }

    /// The compiler with which modules for it have to be built: the `CC` of the build.
    pub fn compiler(&self) -> &'static str {
        build::COMPILER
    }

    /// The bootable image.
    pub fn image(&self) -> PathBuf {
        self.folder.join("vmlinuz")
    }

    /// The folder of its modules, with depmod's tables.
    pub fn modules(&self) -> PathBuf {
        let modules = self.folder.join("root/lib/modules");
        modules.join(self.release.as_str())
    }

    /// The vsock programs of its test suite.
    pub fn tests(&self) -> TestPrograms {
        let tests = self.folder.join("tests");
        TestPrograms {
            vsock_test: tests.join("vsock_test"),
            vsock_perf: tests.join("vsock_perf"),
            vsock_diag_test: tests.join("vsock_diag_test"),
            vsock_uring_test: tests.join("vsock_uring_test"),
        }
    }
}

impl TestPrograms {
    /// All of them.
    pub fn all(&self) -> [&Path; 4] {
        [
            &self.vsock_test,
            &self.vsock_perf,
            &self.vsock_diag_test,
            &self.vsock_uring_test,
        ]
    }
}

fn is_current(folder: &Path) -> bool {
    fs::read_to_string(folder.join("recipe")).is_ok_and(|recipe| recipe == RECIPE)
}
