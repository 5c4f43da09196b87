// SPDX-License-Identifier: GPL-2.0
//! The options of connections that are made again and again.

use std::time::Duration;

use clap::Args;

use super::{io_size, size};
use crate::churn::Churn;
use crate::plan::Kind;

/// What connections that are made again and again are like.
#[derive(Args, Debug)]
pub(super) struct ChurnOptions {
    /// Socket type.
    #[arg(long = "type", value_enum, default_value = "stream")]
    kind: Kind,
    /// Connections that are kept up at once.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1000))]
    connections: u32,
    /// Payload of one connection in each direction.
    #[arg(long, default_value = "1M", value_parser = size)]
    bytes: u64,
    /// Bytes of one write.
    #[arg(long, default_value = "4K", value_parser = io_size)]
    write_size: usize,
    /// Milliseconds for which a connection may stand still.
    #[arg(long, default_value_t = 20_000)]
    patience: u64,
    /// Only give up a connection that stands still for longer, as its peer may vanish.
    #[arg(long)]
    give_up: bool,
}

impl ChurnOptions {
    /// What they ask for.
    pub(super) fn churn(&self) -> Churn {
        Churn {
            kind: self.kind,
            connections: self.connections,
            bytes: self.bytes,
            write_size: self.write_size,
            patience: Duration::from_millis(self.patience),
            give_up: self.give_up,
        }
    }
}
