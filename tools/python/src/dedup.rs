//! [`Deduplication`]: near pairs and clusters of vectors; [`Index`]: nearest rows of vectors.

use std::fs::File;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::{ArrayRef, Float64Array, Int64Array};
use memfold::dedup::{
    ClusterLinkage, Clustering, DedupError, DedupRequest, Keep, KeepOrder, dedup, each_logical_pair,
};
use memfold::lookup::corpus::FileVersion;
use memfold_datasets::DataError;
use memfold_datasets::atomic_file::NewFile;
use memfold_datasets::{ColumnsMeta, ColumnsWriter, MappedColumns};
use memfold_index::file::{FileKind, SectionFile};
use memfold_index::graph::BuildGraphError;
use memfold_index::index_file::{IndexBuild, IndexView};
use memfold_index::{
    FlatScan, FlatView, JoinError, JoinOptions, Nearest, Neighbor, PairStream, Pool, Progress, Row,
    VectorError, VectorMatrix, default_pair_budget, join_pairs,
};
use memfold_simd::{Kernels, Similarity};
use numpy::{PyArray1, PyArray2};
use pyo3::prelude::*;

use crate::vectors::{Kept, Source, Table, pool, unusable};
use crate::work::{Kind, Watch, error, input, interrupted, run};

/// Returns a similarity that was handed in as `name`.
pub(crate) fn similarity(name: &str, value: f64) -> PyResult<Similarity> {
    Similarity::new(value).ok_or_else(|| {
        input(
            format!("{name} is {value}, expected a cosine similarity from -1 to 1"),
            "0.9 finds what is nearly equal, 0.99 what is all but the same",
        )
    })
}

/// Near pairs of vectors and their clusters at one threshold.
#[pyclass(frozen, module = "memfold._memfold")]
pub struct Deduplication {
    joined: Arc<Joined>,
    clustering: Clustering,
    pairs: Mutex<Option<Py<Table>>>,
}

/// The data that all thresholds share.
struct Joined {
    vectors: Arc<Kept>,
    pairs: PairStream,
    threshold: Similarity,
    threads: Option<usize>,
}

#[pymethods]
impl Deduplication {
    /// Joins vectors and clusters the pairs.
    #[new]
    #[pyo3(signature = (source, threshold, skips_invalid, threads, shown))]
    fn new(
        py: Python<'_>,
        source: Source<'_>,
        threshold: f64,
        skips_invalid: bool,
        threads: Option<usize>,
        shown: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let threshold = similarity("threshold", threshold)?;
        let (pool, watch) = (pool(threads)?, Arc::default());
        let vectors = take(py, source, &watch, shown)?;
        let vectors = if skips_invalid { vectors.usable(py)? } else { vectors };
        let pairs = vectors.with(py, |matrix| {
            // If rows were left out, the caller explains that.
            if matrix.is_empty() && vectors.skipped().is_empty() {
                return Err(input("there are no vectors", "pass at least one vector"));
            }
            let scratch = std::env::temp_dir();
            let joined = run(py, &watch, shown, |watch| {
                let options = options(&pool, &scratch, watch);
                join_pairs(matrix, threshold, &options)
            })?;
            joined.map_err(unjoined)
        })?;
        Self::of(py, Arc::new(vectors), pairs, threshold, threads, shown)
    }

    /// Clusters the same pairs at a higher threshold.
    fn rethreshold(&self, py: Python<'_>, threshold: f64) -> PyResult<Self> {
        let threshold = similarity("threshold", threshold)?;
        if threshold < self.joined.threshold {
            return Err(input(
                format!(
                    "threshold is {}, below {}, at which the vectors were joined",
                    threshold.get(),
                    self.joined.threshold.get()
                ),
                "call deduplicate again with the lower threshold: its pairs are not known here",
            ));
        }
        Self::cluster(py, Arc::clone(&self.joined), threshold, None)
    }

    #[getter]
    const fn threshold(&self) -> f64 {
        self.clustering.threshold.get()
    }

    /// Rows with a usable vector.
    #[getter]
    fn rows(&self, py: Python<'_>) -> PyResult<usize> {
        self.joined.vectors.with(py, |matrix| Ok(matrix.len()))
    }

