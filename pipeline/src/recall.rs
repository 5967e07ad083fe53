//! Which memories answer a question? By vector and by words, as far as their tiers allow.
//!
//! Candidates come from the index (or a scan of all vectors where there is none) and from the
//! owner's full-text index, and are joined by reciprocal rank. Tiers are computed for the
//! candidates alone, so the cost does not grow with the store. Returned memories are counted as
//! read in one short transaction, which is dropped rather than waited for.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use jiff::tz::TimeZone;
use memfold_core::lifecycle::{
    Edge, Retention, RetentionInput, RetentionPolicy, Tier, TierReason, assign, superseded_by,
};
use memfold_core::memory::{Memory, MemoryId, Status};
use memfold_core::plan::protected_by;
use memfold_core::policy::Policy;
use memfold_core::time::Instant;
use memfold_index::NoProgress;
use memfold_simd::{Kernels, Similarity};
use memfold_store::brain_db::{KeptReader, Reach, RecallCounter, RecallFacts, StoreReader};
use memfold_store::{BrainDb, LoadRequest, StoreError};
use tracing::info_span;

use crate::lookup::{KeptIndex, SearchError, Searched, StoreIndex, Wanted, near_vector};

/// Default number of results.
pub const RECALLED_DEFAULT: usize = 10;

/// The constant of reciprocal rank fusion (Cormack, Clarke, Büttcher 2009).
const RANK_OFFSET: f64 = 60.0;
/// Candidates of each kind: this many for each requested memory, within these bounds.
const CANDIDATES_PER_MEMORY: usize = 4;
const CANDIDATES_MIN: usize = 40;
const CANDIDATES_MAX: usize = 4_096;
/// If tiers leave too few, the next try is wider by this factor, and the last one this wide: in a
/// store of old memories every recall would otherwise read thousands.
const WIDER: usize = 4;
const WIDENED_MAX: usize = 640;
/// Maximum number of a question's words that are searched.
const WORDS_MAX: usize = 32;
/// A survivor may itself have been merged; longer chains are damage.
const SURVIVORS_MAX: usize = 64;

/// How far down the tiers a recall looks.
#[derive(
    Debug,
    Clone,
    Copy,
    Default,
    PartialEq,
    Eq,
    Hash,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "snake_case")]
pub enum RecallMode {
    /// HOT memories.
    Reflexive,
    /// HOT and WARM ones.
    #[default]
    #[cfg_attr(feature = "clap", value(help = "HOT and WARM memories"))]
    Standard,
    /// COLD ones too.
    #[cfg_attr(feature = "clap", value(help = "COLD memories too"))]
    Deep,
    /// All, and what was merged or archived.
    Exhaustive,
}

impl RecallMode {
    /// The least tier that is found.
    const fn tier_min(self) -> Tier {
        match self {
            Self::Reflexive => Tier::Hot,
            Self::Standard => Tier::Warm,
            Self::Deep => Tier::Cold,
            Self::Exhaustive => Tier::Archived,
        }
    }

    /// Where to look when nothing is found.
    const fn wider(self) -> &'static [Self] {
        match self {
            Self::Reflexive => &[Self::Standard, Self::Deep, Self::Exhaustive],
            Self::Standard => &[Self::Deep, Self::Exhaustive],
            Self::Deep => &[Self::Exhaustive],
            Self::Exhaustive => &[],
        }
    }

    /// Says that nothing was found in this mode, and where the answer comes from.
    fn found_elsewhere(self, found_in: Self) -> String {
        let tiers = match self {
            Self::Reflexive => "HOT memories",
            Self::Standard => "HOT and WARM memories",
            Self::Deep | Self::Exhaustive => "HOT, WARM and COLD memories",
        };
        let (answer, mode) = match found_in {
            Self::Reflexive | Self::Standard => ("WARM memories", "standard"),
            Self::Deep => ("COLD memories", "deep"),
            Self::Exhaustive => ("merged or archived memories", "exhaustive"),
        };
        format!("nothing was found among {tiers}: these are {answer} (mode {mode})")
    }
}

