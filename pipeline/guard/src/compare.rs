//! Compares two readings and collects what differs.

use super::lexicon::{Lexicon, Relation, Roles};
use super::matching::{Matching, weighs};
use super::morphology::{opposite_by_affix, opposite_runs};
use super::reading::{Class, Flags, Reading, Token};
use super::roles;
use super::roles::{closes, is_indefinite, negated_heads, opposes_own, same_place};
use super::verdict::DifferenceKind;

/// Two texts with more unmatched tokens than this, and some on both sides, are different without a closer look.
const UNMATCHED_MAX: usize = 256;
/// Verbs that negate, of one text, whose opposite is looked for in the other.
const MARKED_VERBS_MAX: usize = 4;
/// How much a finding weighs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum Weight {
    /// One side says more.
    Extra,
    /// The texts speak of different things.
    Differs,
    /// The texts speak of different things, and nothing they say can contradict.
    Identity,
    /// They exclude each other if both texts describe one thing; `a white dog` and `a brown dog` may be two.
    Describes,
    /// They exclude each other.
    Excludes,
}

/// Something that differs.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Finding {
    pub(super) kind: DifferenceKind,
    pub(super) weight: Weight,
    pub(super) left: Option<(u32, u32)>,
    pub(super) right: Option<(u32, u32)>,
}

/// What the frame of two texts has in common.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Frame {
    /// Content tokens with a partner.
    pub(super) common: usize,
    /// Content tokens of the left text without partner or conflict.
    pub(super) left_rest: usize,
    /// Content tokens of the right text without partner or conflict.
    pub(super) right_rest: usize,
    /// Pairs of content tokens that exclude each other.
    pub(super) conflicts: usize,
    /// Whether the left text is the negated one; `None`: neither, or both somewhere.
    pub(super) left_negated: Option<bool>,
    /// Whether a text starts with what it does not name: `a dog`, `some people`, `there is`.
    pub(super) indefinite: bool,
    /// Whether the texts are the same but for one token.
    pub(super) equal: bool,
}

/// A comparison under way.
pub(super) struct Comparison<'a> {
    pub(super) left: &'a Reading,
    pub(super) right: &'a Reading,
    pub(super) lexicon: &'a Lexicon,
    pub(super) matching: Matching,
    pub(super) findings: Vec<Finding>,
    pub(super) frame: Frame,
}

impl<'a> Comparison<'a> {
    pub(super) fn of(left: &'a Reading, right: &'a Reading, lexicon: &'a Lexicon) -> Self {
        let matching = Matching::of(left, right, lexicon);
        let mut comparison =
            Self { left, right, lexicon, matching, findings: vec![], frame: Frame::default() };
        comparison.frame.indefinite = is_indefinite(left, lexicon) || is_indefinite(right, lexicon);
        let (own, theirs) = (&left.tokens, &right.tokens);
        let differ = own.iter().zip(theirs).filter(|(own, theirs)| own.key != theirs.key).count();
        comparison.frame.equal = own.len() == theirs.len() && differ <= 1;
        comparison.negations();
        comparison.unmatched();
        comparison.nothing_common();
        comparison.tense();
        comparison.quotes();
        let displaced = roles::displaced(left, right, &comparison.matching, lexicon);
        if let Some((own, theirs)) = displaced {
            comparison.find(DifferenceKind::Role, Weight::Differs, (Some(own), Some(theirs)));
        }
        comparison
    }

    fn find(
        &mut self,
        kind: DifferenceKind,
        weight: Weight,
        (left, right): (Option<usize>, Option<usize>),
    ) {
        let left = left.map(|at| span(&self.left.tokens[at]));
        let right = right.map(|at| span(&self.right.tokens[at]));
        self.findings.push(Finding { kind, weight, left, right });
    }

