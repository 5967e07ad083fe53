//! [`RowMarks`]: marks of the rows of a store at the time when a run had searched them all.

use std::collections::BTreeSet;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use memfold_core::memory::MemoryId;
use memfold_core::plan::{ActionType, Plan};
use memfold_core::policy::Policy;
use memfold_core::time::Instant;
use memfold_datasets::atomic_file::NewFile;
use memfold_index::NoProgress;
use memfold_index::file::generations::SEARCHED_FILE;
use memfold_index::file::{
    FileHead, FileKind, FileMode, Generations, SectionFile, SectionFileError, SectionFileWriter,
    SectionId,
};
use memfold_store::brain_db::{MarkedRow, RowMark};
use memfold_store::{BrainDb, LoadRequest, StoreError};
use serde::{Deserialize, Serialize};

/// Hashes of ids, ascending.
const IDS: SectionId = SectionId::new(18);
/// For each of them the digest of its row.
const DIGESTS: SectionId = SectionId::new(19);
/// u8: the run as JSON.
const RUN: SectionId = SectionId::new(20);

const MICROSECONDS_PER_HOUR: f64 = 3_600e6;

/// The run that searched rows.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SearchedBy {
    /// Its id.
    pub run_id: String,
    /// sha256 of the semantic configuration: under another one, everything is to be searched anew.
    pub config_hash: String,
    /// The version of memfold: its guard decides.
    pub engine_version: String,
    /// The generation of the index beside which this stands.
    generation: u64,
    /// Memories that this generation does not hold as they are, though it may hold their ids.
    edited: BTreeSet<String>,
}

impl SearchedBy {
    /// Names a run of this version.
    #[must_use]
    pub fn run(run_id: &str, config_hash: &str) -> Self {
        Self {
            run_id: run_id.to_owned(),
            config_hash: config_hash.to_owned(),
            engine_version: env!("CARGO_PKG_VERSION").to_owned(),
            generation: 0,
            edited: BTreeSet::new(),
        }
    }
}

/// The rows of a store as they are before a run, to be kept once its plan is applied.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct RowMarks {
    marks: Vec<RowMark>,
    /// Live memories.
    pub(super) live: u64,
    generation: u64,
    edited: BTreeSet<String>,
}

impl RowMarks {
    /// Reads the rows of a store.
    ///
    /// # Errors
    /// When the store cannot be read, or when cancelled.
    pub fn read(
        store: &BrainDb,
        load: &LoadRequest<'_>,
        policy: &Policy,
    ) -> Result<Self, StoreError> {
        store.look_up(load, |reader| {
            let mut marks = Self::default();
            reader.each_mark(young_since(policy, load.now), |row| marks.add(row))?;
            Ok(marks)
        })
    }

    /// Adds a row. A row that is protected by its age will be searched again when it no longer is.
    pub(super) fn add(&mut self, row: &MarkedRow<'_>) {
        self.live += u64::from(row.is_live);
        if !(row.is_young && row.is_live) {
            self.marks.push(row.mark);
        }
    }

    /// Remembers which memories a generation of the index does not hold as they are.
    pub(super) fn edited(&mut self, edited: BTreeSet<String>, generation: u64) {
        (self.edited, self.generation) = (edited, generation);
    }

    /// Writes the file that the next incremental run starts from: all rows except the rows of
    /// `pending`, actions that were not applied.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn keep(
        mut self,
        folder: &Path,
        mode: FileMode,
        mut run: SearchedBy,
        pending: &BTreeSet<MemoryId>,
    ) -> Result<(), KeepMarksError> {
        run.generation =
            Generations::at(folder).current().ok().flatten().map_or(0, |live| live.number());
        if run.generation == self.generation {
            run.edited = std::mem::take(&mut self.edited);
        }
        let path = folder.join(SEARCHED_FILE);
        let failed = |error: io::Error| KeepMarksError { path: path.clone(), error };
        let pending: BTreeSet<u64> = pending.iter().map(RowMark::id_of).collect();
        self.marks.retain(|mark| !pending.contains(&mark.id));
        self.marks.sort_unstable();
        self.marks.dedup_by_key(|mark| mark.id);
        let ids: Vec<u64> = self.marks.iter().map(|mark| mark.id).collect();
        let digests: Vec<u64> = self.marks.iter().map(|mark| mark.digest).collect();
        let run = serde_json::to_vec(&run).map_err(|error| failed(error.into()))?;
        let write = || -> Result<NewFile, SectionFileError> {
            let unwritten =
                |source| SectionFileError::Write { part: "the file".to_owned(), source };
            let file = NewFile::create_with(&path, mode).map_err(unwritten)?;
            // A store has fewer rows than 2^32.
            let row_count = ids.len() as u32;
            let head = FileHead {
                kind: FileKind::Searched,
                row_count,
                node_count: row_count,
                dim: 1,
                store_identity: [0; 32],
                parameters: Vec::new(),
            };
            SectionFileWriter::new(file, head)?
                .section(IDS, &ids)?
                .section(DIGESTS, &digests)?
                .section(RUN, &run)?
                .finish()
        };
        let mut file = write().map_err(|error| failed(io::Error::other(error)))?;
        file.flush().and_then(|()| file.publish()).map(drop).map_err(failed)
    }
}

