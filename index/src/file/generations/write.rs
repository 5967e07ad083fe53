//! [`GenerationWriter`]: a new generation, whole or not at all. [`FreshWriter`]: sealed fresh rows beside a live one.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::disk::{self, LockFile};
use super::manifest::{Manifest, ManifestFile};
use super::{FileMode, Generation, GenerationError, Generations, SEARCHED_FILE};
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
    /// Where the files are until they are published.
    path: PathBuf,
    /// The live generation, which becomes the previous one.
    live: Option<u64>,
    mode: FileMode,
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
            Err(GenerationError::Manifest { .. } | GenerationError::ManifestVersion { .. }) => None,
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
    /// When it exists, its name is none for such a file, or the system refuses.
    pub fn create(&self, name: &str) -> Result<File, GenerationError> {
        let path = self.path.join(name);
        if !disk::is_file_name(name) {
            return Err(GenerationError::FileName(path));
        }
        disk::create_file(&path, self.mode)
    }

    /// Makes everything durable, makes the generation live, and removes those before the previous one.
    ///
    /// Returns its number. Files named `*.mfi` must be finished indexes.
    ///
    /// # Errors
    /// When a file is not fit to be published or the system refuses. The live generation is then what it was,
    /// unless only the very last step failed, which makes the new manifest's name durable.
    pub fn publish(self) -> Result<u64, GenerationError> {
        let mut names = disk::names_in(&self.path)?;
        names.sort_unstable();
        if names.is_empty() {
            return Err(GenerationError::Empty(self.path.clone()));
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
        if !disk::is_file_name(&name) {
            return Err(GenerationError::FileName(path));
        }
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
        // Nothing has this name after publishing. What cannot be removed now is removed by the next writer.
        let _ = disk::remove(&self.path);
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

/// Removes generations other than these, and what dead writers left behind.
///
/// What cannot be removed stays for the next writer; it harms nobody.
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
