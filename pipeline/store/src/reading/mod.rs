//! How rows of any store are understood: cells become memories, with every odd one accounted for.

pub(crate) mod memory;
pub(crate) mod vector;

pub use memory::read_rows;
pub use vector::{MODEL_UNNAMED, ModelShapes};
