//! The exact join cut into tasks that need neither all vectors nor each other.
//!
//! 1. [`TilePlan::make`] reads the input a few times in order: equal vectors collapse, the planner learns the same as the join of one
//!    piece, and rows regroup into *tiles*, files of rows of near cells with all that tests need.
//! 2. Every two tiles are a [`TileTask`], unless (5) of [`crate::transform`] leaves no pair of their rows: a tile knows the
//!    largest key of the rows of each of its cells towards every other cell.
//! 3. [`TilePlan::run`] compares two tiles with the blocks and the cascade of [`super::join_pairs`] and leaves a file of sorted
//!    pairs with its [`Receipt`]. It reads two tiles and nothing else, and leaves the same bytes wherever and however often
//!    it runs.
//! 4. [`TilePlan::merge`] sorts the pairs of all tasks together: the [`super::PairStream`] of [`super::join_pairs`].
//!
//! [`join_pairs_by_tiles`] does all this on one machine and goes on where an earlier run in the same folder ended. The
//! folder holds:
//!
//! ```text
//! memfold-tiles.lock            held by a run; marks the folder as one of memfold's
//! plan.mfi                      threshold, cells, tiles with their fingerprints, tasks, equal rows; written last
//! tiles/000017.mfi              a tile
//! pairs/000003-000017.mfi       of a task that has run: left, right (u32) and similarity (f64) of each pair, sorted
//! partial/                      files being written; renamed when whole
//! ```
//!
//! All are section files ([`crate::file::sections`]). Of a tile, sections in the order of its rows:
//!
//! | section | values |
//! |---|---|
//! | rows, squared norms, vectors | the row of each vector in the input, its canonical squared norm, its values |
//! | cells | the cell and the number of each run of rows of one cell |
//! | codes, first codes | codes of the second test, and of the first where it has its own |
//! | bounds | four columns: biases and sums of the first test, biases of the second, products with the centroid |
//! | allowances | not less than `A / Δ` of (3) in [`crate::transform`] |
//! | keys | for each run of rows, the largest key of (5) towards each cell |
//!
//! Where the join would judge every pair there are the first two rows of this table alone.

mod build;
mod task;

#[cfg(test)]
mod tests;

use std::io;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use bytemuck::{Pod, Zeroable};
use memfold_simd::{Kernels, Similarity};

pub use task::{Receipt, join_pairs_by_tiles};

use crate::distinct::scan_rows;
use crate::file::{
    Element, FileHead, FileKind, MapError, SectionFile, SectionFileError, SectionId,
};
use crate::join::encode::{Block, CodeTests, direct_blocks};
use crate::join::prune::Cells;
use crate::join::{JoinError, JoinOptions};
use crate::transform::WIDTH_MAX;
use crate::{NoProgress, Row, VectorMatrix};

/// Most rows of a tile: two of 384 dimensions are 50 MiB of vectors and 13 MiB of codes.
pub const TILE_ROWS_MAX: usize = 16_384;

/// Changes with the format of tiles, plans and pairs.
const VERSION: u64 = 2;

const ROWS: SectionId = SectionId::new(21);
const SQUARED_NORMS: SectionId = SectionId::new(22);
const VECTORS: SectionId = SectionId::new(23);
const CELLS: SectionId = SectionId::new(24);
const CODES: SectionId = SectionId::new(25);
const FIRST_CODES: SectionId = SectionId::new(26);
const BOUNDS: SectionId = SectionId::new(27);
const ALLOWANCES: SectionId = SectionId::new(28);
const KEYS: SectionId = SectionId::new(29);
/// Of a plan: the codes of all centroids.
const CENTROIDS: SectionId = SectionId::new(30);
/// Rows, bytes and fingerprint of each tile.
const TILES: SectionId = SectionId::new(31);
/// Two tiles for each task.
const TASKS: SectionId = SectionId::new(32);
/// The size of each group of equal rows, and its rows.
const GROUPS: SectionId = SectionId::new(33);
/// A similarity and the share of sampled pairs at or above it.
const HISTOGRAM: SectionId = SectionId::new(34);
/// Of a task: two numbers for each pair, as the join sorts them.
const PAIRS: SectionId = SectionId::new(35);

