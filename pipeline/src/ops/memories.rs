//! [`Memories`]: an open store for repeated checks, saves, searches and recalls.
//!
//! Texts without a vector get one of the configured provider, where there is one.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use jiff::tz::TimeZone;
use memfold_core::lifecycle::temporal::{Answer, answer, wants_time};
use memfold_core::memory::Memory;
use memfold_core::time::Instant;
use memfold_index::{NoProgress, Progress, VectorMatrix};
use memfold_simd::Kernels;
use memfold_store::{BrainDb, LoadRequest};
use schemars::JsonSchema;
use serde::Deserialize;

use super::lookups::candidates;
use super::{Failure, Listener, Provider, Settings, mode_like, open_options, open_quick_check};
use crate::execute::forbidden_by;
use crate::lookup::{
    IndexError, KeptIndex, Matches, Query, Sealed, SearchError, StoreIndex, Wanted, search,
    search_all, search_by_words,
};
use crate::machine::{self, Stopwatch};
use crate::quick_check::{
    Check, Incoming, QuickCheck, SaveError, SaveRequest, Saved, SavedOnce, with_user,
};
use crate::recall::{RECALLED_DEFAULT, RecallMode, RecallOptions, RecallQuery, Recalled, Recaller};

/// The note on a question without a vector, if nobody makes one.
const WORDS_ALONE: &str = "found by words alone: give a vector, or configure who makes vectors \
                           (embed.provider; docs/embedding.md)";
/// Factor for the number of candidates where only some memories are in scope.
const SCOPED_CANDIDATES: usize = 8;

/// How to open a store for lookups.
#[derive(Debug, Clone, Copy, Default)]
pub struct MemoriesOptions<'a> {
    /// The folder of the index; by default beside the store or in the cache.
    pub index_dir: Option<&'a Path>,
    /// Whether recalls may count the returned memories as read.
    pub may_count: bool,
    /// Whether texts may be without a vector, so that the provider is needed.
    pub embeds: bool,
}

/// A store that is open for lookups and saves; may be shared between threads.
pub struct Memories {
    path: PathBuf,
    time_zone: TimeZone,
    db: BrainDb,
    quick_check: QuickCheck,
    index: Arc<KeptIndex>,
    recaller: Recaller,
    provider: Option<Mutex<Provider>>,
    is_sealing: AtomicBool,
}

/// What to search for: one of `text`, `vector` and `id`.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct SearchRequest {
    /// The text of a memory, or any where a provider of vectors is configured.
    pub text: Option<String>,
    /// A vector.
    pub vector: Option<Vec<f32>>,
    /// A memory.
    pub id: Option<String>,
    /// Memories at most, up to 1,000; by default 10.
    pub limit: Option<usize>,
    /// Only those at least so similar.
    pub threshold: Option<f64>,
    /// Only memories of all these categories.
    pub categories: Vec<String>,
    /// Only memories of this user.
    pub user_id: Option<String>,
}

impl SearchRequest {
    /// Returns the query.
    ///
    /// # Errors
    /// When none of the three is given, or several.
    pub fn query(&self) -> Result<Query<'_>, Failure> {
        match (&self.text, &self.vector, &self.id) {
            (Some(text), None, None) => Ok(Query::Text(text)),
            (None, Some(vector), None) => Ok(Query::Vector(vector)),
            (None, None, Some(id)) => Ok(Query::Memory(id)),
            _ => {
                let hint = "give one of text, vector and id";
                Err(Failure::usage("a search is by one thing", hint))
            }
        }
    }
}

/// The results of a search.
#[derive(Debug)]
pub struct Found {
    /// The memories, the most similar first.
    pub matches: Matches,
    /// The index that was there to search.
    pub index: Option<Arc<StoreIndex>>,
    /// Seconds until the answer.
    pub seconds: f64,
}

/// A question.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RecallRequest {
    /// What is asked, in words.
    pub query: String,
    /// The vector of the question; by default made by the configured provider, where there is one.
    #[serde(default)]
    pub vector: Option<Vec<f32>>,
    /// How far down the tiers to look.
    #[serde(default)]
    pub mode: RecallMode,
    /// Memories at most, up to 1,000; by default 10.
    #[serde(default)]
    pub limit: Option<usize>,
    /// Whether summaries are found, too.
    #[serde(default)]
    pub include_summaries: bool,
    /// Work out the time that is asked for; by default where the question asks for a time.
    #[serde(default)]
    pub reason: bool,
    /// Do not count the memories as read.
    #[serde(default)]
    pub no_count: bool,
    /// Only memories of all these categories.
    #[serde(default)]
    pub categories: Vec<String>,
    /// Only memories of this user.
    #[serde(default)]
    pub user_id: Option<String>,
}

/// The results of a recall.
#[derive(Debug)]
pub struct Answered {
    /// The memories.
    pub recalled: Recalled,
    /// The time worked out from them.
    pub answer: Option<Answer>,
    /// Seconds until the answer.
    pub seconds: f64,
}

