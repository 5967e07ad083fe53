//! `memfold audit`: a person reviews a random sample of a run's merges and of refused near pairs;
//! the number of wrong ones is kept with the runs.

use std::path::Path;

use clap::{self, Args, ValueHint};
use memfold::audit::{self, Findings, Interval, Subject};
use memfold::calibration::{self, Calibration, Precision};
use memfold::consolidate::RefusedPair;
use memfold::ops::{self, Settings, StorePath, find_run, named_by, saved_plan};
use memfold::{Memfold, Options, machine};
use memfold_core::plan::{SavedAction, SavedPlan};
use memfold_core::report::{grouped, run_id};
use memfold_core::runs::RunKind;
use memfold_core::time::Instant;
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
use crate::writing;

const NAME_CHARS: usize = 60;

const HELP: &str = "\
y  right: what stays says all that was merged into it; a refused pair says two things
n  wrong: a fact was lost, or the two are not about the same; a refused pair says the same
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
    /// Look at up to this many of its merges, and of near pairs that are refused in the store as
    /// it is, drawn at random
    #[arg(long, value_name = "N", default_value_t = 100)]
    pub(crate) sample: usize,
    /// Print from which probability on your answers in `review` support merges without a question
    #[arg(long, conflicts_with_all = ["run", "sample", "now"])]
    pub(crate) calibrate: bool,
    /// The time of the audit (RFC 3339; default: now)
    #[arg(long, value_name = "TIME")]
    pub(crate) now: Option<String>,
}

/// `memfold audit --json`
#[derive(Debug, Serialize)]
struct AuditDocument<'a> {
    schema_version: u32,
    /// The run with the audited merges.
    run_id: &'a str,
    /// The run that keeps the findings; `null` where nothing was answered.
    audit_run_id: Option<&'a str>,
    /// Merges of the run.
    merges: u64,
    #[serde(flatten)]
    findings: Findings,
    /// Of the judged ones.
    wrong_share: Option<f64>,
    /// The 95 % interval of the share of all merges of the run.
    interval: Option<Interval>,
    /// The same of near pairs that are refused.
    refused: RefusedDocument<'a>,
}

/// Of [`AuditDocument`]: near pairs that a run over the store as it is neither merges nor proposes.
#[derive(Debug, Serialize)]
struct RefusedDocument<'a> {
    /// The run that keeps the findings; `null` where nothing was answered.
    audit_run_id: Option<&'a str>,
    /// Pairs in the sample.
    drawn: u64,
    #[serde(flatten)]
    findings: Findings,
    /// The share of the judged pairs that says the same.
    wrong_share: Option<f64>,
    /// The 95 % interval of the share of all refused pairs.
    interval: Option<Interval>,
}

pub(crate) fn run(
    global: &GlobalArgs,
    args: &AuditArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    let settings = Settings::load(&global.sources(), Some(&args.db), &[])?;
    settings.show_notices(&printer);
    if args.calibrate {
        return calibrate(global, &open_store(&args.db, &settings)?, printer);
    }
    check_may_write(&settings)?;
    let store = open_store(&args.db, &settings)?;
    let (audited, plan) = plan_of_run(&store, &args.run)?;
    let merges = audit::merges(&plan.actions, &audited).count() as u64;
    if merges == 0 {
        let message = format!("run {} merged nothing", excerpt(&audited, NAME_CHARS));
        return Err(Failure::plain(message, "`memfold runs DB` lists the runs"));
    }
    let time_zone = settings.time_zone()?;
    let now = ops::now(args.now.as_deref(), &time_zone)?;
    let guard = settings.guard()?;
    let refused = refused_pairs(&args.db, &settings, args.sample, now)?;
    let mut named = named_by(&plan);
    named.extend(refused.iter().flat_map(|pair| [pair.older.clone(), pair.newer.clone()]));
    let material = Material {
        memories: read_memories(&store, named, &time_zone, now)?,
        policy: &settings.configuration.policy,
        guard: &guard,
        now,
    };
    let merged = audit::sample(&plan.actions, &audited, args.sample);
    let questions = merged.into_iter().map(Question::Merge);
    let questions = questions.chain(refused.iter().map(Question::Refused)).collect();
    let mut audit = Audit { material: &material, questions, answers: Vec::new() };
    let interrupted = audit.run(&mut *dialogue(global, printer))?;
    let at = now.to_naive_local(&time_zone);
    let keep = |subject: Subject| {
        let findings = audit.findings(subject);
        if findings == Findings::default() {
            return Ok(None);
        }
        let session = writing::open_session(&args.db, &settings)?;
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
        audit::record(&session, &start, subject, findings).map_err(failure).map(Some)
    };
    let (merges_run, refused_run) = (keep(Subject::Merges)?, keep(Subject::RefusedPairs)?);
    let runs = [merges_run.as_deref(), refused_run.as_deref()];
    show(global, printer, &audited, merges, &audit, runs)?;
    Ok(if interrupted { Exit::Interrupted } else { Exit::Done })
}

