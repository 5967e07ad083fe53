//! The index of a store is kept up to date beside other work.

use std::path::Path;
use std::time::Duration;

use memfold_index::Progress;
use memfold_index::file::FileMode;
use memfold_simd::Kernels;
use memfold_store::{BrainDb, LoadRequest};

use super::{Failure, Settings, index_to_build, open_store, pool, scratch_dir};
use crate::lookup::{BuildIndex, SealFresh, Sealed, TierChoice, build_index, seal_fresh};
use crate::machine;

/// Fewer rows are compared one by one as fast as in a segment.
const SEALED_ROWS_MIN: usize = 512;

/// Up to this many rows a build takes seconds.
const REBUILT_ROWS_MAX: u64 = 250_000;

/// Without an index, this many rows are read for each check.
pub(super) const UNINDEXED_ROWS_MAX: u64 = 2_000;

/// From this share of newer rows on, a build is worth its time.
const FRESH_SHARE: u64 = 10;

/// Tells whether an index of `rows` rows (0: none) should be rebuilt, given the number of newer
/// rows.
#[must_use]
pub const fn wants_rebuild(rows: u64, fresh_rows: u64) -> bool {
    let is_many = fresh_rows > UNINDEXED_ROWS_MAX && fresh_rows * FRESH_SHARE > rows;
    is_many && rows + fresh_rows <= REBUILT_ROWS_MAX
}

/// The index of a store, which is kept up to date.
#[derive(Clone, Copy)]
pub struct IndexUpkeep<'a> {
    /// The store.
    pub db: &'a Path,
    /// The folder of the index, where it is not the usual one.
    pub index_dir: Option<&'a Path>,
    /// The configuration.
    pub settings: &'a Settings,
    /// Worker threads.
    pub threads: Option<std::num::NonZeroUsize>,
    /// Receives progress.
    pub progress: &'a dyn Progress,
}

impl IndexUpkeep<'_> {
    /// Opens the store: the work gets it, the folder with the permissions of its files, and how to read.
    fn opened<T>(
        &self,
        work: impl FnOnce(&BrainDb, &Path, FileMode, LoadRequest<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let store = open_store(self.db, self.settings)?;
        let folder = index_to_build(self.db, self.index_dir)?;
        let mode = mode_of(self.db)?;
        let time_zone = self.settings.time_zone()?;
        let now = machine::clock();
        let load = LoadRequest { time_zone: &time_zone, now, progress: self.progress };
        work(&store, &folder, mode, load)
    }

    /// Builds the index, unless another process does so now.
    ///
    /// # Errors
    /// When the store cannot be read, or the index not be written.
    pub fn rebuild(&self) -> Result<(), Failure> {
        self.opened(|store, folder, mode, load| {
            let built = build_index(
                store,
                &BuildIndex {
                    folder,
                    mode,
                    load,
                    model: None,
                    tier: TierChoice::as_built(folder),
                    pool: &pool(self.threads)?,
                    kernels: Kernels::active(),
                    scratch_dir: &scratch_dir(),
                    wait: Duration::ZERO,
                },
            );
            let what = format!("build the index of {}", self.db.display());
            built.map(drop).map_err(|error| Failure::of(&what, &error))
        })
    }

    /// Adds new rows, if there are enough for a segment; rebuilds the index if it no longer fits.
    ///
    /// # Errors
    /// When the store cannot be read, or the index not be written.
    pub fn seal(&self) -> Result<(), Failure> {
        let sealed = self.opened(|store, folder, mode, load| {
            let (kernels, wait, rows_min) = (Kernels::active(), Duration::ZERO, SEALED_ROWS_MIN);
            Ok(seal_fresh(store, &SealFresh { folder, mode, load, rows_min, kernels, wait }))
        })?;
        match sealed {
            Ok(Sealed::Segment { .. } | Sealed::TooFew { .. }) => Ok(()),
            Ok(Sealed::NoIndex) => self.rebuild(),
            Err(error) if error.is_mended_by_a_build() => self.rebuild(),
            Err(error) => Err(Failure::of("add to the index", &error)),
        }
    }
}

/// Returns the permissions of files that are derived from a store.
///
/// # Errors
/// When the store cannot be found.
pub fn mode_of(db: &Path) -> Result<FileMode, Failure> {
    let metadata = std::fs::metadata(db)
        .map_err(|error| Failure::new(&format!("open {}", db.display()), &error, None))?;
    Ok(FileMode::like(&metadata))
}
