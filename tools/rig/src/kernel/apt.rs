// SPDX-License-Identifier: GPL-2.0

//! What apt in the lab root knows of kernels.

use super::release::{Release, SERIES};
use crate::error::{Error, IoContext as _, Result};
use crate::progress::Progress;
use std::path::Path;
use std::process::Command;

/// The newest release of the wanted series that Debian's backports offer now.
pub(super) fn newest_offered(progress: &Progress) -> Result<Release> {
    let step = progress.step("asking Debian which kernels there are");
    update()?;
    let pattern = format!(
        r"^linux-headers-{}\.{}\..*-cloud-amd64$",
        SERIES.0, SERIES.1
    );
    let found = output("apt-cache", &["search", "--names-only", &pattern])?;
    let newest = found
        .lines()
        .filter_map(|line| {
            line.split_whitespace()
                .next()?
                .strip_prefix("linux-headers-")
        })
        .filter_map(Release::parse)
        .max();
    step.done();
    newest.ok_or_else(|| {
        Error::Setup(format!(
            "Debian's backports offer no {}.{} cloud kernel now; name another one with KERNEL=<release>",
            SERIES.0, SERIES.1
        ))
    })
}

/// Downloads into `folder` the packages of `release` and of the source it was built from.
pub(super) fn download(release: &Release, folder: &Path) -> Result<()> {
    let version = version(release)?;
    let mut packages = parts(release, &version)?;
    packages.push(format!("linux-headers-{release}={version}"));
    packages.push(source(release, &version));
    get(&packages, folder)
}

/// Downloads into `folder` the source that `release` was built from.
pub(super) fn download_source(release: &Release, folder: &Path) -> Result<()> {
    get(&[source(release, &version(release)?)], folder)
}

/// The version of the packages of `release`.
fn version(release: &Release) -> Result<String> {
    let headers = format!("linux-headers-{release}");
    let shown = match output("apt-cache", &["show", "--no-all-versions", &headers]) {
        Ok(shown) => shown,
        // The lists may be older than the package.
        Err(_) => {
            update()?;
            output("apt-cache", &["show", "--no-all-versions", &headers]).map_err(|_| {
                Error::Setup(format!(
                    "Debian does not offer the kernel {release} any more, or never did; unset KERNEL to \
                     take the newest, or see `apt-cache search linux-headers-7.3` in the lab root"
                ))
            })?
        }
    };
    field(&shown, "Version")
        .map(Into::into)
        .ok_or_else(|| Error::Setup(format!("apt-cache tells no version of {headers}")))
}

fn source(release: &Release, version: &str) -> String {
    format!("linux-source-{}={version}", release.series())
}

fn get(packages: &[String], folder: &Path) -> Result<()> {
    let mut get = Command::new("apt-get");
    get.arg("download").args(packages).current_dir(folder);
    // The sandbox user of apt may not write into the cache, and need not exist.
    get.args(["-o", "APT::Sandbox::User=root"]);
    run(&mut get).map(drop)
}

/// The packages that hold the image and its modules: one, or one for each, depending on the release.
fn parts(release: &Release, version: &str) -> Result<Vec<String>> {
    let image = format!("linux-image-{release}={version}");
    let shown = output("apt-cache", &["show", &image])?;
    let mut packages = same_release_dependencies(&shown, release.as_str());
    for package in &mut packages {
        *package = format!("{package}={version}");
    }
    packages.push(image);
    Ok(packages)
}

/// Those packages in the `Depends` field whose names end in the release.
fn same_release_dependencies(shown: &str, release: &str) -> Vec<String> {
    let depends = field(shown, "Depends").unwrap_or("");
    let names = depends
        .split([',', '|'])
        .filter_map(|one| one.split_whitespace().next());
    let suffix = format!("-{release}");
    names
        .filter(|name| name.ends_with(&suffix))
        .map(Into::into)
        .collect()
}

fn field<'a>(shown: &'a str, name: &str) -> Option<&'a str> {
    shown
        .lines()
        .find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim()))
}

fn update() -> Result<()> {
    run(Command::new("apt-get").arg("update")).map(drop)
}

fn output(program: &str, args: &[&str]) -> Result<String> {
    run(Command::new(program).args(args))
}

fn run(command: &mut Command) -> Result<String> {
    let done = command
        .env("DEBIAN_FRONTEND", "noninteractive")
        .output()
        .context(|| format!("run {command:?}"))?;
    if done.status.success() {
        return Ok(String::from_utf8_lossy(&done.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&done.stderr);
    Err(Error::Setup(format!(
        "{command:?} failed ({}):\n{}",
        done.status,
        said.trim_end()
    )))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHOWN: &str = "Package: linux-image-7.3.4+deb13-cloud-amd64\nVersion: 7.3.4-1~bpo13+1\n\
        Depends: dracut | linux-initramfs-tool, linux-binary-7.3.4+deb13-cloud-amd64 (= 7.3.4-1~bpo13+1), \
        linux-modules-7.3.4+deb13-cloud-amd64 (= 7.3.4-1~bpo13+1)\n";

    #[test]
    fn the_parts_of_an_image_are_found() {
        let parts = same_release_dependencies(SHOWN, "7.3.4+deb13-cloud-amd64");
        let expected = [
            "linux-binary-7.3.4+deb13-cloud-amd64",
            "linux-modules-7.3.4+deb13-cloud-amd64",
        ];
        assert_eq!(parts, expected);
        assert_eq!(field(SHOWN, "Version"), Some("7.3.4-1~bpo13+1"));
        assert_eq!(field(SHOWN, "Vers"), None);
    }
}
