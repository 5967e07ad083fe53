//! [`wild_store`]: a store with planted facts and every habit of stores in use.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use jiff::tz::TimeZone;
use memfold_bench::synthetic::{VectorGenerator, VectorRecipe, templated};
use memfold_bench::wild::make_wild;
use memfold_core::time::Instant;
use memfold_store::brain_db::CreateOptions;

use crate::rows::{Draws, FIRST};
use crate::store_image::tokens;
use crate::{PlainEmbedding, PlainMemory, brain_db_with};

/// Components of each vector.
const DIM: usize = 64;

/// Each two members of a group are then at a cosine of 0.96 or more.
const SIMILARITY_MIN: f64 = 0.99;

/// In wild stores the rows of these numbers have no full-text entry: 8, 17, 26, …
const UNINDEXED_EVERY: usize = 9;

/// Microseconds from the first of January 2026 to the newest memory; the run's time is the end of June.
const SPAN_MICROSECONDS: u64 = 170 * 86_400 * 1_000_000;

/// Something that a store knows, and how it can be found at first.
#[derive(Debug, Clone)]
pub struct Fact {
    /// The memory that says it.
    pub id: String,
    /// The words that every wording of it holds.
    pub tokens: Vec<String>,
    /// Its vector, where it has one.
    pub vector: Option<Vec<f32>>,
    /// Whether the full-text index holds it.
    pub is_indexed: bool,
    /// The ids of all memories that say it.
    pub group: Arc<BTreeSet<String>>,
}

/// Writes a store of `rows` memories and some dozens of odd ones, and returns its facts: three
/// fifths of the rows in groups that say the same, some already merged into another, some without
/// an embedding or a full-text entry, times of half a year in several spellings.
///
/// # Panics
/// When the file exists or cannot be written.
#[must_use]
pub fn wild_store(path: &Path, rows: u32, seed: u64) -> Vec<Fact> {
    written(path, rows, seed, true)
}

/// As [`wild_store`], with a rollback journal.
///
/// # Panics
/// When the file exists or cannot be written.
#[must_use]
pub fn wild_store_with_journal(path: &Path, rows: u32, seed: u64) -> Vec<Fact> {
    written(path, rows, seed, false)
}

fn written(path: &Path, rows: u32, seed: u64, wal: bool) -> Vec<Fact> {
    let planted = planted(rows, seed);
    let mut groups: BTreeMap<u64, BTreeSet<String>> = BTreeMap::new();
    for row in &planted {
        groups.entry(row.group).or_default().insert(row.row.id.clone());
    }
    let groups: BTreeMap<u64, Arc<BTreeSet<String>>> =
        groups.into_iter().map(|(group, ids)| (group, Arc::new(ids))).collect();
    let options = CreateOptions { wal, ..CreateOptions::default() };
    let rows: Vec<PlainMemory> = planted.iter().map(|planted| planted.row.clone()).collect();
    brain_db_with(path, &rows, options);
    make_wild(path).expect("the store is new");
    let live = planted.into_iter().enumerate().filter(|(_, row)| !row.is_merged);
    live.map(|(number, row)| row.fact(number, seed, &groups)).collect()
}

/// A row to write.
struct Planted {
    row: PlainMemory,
    group: u64,
    is_merged: bool,
}

impl Planted {
    fn fact(self, number: usize, seed: u64, groups: &BTreeMap<u64, Arc<BTreeSet<String>>>) -> Fact {
        // The fifth member says it in the other wording.
        let other: BTreeSet<String> = tokens(&templated(self.group, 4, seed)).into_iter().collect();
        let mut shared = tokens(&templated(self.group, 0, seed));
        shared.retain(|token| other.contains(token));
        Fact {
            id: self.row.id,
            tokens: shared,
            vector: self.row.embedding.map(|embedding| embedding.vector),
            is_indexed: number % UNINDEXED_EVERY != UNINDEXED_EVERY - 1,
            group: Arc::clone(&groups[&self.group]),
        }
    }
}

fn planted(rows: u32, seed: u64) -> Vec<Planted> {
    let recipe = VectorRecipe::builder(rows, DIM, seed)
        .duplicate_share(0.6)
        .group_size_max(8)
        .similarities(SIMILARITY_MIN, 0.9999)
        .build()
        .expect("the numbers are in range");
    let generator = VectorGenerator::new(recipe);
    let mut draws = Draws::new(seed);
    let mut originals: BTreeMap<u64, String> = BTreeMap::new();
    let mut planted = Vec::new();
    for number in 0..rows {
        let mut vector = vec![0.0; DIM];
        let generated = generator.row(number, &mut vector);
        let (group, member) = (generated.group, u64::from(generated.member));
        let id = format!("stm_{number:012x}");
        let original = originals.entry(group).or_insert_with(|| id.clone()).clone();
        let is_merged = original != id && group % 11 == 3 && member % 3 == 1;
        let is_of_one_wording = group % 3 == 0;
        let content = templated(group, if is_of_one_wording { member % 4 } else { member }, seed);
        let model = Some("all-MiniLM-L6-v2".to_owned());
        let embedding = PlainEmbedding { model, vector, content: None };
        // The order of the fields is that of the draws.
        let row = PlainMemory {
            content,
            embedding: (draws.below(6) != 0).then_some(embedding),
            created_at: time(FIRST + draws.below(SPAN_MICROSECONDS) as i64),
            source: source(&mut draws, is_merged.then_some(&*original)),
            categories: match is_merged {
                true => ["archived", "archive/general"].map(str::to_owned).to_vec(),
                false => categories(&mut draws).into_iter().map(str::to_owned).collect(),
            },
            importance: draws.pick(&[1.0, 1.0, 1.0, 1.5, 2.0, 2.2, 3.0]),
            access_count: draws.pick(&[0, 0, 1, 2, 6, 9, 40]),
            expires_at: (draws.below(20) == 0).then(|| time(FIRST + 3 * SPAN_MICROSECONDS as i64)),
            id,
            archived_by: None,
        };
        planted.push(Planted { row, group, is_merged });
    }
    planted
}

fn time(microseconds: i64) -> String {
    Instant(microseconds).to_naive_local(&TimeZone::UTC)
}

fn source(draws: &mut Draws, survivor: Option<&str>) -> String {
    let root = draws.pick(&["agent", "agent", "daemon", "auto-extract:scout", "manual", "api"]);
    survivor.map_or_else(
        || root.to_owned(),
        |id| {
            let fields = serde_json::json!({
                "merged_into": id, "run_id": "20260101T000000Z-00000000", "previous_source": root,
            });
            format!("archived:{fields}")
        },
    )
}

fn categories(draws: &mut Draws) -> Vec<&'static str> {
    match draws.below(8) {
        0 => vec!["sop", "coding"],
        1 => vec!["procedure"],
        2 => vec!["caf\u{e9}", "general"],
        3 => vec!["trading", "general"],
        4 => vec!["decisions"],
        _ => vec!["general"],
    }
}
