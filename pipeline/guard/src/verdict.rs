//! The verdict: the conclusion from the steps of an alignment, and its reasons.

use std::ops::Range;

use crate::align::{Aligned, Aligner, StepKind, is_request};
use crate::lexer::{Flags, Kind, Lexed, Token};
use crate::lexicon::{Lexicon, Marks, Relation, Roles};
use crate::morphology::opposite_by_affix;
use crate::place::{Place, place};
use crate::quantity::{Compared, Measure, Quantity, RATE};
use crate::reading::Reading;
use crate::stem::word_key;

/// Differences that a judgement lists.
const DIFFERENCES_MAX: usize = 64;
/// Bytes of a text that a difference shows.
const SHOWN_BYTES_MAX: usize = 200;
/// Words of one thing that takes the place of another.
const VALUE_WORDS_MAX: usize = 5;
/// Words that both texts of an indefinite description share before one of its words can exclude another.
const DESCRIPTION_WORDS_MIN: usize = 5;

/// What two texts are to each other.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Proven to say the same.
    Same,
    /// Proven to say the same, and one says more.
    Extends,
    /// Nothing is proven.
    Undecided,
    /// They speak of different things or events.
    Different,
    /// Exactly one thing differs, and both cannot hold.
    Conflict,
}

impl Verdict {
    /// Returns the name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Same => "same",
            Self::Extends => "extends",
            Self::Undecided => "undecided",
            Self::Different => "different",
            Self::Conflict => "conflict",
        }
    }

    /// Tells whether texts of this verdict may be merged.
    #[must_use]
    pub const fn is_proven(self) -> bool {
        matches!(self, Self::Same | Self::Extends)
    }
}

/// What kind of thing differs.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum DifferenceKind {
    /// A number, with its unit.
    Number,
    /// A calendar date.
    Date,
    /// A time of day.
    Time,
    /// A version.
    Version,
    /// An id, a hash, an identifier of code.
    Identifier,
    /// A URL, e-mail address or path.
    Locator,
    /// A name.
    Name,
    /// An amount of money.
    Currency,
    /// One is negated.
    Negation,
    /// Modals of different strength (must / may, always / never).
    Modality,
    /// Two words with opposite meaning.
    Antonym,
    /// Two members of a class that exclude each other.
    Exclusive,
    /// Punctuation, brackets, operators, white space.
    Sign,
    /// Other words.
    Word,
}

impl DifferenceKind {
    /// Tells whether it is a value that a series of events has one of each: a number, version, date, time or amount.
    #[must_use]
    pub const fn is_value(self) -> bool {
        matches!(self, Self::Number | Self::Version | Self::Date | Self::Time | Self::Currency)
    }

    /// Tells whether different values of this kind exclude each other.
    pub(crate) const fn is_specific(self) -> bool {
        self.is_value() || matches!(self, Self::Identifier | Self::Locator | Self::Name)
    }
}

/// One difference, with the bytes of each text that show it (`None`: nothing there).
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Difference {
    /// What kind.
    pub kind: DifferenceKind,
    /// Byte range in the first text.
    pub left: Option<Range<usize>>,
    /// Byte range in the second text.
    pub right: Option<Range<usize>>,
    /// What stands there in the first text.
    pub left_text: String,
    /// What stands there in the second text.
    pub right_text: String,
}

/// Which of two texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, serde::Serialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Side {
    /// The first.
    Left,
    /// The second.
    Right,
}

/// One step of the alignment, with the bytes it covers; an empty range stands where the side has nothing.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, schemars::JsonSchema)]
pub struct Step {
    /// What it does.
    pub kind: StepKind,
    /// Bytes of the first text.
    pub left: Range<usize>,
    /// Bytes of the second text.
    pub right: Range<usize>,
}

/// What the guard says of two texts.
#[derive(Debug, Clone, PartialEq, serde::Serialize, schemars::JsonSchema)]
pub struct Judgement {
    /// The verdict.
    pub verdict: Verdict,
    /// The side that says more, where one does.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub longer: Option<Side>,
    /// The alignment, in the order of the texts; empty where they differ over too long a stretch.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub steps: Vec<Step>,
    /// How far a conflict is from the rest, in \[0.5, 1\]: by the share of words that both texts have; 0 without one.
    pub contradiction_score: f64,
    /// Whether the conflict is one value in one frame, of which the newer is the present one.
    pub update: bool,
    /// Whether they may say the same for all that is known.
    pub could_be_same: bool,
    /// All differences, in the order of the first text; none where the texts say the same.
    pub differences: Vec<Difference>,
}

impl Judgement {
    /// The judgement on two texts that are the same but for white space.
    pub(crate) fn equal(left: usize, right: usize) -> Self {
        Self {
            verdict: Verdict::Same,
            longer: None,
            steps: vec![Step { kind: StepKind::Equal, left: 0..left, right: 0..right }],
            contradiction_score: 0.0,
            update: false,
            could_be_same: true,
            differences: vec![],
        }
    }

    /// Tells whether the text of a side is proven to say all that the other says.
    #[must_use]
    pub fn says_all(&self, side: Side) -> bool {
        match self.verdict {
            Verdict::Same => true,
            Verdict::Extends => self.longer == Some(side),
            _ => false,
        }
    }

