//! Memories without an embedding get one, or all vectors are replaced by those of another model.

use std::num::NonZeroUsize;
use std::path::Path;

use memfold_core::policy::name_of;
use memfold_core::report::Mode;
use memfold_index::JoinOptions;
use memfold_store::LoadRequest;
use serde::Serialize;

use super::provider::{configured, note_place};
use super::{
    Failure, FailureKind, Listener, Settings, index_to_build, mode_of, now, open_own_tables,
    open_store, pool, scratch_dir,
};
use crate::embed::EmbedError;
use crate::embed::fill::{
    Coverage, Fill, Filled, Refusal, Unembedded, check_space, fill, unembedded,
};
use crate::embed::replace::{BothModels, ComparedPairs, Replace, ReplaceError, Replaced};
use crate::machine::{self, Stopwatch};

/// How embeddings are made.
#[derive(Debug, Clone, Copy, Default)]
pub struct EmbedRequest<'a> {
    /// Give so many memories an embedding at most, the newest first.
    pub limit: Option<usize>,
    /// The time of the writes, in place of the clock's.
    pub now: Option<&'a str>,
    /// Whether the store is written.
    pub execute: bool,
}

/// `memfold embed --json`
#[derive(Debug, Serialize)]
pub struct EmbedDocument {
    schema_version: u32,
    /// Whether the store was to be written.
    pub mode: Mode,
    /// How far embeddings reached before anything was written.
    #[serde(flatten)]
    pub coverage: Coverage,
    /// The model of the store's vectors, or where there were none that of the new ones; `null` where nobody names it.
    pub model: Option<String>,
    /// Components of each vector; `null` where there is none.
    pub dim: Option<u64>,
    /// `daemon`, `openai`, `ollama` or `local`; `null` where none is configured.
    provider: Option<String>,
    /// Where texts go: an address without parts that may be secret, or a folder.
    pub place: Option<String>,
    /// Memories to embed: the ones without an embedding, up to the limit.
    pub wanted: u64,
    /// Memories beyond the limit.
    pub over_limit: u64,
    /// What was done; zeros for a dry run.
    #[serde(flatten)]
    pub filled: Filled,
    seconds: f64,
}

/// `memfold embed --replace --json`
#[derive(Debug, Serialize)]
pub struct ReplaceDocument {
    schema_version: u32,
    /// Whether the store was to be written.
    pub mode: Mode,
    /// Memories in use.
    pub live: u64,
    /// The model of most vectors of another model; `null` where there are none.
    pub model_before: Option<String>,
    /// Its components.
    pub dim_before: Option<u32>,
    /// The new model.
    pub model: String,
    /// Its components.
    pub dim: Option<u32>,
    /// Texts that were sent to the provider now.
    pub sent: u64,
    /// How the pairs of both differ.
    pub pairs: ComparedPairs,
    /// The counts of the replacement.
    #[serde(flatten)]
    pub replaced: Replaced,
    /// Memories with a text that the provider does not take.
    pub refused: Vec<Refusal>,
    seconds: f64,
}

/// Gives memories without an embedding one of the configured provider; a dry run only counts.
///
/// # Errors
/// When the store cannot be read or written, or no provider is configured or it fails. Embeddings
/// that were written stay.
pub fn embed(
    db: &Path,
    settings: &Settings,
    request: EmbedRequest<'_>,
    listener: &dyn Listener,
) -> Result<EmbedDocument, Failure> {
    let (stopwatch, time_zone) = (Stopwatch::start(), settings.time_zone()?);
    let load = LoadRequest {
        time_zone: &time_zone,
        now: now(request.now, &time_zone)?,
        progress: listener,
    };
    let refused = |error| unfilled(&error, 0);
    let mut lacking = unembedded(&open_store(db, settings)?, &load).map_err(refused)?;
    let found = lacking.pending.len();
    lacking.pending.truncate(request.limit.unwrap_or(usize::MAX));
    let embed = &settings.configuration.settings.embed;
    let provider = configured(embed, lacking.model()).map_err(refused)?;
    if let Some(provider) = &provider {
        check_space(lacking.space.as_ref(), provider.model()).map_err(refused)?;
    }
    let place = provider.as_ref().map(|provider| provider.place().to_owned());
    let filled = match provider {
        _ if !request.execute || lacking.pending.is_empty() => Filled::default(),
        Some(provider) => {
            note_place(embed, &*provider, "texts", listener);
            let fixed = request.now.map(|_| load.now);
            let how = Fill {
                space: lacking.space.clone(),
                batch_size: embed.batch_size,
                clock: &|| fixed.unwrap_or_else(machine::clock),
                time_zone: &time_zone,
                progress: listener,
            };
            // Beside other runs: rows are only added, and each transaction checks the present rows again.
            let session = open_own_tables(db, settings)?;
            let (filled, done) = fill(&session, &lacking.pending, provider, &how);
            listener.end();
            done.map_err(|error| unfilled(&error, filled.filled))?;
            filled
        }
        None => {
            return Err(Failure::usage(
                "no provider of vectors is configured",
                "say who makes them: --set embed.provider=daemon (the brain's own, port 8030), \
                 ollama, openai or local; docs/embedding.md tells more",
            ));
        }
    };
    let Unembedded { coverage, space, pending } = lacking;
    let (model, dim) = space.map(|space| (space.model.to_string(), u64::from(space.dim))).unzip();
    Ok(EmbedDocument {
        schema_version: 1,
        mode: Mode::of(request.execute),
        coverage,
        model: model.or_else(|| filled.model.clone()),
        dim: dim.or(filled.dim.map(|dim| dim as u64)),
        provider: embed.provider.map(name_of),
        place,
        wanted: pending.len() as u64,
        over_limit: (found - pending.len()) as u64,
        filled,
        seconds: stopwatch.seconds(),
    })
}

