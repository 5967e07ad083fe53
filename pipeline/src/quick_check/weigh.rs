//! Reads the found memories again, as they are now, and judges them.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::OnceLock;

use memfold_core::detect::{newest_first, separating};
use memfold_core::memory::{Memory, MemoryId, Status};
use memfold_core::plan::differences;
use memfold_core::policy::defaults::SHARED_VECTOR_TEXTS_MAX;
use memfold_core::policy::{GuardPolicy, Policy, QuickCheckPolicy};
use memfold_datasets::embedding;
use memfold_guard::text::{TextKey, dated_key};
use memfold_guard::{Guard, Judgement, LexiconError, Reading};
use memfold_simd::{Kernels, Similarity};
use memfold_store::brain_db::{OpenFlag, SpaceShapes, StoreReader};

use super::Incoming;
use super::gather::Gathered;
use crate::lookup::SearchError;

/// Matches that are judged.
pub(super) const MATCHES_MAX: usize = 100;
/// Steps from a merged memory to its live survivor; more is a circle.
const MERGES_MAX: usize = 10_000;

/// The rules by which is judged.
#[derive(Clone, Copy)]
pub(super) struct Rules<'a> {
    pub(super) policy: &'a Policy,
    pub(super) check: &'a QuickCheckPolicy,
    pub(super) guard: &'a LazyGuard,
    pub(super) kernels: &'static Kernels,
    /// The day of the new memory, in days since 1970.
    pub(super) today: i32,
}

impl Rules<'_> {
    /// Returns the canonical similarity of two vectors of one dimension.
    pub(super) fn similarity(&self, left: &[f32], right: &[f32]) -> Option<Similarity> {
        let norms = [self.kernels.dot(left, left), self.kernels.dot(right, right)];
        self.kernels.similarity(left, right, norms)
    }
}

/// A memory that says the same already.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Equal {
    /// A live memory.
    Live(Box<Memory>),
    /// A memory that was merged into a live one. `superseded`: a person let something else take its place.
    Merged { merged_row: MemoryId, into: Box<Memory>, superseded: bool },
    /// A memory that a rule archived.
    Archived { memory: Box<Memory> },
}

/// A live memory that is alike.
#[derive(Debug)]
pub(super) struct Match {
    pub(super) memory: Memory,
    pub(super) vector: Option<Vec<f32>>,
    pub(super) similarity: Option<Similarity>,
    /// The guard's judgement of it and the new text, if there is one.
    pub(super) judgement: Option<Judgement>,
    /// The differences, in words.
    pub(super) differences: Vec<String>,
}

/// Similar memories, as they are now.
#[derive(Debug, Default)]
pub(super) struct Weighed {
    /// Memories with the same statement, the preferred one first.
    pub(super) equal: Vec<Equal>,
    /// Similar memories, best first.
    pub(super) matches: Vec<Match>,
    /// How many are similar: beyond the judged ones, as they were indexed.
    pub(super) total: u64,
    /// So many texts have this same vector that it carries no information.
    pub(super) is_shared_vector: bool,
    /// The new text, where it was compared.
    pub(super) reading: Option<Reading>,
    /// The open contradictions of the memory that says the same.
    pub(super) flags: Vec<OpenFlag>,
    /// Memories that a person keeps apart from it, with the hash of the text that the decision is
    /// about.
    pub(super) kept_apart: BTreeMap<MemoryId, Option<String>>,
}

/// Reads and judges the gathered memories.
pub(super) fn weigh(
    reader: &StoreReader<'_>,
    gathered: &Gathered,
    incoming: &Incoming,
    rules: Rules<'_>,
) -> Result<Weighed, SearchError> {
    let mut weighing = Weighing {
        reader,
        gathered,
        incoming,
        rules,
        key: incoming.text.as_deref().map(TextKey::of),
        own_key: incoming.text.as_deref().map(|text| dated_key(text, Some(rules.today), "")),
        built_in: gathered.by_words.and(incoming.text.as_deref()).and_then(embedding::embed),
        separating: separating(&incoming.boxed_categories(), &rules.policy.cluster.separate_by),
        seen: BTreeSet::new(),
        added: 0,
        weighed: Weighed::default(),
    };
    weighing.texts()?;
    weighing.opponents()?;
    weighing.near()?;
    weighing.finish()
}

struct Weighing<'a> {
    reader: &'a StoreReader<'a>,
    gathered: &'a Gathered,
    incoming: &'a Incoming,
    rules: Rules<'a>,
    key: Option<TextKey>,
    /// The key of the new text: equal texts have the same one.
    own_key: Option<String>,
    /// The vector of its text in the built-in embedding, where texts are compared by that.
    built_in: Option<[f32; embedding::DIM]>,
    separating: Vec<String>,
    seen: BTreeSet<MemoryId>,
    /// Matches that need not be near.
    added: usize,
    weighed: Weighed,
}

