// SPDX-License-Identifier: GPL-2.0
//! Values in a script: numbers, what would be right, and random draws.

use std::fmt;
use std::str::FromStr;

use fastrand::Rng;

use crate::header::{
    FLAG_EOM, FLAG_EOR, SHUTDOWN_BOTH, SHUTDOWN_RCV, SHUTDOWN_SEND, TYPE_SEQPACKET, TYPE_STREAM, op,
};

/// Numbers that have names.
pub const CONSTANTS: [(&str, u64); 16] = [
    ("request", op::REQUEST as u64),
    ("response", op::RESPONSE as u64),
    ("rst", op::RST as u64),
    ("shutdown", op::SHUTDOWN as u64),
    ("rw", op::RW as u64),
    ("credit_update", op::CREDIT_UPDATE as u64),
    ("credit_request", op::CREDIT_REQUEST as u64),
    ("stream", TYPE_STREAM as u64),
    ("seqpacket", TYPE_SEQPACKET as u64),
    ("eom", FLAG_EOM as u64),
    ("eor", FLAG_EOR as u64),
    ("rcv", SHUTDOWN_RCV as u64),
    ("send", SHUTDOWN_SEND as u64),
    ("both", SHUTDOWN_BOTH as u64),
    ("host", 2),
    ("max", u32::MAX as u64),
];

/// A number that may depend on the moment at which it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// Always the same.
    Number(u64),
    /// Terms that are added, or subtracted where the flag is set; all of it
    /// wraps as the field does that it is for.
    Sum(Vec<(bool, Term)>),
}

/// A part of a sum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Term {
    /// A number.
    Number(u64),
    /// Something that has a value at the moment.
    Name(Name),
    /// A random number from the first to the second, both included.
    Between(u64, u64),
    /// One of these values, at random.
    OneOf(Vec<Value>),
}

/// What has a value at the moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Name {
    /// What an honest partner would put there.
    Right,
    /// How many bytes the guest has room for on the packet's connection.
    Credit,
    /// How often the innermost repetition went round so far.
    Inner,
    /// The same of the one around it.
    Outer,
    /// Bytes of the buffer that the guest has posted.
    Posted,
    /// The buffer of the last used entry.
    Last,
    /// The guest's context identifier.
    Guest,
    /// The guest's port of a connection.
    GuestPort(String),
    /// The host's port of a connection.
    HostPort(String),
}

impl Value {
    /// What it is now.
    pub fn get(&self, rng: &mut Rng, now: &dyn Fn(&Name) -> u64) -> u64 {
        let terms = match self {
            Value::Number(number) => return *number,
            Value::Sum(terms) => terms,
        };
        terms.iter().fold(0, |sum: u64, (minus, term)| {
            let value = match term {
                Term::Number(number) => *number,
                Term::Name(name) => now(name),
                Term::Between(low, high) => rng.u64(*low..=*high),
                Term::OneOf(values) => values[rng.usize(..values.len())].get(rng, now),
            };
            match minus {
                true => sum.wrapping_sub(value),
                false => sum.wrapping_add(value),
            }
        })
    }

    /// What is right, and so much more or less.
    pub fn right_and(more: i64) -> Self {
        let term = Term::Number(more.unsigned_abs());
        Value::Sum(vec![(false, Term::Name(Name::Right)), (more < 0, term)])
    }
}

impl FromStr for Value {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut terms = Vec::new();
        let mut rest = text;
        let mut minus = false;
        loop {
            let end =
                end_of_term(rest).ok_or(format!("'{text}' has a bracket too many or too few"))?;
            terms.push((minus, rest[..end].parse()?));
            let Some(sign) = rest[end..].chars().next() else {
                break;
            };
            minus = sign == '-';
            rest = &rest[end + 1..];
        }
        Ok(match terms[..] {
            [(false, Term::Number(number))] => Value::Number(number),
            _ => Value::Sum(terms),
        })
    }
}

/// Where the first term ends: at a sign outside of brackets, or with the text.
fn end_of_term(text: &str) -> Option<usize> {
    let mut depth = 0;
    for (at, letter) in text.char_indices() {
        match letter {
            '(' => depth += 1,
            ')' if depth == 0 => return None,
            ')' => depth -= 1,
            '+' | '-' if depth == 0 => return Some(at),
            _ => {}
        }
    }
    (depth == 0).then_some(text.len())
}

