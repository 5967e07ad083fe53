//! Compares the statements of a written text with those of its sources, word by word.
//!
//! A text counts as supported when each of its sentences splits, at commas, conjunctions and prepositions, into segments of which
//! each stands in one sentence of a source: the same words in the same order, in the same form, about the same subject. Words that
//! turn a statement (negation, quantifier, modal, tense, condition, exception, comparison, order) may be neither added nor left
//! out, and a list keeps its items. Nothing here knows a synonym: a text in other words is refused, and a person decides.

use std::collections::BTreeSet;

/// Longer sentences are not compared.
const SENTENCE_WORDS_MAX: usize = 200;
/// Words of a prepositional phrase in the middle of a source that a text may leave out.
const SKIPPED_WORDS_MAX: usize = 4;
/// Words before a segment that must agree with its source.
const CONTEXT_WORDS_MIN: usize = 3;

/// Words that turn a statement.
const MARKERS: &str = "
not never no none nobody nothing neither nor without hardly barely rarely seldom longer instead rather
all every each some any most many few several both half almost nearly everyone everybody everything someone somebody something
anyone anybody anything only just solely merely exclusively always usually often sometimes occasionally
probably perhaps maybe possibly likely unlikely apparently presumably supposedly reportedly allegedly certainly definitely surely
seem seems seemed appear appears appeared think thinks thought believe believes believed
may might can could shall should must will would ought need needs needed plan plans planned intend intends intended want wants
wanted hope hopes hoped wish wishes try tries tried consider considers considered propose proposes proposed suggest suggests
suggested expect expects expected going used supposed
was were had did
if unless when whenever once provided assuming whether otherwise else until till
before after since then later earlier afterwards formerly previously
except excluding apart besides unlike other another
more less fewer than least or either
nicht kein keine keinen keiner keinem nie niemals nur alle einige manche wenn falls ausser außer ohne oder vor nach
ne pas jamais aucun seulement tous si sauf sans ou
nunca jamás ningún ninguna solo sólo todos algunos si excepto sin o";
/// Prepositions that tell the parties of an act apart, and where from or to.
const PREPOSITIONS: &str = "
to from into onto by for with over under above below within against between through toward towards behind off out up down via
per along across";
/// Prepositions that another one of them may replace.
const PLACES: &str = "in on at of as about during";
/// Markers under which a statement says more where a phrase is left out.
const GENERAL: &str = "
not never no none nobody nothing neither nor hardly rarely seldom all every each any everyone everybody everything anyone
anybody anything only just most few less fewer nicht kein keine nie alle nur";
/// Words that carry no statement of their own.
const FUNCTION: &str = "
a an the this that these those there here it its he she his her hers him they them their i me my we us our you your
is are am be been being has have having do does and also too so please very really both's gets get
who which where whose whom because but while
der die das den dem des ein eine einen einem einer ist sind hat haben wird von im am zum zur";
const DETERMINERS: &str =
    "a an the this that these those its his her their my our your every each all some any no both";
const COORDINATORS: &str = "and or but nor und oder et ou y";
const RELATIVES: &str = "who which whose whom where because so while";
const PRONOUNS: &str = "it he she they we i you this that";
const MODALS: &str = "to may might can could shall should must will would not never i we you they";
/// Abbreviations that end with a full stop inside a sentence.
const ABBREVIATIONS: &str = "dr mr mrs ms prof st e.g i.e approx vs no etc";
/// Other spellings of one word.
const SPELLINGS: &str = "
min:minute mins:minute req:request reqs:request sec:second secs:second hr:hour hrs:hour repo:repository repos:repository
db:database eur:euro €:euro usd:dollar $:dollar percent:% k8s:kubernetes docs:documentation config:configuration one:1
two:2 three:3 four:4 five:5 six:6 seven:7 eight:8 nine:9 ten:10 eleven:11 twelve:12 app:application apps:application
prod:production info:information admin:administrator ms:millisecond kg:kilogram";
/// Past forms that no ending shows.
const IRREGULAR: &str = "
ran:run went:go sold:sell bought:buy led:lead lent:lend drank:drink drunk:drink wrote:write written:write took:take taken:take
gave:give given:give made:make kept:keep lost:lose met:meet paid:pay said:say sent:send spoke:speak told:tell chose:choose
chosen:choose began:begin begun:begin built:build became:become came:come drove:drive ate:eat eaten:eat found:find flew:fly
got:get grew:grow held:hold heard:hear knew:know known:know saw:see seen:see slept:sleep sat:sit stood:stand taught:teach
understood:understand won:win spent:spend brought:bring caught:catch fell:fall forgot:forget hung:hang rode:ride rose:rise
sang:sing shown:show swam:swim threw:throw wore:wear worn:wear broke:break broken:break done:do left:leave felt:feel";
/// Verbs of which one may stand for another.
const SAME_VERBS: [&str; 16] = [
    "like love enjoy",
    "use utilise utilize employ",
    "buy purchase acquire",
    "start begin commence",
    "finish complete",
    "live reside dwell",
    "need require",
    "fix repair mend",
    "remove delete",
    "show display",
    "choose select pick",
    "get receive obtain",
    "help assist",
    "speak talk",
    "call phone ring",
    "happen occur",
];