    /// Returns the kind of the conflict.
    #[must_use]
    pub fn conflict(&self) -> Option<DifferenceKind> {
        let is_conflict = self.verdict == Verdict::Conflict;
        is_conflict.then(|| self.differences.first().map(|difference| difference.kind)).flatten()
    }

    /// Returns the byte ranges that only the longer side has.
    pub fn additions(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        let added = self.steps.iter().filter(|step| step.kind == StepKind::Addition);
        added.map(|step| match self.longer {
            Some(Side::Right) => step.right.clone(),
            _ => step.left.clone(),
        })
    }

    /// Exchanges the sides.
    pub(crate) fn flipped(mut self) -> Self {
        self.longer =
            self.longer.map(|side| if side == Side::Left { Side::Right } else { Side::Left });
        for step in &mut self.steps {
            std::mem::swap(&mut step.left, &mut step.right);
        }
        for difference in &mut self.differences {
            std::mem::swap(&mut difference.left, &mut difference.right);
            std::mem::swap(&mut difference.left_text, &mut difference.right_text);
        }
        self
    }
}

/// A region between two steps that keep: tokens of one or both texts.
struct Region {
    a: Range<usize>,
    b: Range<usize>,
    class: Class,
    kind: DifferenceKind,
}

impl Region {
    /// Tells whether both sides cannot hold of one thing, or are not known to.
    const fn conflicts(&self) -> bool {
        matches!(self.class, Class::Conflict | Class::Specifics)
    }
}

/// The effect of a region.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Class {
    /// Both cannot hold of one thing.
    Conflict,
    /// Two specifics that are not known to exclude each other: names, identifiers, values of an open list.
    Specifics,
    /// Punctuation only.
    Sign,
    /// One side says more.
    Addition,
    /// The newer text reports a change: `runs`, `was upgraded to`.
    Change,
    /// Articles and auxiliaries only.
    Light,
    /// Anything else.
    Open,
}

/// Judges two texts, of which the first is the lesser in byte order, so that the verdict is the same in both directions.
pub(crate) fn judge(a: &Reading, b: &Reading, lexicon: &Lexicon) -> Judgement {
    let judge = Judge { a, b, lexicon };
    let Some(steps) = Aligner::new(a, b, lexicon).align() else {
        return Judgement {
            verdict: Verdict::Undecided,
            steps: vec![],
            could_be_same: false,
            ..Judgement::equal(0, 0)
        };
    };
    judge.verdict(&steps)
}

/// The regions of an alignment, by effect.
struct Found<'a> {
    conflicts: Vec<&'a Region>,
    additions: Vec<&'a Region>,
    /// Words that were replaced by others.
    open: usize,
    /// Words that both texts have.
    kept: usize,
    /// The newer text reports a change.
    changes: bool,
    /// Something besides words differs: a change, a sign, an article.
    changed: bool,
}

impl<'a> Found<'a> {
    fn of(judge: &Judge<'_>, regions: &'a [Region], aligned: &[Aligned]) -> Self {
        let of = |class: Class| regions.iter().filter(move |region| region.class == class);
        let kept = aligned.iter().filter(|step| step.kind.keeps());
        let replaced = |region: &Region| {
            judge.words(judge.a, &region.a).max(judge.words(judge.b, &region.b)).max(1)
        };
        let changes = of(Class::Change).count() > 0;
        Self {
            conflicts: of(Class::Conflict).chain(of(Class::Specifics)).collect(),
            additions: of(Class::Addition).collect(),
            open: of(Class::Open).map(replaced).sum(),
            kept: kept.map(|step| judge.words(judge.a, &step.a)).sum(),
            changes,
            changed: changes || of(Class::Sign).chain(of(Class::Light)).count() > 0,
        }
    }

    /// Returns half of one, and the other half by the share of words that both texts have.
    fn share_kept(&self, judge: &Judge<'_>) -> f64 {
        let words =
            |region: &&Region| judge.words(judge.a, &region.a) + judge.words(judge.b, &region.b);
        let added: usize = self.additions.iter().map(words).sum();
        0.5 + 0.5 * self.kept as f64 / (self.kept + added + 1) as f64
    }
}

struct Judge<'a> {
    a: &'a Reading,
    b: &'a Reading,
    lexicon: &'a Lexicon,
}

