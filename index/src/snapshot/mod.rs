//! Files that are mapped, never changed: [`Mapped`] today, index generations later.

mod map;

pub use map::{MapError, Mapped};
