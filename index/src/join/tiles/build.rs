//! Makes tiles and their plan.

use std::fs::{self, File};
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::ops::Range;
use std::path::Path;

use memfold_simd::Kernels;
use tempfile::NamedTempFile;

use super::{
    ALLOWANCES, BOUNDS, CELLS, CENTROIDS, CODES, FIRST_CODES, GROUPS, HISTOGRAM, KEYS,
    PAIRS_FOLDER, Parameters, ROWS, SQUARED_NORMS, TASKS, TILES, Tile, TileError, TilePlan,
    TileRequest, VECTORS, VERSION, path_of_plan, path_of_tile,
};
use crate::distinct::DistinctRows;
use crate::file::{FileHead, FileKind, SectionFileError, SectionFileWriter};
use crate::join::JoinOptions;
use crate::join::encode::{Block, Encoded, Stages, encode_all};
use crate::join::pairs::Budget;
use crate::join::plan::{SAMPLED_ROWS, Sample};
use crate::join::prune::{Cells, may_be_near};
use crate::join::rerank::Rerank;
use crate::{Mapped, Row, VectorMatrix};

/// Folders of a plan.
const FOLDERS: [&str; 3] = ["tiles", PAIRS_FOLDER, PARTIAL];

/// The folder of files that are being written.
pub(super) const PARTIAL: &str = "partial";

/// The file that a run locks; a folder with it is one of ours.
const LOCK: &str = "memfold-tiles.lock";

/// Bytes of vectors that are sorted by their cells before they are written.
const REGROUPED_BYTES: usize = 32 << 20;

/// Makes the folder, and refuses one that holds something else: files that no run made are never removed.
pub(super) fn prepare(dir: &Path) -> Result<(), TileError> {
    fs::create_dir_all(dir).map_err(TileError::system(dir))?;
    let lock = dir.join(LOCK);
    let is_marked = lock.is_file();
    let plan = path_of_plan(dir);
    for entry in fs::read_dir(dir).map_err(TileError::system(dir))? {
        let name = entry.map_err(TileError::system(dir))?.file_name();
        let is_ours = FOLDERS.iter().any(|&ours| name == ours)
            || name == LOCK
            || Some(&*name) == plan.file_name()
            // Temporary files where the system has no unnamed ones.
            || name.to_string_lossy().starts_with(".tmp");
        if !(is_marked && is_ours) {
            let found =
                format!("{:?}, which is no part of a plan of tiles", name.to_string_lossy());
            return Err(TileError::OtherFolder { dir: dir.to_owned(), found });
        }
    }
    let marked = File::options().create(true).truncate(false).write(true).open(&lock);
    marked.map_err(TileError::system(&lock))?;
    for name in FOLDERS {
        let path = dir.join(name);
        fs::create_dir_all(&path).map_err(TileError::system(&path))?;
    }
    Ok(())
}

impl TilePlan {
    /// Keeps other runs out of a folder while the returned file is open, and removes partial files of an earlier run.
    ///
    /// Makes the folder where there is none. The process that makes a plan and hands out its tasks holds it; tasks do not need it.
    ///
    /// # Errors
    /// When another process holds it, or the folder has files that are not of a plan.
    pub fn lock(dir: &Path) -> Result<File, TileError> {
        prepare(dir)?;
        let path = dir.join(LOCK);
        let file = File::options().write(true).open(&path).map_err(TileError::system(&path))?;
        file.try_lock().map_err(|error| match error {
            fs::TryLockError::WouldBlock => TileError::InUse { dir: dir.to_owned() },
            fs::TryLockError::Error(source) => TileError::System { path, source },
        })?;
        clear(&dir.join(PARTIAL))?;
        Ok(file)
    }
}

fn clear(path: &Path) -> Result<(), TileError> {
    fs::remove_dir_all(path).map_err(TileError::system(path))?;
    fs::create_dir(path).map_err(TileError::system(path))
}

/// A section file on its way to the disk.
type Sections = SectionFileWriter<BufWriter<NamedTempFile>>;

