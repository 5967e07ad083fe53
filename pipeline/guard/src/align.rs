//! The alignment: in order, with every token of both texts in exactly one step.
//!
//! Steps that keep the meaning cost little, additions and substitutions much, so that the cheapest
//! alignment is a proof of sameness wherever there is one. [`crate::verdict`] weighs the steps.

use std::ops::Range;

use crate::lexer::{Flags, Kind, Token};
use crate::lexicon::{Lexicon, Marks, Roles};
use crate::quantity::{Compared, RATE};
use crate::reading::{Reading, Span};

/// Cells of the table between the equal beginning and the equal end; beyond, texts are not aligned.
const CELLS_MAX: usize = 60_000;
/// Equal tokens on both sides of a difference that are aligned again: `300` belongs to `300 s`.
const MARGIN: usize = 4;
/// Words and signs that join a second clause, or deny it.
const JOINING: [&str; 16] = [
    "to", "that", "and", "or", "but", "who", "which", "as", ":", ";", ".", "?", "(", "-", "not",
    "from",
];
/// Tokens of a phrase of time or place that may stand in front or at the end.
const FRONTED_MAX: usize = 8;

/// What a step does with the tokens it covers.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum StepKind {
    /// The same tokens.
    Equal,
    /// Two ways to write one word, or marks that say nothing.
    Notation,
    /// Two ways to state one value.
    Quantity,
    /// Two forms of one word.
    Inflection,
    /// A word and its listed short form, or words that the user's lexicon makes equal.
    Abbreviation,
    /// A word that says nothing, on one side.
    Filler,
    /// A list or a phrase that stands in another order.
    Move,
    /// Something that one side only says.
    Addition,
    /// Two things in one place that cannot both hold.
    Conflict,
    /// Any other pair in one place.
    Substitution,
}

impl StepKind {
    /// Tells whether both sides say the same here.
    pub(crate) const fn keeps(self) -> bool {
        !matches!(self, Self::Addition | Self::Conflict | Self::Substitution)
    }
}

/// A step over ranges of tokens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Aligned {
    pub(crate) kind: StepKind,
    pub(crate) a: Range<usize>,
    pub(crate) b: Range<usize>,
}

mod cost {
    pub(super) const NOTATION: u32 = 1;
    pub(super) const QUANTITY: u32 = 1;
    pub(super) const INFLECTION: u32 = 2;
    pub(super) const ABBREVIATION: u32 = 2;
    pub(super) const FILLER: u32 = 3;
    pub(super) const MOVE: u32 = 4;
    pub(super) const CONFLICT: u32 = 42;
    pub(super) const SAME_STEM: u32 = 38;
    pub(super) const SAME_KIND: u32 = 46;
    pub(super) const NAMES: u32 = 50;
    pub(super) const WORDS: u32 = 60;
    pub(super) const OTHER_KIND: u32 = 66;
    pub(super) const SYMBOLS: u32 = 16;
    pub(super) const SCRIPTS: u32 = 42;
    pub(super) const ADD_WORD: u32 = 34;
    pub(super) const ADD_FUNCTION: u32 = 24;
    pub(super) const ADD_SCRIPT: u32 = 22;
    pub(super) const ADD_SYMBOL: u32 = 9;
}

/// How a cell of the table was reached.
#[derive(Clone, Copy)]
struct Cell {
    cost: u32,
    back_a: u16,
    back_b: u16,
    kind: StepKind,
}

const UNREACHED: Cell = Cell { cost: NEVER, back_a: 0, back_b: 0, kind: StepKind::Equal };

impl Cell {
    /// Takes a step over some tokens of each text, from a cell of a cost, where it is cheaper.
    #[inline]
    const fn offer(&mut self, from: u32, kind: StepKind, cost: u32, of_a: usize, of_b: usize) {
        if from + cost < self.cost {
            let (back_a, back_b) = (of_a as u16, of_b as u16);
            *self = Self { cost: from + cost, back_a, back_b, kind };
        }
    }
}

