//! Options and arguments that several commands share, and how numbers are read.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::builder::{PathBufValueParser, TypedValueParser};
use clap::{Args, Subcommand, ValueHint};
use memfold::lookup::TierChoice;
use memfold::lookup::corpus::CorpusColumns;
use memfold::ops::{Sources, StorePath};
use memfold_datasets::texts::{Shape, TextFields};
use memfold_simd::Similarity;
use memfold_terminal::{LogFormat, Shown, threads};

pub use memfold_terminal::whole;

use crate::mirrored::Named;

/// Options of every command.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "Global options")]
pub struct GlobalArgs {
    /// Print JSON
    #[arg(long, global = true)]
    pub json: bool,
    /// Use N worker threads [default: one for each core]
    #[arg(long, global = true, value_name = "N", allow_negative_numbers = true, value_parser = threads)]
    pub threads: Option<NonZeroUsize>,
    /// Print nothing on stderr but errors
    #[arg(long, short, global = true)]
    pub quiet: bool,
    /// Print more on stderr, and a line for each stage; -vv: also when stages begin
    #[arg(long, short, global = true, action = clap::ArgAction::Count)]
    pub verbose: u8,
    /// Write remarks, log lines and errors on stderr as text or json
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "FORMAT",
        default_value = "text",
        hide_possible_values = true
    )]
    pub log_format: LogFormat,
    /// Where settings come from.
    #[command(flatten)]
    pub sources: Sources,
    /// Show no progress bars
    #[arg(long, global = true)]
    pub no_progress: bool,
    /// The kind of the store [default: recognised by what is in it]
    #[arg(long, global = true, value_name = "KIND")]
    pub store_kind: Option<String>,
    /// Where a store that is no brain.db is mirrored in one [default: in .memfold beside or in it, for
    /// Markdown in $XDG_STATE_HOME/memfold]
    #[arg(long, global = true, value_name = "FILE")]
    pub mirror: Option<PathBuf>,
}

impl GlobalArgs {
    /// Returns the options of the output.
    #[must_use]
    pub const fn shown(&self) -> Shown {
        let Self { quiet, verbose, no_progress, log_format, .. } = *self;
        Shown { quiet, verbose, no_progress, log_format }
    }
}

/// Reads the path of a store.
pub(crate) fn store_path() -> impl TypedValueParser<Value = StorePath> {
    PathBufValueParser::new().map(StorePath::from)
}

/// Names of fields of a file of texts.
#[derive(Debug, Clone, Default, Args)]
pub(crate) struct TextFieldArgs {
    /// The field of the text, such as payload.body [default: text, content, memory, …]
    #[arg(long, value_name = "NAME")]
    pub(crate) text_field: Option<String>,
    /// The field of the id [default: id]
    #[arg(long, value_name = "NAME")]
    pub(crate) id_field: Option<String>,
    /// The field of the time at which a memory was made [default: created_at, timestamp, …]
    #[arg(long, value_name = "NAME")]
    pub(crate) time_field: Option<String>,
    /// The field of the user [default: user_id, user, owner]
    #[arg(long, value_name = "NAME")]
    pub(crate) user_field: Option<String>,
    /// Refuse a file with a bad line, instead of leaving the line out
    #[arg(long)]
    pub(crate) strict: bool,
}

impl TextFieldArgs {
    /// Returns the names, for a file of this system where one is named.
    pub(crate) fn fields(&self, shape: Option<&'static Shape>) -> TextFields {
        TextFields {
            shape,
            text: self.text_field.clone(),
            id: self.id_field.clone(),
            time: self.time_field.clone(),
            user: self.user_field.clone(),
        }
    }
}

/// A store and its index.
#[derive(Debug, Clone, Args)]
pub struct StorePlaceArgs {
    /// The store: a brain.db, or one of another kind (memory.jsonl, …)
    #[arg(value_parser = store_path(), value_hint = ValueHint::AnyPath)]
    pub db: StorePath,
    /// The folder of the index [default: DB.memfold, or in the cache where that is]
    #[arg(long, value_name = "DIR")]
    pub index_dir: Option<PathBuf>,
}

