// SPDX-License-Identifier: GPL-2.0

//! Which rigs this machine can carry, found out by booting a guest.

use crate::cache::Cache;
use crate::checkout::RunDir;
use crate::error::{Error, IoContext as _, Result};
use crate::kernel::Kernel;
use crate::programs::Programs;
use crate::progress::Progress;
use crate::qemu::probe;
use std::fmt;
use std::fs;
use std::path::Path;

/// The kinds of rigs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RigKind {
    /// Two guests joined by the wire.
    Wire,
    /// A host VM by emulation, and under its KVM a guest with the real vhost-vsock device.
    Nested,
    /// A guest directly under this machine's KVM, with the real vhost-vsock device.
    Kvm,
    /// One guest, and the wire's services run natively, so that the guest is the bottleneck: for benches.
    GuestBound,
}

/// What runs a guest's code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Accelerator {
    /// Emulation.
    Tcg,
    /// The processor itself.
    Kvm,
}

/// What this machine can do, and what the user wants of it.
#[derive(Clone, Debug)]
pub struct Choice {
    forced: Option<RigKind>,
    kvm: Verdict,
    vhost: bool,
}

/// Whether KVM is usable, and how that is known.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Verdict {
    usable: bool,
    why: String,
}

impl Choice {
    /// Finds it out. Whether KVM works shows only when a guest boots on it, which is tried once in
    /// each uptime of the machine. `RIG=wire|nested|kvm` in the environment forces a kind.
    pub fn make(
        cache: &Cache,
        kernel: &Kernel,
        programs: &Programs,
        run: &RunDir,
        progress: &Progress,
    ) -> Result<Self> {
        let forced = match std::env::var("RIG") {
            Ok(name) if !name.trim().is_empty() => Some(name.parse()?),
            _ => None,
        };
        let kvm = match forced {
            // It has no use for KVM on this machine, and the trial takes a while.
            Some(RigKind::Nested) => Verdict {
                usable: false,
                why: "guests are emulated there".into(),
            },
            _ => verdict(cache, kernel, programs, run, progress)?,
        };
        let vhost = Path::new("/dev/vhost-vsock").exists();
        if forced == Some(RigKind::Kvm) && !(kvm.usable && vhost) {
            let why = if kvm.usable {
                "there is no /dev/vhost-vsock"
            } else {
                &kvm.why
            };
            return Err(Error::Setup(format!(
                "RIG=kvm cannot be had on this machine: {why}. Unset RIG, or take RIG=nested"
            )));
        }
        Ok(Choice { forced, kvm, vhost })
    }

    /// The kinds that a whole run goes through, in this order.
    pub fn kinds(&self) -> Vec<RigKind> {
        match self.forced {
            Some(kind) => vec![kind],
            None => vec![RigKind::Wire, self.real_host()],
        }
    }

    /// The one kind for something that is to be done once.
    pub fn everyday(&self) -> RigKind {
        self.forced.unwrap_or(RigKind::Wire)
    }

    /// The kind with a real vhost-vsock host that this machine can carry.
    pub fn real_host(&self) -> RigKind {
        match self.kvm.usable && self.vhost {
            true => RigKind::Kvm,
            false => RigKind::Nested,
        }
    }

    /// What runs guests of the wire rig.
    pub fn accelerator(&self) -> Accelerator {
        match self.kvm.usable {
            true => Accelerator::Kvm,
            false => Accelerator::Tcg,
        }
    }

    /// What was chosen and why, in a sentence for people.
    pub fn why(&self) -> String {
        let kinds: Vec<_> = self.kinds().iter().map(ToString::to_string).collect();
        let kinds = kinds.join(" and ");
        let forced = if self.forced.is_some() {
            " as RIG says"
        } else {
            ""
        };
        let vhost = match (self.kvm.usable, self.vhost) {
            (true, false) => "; it has no /dev/vhost-vsock (modprobe vhost_vsock makes it)",
            _ => "",
        };
        format!("rig: {kinds}{forced}; {}{vhost}", self.kvm.why)
    }
}

