//! [`GenerationWriter`]: a new generation, whole or not at all. [`FreshWriter`]: sealed fresh rows beside a live one.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::disk::{Disk, LockFile};
use super::manifest::{Manifest, ManifestFile, head_checksum, pending_path};
use super::names::FILES_MAX;
use super::{
    COLUMNS_FILE, FileMode, Generation, GenerationError, Generations, INDEX_FILE, names, read,
};
use crate::Mapped;
use crate::file::sections::checksum;
use crate::file::{FileKind, SectionFile};

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
    /// Where the files are now.
    path: PathBuf,
    /// The live generation, which becomes the previous one.
    live: Option<u64>,
    mode: FileMode,
    disk: Disk,
    is_live: bool,
    _lock: LockFile,
}

impl GenerationWriter {
    /// Makes the folder where it is missing, takes its lock, removes what dead writers left behind, and begins.
    ///
    /// Waits up to about `wait` for another writer. Files and folders get `mode`.
    ///
    /// # Errors
    /// When another process writes, something else stands where a folder or file belongs, or the system refuses.
    pub fn begin(folder: &Path, mode: FileMode, wait: Duration) -> Result<Self, GenerationError> {
        Self::begin_on(Disk::default(), folder, mode, wait)
    }

    pub(super) fn begin_on(
        disk: Disk,
        folder: &Path,
        mode: FileMode,
        wait: Duration,
    ) -> Result<Self, GenerationError> {
        ensure_folder(&disk, folder, mode)?;
        let lock = LockFile::take(&disk, &folder.join(names::LOCK), mode, wait)?;
        let live = match Manifest::read(folder) {
            Ok(manifest) => Ok(manifest),
            Err(GenerationError::Manifest { .. } | GenerationError::ManifestVersion { .. }) => {
                Err(())
            }
            Err(error) => return Err(error),
        };
        let highest = highest_number(folder)?;
        // Without a readable manifest nothing is known to be superfluous before there is a new one.
        if let Ok(manifest) = &live {
            let kept = manifest.as_ref().map(|live| [Some(live.number), live.previous]);
            sweep(&disk, folder, &kept.unwrap_or_default());
        }
        let live = live.ok().flatten().map(|manifest| manifest.number);
        let highest = highest.max(live.unwrap_or(0));
        let number = highest.checked_add(1).ok_or_else(|| GenerationError::NumbersSpent {
            path: folder.into(),
            number: highest,
        })?;
        let path = folder.join(names::generation(number) + names::PENDING);
        disk.create_folder(&path)?;
        let folder = folder.to_owned();
        Ok(Self { folder, number, path, live, mode, disk, is_live: false, _lock: lock })
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
    /// When it exists, its name is none for such a file, or the system refuses.
    pub fn create(&self, name: &str) -> Result<File, GenerationError> {
        let path = self.path.join(name);
        if !names::is_file(name) {
            return Err(GenerationError::FileName { path });
        }
        self.disk.create_file(&path, self.mode)
    }

    /// Makes everything durable, makes the generation live, and removes those before the previous one.
    ///
    /// Returns its number. Files named `*.mfi` must be finished indexes.
    ///
    /// # Errors
    /// When a file is not fit to be published or the system refuses. The live generation is then what it was,
    /// unless only the very last step failed, which makes the new manifest's name durable.
    pub fn publish(mut self) -> Result<u64, GenerationError> {
        let files = self.seal_files()?;
        let manifest = Manifest { number: self.number, previous: self.live, files };
        self.disk.set_mode(&self.path, self.mode.folder_bits())?;
        self.disk.sync_folder(&self.path)?;
        let place = self.folder.join(names::generation(self.number));
        self.disk.rename(&self.path, &place)?;
        self.path = place;
        self.disk.sync_folder(&self.folder)?;
        manifest.publish(&self.disk, &self.folder, self.mode)?;
        self.is_live = true;
        self.disk.sync_folder(&self.folder)?;
        sweep(&self.disk, &self.folder, &[Some(self.number), self.live]);
        Ok(self.number)
    }

    /// Checks each file, gives it its permissions and makes it durable.
    fn seal_files(&self) -> Result<Vec<ManifestFile>, GenerationError> {
        let mut names = names_in(&self.path)?;
        names.sort_unstable();
        if names.is_empty() {
            return Err(GenerationError::Empty { path: self.path.clone() });
        }
        if names.len() > FILES_MAX {
            let found = names.len();
            return Err(GenerationError::TooManyFiles { path: self.path.clone(), found });
        }
        names.into_iter().map(|name| self.seal_file(name)).collect()
    }

    fn seal_file(&self, name: String) -> Result<ManifestFile, GenerationError> {
        let path = self.path.join(&name);
        if !names::is_file(&name) {
            return Err(GenerationError::FileName { path });
        }
        let Some(mapped) = read::map(&path)? else {
            return Err(GenerationError::Missing { path });
        };
        self.disk.set_mode(&path, self.mode.file_bits())?;
        let file = File::open(&path).map_err(GenerationError::io("open", &path))?;
        self.disk.sync_file(&file, &path)?;
        let bytes = mapped.len() as u64;
        let head_checksum = head_checksum(&mapped);
        let checksum = checksum(&mapped);
        if name.ends_with(".mfi") {
            SectionFile::from_mapped(mapped, &path, FileKind::Index)?;
        }
        Ok(ManifestFile { name, bytes, head_checksum, checksum })
    }
}

impl Drop for GenerationWriter {
    fn drop(&mut self) {
        if !self.is_live {
            // What cannot be removed now is removed by the next writer.
            let _ = self.disk.remove(&self.path);
        }
    }
}

impl Generations {
    /// Removes all generations and the folder, but nothing in it that is not ours; returns whether there was anything
    /// of ours.
    ///
    /// Readers keep what they have mapped. Waits up to about `wait` for a writer.
    ///
    /// # Errors
    /// When the folder is a link, another process writes, or the system refuses.
    pub fn remove(&self, wait: Duration) -> Result<bool, GenerationError> {
        let (disk, folder) = (Disk::default(), self.folder());
        if !folder_exists(folder)? {
            return Ok(false);
        }
        let is_known = |name: &String| [names::MANIFEST, names::LOCK].contains(&name.as_str());
        if superfluous(folder, &[])?.is_empty() && !names_in(folder)?.iter().any(is_known) {
            return Ok(false);
        }
        let lock = folder.join(names::LOCK);
        let _held = LockFile::take(&disk, &lock, FileMode::PRIVATE, wait)?;
        // First, so that nobody opens a generation that is going.
        disk.remove(&folder.join(names::MANIFEST))?;
        disk.sync_folder(folder)?;
        for name in superfluous(folder, &[])? {
            remove_generation(&disk, folder, &name)?;
        }
        disk.remove(&pending_path(folder))?;
        disk.remove(&folder.join(names::SEARCHED_FILE))?;
        disk.remove(&lock)?;
        match fs::remove_dir(folder) {
            Err(error) if error.kind() == io::ErrorKind::DirectoryNotEmpty => Ok(true),
            removed => Ok(removed.map(|()| true).map_err(GenerationError::io("remove", folder))?),
        }
    }
}

/// Tells whether there is a folder. A link to one is refused: what is superfluous there is removed, and the folder may
/// be anybody's.
fn folder_exists(path: &Path) -> Result<bool, GenerationError> {
    match fs::symlink_metadata(path) {
        Ok(found) if found.is_dir() => Ok(true),
        Ok(found) if found.is_symlink() => Err(GenerationError::Link { path: path.into() }),
        Ok(_) => Err(GenerationError::NotAFolder { path: path.into() }),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound => Ok(false),
            io::ErrorKind::NotADirectory => Err(GenerationError::NotAFolder { path: path.into() }),
            _ => Err(GenerationError::io("open", path)(error)),
        },
    }
}

