//! The inputs as files: patterns expanded, each file once.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::failure::Failure;

/// Returns the files that the arguments name, in their order; those of a pattern by their bytes.
///
/// A file that is called like a pattern is that file.
pub(super) fn expand(arguments: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let mut files = Vec::new();
    for argument in arguments {
        if argument.is_dir() {
            let pattern = argument.join("*.parquet");
            return Err(Failure::plain(
                format!("{} is a folder", argument.display()),
                format!("name its files, such as '{}'", pattern.display()),
            ));
        }
        let pattern = argument.to_str().filter(|text| text.contains(['*', '?', '[']));
        match pattern {
            Some(pattern) if argument.symlink_metadata().is_err() => {
                files.extend(matches(pattern)?)
            }
            _ => files.push(argument.clone()),
        }
    }
    check_once(&files)?;
    Ok(files)
}

fn matches(pattern: &str) -> Result<Vec<PathBuf>, Failure> {
    let options = glob::MatchOptions { require_literal_leading_dot: true, ..Default::default() };
    let found = glob::glob_with(pattern, options).map_err(|error| {
        Failure::plain(
            format!("{pattern}: no pattern: {}", error.msg),
            "* stands for any characters, ? for one, [abc] for one of several, ** for folders",
        )
    })?;
    let mut files = Vec::new();
    for path in found {
        let path = path.map_err(|error| Failure::new("look for files", &error, None))?;
        if path.is_file() {
            files.push(path);
        }
    }
    if files.is_empty() {
        return Err(Failure::plain(
            format!("no file matches {pattern}"),
            "check the folder and the ending of the pattern",
        ));
    }
    files.sort_unstable_by(|a, b| bytes(a).cmp(bytes(b)));
    Ok(files)
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_encoded_bytes()
}

/// Refuses a file that is named twice: all its rows would be duplicates.
fn check_once(files: &[PathBuf]) -> Result<(), Failure> {
    let mut seen = BTreeSet::new();
    // A file that cannot be found is told of when it is opened.
    for file in files {
        if file.canonicalize().is_ok_and(|path| !seen.insert(path)) {
            return Err(Failure::usage(
                format!("{} is named twice", file.display()),
                "name each input once: all its rows would be duplicates",
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_are_sorted_by_bytes_and_a_literal_file_wins() {
        let folder = tempfile::tempdir().unwrap();
        for name in ["b.npy", "B.npy", "a[1].npy", "a1.npy", ".hidden.npy", "c.txt"] {
            std::fs::write(folder.path().join(name), "").unwrap();
        }
        std::fs::create_dir(folder.path().join("folder.npy")).unwrap();
        let names = |arguments: &[&str]| -> Vec<String> {
            let paths: Vec<_> = arguments.iter().map(|name| folder.path().join(name)).collect();
            let files = expand(&paths).map_err(|failure| failure.message).unwrap();
            files.iter().map(|f| f.file_name().unwrap().to_str().unwrap().to_owned()).collect()
        };
        assert_eq!(names(&["*.npy"]), ["B.npy", "a1.npy", "a[1].npy", "b.npy"]);
        assert_eq!(names(&["a[1].npy"]), ["a[1].npy"]);
        assert_eq!(names(&["c.txt", "?.npy"]), ["c.txt", "B.npy", "b.npy"]);
    }
}
