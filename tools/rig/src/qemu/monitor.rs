// SPDX-License-Identifier: GPL-2.0

//! QEMU's monitor.

use crate::error::{Error, IoContext as _, Result};
use crate::until::until;
use qapi::Stream;
use qapi::qmp::{
    ChardevBackend, ChardevCommon, ChardevSocket, QmpCommand, SocketAddressLegacy, chardev_add,
};
use std::io::{self, BufReader, ErrorKind};
use std::os::unix::net::UnixStream;
use std::time::Duration;

/// QEMU answers at once, unless its machine stands still.
const ANSWER_LIMIT: Duration = Duration::from_secs(30);

/// A connection to the monitor of one virtual machine.
pub struct Qmp {
    machine: String,
    qmp: qapi::Qmp<Stream<BufReader<UnixStream>, UnixStream>>,
    greeted: bool,
}

impl Qmp {
    /// Takes over the monitor's port. The greeting waits for the first command, because the QEMU behind
    /// the port may start later than the port is there.
    pub(crate) fn open(machine: &str, port: UnixStream) -> Result<Self> {
        let what = || format!("set up the monitor of {machine}");
        port.set_read_timeout(Some(ANSWER_LIMIT)).context(what)?;
        port.set_write_timeout(Some(ANSWER_LIMIT)).context(what)?;
        let input = BufReader::new(port.try_clone().context(what)?);
        let qmp = qapi::Qmp::new(Stream::new(input, port));
        Ok(Qmp {
            machine: machine.into(),
            qmp,
            greeted: false,
        })
    }

    /// Runs a command of `qapi::qmp`.
    pub fn execute<C: QmpCommand + 'static>(&mut self, command: C) -> Result<C::Ok> {
        if !self.greeted {
            self.greet()
                .context(|| format!("greet the monitor of {}", self.machine))?;
            self.greeted = true;
        }
        self.qmp.execute(&command).map_err(|error| Error::Monitor {
            machine: self.machine.clone(),
            command: C::NAME.into(),
            message: error.to_string(),
        })
    }

    /// Says that the QEMU behind the port has ended, and that another one will take its place.
    pub(crate) fn begin_anew(&mut self) {
        self.greeted = false;
    }

    fn greet(&mut self) -> io::Result<()> {
        loop {
            match self.qmp.read_capabilities() {
                Ok(_) => break,
                // The last words of the QEMU before.
                Err(error) if error.kind() == ErrorKind::InvalidData => {}
                Err(error) => return Err(error),
            }
        }
        let ready = self
            .qmp
            .execute(&qapi::qmp::qmp_capabilities { enable: None });
        ready.map(drop).map_err(Into::into)
    }

    /// Asks until the answer is yes.
    pub(crate) fn wait(
        &mut self,
        what: String,
        limit: Duration,
        mut done: impl FnMut(&mut Self) -> Result<bool>,
    ) -> Result<()> {
        let machine = self.machine.clone();
        until(&machine, what, limit, || done(self))
    }

    /// The ids of the devices that were given one.
    pub(crate) fn devices(&mut self) -> Result<Vec<String>> {
        let list = self.execute(qapi::qmp::qom_list {
            path: "/machine/peripheral".into(),
        })?;
        Ok(list.into_iter().map(|property| property.name).collect())
    }

    /// Runs a command of the monitor for people, and returns what it prints.
    pub fn human(&mut self, line: &str) -> Result<String> {
        self.execute(qapi::qmp::human_monitor_command {
            command_line: line.into(),
            cpu_index: None,
        })
    }

    /// Adds a character device that connects to a socket.
    pub(crate) fn add_socket(&mut self, id: String, addr: SocketAddressLegacy) -> Result<()> {
        let socket = ChardevSocket {
            base: ChardevCommon {
                logappend: None,
                logfile: None,
            },
            nodelay: None,
            reconnect: None,
            server: Some(false),
            telnet: None,
            tls_authz: None,
            tls_creds: None,
            tn3270: None,
            wait: None,
            websocket: None,
            addr,
        };
        let backend = ChardevBackend::socket(socket.into());
        self.execute(chardev_add { backend, id }).map(drop)
    }
}

impl std::fmt::Debug for Qmp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Qmp")
            .field("machine", &self.machine)
            .finish_non_exhaustive()
    }
}
