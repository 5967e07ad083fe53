//! Stores and the files beside them: [`StorePath`], how they are opened, where their indexes are.

use std::ffi::OsString;
use std::io;
use std::ops::Deref;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use memfold_core::report::run_id;
use memfold_datasets::texts::TextFile;
use memfold_index::file::FileMode;
use memfold_index::file::generations::SEARCHED_FILE;
use memfold_simd::Kernels;
use memfold_store::brain_db::{OpenOptions, Session, SessionOptions};
use memfold_store::upkeep::UpkeepRun;
use memfold_store::{BrainDb, StoreError};

use super::{Advised, Failure, Settings, now};
use crate::embed::replace::KeptVectors;
use crate::execute::forbidden_by;
use crate::machine;
use crate::quick_check::{QuickCheck, QuickCheckOptions};

/// Ends the name of the folder of an index.
const INDEX_ENDING: &str = ".memfold";

/// Endings of databases: a file with one of these names is a store, whatever its content.
const DATABASES: [&str; 4] = ["db", "db3", "sqlite", "sqlite3"];

/// A store as a caller names it, and the `brain.db` to work on: the same file, or the mirror of a store of another kind.
#[derive(Debug, Clone, Default)]
pub struct StorePath {
    db: PathBuf,
    mirrored: Option<Arc<Mirrored>>,
}

/// A store of another kind, by its mirror.
#[derive(Debug, Clone)]
pub struct Mirrored {
    /// The store that was named.
    pub origin: PathBuf,
    /// The `brain.db` that mirrors it.
    pub mirror: PathBuf,
    /// Its kind.
    pub kind: &'static str,
    /// Patterns of categories that its kind never merges across.
    pub separate_by: &'static [&'static str],
    /// The rules that hold where nothing else is configured.
    pub rule_profile: Option<&'static str>,
    /// Places of the store that could not be read, where nothing else of it could be.
    pub unread: Option<usize>,
}

impl StorePath {
    /// Returns the store of another kind that is worked on by its mirror.
    #[must_use]
    pub fn mirrored(&self) -> Option<&Mirrored> {
        self.mirrored.as_deref()
    }

    /// Returns the store that the caller named.
    #[must_use]
    pub fn named(&self) -> &Path {
        self.mirrored.as_ref().map_or(&self.db, |mirrored| &mirrored.origin)
    }
}

impl From<PathBuf> for StorePath {
    fn from(db: PathBuf) -> Self {
        Self { db, mirrored: None }
    }
}

impl From<Mirrored> for StorePath {
    fn from(mirrored: Mirrored) -> Self {
        Self { db: mirrored.mirror.clone(), mirrored: Some(Arc::new(mirrored)) }
    }
}

impl Deref for StorePath {
    type Target = Path;

    fn deref(&self) -> &Path {
        &self.db
    }
}

impl<T: ?Sized> AsRef<T> for StorePath
where
    Path: AsRef<T>,
{
    fn as_ref(&self) -> &T {
        (**self).as_ref()
    }
}

/// Tells whether a path names a file of texts, or stdin.
#[must_use]
pub fn is_text_file(path: &Path) -> bool {
    let ending = path.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let is_database = DATABASES.contains(&ending.to_ascii_lowercase().as_str());
    path == Path::new("-") || (!is_database && TextFile::is_texts(path))
}

/// Opens a store to read it.
///
/// # Errors
/// When it is not a store, or cannot be read.
pub fn open_store(path: &Path, settings: &Settings) -> Result<BrainDb, Failure> {
    BrainDb::open(path, open_options(settings))
        .map_err(|error| Failure::of("open the store", &error))
}

/// Returns how patient to be with a store that others hold.
#[must_use]
pub fn open_options(settings: &Settings) -> OpenOptions {
    OpenOptions::default().busy_timeout(busy_timeout(settings))
}

/// Returns how long to wait for others that write.
pub(super) fn busy_timeout(settings: &Settings) -> Duration {
    Duration::from_millis(settings.configuration.settings.busy_timeout_ms.into())
}

