//! A merge becomes writes: [`changes`] turns actions and the rows that they name into reversible changes.
//!
//! Runs, saves, settled flags and mirrored stores all write by this one way. Nothing here reads a store: the holder of
//! the transaction reads [`UnitRows`] first.

use std::collections::{BTreeMap, BTreeSet};

use jiff::tz::TimeZone;
use serde_json::{Map, Value as Json, json};

use crate::decisions::content_hash;
use crate::journal::{Change, ColumnChange, REFERENCE, Record, RowImage, RowKey, Table};
use crate::memory::{BaseDigest, Memory, MemoryId, named};
use crate::plan::{Action, ActionType, Evidence, Rationale, SETTLED, UPDATE, flag_key, risk};
use crate::policy::{Absorbed, FlagTarget, MergePolicy, Policy};
use crate::row::{RawMemory, RowFacts, categories_to_json, row_facts};
use crate::summary::{Confidence, Summary};
use crate::time::Instant;
use crate::value::Value;

/// A memory's row with its dependents.
#[derive(Debug, Clone, PartialEq)]
pub struct MemoryRow {
    /// Its id.
    pub id: MemoryId,
    /// Its row of the memory table.
    pub image: RowImage,
    /// Digest of the values a plan rests on.
    pub digest: BaseDigest,
    /// Whether it has an embedding of any kind.
    pub has_embedding: bool,
    /// Whether its text is searchable; `None` where that is not ours to keep.
    pub is_indexed: Option<bool>,
}

impl MemoryRow {
    fn content(&self) -> Option<&str> {
        self.image.get("content")?.as_text()
    }
}

/// The entry of a row in the search index.
#[derive(Debug, Clone, PartialEq)]
pub enum Words {
    /// Nothing, or it is not ours to keep.
    None,
    /// The text of the row now.
    Now,
    /// The earlier text of the row: the indexed columns.
    Earlier(RowImage),
    /// Something that cannot be named, so it cannot be removed either.
    Unknown,
}

/// An atom of the owner and the memory that it names as its source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reference {
    /// The atom's id.
    pub atom: String,
    /// The memory's id.
    pub memory: String,
}

/// The rows of a unit, and the knowledge of the store beside them.
#[derive(Debug, Clone, PartialEq)]
pub struct UnitRows {
    /// The rows.
    pub rows: Vec<MemoryRow>,
    /// The entries in the search index of the rows that [leave](leaving).
    pub words: BTreeMap<MemoryId, Words>,
    /// The owner's atoms that name a row that leaves, by atom.
    pub references: Vec<Reference>,
    /// Why memories are not moved out of the owner's tables, if anything forbids it.
    pub move_refusal: Option<String>,
    /// Whether the first of two memories is known to supersede the second.
    pub is_superseded: bool,
    /// The open flag of the two, if any.
    pub waiting_flag: Option<i64>,
}

/// The inputs of changes besides the rows.
#[derive(Clone, Copy)]
pub struct MergeContext<'a> {
    /// The values that merges take over.
    pub policy: &'a Policy,
    /// The zone of naive times.
    pub time_zone: &'a TimeZone,
    /// The run.
    pub run_id: &'a str,
    /// The run's time.
    pub now: Instant,
    /// The run's time as the owner writes times.
    pub at: &'a str,
}

/// One action of a unit.
#[derive(Debug, Clone, Copy)]
pub struct Step<'a> {
    /// The action.
    pub action: &'a Action,
    /// The access count at which a promotion is recorded; `None`: the row's.
    pub access_count: Option<i64>,
}

impl<'a> Step<'a> {
    /// An action that no plan recorded an access count for.
    #[must_use]
    pub const fn of(action: &'a Action) -> Self {
        Self { action, access_count: None }
    }
}

/// The changes of a unit.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct UnitChanges {
    /// In order.
    pub changes: Vec<Change>,
    /// Memories that were to be moved away and are marked in their table instead.
    pub kept: Vec<KeptInPlace>,
}

/// A memory that was to be moved away and is marked in its table instead.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeptInPlace {
    /// The memory.
    pub id: MemoryId,
    /// Why.
    pub reason: String,
}

/// A row that can no longer be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0} is no longer readable")]
pub struct UnreadableRow(pub MemoryId);

/// Returns the memories that leave the store's live rows by an action.
#[must_use]
pub fn leaving(action: &Action) -> &[MemoryId] {
    match action.action {
        ActionType::Merge | ActionType::ProposeMerge => action.merged_ids(),
        ActionType::Rewrite => &action.target_ids,
        ActionType::Summarize => action.summary.as_ref().map_or(&[], |summary| &summary.replaces),
        ActionType::Archive => action.target_ids.get(..1).unwrap_or_default(),
        ActionType::Promote
        | ActionType::FlagContradiction
        | ActionType::Supersede
        | ActionType::Noop => &[],
    }
}

