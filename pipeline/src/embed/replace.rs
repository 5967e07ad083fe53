//! Another model for a whole store: its vectors are kept beside the store, compared with the old ones, and then put in their place.
//!
//! A [`KeptVectors`] file holds vectors by the hash of their text, so that no text is sent twice.
//! Replaced vectors are kept in a file of this kind too: going back to their model needs no
//! provider.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;
use memfold_core::detect::newest_first;
use memfold_core::memory::{Memory, Status, VectorSpace};
use memfold_core::time::Instant;
use memfold_datasets::atomic_file::NewFile;
use memfold_datasets::{
    ColumnRecord, ColumnSet, ColumnsMeta, ColumnsWriter, DataError, MappedColumns,
};
use memfold_index::file::FileMode;
use memfold_index::{JoinError, JoinOptions, Progress, Row, default_pair_budget, join_pairs};
use memfold_simd::Similarity;
use memfold_store::brain_db::{NewEmbedding, Session};
use memfold_store::{BrainDb, LoadRequest, MemoryStore, StoreError};
use serde::Serialize;

use super::fill::{Asker, Filled, Pending, Refusal, check_space};
use super::{EmbedError, Embedder};
use crate::columns::{ColumnSink, ColumnsError};
use crate::dedup::{DedupError, each_logical_pair};

/// Beginning and ending of the names of vector files beside a store.
const FILE: (&str, &str) = ("vectors-", ".arrow");
/// Characters of a model's name in the name of a file.
const NAME_CHARS: usize = 60;