impl Judge<'_> {
    fn verdict(&self, aligned: &[Aligned]) -> Judgement {
        let steps = aligned
            .iter()
            .map(|step| Step {
                kind: step.kind,
                left: self.a.bytes(step.a.clone()),
                right: self.b.bytes(step.b.clone()),
            })
            .collect();
        let mut judgement = Judgement { steps, ..Judgement::equal(0, 0) };
        let dated = self.same_day();
        let mut regions = self.regions(aligned);
        regions.iter_mut().for_each(|region| self.classify(region));
        let mut regions = self.split(regions, aligned);
        if regions.is_empty() {
            if !dated {
                judgement.verdict = Verdict::Undecided;
                judgement.could_be_same = self.a.day.is_none() || self.b.day.is_none();
            }
            return judgement;
        }
        self.join_changes(&mut regions);
        self.leave_out_reasons(&mut regions);
        self.decide(&mut judgement, &regions, aligned, dated);
        judgement.differences = self.differences(&regions, judgement.verdict);
        judgement
    }

    /// Tells whether words like `yesterday` mean the same day in both texts.
    fn same_day(&self) -> bool {
        !(self.a.relative && self.b.relative) || self.a.day.is_some() && self.a.day == self.b.day
    }

    fn decide(
        &self,
        judgement: &mut Judgement,
        regions: &[Region],
        aligned: &[Aligned],
        dated: bool,
    ) {
        let found = Found::of(self, regions, aligned);
        judgement.could_be_same = found
            .conflicts
            .iter()
            .all(|region| !region.kind.is_specific() && region.class != Class::Conflict);
        // Texts without a common word may say anything.
        judgement.could_be_same &= found.kept > 0 || found.open == 0;
        judgement.verdict = Verdict::Undecided;
        match found.conflicts[..] {
            [] => {
                let longer = (found.open == 0 && !found.changed && dated)
                    .then(|| self.longer(&found.additions));
                if let Some(longer) = longer.flatten() {
                    (judgement.verdict, judgement.longer) = (Verdict::Extends, Some(longer));
                }
            }
            _ if self.both_deny(&found.conflicts) => judgement.could_be_same = true,
            [conflict] if found.open == 0 => {
                let place = self.place(conflict, found.changes);
                judgement.verdict = self.one_conflict(conflict, place, &found, dated);
                if judgement.verdict == Verdict::Conflict {
                    judgement.contradiction_score = found.share_kept(self);
                    let valued =
                        matches!(conflict.kind, DifferenceKind::Exclusive | DifferenceKind::Word);
                    judgement.update =
                        conflict.kind.is_specific() || valued && place == Place::Value;
                }
            }
            [one, other] if self.swaps(one, other) => {
                judgement.could_be_same = self.are_coordinated(one, other);
                if !judgement.could_be_same && found.open == 0 {
                    judgement.verdict = Verdict::Different;
                }
            }
            _ if self.are_apart(&found) => judgement.verdict = Verdict::Different,
            _ => {}
        }
        judgement.could_be_same &= judgement.verdict != Verdict::Different;
    }

    /// Both deny, in other words: `requires no login`, `does not require a login`.
    fn both_deny(&self, conflicts: &[&Region]) -> bool {
        conflicts.iter().all(|region| region.kind == DifferenceKind::Negation)
            && self.a.negations % 2 == self.b.negations % 2
    }

    /// Tells whether several conflicts mean different subjects. Words that were replaced beside
    /// them may make both true, or say the same in other words.
    fn are_apart(&self, found: &Found<'_>) -> bool {
        let specific = found.conflicts.iter().filter(|region| region.kind.is_specific());
        let about = specific.clone().any(|region| self.place(region, false) == Place::Subject);
        let enough = match found.open {
            0 => about || found.conflicts.len() > 1,
            1 => about || specific.count() > 1,
            _ => false,
        };
        enough && found.kept > 0 && found.open * 4 <= found.kept + 1
    }

    /// Tells whether two things have changed places.
    fn swaps(&self, one: &Region, other: &Region) -> bool {
        let text = |reading: &Reading, range: &Range<usize>| {
            reading.lexed.tokens[range.clone()].iter().map(|token| token.folded).collect::<Vec<_>>()
        };
        text(self.a, &one.a) == text(self.b, &other.b)
            && text(self.b, &one.b) == text(self.a, &other.a)
    }

    /// Tells whether nothing but a coordination stands between two things, in a sentence without another one.
    fn are_coordinated(&self, one: &Region, other: &Region) -> bool {
        let between = one.a.end..other.a.start;
        let joins = |at: usize| matches!(self.a.lexed.lower(at), "and" | "or" | "&");
        let alone = (0..self.a.lexed.tokens.len()).filter(|at| joins(*at)).count() == 1;
        alone
            && !between.is_empty()
            && between.into_iter().all(|at| joins(at) || self.a.lexed.is(at, ","))
    }

    /// The verdict where exactly one thing conflicts and nothing else was replaced.
    fn one_conflict(
        &self,
        conflict: &Region,
        place: Place,
        found: &Found<'_>,
        dated: bool,
    ) -> Verdict {
        let kept = found.kept;
        let touched = found.additions.iter().any(|addition| !self.stands_apart(addition, conflict));
        let asks = [self.a, self.b]
            .iter()
            .any(|reading| (0..reading.lexed.tokens.len()).any(|at| reading.lexed.is(at, "?")));
        if asks || !dated {
            return Verdict::Undecided;
        }
        match (conflict.class, conflict.kind) {
            (
                Class::Conflict,
                DifferenceKind::Negation
                | DifferenceKind::Antonym
                | DifferenceKind::Modality
                | DifferenceKind::Exclusive,
            ) => {
                let named =
                    matches!(conflict.kind, DifferenceKind::Exclusive | DifferenceKind::Antonym);
                match place {
                    _ if touched => Verdict::Undecided,
                    Place::Subject if named => Verdict::Different,
                    Place::Event if conflict.kind == DifferenceKind::Exclusive => {
                        Verdict::Different
                    }
                    _ if named && self.is_description() && kept < DESCRIPTION_WORDS_MIN => {
                        Verdict::Undecided
                    }
                    _ if kept == 0 => Verdict::Undecided,
                    _ => Verdict::Conflict,
                }
            }
            (_, kind) => match place {
                Place::Subject | Place::Event => Verdict::Different,
                Place::Value if touched => Verdict::Undecided,
                Place::Value if kept > 0 => Verdict::Conflict,
                _ if kind.is_specific() => Verdict::Different,
                _ => Verdict::Undecided,
            },
        }
    }

    /// Tells whether a text describes something that it does not name: `a dog`, `some people`.
    fn is_description(&self) -> bool {
        [self.a, self.b].iter().any(|reading| {
            let first = reading.lexed.tokens.first();
            first.is_some_and(|token| {
                self.lexicon.roles(token.entry).has(Roles::INDEFINITE)
                    || matches!(
                        reading.lexed.lower(0),
                        "a" | "an" | "some" | "two" | "three" | "there"
                    )
            })
        })
    }

    /// Tells whether an addition leaves the clause of the conflict alone: another sentence, a parenthesis, a reason.
    fn stands_apart(&self, addition: &Region, conflict: &Region) -> bool {
        let (reading, range, other) = if addition.a.is_empty() {
            (self.b, &addition.b, &conflict.b)
        } else {
            (self.a, &addition.a, &conflict.a)
        };
        let lexed = &reading.lexed;
        let between =
            if range.start > other.start { other.end..range.start } else { range.end..other.start };
        let sentence = between.clone().any(|at| lexed.ends_sentence(at))
            || range.start > other.start && lexed.ends_sentence(range.start);
        let (first, last) = (lexed.lower(range.start), lexed.lower(range.end - 1));
        let parenthesis = first == "(" && last == ")";
        let behind = range.start >= other.end;
        let reason = behind
            && (lexed.tokens[range.start].marks.has(Marks::REASON.with(Marks::PURPOSE))
                || matches!(first, "," | "-" | ";" | "since" | "due" | "so" | "as"));
        let denied = conflict.kind == DifferenceKind::Negation
            && range.clone().all(|at| ends_state(lexed, at));
        let denies = self.denies(reading, range);
        denied || !denies && (sentence || parenthesis || reason || self.words(reading, range) == 0)
    }

    fn denies(&self, reading: &Reading, range: &Range<usize>) -> bool {
        let denying = Roles::NEGATOR.with(Roles::DENIAL).with(Roles::NARROW);
        reading.lexed.tokens[range.clone()]
            .iter()
            .any(|token| self.lexicon.roles(token.entry).has(denying))
    }

    fn words(&self, reading: &Reading, range: &Range<usize>) -> usize {
        reading.lexed.tokens[range.clone()].iter().filter(|token| self.is_content(token)).count()
    }

    fn is_content(&self, token: &Token) -> bool {
        is_content(token, self.lexicon)
    }

    /// Gathers the tokens between steps that keep.
    fn regions(&self, aligned: &[Aligned]) -> Vec<Region> {
        let mut regions: Vec<Region> = Vec::new();
        let mut open = false;
        for step in aligned {
            if step.kind.keeps() {
                open = false;
                continue;
            }
            match regions.last_mut() {
                Some(last) if open => {
                    (last.a.end, last.b.end) =
                        (last.a.end.max(step.a.end), last.b.end.max(step.b.end))
                }
                _ => regions.push(Region {
                    a: step.a.clone(),
                    b: step.b.clone(),
                    class: Class::Open,
                    kind: DifferenceKind::Word,
                }),
            }
            open = true;
        }
        regions
    }

    /// Separates a conflict from text that only one side has beside it: `950 ms (score 0)`.
    fn split(&self, regions: Vec<Region>, aligned: &[Aligned]) -> Vec<Region> {
        let mut parts = Vec::with_capacity(regions.len());
        for region in regions {
            let inside = |step: &&Aligned| {
                !step.kind.keeps()
                    && step.a.start >= region.a.start
                    && step.a.end <= region.a.end
                    && step.b.start >= region.b.start
                    && step.b.end <= region.b.end
            };
            let steps: Vec<&Aligned> = aligned.iter().filter(inside).collect();
            let pairs = steps.iter().filter(|step| step.kind != StepKind::Addition).count();
            let denies = self.denies(self.a, &region.a) || self.denies(self.b, &region.b);
            if region.class != Class::Open || pairs != 1 || steps.len() < 2 || denies {
                parts.push(region);
                continue;
            }
            for step in steps {
                let mut part = Region {
                    a: step.a.clone(),
                    b: step.b.clone(),
                    class: Class::Open,
                    kind: DifferenceKind::Word,
                };
                self.classify(&mut part);
                match parts.last_mut() {
                    Some(last)
                        if matches!(part.class, Class::Sign | Class::Addition)
                            && matches!(last.class, Class::Sign | Class::Addition)
                            && last.a.end == part.a.start
                            && last.b.end == part.b.start
                            && last.a.is_empty() == part.a.is_empty()
                            && last.b.is_empty() == part.b.is_empty() =>
                    {
                        (last.a.end, last.b.end) = (part.a.end, part.b.end);
                        last.class = Class::Addition;
                    }
                    _ => parts.push(part),
                }
            }
        }
        parts
    }

    fn classify(&self, region: &mut Region) {
        let (a, b) = (Part::of(self, self.a, &region.a), Part::of(self, self.b, &region.b));
        let (class, kind) = self.classified(&a, &b);
        (region.class, region.kind) = (class, kind);
    }

    fn classified(&self, a: &Part<'_>, b: &Part<'_>) -> (Class, DifferenceKind) {
        use DifferenceKind as Kinds;
        if let Some(kind) = self.polarity(a, b) {
            return (Class::Conflict, kind);
        }
        if a.is_signs() && b.is_signs() {
            return (Class::Sign, Kinds::Sign);
        }
        if a.range.is_empty() || b.range.is_empty() {
            let more = if a.range.is_empty() { b } else { a };
            return (Class::Addition, more.kind());
        }
        if a.is_light() && b.is_light() {
            return (Class::Light, Kinds::Word);
        }
        if let Some(kind) = self.values(a, b) {
            return kind;
        }
        if let Some(kind) = self.relation(a, b).or_else(|| self.runs(a, b)) {
            return (Class::Conflict, kind);
        }
        if self.is_change(a, b) || self.is_change(b, a) {
            return (Class::Change, Kinds::Word);
        }
        let (left, right) = (a.kind(), b.kind());
        if left == Kinds::Identifier && right == left && is_prefix(a, b)
            || left == Kinds::Name && right == left && are_alike(a, b)
        {
            return (Class::Open, Kinds::Word);
        }
        if left.is_specific()
            && right.is_specific()
            && left.is_value() == right.is_value()
            && a.is_short()
            && b.is_short()
        {
            return (Class::Specifics, left.max(right));
        }
        if a.content.len() == 1 && b.content.len() == 1 && self.is_asked_for(a, b) {
            return (Class::Specifics, Kinds::Word);
        }
        (Class::Open, if left == right { left } else { Kinds::Word })
    }

    /// One side denies, and the rest of the region is the same: `runs`, `does not run`.
    fn polarity(&self, a: &Part<'_>, b: &Part<'_>) -> Option<DifferenceKind> {
        if a.negations % 2 == b.negations % 2 || a.hedges || b.hedges {
            return None;
        }
        let plain = |part: &Part<'_>| {
            part.content.iter().map(|at| part.reading.lexed.tokens[*at].stem).collect::<Vec<_>>()
        };
        // `We deploy`, `Never deploy`: an order leaves out whom it is for.
        let (left, right) = if a.names_us() != b.names_us() {
            (a.others - usize::from(a.names_us()), b.others - usize::from(b.names_us()))
        } else {
            (a.others, b.others)
        };
        (plain(a) == plain(b) && left == 0 && right == 0).then_some(DifferenceKind::Negation)
    }

    /// One value each.
    fn values(&self, a: &Part<'_>, b: &Part<'_>) -> Option<(Class, DifferenceKind)> {
        let (left, right) = (a.value()?, b.value()?);
        if a.content_beside_value() != b.content_beside_value() {
            return None;
        }
        let kind = kind_of(left.measure);
        match left.compare(&right) {
            Compared::Equal | Compared::Open => Some((Class::Open, kind)),
            Compared::Differ => Some((Class::Specifics, kind)),
            Compared::Unrelated => None,
        }
    }

    /// Words that the lexicon sets against each other.
    fn relation(&self, a: &Part<'_>, b: &Part<'_>) -> Option<DifferenceKind> {
        let (left, right) = (a.single()?, b.single()?);
        let is_negator = |single: &Single<'_>| self.lexicon.roles(single.entry).has(Roles::NEGATOR);
        // A denied opposite says the same.
        let denied =
            a.negations % 2 != b.negations % 2 && !is_negator(&left) && !is_negator(&right);
        if denied || self.a.lexed.indented || self.b.lexed.indented {
            return None;
        }
        let found = match (left.entry, right.entry) {
            (0, _) | (_, 0) => None,
            (one, other) => self.lexicon.conflict(one, other),
        };
        let function = |single: &Single<'_>| self.lexicon.roles(single.entry).has(Roles::FUNCTION);
        match found {
            Some(Relation::Opposite) => Some(DifferenceKind::Antonym),
            Some(Relation::Exclusive) => Some(DifferenceKind::Exclusive),
            Some(Relation::Modality) => Some(DifferenceKind::Modality),
            Some(Relation::Distinct) | None if function(&left) || function(&right) => None,
            Some(Relation::Distinct) => None,
            None => opposite_by_affix(left.text, right.text).then_some(DifferenceKind::Antonym),
        }
    }

    /// Words of a script without spaces around a difference.
    fn runs(&self, a: &Part<'_>, b: &Part<'_>) -> Option<DifferenceKind> {
        const WIDER_MAX: usize = 2;
        const CHARACTERS_MAX: usize = 6;
        let script = |part: &Part<'_>| {
            part.range.len() <= CHARACTERS_MAX
                && part.range.clone().all(|at| part.reading.lexed.tokens[at].kind == Kind::Script)
        };
        if !script(a) || !script(b) {
            return None;
        }
        let entry = |part: &Part<'_>, before: usize, behind: usize| {
            let (start, end) = (part.range.start.checked_sub(before)?, part.range.end + behind);
            let tokens = part.reading.lexed.tokens.get(start..end)?;
            let run = tokens.iter().all(|token| token.kind == Kind::Script);
            run.then(|| {
                self.lexicon.word(
                    word_key(
                        &part.reading.text[part.reading.bytes(start..end)],
                        &mut String::new(),
                    )
                    .stem,
                )
            })
        };
        let wider =
            (0..=WIDER_MAX).flat_map(|before| (0..=WIDER_MAX).map(move |behind| (before, behind)));
        for (before, behind) in wider {
            let (Some(one), Some(other)) = (entry(a, before, behind), entry(b, before, behind))
            else {
                continue;
            };
            let negator = |entry: u32| self.lexicon.roles(entry).has(Roles::NEGATOR);
            match self.lexicon.conflict(one, other) {
                Some(Relation::Opposite) => return Some(DifferenceKind::Antonym),
                Some(Relation::Exclusive) => return Some(DifferenceKind::Exclusive),
                Some(Relation::Modality) => return Some(DifferenceKind::Modality),
                _ if negator(one) != negator(other) => return Some(DifferenceKind::Negation),
                _ => {}
            }
        }
        None
    }

    /// `runs` and `was upgraded to`, in front of a value.
    fn is_change(&self, now: &Part<'_>, change: &Part<'_>) -> bool {
        let uses = now
            .content
            .iter()
            .all(|at| now.reading.lexed.tokens[*at].marks.has(Marks::TAKES_ONE.with(Marks::STATE)));
        let changed = change
            .content
            .iter()
            .any(|at| change.reading.lexed.tokens[*at].marks.has(Marks::CHANGE));
        uses && changed
            && change.content.len() <= 1
            && change.range.len() <= 4
            && now.range.len() <= 3
    }

    /// `Status: todo`, `The log level is info`: one word in the place of one value.
    fn is_asked_for(&self, a: &Part<'_>, b: &Part<'_>) -> bool {
        let asked = |part: &Part<'_>| {
            let lexed = &part.reading.lexed;
            let Some(before) = part.range.start.checked_sub(1) else { return false };
            let label = lexed.is(before, ":") || lexed.is(before, "=");
            let copula = matches!(lexed.lower(before), "is" | "are" | "to" | "was");
            let one = || before > 0 && lexed.tokens[before - 1].marks.has(Marks::ATTRIBUTE);
            let ends = part.range.end >= lexed.tokens.len()
                || matches!(lexed.lower(part.range.end), "." | "," | ";" | ")" | "!");
            ends && (label && before <= VALUE_WORDS_MAX || copula && one())
        };
        a.negations == b.negations && asked(a) && asked(b)
    }

    /// A change beside a conflict is part of it; alone it stays open.
    fn join_changes(&self, regions: &mut [Region]) {
        self.join_directions(regions);
        let conflicts = regions.iter().filter(|region| region.conflicts()).count();
        if conflicts != 1 {
            regions
                .iter_mut()
                .filter(|region| region.class == Class::Change)
                .for_each(|region| region.class = Class::Open);
        }
    }

    /// `Raise the limit to 20`, `Lower the limit to 5`: the direction of a change belongs to its value.
    fn join_directions(&self, regions: &mut [Region]) {
        let starts = |reading: &Reading, range: &Range<usize>| {
            range.len() == 1
                && reading.lexed.tokens[range.start].has(Flags::INITIAL)
                && is_request(reading, range.start)
        };
        let mut conflicts = regions.iter_mut().filter(|region| region.conflicts());
        let (Some(one), Some(other), None) = (conflicts.next(), conflicts.next(), conflicts.next())
        else {
            return;
        };
        let direction =
            one.kind == DifferenceKind::Antonym && starts(self.a, &one.a) && starts(self.b, &one.b);
        if direction && other.kind == DifferenceKind::Number {
            one.class = Class::Change;
        }
    }

    /// Reasons and purposes behind a conflict may differ: `set it to 20 to save memory`, `set it to 30 to be faster`.
    fn leave_out_reasons(&self, regions: &mut Vec<Region>) {
        let (Some(a), Some(b)) = (reason_start(self.a), reason_start(self.b)) else { return };
        let explains = |region: &Region| region.a.start >= a && region.b.start >= b;
        let conflicts = regions.iter().filter(|region| !explains(region) && region.conflicts());
        if conflicts.count() == 1 {
            regions.retain(|region| !explains(region));
        }
    }

    /// Tells which side says more, where all additions are on one side and safe.
    fn longer(&self, additions: &[&Region]) -> Option<Side> {
        let side = if additions.first()?.a.is_empty() { Side::Right } else { Side::Left };
        let (reading, other) =
            if side == Side::Right { (self.b, self.a) } else { (self.a, self.b) };
        let all = additions.iter().all(|region| {
            let (more, less) =
                if side == Side::Right { (&region.b, &region.a) } else { (&region.a, &region.b) };
            less.is_empty() && crate::extension::is_safe(reading, more, other, self.lexicon)
        });
        all.then_some(side)
    }

    /// Finds where in its sentence a conflict stands.
    fn place(&self, region: &Region, changed: bool) -> Place {
        let (one, other) = (
            place(self.a, &region.a, region.kind, self.lexicon),
            place(self.b, &region.b, region.kind, self.lexicon),
        );
        match (one, other) {
            (Place::Value, Place::Event) | (Place::Event, Place::Value) if changed => Place::Value,
            (Place::Event, Place::Event) if changed => Place::Value,
            (one, other) if one == other => one,
            (Place::Subject, _) | (_, Place::Subject) => Place::Subject,
            (Place::Event, _) | (_, Place::Event) => Place::Event,
            _ => Place::Unknown,
        }
    }

    /// Puts the regions into words, the conflict first.
    fn differences(&self, regions: &[Region], verdict: Verdict) -> Vec<Difference> {
        if verdict.is_proven() {
            return vec![];
        }
        let part = |reading: &Reading, range: &Range<usize>| {
            (!range.is_empty()).then(|| reading.bytes(range.clone()))
        };
        let mut sorted: Vec<&Region> = regions.iter().take(DIFFERENCES_MAX).collect();
        sorted
            .sort_by_key(|region| !region.conflicts() as u8 * (verdict == Verdict::Conflict) as u8);
        let differences = sorted.into_iter().map(|region| {
            let (left, right) = (part(self.a, &region.a), part(self.b, &region.b));
            let text = |reading: &Reading, range: &Option<Range<usize>>| {
                range.as_ref().map_or(String::new(), |range| shown(&reading.text[range.clone()]))
            };
            let (left_text, right_text) = (text(self.a, &left), text(self.b, &right));
            Difference { kind: region.kind, left, right, left_text, right_text }
        });
        differences.collect()
    }
}

