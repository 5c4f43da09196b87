// SPDX-License-Identifier: GPL-2.0

//! Releases of Debian's cloud kernels, and which of two is newer.

use std::cmp::Ordering;
use std::fmt;

/// The series of kernels that the driver is written for.
pub(super) const SERIES: (u32, u32) = (7, 3);

/// A release such as `7.3.4+deb13-cloud-amd64`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Release {
    name: String,
    version: (u32, u32, u32),
    /// What follows the version: `+deb13-cloud-amd64`.
    suffix: String,
}

impl Release {
    /// Takes a release apart, or `None` if it is not a Debian cloud kernel's.
    pub(crate) fn parse(name: &str) -> Option<Self> {
        let end = name.find(|c: char| c != '.' && !c.is_ascii_digit())?;
        let (version, suffix) = name.split_at(end);
        let mut numbers = version.split('.').map(|number| number.parse().ok());
        let version = (numbers.next()??, numbers.next()??, numbers.next()??);
        let clean = |c: char| c.is_ascii_alphanumeric() || "+-.~".contains(c);
        if numbers.next().is_some()
            || !suffix.ends_with("-cloud-amd64")
            || !suffix.chars().all(clean)
        {
            return None;
        }
        Some(Release {
            name: name.into(),
            version,
            suffix: suffix.into(),
        })
    }

    /// The whole of it, as `uname -r` prints it.
    pub(crate) fn as_str(&self) -> &str {
        &self.name
    }

    /// What the kernel's build has to append to its own version to arrive at this release.
    pub(crate) fn local_version(&self) -> &str {
        &self.suffix
    }

    /// The two numbers that name the source package: `7.3`.
    pub(crate) fn series(&self) -> String {
        format!("{}.{}", self.version.0, self.version.1)
    }

    /// Whether it belongs to the series that the driver is written for.
    pub(crate) fn is_wanted_series(&self) -> bool {
        (self.version.0, self.version.1) == SERIES
    }
}

impl Ord for Release {
    fn cmp(&self, other: &Self) -> Ordering {
        // A rebuild of one version has a longer suffix of the same form (`+deb13+1`): newer.
        let key = |release: &Self| (release.version, release.suffix.len(), release.name.clone());
        key(self).cmp(&key(other))
    }
}

impl PartialOrd for Release {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl fmt::Display for Release {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_is_found_by_number() {
        let names = [
            "7.3.4+deb13-cloud-amd64",
            "7.3.10+deb13-cloud-amd64",
            "7.3.9+deb13+1-cloud-amd64",
        ];
        let newest = names.iter().filter_map(|name| Release::parse(name)).max();
        assert_eq!(newest.unwrap().as_str(), "7.3.10+deb13-cloud-amd64");
    }

    #[test]
    fn parts_of_a_release() {
        let release = Release::parse("7.3.4+deb13-cloud-amd64").unwrap();
        assert_eq!(release.local_version(), "+deb13-cloud-amd64");
        assert_eq!(release.series(), "7.3");
        assert!(release.is_wanted_series());
        assert!(
            !Release::parse("6.12.117+deb13-cloud-amd64")
                .unwrap()
                .is_wanted_series()
        );
    }

    #[test]
    fn what_is_no_release_is_refused() {
        for name in [
            "",
            "7.3",
            "7.3.4",
            "7.3.4+deb13-amd64",
            "7.3.4/../x-cloud-amd64",
            "x-cloud-amd64",
        ] {
            assert_eq!(Release::parse(name), None, "{name}");
        }
    }
}
