// SPDX-License-Identifier: GPL-2.0

//! A virtqueue that owns what it carries.

use super::{
    Device,
    QueueSet, //
};
use crate::{
    bindings,
    gfp::Gfp,
    scatterlist::{
        Framing,
        ScatterList, //
    },
};
use core::{
    marker::PhantomData,
    ptr::NonNull, //
};
use kernel::{
    device,
    error::to_result,
    prelude::*,
    sync::Arc, //
};

/// Which way a queue's buffers go.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// The device reads them.
    ToDevice,
    /// The device writes them.
    FromDevice,
}

/// A buffer that a device may be given.
///
/// A [`Virtqueue`] owns the tokens that the device has: what is put in comes out again as the same
/// value, once.
///
/// # Safety
///
/// - [`Token::from_raw`] of what [`Token::into_raw`] returned has to give the same token back.
/// - The memory that [`Token::describe`] lists must belong to the token, and stay valid and unused
///   by others while only the raw pointer exists; the device may read it, or write it if
///   [`Token::DIRECTION`] is [`Direction::FromDevice`], at any time until then.
pub unsafe trait Token: Sized + Send {
    /// Which way these buffers go.
    const DIRECTION: Direction;

    /// Turns the token into a pointer that owns it.
    fn into_raw(self) -> NonNull<c_void>;

    /// Turns the pointer into the token again.
    ///
    /// # Safety
    ///
    /// `raw` must come from [`Token::into_raw`] of the same type, and be given up by the caller.
    unsafe fn from_raw(raw: NonNull<c_void>) -> Self;

    /// Lists the memory that the device is to get.
    ///
    /// That is one piece at least. Fails with `ENOSPC` if it is more than a [`ScatterList`] holds.
    fn describe(&mut self, sg: &mut ScatterList) -> Result;
}

/// A virtqueue whose buffers are `T`s.
///
/// C requires that calls for one queue do not overlap; here they take `&mut self`. Dropping the
/// queue resets the device, drops all tokens that it still has, and may sleep.
///
/// # Invariants
///
/// - `vq` is a valid virtqueue of `set`'s device, and this value alone uses it.
/// - Each buffer in it is a `T` that was turned into a pointer, and is owned by the queue.
pub struct Virtqueue<T: Token> {
    vq: NonNull<bindings::virtqueue>,
    set: Arc<QueueSet>,
    framing: Framing,
    _tokens: PhantomData<T>,
}

// SAFETY: A virtqueue may be used from any thread, by one at a time; tokens are `Send`.
unsafe impl<T: Token> Send for Virtqueue<T> {}

impl<T: Token> Virtqueue<T> {
    /// # Safety
    ///
    /// `vq` must be a valid and empty virtqueue of `set`'s device that nobody else uses.
    pub(super) unsafe fn from_raw(vq: NonNull<bindings::virtqueue>, set: Arc<QueueSet>) -> Self {
        let framing = set.device().framing();
        // INVARIANT: By the requirements of this function.
        Self {
            vq,
            set,
            framing,
            _tokens: PhantomData,
        }
    }

