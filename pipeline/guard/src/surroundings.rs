//! What stands around a token, and what that makes of it.

use super::lexicon::{Lexicon, Relation, Roles};
use super::reading::{Class, Flags, Reading, Token};

/// How far around a word its opposite in the same text is looked for, in tokens.
const NEAR_TOKENS: usize = 64;

/// How far from a negation the word that it denies is looked for, in tokens.
const HEAD_TOKENS: usize = 32;

/// Returns the first content word under each negation, sorted; 0 where the clause ends before one.
pub(super) fn negated_heads(reading: &Reading, lexicon: &Lexicon) -> Vec<u64> {
    let ends = |token: &Token| {
        matches!(token.class, Class::Comma | Class::Break)
            || lexicon.roles_of(token).has(Roles::COORDINATOR.with(Roles::CLAUSE))
    };
    let negates = |token: &Token| {
        token.class == Class::Negator || lexicon.roles_of(token).has(Roles::NEGATIVE_VERB)
    };
    let head = |at: usize| {
        let mut clause =
            reading.tokens[at + 1..].iter().take(HEAD_TOKENS).take_while(|token| !ends(token));
        clause.find(|token| token.is_content()).map_or(0, |token| token.key)
    };
    let at = (0..reading.tokens.len()).filter(|at| negates(&reading.tokens[*at]));
    let mut heads: Vec<u64> = at.map(head).collect();
    heads.sort_unstable();
    heads
}

/// Tells whether a text has, before this token, a word that it is the opposite of: `enabled, then disabled`.
pub(super) fn opposes_own(lexicon: &Lexicon, reading: &Reading, at: usize) -> bool {
    let Some(entry) = lexicon.entry_of(&reading.tokens[at]) else { return false };
    let near = at.saturating_sub(NEAR_TOKENS)..(at + NEAR_TOKENS).min(reading.tokens.len());
    near.filter(|other| reading.tokens[*other].is_content())
        .filter_map(|other| lexicon.entry_of(&reading.tokens[other]))
        .any(|other| entry.conflict(other) == Some(Relation::Opposite))
}

/// Tells whether two tokens follow or precede the same word.
pub(super) fn same_place(left: (&Reading, usize), right: (&Reading, usize)) -> bool {
    let beside = |(reading, at): (&Reading, usize), step: isize| {
        let at = at.checked_add_signed(step)?;
        reading.tokens.get(at).map(|token| token.key).filter(|key| *key != 0)
    };
    [-1, 1]
        .into_iter()
        .any(|step| beside(left, step).is_some_and(|key| beside(right, step) == Some(key)))
}

/// How far around a word the end of its list is looked for, in tokens.
const LIST_TOKENS: usize = 6;

/// Tells whether a word that only one text has changes what the other says, instead of adding to it: where a text speaks
/// of all there is (`only`, `in total`), and where names or numbers make one (`26 miles and 385 yards`).
pub(super) fn closes(reading: &Reading, at: usize, lexicon: &Lexicon) -> bool {
    let tokens = &reading.tokens;
    if reading.exhaustive {
        return true;
    }
    let alike = |other: &Token| match tokens[at].class {
        Class::Word => {
            tokens[at].flags.has(Flags::NAME)
                && other.class == Class::Word
                && other.flags.has(Flags::NAME)
        }
        Class::Number | Class::Currency => matches!(other.class, Class::Number | Class::Currency),
        _ => false,
    };
    let joins = |side: &mut dyn Iterator<Item = &Token>| {
        let mut joined = false;
        side.take(LIST_TOKENS).take_while(|token| token.class != Class::Break).any(|token| {
            let found = joined && alike(token);
            joined |= lexicon.roles_of(token).has(Roles::COORDINATOR);
            found
        })
    };
    joins(&mut tokens[..at].iter().rev()) || joins(&mut tokens[at + 1..].iter())
}

/// Tells whether the first words name nothing that another text could mean as well.
pub(super) fn is_indefinite(reading: &Reading, lexicon: &Lexicon) -> bool {
    reading.tokens.first().is_some_and(|token| {
        token.class == Class::Number || lexicon.roles_of(token).has(Roles::INDEFINITE)
    })
}
