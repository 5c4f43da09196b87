// SPDX-License-Identifier: GPL-2.0
//! Who is measured when: in rounds, with the drivers close together in time and their order turned about.

use std::ops::Range;
use std::time::Duration;

use rig::RigKind;

use crate::case::Case;
use crate::contender::Contender;

/// Cases that are measured with a driver before the next one has its turn: few, so that little changes
/// on the machine between the drivers of a pair.
const CASES_OF_A_TURN: usize = 4;
/// The load that one boot of the nested rig is given, whose life has to be short.
const SHORT_LIFE: Duration = Duration::from_secs(60);
/// What starting and ending the programs of a transfer takes, and now and then changing the driver.
const AROUND: Duration = Duration::from_millis(350);

/// What one boot is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Boot {
    /// Which rounds.
    pub rounds: Range<u32>,
    /// Of which cases.
    pub cases: Vec<Case>,
}

/// The boots of a whole run, whose transfers take about `transfer` each. The last round is the one that
/// counts with probes.
pub(crate) fn boots(
    kind: RigKind,
    cases: &[Case],
    contenders: &[Contender],
    rounds: u32,
    transfer: Duration,
) -> Vec<Boot> {
    let rounds = rounds + 1;
    if kind != RigKind::Nested {
        return vec![Boot {
            rounds: 0..rounds,
            cases: cases.into(),
        }];
    }
    let each = transfer + AROUND;
    let load = |cases: &[Case]| -> Duration {
        let meet = |&case: &Case| contenders.iter().filter(move |c| c.meets(case)).count();
        each * cases.iter().map(meet).sum::<usize>() as u32
    };
    let chunks = load(cases).as_secs_f64() / SHORT_LIFE.as_secs_f64();
    let chunk = cases.len().div_ceil(chunks.ceil().max(1.0) as usize).max(1);
    // Several rounds of everything in a boot, or several boots for a round.
    let together = (1.0 / chunks).floor().clamp(1.0, f64::from(rounds)) as u32;
    let mut boots = Vec::new();
    for first in (0..rounds).step_by(together as usize) {
        boots.extend(cases.chunks(chunk).map(|cases| Boot {
            rounds: first..rounds.min(first + together),
            cases: cases.into(),
        }));
    }
    boots
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
        let contenders = Contender::all(&[]).unwrap();
        for (quick, transfer) in [(true, 250), (false, 1000)] {
            let cases = Case::all(quick, true);
            let transfer = Duration::from_millis(transfer);
            let boots = |kind| boots(kind, &cases, &contenders, 8, transfer);
            let mut measured: Vec<(u32, Case)> = Vec::new();
            for boot in boots(RigKind::Nested) {
                let load = boot.rounds.len() * boot.cases.len() * 3;
                assert!((transfer + AROUND) * load as u32 <= SHORT_LIFE * 3 / 2);
                let of_round = |round| boot.cases.iter().map(move |&case| (round, case));
                measured.extend(boot.rounds.clone().flat_map(of_round));
            }
            assert_eq!(measured.len(), 9 * cases.len());
            let unique: std::collections::HashSet<_> = measured.into_iter().collect();
            assert_eq!(unique.len(), 9 * cases.len());
            assert_eq!(boots(RigKind::GuestBound).len(), 1);
        }
    }
}