/// Why a model was not replaced.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplaceError {
    /// The provider, or the store.
    #[error(transparent)]
    Embed(#[from] EmbedError),
    /// A file of vectors cannot be read or written.
    #[error(transparent)]
    File(#[from] DataError),
    /// The vectors of the store cannot be kept for a join.
    #[error(transparent)]
    Columns(#[from] ColumnsError),
    /// Vectors cannot be compared.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// Pairs cannot be listed.
    #[error(transparent)]
    Pairs(#[from] DedupError),
}

/// Vectors of one model by the hash of their text.
#[derive(Default)]
pub struct KeptVectors {
    by_hash: BTreeMap<String, Vec<f32>>,
}

impl KeptVectors {
    /// Returns the file of a model in the folder of a store's index.
    #[must_use]
    pub fn file(folder: &Path, model: &str) -> PathBuf {
        let safe = |c: char| if c.is_ascii_alphanumeric() || "._-".contains(c) { c } else { '-' };
        let name: String = model.chars().map(safe).take(NAME_CHARS).collect();
        // Distinguishes names that look alike on disk.
        let digest = blake3::hash(model.as_bytes()).to_hex();
        folder.join(format!("{}{name}-{}{}", FILE.0, &digest[..8], FILE.1))
    }

    /// Tells whether a file's name is that of kept vectors.
    #[must_use]
    pub fn is_file_name(name: &str) -> bool {
        name.starts_with(FILE.0) && name.ends_with(FILE.1)
    }

    /// Reads a file; empty where there is none.
    ///
    /// # Errors
    /// When it is damaged.
    pub fn read(file: &Path) -> Result<Self, DataError> {
        if !file.exists() {
            return Ok(Self::default());
        }
        let columns = MappedColumns::open(file)?;
        let (ids, vectors) = (columns.ids()?, columns.vectors());
        let rows = ids.iter().enumerate().filter_map(|(row, hash)| {
            Some((hash?.to_owned(), vectors.vector(Row(row as u32)).to_vec()))
        });
        Ok(Self { by_hash: rows.collect() })
    }

    /// Writes the file, replacing an existing one.
    fn write(&self, file: &Path, mode: FileMode, model: &str) -> Result<(), DataError> {
        let Some(dim) = self.by_hash.values().next().map(Vec::len) else { return Ok(()) };
        let failed = |source| DataError::Io { path: file.to_owned(), source };
        std::fs::create_dir_all(file.parent().unwrap_or(file)).map_err(failed)?;
        let meta = ColumnsMeta {
            model: Some(model.into()),
            columns: ColumnSet::Records { text: false, lineage: false },
            ..ColumnsMeta::vectors(dim as u32)
        };
        let new = NewFile::create_with(file, mode).map_err(failed)?;
        let mut writer = ColumnsWriter::create_in(new, &meta, false)?;
        for (id, vector) in &self.by_hash {
            writer.push(&ColumnRecord { id, vector, model, ..ColumnRecord::default() })?;
        }
        writer.publish()
    }

    /// Returns the vector of a text.
    #[must_use]
    pub fn find(&self, text: &str) -> Option<&[f32]> {
        self.by_hash.get(&hash(text)).map(Vec::as_slice)
    }
}

fn hash(text: &str) -> String {
    blake3::hash(text.as_bytes()).to_hex().to_string()
}

/// Which model replaces the store's, and how.
pub struct Replace<'a> {
    /// The new model's name.
    pub model: &'a str,
    /// Makes vectors that are not kept; `None`: no provider may be used.
    pub provider: Option<Box<dyn Embedder>>,
    /// Number of texts in a batch.
    pub batch_size: usize,
    /// Where vectors are kept: the folder of the store's index.
    pub folder: &'a Path,
    /// The permissions of files there.
    pub mode: FileMode,
    /// A folder for the vectors that are compared.
    pub scratch_dir: &'a Path,
    /// From which cosine on two memories are a pair.
    pub threshold: Similarity,
    /// How to join.
    pub join: JoinOptions<'a>,
}

/// How the pairs of two models differ, in distinct texts.
#[derive(Debug, Clone, Default, PartialEq, Serialize)]
pub struct ComparedPairs {
    /// From which cosine on.
    pub threshold: f64,
    /// By the old model.
    pub before: u64,
    /// By the new one.
    pub after: u64,
    /// By both.
    pub both: u64,
    /// Pairs that only the old model finds, the nearest first, up to [`ComparedPairs::SHOWN`].
    pub lost: Vec<ComparedPair>,
    /// Pairs that only the new model finds, the nearest first, up to [`ComparedPairs::SHOWN`].
    pub gained: Vec<ComparedPair>,
}

impl ComparedPairs {
    /// Pairs that are listed one by one.
    pub const SHOWN: usize = 10;
}

/// Two memories that one model finds near.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ComparedPair {
    /// The memories.
    pub ids: [String; 2],
    /// Their texts.
    pub texts: [String; 2],
    /// Their cosine by the model that finds them.
    pub similarity: f64,
}

/// A store with the vectors of two models.
pub struct BothModels {
    live: Vec<Memory>,
    /// The model of most vectors; `None` where there are none.
    pub old: Option<VectorSpace>,
    new: KeptVectors,
    model: String,
    /// Texts that were sent to the provider now.
    pub sent: u64,
    /// Memories with a text that the provider does not take; they keep their present vector.
    pub refused: Vec<Refusal>,
    /// How the pairs differ.
    pub pairs: ComparedPairs,
    before: KeptVectors,
}

/// The counts of a replacement.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Replaced {
    /// Memories that have a vector of the new model.
    pub replaced: u64,
    /// Memories that are gone, or have another text since.
    pub changed: u64,
}

impl BothModels {
    /// Makes the vectors that are not kept, keeps them, and compares the pairs of both models. The store is not written.
    ///
    /// # Errors
    /// When the store, the provider or a file fails, or the caller cancelled; finished vectors are
    /// kept.
    pub fn compare(
        store: &BrainDb,
        request: &LoadRequest<'_>,
        replace: Replace<'_>,
    ) -> Result<Self, ReplaceError> {
        let mut sink = ColumnSink::new(replace.scratch_dir);
        let snapshot = store.load(request, &mut sink).map_err(EmbedError::from)?;
        let columns = sink.finish()?;
        let mut live: Vec<Memory> = snapshot.memories;
        live.retain(|memory| memory.status == Status::Live);
        live.sort_by(newest_first);
        let mut counts = vec![0_u64; snapshot.spaces.len()];
        let spaces = live.iter().filter_map(|memory| memory.embedding.vector());
        spaces.for_each(|(space, _)| counts[space.0 as usize] += 1);
        let is_new = |at: usize| &*snapshot.spaces[at].model == replace.model;
        let old = (0..counts.len()).filter(|&at| counts[at] > 0 && !is_new(at));
        let old = old.max_by_key(|&at| (counts[at], std::cmp::Reverse(at)));
        let matrices = columns.matrices();
        let mut before = KeptVectors::default();
        for memory in &live {
            if let Some((space, row)) = memory.embedding.vector()
                && Some(space.0 as usize) == old
            {
                let vector = matrices[space.0 as usize].vector(row);
                before.by_hash.insert(hash(&memory.content), vector.to_vec());
            }
        }
        let mut both = Self {
            live,
            old: old.map(|at| snapshot.spaces[at].clone()),
            new: KeptVectors::read(&KeptVectors::file(replace.folder, replace.model))?,
            model: replace.model.to_owned(),
            sent: 0,
            refused: Vec::new(),
            pairs: ComparedPairs::default(),
            before,
        };
        let (scratch, threshold, join) = (replace.scratch_dir, replace.threshold, replace.join);
        both.make(replace, request.progress)?;
        both.pairs = both.compared(scratch, threshold, &join)?;
        Ok(both)
    }

