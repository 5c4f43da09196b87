// SPDX-License-Identifier: GPL-2.0

//! Networking.

pub mod page_pool;
pub mod skbuff;
pub mod sock;
