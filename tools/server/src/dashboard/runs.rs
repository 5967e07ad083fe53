//! Runs, at work and finished; and the schedule of a store.

use std::sync::Arc;

use askama::Template;
use axum::extract::State;
use axum::response::Response;
use memfold_core::runs::{RunSummary, UnitSummary};
use serde::Deserialize;

use super::plan::counted;
use super::shell::{Fields, Refused, Shell, shown, text, then};
use crate::http::{App, Query};
use crate::schedule::{SCHEDULE_DEFAULT, ScheduleSettings, ScheduleView};
use crate::service::{
    ExecuteMode, JobDocument, JobState, Problem, ProblemKind, RunRequest, ServedStore, UndoRequest,
};

/// Runs on the list.
const RUNS_SHOWN: usize = 100;
/// Units of a run that are displayed.
const UNITS_SHOWN: usize = 200;
/// A page without a script reloads after this many seconds while a job is at work.
const REFRESH_SECONDS: u8 = 2;

#[derive(Debug, Clone, Default, Deserialize)]
pub(super) struct RunQuery {
    store: Option<String>,
    #[serde(default)]
    id: String,
}

struct JobLine {
    document: JobDocument,
    place: String,
}

#[derive(Template)]
#[template(path = "runs.html")]
struct RunsPage {
    shell: Shell,
    jobs: Vec<JobLine>,
    runs: Vec<RunSummary>,
    more: usize,
    chain_break: Option<String>,
}

pub(super) async fn list(
    State(app): State<App>,
    Query(query): Query<RunQuery>,
) -> Result<Response, Refused> {
    let of = app.clone();
    let work = move |store: &Arc<ServedStore>| {
        let history = store.runs()?;
        let shell = Shell::of(&of, store, "Runs");
        let line = |job: &Arc<crate::service::Job>| JobLine {
            place: shell.about("/ui/job", "id", &job.id),
            document: job.document(),
        };
        Ok(RunsPage {
            jobs: store.jobs().iter().rev().map(line).collect(),
            more: history.runs.len().saturating_sub(RUNS_SHOWN),
            chain_break: history.chain_break.as_ref().map(ToString::to_string),
            runs: history.runs.into_iter().rev().take(RUNS_SHOWN).collect(),
            shell,
        })
    };
    Ok(shown(&app.service.on(query.store.as_deref(), work).await?))
}

#[derive(Template)]
#[template(path = "run.html")]
struct RunPage {
    shell: Shell,
    run: RunSummary,
    units: Vec<UnitSummary>,
    more: usize,
}

