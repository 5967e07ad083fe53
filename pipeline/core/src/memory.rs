//! [`Memory`]: one row of a store, read and understood, with its part in consolidation; [`Snapshot`]: a store at one instant.

use std::collections::{BTreeMap, HashSet};

use memfold_index::Row;

use memfold_guard::text::dated_key;
use memfold_guard::{Guard, Reading};

use crate::decisions::Decisions;
use crate::time::Instant;

/// Declares a choice with one name for each value, in stores and in documents.
macro_rules! named {
    ($(#[$attribute:meta])* $visibility:vis enum $name:ident {
        $($(#[$value_attribute:meta])* $value:ident = $text:literal,)*
    }) => {
        $(#[$attribute])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        $visibility enum $name { $($(#[$value_attribute])* $value,)* }

        impl $name {
            /// All values, in order.
            pub const ALL: [Self; [$($text),*].len()] = [$(Self::$value),*];

            /// Returns the name in stores and documents.
            #[must_use]
            pub const fn name(self) -> &'static str {
                match self { $(Self::$value => $text,)* }
            }

            /// Returns the value of a name.
            #[must_use]
            pub fn of_name(name: &str) -> Option<Self> {
                Self::ALL.into_iter().find(|value| value.name() == name)
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.pad(self.name())
            }
        }
    };
}
pub(crate) use named;

/// The store's own id: opaque text, ordered by its bytes.
#[derive(
    Debug,
    Clone,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    serde::Serialize,
    serde::Deserialize,
    schemars::JsonSchema,
)]
#[serde(transparent)]
#[schemars(inline)]
pub struct MemoryId(Box<str>);

impl MemoryId {
    /// Takes the id as the store spells it.
    #[must_use]
    pub fn new(id: impl Into<Box<str>>) -> Self {
        Self(id.into())
    }

    /// Returns the id's text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl std::fmt::Display for MemoryId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The position of a memory in [`Snapshot::memories`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct MemoryIndex(pub u32);

impl MemoryIndex {
    /// Returns the position as an index into a slice.
    #[must_use]
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

/// A memory as loaded.
#[derive(Debug, Clone, PartialEq)]
pub struct Memory {
    /// The store's row number when it was read; 0 where rows have none. It does not outlive a VACUUM.
    pub rowid: i64,
    /// The store's id.
    pub id: MemoryId,
    /// The text.
    pub content: Box<str>,
    /// Categories in the order of the store, without repeats.
    pub categories: Vec<Box<str>>,
    /// Importance; NULL reads 1.0.
    pub importance: f64,
    /// How often it was read; NULL reads 0.
    pub access_count: i64,
    /// When it was made.
    pub created_at: CreatedAt,
    /// When it stops to count, if ever.
    pub expires_at: Option<Instant>,
    /// When it was read last, where the store says so.
    pub last_accessed: Option<Instant>,
    /// Where it came from, as stored; NULL reads `agent`.
    pub source: Box<str>,
    /// The first source, before any consolidation (`previous_source` of provenance, else `source`).
    pub root_source: Box<str>,
    /// What became of it.
    pub status: Status,
    /// Its survivor, where it was merged. The survivor may itself be merged or gone.
    pub merged_into: Option<MemoryId>,
    /// Its vector, or why there is none.
    pub embedding: Embedding,
    /// Digest of the columns a plan rests on (see spec: id, content, categories, importance,
    /// created_at, expires_at, source, archived_by and the embedding's bytes).
    pub base_digest: BaseDigest,
}

impl Memory {
    /// Returns the day it was made, in days since 1970-01-01 UTC, where that is known.
    #[must_use]
    pub fn day(&self) -> Option<i32> {
        self.created_at.instant().map(Instant::day)
    }

    /// Reads its text, against the day it was made.
    #[must_use]
    pub fn reading(&self, guard: &Guard) -> Reading {
        guard.read(&self.content).on_day(self.day())
    }

    /// Returns the key under which its text is the same as another memory's.
    #[must_use]
    pub fn text_key(&self) -> String {
        dated_key(&self.content, self.day(), self.id.as_str())
    }
}

/// Names of attributes: a memory has one value of each, as the category `name:value`.
pub const ATTRIBUTES: [&str; 10] = [
    "type",
    "subtype",
    "scope",
    "scope_id",
    "priority",
    "created_by",
    "promoted_to",
    "protected",
    "entity",
    "namespace",
];

/// Returns name and value of a category that is an attribute, `type:procedural`.
pub(crate) fn attribute_of(category: &str) -> Option<(&str, &str)> {
    let (name, value) = category.split_once(':')?;
    ATTRIBUTES.contains(&name).then_some((name, value))
}

/// Returns a memory's value of an attribute: that of the first category of its name.
pub(crate) fn attribute<'c>(categories: &'c [Box<str>], wanted: &str) -> Option<&'c str> {
    let mut attributes = categories.iter().filter_map(|category| attribute_of(category));
    attributes.find(|(name, _)| *name == wanted).map(|(_, value)| value)
}

