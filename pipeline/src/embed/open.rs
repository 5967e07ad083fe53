//! [`embedder`]: the configured provider, ready to be asked.

use super::http::{Api, HttpEmbedder};
use super::provider::{EmbedError, Embedder};
use super::{EmbedSettings, KeyFromElsewhere, Provider, local};

/// Makes the configured provider ready; `None` where none is configured. Nothing is sent anywhere yet.
///
/// `store_model` is what the store's embeddings say, and what a provider is asked for where no model is configured.
/// `variables` finds environment variables: the key is in one.
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
