//! `memfold consolidate`: detect → plan → report → execute. A dry run unless `--execute`.

mod args;
mod budget;
mod document;
pub(crate) mod judge;
mod table;
pub(crate) mod texts;

use std::collections::BTreeSet;
use std::path::PathBuf;

use memfold::MemfoldError;
use memfold::consolidate::{Outcome, RunContext, consolidate_judged};
use memfold::execute::{
    CHANGE_SHARE_MAX, ExecuteRequest, Execution, Review, Selection, WriteRules, execute_watched,
    rejudge_flags,
};
use memfold::incremental::{ChangedRun, RowMarks, SearchedBy, consolidate_changed, targets};
use memfold::judging::Judging;
use memfold::lifecycle::Tiers;
use memfold::machine::{self, Stopwatch};
use memfold_core::policy::Absorbed;
use memfold_core::report::{
    Commands, Mode, StoreFigures, UnknownCategory, metrics, run_id, screen,
};
use memfold_core::runs::RunState;
use memfold_core::time::Instant;
use memfold_guard::Guard;
use memfold_guard::text::excerpt;
use memfold_simd::Kernels;
use memfold_store::{BrainDb, LoadRequest, LoadStoreError};
use serde_json::{Map, Value};
use tracing::field::Empty;
use tracing::info_span;

use self::args::{commands, files, flags, overrides, to_go_on};
use self::budget::Budget;
use crate::args::{GlobalArgs, IndexPlaceArgs};
use crate::commands::index::store::{Rebuild, rebuild, seal};
use crate::context::{self, open_store};
use crate::failure::{Exit, Failure};
use crate::outputs::Outputs;
use crate::printer::{self, Printer};
use crate::progress::{Bars, MemoryWatch};
use crate::run_files::{
    LogWatcher, RunFiles, Written, log_ended, log_failed, log_planned, log_started,
};
use crate::settings::{self, Settings};
use crate::writing::{self, exit_of};

pub use self::args::{ConsolidateArgs, MethodArg};
pub use self::document::ConsolidateDocument;
pub use self::judge::JudgeArg;
pub use self::table::TableArgs;

/// Characters of a name that are shown.
const NAME_CHARS: usize = 80;

pub(crate) fn run(
    global: &GlobalArgs,
    args: &ConsolidateArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    if texts::is_one(&args.db) {
        return texts::run(global, args, printer);
    }
    if let Some(output) = &args.output {
        return Err(Failure::usage(
            format!("--output {}: {} is no file of texts", output.display(), args.db.display()),
            "a store is changed in place: leave --output out",
        ));
    }
    log_failed(consolidate_store(global, args, printer), printer)
}

/// What a call of the command did.
#[derive(Debug)]
pub struct Consolidated {
    /// The plan and the report.
    pub outcome: Outcome,
    /// What was applied, where that was asked for.
    pub execution: Option<Execution>,
    /// The plan's id in the store, where it was saved for review.
    pub saved_as: Option<String>,
    /// What could not be written about a run that stands.
    pub failures: Vec<Failure>,
}

/// Does what `memfold consolidate` does, and shows nothing.
///
/// # Errors
/// As the command.
pub fn consolidate(
    global: &GlobalArgs,
    args: &ConsolidateArgs,
    bars: &Bars,
    printer: Printer,
) -> Result<Consolidated, Failure> {
    at_work(global, args, bars, printer, |work, done| {
        let (outcome, execution, written) = done;
        let saved_as = work.saved_as.clone();
        Ok(Consolidated { outcome, execution, saved_as, failures: written.failures })
    })
}

fn consolidate_store(
    global: &GlobalArgs,
    args: &ConsolidateArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    let bars = Bars::new(printer);
    let budget = Budget::of(args.budget, global)?;
    at_work(global, args, &bars, printer, |work, done| {
        let (outcome, execution, mut written) = done;
        let lines = budget.as_ref().map(|budget| budget.lines(&outcome));
        let exit = match execution {
            Some(execution) => {
                // The run stands, whatever can no longer be written about it.
                written.failures.extend(work.show(&outcome, Some(&execution)).err());
                work.end_run(&execution, &written)
            }
            None => {
                args.table.write(global, &outcome.plan, printer)?;
                work.end_plan(&outcome, written)?
            }
        };
        lines.transpose()?.iter().flatten().for_each(|line| printer.note(line));
        Ok(exit)
    })
}