/// A creation time, readable or not. An unreadable one counts as oldest and fires no age rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CreatedAt {
    /// An instant.
    At(Instant),
    /// Text that is no time.
    Unreadable(Box<str>),
}

impl CreatedAt {
    /// Returns the instant, if readable.
    #[must_use]
    pub const fn instant(&self) -> Option<Instant> {
        match self {
            Self::At(instant) => Some(*instant),
            Self::Unreadable(_) => None,
        }
    }
}

named! {
    /// The status of a memory. Only live ones are candidates for consolidation.
    #[derive(serde::Serialize, schemars::JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Status {
        /// In the store, in use.
        Live = "live",
        /// In the store, past its end.
        Expired = "expired",
        /// In the store, a record about other memories.
        Record = "record",
        /// In the store, archived, merged into another.
        Merged = "merged",
        /// In the store, archived.
        Archived = "archived",
        /// In memfold's archive table.
        Moved = "moved",
        /// In the store, but not readable.
        Unreadable = "unreadable",
        /// It was there once.
        Gone = "gone",
        /// The store knows nothing of it.
        Unknown = "unknown",
    }
}

impl Status {
    /// Tells whether a row is neither a candidate nor part of one: archived into nothing, expired, or a record.
    #[must_use]
    pub const fn is_excluded(self) -> bool {
        !matches!(self, Self::Live | Self::Merged)
    }
}

/// A memory's vector, or why it has none.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Embedding {
    /// A valid vector: `row` of the matrix of `space`.
    Vector {
        /// Which model and dimension.
        space: SpaceIndex,
        /// Where in the matrix of that space.
        row: Row,
    },
    /// The embedding belongs to an earlier wording (`embeddings.content` disagrees): it has no say in vector merging.
    Stale,
    /// No embedding row.
    Missing,
    /// An embedding that cannot be used.
    Invalid(InvalidEmbedding),
}

impl Embedding {
    /// Returns space and row of a valid vector.
    #[must_use]
    pub const fn vector(self) -> Option<(SpaceIndex, Row)> {
        match self {
            Self::Vector { space, row } => Some((space, row)),
            _ => None,
        }
    }
}

/// The fault of an embedding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum InvalidEmbedding {
    /// A length that is no vector.
    Length,
    /// NaN or infinite values.
    NotFinite,
    /// All zeros.
    Zero,
    /// JSON that is no array of numbers, or a value of another type.
    Unreadable,
}

/// The position of a space in [`Snapshot::spaces`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpaceIndex(pub u32);

/// Vectors that may be compared: one model, one dimension.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
pub struct VectorSpace {
    /// The model's name (NULL joins the modal one).
    pub model: Box<str>,
    /// Components per vector.
    pub dim: u32,
}

/// blake3 of the columns that a plan rests on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BaseDigest(pub [u8; 32]);

impl std::fmt::Display for BaseDigest {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Shorter lists are looked through.
const SCANNED_MAX: usize = 16;

/// Categories in the order in which they came, without repeats. A row may have a million of them: each is added or looked up in
/// constant time.
#[derive(Debug, Clone, Default)]
pub struct CategoryList {
    list: Vec<Box<str>>,
    /// All of the list, once it is long.
    known: HashSet<Box<str>>,
}

impl CategoryList {
    /// Tells whether a category is in the list.
    #[must_use]
    pub fn has(&self, category: &str) -> bool {
        if self.known.is_empty() {
            self.list.iter().any(|known| **known == *category)
        } else {
            self.known.contains(category)
        }
    }

    /// Adds a category, unless it is there.
    pub fn add(&mut self, category: &str) {
        if self.has(category) {
            return;
        }
        self.list.push(category.into());
        if !self.known.is_empty() {
            self.known.insert(category.into());
        } else if self.list.len() > SCANNED_MAX {
            self.known.extend(self.list.iter().cloned());
        }
    }

    /// Returns the categories, each once.
    #[must_use]
    pub fn into_list(self) -> Vec<Box<str>> {
        self.list
    }
}

impl<S: AsRef<str>> FromIterator<S> for CategoryList {
    fn from_iter<I: IntoIterator<Item = S>>(categories: I) -> Self {
        let mut list = Self::default();
        categories.into_iter().for_each(|category| list.add(category.as_ref()));
        list
    }
}

/// A store at one instant.
#[derive(Debug, Clone, Default)]
pub struct Snapshot {
    /// Which store this is: stable while the store lives, the same for every reader.
    pub store_id: Box<str>,
    /// Every row that could be read, in any order: live rows, merged rows and excluded ones. Also those that an
    /// earlier run moved out of the memory table; they are in no count of rows.
    pub memories: Vec<Memory>,
    /// The vector spaces, indexed by [`SpaceIndex`].
    pub spaces: Vec<VectorSpace>,
    /// Rows and embeddings that were left out, by reason.
    ///
    /// Reasons that concern an embedding or a creation time count live rows only; orphaned and
    /// repeated embeddings count embedding rows.
    pub skipped: BTreeMap<SkipReason, u64>,
    /// One example (id or rowid, and the value found) for each reason.
    pub skip_examples: BTreeMap<SkipReason, String>,
    /// Rows in the store's memory table, whether readable or not.
    pub rows_total: u64,
    /// The earlier decisions.
    pub decisions: Decisions,
    /// Remarks for the report: missing parts of the store and how it was read nevertheless.
    pub notes: Vec<String>,
}

impl Snapshot {
    /// Counts the live rows.
    #[must_use]
    pub fn live_count(&self) -> u64 {
        self.count(|memory| memory.status == Status::Live)
    }