fn is_one_of(list: &str, word: &str) -> bool {
    list.split_ascii_whitespace().any(|known| known == word)
}

/// Returns the second word of the pair that begins with a word.
fn paired<'t>(list: &'t str, word: &str) -> Option<&'t str> {
    let mut pairs = list.split_ascii_whitespace().filter_map(|pair| pair.split_once(':'));
    pairs.find(|(first, _)| *first == word).map(|(_, second)| second)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Content,
    Marker,
    Preposition,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Base,
    Past,
    Progressive,
}

/// The boundary in front of a word.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Joint {
    #[default]
    None,
    Preposition,
    /// "of": a phrase that stays with the word before it.
    Of,
    Comma,
    /// A colon: a comma that no item of a list stands before.
    Colon,
    Coordinator,
    Relative,
}

impl Joint {
    /// Another part of a list, or another statement, may follow.
    const fn is_coordination(self) -> bool {
        matches!(self, Self::Comma | Self::Colon | Self::Coordinator)
    }
}

#[derive(Debug, Clone)]
struct Word {
    key: String,
    kind: Kind,
    form: Form,
    joint: Joint,
    has_determiner: bool,
    /// A word without a statement of its own stands directly before it.
    follows_function: bool,
    /// Lower case, as it is written.
    written: String,
    /// The word before it, also one without a statement of its own.
    previous: String,
}

impl Word {
    fn is_same(&self, other: &Self) -> bool {
        self.key == other.key && self.kind == other.kind && self.form == other.form
    }
}

/// The statements of a text.
#[derive(Debug, Clone)]
pub(super) struct Wording {
    sentences: Vec<Vec<Word>>,
}

impl Wording {
    /// Reads a text. Linear in its length.
    pub(super) fn of(text: &str) -> Self {
        let mut sentences: Vec<Vec<Word>> = Vec::new();
        for part in sentences_of(text) {
            let (mut words, starts_with_pronoun) = words_of(part);
            match sentences.last_mut() {
                // "Anna is a vegetarian. She does not drink": one statement about Anna.
                Some(last) if starts_with_pronoun && !words.is_empty() => {
                    words[0].joint = Joint::Coordinator;
                    last.append(&mut words);
                }
                _ if words.is_empty() => {}
                _ => sentences.push(words),
            }
        }
        Self { sentences }
    }

    /// Returns a sentence that no source says; `None` where the sources say them all.
    pub(super) fn unsupported(&self, sources: &[Self]) -> Option<String> {
        let sources: Vec<Vec<Word>> = sources
            .iter()
            .flat_map(|source| &source.sentences)
            .filter(|sentence| sentence.len() <= SENTENCE_WORDS_MAX)
            .flat_map(|sentence| [Some(sentence.clone()), behind(sentence)])
            .flatten()
            .collect();
        let is_lacking = |sentence: &&Vec<Word>| !is_supported(sentence, &sources);
        self.sentences.iter().find(is_lacking).map(|sentence| shown(sentence))
    }

    /// Returns a word that turns a statement, or an item of a list, that a text lacks.
    pub(super) fn lost_in(&self, text: &Self) -> Option<String> {
        let whole: Vec<&Word> = text.sentences.iter().flatten().collect();
        let has = |word: &Word| whole.iter().any(|other| other.key == word.key);
        self.sentences.iter().find_map(|sentence| {
            let marker = sentence.iter().enumerate().find(|(at, word)| {
                word.kind == Kind::Marker && !stands_beside(sentence, *at, &text.sentences)
            });
            let items = || lists(sentence).into_iter().flatten();
            let item = || items().map(|at| &sentence[at]).find(|word| !has(word));
            marker.map(|(_, word)| word).or_else(item).map(|word| word.written.clone())
        })
    }

