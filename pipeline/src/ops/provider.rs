//! Who makes vectors: [`Provider`] for a caller who waits, [`new_vectors`] for the texts that a plan writes.

use std::net::{TcpStream, ToSocketAddrs};
use std::path::Path;
use std::time::Duration;

use memfold_core::plan::Action;
use memfold_store::BrainDb;

use super::store::open_options;
use super::{Failure, FailureKind, Listener, Settings};
use crate::embed::fill::NewVectors;
use crate::embed::{EmbedError, EmbedSettings, Embedder, embedder, store_model};
use crate::quick_check::{Incoming, vector_fault};

/// Provider failures in a row after which it is left alone: each may take the whole time limit.
const FAILURES_MAX: u32 = 3;

/// How long a connection to this machine may take.
const LISTENING_WAIT: Duration = Duration::from_millis(100);

/// The note on a text without a vector, if nobody makes one.
const NO_PROVIDER: &str = "no vector: texts are compared by their words; give a vector, or configure who makes vectors \
                           (embed.provider; docs/embedding.md)";

/// The provider of vectors for interactive use: the configured one, or the daemon of the store's
/// owner where it listens on this machine.
pub struct Provider {
    embedder: Option<Box<dyn Embedder>>,
    /// Whether the destination of texts was reported, or they go nowhere.
    is_told: bool,
    failures: u32,
}

impl Provider {
    /// Opens the configured provider, by default with the model of the store; nothing is sent yet.
    ///
    /// # Errors
    /// When the configuration names something that cannot be used.
    pub fn open(settings: &Settings, store: &Path) -> Result<Self, Failure> {
        let embed = &settings.configuration.settings.embed;
        let asked = embed.inline();
        let is_absent = embed.is_default() && !listens(asked.url.as_deref());
        let asks_store = !is_absent && asked.model.is_none();
        let model = asks_store.then(|| store_model(&BrainDb::at(store, open_options(settings))));
        let model = model.flatten();
        let made = if is_absent { Ok(None) } else { configured(&asked, model.as_deref()) };
        let embedder = made.map_err(|error| {
            Failure::of("use the embedding provider", &error).of_kind(FailureKind::Usage)
        })?;
        let is_told = embed.provider == Some(crate::embed::Provider::Local);
        Ok(Self { embedder, is_told, failures: 0 })
    }

    /// Tells whether there is anybody to ask.
    #[must_use]
    pub fn is_there(&self) -> bool {
        self.embedder.is_some()
    }

    /// Returns the vector of a text and the model that made it, or why there is none.
    ///
    /// # Errors
    /// When nobody makes vectors, or the provider failed.
    pub fn vector(
        &mut self,
        text: &str,
        listener: &dyn Listener,
    ) -> Result<(Vec<f32>, Option<String>), String> {
        let Some(embedder) = &mut self.embedder else { return Err(NO_PROVIDER.to_owned()) };
        if self.failures >= FAILURES_MAX {
            return Err(format!("the provider failed {FAILURES_MAX} times and is not asked again"));
        }
        if !self.is_told {
            listener.note(&format!("note: texts are sent to {}", embedder.place()));
            self.is_told = true;
        }
        match embedder.embed(&[text]) {
            Ok(mut vectors) => {
                self.failures = 0;
                let vector = vectors.pop().unwrap_or_default();
                Ok((vector, embedder.model().map(str::to_owned)))
            }
            Err(error) => {
                self.failures += 1;
                Err(format!("no vector was made of the text: {error}"))
            }
        }
    }

    /// Adds a vector to a memory that has none; returns a note for the user if that fails.
    pub fn fill(&mut self, incoming: &mut Incoming, listener: &dyn Listener) -> Option<String> {
        let (None, Some(text)) = (&incoming.vector, &incoming.text) else { return None };
        match self.vector(text, listener) {
            Ok((vector, _)) if let Some(fault) = vector_fault(&vector) => {
                Some(format!("the provider made no usable vector: {fault}"))
            }
            Ok((vector, model)) => {
                incoming.vector = Some(vector);
                incoming.model = model;
                None
            }
            Err(note) => Some(note),
        }
    }
}

/// Makes the vectors of the texts that actions write, as far as they are applied. Without a
/// provider, texts that rules made go without one: where their memories have vectors, the store
/// refuses them.
pub(super) fn new_vectors<'t>(
    actions: impl Iterator<Item = &'t Action>,
    settings: &Settings,
    listener: &dyn Listener,
) -> Result<NewVectors, Failure> {
    let writing: Vec<&Action> = actions.filter(|action| action.new_content.is_some()).collect();
    let texts: Vec<&str> =
        writing.iter().filter_map(|action| action.new_content.as_deref()).collect();
    if texts.is_empty() {
        return Ok(NewVectors::default());
    }
    let embed = &settings.configuration.settings.embed;
    let what = "make the vectors of new texts";
    let provider = configured(embed, None).map_err(|error| Failure::of(what, &error))?;
    let by_rules = writing.iter().all(|action| action.rationale.evidence.decided_by.is_none());
    if provider.is_none() && by_rules {
        return Ok(NewVectors::default());
    }
    let provider = provider.ok_or_else(|| {
        Failure::usage(
            "the plan writes new texts, and nobody makes their vectors",
            "configure embed.provider (docs/embedding.md), or leave them out: \
             --except rewrite,summarize",
        )
    })?;
    note_place(embed, &*provider, &format!("{} new texts", texts.len()), listener);
    NewVectors::make(provider, &texts, embed.batch_size, listener)
        .map_err(|error| Failure::of(what, &error))
}

/// Makes the provider of the settings ready; `model` is asked for where they name none.
pub(super) fn configured(
    settings: &EmbedSettings,
    model: Option<&str>,
) -> Result<Option<Box<dyn Embedder>>, EmbedError> {
    embedder(settings, model, &|name| std::env::var(name).ok())
}

/// Reports where texts go, unless they stay in this process.
pub(super) fn note_place(
    settings: &EmbedSettings,
    provider: &dyn Embedder,
    texts: &str,
    listener: &dyn Listener,
) {
    if settings.provider != Some(crate::embed::Provider::Local) {
        listener.note(&format!("note: {texts} are sent to {}", provider.place()));
    }
}

/// Tells whether a server listens at an address of this machine. Nothing is sent.
fn listens(url: Option<&str>) -> bool {
    let Some(place) = url.and_then(|url| url.strip_prefix("http://")) else { return false };
    let addresses = place.to_socket_addrs().into_iter().flatten();
    addresses
        .filter(|address| address.ip().is_loopback())
        .any(|address| TcpStream::connect_timeout(&address, LISTENING_WAIT).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_listens_on_this_machine_is_asked_unconfigured() {
        let daemon = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", daemon.local_addr().unwrap());
        assert!(listens(Some(&url)));
        drop(daemon);
        for absent in [Some(&*url), Some("http://192.0.2.1:8030"), Some("no address"), None] {
            assert!(!listens(absent), "{absent:?}");
        }
    }
}
