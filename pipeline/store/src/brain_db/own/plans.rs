//! Looking at saved plans without leaving a trace.

use std::collections::BTreeMap;
use std::ops::Range;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD_NO_PAD;
use rusqlite::{Connection, Row, params};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::brain_db::read::access::{Columns, all, cell0, cells2, first};
use crate::brain_db::read::open::BrainDb;
use crate::brain_db::write::session::{Session, Writes};
use crate::error::StoreError;
use memfold_core::memory::MemoryId;
use memfold_core::plan::{
    Action, ActionState, ActionType, Plan, PlanSummary, SavedAction, SavedPlan, plan_digest,
    plan_id,
};

impl BrainDb {
    /// Lists the saved plans, last saved first.
    ///
    /// # Errors
    /// When the store cannot be read, or a plan is damaged.
    pub fn plans(&self) -> Result<Vec<PlanSummary>, StoreError> {
        self.look_on(|reads| reads.plans())
    }

    /// Finds a saved plan by its name, the first four or more characters of its name, or `latest`.
    ///
    /// # Errors
    /// When the store cannot be read, no plan or more than one matches, or it is damaged.
    pub fn plan(&self, wanted: &str) -> Result<SavedPlan, StoreError> {
        self.look_on(|reads| reads.plan(wanted))
    }
}

/// A plan may hold a hundred thousand actions; others must not wait for all of them.
const ACTIONS_AT_ONCE: usize = 500;
const PAUSE: Duration = Duration::from_millis(5);

impl Session {
    /// Saves a plan for review; an existing one is left as it is. Returns its id.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn save_plan(
        &self,
        plan: &Plan,
        access_counts: &BTreeMap<MemoryId, i64>,
        at: &str,
    ) -> Result<String, StoreError> {
        self.prepare(at)?;
        let plan_id = plan_id(plan);
        if self.read(|reads| reads.plan_exists(&plan_id))? {
            return Ok(plan_id);
        }
        for start in (0..plan.actions.len()).step_by(ACTIONS_AT_ONCE) {
            let positions = start..plan.actions.len().min(start + ACTIONS_AT_ONCE);
            self.write(|writes| {
                writes.query("save the plan", |connection| {
                    save_actions(connection, plan, plan_id.as_str(), positions, access_counts)
                })
            })?;
            std::thread::sleep(PAUSE);
        }
        self.write(|writes| writes.query("save the plan", |c| save_header(c, plan, &plan_id, at)))?;
        Ok(plan_id)
    }

    /// Reads a saved plan by its id, the beginning of it, or `latest`.
    ///
    /// # Errors
    /// When no plan or several begin that way, or the stored plan is invalid.
    pub fn plan(&self, name: &str) -> Result<SavedPlan, StoreError> {
        self.read(|reads| reads.plan(name))
    }

    /// Records that a person approves or rejects actions, or reopens them (proposed): all or none.
    ///
    /// # Errors
    /// When one was applied meanwhile, or the store cannot be written.
    pub fn decide(
        &self,
        plan_id: &str,
        positions: &[usize],
        state: ActionState,
    ) -> Result<(), StoreError> {
        let update = ActionUpdate::of(state);
        self.write(|writes| {
            for position in positions {
                writes.check_undecided(plan_id, *position)?;
                writes.set_action_state(plan_id, *position, &update)?;
            }
            Ok(())
        })
    }

    /// Records a person's change of an action; `None` restores the planned one.
    ///
    /// # Errors
    /// When the action was applied meanwhile, or the store cannot be written.
    pub fn amend(
        &self,
        plan_id: &str,
        position: usize,
        amended: Option<&Action>,
    ) -> Result<(), StoreError> {
        self.write(|writes| {
            writes.check_undecided(plan_id, position)?;
            writes.amend(plan_id, position, amended)
        })
    }
}

