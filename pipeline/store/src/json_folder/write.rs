//! Writing units: what is new first, then what changes and goes, then the indexes, then the log.

use std::collections::{BTreeMap, BTreeSet};

use super::files::{FileLayer, Root};
use super::folder::{ARCHIVE, Folder};
use super::index_file::{self, Index, Listed, governing};
use super::json::{parse, quoted};
use super::log;
use super::origin::JsonFolderOptions;
use super::steps::{Step, added, remaining};
use crate::origin::{OriginChange, OriginConflict, OriginError, OriginUnit, Published};

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
        let mut published = Published::default();
        let written = self.write_units(&mut published);
        let logged = self.log(&published);
        written.and(logged)?;
        Ok(published)
    }

    fn write_units(&mut self, published: &mut Published) -> Result<(), OriginError> {
        let mut changed = 0;
        for (at, unit) in self.units.iter().enumerate() {
            let steps = match self.steps_on_disk(unit)? {
                Ok(steps) => steps,
                Err((id, reason)) => {
                    published.conflicts.push(OriginConflict { unit: at, id, reason });
                    continue;
                }
            };
            if !steps.is_empty() {
                let limit = self.options.changes_max.unwrap_or(usize::MAX);
                if changed > 0 && changed + unit.changes.len() > limit {
                    break;
                }
                changed += unit.changes.len();
            }
            self.carry_out(unit, &steps)?;
            published.units.push(at);
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
        let id = unit.changes.first().map_or("", OriginChange::id).to_owned();
        Ok(Err((id, "its file is being changed by another process".to_owned())))
    }

    /// Writes what a unit takes.
    fn carry_out(&mut self, unit: &OriginUnit, steps: &[Step]) -> Result<(), OriginError> {
        let listed: Vec<Listed> =
            unit.changes.iter().map(|change| self.listed(change.id())).collect();
        for is_new in [true, false] {
            let mut by_path: BTreeMap<&str, Vec<&Step>> = BTreeMap::new();
            for step in steps.iter().filter(|step| step.is_new() == is_new) {
                by_path.entry(step.path()).or_default().push(step);
            }
            for (path, steps) in by_path {
                let file = self.folder.files.get(path);
                let text = if is_new { added(file, &steps) } else { remaining(file, &steps) };
                self.save(path, text)?;
            }
        }
        self.update_indexes(&listed, &unit.at)
    }

    fn save(&mut self, path: &str, text: Option<String>) -> Result<(), OriginError> {
        let place = self.root.join(path)?;
        let failed = |action| {
            let path = place.clone();
            move |source| OriginError::Io { action, path, source }
        };
        match &text {
            Some(text) => self.files.write(&place, text).map_err(failed("write"))?,
            None => self.files.remove(&place).map_err(failed("remove"))?,
        }
        self.folder.put(path, text).map_err(|reason| OriginError::Format {
            path: place,
            kind: "memory file",
            reason,
        })
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
                let text = self.root.read(path)?.unwrap_or_else(index_file::empty);
                let index = Index { path, folder: &self.folder, text: text.clone() };
                let new = index.update(listed, removing, at);
                self.save_index(path, &text, new)?;
            }
        }
        Ok(())
    }

    fn save_index(&mut self, path: &str, old: &str, new: String) -> Result<(), OriginError> {
        let place = self.root.join(path)?;
        let is_left_over = index_file::is_left_over(&new);
        if new == old && !(is_left_over && self.folder.indexes.contains_key(path)) {
            return Ok(());
        }
        if self.index_writes > 0 {
            std::thread::sleep(self.options.index_pause);
        }
        self.index_writes += 1;
        let failed = |source| OriginError::Io { action: "write", path: place.clone(), source };
        if is_left_over {
            self.files.remove(&place).map_err(failed)?;
            self.folder.indexes.remove(path);
        } else {
            self.files.write(&place, &new).map_err(failed)?;
            self.folder.indexes.insert(path.to_owned(), new);
        }
        Ok(())
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
        for (path, old, new) in self.stale_indexes(at) {
            self.save_index(&path, &old, new)?;
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
        let text = self.root.read(log::LOG)?;
        let place = self.root.join(log::LOG)?;
        let new = log::logged(text.as_deref(), &units, &self.options.trigger);
        let new = new.ok_or_else(|| OriginError::Format {
            path: place.clone(),
            kind: "consolidation log",
            reason: "it has no list under `entries` or `log`".to_owned(),
        })?;
        if text.as_ref() == Some(&new) {
            return Ok(());
        }
        let failed = |source| OriginError::Io { action: "write", path: place.clone(), source };
        self.files.write(&place, &new).map_err(failed)
    }
}

/// Returns where a memory stands that moves to the archive or from it.
fn counterpart(path: &str) -> String {
    match path.strip_prefix(ARCHIVE).and_then(|path| path.strip_prefix('/')) {
        Some(path) => path.to_owned(),
        None => format!("{ARCHIVE}/{path}"),
    }
}
