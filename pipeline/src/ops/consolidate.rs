//! Detect → plan → report → execute, over a store.

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::time::Duration;

use memfold_core::plan::{Action, ActionType};
use memfold_core::policy::{Absorbed, JoinMethod, name_of};
use memfold_core::report::{
    Detected, Executed, Incremental, Judged, Loaded, Mode, Planned, Report, ScopeView, Seconds,
    Stats, StoreFigures, UnknownCategory, log_lines, metrics, run_id,
};
use memfold_core::runs::RunState;
use memfold_core::time::Instant;
use memfold_guard::Guard;
use memfold_guard::text::excerpt;
use memfold_index::Progress;
use memfold_simd::Kernels;
use memfold_store::{BrainDb, LoadRequest};
use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};
use tracing::field::Empty;
use tracing::info_span;

use super::apply::unexecuted;
use super::indexing::{IndexUpkeep, UNINDEXED_ROWS_MAX};
use super::judge::{self, JudgeMode};
use super::provider::new_vectors;
use super::run_files::{LogWatcher, RunFiles, Written, log_planned, note_backup, report_dir};
use super::settings::AGAIN;
use super::{
    Failure, FlagValue, Listener, Settings, Sources, StorePath, counted, index_to_read, may_write,
    mode_like, now, open_own_tables, open_session, open_store, pool, scratch_dir,
};
use crate::MemfoldError;
use crate::consolidate::{Outcome, RunContext, consolidate_judged};
use crate::execute::{
    CHANGE_SHARE_MAX, ExecuteRequest, Execution, Review, Selection, WriteRules, execute_watched,
    rejudge_flags,
};
use crate::incremental::{ChangedRun, RowMarks, SearchedBy, consolidate_changed, targets};
use crate::judging::Judging;
use crate::lifecycle::Tiers;
use crate::machine::{self, MemoryWatch, Stopwatch};

/// Characters of a name that are displayed.
const NAME_CHARS: usize = 80;

/// A request for a consolidation: it only plans unless it says otherwise.
#[derive(Debug, Clone, Default)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
pub struct ConsolidateRequest {
    /// The configuration keys that the caller sets, and the time.
    #[cfg_attr(feature = "clap", command(flatten))]
    pub scope: Scope,
    /// The files that the run writes.
    #[cfg_attr(feature = "clap", command(flatten))]
    pub files: RunFiles,
    /// Search only what changed since the last run with --execute.
    #[cfg_attr(feature = "clap", arg(long))]
    pub incremental: bool,
    /// Allow merges again that were undone.
    #[cfg_attr(feature = "clap", arg(long))]
    pub again: bool,
    /// Let models decide about proposals, as judge.chain names them [default with --judge: ask].
    #[cfg_attr(
        feature = "clap",
        arg(long, value_enum, value_name = "HOW", num_args = 0..=1, default_missing_value = "ask")
    )]
    pub judge: Option<JudgeMode>,
    /// Save the plan in the store, for review and apply.
    #[cfg_attr(feature = "clap", arg(long))]
    pub save_plan: bool,
    /// Apply the plan.
    #[cfg_attr(feature = "clap", arg(long))]
    pub execute: bool,
    /// Apply only the plan with this digest: the one that was reviewed.
    #[cfg_attr(feature = "clap", arg(long, value_name = "DIGEST", requires = "execute"))]
    pub expect: Option<String>,
    /// Without --expect, refuse to change a larger share of the live memories, 0 to 1 [default: 0.1].
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "X", requires = "execute", allow_negative_numbers = true,
            value_parser = share)
    )]
    pub max_change_share: Option<f64>,
    /// Apply N units at most; running again continues.
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "N", allow_negative_numbers = true, value_parser = units)
    )]
    pub limit: Option<u64>,
    /// Execute although the fact guard or protection is off.
    #[cfg_attr(feature = "clap", arg(long))]
    pub allow_unguarded: bool,
    /// Write nothing to the store; this is the default and wins over --execute and --save-plan.
    #[cfg_attr(feature = "clap", arg(long))]
    pub dry_run: bool,
}