impl Writes<'_> {
    /// Records the new state of an action; replaces run, unit and note as well.
    ///
    /// # Errors
    /// When the action does not exist, or the store cannot be written.
    pub fn set_action_state(
        &self,
        plan_id: &str,
        position: usize,
        update: &ActionUpdate<'_>,
    ) -> Result<(), StoreError> {
        let ActionUpdate { state, run_id, unit, note } = update;
        let sql = "UPDATE memfold_actions SET state = ?3, run_id = ?4, unit = ?5, note = ?6
                   WHERE plan_id = ?1 AND position = ?2";
        let row = params![plan_id, position as i64, state.name(), run_id, unit, note];
        self.change_one("write down what became of an action", sql, row)
    }

    /// Returns the note of an action; `None` where it has none, or the action does not exist.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn action_note(
        &self,
        plan_id: &str,
        position: usize,
    ) -> Result<Option<String>, StoreError> {
        let sql = "SELECT note FROM memfold_actions WHERE plan_id = ?1 AND position = ?2";
        let found = self.first("read an action", sql, (plan_id, position as i64), cell0);
        Ok(found?.flatten())
    }

    /// Records a person's change of an action; `None` restores the planned one.
    fn amend(
        &self,
        plan_id: &str,
        position: usize,
        amended: Option<&Action>,
    ) -> Result<(), StoreError> {
        let sql = "UPDATE memfold_actions SET amended = ?3 WHERE plan_id = ?1 AND position = ?2";
        let row = params![plan_id, position as i64, amended.map(json)];
        self.change_one("write down an amendment", sql, row)
    }

    /// Refuses an action that is gone, or was applied.
    ///
    /// # Errors
    /// Where that is so, or the store cannot be read.
    pub fn check_undecided(&self, plan_id: &str, position: usize) -> Result<(), StoreError> {
        let sql = "SELECT state FROM memfold_actions WHERE plan_id = ?1 AND position = ?2";
        let found = self.first("read an action", sql, (plan_id, position as i64), cell0::<String>);
        let reason = match found?.as_deref().map(ActionState::of_name) {
            None => "it is gone".to_owned(),
            Some(Some(state @ (ActionState::Applied | ActionState::Undone))) => {
                format!("it is {} meanwhile", state.name())
            }
            Some(_) => return Ok(()),
        };
        Err(StoreError::Refused { what: "write down a decision", reason })
    }
}

/// The step that fails where plans cannot be read.
const READ: &str = "read the saved plans";

/// The word for the plan that was saved last.
const LATEST: &str = "latest";

/// Characters of a name that may stand for the whole.
const PREFIX_CHARS_MIN: usize = 4;

/// Names listed in an error.
const CANDIDATES_SHOWN: u32 = 5;

impl Writes<'_> {
    /// Tells whether a plan was saved.
    fn plan_exists(&self, plan_id: &str) -> Result<bool, StoreError> {
        self.exists(READ, "SELECT 1 FROM memfold_plans WHERE plan_id = ?1", [plan_id])
    }

    /// Finds a plan by its name, the beginning of its name or `latest`.
    fn plan(&self, wanted: &str) -> Result<SavedPlan, StoreError> {
        let unknown =
            |candidates| StoreError::UnknownPlan { wanted: wanted.to_owned(), candidates };
        if !self.query(READ, has_tables)? {
            return Err(unknown(Vec::new()));
        }
        if let Some(plan) = self.load_plan(wanted)? {
            return Ok(plan);
        }
        let newest = self.newest_plans("")?;
        let named = match wanted {
            LATEST => newest.first().cloned().into_iter().collect(),
            _ if wanted.chars().count() >= PREFIX_CHARS_MIN => self.newest_plans(wanted)?,
            _ => Vec::new(),
        };
        match named.as_slice() {
            [name] => self.load_plan(name)?.ok_or_else(|| unknown(newest)),
            [] => Err(unknown(newest)),
            _ => Err(StoreError::AmbiguousPlan { wanted: wanted.to_owned(), candidates: named }),
        }
    }

    /// The names that begin in a way, last saved first.
    fn newest_plans(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        let sql = "SELECT plan_id FROM memfold_plans WHERE substr(plan_id, 1, length(?1)) = ?1
                   ORDER BY rowid DESC LIMIT ?2";
        self.all(READ, sql, params![prefix, CANDIDATES_SHOWN], cell0)
    }

    /// Loads a plan by its whole name; `None` where there is none.
    fn load_plan(&self, plan_id: &str) -> Result<Option<SavedPlan>, StoreError> {
        let sql = "SELECT schema_version, store_id, config_hash, overrides, engine_version, now,
                       plan_digest, saved_at
                   FROM memfold_plans WHERE plan_id = ?1";
        let header = self.first(READ, sql, [plan_id], |row| Ok(header(row, plan_id)))?;
        let Some(header) = header else { return Ok(None) };
        let mut saved = header?;
        let forms = self.query(READ, forms)?;
        let sql =
            "SELECT position, body, amended, state, base_digests, access_count, run_id, unit, note
                   FROM memfold_actions WHERE plan_id = ?1 ORDER BY position";
        let read = |row: &Row<'_>| {
            let digests = parsed::<Digests>(row, "base_digests", plan_id);
            Ok(saved_action(row, plan_id, &forms).and_then(|action| Ok((action, digests?))))
        };
        for action in self.all::<_, Vec<_>>(READ, sql, [plan_id], read)? {
            let (action, digests) = action?;
            saved.plan.base_digests.extend(digests.of(&action.action));
            saved.plan.actions.push(action.action.clone());
            saved.actions.push(action);
        }
        Ok(Some(saved))
    }

    /// Lists the plans, last saved first; nothing where there are no tables.
    fn plans(&self) -> Result<Vec<PlanSummary>, StoreError> {
        if !self.query(READ, has_tables)? {
            return Ok(Vec::new());
        }
        let sql =
            "SELECT plan_id, saved_at, now, plan_digest FROM memfold_plans ORDER BY rowid DESC";
        let mut summaries: Vec<PlanSummary> = self.all(READ, sql, [], |row| {
            Ok(PlanSummary {
                plan_id: row.get(0)?,
                saved_at: row.get(1)?,
                now: row.get(2)?,
                plan_digest: row.get(3)?,
                types: BTreeMap::new(),
                states: BTreeMap::new(),
            })
        })?;
        let sql = "SELECT type, state, count(*) AS many FROM memfold_actions
                   WHERE plan_id = ?1 GROUP BY type, state";
        for summary in &mut summaries {
            let plan_id = summary.plan_id.as_str();
            let counts: Vec<_> = self.all(READ, sql, [plan_id], |row| Ok(counted(row, plan_id)))?;
            for count in counts {
                let (action, state, many) = count?;
                *summary.types.entry(action).or_default() += many;
                if action != ActionType::Noop {
                    *summary.states.entry(state).or_default() += many;
                }
            }
        }
        Ok(summaries)
    }
}

