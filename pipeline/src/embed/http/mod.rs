//! Providers that are asked over HTTP.

mod address;
mod api;
mod client;

pub(super) use self::api::Api;
use self::api::beginning;
use self::client::Client;
use super::check::checked;
use super::{EmbedError, EmbedSettings, Embedder};
use memfold_model::text::excerpt;

/// Longest answer that holds no vector.
const REPLY_BYTES: u64 = 1 << 20;
/// Longest vector as text: some 16,000 components.
const VECTOR_BYTES: u64 = 512 << 10;
/// How much of what is wrong with an answer is shown.
const PROBLEM_CHARS: usize = 100;

/// A provider behind an address.
pub(super) struct HttpEmbedder {
    api: Api,
    client: Client,
    /// The model's name as the provider spells it.
    request_model: Option<String>,
    model: Option<String>,
}

impl HttpEmbedder {
    /// Makes one; sends nothing yet.
    pub(super) fn new(
        api: Api,
        settings: &EmbedSettings,
        store_model: Option<&str>,
        variables: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, EmbedError> {
        let configured = settings.model.as_deref();
        let request_model = settings.request_model.as_deref().or(configured).or(store_model);
        let model = match api {
            // It has one model, and may say which.
            Api::Daemon => configured,
            Api::Openai | Api::Ollama => configured.or(store_model).or(request_model),
        };
        if api != Api::Daemon && request_model.is_none() {
            return Err(EmbedError::Setting {
                key: "embed.model",
                problem: "is not set, and the store names no model".to_owned(),
                advice: "name the model that should make the vectors: --set embed.model=NAME"
                    .into(),
            });
        }
        Ok(Self {
            api,
            client: Client::new(api, settings, variables)?,
            request_model: request_model.map(str::to_owned),
            model: model.map(str::to_owned),
        })
    }
}

impl Embedder for HttpEmbedder {
    fn model(&self) -> Option<&str> {
        self.model.as_deref()
    }

    fn place(&self) -> &str {
        self.client.place()
    }

    fn embed(&mut self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError> {
        if texts.is_empty() {
            return Ok(Vec::new());
        }
        let request = self.api.request(texts, self.request_model.as_deref());
        let bytes_max = REPLY_BYTES + VECTOR_BYTES * texts.len() as u64;
        let reply = self.client.post(&request, bytes_max)?;
        let answer = self.api.answer(&reply).map_err(|problem| {
            let found = beginning(&self.client.without_key(&reply));
            let problem = self.client.without_key(problem.as_bytes());
            EmbedError::Unexpected {
                place: self.place().to_owned(),
                expected: self.api.expected(),
                found: format!("{found} ({})", excerpt(&problem, PROBLEM_CHARS)),
            }
        })?;
        let vectors = checked(self.place(), texts.len(), answer.vectors)?;
        if self.model.is_none() {
            self.model = answer.model;
        }
        Ok(vectors)
    }
}
