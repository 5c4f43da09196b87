// SPDX-License-Identifier: GPL-2.0

//! A stock Debian kernel: its image and modules, its source made ready for modules of our own, and
//! the vsock programs of its own test suite. And debug kernels that are built from the same source.

mod apt;
mod build;
mod debug;
mod release;

use crate::cache::Cache;
use crate::error::{Error, IoContext as _, Result};
use crate::progress::Progress;
use build::MakeVariables;
use debug::Checkers;
use release::Release;
use std::fs;
use std::path::{Path, PathBuf};

/// Names what an entry of the cache is made of and how; raise the number when the recipe changes.
const RECIPE: &str = "kernel recipe 1\n";

/// A kernel that stands ready in the cache.
#[derive(Clone, Debug)]
pub struct Kernel {
    release: String,
    folder: PathBuf,
    make_variables: MakeVariables,
    /// What is special about it, if it is a debug kernel.
    checkers: Option<Checkers>,
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
    /// The choice: the release that the environment variable `KERNEL` names; a debug kernel, if that
    /// says `debug` or, for data races, `kcsan`; otherwise the newest 7.3 that the cache has; otherwise
    /// the newest 7.3 that Debian's backports offer.
    pub fn prepare(cache: &Cache, progress: &Progress) -> Result<Self> {
        let wanted = std::env::var("KERNEL").unwrap_or_default();
        Self::prepare_named(&wanted, cache, progress)
    }

    /// The same with a choice in the words of `KERNEL`.
    pub fn prepare_named(wanted: &str, cache: &Cache, progress: &Progress) -> Result<Self> {
        let wanted = wanted.trim();
        if wanted.is_empty() {
            return Self::prepare_newest(cache, progress);
        }
        if let Some(checkers) = Checkers::named(wanted) {
            let stock = Self::prepare_newest(cache, progress)?;
            return stock.prepare_debug(checkers, cache, progress);
        }
        let release = Release::parse(wanted).ok_or_else(|| {
            Error::Setup(format!(
                "KERNEL={wanted} is neither `debug` nor `kcsan` nor the release of a Debian cloud kernel \
                 such as 7.3.4+deb13-cloud-amd64; `apt-cache search linux-image-7.3` in the lab root \
                 (tools/labroot.sh run …) lists what there is"
            ))
        })?;
        Self::prepare_release(cache, release, progress)
    }

    fn prepare_newest(cache: &Cache, progress: &Progress) -> Result<Self> {
        let release = match Self::newest_prepared(cache)? {
            Some(release) => release,
            None => apt::newest_offered(progress)?,
        };
        Self::prepare_release(cache, release, progress)
    }

    fn prepare_release(cache: &Cache, release: Release, progress: &Progress) -> Result<Self> {
        let name = format!("kernel-{release}");
        let folder = current_entry(cache, &name, RECIPE, progress, |part| {
            build::all(&release, part, progress)
        })?;
        Ok(Kernel {
            release: release.to_string(),
            folder,
            make_variables: build::COMPILER,
            checkers: None,
        })
    }

    fn newest_prepared(cache: &Cache) -> Result<Option<Release>> {
        let folder = cache.folder();
        let entries = fs::read_dir(folder).context(|| format!("read {}", folder.display()))?;
        let prepared = entries.filter_map(|entry| {
            let entry = entry.ok()?;
            let name = entry.file_name().into_string().ok()?;
            let release = Release::parse(name.strip_prefix("kernel-")?)?;
            (release.is_wanted_series() && is_current(&entry.path(), RECIPE)).then_some(release)
        });
        Ok(prepared.max())
    }

    /// Is it a debug kernel?
    pub fn is_debug(&self) -> bool {
        self.checkers.is_some()
    }

    /// Is it the debug kernel that looks for data races, and for nothing else that takes time?
    pub fn looks_for_races(&self) -> bool {
        self.checkers == Some(Checkers::Races)
    }

    /// Its release, as `uname -r` prints it.
    pub fn release(&self) -> &str {
        &self.release
    }

    /// The source, prepared so that modules built against it load on this kernel: the `KDIR` of the build.
    pub fn source(&self) -> PathBuf {
        self.folder.join("source")
    }

    /// What has to be given to `make` besides the `KDIR`, to build modules with the kernel's compiler.
    pub fn make_variables(&self) -> MakeVariables {
        self.make_variables
    }

    /// The bootable image.
    pub fn image(&self) -> PathBuf {
        self.folder.join("vmlinuz")
    }

    /// What has to be on its command line, which only a boot loader's is in time for.
    pub(crate) fn command_line(&self) -> &'static str {
        self.checkers.map_or("", Checkers::command_line)
    }

    /// The folder of its modules, with depmod's tables.
    pub fn modules(&self) -> PathBuf {
        let modules = self.folder.join("root/lib/modules");
        modules.join(&self.release)
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

/// The folder of a kernel in the cache, made (again) if it is missing or of another recipe.
fn current_entry(
    cache: &Cache,
    name: &str,
    recipe: &str,
    progress: &Progress,
    make: impl FnOnce(&Path) -> Result<()>,
) -> Result<PathBuf> {
    let stale = cache.entry(name);
    if stale.is_dir() && !is_current(&stale, recipe) {
        let _lock = cache.lock(name, || ())?;
        if !is_current(&stale, recipe) {
            fs::remove_dir_all(&stale).context(|| format!("remove {}", stale.display()))?;
        }
    }
    let on_wait = || progress.say(format!("another lab is preparing {name}; waiting for it"));
    cache.folder_or_make(name, on_wait, |part| {
        make(part)?;
        fs::write(part.join("recipe"), recipe).context(|| "write the recipe".into())
    })
}

fn is_current(folder: &Path, recipe: &str) -> bool {
    let made = fs::read_to_string(folder.join("recipe"));
    made.is_ok_and(|made| ingredients(&made).eq(ingredients(recipe)))
}

/// The lines of a recipe that make a difference: a comment is no reason to build a kernel again.
fn ingredients(recipe: &str) -> impl Iterator<Item = &str> {
    let is_comment = |line: &str| {
        line.starts_with('#') && !(line.starts_with("# CONFIG_") && line.ends_with(" is not set"))
    };
    recipe
        .lines()
        .filter(move |line| !line.is_empty() && !is_comment(line))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_changes_a_kernel_changes_its_recipe() {
        let same = |one: &str, other: &str| ingredients(one).eq(ingredients(other));
        let recipe = "recipe 1\n# Why.\n\nCONFIG_A=y\n# CONFIG_B is not set\n";
        assert!(same(
            recipe,
            "recipe 1\nCONFIG_A=y\n# CONFIG_B is not set\n# Another.\n"
        ));
        for other in [
            "recipe 2\nCONFIG_A=y\n# CONFIG_B is not set\n",
            "recipe 1\nCONFIG_A=m\n# CONFIG_B is not set\n",
            "recipe 1\nCONFIG_A=y\n",
        ] {
            assert!(!same(recipe, other), "{other}");
        }
    }
}
