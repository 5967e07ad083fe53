//! [`QuickCheck`]: the state that checks and saves of one process share.

use std::path::PathBuf;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use jiff::tz::TimeZone;
use memfold_core::policy::{Policy, QuickCheckPolicy};
use memfold_core::time::Instant;
use memfold_guard::LexiconError;
use memfold_guard::text::excerpt;
use memfold_index::NoProgress;
use memfold_index::file::FileMode;
use memfold_simd::{Kernels, Similarity};
use memfold_store::brain_db::{
    AnsweredRequest, KeptReader, OpenOptions, Session, SessionOptions, StoreReader, Writes,
};
use memfold_store::{BrainDb, LoadRequest, StoreError};
use tracing::field::Empty;
use tracing::info_span;

use super::Incoming;
use super::answer::{
    Check, CheckMatch, Coverage, ElapsedUs, SaveRequest, Saved, SavedOnce, Written,
};
use super::decide::{Decided, Fitness, decide};
use super::gather::{Gathered, Wanted, catch_up, gather};
use super::weigh::{LazyGuard, MATCHES_MAX, Rules, Weighed, weigh};
use super::write::{Writing, Wrote};
use crate::lookup::{
    IndexError, KeptIndex, SealFresh, Sealed, SearchError, StoreIndex, seal_fresh,
};

/// How to check and save.
#[derive(Clone)]
pub struct QuickCheckOptions {
    /// The rules for merging, protection and separation.
    pub policy: Policy,
    /// The thresholds of checks, and their time limit.
    pub check: QuickCheckPolicy,
    /// The zone of naive times.
    pub time_zone: TimeZone,
    /// How long to wait for a lock of another process.
    pub busy_timeout: Duration,
    /// Who saves: `<machine> <process>`.
    pub holder: String,
    /// The folder of the store's index.
    pub index_folder: PathBuf,
    /// Saves become plain inserts.
    pub read_only: bool,
    /// The kernels.
    pub kernels: &'static Kernels,
    /// Seconds since any fixed moment.
    pub clock: fn() -> f64,
}

/// From this many rows without a segment on, they are sealed.
const UNSEALED_ROWS_MAX: usize = 512;

/// Checks and saves memories of one store; may be shared between threads.
pub struct QuickCheck {
    pub(super) shared: Arc<Shared>,
    pub(super) run: Mutex<Option<SaveRun>>,
}

/// State that a check keeps using beyond its time limit.
pub(super) struct Shared {
    pub(super) store: BrainDb,
    pub(super) options: QuickCheckOptions,
    pub(super) guard: LazyGuard,
    pub(super) index: Arc<KeptIndex>,
    reader: KeptReader,
}

/// The results so far of a search.
#[derive(Default)]
struct Found {
    gathered: Mutex<Gathered>,
    judged: Mutex<Option<(Weighed, Decided)>>,
}

/// The results of a search within the time limit.
pub(super) struct Looked {
    pub(super) gathered: Gathered,
    /// The decision, if the same search made it.
    pub(super) judged: Option<(Weighed, Decided)>,
    /// Whether it ended within the time limit.
    pub(super) in_time: bool,
}

impl std::fmt::Debug for QuickCheck {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("QuickCheck")
            .field("store", &self.shared.store.path())
            .finish_non_exhaustive()
    }
}

impl QuickCheck {
    /// Names a store; it is opened by the first check or save.
    ///
    /// # Errors
    /// When the user's lexicon cannot be read.
    pub fn open(
        store: impl Into<PathBuf>,
        mut options: QuickCheckOptions,
    ) -> Result<Self, LexiconError> {
        // Youth is not a reason to keep a second copy: facts are most often said twice within the
        // hour.
        options.policy.protection.min_age_hours = 0.0;
        let guard = LazyGuard::new(&options.policy.guard)?;
        let store = BrainDb::at(store, OpenOptions::default().busy_timeout(options.busy_timeout));
        let index = Arc::new(KeptIndex::new(options.index_folder.clone()));
        let reader = KeptReader::default();
        let shared = Shared { store, options, guard, index, reader };
        Ok(Self { shared: Arc::new(shared), run: Mutex::new(None) })
    }

