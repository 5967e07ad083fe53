//! The input with its clusters beside it: [`annotate`].
//!
//! Every row and column of the files is read again, batch by batch, and written with four more
//! columns, also the rows that the corpus skipped.

use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, Float64Array, RecordBatch, UInt64Array};
use arrow_schema::{DataType, Field, FieldRef, Schema, SchemaRef};
use memfold_index::{Progress, Row};

use super::files::{TableFile, is_same_file, refused, stored_column, stored_field};
use crate::DataError;
use crate::read::VectorFormat;
use crate::read::corpus::Corpus;
use crate::read::{DECODE_ROWS, Source};
use crate::schema::{Column, key};

/// Writes all rows and columns of the corpus' files to `output` with the columns of
/// `COLUMN_NAMES` after them, and returns how many rows it wrote.
///
/// `cluster` is the ordinal of the survivor; it, `cluster_size` and `cluster_similarity` are null
/// for rows in no cluster of two or more. `is_survivor` is true for these, so that it alone selects
/// the remaining rows. The extension decides the format, Parquet or Arrow IPC; types and metadata
/// are kept, except that dictionaries of texts become texts in Arrow. Rows of npy files get a
/// column `row`, their ordinal, and `vector`. Reads and writes batch by batch.
///
/// # Errors
/// Before anything is written: when the extension tells no format, the copy would replace an input,
/// the inputs have different columns or one of the added names. After that: when reading or writing
/// fails or the caller cancels; the file's place then has its former content.
pub fn annotate(
    corpus: &Corpus,
    output: &Path,
    membership: &dyn Fn(Row) -> Option<Membership>,
    progress: &dyn Progress,
) -> Result<u64, DataError> {
    let copy = Copy::of(corpus, output)?;
    let file = TableFile::create(output, copy.format, &copy.schema)?;
    progress.begin("annotate", Some(corpus.rows()));
    let written = copy.write(file, membership, progress);
    progress.end();
    written
}

/// Finds out whether [`annotate`] could begin: runs all its checks before writing.
///
/// # Errors
/// When the extension tells no format, the copy would replace an input, or the inputs have
/// different columns or one of the added names.
pub fn check(corpus: &Corpus, output: &Path) -> Result<(), DataError> {
    Copy::of(corpus, output).map(drop)
}

/// An annotated copy: its columns, once all inputs agree on theirs.
struct Copy<'a> {
    corpus: &'a Corpus,
    format: VectorFormat,
    schema: SchemaRef,
    /// Whether ordinals come first: rows of bare vectors have no other name.
    has_ordinals: bool,
}

impl<'a> Copy<'a> {
    fn of(corpus: &'a Corpus, output: &Path) -> Result<Self, DataError> {
        let format = format_of(output)?;
        let mut sources = corpus.sources().peekable();
        let &(first, source) = sources.peek().expect("a corpus has at least one file");
        let (mut fields, has_ordinals) =
            (source.schema().fields().to_vec(), source.is_vectors_only());
        let (mut metadata, mut file_count) = (source.schema().metadata().clone(), 0);
        for (path, source) in sources {
            if is_same_file(path, output) {
                let (found, advice) =
                    ("the copy would replace an input", "give the copy another name");
                return Err(refused(output, found, advice));
            }
            add_columns(&mut fields, first, source, path)?;
            file_count += 1;
        }
        if let Some(added) = fields.iter().find(|field| COLUMN_NAMES.contains(&&**field.name())) {
            let found = format!("there is a column {:?} already", added.name());
            let advice = "rename or drop the column first; it may come from an earlier run";
            return Err(refused(first, &found, advice));
        }
        if file_count > 1 {
            // One file's statement about its length is wrong for all of them.
            metadata.remove(key::ROW_COUNT);
        }
        let ordinals = Field::new(Column::Row.name(), DataType::UInt64, false);
        let mut all: Vec<Field> = has_ordinals.then_some(ordinals).into_iter().collect();
        all.extend(fields.iter().map(|field| stored_field(Field::clone(field), format)));
        all.extend(added_fields());
        let schema = Arc::new(Schema::new_with_metadata(all, metadata));
        Ok(Self { corpus, format, schema, has_ordinals })
    }

