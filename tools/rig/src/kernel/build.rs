// SPDX-License-Identifier: GPL-2.0

//! Turns Debian's kernel packages into an entry of the cache.

use super::apt;
use super::release::Release;
use crate::error::{Error, IoContext as _, Result};
use crate::logged::logged;
use crate::progress::{Progress, Step};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// What `make` is given to build with a certain compiler.
pub(super) type MakeVariables = &'static [&'static str];

/// Debian builds its kernels with it, and Kbuild wants modules built with the same.
pub(super) const COMPILER: MakeVariables = &["CC=x86_64-linux-gnu-gcc-14"];

/// Most of the source is of no use to a module's build, and takes long to write.
const LEFT_OUT: [&str; 4] = ["*/drivers/*.c", "*/sound/*.c", "*.dts", "*.dtsi"];

/// Fills `folder` with everything that `Kernel` has to offer.
pub(super) fn all(release: &Release, folder: &Path, progress: &Progress) -> Result<()> {
    let unpacked = folder.join("unpacked");
    packages(release, &unpacked, progress)?;
    runtime(release, &unpacked, folder, progress)?;

    let step = progress.step(format!("unpacking the source of {release}"));
    let source = folder.join("source");
    let archive = unpacked.join(format!("usr/src/linux-source-{}.tar.xz", release.series()));
    unpack_source(
        &archive,
        &source,
        &LEFT_OUT,
        &folder.join("unpack.log"),
        &step,
    )?;
    step.done();

    let headers = unpacked.join(format!("usr/src/linux-headers-{release}"));
    prepare(
        release,
        &source,
        &headers,
        &folder.join("prepare.log"),
        progress,
    )?;
    tests(&source, folder, progress)?;
    fs::remove_dir_all(&unpacked).context(|| format!("remove {}", unpacked.display()))
}

fn packages(release: &Release, unpacked: &Path, progress: &Progress) -> Result<()> {
    let step = progress.step(format!("fetching the packages of {release} (200 MB)"));
    let archives = tempfile::tempdir_in(unpacked.parent().unwrap_or(Path::new(".")))
        .context(|| "make a folder for packages".into())?;
    apt::download(release, archives.path())?;
    extract_packages(
        archives.path(),
        unpacked,
        &unpacked.with_extension("log"),
        &step,
    )?;
    step.done();
    Ok(())
}

/// Extracts all packages in the folder `archives`.
pub(super) fn extract_packages(
    archives: &Path,
    unpacked: &Path,
    log: &Path,
    step: &Step,
) -> Result<()> {
    let listed = fs::read_dir(archives).context(|| "list the packages".into())?;
    for archive in listed {
        let archive = archive.context(|| "list the packages".into())?.path();
        let mut unpack = Command::new("dpkg-deb");
        unpack.arg("--extract").arg(&archive).arg(unpacked);
        logged(&mut unpack, log, step)?;
    }
    Ok(())
}

/// Unpacks the kernel's source, but for some patterns of files.
pub(super) fn unpack_source(
    archive: &Path,
    source: &Path,
    left_out: &[&str],
    log: &Path,
    step: &Step,
) -> Result<()> {
    fs::create_dir(source).context(|| format!("make {}", source.display()))?;
    let mut tar = Command::new("tar");
    tar.arg("--extract").arg("--file").arg(archive);
    tar.arg("--strip-components=1")
        .arg("--directory")
        .arg(source);
    tar.args(
        left_out
            .iter()
            .map(|pattern| format!("--exclude={pattern}")),
    );
    logged(&mut tar, log, step)
}

