//! Notes of a git repository: the tip of a ref, the notes of its tree, and one new commit for many of them.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gix::ObjectId;
use gix::actor::SignatureRef;
use gix::note::plumbing::State;
use gix::objs::{Kind, Write as _};
use gix::odb::loose;
use gix::odb::memory::Storage;
use gix::refs::transaction::{Change, LogChange, PreviousValue, RefEdit, RefLog};
use gix::refs::{FullName, Target, TargetRef};

use super::library::SHA_DIGITS;
use crate::shared::{advice_on, failed, git_dir};
use memfold_store::origin::{OriginError, Skipped};
use memfold_store::whole_file::OsLock;

/// Who commits, on every machine: an identity need not be configured.
const COMMITTER: &str = "memfold";
const COMMITTER_EMAIL: &str = "memfold@localhost";
/// How often a ref that another process holds is tried again, and after how long.
const LOCK_TRIES: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(100);

/// The file in a repository that the one process locks that writes refs. It names the ref and the commit that the
/// ref is being moved to.
const HELD_FILE: &str = "memfold-lock";
/// Where objects are written before they get their names, below `objects`. `git prune` removes old folders with these names.
const STAGING: &str = "tmp_objdir-memfold";
/// How old an empty lock of a ref is before it counts as left over: its holder writes at once.
const EMPTY_LOCK_AGE: Duration = Duration::from_secs(2);

/// Objects that are synced one by one; with more, Linux syncs the file system at once.
#[cfg(target_os = "linux")]
const OBJECTS_SYNCED_MAX: usize = 1_000;

/// The format's name in errors.
const KIND: &str = "git repository";

/// A repository with notes to read and write.
pub(super) struct NotesRepository {
    path: PathBuf,
    git: gix::Repository,
}

/// The notes of a tree: blobs by the name of the object they are attached to.
pub(super) type NoteBlobs = BTreeMap<String, ObjectId>;

/// A ref as it was read.
pub(super) struct NotesRef {
    /// The full name, and the part behind the prefix.
    pub(super) name: String,
    pub(super) namespace: String,
    pub(super) tip: Option<ObjectId>,
    pub(super) notes: NoteBlobs,
}

/// Notes to write in one commit.
pub(super) struct RefUpdate<'a> {
    /// The full name of the ref.
    pub(super) name: &'a str,
    /// The commit that the ref pointed to when it was read.
    pub(super) before: Option<ObjectId>,
    /// The new content of notes; none removes the note.
    pub(super) notes: &'a BTreeMap<String, Option<Vec<u8>>>,
    /// Seconds since 1970.
    pub(super) seconds: i64,
    pub(super) message: &'a str,
}

/// A repository that no other memfold writes.
pub(super) struct HeldRepository<'a> {
    repository: &'a NotesRepository,
    lock: OsLock,
}

impl NotesRepository {
    /// Opens a repository by its work tree or a folder in it, its `.git` or, when bare, itself.
    pub(super) fn open(path: &Path) -> Result<Self, OriginError> {
        let refused =
            |reason: String| OriginError::Format { path: path.to_path_buf(), kind: KIND, reason };
        if let Some(reason) = unsupported(path) {
            return Err(OriginError::Format {
                path: path.to_path_buf(),
                kind: "git repository that memfold reads",
                reason: reason.to_owned(),
            });
        }
        let opened = gix::open_opts(path, gix::open::Options::isolated()).or_else(|error| {
            let found = gix::discover::upwards(path).ok().filter(|_| path.is_dir());
            let (git_dir, _) = found.ok_or(error)?.0.into_repository_and_work_tree_directories();
            gix::open_opts(git_dir, gix::open::Options::isolated())
        });
        let git = opened.map_err(|error| refused(error.to_string()))?;
        Ok(Self { path: path.to_path_buf(), git })
    }

    /// Returns the folder at the top of the work tree, or the repository itself where it is bare.
    pub(super) fn root(&self) -> &Path {
        self.git.workdir().unwrap_or_else(|| self.git.git_dir())
    }

    /// Returns the commit that is checked out, where there is one.
    pub(super) fn head(&self) -> Option<String> {
        self.git.head_id().ok().map(|id| id.to_string())
    }