/// Writes a file in the folder of partial ones and renames it to its place.
pub(super) fn write_sections(
    dir: &Path,
    path: &Path,
    head: FileHead,
    write: impl FnOnce(Sections) -> Result<Sections, SectionFileError>,
) -> Result<(), TileError> {
    let place = dir.join(PARTIAL);
    let file = NamedTempFile::new_in(&place).map_err(TileError::system(&place))?;
    let output = BufWriter::with_capacity(1 << 20, file);
    let written = SectionFileWriter::new(output, head).and_then(write);
    let written = written.and_then(SectionFileWriter::finish).map_err(|error| match error {
        SectionFileError::Write { source, .. } => TileError::system(path)(source),
        error => error.into(),
    })?;
    let file = written.into_inner().map_err(|error| TileError::system(path)(error.into()))?;
    file.persist(path).map_err(|error| TileError::system(path)(error.error))?;
    Ok(())
}

/// Returns a digest of everything that the pairs depend on.
pub(super) fn identity(request: &TileRequest<'_>, digest: &[u8; 32]) -> [u8; 32] {
    let numbers = [
        VERSION,
        request.matrix.len() as u64,
        request.matrix.dim() as u64,
        request.threshold.get().to_bits(),
        request.tile_rows_max as u64,
    ];
    let mut hasher = blake3::Hasher::new();
    numbers.iter().for_each(|number| {
        hasher.update(&number.to_le_bytes());
    });
    hasher.update(digest);
    *hasher.finalize().as_bytes()
}

/// Writes all tiles, and the plan last: a folder without it holds nothing of use.
pub(super) fn build(request: &TileRequest<'_>, options: &JoinOptions<'_>) -> Result<(), TileError> {
    let JoinOptions { kernels, pool, progress, .. } = *options;
    let (matrix, dir) = (request.matrix, request.dir);
    ["tiles", PAIRS_FOLDER].iter().try_for_each(|name| clear(&dir.join(name)))?;
    let options = &JoinOptions { scratch_dir: Some(dir), ..*options };
    let distinct = DistinctRows::of(matrix, kernels, pool, Some(dir), progress)?;
    let rerank = Rerank { matrix, distinct: &distinct, kernels, threshold: request.threshold };
    let sample = Sample::draw(&rerank, SAMPLED_ROWS);
    Budget { rerank, sample: &sample, options }.check_sample()?;
    let stages = Stages::choose(&rerank, &sample, options);
    let stages = stages.as_ref();
    let cells = match stages {
        None => vec![0; distinct.len()],
        Some(stages) => {
            let cells = |encoded: Encoded| encoded.assigned.iter().map(|one| one.cell).collect();
            let cells: Vec<Vec<u32>> =
                encode_all(&rerank, stages, options, "assign rows to cells", cells)?;
            cells.concat()
        }
    };
    let all = stages.map(|stages| &stages.cells);
    let layout = Layout::of(all, &cells, request.tile_rows_max, kernels);
    let regrouped = regroup(&rerank, &cells, &layout, dir, options)?;
    let writer = TileWriter {
        dir,
        identity: identity(request, &distinct.digest),
        rerank,
        stages,
        cells: &cells,
        layout: &layout,
        regrouped: &regrouped,
    };
    options.progress.begin("write tiles", Some(cells.len() as u64));
    let tiles = pool.map(layout.tiles.len(), |number| writer.write(number as u32, options));
    options.progress.end();
    let tiles = tiles.into_iter().collect::<Result<Vec<_>, _>>()?;
    let tasks = tasks(&writer, options)?;
    writer.write_plan(request, &tiles, &tasks, &sample.histogram(&rerank, options))
}

/// Where distinct rows lie when they are regrouped: cell by cell, near cells together.
struct Layout {
    /// The position of the row at each place.
    order: Vec<u32>,
    /// The first place of each cell.
    starts: Vec<usize>,
    /// The places of each tile.
    tiles: Vec<Range<usize>>,
}

