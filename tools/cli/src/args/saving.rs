//! Arguments of `memfold check` and `memfold save`.

use std::path::PathBuf;

use clap::Args;

use super::numbers::finite;

/// A store and its index.
#[derive(Debug, Clone, Args)]
pub struct StorePlaceArgs {
    /// The store: a brain.db
    pub db: PathBuf,
    /// The folder of the index [default: DB.memfold, or in the cache where that is]
    #[arg(long, value_name = "DIR")]
    pub index_dir: Option<PathBuf>,
}

/// A memory as typed.
#[derive(Debug, Clone, Args)]
pub(crate) struct MemoryArgs {
    /// Its vector: a file of f32 or JSON, a JSON array, or base64 of f32 (little-endian)
    #[arg(long, value_name = "VECTOR", allow_hyphen_values = true)]
    pub(crate) vector: Option<String>,
    /// The model of the vector [default: the store's]
    #[arg(long, value_name = "NAME", requires = "vector")]
    pub(crate) model: Option<String>,
    /// A category (can be repeated)
    #[arg(long = "category", short = 'c', value_name = "NAME")]
    pub(crate) categories: Vec<String>,
    /// Where it comes from [default: agent]
    #[arg(long, value_name = "NAME")]
    pub(crate) source: Option<String>,
}

/// `memfold check`
#[derive(Debug, Args)]
#[command(override_usage = "memfold check [OPTIONS] <DB> --text T|--vector V")]
pub(crate) struct CheckArgs {
    #[command(flatten)]
    pub(crate) place: StorePlaceArgs,
    /// What the memory says
    #[arg(
        long,
        value_name = "TEXT",
        required_unless_present = "vector",
        allow_hyphen_values = true
    )]
    pub(crate) text: Option<String>,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
}

/// `memfold save`
#[derive(Debug, Args)]
#[command(
    override_usage = "memfold save [OPTIONS] <DB> --text T|--jsonl FILE",
    after_help = SAVE_LINES
)]
pub(crate) struct SaveArgs {
    #[command(flatten)]
    pub(crate) place: StorePlaceArgs,
    /// What the memory says
    #[arg(
        long,
        value_name = "TEXT",
        required_unless_present = "jsonl",
        allow_hyphen_values = true
    )]
    pub(crate) text: Option<String>,
    #[command(flatten)]
    pub(crate) memory: MemoryArgs,
    /// How important it is [default: 1.0]
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = finite)]
    pub(crate) importance: Option<f64>,
    /// Its id: saving it again under the same id changes nothing [default: a new one]
    #[arg(long, value_name = "ID")]
    pub(crate) id: Option<String>,
    /// Save the memories of this file, one JSON object on each line; - is stdin
    #[arg(long, value_name = "FILE", conflicts_with_all = ["text", "vector", "categories", "importance", "source", "id"])]
    pub(crate) jsonl: Option<PathBuf>,
}

/// Said at the end of the help of `memfold save`.
const SAVE_LINES: &str = "\
A line of --jsonl has `text`, and may have `vector`, `model`, `categories`,
`importance`, `source` and `id`; it is answered by a line of JSON on stdout.
A line that cannot be saved is answered with `stored: false`, and the next one
follows; the exit code is then 4.";