impl std::fmt::Debug for Memories {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Memories").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Memories {
    /// Opens a store; its rows are read on the first request.
    ///
    /// # Errors
    /// When the store cannot be found, or the configuration, the lexicon or the provider cannot be used.
    pub fn open(
        path: &Path,
        settings: &Settings,
        options: MemoriesOptions<'_>,
    ) -> Result<Self, Failure> {
        let configured = &settings.configuration.settings;
        let time_zone = settings.time_zone()?;
        let quick_check = open_quick_check(path, options.index_dir, settings)?;
        let index = quick_check.index();
        let recalls = RecallOptions {
            policy: settings.configuration.policy.clone(),
            retention: configured.lifecycle.retention.clone(),
            time_zone: time_zone.clone(),
            read_only: !options.may_count || forbidden_by(configured).is_some(),
        };
        let open = || BrainDb::at(path, open_options(settings));
        let recaller = Recaller::new(open(), Arc::clone(&index), recalls);
        let provider =
            if options.embeds { Some(Mutex::new(Provider::open(settings, path)?)) } else { None };
        Ok(Self {
            path: path.to_owned(),
            time_zone,
            db: open(),
            quick_check,
            index,
            recaller,
            provider,
            is_sealing: AtomicBool::new(false),
        })
    }

    /// Returns the index that lookups use now.
    ///
    /// # Errors
    /// When there is one that cannot be used; lookups do without it.
    pub fn index(&self) -> Result<Option<Arc<StoreIndex>>, IndexError> {
        self.index.live()
    }

    /// Decides how a memory would be saved, and writes nothing.
    ///
    /// # Errors
    /// When [`Self::save`] would refuse the memory as it is.
    pub fn check(
        &self,
        mut incoming: Incoming,
        listener: &dyn Listener,
    ) -> Result<Check, SaveError> {
        let note = self.fill(&mut incoming, listener);
        let mut check = self.quick_check.check(&incoming, machine::clock())?;
        check.notes.extend(note);
        Ok(check)
    }

    /// Saves a memory unless it is known.
    ///
    /// # Errors
    /// When it cannot be saved; nothing is half done.
    pub fn save(
        &self,
        mut incoming: Incoming,
        listener: &dyn Listener,
    ) -> Result<Saved, SaveError> {
        let note = self.fill(&mut incoming, listener);
        let mut saved = self.quick_check.save(&incoming, machine::clock())?;
        saved.check.notes.extend(note);
        Ok(saved)
    }

    /// As [`Self::save`], once for each key of a client.
    ///
    /// # Errors
    /// As [`Self::save`].
    pub fn save_once(
        &self,
        mut incoming: Incoming,
        request: SaveRequest<'_>,
        listener: &dyn Listener,
    ) -> Result<SavedOnce, SaveError> {
        // The answer is kept, so it holds no remark on the moment.
        let _note = self.fill(&mut incoming, listener);
        self.quick_check.save_once(&incoming, machine::clock(), request)
    }

    /// Tells whether a save left so many fresh rows that they should be sealed.
    #[must_use]
    pub fn wants_sealing(&self, saved: &Saved) -> bool {
        self.quick_check.wants_sealing(saved)
    }

    /// Seals fresh rows, where nobody else does so now.
    ///
    /// # Errors
    /// When they cannot be sealed; nothing is lost by that.
    pub fn seal(&self) -> Result<Sealed, IndexError> {
        self.quick_check.seal(machine::clock(), mode_like(&self.path))
    }

    /// Seals fresh rows on another thread where a save left many; `failed` hears why it could not be done.
    pub fn seal_beside(
        self: &Arc<Self>,
        saved: &Saved,
        failed: impl FnOnce(IndexError) + Send + 'static,
    ) {
        if !self.wants_sealing(saved) || self.is_sealing.swap(true, Ordering::Relaxed) {
            return;
        }
        let memories = Arc::clone(self);
        let spawned = std::thread::Builder::new().name("seal".to_owned()).spawn(move || {
            if let Err(error) = memories.seal() {
                failed(error);
            }
            memories.is_sealing.store(false, Ordering::Relaxed);
        });
        if spawned.is_err() {
            self.is_sealing.store(false, Ordering::Relaxed);
        }
    }

