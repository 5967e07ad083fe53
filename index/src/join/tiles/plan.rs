//! [`TilePlan`]: which tiles there are, and which are compared with each other.
//!
//! A tile and a plan are section files ([`crate::file::sections`]). Of a tile, sections in the order of its rows:
//!
//! | section | values |
//! |---|---|
//! | rows, squared norms, vectors | the row of each vector in the input, its canonical squared norm, its values |
//! | cells | the cell and the number of each run of rows of one cell |
//! | codes, first codes | those of the second test, and of the first where it has its own |
//! | bounds | four columns: biases and sums of the first test, biases of the second, products with the centroid |
//! | allowances | not less than `A / Δ` of (3) in [`crate::transform`] |
//! | keys | for each run of rows, the largest key of (5) towards each cell |
//!
//! Where the join would judge every pair there are the first two rows of this table alone.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use memfold_simd::{Kernels, Similarity};

use super::TileError;
use super::build;
use crate::distinct::digest_of;
use crate::file::{Element, FileKind, SectionFile, SectionId};
use crate::join::blocks::{Block, CodeTests};
use crate::join::cascade::direct_blocks;
use crate::join::cells::Cells;
use crate::join::{JoinError, JoinOptions};
use crate::{NoProgress, Row, VectorMatrix};

/// Most rows of a tile: two of 384 dimensions are 50 MiB of vectors and 13 MiB of codes.
pub const TILE_ROWS_MAX: usize = 16_384;

/// Changes with what a tile, a plan or a receipt holds.
pub(super) const VERSION: u64 = 1;

pub(super) const ROWS: SectionId = SectionId::new(21);
pub(super) const SQUARED_NORMS: SectionId = SectionId::new(22);
pub(super) const VECTORS: SectionId = SectionId::new(23);
pub(super) const CELLS: SectionId = SectionId::new(24);
pub(super) const CODES: SectionId = SectionId::new(25);
pub(super) const FIRST_CODES: SectionId = SectionId::new(26);
pub(super) const BOUNDS: SectionId = SectionId::new(27);
pub(super) const ALLOWANCES: SectionId = SectionId::new(28);
pub(super) const KEYS: SectionId = SectionId::new(29);
/// Of a plan: the codes of all centroids.
pub(super) const CENTROIDS: SectionId = SectionId::new(30);
/// Rows, bytes and fingerprint of each tile.
pub(super) const TILES: SectionId = SectionId::new(31);
/// Two tiles for each task.
pub(super) const TASKS: SectionId = SectionId::new(32);
/// The size of each group of equal rows, and its rows.
pub(super) const GROUPS: SectionId = SectionId::new(33);
/// A similarity and the share of sampled pairs at or above it.
pub(super) const HISTOGRAM: SectionId = SectionId::new(34);

/// What is joined, and how it is cut.
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

/// Two tiles whose rows are compared, or one; `left ≤ right`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct TileTask {
    /// The first tile.
    pub left: u32,
    /// The second tile.
    pub right: u32,
}

/// Tiles of an input and the tasks that join it, in a folder.
///
/// Opening maps one file. Whoever holds a folder with the same tiles can [`run`](Self::run) any task, in any order.
#[derive(Debug)]
pub struct TilePlan {
    dir: PathBuf,
    file: SectionFile,
    parameters: Parameters,
    /// `None`: every pair is judged.
    cells: Option<Cells>,
    /// Tiles whose checksums this process has compared.
    verified: Vec<AtomicBool>,
}

/// How much a plan saves and holds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct TileSummary {
    /// How many tiles there are.
    pub tiles: u64,
    /// Their bytes.
    pub tile_bytes: u64,
    /// Bytes of each row in a tile, without what stands there once.
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

/// What a plan was made with.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Parameters {
    pub(super) threshold: f64,
    pub(super) tile_rows_max: u64,
    pub(super) first_width: u64,
    /// 0: every pair is judged.
    pub(super) code_dim: u64,
    pub(super) has_i7: bool,
}

impl Parameters {
    pub(super) fn to_bytes(self) -> Vec<u8> {
        let numbers = [
            VERSION,
            self.threshold.to_bits(),
            self.tile_rows_max,
            self.first_width,
            self.code_dim,
            u64::from(self.has_i7),
        ];
        numbers.into_iter().flat_map(u64::to_le_bytes).collect()
    }