    /// Rows without a usable vector, ascending.
    #[getter]
    fn skipped<'py>(&self, py: Python<'py>) -> Bound<'py, PyArray1<i64>> {
        let rows = self.joined.vectors.skipped().iter().map(|row| row.cast_signed());
        PyArray1::from_iter(py, rows)
    }

    #[getter]
    const fn pair_count(&self) -> u64 {
        self.clustering.logical_pairs
    }

    #[getter]
    fn pairs_digest(&self) -> String {
        self.clustering.pairs_digest.to_string()
    }

    /// The rows that stay, and the removed ones.
    fn selection<'py>(&self, py: Python<'py>) -> PyResult<[Bound<'py, PyArray1<i64>>; 2]> {
        let vectors = &self.joined.vectors;
        let mut filtered: Vec<Row> = self.filtered().collect();
        filtered.sort_unstable();
        let count = vectors.with(py, |matrix| Ok(matrix.len()))?;
        let mut selected = Vec::with_capacity(count - filtered.len());
        let mut out = filtered.iter().peekable();
        for row in (0..count as u32).map(Row) {
            if out.next_if_eq(&&row).is_none() {
                selected.push(number(vectors, row));
            }
        }
        let filtered = filtered.into_iter().map(|row| number(vectors, row)).collect();
        Ok([selected, filtered].map(|rows| PyArray1::from_vec(py, rows)))
    }

    #[getter]
    fn filtered_count(&self) -> usize {
        self.filtered().count()
    }

    /// Rows of clusters of two or more: `survivor`, `row`, `similarity`.
    #[getter]
    fn clusters(&self) -> PyResult<Table> {
        let (vectors, members) = (&self.joined.vectors, &self.clustering.members);
        let rows = |row: &dyn Fn(usize) -> Row| -> ArrayRef {
            let numbers = (0..members.len()).map(|at| number(vectors, row(at)));
            Arc::new(numbers.collect::<Int64Array>())
        };
        let similarities: Float64Array =
            members.iter().map(|member| Some(member.similarity.get())).collect();
        Table::new(vec![
            ("survivor", rows(&|at| members[at].survivor)),
            ("row", rows(&|at| members[at].row)),
            ("similarity", Arc::new(similarities)),
        ])
    }

    /// All pairs at or above the threshold: `left`, `right`, `similarity`.
    #[getter]
    fn pairs(&self, py: Python<'_>) -> PyResult<Py<Table>> {
        let kept = |made: &Mutex<Option<Py<Table>>>| {
            made.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|it| it.clone_ref(py))
        };
        if let Some(table) = kept(&self.pairs) {
            return Ok(table);
        }
        let made = Py::new(py, self.written_out(py)?)?;
        *self.pairs.lock().unwrap_or_else(PoisonError::into_inner) = Some(made.clone_ref(py));
        Ok(made)
    }
}

impl Deduplication {
    /// Clusters the pairs of vectors that were joined.
    pub(crate) fn of(
        py: Python<'_>,
        vectors: Arc<Kept>,
        pairs: PairStream,
        threshold: Similarity,
        threads: Option<usize>,
        shown: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let joined = Joined { vectors, pairs, threshold, threads };
        Self::cluster(py, Arc::new(joined), threshold, shown)
    }

    fn cluster(
        py: Python<'_>,
        joined: Arc<Joined>,
        threshold: Similarity,
        shown: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let (pool, watch) = (pool(joined.threads)?, Arc::default());
        let clusterings = joined.vectors.with(py, |matrix| {
            let scratch = std::env::temp_dir();
            let vectors = &joined.vectors;
            let clustered = run(py, &watch, shown, |watch| {
                let request = DedupRequest {
                    matrix,
                    ordinal: &|row| vectors.ordinal(row),
                    keep: &Keep::Best(KeepOrder::by_row(matrix.len())),
                    linkage: ClusterLinkage::GreedyComplete,
                    thresholds: &[threshold],
                    options: &options(&pool, &scratch, watch),
                };
                dedup(&joined.pairs, &request)
            })?;
            clustered.map_err(unclustered)
        })?;
        let clustering = clusterings.into_iter().next().expect("one threshold, one clustering");
        Ok(Self { joined, clustering, pairs: Mutex::default() })
    }

    fn filtered(&self) -> impl Iterator<Item = Row> {
        let members = self.clustering.members.iter();
        members.filter(|member| member.row != member.survivor).map(|member| member.row)
    }

