//! Short agent memories made from templates, for generated stores of any size.

mod templates;
mod slots;

pub use templates::{GROUPS_MAX, templated};
