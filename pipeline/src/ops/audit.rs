//! The sample of a run's merges and of refused pairs that a person looks at, and the answers.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;
use memfold_core::memory::{Memory, MemoryId};
use memfold_core::plan::{SavedAction, SavedPlan};
use memfold_core::report::run_id;
use memfold_core::runs::RunKind;
use memfold_core::time::Instant;
use memfold_guard::text::excerpt;
use memfold_index::NoProgress;
use memfold_store::LoadRequest;
use memfold_store::brain_db::RunStart;
use serde::Serialize;

use super::{
    Failure, Settings, StorePath, find_run, named_by, open_session, open_store, saved_plan,
    with_merged, with_run_context,
};
use crate::audit::{self, Findings, Interval, Subject};
use crate::calibration::{self, Calibration};
use crate::consolidate::{RefusedPair, refused_pairs};
use crate::machine;

const NAME_CHARS: usize = 60;

/// The sample of an audit.
#[derive(Debug)]
pub struct AuditSample {
    /// The run with the audited merges.
    run_id: String,
    plan: SavedPlan,
    /// Merges of the run.
    merges: u64,
    /// Merges at most in the sample.
    count: usize,
    /// Near pairs that a run over the store as it is would refuse.
    pub refused: Vec<RefusedPair>,
    /// The memories of all of it, as they are now.
    pub memories: BTreeMap<MemoryId, Memory>,
    /// The time of the audit.
    pub now: Instant,
    time_zone: TimeZone,
}

/// `memfold audit --json`
#[derive(Debug, Serialize)]
pub struct AuditDocument {
    schema_version: u32,
    /// The run with the audited merges.
    run_id: String,
    /// The run that keeps the findings; `null` where nothing was answered.
    audit_run_id: Option<String>,
    /// Merges of the run.
    pub merges: u64,
    /// What was found of the merges.
    #[serde(flatten)]
    pub found: FoundDocument,
    /// The same of near pairs that are refused.
    pub refused: RefusedDocument,
}

/// Near pairs that a run over the store as it is neither merges nor proposes.
#[derive(Debug, Serialize)]
pub struct RefusedDocument {
    /// The run that keeps the findings; `null` where nothing was answered.
    audit_run_id: Option<String>,
    /// Pairs in the sample.
    pub drawn: u64,
    /// What was found of them.
    #[serde(flatten)]
    pub found: FoundDocument,
}

/// Answers, and the share of wrong ones.
#[derive(Debug, Serialize)]
pub struct FoundDocument {
    /// The answers.
    #[serde(flatten)]
    pub findings: Findings,
    /// The share of wrong ones among the judged ones.
    wrong_share: Option<f64>,
    /// The 95 % interval of the share in everything that the sample was drawn from.
    interval: Option<Interval>,
}

/// `memfold audit --calibrate --json`
#[derive(Debug, Serialize)]
pub struct CalibrationDocument {
    schema_version: u32,
    /// The lower bound of precision that merges without a question need.
    precision_min: f64,
    /// One for each source of probabilities with decisions.
    pub calibrations: Vec<JudgeCalibration>,
}

/// The calibration of a source of probabilities.
#[derive(Debug, Serialize)]
pub struct JudgeCalibration {
    /// The judge; `null`: the built-in estimate, which never merges.
    pub judge: Option<String>,
    /// What its decisions support.
    #[serde(flatten)]
    pub calibration: Calibration,
}

