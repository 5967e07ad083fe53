//! Where in its sentence a conflict stands: in the subject, in the statement about it, or in the
//! report of an event.

use std::ops::Range;

use crate::lexer::{Flags, Kind, Lexed};
use crate::lexicon::{Lexicon, Marks, Roles};
use crate::reading::Reading;
use crate::verdict::DifferenceKind;

/// Where in its sentence a conflict stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    /// In the statement about the subject: behind a verb, a colon, `=`.
    Value,
    /// In the subject of the text.
    Subject,
    /// In an account of something that happened.
    Event,
    /// Nothing tells.
    Unknown,
}

/// Finds where a range of tokens stands.
pub(crate) fn place(
    reading: &Reading,
    range: &Range<usize>,
    kind: DifferenceKind,
    lexicon: &Lexicon,
) -> Place {
    let lexed = &reading.lexed;
    let (mut start, mut end) = (range.start.min(lexed.tokens.len()), range.end);
    let breaks = |at: usize| lexed.ends_sentence(at) || lexed.tokens[at].kind == Kind::Indent;
    while start > 0 && !breaks(start - 1) {
        start -= 1;
    }
    while end < lexed.tokens.len() && !breaks(end) {
        end += 1;
    }
    if start >= lexed.tokens.len() {
        return Place::Unknown;
    }
    Sentence { lexed, lexicon, start, end, range: range.clone(), kind }.place()
}

/// The sentence of a conflict.
struct Sentence<'a> {
    lexed: &'a Lexed,
    lexicon: &'a Lexicon,
    start: usize,
    end: usize,
    range: Range<usize>,
    kind: DifferenceKind,
}

