//! [`ServedStore`]: a store that stays open, with all that its requests share.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use jiff::tz::TimeZone;
use memfold::execute::forbidden_by;
use memfold::machine::{self, Stopwatch};
use memfold::ops::{
    Failure, KindRequest, Memories, MemoriesOptions, Mirrored, OpenOrigin, Settings, Sources,
    StorePath, open_options,
};
use memfold_core::plan::SavedPlan;
use memfold_core::report::shell_words as command_line;
use memfold_core::time::Instant;
use memfold_guard::Guard;
use memfold_index::NoProgress;
use memfold_store::brain_db::{Session, SessionOptions};
use memfold_store::origin::Usage;
use memfold_store::{BrainDb, LoadRequest};
use memfold_terminal::printer::Printer;

use super::history::PastRun;
use super::jobs::Jobs;
use super::plans::Survey;
use super::problem::{Problem, ProblemKind};
use super::workers::Workers;
use crate::metrics::Metrics;

/// Number of latest dry runs with plans that no store holds; they can be viewed and applied.
const PLANS_KEPT: usize = 8;
/// Actions of these plans together; the latest plan is kept in any case.
const PLANNED_ACTIONS_KEPT: usize = 50_000;

/// Seconds after which a folder is read again before a request, and how many times as long as reading it took.
const PULL_EVERY: f64 = 2.0;
const PULL_SHARE: f64 = 10.0;

/// A longer write-ahead log is emptied.
const LOG_BYTES_MAX: u64 = 16 << 20;
/// Maximum time that writers wait for readers that keep the log.
const LOG_WAIT: Duration = Duration::from_millis(100);
const LOOK_AT_LOGS_EVERY: Duration = Duration::from_secs(1);

/// The settings that apply to every served store.
#[derive(Debug, Clone, Default)]
pub(crate) struct Serving {
    /// Where settings come from.
    pub(crate) sources: Sources,
    /// Worker threads of runs.
    pub(crate) threads: Option<NonZeroUsize>,
}

/// A store that stays open.
pub(crate) struct ServedStore {
    /// Its name in requests.
    pub(crate) name: String,
    /// Its file; of a store of another kind its mirror.
    pub(crate) path: StorePath,
    /// Whether requests may write.
    pub(crate) allow_writes: bool,
    /// The configuration, as the command line would read it.
    pub(crate) settings: Settings,
    /// The zone of naive times.
    pub(crate) time_zone: TimeZone,
    pub(crate) serving: Serving,
    origin: Option<OriginState>,
    pub(crate) printer: Printer,
    pub(crate) guard: Guard,
    pub(crate) db: BrainDb,
    pub(crate) memories: Arc<Memories>,
    pub(crate) jobs: Jobs,
    pub(crate) past: Mutex<VecDeque<Arc<PastRun>>>,
    pub(super) surveyed: Mutex<Option<Arc<Survey>>>,
    pub(crate) metrics: Arc<Metrics>,
    plans: Mutex<VecDeque<Arc<SavedPlan>>>,
}

impl std::fmt::Debug for ServedStore {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ServedStore").field("name", &self.name).finish_non_exhaustive()
    }
}

impl ServedStore {
    /// Opens a store with the configuration that the command line would use.
    ///
    /// # Errors
    /// When it is not a store, cannot be read, or the configuration is not valid.
    pub(crate) fn open(
        name: String,
        path: PathBuf,
        serving: &Serving,
        printer: Printer,
        allow_writes: bool,
        metrics: Arc<Metrics>,
    ) -> Result<Self, Failure> {
        let origin = OriginState::open(&path)?;
        let path = match &origin {
            Some(state) => {
                state.pull(&serving.sources, allow_writes, printer)?;
                StorePath::from(state.mirrored.clone())
            }
            None => StorePath::from(path),
        };
        let settings = Settings::load(&serving.sources, Some(&path), &[])?;
        settings.show_notices(&printer);
        let guard = settings.guard()?;
        let time_zone = settings.time_zone()?;
        let db = BrainDb::open(&path, open_options(&settings)).map_err(|error| {
            let hint = "name a brain.db, or a store of another kind; of texts make one first: \
                        memfold import FILE --into brain.db";
            Failure::new(&format!("open {}", path.display()), &error, Some(hint.to_owned()))
        })?;
        let options = MemoriesOptions { index_dir: None, may_count: allow_writes, embeds: true };
        let memories = Arc::new(Memories::open(&path, &settings, options)?);
        Ok(Self {
            name,
            path,
            allow_writes,
            settings,
            time_zone,
            serving: serving.clone(),
            origin,
            printer,
            guard,
            db,
            memories,
            jobs: Jobs::default(),
            past: Mutex::default(),
            surveyed: Mutex::default(),
            metrics,
            plans: Mutex::default(),
        })
    }