/// Draws up to `count` merges of a run, and as many refused pairs of the store as it is. `latest`
/// is the last run that executed a plan.
///
/// # Errors
/// When the run does not exist or merged nothing, or the store cannot be read.
pub fn audit_sample(
    store: &StorePath,
    settings: &Settings,
    run: &str,
    count: usize,
    at: Option<&str>,
) -> Result<AuditSample, Failure> {
    let db = open_store(store, settings)?;
    let mut history = db.runs().map_err(|error| Failure::of("read the runs", &error))?;
    if run == "latest" {
        history.runs.retain(|run| run.kind == RunKind::Execute.name());
    }
    let run = find_run(&history, run)?;
    let executes = run.kind == RunKind::Execute.name();
    let Some(plan_id) = run.plan_id.as_deref().filter(|_| executes) else {
        let (id, kind) = (excerpt(&run.run_id, NAME_CHARS), excerpt(&run.kind, NAME_CHARS));
        let hint = "name a run of kind execute; `memfold runs DB` lists them";
        return Err(Failure::plain(
            format!("{id} is a run of kind {kind}: it applied no plan"),
            hint,
        ));
    };
    let (run_id, plan) = (run.run_id.clone(), saved_plan(&db, plan_id)?);
    let merges = audit::merges(&plan.actions, &run_id).count() as u64;
    if merges == 0 {
        let message = format!("run {} merged nothing", excerpt(&run_id, NAME_CHARS));
        return Err(Failure::plain(message, "`memfold runs DB` lists the runs"));
    }
    let (time_zone, policy) = (settings.time_zone()?, &settings.configuration.policy);
    let (now, refused) = with_run_context(settings, at, None, &NoProgress, |guard, context| {
        let refused = refused_pairs(&db, policy, guard, context, count)
            .map_err(|error| Failure::of("find refused pairs", &error))?;
        Ok((context.now, refused))
    })?;
    let mut named = named_by(&plan);
    named.extend(refused.iter().flat_map(|pair| [pair.older.clone(), pair.newer.clone()]));
    let load = LoadRequest { time_zone: &time_zone, now, progress: &NoProgress };
    let memories = with_merged(&db, named, &load)
        .map_err(|error| Failure::of(&format!("read {}", store.display()), &error))?;
    Ok(AuditSample { run_id, plan, merges, count, refused, memories, now, time_zone })
}

impl AuditSample {
    /// Returns the merges of the sample.
    #[must_use]
    pub fn merges(&self) -> Vec<&SavedAction> {
        audit::sample(&self.plan.actions, &self.run_id, self.count)
    }

    /// Records what a person found of the merges and of the refused pairs, each as a run of its own
    /// where anything was answered.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn record(
        self,
        store: &StorePath,
        settings: &Settings,
        merges: Findings,
        refused: Findings,
    ) -> Result<AuditDocument, Failure> {
        let keep = |subject, findings| self.keep(store, settings, subject, findings);
        Ok(AuditDocument {
            schema_version: 1,
            audit_run_id: keep(Subject::Merges, merges)?,
            merges: self.merges,
            found: FoundDocument::of(merges),
            refused: RefusedDocument {
                audit_run_id: keep(Subject::RefusedPairs, refused)?,
                drawn: self.refused.len() as u64,
                found: FoundDocument::of(refused),
            },
            run_id: self.run_id,
        })
    }

    fn keep(
        &self,
        store: &StorePath,
        settings: &Settings,
        subject: Subject,
        findings: Findings,
    ) -> Result<Option<String>, Failure> {
        if findings == Findings::default() {
            return Ok(None);
        }
        let (session, at) =
            (open_session(store, settings)?, self.now.to_naive_local(&self.time_zone));
        let start = RunStart {
            run_id: &run_id(&self.plan.plan.store_id, self.now, &self.run_id),
            kind: RunKind::Audit,
            plan_id: Some(&self.plan.plan_id),
            target: Some(&self.run_id),
            holder: &machine::holder(),
            at: &at,
        };
        let recorded =
            session.prepare(&at).and_then(|_| audit::record(&session, &start, subject, findings));
        recorded.map(Some).map_err(|error| Failure::of("keep what was found", &error))
    }
}

impl FoundDocument {
    fn of(findings: Findings) -> Self {
        let (wrong_share, interval) = (findings.wrong_share(), findings.interval());
        Self { findings, wrong_share, interval }
    }
}

/// Finds from which probability on a person's answers support merges without a question.
///
/// # Errors
/// When the store cannot be read.
pub fn calibrate(store: &StorePath, settings: &Settings) -> Result<CalibrationDocument, Failure> {
    let decisions = calibration::decisions(&open_store(store, settings)?)
        .map_err(|error| Failure::of("read the decisions", &error))?;
    let mut calibrations: Vec<JudgeCalibration> = decisions
        .into_iter()
        .map(|(judge, of)| JudgeCalibration { judge, calibration: Calibration::of(&of) })
        .collect();
    if calibrations.is_empty() {
        calibrations.push(JudgeCalibration { judge: None, calibration: Calibration::of(&[]) });
    }
    let precision_min = calibration::PRECISION_MIN;
    Ok(CalibrationDocument { schema_version: 1, precision_min, calibrations })
}
