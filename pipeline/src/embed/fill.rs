//! Memories without an embedding get one: found in one pass, embedded outside of any transaction, inserted in short ones.
//!
//! Only rows are inserted, into the owner's `embeddings`, for memories that still have none;
//! nothing is replaced, so there is nothing to undo. Any number of processes may do this at once.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::time::Duration;
use std::{io, thread};

use jiff::tz::TimeZone;
use memfold_core::detect::newest_first;
use memfold_core::memory::{Embedding, Memory, MemoryId, SpaceIndex, Status, VectorSpace};
use memfold_core::time::Instant;
use memfold_index::{Progress, Row};
use memfold_store::brain_db::{Layout, NewEmbedding, Session, Writes};
use memfold_store::reading::MODEL_UNNAMED;
use memfold_store::{BrainDb, LoadRequest, MemoryStore, StoreError, VectorSink};
use serde::Serialize;

use super::{EmbedError, Embedder, HttpError};

/// If this many texts in a row are refused and none taken, the texts are not the cause.
const REFUSALS_IN_A_ROW: u32 = 10;

/// How to fill.
pub(crate) struct Fill<'a> {
    /// The model and dimension that vectors must have; `None`: any.
    pub space: Option<VectorSpace>,
    /// Number of memories in a batch.
    pub batch_size: usize,
    /// The clock, read once for each batch: other programs search for rows newer than their last
    /// search.
    pub clock: &'a dyn Fn() -> Instant,
    /// The zone of naive times.
    pub time_zone: &'a TimeZone,
    /// Where progress goes.
    pub progress: &'a dyn Progress,
}

/// The result of a fill.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Filled {
    /// Memories that were given an embedding.
    pub filled: u64,
    /// Memories that got an embedding from somebody else meanwhile.
    pub present: u64,
    /// Memories that are gone, or have another text since.
    pub changed: u64,
    /// Memories that the provider, or the store, does not take.
    pub refused: Vec<Refusal>,
    /// The model written with the vectors; `None`: the default of the owner's table.
    #[serde(skip)]
    pub model: Option<String>,
    /// The dimension of the vectors.
    #[serde(skip)]
    pub dim: Option<usize>,
}

/// A memory that stays without an embedding.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Refusal {
    /// The memory.
    pub id: MemoryId,
    /// Why.
    pub reason: String,
}

/// Gives memories an embedding; returns the counts, and the error that ended it early. Finished
/// memories stay, and another call continues.
///
/// # Errors
/// In the second part: refusals of the provider or the store that concern every text, and
/// cancellation.
pub(crate) fn fill(
    session: &Session,
    pending: &[Pending],
    provider: Box<dyn Embedder>,
    how: &Fill<'_>,
) -> (Filled, Result<(), EmbedError>) {
    let mut filled = Filled::default();
    let done = Asker::start(provider, how.space.clone())
        .and_then(|asker| Filler { session, asker, how, filled: &mut filled }.run(pending));
    (filled, done)
}

struct Filler<'a> {
    session: &'a Session,
    asker: Asker,
    how: &'a Fill<'a>,
    filled: &'a mut Filled,
}

/// A memory's place in its batch, and its vector.
pub(super) type Placed = (usize, Vec<f32>);

