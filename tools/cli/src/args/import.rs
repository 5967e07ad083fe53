//! Arguments of `memfold import`.

use std::path::PathBuf;

use clap::Args;

/// `memfold import`
#[derive(Debug, Args)]
#[command(after_help = FIELDS)]
pub(crate) struct ImportArgs {
    /// A file with a memory on each line, as JSON; `-` reads stdin
    #[arg(value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// The brain.db to add them to; it is created where it is missing
    #[arg(long, value_name = "DB")]
    pub(crate) into: PathBuf,
    /// The model of vectors on lines that name none
    #[arg(long, value_name = "NAME")]
    pub(crate) model: Option<String>,
}

/// Said at the end of the help of `memfold import`.
const FIELDS: &str = "\
Fields of a line: text or content; id, categories, importance, access_count,
created_at, updated_at, expires_at, source, vector or embedding, and model may
be left out. All lines are imported, or none where one is bad. A memory whose id
is in the store stays as it is there, so importing a file again adds nothing.";
