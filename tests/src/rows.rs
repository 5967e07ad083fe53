//! Stores in a line.

use std::path::Path;

use jiff::tz::TimeZone;
use memfold_bench::synthetic::{VectorGenerator, VectorRecipe};
use memfold_bench::wild::make_wild;
use memfold_core::time::Instant;
use memfold_datasets::npy::{Component, NpyWriter};
use memfold_datasets::sample;
use memfold_store::brain_db::{BrainDbWriter, CreateOptions, NewMemory};

use crate::{InMemoryStore, PlainEmbedding, PlainMemory};

/// The time of every run here: that of the sample.
pub const NOW: &str = sample::NOW;

/// A configuration whose checks wait longer than any test takes, because other tests take the processors meanwhile.
pub const PATIENT: &str = "quick_check.time_limit_ms=60000";

/// The first of January 2026 in microseconds.
pub(crate) const FIRST: i64 = 1_767_225_600_000_000;

/// Returns [`NOW`] as an instant.
///
/// # Panics
/// Never: [`NOW`] is RFC 3339.
#[must_use]
pub fn store_now() -> Instant {
    Instant::parse(NOW, &TimeZone::UTC).expect("it is RFC 3339")
}

/// Returns a creation time in 2026: the later, the larger the number; a second apart.
#[must_use]
pub fn created_at(number: usize) -> String {
    Instant(FIRST + number as i64 * 1_000_000).to_naive_local(&TimeZone::UTC)
}

/// Makes memory `number` with a text and a vector; larger numbers are newer.
#[must_use]
pub fn memory(number: usize, content: impl Into<String>, vector: &[f32]) -> PlainMemory {
    let embedding =
        PlainEmbedding { model: Some("m".into()), vector: vector.to_vec(), content: None };
    PlainMemory {
        embedding: Some(embedding),
        ..PlainMemory::new(format!("m{number:06}"), content, created_at(number))
    }
}

/// Makes memory `number` as a daemon writes it, with a vector of 8 components along `axis`: rules
/// may merge and archive it.
#[must_use]
pub fn daemon_memory(number: usize, text: &str, axis: usize) -> PlainMemory {
    PlainMemory { source: "daemon".to_owned(), ..memory(number, text, &unit_vector(8, axis)) }
}

/// A line of a labelled store: the label, and the memories that say its texts, the oldest first.
#[derive(Debug, Clone)]
pub struct LabelledLine {
    /// How the texts are related.
    pub label: &'static str,
    /// The memories, near each other and nearly orthogonal to those of other lines.
    pub rows: Vec<PlainMemory>,
}

/// Reads lines such as `label | older text | newer text`; the vectors of a line's two texts have
/// this cosine.
#[must_use]
pub fn labelled_lines(store: &'static str, cosine: f32) -> Vec<LabelledLine> {
    const DIM: usize = 256;
    let line = |(number, line): (usize, &'static str)| {
        let mut parts = line.split(" | ");
        let label = parts.next().unwrap_or_default();
        let row = |(side, text): (usize, &str)| {
            let mut vector = [0.0; DIM];
            vector[2 * number % DIM] = if side == 0 { 1.0 } else { cosine };
            vector[(2 * number + 1) % DIM] =
                if side == 0 { 0.0 } else { (1.0 - cosine * cosine).sqrt() };
            memory(2 * number + side, text, &vector)
        };
        LabelledLine { label, rows: parts.enumerate().map(row).collect() }
    };
    store.lines().filter(|line| !line.starts_with('#')).enumerate().map(line).collect()
}

/// Returns the unit vector along `axis`.
///
/// # Panics
/// When `axis` is not below `dim`.
#[must_use]
pub fn unit_vector(dim: usize, axis: usize) -> Vec<f32> {
    let mut vector = vec![0.0; dim];
    vector[axis] = 1.0;
    vector
}

/// Returns the unit vector along `axis`, turned towards the next axis by an angle in radians: the
/// cosine of two is that of the difference of their angles.
///
/// # Panics
/// When `axis + 1` is not below `dim`.
#[must_use]
pub fn turned_vector(dim: usize, axis: usize, angle: f32) -> Vec<f32> {
    let mut vector = vec![0.0; dim];
    (vector[axis], vector[axis + 1]) = (angle.cos(), angle.sin());
    vector
}

/// Makes a store in which row `i` has vector `i` and a text of its own; later rows are newer.
#[must_use]
pub fn store_of_vectors(vectors: &[f32], dim: usize) -> InMemoryStore {
    let row =
        |(i, vector)| memory(i, format!("Text number {i} says something of its own."), vector);
    InMemoryStore::new(vectors.chunks_exact(dim).enumerate().map(row).collect())
}

