// SPDX-License-Identifier: GPL-2.0

//! Running a part again when the emulation has stalled, which is the one reason for that.

use crate::alone::Alone;
use crate::error::Error;
use crate::pair::Pair;
use crate::progress::Progress;
use crate::rig::Rig;
use std::fmt;

/// A part that stalls so often in a row has something else wrong with it.
const LIMIT: u32 = 5;

/// How often the rig stalled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stalls {
    count: u32,
}

impl Stalls {
    /// How often.
    pub fn count(self) -> u32 {
        self.count
    }
}

impl fmt::Display for Stalls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.count {
            0 => write!(f, "no rig stalls"),
            1 => write!(f, "1 rig stall, and that part run again"),
            count => write!(f, "{count} rig stalls, and those parts run again"),
        }
    }
}

impl Rig {
    /// Boots a pair and runs `part` on it. If the emulation stalls meanwhile, the boot is thrown away
    /// and the part begins anew on another one; that is counted in `stalls` and told. Any other
    /// failure is final.
    pub fn run_part<T>(
        &self,
        name: &str,
        stalls: &mut Stalls,
        progress: &Progress,
        mut part: impl FnMut(&Pair) -> anyhow::Result<T>,
    ) -> anyhow::Result<T> {
        rerun(name, stalls, progress, || {
            let pair = self.boot(progress)?;
            let result = part(&pair)?;
            // A fault that came after the part's last look must not go unseen.
            pair.power_off()?;
            Ok(result)
        })
    }

    /// The same with the one guest of a guest-bound rig; besides, it returns the wire's counters.
    pub fn run_alone<T>(
        &self,
        name: &str,
        stalls: &mut Stalls,
        progress: &Progress,
        mut part: impl FnMut(&Alone) -> anyhow::Result<T>,
    ) -> anyhow::Result<(T, String)> {
        rerun(name, stalls, progress, || {
            let alone = self.boot_alone(progress)?;
            let result = part(&alone)?;
            Ok((result, alone.power_off()?))
        })
    }
}

fn rerun<T>(
    name: &str,
    stalls: &mut Stalls,
    progress: &Progress,
    mut part: impl FnMut() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    for attempt in 1.. {
        match part() {
            Err(error) if is_rig_stall(&error) && attempt < LIMIT => {
                stalls.count += 1;
                progress.say(format!("{name}: {error}"));
                progress.say(format!(
                    "{name}: beginning anew, the emulation stalled ({stalls} so far)"
                ));
            }
            other => return other,
        }
    }
    unreachable!("the last attempt returns")
}

fn is_rig_stall(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause
            .downcast_ref::<Error>()
            .is_some_and(Error::is_rig_stall)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;
    use std::time::Duration;

    fn stall() -> Error {
        let silent = Duration::from_secs(20);
        Error::RigStalled {
            machine: "guest".into(),
            silent,
            log: "log".into(),
        }
    }

    #[test]
    fn a_stall_runs_the_part_again() {
        let mut stalls = Stalls::default();
        let mut left = 2;
        let result = rerun("part", &mut stalls, &Progress::new(), || {
            if left > 0 {
                left -= 1;
                return Err(stall()).context("while sending");
            }
            Ok(7)
        });
        assert_eq!(result.unwrap(), 7);
        assert_eq!(stalls.count(), 2);
    }

    #[test]
    fn nothing_else_does() {
        let mut stalls = Stalls::default();
        let mut runs = 0;
        let result: anyhow::Result<()> = rerun("part", &mut stalls, &Progress::new(), || {
            runs += 1;
            Err(Error::Setup("broken".into()).into())
        });
        assert!(result.is_err());
        assert_eq!((runs, stalls.count()), (1, 0));
    }

    #[test]
    fn a_part_that_only_stalls_fails() {
        let mut stalls = Stalls::default();
        let result: anyhow::Result<()> =
            rerun(
                "part",
                &mut stalls,
                &Progress::new(),
                || Err(stall().into()),
            );
        assert!(is_rig_stall(&result.unwrap_err()));
        assert_eq!(stalls.count(), LIMIT - 1);
    }
}
