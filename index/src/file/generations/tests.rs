//! Tests of generations: each promise of the protocol, with faults at every step, other threads and other processes.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use tempfile::TempDir;

use super::disk::generation_name;
use super::*;
use crate::NoProgress;
use crate::file::sections::tests::head;
use crate::file::{FileKind, SectionFileWriter, SectionId};

const CODES: SectionId = SectionId::new(3);
const ROWIDS: SectionId = SectionId::new(9);
/// A wait that no test outlasts.
const LONG: Duration = Duration::from_secs(60);

/// A folder in memory where the system has one, so that making things durable costs nothing.
fn place() -> TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

fn begin(folder: &Path) -> GenerationWriter {
    GenerationWriter::begin(folder, FileMode::PRIVATE, Duration::ZERO).unwrap()
}

fn begin_error(folder: &Path) -> GenerationError {
    GenerationWriter::begin(folder, FileMode::PRIVATE, Duration::ZERO).unwrap_err()
}

fn write_sections(file: File, kind: FileKind, version: u64) {
    let writer = SectionFileWriter::new(file, head(kind, 3)).unwrap();
    let writer = writer.section(ROWIDS, &[version; 3]).unwrap();
    writer.section(CODES, &[version as u8; 5_000]).unwrap().finish().unwrap();
}

/// The columns of a generation in these tests.
fn columns(version: u64) -> Vec<u8> {
    format!("columns {version}; ").repeat(1_000).into_bytes()
}

/// Writes both files of a generation; all they hold follows from its number.
fn fill(writer: &GenerationWriter) -> Result<(), GenerationError> {
    let version = writer.number();
    write_sections(writer.create(INDEX_FILE)?, FileKind::Index, version);
    writer.create(COLUMNS_FILE)?.write_all(&columns(version)).unwrap();
    Ok(())
}

fn try_publish(folder: &Path) -> Result<u64, GenerationError> {
    let writer = GenerationWriter::begin(folder, FileMode::PRIVATE, LONG)?;
    fill(&writer)?;
    writer.publish()
}

fn publish(folder: &Path) -> u64 {
    try_publish(folder).unwrap()
}

/// Writes the next segment; all it holds follows from its number and the generation's.
fn fill_fresh(writer: &FreshWriter<'_>) -> Result<(), GenerationError> {
    let generation = writer.generation();
    let version = generation.number() * 1_000 + u64::from(generation.next_fresh());
    write_sections(writer.create()?, FileKind::Fresh, version);
    Ok(())
}

fn try_seal(generation: &mut Generation) -> Result<u32, GenerationError> {
    let writer = FreshWriter::begin(generation, FileMode::PRIVATE, LONG)?;
    fill_fresh(&writer)?;
    writer.publish()
}

fn seal(generation: &mut Generation) -> u32 {
    try_seal(generation).unwrap()
}

fn open(folder: &Path) -> Generation {
    Generations::at(folder).current().unwrap().unwrap()
}

/// Asserts that every byte of a generation belongs to it, and its fresh rows too; returns its number.
fn assert_whole(generation: &Generation) -> u64 {
    let number = generation.number();
    let fresh = (1..).zip(generation.fresh()).map(|(n, file)| (number * 1_000 + n, file.clone()));
    for (version, file) in fresh.chain([(number, generation.index().unwrap())]) {
        file.verify(&NoProgress).unwrap();
        assert_eq!(file.section_of::<u64>(ROWIDS, 3).unwrap(), [version; 3]);
    }
    assert!(**generation.file(COLUMNS_FILE).unwrap() == columns(number));
    number
}

/// Returns the number of the live generation, which must be whole; 0 where there is none.
fn live(folder: &Path) -> u64 {
    Generations::at(folder).current().unwrap().map_or(0, |generation| assert_whole(&generation))
}

/// Lists the names in a folder in order.
fn list(folder: &Path) -> Vec<String> {
    let mut names = disk::names_in(folder).unwrap();
    names.sort();
    names
}

/// Asserts which generations there are, and nothing else.
fn assert_generations(folder: &Path, numbers: &[u64], context: &str) {
    let names = numbers.iter().map(|&number| generation_name(number));
    let expected: Vec<_> = ["LOCK".into(), "MANIFEST".into()].into_iter().chain(names).collect();
    assert_eq!(list(folder), expected, "{context}");
}

