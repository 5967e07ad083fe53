//! `consolidate_texts`: finds duplicates in a list of texts, without a store.

use std::path::Path;
use std::sync::Arc;

use memfold::consolidate::RunContext;
use memfold::machine::{self, Stopwatch};
use memfold::texts::TextStore;
use memfold_core::plan::{Action, ActionType};
use memfold_core::policy::config_hash;
use memfold_core::report::{Commands, screen};
use memfold_datasets::texts::{TextFields, TextFile};
use memfold_guard::Guard;
use memfold_index::Pool;
use memfold_simd::Kernels;
use pyo3::prelude::*;
use serde_json::{Value, json};

use crate::work::{Kind, Watch, error, input, interrupted, run};

/// Returns the JSON of the duplicates among lines of JSON; the id of each is its position.
#[pyfunction]
pub(crate) fn consolidate_texts(
    py: Python<'_>,
    lines: Vec<u8>,
    threshold: Option<f64>,
    shown: Option<&Bound<'_, PyAny>>,
) -> PyResult<String> {
    let watch = Arc::new(Watch::default());
    run(py, &watch, shown, |watch| consolidated(lines, threshold, watch))?
}

fn consolidated(lines: Vec<u8>, threshold: Option<f64>, watch: &Watch) -> PyResult<String> {
    let file = TextFile::read_bytes(Path::new("texts.jsonl"), lines, &TextFields::default())
        .map_err(|failed| error(Kind::Input, &failed, failed.hint()))?;
    let refused = |failed: &memfold::MemfoldError| {
        if failed.is_cancelled() {
            interrupted()
        } else {
            error(Kind::Input, failed, failed.hint())
        }
    };
    let mut loader = machine::config_loader();
    if let Some(threshold) = threshold {
        loader = loader.flag("threshold", "threshold", threshold);
    }
    let configuration = loader.load();
    let configuration = configuration.map_err(|failed| refused(&failed.into()))?;
    let policy = &configuration.policy;
    let guard = Guard::new(&policy.guard).map_err(|failed| refused(&failed.into()))?;
    let time_zone = policy.zone();
    let time_zone =
        time_zone.ok_or_else(|| input("time_zone is not known", "name an IANA zone"))?;
    let stopwatch = Stopwatch::start();
    let context = RunContext {
        now: machine::clock(),
        time_zone: &time_zone,
        config_hash: &config_hash(policy, guard.lexicon_text().as_bytes()),
        pool: &Pool::new(None).map_err(|failed| refused(&failed.into()))?,
        kernels: Kernels::active(),
        progress: watch,
        clock: &|| stopwatch.seconds(),
        scratch_dir: &std::env::temp_dir(),
    };
    let outcome = TextStore::new(&file).consolidate(policy, &guard, &context);
    let outcome = outcome.map_err(|failed| refused(&failed))?;
    let actions = outcome.plan.actions.iter();
    let of = |wanted| -> Vec<Value> {
        actions.clone().filter(|action| action.action == wanted).map(document).collect()
    };
    Ok(json!({
        "merged": of(ActionType::Merge),
        "conflicts": of(ActionType::FlagContradiction),
        "proposals": of(ActionType::ProposeMerge),
        "summary": screen(&outcome.report, &Commands::default()),
    })
    .to_string())
}

fn document(action: &Action) -> Value {
    let evidence = &action.rationale.evidence;
    json!({
        "ids": action.target_ids,
        "rule": action.rationale.rule_id,
        "similarity": evidence.similarity,
        "differences": evidence.differences,
        "probability": evidence.probability,
    })
}
