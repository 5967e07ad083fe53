//! [`Generations`] and [`Generation`]: the live generation, mapped. [`GenerationWriter`]: a new one, whole or not at all.
//! [`FreshWriter`]: sealed fresh rows beside a live one.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::hash::Hasher as _;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use twox_hash::XxHash3_64;

use super::disk::{self, Identity, LockFile, fresh_name};
use super::manifest::{Manifest, ManifestFile, head_checksum};
use super::{FileMode, GenerationError, INDEX_FILE, SEARCHED_FILE};
use crate::file::sections::SectionFault;
use crate::file::{FileKind, SectionFile, SectionFileError};
use crate::{Mapped, Progress};

/// Bytes between two looks at the wish to stop.
const PIECE_BYTES: usize = 4 << 20;

/// A folder of generations.
///
/// Readers take no lock, write nothing and never wait for a writer; they work in folders that they may
/// not write.
#[derive(Debug, Clone)]
pub struct Generations {
    folder: PathBuf,
}

/// A generation: its files, mapped, and the fresh rows seen so far.
///
/// It stays whole while newer ones are published and after its files are deleted.
#[derive(Debug, Clone)]
pub struct Generation {
    folder: PathBuf,
    /// Numbers begin anew when everything was deleted: another folder may get this name.
    identity: Identity,
    manifest: Manifest,
    files: BTreeMap<String, Mapped>,
    fresh: Vec<SectionFile>,
}

impl Generations {
    /// Names a folder, which need not exist.
    #[must_use]
    pub fn at(folder: impl Into<PathBuf>) -> Self {
        Self { folder: folder.into() }
    }

    /// Maps the live generation and its fresh rows; `None` where nothing was ever published.
    ///
    /// Costs some system calls for each file, whatever its size; contents are not read.
    ///
    /// # Errors
    /// When the manifest, a file or a segment of fresh rows is missing, damaged or cannot be read.
    pub fn current(&self) -> Result<Option<Generation>, GenerationError> {
        let mut tried = None;
        loop {
            let Some(manifest) = Manifest::read(&self.folder)? else { return Ok(None) };
            match Generation::map(&self.folder, &manifest).and_then(Generation::with_fresh) {
                // It was replaced since MANIFEST was read, unless MANIFEST still says so.
                Err(GenerationError::Missing(_)) if tried.as_ref() != Some(&manifest) => {
                    tried = Some(manifest);
                }
                opened => return opened.map(Some),
            }
        }
    }

    /// Tells whether a generation is still the live one; reads the manifest and nothing else.
    ///
    /// # Errors
    /// When the manifest is damaged or cannot be read.
    pub fn is_current(&self, generation: &Generation) -> Result<bool, GenerationError> {
        let live = Manifest::read(&self.folder)?;
        Ok(live.as_ref() == Some(&generation.manifest) && generation.is_in_place())
    }
}

impl Generation {
    /// Maps the files that the manifest names.
    pub(super) fn map(folder: &Path, manifest: &Manifest) -> Result<Self, GenerationError> {
        let folder = folder.join(disk::generation_name(manifest.number));
        let missing = |path: &Path| GenerationError::Missing(path.into());
        let identity = disk::find_folder(&folder)?.ok_or_else(|| missing(&folder))?;
        let mut files = BTreeMap::new();
        for file in &manifest.files {
            let path = folder.join(&file.name);
            let mapped = disk::map(&path)?.ok_or_else(|| missing(&path))?;
            let (expected, found) = (file.bytes, mapped.len() as u64);
            if found != expected {
                let found = format!("{found} bytes long, expected {expected}");
                return Err(GenerationError::damaged(&path, found));
            }
            if head_checksum(&mapped) != file.head_checksum {
                let found = "not the file that MANIFEST names: it begins otherwise";
                return Err(GenerationError::damaged(&path, found));
            }
            files.insert(file.name.clone(), mapped);
        }
        let manifest = manifest.clone();
        Ok(Self { folder, identity, manifest, files, fresh: Vec::new() })
    }

    /// Maps all segments sealed so far.
    pub(super) fn with_fresh(mut self) -> Result<Self, GenerationError> {
        self.see_fresh()?;
        // Folders are renamed before they are emptied: one that is still in place had all its segments.
        if self.is_in_place() { Ok(self) } else { Err(GenerationError::Missing(self.folder)) }
    }