/// Completes a row of the table from the row above and the exchanges of its token for each one of the other text.
fn settle(
    row: &mut [Cell],
    above: Option<(&Place, &[Cell])>,
    exchanges: &[(StepKind, u32)],
    places: &[Place],
) {
    if let Some((left, above)) = above {
        for ((cell, from), &(kind, cost)) in row[1..].iter_mut().zip(above).zip(exchanges) {
            cell.offer(from.cost, kind, cost, 1, 1);
        }
        if left.width == 1 {
            for (cell, from) in row.iter_mut().zip(above) {
                cell.offer(from.cost, left.alone.0, left.alone.1, 1, 0);
            }
        }
    }
    for j in 1..row.len() {
        for width in [2, 1] {
            if let Some(from) = j.checked_sub(width).filter(|from| places[*from].width == width) {
                let cost = row[from].cost;
                let (kind, step_cost) = places[from].alone;
                row[j].offer(cost, kind, step_cost, 0, width);
            }
        }
    }
}

/// A token of one text, with the costs that do not depend on the other text.
struct Place {
    at: usize,
    /// The step where the other text has nothing for it, and its cost.
    alone: (StepKind, u32),
    /// The tokens of that step.
    width: usize,
    class: Class,
    folded: u64,
    stem: u64,
    /// The relations of its word in the lexicon, see [`Lexicon::relations`].
    relations: u64,
    /// A quantity, a compound or a list starts here.
    starts: bool,
    /// A phrase starts here that has opposites, or others of the same meaning.
    phrase: bool,
}

impl Place {
    /// Tells whether two tokens have nothing in common, so that only their classes tell the cost of an exchange.
    const fn is_unlike(&self, other: &Self) -> bool {
        self.folded != other.folded
            && self.stem != other.stem
            && self.relations & other.relations == 0
            && !(matches!(self.class, Class::Symbol) && matches!(other.class, Class::Symbol))
    }
}

/// The classes of tokens that differ in the cost of an exchange.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Class {
    Function,
    Name,
    Word,
    Number,
    Code,
    Locator,
    Symbol,
    Script,
    Indent,
}

impl Class {
    fn of(token: &Token, lexicon: &Lexicon) -> Self {
        match token.kind {
            Kind::Word if lexicon.roles(token.entry).has(Roles::FUNCTION) => Self::Function,
            Kind::Word if token.is_name() => Self::Name,
            Kind::Word => Self::Word,
            Kind::Number => Self::Number,
            Kind::Code => Self::Code,
            Kind::Locator => Self::Locator,
            Kind::Symbol => Self::Symbol,
            Kind::Script => Self::Script,
            Kind::Indent => Self::Indent,
        }
    }
}

/// The cost of replacing a token by another, by their classes.
const EXCHANGES: [[u32; 9]; 9] = {
    const SAME: u32 = cost::SAME_KIND;
    const APART: u32 = cost::OTHER_KIND;
    const WORDS: u32 = cost::WORDS;
    [
        [SAME, APART, APART, APART, APART, APART, NEVER, NEVER, NEVER],
        [APART, cost::NAMES, WORDS, APART, APART, APART, NEVER, NEVER, NEVER],
        [APART, WORDS, WORDS, APART, APART, APART, NEVER, NEVER, NEVER],
        [APART, APART, APART, SAME, APART, APART, NEVER, NEVER, NEVER],
        [APART, APART, APART, APART, SAME, APART, NEVER, NEVER, NEVER],
        [APART, APART, APART, APART, APART, SAME, NEVER, NEVER, NEVER],
        [NEVER, NEVER, NEVER, NEVER, NEVER, NEVER, cost::SYMBOLS, NEVER, NEVER],
        [NEVER, NEVER, NEVER, NEVER, NEVER, NEVER, NEVER, cost::SCRIPTS, NEVER],
        [NEVER; 9],
    ]
};
/// More than any alignment costs.
const NEVER: u32 = u32::MAX / 4;

pub(crate) struct Aligner<'a> {
    a: &'a Reading,
    b: &'a Reading,
    lexicon: &'a Lexicon,
    /// Grammar may be applied.
    english: bool,
}

impl<'a> Aligner<'a> {
    pub(crate) fn new(a: &'a Reading, b: &'a Reading, lexicon: &'a Lexicon) -> Self {
        let listed = !(a.lexed.indented || b.lexed.indented);
        Self { a, b, lexicon, english: a.english && b.english && listed }
    }

