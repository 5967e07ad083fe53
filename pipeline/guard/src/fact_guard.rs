//! The guard: reads texts, judges pairs.

use std::borrow::Cow;

use super::compare::{Comparison, Finding, lacking_quotes};
use super::lexicon::{BUILT_IN, Entry, Lexicon, Roles};
use super::matching::{Matching, weighs};
use super::reading::{Flags, Token};
use super::{Absorption, Difference, Judgement, LexiconError, Reading, Verdict, read, verdict};
use crate::{GuardPolicy, text};

/// Differences that a judgement lists.
const DIFFERENCES_MAX: usize = 64;
/// Bytes of a text that a difference shows.
const SHOWN_BYTES_MAX: usize = 200;

/// Judges whether texts say the same, by the rules of the policy and a lexicon.
///
/// Deterministic, without a model; may be shared between threads.
#[derive(Debug)]
pub struct Guard {
    policy: GuardPolicy,
    lexicon: Lexicon,
    lexicon_text: Cow<'static, str>,
}

impl Guard {
    /// Loads the built-in lexicon and merges the user's.
    ///
    /// # Errors
    /// Returns a [`LexiconError`] that names the file and the line where the user's lexicon cannot be read.
    pub fn new(policy: &GuardPolicy) -> Result<Self, LexiconError> {
        let named = |error| LexiconError { file: policy.lexicon_file.clone(), ..error };
        let lexicon = Lexicon::load(policy.lexicon.as_deref()).map_err(named)?;
        let lexicon_text = match &policy.lexicon {
            None => BUILT_IN.into(),
            Some(user) => (BUILT_IN.to_owned() + user).into(),
        };
        Ok(Self { policy: policy.clone(), lexicon, lexicon_text })
    }

    /// Loads another lexicon in the place of the built-in one.
    #[cfg(test)]
    pub(super) fn with_lexicon(policy: &GuardPolicy, text: &str) -> Result<Self, LexiconError> {
        let lexicon = Lexicon::load_from(text, None)?;
        Ok(Self { policy: policy.clone(), lexicon, lexicon_text: text.to_owned().into() })
    }

    /// Reads a text once, for any number of judgements. Linear in the length.
    #[must_use]
    pub fn read(&self, text: &str) -> Reading {
        read::read(text, &self.lexicon, self.policy.window_chars)
    }

    /// Judges two texts. The verdict does not depend on their order; `left` is the older text.
    ///
    /// Near linear in the lengths; equal strict keys are compatible at no cost.
    #[must_use]
    pub fn judge(&self, older: &Reading, newer: &Reading) -> Judgement {
        if older.strict == newer.strict {
            return Judgement {
                verdict: Verdict::Compatible,
                contradiction_score: 0.0,
                signals: vec![],
                differences: vec![],
            };
        }
        // Pairing is greedy: one order for both directions keeps the verdict symmetric.
        let swapped = newer.text < older.text;
        let (left, right) = if swapped { (newer, older) } else { (older, newer) };
        let Comparison { findings, frame, .. } = Comparison::of(left, right, &self.lexicon);
        let signals = verdict::signals(&findings, frame, &self.policy.weights);
        let contradiction_score = verdict::score(&signals);
        Judgement {
            verdict: verdict::verdict(
                &findings,
                contradiction_score,
                self.policy.contradiction_threshold,
            ),
            contradiction_score,
            signals,
            differences: differences(&findings, (older, newer), swapped),
        }
    }

    /// Tells whether the survivor's text carries everything that the row's says.
    ///
    /// Every specific of the row must be there, and every word that says how much, how often or how bindingly; at most
    /// `lacking_words_max` of its content words may be missing; where either text is beyond the
    /// window, `containment_min` of the row's word shingles must be there too.
    #[must_use]
    pub fn absorbs(&self, survivor: &Reading, row: &Reading) -> Absorption {
        let matching = Matching::of(row, survivor, &self.lexicon);
        let lacking: Vec<&Token> = matching
            .unmatched_left(row)
            .into_iter()
            .map(|at| &row.tokens[at])
            .filter(|token| weighs(token) || self.is_modal(token))
            .collect();
        let shown = |token: &&Token| shown(row.text_of(token));
        let specific = |token: &&&Token| {
            token.is_specific() || self.may_be_name(row, token) || self.is_modal(token)
        };
        let mut lacking_specifics: Vec<String> =
            lacking.iter().filter(specific).map(shown).collect();
        let quotes = lacking_quotes(row, survivor);
        lacking_specifics.extend(
            quotes
                .iter()
                .map(|(start, end)| self::shown(&row.text[*start as usize..*end as usize])),
        );
        let lacking_words: Vec<String> =
            lacking.iter().filter(|token| !specific(token)).map(shown).collect();
        let words = row.tokens.iter().filter(|token| weighs(token)).count();
        let lacking_count = lacking.iter().filter(|token| weighs(token)).count();
        let lacking_share = lacking_count as f64 / words.max(1) as f64;
        let containment = (survivor.beyond_window || row.beyond_window)
            .then(|| text::shingle_containment(&row.text, &survivor.text));
        let absorbable = lacking_specifics.is_empty()
            && lacking_share <= self.policy.lacking_words_max
            && containment.is_none_or(|share| share >= self.policy.containment_min);
        Absorption { absorbable, lacking_specifics, lacking_words, lacking_share, containment }
    }

    /// Tells whether a sentence's first word could be a name: an unknown word, or that of software, with a capital.
    fn may_be_name(&self, reading: &Reading, token: &Token) -> bool {
        let is_versioned = || self.lexicon.roles_of(token).has(Roles::VERSIONED);
        token.flags.has(Flags::INITIAL)
            && (token.entry == 0 || is_versioned())
            && reading.text_of(token).starts_with(char::is_uppercase)
    }

    fn is_modal(&self, token: &Token) -> bool {
        self.lexicon.entry_of(token).is_some_and(Entry::is_modal)
    }

    /// Returns the score from which on a pair is contradictory, in (0, 1].
    #[must_use]
    pub const fn contradiction_threshold(&self) -> f64 {
        self.policy.contradiction_threshold
    }

    /// Returns the built-in lexicon followed by the user's.
    #[must_use]
    pub fn lexicon_text(&self) -> &str {
        &self.lexicon_text
    }
}

/// Puts the findings into words, in the order of the older text.
fn differences(
    findings: &[Finding],
    (older, newer): (&Reading, &Reading),
    swapped: bool,
) -> Vec<Difference> {
    let mut differences: Vec<Difference> = findings
        .iter()
        .map(|finding| {
            let (left, right) = match swapped {
                true => (finding.right, finding.left),
                false => (finding.left, finding.right),
            };
            let range = |(start, end): (u32, u32)| start as usize..end as usize;
            let (left, right) = (left.map(range), right.map(range));
            let text = |reading: &Reading, range: &Option<std::ops::Range<usize>>| {
                range.as_ref().map_or(String::new(), |range| shown(&reading.text[range.clone()]))
            };
            let (left_text, right_text) = (text(older, &left), text(newer, &right));
            Difference { kind: finding.kind, left, right, left_text, right_text }
        })
        .collect();
    let place = |range: &Option<std::ops::Range<usize>>| {
        range.as_ref().map_or(usize::MAX, |range| range.start)
    };
    differences.sort_by_key(|difference| {
        (place(&difference.left), place(&difference.right), difference.kind)
    });
    differences.truncate(DIFFERENCES_MAX);
    differences
}

fn shown(text: &str) -> String {
    text[..text.floor_char_boundary(SHOWN_BYTES_MAX)].to_owned()
}
