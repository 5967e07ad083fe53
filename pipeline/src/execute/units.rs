//! Units of execution: what happens to one memory happens in one transaction.

use std::collections::BTreeMap;
use std::time::Duration;

use memfold_core::decisions::content_hash;
use memfold_core::journal::{Change, ColumnChange, RowImage, RowKey};
use memfold_core::memory::{Memory, MemoryId};
use memfold_core::plan::{
    Action, ActionState, ActionType, Evidence, Rationale, Risk, SavedAction, Values, action_label,
};
use memfold_core::policy::MergePolicy;
use memfold_core::time::Instant;
use memfold_core::value::Value;
use memfold_guard::{Guard, Verdict};
use memfold_store::brain_db::{
    Deed, Layout, Mark, Session, SessionError, UnitRecord, UnitRow, WaitingFlag, Writes, apply,
};
use serde_json::{Map, Value as Json, json};

use super::Selection;
use super::edits::{EditContext, Edited, edits};

/// Actions that are applied together or not at all: a merge and what follows for its survivor, or one
/// action alone.
#[derive(Debug, Clone, PartialEq)]
pub struct ExecutionUnit<'a> {
    /// The actions in plan order; a merge comes first.
    pub actions: Vec<&'a SavedAction>,
}

/// An action that cannot be applied without another one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Blocked {
    /// The action, by position.
    pub position: usize,
    /// What it needs, by position.
    pub needs: usize,
}

impl<'a> ExecutionUnit<'a> {
    /// Returns the labels of the actions, `a3+a9`.
    #[must_use]
    pub fn label(&self) -> String {
        let labels = self.actions.iter().map(|action| action_label(action.position));
        labels.collect::<Vec<_>>().join("+")
    }

    /// Returns the memories that the actions name, each once, survivors first.
    #[must_use]
    pub fn ids(&self) -> Vec<&'a MemoryId> {
        let mut seen = std::collections::BTreeSet::new();
        let ids = self.actions.iter().flat_map(|action| action.effective().rests_on());
        ids.filter(|id| seen.insert(*id)).collect()
    }
}

/// Groups the selected actions into units, in plan order.
pub(super) fn units<'a>(
    actions: &'a [SavedAction],
    selection: &Selection,
) -> (Vec<ExecutionUnit<'a>>, Vec<Blocked>) {
    let wanted = selection.wanted(actions);
    let merge_of = merges_by_survivor(actions);
    let mut units: Vec<ExecutionUnit<'a>> = Vec::new();
    let mut unit_of_merge: BTreeMap<usize, usize> = BTreeMap::new();
    let mut blocked = Vec::new();
    for action in actions.iter().filter(|action| wanted[action.position]) {
        let follows = follows_a_merge(action.effective())
            .and_then(|id| merge_of.get(id))
            .filter(|merge| merge.state != ActionState::Applied);
        match follows.map(|merge| (merge, unit_of_merge.get(&merge.position))) {
            Some((_, Some(&unit))) => units[unit].actions.push(action),
            Some((merge, None)) => {
                blocked.push(Blocked { position: action.position, needs: merge.position });
            }
            None => {
                unit_of_merge.insert(action.position, units.len());
                units.push(ExecutionUnit { actions: vec![action] });
            }
        }
    }
    (units, blocked)
}

/// The memory whose merge must come first: promotions and archivals rest on the values after it.
fn follows_a_merge(action: &Action) -> Option<&MemoryId> {
    match action.action {
        ActionType::Promote | ActionType::Archive => action.target_ids.first(),
        _ => None,
    }
}

fn merges_by_survivor(actions: &[SavedAction]) -> BTreeMap<&MemoryId, &SavedAction> {
    let merges = actions.iter().filter(|action| action.effective().action == ActionType::Merge);
    merges.filter_map(|merge| Some((merge.effective().target_ids.first()?, merge))).collect()
}

