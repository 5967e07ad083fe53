//! Notes of a git repository: the tip of a ref, the notes of its tree, and one new commit for many of them.

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Display;
use std::fs::File;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use gix::ObjectId;
use gix::actor::SignatureRef;
use gix::note::plumbing::State;
use gix::objs::{Find, Kind, Write as _, WriteTo};
use gix::refs::transaction::{Change, LogChange, PreviousValue, RefEdit, RefLog};
use gix::refs::{FullName, Target, TargetRef};

use crate::git_notes::ids::SHA_DIGITS;
use crate::origin::OriginError;

/// Who commits, on every machine: an identity need not be configured.
const COMMITTER: &str = "memfold";
const COMMITTER_EMAIL: &str = "memfold@localhost";
/// How often a ref that another process holds is tried again, and after how long.
const LOCK_TRIES: u32 = 20;
const LOCK_PAUSE: Duration = Duration::from_millis(100);

/// Objects that are synced one by one; with more, Linux syncs the file system at once.
#[cfg(target_os = "linux")]
const OBJECTS_SYNCED_MAX: usize = 1_000;

/// The format's name in errors.
const KIND: &str = "git repository";

/// A repository whose notes are read and written.
pub(super) struct NotesRepository {
    path: PathBuf,
    git: gix::Repository,
}

/// The notes of a tree: blobs by the name of the object they are attached to.
pub(super) type NoteBlobs = BTreeMap<String, ObjectId>;

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

/// What became of an update.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Updated {
    Written,
    /// The tree was what it should be already; no commit was made.
    Unchanged,
    /// Another process moved the ref meanwhile.
    Moved,
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

    /// Returns the last parts of the refs below `prefix`, in order, and what is wrong with those that cannot be read.
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

    /// Writes notes in one commit and moves the ref to it, unless the ref has moved since it was read.
    pub(super) fn update(&self, update: &RefUpdate<'_>) -> Result<Updated, OriginError> {
        let failed = |error: &dyn Display| self.unwritable(update.name, error);
        let before = match update.before {
            Some(tip) => self.tree(tip)?,
            None => ObjectId::empty_tree(self.git.object_hash()),
        };
        let objects = Recorder { git: &self.git, written: RefCell::default() };
        let mut state = State::new(before, &objects).map_err(|error| failed(&error))?;
        for (commit, content) in update.notes {
            let commit = ObjectId::from_hex(commit.as_bytes()).map_err(|error| failed(&error))?;
            let write = |content: &Vec<u8>| objects.write_buf(Kind::Blob, content);
            let blob = content.as_ref().map(write).transpose().map_err(|error| failed(&error))?;
            state.edit(commit, blob, &objects).map_err(|error| failed(&error))?;
        }
        let tree = state.write(&objects).map_err(|error| failed(&error))?;
        if tree == before {
            return Ok(Updated::Unchanged);
        }
        let time = format!("{} +0000", update.seconds);
        let committer =
            SignatureRef { name: COMMITTER.into(), email: COMMITTER_EMAIL.into(), time: &time };
        let commit = self
            .git
            .new_commit_as(committer, committer, update.message, tree, update.before)
            .map_err(|error| failed(&error))?;
        let mut written = objects.written.take();
        written.push(commit.id);
        self.sync(&written).map_err(|error| failed(&error))?;
        self.move_ref(update, commit.id, committer)
    }

    /// Makes objects durable that were written: a ref that outlives a failure of power must not lead to nothing.
    fn sync(&self, written: &[ObjectId]) -> io::Result<()> {
        let folder = self.git.common_dir().join("objects");
        #[cfg(target_os = "linux")]
        if written.len() > OBJECTS_SYNCED_MAX {
            return rustix::fs::syncfs(File::open(folder)?).map_err(io::Error::from);
        }
        let mut folders = BTreeSet::from([folder.clone()]);
        for id in written {
            let name = id.to_string();
            let path = folder.join(&name[..2]).join(&name[2..]);
            match File::open(&path) {
                Ok(file) => file.sync_all()?,
                // It was there before, in a pack.
                Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            }
            folders.insert(folder.join(&name[..2]));
        }
        folders.iter().try_for_each(|folder| sync_folder(folder))
    }

    /// Makes a ref durable that was moved.
    fn sync_ref(&self, name: &str) -> io::Result<()> {
        let path = self.git.common_dir().join(name);
        File::open(&path)?.sync_all()?;
        path.parent().map_or(Ok(()), sync_folder)
    }

    fn move_ref(
        &self,
        update: &RefUpdate<'_>,
        commit: ObjectId,
        committer: SignatureRef<'_>,
    ) -> Result<Updated, OriginError> {
        if self.is_symbolic(update.name)? {
            let reason = "it is a symbolic ref, through which memfold never writes";
            return Err(self.unwritable(update.name, &reason));
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
            name: name.map_err(|error| self.unwritable(update.name, &error))?,
            deref: false,
        };
        let lock = self.git.common_dir().join(format!("{}.lock", update.name));
        for _ in 0..LOCK_TRIES {
            let outcome = self.git.edit_references_as([edit.clone()], Some(committer));
            let Err(error) = outcome else {
                let synced = self.sync_ref(update.name);
                return synced
                    .map(|()| Updated::Written)
                    .map_err(|error| self.unwritable(update.name, &error));
            };
            if self.tip(update.name)? != update.before {
                return Ok(Updated::Moved);
            }
            if !lock.exists() && !self.git.common_dir().join("packed-refs.lock").exists() {
                return Err(self.unwritable(update.name, &error));
            }
            std::thread::sleep(LOCK_PAUSE);
        }
        Err(OriginError::Locked { path: lock })
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

/// The objects of a repository, with the names of those that were written.
struct Recorder<'a> {
    git: &'a gix::Repository,
    written: RefCell<Vec<ObjectId>>,
}