    /// Returns the cheapest alignment; `None` where the texts differ over too long a stretch.
    pub(crate) fn align(&self) -> Option<Vec<Aligned>> {
        let (all_a, all_b) = (self.a.lexed.tokens.len(), self.b.lexed.tokens.len());
        let steps = self.between(0..all_a, 0..all_b)?;
        if steps.iter().all(|step| step.kind.keeps()) {
            return Some(steps);
        }
        Some(self.fronted().unwrap_or(steps))
    }

    /// Aligns two ranges of tokens.
    fn between(&self, a: Range<usize>, b: Range<usize>) -> Option<Vec<Aligned>> {
        let same = |(i, j): &(usize, usize)| self.equal(*i, *j).is_some();
        let prefix = a.clone().zip(b.clone()).take_while(same).count();
        let (rest_a, rest_b) = (a.start + prefix..a.end, b.start + prefix..b.end);
        let suffix = rest_a.rev().zip(rest_b.rev()).take_while(same).count();
        let mut steps = Vec::new();
        if a.len() == b.len() && prefix == a.len() {
            self.push_equal(&mut steps, a, b);
            return Some(steps);
        }
        let (head, tail) = (prefix.saturating_sub(MARGIN), suffix.saturating_sub(MARGIN));
        self.push_equal(&mut steps, a.start..a.start + head, b.start..b.start + head);
        self.table(a.start + head..a.end - tail, b.start + head..b.end - tail, &mut steps)?;
        self.push_equal(&mut steps, a.end - tail..a.end, b.end - tail..b.end);
        Some(steps)
    }

    /// Adds steps for tokens that are equal one by one.
    fn push_equal(&self, steps: &mut Vec<Aligned>, a: Range<usize>, b: Range<usize>) {
        for (i, j) in a.zip(b) {
            let kind = self.equal(i, j).unwrap_or(StepKind::Equal);
            push(steps, kind, i..i + 1, j..j + 1);
        }
    }

    fn table(&self, a: Range<usize>, b: Range<usize>, steps: &mut Vec<Aligned>) -> Option<()> {
        let (height, width) = (a.len() + 1, b.len() + 1);
        if height * width > CELLS_MAX {
            return None;
        }
        let places_a: Vec<Place> = a.clone().map(|at| self.place(self.a, at)).collect();
        let places_b: Vec<Place> = b.clone().map(|at| self.place(self.b, at)).collect();
        let mut table = vec![UNREACHED; height * width];
        table[0].cost = 0;
        let mut exchanges = vec![(StepKind::Substitution, NEVER); b.len()];
        // Among steps of equal cost the one that starts first, row by row, is taken.
        for i in 0..height {
            let (done, rest) = table.split_at_mut(i * width);
            let above = i.checked_sub(1).map(|i| (&places_a[i], &done[i * width..]));
            settle(&mut rest[..width], above, &exchanges, &places_b);
            let Some(left) = places_a.get(i) else { break };
            for (j, right) in places_b.iter().enumerate() {
                let mut best = self.exchange(left, right);
                if left.starts && right.starts || left.phrase || right.phrase {
                    let here = rest[j].cost;
                    self.spans(left.at, right.at, &mut |kind, cost, of_a, of_b| {
                        if (of_a, of_b) == (1, 1) {
                            best = if cost < best.1 { (kind, cost) } else { best };
                        } else if i + of_a < height && j + of_b < width {
                            rest[of_a * width + j + of_b].offer(here, kind, cost, of_a, of_b);
                        }
                    });
                }
                exchanges[j] = best;
            }
            if left.width > 1 && i + left.width < height {
                let (row, rest) = rest.split_at_mut(left.width * width);
                for (to, from) in rest.iter_mut().zip(&row[..width]) {
                    to.offer(from.cost, left.alone.0, left.alone.1, left.width, 0);
                }
            }
        }
        let mut reversed = Vec::new();
        let (mut i, mut j) = (height - 1, width - 1);
        while (i, j) != (0, 0) {
            let cell = table[i * width + j];
            let (from_a, from_b) = (i - usize::from(cell.back_a), j - usize::from(cell.back_b));
            reversed.push(Aligned {
                kind: cell.kind,
                a: a.start + from_a..a.start + i,
                b: b.start + from_b..b.start + j,
            });
            (i, j) = (from_a, from_b);
        }
        reversed.into_iter().rev().for_each(|step| push(steps, step.kind, step.a, step.b));
        Some(())
    }

