//! [`Mirror`]: an origin and the `brain.db` that mirrors it, held by one process.

use std::fs;
use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;
use memfold_core::memory::MemoryId;
use memfold_core::time::Instant;
use memfold_datasets::atomic_file::stay_within;
use memfold_index::file::FileMode;
use memfold_store::brain_db::{MemoryState, MirrorOf, NewStore, Session, SessionOptions};
use memfold_store::journal::RevertOptions;
use memfold_store::origin::Origin;
use memfold_store::whole_file::OsLock;

use super::MirrorError;
use crate::execute::{ExecuteError, UndoRequest, UndoTarget, undo};

/// The folder of mirrors, beside an origin that is a file and in one that is a folder.
const FOLDER: &str = ".memfold";
/// Keeps version control from seeing the mirror.
const IGNORE_ALL: &str = "# Made by memfold; can be deleted at any time.\n*\n";
/// Units of one memory that are undone in a row.
const TAKEN_BACK_MAX: usize = 100;

/// Returns the place of an origin's mirror: `.memfold/mirror.db` in an origin that is a folder,
/// `.memfold/NAME.mirror.db` beside a file.
///
/// # Examples
///
/// ```
/// use std::path::Path;
/// use memfold::mirror::mirror_path;
///
/// let mirror = mirror_path(Path::new("notes/memory.jsonl"));
/// assert_eq!(mirror, Path::new("notes/.memfold/memory.jsonl.mirror.db"));
/// ```
#[must_use]
pub fn mirror_path(origin: &Path) -> PathBuf {
    if origin.is_dir() {
        return origin.join(FOLDER).join("mirror.db");
    }
    let mut name = origin.file_name().unwrap_or_default().to_owned();
    name.push(".mirror.db");
    origin.parent().unwrap_or(Path::new("")).join(FOLDER).join(name)
}

/// How a mirror is opened.
#[derive(Clone)]
pub struct MirrorOptions<'a> {
    /// The mirror's file; it is made where it is missing.
    pub path: &'a Path,
    /// Where the origin is.
    pub place: &'a Path,
    /// How to open the mirror.
    pub session: SessionOptions,
    /// The time.
    pub now: Instant,
    /// The zone of naive times.
    pub time_zone: &'a TimeZone,
}

/// An origin and its mirror. Others wait while it is held.
pub struct Mirror<'a> {
    pub(super) origin: &'a dyn Origin,
    pub(super) session: Session,
    pub(super) options: MirrorOptions<'a>,
    _lock: OsLock,
}

impl<'a> Mirror<'a> {
    /// Opens the mirror of an origin, or makes an empty one.
    ///
    /// # Errors
    /// When the mirror cannot be made or written, another process holds it, or it is that of another origin.
    pub fn open(origin: &'a dyn Origin, options: MirrorOptions<'a>) -> Result<Self, MirrorError> {
        // A clone of a repository may bring a link in the place of the mirror's folder.
        let home = match options.place.is_dir() {
            true => options.place,
            false => options.place.parent().unwrap_or(Path::new(".")),
        };
        stay_within(home, options.path)
            .map_err(|source| MirrorError::File { path: options.path.to_owned(), source })?;
        make_folder(options.path)?;
        let lock = lock(&options)?;
        let is_new = !options.path.exists();
        if is_new {
            NewStore::remove_leftovers(options.path)
                .map_err(|source| MirrorError::File { path: options.path.to_owned(), source })?;
            NewStore::create(options.path, mode(options.place))?.publish()?;
        }
        let session = Session::open_beside_runs(options.path, &options.session)?;
        let mirror = Self { origin, session, options, _lock: lock };
        mirror.claim(is_new)?;
        Ok(mirror)
    }

    /// The time as the owner of a `brain.db` writes times.
    pub(super) fn at(&self) -> String {
        self.options.now.to_naive_local(self.options.time_zone)
    }