    /// Returns the last parts of the refs below `prefix`, in order, and the errors of unreadable ones.
    pub(super) fn below(&self, prefix: &str) -> Result<(Vec<String>, Vec<String>), OriginError> {
        let folder = format!("{prefix}/");
        let references = self.git.references().map_err(|error| self.unreadable(prefix, error))?;
        let found =
            references.prefixed(folder.as_str()).map_err(|error| self.unreadable(prefix, error))?;
        let (mut names, mut bad) = (Vec::new(), Vec::new());
        for reference in found {
            let reference = match reference {
                Ok(reference) => reference,
                Err(error) => {
                    bad.push(format!("a ref below {prefix} cannot be read: {error}"));
                    continue;
                }
            };
            let name = reference.name().as_bstr().to_string();
            names.extend(name.strip_prefix(&folder).map(str::to_owned));
        }
        names.sort();
        names.dedup();
        Ok((names, bad))
    }

    /// Reads the refs below `prefix`. One that cannot be read hides no other.
    pub(super) fn read_below(
        &self,
        prefix: &str,
        skipped: &mut Vec<Skipped>,
    ) -> Result<Vec<NotesRef>, OriginError> {
        let (namespaces, bad) = self.below(prefix)?;
        let bad = bad.into_iter().map(|reason| Skipped { place: prefix.to_owned(), reason });
        skipped.extend(bad);
        let mut found = Vec::new();
        for namespace in namespaces {
            let name = format!("{prefix}/{namespace}");
            let read = self.tip(&name).and_then(|tip| {
                let notes = tip.map(|tip| self.notes(tip)).transpose()?.unwrap_or_default();
                Ok(NotesRef { name: name.clone(), namespace, tip, notes })
            });
            match read {
                Err(OriginError::Format { reason, .. }) => {
                    skipped.push(Skipped { place: name, reason });
                }
                read => found.push(read?),
            }
        }
        Ok(found)
    }

    /// Returns the commit that a ref points to, where it exists.
    pub(super) fn tip(&self, name: &str) -> Result<Option<ObjectId>, OriginError> {
        let found =
            self.git.try_find_reference(name).map_err(|error| self.unreadable(name, error))?;
        let Some(mut reference) = found else { return Ok(None) };
        let id = reference.follow_to_object().map_err(|error| self.unreadable(name, error))?;
        Ok(Some(id.detach()))
    }

    /// Tells whether a ref leads to another one.
    fn is_symbolic(&self, name: &str) -> Result<bool, OriginError> {
        let found =
            self.git.try_find_reference(name).map_err(|error| self.unreadable(name, error))?;
        Ok(found.is_some_and(|found| matches!(found.target(), TargetRef::Symbolic(_))))
    }

    /// Returns the notes of a commit's tree, whatever its fanout.
    pub(super) fn notes(&self, tip: ObjectId) -> Result<NoteBlobs, OriginError> {
        let tree = self.tree(tip)?;
        let mut notes = NoteBlobs::new();
        self.walk(tree, "", &mut notes)?;
        Ok(notes)
    }

    /// Returns the content of a note.
    pub(super) fn blob(&self, id: ObjectId) -> Result<Vec<u8>, OriginError> {
        let mut blob = self.git.find_blob(id).map_err(|error| self.unreadable(&id, error))?;
        Ok(blob.take_data())
    }

    fn tree(&self, tip: ObjectId) -> Result<ObjectId, OriginError> {
        let object = self.git.find_object(tip).map_err(|error| self.unreadable(&tip, error))?;
        let tree = object.peel_to_tree().map_err(|error| self.unreadable(&tip, error))?;
        Ok(tree.id)
    }

    fn walk(&self, tree: ObjectId, above: &str, notes: &mut NoteBlobs) -> Result<(), OriginError> {
        let tree = self.git.find_tree(tree).map_err(|error| self.unreadable(&tree, error))?;
        for entry in tree.iter() {
            let entry = entry.map_err(|error| self.unreadable(&tree.id, error))?;
            let name = format!("{above}{}", entry.filename());
            if !name.bytes().all(|byte| byte.is_ascii_hexdigit()) {
                continue;
            }
            let (mode, id) = (entry.mode(), entry.oid().to_owned());
            if mode.is_tree() && entry.filename().len() == 2 && name.len() < SHA_DIGITS {
                self.walk(id, &name, notes)?;
            } else if mode.is_blob() && name.len() == SHA_DIGITS {
                notes.entry(name.to_ascii_lowercase()).or_insert(id);
            }
        }
        Ok(())
    }

