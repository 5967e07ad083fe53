//! `memfold audit`: a person looks at a random sample of a run's merges; how many were wrong is kept with the runs.

use clap::{self, Args, ValueHint};
use memfold::audit::{self, Findings, Interval};
use memfold::machine;
use memfold::ops::{StorePath, find_run, saved_plan};
use memfold_core::plan::{SavedAction, SavedPlan};
use memfold_core::report::{grouped, run_id};
use memfold_core::runs::RunKind;
use memfold_guard::text::excerpt;
use memfold_store::brain_db::RunStart;
use serde::Serialize;

use crate::args::{GlobalArgs, store_path};
use crate::commands::review::card::{Card, Material};
use crate::commands::review::walk::{Answer, Dialogue};
use crate::commands::review::{check_may_write, dialogue, read_memories};
use crate::context::open_store;
use crate::failure::{Exit, Failure};
use crate::printer::Printer;
use crate::settings::{self, Settings};
use crate::writing;

const NAME_CHARS: usize = 60;

const HELP: &str = "\
y  right: what stays says all that was merged into it
n  wrong: a fact was lost, or the two are not about the same
s  not sure: it does not count
v  show the whole texts: [-only merged-], {+only in what stays+}
u  back: take the last answer back
q  quit: what was answered counts";

/// `memfold audit`
#[derive(Debug, Args)]
pub(crate) struct AuditArgs {
    /// The store: a brain.db, or one of another kind (memory.jsonl, …)
    #[arg(value_parser = store_path(), value_hint = ValueHint::AnyPath)]
    pub(crate) db: StorePath,
    /// The run: its id, how that begins, or `latest`, the last one that executed a plan
    #[arg(value_name = "RUN", default_value = "latest")]
    pub(crate) run: String,
    /// Look at up to this many of its merges, drawn at random
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) sample: usize,
    /// The time of the audit (RFC 3339; default: now)
    #[arg(long, value_name = "TIME")]
    pub(crate) now: Option<String>,
}

/// `memfold audit --json`
#[derive(Debug, Serialize)]
struct AuditDocument<'a> {
    schema_version: u32,
    /// The run whose merges were looked at.
    run_id: &'a str,
    /// The run that keeps the findings; `null` where nothing was answered.
    audit_run_id: Option<&'a str>,
    /// Merges of the run.
    merges: u64,
    #[serde(flatten)]
    findings: Findings,
    /// Of those that were judged.
    wrong_share: Option<f64>,
    /// The 95 % interval of the share of all merges of the run.
    interval: Option<Interval>,
}

pub(crate) fn run(
    global: &GlobalArgs,
    args: &AuditArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    let settings = Settings::load(&global.sources(), Some(&args.db), &[])?;
    settings.show_notices(&printer);
    check_may_write(&settings)?;
    let store = open_store(&args.db, &settings)?;
    let (audited, plan) = plan_of_run(&store, &args.run)?;
    let merges = audit::merges(&plan.actions, &audited).count() as u64;
    if merges == 0 {
        let message = format!("run {} merged nothing", excerpt(&audited, NAME_CHARS));
        return Err(Failure::plain(message, "`memfold runs DB` lists the runs"));
    }
    let time_zone = settings.time_zone()?;
    let now = settings::now(args.now.as_deref(), &time_zone)?;
    let guard = settings.guard()?;
    let material = Material {
        memories: read_memories(&store, &plan, &time_zone, now)?,
        policy: &settings.configuration.policy,
        guard: &guard,
        now,
    };
    let questions = audit::sample(&plan.actions, &audited, args.sample);
    let mut audit = Audit { material: &material, questions, answers: Vec::new() };
    let interrupted = audit.run(&mut *dialogue(global, printer))?;
    let findings = audit.findings();
    let audit_run = if findings == Findings::default() {
        None
    } else {
        let session = writing::open_session(&args.db, &settings)?;
        let at = now.to_naive_local(&time_zone);
        let start = RunStart {
            run_id: &run_id(&plan.plan.store_id, now, &audited),
            kind: RunKind::Audit,
            plan_id: Some(&plan.plan_id),
            target: Some(&audited),
            holder: &machine::holder(),
            at: &at,
        };
        let failure = |error| Failure::of("keep what was found", &error);
        session.prepare(&at).map_err(failure)?;
        Some(audit::record(&session, &start, findings).map_err(failure)?)
    };
    if global.json {
        printer.document(&AuditDocument {
            schema_version: 1,
            run_id: &audited,
            audit_run_id: audit_run.as_deref(),
            merges,
            findings,
            wrong_share: findings.wrong_share(),
            interval: findings.interval(),
        })?;
    } else {
        printer.data(&format!("\n{} merges in the run; {}\n", grouped(merges), said(&findings)))?;
    }
    Ok(if interrupted { Exit::Interrupted } else { Exit::Done })
}