/// What commands share that write only when told to.
#[derive(Debug, Clone, Args)]
pub(crate) struct WritingArgs {
    /// Write to the store
    #[arg(long)]
    pub(crate) execute: bool,
    /// Write nothing; this is the default and wins over --execute
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Write times as if it were this time (RFC 3339) [default: the clock]
    #[arg(long, value_name = "TIME")]
    pub(crate) now: Option<String>,
}

impl WritingArgs {
    /// Tells whether the command may write.
    pub(crate) const fn writes(&self) -> bool {
        self.execute && !self.dry_run
    }
}

/// `memfold index`
#[derive(Debug, Args)]
pub(crate) struct IndexArgs {
    #[command(subcommand)]
    pub(crate) command: IndexCommand,
}

/// What to do with the index of a store or a file.
#[derive(Debug, Subcommand)]
pub(crate) enum IndexCommand {
    /// Build the index of a store's live memories or a file's rows; readers keep the old one until
    /// it is there
    Build(IndexBuildArgs),
    /// Show what the index holds and whether it is current
    Info(IndexInfoArgs),
}

impl IndexArgs {
    /// Returns the store or file.
    pub(crate) fn store(&mut self) -> Option<Named<'_>> {
        Named::read(match &mut self.command {
            IndexCommand::Build(args) => &mut args.place.db,
            IndexCommand::Info(args) => &mut args.place.db,
        })
    }
}

/// A store or a file of vectors, and its index.
#[derive(Debug, Clone, Args)]
pub(crate) struct IndexPlaceArgs {
    /// A store (a brain.db), or a file of vectors (Parquet, Arrow, npy, …)
    #[arg(value_name = "DB|INPUT", value_parser = store_path(), value_hint = ValueHint::AnyPath)]
    pub(crate) db: StorePath,
    /// The folder of the index [default: DB.memfold, or in the cache where that cannot be written]
    #[arg(long, value_name = "DIR")]
    pub(crate) index_dir: Option<PathBuf>,
}

/// `memfold index build`
#[derive(Debug, Args)]
pub(crate) struct IndexBuildArgs {
    #[command(flatten)]
    pub(crate) place: IndexPlaceArgs,
    /// Only vectors of this model of DB [default: the one with most vectors]
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
    #[command(flatten)]
    pub(crate) columns: CorpusColumns,
    /// How lookups are answered
    #[arg(long, value_enum, value_name = "TIER", default_value = "auto")]
    pub(crate) tier: TierChoice,
    /// Only add what came to DB since, in a moment; builds where that cannot be done
    #[arg(long, conflicts_with_all = ["model", "tier"])]
    pub(crate) append: bool,
    /// Wait up to SECONDS for another process that builds
    #[arg(long, value_name = "SECONDS", default_value_t = 5, value_parser = whole::<u32>(0, u32::MAX.into()))]
    pub(crate) wait: u32,
}

/// `memfold index info`
#[derive(Debug, Args)]
pub(crate) struct IndexInfoArgs {
    #[command(flatten)]
    pub(crate) place: IndexPlaceArgs,
    /// Verify every checksum, look up every row, and compare all rows with the store or file
    #[arg(long)]
    pub(crate) verify: bool,
}

