//! The publication: differences between the mirror and its origin are written to the origin.

use std::collections::{BTreeMap, BTreeSet};

use memfold_core::time::Instant;
use memfold_store::StoreError;
use memfold_store::brain_db::{LastUnit, MemoryState, MirroredRecord};
use memfold_store::origin::{
    OriginChange, OriginConflict, OriginRecord, OriginStatus, OriginUnit, Published,
};
use serde::{Deserialize, Serialize};

use super::MirrorError;
use super::open::Mirror;
use super::pull::Pulled;
use super::units::{Difference, differences, groups, rank};

/// The mark of a record that differs from the written one: the next pull takes it in.
const MARK_UNKNOWN: &str = "?";

/// The results of a publication.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Publication {
    /// The units that the origin has now.
    pub units: Vec<OriginUnit>,
    /// The units that it was left without, and why; the mirror took them back.
    pub conflicts: Vec<(OriginUnit, OriginConflict)>,
}

/// A publication under way, as it is recorded before the first write.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
pub(super) struct Publishing {
    units: Vec<OriginUnit>,
    /// The states that the units tell the origin; `None` where a memory is gone.
    states: BTreeMap<String, Option<MemoryState>>,
}

impl Publishing {
    pub(super) fn ids(&self) -> BTreeSet<String> {
        self.states.keys().cloned().collect()
    }
}

impl Publication {
    /// Returns how many records are changed.
    #[must_use]
    pub fn changes(&self) -> usize {
        self.units.iter().map(|unit| unit.changes.len()).sum()
    }
}

