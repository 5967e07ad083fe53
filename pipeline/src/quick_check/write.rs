//! Writing a decision down, inside the transaction that made it.

use super::Incoming;
use super::answer::{IMPORTANCE_DEFAULT, Written};
use super::decide::{Choice, Decided};
use super::engine::{SaveError, SaveRun, Shared};
use super::weigh::{Equal, Match, Weighed};
use crate::embed::fill::model_of;
use crate::execute::{carry_out_alone, changes_of, unreadable, write_unit};
use memfold_core::journal::{Change, ColumnChange, Record, RowKey, Table};
use memfold_core::memory::{CategoryList, Memory, MemoryId};
use memfold_core::merge::{
    MemoryRow, MergeContext, Step, lineage, merge_of_two, merge_variants, near_flag, set_columns,
};
use memfold_core::plan::{
    Action, ActionType, Evidence, Rationale, proof_steps, protected_by, signal_kinds,
};
use memfold_core::policy::defaults::FLAGS_PER_MEMORY_MAX;
use memfold_core::row::categories_to_json;
use memfold_core::runs::RunKind;
use memfold_core::time::Instant;
use memfold_core::value::Value;
use memfold_guard::text::strict_key;
use memfold_store::brain_db::{
    ActionRecord, FlagKind, Layout, Mark, NewEmbedding, NewRow, OpenFlag, RunStart, Writes,
    apply_to_new_row,
};
use memfold_store::upkeep::{UpkeepError, revive};
use memfold_store::{LoadRequest, StoreError};

/// The rule that stands in lineage.
const RULE: &str = "quick-check";
/// A memory that holds more variants of its text than this keeps no further ones.
const VARIANTS_MAX: usize = 512;

/// The results of a write.
pub(super) struct Wrote {
    pub(super) id: MemoryId,
    pub(super) written: Written,
    pub(super) replaced: Vec<MemoryId>,
    pub(super) run_id: Option<String>,
    pub(super) note: Option<String>,
}

impl Wrote {
    fn inserted(id: MemoryId, note: Option<String>) -> Self {
        Self { id, written: Written::Inserted, replaced: Vec::new(), run_id: None, note }
    }

    fn touched(id: MemoryId) -> Self {
        let (replaced, run_id, note) = (Vec::new(), None, None);
        Self { id, written: Written::Touched, replaced, run_id, note }
    }
}

/// One memory in one transaction.
pub(super) struct Writing<'a> {
    shared: &'a Shared,
    writes: &'a Writes<'a>,
    layout: Layout,
    incoming: &'a Incoming,
    text: &'a str,
    now: Instant,
    at: String,
}

impl<'a> Writing<'a> {
    pub(super) fn new(
        shared: &'a Shared,
        writes: &'a Writes<'a>,
        incoming: &'a Incoming,
        now: Instant,
    ) -> Result<Self, SaveError> {
        let at = now.to_naive_local(&shared.options.time_zone);
        let text = incoming.text.as_deref().ok_or(SaveError::NoText)?;
        Ok(Self { shared, writes, layout: writes.layout()?, incoming, text, now, at })
    }

    pub(super) fn write(
        &self,
        weighed: &Weighed,
        decided: &Decided,
        run: &mut Option<SaveRun>,
    ) -> Result<Wrote, SaveError> {
        if let Some(id) = &self.incoming.id
            && let Some(wrote) = self.saved_before(id)?
        {
            return Ok(wrote);
        }
        match &decided.choice {
            Choice::Insert => self.insert(),
            Choice::Touch { at } => self.touch(&weighed.equal[*at], run),
            Choice::TouchMatch { at } => {
                let memory = weighed.matches[*at].memory.clone();
                self.touch(&Equal::Live(Box::new(memory)), run)
            }
            Choice::TouchAndFlag { against } => self.touch_and_flag(weighed, *against, run),
            choice if !self.can_record()? => {
                let wrote = self.insert()?;
                let reason = "memfold's tables are of a later version: saved without";
                let note = format!("{reason} {}", choice.decision().name());
                Ok(Wrote { note: Some(note), ..wrote })
            }
            Choice::Replace { at } => self.replace(&weighed.matches[*at], run),
            Choice::Flag { at, kind } => {
                let is_said_again = !weighed.equal.is_empty();
                self.flag(&weighed.matches[*at], *kind, is_said_again, run)
            }
        }
    }

