//! Instants as stores spell them: naive local, `Z`, offsets and epoch numbers, mixed in one column.

mod instant;
mod parse;

pub use instant::Instant;
pub use parse::in_zone;
