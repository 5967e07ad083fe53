//! Files of texts as stores: planned over as they are, and written again without merged records.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::PathBuf;

use jiff::tz::TimeZone;
use memfold_core::decisions::Decisions;
use memfold_core::memory::{
    BaseDigest, CategoryList, CreatedAt, Embedding, InvalidEmbedding, Memory, MemoryId, Status,
    VectorSpace,
};
use memfold_core::plan::{ActionState, ActionType, Plan, SavedAction};
use memfold_core::policy::{Policy, RuleAction};
use memfold_core::time::Instant;
use memfold_core::{SkipReason, Snapshot};
use memfold_datasets::texts::{TextFields, TextFile, TextRecord};
use memfold_guard::Guard;
use memfold_index::NoProgress;
use memfold_store::origin::{
    Origin, OriginContents, OriginError, OriginRecord, OriginUnit, Published, Skipped,
};
use memfold_store::{BrainDb, LoadRequest, MemoryStore, NoVectors, StoreError, VectorSink};
use serde::Serialize;
use serde_json::Value;

use crate::MemfoldError;
use crate::consolidate::{Outcome, RunContext, consolidate};
use crate::machine::clock;
use crate::quick_check::{importance_fault, vector_fault};

/// The model's name for vectors of a file that names no model.
const MODEL_UNKNOWN: &str = "unnamed";
const SOURCE_DEFAULT: &str = "agent";
const IMPORTANCE_DEFAULT: f64 = 1.0;

/// The name of files of texts among the kinds of stores.
pub const KIND: &str = "texts";
/// The rule of merges that a person approved.
const RULE_ANSWERED: &str = "review";

/// A file of texts, as a store that is only read.
#[derive(Debug)]
pub struct TextStore<'a> {
    file: &'a TextFile,
    /// The id of each record: its own where no record before it has the same.
    ids: Vec<MemoryId>,
    answers: Answers,
}

/// A person's answers about the texts of a file, as far as the texts are unchanged.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Answers {
    /// Memories that say the same, the survivor first.
    same: Vec<Vec<MemoryId>>,
    /// Memories that stay apart.
    apart: Vec<Vec<MemoryId>>,
}

impl Answers {
    /// Reads the answers that stand in the mirror of a file.
    ///
    /// # Errors
    /// When the mirror cannot be read.
    pub fn read(mirror: &BrainDb, file: &TextFile) -> Result<Self, MemfoldError> {
        let answered = answered(mirror)?;
        if answered.is_empty() {
            return Ok(Self::default());
        }
        let request =
            LoadRequest { time_zone: &TimeZone::UTC, now: clock(), progress: &NoProgress };
        let before = mirror.load(&request, &mut NoVectors::default())?.memories;
        let before: HashMap<&MemoryId, &str> =
            before.iter().map(|memory| (&memory.id, &*memory.content)).collect();
        let ids = ids_of(file);
        let texts: HashMap<&MemoryId, &str> =
            ids.iter().zip(file.records.iter().map(|record| record.text.as_str())).collect();
        let mut answers = Self::default();
        for action in answered {
            let named = &action.effective().target_ids;
            if !named.iter().all(|id| texts.contains_key(id) && texts.get(id) == before.get(id)) {
                continue;
            }
            match action.state {
                ActionState::Approved => answers.same.push(named.clone()),
                _ => answers.apart.push(named.clone()),
            }
        }
        Ok(answers)
    }

    /// Tells whether nothing was answered.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.same.is_empty() && self.apart.is_empty()
    }
}

/// Returns the actions of the last plan in a mirror that a person answered.
///
/// # Errors
/// When the mirror cannot be read.
pub(crate) fn answered(mirror: &BrainDb) -> Result<Vec<SavedAction>, StoreError> {
    // The last saved comes first.
    let Some(last) = mirror.plans()?.into_iter().next() else { return Ok(Vec::new()) };
    let plan = mirror.plan(&last.plan_id)?;
    let is_answered = |action: &SavedAction| {
        matches!(action.state, ActionState::Approved | ActionState::Rejected)
            && matches!(action.effective().action, ActionType::Merge | ActionType::ProposeMerge)
    };
    Ok(plan.actions.into_iter().filter(is_answered).collect())
}

