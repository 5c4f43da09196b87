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
        let middle = self.0.len() / 2;
        if self.0.len() % 2 == 1 {
            self.0[middle]
        } else {
            (self.0[middle - 1] + self.0[middle]) / 2.0
        }
    }

    /// The smallest value.
    pub fn low(&self) -> f64 {
        self.0[0]
    }

    /// The largest value.
    pub fn high(&self) -> f64 {
        self.0[self.0.len() - 1]
    }
}

impl fmt::Display for Spread {
    /// `median (low–high)`; the precision is that of the values' size.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let digits = match self.median() {
            m if m >= 10.0 => 1,
            m if m >= 0.1 => 2,
            m if m >= 0.01 => 3,
            _ => 4,
        };
        write!(
            f,
            "{:.digits$} ({:.digits$}–{:.digits$})",
            self.median(),
            self.low(),
            self.high()
        )
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
    fn small_values_keep_their_digits() {
        assert_eq!(
            Spread::of([0.0083, 0.0079]).unwrap().to_string(),
            "0.0081 (0.0079–0.0083)"
        );
        assert_eq!(Spread::of([1.549]).unwrap().to_string(), "1.55 (1.55–1.55)");
    }
}