impl Filler<'_> {
    fn run(mut self, pending: &[Pending]) -> Result<(), EmbedError> {
        let progress = self.how.progress;
        progress.begin("embed", Some(pending.len() as u64));
        for batch in pending.chunks(self.how.batch_size.max(1)) {
            if progress.cancelled() {
                return Err(EmbedError::Cancelled);
            }
            let placed = self.asker.embed(batch, self.filled, progress)?;
            self.write(batch, &placed)?;
            progress.advance(batch.len() as u64);
        }
        progress.end();
        Ok(())
    }

    /// Inserts the vectors of a batch; one by one where the store refuses them together.
    fn write(&mut self, batch: &[Pending], placed: &[Placed]) -> Result<(), EmbedError> {
        let refused = match self.write_together(batch, placed) {
            Err(error) if !error.stops_the_run() => error,
            written => return Ok(written?),
        };
        if placed.len() == 1 {
            return self.asker.refuse(&batch[placed[0].0], refused.into(), self.filled);
        }
        for one in placed {
            match self.write_together(batch, std::slice::from_ref(one)) {
                Ok(()) => self.asker.refusals_in_a_row = 0,
                Err(error) if !error.stops_the_run() => {
                    self.asker.refuse(&batch[one.0], error.into(), self.filled)?;
                }
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Inserts vectors in one transaction, as far as their memories still exist and still lack one.
    fn write_together(&mut self, batch: &[Pending], placed: &[Placed]) -> Result<(), StoreError> {
        let at = (self.how.clock)().to_naive_local(self.how.time_zone);
        let model = self.filled.model.as_deref();
        let [mut filled, mut present, mut changed] = [0; 3];
        self.session.write::<_, StoreError>(|writes| {
            let layout = writes.layout()?;
            for (position, vector) in placed {
                let Pending { id, content } = &batch[*position];
                if !writes.has_text(id, content)? {
                    changed += 1;
                } else if writes.has_embedding_row(id.as_str())? {
                    present += 1;
                } else {
                    let memory_id = id.as_str();
                    let new = NewEmbedding { memory_id, content, vector, model, at: &at };
                    writes.insert_embedding(&layout, &new)?;
                    filled += 1;
                }
            }
            Ok(())
        })?;
        self.filled.filled += filled;
        self.filled.present += present;
        self.filled.changed += changed;
        Ok(())
    }
}

/// A provider of vectors for batches of memories.
pub(super) struct Asker {
    worker: Worker,
    common: Common,
    refusals_in_a_row: u32,
}

impl Asker {
    /// Hires a provider; `space`: the model and dimension that its vectors must have.
    pub(super) fn start(
        provider: Box<dyn Embedder>,
        space: Option<VectorSpace>,
    ) -> Result<Self, EmbedError> {
        check_space(space.as_ref(), provider.model())?;
        let worker = Worker::start(provider)?;
        Ok(Self { worker, common: Common::new(space), refusals_in_a_row: 0 })
    }

    /// Requests the vectors of a batch; where a text is refused, of ever smaller parts of it.
    pub(super) fn embed(
        &mut self,
        batch: &[Pending],
        filled: &mut Filled,
        progress: &dyn Progress,
    ) -> Result<Vec<Placed>, EmbedError> {
        let mut placed = Vec::with_capacity(batch.len());
        let mut failed: Vec<(usize, EmbedError)> = Vec::new();
        let whole = 0..batch.len();
        let mut parts: Vec<Range<usize>> = Vec::from([whole]);
        while let Some(part) = parts.pop() {
            let texts = batch[part.clone()].iter().map(|one| one.content.to_string()).collect();
            match self.worker.ask(texts, progress) {
                Ok((vectors, model)) => {
                    let place = self.worker.place();
                    filled.model = self.common.check(place, model.as_deref(), &vectors)?;
                    filled.dim = self.common.dim();
                    self.refusals_in_a_row = 0;
                    placed.extend(part.zip(vectors));
                }
                Err(error) if error.concerns_texts() && part.len() > 1 => {
                    let middle = part.start + part.len() / 2;
                    parts.extend([middle..part.end, part.start..middle]);
                }
                Err(error) if error.may_concern_provider() => {
                    failed.push((part.start, error));
                    if placed.is_empty() && failed.len() >= REFUSALS_IN_A_ROW as usize {
                        break;
                    }
                }
                Err(error) if error.concerns_texts() => {
                    self.refuse(&batch[part.start], error, filled)?;
                }
                Err(error) => return Err(error),
            }
        }
        if placed.is_empty() && failed.len() > 1 {
            return failed.pop().map_or(Ok(placed), |(_, error)| Err(error));
        }
        for (at, error) in failed {
            self.refuse(&batch[at], error, filled)?;
        }
        Ok(placed)
    }

    fn refuse(
        &mut self,
        memory: &Pending,
        error: EmbedError,
        filled: &mut Filled,
    ) -> Result<(), EmbedError> {
        let (id, reason) = (memory.id.clone(), error.to_string());
        filled.refused.push(Refusal { id, reason });
        self.refusals_in_a_row += 1;
        if self.refusals_in_a_row < REFUSALS_IN_A_ROW { Ok(()) } else { Err(error) }
    }
}

/// Vectors of texts that are not in the store yet.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct NewVectors {
    by_text: BTreeMap<String, Vec<f32>>,
    model: Option<String>,
}

impl NewVectors {
    /// Makes the vectors of texts, outside of any transaction.
    ///
    /// # Errors
    /// When there is no answer, or an unexpected one, or the caller cancelled.
    pub fn make(
        provider: Box<dyn Embedder>,
        texts: &[&str],
        batch_size: usize,
        progress: &dyn Progress,
    ) -> Result<Self, EmbedError> {
        let (worker, mut common) = (Worker::start(provider)?, Common::new(None));
        let mut made = Self::default();
        for batch in texts.chunks(batch_size.max(1)) {
            let owned: Vec<String> = batch.iter().map(ToString::to_string).collect();
            let (vectors, model) = worker.ask(owned.clone(), progress)?;
            made.model = common.check(worker.place(), model.as_deref(), &vectors)?;
            made.by_text.extend(owned.into_iter().zip(vectors));
        }
        Ok(made)
    }

    /// Tells whether there is a vector of a text.
    pub(crate) fn has(&self, content: &str) -> bool {
        self.by_text.contains_key(content)
    }

    /// Inserts the embedding of a new memory.
    ///
    /// # Errors
    /// When its text has no vector, it does not fit the store's, or the store cannot be written.
    pub(crate) fn insert(
        &self,
        writes: &Writes<'_>,
        layout: &Layout,
        memory_id: &str,
        content: &str,
        at: &str,
    ) -> Result<(), StoreError> {
        let refused = |reason| StoreError::Refused { what: "insert an embedding", reason };
        let vector = self.by_text.get(content).ok_or_else(|| {
            refused("there is no vector of the new text: configure embed.provider".to_owned())
        })?;
        let model = model_of(writes, layout, self.model.as_deref(), vector)?.map_err(refused)?;
        let model = model.as_deref();
        let new = NewEmbedding { memory_id, content, vector, model, at };
        writes.insert_embedding(layout, &new)
    }
}

/// Returns the model's name that is written with a vector of a new memory, or why the vector does not fit the store's.
pub(crate) fn model_of(
    writes: &Writes<'_>,
    layout: &Layout,
    model: Option<&str>,
    vector: &[f32],
) -> Result<Result<Option<String>, String>, StoreError> {
    let (dim, own) = (vector.len(), 4 * vector.len() as i64);
    if let Some(model) = model {
        return Ok(match writes.last_vector_bytes_of(layout, model)? {
            Some(bytes) if bytes != own => Err(format!(
                "it has {dim} components, and the last one of model {model:?} {bytes} bytes"
            )),
            _ => Ok(Some(model.to_owned())),
        });
    }
    Ok(match writes.last_embedding(layout)? {
        Some((_, bytes)) if bytes != own => Err(format!(
            "it has {dim} components, and the store's last one {bytes} bytes; name its model \
             where it is another one"
        )),
        Some((model, _)) => Ok(model),
        None => Ok(None),
    })
}

/// How far embeddings reach.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Coverage {
    /// Memories in use.
    pub live: u64,
    /// Memories with a valid vector of their text.
    pub with_embedding: u64,
    /// Memories without an embedding.
    pub missing: u64,
    /// Memories with an embedding of an earlier text.
    pub stale: u64,
    /// Memories with an embedding that is not a vector.
    pub invalid: u64,
}

