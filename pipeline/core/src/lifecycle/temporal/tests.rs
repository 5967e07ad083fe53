//! Sentences as agents and people write memories, with the times they name; and questions.

use crate::memory::MemoryId;
use crate::time::Instant;
use jiff::tz::{TimeZone, TimeZoneDatabase};

use jiff::civil::DateTime;

use super::*;

/// A Sunday. Sentences are read as if written then, in Berlin.
const WRITTEN: &str = "2025-03-02T15:30:00";

fn berlin() -> TimeZone {
    TimeZoneDatabase::bundled().get("Europe/Berlin").unwrap()
}

fn at(written: &str) -> Instant {
    Instant::parse(written, &berlin()).unwrap()
}

fn read(text: &str, written: &str) -> Vec<TimeReference> {
    resolve(text, at(written), &berlin())
}

/// `date`, `date..date` (end exclusive) or the same with times of day.
fn shown(reference: &TimeReference) -> String {
    let TimeInterval { civil_start: start, civil_end: end, .. } = reference.interval;
    let short = |time: DateTime| {
        let date = time.date().to_string();
        if time.time() == jiff::civil::Time::midnight() {
            date
        } else {
            format!("{date}T{}", time.strftime("%H:%M"))
        }
    };
    if reference.grain < Grain::PartOfDay && start.duration_until(end).as_hours() <= 1 {
        return format!("{}T{}", start.date(), start.strftime("%H:%M"));
    }
    let day = end.date().yesterday().unwrap();
    if short(start).len() == 10 && short(end).len() == 10 && day == start.date() {
        return short(start);
    }
    format!("{}..{}", short(start), short(end))
}

