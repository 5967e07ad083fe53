//! Texts as data: keys that say when two are the same, tokens, overlap, and excerpts fit to be shown.
//!
//! The [`strict_key`] decides, the [`loose_key`] only proposes: `C#` and `C` share a loose key.

mod excerpt;
mod keys;
mod overlap;
mod tokens;
mod visible;

pub use excerpt::excerpt;
pub use keys::TextKey;
pub use keys::{loose_key, strict_key};
pub use overlap::{SHINGLE_TOKENS, jaccard, shingle_containment};
pub use tokens::{Token, tokens};
pub use visible::{characters, is_deceptive};
pub use visible::{printable, printable_json};
