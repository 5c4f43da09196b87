// SPDX-License-Identifier: GPL-2.0

//! Bytes as base64 text, because output and files need not be UTF-8.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde::{Deserialize, Deserializer, Serializer};

pub(crate) fn serialize<S: Serializer>(bytes: &[u8], out: S) -> Result<S::Ok, S::Error> {
    out.serialize_str(&STANDARD.encode(bytes))
}

pub(crate) fn deserialize<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<u8>, D::Error> {
    let text = std::borrow::Cow::<'de, str>::deserialize(input)?;
    STANDARD
        .decode(text.as_bytes())
        .map_err(serde::de::Error::custom)
}