impl Recorder<'_> {
    fn record(&self, id: Result<ObjectId, gix::Error>) -> Result<ObjectId, gix::Error> {
        self.written.borrow_mut().extend(id.as_ref().ok());
        id
    }
}

impl Find for Recorder<'_> {
    fn try_find<'a>(
        &self,
        id: &gix::oid,
        buffer: &'a mut Vec<u8>,
    ) -> Result<Option<gix::objs::Data<'a>>, gix::Error> {
        self.git.try_find(id, buffer)
    }
}

impl gix::objs::Write for Recorder<'_> {
    fn write(&self, object: &dyn WriteTo) -> Result<ObjectId, gix::Error> {
        self.record(gix::objs::Write::write(self.git, object))
    }

    fn write_buf(&self, kind: Kind, from: &[u8]) -> Result<ObjectId, gix::Error> {
        self.record(self.git.write_buf(kind, from))
    }

    fn write_buf_with_known_id(
        &self,
        kind: Kind,
        from: &[u8],
        id: ObjectId,
    ) -> Result<ObjectId, gix::Error> {
        self.record(self.git.write_buf_with_known_id(kind, from, id))
    }

    fn write_stream(
        &self,
        kind: Kind,
        size: u64,
        from: &mut dyn io::Read,
    ) -> Result<ObjectId, gix::Error> {
        self.record(self.git.write_stream(kind, size, from))
    }

    fn write_stream_with_known_id(
        &self,
        kind: Kind,
        size: u64,
        from: &mut dyn io::Read,
        id: ObjectId,
    ) -> Result<ObjectId, gix::Error> {
        self.record(self.git.write_stream_with_known_id(kind, size, from, id))
    }
}

fn sync_folder(folder: &Path) -> io::Result<()> {
    // Windows has no such call and needs none.
    if cfg!(unix) { File::open(folder)?.sync_all() } else { Ok(()) }
}

/// Tells whether a path is in a repository whose objects or refs are in a form that is not read.
pub(super) fn is_unsupported(path: &Path) -> bool {
    unsupported(path).is_some()
}

/// Returns what of the repository that a path is in is not supported, as its configuration says.
fn unsupported(path: &Path) -> Option<&'static str> {
    let path = path.canonicalize().ok().filter(|path| path.is_dir())?;
    let git_dir = path.ancestors().find_map(|folder| {
        let inner = folder.join(".git");
        let is_bare = folder.join("HEAD").is_file() && folder.join("objects").is_dir();
        inner.is_dir().then_some(inner).or_else(|| is_bare.then(|| folder.to_owned()))
    })?;
    let config = std::fs::read_to_string(git_dir.join("config")).ok()?.to_ascii_lowercase();
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

#[cfg(test)]
mod tests {
    use super::*;

    /// What is synced is what was written: blobs, and the trees that no caller sees.
    #[test]
    fn every_object_that_is_written_is_known() {
        let folder = tempfile::tempdir().unwrap();
        let git = gix::init(folder.path()).unwrap();
        let objects = Recorder { git: &git, written: RefCell::default() };
        let mut state = State::new(ObjectId::empty_tree(git.object_hash()), &objects).unwrap();
        for number in 0..600_u32 {
            let commit = blake3::hash(&number.to_le_bytes()).to_hex();
            let commit = ObjectId::from_hex(&commit.as_bytes()[..SHA_DIGITS]).unwrap();
            let blob = objects.write_buf(Kind::Blob, format!("note {number}").as_bytes()).unwrap();
            state.edit(commit, Some(blob), &objects).unwrap();
        }
        state.write(&objects).unwrap();
        let known: BTreeSet<String> =
            objects.written.take().iter().map(ToString::to_string).collect();
        let mut found = BTreeSet::new();
        for above in std::fs::read_dir(git.common_dir().join("objects")).unwrap() {
            let above = above.unwrap();
            let start = above.file_name().into_string().unwrap();
            if start.len() == 2 {
                let rest = std::fs::read_dir(above.path()).unwrap();
                found
                    .extend(rest.map(|r| start.clone() + r.unwrap().file_name().to_str().unwrap()));
            }
        }
        assert!(found.len() > 600 && found.is_subset(&known), "{} {}", found.len(), known.len());
    }
}