impl Layout {
    /// `cells` holds the cell of each row; `None`: there is one cell.
    fn of(all: Option<&Cells>, cells: &[u32], rows_max: usize, kernels: &Kernels) -> Self {
        let mut sizes = vec![0_usize; all.map_or(1, Cells::len)];
        cells.iter().for_each(|&cell| sizes[cell as usize] += 1);
        let rows_max = rows_max.max(1);
        let mut layout =
            Self { order: Vec::new(), starts: vec![0; sizes.len()], tiles: Vec::new() };
        let mut place = 0;
        // Halves that wait to be divided; the nearer one is on top.
        let mut groups = vec![(0..sizes.len() as u32).collect::<Vec<u32>>()];
        while let Some(group) = groups.pop() {
            let row_count: usize = group.iter().map(|&cell| sizes[cell as usize]).sum();
            let divided = all.filter(|_| row_count > rows_max && group.len() > 1);
            if let Some(all) = divided {
                let (near, far) = halves(all, group, &sizes, kernels);
                groups.extend([far, near]);
                continue;
            }
            let part = row_count.div_ceil(row_count.div_ceil(rows_max).max(1)).max(1);
            let end = place + row_count;
            let starts = (place..end).step_by(part);
            layout.tiles.extend(starts.map(|start| start..end.min(start + part)));
            for cell in group {
                layout.starts[cell as usize] = place;
                place += sizes[cell as usize];
            }
        }
        layout.order = vec![0; cells.len()];
        let mut places = layout.starts.clone();
        for (position, &cell) in cells.iter().enumerate() {
            let place = &mut places[cell as usize];
            layout.order[*place] = position as u32;
            *place += 1;
        }
        layout
    }
}

/// Divides two or more cells along the direction between two that are far apart, so that both halves have about as many
/// rows.
fn halves(
    all: &Cells,
    mut group: Vec<u32>,
    sizes: &[usize],
    kernels: &Kernels,
) -> (Vec<u32>, Vec<u32>) {
    let farthest = |from: u32| {
        let distance = |&cell: &u32| all.distance(from, cell, kernels);
        let compare = |a: &u32, b: &u32| distance(a).total_cmp(&distance(b)).then(b.cmp(a));
        group.iter().copied().max_by(compare).unwrap_or(from)
    };
    let one = farthest(group[0]);
    let other = farthest(one);
    let towards = |cell: u32| {
        let dot = |end| kernels.dot_i8(all.centroid(cell), all.centroid(end));
        dot(other) - dot(one)
    };
    group.sort_by_cached_key(|&cell| (towards(cell), cell));
    let row_count: usize = group.iter().map(|&cell| sizes[cell as usize]).sum();
    let (mut before, mut split) = (0, 1);
    for (at, &cell) in group.iter().enumerate().take(group.len() - 1) {
        before += sizes[cell as usize];
        split = at + 1;
        if 2 * before >= row_count {
            break;
        }
    }
    let far = group.split_off(split);
    (group, far)
}

/// Copies the vectors of distinct rows into a file without a name, in the order of the layout. The input is read in order
/// and written in runs: both may be larger than memory.
fn regroup(
    rerank: &Rerank<'_>,
    cells: &[u32],
    layout: &Layout,
    dir: &Path,
    options: &JoinOptions<'_>,
) -> Result<Mapped, TileError> {
    let row_bytes = rerank.matrix.dim() * size_of::<f32>();
    let mut file = tempfile::tempfile_in(dir).map_err(TileError::system(dir))?;
    let batch_rows = (REGROUPED_BYTES / row_bytes).max(64);
    let mut places = layout.starts.clone();
    let mut values: Vec<f32> = Vec::new();
    options.progress.begin("regroup rows", Some(cells.len() as u64));
    for start in (0..cells.len()).step_by(batch_rows) {
        options.check_cancelled()?;
        let mut positions: Vec<usize> = (start..cells.len().min(start + batch_rows)).collect();
        positions.sort_unstable_by_key(|&position| (cells[position], position));
        for run in positions.chunk_by(|&a, &b| cells[a] == cells[b]) {
            values.clear();
            run.iter().for_each(|&at| values.extend_from_slice(rerank.vector(at)));
            let place = &mut places[cells[run[0]] as usize];
            file.seek(SeekFrom::Start((*place * row_bytes) as u64))
                .and_then(|_| file.write_all(bytemuck::cast_slice(&values)))
                .map_err(TileError::system(dir))?;
            *place += run.len();
        }
        options.progress.advance(positions.len() as u64);
    }
    options.progress.end();
    Mapped::from_file(&file).map_err(|error| TileError::system(dir)(io::Error::other(error)))
}

