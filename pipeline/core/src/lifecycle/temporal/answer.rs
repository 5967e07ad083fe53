//! Answers questions about time from memories, with every step in words.

use crate::memory::MemoryId;
use crate::time::Instant;
use jiff::Timestamp;
use jiff::civil::{Date, DateTime, Time};
use jiff::tz::TimeZone;
use serde::Serialize;

use super::reader::relation_word;
use super::resolve::{Confidence, Grain, TimeReference, resolve};
use super::tokens::{Kind, Token, listed, tokens};

/// A memory that may hold the answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Candidate {
    /// The store's id.
    pub id: MemoryId,
    /// The memory's text.
    pub text: String,
    /// When it was written; relative times count from here.
    pub created_at: Instant,
    /// How well it fits the question, on any scale; greater is better.
    pub rank_score: f64,
}

/// The answer of the memories to a question about a time.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Answer {
    /// A date, a range, a time or a distance; `None` where there is no memory.
    pub answer: Option<String>,
    /// How sure it is; the reference's, lower where the creation date stands in for one.
    pub confidence: Confidence,
    /// The steps from the memory to the answer, as sentences.
    pub chain: Vec<String>,
    /// The references of the chosen memory, the one used first.
    pub resolved: Vec<TimeReference>,
    /// Ids of the memories that the answer rests on.
    pub sources: Vec<MemoryId>,
}

/// Tells whether a question asks for a time: "when", "what date|day|time", "how long ago", "how many days".
///
/// "when" counts as a question word only at the start of a clause ("why does it fail when …" asks
/// for a reason).
#[must_use]
pub fn wants_time(question: &str) -> bool {
    Wish::of(&tokens(question)).is_some()
}

/// Answers a question about time from the best candidate.
///
/// The best is the first by `rank_score`, then by id. Of its references the one is taken with the
/// sentence that shares most words with the question. Without a reference the answer is the creation
/// date, said to be that; without a candidate there is none. `now` matters only where a distance is
/// asked for. Reads no clock.
#[must_use]
pub fn answer(question: &str, candidates: &[Candidate], now: Instant, zone: &TimeZone) -> Answer {
    let asked = tokens(question);
    let best = candidates.iter().min_by(|left, right| {
        right.rank_score.total_cmp(&left.rank_score).then_with(|| left.id.cmp(&right.id))
    });
    let Some(memory) = best else {
        let chain = vec!["no memory that was found has a time".to_owned()];
        let none = Confidence::NONE;
        return Answer { answer: None, confidence: none, chain, resolved: vec![], sources: vec![] };
    };
    let mut resolved = resolve(&memory.text, memory.created_at, zone);
    let position = best_reference(&asked, &memory.text, &resolved);
    if let Some(position) = position {
        resolved[..=position].rotate_right(1);
    }
    let wish = Wish::of(&asked).unwrap_or(Wish::Date);
    let today = local_date(now, zone);
    let written = local_date(memory.created_at, zone);
    let (chain, text, confidence) = match resolved.first().filter(|_| position.is_some()) {
        Some(reference) => from_reference(reference, memory, written, wish, today),
        None => from_creation(written, wish, today),
    };
    let sources = vec![memory.id.clone()];
    Answer { answer: Some(text), confidence, chain, resolved, sources }
}

type Reasoned = (Vec<String>, String, Confidence);

fn from_reference(
    reference: &TimeReference,
    memory: &Candidate,
    written: Date,
    wish: Wish,
    today: Date,
) -> Reasoned {
    let TimeReference { span, interval, grain, relation, confidence, note } = reference;
    let (words, named) = (&memory.text[span.clone()], shown(reference));
    let mut step = format!("'{words}' in a memory of {written} is {named}");
    let tie = relation_word(*relation);
    tie.iter().for_each(|tie| step += &format!("; the text says '{tie}' it"));
    let mut chain = vec![format!("memory {} was written on {written}", memory.id), step];
    chain.extend(note.iter().map(|note| format!("unsure: {note}")));
    let date = interval.civil_start.date();
    let text = match wish {
        Wish::Distance => {
            let distance = distance(date, today, &mut chain);
            return (chain, format!("{distance} ({named})"), *confidence);
        }
        Wish::Weekday if *grain <= Grain::Day => format!("{}, {named}", date.strftime("%A")),
        Wish::Time if *grain > Grain::PartOfDay => {
            chain.push("the memory names no time of day".to_owned());
            named
        }
        _ => named,
    };
    let text = tie.map_or(text.clone(), |tie| format!("{tie} {text}"));
    (chain, text, *confidence)
}

fn from_creation(written: Date, wish: Wish, today: Date) -> Reasoned {
    let mut chain = vec![
        "the memory names no time".to_owned(),
        format!("it was written on {written}, which stands in for the time"),
    ];
    let text = match wish {
        Wish::Distance => {
            let distance = distance(written, today, &mut chain);
            format!("{distance} ({written}, the date of the memory)")
        }
        Wish::Weekday => format!("{}, {written} (the date of the memory)", written.strftime("%A")),
        _ => format!("{written} (the date of the memory)"),
    };
    (chain, text, Confidence::AMBIGUOUS)
}

