//! `memfold index`: build, look at, verify, warm and remove the index of a store or a file of vectors.

pub(crate) mod build;
mod corpus;
mod documents;
mod info;
pub(crate) mod place;
mod remove;
mod verify;
mod warm;

use std::path::Path;

use memfold::lookup::{IndexFiles, OpenIndexError};
use memfold_datasets::vector_file::VectorFormat;
use memfold_model::text::excerpt;

use crate::args::{ColumnArgs, GlobalArgs, IndexArgs, IndexCommand};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::Printer;

/// Characters of a model's or file's name that are shown.
const NAME_CHARS: usize = 40;

pub(crate) fn run(
    global: &GlobalArgs,
    args: &IndexArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    match &args.command {
        IndexCommand::Build(args) if is_corpus(&args.place.db) => {
            corpus::run_build(global, args, printer)
        }
        IndexCommand::Info(args) if is_corpus(&args.db) => corpus::info(global, args, printer),
        IndexCommand::Verify(args) if is_corpus(&args.place.db) => {
            corpus::verify(global, args, printer)
        }
        IndexCommand::Build(args) => build::run(global, args, printer),
        IndexCommand::Info(args) => info::run(global, args, printer),
        IndexCommand::Verify(args) => verify::run(global, args, printer),
        IndexCommand::Warm(args) => warm::run(global, args, printer),
        IndexCommand::Remove(args) => remove::run(global, args, printer),
    }
}

/// Says what a generation is, in a line.
fn headline(generation: u64, rows: &str, (of, dim): (&str, usize), answered: &str) -> String {
    let of = excerpt(of, NAME_CHARS);
    format!("generation {generation}: {rows} of {of} ({dim} dimensions), answered {answered}\n")
}

/// Lists the files of a generation with their sizes, and where they are.
fn files_screen(files: &IndexFiles, (rows, of): (&str, &str), folder: &str) -> String {
    let (columns, generation) = (files.columns(), files.generation());
    let rows = format!("{} {rows}", columns.len());
    let answered = format!("by a {}", files.tier().name());
    let mut text = headline(generation.number(), &rows, (of, columns.dim()), &answered);
    for (name, bytes) in generation.file_lengths() {
        text.push_str(&format!("  {name:14} {}\n", mebibytes(bytes)));
    }
    text.push_str(&format!("  in {folder}\n"));
    text
}

/// Tells a file of vectors from a store.
pub(crate) fn is_corpus(path: &Path) -> bool {
    VectorFormat::of_file(path).is_some()
}

/// Refuses columns of a store, whose columns are known.
pub(crate) fn refuse_columns(columns: &ColumnArgs) -> Result<(), Failure> {
    let ColumnArgs { vector_column, id_column } = columns;
    let option = match (vector_column, id_column) {
        (None, None) => return Ok(()),
        (Some(_), _) => "--vector-column",
        (None, Some(_)) => "--id-column",
    };
    Err(Failure::usage(
        format!("{option} is for files of vectors, not for a store"),
        "leave it out: the columns of a store are known",
    ))
}

/// Opens the index in a folder, which must be there.
fn open<T>(
    folder: &Path,
    open: impl FnOnce(&Path) -> Result<Option<T>, OpenIndexError>,
) -> Result<T, Failure> {
    match open(folder) {
        Ok(Some(index)) => Ok(index),
        Ok(None) => Err(Failure::plain(
            format!("no index in {}", folder.display()),
            "build it with `memfold index build`",
        )),
        Err(error) => Err(unopened(&error)),
    }
}

fn unopened(error: &OpenIndexError) -> Failure {
    let hint = error.hint();
    Failure::new("open the index", error, hint)
}

/// Shows bytes in MiB, or in KiB where there are few.
fn mebibytes(bytes: u64) -> String {
    match bytes as f64 / f64::from(1 << 20) {
        small if small < 1.0 => format!("{:.0} KiB", small * 1024.0),
        mebibytes => format!("{mebibytes:.1} MiB"),
    }
}
