//! Which tokens of two texts say the same.

use std::collections::BTreeMap;

use super::lexicon::Lexicon;
use super::reading::{Flags, Reading, Token};

/// No partner.
const NONE: u32 = u32::MAX;

/// A word that occurs more often than this is paired in order, whatever stands beside it.
const REPEATED_MAX: usize = 16;

/// The partners of two texts' tokens.
pub(super) struct Matching {
    left: Vec<u32>,
    right: Vec<u32>,
}

impl Matching {
    /// Pairs tokens of equal key, those of equal polarity first, then words that mean the same.
    pub(super) fn of(left: &Reading, right: &Reading, lexicon: &Lexicon) -> Self {
        let mut matching =
            Self { left: vec![NONE; left.tokens.len()], right: vec![NONE; right.tokens.len()] };
        matching.by_key(left, right);
        matching.by_meaning(left, right, lexicon);
        matching.by_kind(left, right, lexicon);
        matching
    }

    /// Returns a left token's partner.
    pub(super) fn of_left(&self, at: usize) -> Option<usize> {
        Some(self.left[at]).filter(|partner| *partner != NONE).map(|partner| partner as usize)
    }

    /// Returns a right token's partner.
    pub(super) fn of_right(&self, at: usize) -> Option<usize> {
        Some(self.right[at]).filter(|partner| *partner != NONE).map(|partner| partner as usize)
    }

    /// Returns matched pairs in the order of the left text.
    pub(super) fn pairs(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        (0..self.left.len()).filter_map(|at| self.of_left(at).map(|partner| (at, partner)))
    }

    /// Returns the left tokens that count and have no partner.
    pub(super) fn unmatched_left(&self, left: &Reading) -> Vec<usize> {
        unmatched(&self.left, left)
    }

    /// Returns the right tokens that count and have no partner.
    pub(super) fn unmatched_right(&self, right: &Reading) -> Vec<usize> {
        unmatched(&self.right, right)
    }

    fn by_key(&mut self, left: &Reading, right: &Reading) {
        let (mut lefts, mut rights) = (&left.by_key[..], &right.by_key[..]);
        while let (Some(first), Some(second)) = (lefts.first(), rights.first()) {
            let keys = (left.tokens[*first as usize].key, right.tokens[*second as usize].key);
            if keys.0 < keys.1 {
                lefts = &lefts[1..];
            } else if keys.0 > keys.1 {
                rights = &rights[1..];
            } else {
                let (own, rest) = group(lefts, left);
                let (theirs, others) = group(rights, right);
                self.pair_group((own, left), (theirs, right));
                (lefts, rights) = (rest, others);
            }
        }
    }

    /// Pairs one key's tokens: affirmed with affirmed, negated with negated, then what is left.
    fn pair_group(&mut self, left: (&[u32], &Reading), right: (&[u32], &Reading)) {
        let split = |(group, reading): (&[u32], &Reading)| {
            group.partition_point(|at| !reading.tokens[*at as usize].is_negated())
        };
        let (left_affirmed, left_negated) = left.0.split_at(split(left));
        let (right_affirmed, right_negated) = right.0.split_at(split(right));
        if left.0.len().max(right.0.len()) == 1 {
            self.pair(left.0[0], right.0[0]);
            return;
        }
        let readings = (left.1, right.1);
        self.pair_repeated(left_affirmed, right_affirmed, readings);
        self.pair_repeated(left_negated, right_negated, readings);
        self.pair_repeated(left_affirmed, right_negated, readings);
        self.pair_repeated(left_negated, right_affirmed, readings);
    }

    /// Pairs a word that occurs more than once: first where the words beside it are the same, then in order.
    fn pair_repeated(&mut self, left: &[u32], right: &[u32], readings: (&Reading, &Reading)) {
        if left.len().max(right.len()) <= REPEATED_MAX {
            let both = |(before, after): (bool, bool)| before && after;
            self.pair_beside(left, right, readings, both);
            self.pair_beside(left, right, readings, |(_, after)| after);
            self.pair_beside(left, right, readings, |(before, _)| before);
        }
        let lefts: Vec<u32> = self.free(left, |matching| &matching.left);
        let rights: Vec<u32> = self.free(right, |matching| &matching.right);
        for (own, theirs) in lefts.into_iter().zip(rights) {
            self.pair(own, theirs);
        }
    }

