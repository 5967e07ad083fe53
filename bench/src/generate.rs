//! `memfold-bench generate`: vectors, or a whole store.

use std::path::Path;

use memfold::export::SYNTHETIC_MODEL;
use memfold::ops::pool;
use memfold_bench::synthetic::{VectorGenerator, VectorRecipe, VectorRecipeBuilder, templated};
use memfold_bench::wild::make_wild;
use memfold_bench::workload::{GeneratedMemory, created_at};
use memfold_cli::{GlobalArgs, check_outputs};
use memfold_datasets::DataError;
use memfold_datasets::npy::{Component, NpyWriter};
use memfold_datasets::texts::{TextFields, TextFile};
use memfold_datasets::{ColumnsMeta, ColumnsWriter, Corpus, CorpusOptions};
use memfold_index::{JoinOptions, Progress};
use memfold_store::brain_db::{BrainDbWriter, CreateOptions, CreateStoreError};
use memfold_terminal::failure::{Exit, Failure};
use memfold_terminal::printer::Printer;
use memfold_terminal::progress::Bars;
use serde::Serialize;

use crate::args::GenerateArgs;

/// Rows where neither the command line nor a file says how many.
const ROWS_DEFAULT: u32 = 10_000;

/// The dimension of the model that most small stores use.
const DIM_DEFAULT: usize = 384;

/// `memfold-bench generate --json`
#[derive(Debug, Serialize)]
struct GenerateDocument {
    schema_version: u32,
    /// Rows written.
    rows: u64,
    output: String,
    seed: u64,
    /// Whether the vectors were generated, and not taken from a file.
    synthetic: bool,
}

pub(crate) fn run(
    global: &GlobalArgs,
    args: &GenerateArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    let inputs = [&args.like, &args.from, &args.texts].into_iter().flatten().cloned();
    let output = Some(args.output.clone());
    check_outputs(&[("--output", &output)], &inputs.collect::<Vec<_>>(), args.force)?;
    let bars = Bars::new(printer);
    let rows = match (args.brain, &args.from) {
        (true, Some(vectors)) => given_store(args, vectors, &bars)?,
        (true, None) => synthetic_store(global, args, &bars)?,
        (false, _) => synthetic_vectors(global, args, &bars)?,
    };
    if global.json {
        let output = args.output.display().to_string();
        let synthetic = args.from.is_none();
        let seed = args.seed;
        printer.document(&GenerateDocument { schema_version: 1, rows, output, seed, synthetic })?;
    } else {
        let noun = if rows == 1 { "row" } else { "rows" };
        printer.note(&format!("wrote {rows} {noun} to {}", args.output.display()));
    }
    Ok(Exit::Done)
}

fn recipe(global: &GlobalArgs, args: &GenerateArgs, bars: &Bars) -> Result<VectorRecipe, Failure> {
    let rows = match args.rows {
        Some(rows) => row_count(rows)?,
        None => ROWS_DEFAULT,
    };
    let builder = match &args.like {
        Some(file) => like(global, args, file, rows, bars)?,
        None => VectorRecipe::builder(rows, args.dim.unwrap_or(DIM_DEFAULT), args.seed),
    };
    builder.build().map_err(|error| {
        Failure::usage(error.to_string(), "see memfold-bench generate --help for the ranges")
    })
}

/// Learns from a real file.
fn like(
    global: &GlobalArgs,
    args: &GenerateArgs,
    path: &Path,
    rows: u32,
    bars: &Bars,
) -> Result<VectorRecipeBuilder, Failure> {
    let corpus = vectors_of(path)?;
    let dim = corpus.dim();
    if args.dim.is_some_and(|wanted| wanted != dim) {
        return Err(Failure::usage(
            format!("--dim differs from the {dim} dimensions of {}", path.display()),
            "leave --dim out: the dimension is that of the file",
        ));
    }
    let pool = pool(global.threads)?;
    let options = JoinOptions { progress: bars, ..JoinOptions::new(&pool) };
    VectorRecipe::like(&corpus.matrix(), rows, args.seed, &options).map_err(|error| {
        if bars.cancelled() {
            return Failure::interrupted();
        }
        let hint = error.hint();
        Failure::new(&format!("learn from {}", path.display()), &error, hint)
    })
}

