// SPDX-License-Identifier: GPL-2.0

//! Putting a machine to sleep.
//!
//! It is suspended to idle: every program is frozen and every device suspended, as for any other sleep, but
//! no CPU is switched off and no firmware has a part in it. That of QEMU's PC loses registers of ACPI when
//! it wakes from a suspend to RAM, and now and then its second CPU.
//!
//! It is woken by its serial port. An alarm of its clock did not wake it: for that the kernel arms an event
//! of ACPI (`rtc_wake_on()` in drivers/rtc/rtc-cmos.c), which does not come from QEMU in this state.

use super::Machine;
use crate::board::Seat;
use crate::error::{Error, IoContext as _, Result};
use crate::until::until;
use std::io::Write as _;
use std::time::Duration;

/// A machine freezes and thaws within a second or two; what does not let itself be frozen is given up after
/// 20 s.
const LIMIT: Duration = Duration::from_secs(60);

/// Sleeps until it is woken. The port interrupts only while a program has it open.
const SLEEP: &str = "
    exec 3< /dev/ttyS0
    echo enabled > /sys/class/tty/ttyS0/power/wakeup
    echo s2idle > /sys/power/mem_sleep
    echo mem > /sys/power/state";

/// XON, by which a terminal is allowed to go on: who reads it has nothing to do.
const WAKE: [u8; 1] = [0x11];

/// What is said of a sleep that does not begin because the machine is woken at that moment, and how often
/// that may happen.
const WOKEN_EARLY: &str = "Device or resource busy";
const ATTEMPTS: usize = 5;

/// How often the machine has slept and was woken.
const COUNT: &str = "/sys/power/suspend_stats/success";

impl Machine {
    /// Has it sleep, and wakes it at once; returns when its programs run again. It has to be set up for
    /// that, by [`crate::GuestSetup::sleeper`]. That a device or a program refuses is an error.
    pub fn sleep_and_wake(&self) -> Result<()> {
        let before = self.sleeps()?;
        let _held = HeldHeart::of(self.seat());
        let mut attempt = 1;
        loop {
            let program = self.spawn(["sh", "-ec", SLEEP])?;
            // What comes before it sleeps wakes nothing, and nothing tells when it does.
            let what = "the machine to sleep and to be awake again".to_owned();
            until(self.name(), what, LIMIT, || {
                self.ring()?;
                self.check()?;
                Ok(program.exit().is_some())
            })?;
            let output = program.wait(LIMIT)?;
            let early = !output.exit.success() && output.errors().contains(WOKEN_EARLY);
            if !early || attempt == ATTEMPTS {
                output.success()?;
                break;
            }
            attempt += 1;
        }
        let slept = self.sleeps()?;
        if slept == before + 1 {
            return Ok(());
        }
        let name = self.name();
        Err(Error::Setup(format!(
            "{name} was to sleep once, and has counted {before} sleeps before and {slept} afterwards"
        )))
    }

    /// Sends something to its serial port.
    fn ring(&self) -> Result<()> {
        let Some(mut console) = self.console.as_ref() else {
            let name = self.name();
            let what = format!("{name} is not a virtual machine of ours, and is not put to sleep");
            return Err(Error::Setup(what));
        };
        let rung = console.write_all(&WAKE);
        rung.context(|| format!("write to the console of {}", self.name()))
    }

    fn sleeps(&self) -> Result<u64> {
        let text = self.read_text(COUNT)?;
        text.trim().parse().map_err(|_| {
            let name = self.name();
            Error::Setup(format!("{COUNT} of {name} is no number: {text}"))
        })
    }
}

/// A heart that does not have to beat until this is dropped: no program does while all of them are frozen.
struct HeldHeart<'a>(&'a Seat);

impl<'a> HeldHeart<'a> {
    fn of(seat: &'a Seat) -> Self {
        seat.hold_heart();
        Self(seat)
    }
}

impl Drop for HeldHeart<'_> {
    fn drop(&mut self) {
        self.0.release_heart();
    }
}
