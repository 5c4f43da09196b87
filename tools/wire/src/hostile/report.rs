// SPDX-License-Identifier: GPL-2.0
//! What came of a script.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use super::value::CONSTANTS;

/// What came of a script.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Why it ended before its end, if it did.
    pub error: Option<String>,
    /// Used entries that it showed the guest.
    pub sent: u64,
    /// Packets that no honest device sends: of no connection, or with a header or a used length that
    /// is not right. Those beyond what a socket has room for, and those out of order, are not among them.
    pub wrong: u64,
    /// How often it moved the used index for them.
    pub publications: u64,
    /// How long it ran.
    pub seconds: f64,
    /// Seconds for which it waited for packets of the guest at the longest.
    pub slowest: f64,
    /// What the guest sent, by connection and operation. What belongs to no
    /// connection stands under [`OTHERS`].
    pub answers: BTreeMap<String, Answers>,
}

/// How many packets, by operation.
pub type Answers = BTreeMap<String, u64>;

/// The name under which packets of no connection are counted.
pub const OTHERS: &str = "others";

/// What a report calls an operation.
pub fn op_name(op: u16) -> String {
    let named = CONSTANTS[..7]
        .iter()
        .find(|(_, number)| *number == u64::from(op));
    named.map_or_else(|| format!("op {op}"), |(name, _)| (*name).to_owned())
}