    /// Returns its number, which grows with each generation.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.manifest.number
    }

    /// Returns its folder.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    /// Returns a file by name; a clone shares the map.
    #[must_use]
    pub fn file(&self, name: &str) -> Option<&Mapped> {
        self.files.get(name)
    }

    /// Returns its files with their names, in the order of these.
    pub fn files(&self) -> impl Iterator<Item = (&str, &Mapped)> {
        self.files.iter().map(|(name, file)| (name.as_str(), file))
    }

    /// Returns names and lengths of all that lookups read: its files, then the segments of fresh rows seen so far.
    pub fn file_lengths(&self) -> impl Iterator<Item = (String, u64)> {
        let files = self.files().map(|(name, file)| (name.to_owned(), file));
        let fresh =
            (1..).zip(&self.fresh).map(|(number, file)| (fresh_name(number), file.mapped()));
        files.chain(fresh).map(|(name, file)| (name, file.len() as u64))
    }

    /// Compares every byte of its files with the published checksums.
    ///
    /// # Errors
    /// The first file that is not as it was written, or that the caller asked to stop.
    pub fn verify(&self, progress: &dyn Progress) -> Result<(), SectionFileError> {
        let bytes = self.files.values().map(|file| file.len() as u64).sum();
        progress.begin("verify files", Some(bytes));
        // A generation is opened with all files of its manifest, which are in the same order.
        for (file, mapped) in self.manifest.files.iter().zip(self.files.values()) {
            let mut found = XxHash3_64::default();
            for piece in mapped.chunks(PIECE_BYTES) {
                if progress.cancelled() {
                    return Err(SectionFileError::Cancelled);
                }
                found.write(piece);
                progress.advance(piece.len() as u64);
            }
            if found.finish() != file.checksum {
                return Err(SectionFault::Bytes.of(&self.folder.join(&file.name)));
            }
        }
        progress.end();
        Ok(())
    }

    /// Opens `index.mfi`.
    ///
    /// # Errors
    /// When the generation has none, or it is damaged.
    pub fn index(&self) -> Result<SectionFile, GenerationError> {
        let path = self.folder.join(INDEX_FILE);
        match self.file(INDEX_FILE) {
            Some(mapped) => Ok(SectionFile::from_mapped(mapped.clone(), &path, FileKind::Index)?),
            None => Err(GenerationError::Missing(path)),
        }
    }

    /// Returns the segments of fresh rows seen so far, in the order in which they were sealed.
    #[must_use]
    pub fn fresh(&self) -> &[SectionFile] {
        &self.fresh
    }

    /// Maps the segments that any process has sealed since, and returns how many there were.
    ///
    /// Costs two system calls where there are none. Once its folder is gone, a generation gets no more.
    ///
    /// # Errors
    /// When a segment is damaged or cannot be mapped; earlier segments are kept.
    pub fn see_fresh(&mut self) -> Result<usize, GenerationError> {
        let known = self.fresh.len();
        while self.is_in_place() {
            let path = self.next_fresh_path();
            let Some(mapped) = disk::map(&path)? else { break };
            self.fresh.push(SectionFile::from_mapped(mapped, &path, FileKind::Fresh)?);
        }
        Ok(self.fresh.len() - known)
    }

    /// Tells whether any process has sealed a segment that was not seen yet.
    #[must_use]
    pub fn has_more_fresh(&self) -> bool {
        self.next_fresh_path().exists()
    }

    /// Returns the number of the segment that would be sealed next.
    pub(super) fn next_fresh(&self) -> u32 {
        self.fresh.len() as u32 + 1
    }

    pub(super) fn next_fresh_path(&self) -> PathBuf {
        self.folder.join(fresh_name(self.next_fresh()))
    }

    /// Tells whether its folder is there and not another of its name.
    pub(super) fn is_in_place(&self) -> bool {
        disk::find_folder(&self.folder).ok().flatten() == Some(self.identity)
    }
}

/// Writes the next generation; holds the lock of the folder until it is published or dropped.
///
/// Files go into [`path`](Self::path), in any way and order: [`create`](Self::create) opens one there, and so may
/// anybody else who is done when [`publish`](Self::publish) is called. Dropped before, it leaves nothing behind.
///
/// # Examples
/// ```
/// use std::io::Write;
/// use std::time::Duration;
///
/// use memfold_index::file::{FileMode, GenerationWriter, Generations};
///
/// let place = tempfile::tempdir()?;
/// let folder = place.path().join("brain.db.memfold");
/// let writer = GenerationWriter::begin(&folder, FileMode::PRIVATE, Duration::ZERO)?;
/// writer.create("notes")?.write_all(b"for the first generation")?;
/// writer.publish()?;
///
/// let generation = Generations::at(folder).current()?.expect("one was published");
/// assert_eq!(generation.number(), 1);
/// assert_eq!(**generation.file("notes").expect("it has notes"), *b"for the first generation");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct GenerationWriter {
    folder: PathBuf,
    number: u64,
    /// Where the files are until they are published.
    path: PathBuf,
    /// The live generation, which becomes the previous one.
    live: Option<u64>,
    mode: FileMode,
    _lock: LockFile,
}

