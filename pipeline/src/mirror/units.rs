//! The differences between a mirror and its origin, as units to publish. Pure: plain data in, plain
//! data out.

use std::collections::{BTreeMap, BTreeSet};

use memfold_store::brain_db::{MemoryState, MirrorMemory, MirroredRecord};
use memfold_store::origin::{LinkKind, OriginChange, OriginLink, OriginRecord, OriginStatus};

use super::pull::Present;

/// A change with its related records.
pub(super) struct Difference {
    pub(super) change: OriginChange,
    /// Published along with it, or not at all.
    pub(super) along: Vec<String>,
}

/// Returns the changes to publish to an origin, by id. `made_of` names the sources of a memory that
/// memfold made.
pub(super) fn differences<E>(
    present: &Present,
    separate_by: &[&str],
    made_of: impl Fn(&str) -> Result<Vec<String>, E>,
) -> Result<BTreeMap<String, Difference>, E> {
    let attributes = attribute_names(&present.records, separate_by);
    let mut found = BTreeMap::new();
    for known in present.records.values() {
        let memory = present.memories.get(&known.id);
        let difference = match memory {
            _ if known.is_ours && present.withdrawn.contains(&known.id) => {
                Some(removed(known, present))
            }
            None if known.is_ours => Some(removed(known, present)),
            // Erased: the origin's own tools remove records.
            None => None,
            Some(memory) if memory.state == known.published => None,
            Some(memory) => Some(changed(known, memory, &attributes)),
        };
        found.extend(difference.map(|difference| (known.id.clone(), difference)));
    }
    for (id, memory) in &present.memories {
        let is_new = memory.state.status == OriginStatus::Live;
        if is_new && !present.records.contains_key(id) {
            let mut made_of = made_of(id)?;
            if made_of.is_empty() {
                made_of = promoted_to(id, present);
            }
            let nothing =
                MemoryState { categories: Vec::new(), merged: Vec::new(), ..memory.state.clone() };
            let record = Box::new(desired(&blank(id, memory), memory, &nothing, &attributes));
            let change = OriginChange::Create { record, made_of: made_of.clone() };
            found.insert(id.clone(), Difference { change, along: made_of });
        }
    }
    Ok(found)
}

/// The memories that a copy in a wider scope is of.
fn promoted_to(id: &str, present: &Present) -> Vec<String> {
    let category = format!("promoted_to:{id}");
    let originals =
        present.memories.iter().filter(|(_, memory)| memory.state.categories.contains(&category));
    originals.map(|(id, _)| id.clone()).collect()
}

/// The names of attributes that records have, or that keep them apart: categories `name:value` of other names are tags.
fn attribute_names<'a>(
    records: &'a BTreeMap<String, MirroredRecord>,
    separate_by: &[&'a str],
) -> BTreeSet<&'a str> {
    let separating = separate_by.iter().filter_map(|pattern| pattern.strip_suffix(":*"));
    let attributes = records.values().flat_map(|known| &known.record.attributes);
    // Rules add this one to a memory with a copy in a wider scope.
    let attributes = attributes.map(|(name, _)| name.as_str());
    attributes.chain(separating).chain(["promoted_to"]).collect()
}

/// A record of memfold's after an undo removed its memory.
fn removed(known: &MirroredRecord, present: &Present) -> Difference {
    let was_made_of = present.records.values().filter(|other| {
        matches!(&other.published.status, OriginStatus::Merged { into } if *into == known.id)
    });
    Difference {
        change: OriginChange::Remove { before: digest(known), id: known.id.clone() },
        along: was_made_of.map(|other| other.id.clone()).collect(),
    }
}

fn changed(
    known: &MirroredRecord,
    memory: &MirrorMemory,
    attributes: &BTreeSet<&str>,
) -> Difference {
    let before = known.digest.clone();
    let id = known.id.clone();
    let (was, is) = (&known.published.status, &memory.state.status);
    let merged = |state: &MemoryState, other: &MemoryState| -> Vec<String> {
        state.merged.iter().filter(|id| !other.merged.contains(id)).cloned().collect()
    };
    let (added, released) =
        (merged(&memory.state, &known.published), merged(&known.published, &memory.state));
    let survivors = [was, is].into_iter().filter_map(into);
    let along = survivors.chain(added.iter().cloned()).chain(released).collect();
    let change = match is {
        OriginStatus::Live if memory.state == known.pulled => {
            let status = OriginStatus::Live;
            let record = Box::new(OriginRecord { status, ..known.record.clone() });
            OriginChange::Restore { before: digest(known), record }
        }
        OriginStatus::Live if *was != OriginStatus::Live => OriginChange::Restore {
            before: digest(known),
            record: Box::new(desired(&known.record, memory, &known.pulled, attributes)),
        },
        OriginStatus::Live => {
            let record = Box::new(desired(&known.record, memory, &known.pulled, attributes));
            OriginChange::Update { before, record, merged: added }
        }
        OriginStatus::Merged { .. } | OriginStatus::Archived => {
            OriginChange::Retire { before, id, into: into(is), reason: String::new() }
        }
    };
    Difference { change, along }
}

