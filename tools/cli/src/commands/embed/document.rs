//! What `memfold embed` prints with `--json`.

use memfold::embed::fill::{Filled, Refusal, Unembedded};
use memfold_plan::report::Mode;

use crate::document::documents;

documents! { "embed" => EmbedDocument }

/// `memfold embed --json`
#[derive(Debug, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct EmbedDocument {
    pub(super) schema_version: u32,
    pub(super) mode: Mode,
    /// Memories in use, before anything was written.
    pub(super) live: u64,
    /// Those of them that have a valid vector of their text.
    pub(super) with_embedding: u64,
    /// Those that have no embedding.
    pub(super) missing: u64,
    /// Those whose embedding is of an earlier text; it stays.
    pub(super) stale: u64,
    /// Those whose embedding is no vector; it stays.
    pub(super) invalid: u64,
    /// The model of the store's vectors, or where there were none that of the new ones; `null` where nobody names it.
    pub(super) model: Option<String>,
    /// Components of each vector; `null` where there is none.
    pub(super) dim: Option<u64>,
    /// `daemon`, `openai`, `ollama` or `local`; `null` where none is configured.
    pub(super) provider: Option<&'static str>,
    /// Where texts go: an address without what may be secret in it, or a folder.
    pub(super) place: Option<String>,
    /// Memories whose texts go there, or went: those that lack an embedding, up to `--limit`.
    pub(super) wanted: u64,
    /// Memories beyond `--limit`.
    pub(super) over_limit: u64,
    /// Memories that were given an embedding.
    pub(super) filled: u64,
    /// Memories that have one meanwhile, or a row without a vector in its place.
    pub(super) present: u64,
    /// Memories that are gone, or whose text changed meanwhile.
    pub(super) changed: u64,
    /// Memories that the provider or the store refused.
    pub(super) refused: Vec<RefusedMemory>,
    pub(super) seconds: f64,
}

/// A memory that stays without an embedding.
#[derive(Debug, serde::Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct RefusedMemory {
    pub(super) id: String,
    pub(super) reason: String,
}

impl EmbedDocument {
    /// Makes the document; `filled` is `None` for a dry run.
    pub(super) fn new(
        lacking: &Unembedded,
        (provider, place): (Option<&'static str>, Option<String>),
        (filled, over_limit): (Option<Filled>, u64),
        seconds: f64,
    ) -> Self {
        let mode = Mode::of(filled.is_some());
        let filled = filled.unwrap_or_default();
        let (coverage, space) = (&lacking.coverage, lacking.space.as_ref());
        let refused = |Refusal { id, reason }| RefusedMemory { id: id.as_str().to_owned(), reason };
        Self {
            schema_version: 1,
            mode,
            live: coverage.live,
            with_embedding: coverage.with_embedding,
            missing: coverage.missing,
            stale: coverage.stale,
            invalid: coverage.invalid,
            model: space.map(|space| space.model.to_string()).or(filled.model),
            dim: space.map(|space| space.dim.into()).or(filled.dim.map(|dim| dim as u64)),
            provider,
            place,
            wanted: lacking.pending.len() as u64,
            over_limit,
            filled: filled.filled,
            present: filled.present,
            changed: filled.changed,
            refused: filled.refused.into_iter().map(refused).collect(),
            seconds,
        }
    }

    /// Tells whether the store was to be written.
    pub(super) fn executed(&self) -> bool {
        self.mode == Mode::Execute
    }
}