/// Configuration keys that a caller sets for one consolidation, and its time.
#[derive(Debug, Clone, Default)]
#[cfg_attr(feature = "clap", derive(clap::Args))]
pub struct Scope {
    /// Merge at or above this cosine similarity [default: 0.95].
    #[cfg_attr(
        feature = "clap",
        arg(long, value_name = "T", allow_negative_numbers = true, value_parser = threshold)
    )]
    pub threshold: Option<f64>,
    /// How to search for near pairs [default: auto].
    #[cfg_attr(feature = "clap", arg(long, value_enum, value_name = "M"))]
    pub method: Option<JoinMethod>,
    /// Only memories of this category (can be repeated).
    #[cfg_attr(feature = "clap", arg(long = "category", value_name = "C"))]
    pub categories: Vec<String>,
    /// Only memories created at or after this time (ISO 8601).
    #[cfg_attr(feature = "clap", arg(long, value_name = "TIME"))]
    pub since: Option<String>,
    /// Only memories created before this time (ISO 8601).
    #[cfg_attr(feature = "clap", arg(long, value_name = "TIME"))]
    pub until: Option<String>,
    /// Plan as if it were this time (RFC 3339) [default: the clock].
    #[cfg_attr(feature = "clap", arg(long, value_name = "TIME"))]
    pub now: Option<String>,
    /// Run only the rules of this trigger, and those of on_* [default: all rules].
    #[cfg_attr(feature = "clap", arg(long, value_name = "T"))]
    pub trigger: Option<String>,
}

#[cfg(feature = "clap")]
fn threshold(text: &str) -> Result<f64, String> {
    let number = text.trim().parse().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| "expected a number from 0 to 1, such as 0.95".to_owned())
}

#[cfg(feature = "clap")]
fn share(text: &str) -> Result<f64, String> {
    let number = text.trim().parse().ok().filter(|number| (0.0..=1.0).contains(number));
    number.ok_or_else(|| "expected a number from 0 to 1".to_owned())
}

#[cfg(feature = "clap")]
pub(super) fn units(text: &str) -> Result<u64, String> {
    let number = text.trim().parse().ok().filter(|number| *number > 0);
    number.ok_or_else(|| "expected a whole number, 1 or more".to_owned())
}

/// The results of a consolidation.
#[derive(Debug)]
pub struct Consolidated {
    /// The plan and the report.
    pub outcome: Outcome,
    /// The applied units, where execution was requested.
    pub execution: Option<Execution>,
    /// The plan's id in the store, where it was saved for review.
    pub saved_as: Option<String>,
    /// The files written, and failures to write them.
    pub written: Written,
}

impl Scope {
    /// Returns it as configuration.
    #[must_use]
    pub fn flags(&self) -> Vec<FlagValue> {
        let mut flags = Vec::new();
        let mut flag = |flag, key, value: Option<Value>| {
            flags.extend(value.map(|value| FlagValue { flag, key, value }));
        };
        flag("--threshold", "threshold", self.threshold.map(Value::from));
        flag("--method", "detect.method", self.method.map(|method| name_of(method).into()));
        let categories = (!self.categories.is_empty()).then(|| self.categories.clone().into());
        flag("--category", "scope.categories", categories);
        flag("--since", "scope.since", self.since.clone().map(Value::from));
        flag("--until", "scope.until", self.until.clone().map(Value::from));
        flag("--trigger", "trigger", self.trigger.clone().map(Value::from));
        flags
    }

    /// Returns the configuration given on the command line, so that applying the plan later needs
    /// no repetition.
    #[must_use]
    pub fn overrides(&self, sources: &Sources, is_again: bool) -> Map<String, Value> {
        let flags = self.flags().into_iter();
        let mut overrides: Map<String, Value> =
            flags.map(|flag| (flag.key.to_owned(), flag.value)).collect();
        if is_again {
            // Another plan than the undone one; the actions of that one stay undone.
            overrides.insert(AGAIN.to_owned(), true.into());
        }
        if !sources.set.is_empty() {
            overrides.insert("set".to_owned(), sources.set.clone().into());
        }
        overrides
    }
}