impl FromStr for Term {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if let Some(inner) = text.strip_prefix("any(").and_then(|t| t.strip_suffix(')')) {
            let range = inner.split_once("..").and_then(|(low, high)| {
                let (low, high) = (number(low)?, number(high)?);
                (low <= high).then_some(Term::Between(low, high))
            });
            return range.ok_or(format!("'{text}' is no range; give such as any(0..65535)"));
        }
        if let Some(inner) = text.strip_prefix("one(").and_then(|t| t.strip_suffix(')')) {
            let values: Result<_, _> = inner.split('|').map(str::parse).collect();
            return values.map(Term::OneOf);
        }
        if text == "any" {
            return Ok(Term::Between(0, u64::MAX));
        }
        if let Some(number) = number(text) {
            return Ok(Term::Number(number));
        }
        if let Some((_, number)) = CONSTANTS.iter().find(|(name, _)| *name == text) {
            return Ok(Term::Number(*number));
        }
        let name = match text {
            "right" => Name::Right,
            "credit" => Name::Credit,
            "i" => Name::Inner,
            "j" => Name::Outer,
            "posted" => Name::Posted,
            "last" => Name::Last,
            "guest" => Name::Guest,
            _ => match text.split_once('.') {
                Some((connection, "guest")) => Name::GuestPort(connection.into()),
                Some((connection, "host")) => Name::HostPort(connection.into()),
                _ => {
                    return Err(format!(
                        "'{text}' is no value; give a number, right, credit, posted, i, any(LOW..HIGH), \
                         one(VALUE|VALUE), a name such as rst or eom, or a sum of them"
                    ));
                }
            },
        };
        Ok(Term::Name(name))
    }
}

/// A number: decimal with K, M or G for powers of 1024, or hexadecimal.
pub fn number(text: &str) -> Option<u64> {
    if let Some(digits) = text.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).ok();
    }
    let (digits, shift) = match text.as_bytes().last()? {
        b'K' => (&text[..text.len() - 1], 10),
        b'M' => (&text[..text.len() - 1], 20),
        b'G' => (&text[..text.len() - 1], 30),
        _ => (text, 0),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << shift)
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let terms = match self {
            Value::Number(number) => return write!(f, "{number}"),
            Value::Sum(terms) => terms,
        };
        for (at, (minus, term)) in terms.iter().enumerate() {
            match (at, minus) {
                (0, false) => {}
                (0, true) => f.write_str("0-")?,
                (_, true) => f.write_str("-")?,
                (_, false) => f.write_str("+")?,
            }
            write!(f, "{term}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Term {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Term::Number(number) => write!(f, "{number}"),
            Term::Between(low, high) => write!(f, "any({low}..{high})"),
            Term::OneOf(values) => {
                let values: Vec<String> = values.iter().map(ToString::to_string).collect();
                write!(f, "one({})", values.join("|"))
            }
            Term::Name(name) => match name {
                Name::Right => f.write_str("right"),
                Name::Credit => f.write_str("credit"),
                Name::Inner => f.write_str("i"),
                Name::Outer => f.write_str("j"),
                Name::Posted => f.write_str("posted"),
                Name::Last => f.write_str("last"),
                Name::Guest => f.write_str("guest"),
                Name::GuestPort(connection) => write!(f, "{connection}.guest"),
                Name::HostPort(connection) => write!(f, "{connection}.host"),
            },
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(text: &str) -> u64 {
        let value: Value = text.parse().unwrap();
        assert_eq!(value.to_string().parse(), Ok(value.clone()), "{text}");
        let now = |name: &Name| match name {
            Name::Right => 100,
            Name::Posted => 4096,
            Name::GuestPort(name) if name == "a" => 1025,
            _ => 7,
        };
        value.get(&mut Rng::with_seed(1), &now)
    }

    #[test]
    fn sums_of_numbers_and_names() {
        assert_eq!(get("5"), 5);
        assert_eq!(get("0xffffffff"), u64::from(u32::MAX));
        assert_eq!(get("64K"), 65536);
        assert_eq!(get("eom+eor"), 3);
        assert_eq!(get("right-1"), 99);
        assert_eq!(get("posted+1"), 4097);
        assert_eq!(get("0-1"), u64::MAX);
        assert_eq!(get("a.guest+i"), 1032);
        assert_eq!(get("one(3|3)+1"), 4);
    }

    #[test]
    fn draws_stay_in_their_range_and_repeat_with_their_seed() {
        let value: Value = "any(3..5)".parse().unwrap();
        let draw = || {
            let mut rng = Rng::with_seed(9);
            let draws = (0..100).map(|_| value.get(&mut rng, &|_| 0));
            draws.collect::<Vec<_>>()
        };
        assert_eq!(draw(), draw());
        assert!((3..=5).all(|n| draw().contains(&n)));
        assert!(draw().iter().all(|n| (3..=5).contains(n)));
    }

    #[test]
    fn what_is_no_value_is_named() {
        for (text, why) in [
            ("much", "'much' is no value"),
            ("", "is no value"),
            ("any(5..3)", "no range"),
            ("one(1|x)", "'x' is no value"),
            ("any(1..2", "bracket"),
            ("1)", "bracket"),
            ("99999999999999999999", "is no value"),
        ] {
            let error = text.parse::<Value>().unwrap_err();
            assert!(error.contains(why), "{text}: {error}");
        }
    }
}