    /// Returns the words in which two texts differ that nobody proved to say the same: other words that turn a statement, items of
    /// a list, the same words in another order, or two verbs in one place.
    pub(super) fn difference(&self, other: &Self) -> Option<(String, String)> {
        let left: Vec<&Word> = self.sentences.iter().flatten().collect();
        let right: Vec<&Word> = other.sentences.iter().flatten().collect();
        turned(&left, &right)
            .or_else(|| lost_item(self, &right).map(|word| (word, String::new())))
            .or_else(|| lost_item(other, &left).map(|word| (String::new(), word)))
            .or_else(|| reordered(self, other))
            .or_else(|| open_verbs(&left, &right))
    }
}

/// Markers that only one of two texts has.
fn turned(left: &[&Word], right: &[&Word]) -> Option<(String, String)> {
    let markers = |words: &[&Word]| -> Vec<String> {
        let markers = words.iter().filter(|word| word.kind == Kind::Marker);
        let mut keys: Vec<String> = markers.map(|word| word.key.clone()).collect();
        keys.sort_unstable();
        keys
    };
    let (own, theirs) = (markers(left), markers(right));
    let lacking = |of: &[String], from: &[String]| -> String {
        let mut from = from.to_vec();
        let lacking = of.iter().find(|key| {
            let at = from.iter().position(|other| other == *key);
            at.is_none_or(|at| {
                from.remove(at);
                false
            })
        });
        lacking.cloned().unwrap_or_default()
    };
    (own != theirs).then(|| (lacking(&own, &theirs), lacking(&theirs, &own)))
}

fn lost_item(text: &Wording, other: &[&Word]) -> Option<String> {
    text.sentences.iter().find_map(|sentence| {
        let mut items = lists(sentence).into_iter().filter(|list| list.len() > 2).flatten();
        let lost = items.find(|at| !other.iter().any(|word| word.key == sentence[*at].key));
        lost.map(|at| sentence[at].written.clone())
    })
}

/// The same words in another order, where no phrase of place or time only moved.
fn reordered(left: &Wording, right: &Wording) -> Option<(String, String)> {
    let keys = |sentences: &[Vec<Word>]| -> Vec<String> {
        sentences.iter().flatten().map(|word| word.key.clone()).collect()
    };
    let moved = |text: &Wording| -> Vec<Vec<Word>> {
        text.sentences.iter().map(|one| behind(one).unwrap_or_else(|| one.clone())).collect()
    };
    let sorted = |mut keys: Vec<String>| {
        keys.sort_unstable();
        keys
    };
    let (own, theirs) = (keys(&left.sentences), keys(&right.sentences));
    let is_reordered = sorted(own.clone()) == sorted(theirs.clone())
        && own != theirs
        && keys(&moved(left)) != keys(&moved(right))
        && lists_only_differ(left, right).is_none();
    is_reordered.then(|| (own.join(" "), theirs.join(" ")))
}

/// The items of one list in another order say the same.
fn lists_only_differ(left: &Wording, right: &Wording) -> Option<()> {
    let ([left], [right]) = (&left.sentences[..], &right.sentences[..]) else { return None };
    let items: BTreeSet<usize> = lists(left).into_iter().flatten().collect();
    let differs = |at: &usize| left[*at].key != right[*at].key;
    let is_plain = !left.iter().any(|word| word.key == "then" || word.key == "respectively");
    (left.len() == right.len()
        && is_plain
        && (0..left.len()).filter(differs).all(|at| items.contains(&at)))
    .then_some(())
}

/// Two verbs in one place of which nobody knows that they mean the same.
fn open_verbs(left: &[&Word], right: &[&Word]) -> Option<(String, String)> {
    let first = left.iter().zip(right).position(|(a, b)| !a.is_same(b))?;
    let (own, theirs) = (left[first], right[first]);
    let rest_agrees = left[first + 1..].iter().zip(&right[first + 1..]).all(|(a, b)| a.is_same(b));
    let (own_next, their_next) = (left.get(first + 1), right.get(first + 1));
    let continues = match (own_next, their_next) {
        (Some(a), Some(b)) => a.is_same(b),
        (None, None) => true,
        _ => rest_agrees,
    };
    if !continues || own.kind != Kind::Content || theirs.kind != Kind::Content {
        return None;
    }
    let is_verb = |word: &Word, next: Option<&&Word>| {
        let object =
            next.is_some_and(|next| next.has_determiner || next.joint == Joint::Preposition);
        let third =
            word.written.ends_with('s') && !word.has_determiner && word.joint == Joint::None;
        let imperative = first == 0 && !word.has_determiner && word.previous.is_empty();
        word.form != Form::Base
            || is_one_of(MODALS, &word.previous)
            || (object && (third && first > 0 || imperative))
    };
    let verbs = is_verb(own, own_next) && is_verb(theirs, their_next) && own.form == theirs.form;
    let same = SAME_VERBS.iter().any(|group| {
        let stems: Vec<String> = group.split(' ').map(|verb| stem(verb).0).collect();
        stems.contains(&own.key) && stems.contains(&theirs.key)
    });
    (verbs && !same).then(|| (own.written.clone(), theirs.written.clone()))
}

