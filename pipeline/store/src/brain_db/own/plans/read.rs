//! Finding plans, on any connection.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension as _, Row, params};
use serde::de::DeserializeOwned;

use super::FindPlanError;
use memfold_model::memory::MemoryId;
use memfold_plan::plan::{ActionState, ActionType, Plan, PlanSummary, SavedAction, SavedPlan};

/// The word for the plan that was saved last.
const LATEST: &str = "latest";

/// Characters of a name that may stand for the whole.
const PREFIX_CHARS_MIN: usize = 4;

/// Names listed in an error.
const CANDIDATES_SHOWN: u32 = 5;

/// Tells whether a plan was saved.
pub(crate) fn exists(connection: &Connection, plan_id: &str) -> rusqlite::Result<bool> {
    connection.prepare_cached("SELECT 1 FROM memfold_plans WHERE plan_id = ?1")?.exists([plan_id])
}

/// Loads a plan by its whole name; `None` where there is none.
pub(crate) fn load(
    connection: &Connection,
    plan_id: &str,
) -> Result<Option<SavedPlan>, FindPlanError> {
    if !has_tables(connection)? {
        return Ok(None);
    }
    let header = connection
        .query_row(
            "SELECT schema_version, store_id, config_hash, overrides, engine_version, now,
                 plan_digest, saved_at
             FROM memfold_plans WHERE plan_id = ?1",
            [plan_id],
            |row| Ok(header(row, plan_id)),
        )
        .optional()?;
    let Some(header) = header else { return Ok(None) };
    let mut saved = header?;
    let mut statement = connection.prepare(
        "SELECT position, body, amended, state, base_digests, access_count, run_id, unit, note
         FROM memfold_actions WHERE plan_id = ?1 ORDER BY position",
    )?;
    let mut rows = statement.query([plan_id])?;
    while let Some(row) = rows.next()? {
        let action = saved_action(row, plan_id)?;
        let digests: BTreeMap<MemoryId, String> = parsed(row, "base_digests", plan_id)?;
        saved.plan.base_digests.extend(digests);
        saved.plan.actions.push(action.action.clone());
        saved.actions.push(action);
    }
    Ok(Some(saved))
}

fn header(row: &Row<'_>, plan_id: &str) -> Result<SavedPlan, FindPlanError> {
    let text = |column| text(row, column, plan_id);
    let plan = Plan {
        schema_version: cell(row, "schema_version", plan_id)?,
        store_id: text("store_id")?,
        config_hash: text("config_hash")?,
        engine_version: text("engine_version")?,
        now: text("now")?,
        overrides: parsed(row, "overrides", plan_id)?,
        actions: Vec::new(),
        base_digests: BTreeMap::new(),
    };
    Ok(SavedPlan {
        plan_id: plan_id.to_owned(),
        plan,
        plan_digest: text("plan_digest")?,
        saved_at: text("saved_at")?,
        actions: Vec::new(),
    })
}

fn saved_action(row: &Row<'_>, plan_id: &str) -> Result<SavedAction, FindPlanError> {
    let position: i64 = cell(row, "position", plan_id)?;
    let amended: Option<String> = cell(row, "amended", plan_id)?;
    let state = text(row, "state", plan_id)?;
    let amended = amended.map(|json| parse(&json, "amended", plan_id)).transpose()?;
    Ok(SavedAction {
        position: usize::try_from(position)
            .map_err(|_| damaged(plan_id, "position", &position.to_string()))?,
        action: parsed(row, "body", plan_id)?,
        amended,
        state: ActionState::of_name(&state).ok_or_else(|| damaged(plan_id, "state", &state))?,
        access_count: cell(row, "access_count", plan_id)?,
        run_id: cell(row, "run_id", plan_id)?,
        unit: cell(row, "unit", plan_id)?,
        note: cell(row, "note", plan_id)?,
    })
}

/// Finds a plan by its name, the beginning of its name or `latest`.
pub(crate) fn find(connection: &Connection, wanted: &str) -> Result<SavedPlan, FindPlanError> {
    let unknown = |candidates| FindPlanError::Unknown { wanted: wanted.to_owned(), candidates };
    if !has_tables(connection)? {
        return Err(unknown(Vec::new()));
    }
    if let Some(plan) = load(connection, wanted)? {
        return Ok(plan);
    }
    let newest = newest_names(connection, "")?;
    let named = match wanted {
        LATEST => newest.first().cloned().into_iter().collect(),
        _ if wanted.chars().count() >= PREFIX_CHARS_MIN => newest_names(connection, wanted)?,
        _ => Vec::new(),
    };
    match named.as_slice() {
        [name] => load(connection, name)?.ok_or_else(|| unknown(newest)),
        [] => Err(unknown(newest)),
        _ => Err(FindPlanError::Ambiguous { wanted: wanted.to_owned(), candidates: named }),
    }
}