    /// Waits until no other memfold writes here, and removes the leftovers of a killed one.
    pub(super) fn hold(&self) -> Result<HeldRepository<'_>, OriginError> {
        self.hold_by(self.held_file())
    }

    /// As [`Self::hold`], by the lock of another file, which no memfold holds.
    pub(super) fn hold_by(&self, path: PathBuf) -> Result<HeldRepository<'_>, OriginError> {
        let failed = failed("lock", &path);
        let lock = OsLock::take(&path, self.git.common_dir(), LOCK_PAUSE * LOCK_TRIES);
        let lock =
            lock.map_err(&failed)?.ok_or_else(|| OriginError::Locked { path: path.clone() })?;
        let held = HeldRepository { repository: self, lock };
        held.remove_leftovers().map_err(&failed)?;
        Ok(held)
    }

    /// Returns the folder that all work trees of the repository share.
    pub(super) fn common_dir(&self) -> PathBuf {
        self.git.common_dir().canonicalize().unwrap_or_else(|_| self.git.common_dir().to_owned())
    }

    /// Names the locks of refs below `prefix` that have been there for some seconds. The next publication removes the
    /// ones that memfold left.
    pub(super) fn advice_on_locks(&self, prefix: &str) -> Vec<String> {
        let mark = fs::read_to_string(self.held_file()).unwrap_or_default();
        let ours = Mark::of(&mark).map(|mark| self.ref_lock(mark.name));
        let mut folders = vec![self.git.common_dir().join(prefix)];
        let mut found = Vec::new();
        while let Some(folder) = folders.pop() {
            for item in fs::read_dir(folder).into_iter().flatten().flatten() {
                let path = item.path();
                match item.file_type() {
                    Ok(kind) if kind.is_dir() => folders.push(path),
                    Ok(kind) if kind.is_file() && path.extension().is_some_and(|e| e == "lock") => {
                        found.push(path);
                    }
                    _ => {}
                }
            }
        }
        found.retain(|path| age(path).is_some_and(|age| age >= EMPTY_LOCK_AGE));
        found.sort_unstable();
        let advice = |path: &PathBuf| match ours.as_ref() == Some(path) {
            true => advice_on(path),
            false => format!(
                "{} locks a ref that memfold writes: remove it if no git command runs here",
                path.display()
            ),
        };
        found.iter().map(advice).collect()
    }

    fn held_file(&self) -> PathBuf {
        self.git.common_dir().join(HELD_FILE)
    }

    fn ref_lock(&self, name: &str) -> PathBuf {
        self.git.common_dir().join(format!("{name}.lock"))
    }

    fn objects(&self) -> PathBuf {
        self.git.common_dir().join("objects")
    }

    fn unreadable(&self, what: &(impl Display + ?Sized), error: impl Display) -> OriginError {
        let reason = format!("{what}: {error}");
        OriginError::Format { path: self.path.clone(), kind: KIND, reason }
    }

    fn unwritable(&self, name: &str, error: &dyn Display) -> OriginError {
        let source = io::Error::other(format!("{name}: {error}"));
        OriginError::Io { action: "write", path: self.path.clone(), source }
    }
}

