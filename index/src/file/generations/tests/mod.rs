//! Tests of generations: what they promise here; crashes, races, processes and odd places in files of their own.

mod children;
mod crashes;
mod places;
mod races;

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tempfile::TempDir;

use super::disk::{Disk, Step};
use super::*;
use crate::NoProgress;
use crate::file::sections::tests::head;
use crate::file::{FileKind, SectionFileWriter, SectionId};

/// A wait that no test outlasts.
const CODES: SectionId = SectionId::new(3);
const ROWIDS: SectionId = SectionId::new(9);
const LONG: Duration = Duration::from_secs(60);

/// A folder in memory where there is such a place, so that making things durable costs nothing.
fn place() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn begin(folder: &Path) -> GenerationWriter {
    GenerationWriter::begin(folder, FileMode::PRIVATE, Duration::ZERO).unwrap()
}

fn write_sections(file: File, kind: FileKind, stamp: u64) {
    let writer = SectionFileWriter::new(file, head(kind, 3)).unwrap();
    let writer = writer.section(ROWIDS, &[stamp; 3]).unwrap();
    writer.section(CODES, &[stamp as u8; 5_000]).unwrap().finish().unwrap();
}

fn stamp_of(file: &crate::file::SectionFile) -> u64 {
    file.verify(&NoProgress).unwrap();
    let stamps = file.section_of::<u64>(ROWIDS, 3).unwrap();
    assert_eq!(stamps, [stamps[0]; 3]);
    stamps[0]
}

/// What the columns of a generation hold in these tests.
fn columns(stamp: u64) -> Vec<u8> {
    format!("columns {stamp}; ").repeat(1_000).into_bytes()
}

/// Writes both files of a generation; all they hold follows from its number.
fn fill(writer: &GenerationWriter) {
    let stamp = writer.number();
    write_sections(writer.create(INDEX_FILE).unwrap(), FileKind::Index, stamp);
    writer.create(COLUMNS_FILE).unwrap().write_all(&columns(stamp)).unwrap();
}

fn publish(folder: &Path) -> u64 {
    let writer = begin(folder);
    fill(&writer);
    writer.publish().unwrap()
}

/// Asserts that every byte of a generation belongs to it, and its fresh rows too; returns its number.
fn assert_whole(generation: &Generation) -> u64 {
    let number = generation.number();
    assert_eq!(stamp_of(&generation.index().unwrap()), number);
    assert!(**generation.file(COLUMNS_FILE).unwrap() == columns(number));
    for (position, segment) in generation.fresh().iter().enumerate() {
        assert_eq!(stamp_of(segment), number * 1_000 + position as u64 + 1);
    }
    number
}

/// Returns the number of the live generation, which must be whole; 0 where there is none.
fn live(folder: &Path) -> u64 {
    Generations::at(folder).current().unwrap().map_or(0, |generation| assert_whole(&generation))
}

fn open(folder: &Path) -> Generation {
    Generations::at(folder).current().unwrap().unwrap()
}

fn seal(generation: &mut Generation) -> u32 {
    try_seal(generation).unwrap()
}

fn try_seal(generation: &mut Generation) -> Result<u32, GenerationError> {
    let writer = FreshWriter::begin(generation, FileMode::PRIVATE, LONG)?;
    write_fresh(&writer)?;
    writer.publish()
}

/// Writes the next segment; all it holds follows from its number and the generation's.
fn write_fresh(writer: &FreshWriter<'_>) -> Result<(), GenerationError> {
    let generation = writer.generation();
    let stamp = generation.number() * 1_000 + u64::from(generation.next_fresh());
    write_sections(writer.create()?, FileKind::Fresh, stamp);
    Ok(())
}

