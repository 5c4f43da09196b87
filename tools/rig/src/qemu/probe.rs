// SPDX-License-Identifier: GPL-2.0

//! Trying whether a guest boots under KVM.

use super::{Chassis, Ports, Vm, VmSpec, await_agent, connect};
use crate::board::Board;
use crate::checkout::RunDir;
use crate::choose::Accelerator;
use crate::error::Result;
use crate::fault::Expected;
use crate::image::{Image, ImageSpec};
use crate::kernel::Kernel;
use crate::machine::Traits;
use crate::programs::Programs;
use crate::sockets::SocketDir;
use std::time::{Duration, Instant};

/// Under a KVM that works, a guest is up in two seconds.
const LIMIT: Duration = Duration::from_secs(20);

/// How long a guest took to boot, or in a few words why it did not.
pub(crate) fn probe(
    kernel: &Kernel,
    programs: &Programs,
    run: &RunDir,
) -> Result<Result<Duration, String>> {
    let logs = run.subfolder("probe")?;
    let spec = ImageSpec {
        kernel,
        programs,
        own_modules: &[],
        files: &[],
    };
    let image = Image::build(&spec, &logs.join("guest.cpio"))?;
    let sockets = SocketDir::new()?;
    let seat = Board::new().seat("probe", false, &logs, &Expected::default())?;
    let spec = VmSpec {
        name: "probe".into(),
        chassis: Chassis::Private,
        accelerator: Accelerator::Kvm,
        cpu: "host".into(),
        cpus: 1,
        memory: 384,
        kernel: kernel.image(),
        initrd: image.path().into(),
        cmdline: String::new(),
        keeps_ports: false,
        options: Vec::new(),
    };
    let ports = Ports::listen(&sockets, "probe")?;
    let wiring = ports.wiring();
    let started = Instant::now();
    let booted = Vm::start(&spec, ports, &wiring, &seat, &logs).and_then(|(vm, connected)| {
        let traits = Traits {
            cid: 0,
            manifest: image.manifest().clone(),
            vsock: None,
            lab_root: false,
            noise: Expected::default(),
        };
        let machine = connect(&seat, connected, traits)?;
        await_agent(&machine, LIMIT)?;
        Ok(vm)
    });
    Ok(match booted {
        Ok(_) => Ok(started.elapsed()),
        // The first line says it; the rest is in the run's folder.
        Err(error) => Err(error.to_string().lines().next().unwrap_or_default().into()),
    })
}
