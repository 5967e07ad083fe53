//! [`VectorRecipe`]: what is to be generated.

use std::sync::Arc;

use super::neighborhoods::{Drift, Neighborhoods};
use super::vectors::Shape;
use crate::schema::DIM_MAX;

/// A validated description of synthetic vectors. [`Self::builder`] and [`Self::like`] make one.
#[derive(Debug, Clone, PartialEq)]
pub struct VectorRecipe {
    pub(crate) rows: u32,
    pub(crate) dim: usize,
    pub(crate) seed: u64,
    pub(crate) duplicate_share: f64,
    pub(crate) groups: Groups,
    /// `None`: an invented one.
    pub(crate) background: Option<LearnedBackground>,
}

/// Where groups and their copies come from.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Groups {
    Invented(InventedGroups),
    /// As often as they stand here; not empty.
    Observed(Arc<[ObservedGroup]>),
}

/// Groups of sizes in proportion to 1 / size².
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct InventedGroups {
    /// Bit-equal ones among the copies.
    pub(crate) exact_share: f64,
    /// Sizes go from 2 to this.
    pub(crate) size_max: u32,
    /// The other copies' similarities are spread evenly, from this …
    pub(crate) similarity_min: f64,
    /// … to this.
    pub(crate) similarity_max: f64,
}

/// A group that was seen.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ObservedGroup {
    /// Not empty.
    pub(crate) copies: Vec<ObservedCopy>,
    /// Which way copies lie from the first.
    pub(crate) drifts: Vec<Drift>,
}

/// A copy of the first row of a group. Bit-equal ones are equal here.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct ObservedCopy {
    /// To the first; 1.0 for a bit-equal one.
    pub(crate) similarity: f64,
    /// Where its drift stands in its group; `None` for a bit-equal one.
    pub(crate) drift: Option<u32>,
}

/// What the background of given vectors shows.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LearnedBackground {
    pub(crate) shape: Arc<Shape>,
    pub(crate) neighborhoods: Arc<Neighborhoods>,
}

/// Rows in groups of two or more: what a store shows after months without consolidation.
const DUPLICATE_SHARE: f64 = 0.3;
/// Copies that are bit-equal to the first of their group.
const EXACT_SHARE: f64 = 0.2;
/// Keeps the default near 1.6 pairs ≥ 0.85 for each row.
const GROUP_SIZE_MAX: u32 = 40;
/// Just above the flagging threshold of 0.85.
const SIMILARITY_MIN: f64 = 0.86;
/// Just below a copy.
const SIMILARITY_MAX: f64 = 0.999;

impl InventedGroups {
    const DEFAULT: Self = Self {
        exact_share: EXACT_SHARE,
        size_max: GROUP_SIZE_MAX,
        similarity_min: SIMILARITY_MIN,
        similarity_max: SIMILARITY_MAX,
    };
}

/// Sets the parts of a [`VectorRecipe`].
#[derive(Debug, Clone)]
pub struct VectorRecipeBuilder {
    pub(super) recipe: VectorRecipe,
}

/// A recipe that cannot be followed.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum RecipeError {
    /// A number is outside its range.
    #[error("{name} must be between {min} and {max}, found {found}")]
    Range {
        /// Which number.
        name: &'static str,
        /// What was given.
        found: f64,
        /// Its smallest value.
        min: f64,
        /// Its largest value.
        max: f64,
    },
}

impl VectorRecipe {
    /// Begins with the defaults: 30 % of the rows in groups of 2 to 40, a fifth of the copies bit-equal,
    /// the others at a cosine of 0.86 to 0.999 to the first of their group.
    #[must_use]
    pub const fn builder(rows: u32, dim: usize, seed: u64) -> VectorRecipeBuilder {
        let recipe = Self {
            rows,
            dim,
            seed,
            duplicate_share: DUPLICATE_SHARE,
            groups: Groups::Invented(InventedGroups::DEFAULT),
            background: None,
        };
        VectorRecipeBuilder { recipe }
    }
}

impl VectorRecipeBuilder {
    /// Sets the share of rows that stand in groups of two or more.
    #[must_use]
    pub const fn duplicate_share(mut self, share: f64) -> Self {
        self.recipe.duplicate_share = share;
        self
    }

    /// Sets the share of copies that are bit-equal to the first of their group; groups are invented.
    #[must_use]
    pub fn exact_share(mut self, share: f64) -> Self {
        self.invented().exact_share = share;
        self
    }

    /// Sets the largest group; sizes from 2 to this come in proportion to 1 / size².
    #[must_use]
    pub fn group_size_max(mut self, size: u32) -> Self {
        self.invented().size_max = size;
        self
    }

    /// Sets the range of cosines between a near copy and the first of its group; groups are invented.
    #[must_use]
    pub fn similarities(mut self, min: f64, max: f64) -> Self {
        let invented = self.invented();
        (invented.similarity_min, invented.similarity_max) = (min, max);
        self
    }

    /// Returns how groups are invented, the defaults in place of observed ones.
    fn invented(&mut self) -> &mut InventedGroups {
        if let Groups::Observed(_) = self.recipe.groups {
            self.recipe.groups = Groups::Invented(InventedGroups::DEFAULT);
        }
        match &mut self.recipe.groups {
            Groups::Invented(invented) => invented,
            Groups::Observed(_) => unreachable!("observed groups were replaced"),
        }
    }

