//! The files that a command writes, checked before it works.

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};

use memfold::ops::StorePath;
use memfold_datasets::atomic_file::{NewFile, place_of, without_path};

use crate::failure::Failure;

/// Endings of the files that SQLite keeps for a store.
const STORE_ENDINGS: [&str; 4] = ["", "-wal", "-shm", "-journal"];

/// The treatment of an existing file.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Existing {
    /// It stays, and the command is refused.
    Refuse,
    /// It stays, even with `--force`.
    Never,
    /// It is replaced: `--force`.
    Replace,
    /// It is replaced if it was written by an earlier run: this tells.
    ReplaceIf(fn(&Path) -> bool),
}

impl Existing {
    /// The treatment with or without `--force`.
    pub(crate) const fn forced(force: bool) -> Self {
        if force { Self::Replace } else { Self::Refuse }
    }
}

/// The outputs of a command so far, and the files that none of them may be.
#[derive(Debug)]
pub(crate) struct Outputs {
    inputs: Vec<PathBuf>,
    places: Vec<(PathBuf, String)>,
}

impl Outputs {
    /// Begins with the files that a command reads.
    pub(crate) fn beside<'a>(inputs: impl IntoIterator<Item = &'a Path>) -> Self {
        let inputs = inputs.into_iter().flat_map(places_of_input).collect();
        Self { inputs, places: Vec::new() }
    }

    /// Takes a store as an input, with the files that SQLite keeps beside it.
    pub(crate) fn and_store(mut self, store: &StorePath) -> Self {
        let named = store.named().canonicalize().unwrap_or_else(|_| store.named().to_owned());
        for store in places_of_input(store).chain([named]) {
            self.inputs.extend(STORE_ENDINGS.map(|ending| {
                let mut name = store.clone().into_os_string();
                name.push(ending);
                PathBuf::from(name)
            }));
        }
        self
    }

    /// Takes an output, unless it is an input, is named twice, is not a file, exists and must stay,
    /// or cannot be written.
    pub(crate) fn take(
        &mut self,
        flag: &str,
        path: &Path,
        existing: Existing,
    ) -> Result<(), Failure> {
        let shown = path.display();
        let named = place(path)?;
        let target = place_of(path).map_err(|error| {
            if error.kind() == io::ErrorKind::InvalidInput {
                return Failure::usage(
                    format!("{flag} {shown}: {error}"),
                    "name a file: an output is written whole and then put in its place",
                );
            }
            Failure::new(&format!("look at {shown}"), &error, None)
        })?;
        let target = place(&target)?;
        if [&named, &target].iter().any(|place| self.inputs.contains(place)) {
            return Err(Failure::usage(
                format!("{flag} {shown} is an input"),
                "name another file: inputs are never changed",
            ));
        }
        if let Some((_, other)) = self.places.iter().find(|(other, _)| *other == target) {
            return Err(Failure::usage(
                format!("{other} and {flag} name the same file, {shown}"),
                "name two files",
            ));
        }
        refuse_existing(path, existing)?;
        check_writable(path, target.parent().unwrap_or(Path::new(".")))?;
        self.places.push((target, flag.to_owned()));
        Ok(())
    }
}

/// Refuses outputs, each with its flag, that exist (unless `--force` replaces them), that are an
/// input, that are named twice, or that cannot be written.
pub fn check(
    outputs: &[(&str, &Option<PathBuf>)],
    inputs: &[PathBuf],
    force: bool,
) -> Result<(), Failure> {
    let mut taken = Outputs::beside(inputs.iter().map(PathBuf::as_path));
    for (flag, path) in outputs {
        if let Some(path) = path {
            taken.take(flag, path, Existing::forced(force))?;
        }
    }
    Ok(())
}

/// Writes a text as a file that appears whole or not at all.
pub fn write(path: &Path, text: &str) -> Result<(), Failure> {
    let written = NewFile::create(path).and_then(|mut file| {
        file.write_all(text.as_bytes())?;
        file.publish()
    });
    let failed = |error| Failure::new(&format!("write {}", path.display()), &error, None);
    written.map(drop).map_err(failed)
}

