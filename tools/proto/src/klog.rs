// SPDX-License-Identifier: GPL-2.0

//! Records of the kernel log, as `/dev/kmsg` gives them.

use serde::{Deserialize, Serialize};
use std::fmt;

/// How grave a kernel message is: 0 is the gravest, as in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Level(pub u8);

impl Level {
    /// `KERN_WARNING`; this and everything with a smaller number is worth a look.
    pub const WARNING: Level = Level(4);
    /// `KERN_NOTICE`.
    pub const NOTICE: Level = Level(5);

    /// The kernel's name of it.
    pub fn name(self) -> &'static str {
        const NAMES: [&str; 8] = [
            "emerg", "alert", "crit", "err", "warning", "notice", "info", "debug",
        ];
        NAMES[usize::from(self.0 & 7)]
    }
}

/// One record of the kernel log.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct KlogRecord {
    /// How grave it is.
    pub level: Level,
    /// The kernel's own count of its records.
    pub sequence: u64,
    /// Microseconds since the machine's start.
    pub micros: u64,
    /// The message, without the `KEY=value` lines that follow it.
    pub text: String,
    /// Whether user space wrote it.
    pub from_user: bool,
}

impl KlogRecord {
    /// Takes apart one record as `read(2)` on `/dev/kmsg` returns it, or `None` if it has another form.
    pub fn parse(record: &str) -> Option<Self> {
        let (head, rest) = record.split_once(';')?;
        let mut fields = head.split(',');
        let priority: u32 = fields.next()?.parse().ok()?;
        let sequence = fields.next()?.parse().ok()?;
        let micros = fields.next()?.parse().ok()?;
        // Dictionary lines begin with a space; other newlines come escaped.
        let text = rest.lines().next().unwrap_or("").to_owned();
        Some(KlogRecord {
            level: Level((priority & 7) as u8),
            sequence,
            micros,
            text,
            from_user: priority >> 3 != 0,
        })
    }
}

impl fmt::Display for KlogRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, micros) = (self.micros / 1_000_000, self.micros % 1_000_000);
        let level = self.level.name();
        write!(f, "[{seconds:5}.{micros:06}] {level}: {}", self.text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takes_a_record_apart() {
        let record =
            KlogRecord::parse("4,339,5140900,-;vsock: refused\n SUBSYSTEM=virtio\n").unwrap();
        assert_eq!(record.level, Level::WARNING);
        assert_eq!(record.sequence, 339);
        assert_eq!(record.text, "vsock: refused");
        assert!(!record.from_user);
        assert_eq!(record.to_string(), "[    5.140900] warning: vsock: refused");
    }

    #[test]
    fn tells_user_space_from_the_kernel() {
        let record = KlogRecord::parse("12,1,2,-;mark; with a semicolon").unwrap();
        assert!(record.from_user);
        assert_eq!(record.level, Level(4));
        assert_eq!(record.text, "mark; with a semicolon");
    }

    #[test]
    fn refuses_what_is_no_record() {
        assert_eq!(KlogRecord::parse("hello"), None);
        assert_eq!(KlogRecord::parse("x,1,2,-;hello"), None);
    }
}