fn ensure_folder(disk: &Disk, path: &Path, mode: FileMode) -> Result<(), GenerationError> {
    if folder_exists(path)? {
        return Ok(());
    }
    match disk.create_folder(path) {
        // Another writer was quicker; the lock decides which of the two goes on.
        Err(error) if error.is(io::ErrorKind::AlreadyExists) => {
            return if folder_exists(path)? {
                Ok(())
            } else {
                Err(GenerationError::NotAFolder { path: path.into() })
            };
        }
        created => created?,
    }
    disk.set_mode(path, mode.folder_bits())?;
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => disk.sync_folder(parent),
        _ => disk.sync_folder(Path::new(".")),
    }
}

/// Names in a folder; those that are no text are nobody's and come out as what no name of ours equals.
fn names_in(folder: &Path) -> Result<Vec<String>, GenerationError> {
    let failed = |error| GenerationError::io("list", folder)(error);
    let mut names = Vec::new();
    for entry in fs::read_dir(folder).map_err(failed)? {
        names.push(entry.map_err(failed)?.file_name().to_string_lossy().into_owned());
    }
    Ok(names)
}

/// Returns the highest number that a folder of a generation has, finished or not.
fn highest_number(folder: &Path) -> Result<u64, GenerationError> {
    let names = names_in(folder)?;
    let numbers = names.iter().filter_map(|name| names::parse_generation(name));
    Ok(numbers.map(|(number, _)| number).max().unwrap_or(0))
}

/// Removes generations other than these, and what dead writers left behind.
///
/// What cannot be removed stays for the next writer; it harms nobody.
fn sweep(disk: &Disk, folder: &Path, kept: &[Option<u64>]) {
    let _ = disk.remove(&pending_path(folder));
    for name in superfluous(folder, kept).unwrap_or_default() {
        let _ = remove_generation(disk, folder, &name);
    }
}

/// Lists folders of generations that are not among these, and unfinished ones, as far as they are ours.
fn superfluous(folder: &Path, kept: &[Option<u64>]) -> Result<Vec<String>, GenerationError> {
    let is_kept = |name: &String| match names::parse_generation(name) {
        Some((number, pending)) => !pending && kept.contains(&Some(number)),
        None => true,
    };
    let mut names = names_in(folder)?;
    names.retain(|name| !is_kept(name) && is_ours(&folder.join(name)));
    // Unfinished ones first: they have the names that others take on their way out.
    names.sort_unstable_by(|left, right| right.cmp(left));
    Ok(names)
}