/// `memfold search`
#[derive(Debug, Args)]
#[command(
    group = clap::ArgGroup::new("query").required(true),
    override_usage = "memfold search [OPTIONS] <DB|INPUT>\n                      --vector V|--text T|--id ID|--row N|--queries F"
)]
pub(crate) struct SearchArgs {
    #[command(flatten)]
    pub(crate) place: IndexPlaceArgs,
    /// Near this vector: a file of f32 or JSON, a JSON array, or base64 of f32 (little-endian)
    #[arg(long, value_name = "VECTOR", group = "query", allow_hyphen_values = true)]
    pub(crate) vector: Option<String>,
    /// Near this text: by the vector of the memory of DB that has it, else by one of the configured provider (embed.provider), else by its words
    #[arg(long, value_name = "TEXT", group = "query")]
    pub(crate) text: Option<String>,
    /// Near this memory, or the first row with this id
    #[arg(long, value_name = "ID", group = "query")]
    pub(crate) id: Option<String>,
    /// Near this row of INPUT, counted from 0
    #[arg(long, value_name = "N", group = "query", allow_negative_numbers = true, value_parser = whole::<u64>(0, u64::MAX))]
    pub(crate) row: Option<u64>,
    /// Near each vector of this file (Parquet, Arrow, npy, …); writes to --output
    #[arg(long, value_name = "FILE", group = "query", requires = "output")]
    pub(crate) queries: Option<PathBuf>,
    /// Return at most K matches [default: 10, or all with --threshold]
    #[arg(short = 'k', long = "neighbors", value_name = "K", allow_negative_numbers = true, value_parser = whole::<u32>(1, u32::MAX.into()))]
    pub(crate) neighbors: Option<u32>,
    /// Only those at or above this cosine similarity, -1 to 1
    #[arg(long, value_name = "T", allow_negative_numbers = true, value_parser = similarity)]
    pub(crate) threshold: Option<Similarity>,
    /// Read every vector of the store or file instead of its index
    #[arg(long)]
    pub(crate) no_index: bool,
    #[command(flatten)]
    pub(crate) columns: CorpusColumns,
    /// Write what --queries found here (Parquet)
    #[arg(long, short, value_name = "FILE", requires = "queries")]
    pub(crate) output: Option<PathBuf>,
    /// Replace the file if it exists
    #[arg(long, requires = "output")]
    pub(crate) force: bool,
}

pub(crate) fn similarity(text: &str) -> Result<Similarity, String> {
    let number = text.trim().parse().ok();
    number.and_then(Similarity::new).ok_or_else(|| "expected a number from -1 to 1".to_owned())
}

/// Reads a number that is neither infinite nor none.
pub(crate) fn finite(typed: &str) -> Result<f64, String> {
    let number = typed.trim().parse().ok().filter(|number: &f64| number.is_finite());
    number.ok_or_else(|| "expected a number".to_owned())
}

/// Reads a number above 0.
pub fn above_zero(typed: &str) -> Result<f64, String> {
    let number = finite(typed).ok().filter(|number| *number > 0.0);
    number.ok_or_else(|| "expected a number above 0".to_owned())
}

const MICROS_PER_HOUR: i64 = 3_600_000_000;

/// Reads `24h`, `90d` or `12w` as microseconds.
pub(crate) fn age_us(text: &str) -> Result<i64, String> {
    let wrong = || "expected hours, days or weeks, such as 24h, 90d or 12w".to_owned();
    let unit = text.chars().next_back().ok_or_else(wrong)?;
    let hours = match unit {
        'h' => 1,
        'd' => 24,
        'w' => 24 * 7,
        _ => return Err(wrong()),
    };
    let number: u32 = text[..text.len() - unit.len_utf8()].parse().map_err(|_| wrong())?;
    i64::from(number).checked_mul(hours * MICROS_PER_HOUR).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `--threads 0` answered "number would be zero for non-zero type", `--degree 99` "99 is not in 2..=64".
    #[test]
    fn messages_are_for_people() {
        assert_eq!(threads("2").unwrap().get(), 2);
        for typed in ["0", "-1", "1.5", "x", "", "99999999999999999999"] {
            assert_eq!(threads(typed).unwrap_err(), "expected a whole number, 1 or more");
        }
        assert_eq!(whole::<u8>(2, 64)("99").unwrap_err(), "expected a whole number from 2 to 64");
        assert_eq!(whole::<u8>(2, 64)("64"), Ok(64));
        for typed in ["nan", "inf", "abc", ""] {
            assert_eq!(finite(typed).unwrap_err(), "expected a number");
        }
        assert_eq!(above_zero("0").unwrap_err(), "expected a number above 0");
    }

    #[test]
    fn ages_are_hours_days_or_weeks() {
        for (text, hours) in [("0h", 0), ("24h", 24), ("90d", 2_160), ("12w", 2_016)] {
            assert_eq!(age_us(text), Ok(hours * MICROS_PER_HOUR), "{text}");
        }
        for text in ["", "90", "d", "-1d", "1.5d", "90 d", "3m", "99999999999d", "é"] {
            assert!(age_us(text).is_err(), "{text:?}");
        }
    }
}
