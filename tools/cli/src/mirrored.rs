//! Stores of other kinds: pulled into their mirror before a command, published after it.
//!
//! The one place where commands meet such stores: a command is given the mirror in place of the store that was named,
//! and knows nothing of the rest.

use std::ffi::OsStr;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::time::Duration;

use jiff::tz::TimeZone;
use memfold::execute::forbidden_by;
use memfold::machine;
use memfold::mirror::{Mirror, MirrorError, MirrorOptions, Publication, Pulled, mirror_path};
use memfold::texts::{self, TextOrigin};
use memfold_adapters::{BRAIN_DB, sqlite_table};
use memfold_core::policy::{Trigger, name_of};
use memfold_core::time::Instant;
use memfold_guard::text::excerpt;
use memfold_store::BrainDb;
use memfold_store::brain_db::SessionOptions;
use memfold_store::origin::{
    Origin, OriginChange, OriginConflict, OriginError, PlannedRemoval, ScriptForm, Usage,
};

use crate::args::GlobalArgs;
use crate::cli::Command;
use crate::commands::consolidate::ConsolidateArgs;
use crate::commands::consolidate::texts::is_one as is_texts;
use crate::context::{cached, in_state};
use crate::failure::{Exit, Failure};
use crate::printer::Printer;
use crate::settings::Settings;
use crate::writing::{self, counted};

/// What is listed one by one.
const SHOWN: usize = 20;
const REASON_CHARS: usize = 160;
const DESCRIPTION_CHARS: usize = 400;
/// The folder that mirrors are in.
const FOLDER: &str = ".memfold";
/// Ends the names of mirrors.
const ENDING: &str = "mirror.db";
/// How to publish what is in a mirror only.
const PUBLISHED_NEXT: &str = "the next command with --execute publishes it";

/// A store of another kind, by its mirror.
#[derive(Debug, Clone)]
pub struct Mirrored {
    /// The store that was named.
    pub origin: PathBuf,
    /// The `brain.db` that mirrors it.
    pub mirror: PathBuf,
    /// Its kind.
    pub kind: &'static str,
    /// Patterns of categories that its kind never merges across.
    pub separate_by: &'static [&'static str],
    /// The rules that hold where nothing else is configured.
    pub rule_profile: Option<&'static str>,
    /// Places of the store that could not be read, where nothing else of it could be.
    pub unread: Option<usize>,
}

impl Mirrored {
    /// Finds the mirror of a store of another kind; `None` for a `brain.db`.
    ///
    /// # Errors
    /// When the store cannot be opened, or there is no place for a mirror.
    pub fn find(global: &GlobalArgs, path: &Path) -> Result<Option<Self>, Failure> {
        let Some((mirrored, _)) = find(global, path, false)? else { return Ok(None) };
        writing::show_as(&mirrored.mirror, &mirrored.origin);
        Ok(Some(mirrored))
    }

    /// Takes in what others changed; where the store may be written, finishes an interrupted publication before.
    ///
    /// # Errors
    /// When store or mirror cannot be read or written.
    pub fn pull(
        &self,
        global: &GlobalArgs,
        publishes: bool,
        printer: Printer,
    ) -> Result<(), Failure> {
        let origin = self.origin()?;
        let work = Work::new(global, self, &*origin, printer)?;
        let publishes = publishes && work.may_publish();
        work.check(if publishes { Usage::Remove } else { Usage::Read })?;
        let pulled = work.pull(publishes)?;
        work.tell_of(&pulled, publishes, false)
    }

    /// Writes to the store what the mirror has otherwise; returns why units were not written: others changed
    /// their records meanwhile.
    ///
    /// # Errors
    /// When store or mirror cannot be read or written. The next publication goes on.
    pub fn publish(&self, global: &GlobalArgs, printer: Printer) -> Result<Vec<String>, Failure> {
        let origin = self.origin()?;
        let work = Work::new(global, self, &*origin, printer)?;
        let published = work.open()?.publish().map_err(|error| work.publish_failure(&error))?;
        work.tell_of_publication(&published);
        let reason = |(_, conflict): &(_, OriginConflict)| {
            format!("{}: {}", excerpt(&conflict.id, REASON_CHARS), conflict.reason)
        };
        Ok(published.conflicts.iter().map(reason).collect())
    }