/// Plans over a store, and saves and applies the plan as far as requested.
///
/// # Errors
/// When the configuration is not valid, the store cannot be read, or the plan must not be applied; no memory was changed
/// then.
pub fn consolidate(
    sources: &Sources,
    store: &StorePath,
    request: &ConsolidateRequest,
    threads: Option<NonZeroUsize>,
    listener: &dyn Listener,
) -> Result<Consolidated, Failure> {
    let mut settings = Settings::load(sources, Some(store), &request.scope.flags())?;
    settings.configuration.policy.merge.again = request.again;
    settings.show_notices(listener);
    let wanted = request.execute || request.save_plan;
    let may_write = may_write(&settings, wanted, request.dry_run, listener);
    let mut run = Run {
        store,
        request,
        threads,
        settings: &settings,
        listener,
        may_write,
        saved_as: None,
        marks: None,
        index_is_new: false,
    };
    run.run(request.scope.overrides(sources, request.again))
}

/// Does work with the guard and the context of a run: its time, its threads, this machine's kernels.
///
/// # Errors
/// When the time, the zone or the lexicon is not valid, or no thread can be started.
pub fn with_run_context<T>(
    settings: &Settings,
    given: Option<&str>,
    threads: Option<NonZeroUsize>,
    progress: &dyn Progress,
    work: impl FnOnce(&Guard, &RunContext<'_>) -> Result<T, Failure>,
) -> Result<T, Failure> {
    let (guard, time_zone) = (settings.guard()?, settings.time_zone()?);
    let stopwatch = Stopwatch::start();
    let context = RunContext {
        now: now(given, &time_zone)?,
        time_zone: &time_zone,
        config_hash: &settings.config_hash(&guard),
        pool: &pool(threads)?,
        kernels: Kernels::active(),
        progress,
        clock: &|| stopwatch.seconds(),
        scratch_dir: &scratch_dir(),
    };
    work(&guard, &context)
}

/// A failure to plan over a store or a file of texts.
pub fn planning_failure(store: &Path, error: &MemfoldError) -> Failure {
    let failure = Failure::of(&format!("consolidate {}", store.display()), error);
    match error {
        MemfoldError::Cancelled => Failure {
            message: "interrupted; no memory was changed".to_owned(),
            hint: error.hint(),
            ..failure
        },
        _ => failure,
    }
}

/// One run.
struct Run<'a> {
    store: &'a StorePath,
    request: &'a ConsolidateRequest,
    threads: Option<NonZeroUsize>,
    settings: &'a Settings,
    listener: &'a dyn Listener,
    /// Whether the caller wants the store to be written, and nothing forbids it.
    may_write: bool,
    /// The plan's id in the store, where it was saved for review.
    saved_as: Option<String>,
    /// The marks of the rows before the run.
    marks: Option<RowMarks>,
    /// Whether the index holds the changes of the run.
    index_is_new: bool,
}

