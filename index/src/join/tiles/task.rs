//! Runs tasks and puts their pairs together.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use bytemuck::{Pod, Zeroable};
use memfold_simd::Similarity;

use super::build::{PARTIAL, write_sections};
use super::{
    HISTOGRAM, PAIRS, PAIRS_FOLDER, ROWS, SQUARED_NORMS, TASKS, TILE_ROWS_MAX, TileError, TilePlan,
    TileRequest, TileSummary, TileTask, VECTORS,
};
use crate::distinct::DistinctRows;
use crate::file::{FileHead, FileKind, MapError, SectionFile, SectionFileError};
use crate::join::compare::{Cascade, TASK_LEFTS_MAX, Workspace};
use crate::join::pairs::{PAIRS_IN_MEMORY, PairRecord, Task};
use crate::join::rerank::Rerank;
use crate::join::{JoinCounters, JoinError, JoinOptions, PairStream, default_pair_budget};
use crate::{ExternalSort, NoProgress, Row, Sorted, VectorMatrix};

/// Pairs of a task that are sorted in memory: 16 MiB.
const TASK_PAIRS_IN_MEMORY: usize = 1 << 20;

/// Counters of a task, which its file holds beside its pairs. They depend on the plan alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Receipt {
    /// Near pairs of distinct rows.
    pub pairs: u64,
    /// Pairs that the first test looked at; where there is none, pairs that were judged.
    pub tests: u64,
    /// Pairs that passed the first test.
    pub passed_first: u64,
    /// Pairs that were judged.
    pub judged: u64,
    /// The fingerprint of the plan.
    plan: u64,
}

/// Finds every pair at or above `threshold` as [`super::super::join_pairs`] does, by tiles in `dir`.
///
/// Memory holds about 60 bytes of each row, and two tiles and 16 MiB of pairs for each worker; the input is read in order,
/// three times. Finished tasks stay in the folder: the same call goes on with the remaining ones, even after the process
/// was killed. `scratch_dir` is not used; sorting uses `dir`.
///
/// # Errors
/// As [`TilePlan::make`], [`TilePlan::run`] and [`TilePlan::merge`].
///
/// # Examples
/// ```
/// use memfold_index::{JoinOptions, Pool, VectorMatrix, join_pairs_by_tiles};
/// use memfold_simd::Similarity;
///
/// let values = [1.0, 0.0, 0.0, 1.0, 0.9, 0.1, 1.0, 0.0];
/// let matrix = VectorMatrix::from_slice(&values, 2)?;
/// let pool = Pool::new(None)?;
/// let folder = tempfile::tempdir()?;
/// let threshold = Similarity::new(0.95).ok_or("not a cosine")?;
/// let options = JoinOptions::new(&pool);
/// let (joined, summary) = join_pairs_by_tiles(&matrix, threshold, folder.path(), &options)?;
/// assert_eq!((joined.pair_count(), summary.tasks_resumed), (1, 0));
/// let (again, summary) = join_pairs_by_tiles(&matrix, threshold, folder.path(), &options)?;
/// assert_eq!((again.pair_count(), summary.tasks_resumed), (1, 1));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn join_pairs_by_tiles(
    matrix: &VectorMatrix<'_>,
    threshold: Similarity,
    dir: &Path,
    options: &JoinOptions<'_>,
) -> Result<(PairStream, TileSummary), TileError> {
    let request = TileRequest { matrix, threshold, dir, tile_rows_max: TILE_ROWS_MAX };
    join_tiles(&request, options)
}

/// As [`join_pairs_by_tiles`], with tiles of any size.
pub(super) fn join_tiles(
    request: &TileRequest<'_>,
    options: &JoinOptions<'_>,
) -> Result<(PairStream, TileSummary), TileError> {
    let _lock = TilePlan::lock(request.dir)?;
    let plan = TilePlan::make(request, options)?;
    let tasks_resumed = plan.run_all(options)?;
    let summary = TileSummary { tasks_resumed, ..plan.summary()? };
    Ok((plan.merge(options)?, summary))
}

