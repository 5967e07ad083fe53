//! The proof of sameness: an order-preserving alignment that uses every token of both texts exactly once.
//!
//! Each step is one of a closed list ([`StepKind`]). Where a token has no step there is no proof, whatever the rest
//! of the texts says: words that the guard does not know never fold. In a language that is not recognised only equal
//! tokens, spellings and quantities are steps. `lex` cuts the texts, `value` reads quantities, `align` finds the steps.

mod align;
mod forms;
mod lex;
mod slot;
mod value;

pub(crate) use slot::Slot;

use std::ops::Range;

use crate::lexicon::Lexicon;

/// Why a step says the same on both sides.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// The same tokens.
    Equal,
    /// One word in two spellings, or marks that say nothing.
    Spelling,
    /// Two ways to write one value.
    Quantity,
    /// Two forms of one word.
    Inflection,
    /// Words that the lexicon knows to mean the same.
    Synonym,
    /// A word that says nothing, on one side.
    Filler,
    /// A list whose items stand in another order.
    Move,
    /// A whole phrase that only the longer side has.
    Extension,
}

/// One step of a proof, with the bytes it covers; an empty range stands where the side has nothing.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Step {
    /// Why it holds.
    pub kind: StepKind,
    /// Bytes of the first text.
    pub left: Range<usize>,
    /// Bytes of the second text.
    pub right: Range<usize>,
}

/// Which of two texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The first.
    Left,
    /// The second.
    Right,
}

/// What two texts are like as a whole.
#[derive(Debug, Clone, Copy)]
pub(crate) struct TextShape {
    /// One has two or more tokens that the other lacks.
    pub(crate) other_length: bool,
    /// Both deny something, as often.
    pub(crate) both_deny: bool,
}

/// The tokens of one text.
#[derive(Debug)]
pub(crate) struct Lexed<'a>(Vec<lex::Tok<'a>>);

impl<'a> Lexed<'a> {
    pub(crate) fn new(text: &'a str, lexicon: &Lexicon) -> Self {
        Self(lex::lex(text, lexicon))
    }
}

/// The tokens of two texts.
pub(crate) struct Texts<'a> {
    left: &'a [lex::Tok<'a>],
    right: &'a [lex::Tok<'a>],
    lexicon: &'a Lexicon,
}

impl<'a> Texts<'a> {
    pub(crate) fn new(left: &'a Lexed<'a>, right: &'a Lexed<'a>, lexicon: &'a Lexicon) -> Self {
        Self { left: &left.0, right: &right.0, lexicon }
    }

    /// Looks for a proof; tells which side says more, if one does. Linear in the lengths.
    pub(crate) fn prove(&self) -> Option<(Option<Side>, Vec<Step>)> {
        align::align(self.left, self.right, self.lexicon)
    }

    /// Compares what the texts are like as a whole.
    pub(crate) fn shape(&self) -> TextShape {
        let denials = |tokens: &[lex::Tok<'_>]| {
            tokens.iter().filter(|token| align::denies(token, self.lexicon)).count()
        };
        let (left, right) = (denials(self.left), denials(self.right));
        TextShape {
            other_length: self.left.len().abs_diff(self.right.len()) > 1,
            both_deny: left == right && left > 0,
        }
    }

    /// Looks for the one value in which the texts differ. Linear in the lengths.
    pub(crate) fn slot(&self) -> Slot {
        slot::slot(self.left, self.right, self.lexicon)
    }
}
