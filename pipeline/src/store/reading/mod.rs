//! How rows of any store are understood: cells become memories, with every odd one accounted for.

mod categories;
mod cell;
mod digest;
mod embeddings;
mod identity;
mod memories;
mod provenance;
mod shapes;
mod tally;
mod vector;

pub(super) use categories::to_json as categories_to_json;
pub(super) use cell::Cell;
pub(super) use embeddings::{EmbeddingReader, RawEmbedding};
pub(super) use memories::{MemoryReader, RawMemory, ReadMemories};
pub(super) use shapes::{ModelShapes, ShapeSurvey};