/// Finds a run that applied a plan, and the plan.
fn plan_of_run(
    store: &memfold_store::BrainDb,
    wanted: &str,
) -> Result<(String, SavedPlan), Failure> {
    let mut history = store.runs().map_err(|error| Failure::of("read the runs", &error))?;
    if wanted == "latest" {
        history.runs.retain(|run| run.kind == RunKind::Execute.name());
    }
    let run = find_run(&history, wanted)?;
    let executes = run.kind == RunKind::Execute.name();
    let Some(plan_id) = run.plan_id.as_deref().filter(|_| executes) else {
        let (id, kind) = (excerpt(&run.run_id, NAME_CHARS), excerpt(&run.kind, NAME_CHARS));
        let message = format!("{id} is a run of kind {kind}: it applied no plan");
        return Err(Failure::plain(
            message,
            "name a run of kind execute; `memfold runs DB` lists them",
        ));
    };
    Ok((run.run_id.clone(), saved_plan(store, plan_id)?))
}

/// Says what was found, in one line.
pub(crate) fn said(findings: &Findings) -> String {
    let Findings { right, wrong, unsure } = *findings;
    let counts = format!("{} looked at: {right} right, {wrong} wrong", right + wrong + unsure);
    let unsure = if unsure > 0 { format!(", {unsure} not sure") } else { String::new() };
    let percent = |share: f64| format!("{:.1} %", share * 100.0);
    let bound = match (findings.wrong_share(), findings.interval()) {
        (Some(_), Some(interval)) if wrong == 0 => {
            format!("; at most {} wrong (95 %)", percent(interval.high))
        }
        (Some(share), Some(Interval { low, high })) => {
            format!("; {} wrong, {} to {} (95 %)", percent(share), percent(low), percent(high))
        }
        _ => String::new(),
    };
    format!("{counts}{unsure}{bound}")
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Finding {
    Right,
    Wrong,
    Unsure,
}

/// A person's way through the sample.
struct Audit<'a> {
    material: &'a Material<'a>,
    questions: Vec<&'a SavedAction>,
    answers: Vec<Finding>,
}

impl Audit<'_> {
    /// Asks until all is answered or the person quits; returns whether Ctrl-C ended it.
    fn run(&mut self, dialogue: &mut dyn Dialogue) -> Result<bool, Failure> {
        let mut message = String::new();
        while let Some(action) = self.questions.get(self.answers.len()) {
            let (number, total) = (self.answers.len() + 1, self.questions.len());
            let card = Card::of_applied(self.material, action, number, total);
            let keys = "y right · n wrong · s not sure · v text · u back · q quit · ? help";
            let answer = dialogue.ask(&format!("{}\n\n{message}{keys}", card.screen()))?;
            message.clear();
            match answer {
                Answer::Key('y') => self.answers.push(Finding::Right),
                Answer::Key('n') => self.answers.push(Finding::Wrong),
                Answer::Key('s') => self.answers.push(Finding::Unsure),
                Answer::Key('u') => drop(self.answers.pop()),
                Answer::Key('v') => dialogue.show(&card.whole())?,
                Answer::Key('?') => dialogue.show(HELP)?,
                Answer::Key('q') | Answer::End => return Ok(false),
                Answer::Interrupt => return Ok(true),
                Answer::Key(_) | Answer::Other(_) => {
                    message = "that is not an answer; ? lists them\n".to_owned();
                }
            }
        }
        Ok(false)
    }

    fn findings(&self) -> Findings {
        let count = |wanted| self.answers.iter().filter(|given| **given == wanted).count() as u64;
        Findings {
            right: count(Finding::Right),
            wrong: count(Finding::Wrong),
            unsure: count(Finding::Unsure),
        }
    }
}