    /// Returns the step that puts one token in the place of another, and its cost.
    #[inline]
    fn exchange(&self, left: &Place, right: &Place) -> (StepKind, u32) {
        let cost = EXCHANGES[left.class as usize][right.class as usize];
        match left.is_unlike(right) {
            true => (StepKind::Substitution, cost),
            false => self.related(left, right).unwrap_or((StepKind::Substitution, cost)),
        }
    }

    fn place(&self, reading: &Reading, at: usize) -> Place {
        let token = &reading.lexed.tokens[at];
        let (alone, width) = match self.filler(reading, at) {
            Some((kind, width)) => ((kind, cost::FILLER), width),
            None => ((StepKind::Addition, added(token, self.lexicon)), 1),
        };
        let span = if token.has(Flags::STARTS) { reading.span(at) } else { Span::default() };
        Place {
            at,
            alone,
            width,
            class: Class::of(token, self.lexicon),
            folded: token.folded,
            stem: token.stem,
            relations: self.lexicon.relations(token.entry),
            starts: span.quantity.is_some() || span.compound | span.list_width != 0,
            phrase: self.lexicon.relations(span.phrase) != 0,
        }
    }

    /// Tells whether two tokens say the same, and how.
    fn equal(&self, i: usize, j: usize) -> Option<StepKind> {
        let (left, right) = (&self.a.lexed.tokens[i], &self.b.lexed.tokens[j]);
        if left.folded != right.folded {
            return match (left.kind, right.kind) {
                (Kind::Symbol, Kind::Symbol) => {
                    let quote = |mark: &str| matches!(mark, "\"" | "`");
                    let bullet = |mark: &str| matches!(mark, "-" | "*" | "•");
                    if i == 0
                        && j == 0
                        && bullet(self.a.lexed.lower(i))
                        && bullet(self.b.lexed.lower(j))
                    {
                        return Some(StepKind::Notation);
                    }
                    (quote(self.a.lexed.lower(i)) && quote(self.b.lexed.lower(j)))
                        .then_some(StepKind::Notation)
                }
                _ => None,
            };
        }
        match left.kind {
            _ if left.kind != right.kind => None,
            Kind::Symbol => {
                let loose = matches!(
                    self.a.lexed.lower(i),
                    "-" | "."
                        | ","
                        | "!"
                        | "?"
                        | ";"
                        | ":"
                        | "%"
                        | "->"
                        | "\""
                        | "`"
                        | "("
                        | ")"
                        | "✅"
                        | "•"
                        | "…"
                        | "$"
                        | "€"
                );
                (loose || left.has(Flags::GLUED) == right.has(Flags::GLUED))
                    .then_some(StepKind::Equal)
            }
            Kind::Word => equal_words(left, right),
            Kind::Number => {
                let glue = left.has(Flags::GLUED) == right.has(Flags::GLUED);
                (glue || self.is_free(self.a, i) && self.is_free(self.b, j))
                    .then_some(StepKind::Equal)
            }
            _ => Some(StepKind::Equal),
        }
    }

    /// Tells whether nothing but a bracket, a quote or a sign of currency is glued in front of a number.
    fn is_free(&self, reading: &Reading, at: usize) -> bool {
        at == 0
            || !reading.lexed.tokens[at].has(Flags::GLUED)
            || matches!(
                reading.lexed.lower(at - 1),
                "(" | "[" | "\"" | "`" | "$" | "€" | "£" | "->" | "#" | ":"
            )
    }

