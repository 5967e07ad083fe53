//! From units to lines: each change adds lines to the refs or takes lines out. The way back takes lines out again, so that
//! the notes are as before.

use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::ledger::{self, Entry, Fields, NewMeta, RefKey, RefKind, encode, says_the_same, text};
use super::library::{Domain, Library, Place};
use crate::shared::{Refusal, attribute, note, retired_status};
use memfold_store::origin::{
    LinkKind, OriginChange, OriginRecord, OriginStatus, OriginUnit, Published,
};

/// The namespace of a memory that was made of no other and says none.
const NAMESPACE_DEFAULT: &str = "learnings";

/// The lines of a library with some units applied.
pub(super) struct Applied {
    pub(super) library: Library,
    pub(super) published: Published,
    /// The time of the commits, in seconds since 1970: that of the latest unit.
    pub(super) seconds: i64,
    /// Positions of the units by their keys.
    positions: BTreeMap<String, usize>,
}

/// A unit while it is applied.
struct Step<'a> {
    unit: &'a OriginUnit,
    key: String,
    position: usize,
}

/// The state before a unit, for the record of its run.
struct BegunRun {
    /// Where the first changed memory is, unless this unit makes it.
    place: Option<Place>,
    ids: Vec<String>,
    /// The tiers of these memories.
    tiers: Vec<String>,
}

impl Applied {
    /// Applies units to a library.
    pub(super) fn of(library: Library, units: &[OriginUnit]) -> Self {
        let keys = units.iter().map(unit_key);
        let positions = keys.enumerate().map(|(position, key)| (key, position)).collect();
        let times = units.iter().filter_map(|unit| unit.at.parse::<Timestamp>().ok());
        let seconds = times.map(Timestamp::as_second).max().unwrap_or(0);
        let mut applied = Self { library, published: Published::default(), seconds, positions };
        for (position, unit) in units.iter().enumerate() {
            let step = Step { unit, key: unit_key(unit), position };
            let refusal = unit.changes.iter().find_map(|change| applied.refusal(&step, change));
            match refusal {
                Some(_) => applied.take_back(&step),
                None => applied.apply(&step),
            }
            note(&mut applied.published, position, refusal.map_or(Ok(()), Err));
        }
        applied
    }

    fn refusal(&self, step: &Step<'_>, change: &OriginChange) -> Option<Refusal> {
        let refused = |id: &str, reason: &str| Some((id.to_owned(), reason.to_owned()));
        if self.is_written(step, change) || self.is_as_wanted(change) {
            return None;
        }
        match change {
            OriginChange::Create { record, .. } if self.library.base(&record.id).is_some() => {
                refused(&record.id, "another record has this id")
            }
            OriginChange::Create { record, made_of } if self.home(record, made_of).is_none() => {
                refused(
                    &record.id,
                    "there is no commit to attach it to: none of its sources is in a note",
                )
            }
            OriginChange::Update { before, record, .. } => {
                self.difference(step, &record.id, before)
            }
            OriginChange::Retire { before, id, .. } => self.difference(step, id, before),
            OriginChange::Restore { record, .. } if self.library.base(&record.id).is_none() => {
                refused(&record.id, "its note is gone")
            }
            OriginChange::Restore { before: Some(before), record } => {
                self.difference(step, &record.id, before).filter(|_| !self.is_back(step, record))
            }
            OriginChange::Remove { before: Some(before), id }
                if self.library.base(&self.library.resolve(id)).is_some() =>
            {
                // Its own lines go one ref after the other; its sources are back before.
                let is_begun = step.unit.changes.iter().any(|change| {
                    matches!(change, OriginChange::Restore { record, .. } if self.is_back(step, record))
                });
                self.difference(step, id, before).filter(|_| !is_begun)
            }
            _ => None,
        }
    }

