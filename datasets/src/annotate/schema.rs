//! [`CopySchema`]: the columns of the annotated copy.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::{DataType, Field, Schema, SchemaRef};

use super::columns::{COLUMN_NAMES, added_fields};
use super::error::AnnotateError;
use crate::input::InputFile;
use crate::schema::{Column, key};
use crate::table_file::{TableFormat, stored_column, stored_field};

/// The columns of the annotated copy.
pub(super) struct CopySchema {
    schema: SchemaRef,
    /// Whether ordinals come first: the rows of npy files have no other name.
    has_ordinals: bool,
    format: TableFormat,
}

/// The columns of the inputs so far, which are the same.
pub(super) struct CommonSchema {
    first: PathBuf,
    is_bare: bool,
    fields: Vec<Field>,
    schema: SchemaRef,
    file_count: usize,
}

impl CommonSchema {
    pub(super) fn new(file: &InputFile, path: &Path) -> Result<Self, AnnotateError> {
        let is_bare = file.is_bare();
        let schema = Arc::clone(file.schema());
        for column in COLUMN_NAMES {
            if schema.index_of(column).is_ok() {
                return Err(AnnotateError::ColumnExists { path: path.into(), column });
            }
        }
        let fields = schema.fields().iter().map(|field| Field::clone(field)).collect();
        Ok(Self { first: path.into(), is_bare, fields, schema, file_count: 1 })
    }

    /// Adds a file, which must have the same columns; a column may hold nulls if it may in one file.
    pub(super) fn add(&mut self, file: &InputFile, path: &Path) -> Result<(), AnnotateError> {
        let differ = |found: String, expected: String| AnnotateError::SchemasDiffer {
            path: path.into(),
            found,
            first: self.first.clone(),
            expected,
        };
        let others = file.schema().fields();
        if others.len() != self.fields.len() {
            let columns = |count: usize| format!("{count} columns");
            return Err(differ(columns(others.len()), columns(self.fields.len())));
        }
        for (at, (other, own)) in others.iter().zip(&mut self.fields).enumerate() {
            if other.name() != own.name() || other.data_type() != own.data_type() {
                let name = |field: &Field| {
                    format!("column {at} is {:?} ({})", field.name(), field.data_type())
                };
                return Err(AnnotateError::SchemasDiffer {
                    path: path.into(),
                    found: name(other),
                    first: self.first.clone(),
                    expected: name(own),
                });
            }
            own.set_nullable(own.is_nullable() || other.is_nullable());
        }
        self.file_count += 1;
        Ok(())
    }

    /// Returns the columns of the copy.
    pub(super) fn copy_schema(self, format: TableFormat) -> CopySchema {
        let mut fields = Vec::new();
        if self.is_bare {
            fields.push(Field::new(Column::Row.name(), DataType::UInt64, false));
        }
        fields.extend(self.fields.into_iter().map(|field| stored_field(field, format)));
        fields.extend(added_fields());
        let mut metadata = self.schema.metadata().clone();
        if self.file_count > 1 {
            // What one file said about its own length is wrong for all of them.
            metadata.remove(key::ROW_COUNT);
        }
        let schema = Arc::new(Schema::new_with_metadata(fields, metadata));
        CopySchema { schema, has_ordinals: self.is_bare, format }
    }
}

impl CopySchema {
    pub(super) const fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    pub(super) const fn has_ordinals(&self) -> bool {
        self.has_ordinals
    }

    /// Returns a batch of the copy from a batch of the input, with other columns around it.
    pub(super) fn batch(
        &self,
        ordinals: Option<ArrayRef>,
        input: &RecordBatch,
        added: Vec<ArrayRef>,
    ) -> Result<RecordBatch, String> {
        let mut columns: Vec<ArrayRef> = ordinals.into_iter().collect();
        columns.extend(input.columns().iter().map(|column| stored_column(column, self.format)));
        columns.extend(added);
        RecordBatch::try_new(Arc::clone(&self.schema), columns).map_err(|error| error.to_string())
    }
}