/// Lists the names in a folder in order.
fn list(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_generation_appears_when_it_is_published() {
    let place = place();
    let folder = place.path().join("brain.db.memfold");
    assert!(Generations::at(&folder).current().unwrap().is_none());
    let writer = begin(&folder);
    assert_eq!(writer.number(), 1);
    fill(&writer);
    assert_eq!(live(&folder), 0);
    assert_eq!(writer.publish().unwrap(), 1);
    assert_eq!(live(&folder), 1);
    assert_eq!(list(&folder), ["LOCK", "MANIFEST", "gen-000001"]);
    let generation = open(&folder);
    let names: Vec<_> = generation.files().map(|(name, _)| name.to_owned()).collect();
    assert_eq!(names, [COLUMNS_FILE, INDEX_FILE]);
    assert_eq!(generation.folder(), folder.join("gen-000001"));
    assert!(generation.file("other").is_none());
}

#[test]
fn the_previous_generation_is_kept_and_no_other() {
    let place = place();
    for number in 1..=4 {
        assert_eq!(publish(place.path()), number);
    }
    assert_eq!(list(place.path()), ["LOCK", "MANIFEST", "gen-000003", "gen-000004"]);
}

#[test]
fn readers_keep_what_they_have() {
    let place = place();
    publish(place.path());
    let generations = Generations::at(place.path());
    let mut first = open(place.path());
    seal(&mut first);
    assert!(generations.is_current(&first).unwrap());
    for _ in 0..3 {
        publish(place.path());
    }
    assert!(!generations.is_current(&first).unwrap());
    assert!(!first.folder().exists());
    assert_eq!(assert_whole(&first), 1);
    assert_eq!(first.see_fresh().unwrap(), 0);
    assert_eq!(first.fresh().len(), 1);
}

#[test]
fn an_abandoned_generation_leaves_nothing() {
    let place = place();
    publish(place.path());
    let writer = begin(place.path());
    fill(&writer);
    drop(writer);
    assert_eq!(list(place.path()), ["LOCK", "MANIFEST", "gen-000001"]);
    assert_eq!(live(place.path()), 1);
    begin(place.path());
}

#[test]
fn one_process_writes_at_a_time() {
    let place = place();
    let writer = begin(place.path());
    for wait in [Duration::ZERO, Duration::from_millis(25)] {
        let error = GenerationWriter::begin(place.path(), FileMode::PRIVATE, wait).unwrap_err();
        assert!(matches!(error, GenerationError::Locked { .. }), "{error}");
        assert!(error.to_string().ends_with("LOCK: held by another writer"), "{error}");
        assert!(error.hint().is_some());
    }
    assert!(writer.path().exists(), "a refused writer removes nothing");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| {
            let writer = GenerationWriter::begin(place.path(), FileMode::PRIVATE, LONG).unwrap();
            fill(&writer);
            writer.publish().unwrap()
        });
        fill(&writer);
        assert_eq!(writer.publish().unwrap(), 1);
        assert_eq!(waiting.join().unwrap(), 2);
    });
}

#[test]
fn fresh_rows_are_seen_at_once_by_all() {
    let place = place();
    publish(place.path());
    let (mut ours, mut theirs) = (open(place.path()), open(place.path()));
    assert_eq!(seal(&mut ours), 1);
    assert_eq!(ours.fresh().len(), 1, "the writer's own view has it");
    assert_eq!(theirs.see_fresh().unwrap(), 1);
    assert_eq!(seal(&mut theirs), 2);
    assert_eq!(seal(&mut ours), 3, "numbers go on after what others sealed");
    assert_eq!(theirs.see_fresh().unwrap(), 1);
    assert_eq!(theirs.see_fresh().unwrap(), 0);
    assert_eq!(open(place.path()).fresh().len(), 3);
    assert_whole(&theirs);
    let names = ["LOCK", "columns.arrow", "fresh-0001.mfi", "fresh-0002.mfi", "fresh-0003.mfi"];
    assert_eq!(list(ours.folder())[..5], names);
    publish(place.path());
    assert!(open(place.path()).fresh().is_empty(), "a new generation begins without any");
}

#[test]
fn rows_are_sealed_while_a_generation_is_built() {
    let place = place();
    publish(place.path());
    let builder = begin(place.path());
    let mut generation = open(place.path());
    seal(&mut generation);
    let held = FreshWriter::begin(&mut generation, FileMode::PRIVATE, LONG).unwrap();
    let mut other = open(place.path());
    let error = FreshWriter::begin(&mut other, FileMode::PRIVATE, Duration::ZERO).unwrap_err();
    assert!(matches!(error, GenerationError::Locked { .. }), "{error}");
    drop(held);
    drop(builder);
    assert_eq!(live(place.path()), 1);
}

#[test]
fn an_abandoned_segment_is_not_seen() {
    let place = place();
    publish(place.path());
    let mut generation = open(place.path());
    let writer = FreshWriter::begin(&mut generation, FileMode::PRIVATE, LONG).unwrap();
    write_fresh(&writer).unwrap();
    drop(writer);
    assert_eq!(list(generation.folder()), ["LOCK", "columns.arrow", "index.mfi"]);
    assert_eq!(seal(&mut generation), 1);
}