    fn written_out(&self, py: Python<'_>) -> PyResult<Table> {
        let (joined, threshold) = (&self.joined, self.clustering.threshold);
        let budget = default_pair_budget(joined.pairs.distinct_rows());
        let found = self.clustering.logical_pairs;
        if found > budget {
            return Err(input(
                format!("equal vectors make {found} pairs, more than {budget}"),
                "use clusters, which name every row once",
            ));
        }
        let watch = Arc::default();
        let columns = run(py, &watch, None, |watch| {
            let (mut left, mut right, mut similarities) = (Vec::new(), Vec::new(), Vec::new());
            let scratch = std::env::temp_dir();
            each_logical_pair(&joined.pairs, Some(&scratch), watch, |pair| {
                if pair.similarity >= threshold {
                    left.push(number(&joined.vectors, pair.left));
                    right.push(number(&joined.vectors, pair.right));
                    similarities.push(pair.similarity.get());
                }
                Ok::<_, DedupError>(())
            })?;
            Ok::<[ArrayRef; 3], DedupError>([
                Arc::new(Int64Array::from(left)),
                Arc::new(Int64Array::from(right)),
                Arc::new(Float64Array::from(similarities)),
            ])
        })?;
        let [left, right, similarity] = columns.map_err(unclustered)?;
        Table::new(vec![("left", left), ("right", right), ("similarity", similarity)])
    }
}

/// Takes vectors, and reads them where they are in files.
pub(crate) fn take(
    py: Python<'_>,
    source: Source<'_>,
    watch: &Arc<Watch>,
    shown: Option<&Bound<'_, PyAny>>,
) -> PyResult<Kept> {
    match Kept::of(source) {
        Ok(kept) => Ok(kept),
        Err((files, column)) => run(py, watch, shown, |watch| Kept::read(files, column, watch))?,
    }
}

fn options<'a>(pool: &'a Pool, scratch: &'a Path, progress: &'a dyn Progress) -> JoinOptions<'a> {
    JoinOptions { scratch_dir: Some(scratch), progress, ..JoinOptions::new(pool) }
}

/// Returns a row's number outside; files have fewer than 2⁶³ rows.
fn number(vectors: &Kept, row: Row) -> i64 {
    vectors.ordinal(row).cast_signed()
}

fn unjoined(failed: JoinError) -> PyErr {
    match failed {
        JoinError::Cancelled => interrupted(),
        failed => error(Kind::Input, &failed, failed.hint()),
    }
}

fn unclustered(failed: DedupError) -> PyErr {
    match failed {
        DedupError::Cancelled => interrupted(),
        failed => error(Kind::Store, &failed, failed.hint()),
    }
}

/// An index of vectors that finds every row it should.
#[pyclass(frozen, module = "memfold._memfold")]
pub struct Index {
    vectors: Kept,
    codes: Codes,
    threads: Option<usize>,
}

/// The codes that scans read.
enum Codes {
    Built(Box<IndexBuild>),
    File(SectionFile),
}

#[pymethods]
impl Index {
    /// Builds an index, and writes it where there is a path.
    #[new]
    #[pyo3(signature = (source, path, overwrite, threads, shown))]
    fn new(
        py: Python<'_>,
        source: Source<'_>,
        path: Option<PathBuf>,
        overwrite: bool,
        threads: Option<usize>,
        shown: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let (pool, watch) = (pool(threads)?, Arc::default());
        if let Some(path) = path.as_deref().filter(|_| !overwrite) {
            refuse_existing(&[path.to_owned(), vectors_of(path)])?;
        }
        let vectors = take(py, source, &watch, shown)?;
        if !vectors.skipped().is_empty() {
            return Err(input(
                format!("{} rows of the files have no usable vector", vectors.skipped().len()),
                "embed these rows again, or leave them out",
            ));
        }
        let built = vectors.with(py, |matrix| {
            if matrix.is_empty() {
                return Err(input("there are no vectors", "pass at least one vector"));
            }
            run(py, &watch, shown, |watch| build(matrix, &pool, watch, path.as_deref()))?
        })?;
        match path {
            Some(path) => Self::open(path, threads),
            None => Ok(Self { vectors, codes: Codes::Built(Box::new(built)), threads }),
        }
    }

