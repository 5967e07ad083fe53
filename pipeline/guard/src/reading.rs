//! What the guard knows of one text.

use std::ops::Range;

/// Everything the guard reads out of one text, once.
///
/// Takes about 30 bytes per word besides the text itself.
#[derive(Debug, Clone)]
pub struct Reading {
    pub(super) text: Box<str>,
    /// blake3 of the strict key, shortened.
    pub(super) strict: [u8; 16],
    pub(super) tokens: Box<[Token]>,
    /// Positions of the tokens that count ([`Token::counts`]), by key, affirmed ones first, then position.
    pub(super) by_key: Box<[u32]>,
    /// Quoted strings, as ranges of tokens.
    pub(super) quotes: Box<[Quote]>,
    /// Whether it speaks of what will be.
    pub(super) future: bool,
    /// Whether it asks something.
    pub(super) asks: bool,
    /// Whether it speaks of all there is.
    pub(super) exhaustive: bool,
}

impl Reading {
    pub(super) fn text_of(&self, token: &Token) -> &str {
        &self.text[token.range()]
    }
}

/// What a token is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Class {
    /// A word that means something.
    Word,
    /// A small word.
    Function,
    /// A word that negates what follows.
    Negator,
    /// A run of a script without a lexicon.
    Script,
    /// A count or an amount.
    Number,
    /// A position: `2nd`.
    Ordinal,
    /// An amount of money.
    Currency,
    /// A day of a year.
    Date,
    /// A year.
    Year,
    /// A time of day.
    Time,
    /// A version.
    Version,
    /// An id, a hash, `#n`, a numbered thing.
    Identifier,
    /// A URL, an address, a path.
    Locator,
    /// An identifier of code.
    Code,
    /// A comma or colon.
    Comma,
    /// The end of a sentence or line.
    Break,
}

/// What is known of a token besides its class.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Flags(u8);

impl Flags {
    /// It stands under a negation.
    pub(super) const NEGATED: Self = Self(1);
    /// It is written like a name.
    pub(super) const NAME: Self = Self(1 << 1);
    /// It is the first word of a sentence.
    pub(super) const INITIAL: Self = Self(1 << 2);
    /// It is a form of the past.
    pub(super) const PAST: Self = Self(1 << 3);
    /// It is a small word that can still conflict: `before`, `all`, `must`.
    pub(super) const LIGHT: Self = Self(1 << 4);
    /// A number in words.
    pub(super) const SPELLED: Self = Self(1 << 5);
    /// It is a negator that takes words on its left.
    pub(super) const SPENT: Self = Self(1 << 6);

    pub(super) const fn has(self, flag: Self) -> bool {
        self.0 & flag.0 != 0
    }

    pub(super) const fn set(&mut self, flag: Self) {
        self.0 |= flag.0;
    }

    pub(super) const fn clear(&mut self, flag: Self) {
        self.0 &= !flag.0;
    }

    pub(super) const fn toggle(&mut self, flag: Self) {
        self.0 ^= flag.0;
    }
}

/// A token and what it is compared by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Token {
    /// Equal for tokens that say the same.
    pub(super) key: u64,
    /// First byte.
    pub(super) start: u32,
    /// Past the last byte.
    pub(super) end: u32,
    /// Its entry in the lexicon, or 0; for numbers the unit.
    pub(super) entry: u32,
    /// What it is.
    pub(super) class: Class,
    /// What else is known.
    pub(super) flags: Flags,
}

impl Token {
    pub(super) const fn range(&self) -> Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Tells whether a text without it says less.
    pub(super) const fn is_content(&self) -> bool {
        !matches!(self.class, Class::Function | Class::Negator | Class::Comma | Class::Break)
    }

    /// Tells whether it takes part in matching.
    pub(super) const fn counts(&self) -> bool {
        self.is_content() || self.flags.has(Flags::LIGHT)
    }

    /// Tells whether its entry is one of the lexicon.
    pub(super) const fn is_word(&self) -> bool {
        matches!(self.class, Class::Word | Class::Function | Class::Negator | Class::Script)
    }

    pub(super) const fn is_negated(&self) -> bool {
        self.flags.has(Flags::NEGATED)
    }
}

/// A quoted string.
#[derive(Debug, Clone, Copy)]
pub(super) struct Quote {
    /// First byte inside.
    pub(super) start: u32,
    /// Past the last byte inside.
    pub(super) end: u32,
    /// First token inside.
    pub(super) first: u32,
    /// Past the last token inside.
    pub(super) last: u32,
    /// Key of what is quoted.
    pub(super) key: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tokens_stay_small() {
        assert_eq!(size_of::<Token>(), 24);
        assert!(size_of::<Reading>() <= 96, "{}", size_of::<Reading>());
    }
}
