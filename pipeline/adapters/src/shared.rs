//! Shared by the adapters: how changes are checked and noted, and how files are read, written and removed.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use memfold_datasets::atomic_file::NewFile;
use memfold_index::file::FileMode;
use memfold_store::origin::{
    LinkKind, OriginChange, OriginConflict, OriginError, OriginLink, OriginRecord, OriginStatus,
    Published,
};
use memfold_store::whole_file;

/// Why a unit is left alone: the record and the reason.
pub(crate) type Refusal = (String, String);

/// Notes the outcome of the unit at a position.
pub(crate) fn note(published: &mut Published, unit: usize, outcome: Result<(), Refusal>) {
    match outcome {
        Ok(()) => published.units.push(unit),
        Err((id, reason)) => published.conflicts.push(OriginConflict { unit, id, reason }),
    }
}

/// Returns the digest of a text, or of a record that is written like this: 32 hexadecimal digits.
pub(crate) fn digest(bytes: impl AsRef<[u8]>) -> String {
    blake3::hash(bytes.as_ref()).to_hex()[..32].to_owned()
}

/// Digits of a digest in an id.
const ID_DIGITS: usize = 12;

/// Returns the first digits of a digest, as ids that follow from texts have them.
pub(crate) fn id_digits(bytes: impl AsRef<[u8]>) -> String {
    blake3::hash(bytes.as_ref()).to_hex()[..ID_DIGITS].to_owned()
}

/// The importance of a record of a system that knows none; routine in `brain.db`.
pub(crate) const IMPORTANCE: f64 = 1.0;

/// Returns the words of a list between commas.
pub(crate) fn words(text: &str) -> Vec<String> {
    text.split(',').map(str::trim).filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Returns the status of a record that was merged into another one, or archived.
pub(crate) fn retired_status(into: Option<&str>) -> OriginStatus {
    into.map_or(OriginStatus::Archived, |into| OriginStatus::Merged { into: into.to_owned() })
}

/// Returns an attribute of a record.
pub(crate) fn attribute<'r>(record: &'r OriginRecord, name: &str) -> Option<&'r str> {
    let found = record.attributes.iter().find(|(known, _)| known == name);
    found.map(|(_, value)| value.as_str())
}

/// Returns links to the records that a record was made of.
pub(crate) fn supersedes(made_of: &[String]) -> Vec<OriginLink> {
    let link = |to: &String| OriginLink { kind: LinkKind::Supersedes, to: to.clone() };
    made_of.iter().map(link).collect()
}

/// How a store says why a change is refused.
pub(crate) struct Reasons {
    pub(crate) changed: &'static str,
    /// The record is not in the store.
    pub(crate) gone: &'static str,
    /// It is neither there nor among the removed ones.
    pub(crate) unknown: &'static str,
}

/// Refuses a change of a record that others changed, which stands in a store as `live`, or was taken out as `removed`. A
/// change that is made already is possible again. A new record is never refused.
pub(crate) fn check(
    change: &OriginChange,
    live: Option<&OriginRecord>,
    removed: Option<&OriginRecord>,
    reasons: &Reasons,
) -> Result<(), Refusal> {
    let is_known = |found: &OriginRecord, before: &str| found.digest() == before;
    let refusal = match (change, live) {
        (OriginChange::Retire { .. }, None) if removed.is_some() => None,
        (OriginChange::Update { .. } | OriginChange::Retire { .. }, None) => Some(reasons.gone),
        (OriginChange::Update { before, record, .. }, Some(live)) => {
            let is_possible = record.text == live.text || is_known(live, before);
            (!is_possible).then_some(reasons.changed)
        }
        (OriginChange::Retire { before, .. }, Some(live))
        | (OriginChange::Remove { before: Some(before), .. }, Some(live)) => {
            (!is_known(live, before)).then_some(reasons.changed)
        }
        (OriginChange::Restore { before, record }, live) => match live.or(removed) {
            None => Some(reasons.unknown),
            Some(found) => {
                let is_back = found.raw == record.raw;
                let is_possible =
                    is_back || before.as_ref().is_none_or(|before| is_known(found, before));
                (!is_possible).then_some(reasons.changed)
            }
        },
        (OriginChange::Create { .. } | OriginChange::Remove { .. }, _) => None,
    };
    refusal.map_or(Ok(()), |reason| Err((change.id().to_owned(), reason.to_owned())))
}

