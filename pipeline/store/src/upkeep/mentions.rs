//! [`mentions`]: files beside a store that still name a memory.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::Serialize;

use crate::BrainDb;
use crate::brain_db::{OpenOptions, SessionError};
use memfold_model::memory::MemoryId;

/// How the name of a backup goes on after the store's.
const BACKUP_SUFFIX: &str = ".memfold-backup-";

/// Files that name a memory.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, schemars::JsonSchema)]
pub struct Mentions {
    /// Reports and plans.
    pub reports: Vec<PathBuf>,
    /// Backups that hold it, or that cannot be read.
    pub backups: Vec<PathBuf>,
}

/// Looks through the files of the folders of reports, and through the backups beside a store.
///
/// # Errors
/// When a file cannot be read; a folder that does not exist has no files.
pub fn mentions(
    store: &Path,
    report_folders: &[PathBuf],
    ids: &[MemoryId],
) -> io::Result<Mentions> {
    let mut found = Mentions::default();
    for folder in report_folders {
        for file in files(folder)? {
            let text = fs::read(&file)?;
            if ids.iter().any(|id| names(&text, id.as_str().as_bytes())) {
                found.reports.push(file);
            }
        }
    }
    let folder = store.parent().filter(|folder| !folder.as_os_str().is_empty());
    let name = store.file_name().unwrap_or_default().to_string_lossy();
    let prefix = format!("{name}{BACKUP_SUFFIX}");
    for file in files(folder.unwrap_or(Path::new(".")))? {
        let is_backup =
            file.file_name().is_some_and(|name| name.to_string_lossy().starts_with(&prefix));
        if is_backup && may_hold(&file, ids) {
            found.backups.push(file);
        }
    }
    Ok(found)
}

/// The files of a folder, by name.
fn files(folder: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(folder) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(error),
    };
    let mut files = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if path.is_file() {
            files.push(path);
        }
    }
    files.sort();
    Ok(files)
}

/// Tells whether an id stands in a text as a word of its own.
fn names(text: &[u8], id: &[u8]) -> bool {
    if id.is_empty() {
        return false;
    }
    let is_inside =
        |byte: Option<&u8>| byte.is_some_and(|b| b.is_ascii_alphanumeric() || *b == b'_');
    text.windows(id.len()).enumerate().any(|(at, window)| {
        window == id
            && !is_inside(at.checked_sub(1).and_then(|before| text.get(before)))
            && !is_inside(text.get(at + id.len()))
    })
}

/// A backup that cannot be read counts as holding it.
fn may_hold(path: &Path, ids: &[MemoryId]) -> bool {
    let Ok(store) = BrainDb::open(path, OpenOptions::default()) else { return true };
    let held = store.look_on::<_, SessionError>(|reads| {
        reads.query("look into a backup", |connection| {
            let mut statement = connection.prepare("SELECT 1 FROM stm WHERE id = ?1")?;
            for id in ids {
                if statement.exists([id.as_str()])? {
                    return Ok(true);
                }
            }
            Ok(false)
        })
    });
    held.unwrap_or(true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_found_as_whole_words() {
        for (text, found) in [
            ("m1", true),
            ("\"m1\"", true),
            ("a m1, b", true),
            ("m10", false),
            ("xm1 m1x _m1", false),
            ("", false),
        ] {
            assert_eq!(names(text.as_bytes(), b"m1"), found, "{text}");
        }
        assert!(!names(b"abc", b""));
    }

    #[test]
    fn files_that_name_a_memory_are_listed() {
        let folder = tempfile::tempdir().unwrap();
        let store = folder.path().join("brain.db");
        let reports = folder.path().join("reports");
        fs::create_dir(&reports).unwrap();
        fs::write(reports.join("a.json"), "{\"targetIds\":[\"m1\"]}").unwrap();
        fs::write(reports.join("b.json"), "{\"targetIds\":[\"m10\"]}").unwrap();
        fs::write(folder.path().join("brain.db.memfold-backup-x"), "no store").unwrap();
        let none = folder.path().join("none");
        let found = mentions(&store, &[reports.clone(), none], &[MemoryId::new("m1")]).unwrap();
        assert_eq!(found.reports, [reports.join("a.json")]);
        assert_eq!(found.backups, [folder.path().join("brain.db.memfold-backup-x")]);
    }
}
