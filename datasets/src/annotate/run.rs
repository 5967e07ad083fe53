//! [`annotate`].

use std::path::Path;

use memfold_index::{Progress, Row};

use super::columns::{Membership, added_columns, ordinal_column};
use super::error::AnnotateError;
use super::output::format_of;
use super::schema::{CommonSchema, CopySchema};
use crate::corpus::Corpus;
use crate::parquet::WriteTableError;
use crate::table_file::{TableFile, TableFormat};

/// Writes all rows and columns of the corpus' files to `output` with the columns of
/// [`COLUMN_NAMES`](super::COLUMN_NAMES) after them, and returns how many rows it wrote.
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
) -> Result<u64, AnnotateError> {
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
pub fn check(corpus: &Corpus, output: &Path) -> Result<(), AnnotateError> {
    copy_schema(corpus, output, format_of(output)?).map(drop)
}

/// Returns the columns of the copy once all inputs agree on theirs.
fn copy_schema(
    corpus: &Corpus,
    output: &Path,
    format: TableFormat,
) -> Result<CopySchema, AnnotateError> {
    let mut common: Option<CommonSchema> = None;
    for path in corpus.paths() {
        if is_same_file(path, output) {
            return Err(AnnotateError::OutputIsInput { path: output.into() });
        }
        let file = corpus.open_input(path)?;
        match &mut common {
            None => common = Some(CommonSchema::new(&file, path)?),
            Some(common) => common.add(&file, path)?,
        }
    }
    Ok(common.expect("a corpus has at least one file").copy_schema(format))
}

fn is_same_file(path: &Path, other: &Path) -> bool {
    let resolved = path.canonicalize().and_then(|path| Ok((path, other.canonicalize()?)));
    // A file that does not exist yet is no input.
    resolved.is_ok_and(|(path, other)| path == other)
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
    fn write(&self, mut copy: TableFile) -> Result<u64, AnnotateError> {
        let mut rows_written = 0;
        for (path, row_count) in self.corpus.row_counts() {
            let first_ordinal = rows_written;
            self.write_file(path, &mut copy, &mut rows_written)?;
            let found = rows_written - first_ordinal;
            if found != row_count {
                let expected = row_count;
                return Err(AnnotateError::Changed { path: path.into(), found, expected });
            }
        }
        copy.finish(None)?;
        Ok(rows_written)
    }

    fn write_file(
        &self,
        path: &Path,
        copy: &mut TableFile,
        rows_written: &mut u64,
    ) -> Result<(), AnnotateError> {
        let file = self.corpus.open_input(path)?;
        let positions: Vec<usize> = (0..file.schema().fields().len()).collect();
        for batch in file.batches(&positions)? {
            if self.progress.cancelled() {
                return Err(AnnotateError::Cancelled);
            }
            let batch = batch?;
            let rows = batch.num_rows() as u64;
            let ordinals = *rows_written..*rows_written + rows;
            let added = added_columns(self.corpus, ordinals.clone(), self.membership);
            let ordinals = self.schema.has_ordinals().then(|| ordinal_column(ordinals));
            let batch = self
                .schema
                .batch(ordinals, &batch, added)
                .map_err(|reason| WriteTableError::Encode { path: self.output.into(), reason })?;
            copy.write(&batch)?;
            *rows_written += rows;
            self.progress.advance(rows);
        }
        Ok(())
    }
}