/// Columns that count, whose changes are differences.
const COUNTER: &str = "access_count";
const UPDATED_AT: &str = "updated_at";
/// Columns that readers change.
const ACCESSES: [&str; 2] = [COUNTER, "last_accessed"];

/// Rows as they are and as they shall be.
pub(crate) struct Draft<'a> {
    rows: BTreeMap<&'a MemoryId, Row<'a>>,
    /// Touched rows in the order in which they were first touched.
    order: Vec<&'a MemoryId>,
    /// What follows the changes of columns.
    rest: Vec<Change>,
}

struct Row<'a> {
    was: &'a UnitRow,
    is: RowImage,
    keeps_image: bool,
    is_touched: bool,
}

impl<'a> Draft<'a> {
    pub(crate) fn new(rows: &'a [UnitRow]) -> Self {
        let row = |was: &'a UnitRow| {
            (&was.id, Row { was, is: was.image.clone(), keeps_image: false, is_touched: false })
        };
        Self { rows: rows.iter().map(row).collect(), order: Vec::new(), rest: Vec::new() }
    }

    /// Returns a row as it was read.
    pub(crate) fn was(&self, id: &MemoryId) -> Option<&'a UnitRow> {
        self.rows.get(id).map(|row| row.was)
    }

    /// Sets a column; does nothing where the store has none of this name.
    pub(crate) fn set(&mut self, id: &MemoryId, column: &str, value: Value) {
        let Some(row) = self.rows.get_mut(id).filter(|row| row.is.has(column)) else { return };
        if !std::mem::replace(&mut row.is_touched, true) {
            self.order.push(&row.was.id);
        }
        row.is.set(column, value);
    }

    /// Keeps the whole row in the journal, in case somebody deletes it later.
    pub(crate) fn keep_image(&mut self, id: &MemoryId) {
        if let Some(row) = self.rows.get_mut(id) {
            row.keeps_image = true;
        }
    }

    /// Adds a change that follows those of columns.
    pub(crate) fn then(&mut self, change: Change) {
        self.rest.push(change);
    }

    /// Returns all changes in order; rows that changed in more than their accesses get `updated_at`.
    pub(crate) fn into_changes(mut self, at: &str) -> Vec<Change> {
        let order = std::mem::take(&mut self.order);
        let mut changes = Vec::new();
        for id in order {
            let Some(row) = self.rows.get_mut(id) else { continue };
            if row.is == row.was.image {
                continue;
            }
            let is_access = |change: &ColumnChange| {
                ACCESSES.iter().any(|column| change.column.eq_ignore_ascii_case(column))
            };
            if !differences(&row.was.image, &row.is).iter().all(is_access) {
                row.is.set(UPDATED_AT, at.into());
            }
            let columns = differences(&row.was.image, &row.is);
            let image = row.keeps_image.then(|| row.was.image.clone());
            changes.push(Change::Set { row: RowKey::memory(id.as_str()), columns, image });
        }
        changes.append(&mut self.rest);
        changes
    }
}

fn differences(was: &RowImage, is: &RowImage) -> Vec<ColumnChange> {
    was.cells
        .iter()
        .zip(&is.cells)
        .filter(|((_, before), (_, after))| before != after)
        .map(|((column, before), (_, after))| ColumnChange {
            column: column.clone(),
            before: before.clone(),
            after: after.clone(),
            delta: column.eq_ignore_ascii_case(COUNTER).then(|| delta(before, after)),
        })
        .collect()
}

fn delta(before: &Value, after: &Value) -> i64 {
    let count = |value: &Value| value.borrow().count().unwrap_or(0);
    count(after).saturating_sub(count(before))
}

/// An action on memories, of a rule.
pub(crate) fn action_of(
    action: ActionType,
    target_ids: Vec<MemoryId>,
    rule_id: &str,
    reasons: Vec<String>,
    score: Option<f64>,
    evidence: Evidence,
) -> Action {
    Action {
        action,
        target_ids,
        canonical_id: None,
        survivor_protected: false,
        new_content: None,
        summary: None,
        new_categories: None,
        new_importance: None,
        risk: Risk::Identical,
        rationale: Rationale { rule_id: rule_id.to_owned(), score, reasons, evidence },
    }
}