/// Does the work of one call, and hands on what came of it.
fn at_work<T>(
    global: &GlobalArgs,
    args: &ConsolidateArgs,
    bars: &Bars,
    printer: Printer,
    end: impl FnOnce(&Work<'_>, (Outcome, Option<Execution>, Written)) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let flags = flags(args);
    let overrides = overrides(&flags, &global.set, args.again);
    let mut settings = Settings::load(global, Some(&args.db), &flags)?;
    settings.configuration.policy.merge.again = args.again;
    settings.show_notices(printer);
    let files = files(args);
    files.check(Outputs::beside(global.config.as_deref()).and_store(&args.db))?;
    let wanted = args.execute || args.save_plan;
    let may_write = writing::may_write(&settings, wanted, args.dry_run, printer);
    let settings = &settings;
    let mut work = Work {
        global,
        args,
        settings,
        files,
        printer,
        bars,
        may_write,
        saved_as: None,
        marks: None,
        index_is_new: false,
    };
    let done = work.run(overrides)?;
    end(&work, done)
}

fn planning_failure(args: &ConsolidateArgs, error: &MemfoldError) -> Failure {
    if error.is_cancelled() {
        let interrupted = Failure::interrupted();
        return match error {
            MemfoldError::Cancelled => {
                let message = "interrupted; no memory was changed".to_owned();
                Failure { message, hint: error.hint(), ..interrupted }
            }
            _ => interrupted,
        };
    }
    Failure::new(&format!("consolidate {}", args.db.display()), error, error.hint())
}

/// One call of the command.
struct Work<'a> {
    global: &'a GlobalArgs,
    args: &'a ConsolidateArgs,
    settings: &'a Settings,
    files: RunFiles<'a>,
    printer: Printer,
    bars: &'a Bars,
    /// Whether the command was told to write to the store, and nothing forbids it.
    may_write: bool,
    /// The plan's id in the store, where it was saved for review.
    saved_as: Option<String>,
    /// What the rows looked like before the run.
    marks: Option<RowMarks>,
    /// Whether the index holds what the run left behind.
    index_is_new: bool,
}