/// The embeddings that a store lacks.
#[derive(Debug, Clone)]
pub(crate) struct Unembedded {
    /// Counts.
    pub coverage: Coverage,
    /// The model and dimension of most vectors; `None` where there are none.
    pub space: Option<VectorSpace>,
    /// The memories in use that have no embedding, newest first.
    pub pending: Vec<Pending>,
}

impl Unembedded {
    /// Returns the name of the store's model, where its embeddings name one.
    #[must_use]
    pub(crate) fn model(&self) -> Option<&str> {
        named(self.space.as_ref())
    }
}

/// A memory without an embedding.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pending {
    id: MemoryId,
    pub(super) content: Box<str>,
}

impl From<&Memory> for Pending {
    fn from(memory: &Memory) -> Self {
        Self { id: memory.id.clone(), content: memory.content.clone() }
    }
}

/// Finds the memories that lack an embedding; writes nothing.
///
/// # Errors
/// When the store cannot be read, or takes no embeddings of ours.
pub(crate) fn unembedded(
    store: &BrainDb,
    request: &LoadRequest<'_>,
) -> Result<Unembedded, EmbedError> {
    let mut counts = VectorCounts::default();
    let snapshot = store.load(request, &mut counts)?;
    let mut live: Vec<Memory> = snapshot.memories;
    live.retain(|memory| memory.status == Status::Live);
    let coverage = covered(&live);
    if coverage.missing > 0 {
        store.look_on(|reads| reads.layout()?.check_takes_embeddings())?;
    }
    live.retain(|memory| memory.embedding == Embedding::Missing);
    live.sort_by(newest_first);
    let pending = live.into_iter().map(|Memory { id, content, .. }| Pending { id, content });
    Ok(Unembedded { coverage, space: counts.modal(), pending: pending.collect() })
}

fn covered(live: &[Memory]) -> Coverage {
    let mut coverage = Coverage { live: live.len() as u64, ..Coverage::default() };
    for memory in live {
        let count = match memory.embedding {
            Embedding::Vector { .. } => &mut coverage.with_embedding,
            Embedding::Missing => &mut coverage.missing,
            Embedding::Stale => &mut coverage.stale,
            Embedding::Invalid(_) => &mut coverage.invalid,
        };
        *count += 1;
    }
    coverage
}

/// Counts vectors and keeps none.
#[derive(Debug, Default)]
struct VectorCounts {
    spaces: Vec<(VectorSpace, u32)>,
}