    /// Returns how the owner of the store can remove records by a script.
    ///
    /// # Errors
    /// When the store cannot be read, or not changed that way.
    pub(crate) fn removal_script(
        &self,
        removals: &[PlannedRemoval],
        form: ScriptForm,
    ) -> Result<String, Failure> {
        let script = self.origin()?.removal_script(removals, form);
        let script = script.map_err(|error| origin_failure("write a script", &error))?;
        script.ok_or_else(|| not_a_table(&self.origin, self.kind))
    }

    fn origin(&self) -> Result<Box<dyn Origin>, Failure> {
        let opened = memfold_adapters::open(self.kind, &self.origin);
        let opened = opened.ok_or_else(|| {
            let advice = "name another store: only kinds of stores are served, not files of texts";
            Failure::usage(format!("{} is no store", self.origin.display()), advice)
        })?;
        let mut origin = opened.map_err(|error| origin_failure("open the store", &error))?;
        origin.keep_removed_in(&removed_texts(&self.mirror));
        Ok(origin)
    }
}

/// A store of another kind, opened.
type Found = (Mirrored, Box<dyn Origin>);

/// The store that a command names.
pub(crate) struct Named<'a> {
    path: &'a mut PathBuf,
    /// Whether the command was told to write, so that the store may be written.
    publishes: bool,
}

impl<'a> Named<'a> {
    /// A store that the command only reads.
    pub(crate) fn read(path: &'a mut PathBuf) -> Option<Self> {
        Self::written(path, false)
    }

    /// A store that the command may write.
    pub(crate) fn written(path: &'a mut PathBuf, publishes: bool) -> Option<Self> {
        Some(Self { path, publishes })
    }
}

/// Runs a command: on the mirror where the store that it names has one.
pub(crate) fn run(
    global: &GlobalArgs,
    mut command: Command,
    printer: Printer,
    dispatch: impl FnOnce(&GlobalArgs, Command, Printer) -> Result<Exit, Failure>,
) -> Result<Exit, Failure> {
    let takes_texts = matches!(
        command,
        Command::Review(_)
            | Command::Check(_)
            | Command::Recall(_)
            | Command::Explain(_)
            | Command::Status(_)
            | Command::Runs(_)
    );
    let Some(Named { path, publishes }) = command.store() else {
        return dispatch(global, command, printer);
    };
    let store = path.clone();
    let choice = match &command {
        Command::Consolidate(args) => args.table.choice(),
        _ => None,
    };
    let names_table = choice.as_ref().is_some_and(|choice| choice.table.is_some());
    let store_kind = names_table.then(|| sqlite_table::KIND.to_owned());
    let named =
        GlobalArgs { store_kind: global.store_kind.clone().or(store_kind), ..global.clone() };
    let Some((mirrored, mut origin)) = find(&named, &store, takes_texts)? else {
        return match choice {
            Some(_) => Err(not_a_table(&store, BRAIN_DB)),
            None => dispatch(global, command, printer),
        };
    };
    if let Some(choice) = &choice {
        let chosen = origin.choose_table(choice);
        if !chosen.map_err(|error| origin_failure("open the store", &error))? {
            return Err(not_a_table(&mirrored.origin, mirrored.kind));
        }
    }
    if let Some(Named { path, .. }) = command.store() {
        path.clone_from(&mirrored.mirror);
    }
    if let Command::Forget(_) = command {
        let removed = removed_texts(&mirrored.mirror);
        let advice = match origin.keeps_removed() {
            true => format!(
                "remove the memory from its file, and delete the mirror and {}: nothing that was \
                 taken out before can be undone then",
                removed.display()
            ),
            false => "remove the memory with the tool that wrote it, and delete the mirror: the \
                      next command makes it anew without the memory"
                .to_owned(),
        };
        return Err(Failure::usage(
            format!("memories of a {} store are not forgotten by memfold", mirrored.kind),
            advice,
        ));
    }
    writing::show_as(&mirrored.mirror, &mirrored.origin);
    let (is_checkup, is_save) =
        (matches!(command, Command::Doctor(_)), matches!(command, Command::Save(_)));
    let rebuilds = matches!(&command, Command::Doctor(args) if args.rebuild_indexes);
    let global = GlobalArgs { mirrored: Some(mirrored.clone()), ..global.clone() };
    if let Command::Consolidate(args) = &mut command
        && narrow(args, &global, &mirrored, &mut *origin, printer)?.is_break()
    {
        return Ok(Exit::Done);
    }
    let work = Work::new(&global, &mirrored, &*origin, printer)?;
    let publishes = publishes && mirrored.kind != texts::KIND && work.may_publish();
    work.check(match publishes {
        true if is_save => Usage::Add,
        true => Usage::Remove,
        false => Usage::Read,
    })?;
    if rebuilds {
        work.rebuild()?;
    }
    let pulled = work.pull(publishes)?;
    work.tell_of(&pulled, publishes, is_checkup)?;
    let unread = (pulled.records == 0).then_some(pulled.skipped.len()).filter(|count| *count > 0);
    let global =
        GlobalArgs { mirrored: Some(Mirrored { unread, ..mirrored.clone() }), ..global.clone() };
    let exit = dispatch(&global, command, printer)?;
    match exit {
        Exit::Done | Exit::Partial | Exit::ChangesPending if publishes => work.publish(exit),
        Exit::Interrupted if publishes => {
            printer.note(&format!("note: what was applied is not published yet; {PUBLISHED_NEXT}"));
            Ok(exit)
        }
        exit => Ok(exit),
    }
}