/// Tells whether a folder with the name of a generation holds what a generation holds and nothing else, so that it may be
/// removed. What cannot be looked into is not ours.
fn is_ours(path: &Path) -> bool {
    let is_folder = |path: &Path| fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
    let Some(names) = is_folder(path).then(|| names_in(path).ok()).flatten() else {
        return false;
    };
    let is_pending = path.as_os_str().as_encoded_bytes().ends_with(names::PENDING.as_bytes());
    let is_marked = names.iter().any(|name| [INDEX_FILE, COLUMNS_FILE].contains(&name.as_str()));
    let is_plain = |name: &String| names::is_in_generation(name) && !is_folder(&path.join(name));
    (is_pending || is_marked || names.is_empty()) && names.iter().all(is_plain)
}

/// Removes a folder under another name, so that no reader sees it with some of its files.
fn remove_generation(disk: &Disk, folder: &Path, name: &str) -> Result<(), GenerationError> {
    let mut path = folder.join(name);
    if !name.ends_with(names::PENDING) {
        let aside = folder.join(name.to_owned() + names::PENDING);
        disk.rename(&path, &aside)?;
        path = aside;
    }
    disk.remove(&path)
}

/// Adds a segment of fresh rows; holds a lock of the generation until it is published or dropped.
///
/// The lock is not that of generations: rows can be sealed while the next generation is being built. Dropped before
/// [`publish`](Self::publish), it leaves nothing that a reader would see.
#[derive(Debug)]
pub struct FreshWriter<'g> {
    generation: &'g mut Generation,
    path: PathBuf,
    mode: FileMode,
    disk: Disk,
    _lock: LockFile,
}

impl<'g> FreshWriter<'g> {
    /// Takes the lock and maps the segments that others have sealed, so that the caller knows what is left.
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
        Self::begin_on(Disk::default(), generation, mode, wait)
    }

    pub(super) fn begin_on(
        disk: Disk,
        generation: &'g mut Generation,
        mode: FileMode,
        wait: Duration,
    ) -> Result<Self, GenerationError> {
        let gone = || GenerationError::Gone { path: generation.folder().to_owned() };
        if !generation.is_in_place() {
            return Err(gone());
        }
        let lock = LockFile::take(&disk, &generation.folder().join(names::LOCK), mode, wait);
        if !generation.is_in_place() {
            return Err(gone());
        }
        let lock = lock?;
        generation.see_fresh()?;
        let name = names::fresh(generation.next_fresh()) + names::PENDING;
        let path = generation.folder().join(name);
        // Left behind by one that died: the lock is ours.
        disk.remove(&path)?;
        Ok(Self { generation, path, mode, disk, _lock: lock })
    }

    /// Returns the generation with all segments sealed so far.
    #[must_use]
    pub const fn generation(&self) -> &Generation {
        self.generation
    }

    /// Returns where the segment is written.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Opens the file of the segment, for a [`SectionFileWriter`](crate::file::SectionFileWriter).
    ///
    /// # Errors
    /// When it was opened before, the generation is gone, or the system refuses.
    pub fn create(&self) -> Result<File, GenerationError> {
        self.disk.create_file(&self.path, self.mode).map_err(|refused| self.refused(refused))
    }

    /// Makes the segment durable and visible to every process, and returns its number.
    ///
    /// # Errors
    /// When the file is no finished segment, the generation is gone, or the system refuses; the segment is then
    /// not there, unless only the very last step failed, which makes its name durable.
    pub fn publish(self) -> Result<u32, GenerationError> {
        let number = self.generation.next_fresh();
        let place = self.generation.folder().join(names::fresh(number));
        let refused = |refused| self.refused(refused);
        let file = File::open(&self.path)
            .map_err(|error| refused(GenerationError::io("open", &self.path)(error)))?;
        let mapped = Mapped::map(&file, &self.path).map_err(GenerationError::from)?;
        SectionFile::from_mapped(mapped, &self.path, FileKind::Fresh)?;
        self.disk.sync_file(&file, &self.path).map_err(refused)?;
        self.disk.rename(&self.path, &place).map_err(refused)?;
        self.disk.sync_folder(self.generation.folder()).map_err(refused)?;
        self.generation.see_fresh()?;
        Ok(number)
    }

    /// Says so where the folder went away under our hands.
    fn refused(&self, refused: GenerationError) -> GenerationError {
        if self.generation.is_in_place() {
            refused
        } else {
            GenerationError::Gone { path: self.generation.folder().to_owned() }
        }
    }
}

impl Drop for FreshWriter<'_> {
    fn drop(&mut self) {
        // After publishing there is nothing of this name.
        if self.generation.is_in_place() {
            let _ = self.disk.remove(&self.path);
        }
    }
}