impl VectorCounts {
    /// The space of most vectors; of several the first by name.
    fn modal(mut self) -> Option<VectorSpace> {
        self.spaces.sort_by(|(a, count_a), (b, count_b)| count_b.cmp(count_a).then(a.cmp(b)));
        self.spaces.into_iter().next().map(|(space, _)| space)
    }
}

impl VectorSink for VectorCounts {
    fn open_space(&mut self, space: &VectorSpace) -> io::Result<SpaceIndex> {
        self.spaces.push((space.clone(), 0));
        u32::try_from(self.spaces.len() - 1).map(SpaceIndex).map_err(io::Error::other)
    }

    fn push(&mut self, space: SpaceIndex, _vector: &[f32]) -> io::Result<Row> {
        let (_, count) = &mut self.spaces[space.0 as usize];
        *count += 1;
        Ok(Row(*count - 1))
    }

    fn restart(&mut self) -> io::Result<()> {
        self.spaces.clear();
        Ok(())
    }
}

/// Refuses a model that is not the store's; a store with vectors of an unnamed model takes any.
///
/// # Errors
/// The two names.
pub(crate) fn check_space(
    space: Option<&VectorSpace>,
    model: Option<&str>,
) -> Result<(), EmbedError> {
    match (named(space), model) {
        (Some(expected), Some(found)) if expected != found => {
            Err(EmbedError::FillModel { expected: expected.to_owned(), found: found.to_owned() })
        }
        _ => Ok(()),
    }
}

/// The name of a space's model, where it has one.
fn named(space: Option<&VectorSpace>) -> Option<&str> {
    space.map(|space| &*space.model).filter(|model| *model != MODEL_UNNAMED)
}

/// The model and dimension that all vectors of one run share.
#[derive(Debug)]
struct Common {
    space: Option<VectorSpace>,
    dim: Option<usize>,
}

impl Common {
    const fn new(space: Option<VectorSpace>) -> Self {
        Self { space, dim: None }
    }

    /// Checks the vectors of an answer, and returns the model's name to be written with them.
    fn check(
        &mut self,
        place: &str,
        model: Option<&str>,
        vectors: &[Vec<f32>],
    ) -> Result<Option<String>, EmbedError> {
        check_space(self.space.as_ref(), model)?;
        let expected = self.space.as_ref().map(|space| space.dim as usize).or(self.dim);
        let found = vectors.first().map(Vec::len);
        if let (Some(expected), Some(found)) = (expected, found)
            && expected != found
        {
            let expected = u32::try_from(expected).unwrap_or(u32::MAX);
            return Err(EmbedError::Dimension { expected, found, place: place.to_owned() });
        }
        self.dim = self.dim.or(found);
        Ok(model.or(named(self.space.as_ref())).map(str::to_owned))
    }

    /// The dimension of the vectors seen.
    const fn dim(&self) -> Option<usize> {
        self.dim
    }
}

/// How often to check for cancellation.
const GLANCE: Duration = Duration::from_millis(50);

/// A provider at work.
struct Worker {
    place: String,
    questions: Sender<Vec<String>>,
    answers: Receiver<Answer>,
}

struct Answer {
    vectors: Result<Vec<Vec<f32>>, EmbedError>,
    model: Option<String>,
}

impl Worker {
    /// Hires a provider.
    fn start(mut provider: Box<dyn Embedder>) -> Result<Self, EmbedError> {
        let place = provider.place().to_owned();
        let (questions, asked) = mpsc::channel::<Vec<String>>();
        let (answer, answers) = mpsc::channel();
        let work = move || {
            for texts in asked {
                let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
                let vectors = provider.embed(&texts);
                let model = provider.model().map(str::to_owned);
                if answer.send(Answer { vectors, model }).is_err() {
                    return;
                }
            }
        };
        // It is never joined: on cancellation nobody waits for an answer that may never come.
        thread::Builder::new().name("embed".to_owned()).spawn(work).map_err(EmbedError::Thread)?;
        Ok(Self { place, questions, answers })
    }

    /// Where texts go.
    fn place(&self) -> &str {
        &self.place
    }

    /// Returns the vectors of texts and the name of their model.
    fn ask(
        &self,
        texts: Vec<String>,
        progress: &dyn Progress,
    ) -> Result<(Vec<Vec<f32>>, Option<String>), EmbedError> {
        // If the worker has ended, the receive below fails.
        let _heard = self.questions.send(texts);
        loop {
            match self.answers.recv_timeout(GLANCE) {
                Ok(Answer { vectors, model }) => return Ok((vectors?, model)),
                Err(RecvTimeoutError::Timeout) if progress.cancelled() => {
                    return Err(EmbedError::Cancelled);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let reason = "it ended unexpectedly".to_owned();
                    let place = self.place.clone();
                    return Err(HttpError::BrokenOff { place, reason }.into());
                }
            }
        }
    }
}
