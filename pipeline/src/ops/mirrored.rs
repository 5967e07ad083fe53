//! Stores of other kinds: pulled into their mirror before an operation, published after it.
//!
//! Operations work on the mirror, a `brain.db`, and know nothing of the rest; [`StorePath`](super::StorePath) holds both.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};

use jiff::tz::TimeZone;
use memfold_adapters::BRAIN_DB;
use memfold_core::policy::{Trigger, name_of};
use memfold_core::time::Instant;
use memfold_guard::text::excerpt;
use memfold_store::BrainDb;
use memfold_store::origin::{Origin, OriginChange, PlannedRemoval, ScriptForm, TableChoice, Usage};

use super::store::{Mirrored, cached, in_state, is_text_file, session_options};
use super::{Failure, Listener, Settings, Sources, StorePath, counted, path_word, store_words};
use crate::execute::forbidden_by;
use crate::machine;
use crate::mirror::{Mirror, MirrorError, MirrorOptions, Publication, Pulled, mirror_path};
use crate::texts::{self, TextOrigin};

/// Entries that are listed one by one.
const SHOWN: usize = 20;
const REASON_CHARS: usize = 160;
const DESCRIPTION_CHARS: usize = 400;
/// The folder that mirrors are in.
const FOLDER: &str = ".memfold";
/// Ends the names of mirrors.
const ENDING: &str = "mirror.db";
/// How to publish changes that are only in a mirror.
const PUBLISHED_NEXT: &str = "the next command with --execute publishes it";

/// A path that may name a store of another kind.
#[derive(Debug, Clone, Copy)]
pub struct KindRequest<'a> {
    /// The path: a store, or its mirror.
    pub path: &'a Path,
    /// The kind, where the caller knows it.
    pub kind: Option<&'a str>,
    /// Where the mirror is, where that is not the usual place.
    pub mirror: Option<&'a Path>,
    /// Whether a file of texts counts as a store.
    pub takes_texts: bool,
}

/// A store of another kind, opened.
pub struct OpenOrigin {
    mirrored: Mirrored,
    origin: Box<dyn Origin>,
}

/// The part of a run that a trigger selects.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Narrowed {
    /// Everything.
    Whole,
    /// Changed memories.
    Changed,
    /// These categories.
    Categories(Vec<String>),
    /// Nothing.
    Nothing,
}

impl OpenOrigin {
    /// Finds out of which kind a store is and where its mirror is; `None` for a `brain.db`.
    ///
    /// # Errors
    /// When the store cannot be opened, or there is no place for a mirror.
    pub fn find(request: KindRequest<'_>) -> Result<Option<Self>, Failure> {
        let (kind, path, mirror) = match named_by_mirror(request.path) {
            Some((kind, origin)) if request.kind.is_none() => {
                (Some(kind), origin, Some(request.path.to_owned()))
            }
            _ => (None, request.path.to_owned(), None),
        };
        let kind = match (request.kind, kind) {
            (Some(kind), _) => Some(known_kind(kind)?),
            (None, Some(kind)) if kind == texts::KIND => Some(texts::KIND),
            (None, Some(kind)) => Some(known_kind(&kind)?),
            (None, None) => memfold_adapters::detect(&path)
                .or_else(|| (request.takes_texts && is_text_file(&path)).then_some(texts::KIND)),
        };
        let Some(kind) = kind.filter(|kind| *kind != BRAIN_DB) else {
            return match request.mirror {
                Some(_) => Err(Failure::usage(
                    format!(
                        "--mirror: {} is no other kind of store, and a brain.db needs no mirror",
                        path.display()
                    ),
                    "leave it out, or name the kind of the store with --store-kind",
                )),
                None => Ok(None),
            };
        };
        let path = memfold_adapters::root(kind, &path);
        let opened = match kind {
            texts::KIND => Some(Ok(Box::new(TextOrigin::new(path.clone())) as Box<dyn Origin>)),
            kind => memfold_adapters::open(kind, &path),
        };
        let Some(opened) = opened else { return Ok(None) };
        let mut origin = opened.map_err(|error| Failure::of("open the store", &error))?;
        let mirror = match request.mirror.map(Path::to_owned).or(mirror) {
            Some(mirror) => mirror,
            None if origin.keeps_removed() => lasting_mirror(&path)?,
            None => default_mirror(&path)?,
        };
        origin.keep_removed_in(&removed_texts(&mirror));
        let (separate_by, rule_profile) = (origin.separate_by(), origin.rule_profile());
        let mirrored =
            Mirrored { origin: path, mirror, kind, separate_by, rule_profile, unread: None };
        Ok(Some(Self { mirrored, origin }))
    }

