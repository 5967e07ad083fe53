//! `memfold review`: a person decides on the changes of a saved plan.

pub(crate) mod card;
mod walk;
#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};

use clap::{self, Args};
use console::Term;
use jiff::tz::TimeZone;
use memfold::execute::{KeepBothRequest, UndoRequest, UndoTarget, keep_both, undo};
use memfold::machine;
use memfold_index::NoProgress;
use memfold_model::memory::{Memory, MemoryId};
use memfold_model::time::Instant;
use memfold_plan::plan::{Action, ActionState, SavedAction, SavedPlan};
use memfold_plan::report::{Commands, run_id};
use memfold_store::LoadRequest;
use memfold_store::brain_db::{BrainDb, Session, SessionError};
use memfold_store::journal::RevertOptions;
use serde::Serialize;

use self::walk::Lines;
use crate::args::GlobalArgs;
use crate::commands::plans::find_plan;
use crate::commands::review::card::Material;
use crate::commands::review::card::named_memories;
use crate::commands::review::walk::{Dialogue, Keyboard, ReviewStore, Tally, Walk};
use crate::context::open_store;
use crate::failure::{Exit, Failure};
use crate::printer::{self, Printer, documents};
use crate::settings::{self, Settings};
use crate::writing;

documents! { "review" => ReviewDocument<'_> }

/// `memfold review`
#[derive(Debug, Args)]
pub(crate) struct ReviewArgs {
    /// The store: a brain.db, or one of another kind (memory.jsonl, …)
    pub(crate) db: PathBuf,
    /// A plan: its name, the beginning of its name, or latest
    pub(crate) plan: String,
    /// Decide as if it were this time (RFC 3339) [default: the clock]
    #[arg(long, value_name = "TIME")]
    pub(crate) now: Option<String>,
}

/// Said at the end of the help of `memfold review`.
pub(crate) const REVIEW_KEYS: &str = "\
Answers are single keys, or lines where stdin or stdout is no terminal: y yes,
n no, k keep both, s swap the survivor, a one answer for all of a kind,
v whole text, u back, q quit, ? help.
Each answer is written to the store at once, and nothing else is: what was
answered with yes, `memfold apply` does.";

/// `memfold review --json`
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ReviewDocument<'a> {
    schema_version: u32,
    plan_id: &'a str,
    /// How the changes of this walk were answered.
    #[serde(flatten)]
    tally: Tally,
}

pub(crate) fn run(
    global: &GlobalArgs,
    args: &ReviewArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    let first = Settings::load(global, Some(&args.db), &[])?;
    let store = open_store(&args.db, &first)?;
    let plan = find_plan(&store, &args.plan)?;
    let settings = Settings::load_for_plan(global, Some(&args.db), &plan.plan.overrides)?;
    settings.show_notices(printer);
    check_may_write(&settings)?;
    let time_zone = settings.time_zone()?;
    let guard = settings.guard()?;
    let now = settings::now(args.now.as_deref(), &time_zone)?;
    let material = Material {
        memories: read_memories(&store, &plan, (&time_zone, now))?,
        policy: &settings.configuration.policy,
        guard: &guard,
        now,
    };
    let mut writer = Writer {
        db: &args.db,
        settings: &settings,
        plan_id: plan.plan_id.clone(),
        store_id: plan.plan.store_id.clone(),
        fixed_now: args.now.is_some().then_some(now),
        time_zone,
        kept: BTreeMap::new(),
    };
    writer.check_tables()?;
    let name = plan.plan_id.clone();
    let walk = Walk::new(&material, plan);
    if walk.is_over() && !global.json {
        printer.note(&format!("nothing is left to decide in {name}"));
    }
    let tally = walk.run(&mut *dialogue(global, printer), &mut writer)?;
    report(global, args, (&name, tally), printer)?;
    Ok(if tally.interrupted { Exit::Interrupted } else { Exit::Done })
}

fn check_may_write(settings: &Settings) -> Result<(), Failure> {
    let rules = &settings.configuration.settings;
    let (message, hint) = if rules.read_only {
        ("read_only is set: answers cannot be written", "unset it for this command")
    } else if !rules.enabled {
        ("enabled is false: answers cannot be written", "set it to true for this command")
    } else {
        return Ok(());
    };
    let hint = format!("{hint}; `memfold plans DB PLAN` shows the plan without writing");
    Err(Failure::refused(message, hint))
}

fn read_memories(
    store: &BrainDb,
    plan: &SavedPlan,
    (time_zone, now): (&TimeZone, Instant),
) -> Result<BTreeMap<MemoryId, Memory>, Failure> {
    let request = LoadRequest { time_zone, now, progress: &NoProgress };
    named_memories(store, plan, &request).map_err(|error| {
        let hint = error.hint();
        Failure::new(&format!("read {}", store.path().display()), &error, hint)
    })
}