/// Tells whether a marker stands beside the same word in another text.
fn stands_beside(sentence: &[Word], at: usize, others: &[Vec<Word>]) -> bool {
    let neighbours = |words: &[Word], at: usize| {
        let before = at.checked_sub(1).map(|at| words[at].key.clone());
        (before, words.get(at + 1).map(|word| word.key.clone()))
    };
    let (before, after) = neighbours(sentence, at);
    others.iter().any(|other| {
        (0..other.len()).filter(|place| other[*place].key == sentence[at].key).any(|place| {
            let found = neighbours(other, place);
            found.0 == before || found.1 == after
        })
    })
}

/// Tells whether a marker of a source, between the same words that are no markers, stands in a sentence.
fn keeps_marker(source: &[Word], at: usize, sentence: &[Word]) -> bool {
    let before = |words: &[Word], at: usize| {
        words[..at].iter().rev().find(|word| word.kind != Kind::Marker).map(|word| word.key.clone())
    };
    let after = |words: &[Word], at: usize| {
        words[at + 1..].iter().find(|word| word.kind != Kind::Marker).map(|word| word.key.clone())
    };
    let (previous, next) = (before(source, at), after(source, at));
    (0..sentence.len()).filter(|place| sentence[*place].is_same(&source[at])).any(|place| {
        (previous.is_none() || before(sentence, place) == previous)
            && after(sentence, place) == next
    })
}

/// Tells whether a sentence splits into segments that sources say, or holds the phrases of one source in another order.
fn is_supported(sentence: &[Word], sources: &[Vec<Word>]) -> bool {
    if sentence.len() > SENTENCE_WORDS_MAX {
        return false;
    }
    let fronted = behind(sentence);
    [Some(sentence), fronted.as_deref()].into_iter().flatten().any(|sentence| {
        splits(sentence, sources) || sources.iter().any(|source| is_rearranged(sentence, source))
    })
}

/// Tells whether a sentence splits into segments that sources say.
fn splits(sentence: &[Word], sources: &[Vec<Word>]) -> bool {
    let mut reached = vec![false; sentence.len() + 1];
    reached[0] = true;
    for start in 0..sentence.len() {
        let is_start = start == 0 || sentence[start].joint != Joint::None;
        if !reached[start] || !is_start {
            continue;
        }
        for source in sources {
            for first in (0..source.len()).filter(|at| source[*at].is_same(&sentence[start])) {
                if attaches(sentence, start, source, first) {
                    extend(sentence, start, source, first, &mut reached);
                }
            }
        }
    }
    reached[sentence.len()]
}

/// Tells whether one statement has the phrases of another one in another order, and nothing that speaks of the words after it.
fn is_rearranged(sentence: &[Word], source: &[Word]) -> bool {
    let phrases = |words: &[Word]| -> Vec<Vec<String>> {
        let mut phrases: Vec<Vec<String>> = Vec::new();
        for word in words {
            match phrases.last_mut() {
                Some(last) if matches!(word.joint, Joint::None | Joint::Of) => {
                    last.push(word.key.clone())
                }
                _ => phrases.push(vec![word.key.clone()]),
            }
        }
        phrases.sort_unstable();
        phrases
    };
    sentence.len() == source.len()
        && is_one_statement(sentence, source)
        && !source.iter().any(focuses)
        && phrases(sentence) == phrases(source)
}

/// A word that refers to its neighbours by its place.
fn focuses(word: &Word) -> bool {
    let is_time = matches!(&*word.key, "every" | "each");
    word.kind == Kind::Marker
        && !is_time
        && (is_one_of(GENERAL, &word.key) || word.joint != Joint::None)
}