    /// Returns the step between two tokens that have something in common, and its cost.
    fn related(&self, left: &Place, right: &Place) -> Option<(StepKind, u32)> {
        use StepKind::{Abbreviation, Conflict, Inflection, Substitution};
        let (i, j) = (left.at, right.at);
        if let Some(kind) = self.equal(i, j) {
            return Some((kind, u32::from(kind != StepKind::Equal)));
        }
        let (one, other) = (&self.a.lexed.tokens[i], &self.b.lexed.tokens[j]);
        if one.kind != Kind::Word || other.kind != Kind::Word {
            return None;
        }
        if one.stem == other.stem && one.is_ordinary() && other.is_ordinary() {
            return Some(match self.english && self.inflected(i, j) {
                true => (Inflection, cost::INFLECTION),
                false => (Substitution, cost::SAME_STEM),
            });
        }
        if left.relations & right.relations == 0 {
            return None;
        }
        if self.lexicon.user_says_same(one.entry, other.entry) {
            return Some((Abbreviation, cost::ABBREVIATION));
        }
        let conflict = self.lexicon.conflict(one.entry, other.entry);
        conflict.map(|_| (Conflict, cost::CONFLICT))
    }

    /// Quantities, phrases, compounds and lists.
    fn spans(&self, i: usize, j: usize, offer: &mut impl FnMut(StepKind, u32, usize, usize)) {
        let (left, right) = (self.a.span(i), self.b.span(j));
        if let (Some(one), Some(other)) = (left.quantity, right.quantity) {
            let (width_a, width_b) = (one.width as usize, other.width as usize);
            match one.compare(&other) {
                Compared::Equal
                    if one.measure == RATE
                        || !(self.is_inside(self.a, i) || self.is_inside(self.b, j)) =>
                {
                    offer(StepKind::Quantity, cost::QUANTITY, width_a, width_b)
                }
                Compared::Differ => offer(StepKind::Conflict, cost::CONFLICT, width_a, width_b),
                Compared::Equal | Compared::Open => {
                    offer(StepKind::Substitution, cost::CONFLICT, width_a, width_b)
                }
                Compared::Unrelated => {}
            }
        }
        if left.compound != 0 && left.compound == right.compound {
            offer(
                StepKind::Notation,
                cost::NOTATION,
                left.compound_width as usize,
                right.compound_width as usize,
            );
        }
        if left.phrase | right.phrase != 0 {
            self.phrases(i, j, offer);
        }
        if left.list_width != 0
            && left.list_width == right.list_width
            && self.english
            && self.same_items(i, j, left.list_width as usize)
        {
            offer(StepKind::Move, cost::MOVE, left.list_width as usize, left.list_width as usize);
        }
    }

    /// Tells whether letters or marks are glued in front of a quantity, so that it is part of something else.
    fn is_inside(&self, reading: &Reading, at: usize) -> bool {
        let quoted = reading.lexed.tokens[at].has(Flags::QUOTED);
        quoted || !self.is_free(reading, at)
    }

    fn phrases(&self, i: usize, j: usize, offer: &mut impl FnMut(StepKind, u32, usize, usize)) {
        let entries = |reading: &Reading, at: usize| {
            let (token, span) = (reading.lexed.tokens[at], reading.span(at));
            [(token.entry, 1), (span.phrase, span.phrase_width as usize)]
        };
        for (left, width_a) in entries(self.a, i) {
            for (right, width_b) in entries(self.b, j) {
                if left == 0 || right == 0 || left == right || width_a * width_b == 1 {
                    continue;
                }
                if self.lexicon.user_says_same(left, right) {
                    offer(StepKind::Abbreviation, cost::ABBREVIATION, width_a, width_b);
                } else if self.lexicon.conflict(left, right).is_some() {
                    offer(StepKind::Conflict, cost::CONFLICT + 1, width_a, width_b);
                }
            }
        }
    }

    fn same_items(&self, i: usize, j: usize, width: usize) -> bool {
        let items = |reading: &Reading, at: usize| {
            let mut items: Vec<u64> =
                (at..at + width).step_by(2).map(|at| reading.lexed.tokens[at].exact).collect();
            items.sort_unstable();
            items
        };
        let joins = |reading: &Reading, at: usize| reading.lexed.tokens[at + width - 2].folded;
        joins(self.a, i) == joins(self.b, j) && items(self.a, i) == items(self.b, j)
    }