/// Narrows a run to what its trigger is about; breaks where that is nothing. Only stores whose owner has rules of their own
/// know such triggers.
fn narrow(
    args: &mut ConsolidateArgs,
    global: &GlobalArgs,
    mirrored: &Mirrored,
    origin: &mut dyn Origin,
    printer: Printer,
) -> Result<ControlFlow<()>, Failure> {
    let settings = Settings::load(global, Some(&mirrored.mirror), &[])?;
    let typed = args.trigger.clone();
    let configured = || settings.configuration.policy.trigger.map(name_of);
    let Some(trigger) = typed.or_else(configured).filter(|_| origin.rule_profile().is_some())
    else {
        return Ok(ControlFlow::Continue(()));
    };
    origin.begun_by(&trigger);
    if trigger == name_of(Trigger::SessionEnd) {
        // Models write with all memories before them.
        args.incremental |= args.judge.is_none();
    }
    if trigger == name_of(Trigger::IndexOverflow) && args.category.is_empty() {
        let full = origin.overflows().map_err(|error| origin_failure("read the store", &error))?;
        if full.is_empty() {
            printer.note("no index lists more entries than it should: nothing to do");
            return Ok(ControlFlow::Break(()));
        }
        let categories: Option<Vec<String>> =
            full.into_iter().map(|(_, category)| category).collect();
        // Without a category in common the whole store is looked at.
        args.category = categories.unwrap_or_default();
    }
    Ok(ControlFlow::Continue(()))
}

