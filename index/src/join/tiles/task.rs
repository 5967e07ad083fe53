//! Runs tasks and puts their pairs together.

use std::fs::File;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use bytemuck::Zeroable;
use memfold_simd::Similarity;

use super::build::{PARTIAL, lock, write_whole};
use super::plan::{ROWS, SQUARED_NORMS, TILE_ROWS_MAX, Tile, VECTORS};
use super::{TileError, TilePlan, TileRequest, TileSummary, TileTask};
use crate::distinct::DistinctRows;
use crate::join::blocks::Block;
use crate::join::cascade::{Cascade, TASK_LEFTS_MAX, Verdict, Workspace};
use crate::join::stream::{PairRecord, Task};
use crate::join::{JoinCounters, JoinError, JoinOptions, PairStream, default_pair_budget};
use crate::{Row, Sorted, Spool, VectorMatrix};

/// Pairs of a task that are sorted in memory: 16 MiB.
const TASK_PAIRS_IN_MEMORY: usize = 1 << 20;

/// Pairs of all tasks that are sorted in memory: 64 MiB.
const PAIRS_IN_MEMORY: usize = 1 << 22;

/// Pairs that are read at a time.
const PAIRS_TOGETHER: usize = 1 << 16;

/// What a task found and did. It depends on the plan alone.
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
        let mut lines = text.lines();
        let is_receipt = lines.next()? == RECEIPT;
        let mut field = |name: &str| lines.next()?.strip_prefix(name)?.strip_prefix(' ');
        let plan = u64::from_str_radix(field("plan")?, 16).ok()?;
        let receipt = Self {
            pairs: field("pairs")?.parse().ok()?,
            tests: field("tests")?.parse().ok()?,
            passed_first: field("passed_first")?.parse().ok()?,
            judged: field("judged")?.parse().ok()?,
            blake3: *blake3::Hash::from_hex(field("blake3")?).ok()?.as_bytes(),
        };
        (is_receipt && text.ends_with('\n')).then_some((plan, receipt))
    }
}