    /// Third person and plain form of a listed verb; singular and plural behind a word that settles
    /// the number.
    fn inflected(&self, i: usize, j: usize) -> bool {
        let (left, right) = (&self.a.lexed.tokens[i], &self.b.lexed.tokens[j]);
        if left.has(Flags::PAST) != right.has(Flags::PAST) || left.folded == right.folded {
            return false;
        }
        let (one, other) = (self.a.lexed.lower(i), self.b.lexed.lower(j));
        if left.marks.has(Marks::INFLECTING) && right.marks.has(Marks::INFLECTING) {
            return true;
        }
        let (long, short) = if one.len() > other.len() { (one, other) } else { (other, one) };
        let plural = long.strip_prefix(short).is_some_and(|end| matches!(end, "s" | "es"))
            || short.strip_suffix('y').is_some_and(|base| long.strip_prefix(base) == Some("ies"));
        let fixed = |reading: &Reading, at: usize| {
            let before = at.checked_sub(1).map(|before| &reading.lexed.tokens[before]);
            before.is_some_and(|before| {
                before.marks.has(Marks::FIXING)
                    || before.kind == Kind::Number && !reading.lexed.is(at - 1, "1")
            })
        };
        plural && fixed(self.a, i) && fixed(self.b, j)
    }

    /// Returns the kind of filler at a place of one text, and its length in tokens.
    fn filler(&self, reading: &Reading, at: usize) -> Option<(StepKind, usize)> {
        let lexed = &reading.lexed;
        let token = &lexed.tokens[at];
        match token.kind {
            Kind::Symbol => self.filler_symbol(reading, at).then_some((StepKind::Notation, 1)),
            // The article of Chinese.
            Kind::Script if lexed.is(at, "一") && lexed.is(at + 1, "个") => {
                Some((StepKind::Filler, 2))
            }
            Kind::Word
                if self.english && at == 0 && token.marks.has(Marks::LABEL) && lexed.is(1, ":") =>
            {
                Some((StepKind::Filler, 2))
            }
            Kind::Word if self.english && !token.has(Flags::EXACT) => {
                let next = at + 1;
                let ordinary = next < lexed.tokens.len()
                    && lexed.tokens[next].is_ordinary()
                    && !lexed.tokens[next].has(Flags::GLUED.with(Flags::INITIAL));
                if !ordinary {
                    return None;
                }
                let filler = match lexed.lower(at) {
                    "please" => token.has(Flags::INITIAL),
                    "the" => {
                        token.has(Flags::INITIAL) && lexed.is(next, "user")
                            || is_request(reading, at)
                                && !lexed.lower(next).ends_with('s')
                                && is_thing(&lexed.tokens[next], self.lexicon)
                    }
                    "a" | "an" => at > 0 && lexed.is(at - 1, "as") && is_request(reading, at),
                    _ => false,
                };
                filler.then_some((StepKind::Filler, 1))
            }
            _ => None,
        }
    }

    fn filler_symbol(&self, reading: &Reading, at: usize) -> bool {
        let lexed = &reading.lexed;
        let tokens = &lexed.tokens;
        let ends = || (at..tokens.len()).all(|at| matches!(lexed.lower(at), "." | "!"));
        let code = |at: usize| {
            tokens.get(at).is_some_and(|token| matches!(token.kind, Kind::Code | Kind::Locator))
        };
        match lexed.lower(at) {
            "." if ends() => true,
            "!" => ends(),
            // The bullet of a list.
            "-" | "•" | "*" => {
                at == 0 && tokens.len() > 1 && !tokens[1].has(Flags::GLUED) && !lexed.indented
            }
            "." if at > 0
                && tokens[at - 1].has(Flags::RESPELLED)
                && tokens[at].has(Flags::GLUED) =>
            {
                true
            }
            "`" => true,
            // The quotes around an identifier.
            "\"" => {
                at > 0 && code(at - 1) && tokens[at].has(Flags::GLUED)
                    || code(at + 1) && tokens[at + 1].has(Flags::GLUED)
            }
            "#" => {
                at > 0
                    && tokens[at - 1].marks.has(Marks::NUMBERED)
                    && tokens
                        .get(at + 1)
                        .is_some_and(|next| next.kind == Kind::Number && next.has(Flags::GLUED))
            }
            // The comma in front of the last item of a list.
            "," => {
                self.english
                    && at > 2
                    && matches!(
                        lexed.tokens.get(at + 1).map(|_| lexed.lower(at + 1)),
                        Some("and" | "or")
                    )
                    && (lexed.is(at - 2, ",") || at > 3 && lexed.is(at - 3, ","))
            }
            _ => false,
        }
    }

