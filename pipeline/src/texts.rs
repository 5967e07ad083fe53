//! Files of texts as stores: planned over as they are, and written again without what was merged.

use std::collections::{BTreeMap, HashMap, HashSet};

use memfold_datasets::texts::{TextFile, TextRecord};
use memfold_guard::Guard;
use memfold_model::decisions::Decisions;
use memfold_model::memory::{
    BaseDigest, CategoryList, CreatedAt, Embedding, Exclusion, InvalidEmbedding, Memory, MemoryId,
    Standing, VectorSpace,
};
use memfold_model::time::Instant;
use memfold_model::{SkipReason, Snapshot};
use memfold_plan::plan::{ActionType, Plan};
use memfold_plan::policy::{Policy, RuleAction};
use memfold_store::{LoadRequest, LoadStoreError, MemoryStore, VectorSink};
use serde::Serialize;
use serde_json::Value;

use crate::MemfoldError;
use crate::consolidate::{Outcome, RunContext, consolidate};
use crate::quick_check::{importance_fault, vector_fault};

/// What the vectors of a file are called that names no model.
const MODEL_UNKNOWN: &str = "unnamed";
const SOURCE_DEFAULT: &str = "agent";
const IMPORTANCE_DEFAULT: f64 = 1.0;

/// A file of texts, as a store that is only read.
#[derive(Debug)]
pub struct TextStore<'a> {
    file: &'a TextFile,
    /// The id of each record: its own where no record before it has the same.
    ids: Vec<MemoryId>,
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
    /// The steps that prove it, but for what is equal.
    pub proof: Vec<String>,
    /// The record as it stood in the file.
    pub record: Value,
}

impl<'a> TextStore<'a> {
    /// Makes a store of a file.
    #[must_use]
    pub fn new(file: &'a TextFile) -> Self {
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
        Self { ids: ids.collect(), file }
    }

    /// Plans over the file: what is proven merges and conflicts are flagged. Nothing is archived for its age, since nothing
    /// would be left of it.
    ///
    /// # Errors
    /// As [`consolidate`](fn@crate::consolidate::consolidate).
    pub fn consolidate(
        &self,
        policy: &Policy,
        guard: &Guard,
        context: &RunContext<'_>,
    ) -> Result<Outcome, MemfoldError> {
        let mut policy = policy.clone();
        policy.rules.retain(|rule| {
            matches!(rule.then, RuleAction::Merge { .. } | RuleAction::FlagContradiction)
        });
        consolidate(self, &policy, guard, context)
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
            for id in action.absorbed_ids() {
                let Some(&index) = index_of.get(id) else { continue };
                let record = RemovedRecord {
                    place: self.file.records[index].place,
                    id: id.clone(),
                    survivor: self.ids[*survivor].clone(),
                    survivor_place: self.file.records[*survivor].place,
                    rule: action.rationale.rule_id.clone(),
                    proof: action.rationale.evidence.differences.clone(),
                    record: self.file.raw(index),
                };
                removed.insert(index, record);
            }
        }
        removed
    }

    fn memory(
        &self,
        index: usize,
        request: &LoadRequest<'_>,
        spaces: &mut Spaces<'_>,
    ) -> Result<Memory, LoadStoreError> {
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
            standing: match is_expired {
                true => Standing::Excluded(Exclusion::Expired),
                false => Standing::Live,
            },
            embedding: spaces.embedding(record)?,
            base_digest: self.digest(index),
        })
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
    ) -> Result<Snapshot, LoadStoreError> {
        let mut spaces = Spaces { sink, known: Vec::new() };
        let mut memories = Vec::with_capacity(self.ids.len());
        let mut hasher = blake3::Hasher::new();
        for index in 0..self.ids.len() {
            if request.progress.cancelled() {
                return Err(LoadStoreError::Cancelled);
            }
            let memory = self.memory(index, request, &mut spaces)?;
            hasher.update(&memory.base_digest.0);
            memories.push(memory);
        }
        let expired = memories.iter().filter(|memory| memory.standing != Standing::Live).count();
        let expired = (expired > 0).then_some((SkipReason::Expired, expired as u64));
        Ok(Snapshot {
            store_id: format!("texts:{}", &hasher.finalize().to_hex()[..32]).into(),
            rows_total: memories.len() as u64,
            memories,
            spaces: spaces.known,
            skipped: expired.into_iter().collect(),
            skip_examples: BTreeMap::new(),
            decisions: Decisions::default(),
            notes: Vec::new(),
        })
    }
}

/// The vectors of a file, by model and dimension.
struct Spaces<'a> {
    sink: &'a mut dyn VectorSink,
    known: Vec<VectorSpace>,
}

impl Spaces<'_> {
    fn embedding(&mut self, record: &TextRecord) -> Result<Embedding, LoadStoreError> {
        let Some(vector) = &record.vector else { return Ok(Embedding::Missing) };
        if vector_fault(vector).is_some() {
            return Ok(Embedding::Invalid(InvalidEmbedding::Unreadable));
        }
        let model = record.model.as_deref().unwrap_or(MODEL_UNKNOWN);
        let space = VectorSpace { model: model.into(), dim: vector.len() as u32 };
        let at = match self.known.iter().position(|known| *known == space) {
            Some(at) => at,
            None => {
                self.sink.open_space(&space).map_err(LoadStoreError::Sink)?;
                self.known.push(space);
                self.known.len() - 1
            }
        };
        let space = memfold_model::memory::SpaceIndex(at as u32);
        let row = self.sink.push(space, vector).map_err(LoadStoreError::Sink)?;
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

    /// A record without an id was mixed up with another one that has the id it is given.
    #[test]
    fn no_record_is_given_the_id_of_another() {
        let lines = "{\"id\":\"line 2\",\"text\":\"a\"}\n{\"text\":\"b\"}\n{\"id\":\"line 2'\",\"text\":\"c\"}\n";
        let path = Path::new("notes.jsonl");
        let file = TextFile::read_bytes(path, lines.into(), &TextFields::default()).unwrap();
        let ids: HashSet<MemoryId> = TextStore::new(&file).ids.into_iter().collect();
        assert_eq!(ids.len(), 3, "{ids:?}");
    }
}
