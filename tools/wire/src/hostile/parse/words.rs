// SPDX-License-Identifier: GPL-2.0
//! The words of a line.

use std::vec::IntoIter;

use crate::hostile::script::Field;
use crate::hostile::value::{Value, number};

/// The words of a line after its first, not used yet.
pub(super) struct Words<'a> {
    bare: IntoIter<&'a str>,
    pairs: Vec<(&'a str, &'a str)>,
}

impl<'a> Words<'a> {
    /// The words of the rest of a line.
    pub(super) fn of(rest: &'a str) -> Result<Self, String> {
        let (mut bare, mut pairs) = (Vec::new(), Vec::new());
        for word in rest.split_whitespace() {
            match word.split_once('=') {
                None => bare.push(word),
                Some((key, _)) if pairs.iter().any(|(other, _)| *other == key) => {
                    return Err(format!("{key}= stands twice"));
                }
                Some(pair) => pairs.push(pair),
            }
        }
        Ok(Words {
            bare: bare.into_iter(),
            pairs,
        })
    }

    /// The next word that is no pair.
    pub(super) fn bare(&mut self) -> Option<&'a str> {
        self.bare.next()
    }

    /// A connection's name.
    pub(super) fn name(&mut self) -> Result<String, String> {
        let name = self.bare().ok_or("give the connection a name")?;
        Ok(name.to_owned())
    }

    /// The next word that is no pair: a number, which is called `what` if it is missing.
    pub(super) fn bare_number(&mut self, what: &str) -> Result<u64, String> {
        let number = self.bare().and_then(number);
        number.ok_or(format!("give {what}, a number"))
    }

    /// The text of `key=text`.
    pub(super) fn take(&mut self, key: &str) -> Option<&'a str> {
        let at = self.pairs.iter().position(|(other, _)| *other == key)?;
        Some(self.pairs.remove(at).1)
    }

    /// The number of `key=number`.
    pub(super) fn number(&mut self, key: &str) -> Result<Option<u64>, String> {
        let Some(text) = self.take(key) else {
            return Ok(None);
        };
        let number = number(text).ok_or(format!("{key}={text}: '{text}' is no number"));
        number.map(Some)
    }

    /// The value of `key=value`.
    pub(super) fn value(&mut self, key: &str) -> Result<Option<Value>, String> {
        let value = self.take(key).map(|text| {
            let value = text.parse();
            value.map_err(|why| format!("{key}={text}: {why}"))
        });
        value.transpose()
    }

    /// The port of `key=port`, which has to be there.
    pub(super) fn port(&mut self, key: &str) -> Result<u32, String> {
        let number = self.number(key)?.ok_or(format!("{key}=PORT is missing"))?;
        as_port(number)
    }

    /// Whether `key=yes` or `key=no`.
    pub(super) fn switch(&mut self, key: &str, usual: bool) -> Result<bool, String> {
        match self.take(key) {
            None => Ok(usual),
            Some("yes") => Ok(true),
            Some("no") => Ok(false),
            Some(other) => Err(format!("{key}={other}: say yes or no")),
        }
    }

    /// Whether `type=seqpacket`, and not `type=stream`, as it is without.
    pub(super) fn seqpacket(&mut self) -> Result<bool, String> {
        match self.take("type") {
            None | Some("stream") => Ok(false),
            Some("seqpacket") => Ok(true),
            Some(other) => Err(format!("type={other}: say stream or seqpacket")),
        }
    }

    /// All fields that are given a value, of those that may be.
    pub(super) fn fields(
        &mut self,
        may: impl Fn(Field) -> bool,
    ) -> Result<Vec<(Field, Value)>, String> {
        let mut fields = Vec::new();
        for (field, name) in Field::NAMES {
            if !may(field) {
                continue;
            }
            if let Some(value) = self.value(name)? {
                fields.push((field, value));
            }
        }
        Ok(fields)
    }

    /// Nothing may be left over.
    pub(super) fn finish(mut self, verb: &str) -> Result<(), String> {
        let pair = self
            .pairs
            .first()
            .map(|(key, value)| format!("{key}={value}"));
        match pair.or_else(|| self.bare().map(str::to_owned)) {
            None => Ok(()),
            Some(word) => Err(format!("'{word}' is not understood after '{verb}'")),
        }
    }
}

/// A number that is small enough for a port, or a count.
pub(super) fn as_port(number: u64) -> Result<u32, String> {
    u32::try_from(number).map_err(|_| format!("{number} is not below 2^32"))
}