/// Reads the vectors of a file, all of which must be usable.
fn vectors_of(path: &Path) -> Result<Corpus, Failure> {
    let options = CorpusOptions::new(&std::env::temp_dir());
    let corpus =
        Corpus::open(&[path.into()], &options).map_err(|error| unreadable(path, &error))?;
    match corpus.skipped().examples().first() {
        None => Ok(corpus),
        Some(skipped) => Err(Failure::usage(
            format!("row {} of {} has no usable vector", skipped.row, path.display()),
            "leave such rows out of the file",
        )),
    }
}

fn unreadable(path: &Path, error: &DataError) -> Failure {
    let hint = error.hint();
    Failure::new(&format!("read {}", path.display()), error, hint)
}

fn row_count(rows: usize) -> Result<u32, Failure> {
    u32::try_from(rows).map_err(|_| {
        Failure::usage(
            format!("--rows {rows} is more than 4,294,967,295"),
            "generate several files with different seeds",
        )
    })
}

/// Rows written between two progress reports.
const BATCH: u32 = 4096;

/// Calls `write` with every row of the recipe in order.
fn each_row(
    generator: &VectorGenerator,
    bars: &Bars,
    mut write: impl FnMut(u32, &[f32], u64, u64) -> Result<(), Failure>,
) -> Result<u64, Failure> {
    let rows = generator.len() as u32;
    let mut vector = vec![0.0; generator.dim()];
    bars.begin("generate", Some(u64::from(rows)));
    for row in 0..rows {
        let drawn = generator.row(row, &mut vector);
        write(row, &vector, drawn.group, u64::from(drawn.member))?;
        if (row + 1).is_multiple_of(BATCH) {
            bars.advance(u64::from(BATCH));
            if bars.cancelled() {
                return Err(Failure::interrupted());
            }
        }
    }
    bars.end();
    Ok(u64::from(rows))
}

fn synthetic_vectors(
    global: &GlobalArgs,
    args: &GenerateArgs,
    bars: &Bars,
) -> Result<u64, Failure> {
    let generator = VectorGenerator::new(recipe(global, args, bars)?);
    let ending = args.output.extension().and_then(|ending| ending.to_str());
    let meta = ColumnsMeta {
        normalised: true,
        synthetic: true,
        ..ColumnsMeta::vectors(generator.dim() as u32)
    };
    let failed = |error| failure(&args.output, error);
    let rows = match ending {
        Some("npy") => {
            let mut writer =
                NpyWriter::create(&args.output, generator.dim(), Component::F32).map_err(failed)?;
            let push = |_, vector: &[f32], _, _| writer.push(vector).map_err(failed);
            let rows = each_row(&generator, bars, push)?;
            writer.finish().map_err(failed)?;
            rows
        }
        Some("arrow" | "ipc" | "parquet") => {
            let writer = match ending {
                Some("parquet") => ColumnsWriter::create_parquet(&args.output, &meta),
                _ => ColumnsWriter::create(&args.output, &meta),
            };
            let mut writer = writer.map_err(failed)?;
            let push =
                |_, vector: &[f32], _, _| writer.push_vector(vector).map(drop).map_err(failed);
            let rows = each_row(&generator, bars, push)?;
            writer.publish().map_err(failed)?;
            rows
        }
        _ => {
            return Err(Failure::usage(
                format!("{} does not tell the format", args.output.display()),
                "end the name in .arrow, .parquet or .npy, or write a store with --brain",
            ));
        }
    };
    Ok(rows)
}

