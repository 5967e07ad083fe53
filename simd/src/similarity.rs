//! [`Similarity`]: a cosine that can only be between −1 and 1.

use std::cmp::Ordering;

/// A cosine similarity in \[−1, 1\]; larger is nearer. Never NaN, ordered totally.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
#[repr(transparent)]
pub struct Similarity(f64);

impl Similarity {
    /// The similarity of equal directions.
    pub const ONE: Self = Self(1.0);

    /// Clamps a computed cosine to \[−1, 1\]; `None` for NaN.
    #[must_use]
    #[inline]
    pub fn clamped(cosine: f64) -> Option<Self> {
        // `+ 0.0` turns −0 into +0, so equal similarities have equal bits.
        (!cosine.is_nan()).then(|| Self(cosine.clamp(-1.0, 1.0) + 0.0))
    }

    /// Returns `dot / √(norms[0] · norms[1])`, given canonical dot products; `None` where a norm is
    /// zero or not finite.
    #[must_use]
    #[inline]
    pub(crate) fn from_dot(dot: f64, norms: [f64; 2]) -> Option<Self> {
        Self::clamped(dot / (norms[0] * norms[1]).sqrt())
    }

    /// Accepts a threshold given by a person; `None` outside \[−1, 1\] or NaN.
    #[must_use]
    #[inline]
    pub fn new(value: f64) -> Option<Self> {
        (-1.0..=1.0).contains(&value).then_some(Self(value + 0.0))
    }

    /// Returns the cosine.
    #[must_use]
    #[inline]
    pub const fn get(self) -> f64 {
        self.0
    }
}

impl Eq for Similarity {}

impl PartialOrd for Similarity {
    #[inline]
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Similarity {
    #[inline]
    fn cmp(&self, other: &Self) -> Ordering {
        self.0.total_cmp(&other.0)
    }
}

impl std::fmt::Display for Similarity {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rounding_beyond_one_is_clamped_and_nan_refused() {
        assert_eq!(Similarity::clamped(1.0 + f64::EPSILON), Some(Similarity::ONE));
        assert_eq!(Similarity::clamped(-1.5), Similarity::new(-1.0));
        assert_eq!(Similarity::clamped(f64::NAN), None);
        assert_eq!(Similarity::from_dot(0.0, [0.0, 2.0]), None);
    }

    #[test]
    fn thresholds_outside_the_range_are_refused() {
        assert_eq!(Similarity::new(1.0 + f64::EPSILON), None);
        assert_eq!(Similarity::new(f64::NAN), None);
        assert_eq!(Similarity::new(1.0), Some(Similarity::ONE));
    }

    #[test]
    fn both_zeros_are_one_similarity() {
        let (plus, minus) = (Similarity::new(0.0).unwrap(), Similarity::new(-0.0).unwrap());
        assert_eq!(plus.cmp(&minus), Ordering::Equal);
        assert_eq!(plus.get().to_bits(), minus.get().to_bits());
    }
}