fn header(row: &Row<'_>, plan_id: &str) -> Result<SavedPlan, StoreError> {
    let text = |column| cell(row, column, plan_id);
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

fn saved_action(
    row: &Row<'_>,
    plan_id: &str,
    forms: &BTreeMap<i64, Value>,
) -> Result<SavedAction, StoreError> {
    let position: i64 = cell(row, "position", plan_id)?;
    let amended: Option<String> = cell(row, "amended", plan_id)?;
    let state: String = cell(row, "state", plan_id)?;
    let amended = amended.map(|json| parse(&json, "amended", plan_id)).transpose()?;
    Ok(SavedAction {
        position: usize::try_from(position)
            .map_err(|_| damaged(plan_id, "position", &position.to_string()))?,
        action: body(&cell::<String>(row, "body", plan_id)?, forms)
            .map_err(|error| damaged(plan_id, "body", &error.to_string()))?,
        amended,
        state: ActionState::of_name(&state).ok_or_else(|| damaged(plan_id, "state", &state))?,
        access_count: cell(row, "access_count", plan_id)?,
        run_id: cell(row, "run_id", plan_id)?,
        unit: cell(row, "unit", plan_id)?,
        note: cell(row, "note", plan_id)?,
    })
}

/// Reads how many actions of a type are in a state.
fn counted(row: &Row<'_>, plan_id: &str) -> Result<(ActionType, ActionState, u64), StoreError> {
    let (name, state): (String, String) =
        (cell(row, "type", plan_id)?, cell(row, "state", plan_id)?);
    let action = ActionType::of_name(&name).ok_or_else(|| damaged(plan_id, "type", &name))?;
    let state = ActionState::of_name(&state).ok_or_else(|| damaged(plan_id, "state", &state))?;
    Ok((action, state, cell::<i64>(row, "many", plan_id)?.unsigned_abs()))
}

fn has_tables(connection: &Connection) -> rusqlite::Result<bool> {
    let sql = "SELECT count(*) = 2 FROM sqlite_master
               WHERE type = 'table' AND name IN ('memfold_plans', 'memfold_actions')";
    connection.query_row(sql, [], cell0)
}

/// A cell of the type that was written; anything else is damage.
fn cell<T: rusqlite::types::FromSql>(
    row: &Row<'_>,
    column: &'static str,
    plan_id: &str,
) -> Result<T, StoreError> {
    row.get(column).map_err(|error| damaged(plan_id, column, &error.to_string()))
}

fn parsed<T: DeserializeOwned>(
    row: &Row<'_>,
    column: &'static str,
    plan_id: &str,
) -> Result<T, StoreError> {
    parse(&cell::<String>(row, column, plan_id)?, column, plan_id)
}

fn parse<T: DeserializeOwned>(
    json: &str,
    column: &'static str,
    plan_id: &str,
) -> Result<T, StoreError> {
    serde_json::from_str(json).map_err(|error| damaged(plan_id, column, &error.to_string()))
}

fn damaged(plan_id: &str, column: &'static str, reason: &str) -> StoreError {
    let (plan_id, reason) = (plan_id.to_owned(), reason.to_owned());
    StoreError::DamagedPlan { plan_id, column, reason }
}

/// The new state of an action, and its cause.
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

/// Saves the header of a plan after its actions, which makes the plan visible; an existing plan is
/// left as it is.
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

/// Saves some of a plan's actions as proposed; existing ones are left as they are. `access_counts`
/// holds the counts of the memories to be promoted. Base digests of memories that no change touches
/// are not kept.
pub(crate) fn save_actions(
    connection: &Connection,
    plan: &Plan,
    plan_id: &str,
    positions: Range<usize>,
    access_counts: &BTreeMap<MemoryId, i64>,
) -> rusqlite::Result<()> {
    let mut insert = connection.prepare_cached(
        "INSERT OR IGNORE INTO memfold_actions(plan_id, position, type, risk, rule_id, state, body,
             base_digests, access_count)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9)",
    )?;
    let bodies = bodies(connection, &plan.actions[positions.clone()])?;
    for (position, body) in positions.zip(bodies) {
        let action = &plan.actions[position];
        let promoted = (action.action == ActionType::Promote).then(|| action.target_ids.first());
        insert.execute(params![
            plan_id,
            position as i64,
            action.action.name(),
            action.risk.name(),
            action.rationale.rule_id,
            ActionState::Proposed.name(),
            body,
            json(&Digests::for_action(plan, action)),
            promoted.flatten().and_then(|id| access_counts.get(id)),
        ])?;
    }
    Ok(())
}