    /// Makes sure that the mirror is that of the origin; an origin that was moved keeps its mirror.
    fn claim(&self, is_new: bool) -> Result<(), MirrorError> {
        let place = self.options.place.canonicalize();
        let place = place.unwrap_or_else(|_| self.options.place.to_owned());
        let (kind, place) = (self.origin.kind(), place.to_string_lossy().into_owned());
        let found = self.session.read(|reads| reads.mirror_of())?;
        let another = |found: String| MirrorError::AnotherStore {
            path: self.options.path.to_owned(),
            place: place.clone(),
            found,
        };
        match found {
            Some(MirrorOf { kind: was, place: at, .. }) if was == kind && at == place => Ok(()),
            Some(MirrorOf { kind: was, place: at, .. })
                if was != kind || Path::new(&at).exists() =>
            {
                Err(another(format!("it mirrors the {was} {at}")))
            }
            None if !is_new && self.holds_memories()? => {
                Err(another("it is a store of its own".to_owned()))
            }
            _ => self.session.write(|writes| {
                writes.prepare(&self.at())?;
                Ok(writes.set_mirror_of(kind, &place)?)
            }),
        }
    }

    fn holds_memories(&self) -> Result<bool, MirrorError> {
        Ok(!self.session.read(|reads| reads.mirror_memories())?.is_empty())
    }

    /// Undoes the changes of runs to memories, last unit first, until they are as in the origin.
    /// Later runs may plan the same again.
    pub(super) fn take_back(
        &self,
        wanted: &[(String, Option<MemoryState>)],
    ) -> Result<(), MirrorError> {
        if wanted.is_empty() {
            return Ok(());
        }
        let session = Session::open(self.options.path, &self.options.session)?;
        for (id, published) in wanted {
            for _ in 0..TAKEN_BACK_MAX {
                let found = session.read(|reads| reads.mirror_memories())?;
                let found = found.get(id).map(|memory| &memory.state);
                let is_as_published = found == published.as_ref();
                if is_as_published || !self.take_one_back(&session, id)? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// Takes the last unit of a memory back; `false` where there is none, or it cannot be.
    fn take_one_back(&self, session: &Session, id: &str) -> Result<bool, MirrorError> {
        let target = UndoTarget::Memory(MemoryId::new(id));
        let request = UndoRequest {
            target: &target,
            options: RevertOptions::default(),
            remerge_ok: true,
            run_id: &format!("conflict-{}", &blake3::hash(id.as_bytes()).to_hex()[..8]),
            now: self.options.now,
            time_zone: self.options.time_zone,
            holder: &self.options.session.holder,
            progress: &memfold_index::NoProgress,
            clock: &|| 0.0,
        };
        match undo(session, &request) {
            Ok(undone) => Ok(undone.executed.applied > 0),
            Err(
                ExecuteError::Unknown { .. }
                | ExecuteError::Undone { .. }
                | ExecuteError::Pruned { .. },
            ) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

/// Makes the folder of a mirror, unseen by version control where it is ours.
fn make_folder(mirror: &Path) -> Result<(), MirrorError> {
    let Some(folder) = mirror.parent().filter(|folder| !folder.as_os_str().is_empty()) else {
        return Ok(());
    };
    let failed = |source| MirrorError::File { path: folder.to_owned(), source };
    let is_ours = folder.file_name().is_some_and(|name| name == FOLDER);
    if mirror.exists() || folder.is_dir() && !is_ours {
        return Ok(());
    }
    fs::create_dir_all(folder).map_err(failed)?;
    let ignore = folder.join(".gitignore");
    if is_ours && !ignore.exists() {
        fs::write(ignore, IGNORE_ALL).map_err(failed)?;
    }
    Ok(())
}

/// Waits for the lock of a mirror, which is on a file beside it.
fn lock(options: &MirrorOptions<'_>) -> Result<OsLock, MirrorError> {
    let mirror = options.path;
    let mut path = mirror.as_os_str().to_owned();
    path.push(".memfold-sync-lock");
    let lock = OsLock::take(Path::new(&path), options.place, options.session.busy_timeout);
    let lock = lock.map_err(|source| MirrorError::File { path: path.into(), source })?;
    lock.ok_or_else(|| MirrorError::Locked { path: mirror.to_owned() })
}

/// At most the permissions of the origin.
fn mode(origin: &Path) -> FileMode {
    fs::metadata(origin).map_or_else(|_| FileMode::PRIVATE, |found| FileMode::like(&found))
}
