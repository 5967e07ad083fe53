//! Odd places: what stands where a folder or file belongs, and what others do to our files.

use std::fs;

use super::*;

fn read_error(folder: &Path) -> GenerationError {
    Generations::at(folder).current().unwrap_err()
}

fn begin_error(folder: &Path) -> GenerationError {
    GenerationWriter::begin(folder, FileMode::PRIVATE, Duration::ZERO).unwrap_err()
}

#[test]
fn a_file_in_place_of_a_folder() {
    let place = place();
    let file = place.path().join("index");
    fs::write(&file, "mine").unwrap();
    for folder in [file.clone(), file.join("below")] {
        let error = read_error(&folder);
        assert!(matches!(error, GenerationError::NotAFolder { .. }), "{error}");
        let error = begin_error(&folder);
        assert!(matches!(error, GenerationError::NotAFolder { .. }), "{error}");
        assert!(error.hint().unwrap().contains("--index-dir"));
        let error = Generations::at(&folder).remove(Duration::ZERO).unwrap_err();
        assert!(matches!(error, GenerationError::NotAFolder { .. }), "{error}");
    }
    assert_eq!(fs::read(&file).unwrap(), b"mine");
}

#[test]
fn a_folder_in_place_of_a_file() {
    for name in ["MANIFEST", "LOCK"] {
        let place = place();
        fs::create_dir(place.path().join(name)).unwrap();
        let error = begin_error(place.path()).to_string();
        assert!(error.ends_with(&format!("{name}: not a regular file")), "{error}");
    }
    let place = place();
    publish(place.path());
    for name in [INDEX_FILE, "fresh-0001.mfi"] {
        let path = place.path().join("gen-000001").join(name);
        let _ = fs::remove_file(&path);
        fs::create_dir(&path).unwrap();
        let error = read_error(place.path());
        assert!(matches!(error, GenerationError::NotAFile { .. }), "{error}");
        fs::remove_dir(&path).unwrap();
        write_sections(File::create(&path).unwrap(), FileKind::Index, 1);
    }
}

#[test]
fn a_missing_parent() {
    let place = place();
    let folder = place.path().join("missing/index");
    assert!(Generations::at(&folder).current().unwrap().is_none());
    let error = begin_error(&folder);
    assert!(matches!(error, GenerationError::Io { action: "create folder", .. }), "{error}");
    assert!(error.hint().is_some());
}

/// The folder beside a store was a link to somebody's folder, and `index build` and `index remove` deleted its `gen-*`.
/// Nothing is written or removed through a link; what is there is read.
#[cfg(unix)]
#[test]
fn nothing_is_removed_through_a_link() {
    use std::os::unix::fs::symlink;
    let place = place();
    let (folder, link) = (place.path().join("elsewhere"), place.path().join("index"));
    assert_eq!((publish(&folder), publish(&folder)), (1, 2));
    symlink(&folder, &link).unwrap();
    let before = list(&folder);
    let error = begin_error(&link);
    assert!(matches!(error, GenerationError::Link { .. }), "{error}");
    assert!(error.hint().unwrap().contains("--index-dir"));
    let error = Generations::at(&link).remove(Duration::ZERO).unwrap_err();
    assert!(matches!(error, GenerationError::Link { .. }), "{error}");
    assert_eq!((list(&folder), live(&link)), (before, 2));
}

/// A folder `gen-000001` that somebody else made was deleted, with all that was in it.
#[test]
fn folders_that_only_look_like_generations_stay() {
    let place = place();
    let theirs = ["gen-000001/drafts/notes.txt", "gen-000002/photo one.jpg", "gen-000003/data.csv"];
    for file in theirs {
        let path = place.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "theirs").unwrap();
    }
    fs::write(place.path().join("gen-000004"), "theirs").unwrap();
    let generations = Generations::at(place.path());
    assert!(!generations.remove(Duration::ZERO).unwrap(), "nothing is ours");
    let before = list(place.path());
    for _ in 0..4 {
        publish(place.path());
    }
    assert!(generations.remove(Duration::ZERO).unwrap());
    assert_eq!(list(place.path()), before);
    for file in theirs {
        assert_eq!(fs::read(place.path().join(file)).unwrap(), b"theirs");
    }
}

#[cfg(unix)]
#[test]
fn links_are_not_followed_inside() {
    use std::os::unix::fs::symlink;
    let place = place();
    let folder = place.path().join("elsewhere");
    publish(&folder);
    let secret = place.path().join("secret");
    fs::write(&secret, "not ours").unwrap();
    let index = folder.join("gen-000001").join(INDEX_FILE);
    let moved = place.path().join("moved.mfi");
    fs::rename(&index, &moved).unwrap();
    symlink(&moved, &index).unwrap();
    assert!(matches!(read_error(&folder), GenerationError::NotAFile { .. }));
    for name in ["MANIFEST", "LOCK"] {
        fs::remove_file(folder.join(name)).unwrap();
        symlink(&secret, folder.join(name)).unwrap();
        let error = begin_error(&folder).to_string();
        assert!(error.ends_with(&format!("{name}: not a regular file")), "{error}");
        fs::remove_file(folder.join(name)).unwrap();
    }
    // Links of others stay, and what they point to.
    let others = place.path().join("others");
    fs::create_dir(&others).unwrap();
    fs::write(others.join("file"), "not ours").unwrap();
    symlink(&others, folder.join("gen-000009")).unwrap();
    symlink(&secret, folder.join("MANIFEST.pending")).unwrap();
    assert_eq!(publish(&folder), 10);
    assert_eq!(list(&folder), ["LOCK", "MANIFEST", "gen-000009", "gen-000010"]);
    assert_eq!(fs::read(&secret).unwrap(), b"not ours");
    assert_eq!(list(&others), ["file"]);
}