impl Work<'_> {
    fn run(
        &mut self,
        overrides: Map<String, Value>,
    ) -> Result<(Outcome, Option<Execution>, Written), Failure> {
        let (mode, store) = (Mode::of(self.may_write && self.args.execute), self.args.db.display());
        let run = info_span!("consolidation.run", %store, mode = mode.name(), run_id = Empty);
        let _entered = run.enter();
        let watch = MemoryWatch::start();
        let mut outcome = self.plan()?;
        run.record("run_id", &*outcome.report.run_id);
        outcome.plan.overrides = overrides;
        log_planned(&outcome.report, self.printer);
        self.warn_of_unknown_categories(&outcome);
        let execution = self.write_to_the_store(&mut outcome)?;
        self.keep_marks(&outcome, execution.as_ref());
        if execution.is_none() {
            self.tell_of_moves(&mut outcome)?;
        }
        let (peak_rss, peak_anon) = watch.finish();
        // 0 where the system does not tell.
        outcome.report.peak_rss_bytes = peak_rss.unwrap_or(0);
        outcome.report.peak_anon_bytes = peak_anon.unwrap_or(0);
        let written = self.write_files(&outcome, execution.is_some());
        Ok((outcome, execution, written))
    }

    fn plan(&mut self) -> Result<Outcome, Failure> {
        let guard = self.settings.guard()?;
        let store = open_store(&self.args.db, self.settings)?;
        let time_zone = self.settings.time_zone()?;
        let now = settings::now(self.args.now.as_deref(), &time_zone)?;
        let config_hash = self.settings.config_hash(&guard);
        self.log_start(&store, now, &config_hash)?;
        let stopwatch = Stopwatch::start();
        let context = RunContext {
            now,
            time_zone: &time_zone,
            config_hash: &config_hash,
            pool: &settings::pool(self.global)?,
            kernels: Kernels::active(),
            progress: self.bars,
            clock: &|| stopwatch.seconds(),
            scratch_dir: &settings::scratch_dir(),
        };
        if self.args.judge.is_some() {
            let (args, settings) = (self.args, self.settings);
            let (bars, printer) = (self.bars, self.printer);
            return judge::plan(args, settings, &store, &context, bars, printer, |judging| {
                self.search(&store, &guard, &context, Some(judging))
            });
        }
        self.search(&store, &guard, &context, None)
            .map_err(|error| planning_failure(self.args, &error))
    }

    /// Plans over what changed, where that was asked for and can be told, else over everything.
    fn search(
        &mut self,
        store: &BrainDb,
        guard: &Guard,
        context: &RunContext<'_>,
        mut judging: Option<&mut Judging<'_>>,
    ) -> Result<Outcome, MemfoldError> {
        let policy = &self.settings.configuration.policy;
        let mut reason = None;
        if self.args.incremental {
            let folder = self.index_folder().unwrap_or_default();
            let judging = judging.as_deref_mut();
            match consolidate_changed(store, &folder, policy, guard, context, judging)? {
                ChangedRun::Done(outcome, marks) => {
                    self.marks = Some(marks);
                    return Ok(*outcome);
                }
                ChangedRun::Whole(why) => reason = Some(format!("searched everything: {why}")),
            }
        }
        if self.may_write && self.args.execute && self.index_folder().is_some() {
            let RunContext { now, time_zone, progress, .. } = *context;
            let load = LoadRequest { time_zone, now, progress };
            // Before the rows are loaded: what others write meanwhile counts as changed the next time.
            self.marks = Some(RowMarks::read(store, &load, policy)?);
        }
        let mut outcome = consolidate_judged(store, policy, guard, context, judging)?;
        for note in &outcome.report.notes {
            self.printer.note(&format!("note: {note}"));
        }
        if let Some(reason) = reason {
            self.printer.note(&format!("note: {reason}"));
            outcome.report.notes.push(reason);
        }
        Ok(outcome)
    }

    /// The folder of the index, where there is one.
    fn index_folder(&self) -> Option<PathBuf> {
        let place = IndexPlaceArgs { db: self.args.db.clone(), index_dir: None };
        let folder = context::index_to_read(&place).ok();
        folder.filter(|folder| folder.join("MANIFEST").exists())
    }

    /// Lets the next run search only what changes from now on, where the index holds what this one saw.
    fn keep_marks(&mut self, outcome: &Outcome, execution: Option<&Execution>) {
        let may_run = self.may_write && self.args.execute;
        let Some((marks, folder)) = self.marks.take().zip(self.index_folder()).filter(|_| may_run)
        else {
            return;
        };
        let is_renewed = match execution {
            Some(_) => self.index_is_new,
            None => self.renew_index(outcome),
        };
        if !is_renewed {
            return;
        }
        let is_whole = execution
            .is_none_or(|execution| execution.state == RunState::Done && execution.remaining == 0);
        let pending = if is_whole { BTreeSet::new() } else { targets(&outcome.plan) };
        let run = SearchedBy::run(&outcome.report.run_id, &outcome.plan.config_hash);
        let mode = context::mode_like(&self.args.db);
        if let Err(error) = marks.keep(&folder, mode, run, &pending) {
            self.printer.note(&format!("note: the next run searches everything: {error}"));
        }
    }

    fn log_start(&self, store: &BrainDb, now: Instant, config_hash: &str) -> Result<(), Failure> {
        if !self.printer.is_verbose() {
            return Ok(());
        }
        let store_id = store
            .store_id()
            .map_err(|error| writing::session_failure("read the store's name", &error))?;
        let mode = Mode::of(self.may_write && self.args.execute);
        log_started(&run_id(&store_id, now, config_hash), mode, config_hash, self.printer);
        Ok(())
    }

    /// Tells which categories of the scope no live memory has, and what was probably meant.
    fn warn_of_unknown_categories(&self, outcome: &Outcome) {
        for UnknownCategory { category, nearest } in &outcome.report.scope.unknown_categories {
            let category = excerpt(category, NAME_CHARS);
            let meant = nearest.as_deref().map_or_else(String::new, |nearest| {
                format!("; did you mean {:?}?", excerpt(nearest, NAME_CHARS))
            });
            self.printer
                .note(&format!("warning: no live memory has the category {category:?}{meant}"));
        }
    }

    /// Saves and applies the plan as far as that was asked for; a plan without changes needs neither.
    fn write_to_the_store(&mut self, outcome: &mut Outcome) -> Result<Option<Execution>, Failure> {
        let args = self.args;
        if !self.may_write || outcome.plan.changes() == 0 {
            return Ok(None);
        }
        if !args.execute {
            self.saved_as = Some(self.save(outcome)?);
            return Ok(None);
        }
        self.rules(outcome)
            .check(&self.settings.configuration.policy, &outcome.plan)
            .map_err(|error| writing::execute_failure(&error))?;
        self.execute(outcome).map(Some)
    }

    /// Says in a dry run that memories will be archived in place, though they are to be moved away.
    fn tell_of_moves(&self, outcome: &mut Outcome) -> Result<(), Failure> {
        let planned = outcome.report.planned;
        let policy = &self.settings.configuration.policy;
        if policy.merge.absorbed == Absorbed::Archive || planned.merge + planned.archive == 0 {
            return Ok(());
        }
        let refusal = open_store(&self.args.db, self.settings)?.move_refusal();
        if let Some(reason) =
            refusal.map_err(|error| writing::session_failure("look at the tables", &error))?
        {
            let note =
                format!("memories are archived in place, not moved to memfold_archive: {reason}");
            self.printer.note(&format!("note: {note}"));
            outcome.report.notes.push(note);
        }
        Ok(())
    }

    fn save(&self, outcome: &Outcome) -> Result<String, Failure> {
        let session = writing::open_own_tables(&self.args.db, self.settings)?;
        let at = self.now(outcome)?.to_naive_local(&self.settings.time_zone()?);
        let plan_id = session
            .save_plan(&outcome.plan, &outcome.access_counts, &at)
            .map_err(|error| writing::session_failure("save the plan", &error))?;
        self.printer.note(&format!("saved the plan as {plan_id}"));
        Ok(plan_id)
    }

    /// The run's time, which the plan holds.
    fn now(&self, outcome: &Outcome) -> Result<Instant, Failure> {
        settings::now(Some(&outcome.plan.now), &self.settings.time_zone()?)
    }

    /// What must hold before anything is written.
    fn rules(&self, outcome: &Outcome) -> WriteRules<'_> {
        let live = outcome.report.loaded.live;
        WriteRules {
            settings: &self.settings.configuration.settings,
            allow_unguarded: self.args.allow_unguarded,
            review: match &self.args.expect {
                Some(digest) => Review::Digest(digest),
                None => Review::Nobody {
                    share_max: self.args.max_change_share.unwrap_or(CHANGE_SHARE_MAX),
                    live,
                },
            },
        }
    }

    fn execute(&mut self, outcome: &mut Outcome) -> Result<Execution, Failure> {
        if self.args.report.is_none() && self.args.report_dir.is_none() {
            writing::report_dir(&self.args.db)?;
        }
        let (stopwatch, guard) = (Stopwatch::start(), self.settings.guard()?);
        let actions = outcome.plan.actions.iter();
        let vectors = context::new_vectors(actions, self.settings, self.bars, self.printer)?;
        let session = writing::open_session(&self.args.db, self.settings)?;
        let actions = &outcome.plan.actions;
        let mut watcher =
            LogWatcher { action: |position| actions.get(position), printer: self.printer };
        let execution = execute_watched(
            &session,
            &ExecuteRequest {
                plan: &outcome.plan,
                vectors: &vectors,
                access_counts: &outcome.access_counts,
                selection: &Selection::default(),
                limit: self.args.limit,
                run_id: &outcome.report.run_id,
                now: self.now(outcome)?,
                time_zone: &self.settings.time_zone()?,
                policy: &self.settings.configuration.policy,
                config_hash: &outcome.plan.config_hash,
                rules: self.rules(outcome),
                holder: &machine::holder(),
                progress: self.bars,
                clock: &|| stopwatch.seconds(),
            },
            &mut watcher,
        )
        .map_err(|error| writing::execute_failure(&error))?;
        // The run stands: what follows is made up for by a later run.
        if let Err(error) = rejudge_flags(&session, &guard) {
            self.printer.note(&format!("note: the flags were not judged again: {error}"));
        }
        drop(session);
        self.index_is_new = self.renew_index(outcome);
        let executed = stopwatch.seconds();
        self.assign_tiers(outcome)?;
        let report = &mut outcome.report;
        report.mode = Mode::Execute;
        report.run_id.clone_from(&execution.run_id);
        report.executed = execution.executed;
        report.notes.extend(execution.notes.iter().cloned());
        report.seconds.execute = executed;
        report.seconds.tier = stopwatch.seconds() - executed;
        report.seconds.total += executed + report.seconds.tier;
        writing::note_backup(&execution, self.printer);
        Ok(execution)
    }

    /// Assigns tiers as the run leaves the memories, in a store that keeps them (`memfold status --store-tiers`).
    fn assign_tiers(&self, outcome: &mut Outcome) -> Result<(), Failure> {
        let unread = |error: LoadStoreError| Failure::new("read the tiers", &error, error.hint());
        let store = open_store(&self.args.db, self.settings)?;
        if store.assigned_tiers().map_err(unread)?.is_empty() {
            return Ok(());
        }
        let (time_zone, now) = (self.settings.time_zone()?, self.now(outcome)?);
        let load = LoadRequest { time_zone: &time_zone, now, progress: self.bars };
        let span = info_span!("consolidation.tier", changed = Empty).entered();
        let configuration = &self.settings.configuration;
        let retention = &configuration.settings.lifecycle.retention;
        let tiers = Tiers::of(&store, &load, &configuration.policy, retention).map_err(unread)?;
        drop(store);
        let kept = writing::open_own_tables(&self.args.db, self.settings).and_then(|session| {
            tiers
                .keep(&session, &now.to_naive_local(&time_zone))
                .map_err(|error| writing::session_failure("store the tiers", &error))
        });
        // The run stands, and the next one assigns them again.
        if let Err(failure) = kept {
            self.printer.note(&format!("note: tiers were not stored: {}", failure.message));
            return Ok(());
        }
        for transition in &tiers.transitions {
            self.printer.detail(&transition.to_string());
        }
        let count = tiers.transitions.len() as u64;
        span.record("changed", count as i64);
        if count > 0 {
            let changes =
                writing::counted(count, "memory changed its tier", "memories changed their tier");
            outcome.report.notes.push(changes);
        }
        Ok(())
    }

    /// Builds the index of the store as it is now, where it has one or is too large for checks without; after a run over
    /// what changed, adds what came. Returns whether the index holds what is there.
    fn renew_index(&self, outcome: &Outcome) -> bool {
        let place = IndexPlaceArgs { db: self.args.db.clone(), index_dir: None };
        let has_index = self.index_folder().is_some();
        if !has_index && outcome.report.loaded.with_embedding <= Rebuild::ROWS_MIN {
            return false;
        }
        let renewed = match outcome.report.incremental {
            Some(_) => seal(self.global, self.settings, &place, self.bars),
            None => rebuild(self.global, self.settings, &place, self.bars),
        };
        if let Err(failure) = &renewed {
            self.printer.note(&format!("note: the index was not built: {}", failure.message));
        }
        renewed.is_ok()
    }

    /// Writes what was asked for, and always the report of a run that wrote.
    fn write_files(&self, outcome: &Outcome, has_run: bool) -> Written {
        let mut written = Written::default();
        self.files.write_plan(&outcome.plan, &mut written);
        let (report, store) = (&outcome.report, &*self.args.db);
        self.files.write_report(report, store, has_run, self.printer, &mut written);
        let page = || metrics(&outcome.report, self.figures().as_ref());
        self.files.write_metrics(page, &mut written);
        written
    }

    /// Counts of the store, where it can be read.
    fn figures(&self) -> Option<StoreFigures> {
        open_store(&self.args.db, self.settings).ok()?.figures().ok()
    }

    fn commands(&self, outcome: &Outcome) -> Commands {
        let commands = match &self.saved_as {
            Some(plan_id) => {
                let mut commands = Commands::review(&writing::path_word(&self.args.db), plan_id);
                // The plan holds what was set on the command line.
                let global = GlobalArgs { set: Vec::new(), ..self.global.clone() };
                commands.next.extend(writing::global_words(&global));
                commands
            }
            None => commands(self.global, self.args, &outcome.report),
        };
        Commands { is_folded: printer::is_terminal(), ..commands }
    }

    fn show(&self, outcome: &Outcome, execution: Option<&Execution>) -> Result<(), Failure> {
        let shown = if self.global.json {
            self.printer.document(&ConsolidateDocument::of(&outcome.report))
        } else {
            self.printer.data(&screen(&outcome.report, &self.commands(outcome)))
        };
        if self.global.json {
            return shown;
        }
        match execution {
            Some(execution) => {
                let further = to_go_on(self.global, self.args);
                writing::note_execution(&self.args.db, &further, execution, self.printer);
            }
            None if self.saved_as.is_some() => {
                self.printer.note("no memory was changed: the plan waits for review");
            }
            None => self.printer.note("dry run: nothing was written to the store"),
        }
        shown
    }

    /// Ends a run that wrote to the store.
    fn end_run(&self, execution: &Execution, written: &Written) -> Exit {
        let is_whole = written.tell(&self.args.db, &execution.run_id, self.printer);
        let Execution { state, executed, remaining, .. } = execution;
        log_ended(*state, *executed, *remaining, is_whole, self.printer);
        match exit_of(execution.state) {
            Exit::Done if !is_whole => Exit::Partial,
            exit => exit,
        }
    }

    /// Ends a run that only planned.
    fn end_plan(&self, outcome: &Outcome, mut written: Written) -> Result<Exit, Failure> {
        if !written.failures.is_empty() {
            return Err(written.failures.swap_remove(0));
        }
        self.show(outcome, None)?;
        written.tell(&self.args.db, &outcome.report.run_id, self.printer);
        log_ended(RunState::Done, outcome.report.executed, 0, true, self.printer);
        let pending = self.args.exit_code && outcome.plan.changes() > 0;
        Ok(if pending { Exit::ChangesPending } else { Exit::Done })
    }
}
