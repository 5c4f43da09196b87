// SPDX-License-Identifier: GPL-2.0
//! Access to one queue of a guest.

use std::sync::MutexGuard;
use std::sync::atomic::{Ordering, fence};

use vhost_user_backend::{VringMutex, VringState, VringT};
use virtio_bindings::bindings::virtio_ring::VRING_AVAIL_F_NO_INTERRUPT;
use virtio_queue::{QueueOwnedT, QueueT};
use vm_memory::{
    Address, Bytes, GuestAddress, GuestAddressSpace, GuestMemoryAtomic, GuestMemoryMmap,
};

use crate::args::UsedBatch;
use crate::chain::{Chain, Mapped};
use crate::stats::QueueStats;

/// A guest's memory, as QEMU shares it now.
pub type Memory = GuestMemoryAtomic<GuestMemoryMmap>;

/// A guest's queue, as the vhost-user protocol sets it up.
pub type Vring = VringMutex<Memory>;

/// The guest has put nonsense into the ring itself. There is nothing sensible
/// to do with such a ring until the guest has reset it.
#[derive(Debug, PartialEq, Eq)]
pub struct Broken;

impl From<virtio_queue::Error> for Broken {
    fn from(error: virtio_queue::Error) -> Self {
        log::warn!("a guest's ring is broken and rests until it is reset: {error}");
        Broken
    }
}

/// One of the two queues of a guest that the device serves.
#[derive(Clone)]
pub struct GuestQueue {
    vring: Vring,
    memory: Memory,
}

impl GuestQueue {
    /// The queue behind `vring`, in a guest's `memory`.
    pub fn new(vring: Vring, memory: Memory) -> Self {
        GuestQueue { vring, memory }
    }

    /// Whether the guest's driver has set the queue up and QEMU lets it run.
    pub fn is_live(&self) -> bool {
        let state = self.vring.get_ref();
        state.is_enabled() && state.get_queue().ready()
    }

    /// Begin a round of work on the queue, unless it rests.
    ///
    /// The queue is locked until the round is over. Nobody may have rounds on
    /// two queues at once: that is what keeps two guests from waiting for each
    /// other's locks.
    pub fn open<'a>(&'a self, batch: UsedBatch, stats: &'a mut QueueStats) -> Option<Round<'a>> {
        let round = self.open_stopped(batch, stats);
        let live = round.state.is_enabled() && round.state.get_queue().ready();
        live.then_some(round)
    }

    /// Begin a round on a queue that is being stopped, to give back what is
    /// left of it. The guest still waits for this, so that the ring is its
    /// driver's.
    pub fn open_stopped<'a>(&'a self, batch: UsedBatch, stats: &'a mut QueueStats) -> Round<'a> {
        let state = self.vring.get_mut();
        let used_before = state.get_queue().next_used();
        let limit = batch.limit(state.get_queue().size());
        Round {
            memory: self.memory.memory(),
            state,
            unpublished: Vec::new(),
            limit,
            used_before,
            stats,
        }
    }
}

/// A round of work on a queue: chains are taken, used entries are given back.
///
/// Used entries are published in batches, and the guest gets one interrupt at
/// most, when the round is dropped.
pub struct Round<'a> {
    state: MutexGuard<'a, VringState<Memory>>,
    memory: Mapped,
    unpublished: Vec<Used>,
    limit: usize,
    used_before: u16,
    stats: &'a mut QueueStats,
}

/// A used entry.
#[derive(Clone, Copy)]
struct Used {
    head: u16,
    len: u32,
}

