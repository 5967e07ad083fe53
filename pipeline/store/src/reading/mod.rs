//! How rows of any store are understood: cells become memories, with every odd one accounted for.

pub(crate) mod cell;
pub(crate) mod memory;
pub(crate) mod vector;
pub(crate) mod embedding;

pub use cell::{Cell, archives, categories_to_json, reserved_prefix};
pub use embedding::read_rows;
pub use memory::{RawMemory, RowFacts, row_facts};
pub use vector::{MODEL_UNNAMED, ModelShapes};