/// Ids that follow from texts: the second and later ones of one text are numbered.
#[derive(Debug, Default)]
pub(crate) struct FreeIds {
    pub(crate) taken: BTreeSet<String>,
    numbers: BTreeMap<String, usize>,
}

impl FreeIds {
    /// Takes the first free id of a text.
    pub(crate) fn take(&mut self, base: &str) -> String {
        let number = self.numbers.entry(base.to_owned()).or_insert(0);
        loop {
            *number += 1;
            let id = if *number == 1 { base.to_owned() } else { format!("{base}#{number}") };
            if self.taken.insert(id.clone()) {
                return id;
            }
        }
    }
}

/// Makes an error of an answer of the system.
pub(crate) fn failed<'a>(
    action: &'static str,
    path: &'a Path,
) -> impl Fn(io::Error) -> OriginError + 'a {
    move |source| OriginError::Io { action, path: path.to_owned(), source }
}

/// Reads a file as text; `None` where there is none.
pub(crate) fn read_text(path: &Path) -> Result<Option<String>, OriginError> {
    match fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("read", path)(error)),
    }
}

/// Returns the paths of files in a folder and below it, with `/`, in the order of their names, and why some of them cannot be
/// read. Links are not followed. `is_wanted` is asked of each path, and whether it is that of a folder.
pub(crate) fn walk(
    root: &Path,
    within: &str,
    depth_max: usize,
    is_wanted: &dyn Fn(&str, bool) -> bool,
) -> Result<Vec<(String, Option<&'static str>)>, OriginError> {
    let folder = root.join(within);
    let failed = failed("read", &folder);
    let items = fs::read_dir(&folder).and_then(Iterator::collect::<io::Result<Vec<_>>>);
    let mut items = items.map_err(&failed)?;
    items.sort_by_key(fs::DirEntry::file_name);
    let mut found = Vec::new();
    for item in items {
        let name = item.file_name().to_string_lossy().into_owned();
        let path = if within.is_empty() { name } else { format!("{within}/{name}") };
        let kind = item.file_type().map_err(&failed)?;
        let is_folder = kind.is_dir() || kind.is_symlink() && item.path().is_dir();
        let reason = if !is_wanted(&path, is_folder) {
            continue;
        } else if kind.is_symlink() {
            Some("it is a link, and links are not followed")
        } else if item.file_name().to_str().is_none() {
            Some("its name is not UTF-8")
        } else if kind.is_dir() && depth_max == 0 {
            Some("it is too deep")
        } else if kind.is_dir() {
            found.extend(walk(root, &path, depth_max - 1, is_wanted)?);
            continue;
        } else {
            (!kind.is_file()).then_some("it is not a regular file")
        };
        found.push((path, reason));
    }
    Ok(found)
}

/// Returns the temporary files that killed processes left in a folder and below it.
pub(crate) fn leftovers_below(
    folder: &Path,
    depth_max: usize,
    is_wanted: &dyn Fn(&str) -> bool,
) -> Vec<PathBuf> {
    let mut found = whole_file::leftovers(folder, None);
    let items = fs::read_dir(folder).into_iter().flatten().flatten();
    let folders = items.filter(|item| {
        depth_max > 0
            && item.file_type().is_ok_and(|kind| kind.is_dir())
            && is_wanted(&item.file_name().to_string_lossy())
    });
    let mut folders: Vec<PathBuf> = folders.map(|item| item.path()).collect();
    folders.sort_unstable();
    for folder in folders {
        found.extend(leftovers_below(&folder, depth_max - 1, is_wanted));
    }
    found
}

/// Removes a file, if there is one.
pub(crate) fn remove(path: &Path) -> Result<(), OriginError> {
    match whole_file::remove(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(failed("remove", path)(error)),
        _ => Ok(()),
    }
}