/// Keys where a person sits at a terminal, lines elsewhere.
fn dialogue(global: &GlobalArgs, printer: Printer) -> Box<dyn Dialogue> {
    let at_terminal = io::stdin().is_terminal() && io::stdout().is_terminal();
    if at_terminal && !global.json {
        Box::new(Keyboard { terminal: Term::stdout(), printer })
    } else {
        Box::new(Lines { input: io::stdin().lock(), printer, aside: global.json })
    }
}

fn report(
    global: &GlobalArgs,
    args: &ReviewArgs,
    (plan_id, tally): (&str, Tally),
    printer: Printer,
) -> Result<(), Failure> {
    let Tally { approved, rejected, kept_both, undecided, .. } = tally;
    if global.json {
        return printer.document(&ReviewDocument { schema_version: 1, plan_id, tally });
    }
    let mut lines = vec![format!(
        "{approved} approved · {rejected} rejected · {kept_both} kept apart · {undecided} undecided"
    )];
    if approved > 0 {
        let mut commands = Commands::apply(&writing::path_word(&args.db), plan_id);
        commands.next.extend(writing::global_words(global));
        commands.is_folded = printer::is_terminal();
        lines.extend(commands.lines());
    }
    printer.data(&format!("\n{}\n", lines.join("\n")))
}

/// Writes each answer in a transaction of its own; nothing is open while a person thinks.
struct Writer<'a> {
    db: &'a Path,
    settings: &'a Settings,
    plan_id: String,
    store_id: String,
    /// The time given on the command line, in place of the clock's.
    fixed_now: Option<Instant>,
    time_zone: TimeZone,
    /// The runs that kept memories apart, by the action's position.
    kept: BTreeMap<usize, String>,
}

impl Writer<'_> {
    fn now(&self) -> Instant {
        self.fixed_now.unwrap_or_else(machine::clock)
    }

    fn at(&self) -> String {
        self.now().to_naive_local(&self.time_zone)
    }

    /// Refuses tables of a later version before the first question.
    fn check_tables(&self) -> Result<(), Failure> {
        self.beside_runs(|session| session.prepare(&self.at()).map(drop))
    }

    /// Writes to memfold's own tables, whoever else is at work.
    fn beside_runs(
        &self,
        write: impl FnOnce(&Session) -> Result<(), SessionError>,
    ) -> Result<(), Failure> {
        let session = writing::open_own_tables(self.db, self.settings)?;
        write(&session).map_err(|error| failure(&error))
    }

    fn decide(&self, action: &SavedAction, state: ActionState) -> Result<(), Failure> {
        self.beside_runs(|session| session.decide(&self.plan_id, &[action.position], state))
    }

    fn undo(&self, run: &str) -> Result<(), Failure> {
        let session = writing::open_session(self.db, self.settings)?;
        let now = self.now();
        let undone = undo(
            &session,
            &UndoRequest {
                target: &UndoTarget::Run(run.to_owned()),
                options: RevertOptions::default(),
                remerge_ok: true,
                run_id: &run_id(&self.store_id, now, run),
                now,
                time_zone: &self.time_zone,
                holder: &machine::holder(),
                progress: &NoProgress,
                clock: &|| 0.0,
            },
        );
        let undone = undone.map_err(|error| writing::undo_failure(&error))?;
        if undone.executed.applied == 1 {
            return Ok(());
        }
        let conflicts = undone.outcomes.iter().flat_map(|outcome| &outcome.conflicts);
        let conflicts: Vec<&str> = conflicts.map(String::as_str).collect();
        let message = format!("failed to take the answer back: {}", conflicts.join("; "));
        Err(Failure { exit: Exit::Failure, message, hint: None })
    }
}

impl ReviewStore for Writer<'_> {
    fn approve(&mut self, action: &SavedAction) -> Result<(), Failure> {
        self.decide(action, ActionState::Approved)
    }

    fn reject(&mut self, action: &SavedAction) -> Result<(), Failure> {
        self.decide(action, ActionState::Rejected)
    }

    fn keep_both(&mut self, action: &SavedAction) -> Result<(), Failure> {
        let session = writing::open_session(self.db, self.settings)?;
        let run = keep_both(
            &session,
            &KeepBothRequest {
                plan_id: &self.plan_id,
                action,
                run_id: &run_id(&self.store_id, self.now(), &action.label()),
                at: &self.at(),
                holder: &machine::holder(),
            },
        );
        self.kept.insert(action.position, run.map_err(|error| failure(&error))?);
        Ok(())
    }

    fn amend(&mut self, action: &SavedAction, amended: Option<&Action>) -> Result<(), Failure> {
        self.beside_runs(|session| session.amend(&self.plan_id, action.position, amended))
    }

    fn take_back(&mut self, action: &SavedAction) -> Result<(), Failure> {
        if let Some(run) = self.kept.get(&action.position) {
            self.undo(run)?;
            self.kept.remove(&action.position);
        }
        self.decide(action, ActionState::Proposed)
    }
}

fn failure(error: &SessionError) -> Failure {
    writing::session_failure("write the answer", error)
}
