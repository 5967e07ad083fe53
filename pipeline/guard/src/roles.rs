//! Roles: the same words in other places.

use super::lexicon::{Lexicon, Relation, Roles};
use super::matching::Matching;
use super::reading::{Class, Flags, Reading, Token};

/// So many runs of words are looked at.
const BLOCKS_MAX: usize = 128;

/// What stands beside a token: keys of the nearest content words or prepositions; 0 at a boundary.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Place {
    before: u64,
    after: u64,
    /// Tokens joined by `and`, `or` or commas share a list.
    list: u32,
    /// Whether the token can have a role: content words and pronouns.
    counts: bool,
    /// Whether it stands behind `by`.
    agent: bool,
    /// The content word right before it.
    follows: Option<usize>,
    /// The content word that a preposition of belonging ties it to: `error` in `the log of the error`.
    belongs: Option<usize>,
}

/// Matched tokens that stand in another place.
struct Moved {
    left: usize,
    right: usize,
    /// The last token of a run that stays together.
    last: (usize, usize),
    from: Place,
    to: Place,
}

/// Finds a token that stands in another place: `Alice manages Bob`, `from 8080 to 9090`; returns it in both texts.
///
/// Two words change places when each finds the other's neighbour beside it, or when both change sides of a third one.
/// Members of a list may do so, and what a passive text is about.
pub(super) fn displaced(
    left: &Reading,
    right: &Reading,
    matching: &Matching,
    lexicon: &Lexicon,
) -> Option<(usize, usize)> {
    let in_order = {
        let mut last = None;
        matching.pairs().all(|(_, right)| {
            let grows = last.is_none_or(|last| right > last);
            last = Some(right);
            grows
        })
    };
    if in_order {
        return None;
    }
    let (left_places, right_places) = (places(left, lexicon), places(right, lexicon));
    let mut blocks: Vec<Moved> = Vec::new();
    let moves =
        |(own, theirs): &(usize, usize)| left_places[*own].counts && right_places[*theirs].counts;
    for (own, theirs) in matching.pairs().filter(moves) {
        let (from, to) = (left_places[own], right_places[theirs]);
        match blocks.last_mut() {
            // Words that stay together move together: `the panda bear`.
            Some(block)
                if from.follows == Some(block.last.0) && to.follows == Some(block.last.1) =>
            {
                (block.from.after, block.to.after) = (from.after, to.after);
                block.last = (own, theirs);
            }
            _ => blocks.push(Moved { left: own, right: theirs, last: (own, theirs), from, to }),
        }
    }
    blocks.truncate(BLOCKS_MAX);
    let has_agent = |places: &[Place]| places.iter().any(|place| place.agent);
    let passive = has_agent(&left_places) != has_agent(&right_places);
    let exchange = blocks.iter().enumerate().find(|(at, first)| {
        let behind = &blocks[at + 1..];
        behind.iter().enumerate().any(|(between, second)| {
            let turns = passive && (first.turns_passive() || second.turns_passive());
            let is_pivot = |block: &Moved| block.is_pivot(first, second);
            !turns
                && !first.stays_listed_with(second)
                && !first.compounds_with(second)
                && (first.exchanges_with(second) || behind[..between].iter().any(is_pivot))
        })
    });
    exchange.map(|(_, block)| (block.left, block.right))
}

impl Moved {
    /// Tells whether both are members of one list in either text: these may change places.
    const fn stays_listed_with(&self, other: &Self) -> bool {
        self.from.list == other.from.list && self.to.list == other.to.list
    }

    /// Tells whether it stands behind `by` in one of the texts only: who does it there comes first here.
    const fn turns_passive(&self) -> bool {
        self.from.agent != self.to.agent
    }

    /// Tells whether both are one compound in one text and tied by `of` or `in` in the other: `the error log`.
    fn compounds_with(&self, second: &Self) -> bool {
        let compound =
            second.from.follows == Some(self.last.0) && self.to.belongs == Some(second.last.1);
        let tied =
            second.from.belongs == Some(self.last.0) && self.to.follows == Some(second.last.1);
        compound || tied
    }

    /// Tells whether both take each other's place.
    fn exchanges_with(&self, other: &Self) -> bool {
        self.has_other_neighbors()
            && other.has_other_neighbors()
            && self.from.meets(other.to)
            && other.from.meets(self.to)
    }

    /// Tells whether it stays between two that change sides: `Alice manages Bob`.
    const fn is_pivot(&self, first: &Self, second: &Self) -> bool {
        second.right < self.right && self.right < first.right
    }

    /// Tells whether what stood beside it does so no more; the end of a sentence is nobody's neighbour.
    const fn has_other_neighbors(&self) -> bool {
        let (from, to) = (self.from, self.to);
        from.before != to.before && (from.after != to.after || from.after == 0)
    }
}

impl Place {
    /// Tells whether both have a neighbour in common.
    fn meets(self, other: Self) -> bool {
        (self.before == other.before && self.before != 0)
            || (self.after == other.after && self.after != 0)
    }
}

