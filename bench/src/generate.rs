//! `memfold-bench generate`: vectors, or a whole store.

use std::path::Path;

use memfold::export::SYNTHETIC_MODEL;
use memfold::ops::pool;
use memfold_bench::synthetic::{VectorGenerator, VectorRecipe, VectorRecipeBuilder, templated};
use memfold_bench::workload::{GeneratedMemory, created_at};
use memfold_cli::{GlobalArgs, check_outputs};
use memfold_datasets::DataError;
use memfold_datasets::npy::{Component, NpyWriter};
use memfold_datasets::{ColumnsMeta, ColumnsWriter, ParquetText, VectorFile};
use memfold_index::{JoinOptions, Progress, VectorMatrix};
use memfold_store::brain_db::{
    BrainDbWriter, CreateOptions, CreateStoreError, StoreStyle, WrittenStore,
};
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
    let file = VectorFile::open(path).map_err(|error| unreadable(path, &error))?;
    let dim = file.dim();
    if args.dim.is_some_and(|wanted| wanted != dim) {
        return Err(Failure::usage(
            format!("--dim differs from the {dim} dimensions of {}", path.display()),
            "leave --dim out: the dimension is that of the file",
        ));
    }
    let values = file.read_all().map_err(|error| unreadable(path, &error))?;
    let learn = format!("learn from {}", path.display());
    let matrix = VectorMatrix::from_slice(&values, dim)
        .map_err(|error| Failure::new(&learn, &error, None))?;
    let pool = pool(global.threads)?;
    let options = JoinOptions { progress: bars, ..JoinOptions::new(&pool) };
    VectorRecipe::like(&matrix, rows, args.seed, &options).map_err(|error| {
        if bars.cancelled() {
            return Failure::interrupted();
        }
        let hint = error.hint();
        Failure::new(&learn, &error, hint)
    })
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
    let style = if args.wild { StoreStyle::Wild } else { StoreStyle::Plain };
    let options = CreateOptions { style, overwrite: args.force, ..CreateOptions::default() };
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
    finish(writer)
}

fn unwritten(error: CreateStoreError) -> Failure {
    Failure::new("generate the store", &error, error.hint())
}

fn finish(writer: BrainDbWriter) -> Result<u64, Failure> {
    let written = writer.finish();
    let WrittenStore { rows_total, .. } =
        written.map_err(|error| Failure::new("finish the store", &error, error.hint()))?;
    Ok(rows_total)
}

/// The model's name for vectors of a file that does not name it.
const UNNAMED_MODEL: &str = "imported";

/// Writes a store of given vectors, with given texts or templated ones.
fn given_store(args: &GenerateArgs, vectors: &Path, bars: &Bars) -> Result<u64, Failure> {
    let failed = |error| unreadable(vectors, &error);
    let mut file = VectorFile::open(vectors).map_err(failed)?;
    let dim = file.dim();
    let rows = args.rows.unwrap_or(file.len()).min(file.len());
    let model = file.meta().and_then(|meta| meta.model).unwrap_or_else(|| UNNAMED_MODEL.into());
    let mut texts = args.texts.as_deref().map(Texts::open).transpose()?;
    let mut writer = begin_store(args)?;
    let mut values = Vec::new();
    let mut row = 0;
    bars.begin("generate", Some(rows as u64));
    while row < rows {
        values.clear();
        let read = file.read_rows((rows - row).min(BATCH as usize), &mut values).map_err(failed)?;
        if read == 0 {
            break;
        }
        for vector in values.chunks_exact(dim) {
            let (text, made) = match &mut texts {
                Some(texts) => texts.next(row)?,
                None => (templated(row as u64, 0, args.seed), None),
            };
            let made = made.unwrap_or_else(|| created_at(row as u64));
            let memory = GeneratedMemory {
                row: row as u64,
                text: &text,
                created_at: &made,
                model: &model,
                vector,
            };
            memory.write(&mut writer).map_err(unwritten)?;
            row += 1;
        }
        bars.advance(read as u64);
        if bars.cancelled() {
            return Err(Failure::interrupted());
        }
    }
    bars.end();
    finish(writer)
}

/// The texts of a Parquet file, and their times where it has them.
struct Texts {
    path: String,
    texts: ParquetText,
    times: Option<ParquetText>,
}

impl Texts {
    fn open(path: &Path) -> Result<Self, Failure> {
        let shown = path.display().to_string();
        let texts = ParquetText::open(path, &["text", "content"]).map_err(|error| {
            let hint = error.hint();
            Failure::new(&format!("read {shown}"), &error, hint)
        })?;
        // Times are welcome, not needed.
        let times = ParquetText::open(path, &["created_at"]).ok();
        Ok(Self { path: shown, texts, times })
    }

    /// Returns the text of the next row, and its time.
    fn next(&mut self, row: usize) -> Result<(String, Option<String>), Failure> {
        let failed = |error| Failure::new(&format!("read {}", self.path), &error, None);
        let Some(text) = self.texts.next() else {
            return Err(Failure::usage(
                format!("{} has {row} texts, fewer than there are vectors", self.path),
                "take fewer vectors: --rows N",
            ));
        };
        let text = text.map_err(failed)?.unwrap_or_default();
        let time = match &mut self.times {
            Some(times) => times.next().transpose().map_err(failed)?.flatten(),
            None => None,
        };
        Ok((text, time))
    }
}
