// SPDX-License-Identifier: GPL-2.0

//! The debug kernels: the stock kernel's source, built with LLVM, with checkers on that can see a
//! driver's fault and with little else, so that each is built in minutes.

use super::apt;
use super::build::{self, MakeVariables};
use super::release::Release;
use super::{Kernel, TestPrograms};
use crate::cache::Cache;
use crate::error::{Error, IoContext as _, Result};
use crate::logged::logged;
use crate::progress::Progress;
use std::fs;
use std::path::Path;
use std::process::Command;

/// What the configurations have in common, on top of one in which everything is off.
const GUEST: &str = include_str!("../../config/guest.config");

/// A debug kernel: not all checkers can be in one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Checkers {
    /// Memory, locks and objects.
    Memory,
    /// Data races.
    Races,
}

impl Checkers {
    /// Those that `KERNEL=name` asks for.
    pub(super) fn named(name: &str) -> Option<Self> {
        [Self::Memory, Self::Races]
            .into_iter()
            .find(|checkers| checkers.name() == name)
    }

    fn name(self) -> &'static str {
        match self {
            Self::Memory => "debug",
            Self::Races => "kcsan",
        }
    }

    /// What has to be on the command line.
    pub(super) fn command_line(self) -> &'static str {
        match self {
            // With five-level paging KASAN, and with it lockdep, is lost to a false report: an interrupt
            // that comes while the boot CPU's features are being found out again. How many levels there
            // are is decided before a command line of the kernel's own is looked at. And by default
            // KASAN reports once only.
            Self::Memory => "no5lvl kasan_multi_shot",
            // An emulated CPU gets hardly anywhere in the 80 us for which an access is watched by
            // default, and one access in 4000 is too few for a run of minutes.
            Self::Races => "kcsan.skip_watch=1000 kcsan.udelay_task=400 kcsan.udelay_interrupt=100",
        }
    }

    fn fragment(self) -> String {
        let own = match self {
            Self::Memory => include_str!("../../config/debug.config"),
            Self::Races => include_str!("../../config/kcsan.config"),
        };
        format!(
            "{GUEST}{own}CONFIG_LOCALVERSION=\"-vsock-{}\"\n",
            self.name()
        )
    }
}

/// Clang, because the kernel takes KASAN together with Rust from it alone; the version is that of
/// Debian 13, whose Rust compiler has the same LLVM.
pub(super) const COMPILER: MakeVariables = &["LLVM=-19"];

/// No part of this kernel is built from these, and their Kconfig files stay.
const LEFT_OUT: [&str; 7] = [
    "*/arch/[!x]*/*.[chS]",
    "*/drivers/gpu/*.[ch]",
    "*/drivers/net/wireless/*.[ch]",
    "*/drivers/net/ethernet/*.[ch]",
    "*/drivers/media/*.[ch]",
    "*/sound/*.[ch]",
    "*.dts*",
];

impl Kernel {
    /// Makes a debug kernel of the stock kernel's source ready; without it in the cache that takes
    /// ten minutes on two processors.
    pub(super) fn prepare_debug(
        &self,
        checkers: Checkers,
        cache: &Cache,
        progress: &Progress,
    ) -> Result<Self> {
        let Some(stock) = Release::parse(self.release()) else {
            let release = self.release();
            return Err(Error::Setup(format!(
                "{release} is not a stock kernel, of which there could be a debug kernel"
            )));
        };
        let recipe = format!("debug kernel recipe 2\n{}", checkers.fragment());
        let name = format!("{}-kernel-{stock}", checkers.name());
        let folder = super::current_entry(cache, &name, &recipe, progress, |part| {
            build(checkers, &stock, &self.tests(), part, progress)
        })?;
        let release = fs::read_to_string(folder.join("release"))
            .context(|| format!("read the release of {name}"))?;
        Ok(Kernel {
            release,
            folder,
            make_variables: COMPILER,
            checkers: Some(checkers),
        })
    }
}

fn build(
    checkers: Checkers,
    stock: &Release,
    tests: &TestPrograms,
    folder: &Path,
    progress: &Progress,
) -> Result<()> {
    let source = folder.join("source");
    unpack(stock, folder, &source, progress)?;
    configure(checkers, stock, folder, progress)?;
    let log = folder.join("build.log");
    let name = checkers.name();
    let step = progress.step(format!(
        "building the {name} kernel (ten minutes on two processors)"
    ));
    logged(make(&source).args(["bzImage", "modules"]), &log, &step)?;
    let mut install = make(&source);
    let root = folder.join("root");
    install.arg(format!("INSTALL_MOD_PATH={}", root.display()));
    logged(install.arg("modules_install"), &log, &step)?;
    build::rename(
        &source.join("arch/x86/boot/bzImage"),
        &folder.join("vmlinuz"),
    )?;
    let release = source.join("include/config/kernel.release");
    let release = fs::read_to_string(&release).context(|| format!("read {}", release.display()))?;
    fs::write(folder.join("release"), release.trim()).context(|| "write the release".into())?;

    // They belong to no kernel in particular.
    let place = folder.join("tests");
    fs::create_dir(&place).context(|| format!("make {}", place.display()))?;
    for test in tests.all() {
        build::copy(test, &place.join(test.file_name().unwrap_or_default()))?;
    }
    step.done();
    Ok(())
}