    /// Tells whether a record is restored already, by an earlier, interrupted publish.
    fn is_back(&self, step: &Step<'_>, record: &OriginRecord) -> bool {
        let id = self.library.resolve(&record.id);
        let now = self.library.state(&id, |_, _| true);
        let is_same = now.is_some_and(|now| now.digest() == record.digest());
        let mut lines = self.library.ledger.of_unit(&step.key);
        is_same
            || lines.any(|(entry, fields)| {
                entry.key.kind == RefKind::Meta && text(fields, "memory_id") == Some(id.as_str())
            })
    }

    /// Refuses a memory that others changed since it was read. Lines of this call do not count.
    fn difference(&self, step: &Step<'_>, id: &str, before: &str) -> Option<Refusal> {
        let id = self.library.resolve(id);
        let Some(now) = self.state(step, &id) else {
            return Some((id, "its note is gone".to_owned()));
        };
        let is_others = |fields: &Fields| {
            text(fields, "unit").is_none_or(|unit| !self.positions.contains_key(unit))
        };
        let untouched = || self.library.state(&id, |_, fields| is_others(fields));
        let is_same =
            now.digest() == before || untouched().is_some_and(|record| record.digest() == before);
        (!is_same).then(|| (id, "it was changed since it was read".to_owned()))
    }

    /// Returns a memory as it was before this unit.
    fn state(&self, step: &Step<'_>, id: &str) -> Option<OriginRecord> {
        self.library.state(id, |_, fields| self.is_earlier(step, fields))
    }

    /// Tells whether a line is of somebody else or of a unit before this one.
    fn is_earlier(&self, step: &Step<'_>, fields: &Fields) -> bool {
        let position = text(fields, "unit").and_then(|unit| self.positions.get(unit));
        position.is_none_or(|position| *position < step.position)
    }

    fn is_written(&self, step: &Step<'_>, change: &OriginChange) -> bool {
        let (kind, name, id) = match change {
            OriginChange::Create { record, .. } => (RefKind::Summaries, "id", &record.id),
            OriginChange::Update { record, .. } => (RefKind::Meta, "memory_id", &record.id),
            OriginChange::Retire { id, .. } => (RefKind::Meta, "memory_id", id),
            OriginChange::Restore { .. } | OriginChange::Remove { .. } => return false,
        };
        let id = self.library.resolve(id);
        let mut lines = self.library.ledger.of_unit(&step.key);
        lines.any(|(entry, fields)| {
            entry.key.kind == kind && text(fields, name) == Some(id.as_str())
        })
    }

    /// Tells whether a change has nothing to do any more.
    fn is_as_wanted(&self, change: &OriginChange) -> bool {
        let Some(wanted) = self.wanted(change) else { return false };
        let now = self.library.state(&wanted.id, |_, _| true);
        let has_links = || match change {
            OriginChange::Update { record, .. } => self.missing_links(record).next().is_none(),
            _ => true,
        };
        now.is_some_and(|now| says_the_same(&now, &wanted)) && has_links()
    }

    /// Returns a memory after a change, where that may be a state it was in before.
    fn wanted(&self, change: &OriginChange) -> Option<OriginRecord> {
        match change {
            OriginChange::Update { record, merged, .. } if merged.is_empty() => {
                let id = self.library.resolve(&record.id);
                Some(OriginRecord { id, status: OriginStatus::Live, ..(**record).clone() })
            }
            OriginChange::Retire { id, into, .. } => {
                let now = self.library.state(&self.library.resolve(id), |_, _| true)?;
                let into = into.as_ref().map(|into| self.library.resolve(into));
                Some(OriginRecord { status: retired_status(into.as_deref()), ..now })
            }
            _ => None,
        }
    }

    fn apply(&mut self, step: &Step<'_>) {
        let run = self.begin_run(step);
        for change in &step.unit.changes {
            let is_written = self.is_written(step, change);
            if is_written || !(self.is_as_wanted(change) || self.go_back(change)) {
                self.apply_change(step, change, is_written);
            }
        }
        if let Some(run) = run.filter(|_| self.library.ledger.has_memories(&step.key)) {
            self.end_run(step, run);
        }
    }

