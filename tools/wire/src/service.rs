// SPDX-License-Identifier: GPL-2.0
//! Services of the host, at CID 2 as each guest sees it: sources and sinks that
//! run natively, so that an emulated guest is the bottleneck.
//!
//! [`host`] finds the connection of a packet, [`connection`] speaks the
//! protocol, [`credit`] counts, and [`behaviour`] makes and takes payload.

pub mod behaviour;
pub mod connection;
pub mod credit;
pub mod host;
pub mod report;
pub mod spec;
