//! Flags and decisions as the records and rows that stand for them.

use memfold_core::decisions::content_hash;
use memfold_core::journal::{Change, ColumnChange, Record, RowImage, RowKey, Table};
use memfold_core::memory::MemoryId;
use memfold_core::plan::{Action, Evidence, UPDATE, flag_key};
use memfold_core::row::categories_to_json;
use memfold_core::value::Value;
use memfold_store::brain_db::{FlagKind, Layout, SessionError, UnitRow, Writes};

/// Returns the flag of two that are alike and were not folded.
pub(crate) fn near_flag(rows: [&UnitRow; 2], evidence: &Evidence) -> Option<Change> {
    let flag = Flag::between(rows)?;
    Some(flag.record(FlagKind::Near, None, evidence, "open", Value::Null))
}

pub(super) fn kind_of(evidence: &Evidence) -> FlagKind {
    let is_update = evidence.contradiction_signals.first().is_some_and(|sign| sign == UPDATE);
    if is_update { FlagKind::Update } else { FlagKind::Contradiction }
}

/// A pair, smaller id first, with the hashes of its texts.
pub(super) struct Flag<'a> {
    ids: [&'a MemoryId; 2],
    hashes: [String; 2],
    pub(super) key: String,
}

impl<'a> Flag<'a> {
    pub(super) fn between([a, b]: [&'a UnitRow; 2]) -> Option<Self> {
        let rows = if a.id < b.id { [a, b] } else { [b, a] };
        let hash = |row: &UnitRow| Some(content_hash(row.image.get("content")?.as_text()?));
        let ids = rows.map(|row| &row.id);
        Some(Self { ids, hashes: [hash(rows[0])?, hash(rows[1])?], key: flag_key(ids[0], ids[1]) })
    }

    pub(super) fn record(
        &self,
        kind: FlagKind,
        score: Option<f64>,
        evidence: &Evidence,
        state: &'static str,
        memory_id: Value,
    ) -> Change {
        let json = |list: &[String]| serde_json::Value::from(list.to_vec()).to_string().into();
        let number = |value: Option<f64>| value.map_or(Value::Null, Value::Real);
        Change::Record(Record {
            table: Table::Flags,
            cells: vec![
                ("key", self.key.as_str().into()),
                ("kind", kind.name().into()),
                ("left_id", self.ids[0].as_str().into()),
                ("right_id", self.ids[1].as_str().into()),
                ("left_hash", self.hashes[0].as_str().into()),
                ("right_hash", self.hashes[1].as_str().into()),
                ("similarity", number(evidence.similarity)),
                ("score", number(score)),
                ("signals", json(&evidence.contradiction_signals)),
                ("differences", json(&evidence.differences)),
                ("memory_id", memory_id),
                ("state", state.into()),
            ],
        })
    }

    /// The row of `stm` that the owner's own consolidator would write.
    pub(super) fn row(&self, action: &Action, run_id: &str, at: &str) -> RowImage {
        let evidence = &action.rationale.evidence;
        let content = serde_json::json!({
            "type": "contradiction",
            "ids": self.ids,
            "evidence": {
                "similarity": evidence.similarity,
                "contradictionSignals": evidence.contradiction_signals,
                "differences": evidence.differences,
            },
            "run_id": run_id,
        });
        let digest = blake3::hash(format!("{} {}", self.key, run_id).as_bytes()).to_hex();
        let cells: Vec<(&str, Value)> = vec![
            ("id", format!("stm_{}", &digest[..12]).into()),
            ("content", content.to_string().into()),
            ("categories", categories_to_json(&["contradictions", "consolidation"]).into()),
            ("importance", Value::Real(2.0)),
            ("access_count", Value::Integer(0)),
            ("created_at", at.into()),
            ("updated_at", at.into()),
            ("source", format!("consolidation:contradiction:{}", self.key).into()),
        ];
        let cells = cells.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        RowImage { rowid: None, cells }
    }
}

/// Closes an open flag.
pub(crate) fn settled(flag: i64, state: &'static str) -> Change {
    Change::Set {
        row: RowKey { table: Table::Flags, key: flag.to_string() },
        columns: vec![ColumnChange {
            column: "state".to_owned(),
            before: "open".into(),
            after: state.into(),
            delta: None,
        }],
        image: None,
    }
}

/// A decision about a memory whose text is as it is; `None` where the memory is gone.
pub(crate) fn decision(
    writes: &Writes<'_>,
    layout: &Layout,
    kind: &str,
    id: &MemoryId,
    with: (&'static str, Value),
) -> Result<Option<Change>, SessionError> {
    let row = writes.memory(layout, id)?;
    let content = row.as_ref().and_then(|row| row.image.get("content")?.as_text());
    Ok(content.map(|content| {
        Change::Record(Record {
            table: Table::Decisions,
            cells: vec![
                ("kind", kind.into()),
                ("memory_id", id.as_str().into()),
                ("content_hash", content_hash(content).into()),
                with,
            ],
        })
    }))
}