#[test]
fn a_generation_appears_when_it_is_published_and_readers_keep_what_they_have() {
    let place = place();
    let folder = &*place.path().join("brain.db.memfold");
    let generations = Generations::at(folder);
    let writer = begin(folder);
    fill(&writer).unwrap();
    assert_eq!((writer.number(), live(folder)), (1, 0));
    assert_eq!(writer.publish().unwrap(), 1);
    assert_generations(folder, &[1], "");
    let mut first = open(folder);
    assert_eq!(first.folder(), folder.join("gen-000001"));
    assert!(first.file("other").is_none());
    seal(&mut first);
    let names: Vec<_> = first.file_lengths().map(|(name, _)| name).collect();
    assert_eq!(names, [COLUMNS_FILE, INDEX_FILE, "fresh-0001.mfi"]);
    assert!(generations.is_current(&first).unwrap());

    let abandoned = begin(folder);
    fill(&abandoned).unwrap();
    drop(abandoned);
    assert_generations(folder, &[1], "an abandoned one leaves nothing");
    for number in 2..=4 {
        assert_eq!(publish(folder), number);
    }
    assert_generations(folder, &[3, 4], "the previous one is kept and no other");
    assert!(open(folder).fresh().is_empty(), "a new one begins without fresh rows");
    assert!(!generations.is_current(&first).unwrap());
    assert_eq!((assert_whole(&first), first.see_fresh().unwrap(), first.fresh().len()), (1, 0, 1));
}

#[test]
fn one_process_writes_at_a_time() {
    let place = place();
    let writer = begin(place.path());
    for wait in [Duration::ZERO, Duration::from_millis(25)] {
        let error = GenerationWriter::begin(place.path(), FileMode::PRIVATE, wait).unwrap_err();
        assert!(error.to_string().ends_with("LOCK: held by another writer"), "{error}");
        assert!(error.hint().is_some());
    }
    assert!(writer.path().exists(), "a refused writer removes nothing");
    std::thread::scope(|scope| {
        let waiting = scope.spawn(|| publish(place.path()));
        fill(&writer).unwrap();
        assert_eq!(writer.publish().unwrap(), 1);
        assert_eq!(waiting.join().unwrap(), 2);
    });
}

#[test]
fn fresh_rows_are_seen_at_once_by_all() {
    let place = place();
    publish(place.path());
    let builder = begin(place.path());
    let (mut ours, mut theirs) = (open(place.path()), open(place.path()));
    assert_eq!((seal(&mut ours), ours.fresh().len()), (1, 1), "while a generation is built");
    assert!(theirs.has_more_fresh());
    assert_eq!(theirs.see_fresh().unwrap(), 1);
    let abandoned = FreshWriter::begin(&mut theirs, FileMode::PRIVATE, LONG).unwrap();
    fill_fresh(&abandoned).unwrap();
    let error = FreshWriter::begin(&mut ours, FileMode::PRIVATE, Duration::ZERO).unwrap_err();
    assert!(matches!(error, GenerationError::Locked(_)), "{error}");
    drop(abandoned);
    assert_eq!(seal(&mut theirs), 2);
    assert_eq!(seal(&mut ours), 3, "numbers go on after what others sealed");
    assert_eq!((theirs.see_fresh().unwrap(), theirs.see_fresh().unwrap()), (1, 0));
    assert!(!theirs.has_more_fresh());
    assert_eq!(open(place.path()).fresh().len(), 3);
    assert_whole(&theirs);
    for kind in [None, Some(FileKind::Index)] {
        let writer = FreshWriter::begin(&mut ours, FileMode::PRIVATE, LONG).unwrap();
        let file = writer.create().unwrap();
        if let Some(kind) = kind {
            write_sections(file, kind, 1);
        }
        let error = writer.publish().unwrap_err();
        assert!(matches!(error, GenerationError::Sections(_)), "only segments: {error}");
    }
    drop(builder);
    let fresh = ["fresh-0001.mfi", "fresh-0002.mfi", "fresh-0003.mfi"];
    assert_eq!(list(ours.folder()), [&["LOCK", COLUMNS_FILE], &fresh[..], &[INDEX_FILE]].concat());
}

