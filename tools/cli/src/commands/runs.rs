//! `memfold runs`: what was done to a store, run by run and unit by unit.

use memfold_pipeline::runs::{ChainBreak, RunHistory, RunSummary, UnitSummary};
use memfold_pipeline::store::BrainDb;
use memfold_pipeline::text::excerpt;
use serde_json::{Value, json};

use crate::args::{GlobalArgs, RunsArgs};
use crate::commands::consolidate::open_store;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::{Printer, table};
use crate::settings::Settings;

/// Names and times are cut after so many characters.
const NAME_CHARS: usize = 60;
/// Characters of a list of memories or actions.
const LIST_CHARS: usize = 200;
/// Ids and actions that a line shows.
const LISTED_MAX: usize = 3;

pub(crate) fn run(global: &GlobalArgs, args: &RunsArgs, printer: Printer) -> Result<Exit, Failure> {
    let settings = Settings::load(global, Some(&args.db), &[])?;
    settings.show_notices(printer);
    let store = open_store(&args.db, &settings)?;
    let history = store.runs().map_err(|error| {
        let hint = error.hint();
        Failure::new("read the runs", &error, hint)
    })?;
    match &args.run {
        None => show_history(global, &history, printer)?,
        Some(wanted) => show_run(global, &store, &history, (wanted, printer))?,
    }
    Ok(Exit::Done)
}

fn show_history(
    global: &GlobalArgs,
    history: &RunHistory,
    printer: Printer,
) -> Result<(), Failure> {
    if global.json {
        return printer.json(&json!({
            "schema_version": 1,
            "runs": history.runs.iter().map(run_json).collect::<Vec<_>>(),
            "audit_chain": chain_json(history.chain_break.as_ref()),
        }));
    }
    if history.runs.is_empty() {
        return printer.data("no run has written to this store yet\n");
    }
    let header = ["run", "kind", "state", "units", "undone", "plan"];
    let mut text = table(&header, history.runs.iter().map(run_row).collect());
    text.push_str("\nunits: applied/stale/failed; undone: of those that are still known\n");
    text.push_str(&chain_line(history.chain_break.as_ref()));
    printer.data(&text)
}

fn show_run(
    global: &GlobalArgs,
    store: &BrainDb,
    history: &RunHistory,
    (wanted, printer): (&str, Printer),
) -> Result<(), Failure> {
    let run = find(history, wanted)?;
    let units = store.units(&run.run_id).map_err(|error| {
        let hint = error.hint();
        Failure::new("read the units", &error, hint)
    })?;
    if global.json {
        let mut document = run_json(run);
        document["schema_version"] = json!(1);
        document["list"] = units.iter().map(unit_json).collect();
        return printer.json(&document);
    }
    let mut text = heading(run);
    if units.is_empty() {
        text.push_str("no units: it changed nothing, or they were pruned\n");
    } else {
        let header = ["unit", "actions", "state", "rows", "memories"];
        text.push_str(&table(&header, units.iter().map(unit_row).collect()));
    }
    printer.data(&text)
}

/// Finds a run by its id or how that begins; `latest` is the last one.
fn find<'h>(history: &'h RunHistory, wanted: &str) -> Result<&'h RunSummary, Failure> {
    let hint = "`memfold runs DB` lists them; `latest` is the last one";
    if wanted == "latest" {
        return history
            .runs
            .last()
            .ok_or_else(|| Failure::plain("no run has written to this store yet", hint));
    }
    let mut found = history.runs.iter().filter(|run| run.run_id.starts_with(wanted));
    match (found.next(), found.next()) {
        (Some(run), None) => Ok(run),
        (Some(run), Some(_)) if run.run_id == wanted => Ok(run),
        (Some(_), Some(_)) => {
            Err(Failure::plain(format!("several runs begin with {}", shown(wanted)), hint))
        }
        (None, _) => Err(Failure::plain(format!("there is no run {}", shown(wanted)), hint)),
    }
}

fn shown(text: &str) -> String {
    excerpt(text, NAME_CHARS)
}

fn run_row(run: &RunSummary) -> Vec<String> {
    let undone =
        if run.units == 0 { "-".to_owned() } else { format!("{}/{}", run.undone, run.units) };
    vec![
        shown(&run.run_id),
        shown(&run.kind),
        shown(&run.state),
        format!("{}/{}/{}", run.executed.applied, run.executed.stale, run.executed.failed),
        undone,
        run.plan_id.as_deref().map(shown).unwrap_or_default(),
    ]
}

fn heading(run: &RunSummary) -> String {
    let mut text = format!("{} {} {}\n", shown(&run.run_id), shown(&run.kind), shown(&run.state));
    let mut line = |name: &str, value: Option<&str>| {
        if let Some(value) = value {
            text.push_str(&format!("{name}: {}\n", shown(value)));
        }
    };
    line("started", Some(&run.started_at));
    line("finished", run.finished_at.as_deref());
    line("by", Some(&run.holder));
    line("plan", run.plan_id.as_deref());
    line("asked for", run.target.as_deref());
    let counts = run.executed;
    text.push_str(&format!(
        "{} applied, {} stale, {} failed; {} of {} units undone\n\n",
        counts.applied, counts.stale, counts.failed, run.undone, run.units
    ));
    text
}

fn unit_row(unit: &UnitSummary) -> Vec<String> {
    let mut actions = unit.actions.clone();
    if let Some((run_id, number)) = &unit.reverts {
        actions.push(format!("takes back unit {number} of {run_id}"));
    }
    let state = match &unit.undone_by {
        Some(run_id) => format!("{} by {}", shown(&unit.state), shown(run_id)),
        None => shown(&unit.state),
    };
    vec![
        unit.unit.to_string(),
        few(&actions),
        state,
        unit.memories.len().to_string(),
        few(&unit.memories),
    ]
}

fn few(items: &[String]) -> String {
    let mut text = items.iter().take(LISTED_MAX).map(|item| shown(item)).collect::<Vec<_>>();
    if items.len() > LISTED_MAX {
        text.push(format!("and {} more", items.len() - LISTED_MAX));
    }
    excerpt(&text.join(", "), LIST_CHARS)
}

fn chain_line(chain_break: Option<&ChainBreak>) -> String {
    match chain_break {
        None => "audit chain: holds\n".to_owned(),
        Some(ChainBreak { run_id, .. }) => format!(
            "audit chain: BROKEN at {}: a run before it was changed, added or removed\n",
            shown(run_id)
        ),
    }
}

fn chain_json(chain_break: Option<&ChainBreak>) -> Value {
    match chain_break {
        None => json!({ "holds": true }),
        Some(ChainBreak { run_id, expected, found }) => {
            json!({ "holds": false, "run_id": run_id, "expected": expected, "found": found })
        }
    }
}

fn run_json(run: &RunSummary) -> Value {
    json!({
        "run_id": run.run_id,
        "kind": run.kind,
        "state": run.state,
        "started_at": run.started_at,
        "finished_at": run.finished_at,
        "holder": run.holder,
        "plan_id": run.plan_id,
        "target": run.target,
        "executed": run.executed,
        "units": run.units,
        "undone": run.undone,
    })
}

fn unit_json(unit: &UnitSummary) -> Value {
    let reverts = unit.reverts.as_ref();
    json!({
        "unit": unit.unit,
        "state": unit.state,
        "undone_by": unit.undone_by,
        "plan_id": unit.plan_id,
        "actions": unit.actions,
        "reverts": reverts.map(|(run_id, unit)| json!({ "run_id": run_id, "unit": unit })),
        "memories": unit.memories,
        "at": unit.at,
    })
}