fn verdict(
    cache: &Cache,
    kernel: &Kernel,
    programs: &Programs,
    run: &RunDir,
    progress: &Progress,
) -> Result<Verdict> {
    if !Path::new("/dev/kvm").exists() {
        return Ok(Verdict {
            usable: false,
            why: "this machine has no /dev/kvm, so guests are emulated".into(),
        });
    }
    let boot = fs::read_to_string("/proc/sys/kernel/random/boot_id")
        .context(|| "read this boot's id".into())?;
    let kept = cache.entry(&format!("kvm-verdict-{}", boot.trim()));
    if let Some(verdict) = fs::read_to_string(&kept)
        .ok()
        .and_then(|text| Verdict::parse(&text))
    {
        return Ok(verdict);
    }
    let step = progress.step("trying whether a guest boots under KVM");
    let verdict = match probe(kernel, programs, run)? {
        Ok(took) => Verdict {
            usable: true,
            why: format!("a guest booted under KVM in {:.1} s", took.as_secs_f64()),
        },
        Err(why) => Verdict {
            usable: false,
            why: format!(
                "there is a /dev/kvm, but a guest does not boot on it ({why}), so guests are emulated"
            ),
        },
    };
    step.done();
    fs::write(&kept, verdict.text()).context(|| format!("write {}", kept.display()))?;
    Ok(verdict)
}

impl Verdict {
    fn text(&self) -> String {
        let usable = if self.usable { "usable" } else { "unusable" };
        format!("{usable}\n{}\n", self.why)
    }

    fn parse(text: &str) -> Option<Self> {
        let (usable, why) = text.trim_end().split_once('\n')?;
        let usable = match usable {
            "usable" => true,
            "unusable" => false,
            _ => return None,
        };
        Some(Verdict {
            usable,
            why: why.into(),
        })
    }
}

impl fmt::Display for RigKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            RigKind::Wire => "wire",
            RigKind::Nested => "nested",
            RigKind::Kvm => "kvm",
            RigKind::GuestBound => "guest-bound",
        })
    }
}

impl std::str::FromStr for RigKind {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self> {
        match name.trim().to_ascii_lowercase().as_str() {
            "wire" => Ok(RigKind::Wire),
            "nested" => Ok(RigKind::Nested),
            "kvm" => Ok(RigKind::Kvm),
            "guest-bound" => Ok(RigKind::GuestBound),
            _ => Err(Error::Setup(format!(
                "there is no rig {name}; RIG is wire, nested or kvm, or for the bench guest-bound"
            ))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn choice(forced: Option<RigKind>, usable: bool, vhost: bool) -> Choice {
        let kvm = Verdict {
            usable,
            why: "because".into(),
        };
        Choice { forced, kvm, vhost }
    }

    #[test]
    fn the_real_host_needs_kvm_and_vhost() {
        assert_eq!(
            choice(None, true, true).kinds(),
            [RigKind::Wire, RigKind::Kvm]
        );
        assert_eq!(
            choice(None, true, false).kinds(),
            [RigKind::Wire, RigKind::Nested]
        );
        assert_eq!(
            choice(None, false, true).kinds(),
            [RigKind::Wire, RigKind::Nested]
        );
        assert_eq!(
            choice(Some(RigKind::Nested), true, true).kinds(),
            [RigKind::Nested]
        );
        assert_eq!(choice(None, false, false).accelerator(), Accelerator::Tcg);
    }

    #[test]
    fn a_verdict_is_kept_whole() {
        let verdict = Verdict {
            usable: false,
            why: "two\nlines".into(),
        };
        assert_eq!(Verdict::parse(&verdict.text()), Some(verdict));
        assert_eq!(Verdict::parse("perhaps\nwhy\n"), None);
    }

    #[test]
    fn kinds_have_names() {
        for kind in [
            RigKind::Wire,
            RigKind::Nested,
            RigKind::Kvm,
            RigKind::GuestBound,
        ] {
            assert_eq!(kind.to_string().parse::<RigKind>().unwrap(), kind);
        }
        assert!("warp".parse::<RigKind>().is_err());
    }
}