    /// `None`: of something else, or of another version.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (words, []) = bytes.as_chunks::<8>() else { return None };
        let words: Vec<u64> = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        let [VERSION, threshold, tile_rows_max, first_width, code_dim, has_i7] = words[..] else {
            return None;
        };
        let threshold = f64::from_bits(threshold);
        let is_known = Similarity::new(threshold).is_some()
            && code_dim.is_multiple_of(4)
            && first_width.max(code_dim) <= crate::transform::quantizer::WIDTH_MAX as u64
            && has_i7 <= 1;
        let has_i7 = has_i7 == 1;
        is_known.then_some(Self { threshold, tile_rows_max, first_width, code_dim, has_i7 })
    }
}

impl TilePlan {
    /// Keeps other runs out of a folder while the returned file is open, and removes what an earlier run left half done.
    ///
    /// Makes the folder where there is none. Whoever makes a plan and hands out its tasks holds it; tasks do not need it.
    ///
    /// # Errors
    /// When another process holds it, or the folder has files that are not of a plan.
    pub fn lock(dir: &Path) -> Result<File, TileError> {
        build::lock(dir)
    }

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
        let file = SectionFile::open(&path, FileKind::TilePlan).map_err(TileError::file(&path))?;
        file.verify(&NoProgress).map_err(TileError::file(&path))?;
        let damaged = |found: &str| TileError::Damaged { path: path.clone(), found: found.into() };
        let parameters = Parameters::from_bytes(&file.head().parameters)
            .ok_or_else(|| damaged("parameters that are not those of this version"))?;
        let centroids: &[i8] = file.section(CENTROIDS).map_err(TileError::file(&path))?;
        let code_dim = parameters.code_dim as usize;
        let cells = match code_dim {
            0 => None,
            _ if centroids.is_empty() || !centroids.len().is_multiple_of(code_dim) => {
                return Err(damaged("no whole number of centroids"));
            }
            _ => Some(Cells::new(centroids.to_vec(), code_dim, Kernels::active())),
        };
        let plan = Self { dir: dir.to_owned(), file, parameters, cells, verified: Vec::new() };
        let tile_count = plan.tile_rows()?.count();
        let tasks: &[[u32; 2]] = plan.records(TASKS)?;
        if !tasks.iter().all(|[left, right]| left <= right && (*right as usize) < tile_count) {
            return Err(damaged("a task of tiles that are not there"));
        }
        let verified = (0..tile_count).map(|_| AtomicBool::new(false)).collect();
        Ok(Self { verified, ..plan })
    }

    /// Refuses a plan that was made of something else.
    fn check(&self, request: &TileRequest<'_>, options: &JoinOptions<'_>) -> Result<(), TileError> {
        let other = |found: String, expected: String| {
            Err(TileError::OtherPlan { dir: self.dir.clone(), found, expected })
        };
        let (found, expected) = (self.parameters.threshold, request.threshold.get());
        if found.to_bits() != expected.to_bits() {
            return other(format!("the threshold {found}"), format!("the threshold {expected}"));
        }
        let found = [self.file.head().row_count as usize, self.file.head().dim as usize];
        let expected = [request.matrix.len(), request.matrix.dim()];
        let shape = |[rows, dim]: [usize; 2]| format!("{rows} vectors of dimension {dim}");
        if found != expected {
            return other(shape(found), shape(expected));
        }
        let (found, expected) = (self.parameters.tile_rows_max, request.tile_rows_max as u64);
        if found != expected {
            return other(format!("{found} rows at most"), format!("{expected} rows at most"));
        }
        let JoinOptions { kernels, pool, progress, .. } = *options;
        let digest = digest_of(request.matrix, kernels, pool, progress).map_err(JoinError::from)?;
        if build::identity(request, &digest) != self.file.head().store_identity {
            return other("other vectors".into(), "these: the input has changed".into());
        }
        Ok(())
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

    /// Tells whether there is such a task.
    pub(super) fn has(&self, task: TileTask) -> Result<bool, TileError> {
        // Written in this order; in another one, tasks that are there would be refused.
        Ok(self.records::<u32, 2>(TASKS)?.binary_search(&[task.left, task.right]).is_ok())
    }

    /// Returns what the plan holds and saves, with no task resumed.
    ///
    /// # Errors
    /// When the plan is damaged.
    pub fn summary(&self) -> Result<TileSummary, TileError> {
        let tiles = self.records::<u64, 3>(TILES)?.len() as u64;
        let mut pairs_in_tasks = 0;
        for task in self.tasks()? {
            pairs_in_tasks += self.pair_count(task)?;
        }
        let rows = u64::from(self.file.head().node_count);
        Ok(TileSummary {
            tiles,
            tile_bytes: self.records::<u64, 3>(TILES)?.iter().map(|tile| tile[1]).sum(),
            row_bytes: self.row_bytes(),
            tasks: self.tasks()?.len() as u64,
            tasks_total: tiles * (tiles + 1) / 2,
            tasks_resumed: 0,
            pairs_in_tasks,
            pairs_total: rows * rows.saturating_sub(1) / 2,
        })
    }

    fn row_bytes(&self) -> u64 {
        let vector = 4 + 8 + 4 * self.dim();
        let codes = self.tests().map_or(0, |tests| {
            let first = if tests.has_i7 { tests.first_dim() } else { 0 };
            tests.dim + first + 4 * size_of::<i32>() + size_of::<f32>()
        });
        (vector + codes) as u64
    }

    /// Returns how many pairs a task compares.
    pub(super) fn pair_count(&self, task: TileTask) -> Result<u64, TileError> {
        let tiles: &[[u64; 3]] = self.records(TILES)?;
        let [left, right] = [task.left, task.right].map(|tile| tiles[tile as usize][0]);
        Ok(if task.left == task.right { left * left.saturating_sub(1) / 2 } else { left * right })
    }

    fn tile_rows(&self) -> Result<impl ExactSizeIterator<Item = u64>, TileError> {
        Ok(self.records::<u64, 3>(TILES)?.iter().map(|tile| tile[0]))
    }

    /// Returns a section of records of `N` numbers.
    fn records<T: Element, const N: usize>(&self, id: SectionId) -> Result<&[[T; N]], TileError> {
        let path = path_of_plan(&self.dir);
        let numbers: &[T] = self.file.section(id).map_err(TileError::file(&path))?;
        match numbers.as_chunks() {
            (records, []) => Ok(records),
            _ => Err(TileError::Damaged { path, found: format!("section {id} is cut short") }),
        }
    }

    /// Returns the groups of equal rows.
    pub(super) fn groups(&self) -> Result<Vec<Vec<Row>>, TileError> {
        let path = path_of_plan(&self.dir);
        let mut numbers: &[u32] = self.file.section(GROUPS).map_err(TileError::file(&path))?;
        let mut groups = Vec::new();
        while let Some((&count, rest)) = numbers.split_first() {
            let split = rest.split_at_checked(count as usize).filter(|_| count > 1);
            let Some((rows, rest)) = split else {
                return Err(TileError::Damaged { path, found: "a group is cut short".into() });
            };
            groups.push(rows.iter().copied().map(Row).collect());
            numbers = rest;
        }
        Ok(groups)
    }

    /// Returns the shares of sampled pairs.
    pub(super) fn histogram(&self) -> Result<Vec<(f64, f64)>, TileError> {
        let records: &[[f64; 2]] = self.records(HISTOGRAM)?;
        Ok(records.iter().map(|&[similarity, share]| (similarity, share)).collect())
    }

    /// Returns how many rows are distinct.
    pub(super) fn distinct_rows(&self) -> u64 {
        self.file.head().node_count.into()
    }

    /// Returns how many rows the input has.
    pub(super) fn row_count(&self) -> u32 {
        self.file.head().row_count
    }

    /// Returns how many components vectors have.
    pub(super) fn dim(&self) -> usize {
        self.file.head().dim as usize
    }

    /// Returns a number that stands for every byte of the plan, and by their fingerprints for its tiles.
    pub(super) fn fingerprint(&self) -> u64 {
        self.file.fingerprint()
    }

    /// Returns what comparing codes needs to know; `None`: every pair is judged.
    pub(super) fn tests(&self) -> Option<CodeTests<'_>> {
        self.cells.as_ref().map(|cells| CodeTests {
            cells,
            dim: self.parameters.code_dim as usize,
            first_width: self.parameters.first_width as usize,
            has_i7: self.parameters.has_i7,
        })
    }

    /// Maps a tile; the first time it compares every byte with its checksums.
    pub(super) fn tile(&self, number: u32) -> Result<Tile, TileError> {
        let path = path_of_tile(&self.dir, number);
        let file = SectionFile::open(&path, FileKind::Tile).map_err(TileError::file(&path))?;
        let [row_count, _, fingerprint] = self.records(TILES)?[number as usize];
        if file.fingerprint() != fingerprint || u64::from(file.head().row_count) != row_count {
            return Err(TileError::Damaged { path, found: "not the tile of this plan".into() });
        }
        if !self.verified[number as usize].load(Ordering::Relaxed) {
            file.verify(&NoProgress).map_err(TileError::file(&path))?;
            self.verified[number as usize].store(true, Ordering::Relaxed);
        }
        Ok(Tile { path, file })
    }
}