/// The input of a join, and how it is cut.
#[derive(Clone, Copy)]
pub struct TileRequest<'a> {
    /// The vectors.
    pub matrix: &'a VectorMatrix<'a>,
    /// Rows are near at or above this similarity.
    pub threshold: Similarity,
    /// The folder of the tiles: empty, not there, or of an earlier run of the same request.
    pub dir: &'a Path,
    /// Most rows of a tile, normally [`TILE_ROWS_MAX`].
    pub tile_rows_max: usize,
}

/// Two tiles to be compared, or one; `left ≤ right`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TileTask {
    /// The first tile.
    pub left: u32,
    /// The second tile.
    pub right: u32,
}

/// Tiles of an input and the tasks that join it, in a folder.
///
/// Opening maps one file. Every machine with a folder of the same tiles can [`run`](Self::run) any task, in any order.
#[derive(Debug)]
pub struct TilePlan {
    dir: PathBuf,
    file: SectionFile,
    parameters: Parameters,
    /// `None`: every pair is reranked.
    cells: Option<Cells>,
    /// Tiles that this process has verified.
    verified: Vec<AtomicBool>,
}

/// How much a plan saves and holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TileSummary {
    /// How many tiles there are.
    pub tiles: u64,
    /// Their bytes.
    pub tile_bytes: u64,
    /// Bytes of each row in a tile, without parts stored once.
    pub row_bytes: u64,
    /// How many tasks there are.
    pub tasks: u64,
    /// How many there would be without bounds.
    pub tasks_total: u64,
    /// How many tasks an earlier run had finished.
    pub tasks_resumed: u64,
    /// Pairs of distinct rows in tasks.
    pub pairs_in_tasks: u64,
    /// Pairs of distinct rows.
    pub pairs_total: u64,
}

/// Parameters of a plan, as stored.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
struct Parameters {
    version: u64,
    threshold: f64,
    tile_rows_max: u64,
    first_width: u64,
    /// 0: every pair is reranked.
    code_dim: u64,
    /// 1: the first test has codes of 7 bits of its own.
    has_i7: u64,
}

impl Parameters {
    /// `None`: of something else, or of another version.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let read: Self = bytemuck::try_pod_read_unaligned(bytes).ok()?;
        let is_known = read.version == VERSION
            && Similarity::new(read.threshold).is_some()
            && read.code_dim.is_multiple_of(4)
            && read.first_width.max(read.code_dim) <= WIDTH_MAX as u64
            && read.has_i7 <= 1;
        is_known.then_some(read)
    }
}

impl TilePlan {
    /// Opens the plan in the request's folder, or makes one where there is none.
    ///
    /// Needs twice the bytes of the vectors there while tiles are written, and 60 bytes of memory for each distinct row.
    ///
    /// # Errors
    /// When a vector has no direction, the threshold gives too many pairs, the folder holds something else, a file of it is
    /// damaged, the system refuses to write, or the caller asked to stop.
    pub fn make(request: &TileRequest<'_>, options: &JoinOptions<'_>) -> Result<Self, TileError> {
        build::prepare(request.dir)?;
        if path_of_plan(request.dir).exists() {
            let plan = Self::open(request.dir)?;
            plan.check(request, options)?;
            return Ok(plan);
        }
        build::build(request, options)?;
        Self::open(request.dir)
    }

    /// Opens the plan in a folder.
    ///
    /// # Errors
    /// When there is none, or its file is damaged.
    pub fn open(dir: &Path) -> Result<Self, TileError> {
        let path = path_of_plan(dir);
        let file = SectionFile::open(&path, FileKind::TilePlan)?;
        file.verify(&NoProgress)?;
        let damaged = |found: &str| TileError::damaged(&path, found);
        let parameters = Parameters::from_bytes(&file.head().parameters)
            .ok_or_else(|| damaged("parameters that are not those of this version"))?;
        let centroids: &[i8] = file.section(CENTROIDS)?;
        let code_dim = parameters.code_dim as usize;
        let cells = match code_dim {
            0 => None,
            _ if centroids.is_empty() || !centroids.len().is_multiple_of(code_dim) => {
                return Err(damaged("no whole number of centroids"));
            }
            _ => Some(Cells::new(centroids.to_vec(), code_dim, Kernels::active())),
        };
        let plan = Self { dir: dir.to_owned(), file, parameters, cells, verified: Vec::new() };
        let tile_count = plan.tiles()?.len();
        let tasks: &[[u32; 2]] = plan.records(TASKS)?;
        if !tasks.iter().all(|[left, right]| left <= right && (*right as usize) < tile_count) {
            return Err(damaged("a task of tiles that are not there"));
        }
        let verified = (0..tile_count).map(|_| AtomicBool::new(false)).collect();
        Ok(Self { verified, ..plan })
    }

