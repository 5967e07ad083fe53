//! Writing units: what is new first, then what changes and goes, then the indexes, then the log.

use std::collections::{BTreeMap, BTreeSet};

use super::files::{FileLayer, Root, remove_leftovers};
use super::folder::{ARCHIVE, Folder};
use super::index_file::{self, Index, Listed, governing};
use super::json::{parse, quoted};
use super::log;
use super::origin::JsonFolderOptions;
use super::steps::{Step, added, remaining};
use memfold_store::origin::{OriginChange, OriginConflict, OriginError, OriginUnit, Published};

/// So often a unit is looked at anew because a file changed meanwhile.
const TRIES_MAX: usize = 3;

/// Writes units.
pub(super) struct Writer<'a> {
    root: &'a Root,
    files: &'a dyn FileLayer,
    options: &'a JsonFolderOptions,
    pub(super) folder: Folder,
    pub(super) units: &'a [OriginUnit],
    /// Digests of memories as units of this call left them.
    pub(super) ours: BTreeMap<String, String>,
    index_writes: usize,
}

impl<'a> Writer<'a> {
    /// Reads the folder.
    pub(super) fn new(
        root: &'a Root,
        files: &'a dyn FileLayer,
        options: &'a JsonFolderOptions,
        units: &'a [OriginUnit],
    ) -> Result<Self, OriginError> {
        let (folder, _) = Folder::load(root)?;
        Ok(Self { root, files, options, folder, units, ours: BTreeMap::new(), index_writes: 0 })
    }

    /// Writes the units. What was written before a failure is logged all the same.
    pub(super) fn write(mut self) -> Result<Published, OriginError> {
        remove_leftovers(self.root.path())?;
        let units: Vec<&OriginUnit> = self.units.iter().collect();
        self.new_log(&units)?;
        let mut published = Published::default();
        let written = self.write_units(&mut published);
        let logged = self.log(&published);
        written.and(logged)?;
        Ok(published)
    }

    fn write_units(&mut self, published: &mut Published) -> Result<(), OriginError> {
        let mut changed = 0;
        for (at, unit) in self.units.iter().enumerate() {
            let mut tries = 0..TRIES_MAX;
            loop {
                let steps = match self.steps_on_disk(unit)? {
                    Ok(steps) => steps,
                    Err((id, reason)) => {
                        published.conflicts.push(OriginConflict { unit: at, id, reason });
                        break;
                    }
                };
                let limit = self.options.changes_max.unwrap_or(usize::MAX);
                if !steps.is_empty() && changed > 0 && changed + unit.changes.len() > limit {
                    return Ok(());
                }
                if self.carry_out(unit, &steps)? {
                    changed += if steps.is_empty() { 0 } else { unit.changes.len() };
                    published.units.push(at);
                    break;
                }
                self.folder = Folder::load(self.root)?.0;
                if tries.next().is_none() {
                    let (id, reason) = being_changed(unit);
                    published.conflicts.push(OriginConflict { unit: at, id, reason });
                    break;
                }
            }
        }
        Ok(())
    }

    /// Returns the steps of a unit on the files as they are on the disk.
    fn steps_on_disk(
        &mut self,
        unit: &OriginUnit,
    ) -> Result<Result<Vec<Step>, (String, String)>, OriginError> {
        for _ in 0..TRIES_MAX {
            let steps = self.steps(unit);
            let mut paths: BTreeSet<String> =
                steps.iter().flatten().map(|step| step.path().to_owned()).collect();
            for change in &unit.changes {
                paths.extend(self.folder.place(change.id()).map(|place| place.path.clone()));
            }
            let mut is_fresh = true;
            for path in &paths {
                let known = self.folder.files.get(path).map(|file| &file.text);
                is_fresh &= self.root.read(path)?.as_ref() == known;
            }
            if is_fresh {
                return Ok(steps);
            }
            self.folder = Folder::load(self.root)?.0;
        }
        Ok(Err(being_changed(unit)))
    }

