// SPDX-License-Identifier: GPL-2.0
//! A guest at a wire, without the protocol between them.

use std::fs::File;
use std::io::Read;
use std::ops::{Deref, DerefMut};
use std::os::fd::OwnedFd;

use nix::sys::eventfd::{EfdFlags, EventFd};
use vhost_user_backend::VringT;
use vm_memory::{GuestAddress, GuestMemoryMmap};

use super::driver::{Driver, MEMORY, RING};
use crate::header::Header;
use crate::port::Side;
use crate::queue::{Memory, Vring};
use crate::route::PortId;
use crate::wire::Wire;

/// A driver, and what its device sees of it.
pub(crate) struct Guest {
    pub(crate) port: PortId,
    driver: Driver,
    memory: Memory,
    vrings: [Vring; 2],
    calls: [File; 2],
}

impl Guest {
    /// A guest at a port of `wire`, its driver loaded, with EVENT_IDX.
    pub(crate) fn new(wire: &mut Wire, port: usize) -> Self {
        Self::with_event_idx(wire, port, true)
    }

    pub(crate) fn with_event_idx(wire: &mut Wire, port: usize, on: bool) -> Self {
        let map: GuestMemoryMmap =
            GuestMemoryMmap::from_ranges(&[(GuestAddress(0), MEMORY as usize)]).unwrap();
        let memory = Memory::new(map.clone());
        let driver = Driver::new(map);
        let calls = [Side::Rx, Side::Tx].map(|_| {
            let call = EventFd::from_flags(EfdFlags::EFD_NONBLOCK).unwrap();
            File::from(OwnedFd::from(call))
        });
        let vrings = [Side::Rx, Side::Tx].map(|side| {
            let vring = Vring::new(memory.clone(), RING).unwrap();
            let ring = driver.ring(side);
            vring.set_queue_size(RING);
            vring
                .set_queue_info(
                    ring.desc_address(),
                    ring.avail_address(),
                    ring.used_address(),
                )
                .unwrap();
            vring.set_queue_event_idx(on);
            vring.set_call(Some(calls[side as usize].try_clone().unwrap()));
            vring.set_enabled(true);
            vring
        });
        let port = PortId(port);
        let mut guest = Guest {
            port,
            driver,
            memory,
            vrings,
            calls,
        };
        wire.connect(port);
        guest.start(wire);
        guest
    }

    /// Load the driver: fresh rings, both running.
    pub(crate) fn start(&mut self, wire: &mut Wire) {
        self.driver.reset();
        for side in [Side::Rx, Side::Tx] {
            let vring = &self.vrings[side as usize];
            vring.set_queue_next_avail(0);
            vring.set_queue_next_used(0);
            vring.set_queue_ready(true);
            self.kick(wire, side);
        }
    }

    /// Unload the driver, as QEMU tells it to the device.
    pub(crate) fn stop(&mut self, wire: &mut Wire) {
        for side in [Side::Rx, Side::Tx] {
            self.vrings[side as usize].set_queue_ready(false);
            wire.stop(self.port, side);
            while wire.work() {}
        }
    }

    pub(crate) fn kick(&self, wire: &mut Wire, side: Side) {
        wire.kick(self.port, side, &self.vrings, &self.memory);
        while wire.work() {}
    }

    /// Put a packet on the TX ring and kick.
    pub(crate) fn send(&mut self, wire: &mut Wire, header: &Header, payload: &[u8]) -> u16 {
        let head = self.queue(header, payload);
        self.kick(wire, Side::Tx);
        head
    }

    /// Whether there was an interrupt since this was asked last.
    pub(crate) fn interrupted(&mut self, side: Side) -> bool {
        self.calls[side as usize].read(&mut [0; 8]).is_ok()
    }
}

impl Deref for Guest {
    type Target = Driver;

    fn deref(&self) -> &Driver {
        &self.driver
    }
}

impl DerefMut for Guest {
    fn deref_mut(&mut self) -> &mut Driver {
        &mut self.driver
    }
}