/// Removes the temporary files that killed processes left; only the holder of the lock may.
pub(crate) fn remove_leftovers(left: &[PathBuf]) -> Result<(), OriginError> {
    left.iter().try_for_each(|path| remove(path))
}

/// Announces [`remove_leftovers`].
pub(crate) fn advice_on(left: &Path) -> String {
    let left = left.display();
    format!("{left} was left by a process that was killed: the next run that writes removes it")
}

/// Says that a file has to last, if it is there.
pub(crate) fn advice_on_removed(kept: Option<&Path>, what: &str) -> Option<String> {
    let kept = kept.filter(|path| path.exists())?.display();
    Some(format!("{kept} has the only copy of removed {what}: back it up, do not delete it"))
}

/// A look at a change of a file: its path, and whether the change is made. An error ends the change.
pub(crate) type Watch = Box<dyn Fn(&Path, bool) -> io::Result<()> + Send + Sync>;

/// Changes files of a store. Tests watch each change.
#[derive(Default)]
pub(crate) struct FileLayer(pub(crate) Option<Watch>);

impl FileLayer {
    fn around<T>(
        &self,
        action: &'static str,
        path: &Path,
        change: impl FnOnce() -> io::Result<T>,
    ) -> Result<T, OriginError> {
        let look = |is_done| self.0.as_ref().map_or(Ok(()), |watch| watch(path, is_done));
        let done = look(false).and_then(|()| change()).and_then(|done| look(true).map(|()| done));
        done.map_err(failed(action, path))
    }

    /// Writes a file of our own, for nobody else to read.
    pub(crate) fn keep(&self, path: &Path, bytes: &[u8]) -> Result<(), OriginError> {
        self.around("write", path, || {
            make_folder_of(path)?;
            let mut file = NewFile::create_with(path, FileMode::PRIVATE)?;
            file.write_all(bytes)?;
            file.publish().map(drop)
        })
    }

    /// Makes a file that holds `before` hold `after`, so that it is there as a whole and lasts; `None` stands for no file,
    /// and a new file has the permissions of `like`. `false`: another process changed the file, and nothing was written.
    pub(crate) fn replace(
        &self,
        path: &Path,
        before: Option<&str>,
        after: Option<&str>,
        like: Option<&Path>,
    ) -> Result<bool, OriginError> {
        match (before, after) {
            (None, None) => Ok(true),
            (Some(before), None) => self.around("remove", path, || match fs::read(path) {
                Ok(bytes) if bytes == before.as_bytes() => whole_file::remove(path).map(|()| true),
                Ok(_) => Ok(false),
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(true),
                Err(error) => Err(error),
            }),
            (Some(before), Some(after)) => self.around("write", path, || {
                whole_file::replace_expected(path, after.as_bytes(), Some(before.as_bytes()))
            }),
            (None, Some(after)) => self.around("write", path, || {
                make_folder_of(path)?;
                match like {
                    None => whole_file::replace_expected(path, after.as_bytes(), None),
                    Some(_) if path.symlink_metadata().is_ok() => {
                        Ok(fs::read(path)? == after.as_bytes())
                    }
                    like => whole_file::replace(path, after.as_bytes(), like).map(|_| true),
                }
            }),
        }
    }
}

/// Makes the folder of a file.
pub(crate) fn make_folder_of(path: &Path) -> io::Result<()> {
    path.parent().map_or(Ok(()), fs::create_dir_all)
}

/// Returns the git directory of the repository that a path is in; of a linked work tree the common one is not looked for.
pub(crate) fn git_dir(path: &Path) -> Option<PathBuf> {
    let path = path.canonicalize().ok().filter(|path| path.is_dir())?;
    path.ancestors().find_map(|folder| {
        let inner = folder.join(".git");
        let is_bare = || folder.join("HEAD").is_file() && folder.join("objects").is_dir();
        inner.is_dir().then_some(inner).or_else(|| is_bare().then(|| folder.to_owned()))
    })
}
