//! Layers of configuration, from files to a policy.

mod embed;
mod errors;
mod layers;
mod schema;

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use super::{ConfigError, ConfigLoader, Configuration};

/// A folder with one configuration file.
struct Written {
    folder: TempDir,
    path: PathBuf,
}

/// Writes a file `memfold.yaml` into a folder of its own.
fn written(text: impl AsRef<[u8]>) -> Written {
    written_as("memfold.yaml", text)
}

fn written_as(name: &str, text: impl AsRef<[u8]>) -> Written {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, text).unwrap();
    Written { folder, path }
}

/// Loads one file given by `--config`.
fn load(text: impl AsRef<[u8]>) -> Result<Configuration, ConfigError> {
    ConfigLoader::new().file(&written(text).path).load()
}

/// Loads one `--set`.
fn set(text: &str) -> Result<Configuration, ConfigError> {
    ConfigLoader::new().set(text).load()
}

/// Loads one environment variable.
fn variable(name: &str, text: &str) -> Result<Configuration, ConfigError> {
    ConfigLoader::new().environment([(name.to_owned(), text.to_owned())]).load()
}
