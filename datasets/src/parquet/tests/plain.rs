//! Lists of all kinds, written by Arrow in pages of all kinds, come out as they were written.

use crate::DataError;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{
    Array, ArrayRef, FixedSizeListArray, Float32Array, Int32Array, LargeListArray, ListArray,
    RecordBatch, StringArray,
};
use arrow_buffer::{NullBuffer, OffsetBuffer};
use arrow_schema::{DataType, Field, Schema};
use arrow_select::concat::concat_batches;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, Encoding};
use parquet::file::properties::{WriterProperties, WriterVersion};
use proptest::prelude::*;

use crate::input::InputBytes;
use crate::parquet::ParquetTable;
use crate::read::Source;

/// How the lists of a file are typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Lists {
    Fixed,
    Small,
    Large,
}

/// A file to be written.
#[derive(Debug, Clone)]
struct Made {
    lists: Lists,
    dim: usize,
    rows: usize,
    group_rows: usize,
    page_bytes: usize,
    has_others: bool,
    is_nullable: bool,
    is_v2: bool,
    is_compressed: bool,
    is_dictionary: bool,
    /// A row that is null or has another length, where lists may.
    odd_row: Option<usize>,
}

impl Made {
    fn plain(lists: Lists, dim: usize, rows: usize) -> Self {
        Self {
            lists,
            dim,
            rows,
            group_rows: rows,
            page_bytes: 1 << 20,
            has_others: true,
            is_nullable: false,
            is_v2: false,
            is_compressed: false,
            is_dictionary: false,
            odd_row: None,
        }
    }

    fn vectors(&self) -> ArrayRef {
        let odd_length = if self.dim == 1 { 2 } else { self.dim - 1 };
        let length = |row| match self.odd_row {
            Some(odd) if odd == row && self.lists != Lists::Fixed => odd_length,
            _ => self.dim,
        };
        let lengths: Vec<usize> = (0..self.rows).map(length).collect();
        let values = (0..lengths.iter().sum::<usize>()).map(|i| (i as f32).sin());
        let values: ArrayRef = Arc::new(values.collect::<Float32Array>());
        let item = Arc::new(Field::new("item", DataType::Float32, self.is_nullable));
        let nulls = self.odd_row.filter(|_| self.is_nullable);
        let nulls = nulls.map(|odd| NullBuffer::from_iter((0..self.rows).map(|row| row != odd)));
        match self.lists {
            Lists::Fixed => Arc::new(FixedSizeListArray::new(item, self.dim as i32, values, nulls)),
            Lists::Small => {
                Arc::new(ListArray::new(item, OffsetBuffer::from_lengths(lengths), values, nulls))
            }
            Lists::Large => {
                let offsets = OffsetBuffer::from_lengths(lengths);
                Arc::new(LargeListArray::new(item, offsets, values, nulls))
            }
        }
    }

    fn batch(&self) -> RecordBatch {
        let vectors = self.vectors();
        let field = Field::new("vector", vectors.data_type().clone(), self.is_nullable);
        let (mut fields, mut columns) = (vec![field], vec![vectors]);
        if self.has_others {
            let numbers = Int32Array::from_iter_values(0..self.rows as i32);
            let texts = (0..self.rows).map(|row| (row % 3 != 1).then(|| format!("text {row}")));
            fields.insert(0, Field::new("n", DataType::Int32, false));
            columns.insert(0, Arc::new(numbers));
            fields.push(Field::new("t", DataType::Utf8, true));
            columns.push(Arc::new(texts.collect::<StringArray>()));
        }
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).unwrap()
    }

    fn write(&self, path: &Path) {
        let version = match self.is_v2 {
            true => WriterVersion::PARQUET_2_0,
            false => WriterVersion::PARQUET_1_0,
        };
        let compression = match self.is_compressed {
            true => Compression::SNAPPY,
            false => Compression::UNCOMPRESSED,
        };
        let properties = WriterProperties::builder()
            .set_writer_version(version)
            .set_compression(compression)
            .set_encoding(Encoding::PLAIN)
            .set_dictionary_enabled(self.is_dictionary)
            .set_max_row_group_row_count(Some(self.group_rows))
            .set_data_page_size_limit(self.page_bytes)
            .set_write_batch_size(64)
            .build();
        let (batch, file) = (self.batch(), File::create(path).unwrap());
        let mut writer = ArrowWriter::try_new(file, batch.schema(), Some(properties)).unwrap();
        writer.write(&batch).unwrap();
        writer.close().unwrap();
    }
}

