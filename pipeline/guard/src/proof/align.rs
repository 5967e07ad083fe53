//! Finds the steps of a proof.

use std::ops::Range;

use super::forms::{full, full_verb, inflected, joined, participle, progressive, same_form};
use super::lex::{Kind, Tok};
use super::value;
use super::{Side, Step, StepKind};
use crate::lexicon::{Lexicon, Marks, PHRASE_WORDS_MAX, PROOF, Roles};

/// Tokens that differ, at most, between the equal beginning and the equal end; beyond there is no proof.
const MIDDLE_MAX: usize = 96;
/// Equal tokens that are looked at again beside what differs: `300` belongs to `300 s`.
const MARGIN: usize = 8;
/// Tokens of one item of a list, items of a list.
const LIST_ITEMS_MAX: usize = 6;

/// The tokens of both texts, and whether grammar may be applied to them.
struct Pair<'a> {
    a: &'a [Tok<'a>],
    b: &'a [Tok<'a>],
    lexicon: &'a Lexicon,
    recognised: bool,
    /// A list may change its order only where no word speaks of order.
    moves: bool,
    /// Which side may say more, if it may.
    longer: Option<Side>,
}

/// How a cell of the table was reached.
#[derive(Clone, Copy)]
struct Reached {
    cost: u32,
    from: (u16, u16),
    kind: StepKind,
}