    /// Writes what a unit takes. `false`: another process changed a file meanwhile, and nothing of the unit is there.
    fn carry_out(&mut self, unit: &OriginUnit, steps: &[Step]) -> Result<bool, OriginError> {
        let listed: Vec<Listed> =
            unit.changes.iter().map(|change| self.listed(change.id())).collect();
        let mut written: Vec<(String, Option<String>, Option<String>)> = Vec::new();
        for is_new in [true, false] {
            let mut by_path: BTreeMap<&str, Vec<&Step>> = BTreeMap::new();
            for step in steps.iter().filter(|step| step.is_new() == is_new) {
                by_path.entry(step.path()).or_default().push(step);
            }
            for (path, steps) in by_path {
                let file = self.folder.files.get(path);
                let text = if is_new { added(file, &steps) } else { remaining(file, &steps) };
                let before = file.map(|file| file.text.clone());
                if !self.save(path, before.clone(), text.clone())? {
                    for (path, before, after) in written.into_iter().rev() {
                        self.save(&path, after, before)?;
                    }
                    return Ok(false);
                }
                written.push((path.to_owned(), before, text));
            }
        }
        self.update_indexes(&listed, &unit.at)?;
        Ok(true)
    }

    /// Puts another text in the place of a file; `false` where another process changed it.
    fn save(
        &mut self,
        path: &str,
        before: Option<String>,
        text: Option<String>,
    ) -> Result<bool, OriginError> {
        let place = self.root.join(path)?;
        let failed = |action| {
            let path = place.clone();
            move |source| OriginError::Io { action, path, source }
        };
        let is_saved = match (&text, &before) {
            (Some(text), _) => {
                self.files.write(&place, text, before.as_deref()).map_err(failed("write"))?
            }
            (None, Some(before)) => self.files.remove(&place, before).map_err(failed("remove"))?,
            (None, None) => true,
        };
        if !is_saved {
            return Ok(false);
        }
        self.folder.put(path, text).map_err(|reason| OriginError::Format {
            path: place,
            kind: "memory file",
            reason,
        })?;
        Ok(true)
    }

    /// Returns a memory of which an index has to know, with how an index lists it.
    fn listed(&self, id: &str) -> Listed {
        let place = self.folder.place(id);
        let own = place.and_then(|place| governing(&self.folder, &place.path));
        let item = |(path, text): (&String, &String)| {
            let root = parse(text).ok()?;
            let item =
                index_file::items(&root).iter().find(|item| item.text_of("id") == Some(id))?;
            let path = match place {
                Some(place) if own.as_ref() == Some(path) => place.path.clone(),
                Some(place) => counterpart(&place.path),
                None => String::new(),
            };
            Some((text[item.span.clone()].to_owned(), path))
        };
        let naming = || self.folder.indexes.iter().filter(|(_, text)| text.contains(&quoted(id)));
        let moved = naming().filter(|(path, _)| own.as_ref() == Some(path)).find_map(item);
        Listed { id: id.to_owned(), moved: moved.or_else(|| naming().find_map(item)) }
    }

    /// Brings the indexes up to date that list some memories or should: they come in before they go out.
    fn update_indexes(&mut self, listed: &[Listed], at: &str) -> Result<(), OriginError> {
        let mut paths: BTreeSet<String> = BTreeSet::new();
        for memory in listed {
            let quoted = quoted(&memory.id);
            let naming = self.folder.indexes.iter().filter(|(_, text)| text.contains(&quoted));
            paths.extend(naming.map(|(path, _)| path.clone()));
            let place = self.folder.place(&memory.id);
            paths.extend(place.and_then(|place| governing(&self.folder, &place.path)));
        }
        for removing in [false, true] {
            for path in &paths {
                self.save_index(path, |folder, text| {
                    Index { path, folder, text }.update(listed, removing, at)
                })?;
            }
        }
        Ok(())
    }

