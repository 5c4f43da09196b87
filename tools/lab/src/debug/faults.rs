// SPDX-License-Identifier: GPL-2.0
//! The kernel's fault injection: allocations that fail when told to.

use anyhow::{Context as _, Result, ensure};
use rig::Machine;

use crate::case::fixture::Fixture;

/// Allocations of objects, and of pages.
const KINDS: [&str; 2] = ["failslab", "fail_page_alloc"];

/// Allocations of one guest that can be made to fail; dropped, none fails any more.
pub(super) struct Faults<'a> {
    guest: &'a Machine,
}

impl<'a> Faults<'a> {
    /// Gets the guest ready. Fails are silent, and hit allocations that may sleep as well.
    pub(super) fn new(fixture: &Fixture<'a>) -> Result<Self> {
        let faults = Self {
            guest: fixture.guest(),
        };
        let settings = [
            ("probability", "0"),
            ("verbose", "0"),
            ("ignore-gfp-wait", "N"),
            ("space", "0"),
            ("interval", "1"),
        ];
        for (name, value) in settings {
            faults.set(name, value)?;
        }
        let pages = "/sys/kernel/debug/fail_page_alloc/min-order";
        faults.guest.write(pages, "0\n")?;
        Ok(faults)
    }

    /// From now on only allocations beneath a module's code can fail.
    pub(super) fn only_beneath(&self, module: &str) -> Result<()> {
        let symbols = self.guest.read_text("/proc/kallsyms")?;
        let (begin, end) = code_of(&symbols, module)
            .with_context(|| format!("{module} has no code in /proc/kallsyms"))?;
        self.set("stacktrace-depth", "32")?;
        self.set("require-start", &format!("{begin:#x}"))?;
        self.set("require-end", &format!("{end:#x}"))
    }

    /// Each `interval`th allocation fails, `times` times, or always if that is -1.
    pub(super) fn on(&self, interval: u32, times: i32) -> Result<()> {
        self.set("interval", &interval.to_string())?;
        self.set("times", &times.to_string())?;
        self.set("probability", "100")
    }

    /// How many more are to fail, of both kinds.
    pub(super) fn left(&self) -> Result<i64> {
        let mut left = 0;
        for kind in KINDS {
            let text = self.guest.read_text(&path(kind, "times"))?;
            let times: i64 = text.trim().parse().context("reading how many are left")?;
            left += times;
        }
        Ok(left)
    }

    /// None fails.
    pub(super) fn off(&self) -> Result<()> {
        self.set("probability", "0")
    }

    fn set(&self, name: &str, value: &str) -> Result<()> {
        for kind in KINDS {
            self.guest.write(&path(kind, name), format!("{value}\n"))?;
        }
        Ok(())
    }
}

impl Drop for Faults<'_> {
    fn drop(&mut self) {
        // A guest that does not answer is beyond it.
        let _ = self.off();
        let _ = self.set("require-start", "0");
        let _ = self.set("require-end", &format!("{:#x}", u64::MAX));
    }
}

fn path(kind: &str, name: &str) -> String {
    format!("/sys/kernel/debug/{kind}/{name}")
}

/// Where a module's code begins and ends, as far as its symbols tell.
fn code_of(symbols: &str, module: &str) -> Result<(u64, u64)> {
    /// The last function ends somewhere behind its symbol.
    const LAST: u64 = 4096;
    let owner = format!("[{module}]");
    let mut ends: Option<(u64, u64)> = None;
    for line in symbols.lines().filter(|line| line.ends_with(&owner)) {
        let mut fields = line.split_whitespace();
        let (Some(address), Some("t" | "T")) = (fields.next(), fields.next()) else {
            continue;
        };
        let address = u64::from_str_radix(address, 16)?;
        let (low, high) = ends.unwrap_or((address, address));
        ends = Some((low.min(address), high.max(address)));
    }
    let (low, high) = ends.context("no function of it is listed")?;
    ensure!(low > 0, "its addresses are hidden");
    Ok((low, high + LAST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_modules_code_is_found() {
        let symbols = "ffffffffc0002000 t b\t[ours]\nffffffffc0001000 T a\t[ours]\n\
                       ffffffffc0009000 d data\t[ours]\nffffffffc0000000 t x\t[other]\n";
        let code = code_of(symbols, "ours").unwrap();
        assert_eq!(code, (0xffff_ffff_c000_1000, 0xffff_ffff_c000_3000));
        assert!(code_of(symbols, "gone").is_err());
        assert!(code_of("0000000000000000 t a\t[ours]\n", "ours").is_err());
    }
}
