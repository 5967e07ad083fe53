//! The pull: records that others changed, added and removed in an origin are taken into its mirror.

use std::collections::{BTreeMap, BTreeSet};

use memfold_store::StoreError;
use memfold_store::brain_db::{Layout, MemoryState, MirrorMemory, MirroredRecord, Writes};
use memfold_store::origin::{OriginContents, OriginRecord, OriginStatus, Skipped};

use super::MirrorError;
use super::open::Mirror;
use super::publish::Publishing;

/// The results of a pull.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Pulled {
    /// Records that the origin holds.
    pub records: u64,
    /// Live ones among them.
    pub live: u64,
    /// Records that are new in the mirror.
    pub added: u64,
    /// Records that others changed.
    pub changed: u64,
    /// Records that others removed.
    pub removed: u64,
    /// Memories whose unpublished changes were undone, because others changed their records.
    pub undone: Vec<String>,
    /// Contents of the origin that are not records, and why.
    pub skipped: Vec<Skipped>,
    /// Whether a publication was begun and is not finished: its records were left alone.
    pub is_unfinished: bool,
}

/// The contents of a mirror, at one instant.
pub(super) struct Present {
    pub(super) records: BTreeMap<String, MirroredRecord>,
    pub(super) memories: BTreeMap<String, MirrorMemory>,
    /// Memories that an undone run had made.
    pub(super) withdrawn: BTreeSet<String>,
    /// The records of a publication under way.
    pub(super) publishing: BTreeSet<String>,
}

impl Mirror<'_> {
    /// Reads the origin and takes in changes, in one transaction. Writes nothing to the origin.
    ///
    /// # Errors
    /// When the origin cannot be read or the mirror not written.
    pub fn pull(&self) -> Result<Pulled, MirrorError> {
        self.take_in(self.origin.read()?)
    }

    /// Takes in the contents of an origin.
    pub(super) fn take_in(&self, contents: OriginContents) -> Result<Pulled, MirrorError> {
        let present = self.present()?;
        let disputed: Vec<(String, Option<MemoryState>)> =
            contents.records.iter().filter_map(|record| disputed(record, &present)).collect();
        self.take_back(&disputed)?;
        let at = self.at();
        let mut pulled: Pulled = self.session.write(|writes| {
            writes.prepare(&at)?;
            let mut taking = Taking {
                writes,
                layout: writes.layout()?,
                at: &at,
                present: &present,
                taken: BTreeMap::new(),
                pulled: Pulled::default(),
            };
            taking.take_all(&contents.records)?;
            taking.write_down()?;
            Ok::<_, StoreError>(taking.pulled)
        })?;
        pulled.undone = disputed.into_iter().map(|(id, _)| id).collect();
        pulled.is_unfinished = !present.publishing.is_empty();
        pulled.skipped.extend(contents.skipped);
        Ok(pulled)
    }

    pub(super) fn present(&self) -> Result<Present, MirrorError> {
        let (records, memories, withdrawn) = self.session.read(|reads| {
            let (records, memories) = (reads.mirrored_records()?, reads.mirror_memories()?);
            Ok::<_, StoreError>((records, memories, reads.withdrawn_memories()?))
        })?;
        let publishing = self.publishing()?.map(|publishing| publishing.ids()).unwrap_or_default();
        Ok(Present { records, memories, withdrawn, publishing })
    }

    /// The record of an unfinished publication.
    pub(super) fn publishing(&self) -> Result<Option<Publishing>, MirrorError> {
        let found = self.session.read(|reads| reads.mirror_of())?;
        let Some(json) = found.and_then(|mirror| mirror.publishing) else { return Ok(None) };
        serde_json::from_str(&json).map(Some).map_err(|error| MirrorError::Unreadable {
            path: self.options.path.to_owned(),
            reason: error.to_string(),
        })
    }
}

/// Returns a record that others changed while its memory was changed too, with the state that the origin has of it.
fn disputed(record: &OriginRecord, present: &Present) -> Option<(String, Option<MemoryState>)> {
    let known = present.records.get(&record.id)?;
    if known.mark == record.mark() || present.publishing.contains(&record.id) {
        return None;
    }
    let now = present.memories.get(&record.id).map(|memory| &memory.state);
    (now != Some(&known.published)).then(|| (record.id.clone(), Some(known.published.clone())))
}

/// A pull under way.
struct Taking<'a> {
    writes: &'a Writes<'a>,
    layout: Layout,
    at: &'a str,
    present: &'a Present,
    /// The records that were taken, by id, each with its mark.
    taken: BTreeMap<&'a str, (&'a OriginRecord, String)>,
    pulled: Pulled,
}

impl<'a> Taking<'a> {
    fn take_all(&mut self, records: &'a [OriginRecord]) -> Result<(), StoreError> {
        let mut ids = BTreeSet::new();
        for record in records {
            if !ids.insert(record.id.as_str()) {
                let reason = format!("its id {:?} is that of an earlier record", record.id);
                self.pulled.skipped.push(Skipped { place: record.place.clone(), reason });
                continue;
            }
            self.pulled.records += 1;
            self.pulled.live += u64::from(record.status == OriginStatus::Live);
            if !self.present.publishing.contains(&record.id) {
                self.take(record)?;
            }
        }
        for id in self.present.records.keys() {
            if !ids.contains(id.as_str()) && !self.present.publishing.contains(id) {
                self.writes.drop_record(&self.layout, id)?;
                self.pulled.removed += 1;
            }
        }
        Ok(())
    }

    fn take(&mut self, record: &'a OriginRecord) -> Result<(), StoreError> {
        let mark = record.mark();
        match self.present.records.get(&record.id) {
            Some(known) if known.mark == mark => return Ok(()),
            Some(_) => self.pulled.changed += 1,
            None => self.pulled.added += 1,
        }
        self.taken.insert(&record.id, (record, mark));
        self.writes.take_record(&self.layout, record, self.at)
    }

    /// Records the states after the pull: of the taken records, and of other records with a memory
    /// that the pull changed.
    fn write_down(&self) -> Result<(), StoreError> {
        if self.taken.is_empty() && self.pulled.removed == 0 {
            return Ok(());
        }
        for (id, memory) in self.writes.mirror_memories()? {
            let (known, state) = (self.present.records.get(&id), memory.state);
            let mirrored = match (self.taken.get(id.as_str()), known) {
                (Some((record, mark)), known) => MirroredRecord {
                    id,
                    mark: mark.clone(),
                    digest: record.digest(),
                    record: OriginRecord { vector: None, ..(*record).clone() },
                    pulled: state.clone(),
                    published: state,
                    is_ours: known.is_some_and(|known| known.is_ours),
                },
                (None, Some(known)) if self.is_moved(known, &state) => {
                    let is_as_pulled = known.pulled == known.published;
                    let pulled = if is_as_pulled { state.clone() } else { known.pulled.clone() };
                    MirroredRecord { pulled, published: state, ..known.clone() }
                }
                (None, _) => continue,
            };
            self.writes.put_mirrored(&mirrored, self.at)?;
        }
        Ok(())
    }

    /// Tells whether this pull changed a memory that agreed with the origin.
    fn is_moved(&self, known: &MirroredRecord, state: &MemoryState) -> bool {
        let before = self.present.memories.get(&known.id).map(|memory| &memory.state);
        before == Some(&known.published) && *state != known.published
    }
}