    /// Opens a store with a known mirror again.
    ///
    /// # Errors
    /// When it cannot be opened, or is a file of texts.
    pub fn reopen(mirrored: &Mirrored) -> Result<Self, Failure> {
        let opened = memfold_adapters::open(mirrored.kind, &mirrored.origin);
        let opened = opened.ok_or_else(|| {
            let advice = "name another store: only kinds of stores are served, not files of texts";
            Failure::usage(format!("{} is no store", mirrored.origin.display()), advice)
        })?;
        let mut origin = opened.map_err(|error| Failure::of("open the store", &error))?;
        origin.keep_removed_in(&removed_texts(&mirrored.mirror));
        Ok(Self { mirrored: mirrored.clone(), origin })
    }

    /// Says that a store has no table to name.
    #[must_use]
    pub fn has_no_table(store: &Path) -> Failure {
        Failure::usage(
            format!("{} has no table to name: it is no SQLite file of others", store.display()),
            "leave --table, --removed, --sql and --ids out",
        )
    }

    /// Chooses the table of a SQLite file, and how its rows are taken out.
    ///
    /// # Errors
    /// When the table or column does not exist, or the store has no tables.
    pub fn choose_table(&mut self, choice: &TableChoice) -> Result<(), Failure> {
        let chosen = self.origin.choose_table(choice);
        match chosen.map_err(|error| Failure::of("open the store", &error))? {
            true => Ok(()),
            false => Err(Self::has_no_table(&self.mirrored.origin)),
        }
    }

    /// Returns how the owner of the store can remove records by a script.
    ///
    /// # Errors
    /// When the store cannot be read, or not changed that way.
    pub fn removal_script(
        &self,
        removals: &[PlannedRemoval],
        form: ScriptForm,
    ) -> Result<String, Failure> {
        let script = self.origin.removal_script(removals, form);
        let script = script.map_err(|error| Failure::of("write a script", &error))?;
        script.ok_or_else(|| Self::has_no_table(&self.mirrored.origin))
    }

    /// Returns the store and its mirror.
    #[must_use]
    pub const fn mirrored(&self) -> &Mirrored {
        &self.mirrored
    }

    /// Says why memfold erases no memory of it.
    #[must_use]
    pub fn forget_refusal(&self) -> Failure {
        let advice = match self.origin.keeps_removed() {
            true => format!(
                "remove the memory from its file, and delete the mirror and {}: nothing that was \
                 taken out before can be undone then",
                removed_texts(&self.mirrored.mirror).display()
            ),
            false => "remove the memory with the tool that wrote it, and delete the mirror: the \
                      next command makes it anew without the memory"
                .to_owned(),
        };
        let kind = self.mirrored.kind;
        Failure::usage(format!("memories of a {kind} store are not forgotten by memfold"), advice)
    }

