// SPDX-License-Identifier: GPL-2.0
//! Faults that people met with other drivers.

mod connecting;
mod credit;
mod dma;
mod early;
mod ending;
mod fairness;
mod messages;
mod order;
mod replies;
mod zerocopy;

use crate::case::Case;

/// The cases of this file; those with a guest of their own come last.
pub(crate) fn cases() -> Vec<Case> {
    [
        credit::cases(),
        ending::cases(),
        connecting::cases(),
        fairness::cases(),
        early::cases(),
        zerocopy::cases(),
        messages::cases(),
        order::cases(),
        replies::cases(),
        dma::cases(),
    ]
    .into_iter()
    .flatten()
    .collect()
}
