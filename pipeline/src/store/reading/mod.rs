//! How rows of any store are understood: cells become memories, with every odd one accounted for.

mod archived;
mod categories;
mod cell;
mod digest;
mod embeddings;
mod facts;
mod identity;
mod live;
mod memories;
mod packed;
mod recorded;
pub(in crate::store) mod provenance;
mod shapes;
mod tally;
mod vector;

pub(crate) use categories::to_json as categories_to_json;
pub(crate) use cell::Cell;
pub(crate) use embeddings::{EMBEDDING_CELLS, EmbeddingReader, RawEmbedding, decode_vector};
pub(crate) use facts::{RowFacts, base_digest, row_facts};
pub(crate) use identity::OldestRow;
pub(crate) use live::LiveReader;
pub(crate) use memories::{MEMORY_CELLS, MemoryReader, RawMemory, ReadMemories};
pub(crate) use packed::{PackedRows, RawRow};
pub(crate) use provenance::{archives, reserved_prefix};
pub(crate) use recorded::{Recorded, RecordedDecision, RecordedFlag};
pub(crate) use shapes::{MODEL_UNNAMED, ModelShapes, ShapeSurvey};