    /// Returns the part of a run that its trigger selects. Only stores with an owner's own rules
    /// know these triggers.
    ///
    /// # Errors
    /// When the store or the configuration cannot be read.
    pub fn narrow(
        &mut self,
        sources: &Sources,
        trigger: Option<&str>,
        has_categories: bool,
    ) -> Result<Narrowed, Failure> {
        let settings = Settings::load(sources, Some(&self.mirrored.clone().into()), &[])?;
        let configured = || settings.configuration.policy.trigger.map(name_of);
        let trigger = trigger.map(str::to_owned).or_else(configured);
        let Some(trigger) = trigger.filter(|_| self.origin.rule_profile().is_some()) else {
            return Ok(Narrowed::Whole);
        };
        self.origin.begun_by(&trigger);
        if trigger == name_of(Trigger::SessionEnd) {
            return Ok(Narrowed::Changed);
        }
        if trigger != name_of(Trigger::IndexOverflow) || has_categories {
            return Ok(Narrowed::Whole);
        }
        let full = self.origin.overflows();
        let full = full.map_err(|error| Failure::of("read the store", &error))?;
        if full.is_empty() {
            return Ok(Narrowed::Nothing);
        }
        // Without a category in common the whole store is searched.
        let categories: Option<Vec<String>> =
            full.into_iter().map(|(_, category)| category).collect();
        Ok(Narrowed::Categories(categories.unwrap_or_default()))
    }

    /// Makes it ready for a call.
    ///
    /// # Errors
    /// When the configuration is not valid.
    pub fn begin<'a>(
        &'a self,
        sources: &Sources,
        listener: &'a dyn Listener,
    ) -> Result<Synchronization<'a>, Failure> {
        let store = StorePath::from(self.mirrored.clone());
        let settings = Settings::load(sources, Some(&store), &[])?;
        let (mirrored, origin) = (&self.mirrored, &*self.origin);
        let (time_zone, now) = (settings.time_zone()?, machine::clock());
        Ok(Synchronization { store, mirrored, origin, settings, time_zone, now, listener })
    }
}

/// Work on the mirror of a store: the steps before and after it.
pub struct Synchronization<'a> {
    store: StorePath,
    mirrored: &'a Mirrored,
    origin: &'a dyn Origin,
    settings: Settings,
    time_zone: TimeZone,
    now: Instant,
    listener: &'a dyn Listener,
}