/// Writes tiles from regrouped rows.
struct TileWriter<'a> {
    dir: &'a Path,
    identity: [u8; 32],
    rerank: Rerank<'a>,
    /// `None`: every pair is judged.
    stages: Option<&'a Stages>,
    cells: &'a [u32],
    layout: &'a Layout,
    regrouped: &'a [u8],
}

/// Rows, bytes and fingerprint of a tile.
type TileRecord = [u64; 3];

impl TileWriter<'_> {
    fn write(&self, number: u32, options: &JoinOptions<'_>) -> Result<TileRecord, TileError> {
        options.check_cancelled()?;
        let places = self.layout.tiles[number as usize].clone();
        let positions = &self.layout.order[places.clone()];
        let distinct = self.rerank.distinct;
        let dim = self.rerank.matrix.dim();
        let row_bytes = dim * size_of::<f32>();
        let vectors: &[f32] =
            bytemuck::cast_slice(&self.regrouped[places.start * row_bytes..places.end * row_bytes]);
        let norms: Vec<f64> =
            positions.iter().map(|&at| distinct.squared_norms[at as usize]).collect();
        let rows: Vec<u32> = positions.iter().map(|&at| distinct.rows[at as usize].0).collect();
        let path = path_of_tile(self.dir, number);
        let head = self.head(FileKind::Tile, rows.len(), rows.len(), number.to_le_bytes().into());
        let blocks = self.blocks(positions, vectors, &norms);
        write_sections(self.dir, &path, head, |writer| {
            let writer = writer.section(ROWS, &rows)?.section(SQUARED_NORMS, &norms)?;
            let writer = writer.section(VECTORS, vectors)?;
            match self.stages {
                Some(stages) => self.write_codes(writer, &blocks, stages),
                None => Ok(writer),
            }
        })?;
        let Tile { file } = Tile::open(self.dir, number)?;
        options.progress.advance(rows.len() as u64);
        Ok([rows.len() as u64, file.byte_count(), file.fingerprint()])
    }

    /// Encodes the rows of a tile: a block for each of its cells.
    fn blocks(&self, positions: &[u32], vectors: &[f32], norms: &[f64]) -> Vec<Block> {
        let Some(stages) = self.stages else { return Vec::new() };
        let matrix = VectorMatrix::from_slice(vectors, self.rerank.matrix.dim())
            .expect("whole rows of a matrix");
        let distinct = DistinctRows {
            rows: (0..positions.len() as u32).map(Row).collect(),
            squared_norms: norms.to_vec(),
            ..DistinctRows::default()
        };
        let cells: Vec<u32> = positions.iter().map(|&at| self.cells[at as usize]).collect();
        let rerank = Rerank { matrix: &matrix, distinct: &distinct, ..self.rerank };
        Block::of_cells(&rerank, stages, &cells)
    }

    fn write_codes<W: Write + Seek>(
        &self,
        mut writer: SectionFileWriter<W>,
        blocks: &[Block],
        stages: &Stages,
    ) -> Result<SectionFileWriter<W>, SectionFileError> {
        let runs = blocks.iter().map(|block| [block.cell, block.len() as u32]);
        writer = writer.chunks(CELLS, runs)?.chunks(CODES, blocks.iter().map(|b| &*b.codes))?;
        if stages.tests().has_i7 {
            writer = writer.chunks(FIRST_CODES, blocks.iter().map(|b| &*b.i7_codes))?;
        }
        let columns: [fn(&Block) -> &[i32]; 4] = [
            |block| &block.first_biases,
            |block| &block.first_sums,
            |block| &block.second_biases,
            |block| &block.centroid_dots,
        ];
        let bounds = columns.iter().flat_map(|column| blocks.iter().map(column));
        let keys = blocks.iter().map(|b| b.largest_keys(&stages.cells, self.rerank.kernels));
        writer
            .chunks(BOUNDS, bounds)?
            .chunks(ALLOWANCES, blocks.iter().map(|b| &*b.allowances))?
            .chunks(KEYS, keys)
    }

    fn head(&self, kind: FileKind, rows: usize, nodes: usize, parameters: Vec<u8>) -> FileHead {
        FileHead {
            kind,
            // Rows and dimensions are numbered with 32 bits.
            row_count: rows as u32,
            node_count: nodes as u32,
            dim: self.rerank.matrix.dim() as u32,
            store_identity: self.identity,
            parameters,
        }
    }

    fn write_plan(
        &self,
        request: &TileRequest<'_>,
        tiles: &[TileRecord],
        tasks: &[[u32; 2]],
        histogram: &[(f64, f64)],
    ) -> Result<(), TileError> {
        let tests = self.stages.map(Stages::tests);
        let parameters = Parameters {
            version: VERSION,
            threshold: request.threshold.get(),
            tile_rows_max: request.tile_rows_max as u64,
            first_width: tests.map_or(0, |tests| tests.first_width as u64),
            code_dim: tests.map_or(0, |tests| tests.dim as u64),
            has_i7: u64::from(tests.is_some_and(|tests| tests.has_i7)),
        };
        let distinct = self.rerank.distinct;
        let (rows, nodes) = (request.matrix.len(), distinct.len());
        let head =
            self.head(FileKind::TilePlan, rows, nodes, bytemuck::bytes_of(&parameters).to_vec());
        let centroids = self.stages.map_or(&[][..], |stages| stages.cells.centroids());
        let groups = distinct.groups.iter().map(|group| {
            let rows = group.iter().map(|row| row.0);
            std::iter::once(group.len() as u32).chain(rows).collect::<Vec<u32>>()
        });
        let histogram = histogram.iter().map(|&(similarity, share)| [similarity, share]);
        write_sections(self.dir, &path_of_plan(self.dir), head, |writer| {
            writer
                .section(CENTROIDS, centroids)?
                .section(TILES, tiles.as_flattened())?
                .section(TASKS, tasks.as_flattened())?
                .chunks(GROUPS, groups)?
                .chunks(HISTOGRAM, histogram)
        })
    }
}