/// Finds out of which kind a store is and where its mirror is; `None` for a `brain.db`.
fn find(global: &GlobalArgs, path: &Path, takes_texts: bool) -> Result<Option<Found>, Failure> {
    let (kind, path, mirror) = match named_by_mirror(path) {
        Some((kind, origin)) if global.store_kind.is_none() => {
            (Some(kind), origin, Some(path.to_owned()))
        }
        _ => (None, path.to_owned(), None),
    };
    let kind = match (&global.store_kind, kind) {
        (Some(kind), _) => Some(known_kind(kind)?),
        (None, Some(kind)) if kind == texts::KIND => Some(texts::KIND),
        (None, Some(kind)) => Some(known_kind(&kind)?),
        (None, None) => memfold_adapters::detect(&path)
            .or_else(|| (takes_texts && is_texts(&path)).then_some(texts::KIND)),
    };
    let Some(kind) = kind.filter(|kind| *kind != BRAIN_DB) else {
        return match &global.mirror {
            Some(_) => Err(Failure::usage(
                format!("--mirror: {} is a brain.db, which needs no mirror", path.display()),
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
    let mut origin = opened.map_err(|error| origin_failure("open the store", &error))?;
    let mirror = match global.mirror.clone().or(mirror) {
        Some(mirror) => mirror,
        None if origin.keeps_removed() => lasting_mirror(&path)?,
        None => default_mirror(&path)?,
    };
    origin.keep_removed_in(&removed_texts(&mirror));
    let (separate_by, rule_profile) = (origin.separate_by(), origin.rule_profile());
    Ok(Some((
        Mirrored { origin: path, mirror, kind, separate_by, rule_profile, unread: None },
        origin,
    )))
}

fn not_a_table(store: &Path, kind: &str) -> Failure {
    Failure::usage(
        format!("{} is a {kind} store, which has no table to name", store.display()),
        "leave --table, --removed, --sql and --ids out",
    )
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

/// The mirror in the user's state folder: of a store that keeps nothing of what is taken out of it, it must last.
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

fn origin_failure(what: &str, error: &OriginError) -> Failure {
    Failure::new(what, error, error.hint())
}

fn mirror_failure(what: &str, error: &MirrorError) -> Failure {
    let exit = if error.is_locked() { Exit::Locked } else { Exit::Failure };
    Failure { exit, ..Failure::new(what, error, error.hint()) }
}

/// One command on a mirrored store.
struct Work<'a> {
    mirrored: &'a Mirrored,
    origin: &'a dyn Origin,
    settings: Settings,
    time_zone: TimeZone,
    now: Instant,
    printer: Printer,
}

impl<'a> Work<'a> {
    fn new(
        global: &GlobalArgs,
        mirrored: &'a Mirrored,
        origin: &'a dyn Origin,
        printer: Printer,
    ) -> Result<Self, Failure> {
        let settings = Settings::load(global, Some(&mirrored.mirror), &[])?;
        let time_zone = settings.time_zone()?;
        Ok(Self { mirrored, origin, settings, time_zone, now: machine::clock(), printer })
    }

    fn may_publish(&self) -> bool {
        forbidden_by(&self.settings.configuration.settings).is_none()
    }

    fn open(&self) -> Result<Mirror<'_>, Failure> {
        let folder = self.mirrored.mirror.parent().filter(|folder| !folder.is_dir());
        if let Some(parent) = folder.and_then(Path::parent).filter(|p| !p.as_os_str().is_empty()) {
            // The cache's folder; whatever fails here fails again below, and is told.
            let _ = std::fs::create_dir_all(parent);
        }
        let busy_timeout = self.settings.configuration.settings.busy_timeout_ms;
        let session = SessionOptions {
            busy_timeout: Duration::from_millis(busy_timeout.into()),
            holder: machine::holder(),
        };
        let options = MirrorOptions {
            path: &self.mirrored.mirror,
            place: &self.mirrored.origin,
            session,
            now: self.now,
            time_zone: &self.time_zone,
        };
        Mirror::open(self.origin, options)
            .map_err(|error| mirror_failure("open the mirror", &error))
    }

    /// Makes sure that the origin can be used that way, before anything is done.
    fn check(&self, usage: Usage) -> Result<(), Failure> {
        self.origin.check(usage).map_err(|error| origin_failure("open the store", &error))
    }

    /// Takes in what others changed; finishes an interrupted publication before, where the origin may be written.
    fn pull(&self, publishes: bool) -> Result<Pulled, Failure> {
        let mirror = self.open()?;
        if publishes {
            let finished = mirror.finish_publication();
            let finished = finished.map_err(|error| self.publish_failure(&error))?;
            self.tell_of_publication(&finished);
        }
        let name = self.mirrored.origin.display();
        mirror.pull().map_err(|error| mirror_failure(&format!("pull {name}"), &error))
    }

    /// Makes the indexes of the origin anew.
    fn rebuild(&self) -> Result<(), Failure> {
        if !self.may_publish() {
            return Err(Failure::usage(
                "--rebuild-indexes: the configuration forbids to write",
                "leave it out, or set dry_run: false and read_only: false",
            ));
        }
        let rebuilt = self.origin.rebuild(&self.now.to_rfc3339());
        let rebuilt = rebuilt.map_err(|error| origin_failure("rebuild the indexes", &error))?;
        for path in &rebuilt {
            self.printer.note(&format!("rebuilt {path}"));
        }
        if rebuilt.is_empty() {
            self.printer.note("all indexes are up to date");
        }
        Ok(())
    }

    /// Writes to the origin what the command changed.
    fn publish(&self, exit: Exit) -> Result<Exit, Failure> {
        let published = self.open()?.publish();
        let published = published.map_err(|error| self.publish_failure(&error))?;
        self.tell_of_publication(&published);
        Ok(if published.conflicts.is_empty() { exit } else { Exit::Partial })
    }

    fn publish_failure(&self, error: &MirrorError) -> Failure {
        let name = self.mirrored.origin.display();
        let failure = mirror_failure(&format!("publish to {name}"), error);
        let hint = failure.hint.map(|hint| format!("{hint}; ")).unwrap_or_default();
        Failure { hint: Some(format!("{hint}{PUBLISHED_NEXT}")), ..failure }
    }

    fn tell_of(&self, pulled: &Pulled, publishes: bool, all: bool) -> Result<(), Failure> {
        let (printer, name) = (self.printer, writing::path_word(&self.mirrored.mirror));
        let summary = format!("{name} is of kind {}: {}", self.mirrored.kind, summary(pulled));
        if let Some(description) = self.origin.description() {
            printer.note(&format!("{name}: {}", excerpt(&description, DESCRIPTION_CHARS)));
        }
        if all {
            printer.note(&format!("{summary}; mirrored in {}", self.mirrored.mirror.display()));
            for skipped in pulled.skipped.iter().take(SHOWN) {
                let reason = excerpt(&skipped.reason, REASON_CHARS);
                printer.note(&format!("  left out: {}: {reason}", skipped.place));
            }
            for advice in self.origin.advice().iter().take(SHOWN) {
                printer.note(&format!("  {}", excerpt(advice, REASON_CHARS)));
            }
        } else {
            printer.detail(&summary);
            if !pulled.skipped.is_empty() {
                let count = counted(pulled.skipped.len() as u64, "place", "places");
                let doctor =
                    writing::store_words(&["memfold", "doctor"], &self.mirrored.mirror, &[]);
                printer.note(&format!(
                    "note: {count} of {name} could not be understood and are left as they are \
                     ({doctor} lists them)"
                ));
            }
        }
        if !pulled.taken_back.is_empty() {
            let count = counted(pulled.taken_back.len() as u64, "memory", "memories");
            printer.note(&format!(
                "note: others changed {count} that a run had changed: what the run did to them was \
                 taken back and will be planned anew"
            ));
        }
        if pulled.is_unfinished && !publishes {
            printer.note(&format!("note: a publication was interrupted; {PUBLISHED_NEXT}"));
        }
        Ok(())
    }

    fn tell_of_publication(&self, published: &Publication) {
        let name = writing::path_word(&self.mirrored.mirror);
        if !published.units.is_empty() {
            let units = counted(published.units.len() as u64, "unit", "units");
            let records = counted(published.changes() as u64, "record", "records");
            self.printer.note(&format!("published {units} to {name}: {records} changed"));
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
            self.printer.note(&format!(
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
