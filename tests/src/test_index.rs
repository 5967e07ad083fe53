//! [`TestIndex`]: a store with its index, and searches in a line.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::tz::TimeZone;
use memfold::lookup::{
    BuildIndex, BuiltIndex, Freshness, IndexError, Matches, Query, SealFresh, Sealed, SearchError,
    StoreIndex, Thoroughness, TierChoice, VerifiedIndex, Wanted, build_index, freshness,
    seal_fresh, search, verify,
};
use memfold_core::memory::Status;
use memfold_core::time::Instant;
use memfold_index::file::FileMode;
use memfold_index::{NoProgress, Pool};
use memfold_simd::Kernels;
use memfold_store::brain_db::{BrainDb, OpenOptions};
use memfold_store::{LoadRequest, MemoryStore as _, VecSink};

use crate::store_now;

/// A store somewhere, and the index beside it.
#[derive(Debug)]
pub struct TestIndex {
    store: BrainDb,
    folder: PathBuf,
    now: Instant,
    time_zone: TimeZone,
    threads: usize,
    kernels: &'static Kernels,
}

impl TestIndex {
    /// Takes the store at `path`; nothing is built.
    ///
    /// # Panics
    /// When it cannot be opened.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        let mut folder = path.as_os_str().to_owned();
        folder.push(".memfold");
        Self {
            store: BrainDb::open(path, OpenOptions::default()).expect("it is a store"),
            folder: folder.into(),
            now: store_now(),
            time_zone: TimeZone::UTC,
            threads: 2,
            kernels: Kernels::active(),
        }
    }

    /// Builds on this many threads, with these kernels.
    #[must_use]
    pub fn with(self, threads: usize, kernels: &'static Kernels) -> Self {
        Self { threads, kernels, ..self }
    }

    /// Returns the folder of generations.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns the store.
    #[must_use]
    pub const fn store(&self) -> &BrainDb {
        &self.store
    }

    fn load(&self) -> LoadRequest<'_> {
        LoadRequest { time_zone: &self.time_zone, now: self.now, progress: &NoProgress }
    }

    /// Builds the index.
    ///
    /// # Panics
    /// When it cannot be built.
    pub fn build(&self, tier: TierChoice) -> BuiltIndex {
        let pool = Pool::new(std::num::NonZero::new(self.threads)).expect("threads can be started");
        let request = BuildIndex {
            folder: &self.folder,
            mode: FileMode::PRIVATE,
            load: self.load(),
            model: None,
            tier,
            pool: &pool,
            kernels: self.kernels,
            scratch_dir: &std::env::temp_dir(),
            wait: Duration::from_secs(5),
        };
        build_index(&self.store, &request).expect("the index can be built")
    }

    /// Seals new rows; returns their number.
    ///
    /// # Panics
    /// When that fails, or there is no index.
    pub fn seal(&self) -> usize {
        let request = SealFresh {
            folder: &self.folder,
            mode: FileMode::PRIVATE,
            load: self.load(),
            rows_min: 1,
            kernels: self.kernels,
            wait: Duration::from_secs(5),
        };
        match seal_fresh(&self.store, &request).expect("rows can be sealed") {
            Sealed::Segment { rows, .. } => rows,
            Sealed::TooFew { rows } => rows,
            Sealed::NoIndex => panic!("there is no index"),
        }
    }

    /// Opens the index.
    ///
    /// # Panics
    /// When there is none, or it cannot be opened.
    #[must_use]
    pub fn index(&self) -> StoreIndex {
        StoreIndex::open(&self.folder).expect("it can be opened").expect("one was built")
    }

    /// Searches with this index, or without one.
    ///
    /// # Errors
    /// As [`search`].
    pub fn try_search(
        &self,
        index: Option<&StoreIndex>,
        query: &[f32],
        wanted: Wanted,
    ) -> Result<Matches, SearchError> {
        search(&self.store, index, Query::Vector(query), wanted, &self.load(), self.kernels)
    }

    /// Searches with this index, or without one; ids with the bits of their similarities.
    ///
    /// # Panics
    /// When the search fails.
    #[must_use]
    pub fn found(
        &self,
        index: Option<&StoreIndex>,
        query: &[f32],
        wanted: Wanted,
    ) -> Vec<(String, u64)> {
        let found = self.try_search(index, query, wanted).expect("the search succeeds");
        let pair = |found: &memfold::lookup::Match| {
            (found.memory.id.to_string(), found.similarity.get().to_bits())
        };
        found.matches.iter().map(pair).collect()
    }

    /// Verifies every byte of an index.
    ///
    /// # Errors
    /// As [`verify`].
    pub fn verify(&self, index: &StoreIndex, pool: &Pool) -> Result<VerifiedIndex, IndexError> {
        verify(index, &self.load(), &Thoroughness { store: None, pool, kernels: self.kernels })
    }

    /// Returns the freshness of the index.
    ///
    /// # Panics
    /// When there is none, or the store cannot be read.
    #[must_use]
    pub fn freshness(&self) -> Freshness {
        freshness(&self.store, &self.index(), &self.load()).expect("the store can be read")
    }

    /// Answers by definition: every live memory of the store as a load finds it, sorted by similarity and id.
    ///
    /// # Panics
    /// When the store cannot be loaded.
    #[must_use]
    pub fn by_definition(&self, query: &[f32], wanted: Wanted) -> Vec<(String, u64)> {
        let mut sink = VecSink::default();
        let snapshot = self.store.load(&self.load(), &mut sink).expect("the store can be loaded");
        let kernels = Kernels::active();
        let mut all = BTreeMap::new();
        for memory in &snapshot.memories {
            let Some((space, row)) = memory.embedding.vector() else { continue };
            let vector = sink.vector(space, row);
            let norms = [kernels.dot(query, query), kernels.dot(vector, vector)];
            if memory.status != Status::Live || vector.len() != query.len() {
                continue;
            }
            let similarity = kernels.similarity(query, vector, norms).expect("vectors are valid");
            if wanted.similarity_min.is_none_or(|least| similarity >= least) {
                all.insert((std::cmp::Reverse(similarity), memory.id.to_string()), similarity);
            }
        }
        let pairs = all.into_iter().map(|((_, id), similarity)| (id, similarity.get().to_bits()));
        pairs.take(wanted.neighbors.unwrap_or(usize::MAX)).collect()
    }
}