fn places(reading: &Reading, lexicon: &Lexicon) -> Vec<Place> {
    let mut places = vec![Place::default(); reading.tokens.len()];
    let mut last: Option<usize> = None;
    let mut content: Option<usize> = None;
    let mut agent = false;
    let mut before = 0;
    let mut list = 0;
    let mut joined = false;
    let mut owner = None;
    let lone_instant = lone_instant(reading);
    for (at, token) in reading.tokens.iter().enumerate() {
        let roles = lexicon.roles_of(token);
        let preposition = token.class == Class::Function && roles.has(Roles::PREPOSITION);
        let pronoun = token.flags.has(Flags::LIGHT) && roles.has(Roles::SUBJECT);
        joined |= token.class == Class::Comma || roles.has(Roles::COORDINATOR);
        if token.class == Class::Break {
            (last, before, joined, content, owner) = (None, 0, false, None, None);
            list += 1;
        } else if token.is_content() || preposition || pronoun {
            let key = token.key ^ u64::from(token.is_negated());
            if let Some(last) = last.take() {
                places[last].after = key;
            }
            list += u32::from(!joined);
            let follows = content.filter(|_| !joined);
            let counts = !preposition && lone_instant != Some(at);
            let belongs = owner.take();
            places[at] = Place { before, after: 0, list, counts, agent, follows, belongs };
            let is = |word: &str| preposition && reading.text_of(token).eq_ignore_ascii_case(word);
            agent = is("by");
            owner = follows.filter(|_| is("of") || is("in"));
            content = (!preposition).then_some(at);
            (before, joined) = (key, false);
            last = (!preposition).then_some(at);
        }
    }
    places
}

/// Returns the only date, year or time of a text: it may stand anywhere, `since 2006 it runs`.
fn lone_instant(reading: &Reading) -> Option<usize> {
    let is_instant = |token: &Token| matches!(token.class, Class::Date | Class::Year | Class::Time);
    let mut instants = (0..reading.tokens.len()).filter(|at| is_instant(&reading.tokens[*at]));
    instants.next().filter(|_| instants.next().is_none())
}

/// How far around a word its opposite in the same text is looked for, in tokens.
const NEAR_TOKENS: usize = 64;

/// How far from a negation the word that it denies is looked for, in tokens.
const HEAD_TOKENS: usize = 32;

/// Returns the first content word under each negation, sorted; 0 where the clause ends before one.
pub(super) fn negated_heads(reading: &Reading, lexicon: &Lexicon) -> Vec<u64> {
    let ends = |token: &Token| {
        matches!(token.class, Class::Comma | Class::Break)
            || lexicon.roles_of(token).has(Roles::COORDINATOR.with(Roles::CLAUSE))
    };
    let negates = |token: &Token| {
        token.class == Class::Negator || lexicon.roles_of(token).has(Roles::NEGATIVE_VERB)
    };
    let head = |at: usize| {
        let mut clause =
            reading.tokens[at + 1..].iter().take(HEAD_TOKENS).take_while(|token| !ends(token));
        clause.find(|token| token.is_content()).map_or(0, |token| token.key)
    };
    let at = (0..reading.tokens.len()).filter(|at| negates(&reading.tokens[*at]));
    let mut heads: Vec<u64> = at.map(head).collect();
    heads.sort_unstable();
    heads
}

/// Tells whether a text has, before this token, a word that it is the opposite of: `enabled, then disabled`.
pub(super) fn opposes_own(lexicon: &Lexicon, reading: &Reading, at: usize) -> bool {
    let Some(entry) = lexicon.entry_of(&reading.tokens[at]) else { return false };
    let near = at.saturating_sub(NEAR_TOKENS)..(at + NEAR_TOKENS).min(reading.tokens.len());
    near.filter(|other| reading.tokens[*other].is_content())
        .filter_map(|other| lexicon.entry_of(&reading.tokens[other]))
        .any(|other| entry.conflict(other) == Some(Relation::Opposite))
}

/// Tells whether two tokens follow or precede the same word.
pub(super) fn same_place(left: (&Reading, usize), right: (&Reading, usize)) -> bool {
    let beside = |(reading, at): (&Reading, usize), step: isize| {
        let at = at.checked_add_signed(step)?;
        reading.tokens.get(at).map(|token| token.key).filter(|key| *key != 0)
    };
    [-1, 1]
        .into_iter()
        .any(|step| beside(left, step).is_some_and(|key| beside(right, step) == Some(key)))
}

/// How far around a word the end of its list is looked for, in tokens.
const LIST_TOKENS: usize = 6;

/// Tells whether a word that only one text has changes what the other says, instead of adding to it: where a text speaks
/// of all there is (`only`, `in total`), and where names or numbers make one (`26 miles and 385 yards`).
pub(super) fn closes(reading: &Reading, at: usize, lexicon: &Lexicon) -> bool {
    let tokens = &reading.tokens;
    if reading.exhaustive {
        return true;
    }
    let alike = |other: &Token| match tokens[at].class {
        Class::Word => {
            tokens[at].flags.has(Flags::NAME)
                && other.class == Class::Word
                && other.flags.has(Flags::NAME)
        }
        Class::Number | Class::Currency => matches!(other.class, Class::Number | Class::Currency),
        _ => false,
    };
    let joins = |side: &mut dyn Iterator<Item = &Token>| {
        let mut joined = false;
        side.take(LIST_TOKENS).take_while(|token| token.class != Class::Break).any(|token| {
            let found = joined && alike(token);
            joined |= lexicon.roles_of(token).has(Roles::COORDINATOR);
            found
        })
    };
    joins(&mut tokens[..at].iter().rev()) || joins(&mut tokens[at + 1..].iter())
}

/// Tells whether the first words name nothing that another text could mean as well.
pub(super) fn is_indefinite(reading: &Reading, lexicon: &Lexicon) -> bool {
    reading.tokens.first().is_some_and(|token| {
        token.class == Class::Number || lexicon.roles_of(token).has(Roles::INDEFINITE)
    })
}