impl Run<'_> {
    fn run(&mut self, overrides: Map<String, Value>) -> Result<Consolidated, Failure> {
        let (mode, store) = (Mode::of(self.executes()), self.store.display());
        let run = info_span!("consolidation.run", %store, mode = mode.name(), run_id = Empty);
        let _entered = run.enter();
        let watch = MemoryWatch::start();
        let mut outcome = self.plan()?;
        run.record("run_id", &*outcome.report.run_id);
        outcome.plan.overrides = overrides;
        log_planned(&outcome.report, self.listener);
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
        Ok(Consolidated { outcome, execution, saved_as: self.saved_as.take(), written })
    }

    /// Tells whether the plan is applied.
    const fn executes(&self) -> bool {
        self.may_write && self.request.execute
    }

    fn plan(&mut self) -> Result<Outcome, Failure> {
        let (request, settings, listener) = (self.request, self.settings, self.listener);
        let store = open_store(self.store, settings)?;
        let at = request.scope.now.as_deref();
        with_run_context(settings, at, self.threads, listener, |guard, context| {
            self.log_start(&store, context.now, context.config_hash)?;
            if request.judge.is_some() {
                return judge::plan(request, settings, &store, context, listener, |judging| {
                    self.search(&store, guard, context, Some(judging))
                });
            }
            self.search(&store, guard, context, None)
                .map_err(|error| planning_failure(self.store, &error))
        })
    }

    /// Plans over changed memories, if requested and possible, else over everything.
    fn search(
        &mut self,
        store: &BrainDb,
        guard: &Guard,
        context: &RunContext<'_>,
        mut judging: Option<&mut Judging<'_>>,
    ) -> Result<Outcome, MemfoldError> {
        let policy = &self.settings.configuration.policy;
        let mut reason = None;
        if self.request.incremental {
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
        if self.executes() && self.index_folder().is_some() {
            let RunContext { now, time_zone, progress, .. } = *context;
            let load = LoadRequest { time_zone, now, progress };
            // Before the rows are loaded: rows that others write meanwhile count as changed the
            // next time.
            self.marks = Some(RowMarks::read(store, &load, policy)?);
        }
        let mut outcome = consolidate_judged(store, policy, guard, context, judging)?;
        for note in &outcome.report.notes {
            self.listener.note(&format!("note: {note}"));
        }
        if let Some(reason) = reason {
            self.listener.note(&format!("note: {reason}"));
            outcome.report.notes.push(reason);
        }
        Ok(outcome)
    }

    /// The folder of the index, where there is one.
    fn index_folder(&self) -> Option<PathBuf> {
        let folder = index_to_read(self.store, None).ok();
        folder.filter(|folder| folder.join("MANIFEST").exists())
    }

    /// Lets the next run search only later changes, if the index holds the rows that this one saw.
    fn keep_marks(&mut self, outcome: &Outcome, execution: Option<&Execution>) {
        let may_run = self.executes();
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
        let mode = mode_like(self.store);
        if let Err(error) = marks.keep(&folder, mode, run, &pending) {
            self.listener.note(&format!("note: the next run searches everything: {error}"));
        }
    }

    fn log_start(&self, store: &BrainDb, now: Instant, config_hash: &str) -> Result<(), Failure> {
        let store_id =
            store.store_id().map_err(|error| Failure::of("read the store's name", &error))?;
        let mode = Mode::of(self.executes());
        let run_id = run_id(&store_id, now, config_hash);
        self.listener.detail(&log_lines::start(&run_id, mode, config_hash));
        Ok(())
    }

    /// Warns of categories of the scope that no live memory has, with the probably meant ones.
    fn warn_of_unknown_categories(&self, outcome: &Outcome) {
        for UnknownCategory { category, nearest } in &outcome.report.scope.unknown_categories {
            let category = excerpt(category, NAME_CHARS);
            let meant = nearest.as_deref().map_or_else(String::new, |nearest| {
                format!("; did you mean {:?}?", excerpt(nearest, NAME_CHARS))
            });
            self.listener
                .note(&format!("warning: no live memory has the category {category:?}{meant}"));
        }
    }

    /// Saves and applies the plan as far as that was requested; a plan without changes and proposals needs neither.
    fn write_to_the_store(&mut self, outcome: &mut Outcome) -> Result<Option<Execution>, Failure> {
        let request = self.request;
        if !self.may_write {
            return Ok(None);
        }
        if !request.execute {
            // Proposals change nothing by themselves, but `review` asks about them.
            let is_proposal = |action: &Action| action.action == ActionType::ProposeMerge;
            let asks = outcome.plan.actions.iter().any(is_proposal);
            if asks || outcome.plan.changes() > 0 {
                self.saved_as = Some(self.save(outcome)?);
            }
            return Ok(None);
        }
        if outcome.plan.changes() == 0 {
            return Ok(None);
        }
        self.rules(outcome)
            .check(&self.settings.configuration.policy, &outcome.plan)
            .map_err(|error| unexecuted(&error))?;
        self.execute(outcome).map(Some)
    }

    /// Says in a dry run that memories will be archived in place, though they are to be moved away.
    fn tell_of_moves(&self, outcome: &mut Outcome) -> Result<(), Failure> {
        let planned = outcome.report.planned;
        let policy = &self.settings.configuration.policy;
        if policy.merge.absorbed == Absorbed::Archive || planned.merge + planned.archive == 0 {
            return Ok(());
        }
        let refusal = open_store(self.store, self.settings)?.move_refusal();
        if let Some(reason) = refusal.map_err(|error| Failure::of("look at the tables", &error))? {
            let note =
                format!("memories are archived in place, not moved to memfold_archive: {reason}");
            self.listener.note(&format!("note: {note}"));
            outcome.report.notes.push(note);
        }
        Ok(())
    }

    fn save(&self, outcome: &Outcome) -> Result<String, Failure> {
        let session = open_own_tables(self.store, self.settings)?;
        let at = self.now(outcome)?.to_naive_local(&self.settings.time_zone()?);
        let plan_id = session
            .save_plan(&outcome.plan, &outcome.access_counts, &at)
            .map_err(|error| Failure::of("save the plan", &error))?;
        self.listener.note(&format!("saved the plan as {plan_id}"));
        Ok(plan_id)
    }

    /// The run's time, which the plan holds.
    fn now(&self, outcome: &Outcome) -> Result<Instant, Failure> {
        now(Some(&outcome.plan.now), &self.settings.time_zone()?)
    }

    /// The conditions for writing.
    fn rules(&self, outcome: &Outcome) -> WriteRules<'_> {
        let live = outcome.report.loaded.live;
        WriteRules {
            settings: &self.settings.configuration.settings,
            allow_unguarded: self.request.allow_unguarded,
            review: match &self.request.expect {
                Some(digest) => Review::Digest(digest),
                None => Review::Nobody {
                    share_max: self.request.max_change_share.unwrap_or(CHANGE_SHARE_MAX),
                    live,
                },
            },
        }
    }

    fn execute(&mut self, outcome: &mut Outcome) -> Result<Execution, Failure> {
        if self.request.files.report.is_none() && self.request.files.report_dir.is_none() {
            report_dir(self.store)?;
        }
        let (stopwatch, guard) = (Stopwatch::start(), self.settings.guard()?);
        let actions = outcome.plan.actions.iter();
        let vectors = new_vectors(actions, self.settings, self.listener)?;
        let session = open_session(self.store, self.settings)?;
        let actions = &outcome.plan.actions;
        let mut watcher =
            LogWatcher { action: |position| actions.get(position), listener: self.listener };
        let execution = execute_watched(
            &session,
            &ExecuteRequest {
                plan: &outcome.plan,
                vectors: &vectors,
                access_counts: &outcome.access_counts,
                selection: &Selection::default(),
                limit: self.request.limit,
                run_id: &outcome.report.run_id,
                now: self.now(outcome)?,
                time_zone: &self.settings.time_zone()?,
                policy: &self.settings.configuration.policy,
                config_hash: &outcome.plan.config_hash,
                rules: self.rules(outcome),
                holder: &machine::holder(),
                progress: self.listener,
                clock: &|| stopwatch.seconds(),
            },
            &mut watcher,
        )
        .map_err(|error| unexecuted(&error))?;
        // The run stands: a later run makes up for failures from here on.
        if let Err(error) = rejudge_flags(&session, &guard) {
            self.listener.note(&format!("note: the flags were not judged again: {error}"));
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
        note_backup(&execution, self.listener);
        Ok(execution)
    }

    /// Assigns tiers as the run leaves the memories, in a store that keeps them (`memfold status --store-tiers`).
    fn assign_tiers(&self, outcome: &mut Outcome) -> Result<(), Failure> {
        let unread = |error| Failure::of("read the tiers", &error);
        let store = open_store(self.store, self.settings)?;
        if store.assigned_tiers().map_err(unread)?.is_empty() {
            return Ok(());
        }
        let (time_zone, now) = (self.settings.time_zone()?, self.now(outcome)?);
        let load = LoadRequest { time_zone: &time_zone, now, progress: self.listener };
        let span = info_span!("consolidation.tier", changed = Empty).entered();
        let tiers = Tiers::of(&store, &load, &self.settings.configuration).map_err(unread)?;
        drop(store);
        let kept = open_own_tables(self.store, self.settings).and_then(|session| {
            tiers
                .keep(&session, &now.to_naive_local(&time_zone))
                .map_err(|error| Failure::of("store the tiers", &error))
        });
        // The run stands, and the next one assigns them again.
        if let Err(failure) = kept {
            self.listener.note(&format!("note: tiers were not stored: {}", failure.message));
            return Ok(());
        }
        for transition in &tiers.transitions {
            self.listener.detail(&transition.to_string());
        }
        let count = tiers.transitions.len() as u64;
        span.record("changed", count as i64);
        if count > 0 {
            let changes = counted(count, "memory changed its tier", "memories changed their tier");
            outcome.report.notes.push(changes);
        }
        Ok(())
    }

    /// Builds the index of the store as it is now, where it has one or is too large for checks
    /// without; after a run over changed memories, adds the new rows. Returns whether the index is
    /// up to date.
    fn renew_index(&self, outcome: &Outcome) -> bool {
        let upkeep = IndexUpkeep {
            db: self.store,
            index_dir: None,
            settings: self.settings,
            threads: self.threads,
            listener: self.listener,
            wait: Duration::ZERO,
        };
        let has_index = self.index_folder().is_some();
        if !has_index && outcome.report.loaded.with_embedding <= UNINDEXED_ROWS_MAX {
            return false;
        }
        let renewed = match outcome.report.incremental {
            Some(_) => upkeep.seal(),
            None => upkeep.build(None, None).map(drop),
        };
        if let Err(failure) = &renewed {
            self.listener.note(&format!("note: the index was not built: {}", failure.message));
        }
        renewed.is_ok()
    }

    /// Writes the requested files, and always the report of a run that wrote.
    fn write_files(&self, outcome: &Outcome, has_run: bool) -> Written {
        let mut written = Written::default();
        self.request.files.write_plan(&outcome.plan, &mut written);
        let (report, store) = (&outcome.report, self.store);
        self.request.files.write_report(report, store, has_run, self.listener, &mut written);
        let page = || metrics(&outcome.report, self.figures().as_ref());
        self.request.files.write_metrics(page, &mut written);
        written
    }

    /// Counts of the store, where it can be read.
    fn figures(&self) -> Option<StoreFigures> {
        open_store(self.store, self.settings).ok()?.figures().ok()
    }
}