    /// Requests the missing vectors, and keeps the received ones also where it ends early.
    fn make(&mut self, replace: Replace<'_>, progress: &dyn Progress) -> Result<(), ReplaceError> {
        let lacks = |memory: &&Memory| self.new.find(&memory.content).is_none();
        let mut seen = BTreeSet::new();
        let missing = self.live.iter().filter(lacks).filter(|memory| seen.insert(&memory.content));
        let missing: Vec<Pending> = missing.map(Pending::from).collect();
        if missing.is_empty() {
            return Ok(());
        }
        let provider = replace.provider.ok_or_else(|| EmbedError::Setting {
            key: "embed.provider",
            problem: format!("is not set, and {} texts have no kept vector", missing.len()),
            advice: "say who makes them: --set embed.provider=daemon, ollama, openai or local"
                .to_owned(),
        })?;
        check_space(Some(&self.space()), provider.model())?;
        let mut asker = Asker::start(provider, self.dim().map(|_| self.space()))?;
        let made = self.ask_all(&mut asker, &missing, replace.batch_size, progress);
        if self.sent > 0 {
            let file = KeptVectors::file(replace.folder, replace.model);
            self.new.write(&file, replace.mode, replace.model)?;
        }
        Ok(made?)
    }

    fn space(&self) -> VectorSpace {
        let dim = self.new.by_hash.values().next().map_or(0, Vec::len);
        VectorSpace { model: self.model.as_str().into(), dim: dim as u32 }
    }

    fn ask_all(
        &mut self,
        asker: &mut Asker,
        missing: &[Pending],
        batch_size: usize,
        progress: &dyn Progress,
    ) -> Result<(), EmbedError> {
        progress.begin("embed", Some(missing.len() as u64));
        let mut filled = Filled::default();
        for batch in missing.chunks(batch_size.max(1)) {
            if progress.cancelled() {
                return Err(EmbedError::Cancelled);
            }
            let placed = asker.embed(batch, &mut filled, progress)?;
            self.sent += placed.len() as u64;
            let hashed = placed.into_iter().map(|(at, vector)| (hash(&batch[at].content), vector));
            self.new.by_hash.extend(hashed);
            progress.advance(batch.len() as u64);
        }
        self.refused = filled.refused;
        progress.end();
        Ok(())
    }