/// Returns the changes by which a unit's actions are applied.
///
/// # Errors
/// When a row cannot be read.
pub fn changes(
    actions: &[Step<'_>],
    rows: &UnitRows,
    context: &MergeContext<'_>,
) -> Result<UnitChanges, UnreadableRow> {
    let mut unit = Unit::new(rows, context)?;
    for Step { action, access_count } in actions {
        match action.action {
            ActionType::Merge | ActionType::ProposeMerge => unit.merge(action),
            ActionType::Promote => unit.promote(action, *access_count),
            ActionType::Archive => unit.archive(action),
            ActionType::FlagContradiction => unit.flag(action),
            ActionType::Rewrite => unit.rewrite(action),
            ActionType::Summarize => unit.summarize(action),
            ActionType::Supersede => unit.supersede(action),
            ActionType::Noop => {}
        }
    }
    Ok(unit.into_changes())
}

/// Returns the changes by which the rows merge into another memory that says the same in another spelling and takes
/// nothing over.
///
/// # Errors
/// When a row cannot be read.
pub fn merge_variants(
    rows: &UnitRows,
    survivor: &MemoryId,
    context: &MergeContext<'_>,
) -> Result<Vec<Change>, UnreadableRow> {
    let mut unit = Unit::new(rows, context)?;
    for row in &rows.rows {
        match unit.how_it_leaves(&row.id, context.policy.merge.absorbed) {
            Leaving::Moves => unit.take_out(&row.id, Some(survivor)),
            Leaving::Stays(words) => unit.mark_merged(&row.id, survivor, words),
        }
    }
    Ok(unit.into_changes().changes)
}

/// Returns the change that gives a row other values, if it has these columns and any of them differs. `updated_at` follows
/// where more than its accesses changed.
#[must_use]
pub fn set_columns(row: &MemoryRow, values: &[(&str, Value)], at: &str) -> Option<Change> {
    let mut edited = EditedRow::new(row);
    for (column, value) in values {
        edited.is.set(column, value.clone());
    }
    edited.into_change(at)
}

/// Columns that count: their changes are differences.
const COUNTER: &str = "access_count";
const UPDATED_AT: &str = "updated_at";
/// Columns that readers change.
const ACCESSES: [&str; 2] = [COUNTER, "last_accessed"];

/// A row as it is and as it shall be.
struct EditedRow<'a> {
    was: &'a MemoryRow,
    is: RowImage,
    /// Whether the journal keeps the whole row, in case somebody deletes it later.
    keeps_image: bool,
}

impl<'a> EditedRow<'a> {
    fn new(was: &'a MemoryRow) -> Self {
        Self { was, is: was.image.clone(), keeps_image: false }
    }

    /// `None` where nothing changed.
    fn into_change(mut self, at: &str) -> Option<Change> {
        if self.is == self.was.image {
            return None;
        }
        let is_access = |change: &ColumnChange| {
            ACCESSES.iter().any(|column| change.column.eq_ignore_ascii_case(column))
        };
        if !differences(&self.was.image, &self.is).iter().all(is_access) {
            self.is.set(UPDATED_AT, at.into());
        }
        Some(Change::Set {
            row: RowKey::memory(self.was.id.as_str()),
            columns: differences(&self.was.image, &self.is),
            image: self.keeps_image.then(|| self.was.image.clone()),
        })
    }
}

fn differences(was: &RowImage, is: &RowImage) -> Vec<ColumnChange> {
    let count = |value: &Value| value.borrow().count().unwrap_or(0);
    was.cells
        .iter()
        .zip(&is.cells)
        .filter(|((_, before), (_, after))| before != after)
        .map(|((column, before), (_, after))| ColumnChange {
            column: column.clone(),
            before: before.clone(),
            after: after.clone(),
            delta: column
                .eq_ignore_ascii_case(COUNTER)
                .then(|| count(after).saturating_sub(count(before))),
        })
        .collect()
}

/// How an archived row leaves.
enum Leaving {
    /// It moves to the archive table.
    Moves,
    /// It is marked where it stands; of its searchable words.
    Stays(Words),
}

/// A row as it was before the unit.
struct ReadRow<'a> {
    row: &'a MemoryRow,
    /// Its provenance.
    facts: RowFacts,
    /// Where its changes stand, once it has any.
    edited: Option<usize>,
}

/// The changes of a unit, as they come together.
struct Unit<'a> {
    rows: &'a UnitRows,
    read: BTreeMap<&'a MemoryId, ReadRow<'a>>,
    context: &'a MergeContext<'a>,
    /// Rows with changed columns, in the order in which they first did.
    edited: Vec<EditedRow<'a>>,
    /// The consequences of the changes of columns.
    rest: Vec<Change>,
    kept: Vec<KeptInPlace>,
}

