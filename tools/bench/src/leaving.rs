// SPDX-License-Identifier: GPL-2.0
//! What it costs that a guest leaves for its host: the part of its time that no driver's code takes.

use std::fmt;
use std::time::Duration;

use anyhow::{Result, bail};
use rig::Machine;
use vsock_peer::leave::Price;
use vsock_peer::report::Line;

use crate::spread::Spread;

/// Pages that are touched after leaving: none, and as many as a packet's way through the kernel may.
const PAGES: [usize; 2] = [0, 64];
const TIMES: u32 = 1000;
const PATIENCE: Duration = Duration::from_secs(60);

/// What was measured in some boots.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leaving(Vec<Price>);

impl Leaving {
    /// Measures once more.
    pub(crate) fn measure(&mut self, guest: &Machine) -> Result<()> {
        for pages in PAGES {
            let pages = format!("--pages={pages}");
            let times = format!("--times={TIMES}");
            let output = guest.run(["vsock-peer", "leave", &pages, &times], PATIENCE)?;
            let text = output.success()?.text();
            match text.lines().last().map(serde_json::from_str) {
                Some(Ok(Line::Price(price))) => self.0.push(price),
                _ => bail!("vsock-peer did not say what leaving the guest costs:\n{text}"),
            }
        }
        Ok(())
    }

    fn cost(&self, pages: usize) -> Option<Spread> {
        let prices = self.0.iter().filter(|price| price.pages == pages);
        Spread::of(prices.map(|price| price.leave_us - price.stay_us))
    }
}

impl fmt::Display for Leaving {
    /// A line, or nothing if nothing was measured.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for pages in PAGES {
            let Some(cost) = self.cost(pages) else {
                continue;
            };
            match pages {
                0 => write!(f, "Leaving the guest once costs {cost} us")?,
                _ => writeln!(f, "; with {pages} pages touched after it, {cost} us.")?,
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_the_difference() {
        let price = |pages, stay_us, leave_us| Price {
            pages,
            stay_us,
            leave_us,
        };
        let leaving = Leaving(vec![price(0, 1.0, 21.0), price(64, 10.0, 60.0)]);
        let text = leaving.to_string();
        assert!(
            text.contains("costs 20.0 (20.0–20.0) us; with 64"),
            "{text}"
        );
        assert!(text.contains("after it, 50.0 (50.0–50.0) us."), "{text}");
        assert_eq!(Leaving::default().to_string(), "");
    }
}
