// SPDX-License-Identifier: GPL-2.0
//! What every command needs before it can boot anything.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context as _, Result, ensure};
use rig::{Cache, Checkout, Choice, Kernel, Programs, Progress, RigConfig, RunDir, logged};

/// What a guest with a debug kernel needs, in MiB: its checkers keep books on every byte and object.
const DEBUG_MEMORY: u32 = 1280;

/// A prepared kernel, built programs, and a folder for this run's logs.
pub(crate) struct Workbench {
    /// The checkout that is worked on.
    pub checkout: Checkout,
    /// The kernel of every guest.
    pub kernel: Kernel,
    /// What runs in the guests and between them.
    pub programs: Programs,
    /// Which rigs this machine can carry.
    pub choice: Choice,
    /// Where this run's logs go.
    pub run: RunDir,
    /// Tells of what goes on.
    pub progress: Progress,
}

impl Workbench {
    /// Makes ready what is not; `name` is that of the run. The kernel is the one that `KERNEL` names.
    pub(crate) fn open(name: &str) -> Result<Self> {
        Self::open_with(name, &std::env::var("KERNEL").unwrap_or_default())
    }

    /// The same with a kernel of the caller's choice, in the words of `KERNEL`.
    pub(crate) fn open_with(name: &str, kernel: &str) -> Result<Self> {
        let progress = Progress::new();
        let checkout = Checkout::find()?;
        let cache = Cache::open()?;
        let kernel = Kernel::prepare_named(kernel, &cache, &progress)?;
        let programs = Programs::build(&checkout, &progress)?;
        let run = checkout.new_run(name)?;
        let choice = Choice::make(&cache, &kernel, &programs, &run, &progress)?;
        progress.say(format!("kernel {}; {}", kernel.release(), choice.why()));
        Ok(Self {
            checkout,
            kernel,
            programs,
            choice,
            run,
            progress,
        })
    }

    /// What results call the kernel.
    pub(crate) fn kernel_name(&self) -> String {
        let release = self.kernel.release();
        match self.kernel.is_debug() {
            true => format!("the debug kernel {release}"),
            false => format!("the stock Debian kernel {release}"),
        }
    }

    /// `make` in the checkout, for the guests' kernel, with what it builds in `build/module`.
    pub(crate) fn make(&self) -> Command {
        self.make_of(self.checkout.top(), &self.module_folder())
    }

    /// `make` in a folder with the module's sources, with what it builds in another.
    pub(crate) fn make_of(&self, sources: &Path, built: &Path) -> Command {
        // Two of them in one folder would trip over each other's files.
        let mut make = Command::new("flock");
        make.arg(self.checkout.top().join("build/.make-lock"));
        make.arg("make").arg("-C").arg(sources);
        make.arg(format!("KDIR={}", self.kernel.source().display()));
        make.args(self.kernel.make_variables());
        make.arg(format!("MO={}", built.display()));
        make
    }

    /// The build of the module that the user has given, or one that is made now.
    pub(crate) fn module_or(&self, given: Option<&PathBuf>) -> Result<PathBuf> {
        given.map_or_else(|| self.module(), |module| Ok(module.clone()))
    }

    /// Builds the module for the guests' kernel, or finds that nothing is to be done.
    pub(crate) fn module(&self) -> Result<PathBuf> {
        let step = self.progress.step("building the module");
        let folder = self.module_folder();
        std::fs::create_dir_all(&folder).with_context(|| format!("making {}", folder.display()))?;
        let log = self.run.path().join("module.log");
        logged(&mut self.make(), &log, &step)?;
        step.done();
        let module = folder.join("virtio_vsock_rs.ko");
        ensure!(
            module.is_file(),
            "make built no {}; see {}",
            module.display(),
            log.display()
        );
        Ok(module)
    }

    /// Each kind of kernel has a folder of its own, as they take turns in one checkout.
    fn module_folder(&self) -> PathBuf {
        let name = match self.kernel.is_debug() {
            true => format!("module-{}", self.kernel.release()),
            false => "module".into(),
        };
        self.checkout.top().join("build").join(name)
    }

    /// A rig with this workbench's kernel and programs, and a module of ours if there is one.
    pub(crate) fn rig_config(&self, module: Option<&Path>) -> RigConfig {
        let mut config = RigConfig::new(&self.kernel, &self.programs);
        if self.kernel.is_debug() {
            config.memory = DEBUG_MEMORY;
        }
        config.accelerator = self.choice.accelerator();
        config.modules.extend(module.map(Path::to_owned));
        config
    }
}