/// Returns the part of a policy that applies to a file of texts: merges and flags. Nothing is
/// archived for its age, since nothing would be left of it.
pub(crate) fn policy_of_texts(policy: &Policy) -> Policy {
    let mut policy = policy.clone();
    policy.rules.retain(|rule| {
        matches!(rule.then.action, RuleAction::Merge | RuleAction::FlagContradiction)
    });
    policy
}

/// Gives each record an id: its own where no record before it has the same.
fn ids_of(file: &TextFile) -> Vec<MemoryId> {
    let mut known = HashSet::new();
    let ids = file.records.iter().map(|record| {
        if let Some(own) = record.id.as_ref().filter(|id| known.insert((*id).clone())) {
            return MemoryId::new(own.as_str());
        }
        let mut id = format!("{} {}", file.form.place_name(), record.place);
        while !known.insert(id.clone()) {
            id.push('\'');
        }
        MemoryId::new(id)
    });
    ids.collect()
}

/// A file of texts, as the origin of a mirror that holds the answers about it. It is never written.
#[derive(Debug)]
pub struct TextOrigin {
    path: PathBuf,
}

impl TextOrigin {
    /// Names a file.
    #[must_use]
    pub const fn new(path: PathBuf) -> Self {
        Self { path }
    }
}

impl Origin for TextOrigin {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn read(&self) -> Result<OriginContents, OriginError> {
        let file = TextFile::read(&self.path, &TextFields::default()).map_err(|error| {
            OriginError::Format {
                path: self.path.clone(),
                kind: "file of texts",
                reason: error.to_string(),
            }
        })?;
        let records = ids_of(&file).into_iter().zip(&file.records).enumerate();
        Ok(OriginContents {
            records: records
                .map(|(index, (id, record))| mirrored(&file, index, &id, record))
                .collect(),
            skipped: file
                .skipped_notes()
                .into_iter()
                .map(|reason| Skipped { place: self.path.display().to_string(), reason })
                .collect(),
        })
    }

    fn write(&self, _units: &[OriginUnit]) -> Result<Published, OriginError> {
        Err(OriginError::Format {
            path: self.path.clone(),
            kind: "store",
            reason: "a file of texts is never changed".to_owned(),
        })
    }
}

fn mirrored(file: &TextFile, index: usize, id: &MemoryId, record: &TextRecord) -> OriginRecord {
    let time = |text: &Option<String>| {
        let text = text.as_deref()?;
        let parsed = Instant::parse_any(text, &TimeZone::UTC);
        Some(parsed.map_or_else(|| text.to_owned(), |time| time.to_rfc3339()))
    };
    let model = record.model.as_deref().unwrap_or(MODEL_UNKNOWN);
    let vector = record.vector.clone().filter(|vector| vector_fault(vector).is_none());
    OriginRecord {
        id: id.to_string(),
        text: record.text.clone(),
        tags: record.categories.clone(),
        importance: record.importance.unwrap_or(IMPORTANCE_DEFAULT),
        access_count: record.access_count.unwrap_or(0),
        created_at: time(&record.created_at),
        updated_at: time(&record.updated_at),
        expires_at: time(&record.expires_at),
        source: record.source.clone().unwrap_or_else(|| SOURCE_DEFAULT.to_owned()),
        vector: vector.map(|vector| (model.to_owned(), vector)),
        place: format!("{} {}", file.form.place_name(), record.place),
        raw: file.raw(index).to_string(),
        ..OriginRecord::default()
    }
}