    /// A phrase of time or place that stands in front of one text and at the end of the other, where a sentence has one
    /// verb and that is none of saying, deciding or promising.
    fn fronted(&self) -> Option<Vec<Aligned>> {
        if !self.english {
            return None;
        }
        let forth = self.fronted_in(self.a, self.b);
        let (swapped, (phrase, start, end)) = match forth {
            Some(found) => (false, found),
            None => (true, self.fronted_in(self.b, self.a)?),
        };
        let front = if swapped { self.b } else { self.a };
        let rest = start..front.lexed.tokens.len() - stops(front);
        let (a, b) = if swapped { (0..end, rest) } else { (rest, 0..end) };
        let mut steps = self.between_initial(a, b)?;
        let (moved, place) = (0..start, end..end + phrase);
        let (a, b) = if swapped { (place, moved) } else { (moved, place) };
        let index = if swapped { steps.len() } else { 0 };
        steps.insert(index, Aligned { kind: StepKind::Move, a, b });
        for (side, count) in [(self.a, stops(self.a)), (self.b, stops(self.b))] {
            let all = side.lexed.tokens.len();
            let range = all - count..all;
            if count > 0 {
                let of_a = std::ptr::eq(side, self.a);
                let (a, b) = if of_a {
                    (range, self.b.lexed.tokens.len()..self.b.lexed.tokens.len())
                } else {
                    (self.a.lexed.tokens.len()..self.a.lexed.tokens.len(), range)
                };
                steps.push(Aligned { kind: StepKind::Notation, a, b });
            }
        }
        Some(steps)
    }

    /// Aligns the rests of a fronted sentence; only where nothing else differs.
    fn between_initial(&self, a: Range<usize>, b: Range<usize>) -> Option<Vec<Aligned>> {
        if a.len() != b.len() {
            return None;
        }
        let same = a.clone().zip(b.clone()).all(|(i, j)| {
            let (left, right) = (&self.a.lexed.tokens[i], &self.b.lexed.tokens[j]);
            self.equal(i, j).is_some()
                || left.folded == right.folded
                    && left.kind == Kind::Word
                    && (left.has(Flags::INITIAL) || right.has(Flags::INITIAL))
                    && !left.has(Flags::EXACT)
                    && !right.has(Flags::EXACT)
                    && !left.marks.has(Marks::CAPITAL)
        });
        same.then(|| vec![Aligned { kind: StepKind::Equal, a, b }])
    }

    fn fronted_in(&self, front: &Reading, back: &Reading) -> Option<(usize, usize, usize)> {
        let first = matches!(
            front.lexed.tokens.first().map(|_| front.lexed.lower(0)),
            Some("in" | "on" | "at" | "since" | "during")
        );
        if !first || !self.has_one_verb(front) || !self.has_one_verb(back) {
            return None;
        }
        let end = back.lexed.tokens.len() - stops(back);
        (2..=FRONTED_MAX).rev().find_map(|phrase| {
            let start = end.checked_sub(phrase).filter(|start| *start > 1)?;
            let comma = usize::from(front.lexed.is(phrase, ","));
            let words =
                front.lexed.tokens.get(..phrase)?.iter().zip(&back.lexed.tokens[start..end]);
            let same = words.clone().all(|(a, b)| {
                a.folded == b.folded
                    && a.kind == b.kind
                    && (a.has(Flags::INITIAL) || a.exact == b.exact)
            });
            let apart =
                !back.lexed.is(start - 1, ",") && (0..phrase).all(|at| !front.lexed.is(at, ","));
            let long = front.lexed.tokens.len() > phrase + comma + stops(front);
            (same && apart && long).then_some((phrase, phrase + comma, start))
        })
    }

