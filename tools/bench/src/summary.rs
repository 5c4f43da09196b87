// SPDX-License-Identifier: GPL-2.0
//! What all rounds come to.

use std::collections::BTreeMap;

use serde::Serialize;

use crate::case::Case;
use crate::contender::BASELINE;
use crate::metric::Metric;
use crate::ratio::Ratio;
use crate::sample::Sample;
use crate::spread::Spread;

/// One number of one driver in one case.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Row {
    /// Which rig.
    pub rig: String,
    /// Its name.
    #[serde(rename = "case")]
    pub case_name: String,
    /// The case itself.
    #[serde(skip)]
    pub case: Case,
    /// What the number is.
    pub metric: Metric,
    /// Which driver.
    pub driver: String,
    /// The median of the rounds.
    pub median: f64,
    /// Its unit.
    pub unit: &'static str,
    /// Rounds.
    pub rounds: usize,
    /// The ratio to the stock C driver, from the rounds in which both ran.
    pub ratio_to_c: Option<f64>,
    /// The 95 % interval of the ratio.
    pub low: Option<f64>,
    /// Its other end.
    pub high: Option<f64>,
}

/// The values of a number by round.
type Rounds = BTreeMap<u32, f64>;

/// All rows of a rig, by case, metric and driver, each in the order of its table.
pub(crate) fn rows(samples: &[Sample], cases: &[Case], drivers: &[String]) -> Vec<Row> {
    let mut rows = Vec::new();
    for &case in cases {
        for metric in Metric::ALL {
            let baseline = rounds(samples, case, metric, BASELINE);
            for driver in drivers {
                rows.extend(row(samples, case, metric, driver, &baseline));
            }
        }
    }
    rows
}

fn row(
    samples: &[Sample],
    case: Case,
    metric: Metric,
    driver: &str,
    baseline: &Rounds,
) -> Option<Row> {
    let values = rounds(samples, case, metric, driver);
    let spread = Spread::of(values.values().copied())?;
    let pairs: Vec<(f64, f64)> = values
        .iter()
        .filter_map(|(round, &value)| Some((*baseline.get(round)?, value)))
        .collect();
    let ratio = Ratio::of(&pairs).filter(|_| driver != BASELINE);
    let interval = ratio.and_then(|ratio| ratio.interval);
    Some(Row {
        rig: samples.first()?.rig.clone(),
        case_name: case.to_string(),
        case,
        metric,
        driver: driver.into(),
        median: spread.median(),
        unit: metric.unit(case),
        rounds: values.len(),
        ratio_to_c: ratio.map(|ratio| ratio.ratio),
        low: interval.map(|(low, _)| low),
        high: interval.map(|(_, high)| high),
    })
}

fn rounds(samples: &[Sample], case: Case, metric: Metric, driver: &str) -> Rounds {
    let of_driver = samples
        .iter()
        .filter(|sample| sample.case == case && sample.driver == driver);
    of_driver
        .filter_map(|sample| Some((sample.round, metric.of(sample)?)))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::placement::Placement;
    use crate::sample::Place;
    use crate::traffic::Measured;

    fn sample(round: u32, driver: &str, seconds: f64) -> Sample {
        let measured = Measured {
            operations: 100,
            bytes: 0,
            seconds,
            usage: None,
            far: None,
            latency: None,
        };
        let place = Place {
            rig: "rig",
            round,
            driver,
            placement: Placement::Free,
        };
        Sample::new(&place, Case::Connect, measured)
    }

    #[test]
    fn rounds_are_paired_and_missing_ones_left_out() {
        let samples = [
            sample(0, "c", 1.0),
            sample(0, "ours", 0.5),
            sample(1, "ours", 0.25),
            sample(1, "c", 0.5),
            sample(2, "ours", 1e-9),
        ];
        let rows = rows(&samples, &[Case::Connect], &["c".into(), "ours".into()]);
        assert_eq!(rows.len(), 2);
        let [c, ours] = &rows[..] else { unreachable!() };
        assert_eq!((c.median, c.rounds, c.ratio_to_c), (150.0, 2, None));
        assert_eq!((ours.median, ours.rounds), (400.0, 3));
        assert!((ours.ratio_to_c.unwrap() - 2.0).abs() < 1e-9);
        assert!((ours.low.unwrap() - 2.0).abs() < 1e-9);
    }
}
