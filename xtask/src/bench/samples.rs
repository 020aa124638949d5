//! Measured values of one kind, and their percentiles.

use std::time::Duration;

use anyhow::ensure;

/// At least one value, sorted.
#[derive(Clone, Debug)]
pub(super) struct Samples(Vec<f64>);

impl Samples {
    pub(super) fn new(mut values: Vec<f64>) -> anyhow::Result<Self> {
        ensure!(!values.is_empty(), "nothing was measured");
        ensure!(
            values.iter().all(|value| value.is_finite()),
            "a measured value is not a number"
        );
        values.sort_by(f64::total_cmp);
        Ok(Self(values))
    }

    pub(super) fn milliseconds(durations: &[Duration]) -> anyhow::Result<Self> {
        Self::new(
            durations
                .iter()
                .map(|duration| duration.as_secs_f64() * 1000.0)
                .collect(),
        )
    }

    pub(super) fn microseconds(durations: &[Duration]) -> anyhow::Result<Self> {
        Self::new(
            durations
                .iter()
                .map(|duration| duration.as_secs_f64() * 1_000_000.0)
                .collect(),
        )
    }

    pub(super) fn median(&self) -> f64 {
        self.percentile(50)
    }

    pub(super) fn p95(&self) -> f64 {
        self.percentile(95)
    }

    pub(super) fn p99(&self) -> f64 {
        self.percentile(99)
    }

    /// The smallest value that at least `percent` of the values do not exceed (nearest rank).
    fn percentile(&self, percent: usize) -> f64 {
        let rank = (self.0.len() * percent)
            .div_ceil(100)
            .clamp(1, self.0.len());
        self.0[rank - 1]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_of_the_nearest_rank() {
        let hundred = Samples::new((1..=100).rev().map(f64::from).collect()).unwrap();
        assert_eq!(
            (hundred.median(), hundred.p95(), hundred.p99()),
            (50.0, 95.0, 99.0)
        );
        let one = Samples::milliseconds(&[Duration::from_millis(7)]).unwrap();
        assert_eq!((one.median(), one.p99()), (7.0, 7.0));
    }

    #[test]
    fn nothing_measured_is_an_error() {
        assert!(Samples::new(Vec::new()).is_err());
        assert!(Samples::new(vec![f64::NAN]).is_err());
    }
}