#[test]
fn only_what_is_whole_is_published() {
    let place = place();
    publish(place.path());
    let new = |writer: &GenerationWriter, name: &str| {
        File::create_new(writer.path().join(name)).unwrap();
    };
    let refuse = |reason: &str, spoil: &dyn Fn(&GenerationWriter)| {
        let writer = begin(place.path());
        fill(&writer).unwrap();
        spoil(&writer);
        let error = writer.publish().unwrap_err().to_string();
        assert!(error.ends_with(reason), "{error}");
        assert_eq!(live(place.path()), 1);
    };
    refuse("zeros, as one does that was never finished)", &|writer| {
        let file = writer.create("other.mfi").unwrap();
        drop(SectionFileWriter::new(file, head(FileKind::Index, 3)).unwrap());
    });
    refuse("x.mfi: holds fresh rows, expected index", &|writer| {
        write_sections(writer.create("x.mfi").unwrap(), FileKind::Fresh, 1);
    });
    refuse(".tmp: not a name for a file of a generation", &|writer| new(writer, ".x.tmp"));
    refuse("sub: not a regular file", &|w| fs::create_dir(w.path().join("sub")).unwrap());
    #[cfg(unix)]
    refuse("link: not a regular file", &|writer| {
        std::os::unix::fs::symlink("/etc/hostname", writer.path().join("link")).unwrap();
    });
    refuse("nothing to publish", &|writer| {
        list(writer.path()).iter().for_each(|n| fs::remove_file(writer.path().join(n)).unwrap());
    });
    refuse("MANIFEST: damaged: it is longer than 16384 bytes", &|writer| {
        (0..200).for_each(|n| new(writer, &format!("{n:0>64}")));
    });
    assert_generations(place.path(), &[1], "");
    let writer = begin(place.path());
    (0..100).for_each(|n| new(&writer, &format!("{n:0>64}")));
    assert!(matches!(writer.create("fresh-0001.mfi"), Err(GenerationError::Unfit { .. })));
    writer.create("a").unwrap();
    assert!(matches!(writer.create("a"), Err(GenerationError::Io { action: "create", .. })));
    writer.publish().unwrap();
    assert_eq!(Generations::at(place.path()).current().unwrap().unwrap().files().count(), 101);
}

type Steps = Vec<(&'static str, PathBuf)>;

/// A disk that refuses one step, or all from that step on, as if the writer had died before it.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    At(usize),
    From(usize),
}

thread_local! {
    /// The fault of this thread's disk and the steps so far, while a test looks.
    static DISK: RefCell<Option<(Fault, Steps)>> = const { RefCell::new(None) };
}

/// Stands before every act on the disk.
pub(super) fn hook(action: &'static str, path: &Path) -> io::Result<()> {
    DISK.with_borrow_mut(|disk| {
        let Some((fault, steps)) = disk else { return Ok(()) };
        match *fault {
            Fault::From(step) if steps.len() >= step => return Err(io::ErrorKind::Other.into()),
            _ => steps.push((action, path.to_owned())),
        }
        match *fault {
            Fault::At(step) if steps.len() == step + 1 => Err(io::ErrorKind::StorageFull.into()),
            _ => Ok(()),
        }
    })
}

fn with_fault<T>(fault: Fault, run: impl FnOnce() -> T) -> (T, Steps) {
    DISK.set(Some((fault, Steps::new())));
    let result = run();
    (result, DISK.take().unwrap().1)
}

/// Asserts that a loss of power before any step, which takes contents and names that were not made durable in any
/// choice and order, leaves the old state or the new one: a file is durable before its name appears,
/// everything is before MANIFEST appears, and its name is at the end.
fn assert_durable(steps: &Steps, is_over: bool) {
    let (mut contents, mut names) = (BTreeSet::<&Path>::new(), BTreeSet::<PathBuf>::new());
    for (action, path) in steps {
        match *action {
            "create" | "create folder" => {
                names.insert(path.clone());
                if *action == "create" && !path.ends_with("LOCK") {
                    contents.insert(path);
                }
            }
            "make durable" => {
                contents.remove(&**path);
                names.retain(|name| name.parent() != Some(path));
            }
            "rename" if path.extension().is_some_and(|end| end == "pending") => {
                let place = path.with_extension("");
                names.remove(path);
                let everything = place.ends_with("MANIFEST");
                let is_at_risk = |lost: &Path| everything || lost.starts_with(path);
                assert!(!contents.iter().any(|file| is_at_risk(file)), "{contents:?}: {steps:?}");
                assert!(!names.iter().any(|name| is_at_risk(name)), "{names:?}: {steps:?}");
                names.insert(place);
            }
            _ => {}
        }
    }
    assert!(!is_over || contents.is_empty() && names.is_empty(), "{contents:?}, {names:?}");
}

