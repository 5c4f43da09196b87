// SPDX-License-Identifier: GPL-2.0

//! A slot of PCI Express, as the guest sees it.
//!
//! QEMU cannot be told to take a device away without asking the guest. But it takes the device away at
//! once when the slot's power is cut, which the slot's driver in the guest (pciehp) does in the end of an
//! orderly removal. Cut behind that driver's back, the card is gone for it all of a sudden. It must not
//! find the power off, though, or it takes the card for one that it has removed already. So the power is
//! on again before the slot's interrupts are.

use crate::error::{Error, Result};
use crate::machine::Machine;
use crate::until::until;
use std::time::Duration;

/// A driver has to be parted from its device, and then the slot's driver waits a second by itself.
const LIMIT: Duration = Duration::from_secs(60);

/// Where the list of capabilities begins, and the number of the one that we want, from `pci_regs.h`.
const CAPABILITY_LIST: usize = 0x34;
const EXPRESS: u8 = 0x10;
/// From the beginning of that one to the word that controls the slot.
const SLOT_CONTROL: usize = 0x18;
/// In that word: the slot may interrupt; the power indicator is off, and so is the power.
const INTERRUPT: u16 = 0x0020;
const INDICATOR_OFF: u16 = 0x0300;
const POWER_OFF: u16 = 0x0400;

/// Tells in what state each thread is in which a slot's driver handles what happened.
const STATES: &str = "
    for thread in $(grep -l pciehp /proc/[0-9]*/comm); do
        sed -n 's/^State:\\s*//p' ${thread%comm}status
    done";

/// A slot.
pub(super) struct Slot<'a> {
    machine: &'a Machine,
    /// The registers of the port that it belongs to.
    registers: String,
    /// The place of the word that controls it.
    control: usize,
}

impl<'a> Slot<'a> {
    /// Finds a slot by its number; there has to be a card in it.
    pub(super) fn find(machine: &'a Machine, number: u8) -> Result<Self> {
        let address = machine.read_text(&format!("/sys/bus/pci/slots/{number}/address"))?;
        // The folder above the card's own is that of the port.
        let card = format!("/sys/bus/pci/devices/{}.0", address.trim());
        let port = machine.run(["readlink", "-f", &format!("{card}/..")], LIMIT)?;
        let registers = format!("{}/config", port.success()?.text().trim());
        let control = slot_control(&machine.read(&registers)?).ok_or_else(|| {
            let name = machine.name();
            Error::Setup(format!("what {name} has above slot {number} is no port"))
        })?;
        Ok(Slot {
            machine,
            registers,
            control,
        })
    }

    /// Cuts the power, and turns it on again.
    pub(super) fn cut_power(&self) -> Result<()> {
        let on = self.word()?;
        let off = on & !INTERRUPT | INDICATOR_OFF | POWER_OFF;
        // Each in one piece, as QEMU looks at what is written and not at what comes of it.
        let write = |word: u16| {
            let [low, high] = word.to_le_bytes();
            let (file, place) = (&self.registers, self.control / 2);
            format!(
                "printf '\\{low:03o}\\{high:03o}' | dd of={file} bs=2 seek={place} conv=notrunc\n"
            )
        };
        let script = write(off) + &write(on);
        let written = self.machine.run(["sh", "-ec", &script], LIMIT)?;
        written.success().map(drop)
    }

    /// Waits until the slot's driver is done with the card that was there. The last that it does is to
    /// turn the indicator off, by which QEMU would throw out a card that has come meanwhile.
    pub(super) fn await_empty(&self) -> Result<()> {
        let what = "the slot's driver to be done with the card".to_owned();
        until(self.machine.name(), what, LIMIT, || self.is_empty())
    }

    fn is_empty(&self) -> Result<bool> {
        if self.word()? & INDICATOR_OFF != INDICATOR_OFF {
            return Ok(false);
        }
        let told = self.machine.run(["sh", "-ec", STATES], LIMIT)?;
        let states = told.success()?.text();
        // Such a thread waits for the next event, and for nothing else, in a sleep that a signal would end.
        Ok(!states.is_empty() && states.lines().all(|state| state.starts_with('S')))
    }

    /// The word that controls the slot.
    fn word(&self) -> Result<u16> {
        let registers = self.machine.read(&self.registers)?;
        word(&registers, self.control).ok_or_else(|| {
            let (name, file) = (self.machine.name(), &self.registers);
            Error::Setup(format!("{file} of {name} is cut short"))
        })
    }
}

/// The place of the word that controls the slot among a port's registers.
fn slot_control(registers: &[u8]) -> Option<usize> {
    let mut next = usize::from(*registers.get(CAPABILITY_LIST)?);
    // So many capabilities have room, unless the list bites its own tail.
    for _ in 0..48 {
        let [id, following] = word(registers, next).filter(|_| next != 0)?.to_le_bytes();
        if id == EXPRESS {
            let control = next + SLOT_CONTROL;
            return word(registers, control).map(|_| control);
        }
        next = usize::from(following);
    }
    None
}

fn word(registers: &[u8], place: usize) -> Option<u16> {
    let bytes = registers.get(place..place + 2)?;
    Some(u16::from_le_bytes(bytes.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registers(capabilities: &[(usize, u8, u8)]) -> Vec<u8> {
        let mut registers = vec![0; 256];
        registers[CAPABILITY_LIST] = 0x40;
        for &(place, id, next) in capabilities {
            registers[place..place + 2].copy_from_slice(&[id, next]);
        }
        registers
    }

    #[test]
    fn the_slots_word_is_found_behind_other_capabilities() {
        let port = registers(&[(0x40, 0x0d, 0x80), (0x80, EXPRESS, 0)]);
        assert_eq!(slot_control(&port), Some(0x98));
    }

    #[test]
    fn a_device_without_it_is_no_port() {
        assert_eq!(slot_control(&registers(&[(0x40, 0x0d, 0)])), None);
        assert_eq!(slot_control(&registers(&[(0x40, 0x0d, 0x40)])), None);
        assert_eq!(
            slot_control(&registers(&[(0x40, EXPRESS, 0)])[..0x50]),
            None
        );
        assert_eq!(slot_control(&[]), None);
    }
}
