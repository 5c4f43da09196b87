// SPDX-License-Identifier: GPL-2.0
//! A handful of measured values: their middle, and how far they lie apart.

use std::fmt;

/// Values of one quantity, at least one.
#[derive(Clone, Debug, PartialEq)]
pub struct Spread(Vec<f64>);

impl Spread {
    /// Sorts the values; none make no spread.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Option<Self> {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        (!values.is_empty()).then_some(Self(values))
    }

    /// The middle value, or the mean of the two in the middle.
    pub fn median(&self) -> f64 {
        self.quantile(0.5)
    }

    /// The bounds of the middle half: one odd value does not move them, as it does the extremes.
    pub fn middle_half(&self) -> (f64, f64) {
        (self.quantile(0.25), self.quantile(0.75))
    }

    /// Between two values, it is as far from them as its place is.
    fn quantile(&self, part: f64) -> f64 {
        let place = part * (self.0.len() - 1) as f64;
        let (below, above) = (
            self.0[place.floor() as usize],
            self.0[place.ceil() as usize],
        );
        below + (above - below) * place.fract()
    }
}

impl fmt::Display for Spread {
    /// `median (middle half)`; the precision is that of the values' size.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = match self.median() {
            m if m >= 10.0 => 1,
            m if m >= 0.1 => 2,
            m if m >= 0.01 => 3,
            _ => 4,
        };
        let (low, high) = self.middle_half();
        let median = self.median();
        write!(f, "{median:.digits$} ({low:.digits$}–{high:.digits$})")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(Spread::of([3.0, 1.0, 2.0]).unwrap().median(), 2.0);
        assert_eq!(Spread::of([4.0, 1.0, 2.0, 3.0]).unwrap().median(), 2.5);
        assert_eq!(Spread::of([]), None);
    }

    #[test]
    fn one_odd_value_does_not_move_the_middle_half() {
        let spread = Spread::of([1.0, 1.1, 1.2, 1.3, 9.0]).unwrap();
        assert_eq!(spread.middle_half(), (1.1, 1.3));
        assert_eq!(Spread::of([2.0]).unwrap().middle_half(), (2.0, 2.0));
    }

    #[test]
    fn small_values_keep_their_digits() {
        assert_eq!(
            Spread::of([0.0083, 0.0079]).unwrap().to_string(),
            "0.0081 (0.0080–0.0082)"
        );
        assert_eq!(Spread::of([1.549]).unwrap().to_string(), "1.55 (1.55–1.55)");
    }
}