/// The rows could not be kept; the next run searches everything.
#[derive(Debug, thiserror::Error)]
#[error("write {}: {error}", path.display())]
pub struct KeepMarksError {
    path: PathBuf,
    #[source]
    error: io::Error,
}

/// Returns the time since which a memory is protected by its age: younger memories are searched
/// again.
pub(super) fn young_since(policy: &Policy, now: Instant) -> Instant {
    if !policy.protection.enabled {
        return Instant(i64::MAX);
    }
    let span = policy.protection.min_age_hours.max(0.0) * MICROSECONDS_PER_HOUR;
    Instant(now.0.saturating_sub(span as i64))
}

/// Returns the memories of the changes that a plan holds.
#[must_use]
pub fn targets(plan: &Plan) -> BTreeSet<MemoryId> {
    let changes = plan.actions.iter().filter(|action| action.action != ActionType::Noop);
    changes.flat_map(|action| action.target_ids.iter().cloned()).collect()
}

/// The rows as an earlier run left them, where they lie in a mapped file.
pub(super) struct Searched {
    file: SectionFile,
    pub(super) run: SearchedBy,
}

impl Searched {
    /// Opens the file of a folder; an error says why everything is to be searched.
    pub(super) fn open(folder: &Path) -> Result<Self, String> {
        let path = folder.join(SEARCHED_FILE);
        if !path.exists() {
            return Err(
                "no run with --execute has searched the store since it has an index".to_owned()
            );
        }
        let said = |error: &dyn std::error::Error| error.to_string();
        let file = SectionFile::open(&path, FileKind::Searched).map_err(|error| said(&error))?;
        file.verify(&NoProgress).map_err(|error| said(&error))?;
        let (ids, digests) = (file.section::<u64>(IDS), file.section::<u64>(DIGESTS));
        let lengths = ids.map(<[u64]>::len).and_then(|ids| Ok((ids, digests?.len())));
        if lengths.map_err(|error| said(&error))?
            != (file.head().row_count as usize, file.head().row_count as usize)
        {
            return Err(format!("{}: its sections do not fit each other", path.display()));
        }
        let run = file.section::<u8>(RUN).map_err(|error| said(&error))?;
        let run = serde_json::from_slice(run).map_err(|error| said(&error))?;
        Ok(Self { file, run })
    }

    /// Says why everything is to be searched under a configuration, if so.
    pub(super) fn serves(&self, config_hash: &str) -> Result<(), String> {
        let version = env!("CARGO_PKG_VERSION");
        if self.run.engine_version != version {
            return Err(format!("the last run was one of memfold {}", self.run.engine_version));
        }
        match self.run.config_hash == config_hash {
            true => Ok(()),
            false => Err("the configuration is another one since the last run".to_owned()),
        }
    }

    /// Returns the memories that a generation of the index does not hold as they are.
    pub(super) fn edited_since(&self, generation: u64) -> BTreeSet<String> {
        match self.run.generation == generation {
            true => self.run.edited.clone(),
            false => BTreeSet::new(),
        }
    }

    /// Returns the rows as they were.
    pub(super) fn rows(&self) -> SearchedRows<'_> {
        SearchedRows {
            ids: self.file.section(IDS).unwrap_or_default(),
            digests: self.file.section(DIGESTS).unwrap_or_default(),
            at: 0,
        }
    }
}

/// Hashes of ids, ascending, and digests.
pub(super) struct SearchedRows<'a> {
    ids: &'a [u64],
    digests: &'a [u64],
    /// The position of the row that was looked up last.
    at: usize,
}

impl SearchedRows<'_> {
    /// Tells whether a row is unchanged; the hashes of the requested ids ascend.
    pub(super) fn hold(&mut self, mark: RowMark) -> bool {
        self.at += self.ids[self.at..].iter().take_while(|id| **id < mark.id).count();
        self.ids.get(self.at) == Some(&mark.id) && self.digests.get(self.at) == Some(&mark.digest)
    }
}
