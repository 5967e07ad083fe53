//! Models decide about the proposals of the plan.

use std::cell::Cell;

use memfold_core::judge::{Budget, Chain, Judge, ModelEndpoint, Usage};
use memfold_core::policy::{JudgeModel, JudgeSettings, JudgeTask};
use memfold_core::report::grouped;
use memfold_store::BrainDb;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::consolidate::{ConsolidateRequest, planning_failure};
use super::{Failure, Listener, Settings, open_own_tables};
use crate::MemfoldError;
use crate::calibration;
use crate::consolidate::{Outcome, RunContext};
use crate::execute::forbidden_by;
use crate::judging::{self, Announcement, CLASSIFIER_BATCH_SIZE, Judging, StoredAnswers};

/// Whether models decide about proposals.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum))]
#[serde(rename_all = "snake_case")]
pub enum JudgeMode {
    /// The models of `judge.chain`.
    #[cfg_attr(
        feature = "clap",
        value(
            help = "The models of judge.chain; answers are kept in the store, and nothing is asked twice"
        )
    )]
    Ask,
    /// Their recorded answers only.
    #[cfg_attr(
        feature = "clap",
        value(help = "Their recorded answers only: nothing is sent anywhere")
    )]
    Recorded,
}

/// Makes the chain that a configuration names; `cost_today` was spent already.
///
/// # Errors
/// When no model is named, or one cannot be queried.
pub fn judge_chain(settings: &JudgeSettings, cost_today: f64) -> Result<Chain, Failure> {
    let endpoint = |model: &JudgeModel| ModelEndpoint {
        url: model.url.clone(),
        model: model.model.clone(),
        key_env: model.key_env.clone(),
        price: model.prices(),
    };
    let endpoints: Vec<ModelEndpoint> = settings.chain.iter().map(endpoint).collect();
    let budget = Budget {
        requests_per_minute: settings.budget.requests_per_minute.into(),
        tokens_per_minute: settings.budget.tokens_per_minute.into(),
        tokens_per_run: settings.budget.tokens_per_run.into(),
        cost_left: settings.budget.cost_per_day - cost_today,
    };
    let thresholds = judging::thresholds(&settings.nli);
    let variables = |name: &str| std::env::var(name).ok();
    Chain::new(&endpoints, settings.timeout, budget, thresholds, &variables).map_err(|error| {
        let hint = "name models in your own configuration (`memfold config show` lists the files), such as \
                    judge: { chain: [{ url: \"http://localhost:11434/v1\", model: llama3.2 }] }";
        Failure::usage(error.to_string(), hint)
    })
}

/// Makes the judge that a configuration names, and where its questions go: a classifier in a folder, else the chain.
fn judge(settings: &JudgeSettings, cost_today: f64) -> Result<(Box<dyn Judge>, Places), Failure> {
    let classifier = judging::classifier(&settings.nli)
        .map_err(|error| Failure::new("read the judge", &error, Some(error.hint().to_owned())))?;
    if let Some(judge) = classifier {
        let folder = settings.nli.folder.clone().unwrap_or_default();
        let places = judge.names().into_iter().map(|name| (name, folder.clone(), true)).collect();
        return Ok((judge, places));
    }
    let chain = judge_chain(settings, cost_today)?;
    let places = chain.places();
    Ok((Box::new(chain), places))
}

/// Models, where they are, and whether that is this machine.
type Places = Vec<(String, String, bool)>;