/// Sentences, and the times that they name.
const SENTENCES: &[(&str, &[&str])] = &[
    ("User switched from Postgres to SQLite yesterday.", &["2025-03-01"]),
    (
        "Deployed v2.3.1 to staging this morning, no alerts.",
        &["2025-03-02T05:00..2025-03-02T12:00"],
    ),
    ("On Monday we rolled back the migration.", &["2025-02-24"]),
    ("The team will cut the release on Friday.", &["2025-03-07"]),
    // The present tense directly before a date announces it.
    ("The talk is on Friday.", &["2025-03-07"]),
    ("The talk takes place on Friday.", &["2025-03-07"]),
    ("The party takes place on December 24.", &["2025-12-24"]),
    ("User's contract ends on 31 March 2025.", &["2025-03-31"]),
    ("CI has been flaky since last Tuesday.", &["2025-02-25"]),
    ("The API key was rotated two weeks ago.", &["2025-02-16"]),
    ("User moves to Lisbon next month.", &["2025-04-01..2025-05-01"]),
    ("We decided in January to drop Python 3.8 support.", &["2025-01-01..2025-02-01"]),
    (
        "Incident INC-4312 started at 02:15 on February 27 and was resolved by noon.",
        &["2025-02-27T02:15", "2025-03-02T12:00"],
    ),
    ("Standup moved to 9:30am starting tomorrow.", &["2025-03-02T09:30", "2025-03-03"]),
    (
        "Last night's backup failed because the disk was full.",
        &["2025-03-01T20:00..2025-03-02T05:00"],
    ),
    ("The license expires on 2025-12-31.", &["2025-12-31"]),
    ("Meeting with Anna at 2025-03-05T14:00:00+01:00 about pricing.", &["2025-03-05T14:00"]),
    ("In Q3 2024 we migrated to Kubernetes.", &["2024-07-01..2024-10-01"]),
    ("User was born in 1987 and lives in Hamburg.", &["1987-01-01..1988-01-01"]),
    ("Refactored the parser over the weekend.", &["2025-03-01..2025-03-03"]),
    ("Next week the user is on vacation.", &["2025-03-03..2025-03-10"]),
    ("Code freeze from March 10 to March 14, 2025.", &["2025-03-10..2025-03-15"]),
    ("Tests took 40 minutes until we added caching three days ago.", &["2025-02-27"]),
    ("Reminder: pay the invoice by the 15th.", &["2025-03-15"]),
    ("She joined the company in May 2021.", &["2021-05-01..2021-06-01"]),
    ("We had no outages in the last 30 days.", &["2025-01-31..2025-03-02"]),
    ("The user mentioned the bug a couple of days ago.", &["2025-02-28"]),
    ("I fixed the race condition in the scheduler an hour ago.", &["2025-03-02T14:30"]),
    ("Launch is planned for the first Monday of May.", &["2025-05-05"]),
    ("We upgraded to Rust 1.84 the day before yesterday.", &["2025-02-28"]),
    ("The database will be migrated the day after tomorrow at 6pm.", &["2025-03-04T18:00"]),
    ("Budget for this quarter is already spent.", &["2025-01-01..2025-04-01"]),
    ("User prefers dark mode; told me on the 20th of February.", &["2025-02-20"]),
    ("Started learning Spanish last year.", &["2024-01-01..2025-01-01"]),
    (
        "The outage lasted from 14:00 to 16:30 on Thursday and was caused by DNS.",
        &["2025-02-27T14:00..2025-02-27T16:30"],
    ),
    ("Ship the docs by end of the month.", &["2025-03-31"]),
    ("Works remotely since 2019.", &["2019-01-01..2020-01-01"]),
    ("We met Jo on Tuesday afternoon.", &["2025-02-25T12:00..2025-02-25T18:00"]),
    ("We will review the design tomorrow at 10:00.", &["2025-03-03T10:00"]),
    ("The nightly job has failed every Monday.", &[]),
    ("Twenty-one days ago the user cancelled the subscription.", &["2025-02-09"]),
    ("On March 3rd, 2024 the cluster ran out of memory.", &["2024-03-03"]),
    ("Talked to support on Feb 12; they promised a fix within two weeks.", &["2025-02-12"]),
    ("The feature flag was removed earlier this week.", &["2025-02-24..2025-03-03"]),
    ("Between February 3 and February 7 the user was in Oslo.", &["2025-02-03..2025-02-08"]),
    ("Her birthday is the 3rd of June.", &["2025-06-03"]),
    ("Conference on May 3-5, travel booked.", &["2025-05-03..2025-05-06"]),
    ("We will present the results at the conference on May 3-5.", &["2025-05-03..2025-05-06"]),
    ("He left on Wednesday evening.", &["2025-02-26T18:00..2025-02-27"]),
    ("Since March 1st the endpoint returns 429.", &["2025-03-01"]),
    ("The cron job runs at 03:00 UTC.", &["2025-03-02T04:00"]),
    ("In 10 days the trial will end.", &["2025-03-12"]),
    ("User was sick last weekend and missed the demo.", &["2025-02-22..2025-02-24"]),
    ("A few weeks ago we evaluated Qdrant and rejected it.", &["2025-02-09"]),
    ("The 1990s code base still uses CVS.", &["1990-01-01..2000-01-01"]),
    ("Christmas was quiet: no pages at all.", &["2024-12-25"]),
    ("The certificate was issued on 03/04/2025.", &["2025-03-04"]),
    (
        "Kickoff happened on 24.02.2025, retro is due on Friday, March 14.",
        &["2025-02-24", "2025-03-14"],
    ),
    ("We deployed on Monday and will deploy again on Thursday.", &["2025-02-24", "2025-03-06"]),
    (
        "Feature shipped on February 10. Two days later a regression was found.",
        &["2025-02-10", "2025-02-12"],
    ),
    ("Tonight at 8 we will switch the DNS.", &["2025-03-02T20:00"]),
    ("Benchmarks were rerun on 2025-02-14 10:45 with the new kernel.", &["2025-02-14T10:45"]),
    ("The previous quarter's revenue was up 12 %.", &["2024-10-01..2025-01-01"]),
];

