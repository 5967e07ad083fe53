//! The input with its clusters beside it: [`annotate`].
//!
//! Every row and column of the files is read again, batch by batch, and written with four more
//! columns, also the rows that the corpus skipped.

use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::builder::{BooleanBuilder, Float64Builder, UInt64Builder};
use arrow_array::{ArrayRef, RecordBatch, UInt64Array};
use arrow_schema::{DataType, Field, Schema, SchemaRef};
use memfold_index::{Progress, Row};

use super::is_same_file;
use super::table_file::{TableFile, TableFormat, stored_column, stored_field};
use crate::DataError;
use crate::read::corpus::Corpus;
use crate::read::format::VectorFormat;
use crate::read::{DECODE_ROWS, Source};
use crate::schema::{Column, key};

#[cfg(test)]
mod tests;

/// Writes all rows and columns of the corpus' files to `output` with the columns of
/// [`COLUMN_NAMES`](COLUMN_NAMES) after them, and returns how many rows it wrote.
///
/// `cluster` is the ordinal of the survivor; it, `cluster_size` and `cluster_similarity` are null for
/// rows in no cluster of two or more. `is_survivor` is true for these, so that it alone selects what
/// remains. The extension tells the format, Parquet or Arrow IPC; types and metadata are kept, except
/// that dictionaries of texts become texts in Arrow. Rows of npy files get a column `row`, their
/// ordinal, and `vector`. Reads and writes batch by batch.
///
/// # Errors
/// Before anything is written: when the extension tells no format, the copy would replace an input,
/// the inputs have different columns or one of the added names. After that: when reading or writing
/// fails or the caller asks to stop; the file's place then holds what it held before.
pub fn annotate(
    corpus: &Corpus,
    output: &Path,
    membership: &dyn Fn(Row) -> Option<Membership>,
    progress: &dyn Progress,
) -> Result<u64, DataError> {
    let format = format_of(output)?;
    let schema = copy_schema(corpus, output, format)?;
    let file = TableFile::create(output, format, schema.schema())?;
    let run = Run { corpus, output, schema, membership, progress };
    progress.begin("annotate", Some(corpus.rows()));
    let written = run.write(file);
    progress.end();
    written
}

/// Finds out whether [`annotate`] could begin: everything that it looks at before it writes.
///
/// # Errors
/// When the extension tells no format, the copy would replace an input, or the inputs have different
/// columns or one of the added names.
pub fn check(corpus: &Corpus, output: &Path) -> Result<(), DataError> {
    copy_schema(corpus, output, format_of(output)?).map(drop)
}

/// Returns the columns of the copy once all inputs agree on theirs.
fn copy_schema(
    corpus: &Corpus,
    output: &Path,
    format: TableFormat,
) -> Result<CopySchema, DataError> {
    let mut common: Option<CommonSchema> = None;
    for (path, source) in corpus.sources() {
        if is_same_file(path, output) {
            let (found, advice) =
                ("the copy would replace an input".into(), Some("give the copy another name"));
            return Err(DataError::Output { path: output.into(), found, advice });
        }
        match &mut common {
            None => common = Some(CommonSchema::new(source, path)?),
            Some(common) => common.add(source, path)?,
        }
    }
    Ok(common.expect("a corpus has at least one file").copy_schema(format))
}

/// One copy being written.
struct Run<'a> {
    corpus: &'a Corpus,
    output: &'a Path,
    schema: CopySchema,
    membership: &'a dyn Fn(Row) -> Option<Membership>,
    progress: &'a dyn Progress,
}

impl Run<'_> {
    fn write(&self, mut copy: TableFile) -> Result<u64, DataError> {
        let mut rows_written = 0;
        for (path, source) in self.corpus.sources() {
            let expected = rows_written + source.row_count() as u64;
            self.write_file(source, &mut copy, &mut rows_written)?;
            if rows_written != expected {
                return Err(DataError::Changed { path: path.into() });
            }
        }
        copy.finish(None)?;
        Ok(rows_written)
    }

    fn write_file(
        &self,
        source: &dyn Source,
        copy: &mut TableFile,
        rows_written: &mut u64,
    ) -> Result<(), DataError> {
        let positions: Vec<usize> = (0..source.schema().fields().len()).collect();
        for batch in source.batches(&positions, DECODE_ROWS)? {
            if self.progress.cancelled() {
                return Err(DataError::Cancelled);
            }
            let batch = batch?;
            let rows = batch.num_rows() as u64;
            let ordinals = *rows_written..*rows_written + rows;
            let added = added_columns(self.corpus, ordinals.clone(), self.membership);
            let ordinals = self.schema.has_ordinals().then(|| ordinal_column(ordinals));
            let batch = self
                .schema
                .batch(ordinals, &batch, added)
                .map_err(|found| DataError::encode(self.output, found))?;
            copy.write(&batch)?;
            *rows_written += rows;
            self.progress.advance(rows);
        }
        Ok(())
    }
}

