// SPDX-License-Identifier: GPL-2.0
//! The options of zero-copy sends that are completed late.

use clap::Args;

use super::io_size;

/// What is sent, and where to.
#[derive(Args, Clone, Debug)]
pub struct Pledge {
    /// Context ID of the receiver.
    #[arg(long)]
    pub cid: u32,
    /// Its port.
    #[arg(long)]
    pub port: u32,
    /// How many sends to make.
    #[arg(long)]
    pub sends: u32,
    /// Bytes of each, all of them together no more than the receiver has room for.
    #[arg(long, value_parser = io_size)]
    pub size: usize,
}
