// SPDX-License-Identifier: GPL-2.0

//! Names of the virtio-serial ports.

/// Carries requests and notes.
pub const AGENT: &str = "lab.agent";
/// Carries the heartbeat: one line each [`BEAT_EVERY`].
pub const BEAT: &str = "lab.beat";

/// Time between two heartbeats.
pub const BEAT_EVERY: std::time::Duration = std::time::Duration::from_millis(250);