    /// Returns the path of the store, as a command line would name it from anywhere.
    fn place(&self) -> String {
        let named = self.path.named();
        let path = std::path::absolute(named).unwrap_or_else(|_| named.to_owned());
        path.to_string_lossy().into_owned()
    }

    /// Returns the time of the clock.
    pub(crate) fn now(&self) -> Instant {
        machine::clock()
    }

    /// Writes a remark to the log.
    pub(crate) fn note(&self, text: &str) {
        self.printer.note(text);
    }

    /// Asks the work of the store to stop.
    pub(crate) fn stop(&self) {
        self.jobs.stop();
    }

    /// Empties the write-ahead log where it has grown long: requests overlap, so that SQLite alone never would.
    pub(crate) fn shorten_log(&self) {
        let bytes = log_of(&self.path).metadata().map_or(0, |log| log.len());
        if bytes <= LOG_BYTES_MAX || self.may_write().is_err() {
            return;
        }
        let options = SessionOptions { busy_timeout: LOG_WAIT, holder: machine::holder() };
        let session = Session::open_beside_runs(&self.path, &options);
        // A reader that stays long is met again in a while.
        if let Err(error) = session.and_then(|session| session.empty_log()) {
            self.printer.detail(&format!("note: the write-ahead log stays long: {error}"));
        }
    }

    /// How rows are read, as of a time.
    pub(crate) fn load(&self, now: Instant) -> LoadRequest<'_> {
        LoadRequest { time_zone: &self.time_zone, now, progress: &NoProgress }
    }

    /// Refuses to write where the server or the configuration forbids it.
    ///
    /// # Errors
    /// [`ProblemKind::Forbidden`].
    pub(crate) fn may_write(&self) -> Result<(), Problem> {
        if !self.allow_writes {
            let start = command_line(&["memfold-server", "mcp", &self.place(), "--allow-writes"]);
            return Err(Problem::new(ProblemKind::Forbidden, "the server was not told to write")
                .with_hint(format!("start it with --allow-writes, such as: {start}")));
        }
        match forbidden_by(&self.settings.configuration.settings) {
            Some(key) => {
                let detail = format!("{key}, so nothing may be written");
                let hint = "`memfold config show DB` says where it is set";
                Err(Problem::new(ProblemKind::Forbidden, detail).with_hint(hint))
            }
            None => Ok(()),
        }
    }

    /// Takes in changes of others in a store of another kind, if they are likely.
    ///
    /// # Errors
    /// When it cannot be read.
    fn refresh(&self) -> Result<(), Problem> {
        match &self.origin {
            Some(state) if state.is_older_than_allowed() => self.pull(),
            _ => Ok(()),
        }
    }

    /// Takes in changes of others in a store of another kind, before something is written.
    ///
    /// # Errors
    /// When it cannot be read.
    pub(super) fn pull(&self) -> Result<(), Problem> {
        match &self.origin {
            Some(state) if !state.is_unchanged_file() => {
                Ok(state.pull(&self.serving.sources, self.may_write().is_ok(), self.printer)?)
            }
            _ => Ok(()),
        }
    }

    /// Writes changes of the mirror to a store of another kind.
    ///
    /// # Errors
    /// When it cannot be written, or another program changed the same records meanwhile.
    pub(super) fn publish(&self) -> Result<(), Problem> {
        let Some(state) = &self.origin else { return Ok(()) };
        let mut pulled = locked(&state.pulled);
        let origin = OpenOrigin::reopen(&state.mirrored)?;
        let conflicts = origin.begin(&self.serving.sources, &self.printer)?.publish()?;
        // Others may have written since it was read.
        pulled.version = None;
        match &conflicts[..] {
            [] => Ok(()),
            [first, ..] => {
                let detail = format!("another program changed the store meanwhile: {first}");
                Err(Problem::new(ProblemKind::Conflict, detail)
                    .with_hint("look at the memory again; that change was not written"))
            }
        }
    }

    /// Keeps a plan that the store does not hold; the oldest one goes.
    pub(crate) fn keep_plan(&self, plan: SavedPlan) -> Arc<SavedPlan> {
        let plan = Arc::new(plan);
        let mut plans = locked(&self.plans);
        plans.retain(|kept| kept.plan_id != plan.plan_id);
        plans.push_back(Arc::clone(&plan));
        let listed = |plans: &VecDeque<Arc<SavedPlan>>| -> usize {
            plans.iter().map(|plan| plan.actions.len()).sum()
        };
        while plans.len() > PLANS_KEPT || plans.len() > 1 && listed(&plans) > PLANNED_ACTIONS_KEPT {
            plans.pop_front();
        }
        plan
    }

    /// Returns the plans that the store does not hold, the latest one last.
    pub(crate) fn kept_plans(&self) -> Vec<Arc<SavedPlan>> {
        locked(&self.plans).iter().cloned().collect()
    }

    pub(crate) fn drop_plan(&self, plan_id: &str) {
        locked(&self.plans).retain(|kept| kept.plan_id != plan_id);
    }
}

