//! What `memfold doctor` prints with `--json`.

use std::collections::BTreeMap;

use memfold_store::brain_db::{Checkup, Finding, Health, Mend, Rival};
use memfold_store::{SkipReason, Snapshot};
use serde::Serialize;

use crate::document::documents;

documents! { "doctor" => DoctorDocument<'_>, "doctor-health" => HealthDocument<'_> }

/// `memfold doctor --json`. What could not be read is `null`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct DoctorDocument<'a> {
    schema_version: u32,
    store_id: Option<&'a str>,
    /// Rows in the memory table.
    memories: Option<u64>,
    /// Those that take part in a consolidation.
    live: Option<u64>,
    /// Those of them with a valid vector.
    with_embedding: Option<u64>,
    /// Rows and embeddings left out or limited, by reason.
    #[cfg_attr(test, schemars(with = "Option<BTreeMap<String, u64>>"))]
    skipped: Option<&'a BTreeMap<SkipReason, u64>>,
    /// One example of each reason.
    #[cfg_attr(test, schemars(with = "Option<BTreeMap<String, String>>"))]
    examples: Option<&'a BTreeMap<SkipReason, String>>,
    /// Models and their vectors.
    spaces: Option<Vec<SpaceDocument<'a>>>,
    /// Traces of other consolidators.
    rivals: Vec<RivalDocument<'a>>,
    notes: Option<&'a [String]>,
    findings: Vec<FindingDocument<'a>>,
}

/// The vectors of a model.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct SpaceDocument<'a> {
    model: &'a str,
    /// Components of each vector.
    dim: u32,
    vectors: u64,
}

/// A trace of another consolidator.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct RivalDocument<'a> {
    /// Where it was found.
    place: &'a str,
    /// What it means.
    what: &'a str,
    /// How many rows show it; `null` where it is not rows that do.
    rows: Option<u64>,
}

/// One thing that is as it should be, or is not.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct FindingDocument<'a> {
    /// `ok`, `info`, `warning` or `critical`.
    severity: &'static str,
    /// Which kind of finding.
    code: &'a str,
    /// What was found, in one sentence. It holds nothing of the store's texts.
    what: &'a str,
    /// How many cases there are, where cases can be counted.
    #[serde(skip_serializing_if = "Option::is_none")]
    count: Option<u64>,
    /// The first cases, as the store spells them.
    #[serde(skip_serializing_if = "<[String]>::is_empty")]
    examples: &'a [String],
    /// What mends it, step by step.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    mend: Vec<MendDocument<'a>>,
}

/// A step that mends something.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct MendDocument<'a> {
    /// `command` (a line for a POSIX shell), `sql` (a statement to run on the store) or `advice`.
    kind: &'static str,
    text: &'a str,
}

/// `memfold doctor --health --json`. What could not be read is `null`.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(super) struct HealthDocument<'a> {
    schema_version: u32,
    /// `ok`, `warning` or `critical`.
    status: String,
    /// Why it is not ok.
    reasons: &'a [String],
    /// Rows in the memory table.
    memories: Option<u64>,
    /// Memories that may take part in a consolidation.
    live: Option<u64>,
    /// Memories with a row for a vector, valid or not.
    with_embedding_row: Option<u64>,
    /// Memories that a consolidation folded or archived.
    consolidated: Option<u64>,
    /// Pairs that wait for a person.
    open_flags: Option<u64>,
    store_bytes: Option<u64>,
    /// Bytes of the write-ahead log.
    log_bytes: Option<u64>,
    /// Whether the check went through the whole file, or only through the memory table.
    whole_file_checked: Option<bool>,
    /// The line that is printed without `--json`.
    line: String,
}

impl<'a> DoctorDocument<'a> {
    pub(super) fn new(checkup: &'a Checkup, findings: &'a [Finding]) -> Self {
        let snapshot = checkup.loaded.as_ref().ok();
        Self {
            schema_version: 1,
            store_id: snapshot.map(|snapshot| &*snapshot.store_id),
            memories: snapshot.map(|snapshot| snapshot.rows_total),
            live: snapshot.map(Snapshot::live_count),
            with_embedding: snapshot.map(Snapshot::with_vector_count),
            skipped: snapshot.map(|snapshot| &snapshot.skipped),
            examples: snapshot.map(|snapshot| &snapshot.skip_examples),
            spaces: snapshot.map(|snapshot| spaces(checkup, snapshot)),
            rivals: checkup.facts.rivals.iter().map(RivalDocument::of).collect(),
            notes: snapshot.map(|snapshot| &*snapshot.notes),
            findings: findings.iter().map(FindingDocument::of).collect(),
        }
    }
}

fn spaces<'a>(checkup: &Checkup, snapshot: &'a Snapshot) -> Vec<SpaceDocument<'a>> {
    let spaces = snapshot.spaces.iter().zip(&checkup.vectors);
    spaces
        .map(|(space, &vectors)| SpaceDocument { model: &space.model, dim: space.dim, vectors })
        .collect()
}

impl<'a> RivalDocument<'a> {
    fn of(Rival { place, what, rows, .. }: &'a Rival) -> Self {
        Self { place, what, rows: *rows }
    }
}

impl<'a> FindingDocument<'a> {
    fn of(finding: &'a Finding) -> Self {
        let Finding { severity, code, what, count, examples, mend } = finding;
        let mend = mend.iter().map(MendDocument::of).collect();
        Self { severity: severity.name(), code, what, count: *count, examples, mend }
    }
}

impl<'a> MendDocument<'a> {
    fn of(mend: &'a Mend) -> Self {
        let (kind, text) = match mend {
            Mend::Command(line) => ("command", line),
            Mend::Sql(statement) => ("sql", statement),
            Mend::Advice(words) => ("advice", words),
        };
        Self { kind, text }
    }
}

impl<'a> HealthDocument<'a> {
    pub(super) fn of(health: &'a Health) -> Self {
        let counts = health.counts.as_ref();
        Self {
            schema_version: 1,
            status: health.status.word().to_lowercase(),
            reasons: &health.reasons,
            memories: counts.map(|counts| counts.figures.memories),
            live: counts.map(|counts| counts.live),
            with_embedding_row: counts.map(|counts| counts.figures.embedded),
            consolidated: counts.map(|counts| counts.figures.consolidated),
            open_flags: counts.map(|counts| counts.open_flags),
            store_bytes: counts.map(|counts| counts.store_bytes),
            log_bytes: counts.map(|counts| counts.log_bytes),
            whole_file_checked: counts.map(|counts| counts.is_whole_file_checked),
            line: health.line(),
        }
    }
}