/// Compares the pairs of a new model with those of the present one, and replaces the vectors where
/// that is requested. New vectors are kept beside the index, so that no text is sent twice.
///
/// # Errors
/// When the store, the provider or a file fails.
pub fn replace_model(
    db: &Path,
    settings: &Settings,
    model: &str,
    request: EmbedRequest<'_>,
    threads: Option<NonZeroUsize>,
    listener: &dyn Listener,
) -> Result<ReplaceDocument, Failure> {
    let (stopwatch, time_zone) = (Stopwatch::start(), settings.time_zone()?);
    let mut embed = settings.configuration.settings.embed.clone();
    embed.model = Some(model.to_owned());
    let provider = configured(&embed, Some(model)).map_err(|error| unfilled(&error, 0))?;
    if let Some(provider) = &provider {
        note_place(&embed, &**provider, "texts without a kept vector", listener);
    }
    let (folder, mode, scratch_dir) = (index_to_build(db, None)?, mode_of(db)?, scratch_dir());
    let (pool, now) = (pool(threads)?, now(request.now, &time_zone)?);
    let both = BothModels::compare(
        &open_store(db, settings)?,
        &LoadRequest { time_zone: &time_zone, now, progress: listener },
        Replace {
            model,
            provider,
            batch_size: embed.batch_size,
            folder: &folder,
            mode,
            scratch_dir: &scratch_dir,
            threshold: settings.configuration.policy.propose.min_similarity,
            join: JoinOptions {
                scratch_dir: Some(&scratch_dir),
                progress: listener,
                ..JoinOptions::new(&pool)
            },
        },
    );
    let both = both.map_err(|error| unreplaced(&error))?;
    let replaced = match request.execute {
        false => Replaced::default(),
        true => {
            let written =
                both.write(&open_own_tables(db, settings)?, &folder, mode, now, &time_zone);
            written.map_err(|error| unreplaced(&error))?
        }
    };
    Ok(ReplaceDocument {
        schema_version: 1,
        mode: Mode::of(request.execute),
        live: both.live() as u64,
        model_before: both.old.as_ref().map(|space| space.model.to_string()),
        dim_before: both.old.as_ref().map(|space| space.dim),
        model: model.to_owned(),
        dim: both.dim(),
        sent: both.sent,
        pairs: both.pairs,
        replaced,
        refused: both.refused,
        seconds: stopwatch.seconds(),
    })
}

/// A failure after so many embeddings were written.
fn unfilled(error: &EmbedError, filled: u64) -> Failure {
    let failure = match error {
        error if error.is_cancelled() && filled == 0 => return Failure::interrupted(),
        error if error.is_cancelled() => Failure::plain("interrupted", "running again continues")
            .of_kind(FailureKind::Interrupted),
        error => Failure::of("embed", error),
    };
    match filled {
        0 => failure,
        _ => {
            let message = format!("{}; {filled} embeddings were written and stay", failure.message);
            Failure { message, ..failure }
        }
    }
}

fn unreplaced(error: &ReplaceError) -> Failure {
    let hint = match error {
        ReplaceError::Embed(error) => return unfilled(error, 0),
        ReplaceError::File(error) => error.hint(),
        ReplaceError::Columns(error) => error.hint(),
        ReplaceError::Join(error) => error.hint(),
        ReplaceError::Pairs(error) => error.hint(),
    };
    Failure::new("replace the model", error, hint)
}
