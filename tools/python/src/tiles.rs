//! [`TilePlan`]: the exact join cut into tasks, for runners on several machines (`memfold.ray`).

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use memfold_index::{JoinOptions, Pool, Progress, TileError, TileRequest, TileTask};
use pyo3::prelude::*;

use crate::dedup::{Deduplication, similarity, take};
use crate::vectors::{Kept, Source, pool};
use crate::work::{Kind, error, input, interrupted, run};

/// Tiles of vectors and the tasks that join them, in a folder.
#[pyclass(frozen, module = "memfold._memfold")]
pub struct TilePlan {
    plan: memfold_index::TilePlan,
    pool: Pool,
    threads: Option<usize>,
    /// `None`: opened to run tasks.
    vectors: Option<Arc<Kept>>,
    lock: Mutex<Option<File>>,
}

#[pymethods]
impl TilePlan {
    /// Makes the plan of some vectors in a folder, or opens the one that an earlier run made of them. Keeps other runs out
    /// of the folder until `close`.
    #[staticmethod]
    fn make(
        py: Python<'_>,
        source: Source<'_>,
        dir: PathBuf,
        threshold: f64,
        tile_rows_max: usize,
        threads: Option<usize>,
        shown: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let threshold = similarity("threshold", threshold)?;
        if tile_rows_max == 0 {
            return Err(input("tile_rows_max is 0", "use 1 or more; 16384 is usual"));
        }
        let (pool, watch) = (pool(threads)?, Arc::default());
        let vectors = take(py, source, &watch, shown)?;
        let (lock, plan) = vectors.with(py, |matrix| {
            if matrix.is_empty() {
                return Err(input("there are no vectors", "pass at least one vector"));
            }
            let made = run(py, &watch, shown, |watch| {
                let lock = memfold_index::TilePlan::lock(&dir)?;
                let request = TileRequest { matrix, threshold, dir: &dir, tile_rows_max };
                let plan = memfold_index::TilePlan::make(&request, &options(&pool, watch))?;
                Ok((lock, plan))
            })?;
            made.map_err(|failed| unjoined(&failed))
        })?;
        let vectors = Some(Arc::new(vectors));
        Ok(Self { plan, pool, threads, vectors, lock: Mutex::new(Some(lock)) })
    }

    /// Opens the plan in a folder, to run tasks.
    #[staticmethod]
    fn open(py: Python<'_>, dir: PathBuf, threads: Option<usize>) -> PyResult<Self> {
        let opened = py.detach(|| memfold_index::TilePlan::open(&dir));
        let plan = opened.map_err(|failed| unjoined(&failed))?;
        let lock = Mutex::default();
        Ok(Self { plan, pool: pool(threads)?, threads, vectors: None, lock })
    }

    /// Lets other runs use the folder.
    fn close(&self) {
        drop(self.lock.lock().unwrap_or_else(PoisonError::into_inner).take());
    }

    #[getter]
    fn dir(&self) -> &Path {
        self.plan.dir()
    }

    /// Rows of files that have no usable vector.
    #[getter]
    fn skipped(&self) -> usize {
        self.vectors.as_ref().map_or(0, |vectors| vectors.skipped().len())
    }

    /// All tasks, as pairs of tiles.
    fn tasks(&self) -> PyResult<Vec<(u32, u32)>> {
        let tasks = self.plan.tasks().map_err(|failed| unjoined(&failed))?;
        Ok(tasks.map(|task| (task.left, task.right)).collect())
    }

    /// The tasks that have no receipt.
    fn unfinished(&self, py: Python<'_>) -> PyResult<Vec<(u32, u32)>> {
        let unfinished = || {
            let mut found = Vec::new();
            for task in self.plan.tasks()? {
                if self.plan.receipt(task)?.is_none() {
                    found.push((task.left, task.right));
                }
            }
            Ok(found)
        };
        py.detach(unfinished).map_err(|failed| unjoined(&failed))
    }

    /// Runs tasks that have no receipt, one after the other; returns how many pairs all of them have.
    fn run(&self, py: Python<'_>, tasks: Vec<(u32, u32)>) -> PyResult<u64> {
        let found = run(py, &Arc::default(), None, |watch| {
            let run = |&(left, right): &(u32, u32)| {
                let task = TileTask { left, right };
                Ok(self.plan.run(task, &options(&self.pool, watch))?.pairs)
            };
            tasks.iter().map(run).sum::<Result<u64, _>>()
        })?;
        found.map_err(|failed| unjoined(&failed))
    }

    /// Puts the pairs of all tasks together.
    fn merge(&self, py: Python<'_>, shown: Option<&Bound<'_, PyAny>>) -> PyResult<Merged> {
        let Some(vectors) = &self.vectors else {
            return Err(input(
                "the plan was opened without its vectors",
                "merge where it was made",
            ));
        };
        let merged =
            run(py, &Arc::default(), shown, |watch| self.plan.merge(&options(&self.pool, watch)))?;
        let pairs = merged.map_err(|failed| unjoined(&failed))?;
        let counters = pairs.counters();
        let counted = (counters.pairs_total, counters.pairs_tested.max(counters.pairs_judged));
        let (vectors, threshold) = (Arc::clone(vectors), self.plan.threshold());
        Ok((Deduplication::of(py, vectors, pairs, threshold, self.threads, shown)?, counted))
    }

    /// The counts of the plan: tiles, their bytes, tasks, tasks without bounds, pairs of rows in
    /// tasks, pairs of rows.
    fn summary(&self) -> PyResult<[u64; 6]> {
        let made = self.plan.summary().map_err(|failed| unjoined(&failed))?;
        let (tiles, tasks) = ([made.tiles, made.tile_bytes], [made.tasks, made.tasks_total]);
        Ok([tiles[0], tiles[1], tasks[0], tasks[1], made.pairs_in_tasks, made.pairs_total])
    }
}

/// A result, and how many pairs of distinct rows there are and were tested.
type Merged = (Deduplication, (u64, u64));

fn options<'a>(pool: &'a Pool, progress: &'a dyn Progress) -> JoinOptions<'a> {
    JoinOptions { progress, ..JoinOptions::new(pool) }
}

fn unjoined(failed: &TileError) -> PyErr {
    let kind = match failed {
        failed if failed.is_cancelled() => return interrupted(),
        TileError::Join(_) | TileError::OtherFolder { .. } => Kind::Input,
        _ => Kind::Store,
    };
    error(kind, failed, failed.hint())
}