    fn write(
        &self,
        mut file: TableFile,
        membership: &dyn Fn(Row) -> Option<Membership>,
        progress: &dyn Progress,
    ) -> Result<u64, DataError> {
        let mut rows_written = 0;
        for (path, source) in self.corpus.sources() {
            let expected = rows_written + source.row_count() as u64;
            let positions: Vec<usize> = (0..source.schema().fields().len()).collect();
            for batch in source.batches(&positions, DECODE_ROWS)? {
                if progress.cancelled() {
                    return Err(DataError::Cancelled);
                }
                let batch = batch?;
                let rows = batch.num_rows() as u64;
                let columns = self.columns(&batch, rows_written..rows_written + rows, membership);
                file.write(&file.batch(columns)?)?;
                rows_written += rows;
                progress.advance(rows);
            }
            if rows_written != expected {
                return Err(DataError::Changed { path: path.into() });
            }
        }
        // Other rows would stand beside the clusters.
        self.corpus.check_unchanged()?;
        file.finish(None)?;
        Ok(rows_written)
    }

    /// Returns the columns of the copy: the input's, with others around them.
    fn columns(
        &self,
        input: &RecordBatch,
        ordinals: Range<u64>,
        membership: &dyn Fn(Row) -> Option<Membership>,
    ) -> Vec<ArrayRef> {
        let mut columns: Vec<ArrayRef> = Vec::new();
        if self.has_ordinals {
            columns.push(Arc::new(UInt64Array::from_iter_values(ordinals.clone())));
        }
        columns.extend(input.columns().iter().map(|column| stored_column(column, self.format)));
        columns.extend(added_columns(self.corpus, ordinals, membership));
        columns
    }
}

/// Adds the columns of a file, which must equal the first file's; a column may hold nulls if it may
/// in one file.
fn add_columns(
    fields: &mut [FieldRef],
    first: &Path,
    source: &dyn Source,
    path: &Path,
) -> Result<(), DataError> {
    let differ =
        |found: String, expected: String| Err(DataError::differs(path, &found, &expected, first));
    let others = source.schema().fields();
    if others.len() != fields.len() {
        let columns = |count: usize| format!("{count} columns");
        return differ(columns(others.len()), columns(fields.len()));
    }
    for (at, (other, own)) in others.iter().zip(fields).enumerate() {
        if other.name() != own.name() || other.data_type() != own.data_type() {
            let name = |field: &Field| {
                format!("column {at} is {:?} ({})", field.name(), field.data_type())
            };
            return differ(name(other), name(own));
        }
        let is_nullable = own.is_nullable() || other.is_nullable();
        *own = Arc::new(Field::clone(own).with_nullable(is_nullable));
    }
    Ok(())
}

/// Extensions that tell a format.
const EXTENSIONS: &str = ".parquet, .pq, .arrow, .ipc or .feather";

/// Returns the format that the name of the copy tells.
fn format_of(path: &Path) -> Result<VectorFormat, DataError> {
    match VectorFormat::of_extension(path) {
        Some(format @ (VectorFormat::Columns | VectorFormat::Parquet)) => Ok(format),
        _ => Err(DataError::format(path, format!("unknown extension, expected {EXTENSIONS}"))),
    }
}

/// The columns that are added, in this order after the input's.
pub(crate) const COLUMN_NAMES: [&str; 4] =
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