impl HeldRepository<'_> {
    /// Writes notes in one commit and moves the ref to it, where that changes its tree. `false`: another process has moved
    /// the ref since it was read.
    pub(super) fn update(&self, update: &RefUpdate<'_>) -> Result<bool, OriginError> {
        let failed = |error: &dyn Display| self.repository.unwritable(update.name, error);
        let before = match update.before {
            Some(tip) => self.repository.tree(tip)?,
            None => ObjectId::empty_tree(self.repository.git.object_hash()),
        };
        // Objects stay in memory until all of them are known.
        let mut git = self.repository.git.clone().with_object_memory();
        let mut state = State::new(before, &git).map_err(|error| failed(&error))?;
        for (commit, content) in update.notes {
            let commit = ObjectId::from_hex(commit.as_bytes()).map_err(|error| failed(&error))?;
            let write = |content: &Vec<u8>| git.objects.write_buf(Kind::Blob, content);
            let blob = content.as_ref().map(write).transpose().map_err(|error| failed(&error))?;
            state.edit(commit, blob, &git).map_err(|error| failed(&error))?;
        }
        let tree = state.write(&git).map_err(|error| failed(&error))?;
        if tree == before {
            return Ok(true);
        }
        let time = format!("{} +0000", update.seconds);
        let committer =
            SignatureRef { name: COMMITTER.into(), email: COMMITTER_EMAIL.into(), time: &time };
        let commit = git
            .new_commit_as(committer, committer, update.message, tree, update.before)
            .map_err(|error| failed(&error))?
            .id;
        let objects = git.objects.take_object_memory().unwrap_or_default();
        self.store(objects).map_err(|error| failed(&error))?;
        self.move_ref(update, commit, committer)
    }

    /// Writes objects, and makes them durable: a ref that outlives a failure of power must not lead to nothing.
    ///
    /// They get their names in `objects` when they are whole: a kill leaves them in a folder of ours.
    fn store(&self, objects: Storage) -> io::Result<()> {
        let git = &self.repository.git;
        let (folder, staging) = (self.repository.objects(), self.staging());
        fs::create_dir_all(&staging)?;
        let store = loose::Store::at(&staging, git.object_hash());
        let mut names = Vec::new();
        let objects = (*objects).iter().filter(|(id, _)| !git.has_object(id));
        let objects: BTreeMap<_, _> = objects.collect();
        for (id, (kind, data)) in objects {
            let written = store.write_buf_with_known_id(*kind, data, *id);
            written.map_err(io::Error::other)?;
            let name = id.to_string();
            names.push(format!("{}/{}", &name[..2], &name[2..]));
        }
        let is_synced_at_once = cfg!(target_os = "linux") && names.len() > OBJECTS_SYNCED_MAX;
        let mut folders = BTreeSet::from([folder.clone()]);
        for name in &names {
            let (from, to) = (staging.join(name), folder.join(name));
            if !is_synced_at_once {
                File::open(&from)?.sync_all()?;
            }
            let above = folder.join(&name[..2]);
            if folders.insert(above.clone()) {
                fs::create_dir_all(above)?;
            }
            fs::rename(from, to)?;
        }
        fs::remove_dir_all(staging)?;
        #[cfg(target_os = "linux")]
        if is_synced_at_once {
            return rustix::fs::syncfs(File::open(folder)?).map_err(io::Error::from);
        }
        folders.iter().try_for_each(|folder| sync_folder(folder))
    }

    /// Where no lock keeps others away, each process has a folder of its own.
    fn staging(&self) -> PathBuf {
        let folder = self.repository.objects();
        match self.lock.is_effective() {
            true => folder.join(STAGING),
            false => folder.join(format!("{STAGING}-{}", std::process::id())),
        }
    }

    /// Removes the lock of a ref and the objects that a killed process left, where the lock of this repository proves
    /// that the process has ended.
    ///
    /// A lock is ours where the ref is the one that a memfold was about to move when it ended, and holds the commit that
    /// it was being moved to. It may have been killed before it wrote the commit: then the lock is empty, as that of
    /// git is for an instant.
    fn remove_leftovers(&self) -> io::Result<()> {
        if !self.lock.is_effective() {
            return Ok(());
        }
        match fs::remove_dir_all(self.staging()) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let text = self.lock.content()?;
        let Some(mark) = Mark::of(&text) else { return Ok(()) };
        let path = self.repository.ref_lock(mark.name);
        let is_ours = |content: &str| content.is_empty() || content.trim_end() == mark.commit;
        let read = || match path.symlink_metadata() {
            Ok(found) if found.is_file() => fs::read_to_string(&path).ok(),
            _ => None,
        };
        let mut content = read();
        if content.as_deref() == Some("") {
            std::thread::sleep(EMPTY_LOCK_AGE.saturating_sub(age(&path).unwrap_or_default()));
            content = read();
        }
        if content.as_deref().is_some_and(is_ours) {
            fs::remove_file(&path)?;
        }
        self.lock.set_content("")
    }

    /// Makes a ref durable that was moved.
    fn sync_ref(&self, name: &str) -> io::Result<()> {
        let path = self.repository.git.common_dir().join(name);
        File::open(&path)?.sync_all()?;
        path.parent().map_or(Ok(()), sync_folder)
    }

    fn move_ref(
        &self,
        update: &RefUpdate<'_>,
        commit: ObjectId,
        committer: SignatureRef<'_>,
    ) -> Result<bool, OriginError> {
        if self.repository.is_symbolic(update.name)? {
            let reason = "it is a symbolic ref, through which memfold never writes";
            return Err(self.repository.unwritable(update.name, &reason));
        }
        let expected = match update.before {
            Some(tip) => PreviousValue::MustExistAndMatch(Target::Object(tip)),
            None => PreviousValue::MustNotExist,
        };
        let log = LogChange {
            mode: RefLog::AndReference,
            force_create_reflog: false,
            message: format!("notes: {}", update.message).into(),
        };
        let name = FullName::try_from(update.name);
        let edit = RefEdit {
            change: Change::Update { log, expected, new: Target::Object(commit) },
            name: name.map_err(|error| self.repository.unwritable(update.name, &error))?,
            deref: false,
        };
        let marked = self.lock.set_content(&format!("{} {commit}\n", update.name));
        marked.map_err(|error| self.repository.unwritable(update.name, &error))?;
        let moved = self.edit_ref(update, &edit, committer);
        let unmarked = self.lock.set_content("");
        unmarked.map_err(|error| self.repository.unwritable(update.name, &error))?;
        moved
    }

    /// Moves a ref, waiting for others that hold it.
    fn edit_ref(
        &self,
        update: &RefUpdate<'_>,
        edit: &RefEdit,
        committer: SignatureRef<'_>,
    ) -> Result<bool, OriginError> {
        let lock = self.repository.ref_lock(update.name);
        for _ in 0..LOCK_TRIES {
            let outcome = self.repository.git.edit_references_as([edit.clone()], Some(committer));
            let Err(error) = outcome else {
                let synced = self.sync_ref(update.name);
                return synced
                    .map(|()| true)
                    .map_err(|error| self.repository.unwritable(update.name, &error));
            };
            if self.repository.tip(update.name)? != update.before {
                return Ok(false);
            }
            if !lock.exists() && !self.repository.git.common_dir().join("packed-refs.lock").exists()
            {
                return Err(self.repository.unwritable(update.name, &error));
            }
            std::thread::sleep(LOCK_PAUSE);
        }
        Err(OriginError::Locked { path: lock })
    }
}

