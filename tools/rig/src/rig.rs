// SPDX-License-Identifier: GPL-2.0

//! A rig: everything that is the same for each of its boots.

mod hosted;
mod kvm;
mod nested;
mod wire;

pub(crate) use nested::Carried;

use crate::alone::Alone;
use crate::checkout::RunDir;
use crate::choose::{Accelerator, RigKind};
use crate::error::{Error, Result};
use crate::fault::Expected;
use crate::image::{Image, ImageSpec};
use crate::kernel::Kernel;
use crate::pair::Pair;
use crate::programs::Programs;
use crate::progress::Progress;
use crate::setup::GuestSetup;
use std::path::PathBuf;

/// What a rig is made of.
#[derive(Clone, Debug)]
pub struct RigConfig {
    /// The kernel of every virtual machine.
    pub kernel: Kernel,
    /// Another one for the wire rig's far guest, which is not under test: under a debug kernel it would
    /// take as much of the machine as the guest that is.
    pub far_kernel: Option<Kernel>,
    /// The agent, the traffic program and the wire.
    pub programs: Programs,
    /// What runs the code of the wire rig's guests; the other rigs have no choice.
    pub accelerator: Accelerator,
    /// Modules of our own that [`crate::Machine::insmod`] is to find, besides the kernel's.
    pub modules: Vec<PathBuf>,
    /// More files for the guests: where they are here, and where they are to be there. The kernel's
    /// vsock tests and the traffic program are in `PATH` on each side without being named.
    pub files: Vec<(PathBuf, String)>,
    /// More options of `vsock-wire`, for the wire rig.
    pub wire_options: Vec<String>,
    /// Virtual CPUs of the guest under test.
    pub cpus: u32,
    /// Its memory in MiB.
    pub memory: u32,
    /// What is unusual about the guest under test.
    pub setup: GuestSetup,
    /// Whether both machines of the wire rig can mount the lab root.
    pub lab_root: bool,
    /// Kernel messages that look like a fault and are none.
    pub expected: Expected,
}

/// A rig that can be booted any number of times.
#[derive(Debug)]
pub struct Rig {
    kind: RigKind,
    config: RigConfig,
    run: RunDir,
    image: Image,
    /// The image of the wire rig's far guest, if that has a kernel of its own.
    far_image: Option<Image>,
    /// The image of the nested rig's host VM, which holds that of its guest.
    host_image: Option<Image>,
}

impl RigConfig {
    /// The usual: two CPUs, 512 MiB, emulated.
    pub fn new(kernel: &Kernel, programs: &Programs) -> Self {
        RigConfig {
            kernel: kernel.clone(),
            far_kernel: None,
            programs: programs.clone(),
            accelerator: Accelerator::Tcg,
            modules: Vec::new(),
            files: Vec::new(),
            wire_options: Vec::new(),
            cpus: 2,
            memory: 512,
            setup: GuestSetup::default(),
            lab_root: false,
            expected: Expected::default(),
        }
    }

    /// Adds a module of our own.
    pub fn module(mut self, path: impl Into<PathBuf>) -> Self {
        self.modules.push(path.into());
        self
    }
}

impl Rig {
    /// Makes the guests' image. Logs of all boots go to `run`.
    pub fn open(
        kind: RigKind,
        config: RigConfig,
        run: &RunDir,
        progress: &Progress,
    ) -> Result<Self> {
        if kind != RigKind::Wire && config.setup.ring_size().is_some() {
            let what = "vhost-vsock has rings of one size; take RIG=wire for another one";
            return Err(Error::Setup(what.into()));
        }
        if kind != RigKind::Wire && config.setup.is_sleeper() {
            let what = "only guests of the wire rig are put to sleep; take RIG=wire";
            return Err(Error::Setup(what.into()));
        }
        let step = progress.step(format!("making the image of the {kind} rig's guests"));
        let spec = ImageSpec {
            kernel: &config.kernel,
            programs: &config.programs,
            own_modules: &config.modules,
            files: &config.files,
        };
        let image = Image::build(&spec, &run.path().join(format!("{kind}-guest.cpio")))?;
        let far_image = match &config.far_kernel {
            Some(kernel) if kind == RigKind::Wire => {
                let spec = ImageSpec {
                    kernel,
                    // They are built for the kernel of the guest under test.
                    own_modules: &[],
                    ..spec
                };
                Some(Image::build(&spec, &run.path().join("wire-far.cpio"))?)
            }
            _ => None,
        };
        let host_image = match kind {
            RigKind::Nested => Some(nested::host_image(&spec, &image, run)?),
            RigKind::Wire | RigKind::Kvm | RigKind::GuestBound => None,
        };
        step.done();
        Ok(Rig {
            kind,
            config,
            run: run.clone(),
            image,
            far_image,
            host_image,
        })
    }

    /// Which kind it is.
    pub fn kind(&self) -> RigKind {
        self.kind
    }

    /// Where logs go.
    pub fn run(&self) -> &RunDir {
        &self.run
    }

    /// Boots both machines and waits until their agents answer. No vsock driver is loaded yet.
    pub fn boot(&self, progress: &Progress) -> Result<Pair> {
        let step = progress.step(format!("booting the {} rig", self.kind));
        let logs = self.run.subfolder(&self.kind.to_string())?;
        let parts = match self.kind {
            RigKind::Wire => wire::boot(self, &logs, &step)?,
            RigKind::Nested => nested::boot(self, &logs, &step)?,
            RigKind::Kvm => kvm::boot(self, &logs, &step)?,
            RigKind::GuestBound => {
                return Err(Error::Setup(
                    "the guest-bound rig has no second machine and serves the bench only; take RIG=wire, nested or kvm"
                        .into(),
                ));
            }
        };
        step.done();
        Ok(Pair::new(self.kind, parts))
    }

    /// Boots the one guest of a guest-bound rig and waits until its agent answers. No vsock driver is
    /// loaded yet.
    pub fn boot_alone(&self, progress: &Progress) -> Result<Alone> {
        let step = progress.step(format!("booting the {} rig", self.kind));
        let logs = self.run.subfolder(&self.kind.to_string())?;
        let alone = wire::boot_alone(self, &logs, &step)?;
        step.done();
        Ok(alone)
    }
}