/// Marks where segments may end that begin at a word of a sentence and a word of a source.
fn extend(sentence: &[Word], start: usize, source: &[Word], first: usize, reached: &mut [bool]) {
    let mut places = BTreeSet::from([first]);
    for end in start + 1..=sentence.len() {
        let is_end = end == sentence.len() || sentence[end].joint != Joint::None;
        if is_end && places.iter().any(|last| may_end(sentence, start, source, first, *last)) {
            reached[end] = true;
        }
        let Some(next) = sentence.get(end) else { return };
        let follows = |place: usize| {
            places.range(..place).any(|last| *last + 1 == place || may_skip(source, *last, place))
        };
        places = (first + 1..source.len())
            .filter(|place| source[*place].is_same(next) && follows(*place))
            .collect();
        if places.is_empty() {
            return;
        }
    }
}

/// Tells whether a text may leave out the words between two words of a source: one phrase that turns nothing.
fn may_skip(source: &[Word], last: usize, next: usize) -> bool {
    let run = &source[last + 1..next];
    let is_phrase = match run[0].joint {
        Joint::Preposition | Joint::Of => {
            let inner = [Joint::None, Joint::Preposition, Joint::Of];
            run.len() <= SKIPPED_WORDS_MAX && run.iter().all(|word| inner.contains(&word.joint))
        }
        Joint::Relative => source[next].joint == Joint::Comma,
        Joint::Comma => run[0].has_determiner && source[next].joint == Joint::Comma,
        Joint::None | Joint::Colon | Joint::Coordinator => false,
    };
    is_phrase
        && source[next].joint != Joint::None
        && source[last].kind != Kind::Marker
        && run.iter().all(|word| word.kind != Kind::Marker)
}

/// Tells whether a segment may end at a word of its source: the rest of the source may be left out.
fn may_end(sentence: &[Word], start: usize, source: &[Word], first: usize, last: usize) -> bool {
    let rest = &source[last + 1..];
    let ends = rest.first().is_none_or(|next| next.joint != Joint::None);
    let governs = !rest.is_empty() && source[last].kind != Kind::Content;
    let has = |at: usize| sentence.iter().any(|word| word.key == source[at].key);
    let lists_whole = lists(source).into_iter().all(|list| {
        let is_used = list.iter().any(|at| (first..=last).contains(at));
        !is_used || list.into_iter().all(has)
    });
    // "Do not order nuts" says more than "Do not order nuts for Kai".
    let is_general = source.iter().any(|word| is_one_of(GENERAL, &word.key));
    let context = common_suffix(&source[..first], &sentence[..start]);
    let mut outside = (0..first - context).chain(last + 1..source.len());
    let mut source_rest = source[..first].iter().chain(rest).peekable();
    for word in sentence {
        source_rest.next_if(|next| next.is_same(word));
    }
    let is_moved = source_rest.peek().is_none()
        && start > 0
        && sentence[start].joint == Joint::Preposition
        && is_one_statement(sentence, source)
        && !source.iter().any(focuses);
    (ends || is_moved)
        && !governs
        && lists_whole
        && (!is_general || (0..source.len()).all(has))
        && (is_moved
            || outside
                .all(|at| source[at].kind != Kind::Marker || keeps_marker(source, at, sentence)))
}

/// How many words at the end of two texts are the same.
fn common_suffix(one: &[Word], other: &[Word]) -> usize {
    one.iter().rev().zip(other.iter().rev()).take_while(|(a, b)| a.is_same(b)).count()
}

/// Tells whether a segment has the subject of its source: the words of the source before it are the ones of the sentence.
fn attaches(sentence: &[Word], start: usize, source: &[Word], first: usize) -> bool {
    let (lead, before) = (&source[..first], &sentence[..start]);
    let stands_before = |word: &Word| before.iter().any(|other| other.is_same(word));
    if start == 0 {
        let is_adjunct = lead.first().is_some_and(|word| word.joint == Joint::Preposition)
            && lead.iter().all(|word| word.kind != Kind::Marker);
        return lead.is_empty()
            || is_adjunct && lead.len() <= SKIPPED_WORDS_MAX && begins_clause(source, first);
    }
    if lead.is_empty() {
        let contents = source.iter().filter(|word| word.kind == Kind::Content).count();
        return contents > 1 && has_segment_of_two(sentence, start);
    }
    let common =
        lead.iter().rev().zip(before.iter().rev()).take_while(|(a, b)| a.is_same(b)).count();
    if common == lead.len() || common >= CONTEXT_WORDS_MIN {
        return true;
    }
    let follows = lead.iter().all(stands_before);
    let prefix = lead.iter().zip(before).take_while(|(a, b)| a.is_same(b)).count();
    // The subject ends before a verb: "the API" is not "the API gateway".
    let is_subject = |length: usize| (1..=length).any(|at| before.get(at).is_none_or(is_verbal));
    let same_words = lead.len() <= before.len()
        && before[..lead.len()].iter().all(|word| lead.iter().any(|other| other.is_same(word)))
        && before.get(lead.len()).is_none_or(is_verbal);
    let has_subject = follows && (prefix > 0 && is_subject(prefix) || same_words);
    match sentence[start].joint {
        Joint::Comma | Joint::Colon | Joint::Coordinator => has_subject,
        Joint::Relative => {
            let last = before.last().is_some_and(|last| lead.iter().any(|word| word.is_same(last)));
            follows && last || is_one_statement(sentence, source)
        }
        Joint::None | Joint::Of => false,
        Joint::Preposition => is_one_statement(sentence, source),
    }
}