impl Round<'_> {
    /// The memory in which this round's chains lie.
    pub fn memory(&self) -> &Mapped {
        &self.memory
    }

    /// Entries in the ring.
    pub fn size(&self) -> u16 {
        self.state.get_queue().size()
    }

    /// Publish the used entries to come in batches of this size.
    pub fn set_batch(&mut self, batch: UsedBatch) {
        self.limit = batch.limit(self.size());
    }

    /// Ask the guest not to kick: the queue is being looked at anyway.
    pub fn silence(&mut self) -> Result<(), Broken> {
        Ok(self
            .state
            .get_queue_mut()
            .disable_notification(&*self.memory)?)
    }

    /// Take the next chain. None says that the ring is empty and the guest
    /// will kick when it adds to it.
    pub fn take(&mut self) -> Result<Option<Chain>, Broken> {
        if let Some(chain) = self.pop()? {
            return Ok(Some(chain));
        }
        // What is done must be visible before this side goes to sleep.
        self.publish();
        let queue = self.state.get_queue_mut();
        if !queue.enable_notification(&*self.memory)? {
            return Ok(None);
        }
        queue.disable_notification(&*self.memory)?;
        // The guest said that there is one. If there is none now, it lies, and
        // it must not keep this side busy with it.
        self.pop()?.map(Some).ok_or(Broken)
    }

    fn pop(&mut self) -> Result<Option<Chain>, Broken> {
        let queue = self.state.get_queue_mut();
        Ok(queue.iter(self.memory.clone())?.next())
    }

    /// Give a chain back with `len` bytes written into it.
    pub fn give_back(&mut self, head: u16, len: u32) {
        if head >= self.size() {
            // The guest offered a chain that it does not have.
            return;
        }
        self.unpublished.push(Used { head, len });
        if self.unpublished.len() >= self.limit {
            self.publish();
        }
    }

    /// Show the guest all that was given back.
    fn publish(&mut self) {
        let Some((last, rest)) = self.unpublished.split_last() else {
            return;
        };
        let count = self.unpublished.len();
        let queue = self.state.get_queue_mut();
        let first = queue.next_used();
        // The entries before the last are written where they belong, unseen;
        // with the last one the crate moves the index past all of them.
        let written = rest.iter().enumerate().try_for_each(|(i, used)| {
            let slot = u64::from(first.wrapping_add(i as u16) % queue.size());
            let address = GuestAddress(queue.used_ring())
                .checked_add(4 + slot * 8)
                .ok_or(virtio_queue::Error::AddressOverflow)?;
            let entry = u64::from(used.head) | (u64::from(used.len) << 32);
            self.memory
                .write_obj(entry.to_le(), address)
                .map_err(virtio_queue::Error::GuestMemory)
        });
        queue.set_next_used(first.wrapping_add(rest.len() as u16));
        let done = written.and_then(|()| queue.add_used(&*self.memory, last.head, last.len));
        match done {
            Ok(()) => {
                self.stats.used += count as u64;
                self.stats.publications += 1;
            }
            // The ring lies outside of the guest's memory; nobody can be told.
            Err(error) => log::warn!("a guest's used ring cannot be written: {error}"),
        }
        self.unpublished.clear();
    }

    /// Publish used entries, a buffer's number and a length each, whether they
    /// are true or not: for a device that lies. What was given back is shown first.
    pub fn publish_as_told(&mut self, entries: &[(u32, u32)]) -> Result<(), Broken> {
        self.publish();
        let size = self.size();
        for entries in entries.chunks(size.into()) {
            let queue = self.state.get_queue_mut();
            let first = queue.next_used();
            let base = GuestAddress(queue.used_ring());
            let at = |offset| {
                base.checked_add(offset)
                    .ok_or(virtio_queue::Error::AddressOverflow)
            };
            for (i, (id, len)) in entries.iter().enumerate() {
                let slot = u64::from(first.wrapping_add(i as u16) % size);
                let entry = u64::from(*id) | (u64::from(*len) << 32);
                self.memory
                    .write_obj(entry.to_le(), at(4 + slot * 8)?)
                    .map_err(virtio_queue::Error::GuestMemory)?;
            }
            let next = first.wrapping_add(entries.len() as u16);
            self.memory
                .store(next.to_le(), at(2)?, Ordering::Release)
                .map_err(virtio_queue::Error::GuestMemory)?;
            queue.set_next_used(next);
            self.stats.used += entries.len() as u64;
            self.stats.publications += 1;
        }
        Ok(())
    }

    /// Interrupt the guest, whether it wants that or not.
    pub fn interrupt(&mut self) {
        self.stats.signals += 1;
        if let Err(error) = self.state.signal_used_queue() {
            log::warn!("a guest cannot be interrupted: {error}");
        }
    }

    /// Whether the guest has dealt with all that was published, as far as it
    /// tells: it asks to be told about the next entry.
    pub fn is_all_seen(&self) -> bool {
        let queue = self.state.get_queue();
        let event = GuestAddress(queue.avail_ring())
            .checked_add(4 + 2 * u64::from(queue.size()))
            .and_then(|address| self.memory.load::<u16>(address, Ordering::Acquire).ok());
        queue.event_idx_enabled() && event.map(u16::from_le) == Some(queue.next_used())
    }

    /// Whether the guest wants an interrupt for what was published.
    ///
    /// The crate's own answer does not fit batches, and leaves out the flag of
    /// guests without EVENT_IDX.
    fn wants_signal(&self) -> bool {
        let queue = self.state.get_queue();
        let (old, new) = (self.used_before, queue.next_used());
        if old == new {
            return false;
        }
        let avail = |offset| {
            GuestAddress(queue.avail_ring())
                .checked_add(offset)
                .and_then(|address| self.memory.load(address, Ordering::Relaxed).ok())
                .map(u16::from_le)
        };
        // The used index must be visible before the guest's wish is read: the
        // guest writes its wish, then looks at the index again.
        fence(Ordering::SeqCst);
        if queue.event_idx_enabled() {
            // Unreadable wishes are taken for a yes.
            avail(4 + 2 * u64::from(queue.size())).is_none_or(|event| event_passed(event, old, new))
        } else {
            avail(0).is_none_or(|flags| u32::from(flags) & VRING_AVAIL_F_NO_INTERRUPT == 0)
        }
    }
}

impl Drop for Round<'_> {
    fn drop(&mut self) {
        self.publish();
        if self.wants_signal() {
            self.stats.signals += 1;
            if let Err(error) = self.state.signal_used_queue() {
                log::warn!("a guest cannot be interrupted: {error}");
            }
        }
    }
}

/// `vring_need_event`: whether an index that moved from `old` to `new` passed
/// the one that the guest asked to be told about.
fn event_passed(event: u16, old: u16, new: u16) -> bool {
    new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old)
}

#[cfg(test)]
mod tests {
    use super::event_passed;

    #[test]
    fn events_are_seen_when_passed_and_across_the_wrap() {
        assert!(event_passed(5, 5, 6));
        assert!(event_passed(5, 3, 9));
        assert!(!event_passed(6, 5, 6));
        assert!(!event_passed(4, 5, 6));
        assert!(event_passed(0xffff, 0xfffe, 2));
        assert!(event_passed(1, 0xfffe, 2));
        assert!(!event_passed(2, 0xfffe, 2));
    }
}
