//! `columns.arrow`, mapped.

use std::path::Path;
use std::sync::OnceLock;

use memfold_datasets::DataError;
use memfold_datasets::{ColumnRecord, ColumnSet, ColumnsMeta, ColumnsWriter, MappedColumns};
use memfold_index::Row;

use super::Changes;
use super::files::{folder, map};

const DIM: u32 = 4;

/// Files of bare vectors and of records, intact.
pub(super) fn intact() -> &'static [Vec<u8>; 2] {
    static INTACT: OnceLock<[Vec<u8>; 2]> = OnceLock::new();
    INTACT.get_or_init(|| {
        let records = ColumnSet::Records { text: true, lineage: true };
        [ColumnSet::Vectors, records].map(|columns| {
            let folder = folder();
            let path = folder.path().join("columns.arrow");
            let meta = ColumnsMeta { columns, ..ColumnsMeta::vectors(DIM) };
            let mut writer = ColumnsWriter::create(&path, &meta).expect("the folder is writable");
            for row in 0..9 {
                push(&mut writer, columns, row);
            }
            writer.finish().expect("the folder is writable");
            std::fs::read(&path).expect("it was written a moment ago")
        })
    })
}

fn push(writer: &mut ColumnsWriter, columns: ColumnSet, row: u8) {
    let vector = [f32::from(row), 1.0, -0.5, 0.25];
    let id = format!("m{row}");
    let categories = vec![Box::from("decision"); usize::from(row % 3)];
    let record = ColumnRecord {
        rowid: i64::from(row),
        id: &id,
        created_at: row.is_multiple_of(2).then_some(1_767_225_600_000_000),
        categories: &categories,
        importance: 0.5,
        access_count: 3,
        source: "agent",
        model: "m",
        text: (!row.is_multiple_of(4)).then_some("The kiln is fired on Mondays."),
        lineage: row.is_multiple_of(5).then_some("{}"),
        vector: &vector,
    };
    let pushed = match columns {
        ColumnSet::Vectors => writer.push_vector(&vector),
        ColumnSet::Records { .. } => writer.push(&record),
    };
    pushed.expect("the record is valid");
}

/// Takes a column file.
pub(super) fn run(bytes: &[u8]) {
    let mut changes = Changes::new(bytes);
    let which = changes.below(16);
    let file = if which == 0 {
        changes.rest().to_vec()
    } else {
        let mut file = intact()[which % 2].clone();
        changes.apply(&mut file);
        file
    };
    let Ok(columns) = MappedColumns::from_mapped(map(&file), Path::new("fuzzed.arrow")) else {
        return;
    };
    // Its contents may still be refused.
    let _ = use_columns(&columns);
}

/// Reads everything.
fn use_columns(columns: &MappedColumns) -> Result<(), DataError> {
    let vectors = columns.vectors();
    assert_eq!((vectors.len(), vectors.dim()), (columns.len(), columns.dim()));
    for row in vectors.rows() {
        assert_eq!(vectors.vector(row).len(), columns.dim());
    }
    let rows = || (0..columns.len() as u32).map(Row);
    let by_row: Vec<_> = rows().map(|row| columns.id_at(row).is_ok()).collect();
    let _: Vec<_> = rows().map(|row| columns.rowid_at(row)).collect();
    let ids = columns.ids()?;
    assert!(rows().all(|row| by_row[row.index()] == ids.get(row).is_some()), "{by_row:?}");
    for row in rows().filter(|row| by_row[row.index()]) {
        assert_eq!(columns.id_at(row).ok(), ids.get(row));
    }
    Ok(())
}