/// A tile, mapped.
pub(super) struct Tile {
    path: PathBuf,
    file: SectionFile,
}

impl Tile {
    pub(super) fn section<T: Element>(&self, id: SectionId) -> Result<&[T], TileError> {
        self.file.section(id).map_err(TileError::file(&self.path))
    }

    /// Returns a section of `width` numbers for each row.
    pub(super) fn column<T: Element>(
        &self,
        id: SectionId,
        width: usize,
    ) -> Result<&[T], TileError> {
        let count = self.len() as u64 * width as u64;
        self.file.section_of(id, count).map_err(TileError::file(&self.path))
    }

    pub(super) fn len(&self) -> usize {
        self.file.head().row_count as usize
    }

    /// Returns the cell and the number of each run of rows.
    pub(super) fn runs(&self) -> Result<Vec<(u32, usize)>, TileError> {
        let runs: &[u32] = self.section(CELLS)?;
        let (runs, _) = runs.as_chunks::<2>();
        Ok(runs.iter().map(|&[cell, count]| (cell, count as usize)).collect())
    }

    /// Returns the rows as blocks whose positions begin at `first`.
    pub(super) fn blocks(
        &self,
        tests: Option<CodeTests<'_>>,
        first: usize,
        row_count: u64,
        dim: usize,
    ) -> Result<Vec<Block>, TileError> {
        // A matrix of two tiles has fewer than 2³² rows.
        let position = |at: usize| (first + at) as u32;
        let Some(tests) = tests else {
            return Ok(direct_blocks(position(0)..position(self.len()), dim));
        };
        let first_dim = tests.first_dim();
        let codes: &[i8] = self.column(CODES, tests.dim)?;
        let i7_codes: &[i8] = if tests.has_i7 { self.column(FIRST_CODES, first_dim)? } else { &[] };
        let bounds: &[i32] = self.column(BOUNDS, 4)?;
        let column = |number: usize, start: usize, end: usize| {
            bounds[number * self.len()..][start..end].to_vec()
        };
        let allowances: &[f32] = self.column(ALLOWANCES, 1)?;
        let block_rows = tests.block_rows(row_count as usize);
        let (mut blocks, mut start) = (Vec::new(), 0);
        for (cell, count) in self.runs()? {
            let run = start..start + count;
            if run.end > self.len() || cell as usize >= tests.cells.len() {
                let found = "a run of rows that are not there".into();
                return Err(TileError::Damaged { path: self.path.clone(), found });
            }
            while start < run.end {
                let end = run.end.min(start + block_rows);
                blocks.push(Block {
                    cell,
                    positions: (position(start)..position(end)).collect(),
                    codes: codes[start * tests.dim..end * tests.dim].to_vec(),
                    i7_codes: i7_codes
                        .get(start * first_dim..end * first_dim)
                        .map_or_else(Vec::new, <[i8]>::to_vec),
                    first_biases: column(0, start, end),
                    first_sums: column(1, start, end),
                    second_biases: column(2, start, end),
                    centroid_dots: column(3, start, end),
                    allowances: allowances[start..end].to_vec(),
                });
                start = end;
            }
        }
        Ok(blocks)
    }
}

pub(super) fn path_of_plan(dir: &Path) -> PathBuf {
    dir.join("plan.mfi")
}

pub(super) fn path_of_tile(dir: &Path, number: u32) -> PathBuf {
    dir.join("tiles").join(format!("{number:06}.mfi"))
}
