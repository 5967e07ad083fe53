//! What each action does to the rows of its unit.

use std::collections::BTreeMap;

use jiff::tz::TimeZone;

use super::flag::{Flag, decision, kind_of, settled};
use super::units::{self, Draft, Merged};
use memfold_core::journal::{Change, ColumnChange, REFERENCE, Record, RowImage, RowKey, Table};
use memfold_core::memory::MemoryId;
use memfold_core::plan::{Action, ActionType, Rationale, SETTLED, SavedAction};
use memfold_core::policy::{Absorbed, FlagTarget, Policy};
use memfold_core::row::{RawMemory, RowFacts, categories_to_json, row_facts};
use memfold_core::summary::Confidence;
use memfold_core::time::Instant;
use memfold_core::value::Value;
use memfold_store::brain_db::{
    Layout, Reference, SessionError, StoredEdge, StoredSummary, UnitRow, Words, Writes,
};

/// What edits depend on besides the rows.
#[derive(Clone, Copy)]
pub(crate) struct EditContext<'a> {
    pub(crate) policy: &'a Policy,
    pub(crate) time_zone: &'a TimeZone,
    pub(crate) run_id: &'a str,
    pub(crate) now: Instant,
    /// The run's time as the owner writes times.
    pub(crate) at: &'a str,
}

/// The changes of a unit's actions.
pub(crate) struct Edited {
    /// In order.
    pub(crate) changes: Vec<Change>,
    /// Memories that were to be moved away and are marked in their table instead, and why.
    pub(crate) kept: Vec<(MemoryId, String)>,
}