/// The names that begin in a way, last saved first.
fn newest_names(connection: &Connection, prefix: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare(
        "SELECT plan_id FROM memfold_plans WHERE substr(plan_id, 1, length(?1)) = ?1
         ORDER BY saved_at DESC, rowid DESC LIMIT ?2",
    )?;
    statement.query_map(params![prefix, CANDIDATES_SHOWN], |row| row.get(0))?.collect()
}

/// Lists the plans, last saved first; nothing where there are no tables.
pub(crate) fn list(connection: &Connection) -> Result<Vec<PlanSummary>, FindPlanError> {
    if !has_tables(connection)? {
        return Ok(Vec::new());
    }
    let mut statement = connection.prepare(
        "SELECT plan_id, saved_at, now, plan_digest FROM memfold_plans
         ORDER BY saved_at DESC, rowid DESC",
    )?;
    let summaries = statement.query_map([], |row| {
        Ok(PlanSummary {
            plan_id: row.get(0)?,
            saved_at: row.get(1)?,
            now: row.get(2)?,
            plan_digest: row.get(3)?,
            types: BTreeMap::new(),
            states: BTreeMap::new(),
        })
    })?;
    let mut summaries = summaries.collect::<rusqlite::Result<Vec<_>>>()?;
    for summary in &mut summaries {
        count_actions(connection, summary)?;
    }
    Ok(summaries)
}

fn count_actions(connection: &Connection, summary: &mut PlanSummary) -> Result<(), FindPlanError> {
    let plan_id = summary.plan_id.clone();
    let mut statement = connection.prepare_cached(
        "SELECT type, state, count(*) AS many FROM memfold_actions
         WHERE plan_id = ?1 GROUP BY type, state",
    )?;
    let mut rows = statement.query([&plan_id])?;
    while let Some(row) = rows.next()? {
        let (name, state) = (text(row, "type", &plan_id)?, text(row, "state", &plan_id)?);
        let many: i64 = cell(row, "many", &plan_id)?;
        let action = ActionType::of_name(&name).ok_or_else(|| damaged(&plan_id, "type", &name))?;
        let state =
            ActionState::of_name(&state).ok_or_else(|| damaged(&plan_id, "state", &state))?;
        *summary.types.entry(action).or_default() += many.unsigned_abs();
        if action != ActionType::Noop {
            *summary.states.entry(state).or_default() += many.unsigned_abs();
        }
    }
    Ok(())
}

fn has_tables(connection: &Connection) -> rusqlite::Result<bool> {
    connection.query_row(
        "SELECT count(*) = 2 FROM sqlite_master
         WHERE type = 'table' AND name IN ('memfold_plans', 'memfold_actions')",
        [],
        |row| row.get(0),
    )
}

fn text(row: &Row<'_>, column: &'static str, plan_id: &str) -> Result<String, FindPlanError> {
    cell(row, column, plan_id)
}

/// A cell of the type that was written; anything else is damage.
fn cell<T: rusqlite::types::FromSql>(
    row: &Row<'_>,
    column: &'static str,
    plan_id: &str,
) -> Result<T, FindPlanError> {
    row.get(column).map_err(|error| damaged(plan_id, column, &error.to_string()))
}

fn parsed<T: DeserializeOwned>(
    row: &Row<'_>,
    column: &'static str,
    plan_id: &str,
) -> Result<T, FindPlanError> {
    parse(&text(row, column, plan_id)?, column, plan_id)
}

fn parse<T: DeserializeOwned>(
    json: &str,
    column: &'static str,
    plan_id: &str,
) -> Result<T, FindPlanError> {
    serde_json::from_str(json).map_err(|error| damaged(plan_id, column, &error.to_string()))
}

fn damaged(plan_id: &str, column: &'static str, reason: &str) -> FindPlanError {
    let (plan_id, reason) = (plan_id.to_owned(), reason.to_owned());
    FindPlanError::Damaged { plan_id, column, reason }
}