/// A record that the written file lacks, a line of the list beside it.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct RemovedRecord {
    /// Its line or row in the file that was read.
    pub place: u64,
    /// Its id.
    pub id: MemoryId,
    /// The record that stays in its place.
    pub survivor: MemoryId,
    /// The line or row of that record.
    pub survivor_place: u64,
    /// The rule that merged them.
    pub rule: String,
    /// The steps that prove it, except equal ones.
    pub proof: Vec<String>,
    /// The record as it stood in the file.
    pub record: Value,
}

impl<'a> TextStore<'a> {
    /// Makes a store of a file.
    #[must_use]
    pub fn new(file: &'a TextFile) -> Self {
        Self { ids: ids_of(file), file, answers: Answers::default() }
    }

    /// Applies a person's answers: equal memories are left out, the rest stays apart.
    #[must_use]
    pub fn with_answers(mut self, answers: Answers) -> Self {
        self.answers = answers;
        self
    }

    /// Plans over the file by those rules of the policy that merge or flag; others need a store.
    ///
    /// # Errors
    /// As [`consolidate`](fn@crate::consolidate::consolidate).
    pub fn consolidate(
        &self,
        policy: &Policy,
        guard: &Guard,
        context: &RunContext<'_>,
    ) -> Result<Outcome, MemfoldError> {
        consolidate(self, &policy_of_texts(policy), guard, context)
    }

    /// Returns the records that a plan merges into others, in the order of the file.
    #[must_use]
    pub fn removed(&self, plan: &Plan) -> BTreeMap<usize, RemovedRecord> {
        let index_of: HashMap<&MemoryId, usize> = self.ids.iter().zip(0..).collect();
        let mut removed = BTreeMap::new();
        for action in plan.actions.iter().filter(|action| action.action == ActionType::Merge) {
            let Some(survivor) = action.canonical_id.as_ref().and_then(|id| index_of.get(id))
            else {
                continue;
            };
            for id in action.merged_ids() {
                let Some(&index) = index_of.get(id) else { continue };
                let proof = action.rationale.evidence.differences.clone();
                let record = self.removed_record(index, *survivor, &action.rationale.rule_id);
                removed.insert(index, RemovedRecord { proof, ..record });
            }
        }
        for group in &self.answers.same {
            let places: Vec<usize> =
                group.iter().filter_map(|id| index_of.get(id).copied()).collect();
            let Some((&survivor, others)) = places.split_first() else { continue };
            let survivor = survivor_of(survivor, &removed, &index_of);
            for &other in others {
                let index = survivor_of(other, &removed, &index_of);
                if index != survivor {
                    removed.insert(index, self.removed_record(index, survivor, RULE_ANSWERED));
                }
            }
        }
        removed
    }

    fn removed_record(&self, index: usize, survivor: usize, rule: &str) -> RemovedRecord {
        RemovedRecord {
            place: self.file.records[index].place,
            id: self.ids[index].clone(),
            survivor: self.ids[survivor].clone(),
            survivor_place: self.file.records[survivor].place,
            rule: rule.to_owned(),
            proof: Vec::new(),
            record: self.file.raw(index),
        }
    }

    fn memory(
        &self,
        index: usize,
        request: &LoadRequest<'_>,
        spaces: &mut Spaces<'_>,
    ) -> Result<Memory, StoreError> {
        let record = &self.file.records[index];
        let time = |text: &Option<String>| Instant::parse_any(text.as_deref()?, request.time_zone);
        let expires_at = time(&record.expires_at);
        let is_expired = expires_at.is_some_and(|at| at <= request.now);
        let source = record.source.as_deref().unwrap_or(SOURCE_DEFAULT);
        Ok(Memory {
            rowid: record.place.cast_signed(),
            id: self.ids[index].clone(),
            content: record.text.as_str().into(),
            categories: record.categories.iter().collect::<CategoryList>().into_list(),
            importance: record
                .importance
                .filter(|importance| importance_fault(*importance).is_none())
                .unwrap_or(IMPORTANCE_DEFAULT),
            access_count: record.access_count.unwrap_or(0).max(0),
            // Unknown is not young.
            created_at: time(&record.created_at).map_or_else(
                || CreatedAt::Unreadable(record.created_at.as_deref().unwrap_or("").into()),
                CreatedAt::At,
            ),
            expires_at,
            last_accessed: None,
            source: source.into(),
            root_source: source.into(),
            merged_into: None,
            status: match is_expired {
                true => Status::Expired,
                false => Status::Live,
            },
            embedding: spaces.embedding(record)?,
            base_digest: self.digest(index),
        })
    }