#[cfg(unix)]
#[test]
fn a_link_in_a_pending_generation_is_not_published() {
    let place = place();
    let writer = begin(place.path());
    std::os::unix::fs::symlink("/etc/hostname", writer.path().join("columns.arrow")).unwrap();
    let error = writer.publish().unwrap_err().to_string();
    assert!(error.ends_with("columns.arrow: not a regular file"), "{error}");
}

#[test]
fn a_folder_deleted_meanwhile() {
    let place = place();
    let folder = place.path().join("index");
    publish(&folder);
    let mut generation = open(&folder);
    let sealing = FreshWriter::begin(&mut generation, FileMode::PRIVATE, LONG).unwrap();
    write_fresh(&sealing).unwrap();
    let writer = begin(&folder);
    fill(&writer);
    fs::remove_dir_all(&folder).unwrap();
    let error = writer.publish().unwrap_err();
    assert!(matches!(error, GenerationError::Io { action: "list", .. }), "{error}");
    assert!(error.hint().unwrap().contains("removed meanwhile"));
    let error = sealing.publish().unwrap_err();
    assert!(matches!(error, GenerationError::Gone { .. }), "{error}");
    assert!(Generations::at(&folder).current().unwrap().is_none());
    assert_eq!(assert_whole(&generation), 1);
    assert_eq!(publish(&folder), 1);
}

#[test]
fn a_generation_deleted_by_hand() {
    let place = place();
    publish(place.path());
    fs::remove_dir_all(place.path().join("gen-000001")).unwrap();
    let error = read_error(place.path());
    assert!(matches!(error, GenerationError::Missing { .. }), "{error}");
    assert!(error.hint().unwrap().contains("memfold index build"));
    assert_eq!(publish(place.path()), 2);
    assert_eq!(live(place.path()), 2);
}

#[test]
fn files_that_are_not_those_of_the_manifest() {
    let place = place();
    publish(place.path());
    publish(place.path());
    let (old, new) = (place.path().join("gen-000001"), place.path().join("gen-000002"));
    let intact = fs::read(new.join(INDEX_FILE)).unwrap();
    // As long, and whole, but another's.
    fs::copy(old.join(INDEX_FILE), new.join(INDEX_FILE)).unwrap();
    let error = read_error(place.path());
    assert!(matches!(error, GenerationError::Beginning { .. }), "{error}");
    fs::write(new.join(INDEX_FILE), &intact[..intact.len() - 1]).unwrap();
    let error = read_error(place.path());
    assert!(matches!(error, GenerationError::Length { .. }), "{error}");
    fs::write(new.join(INDEX_FILE), &intact).unwrap();
    assert_eq!(live(place.path()), 2);
    fs::write(new.join("fresh-0001.mfi"), "torn").unwrap();
    let error = read_error(place.path());
    assert!(matches!(error, GenerationError::Sections(_)), "{error}");
    assert!(error.hint().unwrap().contains("memfold index build"));
}

#[test]
fn a_damaged_manifest_is_an_error_until_the_next_generation() {
    let damage: [&dyn Fn(&Path); 4] = [
        &|path| fs::write(path, "").unwrap(),
        &|path| fs::write(path, [0xFF; 40]).unwrap(),
        &|path| fs::write(path, vec![b'x'; 1 << 20]).unwrap(),
        &|path| fs::write(path, "memfold manifest 3\nother\n").unwrap(),
    ];
    for damage in damage {
        let place = place();
        publish(place.path());
        damage(&place.path().join("MANIFEST"));
        let error = read_error(place.path());
        assert!(
            matches!(
                error,
                GenerationError::Manifest { .. } | GenerationError::ManifestVersion { .. }
            ),
            "{error}"
        );
        assert!(error.hint().unwrap().contains("memfold index build"));
        drop(begin(place.path()));
        assert!(place.path().join("gen-000001").exists(), "kept until there is another");
        assert_eq!(publish(place.path()), 2);
        assert_eq!(list(place.path()), ["LOCK", "MANIFEST", "gen-000002"]);
    }
}

#[test]
fn numbers_come_to_an_end_politely() {
    let place = place();
    fs::create_dir(place.path().join(names::generation(u64::MAX))).unwrap();
    let error = begin_error(place.path());
    assert!(matches!(error, GenerationError::NumbersSpent { .. }), "{error}");
}

