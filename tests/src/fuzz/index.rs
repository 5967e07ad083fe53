//! `index.mfi`: transform, flat index, graph and text keys.

use std::io::Cursor;
use std::path::Path;
use std::sync::OnceLock;

use memfold_index::file::{Element, FileKind, Section, SectionFile};
use memfold_index::graph::{GraphOptions, Searcher, verify};
use memfold_index::index_file::{GraphOutcome, IndexBuild, IndexView, TextKeys};
use memfold_index::{FlatScan, Neighbor, NoProgress, Pool, Row, VectorMatrix};
use memfold_simd::{Kernels, Similarity};

use super::Changes;
use super::files::map;
use super::sections::Parts;
use crate::generated_rows;

/// An index of so few rows that its graph is compared node by node.
const SCANNED: (u32, usize) = (60, 8);
/// Of so many that it is walked, with vectors so long that they are turned.
const WALKED: (u32, usize) = (4_600, 72);

struct Intact {
    parts: Parts,
    vectors: Vec<f32>,
    pool: Pool,
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
        Self { parts: Parts::of(&bytes, FileKind::Index), vectors, pool }
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
    file.sections().iter().for_each(|section| read(&file, section));
    let Ok(tiers) = IndexView::open(&file) else { return };
    let (rows, dim) = (file.head().row_count as usize, file.head().dim as usize);
    for hash in [0, 3 << 40, u64::MAX] {
        assert!(tiers.text_keys.rows(hash).count() <= bytes.len());
    }
    let _ = tiers.text_keys.hashes(rows);
    let [all, half] = [-1.0, 0.5].map(|cosine| Similarity::new(cosine).expect("a cosine"));
    let kernels = Kernels::active();
    // The columns of a generation have as many rows, or it is refused.
    let Some(values) = intact.vectors.get(..rows.saturating_mul(dim)) else { return };
    let Ok(matrix) = VectorMatrix::from_slice(values, dim) else { return };
    let queries = [vec![0.3; dim], values[..dim.min(values.len())].to_vec()];
    if let Ok(mut scan) = FlatScan::new(tiers.flat, &matrix, kernels) {
        for query in &queries {
            assert!(check(scan.k_nearest(query, 10), query, &matrix, all));
            assert!(check(scan.range(query, half), query, &matrix, half));
        }
    }
    let Some(graph) = &tiers.graph else { return };
    if let Ok(mut searcher) = Searcher::new(graph, &matrix, kernels) {
        for query in &queries {
            check(searcher.k_nearest(query, 10, 64), query, &matrix, all);
            check(searcher.range(query, half, 64), query, &matrix, half);
        }
    }
    let _ = verify::check(graph, &matrix, 20, &intact.pool, kernels, &NoProgress);
}

/// Reads both ends of a section, whatever the type of its numbers.
fn read(file: &SectionFile, section: &Section) {
    fn ends<T: Element + PartialEq>(file: &SectionFile, section: &Section) -> bool {
        file.section::<T>(section.id).is_ok_and(|values| values.first() == values.last())
    }
    let _ = ends::<u8>(file, section) | ends::<i8>(file, section) | ends::<u16>(file, section);
    let _ = ends::<u32>(file, section) | ends::<i32>(file, section) | ends::<f32>(file, section);
    let _ = ends::<u64>(file, section) | ends::<i64>(file, section) | ends::<f64>(file, section);
}

/// Found rows exist, have the stated similarity, at least `least`, and the best comes first; returns whether each row
/// is there once.
fn check<E>(
    found: Result<&[Neighbor], E>,
    query: &[f32],
    matrix: &VectorMatrix<'_>,
    least: Similarity,
) -> bool {
    let Ok(found) = found else { return true };
    let kernels = Kernels::active();
    for &Neighbor { row, similarity } in found {
        assert!(row.index() < matrix.len() && similarity >= least);
        let vector = matrix.vector(row);
        let norms = [kernels.dot(query, query), kernels.dot(vector, vector)];
        assert_eq!(kernels.similarity(query, vector, norms), Some(similarity));
    }
    assert!(found.is_sorted());
    found.is_sorted_by(|a, b| a < b)
}
