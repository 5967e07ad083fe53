//! Changes of records: what the adapters do alike.

use std::collections::{BTreeMap, BTreeSet};

use memfold_store::origin::{
    OriginChange, OriginConflict, OriginRecord, OriginStanding, Published,
};

/// Why a unit is left alone: the record and the reason.
pub(crate) type Refusal = (String, String);

/// Notes what became of the unit at a position.
pub(crate) fn note(published: &mut Published, unit: usize, outcome: Result<(), Refusal>) {
    match outcome {
        Ok(()) => published.units.push(unit),
        Err((id, reason)) => published.conflicts.push(OriginConflict { unit, id, reason }),
    }
}

/// Returns the digest of a record that is written like this.
pub(crate) fn digest_of(raw: impl Into<String>) -> String {
    OriginRecord { raw: raw.into(), ..OriginRecord::default() }.digest()
}

/// Returns the digest of a text: 32 hexadecimal digits.
pub(crate) fn digest(bytes: impl AsRef<[u8]>) -> String {
    blake3::hash(bytes.as_ref()).to_hex()[..32].to_owned()
}

/// Returns the standing of a record that was merged into another one, or archived.
pub(crate) fn retired_standing(into: Option<&str>) -> OriginStanding {
    into.map_or(OriginStanding::Archived, |into| OriginStanding::Merged { into: into.to_owned() })
}

/// Returns an attribute of a record.
pub(crate) fn attribute<'r>(record: &'r OriginRecord, name: &str) -> Option<&'r str> {
    let found = record.attributes.iter().find(|(known, _)| known == name);
    found.map(|(_, value)| value.as_str())
}

/// How a store says why a change is refused.
pub(crate) struct Reasons {
    pub(crate) changed: &'static str,
    /// The record is not in the store.
    pub(crate) gone: &'static str,
    /// It is neither there nor among those that were taken out.
    pub(crate) unknown: &'static str,
}

/// Refuses a change of a record that others changed, which stands in a store as `live`, or was taken out as `removed`. What
/// is made already is possible again. A new record is never refused.
pub(crate) fn check(
    change: &OriginChange,
    live: Option<&OriginRecord>,
    removed: Option<&OriginRecord>,
    reasons: &Reasons,
) -> Result<(), Refusal> {
    let is_known = |found: &OriginRecord, before: &str| found.digest() == before;
    let refusal = match (change, live) {
        (OriginChange::Retire { .. }, None) if removed.is_some() => None,
        (OriginChange::Update { .. } | OriginChange::Retire { .. }, None) => Some(reasons.gone),
        (OriginChange::Update { before, record, .. }, Some(live)) => {
            let is_possible = record.text == live.text || is_known(live, before);
            (!is_possible).then_some(reasons.changed)
        }
        (OriginChange::Retire { before, .. }, Some(live))
        | (OriginChange::Remove { before: Some(before), .. }, Some(live)) => {
            (!is_known(live, before)).then_some(reasons.changed)
        }
        (OriginChange::Restore { before, record }, live) => match live.or(removed) {
            None => Some(reasons.unknown),
            Some(found) => {
                let is_back = found.raw == record.raw;
                let is_possible =
                    is_back || before.as_ref().is_none_or(|before| is_known(found, before));
                (!is_possible).then_some(reasons.changed)
            }
        },
        (OriginChange::Create { .. } | OriginChange::Remove { .. }, _) => None,
    };
    refusal.map_or(Ok(()), |reason| Err((change.id().to_owned(), reason.to_owned())))
}

/// Ids that follow from texts: the second and later ones of one text are numbered.
#[derive(Debug, Default)]
pub(crate) struct FreeIds {
    pub(crate) taken: BTreeSet<String>,
    numbers: BTreeMap<String, usize>,
}

impl FreeIds {
    /// Takes the first free id of a text.
    pub(crate) fn take(&mut self, base: &str) -> String {
        let number = self.numbers.entry(base.to_owned()).or_insert(0);
        loop {
            *number += 1;
            let id = if *number == 1 { base.to_owned() } else { format!("{base}#{number}") };
            if self.taken.insert(id.clone()) {
                return id;
            }
        }
    }
}