    /// The memory saved under this id before, if there is one.
    fn saved_before(&self, id: &str) -> Result<Option<Wrote>, SaveError> {
        let key = strict_key(self.text);
        let taken = || SaveError::IdTaken { id: memfold_guard::text::excerpt(id, 80) };
        let mut at = MemoryId::new(id);
        let mut is_first = true;
        loop {
            let Some(memory) = self.remembered(at.as_str())? else {
                if self.writes.memory(&self.layout, &at)?.is_some() {
                    return Err(taken());
                }
                return Ok((!is_first).then(|| Wrote::touched(at)));
            };
            if is_first && strict_key(&memory.content) != key {
                return Err(taken());
            }
            is_first = false;
            match memory.merged_into {
                Some(survivor) if survivor != at => at = survivor,
                _ => return Ok(Some(Wrote::touched(at))),
            }
        }
    }

    fn insert(&self) -> Result<Wrote, SaveError> {
        let id = self.free_id()?;
        let note = self.insert_row(&id, true)?;
        Ok(Wrote::inserted(MemoryId::new(id), note))
    }

    /// Counts the access, and adds missing values to the memory: importance, categories, another
    /// spelling of its text.
    fn touch(&self, equal: &Equal, run: &mut Option<SaveRun>) -> Result<Wrote, SaveError> {
        if let Equal::Archived { memory } = equal {
            if !self.can_record()? {
                return self.insert();
            }
            let run = self.next_unit(run)?;
            let mark = Mark { run_id: &run.run_id, unit: run.units, at: &self.at };
            revive(self.writes, &memory.id, &self.shared.options.time_zone, self.now, &mark)
                .map_err(revived)?;
        }
        let id = equal.memory().id.clone();
        let Some(memory) = self.live_memory(id.as_str())? else {
            // It was live a moment ago, in this very transaction.
            return self.insert();
        };
        let Some(row) = self.writes.memory(&self.layout, &id)? else { return self.insert() };
        let count = memory.access_count.saturating_add(1);
        let taken_over = match self.protection(&memory) {
            Some(_) => Vec::new(),
            None => self.taken_over(&memory),
        };
        let changes = set_columns(&row, &taken_over, &self.at);
        let is_kept = self.is_kept(&memory)?;
        let touched = Wrote::touched(id.clone());
        if changes.is_none() && is_kept || !self.can_record()? {
            self.writes.count_access(&self.layout, id.as_str(), count, &self.at)?;
            let run_id = run.as_ref().map(|run| run.run_id.clone());
            let run_id = run_id.filter(|_| matches!(equal, Equal::Archived { .. }));
            return Ok(Wrote { run_id, ..touched });
        }
        let accesses =
            [("access_count", Value::Integer(count)), ("last_accessed", self.at.as_str().into())];
        let values: Vec<_> = taken_over.into_iter().chain(accesses).collect();
        let mut changes: Vec<Change> = set_columns(&row, &values, &self.at).into_iter().collect();
        if !is_kept {
            let variant = self.free_id()?;
            self.insert_row(&variant, false)?;
            let variant = MemoryId::new(variant);
            self.merge_variant(&variant, &id, run)?;
            changes.push(lineage(&variant, &id, None, RULE, "the same text in another spelling"));
        }
        let run = self.record(run, "touch", ActionType::Noop, vec![id], &changes)?;
        Ok(Wrote { run_id: Some(run), ..touched })
    }

