//! Counts, factors and versions: numbers that are no ids and no dates.

use super::super::DifferenceKind::{Date, Identifier, Number, Version};
use super::super::Verdict::{Contradictory, Different, Same, Undecided};
use super::super::{DifferenceKind, Verdict};
use super::{guard, judge};

type Pair = (&'static str, &'static str);

/// `3 times` and `5 times`, `2x` and `4x`, `node 18` and `node 20`, `PostgreSQL 14` and `16` were told apart as ids, some
/// counts as dates, so that a review named the wrong kind and counts that contradict were not flagged. The pairs are
/// as people and agents write them; what the guard should say was written down before it was asked.
#[test]
fn numbers_are_counts_factors_or_versions_of_what_they_stand_beside() {
    let cases: [(Verdict, Option<DifferenceKind>, &[Pair]); 7] = [
        (Contradictory, Some(Number), &COUNTS),
        (Contradictory, Some(Number), &FACTORS),
        (Different, Some(Version), &VERSIONS),
        (Different, Some(Identifier), &IDS),
        (Different, Some(Date), &DATES),
        (Same, None, &SAME),
        (Undecided, None, &PERHAPS_SAME),
    ];
    let guard = guard();
    let mut failures = Vec::new();
    for (verdict, kind, pairs) in cases {
        for (left, right) in pairs {
            let judgement = judge(&guard, left, right);
            let found = judgement.differences.first().map(|difference| difference.kind);
            if judgement.verdict != verdict || found != kind {
                failures.push(format!(
                    "{left} | {right}\n  expected {verdict:?} {kind:?}, found {judgement:?}"
                ));
            }
        }
    }
    assert!(failures.is_empty(), "{}:\n{}", failures.len(), failures.join("\n"));
}

const COUNTS: [Pair; 21] = [
    ("The client retries 3 times before giving up", "The client retries 5 times before giving up"),
    ("Claude retried 3 times", "Claude retried 5 times"),
    ("Retry Kafka 3 times, then fail", "Retry Kafka 5 times, then fail"),
    ("The nightly job runs 3 times a day", "The nightly job runs 5 times a day"),
    ("run 3 times", "run 5 times"),
    ("CI runs 3 jobs in parallel", "CI runs 5 jobs in parallel"),
    ("The pipeline builds 4 images", "The pipeline builds 6 images"),
    ("max attempts 3", "max attempts 5"),
    ("User asked 2 times for a dark theme", "User asked 4 times for a dark theme"),
    ("Of 10 jobs, 5 may fail", "Of 10 jobs, 3 may fail"),
    (
        "The context is limited to a maximum of 2000 tokens",
        "The context is limited to a maximum of 1950 tokens",
    ),
    ("The batch has 2048 rows", "The batch has 1950 rows"),
    ("The limit is 2000", "The limit is 1950"),
    ("Users may log in up to 3 times", "Users may log in up to 5 times"),
    ("Fetched the page three times", "Fetched the page five times"),
    ("Each worker holds 4 connections", "Each worker holds 8 connections"),
    ("We ship 2 times per week", "We ship 3 times per week"),
    ("Backups run 2 times on Sunday", "Backups run 4 times on Sunday"),
    ("In May 3 times the quota was hit", "In May 5 times the quota was hit"),
    ("重试次数：3", "重试次数：5"),
    ("Logs have a 30-day retention", "Logs have a 60-day retention"),
];

const FACTORS: [Pair; 9] = [
    ("The new index is 2x faster", "The new index is 4x faster"),
    ("Throughput rose 2x after the rewrite", "Throughput rose 3x after the rewrite"),
    ("Set the timeout to 1.5x the p99", "Set the timeout to 2.5x the p99"),
    ("Scale the cluster ×2", "Scale the cluster ×4"),
    ("Traffic grew 2× in March", "Traffic grew 3× in March"),
    ("Memory use dropped 3-fold", "Memory use dropped 5-fold"),
    ("The new plan is 10X cheaper", "The new plan is 5X cheaper"),
    ("The cache is 2 x larger", "The cache is 4 x larger"),
    ("Bigger by 2 times", "Bigger by 4 times"),
];

const VERSIONS: [Pair; 17] = [
    ("The service runs on node 18", "The service runs on node 20"),
    ("Node 18 is required", "Node 20 is required"),
    ("CI uses Node.js 18", "CI uses Node.js 20"),
    ("The database is PostgreSQL 14", "The database is PostgreSQL 16"),
    ("postgres 14 in production", "postgres 16 in production"),
    ("Uses Python 3.11", "Uses Python 3.12"),
    ("python 3.10 everywhere", "python 3.12 everywhere"),
    ("Deploy on ubuntu 22.04", "Deploy on ubuntu 24.04"),
    ("Upgraded to Java 17", "Upgraded to Java 21"),
    ("The frontend is on React 18", "The frontend is on React 19"),
    ("The API is at version 3", "The API is at version 4"),
    ("Requires TLS 1.2", "Requires TLS 1.3"),
    ("Django 4 with Postgres", "Django 5 with Postgres"),
    ("Built for .NET 8", "Built for .NET 6"),
    ("Compiled as C++ 17", "Compiled as C++ 20"),
    ("Needs k8s 1.29", "Needs k8s 1.31"),
    ("Redis 7 is the cache", "Redis 6 is the cache"),
];

const IDS: [Pair; 4] = [
    ("build 512 failed", "build 513 failed"),
    ("Merged PR 260", "Merged PR 480"),
    ("Step 3 takes long", "Step 4 takes long"),
    ("issue 12 blocks the release", "issue 14 blocks the release"),
];

const DATES: [Pair; 4] = [
    ("The audit was in 2021", "The audit was in 2023"),
    ("The 2024 report is done", "The 2025 report is done"),
    ("Due on 15 May", "Due on 16 May"),
    ("Due on 5 may 2026", "Due on 6 may 2026"),
];

const SAME: [Pair; 1] = [("The client retries 3 times", "The client retries three times")];

const PERHAPS_SAME: [Pair; 5] = [
    ("It is 2x faster", "It is 2X faster"),
    ("It scaled 2×", "It scaled 2x"),
    ("It scaled ×2", "It scaled 2 times"),
    ("The service runs on node 18", "The service runs on node v18"),
    ("It uses PostgreSQL 14", "It uses postgresql 14"),
];