/// Extensions that tell a format.
const EXTENSIONS: &str = ".parquet, .pq, .arrow, .ipc or .feather";

/// Returns the format that the name of the copy tells.
fn format_of(path: &Path) -> Result<TableFormat, DataError> {
    match VectorFormat::of_extension(path) {
        Some(VectorFormat::Columns) => Ok(TableFormat::Arrow),
        Some(VectorFormat::Parquet) => Ok(TableFormat::Parquet),
        _ => {
            let found = format!("unknown extension, expected {EXTENSIONS}");
            Err(DataError::format(path, found))
        }
    }
}

/// The columns of the annotated copy.
struct CopySchema {
    schema: SchemaRef,
    /// Whether ordinals come first: the rows of npy files have no other name.
    has_ordinals: bool,
    format: TableFormat,
}

/// The columns of the inputs so far, which are the same.
struct CommonSchema {
    first: PathBuf,
    is_bare: bool,
    fields: Vec<Field>,
    schema: SchemaRef,
    file_count: usize,
}

impl CommonSchema {
    fn new(file: &dyn Source, path: &Path) -> Result<Self, DataError> {
        let is_bare = file.is_bare();
        let schema = Arc::clone(file.schema());
        for column in COLUMN_NAMES {
            if schema.index_of(column).is_ok() {
                return Err(DataError::Output {
                    path: path.into(),
                    found: format!("there is a column {column:?} already"),
                    advice: Some(
                        "rename or drop the column first; it may come from an earlier run",
                    ),
                });
            }
        }
        let fields = schema.fields().iter().map(|field| Field::clone(field)).collect();
        Ok(Self { first: path.into(), is_bare, fields, schema, file_count: 1 })
    }

    /// Adds a file, which must have the same columns; a column may hold nulls if it may in one file.
    fn add(&mut self, file: &dyn Source, path: &Path) -> Result<(), DataError> {
        let differ = |found: String, expected: String| DataError::Differs {
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
                return Err(DataError::Differs {
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
    fn copy_schema(self, format: TableFormat) -> CopySchema {
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
    const fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    const fn has_ordinals(&self) -> bool {
        self.has_ordinals
    }

    /// Returns a batch of the copy from a batch of the input, with other columns around it.
    fn batch(
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

/// The columns that are added, in this order after those of the input.
pub const COLUMN_NAMES: [&str; 4] =
    ["cluster", "cluster_size", "cluster_similarity", "is_survivor"];

/// The cluster of two or more that a row belongs to.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Membership {
    /// The row that stays.
    pub survivor: Row,
    /// Rows in the cluster.
    pub size: u64,
    /// The row's canonical similarity to the survivor.
    pub similarity: f64,
}

/// Returns the fields of the columns that are added.
fn added_fields() -> Vec<Field> {
    let [cluster, size, similarity, is_survivor] = COLUMN_NAMES;
    vec![
        Field::new(cluster, DataType::UInt64, true),
        Field::new(size, DataType::UInt64, true),
        Field::new(similarity, DataType::Float64, true),
        Field::new(is_survivor, DataType::Boolean, false),
    ]
}

/// Returns the ordinals themselves as a column.
fn ordinal_column(ordinals: Range<u64>) -> ArrayRef {
    Arc::new(UInt64Array::from_iter_values(ordinals))
}

/// Returns the columns that are added for the rows at `ordinals`; a row that was skipped or is in no
/// cluster is its own survivor.
fn added_columns(
    corpus: &Corpus,
    ordinals: Range<u64>,
    membership: &dyn Fn(Row) -> Option<Membership>,
) -> Vec<ArrayRef> {
    let mut clusters = UInt64Builder::new();
    let mut sizes = UInt64Builder::new();
    let mut similarities = Float64Builder::new();
    let mut survivors = BooleanBuilder::new();
    for ordinal in ordinals {
        let row = corpus.row_at(ordinal);
        let member = row.and_then(membership);
        clusters.append_option(member.map(|member| corpus.ordinal(member.survivor)));
        sizes.append_option(member.map(|member| member.size));
        similarities.append_option(member.map(|member| member.similarity));
        survivors.append_value(member.is_none_or(|member| Some(member.survivor) == row));
    }
    vec![
        Arc::new(clusters.finish()),
        Arc::new(sizes.finish()),
        Arc::new(similarities.finish()),
        Arc::new(survivors.finish()),
    ]
}