#[test]
fn a_fault_at_any_step_leaves_the_old_or_the_new_state() {
    fn seal_live(folder: &Path) -> Result<u64, GenerationError> {
        try_seal(&mut open(folder)).map(u64::from)
    }
    let state = |folder: &Path| match live(folder) {
        0 => (0, 0),
        number => (number, open(folder).fresh().len()),
    };
    type Act = fn(&Path) -> Result<u64, GenerationError>;
    let acts: [(u64, Act, (u64, usize)); 4] = [
        (0, try_publish, (1, 0)),
        (1, try_publish, (2, 0)),
        (2, try_publish, (3, 0)),
        (1, seal_live, (1, 1)),
    ];
    for (before, act, goal) in acts {
        for number in 0.. {
            let (step, fault) = match number % 2 {
                0 => (number / 2, Fault::At(number / 2)),
                _ => (number / 2, Fault::From(number / 2)),
            };
            let place = place();
            let folder = &*place.path().join("index");
            (0..before).for_each(|_| assert!(publish(folder) > 0));
            let (result, mut steps) = with_fault(fault, || act(folder));
            let is_over = steps.len() <= step && result.is_ok();
            if fault == Fault::At(step) && !is_over {
                steps.remove(step);
                let advice = result.as_ref().err().map(|error| error.hint().unwrap());
                assert!(advice.is_none_or(|advice| advice.contains("free some space")));
            }
            let context = format!("{fault:?} from {before} to {goal:?}: {result:?}");
            let appears =
                |path: &str| path.ends_with("MANIFEST.pending") || path.ends_with(".mfi.pending");
            let is_done =
                steps.iter().any(|(act, path)| *act == "rename" && appears(path.to_str().unwrap()));
            assert!(is_done || result.is_err(), "{context}");
            let found = state(folder);
            assert_eq!(found, if is_done { goal } else { (before, 0) }, "{context}");
            assert_durable(&steps, result.is_ok());
            // Another writer goes on and cleans up.
            let next = publish(folder);
            let kept = [found.0, next];
            assert_generations(folder, &kept[usize::from(found.0 == 0)..], &context);
            assert_eq!(list(open(folder).folder()), [COLUMNS_FILE, INDEX_FILE], "{context}");
            seal(&mut open(folder));
            assert_eq!(state(folder), (next, 1), "{context}");
            if is_over {
                assert!(step >= 8, "{step}");
                break;
            }
        }
    }
}

/// Where a child writes.
const CHILD_FOLDER: &str = "MEMFOLD_TEST_CHILD_FOLDER";

/// Publishes and seals until it is killed or the folder `stop` appears.
#[test]
#[ignore = "started by the test below, as another process"]
fn child_that_publishes() {
    let Some(folder) = std::env::var_os(CHILD_FOLDER).map(PathBuf::from) else { return };
    while !folder.join("stop").exists() {
        publish(&folder);
        seal_live(&folder);
    }
}

/// Seals a segment, unless two generations of others come in between; tells whether it did.
fn seal_live(folder: &Path) -> bool {
    let mut generation = open(folder);
    let sealed = try_seal(&mut generation);
    assert!(matches!(sealed, Ok(_) | Err(GenerationError::Gone(_))), "{sealed:?}");
    assert_whole(&generation);
    sealed.is_ok()
}

fn start_child(folder: &Path) -> Child {
    let name = concat!(module_path!(), "::child_that_publishes");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", name.split_once("::").unwrap().1, "--ignored", "--test-threads=1"]);
    // A failure is seen by the status.
    command.env(CHILD_FOLDER, folder).stdout(Stdio::null()).spawn().unwrap()
}

