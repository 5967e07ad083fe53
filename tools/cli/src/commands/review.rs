//! `memfold review`: a person decides on the changes of a saved plan, and on flagged pairs.

pub(crate) mod card;
pub(crate) mod flags;
pub(crate) mod walk;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};

use clap::{self, Args, ValueHint};
use console::Term;
use memfold::execute::Selection;
use memfold::ops::{
    self, Reviewer, Settings, StorePath, named_by, saved_plan, selection, with_merged,
};
use memfold::settle::Settlement;
use memfold::texts;
use memfold_core::plan::{Action, ActionState, SavedAction, SavedPlan};
use memfold_core::report::Commands;
use memfold_guard::text::excerpt;
use memfold_index::NoProgress;
use memfold_store::LoadRequest;
use serde::Serialize;

use self::walk::Lines;
use crate::args::{WritingArgs, store_path};
use crate::call::Call;
use crate::commands::consolidate::texts::output_word;
use crate::commands::review::card::Material;
use crate::commands::review::walk::{Dialogue, Keyboard, ReviewStore, Tally, Walk};
use crate::context::open_store;
use crate::failure::{Exit, Failure};
use crate::printer::{self, Printer};
use crate::progress::Bars;
use crate::writing;

/// Characters of a list of actions.
const LABELS_CHARS: usize = 400;

/// `memfold review`
#[derive(Debug, Args)]
#[command(
    group = clap::ArgGroup::new("answer").args(["newer", "older", "both", "merge", "approve", "reject"]),
    override_usage = "memfold review [OPTIONS] <DB> [PLAN] [--only WHAT]\n       \
                      memfold review [OPTIONS] <DB> <PLAN> [ACTION]… --approve|--reject\n       \
                      memfold review [OPTIONS] <DB> <KEY>… --newer|--older|--both|--merge\n       \
                      memfold review [OPTIONS] <DB> --flags"
)]
pub(crate) struct ReviewArgs {
    /// The store: a brain.db, one of another kind (memory.jsonl, …), or a file of texts
    #[arg(value_parser = store_path(), value_hint = ValueHint::AnyPath)]
    pub(crate) db: StorePath,
    /// A plan (its name, the beginning of its name, or latest, the default) and actions of it (a17),
    /// or the keys of flagged pairs
    #[arg(value_name = "PLAN|KEY", conflicts_with = "flags")]
    pub(crate) names: Vec<String>,
    /// List the flagged pairs that wait, with their keys
    #[arg(long, conflicts_with = "answer")]
    pub(crate) flags: bool,
    /// The newer one of each pair is right: merge the older one into it
    #[arg(long)]
    pub(crate) newer: bool,
    /// The older one is right: merge the newer one into it
    #[arg(long)]
    pub(crate) older: bool,
    /// Both stay: no run merges them while their texts stay
    #[arg(long)]
    pub(crate) both: bool,
    /// Both say the same, by your word: merge the older one into the newer one
    #[arg(long)]
    pub(crate) merge: bool,
    /// Approve the actions that are named or chosen by --only, without a dialogue
    #[arg(long)]
    pub(crate) approve: bool,
    /// Reject them
    #[arg(long)]
    pub(crate) reject: bool,
    /// Only these actions of the plan: labels (a17), risks (identical, trivial, reworded) or types
    #[arg(long, value_name = "WHAT,…", value_delimiter = ',', conflicts_with = "flags")]
    pub(crate) only: Vec<String>,
    #[command(flatten)]
    pub(crate) writing: WritingArgs,
}

impl ReviewArgs {
    /// Tells whether it writes to the store: a dialogue does with each answer, other answers with --execute.
    pub(crate) fn writes(&self) -> bool {
        let is_dialogue = !(self.flags || self.settlement().is_some() || self.bulk().is_some());
        is_dialogue || self.writing.writes()
    }

    /// How flagged pairs are settled; `None` where that is not requested.
    fn settlement(&self) -> Option<Settlement> {
        match self {
            Self { newer: true, .. } => Some(Settlement::Supersede),
            Self { older: true, .. } => Some(Settlement::OlderHolds),
            Self { both: true, .. } => Some(Settlement::KeepBoth),
            Self { merge: true, .. } => Some(Settlement::Merge),
            _ => None,
        }
    }

    /// How actions of a plan are answered without a dialogue.
    fn bulk(&self) -> Option<ActionState> {
        match self {
            Self { approve: true, .. } => Some(ActionState::Approved),
            Self { reject: true, .. } => Some(ActionState::Rejected),
            _ => None,
        }
    }
}

/// The end of the help of `memfold review`.
pub(crate) const REVIEW_KEYS: &str = "\
Without an answer it asks about one action after the other. Answers are single
keys, or lines where stdin or stdout is no terminal: y yes, n no, k keep both,
s swap the survivor, v whole text, u back, q quit, ? help.
Each of these answers is written at once; those of the command line with
--execute. What was approved, `memfold apply` does.";

