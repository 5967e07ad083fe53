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
pub(crate) mod provenance;
mod shapes;
mod tally;
mod vector;

pub use categories::to_json as categories_to_json;
pub use cell::Cell;
pub use embeddings::read_rows;
pub(crate) use embeddings::{EMBEDDING_CELLS, EmbeddingReader, RawEmbedding, decode_vector};
pub use facts::{RowFacts, base_digest, row_facts};
pub(crate) use identity::OldestRow;
pub(crate) use live::LiveReader;
pub use memories::{MEMORY_CELLS, MemoryReader, RawMemory, ReadMemories};
pub(crate) use packed::{PackedRows, RawRow};
pub use provenance::{archives, reserved_prefix};
pub use recorded::{Recorded, RecordedDecision, RecordedFlag};
pub use shapes::{MODEL_UNNAMED, ModelShapes, ShapeSurvey};