/// The base digests of the rows that an action touches.
#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum Digests {
    /// In the order of the memories that the action rests on: 32 bytes each, in base64.
    InOrder(Vec<String>),
    /// As they are in the plan.
    ById(BTreeMap<MemoryId, String>),
}

impl Digests {
    fn for_action(plan: &Plan, action: &Action) -> Self {
        if action.action == ActionType::Noop {
            return Self::ById(BTreeMap::new());
        }
        let known: Vec<Option<(&MemoryId, &String)>> =
            action.rests_on().map(|id| plan.base_digests.get_key_value(id)).collect();
        let packed = known.iter().map(|known| known.and_then(|(_, digest)| packed(digest)));
        match packed.collect::<Option<Vec<_>>>() {
            Some(packed) => Self::InOrder(packed),
            None => {
                let known = known.into_iter().flatten();
                Self::ById(known.map(|(id, digest)| (id.clone(), digest.clone())).collect())
            }
        }
    }

    fn of(self, action: &Action) -> BTreeMap<MemoryId, String> {
        match self {
            Self::InOrder(packed) => {
                let digests = action.rests_on().cloned().zip(packed);
                digests.map(|(id, packed)| (id, unpacked(&packed))).collect()
            }
            Self::ById(digests) => digests,
        }
    }
}

/// Returns the 64 hexadecimal digits of a digest as 43 letters of base64; `None` where it has another form.
pub(crate) fn packed(digest: &str) -> Option<String> {
    let is_digest = digest.len() == 64
        && digest.bytes().all(|b| b.is_ascii_digit() || (b'a'..=b'f').contains(&b));
    is_digest.then(|| {
        let bytes = digest.as_bytes().chunks_exact(2).map(|pair| {
            let digit = |byte: u8| char::from(byte).to_digit(16).unwrap_or_default() as u8;
            digit(pair[0]) << 4 | digit(pair[1])
        });
        STANDARD_NO_PAD.encode(bytes.collect::<Vec<u8>>())
    })
}

/// Returns the original of a packed text; any other text is returned as it is.
pub(crate) fn unpacked(packed: &str) -> String {
    match STANDARD_NO_PAD.decode(packed) {
        Ok(bytes) if bytes.len() == 32 => {
            bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()
        }
        _ => packed.to_owned(),
    }
}

/// A form that fewer of the actions saved at once have would take more room than it saves.
const FORM_ACTIONS_MIN: usize = 4;
/// Fields with texts that are part of a form: merges by the same rule share them.
const COMMON_FIELDS: [&str; 5] = ["type", "risk", "ruleId", "reasons", "builtIn"];

