//! The files that a command writes, looked at before it works.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use memfold_datasets::publish::NewFile;

use crate::commands::export::refuse_existing;
use crate::failure::Failure;

/// Refuses outputs, each with its flag, that exist (unless told to replace them), that are an input, that are named
/// twice, or whose folder is missing.
pub fn check(
    outputs: &[(&str, &Option<PathBuf>)],
    inputs: &[PathBuf],
    force: bool,
) -> Result<(), Failure> {
    let inputs: Vec<PathBuf> = inputs.iter().filter_map(|path| path.canonicalize().ok()).collect();
    let mut places: Vec<(PathBuf, &str)> = Vec::new();
    for (flag, path) in outputs {
        let Some(path) = path else { continue };
        let place = place(path)?;
        if inputs.contains(&place) || path.canonicalize().is_ok_and(|path| inputs.contains(&path)) {
            return Err(Failure::usage(
                format!("{flag} {} is an input", path.display()),
                "name another file: inputs are never changed",
            ));
        }
        if let Some((_, other)) = places.iter().find(|(other, _)| *other == place) {
            return Err(Failure::usage(
                format!("{other} and {flag} name the same file, {}", path.display()),
                "name two files",
            ));
        }
        refuse_existing(path, force)?;
        places.push((place, flag));
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

/// Returns where a file will stand, whatever its path looks like.
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
