//! Writing plans down, inside a transaction of the caller.

use std::collections::BTreeMap;
use std::ops::Range;

use rusqlite::{Connection, OptionalExtension as _, params};
use serde::Serialize;

use memfold_model::memory::MemoryId;
use memfold_plan::plan::{Action, ActionState, ActionType, Plan, plan_digest};

/// What becomes of an action, and through whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ActionUpdate<'a> {
    /// The new state.
    pub state: ActionState,
    /// The run that dealt with it.
    pub run_id: Option<&'a str>,
    /// The unit of that run.
    pub unit: Option<i64>,
    /// Why, in words.
    pub note: Option<&'a str>,
}

impl ActionUpdate<'_> {
    /// A state that no run brought about.
    #[must_use]
    pub const fn of(state: ActionState) -> Self {
        Self { state, run_id: None, unit: None, note: None }
    }
}

/// Saves the header of a plan whose actions are saved, which makes it one that can be found; a plan that is
/// there already is left as it is.
pub(crate) fn save_header(
    connection: &Connection,
    plan: &Plan,
    plan_id: &str,
    saved_at: &str,
) -> rusqlite::Result<()> {
    connection
        .execute(
            "INSERT OR IGNORE INTO memfold_plans(plan_id, plan_digest, store_id, schema_version,
                 config_hash, overrides, engine_version, now, saved_at)
             VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
            params![
                plan_id,
                plan_digest(plan),
                plan.store_id,
                plan.schema_version,
                plan.config_hash,
                json(&plan.overrides),
                plan.engine_version,
                plan.now,
                saved_at
            ],
        )
        .map(drop)
}

/// Saves some of a plan's actions as proposed; those that are there already are left as they are.
/// `access_counts` holds those of the memories to be promoted. Base digests of memories that no
/// change touches are not kept.
pub(crate) fn save_actions(
    connection: &Connection,
    (plan, plan_id): (&Plan, &str),
    positions: Range<usize>,
    access_counts: &BTreeMap<MemoryId, i64>,
) -> rusqlite::Result<()> {
    let mut insert = connection.prepare_cached(
        "INSERT OR IGNORE INTO memfold_actions(plan_id, position, type, risk, rule_id, state, body,
             base_digests, access_count)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?;
    for position in positions {
        let action = &plan.actions[position];
        let promoted = (action.action == ActionType::Promote).then(|| action.target_ids.first());
        insert.execute(params![
            plan_id,
            position as i64,
            action.action.name(),
            action.risk.name(),
            action.rationale.rule_id,
            ActionState::Proposed.name(),
            json(action),
            json(&base_digests(plan, action)),
            promoted.flatten().and_then(|id| access_counts.get(id)),
        ])?;
    }
    Ok(())
}

/// The base digests of the rows that an action touches.
fn base_digests<'a>(plan: &'a Plan, action: &'a Action) -> BTreeMap<&'a MemoryId, &'a String> {
    let targets = match action.action {
        ActionType::Noop => &[],
        _ => action.target_ids.as_slice(),
    };
    targets.iter().filter_map(|id| plan.base_digests.get_key_value(id)).collect()
}

/// Writes down what became of an action; replaces run, unit and note as well.
///
/// # Errors
/// When there is no such action, or SQLite refuses.
pub(crate) fn set_state(
    connection: &Connection,
    plan_id: &str,
    position: usize,
    update: &ActionUpdate<'_>,
) -> rusqlite::Result<()> {
    let ActionUpdate { state, run_id, unit, note } = update;
    let changed = connection.execute(
        "UPDATE memfold_actions SET state = ?3, run_id = ?4, unit = ?5, note = ?6
         WHERE plan_id = ?1 AND position = ?2",
        params![plan_id, position as i64, state.name(), run_id, unit, note],
    )?;
    one(changed)
}

/// Returns the name of an action's state; `None` where there is no such action.
pub(crate) fn state(
    connection: &Connection,
    plan_id: &str,
    position: usize,
) -> rusqlite::Result<Option<String>> {
    let sql = "SELECT state FROM memfold_actions WHERE plan_id = ?1 AND position = ?2";
    connection.query_row(sql, params![plan_id, position as i64], |row| row.get(0)).optional()
}

/// Returns what was noted of an action; `None` where nothing was, or there is no such action.
pub(crate) fn note(
    connection: &Connection,
    plan_id: &str,
    position: usize,
) -> rusqlite::Result<Option<String>> {
    let sql = "SELECT note FROM memfold_actions WHERE plan_id = ?1 AND position = ?2";
    let found = connection.query_row(sql, params![plan_id, position as i64], |row| row.get(0));
    Ok(found.optional()?.flatten())
}

/// Writes down how a person changed an action; `None` is as planned.
///
/// # Errors
/// When there is no such action, or SQLite refuses.
pub(crate) fn amend(
    connection: &Connection,
    plan_id: &str,
    position: usize,
    amended: Option<&Action>,
) -> rusqlite::Result<()> {
    let changed = connection.execute(
        "UPDATE memfold_actions SET amended = ?3 WHERE plan_id = ?1 AND position = ?2",
        params![plan_id, position as i64, amended.map(json)],
    )?;
    one(changed)
}

fn one(changed: usize) -> rusqlite::Result<()> {
    if changed == 1 { Ok(()) } else { Err(rusqlite::Error::StatementChangedRows(changed)) }
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("strings, numbers and maps with text keys")
}
