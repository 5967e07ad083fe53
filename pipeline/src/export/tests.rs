use std::path::Path;

use jiff::tz::TimeZone;
use memfold_datasets::MappedColumns;
use memfold_index::{NoProgress, Row};

use super::*;
use crate::store::{InMemoryStore, LoadRequest, PlainEmbedding, PlainMemory};
use crate::time::Instant;

fn memory(id: &str, model: &str, vector: &[f32]) -> PlainMemory {
    let (model, vector) = (Some(model.to_owned()), vector.to_vec());
    PlainMemory {
        embedding: Some(PlainEmbedding { model, vector, content: None }),
        ..PlainMemory::new(id, format!("Text of {id}."), "2026-01-02T03:04:05")
    }
}

/// Two spaces of two live rows each; a third row of the first is archived.
fn store() -> InMemoryStore {
    let archived = PlainMemory {
        source: "archived:stale".into(),
        archived_by: Some("stale".into()),
        ..memory("c", "beta", &[0.0, 1.0])
    };
    InMemoryStore::new(vec![
        memory("d", "beta", &[1.0, 0.5]),
        archived,
        memory("b", "alpha", &[1.0, 2.0, 3.0]),
        memory("a", "alpha", &[-0.0, 0.25, 0.0]),
        memory("e", "beta", &[2.0, 0.5]),
        PlainMemory::new("f", "No vector.", "2026-01-02T03:04:05"),
    ])
}

fn options(model: Option<&str>) -> ExportOptions<'_> {
    ExportOptions { model, text: true, lineage: false, scratch_dir: Path::new("nowhere") }
}

fn export_to(folder: &Path, model: Option<&str>) -> Result<Exported, ExportError> {
    let zone = TimeZone::UTC;
    let load = LoadRequest { time_zone: &zone, now: Instant(0), progress: &NoProgress };
    let create = |meta: &ColumnsMeta| -> Result<Box<dyn RecordWriter>, WriteColumnsError> {
        Ok(Box::new(ColumnsWriter::create(&folder.join("rows.arrow"), meta)?))
    };
    export(&store(), &load, &options(model), &create)
}

fn ids(folder: &Path) -> Vec<String> {
    let columns = MappedColumns::open(&folder.join("rows.arrow")).unwrap();
    let ids = columns.ids().unwrap();
    ids.iter().map(|id| id.unwrap().to_owned()).collect()
}

#[test]
fn the_largest_space_is_written_in_the_order_of_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let exported = export_to(folder.path(), None).unwrap();
    // Two live rows each: the first by name.
    let space = VectorSpace { model: "alpha".into(), dim: 3 };
    assert_eq!(exported, Exported { rows: 2, space, without_vector: 3 });
    assert_eq!(ids(folder.path()), ["b", "a"]);
    let columns = MappedColumns::open(&folder.path().join("rows.arrow")).unwrap();
    assert_eq!(columns.vectors().vector(Row(1)), [0.0, 0.25, 0.0]);
    assert_eq!(columns.meta().model.as_deref(), Some("alpha"));
    assert!(columns.meta().source_hash.is_some());
    // The file of the other space is gone.
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
}

#[test]
fn a_model_can_be_chosen_and_archived_rows_stay_out() {
    let folder = tempfile::tempdir().unwrap();
    let exported = export_to(folder.path(), Some("beta")).unwrap();
    assert_eq!((exported.rows, exported.space.dim, exported.without_vector), (2, 2, 3));
    assert_eq!(ids(folder.path()), ["d", "e"]);
}

#[test]
fn a_model_that_is_not_there_is_told_with_those_that_are() {
    let folder = tempfile::tempdir().unwrap();
    let error = export_to(folder.path(), Some("gamma")).unwrap_err();
    let said = r#"no vectors to export of model "gamma"; the store has beta (2), alpha (3)"#;
    assert_eq!(error.to_string(), said);
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
}

#[test]
fn what_the_writer_says_is_told() {
    let missing = Path::new("/no such folder");
    let error = export_to(missing, None).unwrap_err();
    assert!(matches!(error, ExportError::Write(WriteColumnsError::Write { .. })), "{error:?}");
    assert!(error.hint().unwrap().contains("create the folder"));
}

#[test]
fn both_ways_write_the_same_rows() {
    let (held, folder) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    export_to(folder.path(), Some("beta")).unwrap();
    let zone = TimeZone::UTC;
    let load = LoadRequest { time_zone: &zone, now: Instant(0), progress: &NoProgress };
    let options = ExportOptions { scratch_dir: held.path(), ..options(Some("beta")) };
    let export = Export::read(&store(), &load, &options).unwrap();
    let path = held.path().join("rows.arrow");
    let mut writer = ColumnsWriter::create(&path, &export.meta()).unwrap();
    export.write(&mut writer, &NoProgress).unwrap();
    writer.finish().unwrap();
    let bytes = |folder: &Path| std::fs::read(folder.join("rows.arrow")).unwrap();
    assert_eq!(bytes(held.path()), bytes(folder.path()));
}
