//! Shared by the tests of the adapters: changes, files on disk, a process that dies.

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicUsize, Ordering};

use memfold_store::origin::{Origin, OriginChange, OriginRecord, OriginUnit};

use crate::shared::FileLayer;

/// The time of every unit.
pub(crate) const AT: &str = "2026-11-24T12:00:00Z";

/// Files as text, by their paths in a folder.
pub(crate) type Files = BTreeMap<String, String>;

/// Writes files.
pub(crate) fn put<P: AsRef<str>, T: AsRef<[u8]>>(
    root: &Path,
    files: impl IntoIterator<Item = (P, T)>,
) {
    for (path, text) in files {
        let path = root.join(path.as_ref());
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

/// Reads all files of a folder.
pub(crate) fn image(root: &Path) -> Files {
    let mut found = Files::new();
    let mut open = vec![root.to_owned()];
    while let Some(path) = open.pop() {
        if path.is_dir() {
            open.extend(fs::read_dir(&path).unwrap().map(|item| item.unwrap().path()));
        } else {
            let within = path.strip_prefix(root).unwrap().to_str().unwrap().to_owned();
            found.insert(within, String::from_utf8_lossy(&fs::read(&path).unwrap()).into_owned());
        }
    }
    found
}

/// Returns the records of a store by their ids.
pub(crate) fn records(store: &dyn Origin) -> BTreeMap<String, OriginRecord> {
    let records = store.read().unwrap().records.into_iter();
    records.map(|record| (record.id.clone(), record)).collect()
}

pub(crate) fn unit(changes: Vec<OriginChange>) -> OriginUnit {
    unit_of("run-1", "R1", changes)
}

pub(crate) fn unit_of(run: &str, rule: &str, changes: Vec<OriginChange>) -> OriginUnit {
    OriginUnit { run_id: run.into(), at: AT.into(), rule: rule.into(), changes }
}

pub(crate) fn create(id: &str, text: &str) -> OriginChange {
    let record = OriginRecord { id: id.into(), text: text.into(), ..OriginRecord::default() };
    OriginChange::Create { record: Box::new(record), made_of: Vec::new() }
}

pub(crate) fn update(before: &OriginRecord, after: OriginRecord, merged: &[&str]) -> OriginChange {
    OriginChange::Update {
        before: before.digest(),
        record: Box::new(after),
        merged: merged.iter().map(|id| (*id).to_owned()).collect(),
    }
}

pub(crate) fn retire(record: &OriginRecord, into: Option<&str>) -> OriginChange {
    OriginChange::Retire {
        before: record.digest(),
        id: record.id.clone(),
        into: into.map(str::to_owned),
        reason: "R1".into(),
    }
}

/// Restores a record, whatever it is now.
pub(crate) fn restore(record: &OriginRecord) -> OriginChange {
    OriginChange::Restore { before: None, record: Box::new(record.clone()) }
}

/// Undoes some changes: restores records, and removes the new ones.
pub(crate) fn undo(
    now: &BTreeMap<String, OriginRecord>,
    records: &[&OriginRecord],
    made: &[&str],
) -> Vec<OriginChange> {
    let before = |id: &str| now.get(id).map(OriginRecord::digest);
    let back = records.iter().map(|record| OriginChange::Restore {
        before: before(&record.id),
        record: Box::new((*record).clone()),
    });
    let gone =
        made.iter().map(|id| OriginChange::Remove { before: before(id), id: (*id).to_owned() });
    back.chain(gone).collect()
}

/// Returns files that die at the k-th change, before it or right after it.
pub(crate) fn dying(left: usize, is_after: bool) -> FileLayer {
    let left = AtomicUsize::new(left);
    FileLayer(Some(Box::new(move |_, is_done| {
        let now = left.load(Ordering::Relaxed);
        if !is_done {
            left.store(now.saturating_sub(1), Ordering::Relaxed);
        }
        match now == 0 || now == 1 && !is_done && !is_after {
            true => Err(io::Error::other("killed")),
            false => Ok(()),
        }
    })))
}

/// Kills something at every change, before it and right after it, until it ends first; returns how often it died.
pub(crate) fn at_every_change(mut died: impl FnMut(usize, bool) -> bool) -> usize {
    let kills =
        [false, true].map(|is_after| (1..).take_while(|left| died(*left, is_after)).count());
    kills.iter().sum()
}
