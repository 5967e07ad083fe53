//! Where the index of a store or a file is: beside it, in the cache, or where the user says.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};

use crate::args::IndexPlaceArgs;
use crate::failure::Failure;

/// Ends the folder's name.
const ENDING: &str = ".memfold";

/// Returns the folder to read from: the one named, the one beside the store, or, where there is only that, the one in
/// the cache.
pub(crate) fn to_read(args: &IndexPlaceArgs) -> Result<PathBuf, Failure> {
    if let Some(folder) = &args.index_dir {
        return Ok(folder.clone());
    }
    let store = store(args)?;
    let beside = beside(&store);
    let cached = cached(&store).filter(|cached| !beside.is_dir() && cached.is_dir());
    Ok(cached.unwrap_or(beside))
}

/// Returns the folders in which an index of a store may be: the one named, the one beside the store, the one in the cache.
pub(crate) fn all(args: &IndexPlaceArgs) -> Result<Vec<PathBuf>, Failure> {
    let store = store(args)?;
    let folders = [args.index_dir.clone(), Some(beside(&store)), cached(&store)];
    Ok(folders.into_iter().flatten().collect())
}

/// Returns the folder to build in: as for reading, and in the cache where the store's folder cannot be written.
pub(super) fn to_build(args: &IndexPlaceArgs) -> Result<PathBuf, Failure> {
    let folder = to_read(args)?;
    if args.index_dir.is_some() || folder.is_dir() {
        return Ok(folder);
    }
    let store = store(args)?;
    let place = store.parent().unwrap_or(Path::new("."));
    match tempfile::tempfile_in(place) {
        Ok(_) => Ok(folder),
        Err(error) => {
            let cached = cached(&store).ok_or_else(|| unwritable(place, &error))?;
            let parent = cached.parent().unwrap_or(Path::new("."));
            std::fs::create_dir_all(parent).map_err(|error| unwritable(parent, &error))?;
            Ok(cached)
        }
    }
}

fn unwritable(folder: &Path, error: &io::Error) -> Failure {
    let hint = Some("name a folder that can be written with --index-dir".to_owned());
    Failure::new(&format!("write to {}", folder.display()), error, hint)
}

/// Follows links: a store has one index, whatever it is called.
fn store(args: &IndexPlaceArgs) -> Result<PathBuf, Failure> {
    std::fs::canonicalize(&args.db).map_err(|error| {
        let what = format!("open {}", args.db.display());
        Failure::new(&what, &error, Some("name a brain.db or a file of vectors".to_owned()))
    })
}

fn beside(store: &Path) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push(ENDING);
    name.into()
}

/// `$XDG_CACHE_HOME/memfold/brain.db-0123456789abcdef.memfold`, the digits from the store's path.
fn cached(store: &Path) -> Option<PathBuf> {
    let cache = std::env::var_os("XDG_CACHE_HOME").filter(|folder| !folder.is_empty());
    let cache = cache.map(PathBuf::from).or_else(|| {
        let home = std::env::var_os("HOME").filter(|folder| !folder.is_empty())?;
        Some(PathBuf::from(home).join(".cache"))
    })?;
    let digest = blake3::hash(store.as_os_str().as_encoded_bytes()).to_hex();
    let mut name = OsString::from(store.file_name()?);
    name.push(format!("-{}{ENDING}", &digest[..16]));
    Some(cache.join("memfold").join(name))
}