/// Opens a store for a run.
///
/// # Errors
/// When it cannot be written, or another run holds it.
pub fn open_session(path: &Path, settings: &Settings) -> Result<Session, Failure> {
    Session::open(path, &session_options(settings))
        .map_err(|error| Failure::of("write to the store", &error))
}

/// Opens a store for writes to memfold's own tables.
///
/// # Errors
/// When it cannot be written.
pub fn open_own_tables(path: &Path, settings: &Settings) -> Result<Session, Failure> {
    Session::open_beside_runs(path, &session_options(settings))
        .map_err(|error| Failure::of("write to the store", &error))
}

/// Opens a store for a run of upkeep and does the run's work. `at` is the time of the writes, in
/// place of the clock's; `name` tells its id from the ids of other runs at that time.
pub(super) fn run_upkeep<T, E: Advised + From<StoreError>>(
    path: &Path,
    settings: &Settings,
    at: Option<&str>,
    name: &str,
    what: &str,
    work: impl FnOnce(&Session, &UpkeepRun<'_>) -> Result<T, E>,
) -> Result<T, Failure> {
    let time_zone = &settings.time_zone()?;
    let now = now(at, time_zone)?;
    let session = open_session(path, settings)?;
    let done = session.store_id().map_err(E::from).and_then(|store_id| {
        let (run_id, holder) = (&*run_id(&store_id, now, name), &*machine::holder());
        work(&session, &UpkeepRun { run_id, now, time_zone, holder })
    });
    done.map_err(|error| Failure::of(what, &error))
}

/// Returns who writes, and how patiently.
#[must_use]
pub(crate) fn session_options(settings: &Settings) -> SessionOptions {
    SessionOptions { busy_timeout: busy_timeout(settings), holder: machine::holder() }
}

/// Opens a store for checks and saves.
///
/// # Errors
/// When the store cannot be found, or the user's lexicon is not valid.
pub fn open_quick_check(
    db: &Path,
    index_dir: Option<&Path>,
    settings: &Settings,
) -> Result<QuickCheck, Failure> {
    let configured = &settings.configuration.settings;
    let options = QuickCheckOptions {
        policy: settings.configuration.policy.clone(),
        check: configured.quick_check,
        time_zone: settings.time_zone()?,
        busy_timeout: busy_timeout(settings),
        holder: machine::holder(),
        index_folder: index_to_read(db, index_dir)?,
        read_only: forbidden_by(configured).is_some(),
        kernels: Kernels::active(),
        clock: machine::clock_seconds,
    };
    QuickCheck::open(db, options).map_err(|error| Failure::of("read the lexicon", &error))
}

/// Returns the permissions of files that are derived from a store: only readers of the store may
/// read them.
#[must_use]
pub(crate) fn mode_like(db: &Path) -> FileMode {
    std::fs::metadata(db).map_or(FileMode::PRIVATE, |found| FileMode::like(&found))
}

/// Returns the folder of the index to read: the one named, the one beside the store, or, where there is only that, the
/// one in the cache.
///
/// # Errors
/// When the store cannot be found.
pub fn index_to_read(db: &Path, named: Option<&Path>) -> Result<PathBuf, Failure> {
    if let Some(folder) = named {
        return Ok(folder.to_owned());
    }
    let store = store_path(db)?;
    let beside = beside(&store);
    let cached = cached(&store, INDEX_ENDING).filter(|cached| !beside.is_dir() && cached.is_dir());
    Ok(cached.unwrap_or(beside))
}

/// Returns the folders in which an index of a store may be: the one named, the one beside the store, the one in the cache.
///
/// # Errors
/// When the store cannot be found.
pub(crate) fn index_folders(db: &Path, named: Option<&Path>) -> Result<Vec<PathBuf>, Failure> {
    let store = store_path(db)?;
    let folders = [named.map(Path::to_owned), Some(beside(&store)), cached(&store, INDEX_ENDING)];
    Ok(folders.into_iter().flatten().collect())
}

/// Returns the folder to build in: as for reading, and in the cache where the store's folder cannot be written.
///
/// # Errors
/// When no folder can be written.
pub fn index_to_build(db: &Path, named: Option<&Path>) -> Result<PathBuf, Failure> {
    let folder = index_to_read(db, named)?;
    if named.is_some() || folder.is_dir() {
        return Ok(folder);
    }
    let store = store_path(db)?;
    let place = store.parent().unwrap_or(Path::new("."));
    match tempfile::tempfile_in(place) {
        Ok(_) => Ok(folder),
        Err(error) => {
            let cached = cached(&store, INDEX_ENDING).ok_or_else(|| unwritable(place, &error))?;
            let parent = cached.parent().unwrap_or(Path::new("."));
            std::fs::create_dir_all(parent).map_err(|error| unwritable(parent, &error))?;
            Ok(cached)
        }
    }
}

/// Removes the marks for runs over changed memories, so that the next run searches everything. They
/// hold ids, and hashes of rows.
///
/// # Errors
/// When a file cannot be removed.
pub(crate) fn remove_marks(db: &Path, named: Option<&Path>) -> Result<(), Failure> {
    let folders = index_folders(db, named)?;
    folders.iter().try_for_each(|folder| remove_derived(&folder.join(SEARCHED_FILE)))
}

/// Removes the vectors that are kept of other models. They are of texts, and held by hashes of these.
///
/// # Errors
/// When a file cannot be removed.
pub(crate) fn remove_kept_vectors(db: &Path, named: Option<&Path>) -> Result<(), Failure> {
    for folder in index_folders(db, named)? {
        let entries = std::fs::read_dir(&folder).into_iter().flatten().flatten();
        let is_kept = |name: &OsString| KeptVectors::is_file_name(&name.to_string_lossy());
        let mut kept = entries.map(|entry| entry.file_name()).filter(is_kept);
        kept.try_for_each(|name| remove_derived(&folder.join(name)))?;
    }
    Ok(())
}

/// Removes a file that can be made anew, where there is one.
fn remove_derived(file: &Path) -> Result<(), Failure> {
    match std::fs::remove_file(file) {
        Err(error)
            if !matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) =>
        {
            let hint = "delete it yourself: it can be made anew".to_owned();
            Err(Failure::new(&format!("remove {}", file.display()), &error, Some(hint)))
        }
        _ => Ok(()),
    }
}

