//! [`BatchBuilder`]: rows gathered until they fill a record batch.

use std::sync::Arc;

use arrow_array::builder::{
    Float64Builder, Int64Builder, ListBuilder, StringBuilder, TimestampMicrosecondBuilder,
};
use arrow_array::{ArrayRef, FixedSizeListArray, Float32Array, RecordBatch, UInt32Array};
use arrow_schema::{ArrowError, SchemaRef};
use memfold_index::Row;

use super::write::{ColumnRecord, WriteColumnsError, first_not_finite};
use crate::schema::{ColumnSet, ColumnsMeta, DIM_MAX, category_field, component_field};

/// Rows checked and gathered until they fill a record batch.
pub(crate) struct BatchBuilder {
    schema: SchemaRef,
    dim: u32,
    /// Rows of a full batch.
    batch_rows: usize,
    first_row: u32,
    row_count: u32,
    vectors: Vec<f32>,
    fields: Option<FieldBuilders>,
}

/// The columns beside `row` and `vector`.
struct FieldBuilders {
    rowid: Int64Builder,
    id: StringBuilder,
    created_at: TimestampMicrosecondBuilder,
    categories: ListBuilder<StringBuilder>,
    importance: Float64Builder,
    access_count: Int64Builder,
    source: StringBuilder,
    model: StringBuilder,
    text: Option<StringBuilder>,
    lineage: Option<StringBuilder>,
}

impl BatchBuilder {
    /// Begins the first batch of a file; each has `batch_rows`, only the last one fewer.
    pub(crate) fn new(meta: &ColumnsMeta, batch_rows: usize) -> Result<Self, WriteColumnsError> {
        if meta.dim == 0 || meta.dim as usize > DIM_MAX {
            return Err(WriteColumnsError::Dimension { found: meta.dim });
        }
        let fields = match meta.columns {
            ColumnSet::Vectors => None,
            ColumnSet::Records { text, lineage } => Some(FieldBuilders::new(text, lineage)),
        };
        let schema = Arc::new(meta.arrow_schema());
        Ok(Self {
            schema,
            dim: meta.dim,
            batch_rows,
            first_row: 0,
            row_count: 0,
            vectors: Vec::new(),
            fields,
        })
    }

    pub(crate) const fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    /// Returns how many rows were pushed, in all batches.
    pub(crate) const fn row_count(&self) -> u32 {
        self.row_count
    }

    /// Tells whether the batch has all its rows.
    const fn is_full(&self) -> bool {
        (self.row_count - self.first_row) as usize == self.batch_rows
    }

    /// Tells whether the batch has no row.
    const fn is_empty(&self) -> bool {
        self.row_count == self.first_row
    }

    /// Appends a row with all its columns and returns its number.
    pub(crate) fn push(&mut self, record: &ColumnRecord<'_>) -> Result<Row, WriteColumnsError> {
        self.check(record.vector)?;
        let Some(fields) = &mut self.fields else {
            return Err(WriteColumnsError::VectorExpected { row: self.row_count });
        };
        fields.push(record);
        Ok(self.append(record.vector))
    }

    /// Appends a bare vector and returns its number.
    pub(crate) fn push_vector(&mut self, vector: &[f32]) -> Result<Row, WriteColumnsError> {
        self.check(vector)?;
        if self.fields.is_some() {
            return Err(WriteColumnsError::RecordExpected { row: self.row_count });
        }
        Ok(self.append(vector))
    }

    fn check(&self, vector: &[f32]) -> Result<(), WriteColumnsError> {
        let row = self.row_count;
        if vector.len() != self.dim as usize {
            let (found, expected) = (vector.len(), self.dim);
            return Err(WriteColumnsError::VectorLength { row, found, expected });
        }
        if let Some(component) = first_not_finite(vector) {
            return Err(WriteColumnsError::NotFinite { row, component, value: vector[component] });
        }
        if row == u32::MAX - 1 {
            return Err(WriteColumnsError::TooManyRows);
        }
        Ok(())
    }

    fn append(&mut self, vector: &[f32]) -> Row {
        self.vectors.extend_from_slice(vector);
        self.row_count += 1;
        Row(self.row_count - 1)
    }

    /// Returns the gathered rows when they fill a batch, and begins the next.
    pub(crate) fn take_full(&mut self) -> Option<Result<RecordBatch, ArrowError>> {
        self.is_full().then(|| self.take())
    }

    /// Returns the rows that fill no batch, if there are any.
    pub(crate) fn take_rest(&mut self) -> Option<Result<RecordBatch, ArrowError>> {
        (!self.is_empty()).then(|| self.take())
    }

    /// Returns the gathered rows as a batch and begins the next one.
    fn take(&mut self) -> Result<RecordBatch, ArrowError> {
        let rows = UInt32Array::from_iter_values(self.first_row..self.row_count);
        let values = Float32Array::from(std::mem::take(&mut self.vectors));
        let vectors = FixedSizeListArray::try_new(
            component_field(),
            self.dim.cast_signed(),
            Arc::new(values),
            None,
        )?;
        let mut columns: Vec<ArrayRef> = vec![Arc::new(rows)];
        columns.extend(self.fields.as_mut().into_iter().flat_map(FieldBuilders::finish));
        columns.push(Arc::new(vectors));
        self.first_row = self.row_count;
        RecordBatch::try_new(Arc::clone(&self.schema), columns)
    }
}

impl FieldBuilders {
    fn new(text: bool, lineage: bool) -> Self {
        Self {
            rowid: Int64Builder::new(),
            id: StringBuilder::new(),
            created_at: TimestampMicrosecondBuilder::new().with_timezone("UTC"),
            categories: ListBuilder::new(StringBuilder::new()).with_field(category_field()),
            importance: Float64Builder::new(),
            access_count: Int64Builder::new(),
            source: StringBuilder::new(),
            model: StringBuilder::new(),
            text: text.then(StringBuilder::new),
            lineage: lineage.then(StringBuilder::new),
        }
    }

    fn push(&mut self, record: &ColumnRecord<'_>) {
        self.rowid.append_value(record.rowid);
        self.id.append_value(record.id);
        self.created_at.append_option(record.created_at);
        for category in record.categories {
            self.categories.values().append_value(category);
        }
        self.categories.append(true);
        self.importance.append_value(record.importance);
        self.access_count.append_value(record.access_count);
        self.source.append_value(record.source);
        self.model.append_value(record.model);
        if let Some(text) = &mut self.text {
            text.append_option(record.text);
        }
        if let Some(lineage) = &mut self.lineage {
            lineage.append_option(record.lineage);
        }
    }

    fn finish(&mut self) -> Vec<ArrayRef> {
        let mut columns: Vec<ArrayRef> = vec![
            Arc::new(self.rowid.finish()),
            Arc::new(self.id.finish()),
            Arc::new(self.created_at.finish()),
            Arc::new(self.categories.finish()),
            Arc::new(self.importance.finish()),
            Arc::new(self.access_count.finish()),
            Arc::new(self.source.finish()),
            Arc::new(self.model.finish()),
        ];
        for text in [&mut self.text, &mut self.lineage].into_iter().flatten() {
            columns.push(Arc::new(text.finish()));
        }
        columns
    }
}