/// Folds one memory into another; the survivor takes over what merges take over.
pub(crate) fn merge_of_two(
    survivor: &Memory,
    absorbed: &Memory,
    policy: &MergePolicy,
    rule_id: &str,
    reason: &str,
    evidence: Evidence,
) -> Action {
    let values = Values::merged(survivor, [absorbed], policy);
    let ids = vec![survivor.id.clone(), absorbed.id.clone()];
    Action {
        canonical_id: Some(survivor.id.clone()),
        new_categories: values.new_categories(survivor),
        new_importance: values.new_importance(survivor),
        risk: memfold_core::plan::risk(&survivor.content, &absorbed.content, true),
        ..action_of(ActionType::Merge, ids, rule_id, vec![reason.to_owned()], None, evidence)
    }
}

/// Carries out an action and further changes as one unit of a run. Returns why a memory was not moved away, though
/// that was wanted.
pub(crate) fn carry_out_alone(
    writes: &Writes<'_>,
    layout: &Layout,
    context: EditContext<'_>,
    unit: i64,
    label: &'static str,
    action: Action,
    rows: &[UnitRow],
    further: Vec<Change>,
) -> Result<Option<String>, SessionError> {
    let (kind, ids) = (action.action, action.target_ids.clone());
    let Edited { mut changes, kept } = changes_of(action, rows, (writes, layout), context)?;
    changes.extend(further);
    let mark = Mark { run_id: context.run_id, unit, at: context.at };
    write_unit(writes, layout, &mark, label, kind, ids, &changes, rows)?;
    Ok(kept.first().map(|(_, reason)| kept_note(kept.len() as u64, reason)))
}

