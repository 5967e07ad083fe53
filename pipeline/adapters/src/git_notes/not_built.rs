//! Git notes in a build without the feature `git`: the repository is recognised, so that the error names the feature.

use std::path::{Path, PathBuf};

use crate::shared::git_dir;
use memfold_store::origin::{Origin, OriginError};

/// The name of the format.
pub(crate) const KIND: &str = "git_notes";

/// The folder of the owner's refs in a git directory, and how `packed-refs` names them.
const REFS: &str = "refs/notes/mem/";

/// Tells whether a path is in a git repository with memories in its notes.
pub(crate) fn is_one(path: &Path) -> bool {
    git_dir(path).is_some_and(|folder| {
        let loose =
            std::fs::read_dir(folder.join(REFS)).is_ok_and(|mut refs| refs.next().is_some());
        let packed = || std::fs::read_to_string(folder.join("packed-refs")).unwrap_or_default();
        loose || packed().lines().any(|line| line.contains(REFS))
    })
}

/// Returns the path itself.
pub(crate) fn root(path: &Path) -> PathBuf {
    path.to_owned()
}

/// Refuses: the error names the feature.
pub(crate) fn open(path: &Path) -> Result<Box<dyn Origin>, OriginError> {
    Err(OriginError::NotBuilt { path: path.to_owned(), kind: KIND, feature: "git" })
}

#[cfg(test)]
mod tests {
    use super::{is_one, open};

    /// A repository with memories was no store at all to a build without git notes: the error was about something else.
    #[test]
    fn repository_with_memory_notes_names_the_feature() {
        let folder = tempfile::tempdir().unwrap();
        let git = folder.path().join(".git");
        std::fs::create_dir_all(git.join("refs/notes/mem")).unwrap();
        assert!(!is_one(folder.path()));
        std::fs::write(git.join("packed-refs"), "0123 refs/notes/mem/decisions\n").unwrap();
        assert!(is_one(folder.path()));
        std::fs::write(git.join("packed-refs"), "").unwrap();
        std::fs::write(git.join("refs/notes/mem/decisions"), "0123\n").unwrap();
        assert!(is_one(folder.path()));
        let error = open(folder.path()).err().unwrap();
        assert!(error.to_string().contains("without the feature git"), "{error}");
        assert!(error.hint().unwrap().contains("--features git"), "{error}");
    }
}
