//! [`Facts`]: what an examination found, without a judgement.

use std::collections::BTreeMap;

use crate::SkipReason;
use crate::brain_db::Rival;
use memfold_model::memory::VectorSpace;

/// Examples that are kept of each kind of case.
pub(super) const EXAMPLES_MAX: usize = 20;

/// Cases of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// How many there are.
    pub count: u64,
    /// Ids of the first 20, as the store spells them.
    pub examples: Vec<String>,
}

impl Found {
    /// Counts one case.
    pub fn add(&mut self, example: impl Into<String>) {
        self.count += 1;
        self.illustrate(example);
    }

    /// Keeps an example of a case that is counted elsewhere.
    pub(super) fn illustrate(&mut self, example: impl Into<String>) {
        if self.examples.len() < EXAMPLES_MAX {
            self.examples.push(example.into());
        }
    }

    /// Tells whether there is none.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.count == 0
    }
}

/// What an examination found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Facts {
    /// What SQLite's integrity check complains about, at most ten lines.
    pub damage: Vec<String>,
    /// Rows that refer to a row that is not there, as `table → parent`, by how many there are.
    pub broken_references: BTreeMap<(String, String), u64>,
    /// The full-text index.
    pub full_text: FullText,
    /// memfold's own tables, where there are any.
    pub own: Option<OwnTables>,
    /// The store's files.
    pub files: Files,
    /// Other consolidators.
    pub rivals: Vec<Rival>,
    /// What else happens in the store when a row of `stm` or `embeddings` goes or comes back.
    pub reactions: Vec<String>,
    /// What the memories are like; `None` where they could not be read.
    pub memories: Option<MemoryFacts>,
}

/// What the memories and their vectors are like.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MemoryFacts {
    /// The live memories whose embedding is no usable vector, all of them, by id.
    pub invalid_embeddings: Vec<String>,
    /// Candidates.
    pub live: u64,
    /// Rows and embeddings left out, by reason.
    pub skipped: BTreeMap<SkipReason, Found>,
    /// The vector spaces, the one with most vectors first.
    pub spaces: Vec<SpaceFacts>,
    /// Vectors that stand under too many different texts: for each, one of the memories.
    pub shared_vectors: Found,
    /// Live memories that share such a vector.
    pub sharing_memories: u64,
    /// Folded and archived rows that are still in the memory table.
    pub visible_archived: u64,
    /// Folded rows whose survivor is gone.
    pub survivor_gone: Found,
    /// Archived rows that somebody changed after memfold had archived them.
    pub archived_edited: Found,
}

/// A vector space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SpaceFacts {
    /// Model and dimension.
    pub space: VectorSpace,
    /// Valid vectors in it.
    pub vectors: u64,
}

/// The full-text index over the memories.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FullText {
    /// What it is.
    pub kind: FullTextKind,
    /// Live memories that are not in it.
    pub missing: Found,
    /// Entries whose row is gone.
    pub orphans: u64,
    /// Those of them that the next new memories will be found by.
    pub orphans_ahead: u64,
}

/// What kind of full-text index a store has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FullTextKind {
    /// None.
    #[default]
    Absent,
    /// Without a copy of the texts, kept in step by hand, as the owner makes it.
    Contentless,
    /// With a copy of the texts.
    Stored,
    /// Over the texts of another table.
    External,
    /// It does not tell which rows are in it.
    Opaque,
}

/// memfold's own tables.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OwnTables {
    /// Their version; `None` where it is not recorded.
    pub version: Option<i64>,
    /// The version that this program writes.
    pub version_here: i64,
    /// Tables of that version that are not there.
    pub missing: Vec<String>,
    /// Runs that have not ended, the latest first.
    pub unfinished: Vec<UnfinishedRun>,
    /// Contradictory pairs that wait for a person.
    pub open_flags: u64,
    /// Memories that are in the archive table alone; counted with the memories.
    pub moved: u64,
    /// Whether the record of runs is as it was written.
    pub audit: AuditChain,
}

/// A run that has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnfinishedRun {
    /// Which run.
    pub run_id: String,
    /// What it is for: `execute`, `undo`, …
    pub kind: String,
    /// The plan it applies.
    pub plan_id: Option<String>,
    /// What it was asked for, such as the run to undo.
    pub target: Option<String>,
    /// Whether it says that it is under way.
    pub is_running: bool,
    /// Whether it holds the store's lock or, where that cannot be told, gave a sign of life a moment ago.
    pub is_alive: bool,
    /// Units it applied.
    pub applied: u64,
}

/// Whether the record of runs is as it was written.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum AuditChain {
    /// It was not looked at.
    #[default]
    Unchecked,
    /// Every run fits the one before.
    Whole,
    /// A run before this one was changed, added or removed.
    Broken {
        /// The first run that does not fit.
        run_id: String,
    },
}

/// The store's files and the disk they are on.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Files {
    /// Bytes of the store.
    pub store_bytes: u64,
    /// Bytes of its write-ahead log.
    pub log_bytes: u64,
    /// Whether it is in WAL mode.
    pub in_wal_mode: bool,
    /// Pages in use and free ones.
    pub pages: u64,
    /// Free pages.
    pub free_pages: u64,
    /// Bytes that this user may still write beside the store; `None` where the system does not tell.
    pub free_bytes: Option<u64>,
    /// The name of memfold's lock file, where one lies beside the store.
    pub lock_file: Option<String>,
}