impl Synchronization<'_> {
    /// Tells whether the configuration lets the store be written.
    #[must_use]
    pub fn may_publish(&self) -> bool {
        forbidden_by(&self.settings.configuration.settings).is_none()
    }

    /// Makes sure that the store can be used that way, before anything is done.
    ///
    /// # Errors
    /// When it cannot be used, with the choice that must be made first.
    pub fn check(&self, usage: Usage) -> Result<(), Failure> {
        self.origin.check(usage).map_err(|error| Failure::of("open the store", &error))
    }

    fn open(&self) -> Result<Mirror<'_>, Failure> {
        let folder = self.mirrored.mirror.parent().filter(|folder| !folder.is_dir());
        if let Some(parent) = folder.and_then(Path::parent).filter(|p| !p.as_os_str().is_empty()) {
            // The cache's folder; an error here occurs again below, and is reported.
            let _ = std::fs::create_dir_all(parent);
        }
        let options = MirrorOptions {
            path: &self.mirrored.mirror,
            place: &self.mirrored.origin,
            session: session_options(&self.settings),
            now: self.now,
            time_zone: &self.time_zone,
        };
        Mirror::open(self.origin, options).map_err(|error| Failure::of("open the mirror", &error))
    }

    /// Takes in changes of others; finishes an interrupted publication before, where the origin may
    /// be written. Reports its findings, in full for a checkup.
    ///
    /// # Errors
    /// When store or mirror cannot be read or written.
    pub fn pull(&self, publishes: bool, is_checkup: bool) -> Result<Pulled, Failure> {
        let mirror = self.open()?;
        if publishes {
            let finished = mirror.finish_publication();
            let finished = finished.map_err(|error| self.publish_failure(&error))?;
            self.tell_of_publication(&finished);
        }
        let name = self.mirrored.origin.display();
        let pulled = mirror.pull();
        let pulled = pulled.map_err(|error| Failure::of(&format!("pull {name}"), &error))?;
        self.tell_of(&pulled, publishes, is_checkup)?;
        Ok(pulled)
    }

    /// Makes the indexes of the store anew.
    ///
    /// # Errors
    /// When the configuration forbids it, or the store cannot be written.
    pub fn rebuild(&self) -> Result<(), Failure> {
        if !self.may_publish() {
            return Err(Failure::usage(
                "--rebuild-indexes: the configuration forbids to write",
                "leave it out, or set dry_run: false and read_only: false",
            ));
        }
        let rebuilt = self.origin.rebuild(&self.now.to_rfc3339());
        let rebuilt = rebuilt.map_err(|error| Failure::of("rebuild the indexes", &error))?;
        for path in &rebuilt {
            self.listener.note(&format!("rebuilt {path}"));
        }
        if rebuilt.is_empty() {
            self.listener.note("all indexes are up to date");
        }
        Ok(())
    }

    /// Writes the mirror's differences to the store; returns why units were not written: others
    /// changed their records meanwhile.
    ///
    /// # Errors
    /// When store or mirror cannot be read or written. The next publication goes on.
    pub fn publish(&self) -> Result<Vec<String>, Failure> {
        let published = self.open()?.publish();
        let published = published.map_err(|error| self.publish_failure(&error))?;
        self.tell_of_publication(&published);
        let conflicts = published.conflicts.iter().map(|(_, conflict)| {
            format!("{}: {}", excerpt(&conflict.id, REASON_CHARS), conflict.reason)
        });
        Ok(conflicts.collect())
    }

    /// Reports that changes of an interrupted call are not published.
    pub fn tell_of_interruption(&self) {
        let note = "note: what was applied is not published yet";
        self.listener.note(&format!("{note}; {PUBLISHED_NEXT}"));
    }

    fn publish_failure(&self, error: &MirrorError) -> Failure {
        let name = self.mirrored.origin.display();
        let failure = Failure::of(&format!("publish to {name}"), error);
        let hint = failure.hint.map(|hint| format!("{hint}; ")).unwrap_or_default();
        Failure { hint: Some(format!("{hint}{PUBLISHED_NEXT}")), ..failure }
    }

    fn tell_of(&self, pulled: &Pulled, publishes: bool, all: bool) -> Result<(), Failure> {
        let (listener, name) = (self.listener, path_word(&self.mirrored.origin));
        let summary = format!("{name} is of kind {}: {}", self.mirrored.kind, summary(pulled));
        if let Some(description) = self.origin.description() {
            listener.note(&format!("{name}: {}", excerpt(&description, DESCRIPTION_CHARS)));
        }
        if all {
            listener.note(&format!("{summary}; mirrored in {}", self.mirrored.mirror.display()));
            for skipped in pulled.skipped.iter().take(SHOWN) {
                let reason = excerpt(&skipped.reason, REASON_CHARS);
                listener.note(&format!("  left out: {}: {reason}", skipped.place));
            }
            for advice in self.origin.advice().iter().take(SHOWN) {
                listener.note(&format!("  {}", excerpt(advice, REASON_CHARS)));
            }
        } else {
            listener.detail(&summary);
            if !pulled.skipped.is_empty() {
                let count = counted(pulled.skipped.len() as u64, "place", "places");
                let doctor = store_words(&["memfold", "doctor"], &self.store, &[]);
                listener.note(&format!(
                    "note: {count} of {name} could not be understood and are left as they are \
                     ({doctor} lists them)"
                ));
            }
        }
        if !pulled.undone.is_empty() {
            let count = counted(pulled.undone.len() as u64, "memory", "memories");
            listener.note(&format!(
                "note: others changed {count} that a run had changed: what the run did to them was \
                 undone and will be planned anew"
            ));
        }
        if pulled.is_unfinished && !publishes {
            listener.note(&format!("note: a publication was interrupted; {PUBLISHED_NEXT}"));
        }
        Ok(())
    }

    fn tell_of_publication(&self, published: &Publication) {
        let name = path_word(&self.mirrored.origin);
        if !published.units.is_empty() {
            let units = counted(published.units.len() as u64, "unit", "units");
            let records = counted(published.changes() as u64, "record", "records");
            self.listener.note(&format!("published {units} to {name}: {records} changed"));
        }
        for (unit, conflict) in published.conflicts.iter().take(SHOWN) {
            let reason = excerpt(&conflict.reason, REASON_CHARS);
            let takes_back = |change: &OriginChange| {
                matches!(change, OriginChange::Restore { .. } | OriginChange::Remove { .. })
            };
            let next = match unit.changes.iter().any(takes_back) {
                true => "it stays as others left it",
                false => "the next run plans it anew",
            };
            self.listener.note(&format!(
                "note: not published: {}: {reason}; {next}",
                excerpt(&conflict.id, REASON_CHARS)
            ));
        }
    }
}

