//! Runs tasks and puts their pairs together.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use memfold_simd::Similarity;

use super::build::{PARTIAL, write_whole};
use super::{
    HISTOGRAM, MISSING, ROWS, SQUARED_NORMS, TASKS, TILE_ROWS_MAX, TileError, TilePlan,
    TileRequest, TileSummary, TileTask, VECTORS,
};
use crate::distinct::DistinctRows;
use crate::file::MapError;
use crate::join::compare::{Cascade, TASK_LEFTS_MAX, Workspace};
use crate::join::pairs::{PAIRS_IN_MEMORY, PairRecord, Task};
use crate::join::rerank::Rerank;
use crate::join::{JoinCounters, JoinError, JoinOptions, PairStream, default_pair_budget};
use crate::{ExternalSort, Mapped, Row, Sorted, VectorMatrix};

/// Pairs of a task that are sorted in memory: 16 MiB.
const TASK_PAIRS_IN_MEMORY: usize = 1 << 20;

/// Results and counters of a task. They depend on the plan alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    /// Near pairs of distinct rows: the records of the file of pairs, which is there unless this is 0.
    pub pairs: u64,
    /// Pairs that the first test looked at; where there is none, pairs that were judged.
    pub tests: u64,
    /// Pairs that passed the first test.
    pub passed_first: u64,
    /// Pairs that were judged.
    pub judged: u64,
    /// The blake3 of the file of pairs.
    pub blake3: [u8; 32],
}

/// The first line of a receipt.
const RECEIPT: &str = "memfold receipt 1";

impl Receipt {
    /// Returns the text of a receipt that belongs to a plan.
    fn to_text(self, plan: u64) -> String {
        let Self { pairs, tests, passed_first, judged, blake3 } = self;
        let blake3 = blake3::Hash::from_bytes(blake3).to_hex();
        format!(
            "{RECEIPT}\nplan {plan:016x}\npairs {pairs}\ntests {tests}\npassed_first {passed_first}\n\
             judged {judged}\nblake3 {blake3}\n"
        )
    }

    /// `None`: no receipt of this version.
    fn from_text(text: &str) -> Option<(u64, Self)> {
        let values: Vec<&str> =
            text.lines().filter_map(|line| line.split(' ').next_back()).collect();
        let &[_, plan, pairs, tests, passed_first, judged, blake3] = &values[..] else {
            return None;
        };
        let plan = u64::from_str_radix(plan, 16).ok()?;
        let receipt = Self {
            pairs: pairs.parse().ok()?,
            tests: tests.parse().ok()?,
            passed_first: passed_first.parse().ok()?,
            judged: judged.parse().ok()?,
            blake3: *blake3::Hash::from_hex(blake3).ok()?.as_bytes(),
        };
        (receipt.to_text(plan) == text).then_some((plan, receipt))
    }
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

    /// Compares the rows of two tiles, writes their pairs and then a receipt, unless there is one: in that case it does
    /// nothing.
    ///
    /// Both files appear whole or not at all, so it may be killed, run twice and run by several processes at once.
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
        let mut hasher = blake3::Hasher::new();
        if !pairs.is_empty() {
            let path = self.path_of_pairs(task);
            write_whole(self.dir(), &path, |output| {
                let written = pairs.iter().try_for_each(|pair| {
                    hasher.update(bytemuck::bytes_of(&pair));
                    output.write_all(bytemuck::bytes_of(&pair))
                });
                written.map_err(TileError::system(&path))
            })?;
        }
        let receipt = Receipt {
            pairs: pairs.len() as u64,
            tests: if self.tests().is_some() { did.pairs_tested } else { did.pairs_judged },
            passed_first: did.pairs_passed_first,
            judged: did.pairs_judged,
            blake3: *hasher.finalize().as_bytes(),
        };
        let text = receipt.to_text(self.fingerprint());
        let path = self.path_of_receipt(task);
        write_whole(self.dir(), &path, |output| {
            output.write_all(text.as_bytes()).map_err(TileError::system(&path))
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
    /// When the receipt is damaged or belongs to another plan.
    pub fn receipt(&self, task: TileTask) -> Result<Option<Receipt>, TileError> {
        let path = self.path_of_receipt(task);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(source) if source.kind() == io::ErrorKind::InvalidData => String::new(),
            Err(source) => return Err(TileError::System { path, source }),
        };
        let damaged = |found: &str| self.damaged(task, &path, found);
        let (plan, receipt) =
            Receipt::from_text(&text).ok_or_else(|| damaged("the receipt is damaged"))?;
        if plan != self.fingerprint() {
            return Err(damaged("a receipt of another plan"));
        }
        Ok(Some(receipt))
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
            let path = self.path_of_receipt(task);
            let receipt = self.receipt(task)?.ok_or(TileError::NotRun { path })?;
            counters.pairs_tested += if tests.is_some() { receipt.tests } else { 0 };
            counters.pairs_passed_first += receipt.passed_first;
            counters.pairs_judged += receipt.judged;
            found += receipt.pairs;
            self.check_budget(found, options)?;
            options.check_cancelled()?;
            self.read_pairs(task, &receipt, &mut pairs)?;
        }
        let sorted = pairs.finish().map_err(TileError::system(&partial))?;
        let rows = self.head().node_count.into();
        Ok(PairStream::new(sorted, self.groups()?, rows, counters, None))
    }

    /// Reads the pairs of a task and compares them with its receipt.
    fn read_pairs(
        &self,
        task: TileTask,
        receipt: &Receipt,
        pairs: &mut ExternalSort<PairRecord>,
    ) -> Result<(), TileError> {
        if receipt.pairs == 0 {
            return Ok(());
        }
        let path = self.path_of_pairs(task);
        let damaged = |found: String| self.damaged(task, &path, found);
        let bytes = Mapped::open(&path).map_err(|error| match error {
            MapError::Open { source, .. } if source.kind() == io::ErrorKind::NotFound => {
                damaged(MISSING.into())
            }
            error => TileError::system(&path)(io::Error::other(error)),
        })?;
        let expected = receipt.pairs.saturating_mul(size_of::<PairRecord>() as u64);
        if bytes.len() as u64 != expected {
            return Err(damaged(format!("{} bytes long, expected {expected}", bytes.len())));
        }
        if *blake3::hash(&bytes).as_bytes() != receipt.blake3 {
            return Err(damaged("not the pairs that the task found".into()));
        }
        for &pair in bytemuck::cast_slice::<u8, PairRecord>(&bytes) {
            if !pair.is_of(self.head().row_count) {
                return Err(damaged("a pair of rows that are not there".into()));
            }
            pairs.push(pair).map_err(TileError::system(self.dir()))?;
        }
        Ok(())
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

    /// Advises to repeat a task.
    fn damaged(&self, task: TileTask, path: &Path, found: impl Into<String>) -> TileError {
        let receipt = Some(self.path_of_receipt(task));
        TileError::Damaged { path: path.to_owned(), found: found.into(), receipt }
    }

    fn path_of_pairs(&self, task: TileTask) -> PathBuf {
        self.dir().join("pairs").join(format!("{:06}-{:06}.pairs", task.left, task.right))
    }

    fn path_of_receipt(&self, task: TileTask) -> PathBuf {
        self.dir().join("receipts").join(format!("{:06}-{:06}", task.left, task.right))
    }
}