/// Returns every two tiles of which (5) of [`crate::transform`] leaves pairs.
fn tasks(writer: &TileWriter<'_>, options: &JoinOptions<'_>) -> Result<Vec<[u32; 2]>, TileError> {
    let tile_count = writer.layout.tiles.len() as u32;
    let Some(stages) = writer.stages else {
        let all = (0..tile_count).flat_map(|a| (a..tile_count).map(move |b| [a, b]));
        return Ok(all.collect());
    };
    let open = |number| Tile::open(writer.dir, number);
    let files: Vec<Tile> = (0..tile_count).map(open).collect::<Result<_, _>>()?;
    // The cells of each tile, with the largest key of their rows towards every cell.
    let mut tiles: Vec<Vec<(u32, &[i32])>> = Vec::with_capacity(files.len());
    for tile in &files {
        let keys: &[i32] = tile.file.section(KEYS)?;
        let cells = tile.runs()?.iter().map(|[cell, _]| *cell);
        tiles.push(cells.zip(keys.chunks_exact(stages.cells.len())).collect());
    }
    let remain = |left: &[(u32, &[i32])], right: &[(u32, &[i32])]| {
        let near = |(cell, keys): &(u32, &[i32]), (other, others): &(u32, &[i32])| {
            may_be_near(keys[*other as usize], others[*cell as usize])
        };
        left.iter().any(|left| right.iter().any(|right| near(left, right)))
    };
    let found = options.pool.map(tiles.len(), |left| {
        let rights = (left..tiles.len())
            .filter(|&right| left == right || remain(&tiles[left], &tiles[right]));
        rights.map(|right| [left as u32, right as u32]).collect::<Vec<_>>()
    });
    Ok(found.concat())
}
