// SPDX-License-Identifier: GPL-2.0
//! What it costs that a guest leaves for its host: the part of its time that no driver's code takes.

use std::fmt;
use std::time::Duration;

use anyhow::{Result, bail};
use rig::Machine;
use vsock_peer::leave::Price;
use vsock_peer::report::Line;

use crate::spread::Spread;

/// Writes after leaving, on whose way through the kernel shows what else it costs.
const WRITES: u32 = 1;
const PATIENCE: Duration = Duration::from_secs(60);

/// What was measured in some boots.
#[derive(Clone, Debug, Default)]
pub(crate) struct Leaving(Vec<Price>);

/// What leaving costs in this boot, without and with a write.
pub(crate) fn measure(guest: &Machine) -> Result<[Price; 2]> {
    let price = |writes: u32| {
        let writes = format!("--writes={writes}");
        let output = guest.run(["vsock-peer", "leave", &writes], PATIENCE)?;
        let text = output.success()?.text();
        match Line::last(&text) {
            Some(Line::Price(price)) => Ok(price),
            _ => bail!("vsock-peer did not say what leaving the guest costs:\n{text}"),
        }
    };
    Ok([price(0)?, price(WRITES)?])
}

impl Leaving {
    /// Keeps what was measured in a boot.
    pub(crate) fn add(&mut self, prices: [Price; 2]) {
        self.0.extend(prices);
    }

    fn cost(&self, writes: u32) -> Option<Spread> {
        let prices = self.0.iter().filter(|price| price.writes == writes);
        Spread::of(prices.map(|price| price.leave_us - price.stay_us))
    }
}

impl fmt::Display for Leaving {
    /// A line, or nothing if nothing was measured.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((bare, writing)) = self.cost(0).zip(self.cost(WRITES)) else {
            return Ok(());
        };
        writeln!(
            f,
            "Leaving the guest once costs {bare} us; if it goes on with a write to a UNIX socket and its \
             read, {writing} us more than those alone."
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_told_is_the_difference() {
        let price = |writes, stay_us, leave_us| Price {
            writes,
            stay_us,
            leave_us,
        };
        let leaving = Leaving(vec![price(0, 1.0, 21.0), price(1, 10.0, 60.0)]);
        let text = leaving.to_string();
        assert!(text.contains("costs 20.0 (20.0–20.0) us; if"), "{text}");
        assert!(text.contains("read, 50.0 (50.0–50.0) us more"), "{text}");
        assert_eq!(Leaving::default().to_string(), "");
    }
}
