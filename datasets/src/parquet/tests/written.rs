//! What [`ParquetOutput`] writes, read by the decoder of the `parquet` crate.

use arrow_array::cast::AsArray;
use arrow_array::types::Float32Type;
use arrow_array::{Array, FixedSizeListArray, Float32Array, Int64Array, StringArray};
use arrow_buffer::NullBuffer;
use arrow_schema::{DataType, Field};
use arrow_select::concat::concat_batches;
use parquet::arrow::arrow_reader::ParquetRecordBatchReaderBuilder;
use parquet::file::properties::{WriterProperties, WriterPropertiesBuilder};
use parquet::schema::types::ColumnPath;

use super::*;

/// Writes a table piece by piece.
fn write(path: &Path, table: &RecordBatch, piece_rows: usize, properties: WriterPropertiesBuilder) {
    let components = ["vector", "list", "element"].map(str::to_owned);
    let properties = plain_components(properties, ColumnPath::new(components.to_vec())).build();
    let mut output = ParquetOutput::create(path, table.schema(), properties).unwrap();
    for first in (0..table.num_rows()).step_by(piece_rows) {
        let rows = piece_rows.min(table.num_rows() - first);
        output.write(&table.slice(first, rows)).unwrap();
    }
    output.finish(None).unwrap();
}

/// Reads a table, and how many rows each row group has.
fn read(path: &Path) -> (RecordBatch, Vec<usize>) {
    let builder = ParquetRecordBatchReaderBuilder::try_new(File::open(path).unwrap()).unwrap();
    let groups = builder.metadata().row_groups().iter();
    let groups = groups.map(|group| usize::try_from(group.num_rows()).unwrap()).collect();
    let schema = Arc::clone(builder.schema());
    let batches: Vec<_> = builder.build().unwrap().map(Result::unwrap).collect();
    (concat_batches(&schema, &batches).unwrap(), groups)
}

fn vectors(
    dim: usize,
    components: Float32Array,
    nulls: Option<NullBuffer>,
    nullable_items: bool,
) -> FixedSizeListArray {
    let item = Arc::new(Field::new("element", DataType::Float32, nullable_items));
    FixedSizeListArray::new(item, i32::try_from(dim).unwrap(), Arc::new(components), nulls)
}

fn table(vectors: FixedSizeListArray, nullable: bool) -> RecordBatch {
    let rows = vectors.len();
    let number = Int64Array::from_iter((0..rows as i64).map(|row| (row % 5 > 0).then_some(row)));
    let text = StringArray::from_iter_values((0..rows).map(|row| format!("text {}", row % 7)));
    let columns: [(&str, ArrayRef, bool); 3] = [
        ("number", Arc::new(number), true),
        ("vector", Arc::new(vectors), nullable),
        ("text", Arc::new(text), false),
    ];
    RecordBatch::try_from_iter_with_nullable(columns).unwrap()
}

/// A vector's components, `None` where it or they are null.
type Row = Option<Vec<Option<f32>>>;

fn rows(dim: usize, nullable: bool, nullable_items: bool) -> impl Strategy<Value = Vec<Row>> {
    let component = if nullable_items {
        prop_oneof![4 => any::<f32>().prop_map(Some), 1 => Just(None)].boxed()
    } else {
        any::<f32>().prop_map(Some).boxed()
    };
    let vector = prop::collection::vec(component, dim);
    let row = if nullable {
        prop_oneof![4 => vector.prop_map(Some), 1 => Just(None)].boxed()
    } else {
        vector.prop_map(Some).boxed()
    };
    prop::collection::vec(row, 1..150)
}

fn shapes() -> impl Strategy<Value = (usize, bool, bool, Vec<Row>)> {
    (1_usize..6, any::<bool>(), any::<bool>()).prop_flat_map(|(dim, nullable, nullable_items)| {
        let rows = rows(dim, nullable, nullable_items);
        (Just(dim), Just(nullable), Just(nullable_items), rows)
    })
}

fn table_of(dim: usize, nullable: bool, nullable_items: bool, rows: &[Row]) -> RecordBatch {
    let missing = vec![(!nullable_items).then_some(0.0); dim];
    let components = rows.iter().flat_map(|row| row.as_ref().unwrap_or(&missing)).copied();
    let components = Float32Array::from_iter(components);
    let nulls = nullable.then(|| rows.iter().map(Option::is_some).collect::<NullBuffer>());
    table(vectors(dim, components, nulls, nullable_items), nullable)
}

fn bits_of(table: &RecordBatch) -> Vec<Option<Vec<Option<u32>>>> {
    let vectors = table.column(1).as_fixed_size_list();
    let bits = |vector: ArrayRef| -> Vec<Option<u32>> {
        vector.as_primitive::<Float32Type>().iter().map(|x| x.map(f32::to_bits)).collect()
    };
    vectors.iter().map(|vector| vector.map(bits)).collect()
}

proptest! {
    #[test]
    fn tables_are_read_as_they_were_written(
        (dim, nullable, nullable_items, rows) in shapes(),
        piece_rows in 1_usize..200,
        group_rows in 1_usize..70,
    ) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("table.parquet");
        let table = table_of(dim, nullable, nullable_items, &rows);
        let properties = WriterProperties::builder();
        let properties = properties.set_max_row_group_row_count(Some(group_rows));
        write(&path, &table, piece_rows, properties);
        let (found, groups) = read(&path);
        let (schema, found_schema) = (table.schema(), found.schema());
        prop_assert_eq!(found_schema.fields(), schema.fields());
        prop_assert_eq!(bits_of(&found), bits_of(&table));
        for column in [0, 2] {
            prop_assert_eq!(found.column(column), table.column(column));
        }
        let full = groups.iter().rev().skip(1).all(|rows| *rows == group_rows);
        prop_assert!(full && groups.last() <= Some(&group_rows), "{:?}", groups);
    }
}

/// A table of distinct vectors without nulls.
fn counted(rows: usize, dim: usize) -> RecordBatch {
    let components = Float32Array::from_iter_values((0..rows * dim).map(|at| at as f32));
    table(vectors(dim, components, None, false), false)
}

#[test]
fn long_vectors_are_written_in_pieces() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.parquet");
    let table = counted(9, 65_536);
    write(&path, &table, 9, WriterProperties::builder());
    let (found, groups) = read(&path);
    assert!(bits_of(&found) == bits_of(&table));
    assert_eq!(groups, [9]);
}

#[test]
fn row_groups_end_by_bytes() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("table.parquet");
    let table = counted(500, 256);
    let properties = WriterProperties::builder().set_max_row_group_bytes(Some(100 << 10));
    write(&path, &table, 30, properties);
    let (found, groups) = read(&path);
    assert!(bits_of(&found) == bits_of(&table));
    // A kibibyte for each vector, and some bytes for the rest of the row.
    assert!(groups.len() >= 5 && groups.iter().all(|rows| *rows <= 100), "{groups:?}");
}
