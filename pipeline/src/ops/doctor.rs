//! The state of a store: findings with their fixes, or one line for a monitor.

use std::collections::BTreeMap;

use memfold_core::memory::VectorSpace;
use memfold_core::policy::defaults::SHARED_VECTOR_TEXTS_MAX;
use memfold_core::{SkipReason, Snapshot};
use memfold_index::{NoProgress, Progress};
use memfold_store::LoadRequest;
use memfold_store::brain_db::{
    Checkup, Finding, Health, HealthStatus, Mend, OtherConsolidator, Severity, findings, health,
};
use serde::Serialize;

use super::{
    Failure, Mirrored, Settings, Sources, StorePath, counted, now, open_options, open_store,
    path_word,
};

/// A store, examined.
#[derive(Debug)]
pub struct Examined {
    /// The facts, and the memories where they can be read.
    pub checkup: Checkup,
    /// What is as it should be, and what is not.
    pub findings: Vec<Finding>,
}

/// `memfold doctor --json`. Unreadable values are `null`.
#[derive(Debug, Serialize)]
pub struct DoctorDocument<'a> {
    schema_version: u32,
    store_id: Option<&'a str>,
    /// Rows in the memory table.
    memories: Option<u64>,
    /// Live memories.
    live: Option<u64>,
    /// Live memories with a valid vector.
    with_embedding: Option<u64>,
    /// Rows and embeddings left out or limited, by reason.
    skipped: Option<&'a BTreeMap<SkipReason, u64>>,
    /// One example of each reason.
    examples: Option<&'a BTreeMap<SkipReason, String>>,
    /// Models and their vectors.
    spaces: Option<Vec<SpaceDocument<'a>>>,
    /// Traces of other consolidators.
    other_consolidators: &'a [OtherConsolidator],
    notes: Option<&'a [String]>,
    findings: &'a [Finding],
}

/// The vectors of a model.
#[derive(Debug, Serialize)]
struct SpaceDocument<'a> {
    #[serde(flatten)]
    space: &'a VectorSpace,
    vectors: u64,
}

/// `memfold doctor --health --json`. Unreadable values are `null`.
#[derive(Debug, Serialize)]
pub struct HealthDocument<'a> {
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
    /// Memories that a consolidation merged or archived.
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

/// Examines a store at a time; writes nothing.
///
/// # Errors
/// When it cannot be opened. Damage is a finding.
pub fn doctor(
    store: &StorePath,
    settings: &Settings,
    at: Option<&str>,
    progress: &dyn Progress,
) -> Result<Examined, Failure> {
    let time_zone = settings.time_zone()?;
    let load = LoadRequest { time_zone: &time_zone, now: now(at, &time_zone)?, progress };
    let checkup = open_store(store, settings)?.checkup(&load, SHARED_VECTOR_TEXTS_MAX);
    let checkup =
        checkup.map_err(|error| Failure::of(&format!("read {}", store.display()), &error))?;
    let mut findings = findings(&checkup.facts, &path_word(store.named()));
    if let Some(what) = unread(store) {
        findings.insert(0, Finding::new(Severity::Critical, "nothing_read", what));
    }
    if store.mirrored().is_some() {
        findings.iter_mut().for_each(of_mirror);
    }
    Ok(Examined { checkup, findings })
}

/// Looks at a store for a monitor: it never fails, and reads no vectors.
#[must_use]
pub fn store_health(store: &StorePath, sources: &Sources, at: Option<&str>) -> Health {
    let look = || -> Result<Health, Failure> {
        let settings = Settings::load(sources, Some(store), &[])?;
        let time_zone = settings.time_zone()?;
        let now = now(at, &time_zone)?;
        let load = LoadRequest { time_zone: &time_zone, now, progress: &NoProgress };
        Ok(health(store, open_options(&settings), &load))
    };
    let reason = match unread(store) {
        Some(reason) => reason,
        None => match look() {
            Ok(health) => return health,
            Err(failure) => failure.message,
        },
    };
    Health::unknown(HealthStatus::Critical, &reason)
}

/// A missing part that a store of another kind does not need is a remark, and no statement is for
/// its mirror.
fn of_mirror(finding: &mut Finding) {
    if ["times_unreadable", "embeddings_missing"].contains(&finding.code) {
        finding.severity = Severity::Info;
        finding.examples.clear();
    }
    finding.mend.retain(|mend| !matches!(mend, Mend::Sql(_)));
}

/// Reports that nothing of a store of another kind could be read.
fn unread(store: &StorePath) -> Option<String> {
    let Mirrored { kind, unread, .. } = store.mirrored()?;
    let count = counted((*unread)? as u64, "place", "places");
    Some(format!("nothing of the store could be read as {kind}: {count} left out"))
}

impl Examined {
    /// Returns it as a document.
    #[must_use]
    pub fn document<'a>(&'a self) -> DoctorDocument<'a> {
        let snapshot = self.checkup.loaded.as_ref().ok();
        let space = |(space, &vectors)| SpaceDocument { space, vectors };
        DoctorDocument {
            schema_version: 1,
            store_id: snapshot.map(|snapshot| &*snapshot.store_id),
            memories: snapshot.map(|snapshot| snapshot.rows_total),
            live: snapshot.map(Snapshot::live_count),
            with_embedding: snapshot.map(Snapshot::with_vector_count),
            skipped: snapshot.map(|snapshot| &snapshot.skipped),
            examples: snapshot.map(|snapshot| &snapshot.skip_examples),
            spaces: snapshot.map(|snapshot| {
                snapshot.spaces.iter().zip(&self.checkup.vectors).map(space).collect()
            }),
            other_consolidators: &self.checkup.facts.other_consolidators,
            notes: snapshot.map(|snapshot| &*snapshot.notes),
            findings: &self.findings,
        }
    }
}

impl<'a> HealthDocument<'a> {
    /// Takes the state of a store.
    #[must_use]
    pub fn of(health: &'a Health) -> Self {
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