    /// Refuses a plan that was made of something else.
    fn check(&self, request: &TileRequest<'_>, options: &JoinOptions<'_>) -> Result<(), TileError> {
        let other = |(found, expected): (String, String)| {
            let found = format!("tiles of {found}, not of {expected}");
            Err(TileError::OtherFolder { dir: self.dir.clone(), found })
        };
        let threshold = |threshold: f64| format!("the threshold {threshold}");
        let shape = |rows: usize, dim: usize| format!("{rows} vectors of dimension {dim}");
        let rows_max = |rows: u64| format!("{rows} rows at most");
        let (parameters, head, matrix) = (&self.parameters, self.head(), request.matrix);
        let facts = [
            (threshold(parameters.threshold), threshold(request.threshold.get())),
            (shape(head.row_count as usize, head.dim as usize), shape(matrix.len(), matrix.dim())),
            (rows_max(parameters.tile_rows_max), rows_max(request.tile_rows_max as u64)),
        ];
        if let Some(fact) = facts.into_iter().find(|(found, expected)| found != expected) {
            return other(fact);
        }
        let JoinOptions { kernels, pool, progress, .. } = *options;
        let digest = scan_rows(matrix, kernels, pool, progress, |_| Ok(()))?;
        match build::identity(request, &digest) == head.store_identity {
            true => Ok(()),
            false => other(("other vectors".into(), "these: the input has changed".into())),
        }
    }

    /// Returns the folder.
    #[must_use]
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// Returns the threshold that pairs are joined at.
    #[must_use]
    pub fn threshold(&self) -> Similarity {
        Similarity::clamped(self.parameters.threshold).unwrap_or_default()
    }

    /// Returns the tasks that join the input, by their tiles.
    ///
    /// # Errors
    /// When the plan is damaged.
    pub fn tasks(&self) -> Result<impl ExactSizeIterator<Item = TileTask>, TileError> {
        let tasks: &[[u32; 2]] = self.records(TASKS)?;
        Ok(tasks.iter().map(|&[left, right]| TileTask { left, right }))
    }

    /// Returns the summary of the plan, with no task resumed.
    ///
    /// # Errors
    /// When the plan is damaged.
    pub fn summary(&self) -> Result<TileSummary, TileError> {
        let (tiles, dim) = (self.tiles()?, self.head().dim as usize);
        let pairs =
            self.tasks()?.map(|task| self.pair_count(task)).collect::<Result<Vec<_>, _>>()?;
        let codes = self.tests().map_or(0, |tests| {
            let first = if tests.has_i7 { tests.first_dim() } else { 0 };
            tests.dim + first + 4 * size_of::<i32>() + size_of::<f32>()
        });
        Ok(TileSummary {
            tiles: tiles.len() as u64,
            tile_bytes: tiles.iter().map(|[_, bytes, _]| bytes).sum(),
            row_bytes: (4 + 8 + 4 * dim + codes) as u64,
            tasks: pairs.len() as u64,
            tasks_total: (tiles.len() * (tiles.len() + 1) / 2) as u64,
            tasks_resumed: 0,
            pairs_in_tasks: pairs.iter().sum(),
            pairs_total: self.pairs_total(),
        })
    }

    /// Returns how many pairs of distinct rows there are.
    fn pairs_total(&self) -> u64 {
        let rows = u64::from(self.head().node_count);
        rows * rows.saturating_sub(1) / 2
    }

    /// Returns how many pairs a task compares.
    fn pair_count(&self, task: TileTask) -> Result<u64, TileError> {
        let tiles = self.tiles()?;
        let [left, right] = [task.left, task.right].map(|tile| tiles[tile as usize][0]);
        Ok(if task.left == task.right { left * left.saturating_sub(1) / 2 } else { left * right })
    }

    /// Returns rows, bytes and fingerprint of each tile.
    fn tiles(&self) -> Result<&[[u64; 3]], TileError> {
        self.records(TILES)
    }

    /// Returns a section of records of `N` numbers.
    fn records<T: Element, const N: usize>(&self, id: SectionId) -> Result<&[[T; N]], TileError> {
        let numbers: &[T] = self.file.section(id)?;
        match numbers.as_chunks() {
            (records, []) => Ok(records),
            _ => {
                let found = format!("section {id} is cut short");
                Err(TileError::damaged(self.file.path(), found))
            }
        }
    }