    /// Merges a row that was just inserted into the memory that says the same.
    fn merge_variant(
        &self,
        variant: &MemoryId,
        survivor: &MemoryId,
        run: &mut Option<SaveRun>,
    ) -> Result<(), SaveError> {
        let Some(row) = self.writes.memory(&self.layout, variant)? else { return Ok(()) };
        let SaveRun { run_id, units, .. } = self.run_of_today(run)?;
        let mark = Mark { run_id, unit: *units + 1, at: &self.at };
        let rows = self.writes.leaving_rows(&self.layout, vec![row], [variant])?;
        let changes = merge_variants(&rows, survivor, &self.context(run_id)).map_err(unreadable)?;
        Ok(apply_to_new_row(self.writes, &self.layout, &mark, &changes)?)
    }

    /// The values that a memory takes over from the new one.
    fn taken_over(&self, memory: &Memory) -> Vec<(&'static str, Value)> {
        let mut categories: CategoryList = memory.categories.iter().collect();
        self.incoming.all_categories().iter().for_each(|category| categories.add(category));
        let categories = categories.into_list();
        let mut values = Vec::new();
        if categories != memory.categories {
            values.push(("categories", categories_to_json(&categories).into()));
        }
        let cap = self.shared.options.policy.merge.importance_cap;
        let importance = self.incoming.importance.map(|importance| importance.min(cap));
        if let Some(importance) = importance.filter(|importance| *importance > memory.importance) {
            values.push(("importance", Value::Real(importance)));
        }
        values
    }

    /// Tells whether the store has the text in exactly this spelling, in the memory or in one
    /// merged into it.
    fn is_kept(&self, memory: &Memory) -> Result<bool, SaveError> {
        if *memory.content == *self.text {
            return Ok(true);
        }
        self.look_up(|reader| {
            let merged_rows = reader.merged_rows(memory, None, VARIANTS_MAX)?;
            Ok(merged_rows
                .is_none_or(|merged_rows| merged_rows.iter().any(|g| *g.content == *self.text)))
        })
    }

    /// The new memory takes the place of another one, as in a merge of a whole run.
    fn replace(&self, found: &Match, run: &mut Option<SaveRun>) -> Result<Wrote, SaveError> {
        let wrote = self.insert()?;
        let (Some(new), Some(row), Some(old_row)) = (
            self.live_memory(wrote.id.as_str())?,
            self.writes.memory(&self.layout, &wrote.id)?,
            self.writes.memory(&self.layout, &found.memory.id)?,
        ) else {
            return Ok(wrote);
        };
        let old = &found.memory;
        let judgement = found.judgement.iter();
        let differences =
            judgement.flat_map(|it| proof_steps(it, &old.content, self.text)).collect();
        let evidence = Evidence { differences, ..evidence(found, FlagKind::Near) };
        let action = merge_of_two(
            &new,
            old,
            &self.shared.options.policy.merge,
            RULE,
            "saved as a newer wording",
            evidence,
        );
        let rows = vec![row, old_row];
        let (run_id, note) = self.carry_out(run, "replace", &action, rows)?;
        let (replaced, note) = (vec![old.id.clone()], wrote.note.or(note));
        Ok(Wrote { written: Written::Replaced, replaced, run_id: Some(run_id), note, id: wrote.id })
    }

    /// The new memory stands beside another one, and the pair waits for a look.
    fn flag(
        &self,
        found: &Match,
        kind: FlagKind,
        is_said_again: bool,
        run: &mut Option<SaveRun>,
    ) -> Result<Wrote, SaveError> {
        let wrote = self.insert()?;
        let other = &found.memory.id;
        let (Some(row), Some(other_row)) = (
            self.writes.memory(&self.layout, &wrote.id)?,
            self.writes.memory(&self.layout, other)?,
        ) else {
            return Ok(wrote);
        };
        let open = self.open_flags(other)?;
        if open >= FLAGS_PER_MEMORY_MAX {
            let note = format!("not flagged: {other} has {open} open flags already");
            return Ok(Wrote { note: Some(wrote.note.unwrap_or(note)), ..wrote });
        }
        let ids = vec![other.clone(), wrote.id.clone()];
        let evidence = evidence(found, kind);
        let run_id = match kind {
            FlagKind::Near => {
                let flag = near_flag([&row, &other_row], &evidence);
                let changes: Vec<Change> = flag.into_iter().collect();
                self.record(run, "flag", ActionType::FlagContradiction, ids, &changes)?
            }
            FlagKind::Contradiction | FlagKind::Update => {
                let SaveRun { run_id, units, .. } = self.next_unit(run)?;
                let rows = vec![row, other_row];
                let mut changes = self.contradiction(found, &ids, rows, run_id)?;
                if is_said_again {
                    changes.iter_mut().for_each(|change| assert_in(change, &wrote.id, &self.at));
                }
                let mark = Mark { run_id, unit: *units, at: &self.at };
                self.write_flag(&mark, ids, &changes)?;
                run_id.clone()
            }
        };
        Ok(Wrote { run_id: Some(run_id), ..wrote })
    }