impl Sentence<'_> {
    fn place(&self) -> Place {
        if self.kind.is_specific() && !self.is_version() && (self.is_numbered() || self.possesses())
        {
            return Place::Subject;
        }
        let arrow = (self.start..self.end).any(|at| self.lexed.is(at, "->"));
        // `96 tests at this stage`: a measurement of one moment.
        let moment = (self.start..self.end).any(|at| {
            self.lexed.is(at, "this")
                && matches!(self.word(at + 1), "stage" | "point" | "run" | "time")
        });
        if (arrow || moment) && (self.kind.is_value() || self.kind == DifferenceKind::Identifier) {
            return Place::Event;
        }
        if let Some(place) = self.labelled().or_else(|| self.leading_name()) {
            return place;
        }
        if (self.start..self.range.start).any(|at| self.has(at, Marks::MANY)) {
            return Place::Event;
        }
        if self.is_request() { self.requested() } else { self.stated() }
    }

    fn word(&self, at: usize) -> &str {
        if at < self.lexed.tokens.len() { self.lexed.lower(at) } else { "" }
    }

    fn has(&self, at: usize, marks: Marks) -> bool {
        self.lexed.tokens.get(at).is_some_and(|token| token.marks.has(marks))
    }

    /// The token in front of the conflict.
    fn before(&self) -> Option<usize> {
        self.range.start.checked_sub(1).filter(|before| *before >= self.start)
    }

    fn word_before(&self) -> &str {
        self.before().map_or("", |before| self.word(before))
    }

    fn is_version(&self) -> bool {
        self.kind == DifferenceKind::Version
    }

    /// A form of the past outside the conflict.
    fn is_past(&self, at: usize) -> bool {
        let token = &self.lexed.tokens[at];
        token.has(Flags::PAST) && token.is_ordinary() && !self.range.contains(&at)
    }

    fn has_past(&self) -> bool {
        (self.start..self.end).any(|at| self.is_past(at))
    }

    /// It speaks of a state, or of a change that names the new one: `was upgraded to 16`.
    fn states(&self, from: usize) -> bool {
        let to = (from..self.end).any(|at| self.lexed.is(at, "to"));
        let near = |at: &usize| *at < self.range.start || *at == self.range.end;
        let tells = |at| self.has(at, Marks::STATE) && (to || !self.has(at, Marks::CHANGE));
        (from..self.end).filter(near).any(tells)
    }

    fn is_finite(&self, at: usize) -> bool {
        self.has(at, Marks::STATE.with(Marks::PRESENT)) || self.is_auxiliary(at)
    }

    fn is_auxiliary(&self, at: usize) -> bool {
        self.lexicon.roles(self.lexed.tokens[at].entry).has(Roles::AUXILIARY)
    }

    /// `ticket 4711`, `host web-01`, `#42`: tells which thing is spoken of.
    fn is_numbered(&self) -> bool {
        let numbers = |before| self.lexed.is(before, "#") || self.has(before, Marks::NUMBERED);
        self.before().is_some_and(numbers)
    }

    /// `Mason's config`.
    fn possesses(&self) -> bool {
        let tokens = &self.lexed.tokens;
        let behind = tokens.get(self.range.end).is_some_and(|next| next.has(Flags::POSSESSIVE));
        behind || tokens[self.range.clone()].iter().any(|token| token.has(Flags::POSSESSIVE))
    }

    /// `Label: value`, `key = value`. One of several fields says nothing of the whole.
    fn labelled(&self) -> Option<Place> {
        let glued =
            |at: usize| self.lexed.tokens.get(at + 1).is_some_and(|next| next.has(Flags::GLUED));
        let is_label = |at: &usize| self.lexed.is(*at, ":") && !glued(*at);
        let fields = (self.start..self.end).filter(is_label).count();
        let number = |at: usize| glued(at) && self.lexed.tokens[at + 1].kind == Kind::Number;
        let sign = (self.start..self.range.start)
            .rev()
            .find(|at| self.lexed.is(*at, "=") || self.lexed.is(*at, ":") && !number(*at));
        let Some(sign) = sign else {
            let first = (self.start..self.end).find(|at| self.lexed.is(*at, ":"));
            let in_label = fields > 0 && self.range.end <= first.unwrap_or(0);
            return in_label.then_some(Place::Subject);
        };
        let asked = (self.start..sign).any(|at| self.has(at, Marks::ATTRIBUTE));
        let record = fields > 1 || (self.start..self.end).any(|at| self.lexed.is(at, "|"));
        Some(match () {
            () if self.kind == DifferenceKind::Locator && !asked || record => Place::Subject,
            () if (sign..self.end).any(|at| self.is_past(at)) && !self.states(sign) => Place::Event,
            () => Place::Value,
        })
    }

    /// `Ana is the tech lead`, `Ana leads the team`: who holds a place that one holds.
    fn leading_name(&self) -> Option<Place> {
        let (next, end) = (self.range.end, self.end);
        let leads = self.range.start == self.start && self.kind == DifferenceKind::Name;
        let holds = next < end && self.has(next, Marks::HOLDS);
        let the = self.word(next) == "is" && matches!(self.word(next + 1), "the" | "our" | "my");
        leads.then_some(if holds || the { Place::Value } else { Place::Subject })
    }

    /// It starts with the plain form of a verb.
    fn is_request(&self) -> bool {
        let copula =
            || (self.start..self.range.start).any(|at| matches!(self.word(at), "is" | "are"));
        let first = &self.lexed.tokens[self.start];
        first.marks.has(Marks::IMPERATIVE) && first.has(Flags::INITIAL) && !copula()
    }

    /// A request states a value where it sets one: `Use pnpm`, `Limit uploads to 5 MB`.
    fn requested(&self) -> Place {
        const STATING: [&str; 13] = [
            "to", "at", "with", "via", "of", "every", "below", "under", "within", "than", "most",
            "least", "use",
        ];
        let sets = self.has(self.start, Marks::SETTING);
        let value = STATING.contains(&self.word_before())
            || self.before().is_some_and(|before| self.has(before, Marks::ATTRIBUTE));
        let named = self.kind == DifferenceKind::Name && self.range.start == self.start + 1;
        match () {
            () if self.kind == DifferenceKind::Locator => Place::Subject,
            () if self.is_version() || self.range.start == self.start => Place::Value,
            () if sets && (value || named) => Place::Value,
            () => Place::Subject,
        }
    }

    fn stated(&self) -> Place {
        let verb = (self.start..self.range.start).any(|at| {
            self.is_finite(at)
                || self.is_past(at)
                || self.has(at, Marks::HOLDS.with(Marks::INFLECTING))
        });
        let event = self.has_past() && !self.states(self.start);
        match (verb, self.kind) {
            // `Deployed on Fly.io`: a participle without a subject tells of a state.
            (true, _) if event && self.is_participle() => Place::Value,
            _ if event => Place::Event,
            (true, DifferenceKind::Locator)
                if !matches!(self.word_before(), "is" | "at" | "to" | "in") =>
            {
                Place::Subject
            }
            (true, _) | (false, DifferenceKind::Version) => Place::Value,
            (false, _) if self.has_past() => Place::Event,
            (false, _) => self.in_fragment(),
        }
    }

    fn is_participle(&self) -> bool {
        let stands =
            matches!(self.word(self.start + 1), "on" | "with" | "in" | "via" | "at" | "using");
        self.is_past(self.start)
            && stands
            && self.range.start == self.start + 2
            && !self.kind.is_value()
    }

    /// A sentence with a later or unknown verb, a title, a fragment.
    fn in_fragment(&self) -> Place {
        use DifferenceKind::{Identifier, Name};
        if (self.range.end..self.end).any(|at| self.is_finite(at)) {
            return Place::Subject;
        }
        let deep = self.range.start > self.start + 1;
        let dash = |at: usize| self.lexed.is(at, "-") && !self.lexed.tokens[at].has(Flags::GLUED);
        let inside = (self.start..self.range.start).any(|at| self.lexed.is(at, "(") || dash(at));
        let preposition = self.before().is_some_and(|before| {
            let roles = self.lexicon.roles(self.lexed.tokens[before].entry);
            self.word(before) != "of" && roles.has(Roles::PREPOSITION)
        });
        let with = matches!(self.word_before(), "with" | "via" | "using" | "on");
        // `before an upgrade`: gives a time or a place, not a subject.
        let aside = self.before().is_some_and(|before| self.has(before, Marks::ARTICLE))
            || matches!(self.word_before(), "before" | "after" | "during" | "for" | "of");
        match self.kind {
            kind if kind.is_value() && (inside || deep && preposition) => Place::Value,
            Name | Identifier if deep && with => Place::Value,
            kind if kind.is_specific() || aside => Place::Subject,
            _ => Place::Unknown,
        }
    }
}
