//! [`VectorGenerator`]: the rows of a recipe.

use memfold_index::{
    JoinError, JoinOptions, JoinedPairs, PairStream, Row, VectorMatrix, join_pairs,
};
use memfold_simd::Similarity;

use super::covariance::{add_scaled, dot, normalize, orthonormalize};
use super::neighborhoods::{Drift, Nest};
use super::recipe::{
    Groups, InventedGroups, LearnedBackground, ObservedCopy, ObservedGroup, Shuffle, Stream,
};
use super::{VectorRecipe, recipe};

/// Computes the rows of a recipe; each depends on the recipe and its number alone.
#[derive(Debug, Clone)]
pub struct VectorGenerator {
    recipe: VectorRecipe,
    shuffle: Shuffle,
    /// Where each group of two or more starts, then their end.
    group_starts: Vec<u32>,
    background: Background,
}

/// What is planted in a row.
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
    /// Prepares a recipe; costs 4 bytes for each group, and what a learned recipe holds.
    #[must_use]
    pub fn new(recipe: VectorRecipe) -> Self {
        let (dim, seed) = (recipe.dim, recipe.seed);
        let group_starts = group_starts(&recipe);
        let background = match &recipe.background {
            Some(LearnedBackground { shape, neighborhoods }) => {
                let groups = group_starts.len() as u64 - 1;
                let alone = u64::from(recipe.rows - group_starts[groups as usize]);
                let nest = Nest::new(neighborhoods.clone(), groups + alone, seed);
                Background::nested(Shape::clone(shape), nest, seed)
            }
            None => Background::topical(Shape::synthetic(dim, seed), seed),
        };
        let order = Stream::new(seed, recipe::ORDER, 0).next_u64();
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

    /// Writes the unit vector of `row` into `vector` and tells what it is.
    ///
    /// # Panics
    /// When `row` is not below the number of rows, or `vector` has another length than the dimension.
    pub fn row(&self, row: u32, vector: &mut [f32]) -> GeneratedRow {
        assert!(row < self.recipe.rows, "row {row} of {}", self.recipe.rows);
        let position = self.shuffle.apply(row.into()) as u32;
        let (group, member) = self.place(position);
        let original = self.background.draw(group);
        let stream = Stream::new(self.recipe.seed, recipe::COPY, position.into());
        let (values, similarity) = match (&self.recipe.groups, member) {
            (_, 0) => (original, 1.0),
            (Groups::Invented(groups), _) => self.invented_copy(original, group, groups, stream),
            (Groups::Observed(groups), _) => self.observed_copy(original, (group, member), groups),
        };
        for (to, from) in vector.iter_mut().zip(&values) {
            *to = *from as f32;
        }
        assert_eq!(vector.len(), self.recipe.dim, "length of the vector");
        GeneratedRow { group, member, similarity }
    }

    /// Returns a copy of the unit vector `original` of `group`, and its cosine to it.
    ///
    /// Half of what sets it apart is common to the group: copies are about as near to each other as to the
    /// original.
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
        let mut common = Stream::new(self.recipe.seed, recipe::DRIFT, group);
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
        (group, member): (u64, u32),
        groups: &[ObservedGroup],
    ) -> (Vec<f64>, f64) {
        let ObservedGroup { copies, drifts } = observed(groups, self.recipe.seed, group);
        let ObservedCopy { similarity, drift } = copies[member as usize - 1];
        let Some(drift) = drift else { return (original, 1.0) };
        let stream = |drift| {
            let item = group << 32 | u64::from(drift);
            Stream::new(self.recipe.seed, recipe::DRIFT, item)
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

/// Returns what a group looks like: each of those seen comes once, in an order that the seed gives, before one comes
/// again.
fn observed(groups: &[ObservedGroup], seed: u64, group: u64) -> &ObservedGroup {
    let (count, order) = (groups.len() as u64, Stream::new(seed, recipe::OBSERVED, 0).next_u64());
    &groups[Shuffle::new(count, order).apply(group % count) as usize]
}

/// Draws group sizes until the wanted share of rows stands in groups.
fn group_starts(recipe: &VectorRecipe) -> Vec<u32> {
    let wanted = (recipe.duplicate_share * f64::from(recipe.rows)) as u32;
    let cumulative = match &recipe.groups {
        Groups::Invented(groups) => cumulative_inverse_squares(groups.size_max),
        Groups::Observed(_) => Vec::new(),
    };
    let mut stream = Stream::new(recipe.seed, recipe::SIZES, 0);
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

/// Directions of a background that vary on their own account; the others share what is left.
pub(crate) const RANK: usize = 96;
/// Topics that the background gathers around.
const TOPIC_COUNT: u64 = 256;
/// Share of the leading directions' variance that lies between topics: two rows of a topic meet near
/// 0.4, others near 0.1.
const TOPIC_WEIGHT: f64 = 0.5;
/// Share of a synthetic vector's squared length that is common to all.
const COMMON_WEIGHT: f64 = 0.1;
/// Share of the rest that the leading directions have: the strongest 64 of 384 then hold about 0.65
/// of the variance, as in sentence embeddings (0.63 for all-MiniLM-L6-v2 on commit messages).
const LEADING_WEIGHT: f64 = 0.7;
/// The direction with half the variance of the strongest.
const HALF_VARIANCE_AT: f64 = 8.0;

/// Mean and covariance of unit vectors: `factors` of low rank and a variance of its own for each
/// dimension.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Shape {
    pub(crate) mean: Vec<f64>,
    /// Orthogonal directions, each as long as its standard deviation.
    pub(crate) factors: Vec<Vec<f64>>,
    /// Standard deviation of each dimension beside the factors.
    pub(crate) residual: Vec<f64>,
}

/// Components computed together: as many as stay in registers.
const TILE: usize = 32;

/// Draws unit vectors of a shape that gather.
#[derive(Debug, Clone)]
pub(crate) struct Background {
    mean: Vec<f64>,
    /// For each tile of components, its part of each factor; zeros beyond the dimension.
    factor_tiles: Vec<Vec<[f32; TILE]>>,
    residual: Vec<f64>,
    rank: usize,
    gathering: Gathering,
    seed: u64,
}

/// What items gather around.
#[derive(Debug, Clone)]
enum Gathering {
    /// Coordinates of each topic along the factors.
    Topics(Vec<Vec<f64>>),
    Nested(Nest),
}

impl Shape {
    /// Returns a shape with the spectrum of sentence embeddings, in random directions.
    pub(crate) fn synthetic(dim: usize, seed: u64) -> Self {
        let direction = |purpose, item| -> Vec<f64> {
            let mut stream = Stream::new(seed, purpose, item);
            (0..dim).map(|_| stream.normal()).collect()
        };
        let mut mean = direction(recipe::COMMON, 0);
        normalize(&mut mean);
        mean.iter_mut().for_each(|value| *value *= COMMON_WEIGHT.sqrt());
        let rank = RANK.min(dim);
        let directions = (0..rank).map(|k| direction(recipe::FACTORS, k as u64)).collect();
        let mut factors = orthonormalize(directions);
        let variance = |k: usize| 1.0 / (1.0 + k as f64 / HALF_VARIANCE_AT);
        let total: f64 = (0..factors.len()).map(variance).sum();
        for (k, factor) in factors.iter_mut().enumerate() {
            let deviation = ((1.0 - COMMON_WEIGHT) * LEADING_WEIGHT * variance(k) / total).sqrt();
            factor.iter_mut().for_each(|value| *value *= deviation);
        }
        let rest = (1.0 - COMMON_WEIGHT) * (1.0 - LEADING_WEIGHT) / dim as f64;
        Self { mean, factors, residual: vec![rest.sqrt(); dim] }
    }
}

impl Background {
    /// Gathers around [`TOPIC_COUNT`] topics.
    pub(crate) fn topical(shape: Shape, seed: u64) -> Self {
        let rank = shape.factors.len();
        let topic = |item| {
            let mut stream = Stream::new(seed, recipe::TOPIC, item);
            (0..rank).map(|_| TOPIC_WEIGHT.sqrt() * stream.normal()).collect()
        };
        let topics = (0..TOPIC_COUNT).map(topic).collect();
        Self::new(shape, Gathering::Topics(topics), seed)
    }

    /// Gathers in nested groups.
    pub(crate) fn nested(shape: Shape, nest: Nest, seed: u64) -> Self {
        Self::new(shape, Gathering::Nested(nest), seed)
    }

    fn new(shape: Shape, gathering: Gathering, seed: u64) -> Self {
        let tile = |start: usize, factor: &[f64]| {
            std::array::from_fn(|at| factor.get(start + at).map_or(0.0, |&value| value as f32))
        };
        let starts = (0..shape.mean.len()).step_by(TILE);
        let factor_tiles =
            starts.map(|start| shape.factors.iter().map(|factor| tile(start, factor)).collect());
        Self {
            factor_tiles: factor_tiles.collect(),
            rank: shape.factors.len(),
            gathering,
            mean: shape.mean,
            residual: shape.residual,
            seed,
        }
    }

    /// Returns the unit vector number `item`.
    pub(crate) fn draw(&self, item: u64) -> Vec<f64> {
        let latent = self.latent(item);
        let (along, beside) = latent.split_at(self.rank);
        let coordinates: Vec<f32> = along.iter().map(|&value| value as f32).collect();
        let mut values = self.mean.clone();
        for (values, tile) in values.chunks_mut(TILE).zip(&self.factor_tiles) {
            let mut sums = [0.0_f32; TILE];
            for (coordinate, factor) in coordinates.iter().zip(tile) {
                for at in 0..TILE {
                    sums[at] += coordinate * factor[at];
                }
            }
            values.iter_mut().zip(sums).for_each(|(value, sum)| *value += f64::from(sum));
        }
        for ((value, deviation), own) in values.iter_mut().zip(&self.residual).zip(beside) {
            *value += deviation * own;
        }
        normalize(&mut values);
        values
    }

    /// Returns coordinates of mean 0 and variance 1: along the factors, then beside them for each dimension.
    fn latent(&self, item: u64) -> Vec<f64> {
        let topics = match &self.gathering {
            Gathering::Topics(topics) => topics,
            Gathering::Nested(nest) => {
                let mut latent = vec![0.0; self.rank + self.residual.len()];
                nest.add(item, &mut latent);
                return latent;
            }
        };
        let mut stream = Stream::new(self.seed, recipe::OWN, item);
        let topic = &topics[stream.below(TOPIC_COUNT) as usize];
        let own_weight = (1.0 - TOPIC_WEIGHT).sqrt();
        let mut latent: Vec<f64> =
            topic.iter().map(|center| center + own_weight * stream.normal()).collect();
        latent.extend(self.residual.iter().map(|_| stream.normal()));
        latent
    }
}

/// The threshold at which a row is a duplicate, …
const THRESHOLD: f64 = 0.85;
/// … and those for vectors that are nearly all that near.
const NARROWER_THRESHOLDS: [f64; 2] = [0.95, 0.98];

/// Groups of rows around the first one that is near: stars, as they are generated.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Duplicates {
    /// Rows in groups of two or more.
    pub(crate) share: f64,
    /// In the order of their first rows.
    pub(crate) groups: Vec<Star>,
    /// Rows that are no copies, ascending.
    pub(crate) firsts: Vec<Row>,
}

/// A row and what is near it.
#[derive(Debug, PartialEq)]
pub(crate) struct Star {
    pub(crate) first: Row,
    /// Other rows that are bit-equal to the first.
    pub(crate) equal_count: u32,
    /// Ascending.
    pub(crate) near: Vec<NearRow>,
}

/// A row near the first of its group.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct NearRow {
    pub(crate) row: Row,
    /// Bit-equal rows, itself among them.
    pub(crate) count: u32,
    /// To the first.
    pub(crate) similarity: f64,
}