    /// Tells whether a text is one plain sentence with one verb, which reports and plans nothing.
    fn has_one_verb(&self, reading: &Reading) -> bool {
        const WORDS_MAX: usize = 14;
        let lexed = &reading.lexed;
        let inner = lexed.tokens.len() - stops(reading);
        // `moved to Turin`: a place, and no second verb.
        let place =
            |at: usize| lexed.is(at, "to") && lexed.tokens.get(at + 1).is_some_and(Token::is_name);
        let joins = |at: usize| {
            let word = lexed.lower(at);
            let says = lexed.tokens[at].marks.has(Marks::SAYING) && !place(at + 1);
            JOINING.contains(&word) && !place(at) || says || word.ends_with("ing")
        };
        let commas = (0..inner).filter(|at| lexed.is(*at, ",")).count();
        let past = lexed
            .tokens
            .iter()
            .filter(|token| token.has(Flags::PAST) && token.is_ordinary())
            .count();
        inner <= WORDS_MAX && commas <= 1 && past <= 1 && reading.plain && !(0..inner).any(joins)
    }
}

/// Returns how many full stops end a text.
fn stops(reading: &Reading) -> usize {
    (0..reading.lexed.tokens.len()).rev().take_while(|at| reading.lexed.is(*at, ".")).count()
}

/// Adds a step, or makes the last one longer.
fn push(steps: &mut Vec<Aligned>, kind: StepKind, a: Range<usize>, b: Range<usize>) {
    match steps.last_mut() {
        Some(last) if last.kind == StepKind::Equal && kind == StepKind::Equal => {
            (last.a.end, last.b.end) = (a.end, b.end)
        }
        Some(last)
            if last.kind == StepKind::Addition
                && kind == StepKind::Addition
                && last.a.is_empty() == a.is_empty()
                && last.b.is_empty() == b.is_empty() =>
        {
            (last.a.end, last.b.end) = (a.end, b.end);
        }
        _ if a.is_empty() && b.is_empty() => {}
        _ => steps.push(Aligned { kind, a, b }),
    }
}

/// The same word: case is folded for ordinary words, never for acronyms, single letters, code and quotations.
fn equal_words(left: &Token, right: &Token) -> Option<StepKind> {
    let respelled = left.has(Flags::RESPELLED) || right.has(Flags::RESPELLED);
    if left.exact == right.exact {
        return Some(StepKind::Equal);
    }
    if respelled {
        // A short form in capitals stands for its word; a quotation only for itself.
        let exact = |token: &Token| {
            token.has(Flags::QUOTED) || token.has(Flags::EXACT) && !token.has(Flags::ACRONYM)
        };
        return (!exact(left) && !exact(right)).then_some(
            if left.has(Flags::CAPITAL) == right.has(Flags::CAPITAL) {
                StepKind::Notation
            } else {
                StepKind::Abbreviation
            },
        );
    }
    if left.has(Flags::EXACT) || right.has(Flags::EXACT) {
        return None;
    }
    let apart =
        left.has(Flags::CAPITAL) != right.has(Flags::CAPITAL) && left.marks.has(Marks::CAPITAL);
    (!apart).then_some(StepKind::Notation)
}

fn added(token: &Token, lexicon: &Lexicon) -> u32 {
    match token.kind {
        Kind::Symbol => cost::ADD_SYMBOL,
        Kind::Script => cost::ADD_SCRIPT,
        Kind::Word if lexicon.roles(token.entry).has(Roles::FUNCTION) => cost::ADD_FUNCTION,
        _ => cost::ADD_WORD,
    }
}

/// Tells whether the sentence of a token is a request or a note of work: it starts with the plain form of a verb.
pub(crate) fn is_request(reading: &Reading, at: usize) -> bool {
    let start = (0..=at).rev().find(|at| reading.lexed.tokens[*at].has(Flags::INITIAL));
    start.is_some_and(|start| reading.lexed.tokens[start].marks.has(Marks::IMPERATIVE))
}

/// Tells whether a word can be the thing that an article stands before.
fn is_thing(token: &Token, lexicon: &Lexicon) -> bool {
    !token.marks.has(Marks::HAZARD)
        && !lexicon.roles(token.entry).has(Roles::FUNCTION)
        && token.kind == Kind::Word
}