    /// Counts the live rows that have a valid, fresh vector.
    #[must_use]
    pub fn with_vector_count(&self) -> u64 {
        self.count(|m| m.status == Status::Live && m.embedding.vector().is_some())
    }

    /// Returns how often `reason` was met.
    #[must_use]
    pub fn skipped_count(&self, reason: SkipReason) -> u64 {
        self.skipped.get(&reason).copied().unwrap_or(0)
    }

    /// Counts the rows that are no candidates, for whatever reason; with
    /// [`live_count`](Self::live_count) they make `rows_total`.
    #[must_use]
    pub fn left_out_count(&self) -> u64 {
        let rows = self.skipped.iter().filter(|(reason, _)| reason.leaves_out_row());
        rows.map(|(_, count)| count).sum()
    }

    fn count(&self, wanted: impl Fn(&Memory) -> bool) -> u64 {
        self.memories.iter().filter(|memory| wanted(memory)).count() as u64
    }
}

/// Why a row or an embedding was left out of consolidation or of vector merging: first the reasons that leave out a row,
/// then the ones that leave out a live row's vector only, up to [`Self::EmbeddingUnreadable`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum SkipReason {
    /// The id is NULL.
    IdNull,
    /// The id is a BLOB.
    IdBlob,
    /// Two rows share an id (only without a primary key).
    IdRepeated,
    /// The content is NULL, a BLOB or empty of text.
    ContentMissing,
    /// Text that is no UTF-8.
    InvalidUtf8,
    /// Archived before.
    Archived,
    /// Expired.
    Expired,
    /// A record that a consolidator wrote about others.
    ConsolidationRecord,
    /// Merged into another memory before.
    Merged,
    /// No embedding; the row takes part in the exact tier.
    EmbeddingMissing,
    /// The embedding belongs to an earlier wording.
    EmbeddingStale,
    /// The embedding's length is no vector.
    EmbeddingLength,
    /// The embedding holds NaN or infinite values.
    EmbeddingNotFinite,
    /// The embedding is all zeros.
    EmbeddingZero,
    /// The embedding is neither numbers nor JSON.
    EmbeddingUnreadable,
    /// An embedding of a memory that is gone.
    EmbeddingOrphan,
    /// A second embedding of one memory.
    EmbeddingRepeated,
    /// The creation time cannot be read; the row counts as oldest.
    CreatedAtUnreadable,
    /// Outside the scope of this run.
    OutOfScope,
}

impl SkipReason {
    /// Tells whether a row with this reason is no candidate at all.
    ///
    /// Each row has at most one of these reasons: rows in the store = live rows + these counts.
    #[must_use]
    pub(crate) const fn leaves_out_row(self) -> bool {
        self as u8 <= Self::Merged as u8
    }

    /// Tells whether the reason keeps a live row out of vector merging only.
    ///
    /// Each live row has at most one of these reasons: live rows = rows with a vector + these counts.
    #[must_use]
    pub const fn leaves_out_vector(self) -> bool {
        !self.leaves_out_row() && self as u8 <= Self::EmbeddingUnreadable as u8
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{ActionState, ActionType};

    #[test]
    fn choices_have_one_name_each() {
        for state in ActionState::ALL {
            assert_eq!(ActionState::of_name(state.name()), Some(state));
            assert_eq!(serde_json::to_value(state).unwrap(), state.name());
        }
        for action in ActionType::ALL {
            assert_eq!(serde_json::to_value(action).unwrap(), action.to_string());
        }
        assert_eq!(ActionState::of_name("done"), None);
    }

    #[test]
    fn each_category_stays_where_it_came_first() {
        for count in [0, 1, 3, SCANNED_MAX, SCANNED_MAX + 1, 100] {
            let names = || (0..count).map(|at| format!("c{at}"));
            let list: CategoryList = names().chain(names().rev()).collect();
            assert!(names().all(|name| list.has(&name)) && !list.has("c"));
            assert!(list.into_list().iter().map(|name| name.to_string()).eq(names()));
        }
    }

    /// One row with 100,000 categories stalled `doctor` for 15 s and `consolidate` for 45 s, as each was looked for among
    /// all before it. A million took hours; now they end within the test.
    #[test]
    fn a_million_categories_are_no_more_than_a_million_steps() {
        let names: Vec<String> = (0..1_000_000).map(|at| format!("category {at}")).collect();
        let list: CategoryList = names.iter().chain(&names).collect();
        assert_eq!(list.into_list().len(), names.len());
    }
}