impl<'a> Unit<'a> {
    fn new(rows: &'a UnitRows, context: &'a MergeContext<'a>) -> Result<Self, UnreadableRow> {
        let read = |row: &'a MemoryRow| {
            let facts = row_facts(&RawMemory::from(&row.image), context.time_zone, context.now)
                .map_err(|_| UnreadableRow(row.id.clone()))?;
            Ok((&row.id, ReadRow { row, facts, edited: None }))
        };
        let read = rows.rows.iter().map(read).collect::<Result<_, _>>()?;
        let (edited, rest, kept) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { rows, read, context, edited, rest, kept })
    }

    fn into_changes(self) -> UnitChanges {
        let at = self.context.at;
        let edited = self.edited.into_iter().filter_map(|row| row.into_change(at));
        UnitChanges { changes: edited.chain(self.rest).collect(), kept: self.kept }
    }

    /// Returns a row as it was read.
    fn row(&self, id: &MemoryId) -> Option<&'a MemoryRow> {
        self.read.get(id).map(|read| read.row)
    }

    fn facts(&self, id: &MemoryId) -> Option<&RowFacts> {
        self.read.get(id).map(|read| &read.facts)
    }

    fn rows_of(&self, ids: &[MemoryId]) -> Vec<&'a MemoryRow> {
        ids.iter().filter_map(|id| self.row(id)).collect()
    }

    fn edit(&mut self, id: &MemoryId) -> Option<&mut EditedRow<'a>> {
        let read = self.read.get_mut(id)?;
        let at = *read.edited.get_or_insert_with(|| {
            self.edited.push(EditedRow::new(read.row));
            self.edited.len() - 1
        });
        Some(&mut self.edited[at])
    }

    /// Sets a column; does nothing where the store has none of this name.
    fn set(&mut self, id: &MemoryId, column: &str, value: Value) {
        if self.row(id).is_some_and(|row| row.image.has(column))
            && let Some(row) = self.edit(id)
        {
            row.is.set(column, value);
        }
    }

    fn access_count(&self, id: &MemoryId) -> i64 {
        self.facts(id).map_or(0, |facts| facts.access_count)
    }

    fn access_counts(&self, ids: &[MemoryId]) -> i64 {
        ids.iter().map(|id| self.access_count(id)).fold(0, i64::saturating_add)
    }

    fn expires_at(&self, id: &MemoryId) -> Option<Instant> {
        self.facts(id).and_then(|facts| facts.expires_at)
    }

    fn root_source(&self, id: &MemoryId) -> &str {
        self.facts(id).map_or("agent", |facts| &facts.root_source)
    }

    fn merge(&mut self, action: &Action) {
        let Some(survivor) = action.target_ids.first() else { return };
        if !action.survivor_protected {
            self.take_over(survivor, action);
        }
        if self.row(survivor).is_some_and(|row| row.is_indexed == Some(false)) {
            self.rest.push(Change::Index { id: survivor.to_string(), words: None });
        }
        if action.rationale.rule_id == SETTLED
            && let Some(flag) = self.flag_of(action)
        {
            self.rest.push(flag.of_action(action, "superseded", Value::Null));
        }
        self.merge_rows(action, action.merged_ids(), survivor);
    }

    /// Memories leave for a survivor.
    fn merge_rows(&mut self, action: &Action, merged: &[MemoryId], survivor: &MemoryId) {
        let wanted = self.context.policy.absorbed_by(&action.rationale.rule_id);
        let mut moved = BTreeSet::new();
        for merged in merged {
            match self.how_it_leaves(merged, wanted) {
                Leaving::Stays(words) => self.mark_merged(merged, survivor, words),
                Leaving::Moves => {
                    self.take_out(merged, Some(survivor));
                    moved.insert(merged.as_str());
                }
            }
            let Rationale { rule_id, reasons, evidence, .. } = &action.rationale;
            self.rest.push(lineage(
                merged,
                survivor,
                evidence.similarity,
                rule_id,
                &reasons.join("; "),
            ));
        }
        // The owner's atoms that learned from memories that moved away learned from the survivor from now on.
        let followed = self.rows.references.iter().filter(|it| moved.contains(&*it.memory));
        self.rest.extend(followed.map(|Reference { atom, memory }| {
            let row = RowKey { table: Table::Atoms, key: atom.clone() };
            let (before, after) = (memory.as_str().into(), survivor.as_str().into());
            Change::of_column(row, REFERENCE, before, after)
        }));
    }

    /// A new memory takes the place of its sources.
    fn rewrite(&mut self, action: &Action) {
        let Some(new) = self.put_in(action, &action.target_ids) else { return };
        self.consolidates(action, &new);
        self.merge_rows(action, &action.target_ids, &new);
    }

    /// A new memory summarises its sources, and takes the place of earlier summaries of them.
    fn summarize(&mut self, action: &Action) {
        let Some(summary) = action.summary.as_deref() else { return };
        let Some(new) = self.put_in(action, &summary.replaces) else { return };
        self.rest.push(summary_record(&new, &action.target_ids, summary));
        self.consolidates(action, &new);
        self.merge_rows(action, &summary.replaces, &new);
    }

    /// Puts in the memory that a model wrote, with the values it takes over from `merged`.
    fn put_in(&mut self, action: &Action, merged: &[MemoryId]) -> Option<MemoryId> {
        let (id, text) = (action.canonical_id.clone()?, action.new_content.as_deref()?);
        let rows = self.rows_of(merged);
        let root = match action.action {
            ActionType::Summarize => SUMMARY_SOURCE,
            _ => action.target_ids.first().map_or("agent", |id| self.root_source(id)),
        };
        let source = self.merged_source(None, &rows, root);
        let (at, categories) = (self.context.at, action.new_categories.clone().unwrap_or_default());
        let mut values: Vec<(&str, Value)> = vec![
            ("id", id.as_str().into()),
            ("content", text.into()),
            ("categories", categories_to_json(&categories).into()),
            ("importance", Value::Real(action.new_importance.unwrap_or(1.0))),
            ("access_count", Value::Integer(self.access_counts(merged))),
            ("created_at", at.into()),
            ("updated_at", at.into()),
            ("last_accessed", at.into()),
            ("source", source.into()),
            ("confidence", Value::Real(self.confidence(&action.target_ids))),
            ("validation_count", Value::Integer(0)),
            ("contradiction_count", Value::Integer(0)),
        ];
        values.extend(self.end_of_all(&rows).map(|end| ("expires_at", end)));
        self.rest.push(Change::PutIn { id: id.to_string(), image: Some(new_row(values)) });
        Some(id)
    }

    /// The largest confidence of some memories.
    fn confidence(&self, ids: &[MemoryId]) -> f64 {
        let stated = self.rows_of(ids).into_iter();
        let stated =
            stated.map(|row| row.image.value("confidence").number().unwrap_or(CONFIDENCE_UNSTATED));
        stated.fold(0.0, f64::max)
    }

    /// When the last of some memories expires; `None` where one of them never does.
    fn end_of_all(&self, rows: &[&MemoryRow]) -> Option<Value> {
        let ends: Option<Vec<_>> = rows
            .iter()
            .map(|row| Some((self.expires_at(&row.id)?, row.image.get("expires_at")?)))
            .collect();
        ends?.into_iter().max_by_key(|(end, _)| *end).map(|(_, value)| value.clone())
    }

    /// Notes that a new memory says the same as its sources.
    fn consolidates(&mut self, action: &Action, new: &MemoryId) {
        let reason = action.rationale.reasons.join("; ");
        let sources = action.target_ids.iter();
        let edge = |source| edge_record(new, source, "consolidates", &reason, None);
        self.rest.extend(sources.map(edge));
    }

    /// A memory holds in the place of an older one: an edge says so, and the pair's flag closes.
    fn supersede(&mut self, action: &Action) {
        let [newer, older] = &action.target_ids[..] else { return };
        if !self.rows.is_superseded {
            let reason = action.rationale.reasons.join("; ");
            let confidence = Some(Confidence::High);
            self.rest.push(edge_record(newer, older, SUPERSEDES, &reason, confidence));
        }
        let Some(flag) = self.flag_of(action) else { return };
        // Nobody needs to be asked again whether they say the same.
        let group = format!("{}/{}", self.context.run_id, flag.key);
        let rows = self.rows_of(&action.target_ids);
        self.rest.extend(kept_apart(rows, &group));
        self.rest.push(match self.rows.waiting_flag {
            Some(waiting) => settled_flag(waiting, "superseded"),
            None => flag.of_action(action, "superseded", Value::Null),
        });
    }

    /// Tells how a row leaves, and notes where that is not how it was wanted.
    fn how_it_leaves(&mut self, id: &MemoryId, wanted: Absorbed) -> Leaving {
        let words = self.rows.words.get(id).cloned().unwrap_or(Words::None);
        if wanted == Absorbed::Archive {
            return Leaving::Stays(words);
        }
        let reason = match (&self.rows.move_refusal, &words) {
            (Some(reason), _) => reason.clone(),
            (None, Words::Unknown) => "it is searchable by words that are not known".to_owned(),
            (None, _) => return Leaving::Moves,
        };
        self.kept.push(KeptInPlace { id: id.clone(), reason });
        Leaving::Stays(words)
    }

    fn take_out(&mut self, id: &MemoryId, survivor: Option<&MemoryId>) {
        let survivor = survivor.map(ToString::to_string);
        self.rest.push(Change::TakeOut { id: id.to_string(), survivor, said: None });
    }

    /// Gives a survivor the values it takes over from the rows that merge into it.
    fn take_over(&mut self, survivor: &MemoryId, action: &Action) {
        let Some(was) = self.row(survivor) else { return };
        let merged = self.rows_of(action.merged_ids());
        self.set_planned(survivor, action);
        let counts = self.access_counts(action.merged_ids());
        if counts != 0 {
            let sum = self.access_count(survivor).saturating_add(counts);
            self.set(survivor, "access_count", Value::Integer(sum));
        }
        if let Some(expires_at) = self.latest_end(was, &merged) {
            self.set(survivor, "expires_at", expires_at);
        }
        for column in ["confidence", "last_accessed"] {
            if let Some(value) = self.largest(column, was, &merged) {
                self.set(survivor, column, value);
            }
        }
        let source = self.merged_source(Some(survivor), &merged, self.root_source(survivor));
        self.set(survivor, "source", source.into());
    }

    /// Sets the planned categories and importance.
    fn set_planned(&mut self, id: &MemoryId, action: &Action) {
        if let Some(categories) = &action.new_categories {
            self.set(id, "categories", categories_to_json(categories).into());
        }
        if let Some(importance) = action.new_importance {
            self.set(id, "importance", Value::Real(importance));
        }
    }

    /// The end that counts for all: none beats any, else the latest. `None`: the survivor's own.
    fn latest_end(&self, survivor: &MemoryRow, merged: &[&MemoryRow]) -> Option<Value> {
        let own = self.expires_at(&survivor.id)?;
        let mut latest = (own, None);
        for row in merged {
            match self.expires_at(&row.id) {
                None => return Some(Value::Null),
                Some(other) if other > latest.0 => {
                    latest = (other, row.image.get("expires_at").cloned());
                }
                Some(_) => {}
            }
        }
        latest.1
    }

    /// The largest value of a column with its storage class, where that is not the survivor's.
    fn largest(&self, column: &str, survivor: &MemoryRow, merged: &[&MemoryRow]) -> Option<Value> {
        let size = |value: &Value| match column {
            "last_accessed" => {
                value.borrow().instant(self.context.time_zone).map(|instant| instant.0 as f64)
            }
            _ => value.borrow().number(),
        };
        let own = survivor.image.get(column)?;
        let others = merged.iter().filter_map(|row| row.image.get(column));
        let mut largest = (size(own), own);
        for value in others {
            let size = size(value);
            let is_larger = match (size, largest.0) {
                (Some(new), Some(old)) => new.total_cmp(&old).is_gt(),
                (Some(_), None) => true,
                (None, _) => false,
            };
            if is_larger {
                largest = (size, value);
            }
        }
        (largest.1 != own).then(|| largest.1.clone())
    }

    /// The source of a memory that `merged` merge into.
    fn merged_source(
        &self,
        survivor: Option<&MemoryId>,
        merged: &[&MemoryRow],
        root: &str,
    ) -> String {
        let mut source = MergedSource {
            from: Vec::new(),
            count: 0,
            run_id: self.context.run_id,
            at: self.context.at,
            root,
        };
        if let Some(facts) = survivor.and_then(|id| self.facts(id)) {
            source.from.clone_from(&facts.merged_from);
            source.count = facts.merged_count;
        }
        for row in merged {
            if let Some(facts) = self.facts(&row.id) {
                source.from.extend(facts.merged_from.iter().cloned());
                source.count = source.count.saturating_add(facts.merged_count);
            }
            source.from.push(row.id.clone());
            source.count = source.count.saturating_add(1);
        }
        source.to_text()
    }

    fn mark_merged(&mut self, id: &MemoryId, survivor: &MemoryId, words: Words) {
        let source = prefixed(
            "archived:",
            &[
                ("merged_into", json!(survivor)),
                ("run_id", json!(self.context.run_id)),
                ("previous_source", json!(self.root_source(id))),
            ],
        );
        let old = self.facts(id).map(|facts| &*facts.categories).unwrap_or_default();
        let old = old.iter().map(|category| format!("archive/{category}"));
        let categories: Vec<String> = std::iter::once("archived".to_owned()).chain(old).collect();
        self.mark_archived(id, &categories, source, words);
    }

    /// Marks a row as archived and makes it unsearchable, as far as its words are known.
    fn mark_archived(
        &mut self,
        id: &MemoryId,
        categories: &[String],
        source: String,
        words: Words,
    ) {
        self.set(id, "categories", categories_to_json(categories).into());
        self.set(id, "source", source.into());
        self.set(id, "archived_by", format!("memfold:{}", self.context.run_id).into());
        if let Some(row) = self.edit(id) {
            row.keeps_image = true;
        }
        let words = match words {
            Words::Now => None,
            Words::Earlier(words) => Some(words),
            Words::None | Words::Unknown => return,
        };
        self.rest.push(Change::Unindex { id: id.to_string(), words });
    }

    fn promote(&mut self, action: &Action, access_count: Option<i64>) {
        let Some(id) = action.target_ids.first() else { return };
        match self.put_in(action, &[]) {
            Some(copy) => {
                let own = self.facts(id).map(|facts| &*facts.categories).unwrap_or_default();
                let own = own.iter().map(ToString::to_string);
                let categories: Vec<String> =
                    own.chain([format!("{PROMOTED_TO}:{copy}")]).collect();
                self.set(id, "categories", categories_to_json(&categories).into());
            }
            None => self.set_planned(id, action),
        }
        let count = access_count.unwrap_or_else(|| self.access_count(id));
        let cells = vec![
            ("kind", "promoted".into()),
            ("memory_id", id.as_str().into()),
            ("access_count", Value::Integer(count)),
        ];
        self.rest.push(Change::Record(Record { table: Table::Decisions, cells }));
    }

    fn archive(&mut self, action: &Action) {
        let Some(id) = action.target_ids.first() else { return };
        let rule = &action.rationale.rule_id;
        match self.how_it_leaves(id, self.context.policy.absorbed_by(rule)) {
            Leaving::Moves => self.take_out(id, None),
            Leaving::Stays(words) => {
                let source = prefixed(
                    "archived:",
                    &[
                        ("reason", json!(rule)),
                        ("run_id", json!(self.context.run_id)),
                        ("previous_source", json!(self.root_source(id))),
                    ],
                );
                let categories = action.new_categories.clone().unwrap_or_default();
                self.mark_archived(id, &categories, source, words);
            }
        }
    }

    /// The flag of a pair as it was read.
    fn flag_of(&self, action: &Action) -> Option<PairFlag<'a>> {
        let [a, b] = &action.target_ids[..] else { return None };
        PairFlag::between([self.row(a)?, self.row(b)?])
    }

    fn flag(&mut self, action: &Action) {
        let Some(flag) = self.flag_of(action) else { return };
        let memory_id = match self.context.policy.flags.write_to {
            FlagTarget::Table => Value::Null,
            FlagTarget::Stm => {
                let row = flag.row(action, self.context.run_id, self.context.at);
                let id = row.get("id").cloned().unwrap_or(Value::Null);
                let text = id.as_text().unwrap_or_default().to_owned();
                self.rest.push(Change::PutIn { id: text, image: Some(row) });
                id
            }
        };
        self.rest.push(flag.of_action(action, "open", memory_id));
    }
}