impl Mirror<'_> {
    /// Returns the units that a publication would write now; writes nothing.
    ///
    /// # Errors
    /// When the mirror cannot be read.
    pub fn pending(&self) -> Result<Vec<OriginUnit>, MirrorError> {
        match self.publishing()? {
            Some(publishing) => Ok(publishing.units),
            None => Ok(self.to_publish()?.units),
        }
    }

    /// Finishes a publication that was interrupted, if one was. Call it before [`Self::pull`] where the origin may be
    /// written.
    ///
    /// # Errors
    /// When the origin cannot be read or written, or the mirror not written.
    pub(crate) fn finish_publication(&self) -> Result<Publication, MirrorError> {
        match self.publishing()? {
            Some(publishing) => self.write_units(publishing),
            None => Ok(Publication::default()),
        }
    }

    /// Writes the mirror's differences to the origin. Units that are written already are passed
    /// over.
    ///
    /// # Errors
    /// When the origin cannot be read or written, or the mirror not written. The next publication goes on.
    pub fn publish(&self) -> Result<Publication, MirrorError> {
        let mut finished = self.finish_publication()?;
        let publishing = self.to_publish()?;
        if publishing.units.is_empty() {
            return Ok(finished);
        }
        let json = serde_json::to_string(&publishing).map_err(|error| StoreError::Refused {
            what: "write down what is published",
            reason: error.to_string(),
        })?;
        self.session.write(|writes| writes.set_publishing(Some(&json)))?;
        let published = self.write_units(publishing)?;
        finished.units.extend(published.units);
        finished.conflicts.extend(published.conflicts);
        Ok(finished)
    }

    /// Compares the mirror with the origin's published states.
    fn to_publish(&self) -> Result<Publishing, MirrorError> {
        let present = self.present()?;
        let mut publishing = Publishing::default();
        self.session.read(|reads| {
            let mut found =
                differences(&present, self.origin.separate_by(), |id| reads.made_of(id))?;
            for group in groups(&found) {
                let mut last = None;
                for id in &group {
                    let unit = reads.last_unit_of(id)?;
                    last = last.or(unit);
                    let state = present.memories.get(id).map(|memory| memory.state.clone());
                    publishing.states.insert(id.clone(), state);
                }
                let changes = group.iter().filter_map(|id| found.remove(id));
                publishing.units.push(self.unit(changes.collect(), last));
            }
            Ok::<_, StoreError>(())
        })?;
        Ok(publishing)
    }

    fn unit(&self, differences: Vec<Difference>, last: Option<LastUnit>) -> OriginUnit {
        let last = last.unwrap_or_else(|| LastUnit {
            run_id: String::new(),
            at: self.at(),
            rule: "save".to_owned(),
        });
        let at = Instant::parse(&last.at, self.options.time_zone).unwrap_or(self.options.now);
        let mut changes: Vec<OriginChange> = differences.into_iter().map(|d| d.change).collect();
        for change in &mut changes {
            if let OriginChange::Retire { reason, .. } = change {
                reason.clone_from(&last.rule);
            }
        }
        changes.sort_by_key(rank);
        OriginUnit { run_id: last.run_id, at: at.to_rfc3339(), rule: last.rule, changes }
    }

    fn write_units(&self, publishing: Publishing) -> Result<Publication, MirrorError> {
        let published = self.origin.write(&publishing.units)?;
        let ids = publishing.states.keys().map(String::as_str).collect();
        let contents = self.origin.read_some(&ids)?;
        let by_id: BTreeMap<&str, &OriginRecord> =
            contents.records.iter().map(|record| (record.id.as_str(), record)).collect();
        self.settle(&publishing, &published, &by_id)?;
        let Published { units: written, conflicts } = published;
        if !conflicts.is_empty() {
            self.give_up(&publishing, &conflicts)?;
            let _: Pulled = self.pull()?;
        }
        let unit = |at: usize| publishing.units.get(at).cloned();
        let with_unit = |conflict: OriginConflict| Some((unit(conflict.unit)?, conflict));
        Ok(Publication {
            units: written.into_iter().filter_map(unit).collect(),
            conflicts: conflicts.into_iter().filter_map(with_unit).collect(),
        })
    }

    /// Records the origin's present state. Differences from the published state are left to the
    /// next pull.
    fn settle(
        &self,
        publishing: &Publishing,
        published: &Published,
        by_id: &BTreeMap<&str, &OriginRecord>,
    ) -> Result<(), MirrorError> {
        let at = self.at();
        let changes = published.units.iter().filter_map(|at| publishing.units.get(*at));
        self.session.write(|writes| {
            let mut records = writes.mirrored_records()?;
            for change in changes.flat_map(|unit| &unit.changes) {
                let id = change.id();
                let state = publishing.states.get(id).cloned().flatten();
                match (change, state, by_id.get(id)) {
                    (OriginChange::Remove { .. }, ..) | (_, None, _) => writes.drop_mirrored(id)?,
                    // Gone again: the next pull finds that out.
                    (_, Some(_), None) => {}
                    (_, Some(state), Some(record)) => {
                        let known = records.remove(id);
                        let known = known.unwrap_or_else(|| created(record, &state));
                        let settled = settled(change, known, state, record);
                        writes.put_mirrored(&settled, &at)?;
                    }
                }
            }
            writes.set_publishing(None)
        })?;
        Ok(())
    }

    /// Takes the units of conflicts back in the mirror.
    fn give_up(
        &self,
        publishing: &Publishing,
        conflicts: &[OriginConflict],
    ) -> Result<(), MirrorError> {
        let records = self.session.read(|reads| reads.mirrored_records())?;
        let units = conflicts.iter().filter_map(|conflict| publishing.units.get(conflict.unit));
        // Saved memories stay in the mirror, and are offered again.
        let is_saved = |change: &&OriginChange| matches!(change, OriginChange::Create { made_of, .. } if made_of.is_empty());
        let changes = units.flat_map(|unit| &unit.changes).filter(|change| !is_saved(change));
        let published = |change: &OriginChange| {
            let id = change.id();
            (id.to_owned(), records.get(id).map(|known| known.published.clone()))
        };
        let wanted: Vec<(String, Option<MemoryState>)> = changes.map(published).collect();
        self.take_back(&wanted)
    }
}

/// The mirror's entry for a record that memfold made.
fn created(record: &OriginRecord, state: &MemoryState) -> MirroredRecord {
    MirroredRecord {
        id: record.id.clone(),
        mark: String::new(),
        digest: String::new(),
        record: OriginRecord { vector: None, ..record.clone() },
        pulled: state.clone(),
        published: state.clone(),
        is_ours: true,
    }
}

/// The mirror's entry for a record after a change was written.
fn settled(
    change: &OriginChange,
    known: MirroredRecord,
    state: MemoryState,
    record: &OriginRecord,
) -> MirroredRecord {
    let is_as_told = match change {
        OriginChange::Create { record: told, .. }
        | OriginChange::Update { record: told, .. }
        | OriginChange::Restore { record: told, .. } => {
            record.status == OriginStatus::Live && record.text == told.text
        }
        OriginChange::Retire { .. } => record.status != OriginStatus::Live,
        OriginChange::Remove { .. } => false,
    };
    let mark = if is_as_told { record.mark() } else { MARK_UNKNOWN.to_owned() };
    MirroredRecord { mark, digest: record.digest(), published: state, ..known }
}