#[test]
fn processes_take_turns_and_a_killed_writer_harms_nobody() {
    let place = place();
    let mut last = publish(place.path());
    let mut children = [(); 3].map(|()| start_child(place.path()));
    while last < 150 {
        let number = live(place.path());
        assert!(number >= last, "{number} after {last}");
        last = number;
    }
    fs::create_dir(place.path().join("stop")).unwrap();
    for child in &mut children {
        assert!(child.wait().unwrap().success());
    }
    fs::remove_dir(place.path().join("stop")).unwrap();
    last = live(place.path());
    let mut left_behind = 0;
    for kill in 0..40_u64 {
        let mut child = start_child(place.path());
        while live(place.path()) <= last {
            assert!(child.try_wait().unwrap().is_none(), "the child ended by itself");
        }
        // Publishing takes about a millisecond: kills fall on all of it.
        std::thread::sleep(Duration::from_micros(kill * 2_654_435_761 % 2_000));
        child.kill().unwrap();
        child.wait().unwrap();
        left_behind += u32::from(list(place.path()).len() != 4);
        let found = live(place.path());
        last = publish(place.path());
        assert_generations(place.path(), &[found, last], "nothing waits for the dead");
    }
    assert!(left_behind > 0, "no kill fell into publishing");
}

/// Runs `main` while `others` run again and again, each in a thread of its own; locks belong to open files, so threads
/// compete for them as processes do.
fn meanwhile(others: &[&(dyn Fn() + Sync)], main: impl FnOnce()) {
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for other in others {
            scope.spawn(|| {
                while !done.load(Ordering::Relaxed) {
                    other()
                }
            });
        }
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(main));
        done.store(true, Ordering::Relaxed);
        outcome.unwrap();
    });
}

#[test]
fn readers_and_writers_at_once() {
    const SWAPS: u64 = 700;
    let place = place();
    let folder = place.path();
    publish(folder);
    let (opened, sealed, newest) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(1));
    let read = || {
        let before = newest.load(Ordering::SeqCst);
        let number = live(folder);
        assert!(number >= before, "{number} after {before}");
        newest.fetch_max(number, Ordering::SeqCst);
        opened.fetch_add(1, Ordering::Relaxed);
    };
    // Holds a generation until there is another, and looks for fresh rows in it.
    let hold = || {
        let mut generation = open(folder);
        for _ in 0..50 {
            generation.see_fresh().unwrap();
        }
        assert_whole(&generation);
    };
    let seal = || _ = sealed.fetch_add(u64::from(seal_live(folder)), Ordering::Relaxed);
    let write = || _ = publish(folder);
    meanwhile(&[&read, &read, &hold, &seal, &seal, &write], || {
        (0..SWAPS).for_each(|_| assert!(publish(folder) > 1));
    });
    let last = live(folder);
    assert!(last > SWAPS);
    assert_generations(folder, &[last - 1, last], "");
    let (opened, sealed) = (opened.into_inner(), sealed.into_inner());
    assert!(opened > SWAPS / 4 && sealed > SWAPS / 20, "{opened} opened, {sealed} sealed");
}

/// A reader that is interrupted between mapping files and looking for fresh rows must not do without the rows.
#[test]
fn a_generation_that_vanishes_while_it_is_opened_is_opened_again() {
    let place = place();
    publish(place.path());
    seal(&mut open(place.path()));
    let manifest = manifest::Manifest::read(place.path()).unwrap().unwrap();
    let [early, late] = [(); 2].map(|()| Generation::map(place.path(), &manifest).unwrap());
    assert_eq!(early.with_fresh().unwrap().fresh().len(), 1);
    publish(place.path());
    publish(place.path());
    assert!(matches!(late.with_fresh(), Err(GenerationError::Missing(_))));
}

#[test]
fn removing_and_publishing_take_turns() {
    let place = place();
    let folder = &*place.path().join("index");
    let inside = AtomicBool::new(false);
    let write = || match GenerationWriter::begin(folder, FileMode::PRIVATE, LONG) {
        // The folder may go between finding it and locking it.
        Err(error) if error.is(io::ErrorKind::NotFound) => {}
        writer => {
            let writer = writer.unwrap();
            assert!(!inside.swap(true, Ordering::SeqCst), "two writers at once");
            fill(&writer).unwrap();
            // Others come to wait at a lock that is about to be removed.
            std::thread::sleep(Duration::from_millis(1));
            inside.store(false, Ordering::SeqCst);
            writer.publish().unwrap();
        }
    };
    meanwhile(&[&write, &write, &write], || {
        (0..100).for_each(|_| assert!(Generations::at(folder).remove(LONG).is_ok()));
    });
}

