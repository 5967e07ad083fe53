//! What `memfold check` and `memfold save` share.

pub(crate) mod check;
pub(crate) mod save;

mod documents;
mod lines;

use memfold::embed::{Embedder, embedder};
use memfold::machine;
use memfold::quick_check::{Incoming, QuickCheck, QuickCheckOptions};
use memfold_index::snapshot::FileMode;
use memfold_simd::Kernels;
use std::path::PathBuf;
use std::time::Duration;

use crate::args::{IndexPlaceArgs, MemoryArgs, StorePlaceArgs};
use crate::commands::index::place;
use crate::commands::vector;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::resources;
use crate::settings::Settings;

impl From<&StorePlaceArgs> for IndexPlaceArgs {
    fn from(args: &StorePlaceArgs) -> Self {
        Self { db: args.db.clone(), index_dir: args.index_dir.clone() }
    }
}

/// Opens a store for checks and saves.
pub fn open(args: &StorePlaceArgs, settings: &Settings) -> Result<QuickCheck, Failure> {
    let configured = &settings.configuration.settings;
    let options = QuickCheckOptions {
        policy: settings.configuration.policy.clone(),
        check: configured.quick_check,
        time_zone: settings.time_zone()?,
        busy_timeout: Duration::from_millis(configured.busy_timeout_ms.into()),
        holder: machine::holder(),
        index_folder: index_folder(args)?,
        read_only: configured.read_only || !configured.enabled,
        kernels: Kernels::active(),
        clock: resources::clock_seconds,
    };
    QuickCheck::open(&args.db, options).map_err(|error| {
        let hint = error.hint();
        Failure { exit: Exit::Usage, ..Failure::new("read the lexicon", &error, hint) }
    })
}

/// Returns the folder of a store's index.
///
/// # Errors
/// When the store cannot be found.
pub fn index_folder(args: &StorePlaceArgs) -> Result<PathBuf, Failure> {
    place::to_read(&args.into())
}

/// Returns the permissions that files beside a store get.
fn mode_like(args: &StorePlaceArgs) -> FileMode {
    std::fs::metadata(&args.db).map_or(FileMode::PRIVATE, |metadata| FileMode::like(&metadata))
}

/// Takes a memory as typed.
fn incoming(text: Option<&String>, args: &MemoryArgs) -> Result<Incoming, Failure> {
    Ok(Incoming {
        id: None,
        text: text.cloned(),
        categories: args.categories.clone(),
        importance: None,
        source: args.source.clone(),
        vector: args.vector.as_deref().map(vector::parse).transpose()?,
        model: args.model.clone(),
    })
}

/// Provider failures in a row after which it is left alone: each may take the whole time limit.
const FAILURES_MAX: u32 = 3;

/// The provider of vectors for somebody who waits, where one is configured.
pub(crate) struct Provider {
    embedder: Option<Box<dyn Embedder>>,
    /// Whether it was told where texts go, or they go nowhere.
    is_told: bool,
    failures: u32,
    printer: Printer,
}

impl Provider {
    pub(crate) fn open(settings: &Settings, printer: Printer) -> Result<Self, Failure> {
        let variables = |name: &str| std::env::var(name).ok();
        let configured = &settings.configuration.settings.embed;
        let embedder = embedder(&configured.inline(), None, &variables).map_err(|error| {
            let hint = error.hint();
            Failure {
                exit: Exit::Usage,
                ..Failure::new("use the embedding provider", &error, hint)
            }
        })?;
        let is_told = configured.provider == Some(memfold::embed::Provider::Local);
        Ok(Self { embedder, is_told, failures: 0, printer })
    }

    /// Returns the vector of a text and the model that made it, or why there is none.
    pub(crate) fn vector(&mut self, text: &str) -> Result<(Vec<f32>, Option<String>), String> {
        let Some(embedder) = &mut self.embedder else { return Err(NO_PROVIDER.to_owned()) };
        if self.failures >= FAILURES_MAX {
            return Err(format!("the provider failed {FAILURES_MAX} times and is not asked again"));
        }
        if !self.is_told {
            self.printer.note(&format!("note: texts are sent to {}", embedder.place()));
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

    /// Adds a vector to a memory that has none; returns what should be said where that cannot be done.
    fn fill(&mut self, incoming: &mut Incoming) -> Option<String> {
        let (None, Some(text)) = (&incoming.vector, &incoming.text) else { return None };
        match self.vector(text) {
            Ok((vector, model)) => {
                incoming.vector = Some(vector);
                incoming.model = model;
                None
            }
            Err(note) => Some(note),
        }
    }
}

/// Said of a text without a vector, where nobody makes one.
pub(crate) const NO_PROVIDER: &str = "no vector: only equal texts are found; give --vector, or configure who makes vectors \
                                      (embed.provider; docs/embedding.md)";
