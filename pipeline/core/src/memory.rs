//! [`Memory`]: one row of a store, read and understood, with what it may take part in.

use std::collections::HashSet;

use memfold_index::Row;

use memfold_guard::text::dated_key;
use memfold_guard::{Guard, Reading};

use super::time::Instant;

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

/// The position of a memory in [`crate::Snapshot::memories`].
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
    /// What it was merged into, where it was. The survivor may itself be merged or gone.
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
#[must_use]
pub fn attribute_of(category: &str) -> Option<(&str, &str)> {
    let (name, value) = category.split_once(':')?;
    ATTRIBUTES.contains(&name).then_some((name, value))
}

/// Returns a memory's value of an attribute: that of the first category of its name.
#[must_use]
pub fn attribute<'c>(categories: &'c [Box<str>], wanted: &str) -> Option<&'c str> {
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

/// What became of a memory. Only live ones are candidates for consolidation.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// In the store, in use.
    Live,
    /// In the store, past its end.
    Expired,
    /// In the store, a record about other memories.
    Record,
    /// In the store, archived, merged into another.
    #[serde(rename = "ghost")]
    Merged,
    /// In the store, archived.
    Archived,
    /// In memfold's archive table.
    Moved,
    /// In the store, but not readable.
    Unreadable,
    /// It was there once.
    Gone,
    /// The store knows nothing of it.
    Unknown,
}

impl Status {
    /// Says it in a word.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Live => "live",
            Self::Expired => "expired",
            Self::Record => "record",
            Self::Merged => "ghost",
            Self::Archived => "archived",
            Self::Moved => "moved",
            Self::Unreadable => "unreadable",
            Self::Gone => "gone",
            Self::Unknown => "unknown",
        }
    }

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

/// What is wrong with an embedding.
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

/// The position of a space in [`crate::Snapshot::spaces`].
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

#[cfg(test)]
mod tests {
    use super::*;

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