/// A pull in a line.
fn summary(pulled: &Pulled) -> String {
    let Pulled { records, live, added, changed, removed, skipped, .. } = pulled;
    let records = counted(*records, "record", "records");
    let left_out = match skipped.len() {
        0 => String::new(),
        count => format!(", {count} left out"),
    };
    format!("{records}, {live} live{left_out}; {added} new, {changed} changed, {removed} removed")
}

fn known_kind(typed: &str) -> Result<&'static str, Failure> {
    let found = memfold_adapters::kind_names().find(|name| *name == typed);
    found.ok_or_else(|| {
        let known: Vec<&str> = memfold_adapters::kind_names().collect();
        Failure::usage(
            format!("--store-kind {typed:?} is no kind of store"),
            format!("use one of {}", known.join(", ")),
        )
    })
}

/// The kind and the place of the origin, where a mirror was named in its place.
fn named_by_mirror(path: &Path) -> Option<(String, PathBuf)> {
    let is_in_folder = path.parent().and_then(Path::file_name) == Some(OsStr::new(FOLDER));
    let name = path.file_name()?.to_str()?;
    if !(is_in_folder || name.ends_with(ENDING)) || !path.is_file() {
        return None;
    }
    let store = BrainDb::open(path, memfold_store::OpenOptions::default()).ok()?;
    let found = store.mirror_of().ok()??;
    Some((found.kind, PathBuf::from(found.place)))
}

/// The mirror beside the store or in it; in the cache where that folder cannot be written.
fn default_mirror(origin: &Path) -> Result<PathBuf, Failure> {
    let mirror = mirror_path(origin);
    if mirror.exists() {
        return Ok(mirror);
    }
    let folder = mirror.parent().unwrap_or(Path::new("."));
    let place = if folder.is_dir() { Some(folder) } else { folder.parent() };
    let place = place.filter(|place| !place.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let Err(error) = tempfile::tempfile_in(place) else { return Ok(mirror) };
    let store = origin.canonicalize().unwrap_or_else(|_| origin.to_owned());
    cached(&store, ".mirror.db").ok_or_else(|| {
        let hint = Some("name a file for the mirror: --mirror FILE".to_owned());
        Failure::new(&format!("write to {}", place.display()), &error, hint)
    })
}

/// The mirror in the user's state folder. It must last if the store keeps nothing of removed
/// records.
fn lasting_mirror(origin: &Path) -> Result<PathBuf, Failure> {
    let store = origin.canonicalize().unwrap_or_else(|_| origin.to_owned());
    in_state(&store, ".mirror.db").ok_or_else(|| {
        Failure::usage(
            format!("no folder is known in which the texts of {} can be kept", store.display()),
            "set XDG_STATE_HOME, or name a file for the mirror: --mirror FILE",
        )
    })
}

/// The file of removed texts, beside the mirror.
fn removed_texts(mirror: &Path) -> PathBuf {
    let mut name = mirror.as_os_str().to_owned();
    name.push(".removed.json");
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_are_known_by_name() {
        assert_eq!(known_kind("mcp_memory").unwrap(), "mcp_memory");
        let refused = known_kind("mcp").unwrap_err();
        assert!(refused.hint.unwrap().contains("mcp_memory"));
    }
}