/// Returns the columns that are added for the rows at `ordinals`; a row that was skipped or is in
/// no cluster is its own survivor.
fn added_columns(
    corpus: &Corpus,
    ordinals: Range<u64>,
    membership: &dyn Fn(Row) -> Option<Membership>,
) -> Vec<ArrayRef> {
    let members: Vec<(Option<Row>, Option<Membership>)> = ordinals
        .map(|ordinal| {
            let row = corpus.row_at(ordinal);
            (row, row.and_then(membership))
        })
        .collect();
    let found = || members.iter().map(|(_, member)| *member);
    let survives = |(row, member): &(Option<Row>, Option<Membership>)| {
        member.is_none_or(|member| Some(member.survivor) == *row)
    };
    let survivors = found().map(|member| Some(corpus.ordinal(member?.survivor)));
    vec![
        Arc::new(survivors.collect::<UInt64Array>()),
        Arc::new(found().map(|member| Some(member?.size)).collect::<UInt64Array>()),
        Arc::new(found().map(|member| Some(member?.similarity)).collect::<Float64Array>()),
        Arc::new(BooleanArray::from_iter(members.iter().map(|it| Some(survives(it))))),
    ]
}

#[cfg(test)]
mod tests {
    use std::path::{Path, PathBuf};
    use std::sync::Arc;

    use arrow_array::cast::AsArray;
    use arrow_array::types::{Float32Type, Float64Type, UInt64Type};
    use arrow_array::{Array, ArrayRef, Int64Array, RecordBatch, StringArray};
    use memfold_index::{NoProgress, Row};

    use super::*;
    use crate::read::corpus::{Corpus, CorpusOptions};
    use crate::read::support::{
        Counting, Form, ROWS, batch, check_columns, fixture, many_columns, opened, read, touch,
        write, write_as, write_npy,
    };

    const FORMATS: [&str; 2] = ["copy.parquet", "copy.arrow"];

    fn open(paths: &[PathBuf]) -> Corpus {
        Corpus::open(paths, &CorpusOptions::new(&std::env::temp_dir())).unwrap()
    }

    /// Kept rows in clusters of `size`, the last of each its survivor; a rest is in none.
    fn in_groups(corpus: &Corpus, size: u32) -> impl Fn(Row) -> Option<Membership> {
        let whole = corpus.matrix().len() as u32 / size * size;
        move |row| {
            let survivor = Row(row.0 / size * size + size - 1);
            (row.0 < whole).then(|| Membership {
                survivor,
                size: u64::from(size),
                similarity: 1.0 / f64::from(1 + survivor.0 - row.0),
            })
        }
    }

    fn annotated(corpus: &Corpus, output: &Path, size: u32) -> Vec<RecordBatch> {
        let membership = in_groups(corpus, size);
        let written = annotate(corpus, output, &membership, &NoProgress).unwrap();
        assert_eq!(written, corpus.rows());
        read(output)
    }

    /// Checks the contents of the added columns.
    fn check_added(corpus: &Corpus, batches: &[RecordBatch], size: u32) {
        let membership = in_groups(corpus, size);
        let mut ordinal = 0;
        for batch in batches {
            let column = |name| batch.column_by_name(name).unwrap();
            let integer = |name, i| {
                column(name).as_primitive::<UInt64Type>().slice(i, 1).iter().next().unwrap()
            };
            let similarities = column("cluster_similarity").as_primitive::<Float64Type>();
            for i in 0..batch.num_rows() {
                let row = corpus.row_at(ordinal);
                let member = row.and_then(&membership);
                let cluster = integer("cluster", i);
                assert_eq!(cluster, member.map(|member| corpus.ordinal(member.survivor)));
                assert_eq!(integer("cluster_size", i), member.map(|member| member.size));
                let similarity = similarities.is_valid(i).then(|| similarities.value(i).to_bits());
                assert_eq!(similarity, member.map(|member| member.similarity.to_bits()));
                let survives = column("is_survivor").as_boolean().value(i);
                assert_eq!(survives, cluster.is_none_or(|cluster| cluster == ordinal), "{ordinal}");
                ordinal += 1;
            }
        }
        assert_eq!(ordinal, corpus.rows());
    }

