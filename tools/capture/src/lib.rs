// SPDX-License-Identifier: GPL-2.0
//! Captures of vsockmon, held against the protocol.
//!
//! [`file`] reads a capture as `tcpdump -w` leaves it, [`packet`] takes a frame apart, [`connection`]
//! knows what either end may send at any moment, and [`check`] takes a whole capture through it.
//!
//! The capture has to be one of the driver of a guest, from before the first connection on: a packet
//! that the guest sends is captured before the device has it, and one that it receives before the
//! guest acts on it. So each packet stands in the capture behind all that its sender knew.

#![forbid(unsafe_code)]

pub mod check;
pub mod connection;
pub mod file;
pub mod packet;
#[cfg(test)]
mod tests;

pub use check::{Opened, Summary, Violation, check};
pub use packet::{Address, Packet};
