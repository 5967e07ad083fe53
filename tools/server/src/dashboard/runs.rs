//! Runs, at work and finished; and the schedule of a store.

use std::sync::Arc;

use askama::Template;
use clap::ValueEnum as _;
use memfold_core::runs::{RunSummary, UnitSummary};
use memfold_guard::text::excerpt;
use serde::Deserialize;
use serde_json::Value;

use super::shell::{Fields, Id, Page, Shell};
use crate::http::{On, Query};
use crate::schedule::{SCHEDULE_DEFAULT, ScheduleSettings, ScheduleView};
use crate::service::{
    ExecuteMode, Job, JobDocument, JobState, Problem, ProblemKind, RunRequest, ServedStore,
    UndoRequest,
};

/// Runs on the list.
const RUNS_SHOWN: usize = 100;
/// Units of a run that are displayed.
const UNITS_SHOWN: usize = 200;
/// A page without a script reloads after this many seconds while a job is at work.
const REFRESH_SECONDS: u8 = 2;

#[derive(Template)]
#[template(path = "runs.html")]
struct RunsPage {
    shell: Shell,
    jobs: Vec<JobDocument>,
    runs: Vec<RunSummary>,
    more: usize,
    chain_break: Option<String>,
}

pub(super) async fn list(on: On) -> Page {
    on.page("Runs", |store, shell| {
        let history = store.runs()?;
        Ok(RunsPage {
            shell,
            jobs: store.jobs().iter().rev().map(|job| job.document()).collect(),
            more: history.runs.len().saturating_sub(RUNS_SHOWN),
            chain_break: history.chain_break.as_ref().map(ToString::to_string),
            runs: history.runs.into_iter().rev().take(RUNS_SHOWN).collect(),
        })
    })
    .await
}

#[derive(Template)]
#[template(path = "run.html")]
struct RunPage {
    shell: Shell,
    run: RunSummary,
    units: Vec<UnitSummary>,
    more: usize,
}

pub(super) async fn one(on: On, Query(Id { id }): Query<Id>) -> Page {
    on.page("Runs", move |store, shell| {
        let run = store.run(&id)?;
        let mut units = store.units(&run.run_id)?;
        let more = units.len().saturating_sub(UNITS_SHOWN);
        units.truncate(UNITS_SHOWN);
        Ok(RunPage { shell, run, units, more })
    })
    .await
}

#[derive(Template)]
#[template(path = "job.html")]
struct JobPage {
    shell: Shell,
    job: JobDocument,
    is_over: bool,
    counts: String,
    tokens_saved: Option<u64>,
}

/// A job of this server: its progress, then its result.
pub(super) async fn job(on: On, Query(Id { id }): Query<Id>) -> Page {
    on.page("Runs", move |store, mut shell| {
        let job = known(store, &id)?.document();
        let is_over = job.state.is_over();
        let counts = |name: &str| {
            let counts = job.result.as_ref()?.get(name)?.as_object()?.iter();
            let counts = counts.filter_map(|(name, count)| Some((name, count.as_u64()?)));
            let counts = counts.filter(|(_, count)| *count > 0);
            let counts: Vec<String> = counts.map(|(name, n)| format!("{name} {n}")).collect();
            Some(counts.join(", "))
        };
        // The applied counts; if there are none, the planned ones.
        let done = counts("executed").filter(|done| !done.is_empty());
        let mut counts = done.or_else(|| counts("planned")).unwrap_or_default();
        if job.kind == "undo" {
            counts = counts.replace("applied", "undone").replace("stale", "left as they are");
        }
        let tokens_saved = job.result.as_ref().and_then(saved_by);
        shell.refresh = if is_over { 0 } else { REFRESH_SECONDS };
        Ok(JobPage { shell, job, is_over, counts, tokens_saved })
    })
    .await
}

fn known(store: &ServedStore, id: &str) -> Result<Arc<Job>, Problem> {
    store.job(id).ok_or_else(|| {
        Problem::not_found("this server does not know that job")
            .with_hint("the list of runs has what was written to the store")
    })
}

impl JobPage {
    /// A share of the stage, from 0 to 100, where its length is known.
    fn percent(&self) -> Option<u64> {
        let stage = self.job.stage?;
        let total = stage.total.filter(|total| *total > 0)?;
        Some(stage.done.min(total) * 100 / total)
    }
}

pub(super) async fn undo(Fields(on, Id { id }): Fields<Id>) -> Page {
    on.then(move |store, shell| {
        let job = store.start_undo(&id, UndoRequest::default())?;
        Ok(shell.about("/ui/job", "id", &job.id))
    })
    .await
}

pub(super) async fn stop(Fields(on, Id { id }): Fields<Id>) -> Page {
    on.then(move |store, shell| {
        let job = known(store, &id)?;
        job.cancel();
        Ok(shell.about("/ui/job", "id", &job.id))
    })
    .await
}