impl Weighing<'_> {
    /// Adds memories with a possibly similar text.
    fn texts(&mut self) -> Result<(), SearchError> {
        let mut loose = Vec::new();
        for id in self.gathered.texts.iter().flatten() {
            let is_equal = |memory: &Memory| self.says(&memory.text_key());
            // The day on which a merged text was written is unknown.
            let is_same = |content: &str| self.says(&dated_key(content, None, id));
            let Some(memory) = self.reader.remembered(id)? else { continue };
            match memory.status {
                Status::Live if !self.is_in_scope(&memory) => {}
                Status::Live if is_equal(&memory) => {
                    self.weighed.equal.push(Equal::Live(Box::new(memory)));
                }
                Status::Live => loose.push(memory),
                Status::Archived if is_equal(&memory) && self.is_in_scope(&memory) => {
                    self.weighed.equal.push(Equal::Archived { memory: Box::new(memory) });
                }
                _ => {
                    let same = Some(memory).filter(|memory| is_same(&memory.content));
                    let Some(survivor) = same.and_then(|memory| memory.merged_into) else {
                        continue;
                    };
                    let merged_row = MemoryId::new(id.as_str());
                    if let Some((into, superseded)) = self.live_end(&merged_row, survivor)? {
                        self.weighed.equal.push(Equal::Merged { merged_row, into, superseded });
                    }
                }
            }
        }
        self.weighed.equal.sort_by(|a, b| {
            let order = a.rank().cmp(&b.rank());
            order.then_with(|| newest_first(a.memory(), b.memory()))
        });
        for memory in loose {
            self.add(memory)?;
        }
        Ok(())
    }

    /// Follows a merged memory to its live survivor, and tells whether a person let another memory
    /// take its place on the way.
    fn live_end(
        &self,
        merged_row: &MemoryId,
        survivor: MemoryId,
    ) -> Result<Option<(Box<Memory>, bool)>, SearchError> {
        let (mut from, mut id) = (merged_row.clone(), survivor);
        let mut superseded = false;
        for _ in 0..MERGES_MAX {
            superseded = superseded || self.reader.is_superseded(from.as_str(), &id)?;
            let Some(memory) = self.reader.remembered(id.as_str())? else { return Ok(None) };
            if memory.status == Status::Live {
                let is_in_scope = self.is_in_scope(&memory);
                return Ok(is_in_scope.then(|| (Box::new(memory), superseded)));
            }
            let Some(survivor) = memory.merged_into else { return Ok(None) };
            from = std::mem::replace(&mut id, survivor);
        }
        Ok(None)
    }

    /// Adds memories that may contradict a repeated text, near or not: its replacement by a
    /// person's decision, and memories that it is flagged with.
    fn opponents(&mut self) -> Result<(), SearchError> {
        let Some(equal) = self.weighed.equal.first() else { return Ok(()) };
        let into = match equal {
            Equal::Merged { into, .. } => Some((**into).clone()),
            Equal::Live(_) | Equal::Archived { .. } => None,
        };
        if let Some(memory) = equal.live() {
            let memory = memory.clone();
            self.weighed.flags = self.reader.open_contradictions_of(&memory)?;
            self.weighed.kept_apart = self.reader.kept_apart_from(&memory)?;
        }
        let mut others: Vec<Memory> = into.into_iter().collect();
        for flag in &self.weighed.flags {
            if let Some(memory) = self.reader.live_memory(flag.other.as_str())?
                && self.is_in_scope(&memory)
            {
                others.push(memory);
            }
        }
        for memory in others {
            self.compare(memory, true)?;
        }
        self.added = self.weighed.matches.len();
        Ok(())
    }

    /// Adds memories with a near vector.
    fn near(&mut self) -> Result<(), SearchError> {
        let Some(near) = self.gathered.near.as_ref().filter(|_| self.query().is_some()) else {
            return Ok(());
        };
        for row in &near.rows {
            if self.weighed.matches.len() >= MATCHES_MAX + self.added {
                break;
            }
            if let Some(memory) = self.reader.live_memory(&row.id)?
                && self.is_in_scope(&memory)
            {
                self.add(memory)?;
            }
        }
        let unread = near.total.saturating_sub(near.rows.len() as u64);
        self.weighed.total = self.weighed.matches.len() as u64 + unread;
        Ok(())
    }

    /// Returns the vector that others are compared with: the new memory's, or that of one of the same text, as far as it may
    /// be compared with that one.
    fn query(&self) -> Option<&[f32]> {
        let reused = self.gathered.reused.as_deref().filter(|_| !self.weighed.equal.is_empty());
        self.incoming.vector.as_deref().or(reused)
    }

    /// Compares a memory with the new one, unless it says the same or is no longer near.
    fn add(&mut self, memory: Memory) -> Result<(), SearchError> {
        self.compare(memory, false)
    }

    /// As [`Self::add`]; `anyway`: even where it is not near.
    fn compare(&mut self, memory: Memory, anyway: bool) -> Result<(), SearchError> {
        if self.says(&memory.text_key()) || !self.seen.insert(memory.id.clone()) {
            return Ok(());
        }
        let query = self.query();
        let vector = match (query, &self.gathered.space) {
            (Some(_), Some((space, shapes))) => {
                self.reader.vector(memory.id.as_str(), SpaceShapes { space, shapes })?
            }
            _ => None,
        };
        let both = vector.as_deref().zip(query);
        let similarity = both.and_then(|(vector, query)| self.rules.similarity(query, vector));
        let similarity = similarity.or_else(|| self.similarity_by_words(&memory));
        let is_near = similarity.is_some_and(|found| found >= self.rules.check.flag_threshold);
        let is_alike = || self.key.as_ref().is_some_and(|key| key.proposes(&memory.content));
        if anyway || is_near || is_alike() {
            let (judgement, differences) = (None, Vec::new());
            let found = Match { memory, vector, similarity, judgement, differences };
            self.weighed.matches.push(found);
        }
        Ok(())
    }

    /// The similarity of the built-in embedding, where the new text came without a vector.
    fn similarity_by_words(&self, memory: &Memory) -> Option<Similarity> {
        self.rules.similarity(self.built_in.as_ref()?, &embedding::embed(&memory.content)?)
    }

    fn finish(mut self) -> Result<Weighed, SearchError> {
        let shared = |found: &&Match| found.vector.as_ref() == self.incoming.vector.as_ref();
        let shared = self.weighed.matches.iter().filter(|m| m.vector.is_some()).filter(shared);
        self.weighed.is_shared_vector = shared.count() >= SHARED_VECTOR_TEXTS_MAX;
        self.weighed.matches.sort_by(|a, b| {
            let order = b.similarity.cmp(&a.similarity);
            order.then_with(|| newest_first(&a.memory, &b.memory))
        });
        self.weighed.total = self.weighed.total.max(self.weighed.matches.len() as u64);
        self.weighed.matches.truncate(MATCHES_MAX + self.added);
        let is_open = !self.weighed.matches.is_empty();
        let Some(text) = self.incoming.text.as_deref().filter(|_| is_open) else {
            return Ok(self.weighed);
        };
        let guard = self.rules.guard.get();
        let reading = guard.read(text).on_day(Some(self.rules.today));
        for found in &mut self.weighed.matches {
            let content = &found.memory.content;
            let judgement = guard.judge(&found.memory.reading(guard), &reading);
            found.differences = differences(&judgement, content, text);
            found.judgement = Some(judgement);
        }
        self.weighed.reading = Some(reading);
        Ok(self.weighed)
    }

    /// Tells whether a strict key is that of the new text.
    fn says(&self, key: &str) -> bool {
        self.own_key.as_deref() == Some(key)
    }

    /// Tells whether a memory may be the same as the new one: both have the same separating
    /// categories.
    fn is_in_scope(&self, memory: &Memory) -> bool {
        let separate_by = &self.rules.policy.cluster.separate_by;
        separating(&memory.categories, separate_by) == self.separating
    }
}

