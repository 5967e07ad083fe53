//! What is derived from a store is for those who may read the store.

#![cfg(unix)]

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use crate::support::TestFolder;

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

fn set_mode(path: &Path, bits: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(bits)).unwrap();
}

/// Everything that commands write beside a store.
fn derive_all(dir: &TestFolder) {
    let run = ["--plan", "plan.json", "--save-plan", "--execute", "--max-change-share", "1"];
    dir.succeed(&[&["consolidate", "brain.db"][..], &run].concat());
    dir.succeed("index build brain.db");
    for output in ["rows.arrow", "rows.parquet"] {
        dir.succeed(&["export", "brain.db", "--output", output, "--with", "text"]);
    }
}

/// The copy of a store that only its owner could read was readable by everybody, and so was an export with texts.
#[test]
fn nobody_else_reads_what_is_derived_from_a_private_store() {
    let dir = TestFolder::with_sample();
    set_mode(&dir.path("brain.db"), 0o600);
    derive_all(&dir);
    let names: Vec<String> = dir.files().keys().map(|path| path.display().to_string()).collect();
    for part in [".memfold-backup-", ".memfold-lock", ".memfold/MANIFEST", "rows.arrow"] {
        assert!(names.iter().any(|name| name.contains(part)), "no {part} in {names:?}");
    }
    for path in dir.files().into_keys() {
        assert_eq!(mode(&path) & 0o077, 0, "{}: {:o}", path.display(), mode(&path));
    }
}

/// A link at the name of the unfinished copy led the copy elsewhere.
#[test]
fn a_backup_is_not_written_through_a_link() {
    let dir = TestFolder::with_pair();
    let (partial, elsewhere) = ("brain.db.memfold-backup-partial", "elsewhere");
    symlink(dir.path(elsewhere), dir.path(partial)).unwrap();
    dir.succeed("consolidate brain.db --execute");
    assert!(!dir.path(elsewhere).exists());
    assert!(dir.path(partial).symlink_metadata().is_err());
    let is_backup = |path: &Path| path.display().to_string().contains(".memfold-backup-");
    assert_eq!(dir.files().keys().filter(|path| is_backup(path)).count(), 1);
}

/// `index build` deleted `gen-*` of the folder that a link led to.
#[test]
fn an_index_folder_that_is_a_link_is_left_alone() {
    let dir = TestFolder::with_pair();
    let theirs = dir.path("theirs/gen-000001");
    std::fs::create_dir_all(&theirs).unwrap();
    std::fs::write(theirs.join("index.mfi"), "theirs").unwrap();
    symlink(dir.path("theirs"), dir.path("brain.db.memfold")).unwrap();
    let answer = dir.run("index build brain.db");
    answer.fails_with(1, &["a link to another folder", "hint: name the folder itself"]);
    assert_eq!(std::fs::read(theirs.join("index.mfi")).unwrap(), b"theirs");
    assert_eq!(std::fs::read_dir(dir.path("theirs")).unwrap().count(), 1);
}
