//! `memfold audit`: a person reviews a random sample of a run's merges and of refused near pairs;
//! the number of wrong ones is kept with the runs.

use clap::{self, Args, ValueHint};
use memfold::audit::{Findings, Interval};
use memfold::calibration::{Calibration, Precision};
use memfold::consolidate::RefusedPair;
use memfold::ops::{self, AuditDocument, JudgeCalibration, StorePath};
use memfold_core::plan::SavedAction;
use memfold_core::report::grouped;
use memfold_guard::text::excerpt;

use crate::args::store_path;
use crate::call::Call;
use crate::commands::review::card::{Card, Material};
use crate::commands::review::walk::{Answer, Dialogue};
use crate::commands::review::{check_may_write, dialogue};
use crate::failure::{Exit, Failure};

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

pub(crate) fn run(call: Call<'_>, args: &AuditArgs) -> Result<Exit, Failure> {
    let settings = call.settings(&args.db)?;
    if args.calibrate {
        let found = ops::calibrate(&args.db, &settings)?;
        return call.show(&found, || found.calibrations.iter().map(calibrated).collect());
    }
    check_may_write(&settings)?;
    let (now, guard) = (args.now.as_deref(), settings.guard()?);
    let mut sample = ops::audit_sample(&args.db, &settings, &args.run, args.sample, now)?;
    let material = Material {
        memories: std::mem::take(&mut sample.memories),
        policy: &settings.configuration.policy,
        guard: &guard,
        now: sample.now,
    };
    let merges = sample.merges().into_iter().map(Question::Merge);
    let questions = merges.chain(sample.refused.iter().map(Question::Refused)).collect();
    let mut audit = Audit { material: &material, questions, answers: Vec::new() };
    let interrupted = audit.run(&mut *dialogue(call))?;
    let (merges, refused) = (audit.findings(true), audit.findings(false));
    let found = sample.record(&args.db, &settings, merges, refused)?;
    call.show(&found, || {
        let AuditDocument { merges, found, refused, .. } = &found;
        format!(
            "\n{} merges in the run; {}\n{} refused pairs drawn; {}\n",
            grouped(*merges),
            said(&found.findings),
            refused.drawn,
            said(&refused.found.findings)
        )
    })?;
    Ok(if interrupted { Exit::Interrupted } else { Exit::Done })
}

/// Describes the calibration of one source of probabilities.
fn calibrated(of: &JudgeCalibration) -> String {
    let JudgeCalibration { judge, calibration } = of;
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

    /// Counts the answers about merges, or about refused pairs.
    fn findings(&self, of_merges: bool) -> Findings {
        let answers = self.questions.iter().zip(&self.answers);
        let of_subject =
            answers.filter(|(question, _)| matches!(question, Question::Merge(_)) == of_merges);
        let given: Vec<Finding> = of_subject.map(|(_, answer)| *answer).collect();
        let count = |wanted| given.iter().filter(|answer| **answer == wanted).count() as u64;
        Findings {
            right: count(Finding::Right),
            wrong: count(Finding::Wrong),
            unsure: count(Finding::Unsure),
        }
    }
}