/// Only where permissions bind us: the superuser may write everywhere.
#[cfg(unix)]
#[test]
fn a_folder_that_may_be_read_only() {
    use std::os::unix::fs::PermissionsExt;
    let place = place();
    publish(place.path());
    seal(&mut open(place.path()));
    let set = |bits| fs::set_permissions(place.path(), fs::Permissions::from_mode(bits)).unwrap();
    set(0o500);
    assert_eq!(live(place.path()), 1, "reading needs no right to write");
    if fs::write(place.path().join("probe"), "").is_err() {
        let error = begin_error(place.path());
        assert!(error.hint().unwrap().contains("--index-dir"), "{error}");
    }
    set(0o700);
}

#[test]
fn refusals_of_the_system_are_named_with_advice() {
    let advice = |kind: std::io::ErrorKind| {
        let place = place();
        let disk = Disk::hooked(move |_| Err(kind.into()));
        let folder = place.path().join("index");
        let error = GenerationWriter::begin_on(disk, &folder, FileMode::PRIVATE, LONG).unwrap_err();
        assert_eq!(error.to_string(), format!("create folder {}", folder.display()));
        error.hint().unwrap_or_default()
    };
    use std::io::ErrorKind;
    assert!(advice(ErrorKind::PermissionDenied).contains("--index-dir"));
    assert!(advice(ErrorKind::ReadOnlyFilesystem).contains("--index-dir"));
    assert!(advice(ErrorKind::StorageFull).contains("free some space"));
    assert_eq!(advice(ErrorKind::Other), "");
}

/// `columns.arrow` had no checksum but that of its first 4 KiB, so that verifying missed 7 of 25 flipped bits: every byte
/// of every file is compared.
#[test]
fn every_flipped_bit_of_a_generation_is_found() {
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
        let path = open(place.path()).folder().join(name);
        let intact = fs::read(&path).unwrap();
        for at in (0..intact.len()).step_by(intact.len().div_ceil(500)).chain([intact.len() - 1]) {
            let mut flipped = intact.clone();
            flipped[at] ^= 1 << (at % 8);
            fs::write(&path, &flipped).unwrap();
            assert!(!is_whole(), "{name}: byte {at}");
        }
        fs::write(&path, &intact).unwrap();
        assert!(is_whole());
    }
}

/// What may happen to one name in a folder.
fn spoil(path: &Path, how: u64) {
    let _ = if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) };
    match how % 6 {
        0 => {}
        1 => fs::create_dir(path).unwrap_or_default(),
        2 => fs::write(path, "").unwrap_or_default(),
        3 => fs::write(path, "memfold manifest 1\ngeneration 1\n").unwrap_or_default(),
        4 => fs::write(path, [0; 5_000]).unwrap_or_default(),
        _ => fs::write(path, "\u{7f}ELF".repeat(99)).unwrap_or_default(),
    }
}

#[test]
fn whatever_happens_to_the_folder_is_an_error_and_mended_by_the_next_generation() {
    const NAMES: [&str; 9] = [
        "MANIFEST",
        "MANIFEST.pending",
        "gen-000001",
        "gen-000002",
        "gen-000002/index.mfi",
        "gen-000002/columns.arrow",
        "gen-000002/fresh-0001.mfi",
        "gen-000003",
        "gen-000003.pending",
    ];
    let mut outcomes = std::collections::BTreeMap::<String, u32>::new();
    for seed in 0..400_u64 {
        let place = place();
        assert_eq!((publish(place.path()), publish(place.path())), (1, 2));
        seal(&mut open(place.path()));
        let (mut draws, mut spoilt) = (seed, Vec::new());
        for _ in 0..=seed % 3 {
            draws = draws
                .wrapping_mul(6_364_136_223_846_793_005)
                .wrapping_add(1_442_695_040_888_963_407);
            let name = NAMES[(draws >> 33) as usize % NAMES.len()];
            spoil(&place.path().join(name), draws >> 50);
            spoilt.push(name);
        }
        let outcome = match Generations::at(place.path()).current() {
            Ok(None) => "nothing".to_owned(),
            Ok(Some(generation)) => format!("{} whole", assert_whole(&generation)),
            Err(error) => format!("{error:?}").split([' ', '(']).next().unwrap().to_owned(),
        };
        *outcomes.entry(outcome).or_default() += 1;
        if place.path().join("MANIFEST").is_dir() {
            assert!(matches!(begin_error(place.path()), _));
            fs::remove_dir(place.path().join("MANIFEST")).unwrap();
        }
        let number = publish(place.path());
        assert_eq!(live(place.path()), number);
        publish(place.path());
        let expected = [names::generation(number), names::generation(number + 1)];
        // What does not look like ours any more may be somebody's, and stays.
        let mut left = list(place.path());
        left.retain(|name| {
            expected.contains(name)
                || name == names::MANIFEST
                || !spoilt.iter().any(|spoilt| spoilt.starts_with(name.as_str()))
        });
        assert_eq!(left[2..], expected, "seed {seed}");
    }
    for outcome in [
        "nothing",
        "2 whole",
        "Missing",
        "NotAFile",
        "NotAFolder",
        "Manifest",
        "Length",
        "Sections",
    ] {
        assert!(outcomes.contains_key(outcome), "{outcome} is missing from {outcomes:?}");
    }
}