/// The digest of a record as the origin had it last; none where that was never found out.
fn digest(known: &MirroredRecord) -> Option<String> {
    Some(known.digest.clone()).filter(|digest| !digest.is_empty())
}

fn into(status: &OriginStatus) -> Option<String> {
    match status {
        OriginStatus::Merged { into } => Some(into.clone()),
        OriginStatus::Live | OriginStatus::Archived => None,
    }
}

/// The record of a memory that the origin does not know.
fn blank(id: &str, memory: &MirrorMemory) -> OriginRecord {
    OriginRecord {
        id: id.to_owned(),
        created_at: (!memory.created_at.is_empty()).then(|| memory.created_at.clone()),
        source: memory.source.clone(),
        ..OriginRecord::default()
    }
}

/// Returns a record with the present values of its memory. Tags keep their order and new ones
/// follow; an attribute keeps its value while the memory has it, also where a merge brought another
/// one.
fn desired(
    record: &OriginRecord,
    memory: &MirrorMemory,
    pulled: &MemoryState,
    attribute_names: &BTreeSet<&str>,
) -> OriginRecord {
    let MemoryState { categories, importance, access_count, merged, .. } = &memory.state;
    let merged = merged.iter().filter(|id| !pulled.merged.contains(id));
    let links = merged.map(|id| OriginLink { kind: LinkKind::Supersedes, to: id.clone() });
    let links: Vec<OriginLink> = links.filter(|link| !record.links.contains(link)).collect();
    let tags: BTreeSet<&str> = record.tags.iter().map(String::as_str).collect();
    let mut attributes: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    let mut new_tags = Vec::new();
    for category in categories {
        let attribute = category.split_once(':').filter(|(name, _)| attribute_names.contains(name));
        match attribute {
            _ if tags.contains(category.as_str()) => {}
            Some((name, value)) => attributes.entry(name).or_default().push(value),
            None => new_tags.push(category.clone()),
        }
    }
    // A blank tag is not a category, so that the memory cannot have lost it.
    let is_kept = |tag: &&String| categories.contains(tag) || !pulled.categories.contains(tag);
    let value = |(name, values): (&str, Vec<&str>)| {
        let own = record.attributes.iter().find(|(own, _)| own == name);
        let kept = own.map(|(_, value)| value.as_str()).filter(|value| values.contains(value));
        Some((name.to_owned(), kept.or(values.first().copied())?.to_owned()))
    };
    OriginRecord {
        text: memory.content.clone(),
        tags: record.tags.iter().filter(is_kept).cloned().chain(new_tags).collect(),
        attributes: attributes.into_iter().filter_map(value).collect(),
        importance: *importance,
        access_count: *access_count,
        links: record.links.iter().cloned().chain(links).collect(),
        status: OriginStatus::Live,
        ..record.clone()
    }
}

/// Returns the ids of differences that are published together, each group and all groups in the order of their ids.
pub(super) fn groups(differences: &BTreeMap<String, Difference>) -> Vec<Vec<String>> {
    let mut root: BTreeMap<&str, &str> = differences.keys().map(|id| (&**id, &**id)).collect();
    for (id, difference) in differences {
        for other in difference.along.iter().filter(|other| differences.contains_key(*other)) {
            let (one, two) = (find(&root, id), find(&root, other));
            let (low, high) = if one <= two { (one, two) } else { (two, one) };
            root.insert(high, low);
        }
    }
    let mut groups: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for id in differences.keys() {
        groups.entry(find(&root, id)).or_default().push(id.clone());
    }
    groups.into_values().collect()
}

fn find<'a>(root: &BTreeMap<&'a str, &'a str>, id: &'a str) -> &'a str {
    let mut at = id;
    while let Some(next) = root.get(at).filter(|next| **next != at) {
        at = next;
    }
    at
}

/// The order of the changes of a unit: new records before removed ones.
pub(super) const fn rank(change: &OriginChange) -> u8 {
    match change {
        OriginChange::Create { .. } => 0,
        OriginChange::Restore { .. } => 1,
        OriginChange::Update { .. } => 2,
        OriginChange::Retire { .. } => 3,
        OriginChange::Remove { .. } => 4,
    }
}