/// Where the reason or purpose of a text of one sentence starts, behind its statement.
fn reason_start(reading: &Reading) -> Option<usize> {
    let lexed = &reading.lexed;
    let count = lexed.tokens.len();
    if (0..count.saturating_sub(1)).any(|at| lexed.ends_sentence(at)) {
        return None;
    }
    (1..count).find(|at| {
        crate::extension::starts_reason(reading, *at)
            || is_request(reading, 0) && crate::extension::starts_purpose(reading, *at)
    })
}

/// Tells whether two names may be one: they start alike, or one has the initials of the other.
fn are_alike(a: &Part<'_>, b: &Part<'_>) -> bool {
    const START: usize = 3;
    let text =
        |part: &Part<'_>| part.reading.text[part.reading.bytes(part.range.clone())].to_lowercase();
    let initials = |text: &str| {
        text.split([' ', '.', '-']).filter_map(|word| word.chars().next()).collect::<String>()
    };
    let (one, other) = (text(a), text(b));
    let start = one.chars().zip(other.chars()).take_while(|(one, other)| one == other).count();
    let short = one.chars().count().min(other.chars().count());
    start >= START && start * 2 >= short
        || initials(&one) == other
        || initials(&other) == one
        || initials(&one) == initials(&other) && (one.contains('.') || other.contains('.'))
}