/// Shows the findings; `runs` keep the findings of merges and of refused pairs.
fn show(
    global: &GlobalArgs,
    printer: Printer,
    audited: &str,
    merges: u64,
    audit: &Audit<'_>,
    runs: [Option<&str>; 2],
) -> Result<(), Failure> {
    let [merges_run, refused_run] = runs;
    let is_refused = |question: &&Question<'_>| matches!(question, Question::Refused(_));
    let drawn = audit.questions.iter().filter(is_refused).count();
    let findings = audit.findings(Subject::Merges);
    let of_refused = audit.findings(Subject::RefusedPairs);
    if global.json {
        printer.document(&AuditDocument {
            schema_version: 1,
            run_id: audited,
            audit_run_id: merges_run,
            merges,
            findings,
            wrong_share: findings.wrong_share(),
            interval: findings.interval(),
            refused: RefusedDocument {
                audit_run_id: refused_run,
                drawn: drawn as u64,
                findings: of_refused,
                wrong_share: of_refused.wrong_share(),
                interval: of_refused.interval(),
            },
        })?;
    } else {
        let merges = grouped(merges);
        printer.data(&format!(
            "\n{merges} merges in the run; {}\n{drawn} refused pairs drawn; {}\n",
            said(&findings),
            said(&of_refused)
        ))?;
    }
    Ok(())
}

/// Draws near pairs that a run over the store as it is would refuse.
fn refused_pairs(
    db: &Path,
    settings: &Settings,
    count: usize,
    now: Instant,
) -> Result<Vec<RefusedPair>, Failure> {
    let mut options = Options::default();
    options.configuration = Some(settings.configuration.clone());
    options.now = Some(now);
    let pairs = Memfold::open_with(db, options).and_then(|memfold| memfold.refused_pairs(count));
    pairs.map_err(|error| Failure::of("find refused pairs", &error))
}

/// `memfold audit --calibrate --json`
#[derive(Debug, Serialize)]
struct CalibrationDocument {
    schema_version: u32,
    /// The lower bound of precision that merges without a question need.
    precision_min: f64,
    calibrations: Vec<CalibrationOf>,
}

/// Of [`CalibrationDocument`]: one for each source of probabilities with decisions.
#[derive(Debug, Serialize)]
struct CalibrationOf {
    /// The judge; `null`: the built-in estimate, which never merges.
    judge: Option<String>,
    #[serde(flatten)]
    calibration: Calibration,
}

fn calibrate(
    global: &GlobalArgs,
    store: &memfold_store::BrainDb,
    printer: Printer,
) -> Result<Exit, Failure> {
    let decisions =
        calibration::decisions(store).map_err(|error| Failure::of("read the decisions", &error))?;
    let mut calibrations: Vec<CalibrationOf> = decisions
        .into_iter()
        .map(|(judge, of)| CalibrationOf { judge, calibration: Calibration::of(&of) })
        .collect();
    if calibrations.is_empty() {
        calibrations.push(CalibrationOf { judge: None, calibration: Calibration::of(&[]) });
    }
    if global.json {
        let precision_min = calibration::PRECISION_MIN;
        printer.document(&CalibrationDocument {
            schema_version: 1,
            precision_min,
            calibrations,
        })?;
    } else {
        let lines = calibrations.iter().map(calibrated);
        printer.data(&lines.collect::<String>())?;
    }
    Ok(Exit::Done)
}

/// Describes the calibration of one source of probabilities.
fn calibrated(of: &CalibrationOf) -> String {
    let CalibrationOf { judge, calibration } = of;
    let name = judge
        .as_deref()
        .map_or_else(|| "built-in estimate".to_owned(), |judge| excerpt(judge, NAME_CHARS));
    let Calibration { decisions, approved, chosen, tested, .. } = *calibration;
    let half = |precision: Precision| {
        let Precision { right, wrong, lower_bound } = precision;
        format!("{right} right of {}, at least {:.1} %", right + wrong, 100.0 * lower_bound)
    };
    let mut text = format!("{name}: {decisions} decisions, {approved} approved\n");
    if let Some(threshold) = calibration.threshold {
        text.push_str(&format!(
            "  from {threshold:.2} on: {} in the half that chose it; {} in the other (95 %)\n",
            half(chosen),
            half(tested)
        ));
    }
    text.push_str(&match (calibration.is_supported, judge) {
        (true, Some(_)) => "  supported: this judge may merge from there on\n".to_owned(),
        (true, None) => "  supported, but the built-in estimate only orders proposals\n".to_owned(),
        (false, _) => format!(
            "  not supported: about {} more decisions are needed, if they turn out right\n",
            calibration.decisions_needed
        ),
    });
    text
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

/// Describes the findings in one line.
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

#[derive(Debug, Clone, Copy)]
enum Question<'a> {
    Merge(&'a SavedAction),
    Refused(&'a RefusedPair),
}

/// A person's way through the samples.
struct Audit<'a> {
    material: &'a Material<'a>,
    questions: Vec<Question<'a>>,
    answers: Vec<Finding>,
}

impl Audit<'_> {
    /// Asks until all is answered or the person quits; returns whether Ctrl-C ended it.
    fn run(&mut self, dialogue: &mut dyn Dialogue) -> Result<bool, Failure> {
        let mut message = String::new();
        while let Some(question) = self.questions.get(self.answers.len()) {
            let (number, total) = (self.answers.len() + 1, self.questions.len());
            let card = match question {
                Question::Merge(action) => Card::of_applied(self.material, action, number, total),
                Question::Refused(pair) => Card::of_refused(self.material, pair, number, total),
            };
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

    fn findings(&self, subject: Subject) -> Findings {
        let answers = self.questions.iter().zip(&self.answers);
        let of_subject = answers.filter(|(question, _)| match question {
            Question::Merge(_) => subject == Subject::Merges,
            Question::Refused(_) => subject == Subject::RefusedPairs,
        });
        let given: Vec<Finding> = of_subject.map(|(_, answer)| *answer).collect();
        let count = |wanted| given.iter().filter(|answer| **answer == wanted).count() as u64;
        Findings {
            right: count(Finding::Right),
            wrong: count(Finding::Wrong),
            unsure: count(Finding::Unsure),
        }
    }
}