#[test]
fn removing_leaves_no_trace_and_readers_their_files() {
    let place = place();
    let folder = &*place.path().join("index");
    let generations = Generations::at(folder);
    assert!(!generations.remove(Duration::ZERO).unwrap());
    publish(folder);
    let mut old = open(folder);
    let writer = begin(folder);
    let error = generations.remove(Duration::ZERO).unwrap_err();
    assert!(matches!(error, GenerationError::Locked(_)), "{error}");
    drop(writer);
    assert!(generations.remove(Duration::ZERO).unwrap());
    assert!(!folder.exists());
    assert_eq!(assert_whole(&old), 1);
    assert!(!generations.is_current(&old).unwrap());

    // Numbers begin anew, but the old generation is not taken for the new one of its name.
    assert_eq!(publish(folder), 1);
    seal(&mut open(folder));
    assert!(!generations.is_current(&old).unwrap());
    assert_eq!(old.see_fresh().unwrap(), 0);
    assert!(matches!(try_seal(&mut old), Err(GenerationError::Gone(_))));

    // By hand, while others write.
    let mut generation = open(folder);
    let sealing = FreshWriter::begin(&mut generation, FileMode::PRIVATE, LONG).unwrap();
    fill_fresh(&sealing).unwrap();
    let writer = begin(folder);
    fs::remove_dir_all(folder).unwrap();
    let error = writer.publish().unwrap_err();
    assert!(error.hint().unwrap().contains("removed meanwhile"), "{error}");
    assert!(matches!(sealing.publish(), Err(GenerationError::Gone(_))));
    assert_eq!((live(folder), assert_whole(&generation), publish(folder)), (0, 1, 1));
}

#[cfg(unix)]
#[test]
fn files_have_the_permissions_of_the_store() {
    use std::os::unix::fs::PermissionsExt;
    let place = place();
    let folder = &*place.path().join("index");
    let mode = FileMode::from_bits(0o664);
    for _ in 0..2 {
        let writer = GenerationWriter::begin(folder, mode, LONG).unwrap();
        fill(&writer).unwrap();
        // As another crate would write it.
        fs::write(writer.path().join("other"), "x").unwrap();
        writer.publish().unwrap();
    }
    let mut generation = open(folder);
    let writer = FreshWriter::begin(&mut generation, mode, LONG).unwrap();
    fill_fresh(&writer).unwrap();
    writer.publish().unwrap();
    let bits = |path: &Path| path.metadata().unwrap().permissions().mode() & 0o7777;
    assert_eq!(bits(folder), 0o775);
    let names = [&list(generation.folder())[..], &list(folder)].concat();
    assert_eq!(names.len(), 5 + 4);
    for name in names {
        let path = [generation.folder(), folder].map(|place| place.join(&name));
        let path = path.iter().find(|path| path.exists()).unwrap();
        assert_eq!(bits(path), if path.is_dir() { 0o775 } else { 0o664 }, "{name}");
    }

    // Reading needs no right to write. The superuser may write everywhere.
    let lock = |bits| fs::set_permissions(folder, fs::Permissions::from_mode(bits)).unwrap();
    lock(0o500);
    assert_eq!(live(folder), 2);
    if fs::write(folder.join("probe"), "").is_err() {
        let error = begin_error(folder);
        assert!(error.hint().unwrap().contains("--index-dir"), "{error}");
    }
    lock(0o700);
}

#[test]
fn refusals_are_named_with_advice() {
    for (kind, advice) in [
        (io::ErrorKind::PermissionDenied, "--index-dir"),
        (io::ErrorKind::ReadOnlyFilesystem, "--index-dir"),
        (io::ErrorKind::StorageFull, "free some space"),
        (io::ErrorKind::Unsupported, "local disk"),
        (io::ErrorKind::Other, ""),
    ] {
        let error = GenerationError::io("lock", "index/LOCK".as_ref())(kind.into());
        assert_eq!(error.to_string(), "lock index/LOCK");
        assert!(error.hint().unwrap_or_default().contains(advice), "{kind}");
    }
    let place = place();
    let missing = begin_error(&place.path().join("missing/index"));
    assert!(matches!(missing, GenerationError::Io { action: "create folder", .. }), "{missing}");
    let last = place.path().join(generation_name(u64::MAX));
    fs::create_dir(&last).unwrap();
    fs::write(last.join("theirs"), "").unwrap();
    let error = begin_error(place.path());
    assert!(error.to_string().ends_with("no number is left after 18446744073709551615"), "{error}");

    let file = place.path().join("file");
    fs::write(&file, "mine").unwrap();
    for folder in [&file, &file.join("below")] {
        let errors = [
            Generations::at(folder).current().unwrap_err(),
            begin_error(folder),
            Generations::at(folder).remove(Duration::ZERO).unwrap_err(),
        ];
        for error in errors {
            assert!(matches!(error, GenerationError::NotAFolder(_)), "{error}");
            assert!(error.hint().unwrap().contains("--index-dir"));
        }
    }
    assert_eq!(fs::read(&file).unwrap(), b"mine");
}

