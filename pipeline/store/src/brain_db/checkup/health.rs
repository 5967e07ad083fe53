//! [`health`]: one line for a monitor.

use std::path::Path;

use super::facts::Facts;
use super::finding::Severity;
use super::findings::{findings, size};
use super::gather::Gatherer;
use super::sound::Check;
use crate::brain_db::{BrainDb, OpenOptions, OpenStoreError};
use crate::{LoadRequest, LoadStoreError};
use memfold_model::memory::Standing;
use memfold_model::text::excerpt;
use memfold_plan::report::StoreFigures;

/// Larger files are checked in part: their memory table alone.
const CHECKED_BYTES_MAX: u64 = 512 << 20;

/// Reasons are cut after so many characters.
const REASON_CHARS: usize = 200;

/// How a store is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum HealthStatus {
    /// Sound.
    Ok,
    /// It works, but a person should look.
    Warning,
    /// It cannot be read, or is damaged.
    Critical,
}

impl HealthStatus {
    /// Returns the word that the line begins with.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Ok => "OK",
            Self::Warning => "WARN",
            Self::Critical => "CRITICAL",
        }
    }
}

/// What a monitor wants to know of a store.
#[derive(Debug, Clone, PartialEq)]
pub struct Health {
    /// How it is.
    pub status: HealthStatus,
    /// Why it is not ok: fit to be shown.
    pub reasons: Vec<String>,
    /// Counts, where the store could be read.
    pub counts: Option<HealthCounts>,
}

/// Counts of a readable store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HealthCounts {
    /// Counts over the whole memory table.
    pub figures: StoreFigures,
    /// Memories that may take part in a consolidation.
    pub live: u64,
    /// Contradictory pairs that wait for a person.
    pub open_flags: u64,
    /// Bytes of the store.
    pub store_bytes: u64,
    /// Bytes of its write-ahead log.
    pub log_bytes: u64,
    /// Whether the check went through the whole file, or only through the memory table.
    pub is_whole_file_checked: bool,
}

impl Health {
    /// A store of which nothing but this is known.
    #[must_use]
    pub fn unknown(status: HealthStatus, reason: &str) -> Self {
        Self { status, reasons: vec![excerpt(reason, REASON_CHARS)], counts: None }
    }

    /// Returns the line, without a line break: `OK | STM:377 | live:366 | …`, with reasons at its end.
    #[must_use]
    pub fn line(&self) -> String {
        let mut parts = vec![self.status.word().to_owned()];
        if let Some(counts) = &self.counts {
            parts.extend([
                format!("STM:{}", counts.figures.memories),
                format!("live:{}", counts.live),
                format!("embedded:{:.0}%", 100.0 * counts.figures.embedded_share()),
                format!("flags:{}", counts.open_flags),
                format!("size:{}", size(counts.store_bytes).replace(' ', "")),
                format!("wal:{}", size(counts.log_bytes).replace(' ', "")),
            ]);
        }
        if !self.reasons.is_empty() {
            parts.push(self.reasons.join("; "));
        }
        parts.join(" | ")
    }
}

/// Looks at a store without its vectors: quick counts, a quick check, memfold's own tables. Writes nothing, and
/// fails never: what cannot be read is critical, what is locked a warning.
#[must_use]
pub fn health(path: &Path, options: OpenOptions, request: &LoadRequest<'_>) -> Health {
    let looked = BrainDb::open(path, options)
        .map_err(LoadStoreError::from)
        .and_then(|store| store.glance(request));
    match looked {
        Ok((facts, counts)) => judged(&facts, counts),
        Err(LoadStoreError::Open(error @ OpenStoreError::Locked { .. })) => {
            Health::unknown(HealthStatus::Warning, &error.to_string())
        }
        Err(error) => Health::unknown(HealthStatus::Critical, &error.to_string()),
    }
}

fn judged(facts: &Facts, counts: HealthCounts) -> Health {
    let findings = findings(facts, "");
    let bad = findings.iter().filter(|finding| finding.severity >= Severity::Warning);
    let reasons = bad.clone().map(|finding| excerpt(&finding.what, REASON_CHARS)).collect();
    let status = match bad.map(|finding| finding.severity).max() {
        None => HealthStatus::Ok,
        Some(Severity::Critical) => HealthStatus::Critical,
        Some(_) => HealthStatus::Warning,
    };
    Health { status, reasons, counts: Some(counts) }
}

impl BrainDb {
    fn glance(&self, request: &LoadRequest<'_>) -> Result<(Facts, HealthCounts), LoadStoreError> {
        self.traceless(|reader, connection| {
            let failed = |error| self.failed(&reader.stamp, "stm", &error);
            let bytes = std::fs::metadata(self.path()).map_or(0, |metadata| metadata.len());
            let is_whole_file_checked = bytes <= CHECKED_BYTES_MAX;
            let check = if is_whole_file_checked { Check::Quick } else { Check::QuickMemories };
            let gatherer = Gatherer { store: self, reader, connection, request };
            let facts = gatherer.few(check).map_err(failed)?;
            let memories = self.read_memories(reader, connection, request)?;
            let live = memories.iter().filter(|memory| memory.standing == Standing::Live).count();
            let counts = HealthCounts {
                figures: super::figures::read(connection).map_err(failed)?,
                live: live as u64,
                open_flags: facts.own.as_ref().map_or(0, |own| own.open_flags),
                store_bytes: facts.files.store_bytes,
                log_bytes: facts.files.log_bytes,
                is_whole_file_checked,
            };
            Ok((facts, counts))
        })
    }
}
