//! [`Memory`], a store of memories; [`Plan`], the planned actions on them; `compare`, the fact
//! guard.

use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use arrow_array::builder::{ListBuilder, StringBuilder};
use arrow_array::{Float64Array, StringArray};
use memfold::execute::{ExecuteError, forbidden_by};
use memfold::lookup::{SearchError, Wanted};
use memfold::machine;
use memfold::ops::{
    self, Failure, FailureKind, Listener, Memories, MemoriesOptions, RecallRequest, SearchRequest,
    Settings,
};
use memfold::quick_check::{Incoming, SaveError};
use memfold::recall::RecallMode;
use memfold::{ApplyOptions, Memfold, MemfoldError, Options, OwnedPlan};
use memfold_core::memory::Memory as StoredMemory;
use memfold_core::plan::{Action, ActionType};
use memfold_core::report::{Executed, screen};
use memfold_guard::{Guard, Side, Step};
use memfold_index::Progress;
use memfold_index::file::FileMode;
use memfold_simd::Similarity;
use memfold_store::brain_db::NewStore;
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::vectors::Table;
use crate::work::{Kind, Watch, error, input, interrupted, run};

/// A `brain.db` that stays open.
#[pyclass(frozen, module = "memfold._memfold")]
pub struct Memory {
    path: PathBuf,
    settings: Settings,
    memories: Arc<Memories>,
}

/// A memory that comes in, as Python hands it over.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
struct NewMemory {
    text: Option<String>,
    vector: Option<Vec<f32>>,
    model: Option<String>,
    categories: Vec<String>,
    importance: Option<f64>,
    source: Option<String>,
    id: Option<String>,
}

/// Keeps the library's remarks (where texts are sent, for example).
#[derive(Default)]
struct Remarks(Mutex<Vec<String>>);

