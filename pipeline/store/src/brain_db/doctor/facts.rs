//! [`Facts`]: the facts of an examination, without a judgement.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::Path;

use rusqlite::Connection;

use crate::brain_db::doctor::examine::UnopenedTable;
use crate::brain_db::read::access::Columns;
use crate::brain_db::read::lookup::half;
use crate::memory_store::VectorSink;
use memfold_core::memory::{Memory, SpaceIndex, Status, VectorSpace};
use memfold_core::{SkipReason, Snapshot};
use memfold_index::Row;

/// Examples that are kept of each kind of case.
pub(crate) const EXAMPLES_MAX: usize = 20;

/// Cases of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Found {
    /// Their number.
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
    pub(crate) fn illustrate(&mut self, example: impl Into<String>) {
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

/// The facts that an examination found.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Facts {
    /// Complaints of SQLite's integrity check, at most ten lines.
    pub damage: Vec<String>,
    /// Complaints about full-text indexes, which can be filled anew.
    pub full_text_damage: Vec<String>,
    /// Virtual tables that cannot be opened here.
    pub unopened: Vec<UnopenedTable>,
    /// Rows that refer to a missing row, as `table → parent`, with their number.
    pub broken_references: BTreeMap<(String, String), u64>,
    /// The full-text index.
    pub full_text: FullText,
    /// memfold's own tables, where there are any.
    pub own: Option<OwnTables>,
    /// The store's files.
    pub files: Files,
    /// Other consolidators.
    pub other_consolidators: Vec<OtherConsolidator>,
    /// Side effects in the store when a row of `stm` or `embeddings` is deleted or inserted.
    pub reactions: Vec<String>,
    /// Counts of the memories; `None` where they could not be read.
    pub memories: Option<MemoryFacts>,
}

/// Counts of the memories and their vectors.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MemoryFacts {
    /// All live memories with an embedding that is not a usable vector, by id.
    pub invalid_embeddings: Vec<String>,
    /// Candidates.
    pub live: u64,
    /// Rows and embeddings left out, by reason.
    pub skipped: BTreeMap<SkipReason, Found>,
    /// The vector spaces, the one with most vectors first.
    pub spaces: Vec<SpaceFacts>,
    /// Vectors that stand under too many different texts: for each, one of the memories.
    pub shared_vectors: Found,
    /// Live memories that share a vector.
    pub sharing_memories: u64,
    /// Merged and archived rows that are still in the memory table.
    pub visible_archived: u64,
    /// Merged rows without a survivor.
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
    /// Its kind.
    pub kind: FullTextKind,
    /// Live memories that are not in it.
    pub missing: Found,
    /// Entries without a row.
    pub orphans: u64,
    /// Orphans that the next new memories will take over, and be found by.
    pub orphans_ahead: u64,
}

/// The kind of full-text index of a store.
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
    /// Whether the record of runs is unchanged.
    pub audit: AuditChain,
}

/// A run that has not ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnfinishedRun {
    /// Which run.
    pub run_id: String,
    /// Its kind: `execute`, `undo`, …
    pub kind: String,
    /// The plan it applies.
    pub plan_id: Option<String>,
    /// Its target (the run to undo, for example).
    pub target: Option<String>,
    /// Whether its record says that it is under way.
    pub is_running: bool,
    /// Whether it holds the store's lock or, where that is unknown, gave a sign of life a moment
    /// ago.
    pub is_alive: bool,
    /// Units it applied.
    pub applied: u64,
}

/// The state of the record of runs.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub enum AuditChain {
    /// It was not checked.
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

/// Counts vectors and keeps eight bytes of each.
#[derive(Debug, Clone, Default)]
pub(crate) struct VectorCensus {
    spaces: Vec<VectorSpace>,
    digests: Vec<Vec<u64>>,
}

impl VectorSink for VectorCensus {
    fn open_space(&mut self, space: &VectorSpace) -> io::Result<SpaceIndex> {
        let next = u32::try_from(self.spaces.len()).map_err(io::Error::other)?;
        self.spaces.push(space.clone());
        self.digests.push(Vec::new());
        Ok(SpaceIndex(next))
    }

    fn push(&mut self, space: SpaceIndex, vector: &[f32]) -> io::Result<Row> {
        let digests = &mut self.digests[space.0 as usize];
        let next = u32::try_from(digests.len()).map_err(io::Error::other)?;
        digests.push(digest(vector));
        Ok(Row(next))
    }

    fn restart(&mut self) -> io::Result<()> {
        *self = Self::default();
        Ok(())
    }
}

impl VectorCensus {
    /// Returns the number of vectors of each space, in the order in which the spaces were opened.
    pub(crate) fn counts(&self) -> Vec<u64> {
        self.digests.iter().map(|digests| digests.len() as u64).collect()
    }

    /// Returns the spaces, the one with most vectors first.
    pub(crate) fn spaces(&self) -> Vec<SpaceFacts> {
        let spaces = self.spaces.iter().zip(self.counts());
        let mut spaces: Vec<SpaceFacts> =
            spaces.map(|(space, vectors)| SpaceFacts { space: space.clone(), vectors }).collect();
        spaces.sort_by(|a, b| b.vectors.cmp(&a.vectors).then_with(|| a.space.cmp(&b.space)));
        spaces
    }

