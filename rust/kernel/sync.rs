// SPDX-License-Identifier: GPL-2.0

//! Synchronisation primitives that `kernel::sync` does not have.

pub mod lock;
pub mod rcu_slot;

pub use self::rcu_slot::{
    Published,
    RcuSlot, //
};