/// A row's place among duplicates.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Copies {
    /// Bit-equal rows, itself among them; 0 for all but the first of them.
    count: u32,
    taken: bool,
}

impl Duplicates {
    /// Counts at the lowest threshold that discriminates.
    pub(crate) fn count(
        sample: &VectorMatrix<'_>,
        options: &JoinOptions<'_>,
    ) -> Result<Self, JoinError> {
        let mut counted = Self::at(sample, THRESHOLD, options);
        for threshold in NARROWER_THRESHOLDS {
            if let Err(JoinError::PairBudget { .. }) = counted {
                counted = Self::at(sample, threshold, options);
            }
        }
        counted
    }

    /// Counts at one threshold.
    pub(crate) fn at(
        sample: &VectorMatrix<'_>,
        threshold: f64,
        options: &JoinOptions<'_>,
    ) -> Result<Self, JoinError> {
        let threshold = Similarity::clamped(threshold).unwrap_or_default();
        let joined = join_pairs(sample, threshold, options).map(PairStream::collect)?;
        Ok(Self::of(sample, &joined))
    }

    fn of(sample: &VectorMatrix<'_>, joined: &JoinedPairs) -> Self {
        let mut copies = vec![Copies { count: 1, taken: false }; sample.len()];
        for group in &joined.groups {
            copies[group[0].index()].count = group.len() as u32;
            group[1..].iter().for_each(|row| copies[row.index()].count = 0);
        }
        let mut found = Self::default();
        let mut pairs = joined.pairs.as_slice();
        for row in sample.rows() {
            let own = pairs.partition_point(|pair| pair.left <= row);
            let (neighbors, later) = pairs.split_at(own);
            pairs = later;
            let Copies { count, taken } = copies[row.index()];
            if taken || count == 0 {
                continue;
            }
            found.firsts.push(row);
            let untaken = neighbors.iter().filter(|pair| !copies[pair.right.index()].taken);
            let near: Vec<NearRow> = untaken
                .map(|pair| NearRow {
                    row: pair.right,
                    count: copies[pair.right.index()].count,
                    similarity: pair.similarity.get(),
                })
                .collect();
            near.iter().for_each(|near| copies[near.row.index()].taken = true);
            if count > 1 || !near.is_empty() {
                found.groups.push(Star { first: row, equal_count: count - 1, near });
            }
        }
        let in_groups: usize = found.sizes().map(|size| size as usize).sum();
        found.share = in_groups as f64 / sample.len() as f64;
        found
    }