/// Tells whether one identifier is the other, cut short: `abc1234` of a commit.
fn is_prefix(a: &Part<'_>, b: &Part<'_>) -> bool {
    const HASH_MIN: usize = 7;
    let text = |part: &Part<'_>| {
        part.reading.text[part.reading.bytes(part.range.clone())].to_ascii_lowercase()
    };
    let (one, other) = (text(a), text(b));
    let hash =
        |text: &str| text.len() >= HASH_MIN && text.bytes().all(|byte| byte.is_ascii_hexdigit());
    hash(&one) && hash(&other) && (one.starts_with(&other) || other.starts_with(&one))
}

fn shown(text: &str) -> String {
    text[..text.floor_char_boundary(SHOWN_BYTES_MAX)].to_owned()
}

const fn kind_of(measure: Measure) -> DifferenceKind {
    match measure {
        Measure::Date | Measure::SlashedDate => DifferenceKind::Date,
        Measure::Clock | Measure::HalfClock => DifferenceKind::Time,
        Measure::Version => DifferenceKind::Version,
        Measure::Money(_) => DifferenceKind::Currency,
        Measure::Phone => DifferenceKind::Identifier,
        _ => DifferenceKind::Number,
    }
}

/// Tells whether a text without a token says less.
pub(crate) fn is_content(token: &Token, lexicon: &Lexicon) -> bool {
    let small = token.kind == Kind::Word && lexicon.roles(token.entry).has(Roles::FUNCTION);
    !matches!(token.kind, Kind::Symbol | Kind::Indent) && !small && !token.has(Flags::POSSESSIVE)
}

