// SPDX-License-Identifier: GPL-2.0

//! A shell on a machine for the user's terminal.

use crate::error::{Error, IoContext as _, Result};
use crate::machine::Machine;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::termios::{self, SetArg, Termios};
use std::fs::File;
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};

/// The machine's end of the terminal.
const DEVICE: &str = "/dev/hvc0";
/// Ctrl-] leaves, as in telnet.
const LEAVE: u8 = 0x1d;

/// The user's terminal in raw mode; it gets its old mode back when this is dropped.
struct RawMode(Termios);

/// Relays between the user's terminal and a shell on the machine, until either ends.
pub(crate) fn attach(machine: &Machine, terminal: Option<&Mutex<UnixStream>>) -> Result<()> {
    let terminal = terminal.ok_or_else(|| {
        Error::Setup(format!(
            "{} is the machine you are on; use its own shell",
            machine.name()
        ))
    })?;
    if !io::stdin().is_terminal() {
        return Err(Error::Setup(
            "a shell needs a terminal; standard input is none".into(),
        ));
    }
    let mut terminal = terminal.lock().unwrap_or_else(PoisonError::into_inner);
    let (rows, columns) = size();
    // The outer shell stays, because a group's leader cannot get a session of its own. It opens the
    // terminal before anyone else: the first opening makes the kernel ask the device for its size,
    // of which it knows none, and the user's has to be set after that.
    let script = format!(
        "exec 3<>{DEVICE}; setsid -c sh -c 'stty rows {rows} cols {columns}; exec sh -l' \
         <{DEVICE} >{DEVICE} 2>&1; exit 0"
    );
    let shell = machine.spawn(["sh", "-c", &script])?;
    let raw = RawMode::enter()?;
    let result = relay(&mut terminal, || {
        machine.check()?;
        Ok(shell.exit().is_some())
    });
    drop(raw);
    println!();
    result
}

/// Rows and columns of the user's terminal.
fn size() -> (u16, u16) {
    terminal_size::terminal_size().map_or((24, 80), |(width, height)| (height.0, width.0))
}

/// Copies both ways until `over` says so, or the user leaves.
fn relay(terminal: &mut UnixStream, mut over: impl FnMut() -> Result<bool>) -> Result<()> {
    let what = || "relay the terminal".to_owned();
    // Unbuffered, so that polling tells of every key.
    let mut input = File::from(io::stdin().as_fd().try_clone_to_owned().context(what)?);
    let mut output = io::stdout().lock();
    let mut buffer = [0; 4096];
    while !over()? {
        let (keys, screen) = {
            let mut fds = [
                PollFd::new(input.as_fd(), PollFlags::POLLIN),
                PollFd::new(terminal.as_fd(), PollFlags::POLLIN),
            ];
            match poll(&mut fds, PollTimeout::from(500u16)) {
                Ok(_) | Err(nix::errno::Errno::EINTR) => {}
                Err(errno) => return Err(errno).context(what),
            }
            let ready = |fd: &PollFd<'_>| fd.revents().is_some_and(|events| !events.is_empty());
            (ready(&fds[0]), ready(&fds[1]))
        };
        if screen {
            let length = terminal.read(&mut buffer).context(what)?;
            if length == 0 {
                return Ok(());
            }
            output.write_all(&buffer[..length]).context(what)?;
            output.flush().context(what)?;
        }
        if keys {
            let length = input.read(&mut buffer).context(what)?;
            if length == 0 || buffer[..length].contains(&LEAVE) {
                return Ok(());
            }
            terminal.write_all(&buffer[..length]).context(what)?;
        }
    }
    Ok(())
}

impl RawMode {
    fn enter() -> Result<Self> {
        let what = || "put the terminal into raw mode".to_owned();
        let old = termios::tcgetattr(io::stdin()).context(what)?;
        let mut raw = old.clone();
        termios::cfmakeraw(&mut raw);
        termios::tcsetattr(io::stdin(), SetArg::TCSANOW, &raw).context(what)?;
        Ok(RawMode(old))
    }
}

impl Drop for RawMode {
    fn drop(&mut self) {
        // A terminal that is gone needs no mode.
        let _ = termios::tcsetattr(io::stdin(), SetArg::TCSANOW, &self.0);
    }
}