/// Configures the source in the folder, and makes sure that each line of the configuration came true.
fn configure(
    checkers: Checkers,
    stock: &Release,
    folder: &Path,
    progress: &Progress,
) -> Result<()> {
    let source = folder.join("source");
    let name = checkers.name();
    let step = progress.step(format!("configuring the {name} kernel"));
    let wanted = checkers.fragment();
    let fragment = folder.join("fragment.config");
    fs::write(&fragment, &wanted).context(|| format!("write {}", fragment.display()))?;
    let mut configure = make(&source);
    configure.arg(format!("KCONFIG_ALLCONFIG={}", fragment.display()));
    logged(
        configure.arg("allnoconfig"),
        &folder.join("build.log"),
        &step,
    )?;
    let config = source.join(".config");
    let config = fs::read_to_string(&config).context(|| format!("read {}", config.display()))?;
    let missing = missing_options(&wanted, &config);
    if !missing.is_empty() {
        return Err(Error::Setup(format!(
            "the source of {stock} does not agree with these lines of guest.config and {name}.config \
             in tools/rig/config, because something that they depend on is missing or has changed its \
             name:\n{}",
            missing.join("\n")
        )));
    }
    step.done();
    Ok(())
}

/// Fetches the source and unpacks what is built from it.
fn unpack(stock: &Release, folder: &Path, source: &Path, progress: &Progress) -> Result<()> {
    let step = progress.step(format!("fetching the whole source of {stock} (170 MB)"));
    let fetched = tempfile::tempdir_in(folder).context(|| "make a folder for it".into())?;
    apt::download_source(stock, fetched.path())?;
    let unpacked = fetched.path().join("unpacked");
    let log = folder.join("unpack.log");
    build::extract_packages(fetched.path(), &unpacked, &log, &step)?;
    step.done();

    let step = progress.step(format!("unpacking the source of {stock}"));
    let archive = unpacked.join(format!("usr/src/linux-source-{}.tar.xz", stock.series()));
    build::unpack_source(&archive, source, &LEFT_OUT, &log, &step)?;
    step.done();
    Ok(())
}

fn make(source: &Path) -> Command {
    let mut make = build::make(source);
    make.args(COMPILER);
    make
}

/// The lines of the fragment that did not come true.
fn missing_options<'a>(fragment: &'a str, config: &str) -> Vec<&'a str> {
    let is_option = |line: &&str| line.starts_with("CONFIG_") || line.starts_with("# CONFIG_");
    let came_true = |line: &&str| match line
        .strip_prefix("# ")
        .and_then(|line| line.strip_suffix(" is not set"))
    {
        // What depends on something that is off is not mentioned at all.
        Some(name) => !config.lines().any(|set| {
            set.strip_prefix(name)
                .is_some_and(|rest| rest.starts_with('='))
        }),
        None => config.lines().any(|set| set == *line),
    };
    fragment
        .lines()
        .filter(is_option)
        .filter(|line| !came_true(line))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_did_not_come_true_are_named() {
        let fragment =
            "# Why.\nCONFIG_A=y\nCONFIG_B=m\n# CONFIG_C is not set\n# CONFIG_D is not set\n";
        assert!(missing_options(fragment, "CONFIG_A=y\nCONFIG_B=m\nCONFIG_CC=y\n").is_empty());
        assert_eq!(
            missing_options(fragment, "CONFIG_B=y\n# CONFIG_A is not set\nCONFIG_C=y\n"),
            ["CONFIG_A=y", "CONFIG_B=m", "# CONFIG_C is not set"]
        );
    }

    #[test]
    fn no_fragment_asks_for_an_option_twice() {
        for checkers in [Checkers::Memory, Checkers::Races] {
            let fragment = checkers.fragment();
            let mut names: Vec<_> = fragment
                .lines()
                .filter_map(|line| {
                    line.strip_prefix("# ")
                        .unwrap_or(line)
                        .strip_prefix("CONFIG_")
                })
                .filter_map(|line| line.split(['=', ' ']).next())
                .collect();
            let all = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), all);
        }
    }

    #[test]
    fn a_debug_kernel_is_asked_for_by_name() {
        assert_eq!(Checkers::named("debug"), Some(Checkers::Memory));
        assert_eq!(Checkers::named("kcsan"), Some(Checkers::Races));
        assert_eq!(Checkers::named("7.3.4+deb13-cloud-amd64"), None);
    }
}