    /// Searches index and store within the time limit, and decides if `judge` is set.
    pub(super) fn gather(&self, incoming: &Incoming, now: Instant, judge: bool) -> Looked {
        let found = Arc::new(Found::default());
        let (done, wait) = mpsc::sync_channel(1);
        let (shared, incoming, into) =
            (Arc::clone(&self.shared), incoming.clone(), Arc::clone(&found));
        let spawned = thread::Builder::new().name("quick check".to_owned()).spawn(move || {
            shared.gather(&incoming, now, &into, judge);
            // After the time limit nobody waits any more.
            let _ = done.send(());
        });
        let limit = self.shared.options.check.time_limit;
        let in_time = match spawned {
            Ok(_) => wait.recv_timeout(limit) != Err(RecvTimeoutError::Timeout),
            Err(_) => false,
        };
        let mut gathered = found.gathered.lock().map(|found| found.clone()).unwrap_or_default();
        let judged = found.judged.lock().ok().and_then(|mut judged| judged.take());
        if !in_time {
            let limit = limit.as_millis();
            gathered.notes.push(format!(
                "the check took longer than {limit} ms; where the index was not in memory, the next one is faster"
            ));
        }
        Looked { gathered, judged, in_time }
    }

    /// Returns the index that it searches, for others that search the same one.
    #[must_use]
    pub fn index(&self) -> Arc<KeptIndex> {
        Arc::clone(&self.shared.index)
    }

    /// Seals rows without a segment, if they are many and nobody else does so now.
    ///
    /// # Errors
    /// When they cannot be sealed; nothing is lost by that.
    pub fn seal(&self, now: Instant, mode: FileMode) -> Result<Sealed, IndexError> {
        let Shared { store, options, .. } = &*self.shared;
        let load = LoadRequest { time_zone: &options.time_zone, now, progress: &NoProgress };
        let (folder, kernels) = (options.index_folder.as_path(), options.kernels);
        let wait = Duration::ZERO;
        let rows_min = UNSEALED_ROWS_MAX;
        seal_fresh(store, &SealFresh { folder, mode, load, rows_min, kernels, wait })
    }

    /// Tells whether so many rows lack a segment that they should be sealed.
    pub(super) const fn should_seal(unsealed_rows: u64) -> bool {
        unsealed_rows > UNSEALED_ROWS_MAX as u64
    }
}

impl Shared {
    pub(super) const fn rules(&self, now: Instant) -> Rules<'_> {
        let QuickCheckOptions { policy, check, kernels, .. } = &self.options;
        Rules { policy, check, guard: &self.guard, kernels, today: now.day() }
    }

    pub(super) const fn wanted<'a>(&'a self, incoming: &'a Incoming) -> Wanted<'a> {
        Wanted {
            incoming,
            least: self.options.check.flag_threshold,
            kernels: self.options.kernels,
            build_hint: "`memfold index build` makes checks complete and fast",
            lends: true,
        }
    }

    fn gather(&self, incoming: &Incoming, now: Instant, into: &Found, judge: bool) {
        let found = &into.gathered;
        let note = |note: String| {
            if let Ok(mut found) = found.lock() {
                found.notes.push(note);
            }
        };
        let at = |set: fn(&mut Gathered, f64)| {
            if let Ok(mut found) = found.lock() {
                set(&mut found, (self.options.clock)());
            }
        };
        let index = self.index.live().unwrap_or_else(|error| {
            note(format!(
                "the index cannot be used: {error}; build it anew with `memfold index build`"
            ));
            None
        });
        let time_zone = &self.options.time_zone;
        let load = LoadRequest { time_zone, now, progress: &NoProgress };
        let wanted = self.wanted(incoming);
        let looked = self.store.look_up_again(&self.reader, &load, |reader| {
            at(|found, at| found.opened_at = Some(at));
            gather(reader, index.as_deref(), &wanted, found)?;
            at(|found, at| found.found_at = Some(at));
            // Nothing is locked meanwhile: a caller that stops waiting takes the results so far.
            let gathered = found.lock().ok().filter(|_| judge).map(|found| found.clone());
            if let Some(gathered) = gathered {
                let judged = self.judge(reader, &gathered, incoming, now)?;
                if let Ok(mut slot) = into.judged.lock() {
                    *slot = Some(judged);
                }
            }
            Ok(())
        });
        if let Err(error) = looked {
            let error: SearchError = error;
            note(format!("the check failed: {error}"));
        }
    }
}