/// `memfold review --json`
#[derive(Debug, Serialize)]
struct ReviewDocument<'a> {
    schema_version: u32,
    plan_id: &'a str,
    /// How the changes of this walk were answered.
    #[serde(flatten)]
    tally: Tally,
}

pub(crate) fn run(call: Call<'_>, args: &ReviewArgs) -> Result<Exit, Failure> {
    let first = Settings::load(&call.global.sources, Some(&args.db), &[])?;
    if args.flags {
        first.show_notices(&call.printer);
        return flags::list(call, args, &first);
    }
    if let Some(settlement) = args.settlement() {
        return settle(call, args, settlement, &first);
    }
    let (name, labels) = plan_and_labels(call, args, &first)?;
    let store = open_store(&args.db, &first)?;
    let plan = saved_plan(&store, &name)?;
    let chosen = selection(&[labels, &args.only].concat(), &[], plan.actions.len())?;
    let settings =
        Settings::load_for_plan(&call.global.sources, Some(&args.db), &plan.plan.overrides)?;
    settings.show_notices(&call.printer);
    if let Some(state) = args.bulk() {
        return answer_all(call, args, &plan, &chosen, state, &settings);
    }
    if !labels.is_empty() {
        return Err(Failure::usage(
            format!("{} without an answer", labels.join(" ")),
            "add --approve or --reject, or choose what is asked about: --only a17",
        ));
    }
    if args.writing.execute || args.writing.dry_run {
        return Err(Failure::usage(
            "--execute and --dry-run are for answers on the command line",
            "leave them out: a dialogue writes each answer at once",
        ));
    }
    check_may_write(&settings)?;
    let time_zone = settings.time_zone()?;
    let guard = settings.guard()?;
    let now = ops::now(args.writing.now.as_deref(), &time_zone)?;
    let load = LoadRequest { time_zone: &time_zone, now, progress: &NoProgress };
    let material = Material {
        memories: with_merged(&store, named_by(&plan), &load)
            .map_err(|error| Failure::of(&format!("read {}", args.db.display()), &error))?,
        policy: &settings.configuration.policy,
        guard: &guard,
        now,
    };
    // Tables of a later version are refused before the first question.
    let reviewer = Reviewer::begin(&args.db, &settings, &plan, args.writing.now.as_deref())?;
    let mut writer = Writer { reviewer, printer: call.printer, kept: BTreeMap::new() };
    let name = plan.plan_id.clone();
    let walk = Walk::new(&material, plan, &chosen);
    if walk.is_over() && !call.global.json {
        call.printer.note(&format!("nothing is left to decide in {name}"));
    }
    let tally = walk.run(&mut *dialogue(call), &mut writer)?;
    report(call, args, &name, tally)?;
    Ok(if tally.interrupted { Exit::Interrupted } else { Exit::Done })
}

/// The plan to review, and the actions that are named after it.
fn plan_and_labels<'a>(
    call: Call<'_>,
    args: &'a ReviewArgs,
    settings: &Settings,
) -> Result<(String, &'a [String]), Failure> {
    let name = match args.names.split_first() {
        Some((name, labels)) => return Ok((name.clone(), labels)),
        None if is_of_texts(args) => {
            let (now, threads) = (args.writing.now.as_deref(), call.global.threads);
            ops::plan_texts(&args.db, settings, now, threads, &Bars::new(call.printer))?
        }
        None if args.bulk().is_some() => {
            return Err(Failure::usage("no plan is named", "memfold runs DB --plans lists them"));
        }
        None => "latest".to_owned(),
    };
    Ok((name, &[]))
}

fn settle(
    call: Call<'_>,
    args: &ReviewArgs,
    settlement: Settlement,
    settings: &Settings,
) -> Result<Exit, Failure> {
    if is_of_texts(args) {
        return Err(Failure::usage(
            "pairs in conflict of a file of texts are settled in the file",
            "change or remove one of the texts, or make a store of the file: memfold import",
        ));
    }
    if args.names.is_empty() {
        return Err(Failure::usage(
            "no pair is named",
            "memfold review DB --flags lists their keys",
        ));
    }
    settings.show_notices(&call.printer);
    let guard = settings.guard()?;
    for key in &args.names {
        flags::settle_pair(call, args, key, settlement, settings, &guard)?;
    }
    Ok(Exit::Done)
}

/// Tells whether the store is the mirror of a file of texts.
fn is_of_texts(args: &ReviewArgs) -> bool {
    args.db.mirrored().is_some_and(|mirrored| mirrored.kind == texts::KIND)
}