    #[test]
    fn every_column_comes_back_from_every_form() {
        let folder = tempfile::tempdir().unwrap();
        let parts = [many_columns(0..30), many_columns(30..31), many_columns(31..80)];
        for form in [Form::Parquet, Form::ArrowStream] {
            let path = write(folder.path(), form, &parts);
            let corpus = open(std::slice::from_ref(&path));
            assert_eq!(corpus.skipped().len(), 11);
            for name in FORMATS {
                let copy = annotated(&corpus, &folder.path().join(name), 3);
                check_added(&corpus, &copy, 3);
                check_columns(&folder.path().join(name), &parts, "");
                assert_eq!(copy[0].num_columns(), parts[0].num_columns() + COLUMN_NAMES.len());
            }
        }
    }

    #[test]
    fn large_batches_are_copied_in_portions() {
        let folder = tempfile::tempdir().unwrap();
        let path = write(folder.path(), Form::Arrow, &[many_columns(0..70_000)]);
        let (corpus, parts) = (open(&[path]), [many_columns(0..70_000)]);
        let length = |name: &str| std::fs::metadata(folder.path().join(name)).unwrap().len();
        for name in FORMATS {
            let copy = annotated(&corpus, &folder.path().join(name), 4);
            check_added(&corpus, &copy, 4);
            check_columns(&folder.path().join(name), &parts, "");
        }
        // Views of a portion do not bring the texts of the whole batch along.
        assert!(length("copy.arrow") < length("rows.arrow") * 3 / 2);
    }