impl QuickCheck {
    /// Decides how a memory would be saved, and writes nothing. `now` is the time by which memories
    /// expire.
    ///
    /// Where the store or the index cannot be searched, the answer says so.
    ///
    /// # Errors
    /// When [`Self::save`] would refuse the memory as it is.
    pub fn check(&self, incoming: &Incoming, now: Instant) -> Result<Check, SaveError> {
        incoming.validate()?;
        let store = self.shared.store.path().display();
        let span = info_span!("check", %store, decision = Empty, verdict = Empty, matches = Empty);
        let _entered = span.enter();
        let clock = self.shared.options.clock;
        let started = clock();
        let Looked { gathered, judged, in_time } = self.gather(incoming, now, true);
        let (weighed, decided) = judged.unwrap_or_default();
        let ended = clock();
        let times = Times { started, guard: ended - gathered.found_at.unwrap_or(ended), ended };
        let check = answer(&gathered, &weighed, &decided, incoming, in_time, times);
        check.record_on(&span);
        Ok(check)
    }
}

impl Shared {
    /// Reads the gathered memories as they are now, and decides.
    pub(super) fn judge(
        &self,
        reader: &StoreReader<'_>,
        gathered: &Gathered,
        incoming: &Incoming,
        now: Instant,
    ) -> Result<(Weighed, Decided), SearchError> {
        let rules = self.rules(now);
        let weighed = weigh(reader, gathered, incoming, rules)?;
        let vector = incoming.vector.as_deref();
        let reading = weighed.reading.as_ref();
        let fitness = Fitness { reader, gathered, rules, vector, reading, now };
        let decided = decide(&weighed, incoming, |found| fitness.unfit(found))?;
        Ok((weighed, decided))
    }
}

/// Seconds of the clock, and how many of them the judging took.
#[derive(Debug, Clone, Copy)]
pub(super) struct Times {
    pub(super) started: f64,
    pub(super) guard: f64,
    pub(super) ended: f64,
}

fn us(seconds: f64) -> u64 {
    (seconds.max(0.0) * 1e6) as u64
}

/// Composes the answer of a check. `in_time`: whether it ended within the time limit.
pub(super) fn answer(
    gathered: &Gathered,
    weighed: &Weighed,
    decided: &Decided,
    incoming: &Incoming,
    in_time: bool,
    times: Times,
) -> Check {
    let Times { started, guard, ended } = times;
    let has_texts = gathered.texts.is_some() || incoming.text.is_none();
    let has_near = gathered.near.is_some() && incoming.vector.is_some();
    let wants_near = incoming.vector.is_some();
    let coverage = match (gathered.texts.is_some() || has_near, has_near) {
        (false, _) => Coverage::None,
        (true, true) if has_texts => Coverage::Full,
        (true, _) => Coverage::ExactOnly,
    };
    let checked = in_time && has_texts && (has_near || !wants_near);
    let matches = weighed.matches.iter().take(MATCHES_MAX).map(|found| CheckMatch {
        id: found.memory.id.clone(),
        similarity: found.similarity.map(Similarity::get),
        verdict: found.judgement.as_ref().map(|judgement| judgement.verdict),
        differences: found.differences.clone(),
    });
    let opened = gathered.opened_at.unwrap_or(ended);
    let found = gathered.found_at.unwrap_or(ended);
    Check {
        decision: decided.choice.decision(),
        reason: if checked { decided.reason.clone() } else { unchecked(gathered, decided) },
        matches: matches.collect(),
        matches_total: weighed.total,
        checked,
        coverage,
        index: gathered.used.clone(),
        elapsed_us: ElapsedUs {
            open: us(opened - started),
            search: us(found - opened),
            guard: us(guard),
            total: us(ended - started),
        },
        notes: gathered.notes.clone(),
    }
}

/// The reason why not everything was searched.
fn unchecked(gathered: &Gathered, decided: &Decided) -> String {
    let why = gathered.notes.first().map_or("it could not be checked", String::as_str);
    format!("{}; not checked in full: {why}", decided.reason)
}

/// Characters of a category in an error.
const CATEGORY_CHARS: usize = 60;

/// The run of this process and day.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct SaveRun {
    /// `YYYY-MM-DD`.
    pub(super) day: String,
    pub(super) run_id: String,
    /// Units so far.
    pub(super) units: i64,
}

/// How long answers to named saves are kept: a day.
const REQUESTS_KEPT_US: i64 = 86_400_000_000;

/// Serializes strings, numbers and lists of them.
fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("it holds strings and numbers only")
}