    /// Gives `token` to the device, or gives it back with the reason.
    ///
    /// `ENOSPC`: the ring has no room. `ENOMEM`: no memory for an indirect table, or no DMA
    /// mapping. `EIO`: the device is broken. Does not tell the device; see [`Virtqueue::kick`].
    ///
    /// Stands for `virtqueue_add_inbuf()` and `virtqueue_add_outbuf()`.
    #[doc(alias = "virtqueue_add_inbuf")]
    #[doc(alias = "virtqueue_add_outbuf")]
    #[inline]
    pub fn add(&mut self, mut token: T, gfp: Gfp) -> Result<(), (T, Error)> {
        let mut sg = ScatterList::new(self.framing);
        // `virtqueue_add()` has a `BUG_ON()` for a buffer without memory; such a list has no table.
        let (table, entries) = match token.describe(&mut sg).and_then(|()| sg.table()) {
            Ok(table) => table,
            Err(err) => return Err((token, err)),
        };
        let add = match T::DIRECTION {
            Direction::ToDevice => bindings::virtqueue_add_outbuf,
            Direction::FromDevice => bindings::virtqueue_add_inbuf,
        };
        let raw = token.into_raw();
        // INVARIANT: On success the queue owns the token behind `raw`.
        //
        // SAFETY:
        // - By the type invariant `vq` is valid and not in use elsewhere.
        // - `table` has `entries` entries, one at least, and the memory they describe is valid, by
        //   the contract of `Token`, until the token comes back.
        let ret = unsafe { add(self.vq.as_ptr(), table, entries, raw.as_ptr(), gfp.as_raw()) };
        if ret == 0 {
            // Spares `to_result`, which is a call.
            return Ok(());
        }
        to_result(ret).map_err(|err| {
            // SAFETY: The queue did not take `raw`, which came from `into_raw` above.
            (unsafe { T::from_raw(raw) }, err)
        })
    }

    /// The number of descriptors that are free.
    #[inline]
    pub fn num_free(&self) -> u32 {
        // SAFETY: By the type invariant `vq` is valid; the field changes only in calls for this
        // queue, which `&self` excludes.
        unsafe { (*self.vq.as_ptr()).num_free }
    }

    /// The device that the queue belongs to.
    pub fn device(&self) -> &Device<device::Bound> {
        self.set.device()
    }

    /// Tells the device that there are new buffers, unless it asked not to be told.
    #[doc(alias = "virtqueue_kick")]
    #[inline]
    pub fn kick(&mut self) {
        // SAFETY: By the type invariant `vq` is valid and not in use elsewhere. It returns false
        // for a broken device, which no caller could do anything about.
        unsafe { bindings::virtqueue_kick(self.vq.as_ptr()) };
    }

    /// Takes a buffer that the device is done with, and how many bytes it says it wrote.
    ///
    /// That number is the device's word, and may be anything.
    #[doc(alias = "virtqueue_get_buf")]
    #[inline]
    pub fn get_buf(&mut self) -> Option<(T, u32)> {
        let mut len = 0;
        // SAFETY: By the type invariant `vq` is valid and not in use elsewhere.
        let raw = unsafe { bindings::virtqueue_get_buf(self.vq.as_ptr(), &mut len) };
        let raw = NonNull::new(raw)?;
        // SAFETY: By the type invariant each buffer is a `T`, which the queue gives up here. The
        // core never returns a buffer twice, whatever the device writes into the used ring.
        Some((unsafe { T::from_raw(raw) }, len))
    }

    /// Asks the device for no interrupts; it need not comply.
    #[doc(alias = "virtqueue_disable_cb")]
    #[inline]
    pub fn disable_cb(&mut self) {
        // SAFETY: By the type invariant `vq` is valid and not in use elsewhere.
        unsafe { bindings::virtqueue_disable_cb(self.vq.as_ptr()) }
    }

    /// Asks for interrupts again.
    ///
    /// False if there are used buffers by now, for which no interrupt may come.
    #[doc(alias = "virtqueue_enable_cb")]
    #[must_use]
    #[inline]
    pub fn enable_cb(&mut self) -> bool {
        // SAFETY: By the type invariant `vq` is valid and not in use elsewhere.
        unsafe { bindings::virtqueue_enable_cb(self.vq.as_ptr()) }
    }
}

impl<T: Token> Drop for Virtqueue<T> {
    fn drop(&mut self) {
        self.set.reset();
        loop {
            // SAFETY: By the type invariant `vq` is valid and not in use elsewhere, and the device
            // was reset.
            let raw = unsafe { bindings::virtqueue_detach_unused_buf(self.vq.as_ptr()) };
            let Some(raw) = NonNull::new(raw) else { break };
            // SAFETY: By the type invariant each buffer is a `T`, which the queue gives up here.
            drop(unsafe { T::from_raw(raw) });
        }
    }
}