fn unwritable(folder: &Path, error: &io::Error) -> Failure {
    let hint = Some("name a folder that can be written with --index-dir".to_owned());
    Failure::new(&format!("write to {}", folder.display()), error, hint)
}

/// Follows links: a store has one index under all its names.
fn store_path(db: &Path) -> Result<PathBuf, Failure> {
    std::fs::canonicalize(db).map_err(|error| {
        let what = format!("open {}", db.display());
        Failure::new(&what, &error, Some("name a brain.db or a file of vectors".to_owned()))
    })
}

fn beside(store: &Path) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push(INDEX_ENDING);
    name.into()
}

/// `$XDG_CACHE_HOME/memfold/brain.db-0123456789abcdef.memfold`, the digits from the store's path.
pub(super) fn cached(store: &Path, ending: &str) -> Option<PathBuf> {
    of_user("XDG_CACHE_HOME", ".cache", store, ending)
}

/// `$XDG_STATE_HOME/memfold/memory-0123456789abcdef.mirror.db`: for files that cannot be made anew.
pub(super) fn in_state(store: &Path, ending: &str) -> Option<PathBuf> {
    of_user("XDG_STATE_HOME", ".local/state", store, ending)
}

fn of_user(variable: &str, within_home: &str, store: &Path, ending: &str) -> Option<PathBuf> {
    let folder = std::env::var_os(variable).filter(|folder| !folder.is_empty());
    let folder = folder.map(PathBuf::from).or_else(|| {
        let home = std::env::var_os("HOME").filter(|folder| !folder.is_empty())?;
        Some(PathBuf::from(home).join(within_home))
    })?;
    let digest = blake3::hash(store.as_os_str().as_encoded_bytes()).to_hex();
    let mut name = OsString::from(store.file_name()?);
    name.push(format!("-{}{ending}", &digest[..16]));
    Some(folder.join("memfold").join(name))
}