/// The settings of a recall beside its question.
#[derive(Debug, Clone)]
pub struct RecallOptions {
    /// Decides which memories are protected, and so never below WARM.
    pub policy: Policy,
    /// The policy of tiers.
    pub retention: RetentionPolicy,
    /// The zone of naive times.
    pub time_zone: TimeZone,
    /// Whether nothing may be written to the store.
    pub read_only: bool,
}

/// A question.
#[derive(Debug, Clone, Copy)]
pub struct RecallQuery<'a> {
    /// Its words.
    pub text: &'a str,
    /// Its vector, if there is one.
    pub vector: Option<&'a [f32]>,
    /// How far down the tiers to look.
    pub mode: RecallMode,
    /// Memories at most.
    pub limit: usize,
    /// Whether summaries are found, too.
    pub include_summaries: bool,
    /// Whether returned memories count as read.
    pub counts: bool,
    /// The time of tiers and of the last access.
    pub now: Instant,
}

/// A live memory that was recalled.
#[derive(Debug, Clone, PartialEq)]
pub struct RecalledMemory {
    /// The memory, as it was before it was counted.
    pub memory: Memory,
    /// Sum of 1 / (60 + rank) over vectors and words; the order of the answer.
    pub score: f64,
    /// The canonical similarity of its vector, where vectors found it.
    pub similarity: Option<Similarity>,
    /// Its rank in the search by vector, from 1.
    pub vector_rank: Option<usize>,
    /// Its rank in the search by words, from 1.
    pub word_rank: Option<usize>,
    /// Its tier.
    pub tier: Tier,
    /// The scores behind it.
    pub retention: Retention,
    /// The reasons for its tier.
    pub reasons: Vec<TierReason>,
    /// Whether a consolidation wrote it as a summary.
    pub is_summary: bool,
    /// The memory that supersedes it.
    pub superseded_by: Option<MemoryId>,
    /// Memories merged into it that were found by their words.
    pub found_as: Vec<MemoryId>,
}

/// A memory that is no longer live.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
#[schemars(rename = "ArchivedDocument")]
pub struct ArchivedMemory {
    /// The memory.
    pub id: MemoryId,
    /// Its text.
    pub text: Box<str>,
    /// The memory that it lives on in; `null` where a rule archived it.
    pub survivor: Option<MemoryId>,
}

/// The answer to a recall.
#[derive(Debug, Clone, PartialEq)]
pub struct Recalled {
    /// The memories, the best first.
    pub memories: Vec<RecalledMemory>,
    /// Memories that are no longer live, the best first; in an exhaustive recall, or where nothing
    /// else was found.
    pub archived: Vec<ArchivedMemory>,
    /// How vectors were searched; none where there was no vector to search by.
    pub searched: Option<Searched>,
    /// Whether words were searched.
    pub by_words: bool,
    /// Whether returned memories were counted as read.
    pub is_counted: bool,
    /// Notes for the user.
    pub notes: Vec<String>,
}

/// A store for repeated recalls: connections stay open between two of them.
pub struct Recaller {
    store: BrainDb,
    index: Arc<KeptIndex>,
    options: RecallOptions,
    kept: KeptReader,
    counter: Mutex<Option<RecallCounter>>,
}

impl Recaller {
    /// Takes a store and the index that is kept open for it, which is followed. Opens nothing yet.
    #[must_use]
    pub fn new(store: BrainDb, index: Arc<KeptIndex>, options: RecallOptions) -> Self {
        Self { store, index, options, kept: KeptReader::default(), counter: Mutex::new(None) }
    }