/// Refuses to replace a file unless requested.
fn refuse_existing(path: &Path, existing: Existing) -> Result<(), Failure> {
    if path.symlink_metadata().is_err() || matches!(existing, Existing::Replace) {
        return Ok(());
    }
    let hint = match existing {
        Existing::ReplaceIf(is_ours) if is_ours(path) => return Ok(()),
        Existing::ReplaceIf(_) => {
            return Err(Failure::usage(
                format!("{} exists and was not written by an earlier run", path.display()),
                "name another file",
            ));
        }
        Existing::Never => "reports are never overwritten: name another file",
        _ => "name another file, or replace it with --force",
    };
    Err(Failure::usage(format!("{} exists", path.display()), hint))
}

/// Makes sure that a file can be made in a folder.
fn check_writable(path: &Path, folder: &Path) -> Result<(), Failure> {
    // It is removed as soon as it is made.
    tempfile::NamedTempFile::new_in(folder).map(drop).map_err(|error| {
        let hint = "name a file in a folder that you may write and that has room".to_owned();
        Failure::new(&format!("write {}", path.display()), &without_path(error), Some(hint))
    })
}

/// Where an input stands: as named, and where links lead.
fn places_of_input(path: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    [place(path).ok(), path.canonicalize().ok()].into_iter().flatten()
}

/// Returns where a file will stand, for any spelling of its path.
fn place(path: &Path) -> Result<PathBuf, Failure> {
    let name = path.file_name().ok_or_else(|| {
        Failure::usage(format!("{} names no file", path.display()), "name a file to write")
    })?;
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let failed = |error| {
        let hint = "make the folder first, or name another".to_owned();
        Failure::new(&format!("find the folder of {}", path.display()), &error, Some(hint))
    };
    Ok(folder.canonicalize().map_err(failed)?.join(name))
}

#[cfg(all(test, unix))]
mod tests {
    use super::*;

    fn refused(outputs: &mut Outputs, path: &Path, existing: Existing) -> String {
        outputs.take("--out", path, existing).err().map_or("taken".to_owned(), |f| f.message)
    }

    #[test]
    fn what_must_not_be_written_is_refused_before_anything_is() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("brain.db"), "").unwrap();
        std::fs::write(at("input"), "").unwrap();
        std::fs::write(at("mine"), "").unwrap();
        std::os::unix::fs::symlink("input", at("link")).unwrap();
        std::os::unix::fs::symlink("mine", at("to-mine")).unwrap();
        let input = at("link");
        let mut outputs = Outputs::beside([input.as_path()]).and_store(&at("brain.db").into());
        let force = Existing::Replace;
        for name in ["brain.db", "brain.db-wal", "brain.db-journal", "input", "link"] {
            let message = refused(&mut outputs, &at(name), force);
            assert!(message.ends_with("is an input"), "{name}: {message}");
        }
        let message = refused(&mut outputs, &at("mine"), Existing::Refuse);
        assert!(message.ends_with("mine exists"), "{message}");
        let is_ours: fn(&Path) -> bool = |path| path.ends_with("mine");
        assert_eq!(refused(&mut outputs, &at("mine"), Existing::ReplaceIf(is_ours)), "taken");
        let message = refused(&mut outputs, &at("to-mine"), force);
        assert!(message.starts_with("--out and --out name the same file"), "{message}");
        for (path, part) in [
            (folder.path().to_owned(), "it is a folder, not a file"),
            (PathBuf::from("/dev/null"), "it is a device, not a file"),
            (at("nowhere/file"), "failed to find the folder of"),
            (at(".."), "names no file"),
        ] {
            let message = refused(&mut outputs, &path, force);
            assert!(message.contains(part), "{message}");
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 5, "no leftovers");
    }
}