/// Tells whether a token only says that a state was there before: `still`, `anymore`, `any more`, `any longer`.
fn ends_state(lexed: &Lexed, at: usize) -> bool {
    let word = lexed.lower(at);
    matches!(word, "anymore" | "still")
        || word == "any" && (lexed.is(at + 1, "more") || lexed.is(at + 1, "longer"))
        || matches!(word, "more" | "longer") && at > 0 && lexed.is(at - 1, "any")
}

/// One side of a region.
struct Part<'a> {
    reading: &'a Reading,
    range: Range<usize>,
    /// Words that mean something and do not deny.
    content: Vec<usize>,
    /// Small words that are neither auxiliaries, articles nor negators.
    others: usize,
    hedges: bool,
    /// Words and phrases that deny.
    negations: usize,
}

/// A word or a phrase that is all of a part.
struct Single<'a> {
    entry: u32,
    text: &'a str,
}

impl<'a> Part<'a> {
    fn of(judge: &Judge<'a>, reading: &'a Reading, range: &Range<usize>) -> Self {
        let lexicon = judge.lexicon;
        let mut part = Self {
            reading,
            range: range.clone(),
            content: vec![],
            others: 0,
            hedges: false,
            negations: 0,
        };
        let mut next = range.start;
        for at in range.clone() {
            if at < next || ends_state(&reading.lexed, at) {
                continue;
            }
            if let Some(width) = reading.negator(at..range.end, lexicon) {
                part.negations += 1;
                next = at + width;
                continue;
            }
            let token = &reading.lexed.tokens[at];
            let roles = lexicon.roles(token.entry);
            part.hedges |= roles.has(Roles::DENIAL) && token.kind == Kind::Word;
            if judge.is_content(token) {
                part.content.push(at);
            } else if token.kind == Kind::Word {
                let helps = roles.has(Roles::AUXILIARY)
                    || token.marks.has(Marks::ARTICLE)
                    || matches!(reading.lexed.lower(at), "any" | "some" | "to" | "there");
                part.others += usize::from(!helps);
            }
        }
        part
    }

