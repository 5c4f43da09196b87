// SPDX-License-Identifier: GPL-2.0
//! A vhost-user vsock device that joins guests by passing packets between them.
//!
//! [`wire`] is the heart: it takes packets from each [`port`] and delivers them
//! to others, in order, nothing merged, nothing lost. A receiver without room
//! holds back its senders' TX descriptors, and nobody else's. What goes where
//! ([`route`]) and how packets are split ([`packet`]) is decided without a
//! guest at hand; [`service`] is what the host itself offers to its guests, and
//! [`hostile`] what it does to them that no honest host would; [`queue`] and
//! [`chain`] reach into guest memory; [`device`] and [`serve`] speak vhost-user
//! with QEMU.

#![cfg_attr(not(test), forbid(unsafe_code))]

pub mod args;
pub mod chain;
pub mod device;
pub mod header;
pub mod hostile;
pub mod packet;
pub mod port;
pub mod queue;
pub mod route;
mod run;
pub mod serve;
pub mod service;
pub mod socket;
pub mod stats;
pub mod wire;

#[cfg(test)]
mod testing;

pub use args::{Args, OnOff, PortSpec, UsedBatch};
pub use run::run;
