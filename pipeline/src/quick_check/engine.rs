//! [`QuickCheck`]: what checks and saves of one process share.

use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use jiff::tz::TimeZone;
use memfold_index::NoProgress;
use memfold_index::file::{FileMode, Generations};
use memfold_simd::Kernels;

use super::Incoming;
use super::decide::Decided;
use super::gather::{Gathered, Wanted, gather};
use super::lazy_guard::LazyGuard;
use super::save::SaveRun;
use super::weigh::{Rules, Weighed};
use crate::lookup::{
    OpenIndexError, SealError, SealFresh, Sealed, SearchError, StoreIndex, seal_fresh,
};
use memfold_guard::LexiconError;
use memfold_model::time::Instant;
use memfold_plan::policy::{Policy, QuickCheckPolicy};
use memfold_store::brain_db::{KeptReader, OpenOptions};
use memfold_store::{BrainDb, LoadRequest};

/// How to check and save.
#[derive(Clone)]
pub struct QuickCheckOptions {
    /// What merges, protects and separates.
    pub policy: Policy,
    /// The thresholds of checks, and their time limit.
    pub check: QuickCheckPolicy,
    /// The zone of naive times.
    pub time_zone: TimeZone,
    /// How long to wait for a lock of another process.
    pub busy_timeout: Duration,
    /// Who saves: `<machine> <process>`.
    pub holder: String,
    /// The folder of the store's index.
    pub index_folder: PathBuf,
    /// Saves become plain inserts.
    pub read_only: bool,
    /// The kernels.
    pub kernels: &'static Kernels,
    /// Seconds since any fixed moment.
    pub clock: fn() -> f64,
}

/// Rows that are in no segment are made one from so many on.
const UNSEALED_ROWS_MAX: usize = 512;

/// Checks and saves memories of one store; may be shared between threads.
pub struct QuickCheck {
    pub(super) shared: Arc<Shared>,
    pub(super) run: Mutex<Option<SaveRun>>,
}

/// What a check that outlives its time limit goes on to use.
pub(super) struct Shared {
    pub(super) store: BrainDb,
    pub(super) options: QuickCheckOptions,
    pub(super) guard: LazyGuard,
    index: Mutex<Option<Arc<StoreIndex>>>,
    reader: KeptReader,
}

/// What a look has found so far.
#[derive(Default)]
struct Found {
    gathered: Mutex<Gathered>,
    judged: Mutex<Option<(Weighed, Decided)>>,
}

/// What a look within the time limit found.
pub(super) struct Looked {
    pub(super) gathered: Gathered,
    /// What is to be done, where that was decided in the same look.
    pub(super) judged: Option<(Weighed, Decided)>,
    /// Whether it ended by itself.
    pub(super) in_time: bool,
}

impl std::fmt::Debug for QuickCheck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QuickCheck")
            .field("store", &self.shared.store.path())
            .finish_non_exhaustive()
    }
}

impl QuickCheck {
    /// Names a store; it is looked at when something is checked or saved.
    ///
    /// # Errors
    /// When the user's lexicon cannot be read.
    pub fn open(
        store: impl Into<PathBuf>,
        mut options: QuickCheckOptions,
    ) -> Result<Self, LexiconError> {
        // That a memory is young is no reason to keep a second copy: facts are most often said twice within the hour.
        options.policy.protection.min_age_hours = 0.0;
        let guard = LazyGuard::new(&options.policy.guard)?;
        let store = BrainDb::at(store, OpenOptions::default().busy_timeout(options.busy_timeout));
        let (index, reader) = (Mutex::new(None), KeptReader::default());
        let shared = Shared { store, options, guard, index, reader };
        Ok(Self { shared: Arc::new(shared), run: Mutex::new(None) })
    }

    /// Looks through index and store within the time limit, and decides where `judge` says so.
    pub(super) fn gather(&self, incoming: &Incoming, now: Instant, judge: bool) -> Looked {
        let found = Arc::new(Found::default());
        let (done, wait) = mpsc::sync_channel(1);
        let (shared, incoming, into) =
            (Arc::clone(&self.shared), incoming.clone(), Arc::clone(&found));
        let spawned = thread::Builder::new().name("quick check".to_owned()).spawn(move || {
            shared.gather(&incoming, now, &into, judge);
            // Nobody waits any more where time has run out.
            let _ = done.send(());
        });
        let limit = self.shared.options.check.time_limit;
        let in_time = match spawned {
            Ok(_) => wait.recv_timeout(limit) != Err(RecvTimeoutError::Timeout),
            Err(_) => false,
        };
        let mut gathered = found.gathered.lock().map(|found| found.clone()).unwrap_or_default();
        let judged = found.judged.lock().ok().and_then(|mut judged| judged.take());
        if !in_time {
            let limit = limit.as_millis();
            gathered.notes.push(format!(
                "the check took longer than {limit} ms; `memfold index warm` reads a cold index"
            ));
        }
        Looked { gathered, judged, in_time }
    }

