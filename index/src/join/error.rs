//! [`JoinError`]: why a join gave no answer.

use std::io;
use std::path::{Path, PathBuf};

use crate::graph::BuildGraphError;

/// Why a join gave no answer.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// A row holds NaN, an infinite value, or only zeros.
    #[error("row {row}: {reason}")]
    InvalidVector {
        /// The row.
        row: u32,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The threshold does not discriminate on these vectors.
    #[error("more than {budget} distinct pairs are at or above {threshold}")]
    PairBudget {
        /// Pairs allowed.
        budget: u64,
        /// The threshold asked for.
        threshold: f64,
        /// Share of sampled pairs at or above each tabulated similarity, ascending: `(similarity, share)`.
        histogram: Vec<(f64, f64)>,
    },
    /// The index that rows should ask cannot be built or asked.
    #[error("build the index: {reason}")]
    Index {
        /// Why.
        reason: String,
    },
    /// This program was built without the index.
    #[error("this memfold was built without the feature {feature}")]
    NotBuilt {
        /// The Cargo feature that adds it.
        feature: &'static str,
    },
    /// Pairs that memory should not hold could not be kept on disk.
    #[error("keep pairs in {}: {reason}", dir.display())]
    Scratch {
        /// The folder.
        dir: PathBuf,
        /// What the operating system said.
        reason: String,
    },
    /// The caller asked to stop.
    #[error("interrupted")]
    Cancelled,
}

impl From<BuildGraphError> for JoinError {
    fn from(error: BuildGraphError) -> Self {
        match error {
            BuildGraphError::InvalidVector { row, reason } => Self::InvalidVector { row, reason },
            BuildGraphError::Cancelled => Self::Cancelled,
            error => Self::Index { reason: error.to_string() },
        }
    }
}

impl JoinError {
    /// The index that rows should ask failed.
    pub(super) fn index(error: impl std::fmt::Display) -> Self {
        Self::Index { reason: error.to_string() }
    }

    /// The scratch folder could not be written, or what was written could not be mapped.
    pub(crate) fn scratch(dir: Option<&Path>) -> impl Fn(io::Error) -> Self {
        let dir = dir.unwrap_or_else(|| Path::new("memory"));
        move |error| Self::Scratch { dir: dir.to_owned(), reason: error.to_string() }
    }

    /// Returns advice, where there is some.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::InvalidVector { .. } => {
                Some("embed this row again, or leave it out: it has no direction".into())
            }
            Self::PairBudget { threshold, histogram, .. } => {
                Some(raise_threshold(*threshold, histogram))
            }
            Self::Index { .. } => Some("the exact join needs no index: --method exact".into()),
            Self::NotBuilt { feature } => Some(format!(
                "build it with `cargo install --path tools/cli --locked --features {feature}`"
            )),
            Self::Scratch { .. } => {
                Some("free some space there, or set TMPDIR to a folder with more".into())
            }
            Self::Cancelled => None,
        }
    }
}

/// Names the lowest tabulated threshold that keeps few of the sampled pairs.
fn raise_threshold(threshold: f64, histogram: &[(f64, f64)]) -> String {
    let selective =
        histogram.iter().find(|&&(similarity, share)| similarity > threshold && share <= 1e-3);
    match selective {
        Some((similarity, share)) => format!(
            "raise the threshold: {:.3} % of sampled pairs are at or above {similarity}",
            share * 100.0
        ),
        None => "nearly all of these vectors point the same way: check the embedding model, \
                 or join smaller scopes"
            .into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_spent_budget_advises_a_threshold() {
        let histogram = vec![(0.8, 0.5), (0.85, 0.2), (0.9, 0.0005)];
        let error = JoinError::PairBudget { budget: 10, threshold: 0.8, histogram };
        assert_eq!(error.to_string(), "more than 10 distinct pairs are at or above 0.8");
        let hint = error.hint().unwrap();
        assert_eq!(hint, "raise the threshold: 0.050 % of sampled pairs are at or above 0.9");
    }

    #[test]
    fn without_a_selective_threshold_the_model_is_suspected() {
        let histogram = vec![(0.8, 1.0), (0.9, 1.0)];
        let error = JoinError::PairBudget { budget: 10, threshold: 0.8, histogram };
        assert!(error.hint().unwrap().contains("embedding model"));
    }
}