    /// Returns the sizes of groups, two or more.
    pub(crate) fn sizes(&self) -> impl Iterator<Item = u32> {
        self.groups.iter().map(Star::size)
    }
}

impl Star {
    fn size(&self) -> u32 {
        1 + self.equal_count + self.near.iter().map(|near| near.count).sum::<u32>()
    }
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
        let mut digest = blake3::Hasher::new();
        let mut vector = [0.0; 8];
        for row in 0..100 {
            generator.row(row, &mut vector);
            for value in vector {
                digest.update(&value.to_le_bytes());
            }
        }
        assert_eq!(&digest.finalize().to_hex()[..16], "574a7df1567909d0");
    }

    #[test]
    fn what_cannot_be_made_is_refused() {
        let error = VectorRecipe::builder(1, 1, 0).build().unwrap_err();
        assert_eq!(error.to_string(), "dim must be between 2 and 65536, found 1");
        let error = VectorRecipe::builder(1, 2, 0).similarities(0.9, 0.8).build().unwrap_err();
        assert_eq!(error.to_string(), "largest similarity must be between 0.9 and 1, found 0.8");
    }
}

#[cfg(test)]
mod duplicates_tests {
    use memfold_index::Pool;

    use super::*;

    #[test]
    fn duplicates_gather_around_the_first() {
        let pool = Pool::new(None).unwrap();
        let options = JoinOptions::new(&pool);
        // 0 = 4, near 1; 1 near 2, 2 not near 0; 3 alone.
        let values = [1.0, 0.0, 0.9, 0.43, 0.7, 0.7, -1.0, 0.0, 1.0, 0.0];
        let matrix = VectorMatrix::from_slice(&values, 2).unwrap();
        let found = Duplicates::count(&matrix, &options).unwrap();
        assert_eq!((found.share, found.firsts.as_slice()), (0.6, &[Row(0), Row(2), Row(3)][..]));
        assert_eq!(found.sizes().collect::<Vec<_>>(), [3]);
        let Star { first, equal_count, near } = &found.groups[0];
        assert_eq!((*first, *equal_count, near.len()), (Row(0), 1, 1));
        assert_eq!((near[0].row, near[0].count), (Row(1), 1));
        assert!((near[0].similarity - 0.902).abs() < 1e-3, "{found:?}");
    }
}
