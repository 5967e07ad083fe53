//! The guard: reads texts, judges pairs.

use std::cell::OnceCell;

use super::compare::{Comparison, Finding, lacking_quotes};
use super::lexicon::{BUILT_IN, Lexicon, PROOF_WORDS};
use super::matching::Matching;
use super::proof::{Lexed, Slot, Step, StepKind, Texts};
use super::reading::{Class, Flags, Token};
use super::{Difference, DifferenceKind, Judgement, LexiconError, Reading, Verdict, read, verdict};
use crate::GuardPolicy;

/// Differences that a judgement lists.
const DIFFERENCES_MAX: usize = 64;
/// More differences than one value can make.
const SLOT_DIFFERENCES_MAX: usize = 6;
/// Bytes of a text that a difference shows.
const SHOWN_BYTES_MAX: usize = 200;

/// Judges whether texts say the same, by the rules of the policy and a lexicon.
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

    /// Loads another lexicon in the place of the built-in one.
    #[cfg(test)]
    pub(super) fn with_lexicon(policy: &GuardPolicy, text: &str) -> Result<Self, LexiconError> {
        let lexicon = Lexicon::load_from(text, None)?;
        Ok(Self { policy: policy.clone(), lexicon })
    }

    /// Reads a text once, for any number of judgements. Linear in the length.
    #[must_use]
    pub fn read(&self, text: &str) -> Reading {
        read::read(text, &self.lexicon)
    }

    /// Judges two texts; see [`NewerText::judge`].
    #[must_use]
    pub fn judge(&self, older: &Reading, newer: &Reading) -> Judgement {
        self.newer(newer).judge(older)
    }

    /// Takes the newer text of any number of pairs.
    #[must_use]
    pub const fn newer<'a>(&'a self, reading: &'a Reading) -> NewerText<'a> {
        NewerText { guard: self, reading, lexed: OnceCell::new() }
    }

    /// Returns what a text lacks of what another one says. Near linear in the lengths.
    #[must_use]
    pub fn coverage(&self, part: &Reading, whole: &Reading) -> Coverage {
        let matching = Matching::of(part, whole, &self.lexicon);
        let mut coverage = Coverage {
            words: part.tokens.iter().filter(|token| token.is_content()).count(),
            ..Coverage::default()
        };
        for at in matching.unmatched_left(part) {
            let token = &part.tokens[at];
            coverage.words_lacking += usize::from(token.is_content());
            if is_specific(part, token) {
                coverage.specifics_lacking.push(part.text_of(token).to_owned());
            }
        }
        let quotes = lacking_quotes(part, whole).into_iter();
        let quotes = quotes.map(|(start, end)| part.text[start as usize..end as usize].to_owned());
        coverage.specifics_lacking.extend(quotes);
        coverage
    }

    /// Returns the score from which on a pair is contradictory, in (0, 1].
    #[must_use]
    pub const fn contradiction_threshold(&self) -> f64 {
        self.policy.contradiction_threshold
    }

    /// Returns the built-in lexicon followed by the user's.
    #[must_use]
    pub fn lexicon_text(&self) -> String {
        [BUILT_IN, PROOF_WORDS, self.policy.lexicon.as_deref().unwrap_or_default()].concat()
    }
}

/// The newer text of pairs. Its tokens are cut once, for all older ones.
#[derive(Debug)]
pub struct NewerText<'a> {
    guard: &'a Guard,
    reading: &'a Reading,
    lexed: OnceCell<Lexed<'a>>,
}

impl NewerText<'_> {
    /// Judges it beside an older text. The verdict does not depend on their order; *left* is the older text.
    ///
    /// What is proven to be the same is the same whatever else speaks against it, since every token has its step. What is
    /// proven to say more is no extension where the two contradict. Near linear in the lengths.
    #[must_use]
    pub fn judge(&self, older: &Reading) -> Judgement {
        let (Guard { policy, lexicon, .. }, newer) = (self.guard, self.reading);
        let (older_text, newer_text) = (&*older.text, &*newer.text);
        let mut judgement = Judgement {
            verdict: Verdict::Same,
            longer: None,
            proof: vec![],
            contradiction_score: 0.0,
            update: false,
            could_be_same: true,
            signals: vec![],
            differences: vec![],
        };
        if older.strict == newer.strict {
            let (left, right) = (0..older_text.len(), 0..newer_text.len());
            judgement.proof = vec![Step { kind: StepKind::Equal, left, right }];
            return judgement;
        }
        let own = Lexed::new(older_text, lexicon);
        let other = self.lexed.get_or_init(|| Lexed::new(newer_text, lexicon));
        let texts = Texts::new(&own, other, lexicon);
        let proven = texts.prove();
        if let Some((None, steps)) = proven {
            judgement.proof = steps;
            return judgement;
        }
        // Pairing is greedy: one order for both directions keeps the verdict symmetric.
        let swapped = newer.text < older.text;
        let (left, right) = if swapped { (newer, older) } else { (older, newer) };
        let Comparison { findings, frame, .. } = Comparison::of(left, right, lexicon);
        let slot = if findings.len() <= SLOT_DIFFERENCES_MAX { texts.slot() } else { Slot::Other };
        judgement.signals = verdict::signals(&findings, frame, &policy.weights);
        if slot == Slot::Several {
            judgement.signals.retain(|signal| signal.kind != DifferenceKind::Exclusive);
        }
        let score = verdict::score(&judgement.signals);
        judgement.contradiction_score = score;
        judgement.verdict = verdict::unproven(&findings, score, policy.contradiction_threshold);
        judgement.differences = differences(&findings, (older, newer), swapped);
        if let Some((longer, steps)) = proven
            && judgement.verdict != Verdict::Contradictory
        {
            (judgement.verdict, judgement.longer, judgement.proof) =
                (Verdict::Extends, longer, steps);
        }
        judgement.update = slot == Slot::Update && !judgement.verdict.is_proven();
        judgement.could_be_same = verdict::could_be_same(&judgement, texts.shape());
        judgement
    }
}

/// What a text lacks of another one.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Coverage {
    /// Numbers, dates, names, ids, addresses, code and quotations that it lacks, as the other text writes them.
    pub specifics_lacking: Vec<String>,
    /// Content words of the other text.
    pub words: usize,
    /// Those of which it has neither the word nor one of the same meaning.
    pub words_lacking: usize,
}

/// Tells whether a token names one thing: no other word can stand for it.
fn is_specific(reading: &Reading, token: &Token) -> bool {
    let begins_with_name = || {
        let capital = reading.text_of(token).starts_with(char::is_uppercase);
        token.flags.has(Flags::INITIAL) && capital && token.entry == 0
    };
    match token.class {
        Class::Word => token.flags.has(Flags::NAME) || begins_with_name(),
        Class::Function | Class::Negator | Class::Comma | Class::Break | Class::Script => false,
        _ => true,
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