    /// Returns the groups of equal rows.
    fn groups(&self) -> Result<Vec<Vec<Row>>, TileError> {
        let mut numbers: &[[u32; 1]] = self.records(GROUPS)?;
        let mut groups = Vec::new();
        while let Some((&[count], rest)) = numbers.split_first() {
            let split = rest.split_at_checked(count as usize).filter(|_| count > 1);
            let cut = || TileError::damaged(self.file.path(), "a group is cut short");
            let (rows, rest) = split.ok_or_else(cut)?;
            groups.push(rows.as_flattened().iter().copied().map(Row).collect());
            numbers = rest;
        }
        Ok(groups)
    }

    /// Returns the head of the plan's file: the rows of the input, and as nodes the distinct ones.
    const fn head(&self) -> &FileHead {
        self.file.head()
    }

    /// Returns a number that stands for every byte of the plan, and by their fingerprints for its tiles.
    fn fingerprint(&self) -> u64 {
        self.file.fingerprint()
    }

    /// Returns the parameters of comparisons; `None`: every pair is reranked.
    fn tests(&self) -> Option<CodeTests<'_>> {
        self.cells.as_ref().map(|cells| CodeTests {
            cells,
            dim: self.parameters.code_dim as usize,
            first_width: self.parameters.first_width as usize,
            has_i7: self.parameters.has_i7 == 1,
        })
    }

    /// Maps a tile; the first time it compares every byte with its checksums.
    fn tile(&self, number: u32) -> Result<Tile, TileError> {
        let tile = Tile::open(&self.dir, number)?;
        let [row_count, _, fingerprint] = self.tiles()?[number as usize];
        if tile.file.fingerprint() != fingerprint || tile.len() as u64 != row_count {
            return Err(TileError::damaged(tile.file.path(), "not the tile of this plan"));
        }
        if !self.verified[number as usize].load(Ordering::Relaxed) {
            tile.file.verify(&NoProgress)?;
            self.verified[number as usize].store(true, Ordering::Relaxed);
        }
        Ok(tile)
    }
}

/// A tile, mapped.
struct Tile {
    file: SectionFile,
}

impl Tile {
    /// Maps a tile without looking at its numbers.
    fn open(dir: &Path, number: u32) -> Result<Self, TileError> {
        let path = path_of_tile(dir, number);
        let file = SectionFile::open(&path, FileKind::Tile)?;
        Ok(Self { file })
    }

    /// Returns a section of `width` numbers for each row.
    fn column<T: Element>(&self, id: SectionId, width: usize) -> Result<&[T], TileError> {
        let count = self.len() as u64 * width as u64;
        Ok(self.file.section_of(id, count)?)
    }

    fn len(&self) -> usize {
        self.file.head().row_count as usize
    }

    /// Returns the cell and the number of each run of rows of one cell.
    fn runs(&self) -> Result<&[[u32; 2]], TileError> {
        let runs: &[u32] = self.file.section(CELLS)?;
        Ok(runs.as_chunks().0)
    }

    /// Returns the rows as blocks whose positions begin at `first`; `row_count` counts the rows of the join.
    fn blocks(
        &self,
        tests: Option<CodeTests<'_>>,
        first: usize,
        row_count: usize,
        dim: usize,
    ) -> Result<Vec<Block>, TileError> {
        // A matrix of two tiles has fewer than 2³² rows.
        let positions = |rows: Range<usize>| (first + rows.start) as u32..(first + rows.end) as u32;
        let Some(tests) = tests else {
            return Ok(direct_blocks(positions(0..self.len()), dim));
        };
        let first_dim = if tests.has_i7 { tests.first_dim() } else { 0 };
        let codes: &[i8] = self.column(CODES, tests.dim)?;
        let i7_codes: &[i8] = if tests.has_i7 { self.column(FIRST_CODES, first_dim)? } else { &[] };
        let bounds: &[i32] = self.column(BOUNDS, 4)?;
        let allowances: &[f32] = self.column(ALLOWANCES, 1)?;
        let (mut blocks, mut start) = (Vec::new(), 0);
        for &[cell, count] in self.runs()? {
            let end = start + count as usize;
            if end > self.len() || cell as usize >= tests.cells.len() {
                let found = "a run of rows that are not there";
                return Err(TileError::damaged(self.file.path(), found));
            }
            while start < end {
                let rows = start..end.min(start + tests.block_rows(row_count));
                let of = |width: usize| rows.start * width..rows.end * width;
                let column = |number: usize| bounds[number * self.len()..][rows.clone()].to_vec();
                blocks.push(Block {
                    cell,
                    positions: positions(rows.clone()).collect(),
                    codes: codes[of(tests.dim)].to_vec(),
                    i7_codes: i7_codes[of(first_dim)].to_vec(),
                    first_biases: column(0),
                    first_sums: column(1),
                    second_biases: column(2),
                    centroid_dots: column(3),
                    allowances: allowances[rows.clone()].to_vec(),
                });
                start = rows.end;
            }
        }
        Ok(blocks)
    }
}