/// A phrase may stand anywhere in a sentence that holds all of its source and is one statement.
fn is_one_statement(sentence: &[Word], source: &[Word]) -> bool {
    let is_simple = |words: &[Word]| words.iter().skip(1).all(|word| !word.joint.is_coordination());
    let holds = |word: &Word| sentence.iter().filter(|other| other.is_same(word)).count() == 1;
    is_simple(sentence) && is_simple(source) && source.iter().all(holds)
}

fn has_segment_of_two(sentence: &[Word], start: usize) -> bool {
    let rest = sentence[start + 1..].iter();
    rest.take_while(|word| !word.joint.is_coordination()).count() > 0
}

fn is_verbal(word: &Word) -> bool {
    word.follows_function
        || word.form != Form::Base
        || word.kind != Kind::Content
        || word.written.ends_with('s')
}

fn begins_clause(source: &[Word], at: usize) -> bool {
    let word = &source[at];
    word.joint == Joint::Comma
        || word.has_determiner
        || word.written.chars().all(char::is_alphabetic)
}

/// A sentence with the phrase of place or time at its front moved behind it; `None` where it has none.
fn behind(sentence: &[Word]) -> Option<Vec<Word>> {
    let first = sentence.first()?;
    let is_time = matches!(&*first.key, "every" | "each");
    let is_phrase = is_time || first.joint == Joint::Preposition && first.kind == Kind::Content;
    let end = (1 + usize::from(is_time)..sentence.len().min(SKIPPED_WORDS_MAX + 1))
        .find(|at| sentence[*at].joint == Joint::Comma || sentence[*at].has_determiner)?;
    if !is_phrase {
        return None;
    }
    let mut moved = sentence[end..].to_vec();
    moved[0].joint = Joint::None;
    let mut front = sentence[..end].to_vec();
    front[0].joint = Joint::Preposition;
    moved.append(&mut front);
    Some(moved)
}

/// The lists of a sentence: places of the words of two or more coordinated items.
fn lists(sentence: &[Word]) -> Vec<Vec<usize>> {
    let parts = |word: &Word| word.joint.is_coordination();
    let starts: Vec<usize> = (1..sentence.len()).filter(|at| parts(&sentence[*at])).collect();
    let mut lists: Vec<Vec<usize>> = Vec::new();
    let mut last_end = None;
    for (number, &start) in starts.iter().enumerate() {
        let is_last = number + 1 == starts.len() || sentence[start].joint == Joint::Coordinator;
        let bound = starts.get(number + 1).copied().unwrap_or(sentence.len());
        let cut = (start + 1..bound)
            .find(|at| matches!(sentence[*at].joint, Joint::Preposition | Joint::Of));
        let end = if is_last { cut.unwrap_or(bound) } else { bound };
        let is_item = end - start <= 3 && sentence[start].kind != Kind::Marker;
        if !is_item {
            last_end = None;
            continue;
        }
        match lists.last_mut() {
            Some(list) if last_end == Some(start) => list.extend(start..end),
            _ if sentence[start].joint == Joint::Colon => lists.push((start..end).collect()),
            _ => lists.push((start - 1..end).collect()),
        }
        last_end = Some(end);
    }
    let count = |list: &[usize]| list.iter().filter(|at| parts(&sentence[**at])).count();
    lists.retain(|list| count(list) > 1 || has_coordinator(sentence, list));
    lists
}

fn has_coordinator(sentence: &[Word], list: &[usize]) -> bool {
    list.iter().any(|at| sentence[*at].joint == Joint::Coordinator)
}

