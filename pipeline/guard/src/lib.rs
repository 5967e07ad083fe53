//! The fact guard: whether two texts say the same thing, without a model.
//!
//! A cosine cannot tell `Oct 15` from `Oct 16`. The guard reads both texts once ([`Guard::read`]) and aligns them
//! ([`Guard::judge`]): every token of both stands in exactly one step, and the steps alone make the verdict. Words
//! that it does not know keep texts apart. It does no I/O, reads no clock and knows no store.
//!
//! `lexer` cuts a text into tokens, `quantity` reads values, `reading` joins both; `align` finds
//! the cheapest alignment, `extension` knows the safe additions, `place` the role of a conflict in
//! its sentence, `verdict` decides. Open cases get a `probability`.

pub mod text;
mod policy;
mod guard;
mod verdict;
mod probability;
mod align;
mod extension;
mod place;
mod reading;
mod quantity;
mod number;
mod time_words;
mod lexer;
mod lexicon;
mod morphology;
mod stem;

pub use align::StepKind;
pub use guard::{Coverage, Guard};
pub use lexicon::LexiconError;
pub use number::{cardinal, ordinal};
pub use policy::GuardPolicy;
pub use probability::FEATURES;
pub use reading::Reading;
pub use time_words::{TimeUnit, month_number, time_unit, weekday_number};
pub use verdict::{Difference, DifferenceKind, Judgement, Side, Step, Verdict};