impl TilePlan {
    /// Runs all tasks that have no receipt, and returns how many have one already.
    ///
    /// # Errors
    /// As [`run`](Self::run), also when all tasks together find more pairs than the budget.
    pub(super) fn run_all(&self, options: &JoinOptions<'_>) -> Result<u64, TileError> {
        let tasks: Vec<TileTask> = self.tasks()?.collect();
        let (found, resumed, failed) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        options.progress.begin("compare pairs", Some(self.summary()?.pairs_in_tasks));
        let run = |task: TileTask| {
            let receipt = match self.receipt(task)? {
                Some(receipt) => {
                    resumed.fetch_add(1, Ordering::Relaxed);
                    receipt
                }
                None => self.compare(task, options)?,
            };
            options.progress.advance(self.pair_count(task)?);
            let found = found.fetch_add(receipt.pairs, Ordering::Relaxed) + receipt.pairs;
            self.check_budget(found, options)
        };
        let results = options.pool.map(tasks.len(), |task| {
            // After an error, the remaining tasks are skipped.
            if failed.load(Ordering::Relaxed) > 0 {
                return Ok(());
            }
            run(tasks[task]).inspect_err(|_| {
                failed.fetch_add(1, Ordering::Relaxed);
            })
        });
        options.progress.end();
        results.into_iter().collect::<Result<(), _>>()?;
        Ok(resumed.into_inner())
    }

    /// Compares the rows of two tiles and writes their pairs with a receipt, unless there is one: in that case it does
    /// nothing.
    ///
    /// The file appears whole or not at all, so it may be killed, run twice and run by several processes at once.
    ///
    /// # Errors
    /// When the plan lacks the tile, a tile is missing or damaged, the task finds more pairs than the budget allows, the
    /// system refuses to write, or the caller asked to stop.
    pub fn run(&self, task: TileTask, options: &JoinOptions<'_>) -> Result<Receipt, TileError> {
        // Written in this order; in another one, tasks that are there would be refused.
        if self.records::<u32, 2>(TASKS)?.binary_search(&[task.left, task.right]).is_err() {
            let found = format!("no task of the tiles {} and {}", task.left, task.right);
            return Err(TileError::damaged(self.dir(), found));
        }
        match self.receipt(task)? {
            Some(receipt) => Ok(receipt),
            None => self.compare(task, options),
        }
    }

    fn compare(&self, task: TileTask, options: &JoinOptions<'_>) -> Result<Receipt, TileError> {
        let (pairs, did) = self.find(task, options)?;
        let receipt = Receipt {
            pairs: pairs.len() as u64,
            tests: if self.tests().is_some() { did.pairs_tested } else { did.pairs_judged },
            passed_first: did.pairs_passed_first,
            judged: did.pairs_judged,
            plan: self.fingerprint(),
        };
        let parameters = bytemuck::bytes_of(&receipt).to_vec();
        let head = FileHead { kind: FileKind::TilePairs, parameters, ..self.head().clone() };
        write_sections(self.dir(), &self.path_of_pairs(task), head, |writer| {
            writer.chunks(PAIRS, pairs.iter().map(bytemuck::cast::<PairRecord, [u64; 2]>))
        })?;
        Ok(receipt)
    }

    /// Returns the near pairs of two tiles, or of one, sorted by the rows of the input.
    fn find(
        &self,
        task: TileTask,
        options: &JoinOptions<'_>,
    ) -> Result<(Sorted<PairRecord>, JoinCounters), TileError> {
        let mut tiles = vec![self.tile(task.left)?];
        if task.left != task.right {
            tiles.push(self.tile(task.right)?);
        }
        let (dim, row_count) = (self.head().dim as usize, self.head().node_count as usize);
        let (mut rows, mut vectors, mut blocks) = (Vec::new(), Vec::new(), Vec::new());
        let (mut squared_norms, mut left_blocks) = (Vec::new(), 0);
        for tile in &tiles {
            left_blocks = blocks.len();
            blocks.extend(tile.blocks(self.tests(), rows.len(), row_count, dim)?);
            rows.extend_from_slice(tile.column::<u32>(ROWS, 1)?);
            squared_norms.extend_from_slice(tile.column::<f64>(SQUARED_NORMS, 1)?);
            vectors.extend(tile.column::<f32>(VECTORS, dim)?.chunks_exact(dim));
        }
        let (lefts, rights) = match tiles.len() {
            1 => (blocks.len(), 0),
            _ => (left_blocks, left_blocks),
        };
        let matrix = VectorMatrix::from_chunks(vectors, dim).expect("chunks of one row each");
        let distinct = DistinctRows {
            // Numbers among both tiles; numbers of the input come back below.
            rows: (0..rows.len() as u32).map(Row).collect(),
            squared_norms,
            ..DistinctRows::default()
        };
        let (kernels, threshold) = (options.kernels, self.threshold());
        let rerank = Rerank { matrix: &matrix, distinct: &distinct, kernels, threshold };
        let cascade = Cascade::new(rerank, self.tests(), blocks);
        let partial = self.dir().join(PARTIAL);
        let mut pairs = ExternalSort::new(Some(&partial), TASK_PAIRS_IN_MEMORY);
        let (mut work, mut found) = (Workspace::default(), 0);
        for first in (0..lefts).step_by(TASK_LEFTS_MAX) {
            let lefts = first..lefts.min(first + TASK_LEFTS_MAX);
            let part = Task { lefts, rights: rights..cascade.block_count() };
            for (left, right) in part.block_pairs() {
                options.check_cancelled()?;
                cascade.compare(left, right, &mut work);
                found += work.pairs.len() as u64;
                self.check_budget(found, options)?;
                for pair in work.pairs.drain(..) {
                    let pair = PairRecord::from(pair).renamed(|row| rows[row as usize]);
                    pairs.push(pair).map_err(TileError::system(&partial))?;
                }
            }
        }
        let pairs = pairs.finish().map_err(TileError::system(&partial))?;
        Ok((pairs, work.counters))
    }