    /// Opens an index that was written, in constant time.
    #[staticmethod]
    fn open(path: PathBuf, threads: Option<usize>) -> PyResult<Self> {
        let rebuild = || Some("build it again: memfold.Index.build(vectors, path)".to_owned());
        if !path.is_file() {
            let message = format!("there is no index at {}", path.display());
            return Err(error(Kind::Store, message, rebuild()));
        }
        let file = SectionFile::open(&path, FileKind::Index)
            .map_err(|failed| error(Kind::Store, &failed, failed.hint()))?;
        let columns = MappedColumns::open(&vectors_of(&path))
            .map_err(|failed| error(Kind::Store, &failed, failed.hint()))?;
        if identity(&vectors_of(&path))? != file.head().store_identity {
            let message = format!(
                "{} is the index of other vectors than those in {}",
                path.display(),
                vectors_of(&path).display()
            );
            return Err(error(Kind::Store, message, rebuild()));
        }
        let index = Self { vectors: Kept::Columns(columns), codes: Codes::File(file), threads };
        index.codes.view()?;
        Ok(index)
    }

    /// The number of rows and of components.
    #[getter]
    fn shape(&self, py: Python<'_>) -> PyResult<(usize, usize)> {
        self.vectors.with(py, |matrix| Ok((matrix.len(), matrix.dim())))
    }

    /// The `k` nearest rows of each query, and their similarities; fewer columns where there are fewer rows.
    fn search<'py>(&self, py: Python<'py>, queries: Source<'py>, k: usize) -> PyResult<Found<'py>> {
        let found = self.each(py, queries, &|scan, query| Nearest::k_nearest(scan, query, k))?;
        let rows: Vec<Vec<i64>> = columns(&found, |one| one.row.0.into());
        let similarities: Vec<Vec<f64>> = columns(&found, |one| one.similarity.get());
        Ok((PyArray2::from_vec2(py, &rows)?, PyArray2::from_vec2(py, &similarities)?))
    }

    /// All rows at least so similar to each query: `query`, `row`, `similarity`.
    fn radius(&self, py: Python<'_>, queries: Source<'_>, threshold: f64) -> PyResult<Table> {
        let threshold = similarity("threshold", threshold)?;
        let found =
            self.each(py, queries, &|scan, query| Nearest::range(scan, query, threshold))?;
        let all =
            || found.iter().zip(0_i64..).flat_map(|(found, at)| found.iter().map(move |n| (at, n)));
        let queries: Int64Array = all().map(|(at, _)| at).collect();
        let rows: Int64Array = all().map(|(_, one)| i64::from(one.row.0)).collect();
        let similarities: Float64Array = all().map(|(_, one)| Some(one.similarity.get())).collect();
        Table::new(vec![
            ("query", Arc::new(queries)),
            ("row", Arc::new(rows)),
            ("similarity", Arc::new(similarities)),
        ])
    }
}

/// Rows and similarities, one row of them for each query.
type Found<'py> = (Bound<'py, PyArray2<i64>>, Bound<'py, PyArray2<f64>>);