#[test]
fn sentences_as_memories_are_written() {
    let cases = SENTENCES;
    assert_eq!(cases.len(), 63);
    let mut wrong = Vec::new();
    for (text, expected) in cases {
        let found: Vec<String> = read(text, WRITTEN).iter().map(shown).collect();
        if found != *expected {
            wrong.push(format!("{text}\n  expected {expected:?}\n  found    {found:?}"));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// Each of these was once read as another time, or as one at all.
#[test]
fn what_was_misread_once() {
    let cases: &[(&str, &[&str])] = &[
        ("We may deploy on Friday.", &["2025-03-07"]),
        ("The meeting was moved from Tuesday to Thursday.", &["2025-03-04", "2025-02-27"]),
        ("By the end of Q2 we want fewer pages.", &["2025-06-30"]),
        ("The week of March 10 is blocked.", &["2025-03-10..2025-03-17"]),
        ("Sprint 14 runs March 3 - March 14.", &["2025-03-03..2025-03-15"]),
        ("Every second Tuesday of the month we patch.", &[]),
        ("Backups run at 02:00 daily.", &[]),
        ("[2025-03-04 22:15:03,123] WARN", &["2025-03-04T22:15"]),
        ("Two years and three months ago we started.", &["2022-12-05"]),
        ("He'll be back a week from Monday.", &["2025-03-17"]),
        ("Between August and October he travelled.", &["2024-08-01..2024-11-01"]),
    ];
    for (text, expected) in cases {
        let found: Vec<String> = read(text, "2025-03-05T15:30:00").iter().map(shown).collect();
        assert_eq!(found, *expected, "{text}");
    }
}

#[test]
fn words_that_only_look_like_times_name_none() {
    let cases = [
        "This may fail if the cache is cold.",
        "May we merge this?",
        "The user may not have access.",
        "It may be that 3 workers may crash.",
        "Engineers march through the backlog.",
        "We will march 3 teams through the training.",
        "The second attempt worked.",
        "A second opinion would help.",
        "It takes one second per request.",
        "He sat on the fence.",
        "The SAT solver finished; sat_score is 0.9.",
        "The sun was bright and Sun Microsystems is gone.",
        "They wed in secret.",
        "See `yesterday` in src/today.rs and march-release/may.md.",
        "Version 2.1, build 2024, port 8080, ratio 16:9.",
        "The 3rd attempt and the first deploy failed.",
        "On the 3rd attempt it passed.",
        "Use sha-256, utf-8 and log4j2.",
        "The job runs every Friday and each morning.",
        "It finished in 5 minutes.",
        "We rebuilt the index in two days.",
        "Retries 3 times with a 30-second timeout.",
        "The last resort is a restart; next steps are unclear.",
        "April said the August report is fine.",
        "Order 66 has 2000 rows in 1990 pages.",
        "Processed in 2000 rows at a time.",
        "A weekday name such as monday_report is an identifier.",
        "The last one, this one, and the next one.",
        "1/2 cup, 3/4 done, 24/7 support.",
        "Friendly dec encoder, jan the maintainer, mar files.",
        "Black Friday traffic broke the shop.",
        "At 5 users the limit is reached.",
        "Two weeks is too long for a sprint.",
        "A two-week sprint with 3-day slack.",
        "The day we started, the week was hard.",
        "CVE-2024-3094 and RFC 3339, ISO 8601.",
        "IP 10.12.20.24 and 192.168.1.1.",
        "Call 650-650-6500 or 555-1234.",
    ];
    let mut wrong = Vec::new();
    for text in cases {
        for reference in read(text, WRITTEN) {
            wrong.push(format!("{text} -> {:?}", &text[reference.span.clone()]));
        }
    }
    assert!(wrong.is_empty(), "{} wrong:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn what_is_ambiguous_says_why() {
    let cases = [
        ("Issued on 03/04/2025.", "month"),
        ("Demo: Friday", "tense"),
        ("We launch March.", "tense"),
        ("The call is tomorrow at 5.", "24-hour"),
        ("Launch on May 3.", "tense"),
        ("Next Friday we will meet.", "this week"),
        ("On Sunday we deployed.", "that weekday"),
        ("A few days ago it broke.", "roughly"),
    ];
    for (text, reason) in cases {
        let written = if text.starts_with("Next") { "2025-03-05T10:00:00" } else { WRITTEN };
        let found = read(text, written);
        let note = found[0].note.as_deref().unwrap_or_default();
        assert!(note.contains(reason), "{text}: {note}");
        assert!(found[0].confidence < Confidence::LIKELY, "{text}");
    }
    for reference in read("Deployed on 2025-02-03 and yesterday.", WRITTEN) {
        assert!(reference.confidence >= Confidence::CLEAR && reference.note.is_none());
    }
}

#[test]
fn relations_are_told() {
    let relation = |text: &str| read(text, WRITTEN)[0].relation;
    assert_eq!(relation("Broken since Monday."), Relation::Since);
    assert_eq!(relation("Due by Friday."), Relation::By);
    assert_eq!(relation("Frozen until March 14."), Relation::Until);
    assert_eq!(relation("Logged before yesterday."), Relation::Before);
    assert_eq!(relation("Only after the 10th."), Relation::After);
    assert_eq!(relation("Seen yesterday."), Relation::Within);
}

/// Berlin skips 02:00 to 03:00 on 2025-03-30 and shows it twice on 2025-10-26.
#[test]
fn changes_of_clocks_are_respected() {
    let day = read("It broke yesterday.", "2025-03-31T09:00:00");
    let length = day[0].interval.end.0 - day[0].interval.start.0;
    assert_eq!(length, 23 * 3_600_000_000);
    let gap = read("The job ran at 02:30 on 2025-03-30.", "2025-03-31T09:00:00");
    assert_eq!(gap[0].interval.start, at("2025-03-30T03:30:00"));
    assert!(gap[0].note.as_deref().unwrap().contains("skip"));
    let fold = read("The job ran at 02:30 on 2025-10-26.", "2025-10-27T09:00:00");
    assert!(fold[0].note.as_deref().unwrap().contains("twice"));
    assert!(fold[0].confidence <= Confidence::AMBIGUOUS);
    // Hours are elapsed time: 24 hours before 09:00 summer time it was 08:00 winter time.
    let hours = read("It broke 24 hours ago.", "2025-03-30T09:00:00");
    assert_eq!(hours[0].interval.civil_start.to_string(), "2025-03-29T08:00:00");
    // Days are calendar days.
    let days = read("It broke a day ago.", "2025-03-30T09:00:00");
    assert_eq!(days[0].interval.civil_start.to_string(), "2025-03-29T00:00:00");
}

#[test]
fn the_zone_decides_the_day() {
    let written = Instant::parse("2025-03-02T23:30:00Z", &TimeZone::UTC).unwrap();
    let day = |zone: &str| {
        let zone = TimeZoneDatabase::bundled().get(zone).unwrap();
        resolve("today", written, &zone)[0].interval.civil_start.date().to_string()
    };
    assert_eq!(day("UTC"), "2025-03-02");
    assert_eq!(day("Asia/Tokyo"), "2025-03-03");
    assert_eq!(day("America/New_York"), "2025-03-02");
}

#[test]
fn numbers_are_read_up_to_ninety_nine() {
    let cases = [("ninety-nine days ago", 99), ("forty two days ago", 42), ("twelve days ago", 12)];
    for (text, days) in cases {
        let date = read(text, WRITTEN)[0].interval.civil_start.date();
        let today: jiff::civil::Date = "2025-03-02".parse().unwrap();
        assert_eq!(date.duration_until(today).as_hours(), days * 24, "{text}");
    }
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
    let yes = [
        "When did we deploy?",
        "Do you know when it broke?",
        "what date is the release",
        "Which day was it?",
        "What time is the standup?",
        "How long ago was the outage?",
        "how many days since the release?",
        "Since when is CI red?",
    ];
    let no = [
        "Why does it fail when the cache is cold?",
        "What broke?",
        "How many users are there?",
        "Whenever it rains",
        "How long is the file?",
        "",
    ];
    for question in yes {
        assert!(wants_time(question), "{question}");
    }
    for question in no {
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
    fn any_order_of_words_is_read(words in proptest::collection::vec(proptest::sample::select(WORDS), 0..14)) {
        check(&words.join(" "), 1_740_000_000_000_000);
    }
}

const WORDS: &[&str] = &[
    "the",
    "last",
    "next",
    "first",
    "31",
    "2025",
    "of",
    "May",
    "monday",
    "to",
    "-",
    "from",
    "between",
    "and",
    "at",
    "5",
    "5pm",
    "10:30",
    "noon",
    "ago",
    "days",
    "two",
    "years",
    "9999",
    "week",
    "q4",
    "month",
    "in",
    "since",
    "29",
    "february",
    ",",
    ".",
    "morning",
    "2025-02-30",
    "12/31/99",
    "later",
    "4294967295",
    "before",
    "eve",
    "christmas",
    "weekend",
    "rest",
    "end",
    "utc",
    "on",
    "this",
    "year",
];

fn check(text: &str, micros: i64) {
    let mut end = 0;
    for reference in resolve(text, Instant(micros), &berlin()) {
        assert!(reference.span.start >= end && !text[reference.span.clone()].is_empty());
        assert!(reference.interval.start <= reference.interval.end, "{text}");
        end = reference.span.end;
    }
}