    /// Finds the memories that answer a question, and counts them as read.
    ///
    /// Ties are broken by retention, then by id. A merged memory is found under its survivor. Where
    /// tiers leave fewer than wanted, more candidates are read, up to 640 of each kind. Where they
    /// leave none, lower tiers are searched, and a note says so.
    ///
    /// # Errors
    /// When the store cannot be read, or the vector has another dimension than the store's.
    pub fn recall(&self, query: &RecallQuery<'_>) -> Result<Recalled, SearchError> {
        let mut recalled = self.recall_in(query)?;
        for mode in query.mode.wider() {
            if !recalled.memories.is_empty() || !recalled.archived.is_empty() {
                break;
            }
            let mut wider = self.recall_in(&RecallQuery { mode: *mode, ..*query })?;
            if !wider.memories.is_empty() || !wider.archived.is_empty() {
                wider.notes.push(query.mode.found_elsewhere(*mode));
                recalled = wider;
            }
        }
        Ok(recalled)
    }

    fn recall_in(&self, query: &RecallQuery<'_>) -> Result<Recalled, SearchError> {
        let store = self.store.path().display();
        let _span =
            info_span!("recall", %store, tier_min = query.mode.tier_min().as_str()).entered();
        let time_zone = &self.options.time_zone;
        let load = LoadRequest { time_zone, now: query.now, progress: &NoProgress };
        let wanted = query.limit.saturating_mul(CANDIDATES_PER_MEMORY);
        let mut candidates_max = wanted.clamp(CANDIDATES_MIN, CANDIDATES_MAX);
        let live = self.index.live();
        let index = live.as_ref().ok().and_then(Option::as_deref);
        let mut recalled = loop {
            let (found, is_complete) = self.store.look_up_again(&self.kept, &load, |reader| {
                self.collect(reader, index, query, candidates_max)
            })?;
            let is_enough = found.memories.len() >= query.limit;
            if is_enough || is_complete || candidates_max >= WIDENED_MAX {
                break found;
            }
            candidates_max = candidates_max.saturating_mul(WIDER).min(WIDENED_MAX);
        };
        if let Err(error) = &live {
            recalled.notes.push(format!("the index cannot be used: {error}"));
        }
        recalled.memories.truncate(query.limit);
        recalled.archived.truncate(query.limit);
        if query.counts && !self.options.read_only && !recalled.memories.is_empty() {
            match self.count(&recalled.memories, query.now) {
                Ok(true) => recalled.is_counted = true,
                Ok(false) => recalled.notes.push(NOT_COUNTED.to_owned()),
                Err(error) => recalled.notes.push(format!("the recall was not counted: {error}")),
            }
        }
        Ok(recalled)
    }

    /// Returns the answer in order, and whether there were no further candidates.
    fn collect(
        &self,
        reader: &StoreReader<'_>,
        index: Option<&StoreIndex>,
        query: &RecallQuery<'_>,
        candidates_max: usize,
    ) -> Result<(Recalled, bool), SearchError> {
        reader.keep_more_pages()?;
        let mut found = Candidates::default();
        let mut answer = Recalled {
            memories: Vec::new(),
            archived: Vec::new(),
            searched: None,
            by_words: false,
            is_counted: false,
            notes: Vec::new(),
        };
        let mut is_complete = true;
        if let Some(vector) = query.vector {
            let wanted = Wanted { neighbors: Some(candidates_max), similarity_min: None };
            let kernels = Kernels::active();
            match near_vector(reader, index, vector, wanted, kernels) {
                Ok(near) => {
                    is_complete &= near.matches.len() < candidates_max;
                    answer.searched = Some(near.searched);
                    for (rank, near) in (1..).zip(near.matches) {
                        found.near(near.memory, near.similarity, rank);
                    }
                }
                Err(SearchError::NoVectors { .. }) => answer.notes.push(NO_VECTORS.to_owned()),
                Err(error) => return Err(error),
            }
        }
        let words = words(query.text);
        let own_words = reader.ids_of_words(&words, candidates_max)?;
        answer.by_words = own_words.is_some();
        if own_words.is_none() {
            answer.notes.push(NO_WORDS.to_owned());
        }
        let mut ids = own_words.unwrap_or_default();
        let merged = reader.merged_ids_of_words(&words, candidates_max)?;
        is_complete &= ids.len().max(merged.len()) < candidates_max;
        ids.extend(merged);
        if query.mode == RecallMode::Exhaustive && !words.is_empty() {
            ids.extend(archived_with(reader, &words, candidates_max)?);
        }
        for (rank, id) in (1..).zip(ids) {
            found.worded(reader, &MemoryId::new(id), rank)?;
        }
        if query.mode == RecallMode::Exhaustive {
            answer.archived = found.archived;
        }
        let mut candidates: Vec<Candidate> = found.live.into_values().collect();
        candidates.sort_by(|a, b| b.score().total_cmp(&a.score()));
        for candidate in candidates {
            // The order of equal scores is not known yet; lower scores come too late.
            let last = answer.memories.last().filter(|_| answer.memories.len() >= query.limit);
            if last.is_some_and(|last| candidate.score() < last.score) {
                break;
            }
            let facts = reader.recall_facts(&candidate.memory.id)?;
            let recalled = self.judged(candidate, &facts, query.now);
            let is_wanted = query.include_summaries || !recalled.is_summary;
            if is_wanted && recalled.tier >= query.mode.tier_min() {
                answer.memories.push(recalled);
            }
        }
        answer.memories.sort_by(RecalledMemory::before);
        Ok((answer, is_complete))
    }