    /// Brings an index up to date, from what it is at that moment.
    fn save_index(
        &mut self,
        path: &str,
        update: impl Fn(&Folder, String) -> String,
    ) -> Result<(), OriginError> {
        for _ in 0..TRIES_MAX {
            let found = self.root.read(path)?;
            let old = found.clone().unwrap_or_else(index_file::empty);
            let new = update(&self.folder, old.clone());
            if self.put_index(path, found.as_deref(), &old, new)? {
                return Ok(());
            }
        }
        Err(OriginError::Locked { path: self.root.join(path)? })
    }

    fn put_index(
        &mut self,
        path: &str,
        found: Option<&str>,
        old: &str,
        new: String,
    ) -> Result<bool, OriginError> {
        let place = self.root.join(path)?;
        let is_left_over = index_file::is_left_over(&new);
        if new == old && !(is_left_over && self.folder.indexes.contains_key(path)) {
            return Ok(true);
        }
        if self.index_writes > 0 {
            std::thread::sleep(self.options.index_pause);
        }
        self.index_writes += 1;
        let failed = |source| OriginError::Io { action: "write", path: place.clone(), source };
        if is_left_over {
            if !self.files.remove(&place, old).map_err(failed)? {
                return Ok(false);
            }
            self.folder.indexes.remove(path);
        } else {
            if !self.files.write(&place, &new, found).map_err(failed)? {
                return Ok(false);
            }
            self.folder.indexes.insert(path.to_owned(), new);
        }
        Ok(true)
    }

    /// Returns the indexes that are not up to date, as they are and as they should be.
    pub(super) fn stale_indexes(&self, at: &str) -> Vec<(String, String, String)> {
        let rebuilt = self.folder.indexes.iter().map(|(path, text)| {
            let index = Index { path, folder: &self.folder, text: text.clone() };
            (path.clone(), text.clone(), index.rebuild(at))
        });
        rebuilt.filter(|(_, old, new)| old != new).collect()
    }

    /// Makes every index anew; returns those that were not up to date.
    pub(super) fn rebuild_indexes(&mut self, at: &str) -> Result<Vec<String>, OriginError> {
        let mut stale = Vec::new();
        for (path, ..) in self.stale_indexes(at) {
            self.save_index(&path, |folder, text| Index { path: &path, folder, text }.rebuild(at))?;
            stale.push(path);
        }
        Ok(stale)
    }

    fn log(&self, published: &Published) -> Result<(), OriginError> {
        let units: Vec<&OriginUnit> =
            published.units.iter().filter_map(|&at| self.units.get(at)).collect();
        if units.is_empty() {
            return Ok(());
        }
        let place = self.root.join(log::LOG)?;
        let failed = |source| OriginError::Io { action: "write", path: place.clone(), source };
        for _ in 0..TRIES_MAX {
            let (text, new) = self.new_log(&units)?;
            if text.as_ref() == Some(&new)
                || self.files.write(&place, &new, text.as_deref()).map_err(failed)?
            {
                return Ok(());
            }
        }
        Err(OriginError::Locked { path: place })
    }

    /// Returns the log as it is, and with what some units do; an error where it is no log.
    pub(super) fn new_log(
        &self,
        units: &[&OriginUnit],
    ) -> Result<(Option<String>, String), OriginError> {
        let text = self.root.read(log::LOG)?;
        match log::logged(text.as_deref(), units, &self.options.trigger) {
            Some(new) => Ok((text, new)),
            None => Err(OriginError::Format {
                path: self.root.join(log::LOG)?,
                kind: "consolidation log",
                reason: "it has no list under `entries` or `log`".to_owned(),
            }),
        }
    }
}

/// The memory that a unit begins with, and why it waits.
fn being_changed(unit: &OriginUnit) -> (String, String) {
    let id = unit.changes.first().map_or("", OriginChange::id).to_owned();
    (id, "its file is being changed by another process".to_owned())
}

/// Returns where a memory stands that moves to the archive or from it.
fn counterpart(path: &str) -> String {
    match path.strip_prefix(ARCHIVE).and_then(|path| path.strip_prefix('/')) {
        Some(path) => path.to_owned(),
        None => format!("{ARCHIVE}/{path}"),
    }
}
