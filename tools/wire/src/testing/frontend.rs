// SPDX-License-Identifier: GPL-2.0
//! A guest behind a socket, with the vhost-user protocol that QEMU speaks.

use std::fs::File;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};
use std::path::Path;

use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::memfd::{MFdFlags, memfd_create};
use vhost::vhost_user::message::{VhostUserConfigFlags, VhostUserProtocolFeatures};
use vhost::vhost_user::{Frontend, VhostUserFrontend};
use vhost::{VhostBackend, VhostUserMemoryRegionInfo, VringConfigData};
use vm_memory::{FileOffset, GuestAddress, GuestMemoryMmap};
use vmm_sys_util::eventfd::{EFD_NONBLOCK, EventFd};

use super::driver::{Driver, MEMORY, RING};
use crate::port::Side;

/// Where QEMU would have mapped the guest's memory.
const MAPPED_AT: u64 = 0x7000_0000_0000;

/// How long anything may take, in milliseconds.
const LIMIT: u16 = 20_000;

/// A driver, and the socket between it and its device.
pub(crate) struct Qemu {
    frontend: Frontend,
    driver: Driver,
    memory: File,
    kicks: [EventFd; 2],
    calls: [EventFd; 2],
    /// What the device offered.
    pub(crate) features: u64,
}

impl Qemu {
    /// Connect and agree on everything; the driver is not loaded yet.
    pub(crate) fn connect(socket: &Path) -> Self {
        let memory = File::from(memfd_create(c"guest", MFdFlags::empty()).unwrap());
        memory.set_len(MEMORY).unwrap();
        let file = FileOffset::new(memory.try_clone().unwrap(), 0);
        let range = (GuestAddress(0), MEMORY as usize, Some(file));
        let map = GuestMemoryMmap::from_ranges_with_files([range]).unwrap();
        let event = |_| EventFd::new(EFD_NONBLOCK).unwrap();

        let mut frontend = Frontend::connect(socket, 2).unwrap();
        frontend.set_owner().unwrap();
        let features = frontend.get_features().unwrap();
        frontend.set_features(features).unwrap();
        let protocol = frontend.get_protocol_features().unwrap();
        assert!(protocol.contains(VhostUserProtocolFeatures::CONFIG));
        frontend.set_protocol_features(protocol).unwrap();
        Qemu {
            frontend,
            driver: Driver::new(map),
            memory,
            kicks: [0, 1].map(event),
            calls: [0, 1].map(event),
            features,
        }
    }

    /// The device's configuration space.
    pub(crate) fn config(&mut self, offset: u32, size: u32) -> Option<Vec<u8>> {
        let flags = VhostUserConfigFlags::WRITABLE;
        let answer = self
            .frontend
            .get_config(offset, size, flags, &vec![0; size as usize]);
        answer.ok().map(|(_, bytes)| bytes)
    }

    /// Load the driver: fresh rings, both running.
    pub(crate) fn start(&mut self) {
        self.driver.reset();
        let region = VhostUserMemoryRegionInfo {
            guest_phys_addr: 0,
            memory_size: MEMORY,
            userspace_addr: MAPPED_AT,
            mmap_offset: 0,
            mmap_handle: self.memory.as_raw_fd(),
        };
        self.frontend.set_mem_table(&[region]).unwrap();
        for side in [Side::Rx, Side::Tx] {
            let (queue, ring) = (side as usize, self.driver.ring(side));
            self.frontend.set_vring_num(queue, RING).unwrap();
            self.frontend.set_vring_base(queue, 0).unwrap();
            let config = VringConfigData {
                queue_max_size: RING,
                queue_size: RING,
                flags: 0,
                desc_table_addr: MAPPED_AT + ring.desc_address(),
                used_ring_addr: MAPPED_AT + ring.used_address(),
                avail_ring_addr: MAPPED_AT + ring.avail_address(),
                log_addr: None,
            };
            self.frontend.set_vring_addr(queue, &config).unwrap();
            self.frontend
                .set_vring_call(queue, &self.calls[queue])
                .unwrap();
            self.frontend
                .set_vring_kick(queue, &self.kicks[queue])
                .unwrap();
            self.frontend.set_vring_enable(queue, true).unwrap();
        }
    }

    /// Unload the driver. Returns how many chains the device had taken off each
    /// ring.
    pub(crate) fn stop(&mut self) -> [u32; 2] {
        [Side::Rx, Side::Tx].map(|side| self.frontend.get_vring_base(side as usize).unwrap())
    }

    pub(crate) fn kick(&self, side: Side) {
        self.kicks[side as usize].write(1).unwrap();
    }

    /// Wait for used entries that are new, as a driver does that wants an
    /// interrupt for the next one.
    #[track_caller]
    pub(crate) fn wait(&mut self, side: Side) {
        self.driver.want_next_used(side);
        let call = &self.calls[side as usize];
        while !self.driver.has_used(side) {
            // SAFETY: `call` owns the descriptor and outlives the borrow.
            let fd = unsafe { BorrowedFd::borrow_raw(call.as_raw_fd()) };
            let mut fds = [PollFd::new(fd.as_fd(), PollFlags::POLLIN)];
            let ready = poll(&mut fds, PollTimeout::from(LIMIT)).unwrap();
            assert_eq!(
                ready, 1,
                "no interrupt of the {side:?} queue came in {LIMIT} ms"
            );
            call.read().unwrap();
        }
    }
}

impl Deref for Qemu {
    type Target = Driver;

    fn deref(&self) -> &Driver {
        &self.driver
    }
}

impl DerefMut for Qemu {
    fn deref_mut(&mut self) -> &mut Driver {
        &mut self.driver
    }
}