    /// Nothing is planned about answered memories.
    fn decisions(&self) -> Decisions {
        let mut decisions = Decisions::default();
        for group in self.answers.same.iter().chain(&self.answers.apart) {
            decisions.keep_both.insert_undone_group(group.iter().cloned());
        }
        decisions
    }

    fn digest(&self, index: usize) -> BaseDigest {
        let mut hasher = blake3::Hasher::new();
        let record = &self.file.records[index];
        let categories = record.categories.iter().map(String::as_str);
        for part in [self.ids[index].as_str(), &record.text].into_iter().chain(categories) {
            hasher.update(&(part.len() as u64).to_le_bytes()).update(part.as_bytes());
        }
        BaseDigest(*hasher.finalize().as_bytes())
    }
}

impl MemoryStore for TextStore<'_> {
    fn load(
        &self,
        request: &LoadRequest<'_>,
        sink: &mut dyn VectorSink,
    ) -> Result<Snapshot, StoreError> {
        let mut spaces = Spaces { sink, known: Vec::new() };
        let mut memories = Vec::with_capacity(self.ids.len());
        let mut hasher = blake3::Hasher::new();
        for index in 0..self.ids.len() {
            if request.progress.cancelled() {
                return Err(StoreError::Cancelled);
            }
            let memory = self.memory(index, request, &mut spaces)?;
            hasher.update(&memory.base_digest.0);
            memories.push(memory);
        }
        let expired = memories.iter().filter(|memory| memory.status != Status::Live).count();
        let expired = (expired > 0).then_some((SkipReason::Expired, expired as u64));
        Ok(Snapshot {
            store_id: format!("texts:{}", &hasher.finalize().to_hex()[..32]).into(),
            rows_total: memories.len() as u64,
            memories,
            spaces: spaces.known,
            skipped: expired.into_iter().collect(),
            skip_examples: BTreeMap::new(),
            decisions: self.decisions(),
            notes: Vec::new(),
        })
    }
}

/// Returns the record that stands for one after the merges so far.
fn survivor_of(
    mut index: usize,
    removed: &BTreeMap<usize, RemovedRecord>,
    index_of: &HashMap<&MemoryId, usize>,
) -> usize {
    while let Some(record) = removed.get(&index) {
        index = index_of[&record.survivor];
    }
    index
}

/// The vectors of a file, by model and dimension.
struct Spaces<'a> {
    sink: &'a mut dyn VectorSink,
    known: Vec<VectorSpace>,
}

