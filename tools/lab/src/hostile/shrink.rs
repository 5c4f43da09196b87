// SPDX-License-Identifier: GPL-2.0
//! Makes a script that fails smaller, as long as it fails.

use anyhow::Result;
use vsock_wire::hostile::draw;
use vsock_wire::hostile::script::Step;

/// Fewer bursts than this are written down packet by packet.
const FEW: usize = 16;

/// Leaves out steps for as long as what is left `fails`, in at most so many tries. None says that
/// all of them together did not fail again.
pub(crate) fn shrink(
    seed: u64,
    whole: Vec<Step>,
    tries: usize,
    mut fails: impl FnMut(&[Step]) -> Result<bool>,
) -> Result<Option<Vec<Step>>> {
    if !fails(&whole)? {
        return Ok(None);
    }
    let mut left = tries;
    let mut steps = halve(whole, &mut left, &mut fails)?;
    if steps.len() <= FEW {
        let written: Vec<Step> = steps
            .into_iter()
            .flat_map(|step| expand(seed, step))
            .collect();
        steps = halve(written, &mut left, &mut fails)?;
        // What is in a batch that cannot be left out can perhaps be itself smaller.
        for at in 0..steps.len() {
            let Step::Batch(order, inner) = steps[at].clone() else {
                continue;
            };
            let mut with = |inner: &[Step]| {
                let mut all = steps.clone();
                all[at] = Step::Batch(order, inner.to_vec());
                fails(&all)
            };
            let inner = halve(inner, &mut left, &mut with)?;
            steps[at] = Step::Batch(order, inner);
        }
    }
    Ok(Some(steps))
}

/// Packets, or bursts that are not written down.
pub(crate) fn packets(steps: &[Step]) -> usize {
    let of = |step: &Step| match step {
        Step::Batch(_, inner) => inner.len(),
        _ => 1,
    };
    steps.iter().map(of).sum()
}

fn expand(seed: u64, step: Step) -> Vec<Step> {
    match step {
        Step::Fuzz { first, count } => {
            let bursts = first..first + count;
            bursts
                .flat_map(|number| draw::burst(seed, number))
                .collect()
        }
        step => vec![step],
    }
}

/// Leaves out pieces: halves at first, then smaller ones, and single steps in the end.
fn halve(
    mut steps: Vec<Step>,
    left: &mut usize,
    fails: &mut dyn FnMut(&[Step]) -> Result<bool>,
) -> Result<Vec<Step>> {
    let mut piece = steps.len().div_ceil(2);
    while piece > 0 && steps.len() > 1 {
        let mut at = 0;
        while at < steps.len() && steps.len() > 1 {
            if *left == 0 {
                return Ok(steps);
            }
            *left -= 1;
            let mut fewer = steps.clone();
            fewer.drain(at..(at + piece).min(steps.len()));
            if !fewer.is_empty() && fails(&fewer)? {
                steps = fewer;
            } else {
                at += piece;
            }
        }
        piece = if piece == 1 { 0 } else { piece.div_ceil(2) };
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bursts(count: u64) -> Vec<Step> {
        (0..count)
            .map(|first| Step::Fuzz { first, count: 1 })
            .collect()
    }

    /// Whether a packet with this payload is among these steps, written down or not.
    fn has(steps: &[Step], seed: u64, payload: &str) -> bool {
        let all: Vec<Step> = steps
            .iter()
            .cloned()
            .flat_map(|step| expand(seed, step))
            .collect();
        let inside = |step: &Step| match step {
            Step::Batch(_, inner) => inner.iter().any(|step| step.to_string().contains(payload)),
            step => step.to_string().contains(payload),
        };
        all.iter().any(inside)
    }

    #[test]
    fn one_packet_of_many_is_found() {
        let seed = 7;
        let guilty = "payload=4096";
        assert!(has(&bursts(200), seed, guilty));
        let fails = |steps: &[Step]| Ok(has(steps, seed, guilty));
        let small = shrink(seed, bursts(200), 1000, fails).unwrap().unwrap();
        assert_eq!(packets(&small), 1, "{small:?}");
        assert!(has(&small, seed, guilty));
    }

    #[test]
    fn the_tries_are_counted() {
        let mut tries = 0;
        let small = shrink(7, bursts(64), 5, |_| {
            tries += 1;
            Ok(tries == 1)
        });
        assert_eq!(small.unwrap().unwrap().len(), 64);
        assert_eq!(tries, 6);
    }

    #[test]
    fn what_does_not_fail_again_is_not_shrunk() {
        assert_eq!(shrink(7, bursts(4), 5, |_| Ok(false)).unwrap(), None);
    }
}