impl Saved {
    /// Returns the ids that it names, as a JSON array.
    fn named(&self) -> String {
        let matches = self.check.matches.iter().map(|found| &found.id);
        let ids: Vec<_> = matches.chain([&self.id]).chain(&self.replaced).collect();
        json(&ids)
    }
}

/// Why nothing was saved. Nothing is half done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SaveError {
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Memories that were found cannot be read again.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// There is no text, or it has no visible character.
    #[error("there is no text with a visible character")]
    NoText,
    /// The source is one that memfold writes itself, and by which it knows memories that are no longer in use.
    #[error(
        "a source cannot begin with \"{prefix}\": memfold keeps its own marks there, and the memory would be hidden"
    )]
    ReservedSource {
        /// How it begins.
        prefix: &'static str,
    },
    /// The category marks archived memories.
    #[error(
        "the category \"{}\" marks archived memories, and the memory would be hidden",
        excerpt(category, CATEGORY_CHARS)
    )]
    ReservedCategory {
        /// The category.
        category: String,
    },
    /// Its id, categories, importance or vector cannot be kept.
    #[error("{fault}")]
    Invalid {
        /// The defect and the expectation.
        fault: String,
    },
    /// A save of this key was done, and a memory that its answer names was forgotten since.
    #[error(
        "the save of this key was stored, and its memory, or one that it names, was forgotten since"
    )]
    Forgotten,
    /// Another memory has the id.
    #[error("the id {id} is that of another memory, which says something else")]
    IdTaken {
        /// The id.
        id: String,
    },
}

impl SaveError {
    /// Returns advice for the user.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Store(error) => error.hint(),
            Self::Search(error) => error.hint(),
            Self::NoText => Some("give one with --text".to_owned()),
            Self::ReservedSource { .. } => {
                Some("name where the memory comes from, such as --source chat".to_owned())
            }
            Self::ReservedCategory { .. } => Some("name another category".to_owned()),
            Self::Invalid { .. } => None,
            Self::Forgotten => {
                Some("nothing was saved; use another key to save it anew".to_owned())
            }
            Self::IdTaken { .. } => {
                Some("save under another id, or leave it out and one is made".to_owned())
            }
        }
    }
}

impl QuickCheck {
    /// Decides how to save a memory and does so, in one transaction that is on disk when this
    /// returns.
    ///
    /// Rows that came during the check are searched inside the transaction, and all deciding rows
    /// are read again. A check that cannot be made, or takes too long, does not keep the memory
    /// from being saved.
    ///
    /// # Errors
    /// When there is no text, a field is not valid, the id is another memory's, or the store cannot be written; it is then as it
    /// was.
    pub fn save(&self, incoming: &Incoming, now: Instant) -> Result<Saved, SaveError> {
        let started = (self.shared.options.clock)();
        let mut saved = None;
        self.save_within(incoming, now, |_, work| {
            saved = Some(work()?);
            Ok(())
        })?;
        let mut saved = saved.ok_or(SaveError::NoText)?;
        // Until the disk has it.
        saved.check.elapsed_us.total = us((self.shared.options.clock)() - started);
        Ok(saved)
    }

    /// As [`Self::save`], once for each request that a client names: a request sent again is
    /// answered as before, also by another process and after a crash, for a day. The time in the
    /// answer excludes the disk's.
    ///
    /// # Errors
    /// As [`Self::save`], and when memfold's tables cannot be made.
    pub fn save_once(
        &self,
        incoming: &Incoming,
        now: Instant,
        request: SaveRequest<'_>,
    ) -> Result<SavedOnce, SaveError> {
        let mut answer = SavedOnce::AnotherRequest;
        self.save_within(incoming, now, |writes, work| {
            let zone = &self.shared.options.time_zone;
            let at = now.to_naive_local(zone);
            writes.prepare(&at)?;
            if let Some(known) = writes.answered(request.key)? {
                if known.answer.is_empty() {
                    return Err(SaveError::Forgotten);
                }
                if known.digest == request.digest {
                    answer = SavedOnce::Before(known.answer);
                }
                return Ok(());
            }
            let saved = work()?;
            let told = AnsweredRequest { digest: request.digest.to_owned(), answer: json(&saved) };
            let since = Instant(now.0 - REQUESTS_KEPT_US).to_naive_local(zone);
            writes.remember_answer(request.key, &told, &saved.named(), &at, &since)?;
            answer = SavedOnce::Saved(Box::new(saved));
            Ok(())
        })?;
        Ok(answer)
    }