fn shown(sentence: &[Word]) -> String {
    let words: Vec<&str> = sentence.iter().map(|word| &*word.written).collect();
    words.join(" ")
}

/// The sentences of a text.
fn sentences_of(text: &str) -> Vec<&str> {
    let mut found = Vec::new();
    let mut start = 0;
    for (at, mark) in text.char_indices() {
        let after = &text[at + mark.len_utf8()..];
        let ends_word = after.is_empty() || after.starts_with(char::is_whitespace);
        let before = text[start..at].rsplit(char::is_whitespace).next().unwrap_or_default();
        let is_end = match mark {
            '\n' | ';' | '。' | '；' | '！' | '？' => true,
            '!' | '?' => ends_word,
            '.' => ends_word && !is_one_of(ABBREVIATIONS, &before.to_lowercase()),
            _ => false,
        };
        if is_end {
            found.push(&text[start..at]);
            start = at + mark.len_utf8();
        }
    }
    found.push(&text[start..]);
    found.retain(|part| !part.trim().is_empty());
    found
}

/// The words of a sentence that state something, and whether it begins with a pronoun.
fn words_of(sentence: &str) -> (Vec<Word>, bool) {
    let mut reader = Reader::default();
    for part in sentence.split_whitespace() {
        let (opened, rest) = (part.starts_with(['(', '[', '–', '—']) || part == "-", part);
        let core = rest.trim_matches(|c: char| "()[]{}\"'`“”‘’«».,:!?;*–—".contains(c));
        if opened {
            reader.joint = Joint::Comma;
        }
        if !core.is_empty() && core != "-" {
            for piece in pieces(core) {
                reader.take(&piece);
            }
        }
        reader.joint = match () {
            () if rest.ends_with([',', ')', ']', '–', '—', '，']) => Joint::Comma,
            () if rest.ends_with([':', '：']) => Joint::Colon,
            () => reader.joint,
        };
    }
    (reader.words, reader.starts_with_pronoun)
}

#[derive(Default)]
struct Reader {
    words: Vec<Word>,
    joint: Joint,
    has_determiner: bool,
    follows_function: bool,
    previous: String,
    starts_with_pronoun: bool,
}

impl Reader {
    fn take(&mut self, piece: &str) {
        let lower = piece.to_lowercase();
        let is_month = lower == "may"
            && (piece.starts_with('M') && !self.words.is_empty()
                || is_one_of("in since until by of last next", &self.previous));
        let is_exception = lower == "but"
            && is_one_of(
                "all every everyone everybody everything nothing no none nobody anything anyone",
                &self.previous,
            );
        let is_few = lower == "few" && self.previous == "a";
        if self.previous.is_empty() {
            self.starts_with_pronoun = is_one_of(PRONOUNS, &lower);
        }
        let is_marker = !is_month && (is_one_of(MARKERS, &lower) || is_exception);
        let is_preposition = is_one_of(PREPOSITIONS, &lower);
        if is_one_of(COORDINATORS, &lower) && !is_exception {
            self.joint = Joint::Coordinator;
        } else if is_one_of(RELATIVES, &lower) {
            self.joint = Joint::Relative;
        } else if lower == "of" && self.joint == Joint::None {
            self.joint = Joint::Of;
        } else if (is_preposition
            || is_one_of(PLACES, &lower)
            || is_one_of(
                "every each before after since until till without except excluding besides if unless when whenever once",
                &lower,
            ))
            && self.joint == Joint::None
        {
            self.joint = Joint::Preposition;
        }
        let is_function = !is_marker
            && !is_preposition
            && (is_one_of(FUNCTION, &lower) || is_one_of(PLACES, &lower));
        if is_one_of(DETERMINERS, &lower) {
            self.has_determiner = true;
        }
        let previous = std::mem::replace(&mut self.previous, lower.clone());
        if is_function {
            self.follows_function = true;
            return;
        }
        let (key, form) = key_of(&lower, is_month, is_few);
        let kind = match () {
            () if is_marker => Kind::Marker,
            () if is_preposition => Kind::Preposition,
            () => Kind::Content,
        };
        let is_determiner = is_one_of(DETERMINERS, &lower);
        self.words.push(Word {
            key,
            kind,
            form,
            joint: std::mem::take(&mut self.joint),
            has_determiner: self.has_determiner,
            follows_function: std::mem::take(&mut self.follows_function),
            written: lower,
            previous,
        });
        self.has_determiner = is_determiner;
    }
}