/// Folders `gen-000001` that somebody else had made were deleted, with all that was in them.
#[test]
fn names_of_others_are_left_alone() {
    let place = place();
    let folder = place.path();
    let theirs = [
        "gen-000001/drafts/notes.txt",
        "gen-000002/photo one.jpg",
        "gen-000003/data.csv",
        "gen-000004",
        "gen-42",
        "gen-000007.bak",
        "notes.txt",
    ];
    for path in theirs.map(|name| folder.join(name)) {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "theirs").unwrap();
    }
    let generations = Generations::at(folder);
    assert!(!generations.remove(Duration::ZERO).unwrap(), "nothing is ours");
    let before = list(folder);
    for number in 5..9 {
        assert_eq!(publish(folder), number);
    }
    fs::write(folder.join(SEARCHED_FILE), "ours").unwrap();
    assert!(generations.remove(Duration::ZERO).unwrap());
    assert_eq!(list(folder), before);
    for path in theirs.map(|name| folder.join(name)) {
        assert_eq!(fs::read(path).unwrap(), b"theirs");
    }
}

/// The folder beside a store was a link to somebody's folder, and `index build` and `index remove` deleted its `gen-*`.
/// Nothing is written or removed through a link; linked files are read.
#[cfg(unix)]
#[test]
fn links_are_not_followed() {
    use std::os::unix::fs::symlink;
    let place = place();
    let [folder, link, secret, others, moved] =
        ["elsewhere", "index", "secret", "others", "moved"].map(|name| place.path().join(name));
    assert_eq!((publish(&folder), publish(&folder)), (1, 2));
    symlink(&folder, &link).unwrap();
    let before = list(&folder);
    for error in [begin_error(&link), Generations::at(&link).remove(Duration::ZERO).unwrap_err()] {
        assert!(matches!(error, GenerationError::Link(_)), "{error}");
        assert!(error.hint().unwrap().contains("--index-dir"));
    }
    assert_eq!((list(&folder), live(&link)), (before, 2));

    fs::write(&secret, "not ours").unwrap();
    let index = folder.join("gen-000002").join(INDEX_FILE);
    fs::rename(&index, &moved).unwrap();
    symlink(&moved, &index).unwrap();
    let error = Generations::at(&folder).current().unwrap_err();
    assert!(matches!(error, GenerationError::NotAFile(_)), "{error}");
    for name in ["MANIFEST", "LOCK"] {
        fs::remove_file(folder.join(name)).unwrap();
        symlink(&secret, folder.join(name)).unwrap();
        let error = begin_error(&folder).to_string();
        assert!(error.ends_with(&format!("{name}: not a regular file")), "{error}");
        fs::remove_file(folder.join(name)).unwrap();
    }
    // Foreign links stay, and their targets.
    fs::create_dir(&others).unwrap();
    fs::write(others.join("file"), "not ours").unwrap();
    symlink(&others, folder.join("gen-000009")).unwrap();
    symlink(&secret, folder.join("MANIFEST.pending")).unwrap();
    assert_eq!(publish(&folder), 10);
    assert_generations(&folder, &[9, 10], "");
    assert_eq!(fs::read(&secret).unwrap(), b"not ours");
    assert_eq!(list(&others), ["file"]);
}

/// `columns.arrow` had no checksum but that of its first 4 KiB, so that verifying missed 7 of 25 flipped bits: every byte
/// of every file is compared.
#[test]
fn every_flipped_bit_and_every_cut_of_a_generation_is_found() {
    let place = place();
    publish(place.path());
    seal(&mut open(place.path()));
    let is_whole = || -> bool {
        let Ok(Some(generation)) = Generations::at(place.path()).current() else { return false };
        let Ok(index) = generation.index() else { return false };
        generation.fresh().iter().chain([&index]).all(|file| file.verify(&NoProgress).is_ok())
            && generation.verify(&NoProgress).is_ok()
    };
    assert!(is_whole());
    for name in [INDEX_FILE, COLUMNS_FILE, "fresh-0001.mfi", "../MANIFEST"] {
        let path = place.path().join("gen-000001").join(name);
        let intact = fs::read(&path).unwrap();
        for at in (0..intact.len()).step_by(intact.len().div_ceil(500)).chain([intact.len() - 1]) {
            fs::write(&path, &intact[..at]).unwrap();
            assert!(!is_whole(), "{name}: cut at byte {at}");
            let mut flipped = intact.clone();
            flipped[at] ^= 1 << (at % 8);
            fs::write(&path, &flipped).unwrap();
            assert!(!is_whole(), "{name}: byte {at}");
        }
        fs::write(&path, &intact).unwrap();
        assert!(is_whole());
    }
}