    /// Returns the changes that flag two memories as contradictory.
    fn contradiction(
        &self,
        found: &Match,
        ids: &[MemoryId],
        rows: Vec<MemoryRow>,
        run_id: &str,
    ) -> Result<Vec<Change>, SaveError> {
        let score = found.judgement.as_ref().map(|j| j.contradiction_score);
        let evidence = evidence(found, FlagKind::Contradiction);
        let rationale = Rationale { score, evidence, ..Rationale::new(RULE, Vec::new()) };
        let action = Action::new(ActionType::FlagContradiction, ids.to_vec(), rationale);
        let context = self.context(run_id);
        let steps = [Step::of(&action)];
        Ok(changes_of(self.writes, &self.layout, &context, &steps, rows)?.changes)
    }

    fn write_flag(
        &self,
        mark: &Mark<'_>,
        ids: Vec<MemoryId>,
        changes: &[Change],
    ) -> Result<(), SaveError> {
        let record = ActionRecord::alone("flag", ActionType::FlagContradiction, ids.clone());
        Ok(write_unit(self.writes, &self.layout, mark, record, changes, &ids)?)
    }

    /// Counts the access to a repeated memory, and records that it is the newer side of a pair now.
    fn touch_and_flag(
        &self,
        weighed: &Weighed,
        against: usize,
        run: &mut Option<SaveRun>,
    ) -> Result<Wrote, SaveError> {
        let Some(equal) = weighed.equal.first() else { return self.insert() };
        let wrote = self.touch(equal, run)?;
        let found = &weighed.matches[against];
        let (other, own) = (&found.memory.id, &wrote.id);
        let noted = |wrote: Wrote, note: String| Ok(Wrote { note: Some(note), ..wrote });
        if !self.can_record()? {
            return noted(wrote, "memfold's tables are of a later version: not flagged".to_owned());
        }
        let (Some(row), Some(other_row)) =
            (self.writes.memory(&self.layout, own)?, self.writes.memory(&self.layout, other)?)
        else {
            return Ok(wrote);
        };
        let ids = vec![other.clone(), own.clone()];
        let rows = vec![row, other_row];
        let is_open = weighed.flags.iter().any(|flag| flag.other == *other);
        if !is_open && self.open_flags(other)?.max(self.open_flags(own)?) >= FLAGS_PER_MEMORY_MAX {
            let note = format!(
                "not flagged: {own} or {other} has {FLAGS_PER_MEMORY_MAX} open flags already"
            );
            return noted(wrote, note);
        }
        let SaveRun { run_id, units, .. } = self.next_unit(run)?;
        let mut changes = Vec::new();
        if !is_open {
            changes = self.contradiction(found, &ids, rows, run_id)?;
            changes.iter_mut().for_each(|change| assert_in(change, own, &self.at));
        }
        // The statements of its other flags are older as well.
        changes.extend(weighed.flags.iter().filter_map(|flag| turned_round(flag, own, &self.at)));
        let mark = Mark { run_id, unit: *units, at: &self.at };
        self.write_flag(&mark, ids, &changes)?;
        Ok(Wrote { run_id: Some(run_id.clone()), ..wrote })
    }

    fn context<'c>(&'c self, run_id: &'c str) -> MergeContext<'c> {
        MergeContext {
            policy: &self.shared.options.policy,
            time_zone: &self.shared.options.time_zone,
            run_id,
            now: self.now,
            at: &self.at,
        }
    }