    /// Joins the vectors of each model, one memory for each text that has both, and compares the pairs.
    fn compared(
        &self,
        scratch: &Path,
        threshold: Similarity,
        join: &JoinOptions<'_>,
    ) -> Result<ComparedPairs, ReplaceError> {
        let mut by_text: BTreeMap<&str, &Memory> = BTreeMap::new();
        for memory in &self.live {
            if self.new.find(&memory.content).is_some()
                && self.before.find(&memory.content).is_some()
            {
                by_text.entry(&memory.content).or_insert(memory);
            }
        }
        let memories: Vec<&Memory> = by_text.into_values().collect();
        let near = |vectors: &KeptVectors| -> Result<BTreeMap<[u32; 2], f64>, ReplaceError> {
            let Some(dim) = vectors.by_hash.values().next().map(Vec::len) else {
                return Ok(BTreeMap::new());
            };
            let meta = ColumnsMeta::vectors(dim as u32);
            let mut writer = ColumnsWriter::create_unlinked(scratch, &meta)?;
            for memory in &memories {
                writer.push_vector(vectors.find(&memory.content).unwrap_or_default())?;
            }
            if writer.is_empty() {
                return Ok(BTreeMap::new());
            }
            let columns = writer.finish()?;
            let pairs = join_pairs(&columns.vectors(), threshold, join)?;
            let budget =
                join.pair_budget.unwrap_or_else(|| default_pair_budget(memories.len() as u64));
            if pairs.logical_pairs() > budget {
                let (threshold, histogram) = (threshold.get(), Vec::new());
                return Err(JoinError::PairBudget { budget, threshold, histogram }.into());
            }
            let mut near = BTreeMap::new();
            each_logical_pair(&pairs, join.scratch_dir, join.progress, |pair| {
                near.insert([pair.left.0, pair.right.0], pair.similarity.get());
                Ok::<(), ReplaceError>(())
            })?;
            Ok(near)
        };
        let (before, after) = (near(&self.before)?, near(&self.new)?);
        let only = |these: &BTreeMap<[u32; 2], f64>, others: &BTreeMap<[u32; 2], f64>| {
            let mut only: Vec<([u32; 2], f64)> = these
                .iter()
                .filter(|(pair, _)| !others.contains_key(*pair))
                .map(|(pair, similarity)| (*pair, *similarity))
                .collect();
            only.sort_by(|a, b| b.1.total_cmp(&a.1).then(a.0.cmp(&b.0)));
            only.truncate(ComparedPairs::SHOWN);
            let shown = |(pair, similarity): ([u32; 2], f64)| {
                let of = pair.map(|row| memories[row as usize]);
                ComparedPair {
                    ids: of.map(|memory| memory.id.to_string()),
                    texts: of.map(|memory| memory.content.to_string()),
                    similarity,
                }
            };
            only.into_iter().map(shown).collect()
        };
        Ok(ComparedPairs {
            threshold: threshold.get(),
            before: before.len() as u64,
            after: after.len() as u64,
            both: before.keys().filter(|pair| after.contains_key(*pair)).count() as u64,
            lost: only(&before, &after),
            gained: only(&after, &before),
        })
    }

    /// Returns how many memories are in use.
    #[must_use]
    pub fn live(&self) -> usize {
        self.live.len()
    }

    /// Returns the dimension of the new vectors, if there are any.
    #[must_use]
    pub fn dim(&self) -> Option<u32> {
        Some(self.space().dim).filter(|dim| *dim > 0)
    }

    /// Keeps the old vectors beside the store and puts the new ones in their place, in one transaction.
    ///
    /// # Errors
    /// When a file or the store cannot be written; then the store is as before.
    pub fn write(
        &self,
        session: &Session,
        folder: &Path,
        mode: FileMode,
        now: Instant,
        time_zone: &TimeZone,
    ) -> Result<Replaced, ReplaceError> {
        if let Some(old) = &self.old {
            let file = KeptVectors::file(folder, &old.model);
            let mut kept = KeptVectors::read(&file)?;
            kept.by_hash
                .extend(self.before.by_hash.iter().map(|(hash, v)| (hash.clone(), v.clone())));
            kept.write(&file, mode, &old.model)?;
        }
        let at = now.to_naive_local(time_zone);
        let replaced = session.write::<_, StoreError>(|writes| {
            let layout = writes.layout()?;
            let mut done = Replaced::default();
            for Memory { id, content, .. } in &self.live {
                let Some(vector) = self.new.find(content) else { continue };
                if !writes.has_text(id, content)? {
                    done.changed += 1;
                    continue;
                }
                let model = Some(self.model.as_str());
                let new = NewEmbedding { memory_id: id.as_str(), content, vector, model, at: &at };
                if !writes.replace_embedding(&layout, &new)? {
                    writes.insert_embedding(&layout, &new)?;
                }
                done.replaced += 1;
            }
            Ok(done)
        });
        Ok(replaced.map_err(EmbedError::from)?)
    }
}
