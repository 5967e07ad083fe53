//! MANIFEST and the folder of generations.

use std::path::Path;
use std::time::Duration;

use memfold_index::file::generations::COLUMNS_FILE;
use memfold_index::file::{FileMode, GenerationWriter, Generations};
use tempfile::TempDir;
use twox_hash::XxHash3_64;

use super::Changes;
use super::files::{folder, replace};

const WORDS: &str = "\
    memfold manifest generation previous none file checksum index.mfi columns.arrow \
    origin.json fresh-0001.mfi MANIFEST LOCK .pending .. 1 01 0000000000000000 \
    ffffffffffffffff";

/// A folder with one generation.
struct Folder {
    dir: TempDir,
    manifest: Vec<u8>,
}

impl Folder {
    fn new() -> Self {
        let dir = folder();
        let writer = GenerationWriter::begin(dir.path(), FileMode::PRIVATE, Duration::from_secs(5))
            .expect("the folder is ours");
        for (name, content) in [("origin.json", "no origin"), (COLUMNS_FILE, "no columns")] {
            replace(&writer.path().join(name), content.as_bytes());
        }
        writer.publish().expect("the folder is ours");
        let manifest = std::fs::read(dir.path().join("MANIFEST")).expect("it was published");
        Self { dir, manifest }
    }
}

/// Takes a manifest.
pub(super) fn run(bytes: &[u8]) {
    thread_local! {
        static FOLDER: Folder = Folder::new();
    }
    FOLDER.with(|folder| {
        let mut changes = Changes::new(bytes);
        let kind = changes.below(8);
        let manifest = if kind == 0 {
            changes.rest().to_vec()
        } else {
            let mut manifest = folder.manifest.clone();
            changes.apply_to_text(&mut manifest, WORDS);
            if kind > 2 {
                seal(&mut manifest);
            }
            manifest
        };
        replace(&folder.dir.path().join("MANIFEST"), &manifest);
        look(folder.dir.path());
    });
}

fn look(folder: &Path) {
    let generations = Generations::at(folder);
    let Ok(Some(mut generation)) = generations.current() else { return };
    assert!(matches!(generations.is_current(&generation), Ok(true)));
    assert!(generation.folder().starts_with(folder));
    assert!(generation.files().all(|(name, file)| !name.is_empty() && file.len() < 64));
    assert!(generation.index().is_err(), "no index was written");
    let _ = generation.see_fresh();
}

/// Writes the checksum of a manifest anew.
pub(super) fn seal(manifest: &mut Vec<u8>) {
    const LAST_LINE: &[u8] = b"checksum ";
    let last = manifest.windows(LAST_LINE.len()).rposition(|window| window == LAST_LINE);
    manifest.truncate(last.unwrap_or(manifest.len()));
    let sum = XxHash3_64::oneshot(manifest);
    manifest.extend(format!("checksum {sum:016x}\n").into_bytes());
}