    fn judged(&self, candidate: Candidate, facts: &RecallFacts, now: Instant) -> RecalledMemory {
        let score = candidate.score();
        let Candidate { memory, near, word_rank, found_as } = candidate;
        let superseded_by = superseding(&memory.id, &facts.supersedes);
        let input = RetentionInput {
            is_superseded: superseded_by.is_some(),
            is_pinned: protected_by(&memory, false, &self.options.policy, now).is_some(),
            is_summary: facts.is_summary,
            ..RetentionInput::of(&memory)
        };
        let assigned = assign(&input, now, &self.options.retention);
        RecalledMemory {
            score,
            similarity: near.map(|(_, similarity)| similarity),
            vector_rank: near.map(|(rank, _)| rank),
            word_rank,
            tier: assigned.tier,
            retention: assigned.retention,
            reasons: assigned.reasons,
            is_summary: facts.is_summary,
            superseded_by,
            found_as,
            memory,
        }
    }

    fn count(&self, memories: &[RecalledMemory], now: Instant) -> Result<bool, StoreError> {
        // Another thread counts at this moment: to wait for it is to wait for its transaction.
        let Ok(mut counter) = self.counter.try_lock() else { return Ok(false) };
        if counter.is_none() {
            *counter = match RecallCounter::open(self.store.path()) {
                Err(StoreError::Busy { .. }) => return Ok(false),
                opened => Some(opened?),
            };
        }
        let Some(counter) = counter.as_ref() else { return Ok(false) };
        let ids: Vec<&MemoryId> = memories.iter().map(|found| &found.memory.id).collect();
        counter.count(&ids, &now.to_naive_local(&self.options.time_zone))
    }
}

const NOT_COUNTED: &str =
    "the recall was not counted: somebody else was writing to the store for 20 ms";
const NO_VECTORS: &str = "no memory of the store has a vector; `memfold embed` makes them";
const NO_WORDS: &str = "the store has no full-text index that can be asked: found by vectors alone";

impl RecalledMemory {
    fn before(&self, other: &Self) -> Ordering {
        let by_score = other.score.total_cmp(&self.score);
        let by_retention = other.retention.overall.total_cmp(&self.retention.overall);
        by_score.then(by_retention).then_with(|| self.memory.id.cmp(&other.memory.id))
    }
}

/// A live memory that was found.
struct Candidate {
    memory: Memory,
    /// Rank and similarity by vector.
    near: Option<(usize, Similarity)>,
    word_rank: Option<usize>,
    found_as: Vec<MemoryId>,
}

#[derive(Default)]
struct Candidates {
    live: BTreeMap<MemoryId, Candidate>,
    archived: Vec<ArchivedMemory>,
}

impl Candidates {
    fn near(&mut self, memory: Memory, similarity: Similarity, rank: usize) {
        let near = Some((rank, similarity));
        let candidate = Candidate { near, word_rank: None, found_as: Vec::new(), memory };
        self.live.insert(candidate.memory.id.clone(), candidate);
    }