/// Aligns two texts; tells which side says more, if one does.
pub(super) fn align(
    a: &[Tok<'_>],
    b: &[Tok<'_>],
    lexicon: &Lexicon,
) -> Option<(Option<Side>, Vec<Step>)> {
    in_order(a, b, lexicon).or_else(|| {
        let front = fronted(a, b, lexicon);
        let (swapped, (phrase, start, end)) = match front {
            Some(found) => (false, found),
            None => (true, fronted(b, a, lexicon)?),
        };
        let (front, back) = if swapped { (b, a) } else { (a, b) };
        let (rest, head) = (&front[start..front.len() - dots(front)], &back[..end]);
        let (one, other) = if swapped { (head, rest) } else { (rest, head) };
        let (None, mut steps) = in_order(one, other, lexicon)? else { return None };
        let (moved, place) = (bytes(front, 0..start), bytes(back, end..end + phrase));
        let (a, b) = if swapped { (place, moved) } else { (moved, place) };
        steps.push(Step { kind: StepKind::Move, left: a, right: b });
        Some((None, steps))
    })
}

/// A phrase of time or place that stands in front of the first text and at the end of the second: its length, where the
/// rest of the first text starts, and where the phrase starts in the second.
fn fronted(
    front: &[Tok<'_>],
    back: &[Tok<'_>],
    lexicon: &Lexicon,
) -> Option<(usize, usize, usize)> {
    const PHRASE_MAX: usize = 8;
    let first = front.first()?;
    let one =
        |tokens: &[Tok<'_>]| !tokens[..tokens.len() - dots(tokens)].iter().any(Tok::ends_sentence);
    let holds = matches!(&*first.lower, "in" | "on" | "at" | "since" | "during")
        && is_english(front)
        && is_english(back)
        && is_plain(front, lexicon)
        && is_plain(back, lexicon)
        && one(front)
        && one(back);
    let end = back.len() - dots(back);
    (2..=PHRASE_MAX).rev().filter(|_| holds).find_map(|phrase| {
        let start = end.checked_sub(phrase).filter(|start| *start > 1)?;
        let comma = usize::from(front.get(phrase)?.is(","));
        let same =
            front[..phrase].iter().zip(&back[start..end]).all(|(a, b)| equal(a, b).is_some());
        let apart = !back[start - 1].is(",") && front[..phrase].iter().all(|token| !token.is(","));
        (same && apart && front.len() > phrase + comma + dots(front)).then_some((
            phrase,
            phrase + comma,
            start,
        ))
    })
}

/// Returns how many full stops end a text.
fn dots(tokens: &[Tok<'_>]) -> usize {
    tokens.iter().rev().take_while(|token| token.is(".")).count()
}

fn in_order(a: &[Tok<'_>], b: &[Tok<'_>], lexicon: &Lexicon) -> Option<(Option<Side>, Vec<Step>)> {
    let recognised = is_english(a) && is_english(b);
    let ordered = |tokens: &[Tok<'_>]| tokens.iter().any(|token| token.marks.has(Marks::ORDERED));
    let moves = recognised && !ordered(a) && !ordered(b);
    let mut pair = Pair { a, b, lexicon, recognised, moves, longer: None };
    let (start, end_a, end_b) = middle(a, b);
    if end_a - start > MIDDLE_MAX || end_b - start > MIDDLE_MAX {
        return None;
    }
    if let Some(proof) = pair.steps(start, end_a, end_b) {
        return Some((None, proof));
    }
    if !recognised || !is_plain(a, lexicon) || !is_plain(b, lexicon) {
        return None;
    }
    pair.longer = Some(Side::Right);
    let more_b = pair.steps(start, end_a, end_b);
    pair.longer = Some(Side::Left);
    match (pair.steps(start, end_a, end_b), more_b) {
        (None, Some(proof)) => Some((Some(Side::Right), proof)),
        (Some(proof), None) => Some((Some(Side::Left), proof)),
        _ => None,
    }
}

/// Returns where what differs starts in both, and where it ends in each, with a margin.
fn middle(a: &[Tok<'_>], b: &[Tok<'_>]) -> (usize, usize, usize) {
    let same = |(a, b): &(&Tok<'_>, &Tok<'_>)| equal(a, b).is_some();
    let prefix = a.iter().zip(b).take_while(same).count();
    let (rest_a, rest_b) = (&a[prefix..], &b[prefix..]);
    let suffix = rest_a.iter().rev().zip(rest_b.iter().rev()).take_while(same).count();
    if suffix == rest_a.len() && suffix == rest_b.len() {
        return (prefix, prefix, prefix);
    }
    let suffix = suffix.saturating_sub(MARGIN);
    (prefix.saturating_sub(MARGIN), a.len() - suffix, b.len() - suffix)
}

/// Returns whether two tokens are the same, exactly or but for the way of writing.
pub(super) fn equal(a: &Tok<'_>, b: &Tok<'_>) -> Option<StepKind> {
    if a.kind != b.kind || a.exact != b.exact && a.text != b.text {
        return None;
    }
    if a.kind == Kind::Symbol
        && a.glued != b.glued
        && !matches!(&*a.text, "-" | "." | "," | "!" | "?" | ";" | ":" | "%")
    {
        return None;
    }
    if (a.exact || b.exact) && a.glued != b.glued && a.kind != Kind::Word {
        return None;
    }
    if a.text == b.text {
        return Some(StepKind::Equal);
    }
    let upper = |token: &Tok<'_>| token.text.starts_with(char::is_uppercase);
    let begins = |token: &Tok<'_>| token.initial || token.titled || !upper(token);
    let folds = a.kind == Kind::Word && !a.exact && a.lower == b.lower;
    (folds && begins(a) && begins(b) && !a.marks.has(Marks::CAPITAL)).then_some(StepKind::Equal)
}

/// Tells whether a text is English: it has small words of it in number, or most of its plain words are in the lexicon and
/// none is a small word of another language; and its letters are ASCII.
fn is_english(tokens: &[Tok<'_>]) -> bool {
    let words = tokens.iter().filter(|token| token.kind == Kind::Word);
    let (mut all, mut core, mut ascii, mut plain, mut known) =
        (0_usize, 0_usize, 0_usize, 0_usize, 0_usize);
    let mut foreign = false;
    for word in words {
        all += 1;
        ascii += usize::from(word.text.is_ascii());
        core += usize::from(word.marks.has(Marks::CORE));
        foreign |= word.marks.has(Marks::FOREIGN);
        if !word.text.starts_with(char::is_uppercase) && !word.exact {
            plain += 1;
            known += usize::from(word.entry != 0 || word.marks != Marks::default());
        }
    }
    let usual = core > 0 && core * 8 >= all && !(foreign && core < 2);
    let listed = plain > 0 && known * 2 >= plain && !foreign;
    (usual || listed) && ascii * 10 >= all * 9
}

/// Tells whether a text denies, hedges, conditions and quantifies nothing: only then may the other say more.
fn is_plain(tokens: &[Tok<'_>], lexicon: &Lexicon) -> bool {
    let weighs = |token: &Tok<'_>| token.marks.has(Marks::HAZARD) || token.is("?");
    tokens.iter().all(|token| !weighs(token) && !denies(token, lexicon))
}

pub(super) fn denies(token: &Tok<'_>, lexicon: &Lexicon) -> bool {
    let roles = Roles::NEGATOR.with(Roles::NEGATIVE_VERB).with(Roles::DENIAL).with(Roles::NARROW);
    token.lower.ends_with("n't")
        || token.kind == Kind::Word && lexicon.roles(token.entry).has(roles)
}

impl Pair<'_> {
    /// Finds the cheapest steps, or none; the tokens outside the middle are equal.
    fn steps(&self, start: usize, end_a: usize, end_b: usize) -> Option<Vec<Step>> {
        let (height, width) = (end_a - start + 1, end_b - start + 1);
        // Rows of the table up to the last one that was reached: where nothing fits, that is after a few.
        let mut table: Vec<Option<Reached>> = vec![None; width];
        table[0] = Some(Reached { cost: 0, from: (0, 0), kind: StepKind::Equal });
        for i in 0..height {
            for j in 0..width {
                let Some(here) = *table.get(i * width + j)? else { continue };
                self.from(start + i, start + j, &mut |kind, cost, da, db| {
                    let (to_i, to_j) = (i + da, j + db);
                    if to_i >= height || to_j >= width {
                        return;
                    }
                    if table.len() <= to_i * width {
                        table.resize((to_i + 1) * width, None);
                    }
                    let cell = &mut table[to_i * width + to_j];
                    let cost = here.cost + cost;
                    if cell.is_none_or(|known| cost < known.cost) {
                        *cell = Some(Reached { cost, from: (i as u16, j as u16), kind });
                    }
                });
            }
        }
        (*table.get(height * width - 1)?)?;
        let mut spans = Vec::new();
        let (mut i, mut j) = (height - 1, width - 1);
        while (i, j) != (0, 0) {
            let reached = table[i * width + j]?;
            let from = (usize::from(reached.from.0), usize::from(reached.from.1));
            spans.push((reached.kind, start + from.0..start + i, start + from.1..start + j));
            (i, j) = from;
        }
        spans.reverse();
        let mut steps: Vec<Step> = Vec::new();
        let mut push = |kind, a: Range<usize>, b: Range<usize>| {
            let (a, b) = (bytes(self.a, a), bytes(self.b, b));
            match steps.last_mut() {
                Some(last) if last.kind == StepKind::Equal && kind == StepKind::Equal => {
                    (last.left.end, last.right.end) = (a.end, b.end);
                }
                _ => steps.push(Step { kind, left: a, right: b }),
            }
        };
        if start > 0 {
            push(StepKind::Equal, 0..start, 0..start);
        }
        spans.into_iter().for_each(|(kind, a, b)| push(kind, a, b));
        if end_a < self.a.len() {
            push(StepKind::Equal, end_a..self.a.len(), end_b..self.b.len());
        }
        Some(steps)
    }

    /// Offers every step from a place on: its kind, its cost, and how many tokens it takes of each text.
    fn from(&self, i: usize, j: usize, offer: &mut dyn FnMut(StepKind, u32, usize, usize)) {
        let (a, b) = (&self.a[i..], &self.b[j..]);
        if let (Some(first_a), Some(first_b)) = (a.first(), b.first()) {
            if let Some(kind) = equal(first_a, first_b) {
                offer(kind, 0, 1, 1);
            }
            self.spelling(i, j, offer);
            if !first_a.exact
                && !first_b.exact
                && let (Some((left, da)), Some((right, db))) = (value::read(a), value::read(b))
                && left == right
            {
                offer(StepKind::Quantity, 1, da, db);
            }
            if self.recognised {
                self.grammar(i, j, offer);
            }
        }
        if let Some((kind, count)) = self.filler(self.a, i) {
            offer(kind, 3, count, 0);
        }
        if let Some((kind, count)) = self.filler(self.b, j) {
            offer(kind, 3, 0, count);
        }
        match self.longer {
            Some(Side::Left) if at_boundary(self.b, j) => {
                if let Some(count) = self.extension(self.a, i) {
                    offer(StepKind::Extension, 20, count, 0);
                }
            }
            Some(Side::Right) if at_boundary(self.a, i) => {
                if let Some(count) = self.extension(self.b, j) {
                    offer(StepKind::Extension, 20, 0, count);
                }
            }
            _ => {}
        }
    }

    /// British and American words, contractions, hyphens, abbreviated units behind `per`.
    fn spelling(&self, i: usize, j: usize, offer: &mut dyn FnMut(StepKind, u32, usize, usize)) {
        let (a, b) = (&self.a[i..], &self.b[j..]);
        let whole =
            |tokens: &[Tok<'_>]| PROOF.full_form(&tokens[0].lower).filter(|_| !tokens[0].exact);
        if whole(a).is_some() && whole(a) == whole(b) {
            offer(StepKind::Spelling, 1, 1, 1);
        }
        for (da, db) in [(full(a, b), 1), (1, full(b, a))] {
            if da > 0 && db > 0 {
                offer(StepKind::Spelling, 1, da, db);
            }
        }
        if self.recognised {
            for (da, db) in [(joined(a, b), 1), (1, joined(b, a))] {
                if da > 0 && db > 0 {
                    offer(StepKind::Spelling, 1, da, db);
                }
            }
        }
        let per = |tokens: &[Tok<'_>], at: usize| {
            at > 0 && (tokens[at - 1].lower == "per" || tokens[at - 1].is("/"))
        };
        if per(self.a, i) && per(self.b, j) && value::same_unit(&a[0].text, &b[0].text) {
            offer(StepKind::Quantity, 1, 1, 1);
        }
        let rate = |left: &[Tok<'_>], right: &[Tok<'_>]| {
            let unit = |tokens: &[Tok<'_>]| {
                tokens.get(1).is_some_and(|next| value::same_unit(&next.text, &next.text))
            };
            left[0].is("/") && right[0].lower == "per" && unit(left) && unit(right)
        };
        if rate(a, b) || rate(b, a) {
            offer(StepKind::Quantity, 1, 1, 1);
        }
    }

    /// Forms of one word, words of one meaning, lists in another order.
    fn grammar(&self, i: usize, j: usize, offer: &mut dyn FnMut(StepKind, u32, usize, usize)) {
        let (a, b) = (&self.a[i..], &self.b[j..]);
        if !a[0].is_ordinary() && !b[0].is_ordinary() {
            return self.lists(i, j, offer);
        }
        if inflected(self.a, i, self.b, j) || inflected(self.b, j, self.a, i) {
            offer(StepKind::Inflection, 2, 1, 1);
        }
        if progressive(a, b) {
            offer(StepKind::Inflection, 2, 2, 1);
        }
        if progressive(b, a) {
            offer(StepKind::Inflection, 2, 1, 2);
        }
        if participle(self.a, i, self.b, j) || participle(self.b, j, self.a, i) {
            offer(StepKind::Inflection, 3, 1, 1);
        }
        let subject = |tokens: &[Tok<'_>]| {
            let at = usize::from(tokens[0].lower == "the");
            let named = tokens.get(at).is_some_and(|token| token.lower == "user");
            match () {
                () if !tokens[0].initial => 0,
                () if named => at + 1,
                () => usize::from(tokens[0].text == "I"),
            }
        };
        let (da, db) = (subject(a), subject(b));
        let verb = |tokens: &[Tok<'_>], at: usize| {
            tokens
                .get(at)
                .is_some_and(|verb| verb.marks.has(Marks::SUBJECT_VERB) || full_verb(&verb.lower))
        };
        if da > 0 && db > 0 && verb(a, da) && verb(b, db) {
            offer(StepKind::Filler, 2, da, db);
        }
        self.synonyms(i, j, offer);
        self.lists(i, j, offer);
    }

    fn synonyms(&self, i: usize, j: usize, offer: &mut dyn FnMut(StepKind, u32, usize, usize)) {
        for (left, da) in self.entries(&self.a[i..]) {
            for (right, db) in self.entries(&self.b[j..]) {
                let (Some(own), Some(other)) =
                    (self.lexicon.entry(left), self.lexicon.entry(right))
                else {
                    continue;
                };
                let shared = own.meanings.iter().any(|meaning| other.meanings.contains(meaning));
                if left != right
                    && shared
                    && own.conflict(other).is_none()
                    && same_form(&self.a[i..i + da], &self.b[j..j + db])
                {
                    offer(StepKind::Synonym, 2, da, db);
                }
            }
        }
    }

    /// Returns the entries of the word and the phrase that start here, with their lengths.
    fn entries(&self, tokens: &[Tok<'_>]) -> impl Iterator<Item = (u32, usize)> {
        let usable = |token: &Tok<'_>| token.is_ordinary() && !token.marks.has(Marks::AMBIGUOUS);
        let word = tokens.first().filter(|token| usable(token)).map_or(0, |token| token.entry);
        let mut stems = [0; PHRASE_WORDS_MAX];
        let mut count = 0;
        if tokens.first().is_some_and(|first| self.lexicon.starts_phrase(first.stem)) {
            for token in
                tokens.iter().take(PHRASE_WORDS_MAX).take_while(|token| token.is_ordinary())
            {
                stems[count] = token.stem;
                count += 1;
            }
        }
        let phrase = self.lexicon.phrase(&stems[..count]).filter(|found| found.word_count > 1);
        let phrase = phrase.map(|found| (found.entry, found.word_count));
        (word != 0).then_some((word, 1)).into_iter().chain(phrase)
    }

    /// `tea and coffee`, `coffee and tea`.
    fn lists(&self, i: usize, j: usize, offer: &mut dyn FnMut(StepKind, u32, usize, usize)) {
        if !self.moves {
            return;
        }
        let (Some(left), Some(right)) = (list(self.a, i), list(self.b, j)) else { return };
        let joined = |tokens: &[Tok<'_>]| tokens.iter().any(|token| token.lower == "and");
        let (own, other) = (&self.a[i..i + left], &self.b[j..j + right]);
        let items = |tokens: &[Tok<'_>]| {
            let mut items: Vec<String> =
                tokens.iter().step_by(2).map(|token| token.text.to_string()).collect();
            items.sort_unstable();
            items
        };
        if left == right && joined(own) == joined(other) && items(own) == items(other) {
            offer(StepKind::Move, 4, left, right);
        }
    }

    /// Tells whether a hyphen stands between two words that could stand apart.
    fn joins_words(&self, tokens: &[Tok<'_>], at: usize) -> bool {
        const PARTS: [&str; 12] =
            ["non", "free", "less", "anti", "pre", "post", "self", "re", "un", "co", "de", "ex"];
        let part = |part: &Tok<'_>| {
            part.is_ordinary()
                && part.text.len() > 1
                && part.text.is_ascii()
                && !denies(part, self.lexicon)
                && !PARTS.contains(&&*part.lower)
        };
        let next = tokens.get(at + 1).filter(|next| next.glued);
        at > 0 && part(&tokens[at - 1]) && next.is_some_and(part)
    }

    /// Returns what says nothing here, and how many tokens it is.
    fn filler(&self, tokens: &[Tok<'_>], at: usize) -> Option<(StepKind, usize)> {
        let token = tokens.get(at)?;
        let next = tokens.get(at + 1);
        let ends = tokens[at..].iter().all(|token| token.is(".") || token.is("!"));
        if ends {
            return Some((StepKind::Spelling, 1));
        }
        let joins = |token: &Tok<'_>| matches!(&*token.lower, "and" | "or");
        let serial = at > 2 && (tokens[at - 2].is(",") || at > 3 && tokens[at - 3].is(","));
        if self.recognised && token.is(",") && serial && next.is_some_and(joins) {
            return Some((StepKind::Spelling, 1));
        }
        if token.is("-") && token.glued && self.joins_words(tokens, at) {
            return Some((StepKind::Spelling, 1));
        }
        let colon = next.is_some_and(|next| next.is(":"));
        if self.recognised && at == 0 && token.marks.has(Marks::LABEL) && colon {
            return Some((StepKind::Filler, 2));
        }
        if !self.recognised || token.exact || token.kind != Kind::Word {
            return None;
        }
        let ordinary = next.is_some_and(|next| next.is_ordinary() && !next.glued && !next.initial);
        let copula = |token: &Tok<'_>| {
            matches!(
                &*token.lower,
                "is" | "are" | "was" | "were" | "am" | "be" | "been" | "as" | "it's"
            )
        };
        let article = token.marks.has(Marks::ARTICLE)
            && token.is_ordinary()
            && !token.glued
            && !at.checked_sub(1).is_some_and(|before| copula(&tokens[before]));
        if ordinary && article && !next.is_some_and(|next| next.marks.has(Marks::WEIGHED)) {
            return Some((StepKind::Filler, 1));
        }
        if token.initial && token.lower == "please" && ordinary {
            return Some((StepKind::Filler, 1));
        }
        let progressive = matches!(&*token.lower, "is" | "are")
            && at > 0
            && tokens[at - 1].kind == Kind::Word
            && !denies(&tokens[at - 1], self.lexicon)
            && next.is_some_and(|next| {
                next.is_ordinary() && next.lower.len() > 5 && next.lower.ends_with("ing")
            });
        if progressive && tokens[..at - 1].iter().all(|token| token.kind == Kind::Word) && at <= 6 {
            return Some((StepKind::Filler, 1));
        }
        let reported = at > 0 && tokens[at - 1].marks.has(Marks::REPORT);
        let clause = next.is_some_and(|next| {
            next.marks.has(Marks::ARTICLE)
                || matches!(&*next.lower, "we" | "they" | "he" | "she" | "i")
        });
        (token.lower == "that" && reported && clause).then_some((StepKind::Filler, 1))
    }

    /// Returns the length of the phrase that starts at a clause boundary and only says more: a further sentence, or a
    /// reason.
    fn extension(&self, tokens: &[Tok<'_>], at: usize) -> Option<usize> {
        let before = &tokens[at.checked_sub(1)?];
        let rest = &tokens[at..];
        let first = rest.first()?;
        let stop = usize::from(first.is(".") && !before.is("."));
        let begins = |token: &Tok<'_>| token.initial && !token.glued;
        let sentence = (stop == 1 || before.is(".")) && rest.get(stop).is_some_and(begins);
        let reason = first.marks.has(Marks::REASON) && before.kind != Kind::Symbol;
        let plain = |token: &Tok<'_>| {
            !token.exact && (token.kind != Kind::Symbol || matches!(&*token.text, "." | ","))
        };
        let whole = (4..=48).contains(&rest.len()) && rest.iter().all(plain);
        ((reason || sentence) && whole).then_some(rest.len())
    }
}

/// Returns the length of the list of single words that starts here and stands between boundaries.
fn list(tokens: &[Tok<'_>], at: usize) -> Option<usize> {
    let subject = tokens[at].initial;
    let headed = at.checked_sub(1).is_some_and(|before| tokens[before].marks.has(Marks::LIST_HEAD));
    if !headed && !subject {
        return None;
    }
    let verb = |token: &Tok<'_>| {
        matches!(&*token.lower, "are" | "were" | "have" | "will" | "can")
            || full_verb(&token.lower)
            || token.past && token.is_ordinary()
    };
    let item = |at: usize| {
        tokens
            .get(at)
            .is_some_and(|token| token.kind == Kind::Word && !token.marks.has(Marks::HAZARD))
    };
    let mut end = at;
    for _ in 0..LIST_ITEMS_MAX {
        if !item(end) {
            return None;
        }
        let separator = tokens.get(end + 1)?;
        let last = matches!(&*separator.lower, "and" | "or");
        if !last && !separator.is(",") {
            return None;
        }
        end += 2;
        if last {
            let next = tokens.get(end + 1);
            let ends =
                if headed { next.is_none_or(Tok::ends_sentence) } else { next.is_some_and(verb) };
            return (item(end) && ends).then_some(end + 1 - at);
        }
    }
    None
}

/// Tells whether a clause may end here: at the end of a text or of a sentence.
fn at_boundary(tokens: &[Tok<'_>], at: usize) -> bool {
    tokens[at..].iter().all(|token| token.is("."))
}

fn bytes(tokens: &[Tok<'_>], range: Range<usize>) -> Range<usize> {
    let start = tokens
        .get(range.start)
        .map_or_else(|| tokens.last().map_or(0, |last| last.end), |token| token.start);
    match range.end.checked_sub(1).filter(|_| !range.is_empty()) {
        Some(last) => start..tokens[last].end,
        None => start..start,
    }
}
