//! `memfold convert`: a file of vectors in another format.

use std::path::PathBuf;

use clap::builder::{PossibleValuesParser, TypedValueParser};
use clap::{self, Args};
use memfold::machine::{MemoryWatch, Stopwatch};
use memfold_datasets::convert::{ComponentType, ConvertOptions, Converted, VectorFormat, convert};
use memfold_datasets::{ColumnRole, DataError, VectorFault};
use memfold_guard::text::excerpt;

use crate::call::Call;
use crate::failure::{Exit, Failure};
use crate::outputs;
use crate::printer::Printer;
use crate::progress::Bars;
use crate::writing::noun;

/// Names of left-out columns that are displayed.
const COLUMNS_SHOWN: usize = 8;

/// `memfold convert`
#[derive(Debug, Args)]
#[command(after_help = COLUMNS)]
pub(crate) struct ConvertArgs {
    /// The file to read; its content tells the format
    #[arg(value_name = "IN")]
    pub(crate) input: PathBuf,
    /// The file to write
    #[arg(value_name = "OUT")]
    pub(crate) output: PathBuf,
    /// What to write [default: by the ending of OUT]
    #[arg(long, value_name = "FORMAT", value_parser = formats())]
    pub(crate) to: Option<VectorFormat>,
    /// Round components to this type [default: keep them; fail where FORMAT would change one]
    #[arg(long = "type", value_name = "TYPE", value_parser = types())]
    pub(crate) component: Option<ComponentType>,
    /// The column of the vectors [default: vector, embedding, embeddings or emb]
    #[arg(long, value_name = "NAME")]
    pub(crate) column: Option<String>,
    /// The array of an npz or HDF5 file, or the tensor, that holds the vectors [default: the one
    /// that is known to]
    #[arg(long, value_name = "NAME")]
    pub(crate) member: Option<String>,
    /// Replace OUT if it exists
    #[arg(long)]
    pub(crate) force: bool,
}

/// The end of the help of `memfold convert`.
const COLUMNS: &str = "\
arrow, parquet and jsonl keep every column, the others the vectors alone.
fvecs and fbin hold f32, f16bin f16, bvecs and u8bin u8, i8bin i8, ivecs and
ibin i32; all others hold every type.";

fn formats() -> impl TypedValueParser<Value = VectorFormat> {
    PossibleValuesParser::new(VectorFormat::WRITTEN.map(VectorFormat::name))
        .try_map(|name| VectorFormat::from_name(&name).ok_or("no such format"))
}

fn types() -> impl TypedValueParser<Value = ComponentType> {
    PossibleValuesParser::new(ComponentType::ALL.map(ComponentType::name))
        .try_map(|name| ComponentType::from_name(&name).ok_or("no such type"))
}

/// `memfold convert --json`
#[derive(Debug, serde::Serialize)]
struct ConvertDocument {
    schema_version: u32,
    rows: u64,
    /// Components of each vector.
    dim: u64,
    /// `f16`, `f32`, `f64`, `u8`, `i8` or `i32`: the type of the written components.
    r#type: &'static str,
    /// The type of the components that were read.
    type_read: &'static str,
    /// The format that was read.
    from: &'static str,
    /// The format that was written.
    to: &'static str,
    output: String,
    /// Columns that the format written does not hold.
    columns_left_out: Vec<String>,
    bytes_written: u64,
    seconds: f64,
    /// The most memory in use at once that no file backs; `null` where the system does not tell.
    peak_anon_bytes: Option<u64>,
}

pub(crate) fn run(call: Call<'_>, args: &ConvertArgs) -> Result<Exit, Failure> {
    if args.to.is_none() && VectorFormat::of_output(&args.output).is_none() {
        let names = VectorFormat::WRITTEN.map(VectorFormat::name).join(", ");
        return Err(Failure::usage(
            format!("{}: unknown extension", args.output.display()),
            format!("name the format with --to: {names}"),
        ));
    }
    let output = Some(args.output.clone());
    outputs::check(&[("OUT", &output)], std::slice::from_ref(&args.input), args.force)?;
    let (watch, stopwatch) = (MemoryWatch::start(), Stopwatch::start());
    let bars = Bars::new(call.printer);
    let options = ConvertOptions {
        format: args.to,
        component: args.component,
        column: args.column.as_deref(),
        member: args.member.as_deref(),
        progress: &bars,
    };
    let converted =
        convert(&args.input, &args.output, &options).map_err(|error| failure(args, &error))?;
    drop(bars);
    let seconds = stopwatch.seconds();
    let (_, peak_anon_bytes) = watch.finish();
    if call.global.json {
        call.printer.document(&ConvertDocument {
            schema_version: 1,
            rows: converted.rows,
            dim: converted.dim as u64,
            r#type: converted.component.name(),
            type_read: converted.component_read.name(),
            from: converted.from,
            to: converted.to.name(),
            output: args.output.display().to_string(),
            columns_left_out: converted.columns_left_out,
            bytes_written: converted.bytes_written,
            seconds,
            peak_anon_bytes,
        })?;
    } else {
        show(args, &converted, seconds, call.printer);
    }
    Ok(Exit::Done)
}

fn failure(args: &ConvertArgs, error: &DataError) -> Failure {
    let hint = match error {
        DataError::Cancelled => return Failure::interrupted(),
        // Refused before anything was read or written.
        DataError::Output { advice: Some(_), .. } => {
            return Failure::usage(error.to_string(), error.hint().unwrap_or_default());
        }
        DataError::NoColumn { role: ColumnRole::Array, .. } => {
            Some("choose an array with --member NAME".to_owned())
        }
        DataError::NoColumn { .. } | DataError::ColumnType { .. } => {
            Some("choose a column with --column NAME".to_owned())
        }
        DataError::Vector { fault: VectorFault::Inexact { expected, .. }, .. } => Some(format!(
            "round with --type {expected}, or write a format that holds all types, such as npy"
        )),
        error => error.hint(),
    };
    Failure::new(&format!("convert {}", args.input.display()), error, hint)
}

fn show(args: &ConvertArgs, converted: &Converted, seconds: f64, printer: Printer) {
    let Converted { rows, dim, component, from, to, columns_left_out, bytes_written, .. } =
        converted;
    let rate = *bytes_written as f64 / 1e9 / seconds.max(f64::MIN_POSITIVE);
    printer.note(&format!(
        "wrote {rows} {} of {dim} × {component} to {} ({from} to {}) in {seconds:.2} s, {rate:.2} GB/s",
        noun(*rows, "row", "rows"),
        args.output.display(),
        to.name(),
    ));
    if !columns_left_out.is_empty() {
        let shown = columns_left_out.iter().take(COLUMNS_SHOWN).map(|name| excerpt(name, 40));
        let mut names = shown.collect::<Vec<_>>().join(", ");
        if columns_left_out.len() > COLUMNS_SHOWN {
            names.push_str(&format!(" and {} more", columns_left_out.len() - COLUMNS_SHOWN));
        }
        printer.note(&format!("{} holds vectors alone; left out: {names}", to.name()));
    }
}