    /// Seals rows that are in no segment, where they are many and nobody else does so now.
    ///
    /// # Errors
    /// When they cannot be sealed; nothing is lost by that.
    pub fn seal(&self, now: Instant, mode: FileMode) -> Result<Sealed, SealError> {
        let Shared { store, options, .. } = &*self.shared;
        let load = LoadRequest { time_zone: &options.time_zone, now, progress: &NoProgress };
        let (folder, kernels) = (options.index_folder.as_path(), options.kernels);
        let wait = Duration::ZERO;
        let rows_min = UNSEALED_ROWS_MAX;
        seal_fresh(store, &SealFresh { folder, mode, load, rows_min, kernels, wait })
    }

    /// Tells whether so many rows are in no segment that they should be sealed.
    pub(super) const fn should_seal(unsealed_rows: u64) -> bool {
        unsealed_rows > UNSEALED_ROWS_MAX as u64
    }
}

impl Shared {
    pub(super) const fn rules(&self) -> Rules<'_> {
        let QuickCheckOptions { policy, check, kernels, .. } = &self.options;
        Rules { policy, check, guard: &self.guard, kernels }
    }

    pub(super) const fn wanted<'a>(&'a self, incoming: &'a Incoming) -> Wanted<'a> {
        Wanted {
            incoming,
            least: self.options.check.flag_threshold,
            kernels: self.options.kernels,
            build_hint: "`memfold index build` makes checks complete and fast",
            lends: true,
        }
    }

    fn gather(&self, incoming: &Incoming, now: Instant, into: &Found, judge: bool) {
        let found = &into.gathered;
        let note = |note: String| {
            if let Ok(mut found) = found.lock() {
                found.notes.push(note);
            }
        };
        let at = |set: fn(&mut Gathered, f64)| {
            if let Ok(mut found) = found.lock() {
                set(&mut found, (self.options.clock)());
            }
        };
        let index = self.index().unwrap_or_else(|error| {
            note(format!(
                "the index cannot be used: {error}; build it anew with `memfold index build`"
            ));
            None
        });
        let time_zone = &self.options.time_zone;
        let load = LoadRequest { time_zone, now, progress: &NoProgress };
        let wanted = self.wanted(incoming);
        let looked = self.store.look_up_again(&self.reader, &load, |reader| {
            at(|found, at| found.opened_at = Some(at));
            gather(reader, index.as_deref(), &wanted, found)?;
            at(|found, at| found.found_at = Some(at));
            // Nothing is locked meanwhile: whoever waits no longer takes what was found until then.
            let gathered = found.lock().ok().filter(|_| judge).map(|found| found.clone());
            if let Some(gathered) = gathered {
                let judged = self.judge(reader, &gathered, incoming, now)?;
                if let Ok(mut slot) = into.judged.lock() {
                    *slot = Some(judged);
                }
            }
            Ok(())
        });
        if let Err(error) = looked {
            let error: SearchError = error;
            note(format!("the check failed: {error}"));
        }
    }

    /// Returns the index that was opened last.
    pub(super) fn known_index(&self) -> Option<Arc<StoreIndex>> {
        self.index.try_lock().ok()?.clone()
    }

    /// Returns the live index; opened anew only where there is another one, or more segments.
    pub(super) fn index(&self) -> Result<Option<Arc<StoreIndex>>, OpenIndexError> {
        let Ok(mut known) = self.index.lock() else { return Ok(None) };
        let generations = Generations::at(&self.options.index_folder);
        if let Some(index) = known.as_ref() {
            let generation = index.files().generation();
            if generations.is_current(generation)? && !generation.has_more_fresh() {
                return Ok(Some(Arc::clone(index)));
            }
        }
        *known = StoreIndex::open(&self.options.index_folder)?.map(Arc::new);
        Ok(known.clone())
    }
}
