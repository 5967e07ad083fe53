//! [`Output`]: the file that is written, whatever its format.

use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, RecordBatch};
use arrow_schema::Schema;

use super::columns::TableColumns;
use super::headers::Shape;
use super::json_lines::{JsonLinesFile, is_held};
use super::rebatch::Rebatcher;
use super::vectors::VectorsFile;
use super::{ConvertError, OutputFormat};
use crate::parquet::WriteTableError;
use crate::schema::BATCH_ROWS;
use crate::table_file::{TableFile, TableFormat};

/// Bytes of vectors in a batch of files whose batches have no fixed length.
pub(super) const BATCH_BYTES_MAX: usize = 128 << 20;
/// Bytes of vectors that are taken at once where a file has no batches: they stay near the processor.
const TAKEN_BYTES: usize = 4 << 20;

/// The file that is written, whatever its format.
pub(super) struct Output<'a> {
    path: &'a Path,
    kind: Kind,
}

enum Kind {
    Table { file: TableFile, columns: TableColumns, rebatcher: Option<Rebatcher> },
    JsonLines { file: JsonLinesFile, columns: TableColumns },
    Vectors(VectorsFile),
}

/// What is going to be written.
pub(super) struct Contents<'a> {
    pub(super) format: OutputFormat,
    pub(super) schema: &'a Schema,
    /// Where the vectors stand among the columns.
    pub(super) vector: usize,
    pub(super) shape: Shape,
}

impl<'a> Output<'a> {
    /// Begins a file that takes its place at `path` when finished.
    pub(super) fn create(path: &'a Path, contents: &Contents<'_>) -> Result<Self, WriteTableError> {
        let Contents { format, schema, vector, shape } = *contents;
        let table = |format| {
            let columns = TableColumns::new(schema, vector, shape, Some(format));
            let file = TableFile::create(path, format, columns.schema())?;
            let rebatcher = (format == TableFormat::Arrow)
                .then(|| Rebatcher::new(Arc::clone(columns.schema()), batch_rows(&columns, shape)));
            Ok(Kind::Table { file, columns, rebatcher })
        };
        let kind = match format {
            OutputFormat::Arrow => table(TableFormat::Arrow)?,
            OutputFormat::Parquet => table(TableFormat::Parquet)?,
            OutputFormat::JsonLines => {
                let columns = TableColumns::new(schema, vector, shape, None);
                Kind::JsonLines { file: JsonLinesFile::create(path, columns.schema())?, columns }
            }
            _ => Kind::Vectors(VectorsFile::create(path, format, shape, schema.metadata())?),
        };
        Ok(Self { path, kind })
    }

    /// Returns how many rows are best written at once.
    pub(super) fn batch_rows(&self, shape: Shape) -> usize {
        match &self.kind {
            Kind::Table { rebatcher: Some(rebatcher), .. } => rebatcher.rows(),
            _ => (TAKEN_BYTES / shape.row_bytes()).clamp(1, BATCH_ROWS),
        }
    }

    /// Appends the rows of a batch, whose vectors have these components.
    pub(super) fn write(
        &mut self,
        batch: &RecordBatch,
        components: ArrayRef,
        first_row: u64,
    ) -> Result<(), WriteTableError> {
        let encode = |reason| WriteTableError::Encode { path: self.path.into(), reason };
        match &mut self.kind {
            Kind::Table { file, columns, rebatcher } => {
                let batch = columns.batch(batch, components, first_row).map_err(encode)?;
                match rebatcher {
                    None => file.write(&batch),
                    Some(rebatcher) => {
                        let full = rebatcher.push(&batch).map_err(encode)?;
                        full.iter().try_for_each(|batch| file.write(batch))
                    }
                }
            }
            Kind::JsonLines { file, columns } => {
                file.write(&columns.batch(batch, components, first_row).map_err(encode)?)
            }
            Kind::Vectors(file) => file.write(&components),
        }
    }

    /// Writes what is left and publishes the file.
    pub(super) fn finish(self, rows: u64) -> Result<(), WriteTableError> {
        match self.kind {
            Kind::Table { mut file, columns, rebatcher } => {
                let last = rebatcher.map_or(Ok(None), |mut rebatcher| rebatcher.take());
                let last = last
                    .map_err(|reason| WriteTableError::Encode { path: self.path.into(), reason })?;
                if let Some(last) = last {
                    file.write(&last)?;
                }
                file.finish(columns.is_ours().then_some(rows))
            }
            Kind::JsonLines { file, .. } => file.finish(),
            Kind::Vectors(file) => file.finish(),
        }
    }
}

/// Returns how many rows a batch has; those of our files have a fixed number.
fn batch_rows(columns: &TableColumns, shape: Shape) -> usize {
    if columns.is_ours() {
        return BATCH_ROWS;
    }
    (BATCH_BYTES_MAX / shape.row_bytes()).clamp(1, BATCH_ROWS)
}

/// Refuses columns that the format cannot hold.
pub(super) fn check_columns(input: &Path, contents: &Contents<'_>) -> Result<(), ConvertError> {
    if contents.format != OutputFormat::JsonLines {
        return Ok(());
    }
    match contents.schema.fields().iter().find(|field| !is_held(field.data_type())) {
        None => Ok(()),
        Some(field) => Err(ConvertError::ColumnNotHeld {
            path: input.into(),
            column: field.name().clone(),
            found: field.data_type().to_string(),
            format: contents.format,
        }),
    }
}
