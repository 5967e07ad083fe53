//! Texts as data: keys that say when two are the same, tokens, and excerpts safe to display.
//!
//! The [`strict_key`] decides, the [`loose_key`] only proposes: `C#` and `C` share a loose key.

mod excerpt;
mod keys;

pub use excerpt::{characters, excerpt, is_deceptive, printable, printable_json};
pub(crate) use keys::keeps_white_space;
pub use keys::{
    TextKey, Token, dated_key, is_blank, is_relative_to_day, loose_key, strict_key, tokens,
};