impl GenerationWriter {
    /// Makes the folder where it is missing, takes its lock, removes the remains of dead writers, and begins.
    ///
    /// Waits up to about `wait` for another writer. Files and folders get `mode`.
    ///
    /// # Errors
    /// When another process writes, something else stands where a folder or file belongs, or the system refuses.
    pub fn begin(folder: &Path, mode: FileMode, wait: Duration) -> Result<Self, GenerationError> {
        ensure_folder(folder, mode)?;
        let lock = LockFile::take(folder, mode, wait)?;
        let names = disk::names_in(folder)?;
        let numbers = names.iter().filter_map(|name| Some(disk::parse_generation(name)?.0));
        let live = match Manifest::read(folder) {
            Ok(manifest) => {
                sweep(folder, &manifest.as_ref().map(Manifest::kept).unwrap_or_default());
                manifest.map(|live| live.number)
            }
            // Nothing is known to be superfluous before there is a new one.
            Err(GenerationError::Damaged { .. }) => None,
            Err(error) => return Err(error),
        };
        let highest = numbers.chain(live).max().unwrap_or(0);
        let spent = || GenerationError::NumbersSpent(folder.into());
        let number = highest.checked_add(1).ok_or_else(spent)?;
        let path = disk::pending(&folder.join(disk::generation_name(number)));
        disk::create_folder(&path)?;
        Ok(Self { folder: folder.into(), number, path, live, mode, _lock: lock })
    }

    /// Returns the number that the generation will have.
    #[must_use]
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// Returns the folder that takes the files.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens a new file, for reading and writing.
    ///
    /// # Errors
    /// When it exists, its name is not allowed, or the system refuses.
    pub fn create(&self, name: &str) -> Result<File, GenerationError> {
        let path = self.path.join(name);
        disk::check_file_name(name, &path)?;
        disk::create_file(&path, self.mode)
    }

    /// Makes everything durable, makes the generation live, and removes all before the previous one.
    ///
    /// Returns its number. Files named `*.mfi` must be finished indexes.
    ///
    /// # Errors
    /// When a file is not fit to be published or the system refuses. The live generation is then unchanged,
    /// unless only the very last step failed, which makes the new manifest's name durable.
    pub fn publish(self) -> Result<u64, GenerationError> {
        let mut names = disk::names_in(&self.path)?;
        names.sort_unstable();
        if names.is_empty() {
            let (path, found) = (self.path.clone(), "nothing to publish");
            return Err(GenerationError::Unfit { path, found });
        }
        let files = names.into_iter().map(|name| self.seal(name)).collect::<Result<_, _>>()?;
        let manifest = Manifest { number: self.number, previous: self.live, files };
        let place = self.folder.join(disk::generation_name(self.number));
        disk::publish(&place, self.mode)?;
        let is_live =
            disk::sync(&self.folder).and_then(|()| manifest.publish(&self.folder, self.mode));
        is_live.inspect_err(|_| _ = disk::remove_generation(&place))?;
        disk::sync(&self.folder)?;
        sweep(&self.folder, &manifest.kept());
        Ok(self.number)
    }

    /// Checks a file, gives it its permissions and makes it durable.
    fn seal(&self, name: String) -> Result<ManifestFile, GenerationError> {
        let path = self.path.join(&name);
        disk::check_file_name(&name, &path)?;
        let mapped = disk::map(&path)?.ok_or_else(|| GenerationError::Missing(path.clone()))?;
        disk::set_mode(&path, self.mode)?;
        disk::sync(&path)?;
        if name.ends_with(".mfi") {
            SectionFile::from_mapped(mapped.clone(), &path, FileKind::Index)?;
        }
        Ok(ManifestFile::of(name, &mapped))
    }
}

impl Drop for GenerationWriter {
    fn drop(&mut self) {
        // Nothing has this name after publishing. The next writer removes the rest.
        let _ = disk::remove(&self.path);
    }
}

impl Generations {
    /// Removes all generations and the folder, but nothing in it that is not ours; returns whether there was anything
    /// of ours.
    ///
    /// Readers keep their maps. Waits up to about `wait` for a writer.
    ///
    /// # Errors
    /// When the folder is a link, another process writes, or the system refuses.
    pub fn remove(&self, wait: Duration) -> Result<bool, GenerationError> {
        let folder = &*self.folder;
        if disk::find_folder(folder)?.is_none() {
            return Ok(false);
        }
        let [manifest, lock] = [disk::MANIFEST, disk::LOCK].map(|name| folder.join(name));
        let is_there = |path: &Path| path.symlink_metadata().is_ok();
        if disk::superfluous(folder, &[])?.is_empty() && !is_there(&manifest) && !is_there(&lock) {
            return Ok(false);
        }
        let _held = LockFile::take(folder, FileMode::PRIVATE, wait)?;
        // First, so that nobody opens a generation that is going.
        disk::remove(&manifest)?;
        disk::sync(folder)?;
        for path in disk::superfluous(folder, &[])? {
            disk::remove_generation(&path)?;
        }
        for path in [disk::pending(&manifest), folder.join(SEARCHED_FILE), lock] {
            disk::remove(&path)?;
        }
        match fs::remove_dir(folder) {
            Err(error) if error.kind() != io::ErrorKind::DirectoryNotEmpty => {
                Err(GenerationError::io("remove", folder)(error))
            }
            _ => Ok(true),
        }
    }
}