    #[test]
    fn several_files_become_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let parts = [many_columns(0..9), many_columns(9..20), many_columns(20..21)];
        for (at, form) in [Form::Parquet, Form::ArrowZstd, Form::Arrow].into_iter().enumerate() {
            write_as(&path(["a", "b", "c"][at]), form, &parts[at..=at]);
        }
        let corpus = open(&["a", "b", "c"].map(path));
        for name in FORMATS {
            let copy = annotated(&corpus, &path(name), 2);
            check_added(&corpus, &copy, 2);
            check_columns(&path(name), &parts, "");
        }
    }

    #[test]
    fn npy_rows_get_their_number() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("v.npy");
        let rows = [&ROWS[..], &[0.0; 3]].concat();
        write_npy(&path, 3, &rows);
        let corpus = open(&[path.clone(), path]);
        for name in FORMATS {
            let copy = annotated(&corpus, &folder.path().join(name), 2);
            check_added(&corpus, &copy, 2);
            let numbers = copy
                .iter()
                .flat_map(|batch| batch.column(0).as_primitive::<UInt64Type>().values().to_vec());
            assert!(numbers.eq(0..8), "{name}");
            let values: Vec<f32> = copy
                .iter()
                .flat_map(|batch| {
                    let list = batch.column_by_name("vector").unwrap().as_fixed_size_list();
                    list.values().as_primitive::<Float32Type>().values().to_vec()
                })
                .collect();
            assert_eq!(values, rows.repeat(2), "{name}");
        }
    }

    #[test]
    fn the_copy_holds_the_array_that_was_compared() {
        let folder = tempfile::tempdir().unwrap();
        let options =
            CorpusOptions { vector_column: Some("a".into()), ..CorpusOptions::new(folder.path()) };
        let corpus = Corpus::open(&[fixture("npz/numpy_unnamed.npz")], &options).unwrap();
        let copy = annotated(&corpus, &folder.path().join("copy.parquet"), 2);
        let vectors = copy[0].column_by_name("vector").unwrap().as_fixed_size_list();
        assert_eq!(vectors.values().as_primitive::<Float32Type>().values(), &ROWS);
    }

    #[test]
    fn a_file_without_rows_has_its_columns() {
        let folder = tempfile::tempdir().unwrap();
        let path = write(folder.path(), Form::Parquet, &[many_columns(0..0)]);
        let corpus = open(&[path]);
        for name in FORMATS {
            let output = folder.path().join(name);
            assert_eq!(annotate(&corpus, &output, &|_| None, &NoProgress).unwrap(), 0);
            let file = opened(&output).unwrap();
            assert_eq!((file.row_count(), file.schema().fields().len()), (0, 15), "{name}");
        }
    }

    #[test]
    fn nothing_is_written_when_inputs_do_not_fit() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let names: ArrayRef = Arc::new(StringArray::from(vec!["x", "y"]));
        let more: ArrayRef = Arc::new(Int64Array::from(vec![1, 2]));
        let vector = || ("vector", many_columns(0..2).column_by_name("vector").unwrap().clone());
        write_as(&path("a"), Form::Parquet, &[batch(&[vector(), ("n", names.clone())])]);
        write_as(&path("b"), Form::Parquet, &[batch(&[vector(), ("n", more.clone())])]);
        write_as(&path("c"), Form::Arrow, &[batch(&[vector()])]);
        write_as(&path("d"), Form::Arrow, &[batch(&[vector(), ("is_survivor", more)])]);
        let said = |inputs: &[&str], output: &str| {
            let corpus = open(&inputs.iter().map(|name| path(name)).collect::<Vec<_>>());
            let error = annotate(&corpus, &path(output), &|_| None, &NoProgress).unwrap_err();
            assert!(error.hint().is_some(), "{error}");
            let folder = format!("{}/", folder.path().display());
            error.to_string().replace(&folder, "")
        };
        assert_eq!(
            said(&["a", "b"], "o.parquet"),
            r#"b: column 1 is "n" (Int64), expected column 1 is "n" (Utf8) as in a"#
        );
        assert_eq!(said(&["a", "c"], "o.parquet"), "c: 1 columns, expected 2 columns as in a");
        assert_eq!(said(&["d"], "o.arrow"), r#"d: there is a column "is_survivor" already"#);
        assert_eq!(
            said(&["a"], "o.csv"),
            "o.csv: unknown extension, expected .parquet, .pq, .arrow, .ipc or .feather"
        );
        write_as(&path("e.parquet"), Form::Parquet, &[batch(&[vector()])]);
        assert_eq!(said(&["e.parquet"], "e.parquet"), "e.parquet: the copy would replace an input");
        let missing = said(&["a"], "missing/o.arrow");
        assert!(missing.starts_with("missing/o.arrow: "), "{missing}");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 5);
    }

    #[test]
    fn an_interrupted_copy_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let path = write(folder.path(), Form::Parquet, &[many_columns(0..3000)]);
        let corpus = open(&[path]);
        for name in FORMATS {
            let progress = Counting { stop_after: 1, ..Counting::default() };
            let stopped = annotate(&corpus, &folder.path().join(name), &|_| None, &progress);
            assert!(matches!(stopped, Err(DataError::Cancelled)));
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1);
    }

    /// Changed rows were copied beside the clusters of the rows before.
    #[test]
    fn a_file_that_was_changed_since_it_was_read_is_not_copied() {
        let folder = tempfile::tempdir().unwrap();
        let lines = folder.path().join("rows.jsonl");
        std::fs::write(&lines, "{\"vector\":[1,2],\"text\":\"a\"}\n").unwrap();
        for path in [write(folder.path(), Form::Parquet, &[many_columns(0..30)]), lines] {
            let (corpus, output) =
                (open(std::slice::from_ref(&path)), folder.path().join("o.arrow"));
            touch(&path);
            let copied = annotate(&corpus, &output, &|_| None, &NoProgress).map(drop);
            let found = corpus.excerpts(&[Row(0)]).map(drop);
            // JSON lines were parsed when the file was opened, and are not read again.
            let is_changed =
                |done: Result<(), DataError>| matches!(done, Err(DataError::Changed { .. }));
            let is_read_again = path.ends_with("rows.parquet");
            assert_eq!(is_changed(copied), is_read_again);
            assert_eq!((is_changed(found), output.exists()), (is_read_again, !is_read_again));
        }
    }
}