/// The folder of the pairs of tasks.
const PAIRS_FOLDER: &str = "pairs";

fn path_of_plan(dir: &Path) -> PathBuf {
    dir.join("plan.mfi")
}

fn path_of_tile(dir: &Path, number: u32) -> PathBuf {
    dir.join("tiles").join(format!("{number:06}.mfi"))
}

/// Why tiles gave no pairs.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TileError {
    /// The vectors cannot be joined, or the caller asked to stop.
    #[error(transparent)]
    Join(#[from] JoinError),
    /// A file is missing, cut short, damaged, or holds something else than was written.
    #[error("{}: {found}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// The damage.
        found: String,
    },
    /// A task has not run yet.
    #[error("{}: no such file, so the task has not run", path.display())]
    NotRun {
        /// The file of its pairs.
        path: PathBuf,
    },
    /// The folder holds the tiles of something else, or something that a plan of tiles does not.
    #[error("{} holds {found}", dir.display())]
    OtherFolder {
        /// The folder.
        dir: PathBuf,
        /// Its content.
        found: String,
    },
    /// Another process joins the tiles of this folder.
    #[error("{} is in use by another run", dir.display())]
    InUse {
        /// The folder.
        dir: PathBuf,
    },
    /// The system refused to read or write.
    #[error("{}: {source}", path.display())]
    System {
        /// The file or folder.
        path: PathBuf,
        /// The error of the operating system.
        source: io::Error,
    },
}

impl From<SectionFileError> for TileError {
    fn from(error: SectionFileError) -> Self {
        match error {
            SectionFileError::Cancelled => Self::Join(JoinError::Cancelled),
            SectionFileError::Unfit { path, fault } => Self::damaged(&path, fault.to_string()),
            SectionFileError::Map(
                MapError::Open { path, source } | MapError::Map { path, source },
            ) => match source.kind() {
                io::ErrorKind::NotFound => Self::damaged(&path, "the file is missing"),
                _ => Self::System { path, source },
            },
            SectionFileError::Map(MapError::NotAFile { path }) => {
                Self::damaged(&path, "not a regular file")
            }
            other => Self::damaged(Path::new(""), other.to_string()),
        }
    }
}

impl TileError {
    fn damaged(path: &Path, found: impl Into<String>) -> Self {
        Self::Damaged { path: path.to_owned(), found: found.into() }
    }

    fn system(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::System { path: path.to_owned(), source }
    }

    /// Returns advice, where there is some.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Join(error) => return error.hint(),
            Self::Damaged { path, .. } => {
                if path.parent().is_some_and(|folder| folder.ends_with(PAIRS_FOLDER)) {
                    let path = path.display();
                    return Some(format!(
                        "remove {path} and run again: that task alone is repeated"
                    ));
                }
                "remove the folder and run again: all in it is derived from the input"
            }
            Self::NotRun { .. } => "run the task, then merge",
            Self::OtherFolder { .. } => {
                "name another folder, empty or not there; all in a folder of tiles is derived"
            }
            Self::InUse { .. } => "wait until it has ended, or name another folder",
            Self::System { source, .. } => match source.kind() {
                io::ErrorKind::StorageFull => {
                    "free some space there and run again: finished tasks are kept"
                }
                io::ErrorKind::FileTooLarge => {
                    "raise the limit on the size of files (ulimit -f) and run again"
                }
                _ => return None,
            },
        };
        Some(hint.into())
    }

    /// Tells whether the caller asked to stop.
    #[must_use]
    pub const fn is_cancelled(&self) -> bool {
        matches!(self, Self::Join(JoinError::Cancelled))
    }
}