/// Returns the changes of a unit's actions; an error names a row that cannot be read.
pub(crate) fn edits(
    actions: &[&SavedAction],
    rows: &[UnitRow],
    store: (&Writes<'_>, &Layout),
    context: EditContext<'_>,
) -> Result<Edited, SessionError> {
    let read = |row: &UnitRow| {
        let facts = row_facts(&RawMemory::from(&row.image), context.time_zone, context.now);
        facts.map(|facts| (row.id.clone(), facts)).map_err(|_| unreadable(&row.id))
    };
    let facts = rows.iter().map(read).collect::<Result<_, _>>()?;
    let mut editing = Editing { draft: Draft::new(rows), facts, store, context, kept: Vec::new() };
    for saved in actions {
        let action = saved.effective();
        match action.action {
            ActionType::Merge | ActionType::ProposeMerge => editing.merge(action)?,
            ActionType::Promote => editing.promote(action, saved.access_count),
            ActionType::Archive => editing.archive(action)?,
            ActionType::FlagContradiction => editing.flag(action),
            ActionType::Rewrite => editing.rewrite(action)?,
            ActionType::Summarize => editing.summarize(action)?,
            ActionType::Supersede => editing.supersede(action)?,
            ActionType::Noop => {}
        }
    }
    Ok(Edited { changes: editing.draft.into_changes(context.at), kept: editing.kept })
}

/// Returns the changes by which a memory merges into another that says the same in another spelling, and takes nothing
/// over.
pub(crate) fn fold_away(
    row: &UnitRow,
    survivor: &MemoryId,
    store: (&Writes<'_>, &Layout),
    context: EditContext<'_>,
) -> Result<Vec<Change>, SessionError> {
    let facts = row_facts(&RawMemory::from(&row.image), context.time_zone, context.now);
    let facts = BTreeMap::from([(row.id.clone(), facts.map_err(|_| unreadable(&row.id))?)]);
    let draft = Draft::new(std::slice::from_ref(row));
    let mut editing = Editing { draft, facts, store, context, kept: Vec::new() };
    match editing.leaving(&row.id, context.policy.merge.absorbed)? {
        Leaving::Moves => editing.take_out(&row.id, Some(survivor)),
        Leaving::Stays(words) => editing.mark_absorbed(&row.id, survivor, words),
    }
    Ok(editing.draft.into_changes(context.at))
}

fn unreadable(id: &MemoryId) -> SessionError {
    SessionError::Refused { what: "read a memory", reason: format!("{id} is no longer readable") }
}

struct Editing<'a> {
    draft: Draft<'a>,
    /// What each row says of itself before the unit.
    facts: BTreeMap<MemoryId, RowFacts>,
    /// The transaction, to look things up in.
    store: (&'a Writes<'a>, &'a Layout),
    context: EditContext<'a>,
    kept: Vec<(MemoryId, String)>,
}

/// How an archived row leaves.
enum Leaving {
    /// It moves to the archive table.
    Moves,
    /// It is marked where it stands; of its searchable words.
    Stays(Words),
}

impl<'a> Editing<'a> {
    fn access_count(&self, id: &MemoryId) -> i64 {
        self.facts.get(id).map_or(0, |facts| facts.access_count)
    }

    fn expires_at(&self, id: &MemoryId) -> Option<Instant> {
        self.facts.get(id).and_then(|facts| facts.expires_at)
    }

    fn root_source(&self, id: &MemoryId) -> &str {
        self.facts.get(id).map_or("agent", |facts| &facts.root_source)
    }

    fn merge(&mut self, action: &Action) -> Result<(), SessionError> {
        let Some(survivor) = action.target_ids.first() else { return Ok(()) };
        if !action.survivor_protected {
            self.take_over(survivor, action);
        }
        if self.draft.was(survivor).is_some_and(|row| row.is_indexed == Some(false)) {
            self.draft.then(Change::Index { id: survivor.to_string(), words: None });
        }
        let wanted = self.context.policy.absorbed_by(&action.rationale.rule_id);
        if action.rationale.rule_id == SETTLED
            && let Some(flag) = self.flag_of(action)
        {
            let Rationale { score, evidence, .. } = &action.rationale;
            let kind = kind_of(evidence);
            let record = flag.record(kind, *score, evidence, "superseded", Value::Null);
            self.draft.then(record);
        }
        self.absorb(action, action.absorbed_ids(), survivor, wanted)
    }

    /// Memories leave for a survivor.
    fn absorb(
        &mut self,
        action: &Action,
        absorbed: &[MemoryId],
        survivor: &MemoryId,
        wanted: Absorbed,
    ) -> Result<(), SessionError> {
        let mut moved = Vec::new();
        for absorbed in absorbed {
            match self.leaving(absorbed, wanted)? {
                Leaving::Stays(words) => self.mark_absorbed(absorbed, survivor, words),
                Leaving::Moves => {
                    self.take_out(absorbed, Some(survivor));
                    moved.push(absorbed.as_str());
                }
            }
            self.draft.then(lineage(action, survivor, absorbed));
        }
        self.follow(&moved, survivor)
    }

    /// A new memory takes the place of its sources.
    fn rewrite(&mut self, action: &Action) -> Result<(), SessionError> {
        let Some(new) = self.put_in(action, &action.target_ids) else { return Ok(()) };
        let wanted = self.context.policy.absorbed_by(&action.rationale.rule_id);
        self.consolidates(action, &new)?;
        self.absorb(action, &action.target_ids, &new, wanted)
    }

    /// A new memory summarises its sources, and takes the place of earlier summaries of them.
    fn summarize(&mut self, action: &Action) -> Result<(), SessionError> {
        let Some(summary) = action.summary.as_deref() else { return Ok(()) };
        let Some(new) = self.put_in(action, &summary.replaces) else { return Ok(()) };
        let record = StoredSummary::record(&new, &action.target_ids, summary);
        self.draft.then(Change::Record(record));
        self.consolidates(action, &new)?;
        let wanted = self.context.policy.absorbed_by(&action.rationale.rule_id);
        self.absorb(action, &summary.replaces, &new, wanted)
    }

    /// Puts in the memory that a model wrote, with what it takes over from `absorbed`.
    fn put_in(&mut self, action: &Action, absorbed: &[MemoryId]) -> Option<MemoryId> {
        let (id, text) = (action.canonical_id.clone()?, action.new_content.as_deref()?);
        let rows: Vec<&UnitRow> = absorbed.iter().filter_map(|id| self.draft.was(id)).collect();
        let count = absorbed.iter().map(|id| self.access_count(id)).fold(0, i64::saturating_add);
        let root = match action.action {
            ActionType::Summarize => SUMMARY_SOURCE.to_owned(),
            _ => action.target_ids.first().map_or("agent", |id| self.root_source(id)).to_owned(),
        };
        let source = self.merged_source(Vec::new(), 0, &rows, &root);
        let (at, categories) = (self.context.at, action.new_categories.clone().unwrap_or_default());
        let mut cells: Vec<(&str, Value)> = vec![
            ("id", id.as_str().into()),
            ("content", text.into()),
            ("categories", categories_to_json(&categories).into()),
            ("importance", Value::Real(action.new_importance.unwrap_or(1.0))),
            ("access_count", Value::Integer(count)),
            ("created_at", at.into()),
            ("updated_at", at.into()),
            ("last_accessed", at.into()),
            ("source", source.into()),
            ("confidence", Value::Real(self.confidence(&action.target_ids))),
            ("validation_count", Value::Integer(0)),
            ("contradiction_count", Value::Integer(0)),
        ];
        cells.extend(self.end_of_all(&rows).map(|end| ("expires_at", end)));
        let cells = cells.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
        let image = Some(RowImage { rowid: None, cells });
        self.draft.then(Change::PutIn { id: id.to_string(), image });
        Some(id)
    }

    /// The largest confidence of some memories.
    fn confidence(&self, ids: &[MemoryId]) -> f64 {
        let rows = ids.iter().filter_map(|id| self.draft.was(id));
        let stated = rows.map(|row| {
            let value = row.image.get("confidence");
            value.and_then(|value| value.borrow().number()).unwrap_or(CONFIDENCE_UNSTATED)
        });
        stated.fold(0.0, f64::max)
    }

    /// When the last of some memories expires; `None` where one of them never does.
    fn end_of_all(&self, rows: &[&UnitRow]) -> Option<Value> {
        let ends: Option<Vec<_>> = rows
            .iter()
            .map(|row| Some((self.expires_at(&row.id)?, row.image.get("expires_at")?)))
            .collect();
        ends?.into_iter().max_by_key(|(end, _)| *end).map(|(_, value)| value.clone())
    }

    /// Notes that a new memory says what its sources say.
    fn consolidates(&mut self, action: &Action, new: &MemoryId) -> Result<(), SessionError> {
        let reason = action.rationale.reasons.join("; ");
        for source in &action.target_ids {
            let record = StoredEdge::record(new, source, "consolidates", 1.0, &reason, None);
            self.draft.then(Change::Record(record));
        }
        Ok(())
    }

    /// A memory holds in the place of an older one: an edge says so, and the pair's flag closes.
    fn supersede(&mut self, action: &Action) -> Result<(), SessionError> {
        let [newer, older] = &action.target_ids[..] else { return Ok(()) };
        let writes = self.store.0;
        if !writes.has_edge(newer, older, SUPERSEDES)? {
            let reason = action.rationale.reasons.join("; ");
            let record = StoredEdge::record(
                newer,
                older,
                SUPERSEDES,
                1.0,
                &reason,
                Some(Confidence::High.name()),
            );
            self.draft.then(Change::Record(record));
        }
        let Some(flag) = self.flag_of(action) else { return Ok(()) };
        // Nobody needs to be asked again whether they say the same.
        let group = format!("{}/{}", self.context.run_id, flag.key);
        for id in [newer, older] {
            let with = ("group_id", group.as_str().into());
            let apart = decision(writes, self.store.1, "keep_both", id, with)?;
            apart.into_iter().for_each(|change| self.draft.then(change));
        }
        let Rationale { score, evidence, .. } = &action.rationale;
        match writes.waiting_flag(&flag.key)? {
            Some(waiting) => self.draft.then(settled(waiting.id, "superseded")),
            None => {
                let kind = kind_of(evidence);
                let record = flag.record(kind, *score, evidence, "superseded", Value::Null);
                self.draft.then(record);
            }
        }
        Ok(())
    }

    /// Tells how a row leaves, and notes where that is not how it was wanted.
    fn leaving(&mut self, id: &MemoryId, wanted: Absorbed) -> Result<Leaving, SessionError> {
        let (writes, layout) = self.store;
        let words = match self.draft.was(id) {
            Some(row) => writes.words(layout, row)?,
            None => Words::None,
        };
        if wanted == Absorbed::Archive {
            return Ok(Leaving::Stays(words));
        }
        let reason = match (layout.move_refusal(), &words) {
            (Some(reason), _) => reason.to_owned(),
            (None, Words::Unknown) => "it is searchable by words that are not known".to_owned(),
            (None, _) => return Ok(Leaving::Moves),
        };
        self.kept.push((id.clone(), reason));
        Ok(Leaving::Stays(words))
    }

    fn take_out(&mut self, id: &MemoryId, survivor: Option<&MemoryId>) {
        let survivor = survivor.map(ToString::to_string);
        self.draft.then(Change::TakeOut { id: id.to_string(), survivor, said: None });
    }

    /// What the owner's atoms learned from memories that moved away, they learned from the survivor from now on.
    fn follow(&mut self, moved: &[&str], survivor: &MemoryId) -> Result<(), SessionError> {
        let (writes, layout) = self.store;
        for Reference { atom, memory } in writes.references(layout, moved)? {
            let column = ColumnChange {
                column: REFERENCE.to_owned(),
                before: memory.into(),
                after: survivor.as_str().into(),
                delta: None,
            };
            let row = RowKey { table: Table::Atoms, key: atom };
            self.draft.then(Change::Set { row, columns: vec![column], image: None });
        }
        Ok(())
    }

    /// Gives a survivor what it takes over from the rows that merge into it.
    fn take_over(&mut self, survivor: &MemoryId, action: &Action) {
        let Some(was) = self.draft.was(survivor) else { return };
        let absorbed: Vec<&UnitRow> =
            action.absorbed_ids().iter().filter_map(|id| self.draft.was(id)).collect();
        self.set_planned(survivor, action);
        let counts =
            absorbed.iter().map(|row| self.access_count(&row.id)).fold(0, i64::saturating_add);
        if counts != 0 {
            let sum = self.access_count(survivor).saturating_add(counts);
            self.draft.set(survivor, "access_count", Value::Integer(sum));
        }
        if let Some(expires_at) = self.latest_end(was, &absorbed) {
            self.draft.set(survivor, "expires_at", expires_at);
        }
        for column in ["confidence", "last_accessed"] {
            if let Some(value) = self.largest(column, was, &absorbed) {
                self.draft.set(survivor, column, value);
            }
        }
        let source = self.survivor_source(survivor, &absorbed);
        self.draft.set(survivor, "source", source.into());
    }

    /// Sets what the plan says of categories and importance.
    fn set_planned(&mut self, id: &MemoryId, action: &Action) {
        if let Some(categories) = &action.new_categories {
            self.draft.set(id, "categories", categories_to_json(categories).into());
        }
        if let Some(importance) = action.new_importance {
            self.draft.set(id, "importance", Value::Real(importance));
        }
    }

    /// The end that counts for all: none beats any, else the latest. `None`: the survivor's own.
    fn latest_end(&self, survivor: &UnitRow, absorbed: &[&UnitRow]) -> Option<Value> {
        let own = self.expires_at(&survivor.id)?;
        let mut latest = (own, None);
        for row in absorbed {
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
    fn largest(&self, column: &str, survivor: &UnitRow, absorbed: &[&UnitRow]) -> Option<Value> {
        let size = |value: &Value| {
            let cell = value.borrow();
            match column {
                "last_accessed" => {
                    cell.instant(self.context.time_zone).map(|instant| instant.0 as f64)
                }
                _ => cell.number(),
            }
        };
        let own = survivor.image.get(column)?;
        let others = absorbed.iter().filter_map(|row| row.image.get(column));
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

    fn survivor_source(&self, survivor: &MemoryId, absorbed: &[&UnitRow]) -> String {
        let (from, count) = self.merged_into(survivor);
        self.merged_source(from, count, absorbed, self.root_source(survivor))
    }

    /// What was merged into a memory before.
    fn merged_into(&self, id: &MemoryId) -> (Vec<MemoryId>, u64) {
        let facts = self.facts.get(id);
        facts.map(|facts| (facts.merged_from.clone(), facts.merged_count)).unwrap_or_default()
    }

    fn merged_source(
        &self,
        mut from: Vec<MemoryId>,
        mut count: u64,
        absorbed: &[&UnitRow],
        root: &str,
    ) -> String {
        for row in absorbed {
            let (below, below_count) = self.merged_into(&row.id);
            from.extend(below);
            from.push(row.id.clone());
            count = count.saturating_add(below_count).saturating_add(1);
        }
        units::of_survivor(&Merged {
            from,
            count,
            run_id: self.context.run_id,
            at: self.context.at,
            root,
        })
    }

    fn mark_absorbed(&mut self, id: &MemoryId, survivor: &MemoryId, words: Words) {
        let root = self.root_source(id);
        let source = units::of_absorbed(survivor, self.context.run_id, root);
        let old = self.facts.get(id).map(|facts| &*facts.categories).unwrap_or_default();
        let categories = archived_categories(old.iter().map(|category| &**category));
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
        self.draft.keep_image(id);
        self.draft.set(id, "categories", categories_to_json(categories).into());
        self.draft.set(id, "source", source.into());
        self.draft.set(id, "archived_by", format!("memfold:{}", self.context.run_id).into());
        let words = match words {
            Words::Now => None,
            Words::Earlier(words) => Some(words),
            Words::None | Words::Unknown => return,
        };
        self.draft.then(Change::Unindex { id: id.to_string(), words });
    }

    fn promote(&mut self, action: &Action, access_count: Option<i64>) {
        let Some(id) = action.target_ids.first() else { return };
        match self.put_in(action, &[]) {
            Some(copy) => {
                let own = self.facts.get(id).map(|facts| &*facts.categories).unwrap_or_default();
                let own = own.iter().map(ToString::to_string);
                let categories: Vec<String> =
                    own.chain([format!("{PROMOTED_TO}:{copy}")]).collect();
                self.draft.set(id, "categories", categories_to_json(&categories).into());
            }
            None => self.set_planned(id, action),
        }
        let count = access_count.unwrap_or_else(|| self.access_count(id));
        self.draft.then(Change::Record(Record {
            table: Table::Decisions,
            cells: vec![
                ("kind", "promoted".into()),
                ("memory_id", id.as_str().into()),
                ("access_count", Value::Integer(count)),
            ],
        }));
    }

    fn archive(&mut self, action: &Action) -> Result<(), SessionError> {
        let Some(id) = action.target_ids.first() else { return Ok(()) };
        let wanted = self.context.policy.absorbed_by(&action.rationale.rule_id);
        match self.leaving(id, wanted)? {
            Leaving::Moves => self.take_out(id, None),
            Leaving::Stays(words) => {
                let (rule, run_id) = (&action.rationale.rule_id, self.context.run_id);
                let source = units::of_archived(rule, run_id, self.root_source(id));
                let categories = action.new_categories.clone().unwrap_or_default();
                self.mark_archived(id, &categories, source, words);
            }
        }
        Ok(())
    }

    /// The flag of a pair as it was read.
    fn flag_of(&self, action: &Action) -> Option<Flag<'a>> {
        let [a, b] = &action.target_ids[..] else { return None };
        Flag::between([self.draft.was(a)?, self.draft.was(b)?])
    }

    fn flag(&mut self, action: &Action) {
        let Some(flag) = self.flag_of(action) else { return };
        let memory_id = match self.context.policy.flags.write_to {
            FlagTarget::Table => Value::Null,
            FlagTarget::Stm => {
                let row = flag.row(action, self.context.run_id, self.context.at);
                let id = row.get("id").and_then(Value::as_text).unwrap_or_default().to_owned();
                self.draft.then(Change::PutIn { id: id.clone(), image: Some(row) });
                id.into()
            }
        };
        let Rationale { score, evidence, .. } = &action.rationale;
        self.draft.then(flag.record(kind_of(evidence), *score, evidence, "open", memory_id));
    }
}

/// The edge from a memory that holds to one that no longer does.
const SUPERSEDES: &str = "supersedes";
/// The attribute by which an original names its copy in a wider scope.
const PROMOTED_TO: &str = "promoted_to";
/// Where summaries come from: protection knows them by it.
const SUMMARY_SOURCE: &str = "memfold-summary";
/// How sure a memory counts that does not say how sure it is.
const CONFIDENCE_UNSTATED: f64 = 0.5;

/// `archived`, and each category as `archive/<category>`.
fn archived_categories<'c>(categories: impl Iterator<Item = &'c str>) -> Vec<String> {
    let old = categories.map(|category| format!("archive/{category}"));
    std::iter::once("archived".to_owned()).chain(old).collect()
}

fn lineage(action: &Action, survivor: &MemoryId, absorbed: &MemoryId) -> Change {
    let rationale = &action.rationale;
    let similarity = rationale.evidence.similarity;
    Change::Record(Record {
        table: Table::Lineage,
        cells: vec![
            ("absorbed_id", absorbed.as_str().into()),
            ("survivor_id", survivor.as_str().into()),
            ("similarity", similarity.map_or(Value::Null, Value::Real)),
            ("rule_id", rationale.rule_id.as_str().into()),
            ("reasons", rationale.reasons.join("; ").into()),
        ],
    })
}