impl Spaces<'_> {
    fn embedding(&mut self, record: &TextRecord) -> Result<Embedding, StoreError> {
        let Some(vector) = &record.vector else { return Ok(Embedding::Missing) };
        if vector_fault(vector).is_some() {
            return Ok(Embedding::Invalid(InvalidEmbedding::Unreadable));
        }
        let model = record.model.as_deref().unwrap_or(MODEL_UNKNOWN);
        let space = VectorSpace { model: model.into(), dim: vector.len() as u32 };
        let at = match self.known.iter().position(|known| *known == space) {
            Some(at) => at,
            None => {
                self.sink.open_space(&space).map_err(StoreError::Sink)?;
                self.known.push(space);
                self.known.len() - 1
            }
        };
        let space = memfold_core::memory::SpaceIndex(at as u32);
        let row = self.sink.push(space, vector).map_err(StoreError::Sink)?;
        Ok(Embedding::Vector { space, row })
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use jiff::tz::TimeZone;
    use memfold_datasets::texts::TextFields;
    use memfold_index::{NoProgress, Pool};
    use memfold_simd::Kernels;

    use super::*;

    const NOTES: &str = "\
{\"id\":\"a\",\"text\":\"The API deploys every Friday at 5 pm\",\"user_id\":\"ann\"}
{\"id\":\"b\",\"text\":\"The API deploys every Friday at 5 pm.\",\"user_id\":\"ann\"}
{\"id\":\"c\",\"text\":\"the API deploys every Friday at 5 pm\",\"user_id\":\"ann\"}
{\"id\":\"d\",\"text\":\"The API deploys every Friday at 6 pm\",\"user_id\":\"ann\"}
{\"id\":\"e\",\"text\":\"The API deploys every Friday at 5 pm\",\"user_id\":\"bob\"}
{\"id\":\"a\",\"text\":\"Bob likes green tea\",\"user_id\":\"bob\"}
";

    fn plan(store: &TextStore<'_>) -> Outcome {
        let policy = Policy::builtin();
        let context = RunContext {
            now: Instant::parse("2026-01-01T00:00:00Z", &TimeZone::UTC).unwrap(),
            time_zone: &TimeZone::UTC,
            config_hash: "sha256:0",
            pool: &Pool::new(None).unwrap(),
            kernels: Kernels::active(),
            progress: &NoProgress,
            clock: &|| 0.0,
            scratch_dir: &std::env::temp_dir(),
        };
        store.consolidate(&policy, &Guard::new(&policy.guard).unwrap(), &context).unwrap()
    }

    #[test]
    fn texts_alone_merge_within_a_user_and_conflicts_stay() {
        let path = Path::new("notes.jsonl");
        let file = TextFile::read_bytes(path, NOTES.into(), &TextFields::default()).unwrap();
        let store = TextStore::new(&file);
        let outcome = plan(&store);
        let removed = store.removed(&outcome.plan);
        assert!(outcome.report.planned.flag_contradiction > 0);
        let kept: Vec<usize> = (0..6).filter(|index| !removed.contains_key(index)).collect();
        // One of the three that say the same, the other hour, and all of the other user.
        assert_eq!(kept.len(), 4, "{removed:#?}");
        assert_eq!(kept[1..], [3, 4, 5]);
        let evidence = |at: usize| &outcome.plan.actions[at].rationale.evidence;
        assert_eq!(evidence(0).built_in.as_deref(), Some("memfold-static-1"));
        let mut out = Vec::new();
        file.write(&|index| !removed.contains_key(&index), &mut out).unwrap();
        let lines: Vec<&str> = NOTES.lines().collect();
        let expected: String = kept.iter().map(|&at| format!("{}\n", lines[at])).collect();
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn an_id_that_stands_twice_names_one_record() {
        let path = Path::new("notes.jsonl");
        let file = TextFile::read_bytes(path, NOTES.into(), &TextFields::default()).unwrap();
        let ids: Vec<String> = TextStore::new(&file).ids.iter().map(ToString::to_string).collect();
        assert_eq!(ids, ["a", "b", "c", "d", "e", "line 6"]);
    }

    /// A record without an id was mixed up with another one that has the id generated for it.
    #[test]
    fn no_record_is_given_the_id_of_another() {
        let lines = "{\"id\":\"line 2\",\"text\":\"a\"}\n{\"text\":\"b\"}\n{\"id\":\"line 2'\",\"text\":\"c\"}\n";
        let path = Path::new("notes.jsonl");
        let file = TextFile::read_bytes(path, lines.into(), &TextFields::default()).unwrap();
        let ids: HashSet<MemoryId> = TextStore::new(&file).ids.into_iter().collect();
        assert_eq!(ids.len(), 3, "{ids:?}");
    }
}