    /// Matched words of which one is negated; negations of nothing that the other side has.
    fn negations(&mut self) {
        let (left, right) = (self.left, self.right);
        if self.is_reordered()
            && negated_heads(left, self.lexicon) == negated_heads(right, self.lexicon)
        {
            return;
        }
        let flips: Vec<_> = self
            .matching
            .pairs()
            .filter(|(own, theirs)| {
                left.tokens[*own].is_negated() != right.tokens[*theirs].is_negated()
            })
            .collect();
        let (mut in_left, mut in_right) = (false, false);
        for (own, theirs) in flips {
            let is_left = left.tokens[own].is_negated();
            if self.has_opposite(is_left) {
                continue;
            }
            let seen = if is_left { &mut in_left } else { &mut in_right };
            if std::mem::replace(seen, true) {
                continue;
            }
            let place = if is_left {
                (Some(self.negator(left, own)), None)
            } else {
                (None, Some(self.negator(right, theirs)))
            };
            self.find(DifferenceKind::Negation, Weight::Excludes, place);
        }
        match (in_left, in_right) {
            (false, false) => self.lone_negation(),
            (true, true) => {}
            (is_left, _) => self.frame.left_negated = Some(is_left),
        }
    }

    /// Tells whether one of the verbs that negate in a text has its opposite in the other: `rejected`, `accepted`. These
    /// two speak for themselves.
    fn has_opposite(&self, is_left: bool) -> bool {
        let entries = |reading: &'a Reading, unmatched: Vec<usize>| {
            let tokens = unmatched.into_iter().take(UNMATCHED_MAX);
            tokens.filter_map(move |at| self.lexicon.entry_of(&reading.tokens[at]))
        };
        let left = entries(self.left, self.matching.unmatched_left(self.left));
        let right = entries(self.right, self.matching.unmatched_right(self.right));
        let (own, other): (Vec<_>, Vec<_>) = match is_left {
            true => (left.collect(), right.collect()),
            false => (right.collect(), left.collect()),
        };
        let negates = own.into_iter().filter(|entry| entry.roles.has(Roles::NEGATIVE_VERB));
        negates
            .take(MARKED_VERBS_MAX)
            .any(|verb| other.iter().any(|other| verb.conflict(*other) == Some(Relation::Opposite)))
    }

    /// Tells whether both texts are made of the same content words, and of no sentence apart from one.
    fn is_reordered(&self) -> bool {
        let parts = |reading: &Reading| {
            let inner = reading.tokens.split_last().map_or(&[][..], |(_, inner)| inner);
            inner.iter().any(|token| token.class == Class::Break)
        };
        let whole = |reading: &Reading, unmatched: Vec<usize>| {
            unmatched.iter().all(|at| !reading.tokens[*at].is_content())
        };
        !parts(self.left)
            && !parts(self.right)
            && whole(self.left, self.matching.unmatched_left(self.left))
            && whole(self.right, self.matching.unmatched_right(self.right))
    }

    /// Returns the negator that a negated token stands under, or the token itself.
    fn negator(&self, reading: &Reading, at: usize) -> usize {
        let is_negator = |token: &Token| {
            self.lexicon.roles_of(token).has(Roles::NEGATOR.with(Roles::NEGATIVE_VERB))
        };
        let before = (0..at).rev().take(32).find(|before| is_negator(&reading.tokens[*before]));
        let after = (at + 1..reading.tokens.len()).take(32);
        before
            .or_else(|| after.into_iter().find(|after| is_negator(&reading.tokens[*after])))
            .unwrap_or(at)
    }

    /// A negation on one side only that reaches none of the common words: at most an addition where it has
    /// words of its own.
    fn lone_negation(&mut self) {
        let count = |reading: &Reading| {
            let negated = reading.tokens.iter().filter(|token| token.is_negated()).count();
            let negators = reading.tokens.iter().filter(|t| t.class == Class::Negator).count();
            (negated, negators)
        };
        let ((left_words, left), (right_words, right)) = (count(self.left), count(self.right));
        let is_lone = |negators: usize, words: usize| negators > 0 && words < 2;
        if (right == 0 && right_words == 0 && is_lone(left, left_words))
            || (left == 0 && left_words == 0 && is_lone(right, right_words))
        {
            let at = |reading: &Reading| {
                reading.tokens.iter().position(|token| token.class == Class::Negator)
            };
            let place = (at(self.left), at(self.right));
            self.find(DifferenceKind::Negation, Weight::Differs, place);
        }
    }

    /// Texts without a common content word say the same only where they are made of the same small words.
    fn nothing_common(&mut self) {
        let words = |reading: &'a Reading| {
            reading.tokens.iter().filter(|token| token.key != 0).map(|token| token.key)
        };
        if self.frame.common == 0 && !words(self.left).eq(words(self.right)) {
            let first = |reading: &Reading| reading.tokens.iter().position(|token| token.key != 0);
            let place = (first(self.left), first(self.right));
            self.find(DifferenceKind::UnknownWord, Weight::Differs, place);
        }
    }

    /// Sorts what has no partner into conflicts, unknown words and additions.
    fn unmatched(&mut self) {
        let mut left = self.matching.unmatched_left(self.left);
        let mut right = self.matching.unmatched_right(self.right);
        self.frame.common =
            self.matching.pairs().filter(|(own, _)| self.left.tokens[*own].is_content()).count();
        self.opposed_to_matched(&left, &right);
        self.conflicts(&mut left, &mut right);
        self.in_place_of_auxiliaries(&left, &right);
        left.retain(|at| weighs(&self.left.tokens[*at]));
        right.retain(|at| weighs(&self.right.tokens[*at]));
        self.counted_against_one(&left, &right);
        // A verb that denies what follows it is the negation itself: `stopped using`.
        let says_more = |reading: &Reading, at: &&usize| {
            let roles = self.lexicon.roles_of(&reading.tokens[**at]);
            let denies = roles.has(Roles::NEGATIVE_VERB);
            let rest = &reading.tokens[**at + 1..];
            let governs = match rest {
                [to, verb, ..] if reading.text_of(to) == "to" => verb.is_content(),
                rest => rest.first().is_some_and(Token::is_content),
            };
            !(denies && governs)
        };
        self.frame.left_rest = left.iter().filter(|at| says_more(self.left, at)).count();
        self.frame.right_rest = right.iter().filter(|at| says_more(self.right, at)).count();
        self.rest(&left, &right);
    }

    /// Pairs unmatched tokens that exclude each other and takes them out of the lists.
    fn conflicts(&mut self, left: &mut Vec<usize>, right: &mut Vec<usize>) {
        if left.is_empty() || right.is_empty() {
            return;
        }
        if left.len().max(right.len()) > UNMATCHED_MAX {
            let place = (left.first().copied(), right.first().copied());
            return self.find(DifferenceKind::UnknownWord, Weight::Differs, place);
        }
        let mut taken = vec![false; right.len()];
        let mut conflicts = 0;
        left.retain(|own| {
            let mut best: Option<(u8, usize, DifferenceKind, Weight)> = None;
            for at in (0..right.len()).filter(|at| !taken[*at]) {
                let Some((kind, weight)) = self.conflict(*own, right[at]) else { continue };
                let rank = self.distance(*own, right[at]);
                if best.is_none_or(|(known, ..)| rank < known) {
                    best = Some((rank, at, kind, weight));
                }
            }
            let Some((_, at, kind, weight)) = best else { return true };
            taken[at] = true;
            let theirs = right[at];
            let is_content = |reading: &Reading, at: usize| reading.tokens[at].is_content();
            // Runs share what stands around their opposites.
            let own_token = &self.left.tokens[*own];
            let is_run = own_token.class == Class::Script
                && self.word_conflict(own_token, &self.right.tokens[theirs]).is_none();
            self.frame.common += usize::from(is_run);
            conflicts += usize::from(is_content(self.left, *own) && is_content(self.right, theirs));
            self.findings.push(Finding {
                kind,
                weight,
                left: Some(span(&self.left.tokens[*own])),
                right: Some(span(&self.right.tokens[theirs])),
            });
            false
        });
        let mut is_taken = taken.into_iter();
        right.retain(|_| is_taken.next() != Some(true));
        self.frame.conflicts = conflicts;
    }

    /// Ranks partners of a conflict: same neighbour and unit first.
    fn distance(&self, own: usize, theirs: usize) -> u8 {
        let (left, right) = (&self.left.tokens, &self.right.tokens);
        let before = |tokens: &[Token], at: usize| at.checked_sub(1).map(|at| tokens[at].key);
        let after = |tokens: &[Token], at: usize| tokens.get(at + 1).map(|token| token.key);
        let same_before = before(left, own) == before(right, theirs);
        let same_after = after(left, own) == after(right, theirs);
        let same_unit = left[own].entry == right[theirs].entry;
        4 - u8::from(same_before)
            - u8::from(same_after)
            - 2 * u8::from(same_unit && !left[own].is_word())
    }

    /// Tells how two tokens exclude each other.
    fn conflict(&self, own: usize, theirs: usize) -> Option<(DifferenceKind, Weight)> {
        let (left, right) = (&self.left.tokens[own], &self.right.tokens[theirs]);
        if left.is_word() && right.is_word() {
            // What is denied of `a or b` is denied of both: `or` takes the place of `and`.
            let coordinates = |token: &Token| self.lexicon.roles_of(token).has(Roles::COORDINATOR);
            let denied = self.frame.left_negated.is_some();
            if denied && coordinates(left) && coordinates(right) {
                return None;
            }
            let runs = left.class == Class::Script && right.class == Class::Script;
            let opposed = || {
                let (own, theirs) = (self.left.text_of(left), self.right.text_of(right));
                let kind = if runs { opposite_runs(own, theirs, self.lexicon) } else { None };
                Some((kind?, Weight::Excludes))
            };
            return self.word_conflict(left, right).or_else(opposed);
        }
        let ends = |own: &Token, own_text: &str, other: &Token, other_text: &str| {
            own.class == Class::Ordinal
                && own_text.eq_ignore_ascii_case("first")
                && other.is_word()
                && ["last", "final"].iter().any(|word| other_text.eq_ignore_ascii_case(word))
        };
        let (own_text, other_text) = (self.left.text_of(left), self.right.text_of(right));
        if ends(left, own_text, right, other_text) || ends(right, other_text, left, own_text) {
            return Some((DifferenceKind::Antonym, Weight::Excludes));
        }
        let kind = kind_of(left);
        let weight = match (left.class, right.class) {
            (own, theirs) if own != theirs => return None,
            (Class::Number | Class::Currency | Class::Ordinal | Class::Time, _) => Weight::Excludes,
            _ => Weight::Identity,
        };
        Some((kind, weight))
    }

    fn word_conflict(&self, left: &Token, right: &Token) -> Option<(DifferenceKind, Weight)> {
        let relation = match left.is_word() && right.is_word() {
            true => self.lexicon.conflict(left.entry, right.entry),
            false => None,
        };
        let by_affix = || {
            let are_words = left.class == Class::Word && right.class == Class::Word;
            let is_opposite =
                are_words && opposite_by_affix(self.left.text_of(left), self.right.text_of(right));
            is_opposite.then_some(Relation::Opposite)
        };
        let (kind, weight) = match relation.or_else(by_affix)? {
            Relation::Opposite => (DifferenceKind::Antonym, Weight::Excludes),
            Relation::Exclusive => (DifferenceKind::Exclusive, Weight::Excludes),
            Relation::Modality => (DifferenceKind::Modality, Weight::Excludes),
            Relation::Distinct => (DifferenceKind::Exclusive, Weight::Identity),
        };
        // `not open` and `closed` may well be the same: no contradiction, and no merge either.
        let cancelled = left.is_negated() != right.is_negated();
        let is_name = |token: &Token| token.flags.has(Flags::NAME);
        let describes = self.frame.indefinite && !is_name(left) && !is_name(right);
        Some((
            kind,
            match weight {
                Weight::Excludes if cancelled => Weight::Differs,
                Weight::Excludes if describes => Weight::Describes,
                weight => weight,
            },
        ))
    }

    /// One-sided words that turn the meaning: denials, and opposites of a word that both have.
    fn opposed_to_matched(&mut self, left: &[usize], right: &[usize]) {
        let turned = |lexicon: &Lexicon, reading: &Reading, unmatched: &[usize]| {
            unmatched.iter().copied().find(|at| {
                let Some(entry) = lexicon.entry_of(&reading.tokens[*at]) else { return false };
                entry.roles.has(Roles::DENIAL)
                    || (reading.tokens[*at].is_content() && opposes_own(lexicon, reading, *at))
            })
        };
        let own = turned(self.lexicon, self.left, left);
        let theirs = turned(self.lexicon, self.right, right);
        if own.is_some() && !self.meets_conflict(own, right) {
            self.find(DifferenceKind::Antonym, Weight::Differs, (own, None));
        } else if theirs.is_some() {
            self.find(DifferenceKind::Antonym, Weight::Differs, (None, theirs));
        }
    }

    /// Tells whether a left token will find a partner to conflict with anyway.
    fn meets_conflict(&self, own: Option<usize>, right: &[usize]) -> bool {
        own.is_some_and(|own| {
            right.iter().take(UNMATCHED_MAX).any(|theirs| self.conflict(own, *theirs).is_some())
        })
    }

    /// A verb of its own in the place of `be`, `have` or `do`: `she has a car`, `she sells a car`.
    fn in_place_of_auxiliaries(&mut self, left: &[usize], right: &[usize]) {
        let (own, theirs) = (self.left, self.right);
        let auxiliary = |token: &Token| self.lexicon.roles_of(token).has(Roles::AUXILIARY);
        let clash = |left: &Token, right: &Token| {
            auxiliary(left) && right.is_content() || left.is_content() && auxiliary(right)
        };
        let found = left.iter().take(UNMATCHED_MAX).find_map(|at| {
            let theirs = right.iter().take(UNMATCHED_MAX).find(|other| {
                clash(&own.tokens[*at], &theirs.tokens[**other])
                    && same_place((own, *at), (theirs, **other))
            });
            theirs.map(|theirs| (Some(*at), Some(*theirs)))
        });
        if let Some(place) = found {
            self.find(DifferenceKind::UnknownWord, Weight::Differs, place);
        }
    }

    /// `two workers` is more than `a worker`.
    fn counted_against_one(&mut self, left: &[usize], right: &[usize]) {
        let (own, theirs) = (self.left, self.right);
        let one = |reading: &Reading, at: usize| {
            at.checked_sub(1).is_some_and(|at| {
                matches!(
                    reading.text_of(&reading.tokens[at]),
                    "a" | "an" | "A" | "An" | "one" | "One"
                )
            })
        };
        let counts = |reading: &Reading, at: usize| {
            reading.tokens[at].class == Class::Number
                && !reading.text_of(&reading.tokens[at]).eq_ignore_ascii_case("one")
        };
        let in_left = left.iter().copied().filter(|at| counts(own, *at)).find(|at| {
            *at + 1 < own.tokens.len()
                && self.matching.of_left(at + 1).is_some_and(|partner| one(theirs, partner))
        });
        let in_right = right.iter().copied().filter(|at| counts(theirs, *at)).find(|at| {
            *at + 1 < theirs.tokens.len()
                && self.matching.of_right(at + 1).is_some_and(|partner| one(own, partner))
        });
        if in_left.is_some() || in_right.is_some() {
            self.find(DifferenceKind::Number, Weight::Differs, (in_left, in_right));
        }
    }

    /// Unknown words on both sides make the texts different; on one side they are additions.
    fn rest(&mut self, left: &[usize], right: &[usize]) {
        let both = !left.is_empty() && !right.is_empty();
        let count = left.len().max(right.len()).min(UNMATCHED_MAX);
        for at in 0..count {
            let (own, theirs) = (left.get(at).copied(), right.get(at).copied());
            let token = match (own, theirs) {
                (Some(own), _) => self.left.tokens[own],
                (None, Some(theirs)) => self.right.tokens[theirs],
                (None, None) => break,
            };
            let foreign =
                [own.map(|at| self.left.tokens[at]), theirs.map(|at| self.right.tokens[at])]
                    .iter()
                    .flatten()
                    .any(|token| token.class == Class::Script);
            // Behind `both`, one of the two is there.
            let closed = || match own {
                Some(own) => closes(self.left, own, self.lexicon),
                None => theirs.is_some_and(|theirs| closes(self.right, theirs, self.lexicon)),
            };
            let weight = if both || foreign || closed() { Weight::Differs } else { Weight::Extra };
            let kind = match kind_of(&token) {
                DifferenceKind::Name if !both => DifferenceKind::Name,
                DifferenceKind::Name if self.is_name(theirs) => DifferenceKind::Name,
                DifferenceKind::Name => DifferenceKind::UnknownWord,
                kind => kind,
            };
            self.find(kind, weight, (own, theirs));
        }
    }

    fn is_name(&self, right: Option<usize>) -> bool {
        right.is_some_and(|at| self.right.tokens[at].flags.has(Flags::NAME))
    }

    /// What will be is not what was, what is asked for is not what is done, and a question states nothing.
    fn tense(&mut self) {
        let (left, right) = (self.left, self.right);
        if left.future != right.future || left.asks != right.asks {
            self.findings.push(Finding {
                kind: DifferenceKind::Modality,
                weight: Weight::Differs,
                left: None,
                right: None,
            });
        }
        let order = self.matching.pairs().find(|(own, theirs)| {
            let (own, theirs) = (left.tokens[*own].flags, right.tokens[*theirs].flags);
            own.has(Flags::PAST) != theirs.has(Flags::PAST)
                && own.has(Flags::INITIAL)
                && theirs.has(Flags::INITIAL)
        });
        if let Some((own, theirs)) = order {
            self.find(DifferenceKind::Modality, Weight::Differs, (Some(own), Some(theirs)));
        }
    }

    /// Quoted strings that the other text does not have, on both sides.
    fn quotes(&mut self) {
        let (left, right) = (self.left, self.right);
        let own = lacking_quotes(left, right);
        let theirs = lacking_quotes(right, left);
        let (Some(own), Some(theirs)) = (own.first(), theirs.first()) else { return };
        self.findings.push(Finding {
            kind: DifferenceKind::Quote,
            weight: Weight::Identity,
            left: Some(*own),
            right: Some(*theirs),
        });
    }
}

