// SPDX-License-Identifier: GPL-2.0

//! Answers the lab's requests.

use crate::jobs::Jobs;
use crate::outbox::Outbox;
use crate::{files, init, kmsg, modules};
use anyhow::{Context as _, Result};
use proto::{Answer, Call, Hello, Note, Request};
use std::io::{self, BufReader, Read, Write};
use std::{fs, thread};

/// Where the agent runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// As PID 1; the machine is its own.
    Machine,
    /// As a process on somebody else's machine, whose log and power are none of its business.
    Process,
}

/// Serves until the lab hangs up. Requests are answered as they are done, not in their order.
pub(crate) fn serve(
    input: impl Read,
    output: impl Write + Send + 'static,
    place: Place,
) -> Result<()> {
    let outbox = Outbox::new(output);
    let kernel =
        fs::read_to_string("/proc/sys/kernel/osrelease").context("read the kernel's release")?;
    let kernel = kernel.trim().to_owned();
    outbox.send(&Note::Hello(Hello {
        version: proto::VERSION,
        kernel,
    }));
    if place == Place::Machine {
        kmsg::start(outbox.clone())?;
    }
    let jobs = Jobs::new(outbox.clone());
    let mut input = BufReader::new(input);
    while let Some(request) = proto::read_line::<Request>(&mut input).context("read a request")? {
        if request.call == Call::PowerOff {
            return match place {
                Place::Machine => init::power_off(),
                Place::Process => Ok(()),
            };
        }
        let (jobs, outbox) = (jobs.clone(), outbox.clone());
        // Some calls take their time, such as unloading a module.
        thread::spawn(move || {
            let result = answer(&jobs, request.call).map_err(Into::into);
            outbox.send(&Note::Reply {
                id: request.id,
                result,
            });
        });
    }
    Ok(())
}

fn answer(jobs: &Jobs, call: Call) -> io::Result<Answer> {
    match call {
        Call::Spawn { job, command } => jobs.spawn(job, &command)?,
        Call::Signal { job, signal } => jobs.signal(job, signal)?,
        Call::Input { job, data, end } => jobs.input(job, &data, end)?,
        Call::Read { path, offset } => return files::read(&path, offset),
        Call::Write { path, data, how } => files::write(&path, &data, how)?,
        Call::LoadModule { path, parameters } => modules::load(&path, &parameters)?,
        Call::UnloadModule { name } => modules::unload(&name)?,
        // Taken out before.
        Call::PowerOff => {}
    }
    Ok(Answer::Done)
}

#[cfg(test)]
mod tests;
