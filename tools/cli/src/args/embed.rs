//! Arguments of `memfold embed`.

use std::path::PathBuf;

use clap::Args;

use super::WritingArgs;
use super::numbers::whole;

/// `memfold embed`
#[derive(Debug, Args)]
#[command(after_help = PROVIDERS)]
pub(crate) struct EmbedArgs {
    /// The store: a brain.db
    pub(crate) db: PathBuf,
    /// Give N memories an embedding at most, newest first; running again continues
    #[arg(long, value_name = "N", allow_negative_numbers = true, value_parser = whole::<usize>(1, u64::MAX))]
    pub(crate) limit: Option<usize>,
    #[command(flatten)]
    pub(crate) writing: WritingArgs,
}

/// Said at the end of the help of `memfold embed`.
const PROVIDERS: &str = "\
Vectors come from the provider that the configuration names, and texts go
nowhere else: --set embed.provider=daemon (the brain's own, port 8030), ollama,
openai (any program of that protocol; --set embed.url=…) or local.
Embeddings of an earlier text, or that are no vectors, are counted and stay.";