    /// Tells whether it starts the text with `we`, `I` or `you`.
    fn names_us(&self) -> bool {
        self.range.start == 0
            && !self.range.is_empty()
            && matches!(self.reading.lexed.lower(0), "we" | "i" | "you")
    }

    fn is_signs(&self) -> bool {
        self.range
            .clone()
            .all(|at| matches!(self.reading.lexed.tokens[at].kind, Kind::Symbol | Kind::Indent))
    }

    /// Tells whether it is made of articles and auxiliaries.
    fn is_light(&self) -> bool {
        self.content.is_empty() && self.others == 0 && self.negations == 0
    }

    fn is_short(&self) -> bool {
        self.content.len() <= VALUE_WORDS_MAX && self.others == 0
    }

    /// The one quantity that starts in it and covers its numbers.
    fn value(&self) -> Option<Quantity> {
        let mut found: Option<(usize, Quantity)> = None;
        let mut at = self.range.start;
        while at < self.range.end {
            match self.reading.span(at).quantity.filter(|quantity| quantity.measure != RATE) {
                Some(quantity) => {
                    if found.is_some() {
                        return None;
                    }
                    found = Some((at, quantity));
                    at += quantity.width as usize;
                }
                None => at += 1,
            }
        }
        // The number may be equal and its unit differ.
        let (_, quantity) = found?;
        Some(quantity)
    }