    /// Finds the vectors that stand under `texts_max` different live texts or more: an example of each, and
    /// how many memories they are.
    pub(crate) fn shared(&self, snapshot: &Snapshot, texts_max: usize) -> (Found, u64) {
        let mut under: BTreeMap<(u32, u64), Vec<&Memory>> = BTreeMap::new();
        let live = snapshot.memories.iter().filter(|memory| memory.status == Status::Live);
        for memory in live {
            if let Some((space, row)) = memory.embedding.vector() {
                let digest = self.digests[space.0 as usize][row.0 as usize];
                under.entry((space.0, digest)).or_default().push(memory);
            }
        }
        let (mut shared, mut memories) = (Found::default(), 0);
        for sharing in under.values().filter(|sharing| sharing.len() >= texts_max) {
            let texts: BTreeSet<&str> = sharing.iter().map(|memory| &*memory.content).collect();
            if texts.len() >= texts_max {
                shared.add(sharing[0].id.as_str());
                memories += sharing.len() as u64;
            }
        }
        (shared, memories)
    }
}

fn digest(vector: &[f32]) -> u64 {
    let mut hasher = blake3::Hasher::new();
    for component in vector {
        hasher.update(&component.to_le_bytes());
    }
    half(hasher.finalize().as_bytes())
}

/// A trace of another consolidator.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize)]
pub struct OtherConsolidator {
    /// Where it was found.
    pub place: String,
    /// Its meaning.
    pub what: &'static str,
    /// How to switch it off.
    #[serde(skip)]
    pub stop: &'static str,
    /// How many rows show it; `null` where it is not rows that do.
    pub rows: Option<u64>,
}

/// The owner's programs that consolidate, and how each of them is switched off.
const STOP_ENGINE: &str = "switch off the agent's knowledge compression (abstraction engine): it archives memories into \
    summaries of its own";
const STOP_NIGHTLY: &str = "take consolidate.py (memory-hygiene.sh: prune, scan) off the schedule: it deletes memories and \
    leaves their search entries";
const STOP_RULES: &str = "run memory_consolidation_rules.py no longer: it groups archived memories again, and its flags \
    become memories";

/// A habit of another consolidator that shows in the rows of `stm`.
struct Habit {
    /// The column it shows in.
    column: &'static str,
    /// Where it shows in the rows, for people.
    place: &'static str,
    /// Which rows, as SQL on `{}`, the column.
    rows: &'static str,
    what: &'static str,
    stop: &'static str,
}

const HABITS: [Habit; 5] = [
    Habit {
        column: "source",
        place: "source abstraction-engine",
        rows: "{} = 'abstraction-engine'",
        what: "an abstraction engine wrote summaries of other memories",
        stop: STOP_ENGINE,
    },
    Habit {
        column: "categories",
        place: "category compressed",
        rows: "{} LIKE '%\"compressed\"%'",
        what: "an abstraction engine marks its summaries so",
        stop: STOP_ENGINE,
    },
    Habit {
        column: "archived_by",
        place: "a UUID in archived_by",
        rows: "{} LIKE '________-____-____-____-____________'",
        what: "an abstraction engine archived them into summaries of its own",
        stop: STOP_ENGINE,
    },
    Habit {
        column: "content",
        place: "text that begins with [CONSOLIDATED]",
        rows: "{} LIKE '[CONSOLIDATED] %'",
        what: "a nightly consolidator wrote them; it deletes memories without a trace",
        stop: STOP_NIGHTLY,
    },
    Habit {
        column: "source",
        place: "source archived:merged_into or archived:low_utility",
        rows: "({0} LIKE 'archived:merged\\_into:%' ESCAPE '\\' OR {0} = 'archived:low_utility')",
        what: "a rule-based consolidator archived them and kept no record of what they were",
        stop: STOP_RULES,
    },
];

/// Searches for traces of other consolidators in the store and beside it.
pub(crate) fn find_other_consolidators(
    connection: &Connection,
    columns: &Columns,
    path: &Path,
) -> rusqlite::Result<Vec<OtherConsolidator>> {
    let mut other_consolidators = Vec::new();
    if !Columns::of(connection, "compression_log")?.is_empty() {
        let what = "an abstraction engine archives memories into summaries of its own";
        let place = "table compression_log".to_owned();
        other_consolidators.push(OtherConsolidator { place, what, stop: STOP_ENGINE, rows: None });
    }
    let beside = path.with_file_name("consolidations.db");
    if beside.exists() {
        let place = memfold_guard::text::excerpt(&beside.display().to_string(), 200);
        let what = "a nightly consolidator deletes memories without a trace";
        other_consolidators.push(OtherConsolidator { place, what, stop: STOP_NIGHTLY, rows: None });
    }
    for (habit, count) in HABITS.iter().zip(counts(connection, columns)?) {
        if count > 0 {
            let rows = if count == 1 { "row" } else { "rows" };
            let place = format!("{count} {rows} with {}", habit.place);
            let Habit { what, stop, .. } = *habit;
            other_consolidators.push(OtherConsolidator { place, what, stop, rows: Some(count) });
        }
    }
    Ok(other_consolidators)
}

/// Counts the rows of every habit in one pass.
fn counts(connection: &Connection, columns: &Columns) -> rusqlite::Result<Vec<u64>> {
    let count = |habit: &Habit| {
        let column = columns.expression(habit.column);
        let rows = habit.rows.replace("{0}", &column).replace("{}", &column);
        format!("count(CASE WHEN {rows} THEN 1 END)")
    };
    let listed: Vec<String> = HABITS.iter().map(count).collect();
    let sql = format!("SELECT {} FROM stm", listed.join(", "));
    connection.query_row(&sql, [], |row| {
        (0..HABITS.len()).map(|at| row.get::<_, i64>(at).map(i64::unsigned_abs)).collect()
    })
}