    /// Takes a row that has words of the question, under the memory that it lives on in.
    fn worded(
        &mut self,
        reader: &StoreReader<'_>,
        id: &MemoryId,
        rank: usize,
    ) -> Result<(), SearchError> {
        let mut at = id.clone();
        for _ in 0..SURVIVORS_MAX {
            if let Some(known) = self.live.get_mut(&at) {
                known.take_word(id, rank);
                return Ok(());
            }
            let Some(memory) = reader.remembered(at.as_str())? else { return Ok(()) };
            if memory.status == Status::Live {
                let mut candidate =
                    Candidate { memory, near: None, word_rank: None, found_as: Vec::new() };
                candidate.take_word(id, rank);
                self.live.insert(at, candidate);
                return Ok(());
            }
            if at == *id {
                self.put_away(id, memory.content, memory.merged_into.clone());
            }
            let Some(survivor) = memory.merged_into else { return Ok(()) };
            at = survivor;
        }
        Ok(())
    }

    fn put_away(&mut self, id: &MemoryId, text: Box<str>, survivor: Option<MemoryId>) {
        if self.archived.iter().all(|known| known.id != *id) {
            self.archived.push(ArchivedMemory { id: id.clone(), text, survivor });
        }
    }
}

impl Candidate {
    /// Sum of 1 / (60 + rank) over the lists it is in.
    fn score(&self) -> f64 {
        let ranks = [self.near.map(|(rank, _)| rank), self.word_rank];
        ranks.into_iter().flatten().map(|rank| 1.0 / (RANK_OFFSET + rank as f64)).sum()
    }

    fn take_word(&mut self, id: &MemoryId, rank: usize) {
        self.word_rank.get_or_insert(rank);
        if *id != self.memory.id && !self.found_as.contains(id) {
            self.found_as.push(id.clone());
        }
    }
}

/// The words of a text, without repeats. A word that the full-text index splits further is searched
/// as a phrase.
pub(crate) fn words(text: &str) -> Vec<String> {
    let is_between = |c: char| c.is_whitespace() || c.is_control();
    let mut words: Vec<String> = Vec::new();
    for word in text.split(is_between) {
        let word = word.trim_matches(|c: char| c.is_ascii_punctuation()).to_lowercase();
        if !word.is_empty() && !words.contains(&word) && words.len() < WORDS_MAX {
            words.push(word);
        }
    }
    words
}

/// Returns the ids of archived rows that have words of a question, rows with most of them first.
/// Their entries are gone from the full-text index, so this reads all of them.
fn archived_with(
    reader: &StoreReader<'_>,
    words: &[String],
    most: usize,
) -> Result<Vec<String>, SearchError> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut take = |id: &str, text: &str| {
        let text = text.to_lowercase();
        let count = words.iter().filter(|word| text.contains(word.as_str())).count();
        if count > 0 {
            found.push((count, id.to_owned()));
        }
    };
    reader.archived_texts_since(Reach::START, usize::MAX, &mut take)?;
    reader.texts_archived_in_place(&mut take)?;
    found.sort_by(|a, b| b.0.cmp(&a.0).then_with(|| a.1.cmp(&b.1)));
    found.truncate(most);
    Ok(found.into_iter().map(|(_, id)| id).collect())
}

/// Returns the memory that supersedes another, by the edges from and to it.
pub(crate) fn superseding(id: &MemoryId, edges: &[Edge]) -> Option<MemoryId> {
    superseded_by(edges).get(id).map(|edge| edge.source.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_at_spaces_and_stripped_of_marks() {
        let found = words("When was \"v1.2\" released? when WAS\u{0}it (really)? — *");
        assert_eq!(found, ["when", "was", "v1.2", "released", "it", "really", "—"]);
        assert_eq!(words(&"a b ".repeat(100)), ["a", "b"]);
        assert!(words(" ?! ").is_empty());
    }
}
