// SPDX-License-Identifier: GPL-2.0
//! The drivers that are measured.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, bail, ensure};
use rig::{Driver, Machine};

use crate::case::Case;
use crate::options::Extra;

/// The stock driver, to which all others are compared.
pub(crate) const BASELINE: &str = "c";

/// The modules of a set that takes the place of the kernel's, in the order of loading.
const SET: [&str; 2] = [
    "vmw_vsock_virtio_transport_common",
    "vmw_vsock_virtio_transport",
];
/// A build of our driver, which may stand in a set's folder instead.
const OURS: &str = "virtio_vsock_rs";
/// Where our driver has its switches.
const DEBUGFS: &str = "/sys/kernel/debug/virtio_vsock_rs";
/// A closed connection lets go of its driver once its peer has confirmed.
const PATIENCE: Duration = Duration::from_secs(30);
const PAUSE: Duration = Duration::from_millis(50);
const NO_PARAMETERS: &[&str] = &[];
/// What unloading a module in use fails with, from `<errno.h>`: EAGAIN and EBUSY.
const IN_USE: [i32; 2] = [11, 16];

/// A driver, and how it is set.
#[derive(Clone, Debug)]
pub(crate) struct Contender {
    /// What tables call it.
    pub name: String,
    kind: Kind,
}

#[derive(Clone, Debug)]
enum Kind {
    Stock,
    Ours,
    /// Ours with one of its switches off, and the cases in which that can matter.
    Without(&'static str, fn(Case) -> bool),
    /// The folder of a set's modules here.
    Set(PathBuf),
    /// The folder of another build of ours.
    Build(PathBuf),
}

impl Contender {
    /// All of them, the baseline first.
    pub(crate) fn all(extra: &[Extra]) -> Result<Vec<Self>> {
        let contender = |name: &str, kind| Contender {
            name: name.into(),
            kind,
        };
        let mut all = vec![
            contender(BASELINE, Kind::Stock),
            contender("ours", Kind::Ours),
            contender("no-batch", Kind::Without("rx_batch", Case::guest_receives)),
            contender(
                "no-fast-path",
                Kind::Without("tx_fast_path", Case::guest_sends),
            ),
        ];
        for extra in extra {
            let file = |module: &str| extra.folder.join(format!("{module}.ko"));
            if file(OURS).is_file() {
                all.push(contender(&extra.name, Kind::Build(extra.folder.clone())));
                continue;
            }
            for module in SET {
                ensure!(
                    file(module).is_file(),
                    "the driver {} has neither {OURS}.ko nor {}; build it for the lab's kernel first",
                    extra.name,
                    file(module).display()
                );
            }
            all.push(contender(&extra.name, Kind::Set(extra.folder.clone())));
        }
        Ok(all)
    }

    /// The files that the guest needs for it: where they are here, and where they are to be there.
    pub(crate) fn files(&self) -> Vec<(PathBuf, String)> {
        let (folder, modules) = match &self.kind {
            Kind::Set(folder) => (folder, &SET[..]),
            Kind::Build(folder) => (folder, &[OURS][..]),
            _ => return Vec::new(),
        };
        modules
            .iter()
            .map(|module| (folder.join(format!("{module}.ko")), self.place(module)))
            .collect()
    }

    fn place(&self, module: &str) -> String {
        format!("/lib/modules/extra/{}/{module}.ko", self.name)
    }

    /// Whether it is our driver, with counters in debugfs.
    pub(crate) fn is_ours(&self) -> bool {
        matches!(self.kind, Kind::Ours | Kind::Without(..) | Kind::Build(_))
    }

    /// Whether measuring it in a case can show anything.
    pub(crate) fn meets(&self, case: Case) -> bool {
        match self.kind {
            Kind::Without(_, matters) => matters(case),
            _ => true,
        }
    }

    /// Loads it into a guest in the place of whatever is there, the common code included: a set brings
    /// its own, and everybody is to begin alike.
    pub(crate) fn load(&self, guest: &Machine) -> Result<()> {
        let load = || -> Result<()> {
            unload(guest)?;
            match &self.kind {
                Kind::Stock => guest.use_driver(&Driver::c())?,
                Kind::Ours => guest.use_driver(&Driver::rust())?,
                Kind::Without(switch, _) => {
                    guest.use_driver(&Driver::rust())?;
                    guest.write(&format!("{DEBUGFS}/{switch}"), "0\n")?;
                }
                Kind::Build(_) => {
                    guest.insmod(SET[0], NO_PARAMETERS)?;
                    guest.insmod_file(&self.place(OURS), NO_PARAMETERS)?;
                }
                Kind::Set(_) => {
                    guest.need("vsock")?;
                    for module in SET {
                        guest.insmod_file(&self.place(module), NO_PARAMETERS)?;
                    }
                }
            }
            Ok(())
        };
        load().with_context(|| format!("loading the driver {}", self.name))
    }

    /// Our driver's counters, if it is ours.
    pub(crate) fn counters(&self, guest: &Machine) -> Result<Option<String>> {
        let path = format!("{DEBUGFS}/stats");
        Ok(self.is_ours().then(|| guest.read_text(&path)).transpose()?)
    }
}

fn unload(guest: &Machine) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let unloaded = guest
            .unload_driver()
            .and_then(|()| match guest.has_module(SET[0])? {
                true => guest.rmmod(SET[0]),
                false => Ok(()),
            });
        match unloaded {
            Ok(()) => return Ok(()),
            Err(error) if !error.errno().is_some_and(|errno| IN_USE.contains(&errno)) => {
                return Err(error.into());
            }
            Err(error) if Instant::now() > deadline => {
                bail!(
                    "{error}: waited {} s in vain for the closed connections to let go of it",
                    PATIENCE.as_secs()
                );
            }
            // Asking is itself a load on the guest.
            Err(_) => std::thread::sleep(PAUSE),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::case::{Reads, Way};

    #[test]
    fn switches_are_measured_where_they_matter() {
        let all = Contender::all(&[]).unwrap();
        let stream = |way| Case::Stream {
            way,
            write_size: 64,
            reads: Reads::Fixed,
            streams: 1,
        };
        let meets = |case| -> Vec<&str> {
            let meet = all.iter().filter(|contender| contender.meets(case));
            meet.map(|contender| contender.name.as_str()).collect()
        };
        assert_eq!(meets(stream(Way::ToGuest)), ["c", "ours", "no-batch"]);
        assert_eq!(meets(stream(Way::FromGuest)), ["c", "ours", "no-fast-path"]);
        assert_eq!(meets(Case::Connect), ["c", "ours"]);
    }

    #[test]
    fn a_set_without_its_modules_is_refused() {
        let extra = Extra {
            name: "other".into(),
            folder: "/nonexistent".into(),
        };
        let error = Contender::all(&[extra]).unwrap_err().to_string();
        assert!(
            error.contains("vmw_vsock_virtio_transport_common.ko"),
            "{error}"
        );
    }
}
