// SPDX-License-Identifier: GPL-2.0

//! What an operator can set, at load time and at run time.

use crate::{
    module_parameters,
    rx::batch::Limits, //
};
use core::ops::RangeInclusive;
use kernel::{
    debugfs::Reader,
    fmt,
    prelude::*,
    str::kstrtobool_bytes,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
    uaccess::UserSliceReader, //
};
use vsock_kernel::sync::read_once;

/// Something that is on or off, and can be switched at any time.
pub(crate) struct Switch(Atomic<bool>);

impl Switch {
    /// Is it on?
    #[inline]
    pub(crate) fn is_on(&self) -> bool {
        // ORDERING: A switch orders nothing; who reads the old value was a moment early.
        read_once(&self.0)
    }

    fn set(&self, on: bool) {
        // ORDERING: As for `is_on`.
        self.0.store(on, Relaxed);
    }
}

/// As its debugfs file shows it: `0` or `1`.
impl fmt::Debug for Switch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", u8::from(self.is_on()))
    }
}

/// What its debugfs file takes: `0`, `1`, and all that `kstrtobool()` knows.
impl Reader for Switch {
    fn read_from_slice(&self, reader: &mut UserSliceReader) -> Result {
        let mut text = [0u8; 8];
        let text = text.get_mut(..reader.len()).ok_or(EINVAL)?;
        reader.read_slice(text)?;
        self.set(kstrtobool_bytes(text)?);
        Ok(())
    }
}

/// What may be set as a batch's bound in packets, and in bytes.
const BATCH_PACKETS: RangeInclusive<u32> = 1..=1024;
const BATCH_BYTES: RangeInclusive<u32> = 1..=1 << 20;

/// The module's settings.
pub(crate) struct Config {
    /// Are packets of one flow received in batches?
    pub(crate) rx_batch: Switch,
    /// May a packet go straight onto the virtqueue?
    pub(crate) tx_fast_path: Switch,
    rx_batch_packets: Atomic<u32>,
    rx_batch_bytes: Atomic<u32>,
}

/// The settings in force.
pub(crate) static CONFIG: Config = Config {
    rx_batch: Switch(Atomic::new(true)),
    tx_fast_path: Switch(Atomic::new(true)),
    rx_batch_packets: Atomic::new(0),
    rx_batch_bytes: Atomic::new(0),
};

impl Config {
    /// The limits of a batch.
    pub(crate) fn rx_batch_limits(&self) -> Limits {
        // ORDERING: Set once, before there is a device.
        Limits {
            packets: read_once(&self.rx_batch_packets),
            bytes: read_once(&self.rx_batch_bytes),
        }
    }
}

/// Takes the settings over that the module was loaded with.
pub(crate) fn set_from_module_parameters() -> Result {
    let packets = in_range(
        "rx_batch_packets",
        module_parameters::rx_batch_packets.value(),
        &BATCH_PACKETS,
    )?;
    let bytes = in_range(
        "rx_batch_bytes",
        module_parameters::rx_batch_bytes.value(),
        &BATCH_BYTES,
    )?;
    // ORDERING: No device is served yet.
    CONFIG.rx_batch_packets.store(packets, Relaxed);
    CONFIG.rx_batch_bytes.store(bytes, Relaxed);
    CONFIG
        .tx_fast_path
        .set(module_parameters::tx_fast_path.value());
    Ok(())
}

/// `value`, if it is in `range`; otherwise says so in the kernel log.
fn in_range(name: &str, value: u32, range: &RangeInclusive<u32>) -> Result<u32> {
    if range.contains(&value) {
        return Ok(value);
    }
    pr_err!(
        "{name}={value} is out of range: {} to {}\n",
        range.start(),
        range.end()
    );
    Err(EINVAL)
}

#[kernel::macros::kunit_tests(virtio_vsock_rs_config)]
mod tests {
    use super::*;

    #[test]
    fn bounds_of_a_batch_have_bounds() {
        let table = [(&BATCH_PACKETS, 1024), (&BATCH_BYTES, 1048576)];
        for (range, most) in table {
            for value in [1, 2, most - 1, most] {
                assert_eq!(in_range("", value, range), Ok(value));
            }
            for value in [0, most + 1, u32::MAX] {
                assert!(!range.contains(&value));
            }
        }
    }

    #[test]
    fn what_the_module_was_loaded_with_is_in_force() {
        let limits = CONFIG.rx_batch_limits();
        assert_eq!(limits.packets, module_parameters::rx_batch_packets.value());
        assert_eq!(limits.bytes, module_parameters::rx_batch_bytes.value());
    }

    #[test]
    fn a_switch_shows_how_it_is_set() {
        let switch = Switch(Atomic::new(true));
        assert!(switch.is_on());
        switch.set(false);
        assert!(!switch.is_on());
        switch.set(true);
        assert!(switch.is_on());
    }
}
