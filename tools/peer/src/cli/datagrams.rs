// SPDX-License-Identifier: GPL-2.0
//! The options of a payload that leaves as UNIX datagrams.

use std::path::PathBuf;

use clap::Args;

use super::{io_size, size};

/// What is sent, and where to.
#[derive(Args, Clone, Debug)]
pub struct Datagrams {
    /// The path of the receiver.
    #[arg(long)]
    pub to: PathBuf,
    /// Bytes in all.
    #[arg(long, default_value = "1M", value_parser = size)]
    pub bytes: u64,
    /// Bytes of a datagram.
    #[arg(long, default_value = "1K", value_parser = io_size)]
    pub size: usize,
    /// What the payload is made from.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Send an empty datagram before each.
    #[arg(long)]
    pub empty: bool,
}
