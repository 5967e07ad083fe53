//! [`VectorGenerator`]: the rows of a recipe.

use super::background::{Background, Region, Shape};
use super::covariance::{add_scaled, dot, normalize};
use super::duplicates::{Drift, ObservedCopy, ObservedGroup};
use super::recipe::{Groups, InventedGroups, LearnedBackground, VectorRecipe};
use super::stream::{self, Shuffle, Stream};

/// Computes the rows of a recipe; each depends on the recipe and its number alone.
#[derive(Debug, Clone)]
pub struct VectorGenerator {
    recipe: VectorRecipe,
    shuffle: Shuffle,
    /// Where each group of two or more starts, then their end.
    group_starts: Vec<u32>,
    background: Background,
}

/// The contents planted in a row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct GeneratedRow {
    /// Its group; rows alone have one of their own.
    pub group: u64,
    /// Its place in the group; 0 is the original.
    pub member: u32,
    /// Its cosine to the original, exact to the rounding of f32 components; 1.0 for a bit-equal copy.
    pub similarity: f64,
}

impl VectorGenerator {
    /// Prepares a recipe; costs 4 bytes for each group, and the size of a learned recipe.
    #[must_use]
    pub fn new(recipe: VectorRecipe) -> Self {
        let (dim, seed) = (recipe.dim, recipe.seed);
        let group_starts = group_starts(&recipe);
        let background = match &recipe.background {
            Some(LearnedBackground { shape, neighborhoods }) => {
                let groups = group_starts.len() as u64 - 1;
                let alone = u64::from(recipe.rows - group_starts[groups as usize]);
                let region = Region::new(neighborhoods.clone(), groups + alone, seed);
                Background::nested(Shape::clone(shape), region, seed)
            }
            None => Background::topical(Shape::synthetic(dim, seed), seed),
        };
        let order = Stream::new(seed, stream::ORDER, 0).next_u64();
        let shuffle = Shuffle::new(recipe.rows.into(), order);
        Self { recipe, shuffle, group_starts, background }
    }

    /// Returns the number of rows.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.recipe.rows as usize
    }

    /// Tells whether there are no rows.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.recipe.rows == 0
    }

    /// Returns the number of components of each vector.
    #[must_use]
    pub const fn dim(&self) -> usize {
        self.recipe.dim
    }

    /// Writes the unit vector of `row` into `vector` and returns its planted contents.
    ///
    /// # Panics
    /// When `row` is not below the number of rows, or `vector` has another length than the dimension.
    pub fn row(&self, row: u32, vector: &mut [f32]) -> GeneratedRow {
        assert!(row < self.recipe.rows, "row {row} of {}", self.recipe.rows);
        let position = self.shuffle.apply(row.into()) as u32;
        let (group, member) = self.place(position);
        let original = self.background.draw(group);
        let stream = Stream::new(self.recipe.seed, stream::COPY, position.into());
        let (values, similarity) = match (&self.recipe.groups, member) {
            (_, 0) => (original, 1.0),
            (Groups::Invented(groups), _) => self.invented_copy(original, group, groups, stream),
            (Groups::Observed(groups), _) => self.observed_copy(original, group, member, groups),
        };
        for (to, from) in vector.iter_mut().zip(&values) {
            *to = *from as f32;
        }
        assert_eq!(vector.len(), self.recipe.dim, "length of the vector");
        GeneratedRow { group, member, similarity }
    }

    /// Returns all rows, one after the other.
    #[must_use]
    pub fn all(&self) -> Vec<f32> {
        let mut values = vec![0.0; self.len() * self.dim()];
        for (row, vector) in (0..).zip(values.chunks_exact_mut(self.dim())) {
            self.row(row, vector);
        }
        values
    }

    /// Returns a copy of the unit vector `original` of `group`, and its cosine to it.
    ///
    /// Half of its difference from the original is common to the group: copies are about as near to
    /// each other as to the original.
    fn invented_copy(
        &self,
        original: Vec<f64>,
        group: u64,
        groups: &InventedGroups,
        mut own: Stream,
    ) -> (Vec<f64>, f64) {
        if own.uniform() < groups.exact_share {
            return (original, 1.0);
        }
        let width = groups.similarity_max - groups.similarity_min;
        let similarity = groups.similarity_min + width * own.uniform();
        let mut common = Stream::new(self.recipe.seed, stream::DRIFT, group);
        let mut across: Vec<f64> =
            original.iter().map(|_| common.normal() + own.normal()).collect();
        // Twice: the first pass leaves a remainder when both are nearly parallel.
        for _ in 0..2 {
            let along = dot(&across, &original);
            add_scaled(&mut across, -along, &original);
            normalize(&mut across);
        }
        (at_cosine(similarity, &original, &across), similarity)
    }

    /// Returns the copy that was seen in the place of a member of a group, and its cosine to the original.
    fn observed_copy(
        &self,
        original: Vec<f64>,
        group: u64,
        member: u32,
        groups: &[ObservedGroup],
    ) -> (Vec<f64>, f64) {
        let ObservedGroup { copies, drifts } = observed(groups, self.recipe.seed, group);
        let ObservedCopy { similarity, drift } = copies[member as usize - 1];
        let Some(drift) = drift else { return (original, 1.0) };
        let stream = |drift| {
            let item = group << 32 | u64::from(drift);
            Stream::new(self.recipe.seed, stream::DRIFT, item)
        };
        let across = Drift::direction(drifts, drift, &original, stream);
        (at_cosine(similarity, &original, &across), similarity)
    }

    /// Returns group and member of a position in the order before shuffling: groups, then rows alone.
    fn place(&self, position: u32) -> (u64, u32) {
        let groups = self.group_starts.len() - 1;
        let end = self.group_starts[groups];
        if position >= end {
            return (groups as u64 + u64::from(position - end), 0);
        }
        let group = self.group_starts.partition_point(|start| *start <= position) - 1;
        (group as u64, position - self.group_starts[group])
    }
}

