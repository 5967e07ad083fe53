//! What providers are sent, and what they answer.

use serde::Deserialize;
use serde_json::{Value, json};

use memfold_model::text::excerpt;

/// How much of an answer is shown.
const SHOWN_CHARS: usize = 120;

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

/// What came.
#[derive(Debug, PartialEq)]
pub(super) struct Answer {
    pub(super) vectors: Vec<Vec<f32>>,
    pub(super) model: Option<String>,
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
    pub(super) fn request(self, texts: &[&str], model: Option<&str>) -> Value {
        match (self, texts) {
            (Self::Daemon, [text]) => json!({ "text": text }),
            (Self::Daemon, texts) => json!({ "texts": texts }),
            (Self::Openai | Self::Ollama, texts) => json!({ "model": model, "input": texts }),
        }
    }

    /// Returns what an answer looks like.
    pub(super) const fn expected(self) -> &'static str {
        match self {
            Self::Daemon | Self::Ollama => "{\"embeddings\": [[…]]}",
            Self::Openai => "{\"data\": [{\"index\": 0, \"embedding\": […]}]}",
        }
    }

    /// Reads an answer.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn answer(self, reply: &[u8]) -> Result<Answer, String> {
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

/// Returns the message in what came with an error status, or how it begins.
pub(super) fn complaint(reply: &str) -> String {
    let said = serde_json::from_str::<Value>(reply).ok().and_then(|reply| {
        let places =
            [&reply["error"]["message"], &reply["error"], &reply["message"], &reply["detail"]];
        places.into_iter().find_map(Value::as_str).map(str::to_owned)
    });
    said.map_or_else(|| beginning(reply), |said| excerpt(&said, SHOWN_CHARS))
}

/// Returns how an answer begins.
pub(super) fn beginning(reply: &str) -> String {
    if reply.is_empty() {
        return "nothing".to_owned();
    }
    excerpt(reply, SHOWN_CHARS)
}
