//! [`VectorRecipe`]: a description of vectors to generate.

use memfold_index::JoinError;
use std::sync::Arc;

use super::background::{Neighborhoods, Shape};
use super::duplicates::ObservedGroup;
use memfold_datasets::schema::DIM_MAX;

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

/// The background learned from given vectors.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LearnedBackground {
    pub(crate) shape: Arc<Shape>,
    pub(crate) neighborhoods: Arc<Neighborhoods>,
}

/// Rows in groups of two or more: the share in a store after months without consolidation.
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
pub enum GenerateError {
    /// A number is outside its range.
    #[error("{name} must be between {min} and {max}, found {found}")]
    Range {
        /// Which number.
        name: &'static str,
        /// The given value.
        found: f64,
        /// Its smallest value.
        min: f64,
        /// Its largest value.
        max: f64,
    },
    /// There is nothing to learn from.
    #[error("no rows to learn from")]
    NoRows,
    /// The duplicates could not be counted.
    #[error("count duplicates: {0}")]
    Join(#[from] JoinError),
}

impl GenerateError {
    /// Returns advice, where there is some.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Join(error) => error.hint(),
            Self::Range { .. } | Self::NoRows => None,
        }
    }
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
    pub fn build(self) -> Result<VectorRecipe, GenerateError> {
        let recipe = self.recipe;
        let in_range = |name, found: f64, min: f64, max: f64| {
            let inside = (min..=max).contains(&found);
            if inside { Ok(()) } else { Err(GenerateError::Range { name, found, min, max }) }
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
