// SPDX-License-Identifier: GPL-2.0

//! Networking.

pub mod skbuff;
pub mod sock;