/// A run that is started by hand.
#[derive(Debug, Deserialize)]
pub(super) struct StartFields {
    /// `plan`: nothing is changed; `again`: the same, including undone merges; or the part of it to
    /// apply.
    what: String,
}

pub(super) async fn start(Fields(on, StartFields { what }): Fields<StartFields>) -> Page {
    let execute = match &*what {
        "plan" | "again" => ExecuteMode::None,
        other => execute_mode(other)?,
    };
    on.then(move |store, shell| {
        // A plan that can be decided about is one that the store holds.
        let save_plan = store.may_write().is_ok();
        let again = what == "again";
        let job =
            store.start_run(RunRequest { execute, save_plan, again, ..RunRequest::default() })?;
        Ok(shell.about("/ui/job", "id", &job.id))
    })
    .await
}

fn execute_mode(name: &str) -> Result<ExecuteMode, Problem> {
    ExecuteMode::from_str(name, false)
        .map_err(|_| Problem::new(ProblemKind::Malformed, "the form names no known mode"))
}

/// Expressions that a person picks by name.
const PRESETS: [(&str, &str); 4] = [
    (SCHEDULE_DEFAULT, "every night at 02:00"),
    ("0 * * * *", "every hour"),
    ("0 2 * * 1", "every Monday at 02:00"),
    ("0 2 1 * *", "on the first of each month at 02:00"),
];
/// The parts that a schedule can apply, in words.
const MODES: [(&str, &str); 4] = [
    ("none", "make a plan only (dry run)"),
    ("identical", "merge identical texts, save the rest for review"),
    ("reviewed", "apply what people approved, plan anew"),
    ("all", "apply everything that is proven"),
];

#[derive(Template)]
#[template(path = "schedule.html")]
struct SchedulePage {
    shell: Shell,
    view: ScheduleView,
    /// How the last run ended: its state, and why it failed.
    outcome: Option<(String, String)>,
}

pub(super) async fn schedule(on: On) -> Page {
    let schedules = Arc::clone(&on.app.schedules);
    on.page("Schedule", move |store, shell| {
        let view = schedules.view(store)?;
        Ok(SchedulePage { shell, outcome: outcome(&view), view })
    })
    .await
}

impl SchedulePage {
    fn is_preset(&self) -> bool {
        PRESETS.iter().any(|(cron, _)| *cron == self.view.settings.schedule)
    }

    fn executes(&self, mode: &str) -> bool {
        ExecuteMode::from_str(mode, false).is_ok_and(|mode| mode == self.view.settings.execute)
    }
}

/// How the last scheduled run ended: its state, and why it failed.
pub(super) fn outcome(view: &ScheduleView) -> Option<(String, String)> {
    let last = view.last_outcome.as_ref()?;
    let word = |name: &str| excerpt(last[name].as_str().unwrap_or_default(), 300);
    Some((word("state"), word("error")))
}

/// Settings of a schedule, as a form sends them: an unticked box is not sent.
#[derive(Debug, Deserialize)]
pub(super) struct ScheduleFields {
    preset: String,
    #[serde(default)]
    cron: String,
    #[serde(default)]
    zone: String,
    execute: String,
    enabled: Option<String>,
    incremental: Option<String>,
    triggers: Option<String>,
}

pub(super) async fn set_schedule(Fields(on, fields): Fields<ScheduleFields>) -> Page {
    let chosen = if fields.preset.is_empty() { &fields.cron } else { &fields.preset };
    let zone = fields.zone.trim();
    let settings = ScheduleSettings {
        schedule: chosen.trim().to_owned(),
        timezone: (!zone.is_empty()).then(|| zone.to_owned()),
        enabled: fields.enabled.is_some(),
        execute: execute_mode(&fields.execute)?,
        incremental: fields.incremental.is_some(),
        triggers: fields.triggers.is_some(),
    };
    let schedules = Arc::clone(&on.app.schedules);
    on.then(move |store, shell| {
        schedules.set(store, settings)?;
        Ok(shell.to("/ui/schedule"))
    })
    .await
}

/// The latest consolidation of this server that counted the saved tokens.
pub(super) fn tokens_saved(store: &ServedStore) -> Option<u64> {
    let jobs = store.jobs();
    jobs.iter().rev().filter_map(|job| job.document().result).find_map(|result| saved_by(&result))
}

fn saved_by(result: &Value) -> Option<u64> {
    result.pointer("/stats/tokens_saved")?.as_u64()
}

/// Whether a state needs a person's attention.
pub(super) const fn is_bad(state: JobState) -> bool {
    matches!(state, JobState::Failed | JobState::Interrupted)
}
