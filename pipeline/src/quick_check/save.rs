//! Saving: deciding and writing in one transaction.

use std::sync::Mutex;

use super::answer::{Saved, Written};
use super::check::{Times, answer};
use super::decide::Decided;
use super::engine::Looked;
use super::gather::{Gathered, Wanted, catch_up, gather};
use super::weigh::Weighed;
use super::write::{Writing, Wrote};
use super::{Incoming, QuickCheck};
use crate::lookup::{SearchError, StoreIndex};
use memfold_model::text::{excerpt, strict_key};
use memfold_model::time::Instant;
use memfold_store::brain_db::{Session, SessionError, SessionOptions, StoreReader, Writes};
use memfold_store::reading::{archives, reserved_prefix};
use memfold_store::{LoadRequest, LoadStoreError};

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

/// Why nothing was saved. Nothing is half done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SaveError {
    /// The store cannot be written.
    #[error(transparent)]
    Session(#[from] SessionError),
    /// The store cannot be read.
    #[error(transparent)]
    Load(#[from] LoadStoreError),
    /// What was found cannot be read again.
    #[error(transparent)]
    Search(#[from] SearchError),
    /// There is no text, or only white space.
    #[error("there is no text to save")]
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
    /// Another memory has the id.
    #[error("the id {id} is that of another memory, which says something else")]
    IdTaken {
        /// The id.
        id: String,
    },
}

impl SaveError {
    /// Returns what the user can do.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Session(error) => error.hint(),
            Self::Load(error) => error.hint(),
            Self::Search(error) => error.hint(),
            Self::NoText => Some("give one with --text".to_owned()),
            Self::ReservedSource { .. } => {
                Some("name where the memory comes from, such as --source chat".to_owned())
            }
            Self::ReservedCategory { .. } => Some("name another category".to_owned()),
            Self::IdTaken { .. } => {
                Some("save under another id, or leave it out and one is made".to_owned())
            }
        }
    }
}

impl QuickCheck {
    /// Decides what is to be done with a memory and does it, in one transaction that is on disk when this returns.
    ///
    /// Rows that came while it was checked are looked at again inside the transaction, and so is whatever decides. A check
    /// that cannot be made, or takes too long, does not keep the memory from being saved.
    ///
    /// # Errors
    /// When there is no text, the source is one of memfold's own marks, the id is another memory's, or the store cannot be written; it is then as it was.
    pub fn save(&self, incoming: &Incoming, now: Instant) -> Result<Saved, SaveError> {
        let clock = self.shared.options.clock;
        let started = clock();
        if incoming.text.as_deref().is_none_or(|text| strict_key(text).is_empty()) {
            return Err(SaveError::NoText);
        }
        if let Some(prefix) = incoming.source.as_deref().and_then(reserved_prefix) {
            return Err(SaveError::ReservedSource { prefix });
        }
        if let Some(category) = incoming.categories.iter().find(|category| archives(category)) {
            return Err(SaveError::ReservedCategory { category: category.clone() });
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
        let (mut begun, mut judged_at) = (started, started);
        let ((weighed, decided), wrote) = session.write(|writes| {
            begun = clock();
            let judged = self.judge_again(writes, &mut gathered, incoming, now)?;
            judged_at = clock();
            let writing = Writing::new(&self.shared, writes, incoming, now)?;
            let wrote = writing.write(&judged, &mut next_run)?;
            Ok::<_, SaveError>((judged, wrote))
        })?;
        *run = next_run;
        let times = Times { started, guard: judged_at - begun, ended: clock() };
        let check = answer(&gathered, (&weighed, &decided), incoming, (in_time, times));
        Ok(self.saved(check, wrote, &gathered))
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

    /// Adds what came since the store was looked through, and decides on all of it as it is now.
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
            let index = self.shared.known_index();
            if gathered.texts.is_none() {
                // The texts at least are looked through, so that none is saved twice: without vectors that is fast.
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
