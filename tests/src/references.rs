//! Greedy complete linkage as it is defined, pair by pair.

use std::path::Path;

use memfold_core::policy::Linkage;
use memfold_datasets::{Corpus, CorpusOptions};
use memfold_index::{Pool, Row, VectorMatrix};
use memfold_simd::{Kernels, Similarity};

/// For each row the rows near it, in ascending order, with their canonical similarity.
pub type NeighborLists = Vec<Vec<(u32, Similarity)>>;

/// How far the fast product may be from the canonical one, with much to spare.
const PROPOSAL_MARGIN: f64 = 1e-3;

/// Compares every two rows.
///
/// # Panics
/// When a vector is zero.
#[must_use]
pub fn neighbor_lists(vectors: &[f32], dim: usize, threshold: f64) -> NeighborLists {
    let matrix = VectorMatrix::from_slice(vectors, dim).expect("whole rows");
    let kernels = Kernels::active();
    let norm = |row| kernels.dot(matrix.vector(row), matrix.vector(row));
    let norms: Vec<f64> = matrix.rows().map(norm).collect();
    let near = |left: usize| -> Vec<(u32, Similarity)> {
        let x = matrix.vector(Row(left as u32));
        let beside = |right: u32| {
            let y = matrix.vector(Row(right));
            let both = [norms[left], norms[right as usize]];
            let proposed = f64::from(kernels.dot_f32(x, y)) / (both[0] * both[1]).sqrt();
            if proposed < threshold - PROPOSAL_MARGIN || right == left as u32 {
                return None;
            }
            let similarity = kernels.similarity(x, y, both).expect("no vector is zero");
            (similarity.get() >= threshold).then_some((right, similarity))
        };
        (0..matrix.len() as u32).filter_map(beside).collect()
    };
    Pool::new(None).expect("threads start").map(matrix.len(), near)
}

/// Clusters newest first, which is the highest row first: each row joins the first cluster in which
/// it is linked to every member, else it opens one. Returns the clusters of two or more.
#[must_use]
pub fn greedy_definition(lists: &NeighborLists, threshold: f64) -> Vec<Vec<u32>> {
    let linked = |a: u32, b: u32| {
        let list = &lists[a as usize];
        let found = list.binary_search_by_key(&b, |&(row, _)| row);
        found.is_ok_and(|at| list[at].1.get() >= threshold)
    };
    let mut clusters: Vec<Vec<u32>> = Vec::new();
    let mut cluster_of = vec![usize::MAX; lists.len()];
    for row in (0..lists.len() as u32).rev() {
        // Only a cluster with a neighbour in it can take the row.
        let mut candidates: Vec<usize> = lists[row as usize]
            .iter()
            .map(|&(near, _)| cluster_of[near as usize])
            .filter(|&cluster| cluster != usize::MAX)
            .collect();
        candidates.sort_unstable();
        candidates.dedup();
        let fits = |&cluster: &usize| clusters[cluster].iter().all(|&m| linked(row, m));
        let home = candidates.into_iter().find(fits).unwrap_or(clusters.len());
        if home == clusters.len() {
            clusters.push(Vec::new());
        }
        clusters[home].push(row);
        cluster_of[row as usize] = home;
    }
    clusters.retain(|cluster| cluster.len() > 1);
    clusters
}

/// One matrix, cut at one threshold by one linkage.
#[derive(Debug)]
pub struct LinkageCase {
    /// The file's name without its ending.
    pub name: String,
    /// The linkage.
    pub linkage: Linkage,
    /// The cosine at which the tree is cut.
    pub threshold: f64,
    /// Components per row.
    pub dim: usize,
    /// The rows.
    pub vectors: Vec<f32>,
    /// The cluster of each row, numbered by first rows.
    pub labels: Vec<u32>,
}

#[derive(serde::Deserialize)]
struct File {
    rows: usize,
    dim: usize,
    threshold: f64,
    linkage: Linkage,
    labels: Vec<u32>,
}

impl LinkageCase {
    /// Returns the clusters, singletons included, by their first row.
    #[must_use]
    pub fn clusters(&self) -> Vec<Vec<u32>> {
        let count = self.labels.iter().max().map_or(0, |&last| last as usize + 1);
        let mut clusters = vec![Vec::new(); count];
        for (row, &label) in (0..).zip(&self.labels) {
            clusters[label as usize].push(row);
        }
        clusters
    }
}

/// Reads all cases, by name.
///
/// # Panics
/// When a file is not as its README says.
#[must_use]
pub fn linkage_cases() -> Vec<LinkageCase> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data/linkage");
    let entries = std::fs::read_dir(&folder).expect("the folder is committed");
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("a readable folder").path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "json"));
    paths.sort();
    let case = |path: std::path::PathBuf| {
        let text = std::fs::read_to_string(&path).expect("the file is readable");
        let File { rows, dim, threshold, linkage, labels } =
            serde_json::from_str(&text).expect("the file is as its README says");
        let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let matrix = name.split('-').next().unwrap_or_default();
        let vectors = vectors_of(&folder.join(format!("{matrix}.npy")), rows);
        assert_eq!((vectors.len(), labels.len()), (rows * dim, rows), "{name}");
        LinkageCase { name, linkage, threshold, dim, vectors, labels }
    };
    paths.into_iter().map(case).collect()
}

/// Reads the first `rows` vectors of a file.
fn vectors_of(path: &Path, rows: usize) -> Vec<f32> {
    let corpus = Corpus::open(&[path.to_owned()], &CorpusOptions::new(&std::env::temp_dir()));
    let corpus = corpus.expect("the vectors are there");
    let matrix = corpus.matrix();
    assert!(matrix.len() >= rows && corpus.skipped().is_empty(), "{rows} rows");
    matrix.rows().take(rows).flat_map(|row| matrix.vector(row)).copied().collect()
}