/// Returns the unit vector at a cosine to `original`, towards `across`: unit vectors at a right angle.
fn at_cosine(similarity: f64, original: &[f64], across: &[f64]) -> Vec<f64> {
    let height = (1.0 - similarity * similarity).sqrt();
    let mut copy: Vec<f64> =
        original.iter().zip(across).map(|(o, a)| similarity * o + height * a).collect();
    normalize(&mut copy);
    copy
}

/// Returns the shape of a group: each observed one comes once, in an order that the seed gives,
/// before one comes again.
fn observed(groups: &[ObservedGroup], seed: u64, group: u64) -> &ObservedGroup {
    let (count, order) = (groups.len() as u64, Stream::new(seed, stream::OBSERVED, 0).next_u64());
    &groups[Shuffle::new(count, order).apply(group % count) as usize]
}

/// Draws group sizes until the wanted share of rows stands in groups.
fn group_starts(recipe: &VectorRecipe) -> Vec<u32> {
    let wanted = (recipe.duplicate_share * f64::from(recipe.rows)) as u32;
    let cumulative = match &recipe.groups {
        Groups::Invented(groups) => cumulative_inverse_squares(groups.size_max),
        Groups::Observed(_) => Vec::new(),
    };
    let mut stream = Stream::new(recipe.seed, stream::SIZES, 0);
    let mut draw = |group: u64| match &recipe.groups {
        Groups::Invented(_) => {
            let drawn = stream.uniform() * cumulative[cumulative.len() - 1];
            2 + cumulative.partition_point(|sum| *sum <= drawn) as u32
        }
        Groups::Observed(groups) => 1 + observed(groups, recipe.seed, group).copies.len() as u32,
    };
    let mut starts = vec![0];
    let mut end = 0;
    while end + 2 <= wanted {
        end += draw(starts.len() as u64 - 1).min(wanted - end);
        starts.push(end);
    }
    starts
}

/// Returns 1/2², 1/2² + 1/3², … up to 1/`max`².
fn cumulative_inverse_squares(max: u32) -> Vec<f64> {
    let mut total = 0.0;
    let add = |size: u32| {
        total += 1.0 / (f64::from(size) * f64::from(size));
        total
    };
    (2..=max).map(add).collect()
}

#[cfg(test)]
mod vectors_tests {
    use std::collections::BTreeMap;

    use memfold_simd::canonical::similarity;

    use super::*;

    fn rows(recipe: VectorRecipe) -> Vec<(GeneratedRow, Vec<f32>)> {
        let row_count = recipe.rows;
        let generator = VectorGenerator::new(recipe);
        let make = |row| {
            let mut vector = vec![0.0; generator.dim()];
            (generator.row(row, &mut vector), vector)
        };
        (0..row_count).map(make).collect()
    }

    #[test]
    fn copies_stand_at_the_planted_cosine() {
        let rows = rows(VectorRecipe::builder(600, 64, 5).build().unwrap());
        let originals: BTreeMap<u64, &Vec<f32>> =
            rows.iter().filter(|(row, _)| row.member == 0).map(|(r, v)| (r.group, v)).collect();
        for (row, vector) in &rows {
            let found = similarity(vector, originals[&row.group]).unwrap().get();
            assert!((found - row.similarity).abs() < 1e-6, "{row:?}: {found}");
            if row.member > 0 && row.similarity >= 1.0 {
                assert_eq!(vector, originals[&row.group]);
            }
        }
        assert_eq!(rows.len() - originals.len() + groups_of_two(&rows), 180);
    }

    fn groups_of_two(rows: &[(GeneratedRow, Vec<f32>)]) -> usize {
        rows.iter().filter(|(row, _)| row.member == 1).count()
    }

    #[test]
    fn strangers_stay_far_from_any_threshold() {
        let rows = rows(VectorRecipe::builder(1500, 384, 1).duplicate_share(0.0).build().unwrap());
        let mut most = 0.0f64;
        for (i, (_, left)) in rows.iter().enumerate() {
            for (_, right) in &rows[..i] {
                most = most.max(similarity(left, right).unwrap().get());
            }
        }
        assert!(most < 0.75, "{most}");
    }

    #[test]
    fn rows_are_the_same_on_every_machine() {
        let generator = VectorGenerator::new(VectorRecipe::builder(100, 8, 42).build().unwrap());
        let bytes: Vec<u8> = generator.all().iter().flat_map(|value| value.to_le_bytes()).collect();
        assert_eq!(&blake3::hash(&bytes).to_hex()[..16], "574a7df1567909d0");
    }

    #[test]
    fn what_cannot_be_made_is_refused() {
        let error = VectorRecipe::builder(1, 1, 0).build().unwrap_err();
        assert_eq!(error.to_string(), "dim must be between 2 and 65536, found 1");
        let error = VectorRecipe::builder(1, 2, 0).similarities(0.9, 0.8).build().unwrap_err();
        assert_eq!(error.to_string(), "largest similarity must be between 0.9 and 1, found 0.8");
    }
}
