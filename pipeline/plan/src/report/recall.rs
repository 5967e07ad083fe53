//! [`Recall`]: how many of all pairs were found, and how that is known.

use memfold_index::MeasuredRecall;
use memfold_simd::Similarity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A recall and how it is known.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Recall {
    /// How it is known.
    pub kind: RecallKind,
    /// The value or its estimate.
    pub value: f64,
    /// Lower end of the 95 % interval.
    pub low: f64,
    /// Upper end of the 95 % interval.
    pub high: f64,
    /// Distinct vectors whose pairs were all looked for, where it is sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampled_rows: Option<u64>,
    /// How many pairs these have.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub sampled_pairs: Option<u64>,
}

/// How a recall is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RecallKind {
    /// Every pair was looked at or excluded by proof.
    Exact,
    /// From an exact audit of a sample.
    Sampled,
}

impl From<Option<MeasuredRecall>> for Recall {
    /// Takes what was measured; `None`: the join was exact.
    fn from(measured: Option<MeasuredRecall>) -> Self {
        measured.map_or(
            Self {
                kind: RecallKind::Exact,
                value: 1.0,
                low: 1.0,
                high: 1.0,
                sampled_rows: None,
                sampled_pairs: None,
            },
            |measured| Self {
                kind: RecallKind::Sampled,
                value: measured.value,
                low: measured.low,
                high: measured.high,
                sampled_rows: Some(measured.sampled_rows),
                sampled_pairs: Some(measured.sampled_pairs),
            },
        )
    }
}

impl Recall {
    /// Returns the estimate and its interval, `0.998 (0.995 to 1.000)`: cut to `digits`, never rounded up but at the
    /// upper end.
    #[must_use]
    pub fn estimate(&self, digits: usize) -> String {
        let (value, low) = (cut(self.value, digits), cut(self.low, digits));
        format!("{value} ({low} to {:.digits$})", self.high)
    }

    /// Returns what a person should know of the pairs at or above `threshold`, where fewer than the share `target` of them
    /// may have been found: where the interval's lower end is below it.
    #[must_use]
    pub fn remark(&self, threshold: Similarity, target: f64) -> Option<String> {
        if self.low >= target {
            return None;
        }
        let percent = |share: f64| format!("{} %", cut(100.0 * share, 2));
        let (value, target_percent) = (percent(self.value), percent(target));
        let interval =
            format!("95 % interval {} to {}", cut(100.0 * self.low, 2), percent(self.high));
        let found = if self.sampled_pairs == Some(0) {
            format!(
                "no audited vector has another at or above {threshold}: how many pairs the graph found there is not \
                 known"
            )
        } else if self.value < target {
            format!(
                "the graph found {value} of the pairs at or above {threshold} ({interval}), less than {target_percent}"
            )
        } else {
            format!(
                "the graph found {value} of the audited pairs at or above {threshold}; they are too few to tell that it \
                 found {target_percent} of all ({interval})"
            )
        };
        Some(format!("{found}: use --method exact"))
    }
}

/// Writes a share with its further digits cut off.
fn cut(value: f64, digits: usize) -> String {
    let scale = 10_f64.powi(digits as i32);
    // What is 0.29 to the last bit may be a little less than 29 hundredths.
    format!("{:.digits$}", (value * scale + 1e-9).floor() / scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn measured(value: f64, low: f64, sampled_pairs: u64) -> Recall {
        let (high, sampled_rows, pairs_expected) = (1.0, 100, 50.0);
        Recall::from(Some(MeasuredRecall {
            value,
            low,
            high,
            sampled_rows,
            sampled_pairs,
            pairs_expected,
        }))
    }

    fn remark(recall: &Recall) -> String {
        recall.remark(Similarity::clamped(0.95).unwrap(), 0.99).unwrap_or_default()
    }

    #[test]
    fn an_estimate_is_never_rounded_up() {
        assert_eq!(measured(0.999_96, 0.29, 9).estimate(3), "0.999 (0.290 to 1.000)");
        assert_eq!(measured(1.0, 0.996_49, 9).estimate(4), "1.0000 (0.9964 to 1.0000)");
    }

    #[test]
    fn what_may_be_below_the_target_is_said() {
        assert_eq!(remark(&Recall::from(None)), "");
        assert_eq!(remark(&measured(1.0, 0.99, 9)), "");
        assert_eq!(
            remark(&measured(0.971, 0.9602, 900)),
            "the graph found 97.10 % of the pairs at or above 0.95 (95 % interval 96.02 to 100.00 %), less than 99.00 %: \
             use --method exact"
        );
        let few = remark(&measured(1.0, 0.95, 30));
        assert!(few.contains("too few to tell that it found 99.00 % of all"), "{few}");
        assert!(remark(&measured(1.0, 0.0, 0)).contains("is not known: use --method exact"));
    }
}