/// A store of another kind: its mirror is served.
struct OriginState {
    mirrored: Mirrored,
    pulled: Mutex<LastPull>,
}

/// When a store of another kind was read last.
#[derive(Default)]
struct LastPull {
    /// Of a store that is a file.
    version: Option<StoreVersion>,
    ended: Option<Stopwatch>,
    seconds: f64,
}

impl OriginState {
    fn open(path: &Path) -> Result<Option<Self>, Failure> {
        let request = KindRequest { path, kind: None, mirror: None, takes_texts: false };
        let found = OpenOrigin::find(request)?;
        Ok(found.map(|found| Self { mirrored: found.mirrored().clone(), pulled: Mutex::default() }))
    }

    /// One at a time: a second one waits, and then has little to do.
    fn pull(&self, sources: &Sources, writes: bool, printer: Printer) -> Result<(), Failure> {
        let mut pulled = locked(&self.pulled);
        let stopwatch = Stopwatch::start();
        // Changes written between the two are pulled the next time.
        let version = self.version();
        let origin = OpenOrigin::reopen(&self.mirrored)?;
        let synchronization = origin.begin(sources, &printer)?;
        let writes = writes && synchronization.may_publish();
        synchronization.check(if writes { Usage::Remove } else { Usage::Read })?;
        synchronization.pull(writes, false)?;
        let (seconds, ended) = (stopwatch.seconds(), Some(Stopwatch::start()));
        *pulled = LastPull { version, ended, seconds };
        Ok(())
    }

    fn is_unchanged_file(&self) -> bool {
        self.version().is_some_and(|version| locked(&self.pulled).version == Some(version))
    }

    /// Of a folder the time of change says little: it is read again after a while, the longer the more that costs.
    fn is_older_than_allowed(&self) -> bool {
        let pulled = locked(&self.pulled);
        let age = pulled.ended.map_or(f64::INFINITY, Stopwatch::seconds);
        self.version().is_some() || age > (pulled.seconds * PULL_SHARE).max(PULL_EVERY)
    }

    fn version(&self) -> Option<StoreVersion> {
        StoreVersion::of(&self.mirrored.origin).ok()
    }
}

/// Length and time of the last change of a file and of its write-ahead log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct StoreVersion([Option<(u64, SystemTime)>; 2]);

impl StoreVersion {
    pub(super) fn of(path: &Path) -> io::Result<Self> {
        let look = |path: &Path| match std::fs::metadata(path)? {
            file if file.is_file() => Ok((file.len(), file.modified()?)),
            _ => Err(io::Error::from(io::ErrorKind::IsADirectory)),
        };
        Ok(Self([Some(look(path)?), look(&log_of(path)).ok()]))
    }
}