/// The edge from a memory that holds to one that no longer does.
pub const SUPERSEDES: &str = "supersedes";
/// The attribute by which an original names its copy in a wider scope.
const PROMOTED_TO: &str = "promoted_to";
/// Where summaries come from: protection knows them by it.
const SUMMARY_SOURCE: &str = "memfold-summary";
/// How sure a memory counts that does not say how sure it is.
const CONFIDENCE_UNSTATED: f64 = 0.5;

fn new_row(values: Vec<(&str, Value)>) -> RowImage {
    let cells = values.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    RowImage { rowid: None, cells }
}

/// Returns the record that one memory merged into another.
#[must_use]
pub fn lineage(
    merged: &MemoryId,
    survivor: &MemoryId,
    similarity: Option<f64>,
    rule_id: &str,
    reasons: &str,
) -> Change {
    let cells = vec![
        ("absorbed_id", merged.as_str().into()),
        ("survivor_id", survivor.as_str().into()),
        ("similarity", similarity.map_or(Value::Null, Value::Real)),
        ("rule_id", rule_id.into()),
        ("reasons", reasons.into()),
    ];
    Change::Record(Record { table: Table::Lineage, cells })
}

fn edge_record(
    source: &MemoryId,
    target: &MemoryId,
    kind: &'static str,
    reason: &str,
    confidence: Option<Confidence>,
) -> Change {
    let cells = vec![
        ("source_id", source.as_str().into()),
        ("target_id", target.as_str().into()),
        ("type", kind.into()),
        ("weight", Value::Real(1.0)),
        ("reason", reason.into()),
        ("confidence", confidence.map_or(Value::Null, |it| it.name().into())),
    ];
    Change::Record(Record { table: Table::Edges, cells })
}