    fn apply_change(&mut self, step: &Step<'_>, change: &OriginChange, is_written: bool) {
        match change {
            OriginChange::Create { record, made_of } => {
                if !is_written {
                    self.create(step, record, made_of);
                }
                self.edges(step, record, made_of);
            }
            OriginChange::Update { record, merged, .. } => {
                if !is_written {
                    self.write_meta(step, record, None);
                }
                self.edges(step, record, merged);
            }
            OriginChange::Retire { id, into, reason, .. } => {
                let id = self.library.resolve(id);
                let state = self.state(step, &id).filter(|_| !is_written);
                if let Some(record) = state {
                    self.write_meta(step, &record, Some((into.as_deref(), reason)));
                }
                if let Some(into) = into {
                    self.edge(step, into, &id, "consolidates");
                }
            }
            OriginChange::Restore { record, .. } => {
                if !self.restore(record) {
                    self.write_meta(step, record, None);
                }
            }
            OriginChange::Remove { id, .. } => self.remove(id),
        }
    }

    /// Takes out the lines of an earlier, interrupted publish of a unit that is left alone now.
    fn take_back(&mut self, step: &Step<'_>) {
        let Library { ledger, ids, .. } = &mut self.library;
        let lines: Vec<Rc<Entry>> =
            ledger.of_unit(&step.key).map(|(entry, _)| Rc::clone(entry)).collect();
        for entry in &lines {
            ledger.remove(entry, ids);
        }
    }

    fn create(&mut self, step: &Step<'_>, record: &OriginRecord, made_of: &[String]) {
        let Some(home) = self.home(record, made_of) else { return };
        let made_of: Vec<String> = made_of.iter().map(|id| self.library.resolve(id)).collect();
        let sources = made_of.iter().filter_map(|id| self.library.base(id));
        let mut times: Vec<String> = sources.filter_map(|base| base.record.created_at).collect();
        times.sort();
        let created_at = record.created_at.as_deref().unwrap_or(&step.unit.at);
        let fields = json!({
            "id": record.id,
            "namespace": home.namespace,
            "created_at": created_at,
            "temporal_range": {"start": times.first(), "end": times.last()},
            "summary": record.text,
            "key_facts": [],
            "decisions": [],
            "superseded_facts": [],
            "source_memory_ids": made_of,
            "consolidation_run_id": step.unit.run_id,
            "tier": "warm",
            "activation_count": record.access_count,
            "last_accessed": record.last_accessed,
            "expires_at": record.expires_at,
            "tags": record.tags,
            "attributes": ledger::attributes_value(&record.attributes),
            "importance": record.importance,
            "source": record.source,
            "rule": step.unit.rule,
            "unit": step.key,
        });
        self.insert(RefKind::Summaries, &home, fields);
    }

    /// Returns where a new record goes: the namespace most of its sources have, and there the first commit. A
    /// record without sources goes to the commit that is checked out.
    fn home(&self, record: &OriginRecord, made_of: &[String]) -> Option<Place> {
        if made_of.is_empty() {
            let domain = Domain::Project;
            let namespace = attribute(record, "namespace").unwrap_or(NAMESPACE_DEFAULT).to_owned();
            let commit = self.library.repositories.get(&domain)?.head()?;
            return Some(Place { domain, namespace, commit });
        }
        let bases = made_of.iter().filter_map(|id| self.library.base(&self.library.resolve(id)));
        let places: Vec<Place> = bases.map(|base| base.place).collect();
        let mut counts = BTreeMap::new();
        for place in &places {
            *counts.entry((place.domain, &place.namespace)).or_insert(0_usize) += 1;
        }
        let most = counts.iter().rev().max_by_key(|(_, count)| **count)?.0;
        places.iter().find(|place| (place.domain, &place.namespace) == *most).cloned()
    }

