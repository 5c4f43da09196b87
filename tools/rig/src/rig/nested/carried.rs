// SPDX-License-Identifier: GPL-2.0

//! The guest as its host VM carries it, from one QEMU to the next.

use super::GUEST_CIDS;
use crate::board::Seat;
use crate::error::{Error, Result};
use crate::job::{Job, Program};
use crate::machine::Machine;
use crate::qemu::{Qmp, VmSpec, Wiring};
use qapi::qmp::{self, MigrationStatus, RunState};
use std::fmt;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Where the guest's QEMU saves it, in the lab root.
const STATE: &str = "/tmp/guest.state";
/// A guest's memory is written and read under emulation.
const MOVE_LIMIT: Duration = Duration::from_secs(120);
const END_LIMIT: Duration = Duration::from_secs(60);

/// The guest's QEMU in the host VM, and how to begin another one like it.
pub(crate) struct Carried {
    /// The guest with this address.
    spec: Box<dyn Fn(u32) -> VmSpec + Send>,
    wiring: Wiring,
    /// The folder of the host VM that is the QEMU's root.
    root: &'static str,
    seat: Seat,
    /// Empty if the guest got lost on the way.
    qemu: Mutex<Option<Job>>,
}

impl Carried {
    /// Starts the guest. It has not booted when this returns.
    pub(super) fn start(
        spec: impl Fn(u32) -> VmSpec + Send + 'static,
        wiring: Wiring,
        host: &Machine,
        seat: &Seat,
    ) -> Result<Self> {
        let carried = Carried {
            spec: Box::new(spec),
            wiring,
            root: host.lab_root()?,
            seat: seat.clone(),
            qemu: Mutex::new(None),
        };
        let job = carried.run(host, GUEST_CIDS[0], &[])?;
        carried.keep(job);
        Ok(carried)
    }

    /// Has the guest, which stands still meanwhile, go on in another QEMU with another CID.
    pub(crate) fn move_to(&self, guest: &Machine, host: &Machine, cid: u32) -> Result<()> {
        let begun = self
            .qemu
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .take();
        let begun =
            begun.ok_or_else(|| Error::Setup("the guest got lost when it was moved".into()))?;
        self.seat.hold_heart();
        let mut monitor = guest.monitor()?;
        save(&mut monitor)?;
        begun.lets_go();
        monitor.execute(qmp::quit {})?;
        begun.wait(END_LIMIT)?.success()?;
        monitor.begin_anew();
        self.keep(self.run(host, cid, &["-incoming", &uri()])?);
        resume(&mut monitor)?;
        drop(monitor);
        guest.set_cid(cid);
        self.seat.release_heart();
        let file = format!("{}{STATE}", self.root);
        host.run(["rm", &file], END_LIMIT)?.success().map(drop)
    }

    /// Starts a QEMU.
    fn run(&self, host: &Machine, cid: u32, more: &[&str]) -> Result<Job> {
        let mut arguments = vec!["qemu-system-x86_64".to_owned()];
        arguments.extend((self.spec)(cid).arguments(&self.wiring));
        arguments.extend(more.iter().map(|&word| word.into()));
        let job = host.spawn(Program::from(arguments).root(self.root))?;
        job.carries(&self.seat);
        Ok(job)
    }

    fn keep(&self, job: Job) {
        *self.qemu.lock().unwrap_or_else(PoisonError::into_inner) = Some(job);
    }
}

fn uri() -> String {
    format!("file:{STATE}")
}

/// Has a guest stand still, and saves it.
fn save(monitor: &mut Qmp) -> Result<()> {
    monitor.execute(qmp::stop {})?;
    monitor.execute(qmp::migrate {
        channels: None,
        detach: None,
        resume: None,
        uri: Some(uri()),
    })?;
    monitor.wait("it to be saved".into(), MOVE_LIMIT, |monitor| {
        let told = monitor.execute(qmp::query_migrate {})?;
        match told.status {
            Some(MigrationStatus::completed) => Ok(true),
            Some(MigrationStatus::failed | MigrationStatus::cancelled) => {
                let why = told.error_desc.unwrap_or_default();
                Err(Error::Setup(format!("the guest was not saved: {why}")))
            }
            _ => Ok(false),
        }
    })
}

/// Has a guest go on as soon as it is all there.
fn resume(monitor: &mut Qmp) -> Result<()> {
    monitor.wait("it to be restored".into(), MOVE_LIMIT, |monitor| {
        let told = monitor.execute(qmp::query_status {})?;
        Ok(told.status != RunState::inmigrate)
    })?;
    monitor.execute(qmp::cont {}).map(drop)
}

impl fmt::Debug for Carried {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Carried")
            .field("qemu", &self.qemu)
            .finish_non_exhaustive()
    }
}
