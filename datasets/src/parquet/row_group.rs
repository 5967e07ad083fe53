//! [`RowGroup`]: rows encoded column by column, in memory until the group is full.

use arrow_array::RecordBatch;
use arrow_schema::SchemaRef;
use parquet::arrow::arrow_writer::{ArrowColumnWriter, ArrowRowGroupWriterFactory, compute_leaves};
use parquet::errors::ParquetError;
use parquet::file::writer::SerializedFileWriter;

use super::vector_chunk::{VectorChunk, is_vectors};
use crate::publish::NewFile;

/// Rows that are written together.
pub(super) struct RowGroup {
    /// Those of each field of the schema.
    columns: Vec<FieldColumns>,
    row_count: usize,
}

/// The columns of one field.
enum FieldColumns {
    /// One for each leaf, which Arrow's encoder fills.
    Leaves(Vec<ArrowColumnWriter>),
    Vectors(Box<VectorChunk>),
}

impl RowGroup {
    /// Begins a group of `file`; vectors go into `memory`, which may come from a group before.
    pub(super) fn new(
        file: &SerializedFileWriter<NewFile>,
        factory: &ArrowRowGroupWriterFactory,
        schema: &SchemaRef,
        memory: Vec<u8>,
    ) -> Result<Self, ParquetError> {
        let stored = file.schema_descr();
        let mut memory = Some(memory);
        let mut columns: Vec<_> =
            schema.fields().iter().map(|_| FieldColumns::Leaves(Vec::new())).collect();
        let leaves = factory.create_column_writers(file.flushed_row_groups().len())?;
        for (at, leaf) in leaves.into_iter().enumerate() {
            let root = stored.get_column_root_idx(at);
            let column = stored.column(at);
            if is_vectors(schema.field(root), &column) {
                let memory = memory.take().unwrap_or_default();
                let chunk = VectorChunk::new(column, file.properties(), memory);
                columns[root] = FieldColumns::Vectors(Box::new(chunk));
            } else if let FieldColumns::Leaves(leaves) = &mut columns[root] {
                leaves.push(leaf);
            }
        }
        Ok(Self { columns, row_count: 0 })
    }

    pub(super) const fn row_count(&self) -> usize {
        self.row_count
    }

    /// Estimates the bytes that the rows take in the file.
    pub(super) fn bytes(&self) -> usize {
        let of_field = |columns: &FieldColumns| match columns {
            FieldColumns::Leaves(leaves) => {
                leaves.iter().map(ArrowColumnWriter::get_estimated_total_bytes).sum()
            }
            FieldColumns::Vectors(chunk) => chunk.bytes(),
        };
        self.columns.iter().map(of_field).sum()
    }

    /// Appends rows of the schema.
    pub(super) fn push(&mut self, batch: &RecordBatch) -> Result<(), ParquetError> {
        let schema = batch.schema_ref();
        for ((columns, field), array) in
            self.columns.iter_mut().zip(schema.fields()).zip(batch.columns())
        {
            match columns {
                FieldColumns::Vectors(chunk) => chunk.push(array)?,
                FieldColumns::Leaves(leaves) => {
                    let encoded = compute_leaves(field, array)?;
                    leaves
                        .iter_mut()
                        .zip(&encoded)
                        .try_for_each(|(leaf, values)| leaf.write(values))?;
                }
            }
        }
        self.row_count += batch.num_rows();
        Ok(())
    }

    /// Writes the group behind those before it; returns memory for the next.
    pub(super) fn write_to(
        self,
        file: &mut SerializedFileWriter<NewFile>,
    ) -> Result<Vec<u8>, ParquetError> {
        let mut memory = Vec::new();
        let mut group = file.next_row_group()?;
        for columns in self.columns {
            match columns {
                FieldColumns::Leaves(leaves) => leaves
                    .into_iter()
                    .try_for_each(|leaf| leaf.close()?.append_to_row_group(&mut group))?,
                FieldColumns::Vectors(chunk) => memory = chunk.append_to(&mut group)?,
            }
        }
        group.close()?;
        Ok(memory)
    }
}