/// Returns the JSON of actions. Parts that many merges have in common are kept once, in
/// `memfold_forms`.
///
/// Only merges that no judge proposed have forms: the texts of a form come from the rules and quote
/// no memory.
fn bodies(connection: &Connection, actions: &[Action]) -> rusqlite::Result<Vec<String>> {
    let formed = actions.iter().map(|action| {
        let is_by_rule = action.rationale.evidence.decided_by.is_none()
            && action.rationale.evidence.judgements.is_empty();
        let mut form = serde_json::to_value(action).unwrap_or_default();
        let mut values = Vec::new();
        (action.action == ActionType::Merge && is_by_rule).then(|| {
            take_values(&mut form, false, &mut values);
            (form.to_string(), values)
        })
    });
    let formed: Vec<Option<(String, Vec<Value>)>> = formed.collect();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for (form, _) in formed.iter().flatten() {
        *counts.entry(form).or_default() += 1;
    }
    let mut numbers: BTreeMap<&str, i64> = BTreeMap::new();
    for (form, _) in counts.into_iter().filter(|(_, count)| *count >= FORM_ACTIONS_MIN) {
        let insert = "INSERT OR IGNORE INTO memfold_forms(form) VALUES (?1)";
        connection.prepare_cached(insert)?.execute([form])?;
        let find = "SELECT id FROM memfold_forms WHERE form = ?1";
        numbers.extend(first(connection, find, [form], cell0)?.map(|number| (form, number)));
    }
    let body = |(action, formed): (&Action, &Option<(String, Vec<Value>)>)| match formed {
        Some((form, values)) if numbers.contains_key(form.as_str()) => {
            let number = Value::from(numbers[form.as_str()]);
            Value::from_iter(std::iter::once(&number).chain(values).cloned()).to_string()
        }
        _ => json(action),
    };
    Ok(actions.iter().zip(&formed).map(body).collect())
}

/// Replaces the values that differ between actions by `null`.
fn take_values(value: &mut Value, is_common: bool, values: &mut Vec<Value>) {
    match value {
        Value::Object(fields) => {
            for (name, field) in fields {
                take_values(field, COMMON_FIELDS.contains(&name.as_str()), values);
            }
        }
        Value::Array(items) => {
            items.iter_mut().for_each(|item| take_values(item, is_common, values));
        }
        Value::Bool(_) => {}
        Value::String(_) if is_common => {}
        Value::Null | Value::Number(_) | Value::String(_) => values.push(value.take()),
    }
}

/// Puts values in the place of each `null`; `None` where there are not as many.
fn put_values(form: &mut Value, values: &mut impl Iterator<Item = Value>) -> Option<()> {
    match form {
        Value::Null => *form = values.next()?,
        Value::Object(fields) => {
            fields.iter_mut().try_for_each(|(_, field)| put_values(field, values))?;
        }
        Value::Array(items) => items.iter_mut().try_for_each(|item| put_values(item, values))?,
        Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
    }
    Some(())
}

fn forms(connection: &Connection) -> rusqlite::Result<BTreeMap<i64, Value>> {
    if Columns::of(connection, "memfold_forms")?.is_empty() {
        return Ok(BTreeMap::new());
    }
    let rows: Vec<(i64, String)> =
        all(connection, "SELECT id, form FROM memfold_forms", [], cells2)?;
    let parsed = rows.into_iter().map(|(id, form)| Some((id, serde_json::from_str(&form).ok()?)));
    Ok(parsed.flatten().collect())
}

/// Reads an action written by [`bodies`].
fn body(json: &str, forms: &BTreeMap<i64, Value>) -> serde_json::Result<Action> {
    if !json.starts_with('[') {
        return serde_json::from_str(json);
    }
    let values: Vec<Value> = serde_json::from_str(json)?;
    let mut values = values.into_iter();
    let form = values.next().and_then(|number| forms.get(&number.as_i64()?));
    let mut filled = form.cloned().unwrap_or_default();
    let is_whole = put_values(&mut filled, &mut values).is_some() && values.next().is_none();
    serde_json::from_value(if is_whole { filled } else { Value::Null })
}