fn summary_record(memory_id: &MemoryId, sources: &[MemoryId], summary: &Summary) -> Change {
    let body = serde_json::to_string(summary).unwrap_or_default();
    let cells = vec![
        ("memory_id", memory_id.as_str().into()),
        ("sources", json!(sources).to_string().into()),
        ("body", body.into()),
    ];
    Change::Record(Record { table: Table::Summaries, cells })
}

named! {
    /// Why a pair waits.
    #[derive(serde::Serialize)]
    #[serde(rename_all = "snake_case")]
    pub enum FlagKind {
        /// The two contradict each other.
        Contradiction = "contradiction",
        /// The newer one holds another value in the same place.
        Update = "update",
        /// The two are alike, and a save did not merge them.
        Near = "near",
    }
}

impl FlagKind {
    /// Returns the kind of a stored name; a flag without one is of the first version.
    #[must_use]
    pub fn of_stored(name: Option<&str>) -> Self {
        name.and_then(Self::of_name).unwrap_or(Self::Contradiction)
    }

    fn of_evidence(evidence: &Evidence) -> Self {
        let is_update = evidence.contradiction_signals.first().is_some_and(|sign| sign == UPDATE);
        if is_update { Self::Update } else { Self::Contradiction }
    }
}

/// Returns the open flag of two memories that are alike and were not merged.
#[must_use]
pub fn near_flag(rows: [&MemoryRow; 2], evidence: &Evidence) -> Option<Change> {
    let flag = PairFlag::between(rows)?;
    Some(flag.record(FlagKind::Near, None, evidence, "open", Value::Null))
}