/// Returns the changes that carry out an action.
pub(crate) fn changes_of(
    action: Action,
    rows: &[UnitRow],
    store: (&Writes<'_>, &Layout),
    context: EditContext<'_>,
) -> Result<Edited, SessionError> {
    let saved = SavedAction {
        position: 0,
        action,
        amended: None,
        state: ActionState::Proposed,
        access_count: None,
        run_id: None,
        unit: None,
        note: None,
    };
    edits(&[&saved], rows, store, context)
}

/// Carries out changes as one unit of a run and writes them down.
pub(crate) fn write_unit(
    writes: &Writes<'_>,
    layout: &Layout,
    mark: &Mark<'_>,
    label: &str,
    action: ActionType,
    ids: Vec<MemoryId>,
    changes: &[Change],
    rows: &[UnitRow],
) -> Result<(), SessionError> {
    apply(writes, layout, mark, changes)?;
    let mut digests = BTreeMap::new();
    for row in rows {
        let after = writes.memory(layout, &row.id)?;
        let digest = after.map_or_else(String::new, |row| row.digest.to_string());
        digests.insert(row.id.clone(), digest);
    }
    let record = UnitRecord {
        run_id: mark.run_id.to_owned(),
        unit: mark.unit,
        undone_by: None,
        is_applied: true,
        plan_id: None,
        deeds: vec![Deed { label: label.to_owned(), position: 0, action, ids, by: None }],
        reverts: None,
        digests,
    };
    writes.insert_unit(&record, mark.at)
}

/// The run's time moved on by what has passed since it began: it shows that the run is alive.
pub(super) fn heartbeat(now: Instant, clock: &dyn Fn() -> f64, started: f64) -> Instant {
    Instant(now.0.saturating_add(((clock() - started) * 1e6) as i64))
}

/// Units in one transaction, at most; a clock may stand still.
const UNITS_AT_ONCE: usize = 256;
/// How long a transaction goes on to the next unit while nobody else is seen to write.
const HELD_ALONE: f64 = 0.05;
/// The same beside other writers.
const HELD_BESIDE: f64 = 0.005;
/// Between two transactions. SQLite shows no waiters, so the gap is always left.
const GAP_ALONE: Duration = Duration::from_millis(5);
/// Others wait for the store by trying again after pauses that grow to 100 ms. With three moments of four theirs, hardly
/// any of them waits for long.
const GAP_BESIDE: Duration = Duration::from_millis(20);
/// So many transactions after another writer was seen, there is none.
const REMEMBERED: u32 = 100;

/// How long transactions last, and what others get between them.
#[derive(Debug, Default)]
pub(super) struct Pace {
    /// For so many transactions, others are expected.
    beside: u32,
    /// For so many units, each has its own transaction.
    alone: usize,
}

impl Pace {
    /// Units in the next transaction, at most.
    pub(super) const fn units_max(&self) -> usize {
        if self.alone > 0 { 1 } else { UNITS_AT_ONCE }
    }

    /// Seconds until the next transaction takes no further unit.
    pub(super) const fn seconds_max(&self) -> f64 {
        if self.beside > 0 { HELD_BESIDE } else { HELD_ALONE }
    }

    /// A unit brought down the transaction that it shared: tries the next ones one by one.
    pub(super) const fn separate(&mut self) {
        self.alone = UNITS_AT_ONCE;
    }

    /// Lets others at the store after a transaction of some units.
    pub(super) fn pause(&mut self, session: &Session, units: usize) -> Result<(), SessionError> {
        self.alone = self.alone.saturating_sub(units);
        self.beside =
            if session.met_others()? { REMEMBERED } else { self.beside.saturating_sub(1) };
        std::thread::sleep(if self.beside > 0 { GAP_BESIDE } else { GAP_ALONE });
        Ok(())
    }
}

/// What became of flags that were judged again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rejudged {
    /// The two speak of different things: nobody needs to look.
    pub closed: u64,
    /// The two contradict each other: a person should.
    pub contradictory: u64,
}

/// Judges the pairs that saves flagged as alike and that still stand as they were, by the present rules. Those of which a
/// side was merged, edited or deleted close by themselves.
///
/// # Errors
/// When the store cannot be written.
pub fn rejudge_flags(session: &Session, guard: &Guard) -> Result<Rejudged, SessionError> {
    let waiting = session.read(|reads| reads.near_flags())?;
    let mut rejudged = Rejudged::default();
    for flag in waiting {
        session.write(|writes| {
            let Some([left, right]) = texts(writes, &flag)? else { return Ok(()) };
            let judgement = guard.judge(&guard.read(&left), &guard.read(&right));
            match judgement.verdict {
                Verdict::Different => {
                    rejudged.closed += 1;
                    writes.close_flag(flag.id)
                }
                Verdict::Conflict => {
                    rejudged.contradictory += 1;
                    writes.flag_as_contradiction(flag.id, judgement.contradiction_score)
                }
                Verdict::Same | Verdict::Extends | Verdict::Undecided => Ok(()),
            }
        })?;
    }
    Ok(rejudged)
}

/// The texts of a flag's memories, where both are what they were.
fn texts(writes: &Writes<'_>, flag: &WaitingFlag) -> Result<Option<[String; 2]>, SessionError> {
    let layout = writes.layout()?;
    let mut texts = Vec::with_capacity(2);
    for (id, hash) in &flag.sides {
        let row = writes.memory(&layout, &memfold_core::memory::MemoryId::new(id.as_str()))?;
        let text = row.and_then(|row| Some(row.image.get("content")?.as_text()?.to_owned()));
        texts.extend(text.filter(|text| content_hash(text) == *hash));
    }
    Ok(<[String; 2]>::try_from(texts).ok())
}

/// Folded ids that a survivor lists, at most.
const LISTED_MAX: usize = 100;
/// A survivor's `source` stays within this, unless its own root is longer.
const SOURCE_BYTES_MAX: usize = 4096;