fn ensure_folder(path: &Path, mode: FileMode) -> Result<(), GenerationError> {
    if disk::find_folder(path)?.is_some() {
        return Ok(());
    }
    match disk::create_folder(path) {
        // Another writer was quicker; the lock decides which of the two goes on.
        Err(error) if error.is(io::ErrorKind::AlreadyExists) => {
            return disk::find_folder(path).map(drop);
        }
        created => created?,
    }
    disk::set_mode(path, mode)?;
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    disk::sync(parent.unwrap_or(Path::new(".")))
}

/// Removes generations other than these, and the remains of dead writers.
///
/// Errors are ignored: the next writer tries again, and leftovers are harmless.
fn sweep(folder: &Path, kept: &[u64]) {
    let _ = disk::remove(&disk::pending(&folder.join(disk::MANIFEST)));
    for path in disk::superfluous(folder, kept).unwrap_or_default() {
        let _ = disk::remove_generation(&path);
    }
}

/// Adds a segment of fresh rows; holds a lock of the generation until it is published or dropped.
///
/// The lock is not that of generations: rows can be sealed while the next generation is being built. Dropped before
/// [`publish`](Self::publish), it leaves nothing that a reader would see.
#[derive(Debug)]
pub struct FreshWriter<'g> {
    generation: &'g mut Generation,
    /// Where the segment will be.
    place: PathBuf,
    mode: FileMode,
    _lock: LockFile,
}

impl<'g> FreshWriter<'g> {
    /// Takes the lock and maps the segments that others have sealed, so that the caller knows all of them.
    ///
    /// Waits up to about `wait` for another process; zero tries once.
    ///
    /// # Errors
    /// When another process seals, the generation's folder is gone, or the system refuses.
    pub fn begin(
        generation: &'g mut Generation,
        mode: FileMode,
        wait: Duration,
    ) -> Result<Self, GenerationError> {
        // Before, so that no lock is left in the folder of somebody else; and while it was waited for.
        let in_place = |generation: &Generation| match generation.is_in_place() {
            true => Ok(()),
            false => Err(GenerationError::Gone(generation.folder().into())),
        };
        in_place(generation)?;
        let lock = LockFile::take(generation.folder(), mode, wait);
        in_place(generation)?;
        let lock = lock?;
        generation.see_fresh()?;
        let place = generation.next_fresh_path();
        // Left behind by one that died: the lock is ours.
        disk::remove(&disk::pending(&place))?;
        Ok(Self { generation, place, mode, _lock: lock })
    }

    /// Returns the generation with all segments sealed so far.
    #[must_use]
    pub const fn generation(&self) -> &Generation {
        self.generation
    }

    /// Opens the file of the segment, for a [`SectionFileWriter`](crate::file::SectionFileWriter).
    ///
    /// # Errors
    /// When it was opened before, the generation is gone, or the system refuses.
    pub fn create(&self) -> Result<File, GenerationError> {
        let created = disk::create_file(&disk::pending(&self.place), self.mode);
        created.map_err(|refused| self.refused(refused))
    }

    /// Makes the segment durable and visible to every process, and returns its number.
    ///
    /// # Errors
    /// When the file is no finished segment, the generation is gone, or the system refuses; the segment is then
    /// not there, unless only the very last step failed, which makes its name durable.
    pub fn publish(self) -> Result<u32, GenerationError> {
        let number = self.generation.next_fresh();
        self.try_publish().map_err(|refused| self.refused(refused))?;
        self.generation.see_fresh()?;
        Ok(number)
    }

    fn try_publish(&self) -> Result<(), GenerationError> {
        SectionFile::open(&disk::pending(&self.place), FileKind::Fresh)?;
        disk::publish(&self.place, self.mode)?;
        disk::sync(self.generation.folder())
    }

    /// Says so where the folder was removed or replaced meanwhile.
    fn refused(&self, refused: GenerationError) -> GenerationError {
        if self.generation.is_in_place() {
            refused
        } else {
            GenerationError::Gone(self.generation.folder().into())
        }
    }
}

impl Drop for FreshWriter<'_> {
    fn drop(&mut self) {
        // Nothing has this name after publishing.
        if self.generation.is_in_place() {
            let _ = disk::remove(&disk::pending(&self.place));
        }
    }
}