fn json(value: &impl Serialize) -> String {
    serde_json::to_string(value).expect("strings, numbers and maps with text keys")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::brain_db::own::tables::own_tables_in_memory as store;
    use memfold_core::plan::{Rationale, Risk, canonical_json};
    use proptest::prelude::*;
    use serde_json::{Map, json};

    fn writes(connection: &Connection) -> Writes<'_> {
        Writes::new(connection, std::path::Path::new("brain.db"))
    }

    fn action(action: ActionType, ids: &[&str]) -> Action {
        let ids = ids.iter().map(|id| MemoryId::new(*id)).collect();
        let action = Action::new(action, ids, Rationale::new("R", Vec::new()));
        Action { risk: Risk::Trivial, ..action }
    }

    fn plan_of(actions: Vec<Action>) -> Plan {
        let changes = actions.iter().filter(|action| action.action != ActionType::Noop);
        let ids = changes.flat_map(|action| action.target_ids.clone());
        Plan {
            schema_version: 1,
            store_id: "store".to_owned(),
            config_hash: "sha256:00".to_owned(),
            engine_version: "0".to_owned(),
            now: "2026-06-30T12:00:00Z".to_owned(),
            overrides: Map::new(),
            base_digests: ids.map(|id| (id, "0a".to_owned())).collect(),
            actions,
        }
    }

    /// A merge, a promotion and a noop.
    fn sample() -> Plan {
        plan_of(vec![
            action(ActionType::Merge, &["a", "b"]),
            action(ActionType::Promote, &["a"]),
            action(ActionType::Noop, &["c"]),
        ])
    }

    fn keep(connection: &Connection, plan: &Plan, saved_at: &str) -> String {
        let name = plan_id(plan);
        let counts = BTreeMap::from([(MemoryId::new("a"), 7)]);
        let all = 0..plan.actions.len();
        save_actions(connection, plan, &name, all, &counts).unwrap();
        assert!(
            writes(connection).plan_exists(&name).unwrap()
                || writes(connection).plan(&name).is_err()
        );
        save_header(connection, plan, &name, saved_at).unwrap();
        name
    }

    #[test]
    fn a_plan_is_saved_once() {
        let connection = store();
        let name = keep(&connection, &sample(), "t1");
        assert_eq!(name, plan_id(&sample()));
        writes(&connection)
            .set_action_state(&name, 0, &ActionUpdate::of(ActionState::Rejected))
            .unwrap();
        assert_eq!(keep(&connection, &sample(), "t2"), name);
        let saved = writes(&connection).load_plan(&name).unwrap().unwrap();
        assert_eq!(
            (saved.saved_at.as_str(), saved.actions[0].state),
            ("t1", ActionState::Rejected)
        );
        assert_eq!(saved.plan, sample());
        assert_eq!(saved.plan_digest, plan_digest(&sample()));
        let counts: Vec<_> = saved.actions.iter().map(|action| action.access_count).collect();
        assert_eq!(counts, [None, Some(7), None]);
        assert_eq!(saved.count(ActionState::Proposed), 1);
    }

    #[test]
    fn what_was_set_on_the_command_line_names_another_plan() {
        let connection = store();
        let mut plan = sample();
        plan.overrides.insert("rules.R2.min_similarity".to_owned(), json!(0.97));
        let name = keep(&connection, &plan, "t");
        assert_ne!(name, plan_id(&sample()));
        assert_eq!(plan_digest(&plan), plan_digest(&sample()));
        let saved = writes(&connection).load_plan(&name).unwrap().unwrap();
        assert_eq!(*saved.overrides(), plan.overrides);
    }

    #[test]
    fn states_and_amendments_are_kept() {
        let connection = store();
        let name = keep(&connection, &sample(), "t");
        let applied = ActionUpdate {
            state: ActionState::Applied,
            run_id: Some("run"),
            unit: Some(3),
            note: Some("why"),
        };
        writes(&connection).set_action_state(&name, 0, &applied).unwrap();
        let swapped = action(ActionType::Merge, &["b", "a"]);
        writes(&connection).amend(&name, 0, Some(&swapped)).unwrap();
        let saved = writes(&connection).load_plan(&name).unwrap().unwrap();
        let first = &saved.actions[0];
        assert_eq!((first.run_id.as_deref(), first.unit), (Some("run"), Some(3)));
        assert_eq!((first.note.as_deref(), first.label()), (Some("why"), "a1".to_owned()));
        assert_eq!((first.effective(), &first.action), (&swapped, &sample().actions[0]));
        assert_eq!(saved.plan, sample(), "the plan stays as it was made");
        writes(&connection)
            .set_action_state(&name, 0, &ActionUpdate::of(ActionState::Proposed))
            .unwrap();
        writes(&connection).amend(&name, 0, None).unwrap();
        let first = writes(&connection).load_plan(&name).unwrap().unwrap().actions.remove(0);
        assert_eq!((first.run_id, first.unit, first.note, first.amended), (None, None, None, None));
    }

    #[test]
    fn an_action_that_is_not_there_cannot_be_changed() {
        let connection = store();
        let name = keep(&connection, &sample(), "t");
        let update = ActionUpdate::of(ActionState::Approved);
        assert!(writes(&connection).set_action_state(&name, 3, &update).is_err());
        assert!(writes(&connection).set_action_state("p0", 0, &update).is_err());
        assert!(writes(&connection).amend(&name, 3, None).is_err());
    }

    #[test]
    fn plans_are_found_by_name_beginning_and_age() {
        let connection = store();
        // The clock was set back between them.
        let older = keep(&connection, &sample(), "2026-10-25T02:50:00");
        let newer = keep(&connection, &plan_of(Vec::new()), "2026-10-25T02:10:00");
        let found = |wanted: &str| writes(&connection).plan(wanted).map(|plan| plan.plan_id);
        assert_eq!(found(&older).unwrap(), older);
        assert_eq!(found(&older[..4]).unwrap(), older);
        assert_eq!(found("latest").unwrap(), newer);
        let unknown = found(&older[..3]).unwrap_err();
        assert_eq!(unknown.hint().unwrap(), format!("name one of {newer}, {older}, or latest"));
        let rename = "UPDATE memfold_plans SET plan_id = 'pabc' || substr(plan_id, 5)";
        connection.execute(rename, []).unwrap();
        let ambiguous = found("pabc").unwrap_err();
        assert_eq!(ambiguous.to_string(), "several saved plans begin with \"pabc\"");
        assert!(matches!(found("%___%"), Err(StoreError::UnknownPlan { .. })));
    }

    #[test]
    fn a_store_without_plans_says_how_to_save_one() {
        let none = Connection::open_in_memory().unwrap();
        for connection in [none, store()] {
            assert!(writes(&connection).plans().unwrap().is_empty());
            let unknown = writes(&connection).plan("p0");
            assert!(matches!(unknown, Err(StoreError::UnknownPlan { .. })));
            let hint = writes(&connection).plan("latest").unwrap_err().hint().unwrap();
            assert_eq!(hint, "save one first: memfold consolidate DB --save-plan");
        }
    }

    #[test]
    fn lists_count_by_type_and_state() {
        let connection = store();
        keep(&connection, &plan_of(Vec::new()), "2026-01-01");
        let name = keep(&connection, &sample(), "2026-01-02");
        writes(&connection)
            .set_action_state(&name, 1, &ActionUpdate::of(ActionState::Approved))
            .unwrap();
        let summaries = writes(&connection).plans().unwrap();
        assert_eq!(
            serde_json::to_value(&summaries[0]).unwrap(),
            json!({
                "plan_id": name,
                "saved_at": "2026-01-02",
                "now": "2026-06-30T12:00:00Z",
                "plan_digest": plan_digest(&sample()),
                "types": {"merge": 1, "promote": 1, "noop": 1},
                "states": {"proposed": 1, "approved": 1},
            })
        );
        assert!(summaries[1].types.is_empty() && summaries.len() == 2);
    }

    #[test]
    fn damage_is_named() {
        for (damage, said) in [
            ("UPDATE memfold_actions SET body = '{' WHERE position = 0", "body: EOF"),
            ("UPDATE memfold_actions SET body = '{}'", "body: missing field"),
            ("UPDATE memfold_actions SET body = x'ff'", "body: Invalid column type"),
            ("UPDATE memfold_actions SET amended = '[]'", "amended: "),
            ("UPDATE memfold_actions SET state = 'done'", "state: done"),
            ("UPDATE memfold_actions SET position = -1 WHERE position = 0", "position: -1"),
            ("UPDATE memfold_actions SET base_digests = '7'", "base_digests: "),
            ("UPDATE memfold_plans SET overrides = ''", "overrides: EOF"),
            ("UPDATE memfold_plans SET schema_version = 'x'", "schema_version: "),
        ] {
            let connection = store();
            let name = keep(&connection, &sample(), "t");
            connection.execute(damage, []).unwrap();
            let error = writes(&connection).load_plan(&name).unwrap_err();
            let expected = format!("saved plan {name} is damaged: {said}");
            assert!(error.to_string().starts_with(&expected), "{damage}: {error}");
            assert!(error.hint().is_some());
        }
        let connection = store();
        keep(&connection, &sample(), "t");
        connection.execute("UPDATE memfold_actions SET type = 'x'", []).unwrap();
        assert!(
            writes(&connection).plans().unwrap_err().to_string().ends_with("is damaged: type: x")
        );
    }

    prop_compose! {
        fn any_action()(
            kind in 0_usize..5,
            targets in prop::collection::vec(any::<String>(), 0..4),
            texts in prop::collection::vec(any::<String>(), 0..3),
            numbers in prop::array::uniform3(prop::option::of(prop::num::f64::NORMAL)),
            protected in any::<bool>(),
        ) -> Action {
            use ActionType::{Archive, FlagContradiction, Merge, Noop, Promote};
            let kind = [Merge, Promote, Archive, FlagContradiction, Noop][kind];
            let ids: Vec<&str> = targets.iter().map(String::as_str).collect();
            let mut action = action(kind, &ids);
            action.canonical_id = action.target_ids.first().cloned();
            action.survivor_protected = protected;
            action.new_content = texts.first().cloned();
            action.new_categories = (!texts.is_empty()).then(|| texts.clone());
            action.new_importance = numbers[0];
            action.rationale.score = numbers[1];
            action.rationale.reasons = texts.clone();
            action.rationale.evidence.similarity = numbers[2];
            action.rationale.evidence.differences = texts;
            action
        }
    }

    prop_compose! {
        fn any_plan()(
            actions in prop::collection::vec(any_action(), 0..6),
            texts in prop::array::uniform4(any::<String>()),
            number in prop::num::f64::NORMAL,
        ) -> Plan {
            let mut plan = plan_of(actions);
            for (position, digest) in plan.base_digests.values_mut().enumerate() {
                *digest = format!("{position}{}", texts[0]);
            }
            let [key, now, engine_version, store_id] = texts;
            plan.overrides = Map::from_iter([(key, Value::from(number))]);
            Plan { now, engine_version, store_id, ..plan }
        }
    }

    proptest! {
        #[test]
        fn plans_come_back_to_the_last_bit(plan in any_plan()) {
            let connection = store();
            let name = keep(&connection, &plan, "t");
            let loaded = writes(&connection).load_plan(&name).unwrap().unwrap().plan;
            let json = |plan: &Plan| canonical_json(serde_json::to_value(plan).unwrap());
            prop_assert_eq!(json(&loaded), json(&plan));
            prop_assert_eq!(plan_id(&loaded), name);
        }
    }

    /// The texts of a rule stood in the body of each of its merges, and digests as hexadecimal digits beside ids.
    #[test]
    fn what_many_merges_have_in_common_is_kept_once() {
        let merge = |number: usize| {
            let (survivor, other) = (format!("survivor {number}"), format!("other {number}"));
            let mut merge = action(ActionType::Merge, &[&survivor, &other]);
            merge.canonical_id = merge.target_ids.first().cloned();
            merge.rationale.reasons =
                vec!["similarity >= 0.85".to_owned(), "equal text".to_owned()];
            merge.rationale.evidence.similarity = Some(0.1 + number as f64 / 7.0);
            merge
        };
        let mut judged = merge(7);
        judged.rationale.evidence.decided_by = Some("a model".to_owned());
        let mut plan = plan_of((0..5).map(merge).chain([judged]).collect());
        for (position, digest) in plan.base_digests.values_mut().enumerate() {
            *digest = format!("{position:064x}");
        }
        let connection = store();
        let name = keep(&connection, &plan, "t");
        assert_eq!(writes(&connection).load_plan(&name).unwrap().unwrap().plan, plan);
        let sql = "SELECT body, base_digests FROM memfold_actions ORDER BY position";
        let mut statement = connection.prepare(sql).unwrap();
        let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
        let rows: Vec<(String, String)> = rows.collect::<rusqlite::Result<_>>().unwrap();
        for (body, digests) in &rows[..5] {
            assert!(body.starts_with("[1,") && !body.contains("equal text"), "{body}");
            assert!(digests.len() < 100, "{digests}");
        }
        assert!(rows[5].0.contains("equal text"), "what a model proposed has no form");
        connection.execute("DELETE FROM memfold_forms", []).unwrap();
        let error = writes(&connection).load_plan(&name).unwrap_err().to_string();
        assert!(error.starts_with(&format!("saved plan {name} is damaged: body: ")), "{error}");
    }
}