    /// Checks every number.
    ///
    /// # Errors
    /// When one is outside its range.
    pub fn build(self) -> Result<VectorRecipe, RecipeError> {
        let recipe = self.recipe;
        let in_range = |name, found: f64, min: f64, max: f64| {
            let inside = (min..=max).contains(&found);
            if inside { Ok(()) } else { Err(RecipeError::Range { name, found, min, max }) }
        };
        in_range("rows", recipe.rows.into(), 0.0, f64::from(u32::MAX - 1))?;
        in_range("dim", recipe.dim as f64, 2.0, DIM_MAX as f64)?;
        in_range("duplicate share", recipe.duplicate_share, 0.0, 1.0)?;
        if let Groups::Invented(groups) = &recipe.groups {
            in_range("exact share", groups.exact_share, 0.0, 1.0)?;
            in_range("largest group", groups.size_max.into(), 2.0, 1e6)?;
            in_range("smallest similarity", groups.similarity_min, 0.0, 1.0)?;
            in_range("largest similarity", groups.similarity_max, groups.similarity_min, 1.0)?;
        }
        Ok(recipe)
    }
}

/// Random numbers of one purpose: each is a function of seed, purpose, item and position.
///
/// The mixer is SplitMix64's (Steele, Lea and Flood, *Fast splittable pseudorandom number
/// generators*, OOPSLA 2014).
#[derive(Debug, Clone)]
pub(crate) struct Stream {
    state: u64,
}

/// 2⁶⁴ divided by the golden ratio, SplitMix64's step.
const STEP: u64 = 0x9E37_79B9_7F4A_7C15;

impl Stream {
    pub(crate) const fn new(seed: u64, purpose: u64, item: u64) -> Self {
        Self { state: mix(mix(mix(seed) ^ purpose) ^ item) }
    }

    pub(crate) const fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(STEP);
        mix(self.state)
    }

    /// Returns a number in 0‥1, a multiple of 2⁻⁵³.
    pub(crate) fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1u64 << 53) as f64
    }

    /// Returns a number in 0‥`bound`; the bias is below bound / 2⁶⁴.
    pub(crate) const fn below(&mut self, bound: u64) -> u64 {
        ((self.next_u64() as u128 * bound as u128) >> 64) as u64
    }

    /// Returns a nearly normal deviate of mean 0 and variance 1: the sum of four uniform 16-bit numbers.
    pub(crate) fn normal(&mut self) -> f64 {
        /// √(3 / 65536²): the sum's standard deviation is 65536 / √3.
        const SCALE: f64 = 1.732_050_807_568_877_2 / 65_536.0;
        let bits = self.next_u64();
        let sum = (bits & 0xFFFF) + (bits >> 16 & 0xFFFF) + (bits >> 32 & 0xFFFF) + (bits >> 48);
        (sum as f64 - 131_070.0) * SCALE
    }
}

const fn mix(mut z: u64) -> u64 {
    z = z.wrapping_add(STEP);
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A permutation of `0..count` without a table, the same on every machine.
///
/// A four-round Feistel network (Luby and Rackoff, *How to construct pseudorandom permutations from
/// pseudorandom functions*, 1988) with cycle walking.
#[derive(Debug, Clone, Copy)]
pub struct Shuffle {
    count: u64,
    half_bits: u32,
    seed: u64,
}

impl Shuffle {
    /// Chooses the permutation of `0..count` that `seed` gives.
    #[must_use]
    pub const fn new(count: u64, seed: u64) -> Self {
        let bits = u64::BITS - count.saturating_sub(1).leading_zeros();
        let half_bits = if bits < 2 { 1 } else { bits.div_ceil(2) };
        Self { count, half_bits, seed }
    }

    /// Returns where `position` goes; no two go to the same place.
    ///
    /// # Panics
    /// When `position` is not below the count.
    #[must_use]
    pub const fn apply(self, position: u64) -> u64 {
        assert!(position < self.count, "a position beyond the last");
        let mut at = self.rounds(position);
        while at >= self.count {
            at = self.rounds(at);
        }
        at
    }

    const fn rounds(self, position: u64) -> u64 {
        let mask = (1u64 << self.half_bits) - 1;
        let (mut left, mut right) = (position >> self.half_bits, position & mask);
        let mut round = 0;
        while round < 4 {
            let mixed = mix(self.seed ^ mix(right ^ (round << 40)));
            (left, right) = (right, left ^ (mixed & mask));
            round += 1;
        }
        left << self.half_bits | right
    }
}

pub(crate) const SIZES: u64 = 1;
pub(crate) const ORDER: u64 = 2;
pub(crate) const COMMON: u64 = 3;
pub(crate) const TOPIC: u64 = 4;
pub(crate) const OWN: u64 = 5;
pub(crate) const COPY: u64 = 6;
pub(crate) const FACTORS: u64 = 7;
pub(crate) const START: u64 = 8;
pub(crate) const DRIFT: u64 = 9;
pub(crate) const NEST_ORDER: u64 = 10;
pub(crate) const NEST_KIND: u64 = 11;
pub(crate) const NEST_GROUP: u64 = 12;
pub(crate) const OBSERVED: u64 = 13;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_shuffle_hits_every_position_once() {
        for count in [1, 2, 3, 5, 100, 1000] {
            let mut seen: Vec<u64> = (0..count).map(|i| Shuffle::new(count, 7).apply(i)).collect();
            seen.sort_unstable();
            assert!(seen.into_iter().eq(0..count));
        }
    }

    #[test]
    fn deviates_have_mean_0_and_variance_1() {
        let mut stream = Stream::new(1, 2, 3);
        let values: Vec<f64> = (0..100_000).map(|_| stream.normal()).collect();
        let mean = values.iter().sum::<f64>() / 1e5;
        let variance = values.iter().map(|x| x * x).sum::<f64>() / 1e5;
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.02, "{mean} {variance}");
    }
}