/// `memfold consolidate --json`, and `memfold demo --json`: the report without its lists for people.
#[derive(Debug, Serialize, JsonSchema)]
pub struct ConsolidateDocument<'a> {
    schema_version: u32,
    /// `YYYYMMDDTHHMMSSZ-<8 hex>`.
    run_id: &'a str,
    mode: Mode,
    /// sha256 of the canonical JSON of the actions.
    plan_digest: &'a str,
    /// sha256 of the semantic configuration.
    config_hash: &'a str,
    scope: &'a ScopeView,
    loaded: &'a Loaded,
    detected: &'a Detected,
    planned: Planned,
    /// What was searched, where it was not the whole store.
    #[serde(skip_serializing_if = "Option::is_none")]
    incremental: Option<&'a Incremental>,
    /// What models decided about proposals, where they were asked.
    #[serde(skip_serializing_if = "Option::is_none")]
    judged: Option<&'a Judged>,
    executed: Executed,
    seconds: Seconds,
    /// The largest resident size, with mapped files; 0 where the system does not tell.
    peak_rss_bytes: u64,
    /// The largest anonymous size; 0 where the system does not tell.
    peak_anon_bytes: u64,
    /// Worker threads.
    threads: usize,
    /// The instruction set of the kernels.
    isa: &'a str,
    stats: &'a Stats,
    notes: &'a [String],
}

impl<'a> ConsolidateDocument<'a> {
    /// Takes a report.
    #[must_use]
    pub fn of(report: &'a Report) -> Self {
        Self {
            schema_version: report.schema_version,
            run_id: &report.run_id,
            mode: report.mode,
            plan_digest: &report.plan_digest,
            config_hash: &report.config_hash,
            scope: &report.scope,
            loaded: &report.loaded,
            detected: &report.detected,
            planned: report.planned,
            incremental: report.incremental.as_ref(),
            judged: report.judged.as_ref(),
            executed: report.executed,
            seconds: report.seconds,
            peak_rss_bytes: report.peak_rss_bytes,
            peak_anon_bytes: report.peak_anon_bytes,
            threads: report.threads,
            isa: &report.isa,
            stats: &report.stats,
            notes: &report.notes,
        }
    }
}
