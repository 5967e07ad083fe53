//! Providers over HTTP.

use memfold_core::judge::http::{Client, Endpoint, HttpError, beginning, key_in};
use memfold_guard::text::excerpt;
use serde::Deserialize;
use serde_json::{Value, json};

use super::provider::checked;
use super::{EmbedError, EmbedSettings, Embedder};

/// Longest answer that holds no vector.
const REPLY_BYTES: u64 = 1 << 20;
/// Longest vector as text: some 16,000 components.
const VECTOR_BYTES: u64 = 512 << 10;
/// Characters of an invalid answer that an error quotes.
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
            client: client(api, settings, variables)?,
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
            HttpError::Unexpected {
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

fn client(
    api: Api,
    settings: &EmbedSettings,
    variables: &dyn Fn(&str) -> Option<String>,
) -> Result<Client, EmbedError> {
    let base = settings.url.as_deref();
    let base = base.or_else(|| settings.provider?.url_default()).ok_or_else(no_address)?;
    let EmbedSettings { timeout, time_limit, retries, .. } = *settings;
    let url = endpoint(api, base);
    let key = key(settings, variables)?;
    Client::new(Endpoint { url, key, timeout, time_limit, retries }).map_err(|error| match error {
        HttpError::Address { found } => bad_address(found),
        error => error.into(),
    })
}

/// Reads the key from the variable that the configuration names.
fn key(
    settings: &EmbedSettings,
    variables: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<String>, EmbedError> {
    let Some(name) = &settings.api_key_env else { return Ok(None) };
    key_in(name, variables).map(Some).map_err(|problem| EmbedError::Setting {
        key: "embed.api_key_env",
        problem,
        advice: format!("export {name}=…, or --set embed.api_key_env=null where no key is needed"),
    })
}

fn no_address() -> EmbedError {
    EmbedError::Setting {
        key: "embed.url",
        problem: "is not set, and many programs speak this protocol".to_owned(),
        advice: "say where texts may go, such as --set embed.url=http://localhost:1234 or https://api.openai.com"
            .to_owned(),
    }
}

fn bad_address(found: String) -> EmbedError {
    EmbedError::Setting {
        key: "embed.url",
        problem: format!("is no address: {found}"),
        advice: "write it like http://localhost:8030".to_owned(),
    }
}

/// A way to ask for vectors.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Api {
    /// `POST /embed`.
    Daemon,
    /// `POST /v1/embeddings`.
    Openai,
    /// `POST /api/embed`.
    Ollama,
}

/// The content of an answer.
#[derive(Debug, PartialEq)]
struct Answer {
    vectors: Vec<Vec<f32>>,
    model: Option<String>,
}

#[derive(Deserialize)]
struct Plain {
    embeddings: Option<Vec<Vec<f32>>>,
    embedding: Option<Vec<f32>>,
    model: Option<Value>,
}

#[derive(Deserialize)]
struct Listed {
    data: Vec<Item>,
    model: Option<Value>,
}

#[derive(Deserialize)]
struct Item {
    index: Option<usize>,
    embedding: Vec<f32>,
}

impl Api {
    /// Returns the body of a request.
    fn request(self, texts: &[&str], model: Option<&str>) -> Value {
        match (self, texts) {
            (Self::Daemon, [text]) => json!({ "text": text }),
            (Self::Daemon, texts) => json!({ "texts": texts }),
            (Self::Openai | Self::Ollama, texts) => json!({ "model": model, "input": texts }),
        }
    }

    /// Returns the format of an answer.
    const fn expected(self) -> &'static str {
        match self {
            Self::Daemon | Self::Ollama => "{\"embeddings\": [[…]]}",
            Self::Openai => "{\"data\": [{\"index\": 0, \"embedding\": […]}]}",
        }
    }

    /// Reads an answer.
    ///
    /// # Errors
    /// A description of the defect.
    fn answer(self, reply: &[u8]) -> Result<Answer, String> {
        match self {
            Self::Daemon | Self::Ollama => plain(reply),
            Self::Openai => listed(reply),
        }
    }
}

fn plain(reply: &[u8]) -> Result<Answer, String> {
    let Plain { embeddings, embedding, model } = parsed(reply)?;
    let vectors = embeddings.or_else(|| embedding.map(|one| vec![one]));
    let vectors = vectors.ok_or("no `embeddings`")?;
    Ok(Answer { vectors, model: named(model) })
}

fn listed(reply: &[u8]) -> Result<Answer, String> {
    let Listed { mut data, model } = parsed(reply)?;
    // Some servers leave the places out, and then list the vectors in order.
    if data.iter().any(|item| item.index.is_some()) {
        data.sort_by_key(|item| item.index);
        if !data.iter().map(|item| item.index).eq((0..data.len()).map(Some)) {
            return Err(format!("`index` does not run from 0 to {}", data.len() - 1));
        }
    }
    let vectors = data.into_iter().map(|item| item.embedding).collect();
    Ok(Answer { vectors, model: named(model) })
}

fn parsed<'a, T: Deserialize<'a>>(reply: &'a [u8]) -> Result<T, String> {
    serde_json::from_slice(reply).map_err(|error| error.to_string())
}

fn named(model: Option<Value>) -> Option<String> {
    model?.as_str().filter(|name| !name.is_empty()).map(str::to_owned)
}

/// Returns where to post: the address as given where it names the path, else with it.
fn endpoint(api: Api, base: &str) -> String {
    let (path, query) =
        base.split_once('?').map_or((base, None), |(path, query)| (path, Some(query)));
    let path = path.split('#').next().unwrap_or_default().trim_end_matches('/');
    let (whole, part, rest) = match api {
        Api::Daemon => ("/embed", "", "/embed"),
        Api::Openai => ("/embeddings", "/v1", "/embeddings"),
        Api::Ollama => ("/api/embed", "/api", "/embed"),
    };
    let path = if path.ends_with(whole) {
        path.to_owned()
    } else if path.ends_with(part) {
        format!("{path}{rest}")
    } else {
        format!("{path}{part}{rest}")
    };
    query.map_or_else(|| path.clone(), |query| format!("{path}?{query}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_added_where_they_lack() {
        for (api, base, expected) in [
            (Api::Daemon, "http://localhost:8030", "http://localhost:8030/embed"),
            (Api::Daemon, "http://localhost:8030/", "http://localhost:8030/embed"),
            (Api::Daemon, "http://h/embed", "http://h/embed"),
            (Api::Openai, "http://h:1234", "http://h:1234/v1/embeddings"),
            (Api::Openai, "https://h/v1", "https://h/v1/embeddings"),
            (Api::Openai, "https://h/v1/", "https://h/v1/embeddings"),
            (Api::Openai, "https://h/v1/embeddings", "https://h/v1/embeddings"),
            (Api::Openai, "https://h/x?v=1", "https://h/x/v1/embeddings?v=1"),
            (Api::Ollama, "http://h", "http://h/api/embed"),
            (Api::Ollama, "http://h/api", "http://h/api/embed"),
            (Api::Ollama, "http://h/api/embed", "http://h/api/embed"),
        ] {
            assert_eq!(endpoint(api, base), expected, "{base}");
        }
    }
}
