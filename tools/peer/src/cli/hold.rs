// SPDX-License-Identifier: GPL-2.0
//! The options of sockets that are held.

use clap::Args;

use super::size;
use crate::plan::Kind;

/// What is held.
#[derive(Args, Clone, Debug)]
pub struct Hold {
    /// Connect to this port of the host.
    #[arg(long, required_unless_present = "listen")]
    pub connect: Option<u32>,
    /// Take all connections to this port.
    #[arg(long, conflicts_with = "connect")]
    pub listen: Option<u32>,
    /// Socket type.
    #[arg(long = "type", value_enum, default_value = "stream")]
    pub kind: Kind,
    /// How many connections to make; of those that come in, so many are held and older ones closed.
    /// With 0 none is taken, and they pile up.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(0..=4096))]
    pub count: u32,
    /// Read what comes, and throw it away.
    #[arg(long)]
    pub read: bool,
    /// Make a new connection for each that ends.
    #[arg(long)]
    pub again: bool,
    /// Bytes to write on each connection.
    #[arg(long, default_value_t = 0)]
    pub write: u64,
    /// SO_VM_SOCKETS_BUFFER_SIZE of every connection.
    #[arg(long, value_parser = size)]
    pub buffer_size: Option<u64>,
}