/// Counts calendar days, and adds the step; a change of clocks makes a day no shorter.
fn distance(date: Date, today: Date, chain: &mut Vec<String>) -> String {
    let days = date.duration_until(today).as_hours() / 24;
    let (first, last) = if days < 0 { (today, date) } else { (date, today) };
    let count = format!("{} day{}", days.abs(), if days.abs() == 1 { "" } else { "s" });
    chain.push(format!("from {first} to {last} it is {count}; today is {today}"));
    match days {
        0 => "today".to_owned(),
        1.. => format!("{count} ago"),
        _ => format!("in {count}"),
    }
}

/// Writes a reference as finely as its interval is: a minute, a day, a month, a range of days.
fn shown(reference: &TimeReference) -> String {
    let (start, end) = (reference.interval.civil_start, reference.interval.civil_end);
    let (first, last) = (start.date(), end.date().yesterday().unwrap_or(end.date()));
    let format = match reference.grain {
        _ if start.time() != end.time() || start.time() != Time::midnight() => {
            let hour = start.duration_until(end).as_hours() <= 1;
            match reference.grain {
                Grain::Second => "%Y-%m-%d %H:%M:%S",
                Grain::Minute | Grain::Hour if hour => "%Y-%m-%d %H:%M",
                _ => {
                    let short = |time: DateTime| time.strftime("%Y-%m-%d %H:%M").to_string();
                    return format!("{} to {}", short(start), short(end));
                }
            }
        }
        _ if first == last => return first.to_string(),
        Grain::Month if first.day() == 1 && first.last_of_month() == last => "%Y-%m",
        Grain::Year if first.day_of_year() == 1 && first.year() == last.year() => "%Y",
        _ => return format!("{first} to {last}"),
    };
    start.strftime(format).to_string()
}

fn local_date(instant: Instant, zone: &TimeZone) -> Date {
    let limit = if instant.0 < 0 { Timestamp::MIN } else { Timestamp::MAX };
    let timestamp = Timestamp::from_microsecond(instant.0).unwrap_or(limit);
    timestamp.to_zoned(zone.clone()).date()
}

/// The kind of time a question asks for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Wish {
    Date,
    Weekday,
    Time,
    Distance,
}

impl Wish {
    fn of(tokens: &[Token]) -> Option<Self> {
        let word = |index: usize| tokens.get(index).map_or("", |token| token.word.as_str());
        (0..tokens.len()).find_map(|index| match (word(index), word(index + 1), word(index + 2)) {
            ("how", "long", "ago" | "since" | "until" | "till") => Some(Self::Distance),
            ("how", "many", "days" | "weeks" | "months" | "years") => Some(Self::Distance),
            ("what" | "which", "date", _) => Some(Self::Date),
            ("what" | "which", "day" | "weekday", _) => Some(Self::Weekday),
            ("what" | "which", "time", _) => Some(Self::Time),
            // "when" asks at the start of a clause, or behind a verb of knowing or "since".
            ("when", ..) => {
                let asks = tokens[..index].last().is_none_or(|before| {
                    listed(ASKING, &before.word) || matches!(before.kind, Kind::Mark(_))
                });
                asks.then_some(Self::Date)
            }
            _ => None,
        })
    }
}

const ASKING: &str = "know me us remember recall ask say says and or so since until till by exactly from \
    out about tell";
/// Words that say nothing about the subject of a question.
const STOP_WORDS: &str = "when what which did do does was were is are the a an we i you they it to of in on at \
    day date time how long ago many days since until have has had been our my";

/// The reference with the sentence that shares most words with the question; ties by confidence, then order.
fn best_reference(asked: &[Token], text: &str, references: &[TimeReference]) -> Option<usize> {
    let wanted: Vec<String> = content_words(asked);
    let shared = |reference: &TimeReference| {
        let words = content_words(&tokens(clause(text, reference)));
        wanted.iter().filter(|word| words.contains(word)).count()
    };
    (0..references.len()).rev().max_by(|left, right| {
        let (first, second) = (&references[*left], &references[*right]);
        let confidence = first.confidence.value().total_cmp(&second.confidence.value());
        shared(first).cmp(&shared(second)).then(confidence)
    })
}

fn content_words(tokens: &[Token]) -> Vec<String> {
    let words = tokens.iter().map(|token| token.word.as_str());
    words.filter(|word| word.len() > 1 && !listed(STOP_WORDS, word)).map(stem).collect()
}

/// "deployed", "deploys" and "deploy" are one word here.
fn stem(word: &str) -> String {
    let cut = ["ing", "ed", "es", "s", "e"]
        .iter()
        .find_map(|ending| word.strip_suffix(ending).filter(|stem| stem.len() >= 3));
    cut.unwrap_or(word).to_owned()
}

/// The sentence or clause around a reference.
fn clause<'a>(text: &'a str, reference: &TimeReference) -> &'a str {
    let ends = ['.', ';', '!', '?', '\n', ','];
    let start = text[..reference.span.start].rfind(ends).map_or(0, |at| at + 1);
    let end =
        text[reference.span.end..].find(ends).map_or(text.len(), |at| at + reference.span.end);
    &text[start..end]
}
