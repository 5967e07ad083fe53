//! [`EmbedSettings`]: who makes vectors of texts, and how long it may take.

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Who makes vectors of texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Provider {
    /// The embeddings daemon of a `brain.db`'s owner: `POST /embed`.
    Daemon,
    /// Anything that speaks OpenAI's `POST /v1/embeddings`.
    Openai,
    /// Ollama: `POST /api/embed`.
    Ollama,
    /// A model in a folder, run in this process; needs a build with the feature `embed-candle`.
    Local,
}

impl Provider {
    /// Returns the name as configured.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Daemon => "daemon",
            Self::Openai => "openai",
            Self::Ollama => "ollama",
            Self::Local => "local",
        }
    }

    /// Returns where it listens unless told otherwise; all but one listen on this machine.
    #[must_use]
    pub const fn url_default(self) -> Option<&'static str> {
        match self {
            Self::Daemon => Some("http://localhost:8030"),
            Self::Ollama => Some("http://localhost:11434"),
            Self::Openai | Self::Local => None,
        }
    }
}

/// How vectors of texts are made, as configured. No secret is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbedSettings {
    /// Who makes them; `None`: nobody.
    pub provider: Option<Provider>,
    /// Where the provider listens; `None`: [`Provider::url_default`].
    pub url: Option<String>,
    /// The model's name as the store spells it; `None`: what the provider says, or the store's.
    pub model: Option<String>,
    /// The model's name as the provider spells it, where that is another.
    pub request_model: Option<String>,
    /// The name of the environment variable that holds the key.
    pub api_key_env: Option<String>,
    /// How long one request may take, from connecting to the last byte.
    pub timeout: Duration,
    /// How often a request is repeated that found nobody, or a provider that is busy or failed.
    pub retries: u32,
    /// Texts in one request.
    pub batch_size: usize,
    /// The folder of a local model.
    pub dir: Option<PathBuf>,
    /// How long somebody who waits for a single vector is kept waiting.
    pub inline_timeout: Duration,
    /// How long a call may take with all its repetitions; `None`: as long as these take.
    pub time_limit: Option<Duration>,
    /// Where key and address come from, where these are two places: then nobody is asked.
    pub key_from_elsewhere: Option<Box<KeyFromElsewhere>>,
}

/// Two layers of a configuration, one of which names the key and the other one the address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyFromElsewhere {
    /// The one that names the key.
    pub key: String,
    /// The one that names the address.
    pub address: String,
}

impl EmbedSettings {
    /// Returns the settings for somebody who waits for a single vector.
    #[must_use]
    pub fn inline(&self) -> Self {
        Self { time_limit: Some(self.inline_timeout), ..self.clone() }
    }
}
