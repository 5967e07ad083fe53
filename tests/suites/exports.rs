//! Exports hold the rows of one vector space, whether they are streamed or held.

use std::path::Path;

use jiff::tz::TimeZone;
use memfold::export::{ExportError, ExportOptions, Exported, export};
use memfold_datasets::DataError;
use memfold_datasets::{ColumnsMeta, ColumnsWriter, MappedColumns};
use memfold_index::{NoProgress, Row};

use tempfile::TempDir;

use memfold_core::memory::VectorSpace;
use memfold_core::time::Instant;
use memfold_store::{BrainDb, LoadRequest, MemoryStore, OpenOptions};
use memfold_tests::{InMemoryStore, PlainEmbedding, PlainMemory, StoreStyle, brain_db};

fn memory(id: &str, model: &str, vector: &[f32]) -> PlainMemory {
    let (model, vector) = (Some(model.to_owned()), vector.to_vec());
    PlainMemory {
        embedding: Some(PlainEmbedding { model, vector, content: None }),
        ..PlainMemory::new(id, format!("Text of {id}."), "2026-01-02T03:04:05")
    }
}

/// Two spaces of two live rows each; a third row of the first is archived.
fn rows() -> Vec<PlainMemory> {
    let archived =
        PlainMemory { source: "archived:stale".into(), ..memory("c", "beta", &[0.0, 1.0]) };
    vec![
        memory("d", "beta", &[1.0, 0.5]),
        archived,
        memory("b", "alpha", &[1.0, 2.0, 3.0]),
        memory("a", "alpha", &[-0.0, 0.25, 0.0]),
        memory("e", "beta", &[2.0, 0.5]),
        PlainMemory::new("f", "No vector.", "2026-01-02T03:04:05"),
    ]
}

/// Where rows are written as they are read, and where they are held.
const WAYS: [bool; 2] = [true, false];

/// Exports the rows into `out/rows.arrow` of a folder.
fn export_to(folder: &Path, model: Option<&str>, streamed: bool) -> Result<Exported, ExportError> {
    let zone = TimeZone::UTC;
    let load = LoadRequest { time_zone: &zone, now: Instant(0), progress: &NoProgress };
    let options = ExportOptions { model, text: true, lineage: true, scratch_dir: folder };
    let create = |meta: &ColumnsMeta| -> Result<ColumnsWriter, DataError> {
        ColumnsWriter::create(&folder.join("out/rows.arrow"), meta)
    };
    let path = folder.join("brain.db");
    let store: Box<dyn MemoryStore> = if streamed {
        brain_db(&path, &rows(), StoreStyle::Plain);
        Box::new(BrainDb::open(path, OpenOptions::default()).unwrap())
    } else {
        Box::new(InMemoryStore::new(rows()))
    };
    export(&*store, &load, &options, &create)
}

fn folder() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("out")).unwrap();
    folder
}

fn written(folder: &TempDir) -> MappedColumns {
    // A file of another space is gone.
    assert_eq!(std::fs::read_dir(folder.path().join("out")).unwrap().count(), 1);
    MappedColumns::open(&folder.path().join("out/rows.arrow")).unwrap()
}

fn ids(columns: &MappedColumns) -> Vec<String> {
    columns.ids().unwrap().iter().map(|id| id.unwrap().to_owned()).collect()
}

#[test]
fn the_largest_space_is_written_in_the_order_of_the_store() {
    for streamed in WAYS {
        let folder = folder();
        let exported = export_to(folder.path(), None, streamed).unwrap();
        // Two live rows each: the first by name.
        let space = VectorSpace { model: "alpha".into(), dim: 3 };
        assert_eq!(exported, Exported { rows: 2, space, without_vector: 3 });
        let columns = written(&folder);
        assert_eq!(ids(&columns), ["b", "a"]);
        assert_eq!(columns.vectors().vector(Row(1)), [0.0, 0.25, 0.0]);
        assert_eq!(columns.meta().model.as_deref(), Some("alpha"));
        assert!(columns.meta().source_hash.is_some());
    }
}

#[test]
fn a_model_can_be_chosen_and_archived_rows_stay_out() {
    for streamed in WAYS {
        let folder = folder();
        let exported = export_to(folder.path(), Some("beta"), streamed).unwrap();
        assert_eq!((exported.rows, exported.space.dim, exported.without_vector), (2, 2, 3));
        assert_eq!(ids(&written(&folder)), ["d", "e"]);
    }
}

#[test]
fn a_model_that_is_not_there_is_told_with_those_that_are() {
    for streamed in WAYS {
        let folder = folder();
        let error = export_to(folder.path(), Some("gamma"), streamed).unwrap_err();
        let said = r#"no vectors to export of model "gamma"; the store has beta (2), alpha (3)"#;
        assert_eq!(error.to_string(), said);
        assert_eq!(std::fs::read_dir(folder.path().join("out")).unwrap().count(), 0);
    }
}
