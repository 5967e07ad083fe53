//! What keeps the next run from doing again what was taken back.

use std::collections::{BTreeMap, BTreeSet};

use memfold_model::decisions::content_hash;
use memfold_model::memory::MemoryId;
use memfold_plan::plan::ActionType;
use memfold_store::brain_db::{Deed, Layout, SessionError, UnitRecord, Writes};
use memfold_store::journal::{Change, Record, StoredValue, Table};

/// The base digests of what a unit touched, as it is now.
pub(super) fn digests(
    writes: &Writes<'_>,
    layout: &Layout,
    deeds: &[Deed],
) -> Result<BTreeMap<MemoryId, String>, SessionError> {
    let mut digests = BTreeMap::new();
    for id in deeds.iter().flat_map(|deed| &deed.ids) {
        let row = writes.memory(layout, id)?;
        let digest = row.map_or_else(String::new, |row| row.digest.to_string());
        digests.insert(id.clone(), digest);
    }
    Ok(digests)
}

/// What keeps the next run from doing the same again, while the texts stay as they are.
pub(super) fn decisions(
    writes: &Writes<'_>,
    layout: &Layout,
    unit: &UnitRecord,
    group: &str,
) -> Result<Vec<Change>, SessionError> {
    let mut changes = Vec::new();
    let rules = [ActionType::Merge, ActionType::Promote, ActionType::Archive];
    let touched = unit.deeds.iter().filter(|deed| rules.contains(&deed.action));
    for id in touched.flat_map(|deed| &deed.ids).collect::<BTreeSet<_>>() {
        changes.extend(decision(writes, layout, ("taken_back", id), ("group_id", group.into()))?);
    }
    for deed in &unit.deeds {
        match deed.action {
            ActionType::Merge => {
                for id in &deed.ids {
                    let group = ("group_id", group.into());
                    changes.extend(decision(writes, layout, ("keep_both", id), group)?);
                }
            }
            ActionType::Promote | ActionType::Archive => {
                let action = ("action", deed.action.name().into());
                for id in &deed.ids {
                    changes.extend(decision(writes, layout, ("declined", id), action.clone())?);
                }
            }
            ActionType::FlagContradiction => {
                let unit = (unit.run_id.as_str(), unit.unit);
                changes.extend(writes.closed_flags_of(unit)?.into_iter().map(Change::Record));
            }
            ActionType::Noop => {}
        }
    }
    Ok(changes)
}

/// A decision about a memory whose text is as it is; `None` where the memory is gone.
pub(crate) fn decision(
    writes: &Writes<'_>,
    layout: &Layout,
    (kind, id): (&str, &MemoryId),
    with: (&'static str, StoredValue),
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