fn read(path: &Path, batch_rows: usize) -> Result<RecordBatch, DataError> {
    let table = ParquetTable::open(InputBytes::open(path)?)?;
    let positions: Vec<usize> = (0..table.schema().fields().len()).collect();
    let mut read = Vec::new();
    for batch in table.batches(&positions, batch_rows)? {
        let batch = batch?;
        assert!(batch.num_rows() <= batch_rows);
        read.push(batch);
    }
    let schema = read.first().map_or(Arc::clone(table.schema()), RecordBatch::schema);
    Ok(concat_batches(&schema, &read).unwrap())
}

#[test]
fn rows_of_several_groups_and_pages_come_out_whole() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    for lists in [Lists::Fixed, Lists::Small, Lists::Large] {
        for (dim, is_v2, is_compressed) in
            [(1, false, false), (3, true, false), (384, false, true), (100, true, true)]
        {
            let made = Made {
                group_rows: 400,
                page_bytes: 20_000,
                is_v2,
                is_compressed,
                is_nullable: is_v2,
                odd_row: is_v2.then_some(555),
                ..Made::plain(lists, dim, 1000)
            };
            made.write(&path);
            assert_eq!(read(&path, 300).unwrap(), made.batch(), "{made:?}");
        }
    }
}

fn made() -> impl Strategy<Value = Made> {
    let lists = prop_oneof![Just(Lists::Fixed), Just(Lists::Small), Just(Lists::Large)];
    let flags = prop::array::uniform5(any::<bool>());
    (lists, 1..40_usize, 1..300_usize, 1..300_usize, 64..9000_usize, flags).prop_flat_map(
        |(lists, dim, rows, group_rows, page_bytes, flags)| {
            let [has_others, is_nullable, is_v2, is_compressed, is_dictionary] = flags;
            prop::option::weighted(0.3, 0..rows).prop_map(move |odd_row| Made {
                lists,
                dim,
                rows,
                group_rows,
                page_bytes,
                has_others,
                is_nullable,
                is_v2,
                is_compressed,
                is_dictionary,
                odd_row,
            })
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    #[test]
    fn every_file_comes_out_as_it_was_written(made in made(), batch_rows in 1..400_usize) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("rows.parquet");
        made.write(&path);
        prop_assert_eq!(read(&path, batch_rows).unwrap(), made.batch());
    }
}

#[test]
fn no_flipped_bit_of_plain_pages_makes_it_panic() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rows.parquet");
    for (is_v2, is_nullable) in [(false, false), (true, true)] {
        let lists = if is_v2 { Lists::Small } else { Lists::Fixed };
        let made = Made {
            is_v2,
            is_nullable,
            has_others: is_v2,
            page_bytes: 100,
            ..Made::plain(lists, 5, 40)
        };
        made.write(&path);
        let bytes = std::fs::read(&path).unwrap();
        let mut errors = 0;
        // Five and eight have no common divisor: every bit of a byte has its turn.
        for position in (0..bytes.len() * 8).step_by(5) {
            let mut damaged = bytes.clone();
            damaged[position / 8] ^= 1 << (position % 8);
            std::fs::write(&path, &damaged).unwrap();
            errors += usize::from(read(&path, 16).is_err());
        }
        assert!(errors > 100, "{errors} errors");
    }
}