    /// Returns the receipt of a finished task; `None`: it has not finished.
    ///
    /// # Errors
    /// When its file is damaged or belongs to another plan.
    pub fn receipt(&self, task: TileTask) -> Result<Option<Receipt>, TileError> {
        Ok(self.finished(task)?.map(|(receipt, _)| receipt))
    }

    /// Maps the file of a task without looking at its pairs; `None`: it has not finished.
    fn finished(&self, task: TileTask) -> Result<Option<(Receipt, SectionFile)>, TileError> {
        let path = self.path_of_pairs(task);
        let file = match SectionFile::open(&path, FileKind::TilePairs) {
            Err(SectionFileError::Map(MapError::Open { source, .. }))
                if source.kind() == io::ErrorKind::NotFound =>
            {
                return Ok(None);
            }
            opened => opened?,
        };
        let receipt: Option<Receipt> =
            bytemuck::try_pod_read_unaligned(&file.head().parameters).ok();
        let receipt = receipt.filter(|receipt| receipt.plan == self.fingerprint());
        let other = || TileError::damaged(&path, "pairs of another plan");
        Ok(Some((receipt.ok_or_else(other)?, file)))
    }

    /// Puts the pairs of all tasks together: the answer of [`super::super::join_pairs`].
    ///
    /// # Errors
    /// When a task has not run, its pairs are missing or damaged, there are more than the budget, the system refuses to
    /// read or write, or the caller asked to stop.
    pub fn merge(&self, options: &JoinOptions<'_>) -> Result<PairStream, TileError> {
        let tests = self.tests();
        let mut counters = JoinCounters {
            first_width: tests.map_or(0, |tests| tests.first_width as u32),
            pairs_total: self.pairs_total(),
            ..JoinCounters::default()
        };
        let partial = self.dir().join(PARTIAL);
        let mut pairs = ExternalSort::new(Some(&partial), PAIRS_IN_MEMORY);
        let mut found = 0;
        for task in self.tasks()? {
            let path = self.path_of_pairs(task);
            let (receipt, file) = self.finished(task)?.ok_or(TileError::NotRun { path })?;
            counters.pairs_tested += if tests.is_some() { receipt.tests } else { 0 };
            counters.pairs_passed_first += receipt.passed_first;
            counters.pairs_judged += receipt.judged;
            found += receipt.pairs;
            self.check_budget(found, options)?;
            options.check_cancelled()?;
            file.verify(&NoProgress)?;
            let numbers: &[u64] = file.section_of(PAIRS, receipt.pairs.saturating_mul(2))?;
            for &pair in bytemuck::cast_slice::<u64, PairRecord>(numbers) {
                if !pair.is_of(self.head().row_count) {
                    return Err(TileError::damaged(
                        file.path(),
                        "a pair of rows that are not there",
                    ));
                }
                pairs.push(pair).map_err(TileError::system(&partial))?;
            }
        }
        let sorted = pairs.finish().map_err(TileError::system(&partial))?;
        let rows = self.head().node_count.into();
        Ok(PairStream::new(sorted, self.groups()?, rows, counters, None))
    }

    /// Ends a join that has found more pairs than its budget.
    fn check_budget(&self, found: u64, options: &JoinOptions<'_>) -> Result<(), TileError> {
        let budget = default_pair_budget(self.head().node_count.into());
        let budget = options.pair_budget.unwrap_or(budget);
        if found <= budget {
            return Ok(());
        }
        let shares = self.records(HISTOGRAM)?.iter();
        let histogram = shares.map(|&[similarity, share]| (similarity, share)).collect();
        let threshold = self.threshold().get();
        Err(JoinError::PairBudget { budget, threshold, histogram }.into())
    }

    fn path_of_pairs(&self, task: TileTask) -> PathBuf {
        self.dir().join(PAIRS_FOLDER).join(format!("{:06}-{:06}.mfi", task.left, task.right))
    }
}