#[test]
fn only_what_is_whole_is_published() {
    let place = place();
    publish(place.path());
    let refused = |spoil: &dyn Fn(&GenerationWriter)| {
        let writer = begin(place.path());
        fill(&writer);
        spoil(&writer);
        let error = writer.publish().unwrap_err();
        assert_eq!(live(place.path()), 1);
        assert_eq!(list(place.path()), ["LOCK", "MANIFEST", "gen-000001"]);
        error.to_string()
    };
    let create = |writer: &GenerationWriter, name: &str| {
        File::create_new(writer.path().join(name)).unwrap();
    };
    let unfinished = refused(&|writer| {
        let file = writer.create("other.mfi").unwrap();
        drop(SectionFileWriter::new(file, head(FileKind::Index, 3)).unwrap());
    });
    assert!(unfinished.contains("begins with zeros, as one does that was never finished"));
    let fresh = refused(&|writer| {
        write_sections(writer.create("x.mfi").unwrap(), FileKind::Fresh, 1);
    });
    assert!(fresh.ends_with("holds fresh rows, expected index"), "{fresh}");
    let hidden = refused(&|writer| create(writer, ".memfold-1234.tmp"));
    assert!(hidden.ends_with(".memfold-1234.tmp: not a name for a file of a generation"));
    let folder = refused(&|writer| std::fs::create_dir(writer.path().join("sub")).unwrap());
    assert!(folder.ends_with("sub: not a regular file"), "{folder}");
    let nothing = refused(&|writer| {
        list(writer.path())
            .iter()
            .for_each(|n| std::fs::remove_file(writer.path().join(n)).unwrap());
    });
    assert!(nothing.ends_with("nothing to publish"), "{nothing}");
    let many = refused(&|writer| (2..101).for_each(|n| create(writer, &format!("{n}"))));
    assert!(many.ends_with("101 files, at most 100"), "{many}");

    let writer = begin(place.path());
    (0..100).for_each(|n| create(&writer, &format!("{n:0>64}")));
    writer.publish().unwrap();
    assert!(Generations::at(place.path()).current().unwrap().is_some(), "the longest manifest");

    let writer = begin(place.path());
    let error = writer.create("fresh-0001.mfi").unwrap_err();
    assert!(matches!(error, GenerationError::FileName { .. }), "{error}");
    writer.create("a").unwrap();
    assert!(matches!(writer.create("a"), Err(GenerationError::Io { action: "create", .. })));
}

#[test]
fn segments_are_published_only_if_they_are_segments() {
    let place = place();
    publish(place.path());
    let mut generation = open(place.path());
    for kind in [None, Some(FileKind::Index)] {
        let writer = FreshWriter::begin(&mut generation, FileMode::PRIVATE, LONG).unwrap();
        let file = writer.create().unwrap();
        if let Some(kind) = kind {
            write_sections(file, kind, 1);
        }
        let error = writer.publish().unwrap_err();
        assert!(matches!(error, GenerationError::Sections(_)), "{error}");
        assert_eq!(list(generation.folder()), ["LOCK", "columns.arrow", "index.mfi"]);
    }
}

#[test]
fn names_of_others_are_left_alone() {
    let place = place();
    for name in ["notes.txt", "gen-42", "gen-000007.bak"] {
        std::fs::write(place.path().join(name), "mine").unwrap();
    }
    for _ in 0..3 {
        publish(place.path());
    }
    Generations::at(place.path()).remove(Duration::ZERO).unwrap();
    assert_eq!(list(place.path()), ["gen-000007.bak", "gen-42", "notes.txt"]);
}

#[test]
fn removing_leaves_no_trace_and_readers_their_files() {
    let place = place();
    let folder = place.path().join("index");
    let generations = Generations::at(&folder);
    generations.remove(Duration::ZERO).unwrap();
    publish(&folder);
    let mut old = open(&folder);
    let writer = begin(&folder);
    let error = generations.remove(Duration::ZERO).unwrap_err();
    assert!(matches!(error, GenerationError::Locked { .. }), "{error}");
    drop(writer);
    generations.remove(Duration::ZERO).unwrap();
    assert!(!folder.exists());
    assert_eq!(assert_whole(&old), 1);
    assert!(!generations.is_current(&old).unwrap());

    // Numbers begin anew, but the old generation is not taken for the new one of its name.
    assert_eq!(publish(&folder), 1);
    seal(&mut open(&folder));
    assert!(!generations.is_current(&old).unwrap());
    assert_eq!(old.see_fresh().unwrap(), 0);
    let error = FreshWriter::begin(&mut old, FileMode::PRIVATE, LONG).unwrap_err();
    assert!(matches!(error, GenerationError::Gone { .. }), "{error}");
}

#[cfg(unix)]
#[test]
fn files_have_the_permissions_of_the_store() {
    use std::os::unix::fs::PermissionsExt;
    let place = place();
    let folder = place.path().join("index");
    let mode = FileMode::from_bits(0o664);
    for _ in 0..2 {
        let writer = GenerationWriter::begin(&folder, mode, LONG).unwrap();
        fill(&writer);
        // As another crate would write it.
        std::fs::write(writer.path().join("other"), "x").unwrap();
        writer.publish().unwrap();
    }
    let mut generation = open(&folder);
    let writer = FreshWriter::begin(&mut generation, mode, LONG).unwrap();
    write_fresh(&writer).unwrap();
    writer.publish().unwrap();
    let bits = |path: PathBuf| path.metadata().unwrap().permissions().mode() & 0o7777;
    for name in ["", "gen-000001", "gen-000002"] {
        assert_eq!(bits(folder.join(name)), 0o775, "{name}");
    }
    assert_eq!(bits(folder.join("MANIFEST")), 0o664);
    assert_eq!(bits(folder.join("LOCK")), 0o664);
    for name in list(generation.folder()) {
        assert_eq!(bits(generation.folder().join(&name)), 0o664, "{name}");
    }
    assert_eq!(list(generation.folder()).len(), 5);
}