/// Plans by `plan`, and lets models decide about the proposals.
pub(super) fn plan(
    request: &ConsolidateRequest,
    settings: &Settings,
    store: &BrainDb,
    context: &RunContext<'_>,
    listener: &dyn Listener,
    plan: impl FnOnce(&mut Judging<'_>) -> Result<Outcome, MemfoldError>,
) -> Result<Outcome, Failure> {
    let configured = &what_can_be_done(request, settings, listener);
    let at = context.now.to_naive_local(context.time_zone);
    let answers =
        StoredAnswers::read(store).map_err(|error| Failure::of("read recorded answers", &error))?;
    let decisions =
        calibration::decisions(store).map_err(|error| Failure::of("read the decisions", &error))?;
    let mut answers = answers.supported_by(&decisions);
    let (mut judge, places) = judge(configured, answers.cost_of_day(&at))?;
    let recorded_only = request.judge == Some(JudgeMode::Recorded);
    if !recorded_only {
        answers = keeping(answers, at, store, request, settings, listener)?;
    }
    let announce = |asked: &Announcement| {
        if !recorded_only && asked.groups > 0 {
            listener.note(&announcement(&places, asked));
        }
    };
    let shown = Cell::new(0);
    let progress = |done: usize, total: usize, usage: &Usage| {
        if shown.get() == 0 || done < shown.get() {
            listener.end();
            listener.begin("judge", Some(total as u64));
            shown.set(0);
        }
        listener.advance((done - shown.get()) as u64);
        shown.set(done);
        let (requests, tokens) = (grouped(usage.requests), grouped(usage.tokens()));
        let cost = usage.cost;
        listener.detail(&format!(
            "judged {done} of {total} groups: {requests} requests, {tokens} tokens, cost {cost:.4}"
        ));
    };
    let outcome = plan(&mut Judging {
        judge: &mut *judge,
        answers: &mut answers,
        settings: configured,
        recorded_only,
        announce: &announce,
        progress: &progress,
        cancelled: &|| listener.cancelled(),
    });
    listener.end();
    let outcome = outcome.map_err(|error| planning_failure(store.path(), &error))?;
    let judged = outcome.report.judged.iter();
    for (reason, count) in judged.flat_map(|judged| &judged.failures) {
        listener.note(&format!("warning: {count} not judged: {reason}"));
    }
    Ok(outcome)
}

/// The configured tasks, without tasks that need vectors of new texts if nobody makes any.
fn what_can_be_done(
    request: &ConsolidateRequest,
    settings: &Settings,
    listener: &dyn Listener,
) -> JudgeSettings {
    let mut judge = settings.configuration.settings.judge.clone();
    if judge.nli.folder.is_some() {
        judge.batch_size = CLASSIFIER_BATCH_SIZE;
        if judge.tasks.iter().any(|task| *task != JudgeTask::Duplicates) {
            judge.tasks.retain(|task| *task == JudgeTask::Duplicates);
            listener
                .note("note: judge.nli answers about duplicates only: other tasks are left out");
        }
    }
    let writes = |task: &JudgeTask| matches!(task, JudgeTask::Golden | JudgeTask::Summaries);
    if request.incremental && judge.tasks.iter().any(writes) {
        judge.tasks.retain(|task| !writes(task));
        listener
            .note("note: golden and summaries need a run over everything: left out of this one");
    }
    if settings.configuration.settings.embed.makes_vectors()
        || !(judge.rewrite || judge.tasks.iter().any(writes))
    {
        return judge;
    }
    judge.rewrite = false;
    judge.tasks.retain(|task| !writes(task));
    listener.note("note: nobody makes vectors (embed.provider), so no text is written anew: no judge.rewrite, golden, summaries");
    judge
}

/// Lets answers be kept in the store, where it may be written.
fn keeping(
    answers: StoredAnswers,
    at: String,
    store: &BrainDb,
    request: &ConsolidateRequest,
    settings: &Settings,
    listener: &dyn Listener,
) -> Result<StoredAnswers, Failure> {
    let obstacle = match forbidden_by(&settings.configuration.settings) {
        Some(setting) => setting,
        None if request.dry_run => "--dry-run was given",
        None => {
            let session = open_own_tables(store.path(), settings)?;
            return Ok(answers.keep_in(session, at));
        }
    };
    listener.note(&format!("note: {obstacle}: the models' answers are not kept"));
    Ok(answers)
}

/// Describes the requests and their destinations before they are sent.
fn announcement(places: &[(String, String, bool)], asked: &Announcement) -> String {
    let what = match (asked.task, asked.groups) {
        (JudgeTask::Duplicates, 1) => "proposal",
        (JudgeTask::Duplicates, _) => "proposals",
        (JudgeTask::Golden, 1) => "golden record",
        (JudgeTask::Golden, _) => "golden records",
        (JudgeTask::Summaries, 1) => "summary",
        (JudgeTask::Summaries, _) => "summaries",
        (JudgeTask::Supersession, 1) => "pair",
        (JudgeTask::Supersession, _) => "pairs",
    };
    let [groups, memories, requests] =
        [asked.groups, asked.memories, asked.requests].map(|count| grouped(count as u64));
    let place = |(model, place, is_here): &(String, String, bool)| {
        let model = if model == place { "the loaded model" } else { model };
        format!("{model} at {place}{}", if *is_here { " (this machine)" } else { "" })
    };
    let places: Vec<String> = places.iter().map(place).collect();
    format!(
        "asking about {groups} {what} with {memories} memories, at most {requests} requests for each vote: {}",
        places.join(", else ")
    )
}