/// Answers all open actions that are chosen, or tells which it would.
fn answer_all(
    call: Call<'_>,
    args: &ReviewArgs,
    plan: &SavedPlan,
    chosen: &Selection,
    state: ActionState,
    settings: &Settings,
) -> Result<Exit, Failure> {
    if chosen.only.is_empty() {
        return Err(Failure::usage(
            "no action is named",
            "name actions (a17), or choose kinds of them: --only identical,promote",
        ));
    }
    let is_open = |action: &&SavedAction| {
        let states = [ActionState::Proposed, ActionState::Approved, ActionState::Rejected];
        action.is_change() && states.contains(&action.state) && chosen.picks(action)
    };
    let actions: Vec<&SavedAction> = plan.actions.iter().filter(is_open).collect();
    let count = actions.len() as u64;
    let writes = call.may_write(settings, &args.writing);
    if writes && count > 0 {
        let positions: Vec<usize> = actions.iter().map(|action| action.position).collect();
        Reviewer::begin(&args.db, settings, plan, args.writing.now.as_deref())?
            .decide(&positions, state)?;
    }
    let tally = match state {
        ActionState::Approved => Tally { approved: count, ..Tally::default() },
        _ => Tally { rejected: count, ..Tally::default() },
    };
    if writes || call.global.json {
        report(call, args, &plan.plan_id, tally)?;
    } else {
        let labels: Vec<String> = actions.iter().map(|action| action.label()).collect();
        let actions = writing::counted(count, "action", "actions");
        let (verb, shown) = (state.name(), excerpt(&labels.join(", "), LABELS_CHARS));
        call.printer.data(&format!("{actions} would be {verb}: {shown}\n"))?;
    }
    if !writes {
        call.printer.note("dry run: nothing was written to the store");
    }
    Ok(Exit::Done)
}

pub(crate) fn check_may_write(settings: &Settings) -> Result<(), Failure> {
    let rules = &settings.configuration.settings;
    let (message, hint) = if rules.read_only {
        ("read_only is set: answers cannot be written", "unset it for this command")
    } else if !rules.enabled {
        ("enabled is false: answers cannot be written", "set it to true for this command")
    } else {
        return Ok(());
    };
    let hint = format!("{hint}; `memfold runs DB PLAN --plans` shows the plan without writing");
    Err(Failure::plain(message, hint))
}

/// Keys where a person sits at a terminal, lines elsewhere.
pub(crate) fn dialogue(call: Call<'_>) -> Box<dyn Dialogue> {
    let at_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    if at_terminal && !call.global.json {
        Box::new(Keyboard { terminal: Term::stdout(), printer: call.printer })
    } else {
        let (printer, aside) = (call.printer, call.global.json);
        Box::new(Lines { input: io::stdin().lock(), printer, aside })
    }
}

fn report(call: Call<'_>, args: &ReviewArgs, plan_id: &str, tally: Tally) -> Result<(), Failure> {
    let Tally { approved, rejected, kept_both, undecided, .. } = tally;
    if call.global.json {
        return call.printer.document(&ReviewDocument { schema_version: 1, plan_id, tally });
    }
    let mut lines = vec![format!(
        "{approved} approved · {rejected} rejected · {kept_both} kept apart · {undecided} undecided"
    )];
    if let Some(file) = args.db.mirrored().filter(|_| is_of_texts(args)) {
        let path = writing::path_word(&file.origin);
        let output = output_word(&file.origin);
        lines.push(format!("next: memfold consolidate {path} --execute --output {output}"));
    } else if approved > 0 {
        let mut commands = Commands::apply(&writing::path_word(args.db.named()), plan_id);
        commands.next.extend(writing::global_words(call.global));
        commands.is_wrapped = printer::is_terminal();
        lines.extend(commands.lines());
    }
    call.printer.data(&format!("\n{}\n", lines.join("\n")))
}

/// Writes each answer at once; nothing is open while a person thinks.
struct Writer<'a> {
    reviewer: Reviewer<'a>,
    printer: Printer,
    /// The runs that kept memories apart, by the action's position.
    kept: BTreeMap<usize, String>,
}

impl ReviewStore for Writer<'_> {
    fn approve(&mut self, action: &SavedAction) -> Result<(), Failure> {
        self.reviewer.decide(&[action.position], ActionState::Approved)
    }

    fn reject(&mut self, action: &SavedAction) -> Result<(), Failure> {
        self.reviewer.decide(&[action.position], ActionState::Rejected)
    }

    fn keep_both(&mut self, action: &SavedAction) -> Result<(), Failure> {
        self.kept.insert(action.position, self.reviewer.keep_both(action)?);
        Ok(())
    }

    fn amend(&mut self, action: &SavedAction, amended: Option<&Action>) -> Result<(), Failure> {
        self.reviewer.amend(action, amended)
    }

    fn take_back(&mut self, action: &SavedAction) -> Result<(), Failure> {
        if let Some(run) = self.kept.get(&action.position) {
            self.reviewer.undo(run, &self.printer)?;
            self.kept.remove(&action.position);
        }
        self.reviewer.decide(&[action.position], ActionState::Proposed)
    }
}
