//! `index.mfi`: transform, flat index, graph and text keys.

use std::io::Cursor;
use std::path::Path;
use std::sync::OnceLock;

use memfold_index::file::{FileKind, SectionFile};
use memfold_index::graph::{GraphOptions, Searcher};
use memfold_index::index_file::{GraphOutcome, IndexBuild, IndexView, TextKeys};
use memfold_index::{FlatScan, Neighbor, NoProgress, Pool, Row, VectorMatrix};
use memfold_simd::{Kernels, Similarity};

use super::Changes;
use super::files::map;
use super::sections::Parts;
use crate::generated_rows;

/// An index of so few rows that its graph is compared node by node.
const SCANNED: (u32, usize) = (60, 8);
/// Of so many that it is walked.
const WALKED: (u32, usize) = (4_600, 8);

struct Intact {
    parts: Parts,
    vectors: Vec<f32>,
}

impl Intact {
    fn new(rows: u32, dim: usize) -> Self {
        let vectors = generated_rows(rows, dim, u64::from(rows));
        let matrix = VectorMatrix::from_slice(&vectors, dim).expect("whole rows");
        let pool = Pool::new(None).expect("threads can be started");
        let options = GraphOptions::default();
        let kernels = Kernels::active();
        let (tiers, outcome) =
            IndexBuild::build(&matrix, Some(options), &pool, kernels, &NoProgress)
                .expect("generated rows have directions");
        assert!(matches!(outcome, GraphOutcome::Kept(_)), "{outcome:?}");
        let keys = TextKeys::sorted((0..rows).map(|row| (u64::from(row % 50) << 40, Row(row))));
        let bytes = tiers.write(Cursor::new(Vec::new()), [7; 32], &keys);
        let bytes = bytes.expect("memory takes everything").into_inner();
        Self { parts: Parts::of(&bytes, FileKind::Index), vectors }
    }
}

/// Takes a small index.
pub(super) fn scanned(bytes: &[u8]) {
    static INTACT: OnceLock<Intact> = OnceLock::new();
    let mut changes = Changes::new(bytes);
    let intact = INTACT.get_or_init(|| Intact::new(SCANNED.0, SCANNED.1));
    if changes.below(16) == 0 {
        use_file(changes.rest(), intact);
    } else if let Some(file) = intact.parts.changed(&mut changes) {
        use_file(&file, intact);
    }
}

/// Opens an index and walks its graph.
pub(super) fn walked(bytes: &[u8]) {
    static INTACT: OnceLock<Intact> = OnceLock::new();
    let intact = INTACT.get_or_init(|| Intact::new(WALKED.0, WALKED.1));
    if let Some(file) = intact.parts.changed(&mut Changes::new(bytes)) {
        use_file(&file, intact);
    }
}

fn use_file(bytes: &[u8], intact: &Intact) {
    let path = Path::new("fuzzed.mfi");
    let Ok(file) = SectionFile::from_mapped(map(bytes), path, FileKind::Index) else { return };
    let _ = file.verify(&NoProgress);
    let Ok(tiers) = IndexView::open(&file) else { return };
    let (rows, dim) = (file.head().row_count as usize, file.head().dim as usize);
    for hash in [0, 3 << 40, u64::MAX] {
        assert!(tiers.text_keys.rows(hash).count() <= bytes.len());
    }
    let _ = tiers.text_keys.hashes(rows);
    let half = Similarity::new(0.5).unwrap_or(Similarity::ONE);
    // The columns of a generation have as many rows, or it is refused.
    let Some(values) = intact.vectors.get(..rows.saturating_mul(dim)) else { return };
    let Ok(matrix) = VectorMatrix::from_slice(values, dim) else { return };
    let queries = [vec![0.3; dim], values[..dim.min(values.len())].to_vec()];
    if let Ok(mut scan) = FlatScan::new(tiers.flat, &matrix, Kernels::active()) {
        for query in &queries {
            check(scan.k_nearest(query, 10), rows);
            check(scan.range(query, half), rows);
        }
    }
    let Some(graph) = &tiers.graph else { return };
    if let Ok(mut searcher) = Searcher::new(graph, &matrix, Kernels::active()) {
        for query in &queries {
            check(searcher.k_nearest(query, 10, 64), rows);
            check(searcher.range(query, half, 64), rows);
        }
    }
}

/// Found rows exist, and the best comes first.
fn check<E>(found: Result<&[Neighbor], E>, rows: usize) {
    let Ok(found) = found else { return };
    assert!(found.iter().all(|neighbor| neighbor.row.index() < rows));
    assert!(found.is_sorted());
}
