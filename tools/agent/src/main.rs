// SPDX-License-Identifier: GPL-2.0
//! Placeholder.
fn main() {}