    /// Applies an action as a whole run would, as one unit; returns the run and a note for the
    /// user.
    fn carry_out(
        &self,
        run: &mut Option<SaveRun>,
        label: &'static str,
        action: &Action,
        rows: Vec<MemoryRow>,
    ) -> Result<(String, Option<String>), SaveError> {
        let SaveRun { run_id, units, .. } = self.next_unit(run)?;
        let (writes, layout, context) = (self.writes, &self.layout, self.context(run_id));
        let note =
            carry_out_alone(writes, layout, &context, *units, label, action, rows, Vec::new())?;
        Ok((run_id.clone(), note))
    }

    /// Carries out changes as one unit.
    fn record(
        &self,
        run: &mut Option<SaveRun>,
        label: &str,
        action: ActionType,
        ids: Vec<MemoryId>,
        changes: &[Change],
    ) -> Result<String, SaveError> {
        let SaveRun { run_id, units, .. } = self.next_unit(run)?;
        let mark = Mark { run_id, unit: *units, at: &self.at };
        let record = ActionRecord::alone(label, action, ids.clone());
        write_unit(self.writes, &self.layout, &mark, record, changes, &ids)?;
        Ok(run_id.clone())
    }

    /// Begins the run of the day where there is none, and counts one more unit.
    fn next_unit<'r>(&self, run: &'r mut Option<SaveRun>) -> Result<&'r SaveRun, SaveError> {
        let current = self.run_of_today(run)?;
        current.units += 1;
        Ok(current)
    }

    /// Begins the run of the day where there is none.
    fn run_of_today<'r>(&self, run: &'r mut Option<SaveRun>) -> Result<&'r mut SaveRun, SaveError> {
        let day = &self.at[..self.at.len().min(10)];
        let current = match run.take().filter(|run| run.day == day) {
            Some(run) => run,
            None => SaveRun { day: day.to_owned(), run_id: self.begin_run()?, units: 0 },
        };
        Ok(run.insert(current))
    }

    fn begin_run(&self) -> Result<String, SaveError> {
        self.writes.prepare(&self.at)?;
        let holder = self.shared.options.holder.as_str();
        let wanted = memfold_core::report::run_id(holder, self.now, self.text);
        let start = RunStart {
            run_id: &wanted,
            kind: RunKind::Save,
            plan_id: None,
            target: None,
            holder,
            at: &self.at,
        };
        Ok(self.writes.begin_ended_run(&start)?)
    }

    /// Tells whether memfold's tables can be written: a later version's are left alone.
    fn can_record(&self) -> Result<bool, SaveError> {
        match self.writes.prepare(&self.at) {
            Ok(()) => Ok(true),
            Err(StoreError::NewerTables { .. }) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    fn open_flags(&self, id: &MemoryId) -> Result<usize, SaveError> {
        Ok(self.writes.count_open_flags(id)?)
    }

    /// Inserts the row of the new memory, with its vector; returns a note for the user.
    fn insert_row(&self, id: &str, indexed: bool) -> Result<Option<String>, SaveError> {
        let categories = categories_to_json(&self.incoming.boxed_categories());
        let row = NewRow {
            id,
            content: self.text,
            categories: &categories,
            importance: self.incoming.importance.unwrap_or(IMPORTANCE_DEFAULT),
            source: self.incoming.source(),
            at: &self.at,
        };
        self.writes.insert_memory(&self.layout, &row, indexed)?;
        let Some(vector) = &self.incoming.vector else { return Ok(None) };
        if !vector.iter().all(|value| value.is_finite()) || vector.iter().all(|value| *value == 0.0)
        {
            return Ok(Some("the vector was not saved: it is zero or not finite".to_owned()));
        }
        let model =
            match model_of(self.writes, &self.layout, self.incoming.model.as_deref(), vector)? {
                Ok(model) => model,
                Err(reason) => return Ok(Some(format!("the vector was not saved: {reason}"))),
            };
        let (model, at) = (model.as_deref(), self.at.as_str());
        let row = NewEmbedding { memory_id: id, content: self.text, vector, model, at };
        match self.writes.insert_embedding(&self.layout, &row) {
            Ok(()) => Ok(None),
            // The text is worth more than its vector, which can be made again.
            Err(error @ StoreError::Refused { .. }) => {
                Ok(Some(format!("the vector was not saved: {error}")))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// The requested id, or a new one.
    fn free_id(&self) -> Result<String, SaveError> {
        if let Some(id) = &self.incoming.id
            && self.writes.memory(&self.layout, &MemoryId::new(id.as_str()))?.is_none()
        {
            return Ok(id.clone());
        }
        let mut attempt = 0_u32;
        loop {
            let mut hasher = blake3::Hasher::new();
            for part in [self.shared.options.holder.as_str(), self.text, self.at.as_str()] {
                hasher.update(&(part.len() as u64).to_le_bytes());
                hasher.update(part.as_bytes());
            }
            hasher.update(&self.now.0.to_le_bytes());
            hasher.update(&attempt.to_le_bytes());
            let id = format!("stm_{}", &hasher.finalize().to_hex()[..12]);
            let row = self.writes.memory(&self.layout, &MemoryId::new(id.as_str()))?;
            if row.is_none() && self.remembered(&id)?.is_none() {
                return Ok(id);
            }
            attempt = attempt.wrapping_add(1);
        }
    }

    fn protection(&self, memory: &Memory) -> Option<memfold_core::plan::ProtectedBy> {
        protected_by(memory, false, &self.shared.options.policy, self.now)
    }

    fn remembered(&self, id: &str) -> Result<Option<Memory>, SaveError> {
        self.look_up(|reader| Ok(reader.remembered(id)?))
    }

    fn live_memory(&self, id: &str) -> Result<Option<Memory>, SaveError> {
        self.look_up(|reader| Ok(reader.live_memory(id)?))
    }

    fn look_up<T>(
        &self,
        read: impl FnOnce(&memfold_store::brain_db::StoreReader<'_>) -> Result<T, SaveError>,
    ) -> Result<T, SaveError> {
        let load = LoadRequest {
            time_zone: &self.shared.options.time_zone,
            now: self.now,
            progress: &memfold_index::NoProgress,
        };
        self.writes.look_up(&load, read)
    }
}

fn revived(error: UpkeepError) -> SaveError {
    match error {
        UpkeepError::Store(error) => error.into(),
        error => {
            StoreError::Refused { what: "bring a memory back", reason: error.to_string() }.into()
        }
    }
}

/// Names the side of a new flag that is the later statement.
fn assert_in(change: &mut Change, asserted: &MemoryId, at: &str) {
    if let Change::Record(Record { table: Table::Flags, cells }) = change {
        cells.push(("asserted_id", asserted.as_str().into()));
        cells.push(("asserted_at", at.into()));
    }
}

/// The change by which a memory becomes the newer side of a flag; `None` where it is that already.
fn turned_round(flag: &OpenFlag, asserted: &MemoryId, at: &str) -> Option<Change> {
    let (id, time) = flag.asserted.as_ref().map(|(id, time)| (id.as_str(), time.as_str())).unzip();
    if id == Some(asserted.as_str()) {
        return None;
    }
    let set = |column: &str, before: Option<&str>, after: &str| {
        ColumnChange::of(column, before.map_or(Value::Null, Into::into), after.into())
    };
    Some(Change::Set {
        row: RowKey { table: Table::Flags, key: flag.row.to_string() },
        columns: vec![set("asserted_id", id, asserted.as_str()), set("asserted_at", time, at)],
        image: None,
    })
}

fn evidence(found: &Match, kind: FlagKind) -> Evidence {
    let signals = match (&found.judgement, kind) {
        (Some(judgement), FlagKind::Contradiction | FlagKind::Update) => signal_kinds(judgement),
        _ => Vec::new(),
    };
    Evidence {
        similarity: found.similarity.map(memfold_simd::Similarity::get),
        cluster_id: None,
        contradiction_signals: signals,
        differences: found.differences.clone(),
        ..Evidence::default()
    }
}
