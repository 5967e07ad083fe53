//! Rows and stores to measure with: generated once, kept in `target/measure`, named for what they
//! are.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::results;

/// Where generated data stay.
pub(crate) const FOLDER: &str = "target/measure";

/// Real embeddings and their texts within `MEMFOLD_DATA`.
const REAL_FILE: &str = "embeddings/vectors_f16.npy";
const REAL_TEXTS: &str = "embeddings/texts.parquet";

/// A file of rows, or how to get it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Rows {
    /// Shown beside every figure; generated rows begin with `synthetic`.
    pub(crate) name: String,
    origin: Origin,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Origin {
    Given(PathBuf),
    Generated { rows: u64, like: Option<PathBuf> },
}

impl Rows {
    /// Rows of a file, named by it.
    pub(crate) fn given(path: &Path) -> Self {
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        Self { name, origin: Origin::Given(path.to_path_buf()) }
    }

    /// The real rows, where `MEMFOLD_DATA` has them.
    pub(crate) fn real() -> Option<Self> {
        Some(Self { name: "real-36k".to_owned(), origin: Origin::Given(real_file()?) })
    }

    /// Generated rows, with the spread of the real ones where `MEMFOLD_DATA` has them.
    pub(crate) fn synthetic(rows: u64) -> Self {
        Self::generated(rows, real_file())
    }

    fn generated(rows: u64, like: Option<PathBuf>) -> Self {
        let kind = if like.is_some() { "synthetic-like-real" } else { "synthetic" };
        let size = match rows {
            rows if rows > 0 && rows.is_multiple_of(1_000_000) => format!("{}m", rows / 1_000_000),
            rows if rows > 0 && rows.is_multiple_of(1_000) => format!("{}k", rows / 1_000),
            rows => rows.to_string(),
        };
        Self { name: format!("{kind}-{size}"), origin: Origin::Generated { rows, like } }
    }

    /// The command that makes the rows, for a reader; `None` where they are given.
    pub(crate) fn recipe(&self) -> Option<String> {
        let Origin::Generated { rows, like } = &self.origin else { return None };
        let like = like.as_ref().map_or("", |_| " --like vectors_f16.npy");
        Some(format!("memfold generate --rows {rows}{like} --output {}.npy", self.name))
    }

    /// Returns the file, and generates it first where it is missing.
    pub(crate) fn file(&self, root: &Path, memfold: &Path) -> Result<PathBuf, String> {
        let (rows, like) = match &self.origin {
            Origin::Given(path) => return Ok(path.clone()),
            Origin::Generated { rows, like } => (rows, like),
        };
        let mut words: Vec<OsString> = vec!["--rows".into(), rows.to_string().into()];
        if let Some(like) = like {
            words.extend(["--like".into(), like.into()]);
        }
        generated(root, memfold, &format!("{}.npy", self.name), &words)
    }
}

/// A generated `brain.db`.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Store {
    pub(crate) name: &'static str,
    pub(crate) rows: u64,
    /// How often whole runs on it are timed.
    pub(crate) runs: usize,
}

/// Stores of real vectors and texts are called so; the one of a million is for `--full`.
const STORES: [Store; 7] = [
    Store { name: "real-1k", rows: 1_000, runs: 25 },
    Store { name: "real-10k", rows: 10_000, runs: 15 },
    Store { name: "real-36k", rows: 36_000, runs: 9 },
    Store { name: "synthetic-1k", rows: 1_000, runs: 25 },
    Store { name: "synthetic-36k", rows: 36_000, runs: 9 },
    Store { name: "synthetic-100k", rows: 100_000, runs: 5 },
    Store { name: "synthetic-1m", rows: 1_000_000, runs: 1 },
];

impl Store {
    /// The stores that can be built here, in order of the table.
    pub(crate) fn all(full: bool) -> impl Iterator<Item = Self> {
        let has_real = real_file().is_some();
        let fits =
            move |store: &Self| (has_real || !store.is_real()) && (full || store.rows < 1_000_000);
        STORES.into_iter().filter(fits)
    }

    /// Those that memories are looked up in.
    pub(crate) fn looked_up(full: bool) -> impl Iterator<Item = Self> {
        let names = ["synthetic-1k", "real-36k", "synthetic-100k", "synthetic-1m"];
        Self::all(full).filter(move |store| names.contains(&store.name))
    }

    /// A million generated vectors, each with a text of its own: next to nothing is merged.
    pub(crate) const fn distinct() -> Self {
        Self { name: "distinct-1m", rows: 1_000_000, runs: 1 }
    }

    fn is_real(&self) -> bool {
        self.name.starts_with("real")
    }

    /// The command that makes the store, for a reader.
    pub(crate) fn recipe(&self) -> String {
        let from = match self.is_real() {
            true => " --from vectors_f16.npy --texts texts.parquet",
            false if self.name == Self::distinct().name => " --from synthetic-1m.npy",
            false => "",
        };
        format!("memfold generate --brain --rows {}{from} --output S.db", self.rows)
    }

    /// Returns the store, and generates it first where it is missing.
    pub(crate) fn file(&self, root: &Path, memfold: &Path) -> Result<PathBuf, String> {
        let mut words: Vec<OsString> =
            vec!["--brain".into(), "--rows".into(), self.rows.to_string().into()];
        if let Some(data) = folder().filter(|_| self.is_real()) {
            words.extend(["--from".into(), data.join(REAL_FILE).into()]);
            words.extend(["--texts".into(), data.join(REAL_TEXTS).into()]);
        } else if self.name == Self::distinct().name {
            let vectors = Rows::generated(self.rows, None).file(root, memfold)?;
            words.extend(["--from".into(), vectors.into()]);
        }
        generated(root, memfold, &format!("{}.db", self.name), &words)
    }
}

fn generated(
    root: &Path,
    memfold: &Path,
    name: &str,
    words: &[OsString],
) -> Result<PathBuf, String> {
    let folder = root.join(FOLDER);
    std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
    let path = folder.join(name);
    if !path.exists() {
        let mut generate = Command::new(memfold);
        generate.args(["generate", "--quiet"]).args(words).arg("--output").arg(&path);
        results::said(&mut generate)?;
    }
    Ok(path)
}

/// The real rows, where `MEMFOLD_DATA` has them.
pub(crate) fn real_file() -> Option<PathBuf> {
    Some(folder()?.join(REAL_FILE))
}

/// The folder of real data, where `MEMFOLD_DATA` names one.
pub(crate) fn folder() -> Option<PathBuf> {
    let data = std::env::var_os("MEMFOLD_DATA").filter(|data| !data.is_empty())?;
    Some(PathBuf::from(data))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_what_rows_are() {
        let plain = Rows::generated(100_000, None);
        assert_eq!(plain.name, "synthetic-100k");
        let expected = "memfold generate --rows 100000 --output synthetic-100k.npy";
        assert_eq!(plain.recipe().unwrap(), expected);
        let like = Rows::generated(1_000_000, Some("real.npy".into()));
        assert_eq!(like.name, "synthetic-like-real-1m");
        assert!(like.recipe().unwrap().contains(" --like vectors_f16.npy "));
        assert_eq!(Rows::generated(1_234, None).name, "synthetic-1234");
        let given = Rows::given(Path::new("a/mine.npy"));
        assert_eq!((given.name.as_str(), given.recipe()), ("mine", None));
    }
}