fn key_of(lower: &str, is_month: bool, is_few: bool) -> (String, Form) {
    match lower {
        _ if is_month => return ("may (month)".to_owned(), Form::Base),
        _ if is_few => return ("a few".to_owned(), Form::Base),
        "were" => return ("was".to_owned(), Form::Base),
        _ => {}
    }
    let spelled = paired(SPELLINGS, lower).unwrap_or(lower);
    if spelled.starts_with(|c: char| c.is_ascii_digit()) {
        return (number(spelled), Form::Base);
    }
    stem(spelled)
}

/// A number without the marks that group its digits.
fn number(text: &str) -> String {
    let plain: String = text.chars().filter(|c| *c != '_').collect();
    let groups: Vec<&str> = plain.split(',').collect();
    let is_grouped = groups.len() > 1 && groups[1..].iter().all(|group| group.len() == 3);
    let plain = if is_grouped { groups.concat() } else { plain };
    match plain.strip_suffix('k').filter(|head| head.chars().all(|c| c.is_ascii_digit())) {
        Some(thousands) => format!("{thousands}000"),
        None => plain,
    }
}

/// Cuts a word where two are written as one: contractions, a number with its unit, words with a slash.
fn pieces(core: &str) -> Vec<String> {
    let plain = core.replace('’', "'");
    let lower = plain.to_lowercase();
    let split = |head: &str, tail: &str| vec![head.to_owned(), tail.to_owned()];
    if lower == "cannot" || lower == "can't" {
        return split("can", "not");
    }
    if lower == "won't" {
        return split("will", "not");
    }
    for (ending, tail) in [
        ("n't", "not"),
        ("'ll", "will"),
        ("'re", "are"),
        ("'ve", "have"),
        ("'d", "would"),
        ("'m", "am"),
    ] {
        if lower.ends_with(ending) && plain.is_char_boundary(plain.len() - ending.len()) {
            return split(&plain[..plain.len() - ending.len()], tail);
        }
    }
    for ending in ["'s", "s'"] {
        if lower.ends_with(ending) {
            return vec![plain[..plain.len() - ending.len()].to_owned()];
        }
    }
    let digits =
        plain.find(|c: char| !c.is_ascii_digit() && c != '.' && c != ',').unwrap_or(plain.len());
    let unit = &plain[digits..];
    if digits > 0
        && !unit.is_empty()
        && unit != "k"
        && unit.chars().all(|c| c.is_alphabetic() || c == '%')
    {
        return split(&plain[..digits], unit);
    }
    let slashed: Vec<&str> = plain.split('/').collect();
    if slashed.len() == 2
        && slashed.iter().all(|part| part.len() > 1 && part.chars().all(char::is_alphabetic))
    {
        let is_rate = is_one_of(
            "s sec second min minute h hr hour day week month year token user",
            slashed[1],
        );
        let per = is_rate.then(|| "per".to_owned());
        return [Some(slashed[0].to_owned()), per, Some(slashed[1].to_owned())]
            .into_iter()
            .flatten()
            .collect();
    }
    vec![plain]
}

/// The stem of a word and its form. Crude, but the same for both texts.
fn stem(word: &str) -> (String, Form) {
    if let Some(base) = paired(IRREGULAR, word) {
        return (stem(base).0, Form::Past);
    }
    let word: String = word.chars().filter(|c| *c != '-').collect();
    if word.len() < 4 || !word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        return (word, Form::Base);
    }
    let has_vowel = |head: &str| head.len() > 1 && head.contains(['a', 'e', 'i', 'o', 'u', 'y']);
    let (head, form) = match () {
        () if word.ends_with("ing") && has_vowel(&word[..word.len() - 3]) => {
            (&word[..word.len() - 3], Form::Progressive)
        }
        () if word.ends_with("ed")
            && !word.ends_with("eed")
            && has_vowel(&word[..word.len() - 2]) =>
        {
            (&word[..word.len() - 2], Form::Past)
        }
        () if word.ends_with('s')
            && !word.ends_with("ss")
            && !word.ends_with("us")
            && !word.ends_with("is") =>
        {
            (&word[..word.len() - 1], Form::Base)
        }
        () => (&*word, Form::Base),
    };
    let head = head.strip_suffix('e').unwrap_or(head);
    let mut head =
        head.strip_suffix('y').map_or_else(|| head.to_owned(), |head| format!("{head}i"));
    let bytes = head.as_bytes();
    if bytes.len() > 2 && bytes[bytes.len() - 1] == bytes[bytes.len() - 2] {
        head.pop();
    }
    (head, form)
}
