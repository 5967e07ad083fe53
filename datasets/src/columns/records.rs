//! The columns beside the vectors, decoded: [`TextColumn`], [`Records`].

use arrow_array::cast::AsArray;
use arrow_array::types::{Float64Type, Int64Type, TimestampMicrosecondType};
use arrow_array::{Array, ArrayRef, RecordBatch, StringArray};
use memfold_index::Row;

use crate::schema::{BATCH_ROWS, Column};

/// A column of text, lent from the map.
#[derive(Debug, Clone)]
pub struct TextColumn {
    batches: Vec<StringArray>,
}

impl TextColumn {
    pub(crate) fn new(batches: impl Iterator<Item = StringArray>) -> Self {
        Self { batches: batches.collect() }
    }

    /// Returns the text at `row`; `None` where it is null.
    ///
    /// # Panics
    /// When `row` is not smaller than the number of rows.
    #[must_use]
    pub fn get(&self, row: Row) -> Option<&str> {
        text(&self.batches[row.index() / BATCH_ROWS], row.index() % BATCH_ROWS)
    }

    /// Returns the texts in row order.
    pub fn iter(&self) -> impl Iterator<Item = Option<&str>> {
        self.batches.iter().flat_map(|batch| batch.iter())
    }
}

/// All columns beside the vectors, lent from the map.
#[derive(Debug, Clone)]
pub struct Records {
    batches: Vec<RecordBatch>,
}

/// One row as read back.
#[derive(Debug, Clone, PartialEq)]
pub struct MappedRecord<'a> {
    /// The store's row number.
    pub rowid: i64,
    /// The store's id.
    pub id: &'a str,
    /// Microseconds since 1970 in UTC.
    pub created_at: Option<i64>,
    /// Categories in the store's order.
    pub categories: Vec<Box<str>>,
    /// As stored.
    pub importance: f64,
    /// How often it was read.
    pub access_count: i64,
    /// Where it came from.
    pub source: &'a str,
    /// The embedding model.
    pub model: &'a str,
    /// The content, where the file has it.
    pub text: Option<&'a str>,
    /// Provenance as JSON, where the file has it.
    pub lineage: Option<&'a str>,
}

impl Records {
    pub(crate) const fn new(batches: Vec<RecordBatch>) -> Self {
        Self { batches }
    }

    /// Returns the record at `row`.
    ///
    /// # Panics
    /// When `row` is not smaller than the number of rows.
    #[must_use]
    pub fn record(&self, row: Row) -> MappedRecord<'_> {
        let batch = &self.batches[row.index() / BATCH_ROWS];
        let i = row.index() % BATCH_ROWS;
        let required = |column| string_at(batch, column, i).expect("the column has no nulls");
        let created_at =
            column(batch, Column::CreatedAt).as_primitive::<TimestampMicrosecondType>();
        let categories = column(batch, Column::Categories).as_list::<i32>().value(i);
        MappedRecord {
            rowid: column(batch, Column::Rowid).as_primitive::<Int64Type>().value(i),
            id: required(Column::Id),
            created_at: created_at.is_valid(i).then(|| created_at.value(i)),
            categories: categories.as_string::<i32>().iter().flatten().map(Into::into).collect(),
            importance: column(batch, Column::Importance).as_primitive::<Float64Type>().value(i),
            access_count: column(batch, Column::AccessCount).as_primitive::<Int64Type>().value(i),
            source: required(Column::Source),
            model: required(Column::Model),
            text: string_at(batch, Column::Text, i),
            lineage: string_at(batch, Column::Lineage, i),
        }
    }
}

fn column(batch: &RecordBatch, column: Column) -> &ArrayRef {
    batch.column_by_name(column.name()).expect("the set was recognised by its column names")
}

fn string_at(batch: &RecordBatch, column: Column, i: usize) -> Option<&str> {
    batch.column_by_name(column.name()).and_then(|array| text(array.as_string(), i))
}

fn text(array: &StringArray, i: usize) -> Option<&str> {
    array.is_valid(i).then(|| array.value(i))
}