    fn write_meta(
        &mut self,
        step: &Step<'_>,
        record: &OriginRecord,
        retired: Option<(Option<&str>, &str)>,
    ) {
        let id = self.library.resolve(&record.id);
        let Some(base) = self.library.base(&id) else { return };
        let into = retired.map(|(into, _)| into.map(|into| self.library.resolve(into)));
        let prior = self.library.meta(&id, |_, fields| self.is_earlier(step, fields));
        let new = NewMeta {
            record,
            base: &base.record,
            prior: prior.map(|(_, fields)| fields),
            retired: into.as_ref().map(Option::as_deref),
            at: &step.unit.at,
        };
        let mut fields = new.fields();
        let reason = retired.map(|(_, reason)| reason);
        for (name, value) in [
            ("consolidation_run_id", Some(&*step.unit.run_id)),
            ("rule", Some(&*step.unit.rule)),
            ("reason", reason),
            ("unit", Some(&*step.key)),
        ] {
            fields.extend(value.map(|value| (name.to_owned(), value.into())));
        }
        self.insert(RefKind::Meta, &base.place, Value::Object(fields));
    }

    /// Writes the edges of a record: to the records that merged into it, and its links that its note lacks.
    fn edges(&mut self, step: &Step<'_>, record: &OriginRecord, merged: &[String]) {
        for id in merged {
            self.edge(step, &record.id, id, "consolidates");
        }
        let missing: Vec<_> = self.missing_links(record).collect();
        for (to, kind) in missing {
            self.edge(step, &record.id, &to, kind);
        }
    }

