//! [`fill`]: batch by batch.

use std::ops::Range;

use jiff::tz::TimeZone;
use memfold_index::Progress;
use serde::Serialize;

use super::FillError;
use super::coverage::Pending;
use super::place::{Common, check_space};
use super::worker::Worker;
use crate::embed::Embedder;
use memfold_model::memory::{MemoryId, VectorSpace};
use memfold_model::time::Instant;
use memfold_store::brain_db::{NewEmbedding, Session, SessionError};

/// So many texts refused one after the other, and none taken, are not the texts' fault.
const REFUSALS_IN_A_ROW: u32 = 10;

/// How to fill.
pub struct Fill<'a> {
    /// Who makes the vectors.
    pub provider: Box<dyn Embedder>,
    /// The model and dimension that they must have; `None`: any.
    pub space: Option<VectorSpace>,
    /// Memories at once.
    pub batch_size: usize,
    /// The time, asked once for each batch: other programs look for what came since they last looked.
    pub clock: &'a dyn Fn() -> Instant,
    /// The zone of naive times.
    pub time_zone: &'a TimeZone,
    /// Where progress goes.
    pub progress: &'a dyn Progress,
}

/// What was done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Filled {
    /// Memories that were given an embedding.
    pub filled: u64,
    /// Memories that somebody else gave one meanwhile.
    pub present: u64,
    /// Memories that are gone, or whose text changed meanwhile.
    pub changed: u64,
    /// Memories that the provider, or the store, does not take.
    pub refused: Vec<Refusal>,
    /// The model written with the vectors; `None`: what the owner's table has for a default.
    pub model: Option<String>,
    /// The dimension of the vectors.
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

/// Gives memories an embedding; says what was done, and what ended it before its time. What was done stays, and doing it
/// again continues.
///
/// # Errors
/// In the second part: what the provider or the store refuse altogether, and the wish to stop.
pub fn fill(
    session: &Session,
    pending: &[Pending],
    fill: Fill<'_>,
) -> (Filled, Result<(), FillError>) {
    let mut filled = Filled::default();
    let done = Filler::start(session, fill, &mut filled).and_then(|filler| filler.run(pending));
    (filled, done)
}

struct Filler<'a> {
    session: &'a Session,
    worker: Worker,
    common: Common,
    batch_size: usize,
    clock: &'a dyn Fn() -> Instant,
    time_zone: &'a TimeZone,
    progress: &'a dyn Progress,
    filled: &'a mut Filled,
    refusals_in_a_row: u32,
}

/// A memory's place in its batch, and its vector.
type Placed = (usize, Vec<f32>);

impl<'a> Filler<'a> {
    fn start(
        session: &'a Session,
        fill: Fill<'a>,
        filled: &'a mut Filled,
    ) -> Result<Self, FillError> {
        let Fill { provider, space, batch_size, clock, time_zone, progress } = fill;
        check_space(space.as_ref(), provider.model())?;
        Ok(Self {
            session,
            worker: Worker::start(provider)?,
            common: Common::new(space),
            batch_size: batch_size.max(1),
            clock,
            time_zone,
            progress,
            filled,
            refusals_in_a_row: 0,
        })
    }

    fn run(mut self, pending: &[Pending]) -> Result<(), FillError> {
        self.progress.begin("embed", Some(pending.len() as u64));
        for batch in pending.chunks(self.batch_size) {
            if self.progress.cancelled() {
                return Err(FillError::Cancelled);
            }
            let placed = self.embed(batch)?;
            self.write(batch, &placed)?;
            self.progress.advance(batch.len() as u64);
        }
        self.progress.end();
        Ok(())
    }

    /// Asks for the vectors of a batch; where a text is refused, for those of ever smaller parts of it.
    fn embed(&mut self, batch: &[Pending]) -> Result<Vec<Placed>, FillError> {
        let mut placed = Vec::with_capacity(batch.len());
        let whole = 0..batch.len();
        let mut parts: Vec<Range<usize>> = Vec::from([whole]);
        while let Some(part) = parts.pop() {
            let texts = batch[part.clone()].iter().map(|one| one.content.to_string()).collect();
            match self.worker.ask(texts, self.progress) {
                Ok((vectors, model)) => {
                    let place = self.worker.place();
                    self.filled.model = self.common.check(place, (model.as_deref(), &vectors))?;
                    self.filled.dim = self.common.dim();
                    self.refusals_in_a_row = 0;
                    placed.extend(part.zip(vectors));
                }
                Err(FillError::Embed(error)) if error.concerns_texts() && part.len() > 1 => {
                    let middle = part.start + part.len() / 2;
                    parts.extend([middle..part.end, part.start..middle]);
                }
                Err(FillError::Embed(error)) if error.concerns_texts() => {
                    self.refuse(&batch[part.start], error.into())?;
                }
                Err(error) => return Err(error),
            }
        }
        Ok(placed)
    }

    /// Inserts the vectors of a batch; one by one where the store refuses them together.
    fn write(&mut self, batch: &[Pending], placed: &[Placed]) -> Result<(), FillError> {
        let refused = match self.write_together(batch, placed) {
            Err(error) if !error.stops_the_run() => error,
            written => return Ok(written?),
        };
        if placed.len() == 1 {
            return self.refuse(&batch[placed[0].0], refused.into());
        }
        for one in placed {
            match self.write_together(batch, std::slice::from_ref(one)) {
                Ok(()) => self.refusals_in_a_row = 0,
                Err(error) if !error.stops_the_run() => self.refuse(&batch[one.0], error.into())?,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    /// Inserts vectors in one transaction, as far as their memories are still there and still lack one.
    fn write_together(&mut self, batch: &[Pending], placed: &[Placed]) -> Result<(), SessionError> {
        let at = (self.clock)().to_naive_local(self.time_zone);
        let model = self.filled.model.as_deref();
        let [mut filled, mut present, mut changed] = [0; 3];
        self.session.write::<_, SessionError>(|writes| {
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

    fn refuse(&mut self, memory: &Pending, error: FillError) -> Result<(), FillError> {
        let (id, reason) = (memory.id.clone(), error.to_string());
        self.filled.refused.push(Refusal { id, reason });
        self.refusals_in_a_row += 1;
        if self.refusals_in_a_row < REFUSALS_IN_A_ROW { Ok(()) } else { Err(error) }
    }
}