/// Returns synthetic vectors with planted near and exact copies.
///
/// # Panics
/// When a number is outside a recipe's range.
#[must_use]
pub fn generated_rows(rows: u32, dim: usize, seed: u64) -> Vec<f32> {
    let recipe = VectorRecipe::builder(rows, dim, seed).build().expect("the numbers are in range");
    VectorGenerator::new(recipe).all()
}

/// Writes [`generated_rows`] as a npy file, replacing an existing one.
///
/// # Panics
/// When a number is outside a recipe's range, or the file cannot be written.
pub fn npy_of_rows(path: &Path, rows: u32, dim: usize, seed: u64) {
    let mut writer = NpyWriter::create(path, dim, Component::F32).expect("the folder is writable");
    for vector in generated_rows(rows, dim, seed).chunks_exact(dim) {
        writer.push(vector).expect("the vectors have this dimension");
    }
    writer.finish().expect("the folder is writable");
}

/// Returns the committed sample as plain rows.
#[must_use]
pub fn sample_rows() -> Vec<PlainMemory> {
    let sample = sample::memories();
    let row = |(i, memory): (usize, &sample::SampleMemory)| PlainMemory {
        id: memory.id.to_string(),
        content: memory.content.to_string(),
        categories: memory.categories.iter().map(ToString::to_string).collect(),
        importance: memory.importance,
        access_count: memory.access_count,
        created_at: memory.created_at.to_string(),
        expires_at: memory.expires_at.as_deref().map(str::to_owned),
        source: memory.source.to_string(),
        archived_by: None,
        embedding: sample.vector(i).map(|vector| PlainEmbedding {
            model: Some(sample::MODEL.into()),
            vector: vector.to_vec(),
            content: Some(embedded_prefix(
                memory.embedded_text.as_deref().unwrap_or(&memory.content),
            )),
        }),
    };
    sample.memories.iter().enumerate().map(row).collect()
}

/// The owner embeds, and keeps beside the vector, this many characters.
fn embedded_prefix(text: &str) -> String {
    text.chars().take(1000).collect()
}

/// How a written store looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreStyle {
    /// As the owner's newest version writes it.
    Plain,
    /// With the habits of [`make_wild`].
    Wild,
}

/// Writes rows to a new `brain.db`.
///
/// # Panics
/// When the file cannot be written, or a row is archived by its column, which a plain store lacks.
pub fn brain_db(path: &Path, rows: &[PlainMemory], style: StoreStyle) {
    brain_db_with(path, rows, CreateOptions::default());
    if style == StoreStyle::Wild {
        make_wild(path).expect("the store is new");
    }
}

/// As [`brain_db`], in the style `Plain` with other options.
///
/// # Panics
/// As [`brain_db`].
pub fn brain_db_with(path: &Path, rows: &[PlainMemory], options: CreateOptions) {
    let mut writer = BrainDbWriter::create(path, options).expect("the folder is writable");
    for row in rows {
        assert_eq!(row.archived_by, None, "{}", row.id);
        let categories: Vec<&str> = row.categories.iter().map(String::as_str).collect();
        let embedding = row.embedding.as_ref();
        let memory = NewMemory {
            id: &row.id,
            content: &row.content,
            categories: &categories,
            importance: row.importance,
            access_count: row.access_count,
            created_at: &row.created_at,
            updated_at: None,
            expires_at: row.expires_at.as_deref(),
            source: &row.source,
            vector: embedding.map(|embedding| &*embedding.vector),
            embedded_text: embedding.and_then(|embedding| embedding.content.as_deref()),
            model: embedding.and_then(|embedding| embedding.model.as_deref()),
        };
        writer.push(&memory).expect("ids are unique");
    }
    writer.finish().expect("the folder is writable");
}

/// The numbers of one seed, by splitmix64.
#[derive(Debug, Clone)]
pub struct Draws {
    state: u64,
}

impl Draws {
    /// Begins.
    #[must_use]
    pub const fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// Returns the next number.
    pub const fn next_u64(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.state ^ (self.state >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// Returns a number in 0‥`bound`; 0 for a bound of 0.
    pub const fn below(&mut self, bound: u64) -> u64 {
        ((self.next_u64() as u128 * bound as u128) >> 64) as u64
    }

    /// Returns a number in 0‥1.
    pub const fn uniform(&mut self) -> f64 {
        (self.next_u64() >> 11) as f64 / (1_u64 << 53) as f64
    }

    /// Returns one of several.
    ///
    /// # Panics
    /// When there is none.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u64) as usize]
    }
}