/// A pair, smaller id first, with the hashes of its texts.
struct PairFlag<'a> {
    ids: [&'a MemoryId; 2],
    hashes: [String; 2],
    key: String,
}

impl<'a> PairFlag<'a> {
    fn between([a, b]: [&'a MemoryRow; 2]) -> Option<Self> {
        let rows = if a.id < b.id { [a, b] } else { [b, a] };
        let hash = |row: &MemoryRow| Some(content_hash(row.content()?));
        let ids = rows.map(|row| &row.id);
        Some(Self { ids, hashes: [hash(rows[0])?, hash(rows[1])?], key: flag_key(ids[0], ids[1]) })
    }

    fn of_action(&self, action: &Action, state: &'static str, memory_id: Value) -> Change {
        let Rationale { score, evidence, .. } = &action.rationale;
        self.record(FlagKind::of_evidence(evidence), *score, evidence, state, memory_id)
    }

    fn record(
        &self,
        kind: FlagKind,
        score: Option<f64>,
        evidence: &Evidence,
        state: &'static str,
        memory_id: Value,
    ) -> Change {
        let json = |list: &[String]| Json::from(list.to_vec()).to_string().into();
        let number = |value: Option<f64>| value.map_or(Value::Null, Value::Real);
        let cells = vec![
            ("key", self.key.as_str().into()),
            ("kind", kind.name().into()),
            ("left_id", self.ids[0].as_str().into()),
            ("right_id", self.ids[1].as_str().into()),
            ("left_hash", self.hashes[0].as_str().into()),
            ("right_hash", self.hashes[1].as_str().into()),
            ("similarity", number(evidence.similarity)),
            ("score", number(score)),
            ("signals", json(&evidence.contradiction_signals)),
            ("differences", json(&evidence.differences)),
            ("memory_id", memory_id),
            ("state", state.into()),
        ];
        Change::Record(Record { table: Table::Flags, cells })
    }

    /// The row of the memory table that the owner's own consolidator would write.
    fn row(&self, action: &Action, run_id: &str, at: &str) -> RowImage {
        let evidence = &action.rationale.evidence;
        let content = json!({
            "type": "contradiction",
            "ids": self.ids,
            "evidence": {
                "similarity": evidence.similarity,
                "contradictionSignals": evidence.contradiction_signals,
                "differences": evidence.differences,
            },
            "run_id": run_id,
        });
        let digest = blake3::hash(format!("{} {}", self.key, run_id).as_bytes()).to_hex();
        new_row(vec![
            ("id", format!("stm_{}", &digest[..12]).into()),
            ("content", content.to_string().into()),
            ("categories", categories_to_json(&["contradictions", "consolidation"]).into()),
            ("importance", Value::Real(2.0)),
            ("access_count", Value::Integer(0)),
            ("created_at", at.into()),
            ("updated_at", at.into()),
            ("source", format!("consolidation:contradiction:{}", self.key).into()),
        ])
    }
}

/// Closes an open flag.
#[must_use]
pub fn settled_flag(flag: i64, state: &str) -> Change {
    let row = RowKey { table: Table::Flags, key: flag.to_string() };
    Change::of_column(row, "state", "open".into(), state.into())
}

/// The details of a decision about a memory beside its kind.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DecisionAbout<'a> {
    /// It belongs to a group of memories.
    Group(&'a str),
    /// It is about a kind of action.
    Action(&'a str),
}

/// Returns a decision about a memory with its present text; `None` where it has none.
#[must_use]
pub fn decision(row: &MemoryRow, kind: &str, about: DecisionAbout<'_>) -> Option<Change> {
    let about = match about {
        DecisionAbout::Group(group) => ("group_id", group.into()),
        DecisionAbout::Action(action) => ("action", action.into()),
    };
    let cells = vec![
        ("kind", kind.into()),
        ("memory_id", row.id.as_str().into()),
        ("content_hash", content_hash(row.content()?).into()),
        about,
    ];
    Some(Change::Record(Record { table: Table::Decisions, cells }))
}

/// Returns the decisions that keep memories apart from each other while their texts stay.
pub fn kept_apart<'r>(
    rows: impl IntoIterator<Item = &'r MemoryRow>,
    group: &str,
) -> impl Iterator<Item = Change> {
    rows.into_iter().filter_map(move |row| decision(row, "keep_both", DecisionAbout::Group(group)))
}

/// Returns the action that merges one memory into another; the survivor takes over the same as in all merges.
#[must_use]
pub fn merge_of_two(
    survivor: &Memory,
    merged: &Memory,
    policy: &MergePolicy,
    rule_id: &str,
    reason: &str,
    evidence: Evidence,
) -> Action {
    let rationale = Rationale { evidence, ..Rationale::new(rule_id, vec![reason.to_owned()]) };
    Action {
        risk: risk(&survivor.content, &merged.content, true),
        ..Action::merging(ActionType::Merge, survivor, &[merged], policy, rationale)
    }
}

/// Merged ids that a survivor lists, at most.
const LISTED_MAX: usize = 100;
/// A survivor's `source` stays within this, unless its own root is longer.
const SOURCE_BYTES_MAX: usize = 4096;

/// The provenance of a survivor.
struct MergedSource<'a> {
    /// All ever merged into it, latest last.
    from: Vec<MemoryId>,
    count: u64,
    run_id: &'a str,
    at: &'a str,
    root: &'a str,
}

