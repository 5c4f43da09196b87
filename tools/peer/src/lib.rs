// SPDX-License-Identifier: GPL-2.0
//! Byte-exact AF_VSOCK transfers: what either end of a test runs.
//!
//! Every payload byte is a function of the seed, the connection, the sending
//! side and the offset, so the receiving end compares each byte at its own
//! offset without talking to the sender. The program `vsock-peer` is this
//! library with a command line; whoever starts it uses [`plan::Plan`] to make
//! that command line and [`report::Report`] to read what it prints.

#![forbid(unsafe_code)]

pub mod block;
pub mod churn;
pub mod cli;
pub mod datagrams;
pub mod dial;
pub mod echo;
pub mod habits;
pub mod hold;
pub mod latency;
pub mod leave;
pub mod pattern;
pub mod ping;
pub mod plan;
pub mod pledge;
pub mod progress;
pub mod receive;
pub mod report;
pub mod run;
pub mod send;
pub mod socket;
pub mod sockmap;
pub mod tally;
#[cfg(test)]
mod tests;
pub mod threads;
pub mod usage;
pub mod zerocopy;