    fn missing_links<'a>(
        &'a self,
        record: &'a OriginRecord,
    ) -> impl Iterator<Item = (String, &'static str)> + 'a {
        let id = self.library.resolve(&record.id);
        let links = self.library.base(&id).map(|base| base.record.links).unwrap_or_default();
        let known: BTreeSet<String> =
            links.iter().map(|link| self.library.resolve(&link.to)).collect();
        record.links.iter().filter_map(move |link| {
            let to = self.library.resolve(&link.to);
            let kind = match link.kind {
                LinkKind::References if known.contains(&to) => return None,
                LinkKind::References => "references",
                LinkKind::Supersedes => "supersedes",
            };
            (!self.has_edge(&id, &to, kind)).then_some((to, kind))
        })
    }

    fn has_edge(&self, source: &str, target: &str, kind: &str) -> bool {
        let resolved =
            |fields: &Fields, name| text(fields, name).map(|id| self.library.resolve(id));
        self.library.ledger.about(RefKind::Edges, source).any(|(_, fields)| {
            resolved(fields, "source_id").as_deref() == Some(source)
                && resolved(fields, "target_id").as_deref() == Some(target)
                && text(fields, "edge_type").is_some_and(|found| found.eq_ignore_ascii_case(kind))
        })
    }

    fn edge(&mut self, step: &Step<'_>, source: &str, target: &str, kind: &str) {
        let (source, target) = (self.library.resolve(source), self.library.resolve(target));
        let base = self.library.base(&source).or_else(|| self.library.base(&target));
        let Some(base) = base.filter(|_| source != target) else { return };
        let fields = json!({
            "source_id": source,
            "target_id": target,
            "edge_type": kind,
            "weight": 1.0,
            "reason": step.unit.rule,
            "created_at": step.unit.at,
            "consolidation_run_id": step.unit.run_id,
            "unit": step.key,
        });
        self.insert(RefKind::Edges, &base.place, fields);
    }

    /// Notes the state before the run for its record, where that is not written yet.
    fn begin_run(&self, step: &Step<'_>) -> Option<BegunRun> {
        let mut lines = self.library.ledger.of_unit(&step.key);
        if lines.any(|(entry, _)| entry.key.kind == RefKind::Runs) {
            return None;
        }
        let ids = step.unit.changes.iter().filter_map(changed_id);
        let ids: Vec<String> = ids.map(|id| self.library.resolve(id)).collect();
        let place = ids.iter().find_map(|id| self.library.base(id)).map(|base| base.place);
        let tier = |id: &String| {
            let prior = self.library.meta(id, |_, fields| self.is_earlier(step, fields));
            ledger::tier(prior.map(|(_, fields)| fields)).to_owned()
        };
        let tiers = ids.iter().map(tier).collect();
        Some(BegunRun { place, ids, tiers })
    }

    fn end_run(&mut self, step: &Step<'_>, run: BegunRun) {
        let created = || {
            let lines = self.library.ledger.of_unit(&step.key);
            lines.map(|(entry, _)| entry.place()).next()
        };
        let Some(place) = run.place.clone().or_else(created) else { return };
        let unit = step.unit;
        let is_new = |change: &&OriginChange| matches!(change, OriginChange::Create { .. });
        let tiers = run.ids.iter().zip(&run.tiers);
        let transitions: Vec<Value> =
            tiers.filter_map(|(id, from)| self.transition(step, id, from)).collect();
        let fields = json!({
            "run_id": unit.run_id,
            "started_at": unit.at,
            "completed_at": unit.at,
            "phase": "completed",
            "memories_processed": unit.changes.len(),
            "memory_ids": run.ids,
            "clusters_found": usize::from(unit.changes.len() > 1),
            "summaries_created": unit.changes.iter().filter(is_new).count(),
            "supersessions_detected": 0,
            "tier_transitions": transitions,
            "errors": [],
            "rule": unit.rule,
            "unit": step.key,
        });
        self.insert(RefKind::Runs, &place, fields);
    }

    fn transition(&self, step: &Step<'_>, id: &str, from: &str) -> Option<Value> {
        let mut lines = self.library.ledger.of_unit(&step.key);
        let (_, fields) = lines.find(|(entry, fields)| {
            entry.key.kind == RefKind::Meta && text(fields, "memory_id") == Some(id)
        })?;
        let to = ledger::tier(Some(fields));
        let score = fields.get("retention").and_then(|retention| retention.get("overall"));
        let reason = text(fields, "reason").unwrap_or(&step.unit.rule);
        (from != to).then(|| {
            json!({
                "memory_id": id, "from_tier": from, "to_tier": to, "reason": reason, "retention_score": score,
            })
        })
    }

    fn insert(&mut self, kind: RefKind, place: &Place, fields: Value) {
        let Value::Object(fields) = fields else { return };
        let entry = Entry {
            key: RefKey::of(kind, place),
            commit: place.commit.clone(),
            line: encode(&fields),
        };
        self.library.ledger.insert(entry, fields, &self.library.ids);
    }

    /// Brings a memory back to its state when it was read, or to one in between; tells whether taking
    /// lines out was enough.
    fn restore(&mut self, record: &OriginRecord) -> bool {
        let id = self.library.resolve(&record.id);
        let wanted = OriginRecord { status: OriginStatus::Live, ..record.clone() };
        let way_back = self.way_back(&id, &wanted, Some(&record.raw));
        let is_enough = way_back.is_some();
        let later = || ours(self.lines(&id).into_iter().skip(self.read_at(&id, &record.raw)));
        let taken = way_back.unwrap_or_else(later);
        self.take_out(&id, &taken);
        is_enough
    }

    /// Takes lines out where that alone makes a change: the inverse of an earlier change.
    fn go_back(&mut self, change: &OriginChange) -> bool {
        let Some(wanted) = self.wanted(change) else { return false };
        let way_back = self.way_back(&wanted.id, &wanted, None);
        if let Some(taken) = &way_back {
            self.take_out(&wanted.id, taken);
        }
        way_back.is_some()
    }

    /// Takes out a memory that memfold made.
    fn remove(&mut self, id: &str) {
        let id = self.library.resolve(id);
        let ledger = &self.library.ledger;
        let lines = ledger.about(RefKind::Summaries, &id).chain(ledger.about(RefKind::Meta, &id));
        let taken = ours(lines);
        self.take_out(&id, &taken);
    }

    /// Returns the lines to take out so that a memory is as wanted; `None` where no earlier state is.
    ///
    /// The state that was read goes before all others: an undo leads there.
    fn way_back(
        &self,
        id: &str,
        wanted: &OriginRecord,
        raw: Option<&str>,
    ) -> Option<Vec<Rc<Entry>>> {
        let lines = self.lines(id);
        let read_at = raw.map(|raw| self.read_at(id, raw));
        let cuts = read_at.into_iter().chain((read_at.unwrap_or(0)..=lines.len()).rev());
        let mut ways = cuts.map(|cut| ours(lines[cut..].iter().copied()));
        ways.find(|taken| {
            let state = self.library.state(id, |entry, _| !taken.contains(entry));
            state.is_some_and(|state| says_the_same(&state, wanted))
        })
    }

    /// Returns the lines of a memory, the one that counts last.
    fn lines(&self, id: &str) -> Vec<(&Rc<Entry>, &Fields)> {
        let mut lines: Vec<_> = self.library.ledger.about(RefKind::Meta, id).collect();
        lines.sort_by_key(|(entry, fields)| ledger::order(fields, &entry.line));
        lines
    }

    /// Counts the lines up to the one that counted when the record was read.
    fn read_at(&self, id: &str, raw: &str) -> usize {
        let counted = |(entry, _): &(&Rc<Entry>, &Fields)| {
            raw.strip_suffix(&entry.line).is_some_and(|above| above.ends_with('\n'))
        };
        self.lines(id).iter().position(counted).map_or(0, |at| at + 1)
    }

    /// Takes lines out, the edges of their units at this memory, and the other lines of units that have no
    /// memory any more.
    fn take_out(&mut self, id: &str, taken: &[Rc<Entry>]) {
        let Library { ledger, ids, .. } = &mut self.library;
        let unit = |entry: &Rc<Entry>| ledger.unit(entry).map(str::to_owned);
        let units: BTreeSet<String> = taken.iter().filter_map(unit).collect();
        let beside = ledger.about(RefKind::Edges, id).chain(ledger.about(RefKind::Runs, id));
        let beside: Vec<(Rc<Entry>, String)> =
            beside.filter_map(|(entry, _)| Some((Rc::clone(entry), unit(entry)?))).collect();
        for entry in taken {
            ledger.remove(entry, ids);
        }
        for (entry, unit) in &beside {
            let is_edge_of_taken = entry.key.kind == RefKind::Edges && units.contains(unit);
            if is_edge_of_taken || !ledger.has_memories(unit) {
                ledger.remove(entry, ids);
            }
        }
    }
}

