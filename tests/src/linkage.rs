//! The committed linkages of scikit-learn.

use std::path::Path;

use memfold_core::policy::Linkage;
use memfold_datasets::VectorFile;

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
        let reader = VectorFile::open(&folder.join(format!("{matrix}.npy"))).expect("a matrix");
        let vectors = reader.read_all().expect("a whole matrix");
        assert_eq!((vectors.len(), labels.len()), (rows * dim, rows), "{name}");
        LinkageCase { name, linkage, threshold, dim, vectors, labels }
    };
    paths.into_iter().map(case).collect()
}