/// The content of the lock file: the ref that is moved, and its new commit.
struct Mark<'a> {
    name: &'a str,
    commit: &'a str,
}

impl<'a> Mark<'a> {
    /// Reads a mark; none where no ref was being moved.
    fn of(text: &'a str) -> Option<Self> {
        let (name, commit) = text.strip_suffix('\n')?.split_once(' ')?;
        let is_ref = name.starts_with("refs/notes/") && FullName::try_from(name).is_ok();
        is_ref.then_some(Self { name, commit })
    }
}

/// Tells for how long a file has been as it is.
fn age(path: &Path) -> Option<Duration> {
    path.symlink_metadata().ok()?.modified().ok()?.elapsed().ok()
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    // Windows has no call for it and needs none.
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// Returns the unsupported feature of the repository that a path is in, as its configuration says.
pub(super) fn unsupported(path: &Path) -> Option<&'static str> {
    let config = fs::read_to_string(git_dir(path)?.join("config")).ok()?.to_ascii_lowercase();
    let value = |key: &str| {
        let pairs = config.lines().filter_map(|line| line.split_once('='));
        pairs.filter(|(name, _)| name.trim() == key).map(|(_, value)| value.trim()).next_back()
    };
    if value("objectformat") == Some("sha256") {
        return Some("its objects are named by SHA-256, and only SHA-1 is supported");
    }
    value("refstorage").filter(|form| *form != "files").map(|_| {
        "its refs are in a reftable, and only files are supported: git refs migrate --ref-format=files"
    })
}