/// Names an error: a damage by its description, others by their kind.
fn outcome_of(error: &GenerationError) -> String {
    let found = error.to_string();
    match error {
        GenerationError::Damaged { .. } if found.contains("MANIFEST: damaged: ") => {
            "Manifest".into()
        }
        GenerationError::Damaged { .. } if found.contains("MANIFEST: version ") => "Version".into(),
        GenerationError::Damaged { .. } if found.contains(" bytes long, ") => "Length".into(),
        GenerationError::Damaged { .. } => "Beginning".into(),
        other => format!("{other:?}").split([' ', '(']).next().unwrap().to_owned(),
    }
}

#[test]
fn any_damage_to_the_folder_is_an_error_and_mended_by_the_next_generation() {
    // Each name is removed, made a folder, and filled with these; then with the file of generation 1, whole but another's.
    let contents = [
        b"".to_vec(),
        b"memfold manifest 1\ngeneration 1\n".to_vec(),
        vec![0; 5_000],
        vec![b'x'; 1 << 20],
    ];
    // The live generation then, or the error's name.
    let outcomes = [
        ("MANIFEST", "0 NotAFile Manifest Version Manifest Manifest 1"),
        ("MANIFEST.pending", "2 2 2 2 2 2 2"),
        ("gen-000001", "2 2 2 2 2 2 2"),
        ("gen-000002", "Missing Missing NotAFolder NotAFolder NotAFolder NotAFolder Missing"),
        ("gen-000002/index.mfi", "Missing NotAFile Length Length Length Length Beginning"),
        ("gen-000002/columns.arrow", "Missing NotAFile Length Length Length Length Beginning"),
        ("gen-000002/fresh-0001.mfi", "2 NotAFile Sections Sections Sections Sections 2"),
        ("gen-000003", "2 2 2 2 2 2 2"),
        ("gen-000003.pending", "2 2 2 2 2 2 2"),
    ];
    for (name, expected) in outcomes {
        for (way, expected) in expected.split(' ').enumerate() {
            let place = place();
            let folder = place.path();
            publish(folder);
            let other = fs::read(folder.join(name.replace("02", "01"))).ok();
            assert_eq!(publish(folder), 2);
            seal(&mut open(folder));
            let path = folder.join(name);
            let _ = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
            match (way, other) {
                (0, _) | (6, None) => {}
                (1, _) => fs::create_dir(&path).unwrap(),
                (6, Some(other)) => fs::write(&path, other).unwrap(),
                (way, _) => fs::write(&path, &contents[way - 2]).unwrap(),
            }
            let context = format!("{name}, way {way}");
            let outcome = match Generations::at(folder).current() {
                Ok(live) => live.map_or(0, |live| assert_whole(&live)).to_string(),
                Err(error) => {
                    assert!(error.hint().is_some_and(|hint| hint.contains("index")), "{error}");
                    outcome_of(&error)
                }
            };
            assert_eq!(outcome, expected, "{context}");
            if path.is_dir() && name == "MANIFEST" {
                assert!(matches!(begin_error(folder), GenerationError::NotAFile(_)));
                fs::remove_dir(&path).unwrap();
            }
            if outcome == "Manifest" || outcome == "Version" {
                drop(begin(folder));
                assert!(folder.join("gen-000002").exists(), "kept until there is another");
            }
            let next = publish(folder);
            assert_eq!((live(folder), publish(folder)), (next, next + 1), "{context}");
            // Folders with foreign content may be somebody's, and stay.
            let top = name.split('/').next().unwrap();
            if ![next, next + 1].map(generation_name).contains(&top.to_owned()) && top != "MANIFEST"
            {
                disk::remove(&folder.join(top)).unwrap();
            }
            assert_generations(folder, &[next, next + 1], &context);
        }
    }
}