/// Returns the lines that memfold wrote.
fn ours<'l>(lines: impl Iterator<Item = (&'l Rc<Entry>, &'l Fields)>) -> Vec<Rc<Entry>> {
    let ours = lines.filter(|(_, fields)| fields.contains_key("unit"));
    ours.map(|(entry, _)| Rc::clone(entry)).collect()
}

/// Returns the record that a change writes.
fn changed_id(change: &OriginChange) -> Option<&str> {
    match change {
        OriginChange::Create { record, .. } | OriginChange::Update { record, .. } => {
            Some(&record.id)
        }
        OriginChange::Retire { id, .. } => Some(id),
        OriginChange::Restore { .. } | OriginChange::Remove { .. } => None,
    }
}

/// Names a unit by its run, its rule and the records it changes: the same at every writing.
fn unit_key(unit: &OriginUnit) -> String {
    let mut parts = vec![unit.run_id.as_str(), &unit.at, &unit.rule];
    for change in &unit.changes {
        parts.push(match change {
            OriginChange::Create { .. } => "create",
            OriginChange::Update { .. } => "update",
            OriginChange::Retire { .. } => "retire",
            OriginChange::Restore { .. } => "restore",
            OriginChange::Remove { .. } => "remove",
        });
        parts.extend(changed_id(change));
    }
    blake3::hash(parts.join("\n").as_bytes()).to_hex()[..16].to_owned()
}