impl Remarks {
    fn take(self) -> Vec<String> {
        self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Progress for Remarks {
    fn begin(&self, _stage: &'static str, _total: Option<u64>) {}

    fn advance(&self, _done: u64) {}

    fn end(&self) {}

    fn cancelled(&self) -> bool {
        false
    }
}

impl Listener for Remarks {
    fn note(&self, text: &str) {
        let text = text.strip_prefix("note: ").unwrap_or(text).to_owned();
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push(text);
    }

    fn detail(&self, _text: &str) {}
}

#[pymethods]
impl Memory {
    /// Opens a store with the configuration that the command line would use.
    #[new]
    fn new(py: Python<'_>, path: PathBuf) -> PyResult<Self> {
        py.detach(|| Self::opened(path))
    }

    /// Makes an empty store.
    #[staticmethod]
    fn create(path: PathBuf) -> PyResult<()> {
        let made = NewStore::create(&path, FileMode::PRIVATE).and_then(NewStore::publish);
        made.map_err(|failed| error(Kind::Store, &failed, failed.hint()))
    }

    #[getter]
    fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the JSON of a check.
    fn check(&self, py: Python<'_>, memory: NewMemory) -> PyResult<String> {
        let incoming = incoming(memory)?;
        py.detach(|| {
            let remarks = Remarks::default();
            let mut check = self.memories.check(incoming, &remarks).map_err(unsaved)?;
            check.notes.extend(remarks.take());
            json_of(&check)
        })
    }

    /// Returns the JSON of a save.
    fn save(&self, py: Python<'_>, memory: NewMemory) -> PyResult<String> {
        let incoming = incoming(memory)?;
        py.detach(|| {
            self.may_write()?;
            let remarks = Remarks::default();
            let mut saved = self.memories.save(incoming, &remarks).map_err(unsaved)?;
            saved.check.notes.extend(remarks.take());
            // Nothing is lost where it fails: fresh rows are compared one by one.
            self.memories.seal_beside(&saved, drop);
            json_of(&saved)
        })
    }

    /// Returns the JSON of the memories nearest to one of text, vector and id.
    fn search(
        &self,
        py: Python<'_>,
        text: Option<String>,
        vector: Option<Vec<f32>>,
        id: Option<String>,
        limit: usize,
        threshold: Option<f64>,
    ) -> PyResult<String> {
        let request = SearchRequest { text, vector, id, ..SearchRequest::default() };
        let query = request.query().map_err(refused)?;
        let similarity_min = threshold.map(|least| {
            Similarity::new(least).ok_or_else(|| {
                input(format!("threshold is {least}"), "use a cosine similarity from -1 to 1")
            })
        });
        let wanted = Wanted { neighbors: Some(limit), similarity_min: similarity_min.transpose()? };
        py.detach(|| {
            let found = self.memories.search(query, wanted, &[], false, &Remarks::default());
            let found = found.map_err(unsearched)?;
            json_of(&Value::Array(
                found
                    .matches
                    .matches
                    .iter()
                    .map(|found| memory_json(&found.memory, Some(found.similarity), None))
                    .collect(),
            ))
        })
    }

    /// Returns the JSON of the memories that answer a question.
    fn recall(
        &self,
        py: Python<'_>,
        query: String,
        vector: Option<Vec<f32>>,
        mode: String,
        limit: usize,
        counts: bool,
    ) -> PyResult<String> {
        let Ok(mode) = serde_json::from_value::<RecallMode>(mode.as_str().into()) else {
            let message = format!("mode is {mode:?}");
            return Err(input(message, "use reflexive, standard, deep or exhaustive"));
        };
        py.detach(|| {
            let (limit, no_count) = (Some(limit), !counts);
            let request =
                RecallRequest { query, vector, mode, limit, no_count, ..Default::default() };
            let answered = self.memories.recall(&request, machine::clock(), &Remarks::default());
            let answered = answered.map_err(unsearched)?;
            let found = answered.recalled.memories.iter();
            let found = found.map(|found| {
                memory_json(
                    &found.memory,
                    found.similarity,
                    Some((found.score, found.tier.as_str())),
                )
            });
            json_of(&Value::Array(found.collect()))
        })
    }

    /// Finds duplicates in the store and plans actions; writes nothing.
    fn plan(
        &self,
        py: Python<'_>,
        threshold: Option<f64>,
        threads: Option<usize>,
        shown: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Plan> {
        let mut loader = machine::config_loader().store(&self.path);
        if let Some(threshold) = threshold {
            loader = loader.flag("threshold", "threshold", threshold);
        }
        let configuration = loader.load();
        let configuration =
            configuration.map_err(|failed| error(Kind::Input, &failed, failed.hint()))?;
        let watch: Arc<Watch> = Arc::default();
        let mut options = Options::default();
        options.configuration = Some(configuration);
        options.threads = threads.and_then(std::num::NonZeroUsize::new);
        options.progress = Arc::clone(&watch) as _;
        let (memfold, plan) = run(py, &watch, shown, |_| {
            let memfold = Memfold::open_with(&self.path, options)?;
            let plan = memfold.plan()?.into_owned();
            Ok((memfold, plan))
        })?
        .map_err(failed)?;
        Ok(Plan { memfold, plan, watch })
    }

    /// Undoes a run and returns the JSON of the result.
    fn undo(&self, py: Python<'_>, run_id: String) -> PyResult<String> {
        let watch = Arc::default();
        run(py, &watch, None, |watch| self.undone(run_id, watch))?
    }
}

impl Memory {
    fn opened(path: PathBuf) -> PyResult<Self> {
        let configuration = machine::config_loader()
            .store(&path)
            .load()
            .map_err(|failed| error(Kind::Input, &failed, failed.hint()))?;
        let mut options = Options::default();
        options.configuration = Some(configuration.clone());
        // Also refuses stores of another kind.
        Memfold::open_with(&path, options).map_err(failed)?;
        let settings = Settings { configuration };
        let options = MemoriesOptions { index_dir: None, may_count: true, embeds: true };
        let memories = Memories::open(&path, &settings, options).map_err(refused)?;
        Ok(Self { path, memories: Arc::new(memories), settings })
    }

    fn may_write(&self) -> PyResult<()> {
        match forbidden_by(&self.settings.configuration.settings) {
            Some(key) => Err(unexecuted(&ExecuteError::Forbidden { key })),
            None => Ok(()),
        }
    }

    fn undone(&self, wanted: String, watch: &Watch) -> PyResult<String> {
        self.may_write()?;
        let request = ops::UndoRequest { run: Some(wanted), ..Default::default() };
        let target = request.target(&self.path, &self.settings).map_err(|failure| {
            let hint = "saves and undos are undone by their own run ids".to_owned();
            error(Kind::Store, failure.message, Some(hint))
        })?;
        let undone = ops::undo(&self.path, &self.settings, &target, &request, None, watch);
        let undone = undone.map_err(refused)?;
        let conflicts: Vec<&String> =
            undone.outcomes.iter().flat_map(|outcome| &outcome.conflicts).collect();
        let run = run_json(&undone.run_id, undone.state.name(), undone.executed, undone.remaining);
        json_of(&with(run, "notes", json!(conflicts)))
    }
}

/// Returns the exception for a refusal of the library.
fn refused(failure: Failure) -> PyErr {
    let kind = match failure.kind {
        FailureKind::Interrupted => return interrupted(),
        FailureKind::Usage => Kind::Input,
        _ => Kind::Store,
    };
    error(kind, failure.message, failure.hint)
}

fn incoming(memory: NewMemory) -> PyResult<Incoming> {
    let NewMemory { text, vector, model, categories, importance, source, id } = memory;
    if text.is_none() && vector.is_none() {
        return Err(input("there is nothing to check", "give a text, a vector, or both"));
    }
    if vector.as_ref().is_some_and(|vector| !has_direction(vector)) {
        return Err(input(
            "the vector has no direction: it is empty, or holds NaN, an infinite value or only zeros",
            "embed the text again",
        ));
    }
    if importance.is_some_and(|importance| !importance.is_finite()) {
        return Err(input("importance is no finite number", "use 1.0 for a usual memory"));
    }
    let user_id = None;
    Ok(Incoming { text, vector, model, categories, user_id, importance, source, id })
}

fn has_direction(vector: &[f32]) -> bool {
    vector.iter().all(|value| value.is_finite()) && vector.iter().any(|&value| value != 0.0)
}

fn memory_json(
    memory: &StoredMemory,
    similarity: Option<Similarity>,
    recalled: Option<(f64, &'static str)>,
) -> Value {
    json!({
        "id": memory.id.as_str(),
        "text": memory.content,
        "categories": memory.categories,
        "importance": memory.importance,
        "source": memory.source,
        "similarity": similarity.map(Similarity::get),
        "score": recalled.map(|(score, _)| score),
        "tier": recalled.map(|(_, tier)| tier),
    })
}

fn run_json(run_id: &str, state: &str, executed: Executed, remaining: u64) -> Value {
    json!({
        "run_id": run_id,
        "state": state,
        "applied": executed.applied,
        "stale": executed.stale,
        "failed": executed.failed,
        "remaining": remaining,
    })
}

fn with(mut value: Value, key: &str, more: Value) -> Value {
    value[key] = more;
    value
}

fn json_of(value: &impl serde::Serialize) -> PyResult<String> {
    serde_json::to_string(value).map_err(|failed| error(Kind::Store, failed, None))
}

/// The planned actions on the memories of a store.
#[pyclass(frozen, module = "memfold._memfold")]
pub struct Plan {
    memfold: Memfold,
    plan: OwnedPlan,
    watch: Arc<Watch>,
}

#[pymethods]
impl Plan {
    /// The digest of the plan's actions, `sha256:…`.
    #[getter]
    fn digest(&self) -> &str {
        &self.plan.report().plan_digest
    }

    /// The findings and the planned actions, as the command line prints them.
    fn summary(&self) -> String {
        screen(self.plan.report(), &Default::default())
    }

    /// One row for each action, in plan order.
    #[getter]
    fn actions(&self) -> PyResult<Table> {
        let actions = &self.plan.plan().actions;
        let texts = |text: &dyn Fn(&Action) -> Option<String>| -> arrow_array::ArrayRef {
            Arc::new(actions.iter().map(text).collect::<StringArray>())
        };
        let lists = |items: &dyn Fn(&Action) -> Vec<String>| -> arrow_array::ArrayRef {
            let mut lists = ListBuilder::new(StringBuilder::new());
            actions.iter().for_each(|action| lists.append_value(items(action).iter().map(Some)));
            Arc::new(lists.finish())
        };
        let labels: StringArray = (0..actions.len()).map(|at| Some(format!("a{at}"))).collect();
        let similarities: Float64Array =
            actions.iter().map(|action| action.rationale.evidence.similarity).collect();
        Table::new(vec![
            ("label", Arc::new(labels)),
            ("type", texts(&|action| Some(action.action.name().to_owned()))),
            (
                "survivor",
                texts(&|action| action.canonical_id.as_ref().map(|id| id.as_str().to_owned())),
            ),
            (
                "ids",
                lists(&|action| {
                    action.target_ids.iter().map(|id| id.as_str().to_owned()).collect()
                }),
            ),
            ("similarity", Arc::new(similarities)),
            ("risk", texts(&|action| Some(risk(action)))),
            ("rule", texts(&|action| Some(action.rationale.rule_id.clone()))),
            ("reasons", lists(&|action| action.rationale.reasons.clone())),
        ])
    }

    /// Actions that change the store.
    #[getter]
    fn change_count(&self) -> usize {
        let actions = self.plan.plan().actions.iter();
        actions.filter(|action| action.action != ActionType::Noop).count()
    }

    /// Applies the plan and returns the JSON of the result.
    fn apply(
        &self,
        py: Python<'_>,
        expect: Option<String>,
        shown: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<String> {
        let mut options = ApplyOptions::default();
        options.expect = expect;
        let applied = run(py, &self.watch, shown, |_| self.memfold.apply(&self.plan, &options))?;
        let run = applied.map_err(failed)?;
        let done = run_json(&run.run_id, run.state.name(), run.executed, run.remaining);
        json_of(&with(done, "notes", json!(run.notes)))
    }
}

fn risk(action: &Action) -> String {
    match serde_json::to_value(action.risk) {
        Ok(Value::String(name)) => name,
        _ => String::new(),
    }
}

fn failed(failed: MemfoldError) -> PyErr {
    match failed {
        MemfoldError::Execute(failed) => unexecuted(&failed),
        failed if failed.is_cancelled() => interrupted(),
        MemfoldError::Configuration(failed) => error(Kind::Input, &failed, failed.hint()),
        failed => error(Kind::Store, &failed, failed.hint()),
    }
}

fn unexecuted(failed: &ExecuteError) -> PyErr {
    let is_refused = matches!(
        failed,
        ExecuteError::Forbidden { .. }
            | ExecuteError::Unguarded { .. }
            | ExecuteError::AnotherPlan { .. }
            | ExecuteError::TooManyChanges { .. }
    );
    let kind = if is_refused { Kind::Refused } else { Kind::Store };
    // The library's advice on a plan with many changes names options of the command line.
    let hint = match failed {
        ExecuteError::TooManyChanges { .. } => Some(
            "look at plan.summary() and plan.actions, then plan.apply(expect=plan.digest)"
                .to_owned(),
        ),
        ExecuteError::AnotherPlan { .. } => {
            Some("the store changed since: make and look at a new plan".to_owned())
        }
        failed => failed.hint(),
    };
    error(kind, failed, hint)
}

fn unsaved(failed: SaveError) -> PyErr {
    let kind = match failed {
        SaveError::Store(_) | SaveError::Search(_) => Kind::Store,
        _ => Kind::Input,
    };
    error(kind, &failed, failed.hint())
}

fn unsearched(failed: SearchError) -> PyErr {
    let kind = match failed {
        SearchError::Store(_) | SearchError::Damaged(_) => Kind::Store,
        _ => Kind::Input,
    };
    error(kind, &failed, failed.hint())
}

/// Returns the JSON of the fact guard's verdict on two texts, the older one first.
#[pyfunction]
pub(crate) fn compare(py: Python<'_>, older: &str, newer: &str) -> PyResult<String> {
    static GUARD: OnceLock<Guard> = OnceLock::new();
    py.detach(|| {
        if GUARD.get().is_none() {
            let configuration = machine::config_loader()
                .load()
                .map_err(|failed| error(Kind::Input, &failed, failed.hint()))?;
            let guard = Guard::new(&configuration.policy.guard)
                .map_err(|failed| error(Kind::Input, &failed, failed.hint()))?;
            // Another thread may have been faster: both are the same.
            let _ = GUARD.set(guard);
        }
        let guard = GUARD.get().expect("it was set just now");
        let judged = guard.judge(&guard.read(older), &guard.read(newer));
        let proof = judged.steps.iter().map(|Step { kind, left, right }| {
            json!({"kind": kind, "left": older[left.clone()], "right": newer[right.clone()]})
        });
        let differences = judged.differences.iter().map(
            |found| json!({"kind": found.kind, "left": found.left_text, "right": found.right_text}),
        );
        json_of(&json!({
            "verdict": judged.verdict.name(),
            "longer": judged.longer.map(|side| match side {
                Side::Left => "a",
                Side::Right => "b",
            }),
            "proof": proof.collect::<Vec<_>>(),
            "differences": differences.collect::<Vec<_>>(),
            "contradiction_score": judged.contradiction_score,
            "mergeable": judged.says_all(Side::Right),
        }))
    })
}