fn failure(path: &Path, error: impl std::error::Error + 'static) -> Failure {
    let hint = "check that its folder exists, may be written and has room".to_owned();
    Failure::new(&format!("generate {}", path.display()), &error, Some(hint))
}

fn begin_store(args: &GenerateArgs) -> Result<BrainDbWriter, Failure> {
    let options = CreateOptions { overwrite: args.force, ..CreateOptions::default() };
    BrainDbWriter::create(&args.output, options).map_err(|error| {
        let hint = error.hint();
        Failure::new("create the store", &error, hint)
    })
}

fn synthetic_store(global: &GlobalArgs, args: &GenerateArgs, bars: &Bars) -> Result<u64, Failure> {
    let generator = VectorGenerator::new(recipe(global, args, bars)?);
    let mut writer = begin_store(args)?;
    each_row(&generator, bars, |row, vector, group, member| {
        let text = templated(group, member, args.seed);
        let row = u64::from(row);
        let memory = GeneratedMemory {
            row,
            text: &text,
            created_at: &created_at(row),
            model: SYNTHETIC_MODEL,
            vector,
        };
        memory.write(&mut writer).map_err(unwritten)
    })?;
    finish(args, writer)
}

fn unwritten(error: CreateStoreError) -> Failure {
    Failure::new("generate the store", &error, error.hint())
}

fn finish(args: &GenerateArgs, writer: BrainDbWriter) -> Result<u64, Failure> {
    let written = writer.finish();
    let rows = written.map_err(|error| Failure::new("finish the store", &error, error.hint()))?;
    if !args.wild {
        return Ok(rows);
    }
    let wild = make_wild(&args.output).map_err(|error| failure(&args.output, error))?;
    Ok(wild.rows_total)
}

/// The model's name for vectors of a file that does not name it.
const UNNAMED_MODEL: &str = "imported";

/// Writes a store of given vectors, with given texts or templated ones.
fn given_store(args: &GenerateArgs, vectors: &Path, bars: &Bars) -> Result<u64, Failure> {
    let corpus = vectors_of(vectors)?;
    let matrix = corpus.matrix();
    let rows = args.rows.unwrap_or(matrix.len()).min(matrix.len());
    let model = corpus.model().unwrap_or(UNNAMED_MODEL);
    let texts = args.texts.as_deref().map(|path| texts_of(path, rows)).transpose()?;
    let mut writer = begin_store(args)?;
    bars.begin("generate", Some(rows as u64));
    for row in matrix.rows().take(rows) {
        let at = row.index() as u64;
        // Places count from 1; a row without a text has no record.
        let record = texts.as_ref().map(|file| {
            let found = file.records.binary_search_by_key(&(at + 1), |record| record.place);
            found.ok().map(|found| &file.records[found])
        });
        let text = match record {
            Some(record) => record.map_or(String::new(), |record| record.text.clone()),
            None => templated(at, 0, args.seed),
        };
        let made = record.flatten().and_then(|record| record.created_at.clone());
        let memory = GeneratedMemory {
            row: at,
            text: &text,
            created_at: &made.unwrap_or_else(|| created_at(at)),
            model,
            vector: matrix.vector(row),
        };
        memory.write(&mut writer).map_err(unwritten)?;
        if (at + 1).is_multiple_of(u64::from(BATCH)) {
            bars.advance(u64::from(BATCH));
            if bars.cancelled() {
                return Err(Failure::interrupted());
            }
        }
    }
    bars.end();
    finish(args, writer)
}

/// Reads a file of at least `rows` texts.
fn texts_of(path: &Path, rows: usize) -> Result<TextFile, Failure> {
    let file = TextFile::read(path, &TextFields::default());
    let file = file.map_err(|error| unreadable(path, &error))?;
    let found = file.records.len() + file.skipped.len();
    if found < rows {
        return Err(Failure::usage(
            format!("{} has {found} texts, fewer than there are vectors", path.display()),
            "take fewer vectors: --rows N",
        ));
    }
    Ok(file)
}
