//! Answers to questions, and properties of every resolution. The times that sentences name are in
//! `pipeline/core/tests/data/temporal_answers.tsv`, which `tests/temporal_corpus.rs` reads.

use crate::memory::MemoryId;
use crate::time::Instant;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use super::*;

/// A Sunday. Sentences are read as if written then, in Berlin.
const WRITTEN: &str = "2025-03-02T15:30:00";

fn berlin() -> TimeZone {
    TimeZoneDatabase::bundled().get("Europe/Berlin").unwrap()
}

fn at(written: &str) -> Instant {
    Instant::parse(written, &berlin()).unwrap()
}

fn candidate(id: &str, text: &str, rank_score: f64) -> Candidate {
    let created_at = at(WRITTEN);
    Candidate { id: MemoryId::new(id), text: text.to_owned(), created_at, rank_score }
}

fn asked(question: &str, candidates: &[Candidate]) -> Answer {
    answer(question, candidates, at("2025-03-13T09:00:00"), &berlin())
}

#[test]
fn answers_with_the_steps() {
    let candidates = [
        candidate("m2", "Coffee is in the kitchen.", 0.2),
        candidate("m1", "We switched to SQLite yesterday. The demo is due on 2025-04-01.", 0.9),
    ];
    let found = asked("When did we switch to SQLite?", &candidates);
    assert_eq!(found.answer.as_deref(), Some("2025-03-01"));
    assert_eq!(found.chain[1], "'yesterday' in a memory of 2025-03-02 is 2025-03-01");
    assert_eq!(found.sources, [MemoryId::new("m1")]);
    assert_eq!(found.resolved.len(), 2);
    let ago = asked("How long ago did we switch to SQLite?", &candidates);
    assert_eq!(ago.answer.as_deref(), Some("12 days ago (2025-03-01)"));
    let ahead = asked("How many days until the demo is due?", &candidates);
    assert_eq!(ahead.answer.as_deref(), Some("in 19 days (2025-04-01)"));
    let day = asked("What day did we switch?", &candidates);
    assert_eq!(day.answer.as_deref(), Some("Saturday, 2025-03-01"));
}

#[test]
fn without_a_reference_the_creation_date_answers_and_says_so() {
    let found = asked("When did we buy coffee?", &[candidate("m2", "Coffee was bought.", 0.2)]);
    assert_eq!(found.answer.as_deref(), Some("2025-03-02 (the date of the memory)"));
    assert!(found.confidence <= Confidence::AMBIGUOUS);
    assert!(found.chain.iter().any(|step| step.contains("names no time")));
    let none = asked("When did we buy coffee?", &[]);
    assert_eq!((none.answer, none.confidence), (None, Confidence::NONE));
}

#[test]
fn answers_show_each_grain() {
    let shown =
        |question: &str, text: &str| asked(question, &[candidate("m", text, 1.0)]).answer.unwrap();
    assert_eq!(shown("When was it?", "It was in May 2021."), "2021-05");
    assert_eq!(shown("When was it?", "It was in 2019."), "2019");
    assert_eq!(shown("When was it?", "It was last week."), "2025-02-17 to 2025-02-23");
    assert_eq!(shown("What time was it?", "It was yesterday at 5pm."), "2025-03-01 17:00");
    assert_eq!(shown("When is it due?", "It is due by Friday."), "by 2025-03-07");
}

#[test]
fn questions_about_time_are_recognised() {
    const YES: &str = "When did we deploy?|Do you know when it broke?|what date is the release|\
        Which day was it?|What time is the standup?|How long ago was the outage?|\
        how many days since the release?|Since when is CI red?";
    const NO: &str = "Why does it fail when the cache is cold?|What broke?|How many users are there?|\
        Whenever it rains|How long is the file?|";
    for question in YES.split('|') {
        assert!(wants_time(question), "{question}");
    }
    for question in NO.split('|') {
        assert!(!wants_time(question), "{question}");
    }
}

proptest::proptest! {
    /// Spans are in order, lie on character boundaries and intervals do not run backwards.
    #[test]
    fn any_text_is_read(text in "(?s).{0,80}", micros in -60_000_000_000_000_000_i64..250_000_000_000_000_000) {
        check(&text, micros);
    }

    #[test]
    fn any_order_of_words_is_read(words in proptest::collection::vec(words(), 0..14)) {
        check(&words.join(" "), 1_740_000_000_000_000);
    }
}

fn words() -> impl proptest::strategy::Strategy<Value = &'static str> {
    proptest::sample::select(WORDS.split(' ').collect::<Vec<_>>())
}

const WORDS: &str = "the last next first 31 2025 of May monday to - from between and at 5 5pm 10:30 noon \
    ago days two years 9999 week q4 month in since 29 february , . morning 2025-02-30 12/31/99 \
    later 4294967295 before eve christmas weekend rest end utc on this year";

fn check(text: &str, micros: i64) {
    let mut end = 0;
    for reference in resolve(text, Instant(micros), &berlin()) {
        assert!(reference.span.start >= end && !text[reference.span.clone()].is_empty());
        assert!(reference.interval.start <= reference.interval.end, "{text}");
        end = reference.span.end;
    }
}
