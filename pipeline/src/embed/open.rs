//! [`embedder`]: the configured provider, ready for requests.

use jiff::tz::TimeZone;
use memfold_core::time::Instant;
use memfold_index::NoProgress;
use memfold_store::reading::MODEL_UNNAMED;
use memfold_store::{BrainDb, LoadRequest, StoreError};

use super::http::{Api, HttpEmbedder};
use super::provider::{EmbedError, Embedder};
use super::{EmbedSettings, KeyFromElsewhere, Provider, local};

/// Returns the model of most of a store's embeddings; `None` where they name none or cannot be read.
///
/// It surveys all embeddings, so only a caller without a configured model should ask.
#[must_use]
pub(crate) fn store_model(store: &BrainDb) -> Option<String> {
    let (time_zone, now) = (&TimeZone::UTC, Instant(0));
    let load = LoadRequest { time_zone, now, progress: &NoProgress };
    let shapes = store.look_up::<_, StoreError>(&load, |reader| reader.shapes()).ok()?;
    let model = shapes.model(None).into_owned();
    (model != MODEL_UNNAMED).then_some(model)
}

/// Makes the configured provider ready; `None` where none is configured. Nothing is sent anywhere yet.
///
/// `store_model` is the model of the store's embeddings, requested from a provider where no model
/// is configured. `variables` finds environment variables: the key is in one.
///
/// # Errors
/// When the configuration lacks something, or a local model cannot be read.
pub fn embedder(
    settings: &EmbedSettings,
    store_model: Option<&str>,
    variables: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<Box<dyn Embedder>>, EmbedError> {
    let Some(provider) = settings.provider.filter(|provider| *provider != Provider::Off) else {
        return Ok(None);
    };
    if let Some(elsewhere) = &settings.key_from_elsewhere {
        let KeyFromElsewhere { key, address } = &**elsewhere;
        return Err(EmbedError::Setting {
            key: "embed.api_key_env",
            problem: format!("comes from {key}, and the address from {address}"),
            advice: "a key goes only where the place that names it says: name both in one place"
                .to_owned(),
        });
    }
    let api = match provider {
        Provider::Daemon => Api::Daemon,
        Provider::Openai => Api::Openai,
        Provider::Ollama => Api::Ollama,
        Provider::Off => return Ok(None),
        Provider::Local => return local::open(settings, store_model).map(Some),
    };
    Ok(Some(Box::new(HttpEmbedder::new(api, settings, store_model, variables)?)))
}
