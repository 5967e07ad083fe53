//! A whole index of a store: every file of a generation, and searches in an index that still opens.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use memfold::lookup::{ORIGIN_FILE, StoreIndex, TierChoice, Wanted};
use memfold_index::Pool;
use memfold_index::file::FileKind;
use memfold_simd::Similarity;
use rusqlite::Connection;
use tempfile::TempDir;
use twox_hash::XxHash3_64;

use super::Changes;
use super::files::{folder, replace};
use super::manifest::seal;
use super::sections::Parts;
use crate::{StoreStyle, TestIndex, brain_db, generated_rows, memory};

const DIM: usize = 6;
const ROWS: u32 = 40;
/// Number of these saved after the index was built.
const FRESH: u32 = 5;

const MANIFEST: &str = "MANIFEST";
const FILES: [&str; 4] =
    ["gen-000001/index.mfi", "gen-000001/columns.arrow", "gen-000001/origin.json", SEGMENT];
const SEGMENT: &str = "gen-000001/fresh-0001.mfi";
/// Length of the head that a manifest's checksum covers.
const HEAD_BYTES: usize = 4_096;

const WORDS: &str = "\
    version model dim store without_vector watermarks shapes null true m \" {} [] , : rowid id \
    0 6 1e999 \\u0000 \\ud800";

const NEAREST: Wanted = Wanted { neighbors: Some(5), similarity_min: None };

/// A store with its index; the files are intact between two inputs.
struct Fixture {
    _place: TempDir,
    db: TestIndex,
    pool: Pool,
    files: Vec<(PathBuf, Vec<u8>)>,
    manifest: Vec<u8>,
    index: Parts,
    segment: Parts,
    query: Vec<f32>,
    /// Everything that a search may find, with the bits of its similarity.
    all: BTreeSet<(String, u64)>,
}

impl Fixture {
    fn new() -> Self {
        let dir = folder();
        let path = dir.path().join("brain.db");
        let vectors = generated_rows(ROWS, DIM, 1);
        let row = |(number, vector)| memory(number, format!("Fact {number}."), vector);
        let rows: Vec<_> = vectors.chunks_exact(DIM).enumerate().map(row).collect();
        brain_db(&path, &rows, StoreStyle::Plain);
        let db = TestIndex::of(&path);
        let saved_later = format!("SELECT id FROM stm ORDER BY id DESC LIMIT {FRESH}");
        let owner = Connection::open(&path).expect("it was written a moment ago");
        let run = |sql: String| owner.execute_batch(&sql).unwrap_or_else(|e| panic!("{sql}: {e}"));
        run(format!(
            "CREATE TABLE later AS SELECT * FROM embeddings WHERE source_id IN ({saved_later});
             DELETE FROM embeddings WHERE source_id IN ({saved_later});"
        ));
        db.build(TierChoice::Graph);
        run("INSERT INTO embeddings SELECT * FROM later; DROP TABLE later;".into());
        assert_eq!(db.seal(), FRESH as usize);
        let read = |name: &str| {
            let path = db.folder().join(name);
            let bytes = std::fs::read(&path).expect("it is a file of the index");
            (path, bytes)
        };
        let files = FILES.map(read).to_vec();
        let query = vectors[..DIM].to_vec();
        let everything = Wanted { neighbors: None, similarity_min: Similarity::new(-1.0) };
        Self {
            index: Parts::of(&files[0].1, FileKind::Index),
            segment: Parts::of(&files[3].1, FileKind::Fresh),
            manifest: read(MANIFEST).1,
            files,
            all: db.by_definition(&query, everything).into_iter().collect(),
            query,
            pool: Pool::new(std::num::NonZero::new(1)).expect("a thread can be started"),
            db,
            _place: dir,
        }
    }

    /// Returns which file is changed, and how.
    fn changed(&self, changes: &mut Changes<'_>) -> Option<(usize, Vec<u8>)> {
        let which = changes.below(FILES.len());
        let mut bytes = self.files[which].1.clone();
        match which {
            _ if changes.below(8) == 0 => changes.apply(&mut bytes),
            0 => bytes = self.index.changed(changes)?,
            1 => changes.apply(&mut bytes),
            2 => changes.apply_to_text(&mut bytes, WORDS),
            _ => bytes = self.segment.changed(changes)?,
        }
        Some((which, bytes))
    }

    fn run(&self, changes: &mut Changes<'_>) {
        let is_forged = changes.below(8) != 0;
        let Some((which, bytes)) = self.changed(changes) else { return };
        let (path, intact) = &self.files[which];
        replace(path, &bytes);
        let manifest = self.db.folder().join(MANIFEST);
        if is_forged {
            replace(&manifest, &self.forged_manifest(path, &bytes));
        }
        // The origin's statement about the format of vectors is trusted.
        self.search(which != 2 || !is_forged);
        replace(path, intact);
        if is_forged {
            replace(&manifest, &self.manifest);
        }
    }

    /// Returns a manifest that names these bytes as the file's.
    fn forged_manifest(&self, path: &Path, bytes: &[u8]) -> Vec<u8> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        let sum = XxHash3_64::oneshot(&bytes[..bytes.len().min(HEAD_BYTES)]);
        let whole = XxHash3_64::oneshot(bytes);
        let line = format!("file {name} {} {sum:016x} {whole:016x}", bytes.len());
        let text = String::from_utf8_lossy(&self.manifest);
        let begins = format!("file {name} ");
        let lines = text.lines().map(|old| if old.starts_with(&begins) { &line } else { old });
        let mut manifest = lines.map(|line| format!("{line}\n")).collect::<String>().into_bytes();
        seal(&mut manifest);
        manifest
    }

    /// Searches in an index that opens; matches must be true.
    fn search(&self, is_true: bool) {
        let Ok(Some(index)) = StoreIndex::open(self.db.folder()) else { return };
        let _ = self.db.verify(&index, &self.pool);
        for wanted in [NEAREST, Wanted { neighbors: None, similarity_min: Similarity::new(0.5) }] {
            let Ok(found) = self.db.try_search(Some(&index), &self.query, wanted) else {
                continue;
            };
            let is_known = |found: &memfold::lookup::Match| {
                let similarity = found.similarity.get().to_bits();
                self.all.contains(&(found.memory.id.to_string(), similarity))
            };
            assert!(!is_true || found.matches.iter().all(is_known), "{:?}", found.matches);
        }
    }
}

/// Takes a file of a generation: index, columns, origin or fresh rows.
pub(super) fn run(bytes: &[u8]) {
    thread_local! {
        static FIXTURE: RefCell<Option<Fixture>> = const { RefCell::new(None) };
    }
    FIXTURE.with_borrow_mut(|fixture| {
        debug_assert!(FILES[2].ends_with(ORIGIN_FILE));
        fixture.get_or_insert_with(Fixture::new).run(&mut Changes::new(bytes));
    });
}