impl MergedSource<'_> {
    /// Returns `consolidation:{…}` with the latest merged ids that fit.
    fn to_text(&self) -> String {
        let mut from = &self.from[self.from.len().saturating_sub(LISTED_MAX)..];
        loop {
            let source = prefixed(
                "consolidation:",
                &[
                    ("merged_from", json!(from)),
                    ("merged_count", json!(self.count)),
                    ("run_id", json!(self.run_id)),
                    ("at", json!(self.at)),
                    ("previous_source", json!(self.root)),
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
}

fn prefixed(prefix: &str, fields: &[(&str, Json)]) -> String {
    let fields: Map<String, Json> =
        fields.iter().map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
    format!("{prefix}{}", Json::Object(fields))
}

/// Says that archived memories stand where they stood, though they were to be moved away.
#[must_use]
pub fn kept_note(count: u64, reason: &str) -> String {
    let memories = if count == 1 { "memory was" } else { "memories were" };
    format!("{count} {memories} archived in place, not moved to memfold_archive: {reason}")
}

#[cfg(test)]
mod tests {
    use super::*;

    const CONTEXT: (&str, &str) = ("20260630T120000Z-00000000", "2026-06-30T12:00:00.000000");

    fn row(id: &str, values: &[(&str, Value)]) -> MemoryRow {
        let mut image = new_row(vec![("id", id.into()), ("content", format!("text {id}").into())]);
        image.cells.extend(values.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
        let digest = BaseDigest([0; 32]);
        let id = MemoryId::new(id);
        MemoryRow { id, image, digest, has_embedding: false, is_indexed: None }
    }

    fn unit(rows: Vec<MemoryRow>) -> UnitRows {
        UnitRows {
            rows,
            words: BTreeMap::new(),
            references: Vec::new(),
            move_refusal: None,
            is_superseded: false,
            waiting_flag: None,
        }
    }

    fn merged(rows: &UnitRows, policy: &Policy) -> UnitChanges {
        let ids = rows.rows.iter().map(|row| row.id.clone()).collect();
        let action = Action::new(ActionType::Merge, ids, Rationale::new("R", Vec::new()));
        let (run_id, at) = CONTEXT;
        let now = Instant(1_780_272_000_000_000);
        let context = MergeContext { policy, time_zone: &TimeZone::UTC, run_id, now, at };
        changes(&[Step::of(&action)], rows, &context).unwrap()
    }

    /// Counters are written as differences, so that accesses since stay counted.
    #[test]
    fn a_survivor_takes_over_counts_and_references() {
        let count = |count| [("access_count", Value::Integer(count)), ("source", "agent".into())];
        let mut rows = unit(vec![row("a", &count(2)), row("b", &count(3))]);
        rows.references = [("t1", "b"), ("t2", "x")]
            .map(|(atom, memory)| Reference { atom: atom.into(), memory: memory.into() })
            .into();
        let mut policy = Policy::builtin();
        policy.merge.absorbed = Absorbed::Move;
        let UnitChanges { changes, kept } = merged(&rows, &policy);
        let [
            Change::Set { columns, image: None, .. },
            Change::TakeOut { id, .. },
            Change::Record(record),
            Change::Set { row, .. },
        ] = &changes[..]
        else {
            panic!("{changes:?}");
        };
        let delta = columns.iter().find(|change| change.column == "access_count").unwrap().delta;
        assert_eq!((delta, &**id, record.table, &*row.key), (Some(3), "b", Table::Lineage, "t1"));
        assert!(kept.is_empty());
    }

    #[test]
    fn what_cannot_be_moved_is_marked_in_place() {
        let values = [("source", Value::from("agent")), ("categories", Value::from("[]"))];
        let mut rows = unit(vec![row("a", &values), row("b", &values)]);
        rows.move_refusal = Some("a trigger".to_owned());
        let mut policy = Policy::builtin();
        policy.merge.absorbed = Absorbed::Move;
        let UnitChanges { changes, kept } = merged(&rows, &policy);
        assert_eq!(kept, [KeptInPlace { id: MemoryId::new("b"), reason: "a trigger".to_owned() }]);
        let Change::Set { row, image: Some(image), .. } = &changes[1] else {
            panic!("{changes:?}")
        };
        assert_eq!((&*row.key, image), ("b", &rows.rows[1].image));
    }

    fn source(ids: usize, id_bytes: usize) -> String {
        let from = (0..ids).map(|i| MemoryId::new(format!("{i:0id_bytes$}"))).collect();
        let (run_id, at) = CONTEXT;
        MergedSource { from, count: ids as u64, run_id, at, root: "agent" }.to_text()
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
        let from = vec![MemoryId::new("a")];
        let merged = MergedSource { from, count: 1, run_id: "r", at: "t", root: &root };
        assert!(merged.to_text().contains(&root));
    }
}