/// The bootable image and the modules, with depmod's tables, which Debian makes at installation.
fn runtime(release: &Release, unpacked: &Path, folder: &Path, progress: &Progress) -> Result<()> {
    let image = first_of(&[
        unpacked.join(format!("usr/lib/modules/{release}/vmlinuz")),
        unpacked.join(format!("boot/vmlinuz-{release}")),
    ])?;
    rename(&image, &folder.join("vmlinuz"))?;
    let modules = first_of(&[
        unpacked.join(format!("usr/lib/modules/{release}")),
        unpacked.join(format!("lib/modules/{release}")),
    ])?;
    let root = folder.join("root");
    let place = root.join("lib/modules");
    fs::create_dir_all(&place).context(|| format!("make {}", place.display()))?;
    rename(&modules, &place.join(release.as_str()))?;
    let mut depmod = Command::new("depmod");
    depmod.arg("--basedir").arg(&root).arg(release.as_str());
    let step = progress.step("reading the modules' dependencies");
    logged(&mut depmod, &folder.join("depmod.log"), &step)?;
    step.done();
    Ok(())
}

/// Makes the source as it was when Debian built the image, as far as a module's build looks.
fn prepare(
    release: &Release,
    source: &Path,
    headers: &Path,
    log: &Path,
    progress: &Progress,
) -> Result<()> {
    let step = progress.step(format!(
        "preparing the source of {release} for modules (about 100 s)"
    ));
    copy(&headers.join(".config"), &source.join(".config"))?;
    for targets in [&["olddefconfig"][..], &["modules_prepare"]] {
        let mut make = make(source);
        make.args(COMPILER);
        make.arg(format!("LOCALVERSION={}", release.local_version()));
        logged(make.args(targets), log, &step)?;
    }
    // The build has emptied it; without it, modules cannot tell which symbols there are.
    copy(
        &headers.join("Module.symvers"),
        &source.join("Module.symvers"),
    )?;
    let stated = source.join("include/config/kernel.release");
    let stated = fs::read_to_string(&stated).context(|| format!("read {}", stated.display()))?;
    if stated.trim() != release.as_str() {
        return Err(Error::Setup(format!(
            "the prepared source calls itself {}, and modules built against it would not load on \
             {release}; please report this with {}",
            stated.trim(),
            log.display()
        )));
    }
    step.done();
    Ok(())
}

/// Builds the vsock programs of the kernel's test suite, statically, so that they run in any guest.
fn tests(source: &Path, folder: &Path, progress: &Progress) -> Result<()> {
    let step = progress.step("building the kernel's own vsock tests");
    let here = source.join("tools/testing/vsock");
    let names = [
        "vsock_test",
        "vsock_perf",
        "vsock_diag_test",
        "vsock_uring_test",
    ];
    let mut make = make(&here);
    make.args(COMPILER).arg("LDFLAGS=-static").args(names);
    logged(&mut make, &folder.join("tests.log"), &step)?;
    let place = folder.join("tests");
    fs::create_dir(&place).context(|| format!("make {}", place.display()))?;
    for name in names {
        rename(&here.join(name), &place.join(name))?;
    }
    step.done();
    Ok(())
}

pub(super) fn make(folder: &Path) -> Command {
    let jobs = std::thread::available_parallelism().map_or(1, usize::from);
    let mut make = Command::new("make");
    make.arg(format!("-j{jobs}")).arg("-C").arg(folder);
    // A make above this one, such as the project's own, must not hand down its variables.
    make.env_remove("MAKEFLAGS")
        .env_remove("MAKEOVERRIDES")
        .env_remove("MFLAGS");
    make
}

fn first_of(paths: &[PathBuf]) -> Result<PathBuf> {
    let found = paths.iter().find(|path| path.exists());
    found.cloned().ok_or_else(|| {
        Error::Setup(format!(
            "Debian's kernel packages have neither of {paths:?}; their layout has changed"
        ))
    })
}

pub(super) fn copy(from: &Path, to: &Path) -> Result<()> {
    let copied = fs::copy(from, to);
    copied
        .map(drop)
        .context(|| format!("copy {} to {}", from.display(), to.display()))
}

pub(super) fn rename(from: &Path, to: &Path) -> Result<()> {
    fs::rename(from, to).context(|| format!("rename {} to {}", from.display(), to.display()))
}