    /// Finds the nearest memories of all categories in `scope`; `no_index` reads every vector
    /// instead of the index. A text that no memory has is searched by its vector, or by words if
    /// nobody makes one.
    ///
    /// # Errors
    /// When there is nothing to search by, or the store cannot be searched so.
    pub fn search(
        &self,
        query: Query<'_>,
        wanted: Wanted,
        scope: &[String],
        no_index: bool,
        listener: &dyn Listener,
    ) -> Result<Found, SearchError> {
        let stopwatch = Stopwatch::start();
        let index = if no_index { None } else { self.index().unwrap_or_default() };
        let (limit, kernels) = (wanted.neighbors, Kernels::active());
        let wider = if scope.is_empty() { 1 } else { SCOPED_CANDIDATES };
        let neighbors = limit.map(|limit| limit.saturating_mul(wider));
        let wanted = Wanted { neighbors, ..wanted };
        let load = self.load(&NoProgress);
        let by = |query| search(&self.db, index.as_deref(), query, wanted, &load, kernels);
        let found = match (by(query), query) {
            (Err(SearchError::NoText), Query::Text(text)) => {
                let made = self.vector_of(text, listener).unwrap_or_else(|problem| {
                    listener.note(&format!("note: {problem}"));
                    None
                });
                match made {
                    Some(vector) => by(Query::Vector(&vector)),
                    None => search_by_words(&self.db, text, wanted, &load, kernels),
                }
            }
            (found, _) => found,
        };
        let mut matches = found?;
        matches.matches.retain(|found| is_in_scope(&found.memory, scope));
        matches.matches.truncate(limit.unwrap_or(usize::MAX));
        Ok(Found { matches, index, seconds: stopwatch.seconds() })
    }

    /// Finds the memories that answer a question; `now` is the time of tiers, distances and the
    /// access. Where only some memories are in scope, none is counted as read.
    ///
    /// # Errors
    /// When the store cannot be read, or the vector does not fit.
    pub fn recall(
        &self,
        request: &RecallRequest,
        now: Instant,
        listener: &dyn Listener,
    ) -> Result<Answered, SearchError> {
        let stopwatch = Stopwatch::start();
        let (text, limit) = (&*request.query, request.limit.unwrap_or(RECALLED_DEFAULT));
        let (made, missing) = match request.vector {
            Some(_) => (None, None),
            None => match self.vector_of(text, listener) {
                Ok(Some(vector)) => (Some(vector), None),
                Ok(None) => (None, Some(WORDS_ALONE.to_owned())),
                Err(problem) => (None, Some(format!("found by words alone: {problem}"))),
            },
        };
        let scope = with_user(&request.categories, request.user_id.as_deref());
        let is_scoped = !scope.is_empty();
        let wider = if is_scoped { SCOPED_CANDIDATES } else { 1 };
        let mut recalled = self.recaller.recall(&RecallQuery {
            text,
            vector: request.vector.as_deref().or(made.as_deref()),
            mode: request.mode,
            limit: limit.saturating_mul(wider),
            include_summaries: request.include_summaries,
            // Memories out of scope were not read by anybody.
            counts: !request.no_count && !is_scoped,
            now,
        })?;
        recalled.memories.retain(|found| is_in_scope(&found.memory, &scope));
        recalled.memories.truncate(limit);
        recalled.archived.truncate(if is_scoped { 0 } else { limit });
        recalled.notes.extend(missing);
        let wants_answer = request.reason || wants_time(text);
        let answer =
            wants_answer.then(|| answer(text, &candidates(&recalled), now, &self.time_zone));
        Ok(Answered { recalled, answer, seconds: stopwatch.seconds() })
    }

    /// Finds the nearest memories of each query.
    ///
    /// # Errors
    /// As [`Self::search`], and when the caller asks to stop.
    pub fn search_all(
        &self,
        queries: &VectorMatrix<'_>,
        wanted: Wanted,
        no_index: bool,
        progress: &dyn Progress,
    ) -> Result<Vec<Matches>, SearchError> {
        let index = if no_index { None } else { self.index().unwrap_or_default() };
        let load = self.load(progress);
        search_all(&self.db, index.as_deref(), queries, wanted, &load, Kernels::active())
    }

    fn load<'a>(&'a self, progress: &'a dyn Progress) -> LoadRequest<'a> {
        LoadRequest { time_zone: &self.time_zone, now: machine::clock(), progress }
    }

    fn provider(&self) -> Option<MutexGuard<'_, Provider>> {
        let provider = self.provider.as_ref()?.lock();
        Some(provider.unwrap_or_else(PoisonError::into_inner))
            .filter(|provider| provider.is_there())
    }

    /// Returns the vector of a text; `None` where nobody makes vectors.
    fn vector_of(&self, text: &str, listener: &dyn Listener) -> Result<Option<Vec<f32>>, String> {
        let Some(mut provider) = self.provider() else { return Ok(None) };
        provider.vector(text, listener).map(|(vector, _)| Some(vector))
    }

    /// Adds a vector to a memory that has none; returns why that could not be done.
    fn fill(&self, incoming: &mut Incoming, listener: &dyn Listener) -> Option<String> {
        let mut provider = self.provider.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner);
        provider.fill(incoming, listener)
    }
}

fn is_in_scope(memory: &Memory, scope: &[String]) -> bool {
    scope.iter().all(|wanted| memory.categories.iter().any(|category| **category == **wanted))
}