impl Equal {
    const fn rank(&self) -> u8 {
        match self {
            Self::Live(_) => 0,
            Self::Merged { .. } => 1,
            Self::Archived { .. } => 2,
        }
    }

    /// The memory that says it, or did.
    pub(super) fn memory(&self) -> &Memory {
        match self {
            Self::Live(memory) | Self::Merged { into: memory, .. } | Self::Archived { memory } => {
                memory
            }
        }
    }

    /// The live memory that says it.
    pub(super) fn live(&self) -> Option<&Memory> {
        match self {
            Self::Live(memory) | Self::Merged { into: memory, .. } => Some(memory),
            Self::Archived { .. } => None,
        }
    }
}

/// A fact guard that is made when it is first needed: most memories are like none before.
pub(super) struct LazyGuard {
    policy: GuardPolicy,
    made: OnceLock<Guard>,
}

impl LazyGuard {
    /// Makes it at once where the user has a lexicon, so that a mistake in it is reported.
    pub(super) fn new(policy: &GuardPolicy) -> Result<Self, LexiconError> {
        let made = match &policy.lexicon {
            Some(_) => OnceLock::from(Guard::new(policy)?),
            None => OnceLock::new(),
        };
        Ok(Self { policy: policy.clone(), made })
    }

    pub(super) fn get(&self) -> &Guard {
        self.made.get_or_init(|| Guard::new(&self.policy).expect("the built-in lexicon is valid"))
    }
}
