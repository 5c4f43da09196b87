// SPDX-License-Identifier: GPL-2.0

//! Synchronisation primitives that `kernel::sync` does not have.

pub mod lock;
mod once;
pub mod rcu_slot;

pub use self::{
    once::{
        read_once,
        write_once, //
    },
    rcu_slot::{
        Published,
        RcuSlot, //
    },
};