pub(super) async fn one(
    State(app): State<App>,
    Query(query): Query<RunQuery>,
) -> Result<Response, Refused> {
    let of = app.clone();
    let work = move |store: &Arc<ServedStore>| {
        let run = store.run(&query.id)?;
        let mut units = store.units(&run.run_id)?;
        let more = units.len().saturating_sub(UNITS_SHOWN);
        units.truncate(UNITS_SHOWN);
        Ok(RunPage { shell: Shell::of(&of, store, "Runs"), run, units, more })
    };
    Ok(shown(&app.service.on(query.store.as_deref(), work).await?))
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
pub(super) async fn job(
    State(app): State<App>,
    Query(query): Query<RunQuery>,
) -> Result<Response, Refused> {
    let store = app.service.store(query.store.as_deref())?;
    let job = known(&store, &query.id)?;
    let document = job.document();
    let is_over = document.state.is_over();
    let number = |path: &str| document.result.as_ref()?.pointer(path)?.as_u64();
    let counts = |name: &str| {
        let counts = document.result.as_ref()?.get(name)?.as_object()?;
        let counts = counts.iter().filter_map(|(name, count)| Some((&**name, count.as_u64()?)));
        Some(counted(counts.filter(|(_, count)| *count > 0)))
    };
    // The applied counts; if there are none, the planned ones.
    let done = counts("executed").filter(|done| !done.is_empty());
    let mut counts = done.or_else(|| counts("planned")).unwrap_or_default();
    if document.kind == "undo" {
        counts = counts.replace("applied", "taken back").replace("stale", "left as they are");
    }
    let tokens_saved = number("/stats/tokens_saved");
    let mut shell = Shell::of(&app, &store, "Runs");
    shell.refresh = if is_over { 0 } else { REFRESH_SECONDS };
    Ok(shown(&JobPage { shell, job: document, is_over, counts, tokens_saved }))
}

fn known(store: &ServedStore, id: &str) -> Result<Arc<crate::service::Job>, Problem> {
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

/// A form about a run or a job.
#[derive(Debug, Deserialize)]
pub(super) struct RunFields {
    store: String,
    id: String,
}

pub(super) async fn undo(
    State(app): State<App>,
    Fields(fields): Fields<RunFields>,
) -> Result<Response, Refused> {
    let (of, id) = (app.clone(), fields.id);
    let work = move |store: &Arc<ServedStore>| {
        let job = store.start_undo(&id, UndoRequest::default())?;
        Ok(Shell::of(&of, store, "Runs").about("/ui/job", "id", &job.id))
    };
    Ok(then(&app.service.on(Some(&fields.store), work).await?))
}

pub(super) async fn stop(
    State(app): State<App>,
    Fields(fields): Fields<RunFields>,
) -> Result<Response, Refused> {
    let store = app.service.store(Some(&fields.store))?;
    let job = known(&store, &fields.id)?;
    job.cancel();
    Ok(then(&Shell::of(&app, &store, "Runs").about("/ui/job", "id", &job.id)))
}

/// A run that is started by hand.
#[derive(Debug, Deserialize)]
pub(super) struct StartFields {
    store: String,
    /// `plan`: nothing is changed; `again`: the same, including undone merges; or the part of it to
    /// apply.
    what: String,
}

pub(super) async fn start(
    State(app): State<App>,
    Fields(fields): Fields<StartFields>,
) -> Result<Response, Refused> {
    let execute = match &*fields.what {
        "plan" | "again" => ExecuteMode::None,
        other => execute_mode(other)?,
    };
    let of = app.clone();
    let again = fields.what == "again";
    let work = move |store: &Arc<ServedStore>| {
        // A plan that can be decided about is one that the store holds.
        let save_plan = store.may_write().is_ok();
        let request = RunRequest { execute, save_plan, again, ..RunRequest::default() };
        let job = store.start_run(request)?;
        Ok(Shell::of(&of, store, "Runs").about("/ui/job", "id", &job.id))
    };
    Ok(then(&app.service.on(Some(&fields.store), work).await?))
}

fn execute_mode(name: &str) -> Result<ExecuteMode, Problem> {
    Ok(match name {
        "none" => ExecuteMode::None,
        "identical" => ExecuteMode::Identical,
        "reviewed" => ExecuteMode::Reviewed,
        "all" => ExecuteMode::All,
        _ => return Err(Problem::new(ProblemKind::Malformed, "the form names no known mode")),
    })
}

const fn mode_name(mode: ExecuteMode) -> &'static str {
    match mode {
        ExecuteMode::None => "none",
        ExecuteMode::Identical => "identical",
        ExecuteMode::Reviewed => "reviewed",
        ExecuteMode::All => "all",
    }
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
    mode: &'static str,
    preset: &'static str,
    presets: [(&'static str, &'static str); 4],
    modes: [(&'static str, &'static str); 4],
    outcome: Option<(String, String)>,
}

pub(super) async fn schedule(
    State(app): State<App>,
    Query(query): Query<RunQuery>,
) -> Result<Response, Refused> {
    let of = app.clone();
    let work = move |store: &Arc<ServedStore>| {
        let view = of.schedules.view(store)?;
        let known = PRESETS.iter().find(|(cron, _)| *cron == view.settings.schedule);
        Ok(SchedulePage {
            shell: Shell::of(&of, store, "Schedule"),
            mode: mode_name(view.settings.execute),
            preset: known.map_or("", |(cron, _)| cron),
            presets: PRESETS,
            modes: MODES,
            outcome: outcome(&view),
            view,
        })
    };
    Ok(shown(&app.service.on(query.store.as_deref(), work).await?))
}

/// How the last scheduled run ended: its state, and why it failed.
pub(super) fn outcome(view: &ScheduleView) -> Option<(String, String)> {
    let last = view.last_outcome.as_ref()?;
    let word =
        |name: &str| text(last.get(name).and_then(|value| value.as_str()).unwrap_or(""), 300);
    Some((word("state"), word("error")))
}

/// Settings of a schedule, as a form sends them: an unticked box is not sent.
#[derive(Debug, Deserialize)]
pub(super) struct ScheduleFields {
    store: String,
    preset: String,
    #[serde(default)]
    cron: String,
    #[serde(default)]
    zone: String,
    execute: String,
    #[serde(default)]
    enabled: Option<String>,
    #[serde(default)]
    incremental: Option<String>,
    #[serde(default)]
    triggers: Option<String>,
}

pub(super) async fn set_schedule(
    State(app): State<App>,
    Fields(fields): Fields<ScheduleFields>,
) -> Result<Response, Refused> {
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
    let of = app.clone();
    let work = move |store: &Arc<ServedStore>| {
        of.schedules.set(store, settings)?;
        Ok(Shell::of(&of, store, "Schedule").to("/ui/schedule"))
    };
    Ok(then(&app.service.on(Some(&fields.store), work).await?))
}

/// The latest consolidation of this server that counted the saved tokens.
pub(super) fn tokens_saved(store: &ServedStore) -> Option<u64> {
    let jobs = store.jobs();
    let mut results = jobs.iter().rev().filter_map(|job| job.document().result);
    results.find_map(|result| result.pointer("/stats/tokens_saved")?.as_u64())
}

/// Whether a state needs a person's attention.
pub(super) const fn is_bad(state: JobState) -> bool {
    matches!(state, JobState::Failed | JobState::Interrupted)
}
