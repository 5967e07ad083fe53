//! Times single lookups.

use crate::failure::Failure;
use crate::resources::Stopwatch;

/// Lookups are repeated until there are so many …
const LOOKUPS_MIN: usize = 1_000;
/// … or, where they are slow, until they have taken so long.
const SECONDS_MAX: f64 = 10.0;

/// How long lookups take, in microseconds.
#[derive(Debug, Clone, Copy, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct Latencies {
    pub(super) p50: f64,
    pub(super) p99: f64,
    pub(super) p999: f64,
    pub(super) max: f64,
    #[serde(skip)]
    pub(super) per_second: f64,
}

/// Looks everything up, over and over.
pub(super) fn lookups(
    count: usize,
    mut look_up: impl FnMut(usize) -> Result<(), Failure>,
) -> Result<Latencies, Failure> {
    let mut microseconds = Vec::new();
    let all = Stopwatch::start();
    loop {
        for at in 0..count {
            let one = Stopwatch::start();
            look_up(at)?;
            microseconds.push(one.seconds() * 1e6);
        }
        if microseconds.len() >= LOOKUPS_MIN || all.seconds() >= SECONDS_MAX || count == 0 {
            break;
        }
    }
    let per_second = microseconds.len() as f64 / all.seconds().max(f64::MIN_POSITIVE);
    microseconds.sort_unstable_by(f64::total_cmp);
    let at = |share: f64| nearest_rank(&microseconds, share);
    Ok(Latencies { p50: at(0.5), p99: at(0.99), p999: at(0.999), max: at(1.0), per_second })
}

/// Returns the least value that a share of all values does not exceed; 0 where there are none.
fn nearest_rank(sorted: &[f64], share: f64) -> f64 {
    let rank = (share * sorted.len() as f64).ceil() as usize;
    sorted.get(rank.saturating_sub(1)).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[expect(clippy::float_cmp, reason = "percentiles are values that were given")]
    fn percentiles_are_values_that_occurred() {
        let values: Vec<f64> = (1..=100).map(f64::from).collect();
        let ranks = [0.5, 0.99, 0.999, 1.0].map(|share| nearest_rank(&values, share));
        assert_eq!(ranks, [50.0, 99.0, 100.0, 100.0]);
        assert_eq!([nearest_rank(&[7.0], 0.5), nearest_rank(&[], 0.5)], [7.0, 0.0]);
    }

    #[test]
    fn few_queries_are_asked_often() {
        let mut asked = 0;
        let latencies = lookups(3, |_| {
            asked += 1;
            Ok(())
        });
        assert!(asked >= LOOKUPS_MIN && latencies.is_ok_and(|l| l.p50 <= l.p999), "{asked}");
    }
}