/// Quotes looked at in one text.
const QUOTES_MAX: usize = 64;

/// Returns the spans of quoted strings that stand nowhere in the other text.
pub(super) fn lacking_quotes(own: &Reading, other: &Reading) -> Vec<(u32, u32)> {
    // `Now` does not stand in `Here and Now`.
    let is_part = |at: usize, length: usize| {
        other.quotes.iter().take(QUOTES_MAX).any(|quote| {
            let (first, last) = (quote.first as usize, quote.last as usize);
            first <= at && at + length <= last && length < last - first
        })
    };
    let stands_in = |quote: &super::reading::Quote| {
        let inside = &own.tokens[quote.first as usize..quote.last as usize];
        let is_same =
            |window: &[Token]| window.iter().zip(inside).all(|(own, other)| own.key == other.key);
        let mut windows = other.tokens.windows(inside.len()).enumerate();
        other.quotes.iter().take(QUOTES_MAX).any(|known| known.key == quote.key)
            || windows.any(|(at, window)| is_same(window) && !is_part(at, inside.len()))
    };
    own.quotes
        .iter()
        .enumerate()
        .filter(|(at, quote)| *at >= QUOTES_MAX || !stands_in(quote))
        .map(|(_, quote)| (quote.start, quote.end))
        .collect()
}

const fn span(token: &Token) -> (u32, u32) {
    (token.start, token.end)
}

/// Returns what kind of thing a token is.
pub(super) const fn kind_of(token: &Token) -> DifferenceKind {
    match token.class {
        Class::Number | Class::Ordinal => DifferenceKind::Number,
        Class::Currency => DifferenceKind::Currency,
        Class::Date | Class::Year => DifferenceKind::Date,
        Class::Time => DifferenceKind::Time,
        Class::Version => DifferenceKind::Version,
        Class::Identifier => DifferenceKind::Identifier,
        Class::Locator => DifferenceKind::Locator,
        Class::Code => DifferenceKind::Code,
        Class::Word if token.flags.has(Flags::NAME) => DifferenceKind::Name,
        _ => DifferenceKind::UnknownWord,
    }
}