    /// Pairs tokens whose neighbours before and after are the same, as far as `is_enough` asks for.
    fn pair_beside(
        &mut self,
        left: &[u32],
        right: &[u32],
        readings: (&Reading, &Reading),
        is_enough: impl Fn((bool, bool)) -> bool,
    ) {
        let key = |reading: &Reading, at: Option<usize>| {
            at.and_then(|at| reading.tokens.get(at)).map(|token| token.key)
        };
        let beside = |own: u32, theirs: u32| {
            let (own, theirs) = (own as usize, theirs as usize);
            let before =
                key(readings.0, own.checked_sub(1)) == key(readings.1, theirs.checked_sub(1));
            let after = key(readings.0, Some(own + 1)) == key(readings.1, Some(theirs + 1));
            (before, after)
        };
        for own in self.free(left, |matching| &matching.left) {
            let free = self.free(right, |matching| &matching.right);
            if let Some(theirs) = free.into_iter().find(|theirs| is_enough(beside(own, *theirs))) {
                self.pair(own, theirs);
            }
        }
    }

    /// Returns the tokens that have no partner yet.
    fn free(&self, tokens: &[u32], partners: impl Fn(&Self) -> &[u32]) -> Vec<u32> {
        let partners = partners(self);
        tokens.iter().copied().filter(|at| partners[*at as usize] == NONE).collect()
    }

    fn pair(&mut self, own: u32, theirs: u32) {
        self.left[own as usize] = theirs;
        self.right[theirs as usize] = own;
    }

    fn by_meaning(&mut self, left: &Reading, right: &Reading, lexicon: &Lexicon) {
        let own = unmatched(&self.left, left);
        if own.is_empty() {
            return;
        }
        let mut known: BTreeMap<u32, Vec<usize>> = BTreeMap::new();
        for at in unmatched(&self.right, right).into_iter().rev() {
            for meaning in meanings(&right.tokens[at], lexicon) {
                known.entry(*meaning).or_default().push(at);
            }
        }
        for at in own {
            for meaning in meanings(&left.tokens[at], lexicon) {
                let Some(waiting) = known.get_mut(meaning) else { continue };
                while waiting.last().is_some_and(|partner| self.right[*partner] != NONE) {
                    waiting.pop();
                }
                if let Some(partner) = waiting.pop() {
                    self.left[at] = partner as u32;
                    self.right[partner] = at as u32;
                    break;
                }
            }
        }
    }
}

/// Unmatched tokens beyond these are not looked at for kinds.
const KINDS_MAX: usize = 32;

impl Matching {
    /// Pairs what one text denies of a whole kind with one of the kind in the other: `no person` denies
    /// `a woman`. One of such a pair is negated, so it never makes texts alike.
    fn by_kind(&mut self, left: &Reading, right: &Reading, lexicon: &Lexicon) {
        let negates = |reading: &Reading| reading.tokens.iter().any(Token::is_negated);
        if !negates(left) && !negates(right) {
            return;
        }
        let denies = |general: &Token, special: &Token| {
            general.is_negated()
                && !special.is_negated()
                && lexicon
                    .entry_of(general)
                    .zip(lexicon.entry_of(special))
                    .is_some_and(|(general, special)| general.includes(special))
        };
        let theirs = unmatched(&self.right, right);
        for at in unmatched(&self.left, left).into_iter().take(KINDS_MAX) {
            let own = &left.tokens[at];
            let partner = theirs.iter().take(KINDS_MAX).copied().find(|partner| {
                let other = &right.tokens[*partner];
                self.right[*partner] == NONE && (denies(own, other) || denies(other, own))
            });
            if let Some(partner) = partner {
                self.left[at] = partner as u32;
                self.right[partner] = at as u32;
            }
        }
    }
}

fn meanings<'a>(token: &Token, lexicon: &'a Lexicon) -> &'a [u32] {
    lexicon.entry_of(token).map_or(&[], |entry| entry.meanings)
}

/// Splits off the tokens that share the first one's key.
fn group<'a>(order: &'a [u32], reading: &Reading) -> (&'a [u32], &'a [u32]) {
    let key = reading.tokens[order[0] as usize].key;
    let length =
        order.iter().position(|at| reading.tokens[*at as usize].key != key).unwrap_or(order.len());
    order.split_at(length)
}

fn unmatched(partners: &[u32], reading: &Reading) -> Vec<usize> {
    (0..partners.len()).filter(|at| partners[*at] == NONE && reading.tokens[*at].counts()).collect()
}

/// Tells whether a token carries content of its own, not only a possible conflict.
pub(super) fn weighs(token: &Token) -> bool {
    token.is_content() && !token.flags.has(Flags::LIGHT)
}