/// The file of a store's write-ahead log.
fn log_of(store: &Path) -> PathBuf {
    let mut log = store.as_os_str().to_owned();
    log.push("-wal");
    log.into()
}

/// Takes a lock; after a panic the data are used as they are.
pub(crate) fn locked<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// All that requests need: the stores, the threads, the counters.
#[derive(Debug)]
pub(crate) struct Service {
    stores: BTreeMap<String, Arc<ServedStore>>,
    first: Arc<ServedStore>,
    /// Where blocking work is done.
    pub(crate) workers: Workers,
    /// The counters.
    pub(crate) metrics: Arc<Metrics>,
}

impl Service {
    /// Opens stores by name; the first one is the default of requests.
    ///
    /// # Errors
    /// When there is none, two have the same name, or one cannot be opened.
    pub(crate) fn open(
        stores: Vec<(String, PathBuf)>,
        serving: Serving,
        printer: Printer,
        allow_writes: bool,
        workers: usize,
    ) -> Result<Self, Failure> {
        let mut opened = BTreeMap::new();
        let mut first = None;
        let metrics = Arc::new(Metrics::default());
        for (name, path) in stores {
            let counts = Arc::clone(&metrics);
            let store =
                ServedStore::open(name.clone(), path, &serving, printer, allow_writes, counts)?;
            let store = Arc::new(store);
            store.start_work()?;
            first.get_or_insert_with(|| Arc::clone(&store));
            if opened.insert(name.clone(), store).is_some() {
                return Err(Failure::usage(
                    format!("two stores are called {name:?}"),
                    "give them names: --store NAME=PATH",
                ));
            }
        }
        let first = first.ok_or_else(|| {
            Failure::usage("there is no store to serve", "name one: memfold-server http brain.db")
        })?;
        Ok(Self { stores: opened, first, workers: Workers::new(workers), metrics })
    }

    /// Finds a store by name; without one it is the first.
    ///
    /// # Errors
    /// [`ProblemKind::NotFound`].
    pub(crate) fn store(&self, name: Option<&str>) -> Result<Arc<ServedStore>, Problem> {
        let Some(name) = name else { return Ok(Arc::clone(&self.first)) };
        self.stores.get(name).cloned().ok_or_else(|| {
            let names: Vec<&str> = self.stores.keys().map(String::as_str).collect();
            Problem::not_found(format!("no store is called {name:?}"))
                .with_hint(format!("there are: {}", names.join(", ")))
        })
    }

    /// Returns the stores, by name.
    pub(crate) fn stores(&self) -> impl Iterator<Item = &Arc<ServedStore>> {
        self.stores.values()
    }

    /// Does work on a store where it may block.
    ///
    /// # Errors
    /// Errors of the work, and where too many wait or the store does not exist.
    pub(crate) async fn on<T: Send + 'static>(
        &self,
        store: Option<&str>,
        work: impl FnOnce(&Arc<ServedStore>) -> Result<T, Problem> + Send + 'static,
    ) -> Result<T, Problem> {
        let store = self.store(store)?;
        let work = move || {
            store.refresh()?;
            work(&store)
        };
        self.workers.run(work).await
    }

    /// Keeps the write-ahead logs of all stores short until the process ends.
    pub(crate) async fn shorten_logs(self: Arc<Self>) {
        let mut ticks = tokio::time::interval(LOOK_AT_LOGS_EVERY);
        ticks.set_missed_tick_behavior(tokio::time::MissedTickBehavior::Delay);
        loop {
            ticks.tick().await;
            let stores: Vec<_> = self.stores().cloned().collect();
            let looked = tokio::task::spawn_blocking(move || {
                stores.iter().for_each(|store| store.shorten_log());
            });
            // A defect ends one look.
            let _looked = looked.await;
        }
    }

    /// Asks the work of all stores to stop, and waits for it.
    pub(crate) fn stop(&self, patience: Duration) {
        for store in self.stores.values() {
            store.jobs.stop();
        }
        for store in self.stores.values() {
            store.jobs.wait(patience);
        }
    }
}

/// Returns the name of a store that was given as a path alone.
pub(crate) fn name_of(path: &Path) -> String {
    let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned());
    stem.filter(|stem| !stem.is_empty()).unwrap_or_else(|| "store".to_owned())
}
