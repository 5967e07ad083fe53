//! What is derived from a store is for those who may read the store.

#![cfg(unix)]

use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::Path;

use crate::support::Place;

fn mode(path: &Path) -> u32 {
    path.metadata().unwrap().permissions().mode() & 0o777
}

fn set_mode(path: &Path, bits: u32) {
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(bits)).unwrap();
}

/// Everything that commands write beside a store.
fn derive_all(place: &Place) {
    let run = ["--plan", "plan.json", "--save-plan", "--execute", "--max-change-share", "1"];
    place.succeed(&[&["consolidate", "brain.db"][..], &run].concat());
    place.succeed(&["index", "build", "brain.db"]);
    for output in ["rows.arrow", "rows.parquet"] {
        place.succeed(&["export", "brain.db", "--output", output, "--with", "text"]);
    }
}

/// The copy of a store that only its owner could read was readable by everybody, and so was an export with texts.
#[test]
fn nobody_else_reads_what_is_derived_from_a_private_store() {
    let place = Place::with_sample();
    set_mode(&place.path("brain.db"), 0o600);
    derive_all(&place);
    let names: Vec<String> = place.files().keys().map(|path| path.display().to_string()).collect();
    for part in [".memfold-backup-", ".memfold-lock", ".memfold/MANIFEST", "rows.arrow"] {
        assert!(names.iter().any(|name| name.contains(part)), "no {part} in {names:?}");
    }
    for path in place.files().into_keys() {
        assert_eq!(mode(&path) & 0o077, 0, "{}: {:o}", path.display(), mode(&path));
    }
}

#[test]
fn a_store_for_all_has_derived_files_for_all() {
    let place = Place::with_sample();
    set_mode(&place.path("brain.db"), 0o644);
    derive_all(&place);
    assert_eq!(mode(&place.path("rows.arrow")), 0o644 & !umask(&place));
    assert_eq!(mode(&place.path("brain.db.memfold/MANIFEST")), 0o644);
}

/// The mask of this process, seen by a file that it makes.
fn umask(place: &Place) -> u32 {
    let path = place.write("made", "");
    0o666 & !mode(&path)
}

#[test]
fn a_store_that_is_imported_is_as_private_as_its_file() {
    let place = Place::new();
    place.write("memories.jsonl", "{\"text\":\"The kiln is fired on Mondays.\"}\n");
    set_mode(&place.path("memories.jsonl"), 0o600);
    place.succeed(&["import", "memories.jsonl", "--into", "brain.db"]);
    assert_eq!(mode(&place.path("brain.db")), 0o600);
}

/// A link at the name of the unfinished copy led the copy elsewhere.
#[test]
fn a_backup_is_not_written_through_a_link() {
    let place = Place::with_pair();
    let (partial, elsewhere) = ("brain.db.memfold-backup-partial", "elsewhere");
    symlink(place.path(elsewhere), place.path(partial)).unwrap();
    place.succeed(&["consolidate", "brain.db", "--execute"]);
    assert!(!place.path(elsewhere).exists());
    assert!(place.path(partial).symlink_metadata().is_err());
    let is_backup = |path: &Path| path.display().to_string().contains(".memfold-backup-");
    assert_eq!(place.files().keys().filter(|path| is_backup(path)).count(), 1);
}

/// `index build` deleted `gen-*` of the folder that a link led to.
#[test]
fn an_index_folder_that_is_a_link_is_left_alone() {
    let place = Place::with_pair();
    let theirs = place.path("theirs/gen-000001");
    std::fs::create_dir_all(&theirs).unwrap();
    std::fs::write(theirs.join("index.mfi"), "theirs").unwrap();
    symlink(place.path("theirs"), place.path("brain.db.memfold")).unwrap();
    let answer = place.run(&["index", "build", "brain.db"]);
    answer.fails_with(1, &["a link to another folder", "hint: name the folder itself"]);
    assert_eq!(std::fs::read(theirs.join("index.mfi")).unwrap(), b"theirs");
    assert_eq!(std::fs::read_dir(place.path("theirs")).unwrap().count(), 1);
}
