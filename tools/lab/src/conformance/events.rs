// SPDX-License-Identifier: GPL-2.0
//! What happens to a guest and its device in their life, under traffic in both directions.

mod binding;
mod blocked;
mod boot;
mod heard;
mod hotplug;
mod kill;
mod reset;
mod rounds;
mod surprise;
mod suspend;
mod told;
mod traffic;

use crate::case::Case;
pub(super) use rounds::leaves_nothing;

/// The cases of this file.
pub(crate) fn cases() -> Vec<Case> {
    [
        binding::cases(),
        hotplug::cases(),
        surprise::cases(),
        reset::cases(),
        kill::cases(),
        boot::cases(),
        suspend::cases(),
        told::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