/// Finds every pair at or above `threshold` as [`super::super::join_pairs`] does, by tiles in `dir`.
///
/// Memory holds about 60 bytes of each row, and two tiles and 16 MiB of pairs for each worker; the input is read in order,
/// three times. Finished tasks stay in the folder: the same call goes on with those that are left, even after the process
/// was killed. `scratch_dir` is not used; what is sorted lies in `dir`.
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
    let _lock = lock(request.dir)?;
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
    pub fn run_all(&self, options: &JoinOptions<'_>) -> Result<u64, TileError> {
        let tasks: Vec<TileTask> = self.tasks()?.collect();
        let (found, resumed, failed) = (AtomicU64::new(0), AtomicU64::new(0), AtomicU64::new(0));
        let budget = self.budget(options);
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
            if found > budget { Err(self.over_budget(options)) } else { Ok(()) }
        };
        let results = options.pool.map(tasks.len(), |task| {
            // What follows an error is not worth its time.
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
    /// When the plan has no such tile, a tile is missing or damaged, the task finds more pairs than the budget allows, the
    /// system refuses to write, or the caller asked to stop.
    pub fn run(&self, task: TileTask, options: &JoinOptions<'_>) -> Result<Receipt, TileError> {
        if !self.has(task)? {
            let found = format!("no task of the tiles {} and {}", task.left, task.right);
            return Err(TileError::Damaged { path: self.dir().to_owned(), found });
        }
        match self.receipt(task)? {
            Some(receipt) => Ok(receipt),
            None => self.compare(task, options),
        }
    }

    fn compare(&self, task: TileTask, options: &JoinOptions<'_>) -> Result<Receipt, TileError> {
        let (pairs, did) = self.find(task, options)?;
        let mut hasher = blake3::Hasher::new();
        let mut hash = |pair: &PairRecord| {
            hasher.update(bytemuck::bytes_of(pair));
        };
        if pairs.is_empty() {
            pairs.iter().for_each(|pair| hash(&pair));
        } else {
            write_whole(self.dir(), &self.path_of_pairs(task), |output| {
                pairs.iter().try_for_each(|pair| {
                    hash(&pair);
                    output.write_all(bytemuck::bytes_of(&pair))
                })
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
        write_whole(self.dir(), &self.path_of_receipt(task), |output| {
            output.write_all(text.as_bytes())
        })?;
        Ok(receipt)
    }

    /// Returns the near pairs of two tiles, sorted.
    fn find(
        &self,
        task: TileTask,
        options: &JoinOptions<'_>,
    ) -> Result<(Sorted<PairRecord>, JoinCounters), TileError> {
        let tiles = TwoTiles::open(self, task)?;
        let rows = tiles.vectors(self.dim())?;
        let matrix = VectorMatrix::from_chunks(rows, self.dim()).expect("chunks of one row each");
        let distinct = tiles.distinct()?;
        let verdict = Verdict {
            matrix: &matrix,
            distinct: &distinct,
            kernels: options.kernels,
            threshold: self.threshold(),
        };
        let (blocks, lefts) = tiles.blocks(self)?;
        let cascade = Cascade::new(verdict, self.tests(), blocks);
        let partial = self.dir().join(PARTIAL);
        let mut pairs = Spool::new(Some(&partial), TASK_PAIRS_IN_MEMORY);
        let mut work = Workspace::default();
        let (budget, mut found) = (self.budget(options), 0);
        for first in (0..lefts).step_by(TASK_LEFTS_MAX) {
            let rights = if task.left == task.right { 0 } else { lefts };
            let lefts = first..lefts.min(first + TASK_LEFTS_MAX);
            let part = Task { lefts, rights: rights..cascade.block_count() };
            for (left, right) in part.block_pairs() {
                if options.progress.cancelled() {
                    return Err(JoinError::Cancelled.into());
                }
                cascade.compare(left, right, &mut work);
                found += work.pairs.len() as u64;
                if found > budget {
                    return Err(self.over_budget(options));
                }
                for pair in work.pairs.drain(..) {
                    let pair = tiles.renamed(pair.into());
                    pairs.push(pair).map_err(TileError::system(&partial))?;
                }
            }
        }
        let pairs = pairs.finish().map_err(TileError::system(&partial))?;
        Ok((pairs, work.counters))
    }

    /// Returns what a finished task left; `None`: it has not finished.
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
        let damaged = |found: &str| {
            let receipt = path.clone();
            TileError::Pairs { path: path.clone(), receipt, found: found.into() }
        };
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
        let rows = self.distinct_rows();
        let mut counters = JoinCounters {
            first_width: tests.map_or(0, |tests| tests.first_width as u32),
            pairs_total: rows * rows.saturating_sub(1) / 2,
            ..JoinCounters::default()
        };
        let partial = self.dir().join(PARTIAL);
        let mut pairs = Spool::new(Some(&partial), PAIRS_IN_MEMORY);
        let mut found = 0;
        for task in self.tasks()? {
            let path = self.path_of_receipt(task);
            let receipt = self.receipt(task)?.ok_or(TileError::NotRun { path })?;
            counters.pairs_tested += if tests.is_some() { receipt.tests } else { 0 };
            counters.pairs_passed_first += receipt.passed_first;
            counters.pairs_judged += receipt.judged;
            found += receipt.pairs;
            if found > self.budget(options) {
                return Err(self.over_budget(options));
            }
            if options.progress.cancelled() {
                return Err(JoinError::Cancelled.into());
            }
            self.read_pairs(task, &receipt, &mut pairs)?;
        }
        let sorted = pairs.finish().map_err(TileError::system(&partial))?;
        Ok(PairStream::new(sorted, self.groups()?, rows, counters, None))
    }

    /// Reads the pairs of a task and compares them with its receipt.
    fn read_pairs(
        &self,
        task: TileTask,
        receipt: &Receipt,
        pairs: &mut Spool<PairRecord>,
    ) -> Result<(), TileError> {
        if receipt.pairs == 0 {
            return Ok(());
        }
        let path = self.path_of_pairs(task);
        let damaged = |found: String| {
            let receipt = self.path_of_receipt(task);
            TileError::Pairs { path: path.clone(), receipt, found }
        };
        let mut file = File::open(&path).map_err(|source| match source.kind() {
            io::ErrorKind::NotFound => damaged("the file is missing".into()),
            _ => TileError::System { path: path.clone(), source },
        })?;
        let bytes = file.metadata().map_err(TileError::system(&path))?.len();
        let expected = receipt.pairs.saturating_mul(size_of::<PairRecord>() as u64);
        if bytes != expected {
            return Err(damaged(format!("{bytes} bytes long, expected {expected}")));
        }
        let mut hasher = blake3::Hasher::new();
        let mut left = receipt.pairs;
        let mut batch = vec![PairRecord::zeroed(); PAIRS_TOGETHER.min(left as usize)];
        while left > 0 {
            let batch = &mut batch[..PAIRS_TOGETHER.min(left as usize)];
            let bytes: &mut [u8] = bytemuck::cast_slice_mut(batch);
            file.read_exact(bytes).map_err(TileError::system(&path))?;
            hasher.update(bytes);
            for &pair in &*batch {
                if !pair.is_of(self.row_count()) {
                    return Err(damaged("a pair of rows that are not there".into()));
                }
                pairs.push(pair).map_err(TileError::system(self.dir()))?;
            }
            left -= batch.len() as u64;
        }
        if *hasher.finalize().as_bytes() != receipt.blake3 {
            return Err(damaged("not the pairs that the task found".into()));
        }
        Ok(())
    }

    fn budget(&self, options: &JoinOptions<'_>) -> u64 {
        options.pair_budget.unwrap_or_else(|| default_pair_budget(self.distinct_rows()))
    }

    fn over_budget(&self, options: &JoinOptions<'_>) -> TileError {
        let (budget, threshold) = (self.budget(options), self.threshold().get());
        match self.histogram() {
            Ok(histogram) => JoinError::PairBudget { budget, threshold, histogram }.into(),
            Err(error) => error,
        }
    }

    fn path_of_pairs(&self, task: TileTask) -> PathBuf {
        self.dir().join("pairs").join(format!("{:06}-{:06}.pairs", task.left, task.right))
    }

    fn path_of_receipt(&self, task: TileTask) -> PathBuf {
        self.dir().join("receipts").join(format!("{:06}-{:06}", task.left, task.right))
    }
}

/// The tiles of a task; the same one twice is one.
struct TwoTiles {
    left: Tile,
    right: Option<Tile>,
    /// The row in the input of each row of both.
    rows: Vec<u32>,
}

impl TwoTiles {
    fn open(plan: &TilePlan, task: TileTask) -> Result<Self, TileError> {
        let left = plan.tile(task.left)?;
        let right = (task.left != task.right).then(|| plan.tile(task.right)).transpose()?;
        let mut tiles = Self { left, right, rows: Vec::new() };
        let columns: Vec<&[u32]> =
            tiles.tiles().map(|tile| tile.column(ROWS, 1)).collect::<Result<_, _>>()?;
        tiles.rows = columns.concat();
        Ok(tiles)
    }

    fn tiles(&self) -> impl Iterator<Item = &Tile> {
        std::iter::once(&self.left).chain(&self.right)
    }

    /// Returns the vectors one by one: tiles have different lengths.
    fn vectors(&self, dim: usize) -> Result<Vec<&[f32]>, TileError> {
        let mut vectors = Vec::with_capacity(self.rows.len());
        for tile in self.tiles() {
            vectors.extend(tile.column::<f32>(VECTORS, dim)?.chunks_exact(dim));
        }
        Ok(vectors)
    }

    fn distinct(&self) -> Result<DistinctRows, TileError> {
        let norms: Vec<&[f64]> =
            self.tiles().map(|tile| tile.column(SQUARED_NORMS, 1)).collect::<Result<_, _>>()?;
        Ok(DistinctRows {
            // Their numbers among both; those in the input come back in `renamed`.
            rows: (0..self.rows.len() as u32).map(Row).collect(),
            squared_norms: norms.concat(),
            ..DistinctRows::default()
        })
    }

    /// Returns the blocks of both, and how many are the left one's.
    fn blocks(&self, plan: &TilePlan) -> Result<(Vec<Block>, usize), TileError> {
        let (rows, dim) = (plan.distinct_rows(), plan.dim());
        let mut blocks = self.left.blocks(plan.tests(), 0, rows, dim)?;
        let lefts = blocks.len();
        if let Some(right) = &self.right {
            blocks.extend(right.blocks(plan.tests(), self.left.len(), rows, dim)?);
        }
        Ok((blocks, lefts))
    }

    /// Returns a pair by its rows in the input.
    fn renamed(&self, pair: PairRecord) -> PairRecord {
        pair.renamed(|row| self.rows[row as usize])
    }
}