    /// Searches the store, and has `write` do the save in its transaction.
    fn save_within(
        &self,
        incoming: &Incoming,
        now: Instant,
        write: impl FnOnce(
            &Writes<'_>,
            &mut dyn FnMut() -> Result<Saved, SaveError>,
        ) -> Result<(), SaveError>,
    ) -> Result<(), SaveError> {
        let store = self.shared.store.path().display();
        let span = info_span!("save", %store, decision = Empty, verdict = Empty, matches = Empty);
        let _entered = span.enter();
        let clock = self.shared.options.clock;
        let started = clock();
        incoming.validate()?;
        if incoming.text.is_none() {
            return Err(SaveError::NoText);
        }
        let options = SessionOptions {
            busy_timeout: self.shared.options.busy_timeout,
            holder: self.shared.options.holder.clone(),
        };
        let Looked { mut gathered, in_time, .. } = match self.shared.options.read_only {
            true => Looked { gathered: Gathered::unasked(), judged: None, in_time: false },
            false => self.gather(incoming, now, false),
        };
        let session = Session::open_beside_runs(self.shared.store.path(), &options)?;
        let mut run = self.run.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        let mut next_run = run.clone();
        session.write(|writes| {
            write(writes, &mut || {
                let begun = clock();
                let judged = self.judge_again(writes, &mut gathered, incoming, now)?;
                let guard = clock() - begun;
                let writing = Writing::new(&self.shared, writes, incoming, now)?;
                let (weighed, decided) = &judged;
                let wrote = writing.write(weighed, decided, &mut next_run)?;
                let times = Times { started, guard, ended: clock() };
                let check = answer(&gathered, weighed, decided, incoming, in_time, times);
                check.record_on(&span);
                Ok(self.saved(check, wrote, &gathered))
            })
        })?;
        *run = next_run;
        Ok(())
    }

    fn saved(&self, mut check: super::Check, wrote: Wrote, gathered: &Gathered) -> Saved {
        let Wrote { id, written, replaced, run_id, note } = wrote;
        check.notes.extend(note);
        let is_new = u64::from(written != Written::Touched);
        Saved {
            fresh_rows: gathered.used.fresh_rows + is_new,
            unsealed_rows: gathered.unsealed_rows + is_new,
            check,
            id,
            written,
            replaced,
            run_id,
        }
    }

    /// Adds rows newer than the search, and decides on all of them as they are now.
    fn judge_again(
        &self,
        writes: &Writes<'_>,
        gathered: &mut Gathered,
        incoming: &Incoming,
        now: Instant,
    ) -> Result<(Weighed, Decided), SaveError> {
        if self.shared.options.read_only {
            return Ok(Default::default());
        }
        let time_zone = &self.shared.options.time_zone;
        let load = LoadRequest { time_zone, now, progress: &memfold_index::NoProgress };
        writes.look_up(&load, |reader| {
            let wanted = self.shared.wanted(incoming);
            let index = self.shared.index.opened_last();
            if gathered.texts.is_none() {
                // At least the texts are searched, so that none is saved twice: without vectors
                // that is fast.
                let alone = Incoming { vector: None, ..incoming.clone() };
                let texts = Wanted { lends: false, ..self.shared.wanted(&alone) };
                let again = gather_again(reader, index.as_deref(), &texts)?;
                (gathered.texts, gathered.used) = (again.texts, again.used);
            } else if !catch_up(reader, &wanted, gathered)? {
                *gathered = gather_again(reader, index.as_deref(), &wanted)?;
            }
            Ok::<_, SaveError>(self.shared.judge(reader, gathered, incoming, now)?)
        })
    }

    /// Tells whether rows should be sealed after a save.
    #[must_use]
    pub fn wants_sealing(&self, saved: &Saved) -> bool {
        saved.check.index.kind != "none" && Self::should_seal(saved.unsealed_rows)
    }
}

fn gather_again(
    reader: &StoreReader<'_>,
    index: Option<&StoreIndex>,
    wanted: &Wanted<'_>,
) -> Result<Gathered, SearchError> {
    let again = Mutex::default();
    gather(reader, index, wanted, &again)?;
    Ok(again.into_inner().unwrap_or_default())
}

impl Gathered {
    fn unasked() -> Self {
        let notes = vec!["read_only is set: the memory is saved as it is".to_owned()];
        Self { notes, ..Self::default() }
    }
}
