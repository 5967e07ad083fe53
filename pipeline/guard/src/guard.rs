//! The guard: reads texts, judges pairs.

use crate::lexer::{Flags, Kind, Token};
use crate::lexicon::{BUILT_IN, Lexicon, LexiconError};
use crate::policy::GuardPolicy;
use crate::reading::Reading;
use crate::verdict::{self, Judgement};

/// Judges whether texts say the same, by a lexicon.
///
/// Deterministic, without a model; may be shared between threads.
#[derive(Debug)]
pub struct Guard {
    policy: GuardPolicy,
    lexicon: Lexicon,
}

impl Guard {
    /// Loads the built-in lexicon and merges the user's.
    ///
    /// # Errors
    /// Returns a [`LexiconError`] that names the file and the line where the user's lexicon cannot be read.
    pub fn new(policy: &GuardPolicy) -> Result<Self, LexiconError> {
        let named = |error| LexiconError { file: policy.lexicon_file.clone(), ..error };
        let lexicon = Lexicon::load(policy.lexicon.as_deref()).map_err(named)?;
        Ok(Self { policy: policy.clone(), lexicon })
    }

    /// Reads a text once, for any number of judgements. Linear in the length.
    #[must_use]
    pub fn read(&self, text: &str) -> Reading {
        Reading::new(text, &self.lexicon)
    }

    /// Judges an older text beside a newer one. The verdict does not depend on their order; *left* is the older text.
    ///
    /// Takes time in proportion to the lengths, times the length of the stretch in which they differ; beyond about 240 words
    /// of it the verdict is *undecided*.
    #[must_use]
    pub fn judge(&self, older: &Reading, newer: &Reading) -> Judgement {
        if older.strict == newer.strict
            && (!older.relative || older.day.is_some() && older.day == newer.day)
        {
            return Judgement::equal(older.text.len(), newer.text.len());
        }
        // Alignments of one cost are chosen by order: one order for both directions keeps the verdict symmetric.
        if newer.text < older.text {
            return verdict::judge(newer, older, &self.lexicon).flipped();
        }
        verdict::judge(older, newer, &self.lexicon)
    }

    /// Returns the parts of another text that a text lacks. Near linear in the lengths.
    #[must_use]
    pub fn coverage(&self, part: &Reading, whole: &Reading) -> Coverage {
        let mut coverage = Coverage::default();
        let known = Known::of(whole, &self.lexicon);
        for (at, token) in part.lexed.tokens.iter().enumerate() {
            let content = verdict::is_content(token, &self.lexicon);
            coverage.words += usize::from(content);
            if !content && !token.has(Flags::QUOTED) || known.has(part, at, &self.lexicon) {
                continue;
            }
            coverage.words_lacking += usize::from(content);
            let name =
                token.has(Flags::CAPITAL) && (!token.has(Flags::INITIAL) || token.entry == 0);
            let specific = matches!(token.kind, Kind::Number | Kind::Code | Kind::Locator)
                || token.kind == Kind::Word && (name || token.has(Flags::QUOTED));
            if specific {
                let width = part.span(at).quantity.map_or(1, |quantity| quantity.width as usize);
                coverage.specifics_lacking.push(part.text[part.bytes(at..at + width)].to_owned());
            }
        }
        coverage
    }

    /// Returns the built-in lexicon followed by the user's.
    #[must_use]
    pub fn lexicon_text(&self) -> String {
        [BUILT_IN, self.policy.lexicon.as_deref().unwrap_or_default()].concat()
    }
}

/// The parts of one text that another text lacks.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Coverage {
    /// Numbers, dates, names, ids, addresses, code and quotations that it lacks, as the other text writes them.
    pub specifics_lacking: Vec<String>,
    /// Content words of the other text.
    pub words: usize,
    /// Content words that it has neither literally nor by a synonym.
    pub words_lacking: usize,
}

/// The tokens of a text, sorted for look-ups.
struct Known<'a> {
    reading: &'a Reading,
    /// Sorted, as the others.
    folded: Vec<u64>,
    stems: Vec<u64>,
    entries: Vec<u32>,
    /// The meanings of all entries, as bits.
    meanings: u64,
}

impl<'a> Known<'a> {
    fn of(reading: &'a Reading, lexicon: &Lexicon) -> Self {
        let tokens = &reading.lexed.tokens;
        let exact = |token: &Token| token.has(Flags::EXACT).then_some(token.exact);
        let entries = sorted(tokens.iter().map(|token| token.entry).filter(|entry| *entry != 0));
        Self {
            reading,
            meanings: entries.iter().fold(0, |all, entry| all | lexicon.meaning_bits(*entry)),
            folded: sorted(
                tokens.iter().flat_map(|token| std::iter::once(token.folded).chain(exact(token))),
            ),
            stems: sorted(tokens.iter().map(|token| token.stem)),
            entries,
        }
    }

    /// Tells whether a token of another text stands here in some form.
    fn has(&self, part: &Reading, at: usize, lexicon: &Lexicon) -> bool {
        let token = &part.lexed.tokens[at];
        if let Some(quantity) = part.span(at).quantity {
            return (0..self.reading.lexed.tokens.len()).any(|at| {
                self.reading.span(at).quantity.is_some_and(|other| {
                    quantity.compare(&other) == crate::quantity::Compared::Equal
                })
            });
        }
        if self.folded.binary_search(&token.folded).is_ok() {
            return true;
        }
        let ordinary = token.kind == Kind::Word && !token.is_name() && !token.has(Flags::QUOTED);
        ordinary
            && (self.stems.binary_search(&token.stem).is_ok()
                || lexicon.meaning_bits(token.entry) & self.meanings != 0
                    && self.entries.iter().any(|entry| lexicon.may_mean_same(token.entry, *entry)))
    }
}

fn sorted<T: Ord>(values: impl Iterator<Item = T>) -> Vec<T> {
    let mut values: Vec<T> = values.collect();
    values.sort_unstable();
    values.dedup();
    values
}
