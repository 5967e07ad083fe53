//! Rows to measure with: generated once, kept in `target/measure`, named for what they are.

use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// Real embeddings within `MEMFOLD_DATA`.
const REAL_FILE: &str = "embeddings/vectors_f16.npy";

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
        let path = real_file()?;
        Some(Self { name: "real-36k".to_owned(), origin: Origin::Given(path) })
    }

    /// Generated rows, with the spread of the real ones where `MEMFOLD_DATA` has them.
    pub(crate) fn synthetic(rows: u64) -> Self {
        Self::generated(rows, real_file())
    }

    fn generated(rows: u64, like: Option<PathBuf>) -> Self {
        let kind = if like.is_some() { "synthetic-like-real" } else { "synthetic" };
        Self { name: format!("{kind}-{}", short(rows)), origin: Origin::Generated { rows, like } }
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
        let folder = root.join("target/measure");
        std::fs::create_dir_all(&folder).map_err(|error| error.to_string())?;
        let path = folder.join(format!("{}.npy", self.name));
        if !path.exists() {
            let mut words: Vec<OsString> =
                vec!["generate".into(), "--quiet".into(), "--rows".into(), rows.to_string().into()];
            if let Some(like) = like {
                words.extend(["--like".into(), like.into()]);
            }
            words.extend(["--output".into(), path.clone().into()]);
            let status = Command::new(memfold).args(words).stdout(Stdio::null()).status();
            let status = status.map_err(|error| format!("cannot run memfold: {error}"))?;
            if !status.success() {
                return Err(format!("generate ended with {status}"));
            }
        }
        Ok(path)
    }
}

/// The real rows, where `MEMFOLD_DATA` has them.
pub(crate) fn real_file() -> Option<PathBuf> {
    Some(data_folder()?.join(REAL_FILE))
}

/// The folder of real data, where `MEMFOLD_DATA` names one.
pub(crate) fn data_folder() -> Option<PathBuf> {
    let data = std::env::var_os("MEMFOLD_DATA").filter(|data| !data.is_empty())?;
    Some(PathBuf::from(data))
}

/// `1_000_000` is `1m`.
fn short(rows: u64) -> String {
    match rows {
        rows if rows > 0 && rows.is_multiple_of(1_000_000) => format!("{}m", rows / 1_000_000),
        rows if rows > 0 && rows.is_multiple_of(1_000) => format!("{}k", rows / 1_000),
        rows => rows.to_string(),
    }
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
