//! IndexBuild in a file answer as those that were built; files of something else are refused.

use std::io::{Cursor, Write};

use memfold_simd::{Kernels, Level, Similarity};

use super::sections::DUPLICATE_GROUPS;
use super::{GraphOutcome, IndexBuild, IndexView, OpenIndexFileError, TextKeys};
use crate::file::{FileHead, FileKind, SectionFile, SectionFileWriter};
use crate::flat::FlatScan;
use crate::graph::verify::{self, VerifyGraphError};
use crate::graph::{GraphOptions, Searcher};
use crate::{NoProgress, Pool, Row, VectorMatrix};

const DIM: usize = 24;

/// Points around a few centres, some of them twice: clumps of more points than a node has candidates, so that no link
/// leads from one to another.
fn values(rows: usize) -> Vec<f32> {
    let value = |at: usize| {
        let mixed = twox_hash::XxHash3_64::oneshot(&at.to_le_bytes()) >> 40;
        mixed as f32 / (1 << 24) as f32 - 0.5
    };
    let row = |row: usize| {
        let own = if row.is_multiple_of(9) { row / 9 } else { row };
        (0..DIM).map(move |at| value((own % 40) * DIM + at) * 4.0 + value((own + 99) * DIM + at))
    };
    (0..rows).flat_map(row).collect()
}

fn built(
    values: &[f32],
    graph: Option<GraphOptions>,
    threads: usize,
    kernels: &'static Kernels,
) -> IndexBuild {
    let matrix = VectorMatrix::from_slice(values, DIM).unwrap();
    let pool = Pool::new(std::num::NonZero::new(threads)).unwrap();
    let (index, outcome) = IndexBuild::build(&matrix, graph, &pool, kernels, &NoProgress).unwrap();
    assert!(!matches!(outcome, GraphOutcome::Refused(_)), "{outcome:?}");
    index
}

fn bytes(index: &IndexBuild) -> Vec<u8> {
    let keys = TextKeys::sorted((0..5).map(|row| (u64::from(row) << 40, Row(row))));
    index.write(Cursor::new(vec![]), [7; 32], &keys).unwrap().into_inner()
}

fn mapped(bytes: &[u8]) -> SectionFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    file.write_all(bytes).unwrap();
    SectionFile::open(file.path(), FileKind::Index).unwrap()
}

#[test]
fn indexes_are_the_same_from_a_file() {
    let kernels = Kernels::active();
    for rows in [0, 1, 2, 500, 6_000] {
        for graph in [None, Some(GraphOptions::default())] {
            let values = values(rows);
            let index = built(&values, graph, 2, kernels);
            let file = mapped(&bytes(&index));
            file.verify(&NoProgress).unwrap();
            assert_eq!(file.head().row_count as usize, rows);
            let views = IndexView::open(&file).unwrap();
            assert_eq!(views.graph_options, graph);
            let matrix = VectorMatrix::from_slice(&values, DIM).unwrap();
            let mut ours = FlatScan::new(index.flat().view(), &matrix, kernels).unwrap();
            let mut theirs = FlatScan::new(views.flat, &matrix, kernels).unwrap();
            let threshold = Similarity::new(0.9).unwrap();
            for row in (0..rows as u32).step_by(37) {
                let query = matrix.vector(Row(row));
                assert_eq!(ours.k_nearest(query, 9).unwrap(), theirs.k_nearest(query, 9).unwrap());
                assert_eq!(
                    ours.range(query, threshold).unwrap(),
                    theirs.range(query, threshold).unwrap()
                );
            }
            let (Some(graph), Some(opened)) = (index.graph(), &views.graph) else { continue };
            let view = graph.view();
            let mut ours = Searcher::new(&view, &matrix, kernels).unwrap();
            let mut theirs = Searcher::new(opened, &matrix, kernels).unwrap();
            for row in (0..rows as u32).step_by(37) {
                let query = matrix.vector(Row(row));
                assert_eq!(ours.k_nearest(query, 9, 32), theirs.k_nearest(query, 9, 32));
            }
        }
    }
}

#[test]
fn a_file_has_the_same_bytes_for_every_level_and_number_of_threads() {
    let values = values(6_000);
    let expected = bytes(&built(&values, Some(GraphOptions::default()), 1, Kernels::active()));
    for level in Level::available() {
        for threads in [1, 2, 8] {
            let kernels = Kernels::at(level).unwrap();
            let found = bytes(&built(&values, Some(GraphOptions::default()), threads, kernels));
            assert!(found == expected, "{threads} threads at {}", level.name());
        }
    }
}

#[test]
fn keys_propose_rows_of_a_text() {
    let file = mapped(&bytes(&built(&values(9), None, 1, Kernels::active())));
    let keys = IndexView::open(&file).unwrap().text_keys;
    assert_eq!(keys.rows(3 << 40).collect::<Vec<_>>(), [Row(3)]);
    assert_eq!(
        keys.rows((3 << 40) + 17).collect::<Vec<_>>(),
        [Row(3)],
        "the lower half says nothing"
    );
    assert_eq!(keys.rows(9 << 40).count(), 0);
}

#[test]
fn the_file_of_something_else_is_refused() {
    let head = FileHead {
        kind: FileKind::Index,
        row_count: 1,
        node_count: 1,
        dim: 2,
        store_identity: [0; 32],
        parameters: vec![0; 16],
    };
    let file = SectionFileWriter::new(Cursor::new(vec![]), head).unwrap().finish().unwrap();
    let file = mapped(file.get_ref());
    let error = IndexView::open(&file).unwrap_err();
    assert!(matches!(error, OpenIndexFileError::Parameters { found: 16 }), "{error}");
    assert!(error.hint().unwrap().contains("index build"));
}

/// A forged file: all rows stand behind every other node. Each lookup reranked them once for each node.
#[test]
fn rows_behind_many_nodes_are_judged_no_oftener_than_there_are_rows() {
    let (values, kernels) = (values(600), Kernels::active());
    let mut bytes = bytes(&built(&values, Some(GraphOptions::default()), 1, kernels));
    let file = mapped(&bytes);
    let (rows, nodes) = (file.head().row_count, file.head().node_count as usize);
    let is_groups = |id| id == DUPLICATE_GROUPS;
    let groups = file.sections().iter().find(|section| is_groups(section.id)).unwrap();
    let starts = &mut bytes[groups.offset as usize..][..4 * (nodes + 1)];
    for (node, start) in starts.as_chunks_mut::<4>().0.iter_mut().enumerate() {
        *start = (node as u32 % 2 * rows).to_le_bytes();
    }
    let file = mapped(&bytes);
    let graph = IndexView::open(&file).unwrap().graph.unwrap();
    let matrix = VectorMatrix::from_slice(&values, DIM).unwrap();
    let mut searcher = Searcher::new(&graph, &matrix, kernels).unwrap();
    let all = Similarity::new(-1.0).unwrap();
    let found = searcher.range(matrix.vector(Row(0)), all, 64).unwrap();
    assert_eq!(found.len(), 600);
    let pool = Pool::new(None).unwrap();
    let refused = verify::check(&graph, &matrix, usize::MAX, &pool, kernels, &NoProgress);
    assert!(matches!(refused, Err(VerifyGraphError::Lost(_))), "{refused:?}");
}
