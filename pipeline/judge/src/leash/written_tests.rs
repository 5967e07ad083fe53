//! Texts as models really write them for memories as agents really keep them; the answers were written first.

use memfold_guard::GuardPolicy;
use memfold_model::memory::MemoryId;

use super::*;

/// Sources, a text that stands for all of them, and texts that do not.
type Case = (&'static [&'static str], &'static str, &'static [&'static str]);

const CASES: [Case; 14] = [
    (
        &[
            "User lives in Lisbon.",
            "The user works remotely from Lisbon, Portugal.",
            "User moved to Lisbon in March 2023 for the weather.",
        ],
        "The user moved to Lisbon, Portugal, in March 2023 for the weather, lives there and works remotely from Lisbon.",
        &[
            "The user moved to Lisbon, Portugal, in March 2024 for the weather, lives there and works remotely from Lisbon.",
            "The user lives in Lisbon, Portugal, and works remotely.",
            "The user moved to Lisbon, Portugal, with Ana in March 2023 for the weather, lives there and works remotely.",
        ],
    ),
    (
        &[
            "Postgres runs on port 5433 on staging because 5432 is taken.",
            "Staging database: Postgres 16, port 5433.",
            "Connect to the staging Postgres with psql -p 5433.",
        ],
        "The staging database is Postgres 16 and runs on port 5433, because 5432 is taken; connect with psql -p 5433.",
        &[
            "The staging database is Postgres 16 and runs on port 5432; connect with psql -p 5433.",
            "The staging database is Postgres 15 and runs on port 5433, because 5432 is taken; connect with psql -p 5433.",
            "The staging database is Postgres 16 and runs on port 5433, because 5432 is taken; connect with psql -p 5433 -U admin.",
        ],
    ),
    (
        &[
            "Never deploy on Fridays.",
            "Deploys are done Monday to Thursday, never on Fridays.",
            "Deploy window is Monday to Thursday before 15:00.",
        ],
        "Never deploy on Fridays: the deploy window is Monday to Thursday before 15:00.",
        &[
            "Deploy on Fridays: the deploy window is Monday to Thursday before 15:00.",
            "Never deploy on Fridays: the deploy window is Monday to Thursday before 17:00.",
            "Never deploy: the deploy window is Monday to Thursday.",
        ],
    ),
    (
        &[
            "Anna prefers tabs over spaces.",
            "Anna wants tabs, width 4, in all Python files.",
            "Use tabs when writing code for Anna.",
        ],
        "Anna prefers tabs over spaces and wants them with width 4 in all Python files; use tabs when writing code for her (Anna).",
        &[
            "Anna prefers spaces over tabs and wants width 4 in all Python files; use tabs when writing code for Anna.",
            "Anna prefers tabs over spaces and wants them with width 2 in all Python files; use tabs when writing code for Anna.",
            "Anna prefers tabs over spaces and wants them with width 4 in all Rust files; use tabs when writing code for Anna.",
        ],
    ),
    (
        &[
            "The API rate limit is 100 requests per minute.",
            "Rate limiting: 100 req/min per token, 429 afterwards.",
            "After 100 requests in a minute the API answers 429.",
        ],
        "The API rate limit is 100 requests per minute per token; after that it answers 429.",
        &[
            "The API rate limit is 1000 requests per minute per token; after that it answers 429.",
            "The API rate limit is 100 requests per minute per token; after that it answers 503.",
        ],
    ),
    (
        &[
            "Kai is allergic to peanuts.",
            "Do not order anything with peanuts for Kai.",
            "Kai carries an EpiPen because of a peanut allergy.",
        ],
        "Kai is allergic to peanuts and carries an EpiPen because of the peanut allergy; do not order anything with peanuts for Kai.",
        &[
            "Kai is allergic to peanuts and carries an EpiPen; order anything with peanuts for Kai.",
            "Kai is not allergic to peanuts, but carries an EpiPen because of a peanut allergy; do not order anything with peanuts for Kai.",
            "Kai is allergic to peanuts; do not order anything with peanuts.",
        ],
    ),
    (
        &[
            "Meeting notes live in /srv/notes/2025.",
            "All meeting notes are Markdown files below /srv/notes/2025.",
            "Notes of meetings: /srv/notes/2025, one file per day.",
        ],
        "Meeting notes are Markdown files below /srv/notes/2025, one file per day.",
        &[
            "Meeting notes are Markdown files below /srv/notes/2024, one file per day.",
            "Meeting notes are Markdown files below /srv/notes/2025, one file per day; see also /srv/minutes.",
        ],
    ),
    (
        &[
            "We chose Kafka over RabbitMQ for the event bus.",
            "Event bus decision: Kafka, because of replay.",
            "The event bus is Kafka; RabbitMQ was rejected because it cannot replay.",
        ],
        "The event bus is Kafka: we chose it over RabbitMQ, which was rejected because it cannot replay.",
        &[
            "The event bus is RabbitMQ: we chose it over Kafka, which was rejected because it cannot replay.",
            "The event bus is Kafka: we chose it over RabbitMQ and Pulsar, which were rejected because they cannot replay.",
        ],
    ),
    (
        &[
            "Der Kunde zahlt innerhalb von 30 Tagen.",
            "Zahlungsziel des Kunden: 30 Tage.",
            "Der Kunde hat ein Zahlungsziel von 30 Tagen.",
        ],
        "Der Kunde hat ein Zahlungsziel von 30 Tagen und zahlt innerhalb von 30 Tagen.",
        &[
            "Der Kunde hat ein Zahlungsziel von 60 Tagen und zahlt innerhalb von 30 Tagen.",
            "Der Kunde hat kein Zahlungsziel von 30 Tagen und zahlt nicht innerhalb von 30 Tagen.",
        ],
    ),
    (
        &[
            "User's daughter Mia starts school in September.",
            "Mia, the user's daughter, turns six in August.",
            "The user has a daughter called Mia.",
        ],
        "The user has a daughter called Mia, who turns six in August and starts school in September.",
        &[
            "The user has a son called Mia, who turns six in August and starts school in September.",
            "The user has a daughter called Mia, who turns seven in August and starts school in September.",
            "The user has a daughter called Mia, who turns six in September and starts school in August.",
        ],
    ),
    (
        &[
            "The nightly backup failed with error E1042.",
            "Backup job: error E1042, disk full on /dev/sdb1.",
            "E1042 of the backup means that the disk is full.",
        ],
        "The nightly backup job failed with error E1042, which means that the disk is full (on /dev/sdb1).",
        &[
            "The nightly backup job failed with error E1024, which means that the disk is full (on /dev/sdb1).",
            "The nightly backup job failed with error E1042, which means that the disk is full (on /dev/sdb2).",
        ],
    ),
    (
        &[
            "Prefer `cargo nextest run` over `cargo test` in this repo.",
            "Tests run with cargo nextest run, not cargo test.",
            "`cargo nextest run` is how tests are run here.",
        ],
        "In this repo tests are run with `cargo nextest run`; prefer it over `cargo test`.",
        &[
            "In this repo tests are run with `cargo test`; prefer it over `cargo nextest run`.",
            "In this repo tests are run with `cargo nextest run --all`; prefer it over `cargo test`.",
        ],
    ),
    (
        &[
            "Omar leads the payments team.",
            "Payments team: lead Omar, on-call Priya.",
            "Priya is on-call for the payments team.",
        ],
        "Omar leads the payments team; Priya is on-call for the payments team.",
        &[
            "Priya leads the payments team; Omar is on-call for the payments team.",
            "Omar leads the payments team; Petra is on-call for the payments team.",
        ],
    ),
    (
        &[
            "Budget for Q3 is 40,000 euros.",
            "Q3 budget: 40k EUR, approved by Lena.",
            "Lena approved the budget of 40,000 EUR for Q3.",
        ],
        "The budget for Q3 is 40,000 euros (40k EUR); Lena approved it.",
        &[
            "The budget for Q3 is 50,000 euros (40k EUR); Lena approved it.",
            "The budget for Q4 is 40,000 euros (40k EUR); Lena approved it.",
        ],
    ),
];

fn refusal(sources: &[&str], text: &str) -> Option<Refusal> {
    let guard = Guard::new(&GuardPolicy::default()).unwrap();
    let member = |text: &&str| Member {
        handle: String::new(),
        id: MemoryId::new(*text),
        text: (*text).to_owned(),
        categories: vec![],
        importance: 1.0,
        created: String::new(),
        source: "agent".to_owned(),
    };
    let group = Group::new(sources.iter().map(member).collect());
    let ids = group.memories.iter().map(|member| member.handle.clone()).collect();
    let text = Some(text.to_owned());
    let said = vec![Opinion { text, ..Opinion::of(OpinionKind::Merge, ids) }];
    let rules = LeashRules {
        replace_similarity_min: 0.9,
        task: Task::Golden,
        content_words_lost_max: 0.25,
        confidence_min: Confidence::High,
    };
    let outcome = leash(&group, &[said], &guard, &rules, &|_, _| None);
    outcome.refused.into_iter().next().map(|refused| refused.reason)
}

/// Good texts that are refused all the same: two sources or a source and the text that the guard takes for opposites ("never on
/// Fridays", "rejected", "prefer … over"), a unit in another spelling, and a language in which few words are known.
const REFUSED: [usize; 5] = [2, 4, 7, 8, 11];

#[test]
fn a_text_that_says_something_else_is_refused() {
    let mut passed: Vec<&str> = Vec::new();
    for (sources, _, wrong) in CASES {
        passed.extend(wrong.iter().copied().filter(|text| refusal(sources, text).is_none()));
    }
    assert_eq!(passed, Vec::<&str>::new());
    assert_eq!(CASES.iter().map(|(_, _, wrong)| wrong.len()).sum::<usize>(), 34);
}

#[test]
fn most_texts_that_say_it_all_are_accepted() {
    let is_refused = |at: &usize| refusal(CASES[*at].0, CASES[*at].1).is_some();
    let refused: Vec<usize> = (0..CASES.len()).filter(is_refused).collect();
    assert_eq!(refused, REFUSED);
}