/// What a survivor says of itself.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Merged<'a> {
    /// All ever merged into it, latest last.
    pub(super) from: Vec<MemoryId>,
    /// How many they are.
    pub(super) count: u64,
    pub(super) run_id: &'a str,
    pub(super) at: &'a str,
    pub(super) root: &'a str,
}

/// Returns the source of a survivor: `consolidation:{…}` with the latest folded ids that fit.
pub(super) fn of_survivor(merged: &Merged<'_>) -> String {
    let mut from = &merged.from[merged.from.len().saturating_sub(LISTED_MAX)..];
    loop {
        let source = prefixed(
            "consolidation:",
            &[
                ("merged_from", json!(from)),
                ("merged_count", json!(merged.count)),
                ("run_id", json!(merged.run_id)),
                ("at", json!(merged.at)),
                ("previous_source", json!(merged.root)),
            ],
        );
        if source.len() <= SOURCE_BYTES_MAX || from.is_empty() {
            return source;
        }
        let excess = source.len() - SOURCE_BYTES_MAX;
        let shortest = from.iter().map(|id| id.as_str().len() + 4).max().unwrap_or(1);
        from = &from[excess.div_ceil(shortest).clamp(1, from.len())..];
    }
}

/// Returns the source of a row that was merged into another.
pub(super) fn of_absorbed(survivor: &MemoryId, run_id: &str, root: &str) -> String {
    prefixed(
        "archived:",
        &[
            ("merged_into", json!(survivor)),
            ("run_id", json!(run_id)),
            ("previous_source", json!(root)),
        ],
    )
}

/// Returns the source of a row that a rule archived.
pub(super) fn of_archived(rule_id: &str, run_id: &str, root: &str) -> String {
    prefixed(
        "archived:",
        &[("reason", json!(rule_id)), ("run_id", json!(run_id)), ("previous_source", json!(root))],
    )
}

fn prefixed(prefix: &str, fields: &[(&str, Json)]) -> String {
    let fields: Map<String, Json> =
        fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    format!("{prefix}{}", Json::Object(fields))
}

/// Says that archived memories stand where they stood, though they were to be moved away.
pub(crate) fn kept_note(count: u64, reason: &str) -> String {
    let memories = if count == 1 { "memory was" } else { "memories were" };
    format!("{count} {memories} archived in place, not moved to memfold_archive: {reason}")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(ids: usize, id_bytes: usize) -> String {
        let from = (0..ids).map(|i| MemoryId::new(format!("{i:0id_bytes$}"))).collect();
        let (run_id, at) = ("20260630T120000Z-00000000", "2026-06-30T12:00:00.000000");
        of_survivor(&Merged { from, count: ids as u64, run_id, at, root: "agent" })
    }

    #[test]
    fn a_survivor_lists_the_latest_that_fit() {
        for (ids, id_bytes, listed) in [(3, 16, 3), (250, 16, 100), (250, 60, 63), (3, 5000, 0)] {
            let source = source(ids, id_bytes);
            assert!(source.len() <= SOURCE_BYTES_MAX, "{ids} of {id_bytes}: {}", source.len());
            let json: Json = serde_json::from_str(&source["consolidation:".len()..]).unwrap();
            let from = json["merged_from"].as_array().unwrap();
            assert!(from.len() <= listed && from.len() + 8 > listed, "{}", from.len());
            if let Some(last) = from.last() {
                assert_eq!(*last, format!("{:0id_bytes$}", ids - 1));
            }
            assert_eq!(json["merged_count"], ids);
        }
    }

    #[test]
    fn an_absurdly_long_root_is_kept() {
        let root = "x".repeat(10_000);
        let merged =
            Merged { from: vec![MemoryId::new("a")], count: 1, run_id: "r", at: "t", root: &root };
        assert!(of_survivor(&merged).contains(&root));
    }
}