/// Answers one query.
type Answer<'a> =
    dyn Fn(&mut FlatScan<'_>, &[f32]) -> Result<Vec<Neighbor>, VectorError> + Sync + 'a;

/// Queries that one thread answers between two checks for cancellation.
const QUERIES_TOGETHER: usize = 16;

impl Index {
    /// Answers queries on all threads, in their order.
    fn each(
        &self,
        py: Python<'_>,
        queries: Source<'_>,
        answer: &Answer<'_>,
    ) -> PyResult<Vec<Vec<Neighbor>>> {
        let watch = Arc::default();
        let queries = take(py, queries, &watch, None)?;
        let flat = self.codes.view()?;
        self.vectors.with(py, |matrix| {
            queries.with(py, |queries| {
                // One query is not worth a thread for each core.
                let most = queries.len().div_ceil(QUERIES_TOGETHER).max(1);
                let cores = || std::thread::available_parallelism().map_or(1, NonZeroUsize::get);
                let pool = pool(Some(self.threads.unwrap_or_else(cores).min(most)))?;
                let found = run(py, &watch, None, |watch| {
                    search(matrix, &flat, queries, answer, &pool, watch)
                })?;
                found.map_err(unusable)?.ok_or_else(interrupted)
            })
        })
    }
}

/// Returns the results of each query; `None` where the caller cancelled.
fn search(
    matrix: &VectorMatrix<'_>,
    flat: &FlatView<'_>,
    queries: &VectorMatrix<'_>,
    answer: &Answer<'_>,
    pool: &Pool,
    watch: &Watch,
) -> Result<Option<Vec<Vec<Neighbor>>>, VectorError> {
    let blocks = pool.map(queries.len().div_ceil(QUERIES_TOGETHER), |block| {
        if watch.cancelled() {
            return Ok(None);
        }
        // Opened with these vectors: they fit.
        let Ok(mut scan) = FlatScan::new(*flat, matrix, Kernels::active()) else {
            return Ok(None);
        };
        let mut found = Vec::with_capacity(QUERIES_TOGETHER);
        for at in queries.rows().skip(block * QUERIES_TOGETHER).take(QUERIES_TOGETHER) {
            if watch.cancelled() {
                return Ok(None);
            }
            let answered = answer(&mut scan, queries.vector(at));
            found.push(answered.map_err(|failed| failed.at(at.0))?);
        }
        Ok(Some(found))
    });
    let blocks: Vec<Option<Vec<_>>> = blocks.into_iter().collect::<Result<_, _>>()?;
    let blocks: Option<Vec<Vec<_>>> = blocks.into_iter().collect();
    Ok(blocks.map(|blocks| blocks.into_iter().flatten().collect()))
}

fn columns<T>(found: &[Vec<Neighbor>], value: impl Fn(&Neighbor) -> T) -> Vec<Vec<T>> {
    found.iter().map(|found| found.iter().map(&value).collect()).collect()
}

impl Codes {
    fn view(&self) -> PyResult<FlatView<'_>> {
        match self {
            Self::Built(built) => Ok(built.flat.view()),
            Self::File(file) => IndexView::open(file)
                .map(|view| view.flat)
                .map_err(|failed| error(Kind::Store, &failed, failed.hint())),
        }
    }
}

/// Builds a flat index, and writes it and the vectors where there is a path.
fn build(
    matrix: &VectorMatrix<'_>,
    pool: &Pool,
    watch: &Watch,
    path: Option<&Path>,
) -> PyResult<IndexBuild> {
    let kernels = Kernels::active();
    let (built, _) = IndexBuild::build(matrix, None, pool, kernels, watch).map_err(unbuilt)?;
    let Some(path) = path else { return Ok(built) };
    let unwritten = |failed: DataError| error(Kind::Store, &failed, failed.hint());
    // A matrix has at most 65,536 dimensions.
    let meta = ColumnsMeta::vectors(matrix.dim() as u32);
    let mut writer = ColumnsWriter::create(&vectors_of(path), &meta).map_err(unwritten)?;
    watch.begin("write", Some(matrix.len() as u64));
    for row in matrix.rows() {
        if watch.cancelled() {
            return Err(interrupted());
        }
        writer.push_vector(matrix.vector(row)).map_err(unwritten)?;
        watch.advance(1);
    }
    writer.publish().map_err(unwritten)?;
    let identity = identity(&vectors_of(path))?;
    let failed = |failed: std::io::Error| {
        error(Kind::Store, format!("write {}: {failed}", path.display()), None)
    };
    let file = NewFile::create(path).map_err(failed)?;
    let file = built
        .write(file, identity, &[])
        .map_err(|failed| error(Kind::Store, &failed, failed.hint()))?;
    let _: File = file.publish().map_err(failed)?;
    Ok(built)
}

fn unbuilt(failed: BuildGraphError) -> PyErr {
    match failed {
        BuildGraphError::Cancelled => interrupted(),
        BuildGraphError::InvalidVector { row, .. } => unusable(VectorError::InvalidRow { row }),
        failed => error(Kind::Input, failed, None),
    }
}

/// Returns where the vectors of an index lie: beside it.
fn vectors_of(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".arrow");
    name.into()
}

/// Tells a file of vectors from others, by its length and both ends.
fn identity(vectors: &Path) -> PyResult<[u8; 32]> {
    let version = FileVersion::take(vectors).map_err(|failed| {
        error(Kind::Store, format!("read {}: {failed}", vectors.display()), None)
    })?;
    Ok(*blake3::hash(format!("{} {}", version.bytes, version.ends).as_bytes()).as_bytes())
}

fn refuse_existing(paths: &[PathBuf]) -> PyResult<()> {
    match paths.iter().find(|path| path.symlink_metadata().is_ok()) {
        Some(path) => Err(input(
            format!("{} is there already", path.display()),
            "pass overwrite=True to replace it, or another path",
        )),
        None => Ok(()),
    }
}
