// SPDX-License-Identifier: GPL-2.0
//! Who is measured when: in rounds, with the drivers close together in time and their order turned about.

use std::ops::Range;

use rig::RigKind;

use crate::case::Case;

/// Cases that are measured with a driver before the next one has its turn: few, so that little changes
/// on the machine between the drivers of a pair.
const CASES_OF_A_TURN: usize = 4;
/// Cases that one boot of the nested rig goes through, whose life has to be short.
const CASES_OF_A_SHORT_BOOT: usize = 12;

/// What one boot is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Boot {
    /// Which rounds.
    pub rounds: Range<u32>,
    /// Of which cases.
    pub cases: Vec<Case>,
}

/// The boots of a whole run. The last round is the one that counts with probes.
pub(crate) fn boots(kind: RigKind, cases: &[Case], rounds: u32) -> Vec<Boot> {
    let all = 0..rounds + 1;
    if kind != RigKind::Nested {
        return vec![Boot {
            rounds: all,
            cases: cases.into(),
        }];
    }
    all.flat_map(|round| {
        let chunks = cases.chunks(CASES_OF_A_SHORT_BOOT);
        chunks.map(move |cases| Boot {
            rounds: round..round + 1,
            cases: cases.into(),
        })
    })
    .collect()
}

/// The cases of a boot, by turns.
pub(crate) fn turns(cases: &[Case]) -> impl Iterator<Item = &[Case]> {
    cases.chunks(CASES_OF_A_TURN)
}

/// In which order `count` drivers have their turns in a round: each is first equally often, and each
/// comes before each other equally often.
pub(crate) fn order(round: u32, count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    let round = round as usize;
    order.rotate_left(round / 2 % count.max(1));
    if round % 2 == 1 {
        order.reverse();
    }
    order
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn orders_are_turned_about() {
        assert_eq!(order(0, 3), [0, 1, 2]);
        assert_eq!(order(1, 3), [2, 1, 0]);
        assert_eq!(order(2, 3), [1, 2, 0]);
        assert_eq!(order(3, 3), [0, 2, 1]);
        for count in 2..6 {
            let rounds = 2 * count as u32;
            let before = |a: usize, b: usize| {
                let place = |order: &[usize], x| order.iter().position(|&y| y == x);
                let orders = (0..rounds).map(|round| order(round, count));
                orders.filter(|o| place(o, a) < place(o, b)).count()
            };
            assert_eq!(before(0, 1), count, "of {rounds} rounds");
        }
    }

    #[test]
    fn nested_boots_are_short_and_miss_nothing() {
        let cases = Case::all(false, true);
        let boots = boots(RigKind::Nested, &cases, 8);
        assert!(boots.iter().all(|boot| boot.rounds.len() == 1));
        assert!(
            boots
                .iter()
                .all(|boot| boot.cases.len() <= CASES_OF_A_SHORT_BOOT)
        );
        for round in 0..=8 {
            let of_round = boots.iter().filter(|boot| boot.rounds.start == round);
            assert_eq!(
                of_round.map(|boot| boot.cases.len()).sum::<usize>(),
                cases.len()
            );
        }
        assert_eq!(super::boots(RigKind::GuestBound, &cases, 8).len(), 1);
    }
}