    /// Content of the part that its value does not cover.
    fn content_beside_value(&self) -> usize {
        let mut covered = self.range.start..self.range.start;
        self.content
            .iter()
            .filter(|at| {
                if let Some(quantity) = self.reading.span(**at).quantity {
                    covered = **at..**at + quantity.width as usize;
                }
                !covered.contains(at)
            })
            .count()
    }

    fn single(&self) -> Option<Single<'_>> {
        let lexed = &self.reading.lexed;
        let words: Vec<usize> = self
            .range
            .clone()
            .filter(|at| !matches!(lexed.tokens[*at].kind, Kind::Symbol))
            .collect();
        let (first, last) = (*words.first()?, *words.last()?);
        let span = self.reading.span(first);
        let all = |width: u32| first + width as usize == last + 1;
        match words[..] {
            [only]
                if lexed.tokens[only].kind == Kind::Word
                    || lexed.tokens[only].kind == Kind::Script =>
            {
                Some(Single { entry: lexed.tokens[only].entry, text: lexed.lower(only) })
            }
            _ if span.phrase != 0 && all(span.phrase_width) => {
                Some(Single { entry: span.phrase, text: "" })
            }
            // `is in progress`, `a red`: the small words around the one that counts.
            _ => match self.content[..] {
                [only] if self.others == 0 => {
                    Some(Single { entry: lexed.tokens[only].entry, text: lexed.lower(only) })
                }
                _ => None,
            },
        }
    }

    /// Returns the kind of the part.
    fn kind(&self) -> DifferenceKind {
        let lexed = &self.reading.lexed;
        let mut kind = DifferenceKind::Word;
        let mut names = true;
        for at in &self.content {
            let token = &lexed.tokens[*at];
            let quantity = self.reading.span(*at).quantity;
            let found = match token.kind {
                Kind::Locator => DifferenceKind::Locator,
                Kind::Code => quantity
                    .map_or(DifferenceKind::Identifier, |quantity| kind_of(quantity.measure)),
                Kind::Number => {
                    quantity.map_or(DifferenceKind::Number, |quantity| kind_of(quantity.measure))
                }
                Kind::Word if token.is_name() => DifferenceKind::Name,
                Kind::Word
                    if token.has(Flags::CAPITAL)
                        && !token.has(Flags::TITLED)
                        && token.entry == 0 =>
                {
                    DifferenceKind::Name
                }
                _ => DifferenceKind::Word,
            };
            names &= found != DifferenceKind::Word;
            kind = kind.min(found);
        }
        let values = self.content.iter().all(|at| {
            lexed.tokens[*at].kind != Kind::Word
                || lexed.tokens[*at].is_name()
                || self.reading.span(*at).quantity.is_some()
        });
        if self.content.is_empty() || !(names || kind.is_value() && values) {
            DifferenceKind::Word
        } else {
            kind
        }
    }
}
