//! What `memfold check` and `memfold save` share.

pub(crate) mod check;
pub(crate) mod save;

mod documents;
mod lines;

use memfold_index::snapshot::FileMode;
use memfold_pipeline::embed::{Embedder, embedder};
use memfold_pipeline::quick_check::{Incoming, QuickCheck, QuickCheckOptions};
use memfold_simd::Kernels;
use std::path::PathBuf;
use std::time::Duration;

use crate::args::{IndexPlaceArgs, MemoryArgs, StorePlaceArgs};
use crate::commands::index::place;
use crate::commands::vector;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::resources;
use crate::settings::{self, Settings};

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
        holder: settings::holder(),
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

/// The provider of vectors, where one is configured.
struct Provider(Option<Box<dyn Embedder>>);

impl Provider {
    fn open(settings: &Settings) -> Result<Self, Failure> {
        let variables = |name: &str| std::env::var(name).ok();
        let embedder = embedder(&settings.configuration.settings.embed, None, &variables);
        Ok(Self(embedder.map_err(|error| {
            let hint = error.hint();
            Failure {
                exit: Exit::Usage,
                ..Failure::new("use the embedding provider", &error, hint)
            }
        })?))
    }

    /// Adds a vector to a memory that has none; returns what should be said where that cannot be done.
    fn fill(&mut self, incoming: &mut Incoming) -> Option<String> {
        let (Some(embedder), None, Some(text)) = (&mut self.0, &incoming.vector, &incoming.text)
        else {
            return None;
        };
        match embedder.embed(&[text]) {
            Ok(mut vectors) => {
                incoming.vector = vectors.pop();
                incoming.model = embedder.model().map(str::to_owned);
                None
            }
            Err(error) => Some(format!("no vector was made of the text: {error}")),
        }
    }
}
