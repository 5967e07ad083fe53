//! A graph in a section file: written once, mapped and searched in place.
//!
//! | section | values |
//! |---|---|
//! | transform | the coding's mean, then its step |
//! | codes, norms, links | as in [`GraphSections`] |
//! | upper layers | the number of layers, the size of each, their nodes, their links |
//! | duplicate groups | where each node's rows start and the last one's end, then the rows |
//!
//! The file's parameters are the version of the builder and [`GraphOptions`], 32 bits each.

use std::io::{Seek, Write};

use super::layers::LAYERS_MAX;
use super::{DamagedGraph, Graph, GraphOptions, GraphSections, GraphView};
use crate::snapshot::sections::REBUILD;
use crate::snapshot::{
    FileHead, FileKind, SectionError, SectionFile, SectionFileWriter, SectionKind,
    WriteSectionFileError,
};

/// Counts the changes of the builder that change what it builds.
const BUILDER: u32 = 1;

/// Why a section file is no graph that can be searched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenGraphError {
    /// A section is missing or of another kind.
    #[error(transparent)]
    Section(#[from] SectionError),
    /// Its sections do not fit each other.
    #[error("the sections of the graph do not fit each other: {0}")]
    Damaged(#[from] DamagedGraph),
    /// The parameters are those of something else.
    #[error("parameters of {found} bytes that are not those of a graph")]
    Parameters {
        /// Bytes found.
        found: usize,
    },
}

impl OpenGraphError {
    /// Returns what to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Section(error) => error.hint(),
            Self::Damaged(_) | Self::Parameters { .. } => Some(REBUILD.into()),
        }
    }
}

impl Graph {
    /// Writes the graph as a whole section file of `row_count` rows; its bytes depend on the graph and
    /// `store_identity` only.
    ///
    /// # Errors
    /// When the output fails.
    pub fn write<W: Write + Seek>(
        &self,
        output: W,
        store_identity: [u8; 32],
    ) -> Result<W, WriteSectionFileError> {
        let sections = self.sections();
        let view = self.view();
        // Rows, nodes and dimensions of a graph are numbered with 32 bits.
        let head = FileHead {
            kind: FileKind::Index,
            row_count: view.row_count() as u32,
            node_count: view.node_count() as u32,
            dim: view.dim() as u32,
            store_identity,
            parameters: parameters(self.options()),
        };
        let layer_count = [sections.layer_sizes.len() as u32];
        let layers =
            [&layer_count[..], sections.layer_sizes, sections.layer_nodes, sections.layer_links];
        SectionFileWriter::new(output, head)?
            .chunks::<f32, _>(SectionKind::Transform, [sections.mean, &[sections.step]])?
            .section(SectionKind::Codes, sections.codes)?
            .section(SectionKind::Norms, sections.squared_norms)?
            .section(SectionKind::Links, sections.links)?
            .chunks::<u32, _>(SectionKind::UpperLayers, layers)?
            .chunks::<u32, _>(
                SectionKind::DuplicateGroups,
                [sections.member_starts, sections.member_rows],
            )?
            .finish()
    }
}

impl<'a> GraphView<'a> {
    /// Takes the graph of a mapped file, in O(1): nothing is copied but the coding's mean.
    ///
    /// # Errors
    /// When a section is missing or has another length than the others ask for.
    pub fn open(file: &'a SectionFile) -> Result<Self, OpenGraphError> {
        let head = file.head();
        let found = head.parameters.len();
        let degree = degree(&head.parameters).ok_or(OpenGraphError::Parameters { found })?;
        let transform = file.section_of::<f32>(SectionKind::Transform, u64::from(head.dim) + 1)?;
        let (step, mean) = transform.split_last().ok_or(OpenGraphError::Parameters { found })?;
        let layers = file.section::<u32>(SectionKind::UpperLayers)?;
        let [layer_sizes, layer_nodes, layer_links] = split_layers(layers)?;
        let groups = file.section::<u32>(SectionKind::DuplicateGroups)?;
        let starts = head.node_count as usize + 1;
        let (member_starts, member_rows) = groups
            .split_at_checked(starts)
            .ok_or_else(|| length("starts of members", groups.len(), starts))?;
        Ok(Self::new(GraphSections {
            mean,
            step: *step,
            degree,
            codes: file.section(SectionKind::Codes)?,
            squared_norms: file.section_of(SectionKind::Norms, u64::from(head.node_count))?,
            links: file.section(SectionKind::Links)?,
            layer_sizes,
            layer_nodes,
            layer_links,
            member_starts,
            member_rows,
        })?)
    }
}

fn parameters(options: GraphOptions) -> Vec<u8> {
    let GraphOptions { degree, candidates, probes } = options;
    // Each is at most 1,024.
    let values = [BUILDER, degree as u32, candidates as u32, probes as u32];
    values.iter().flat_map(|value| value.to_le_bytes()).collect()
}

/// Reads M back.
fn degree(parameters: &[u8]) -> Option<usize> {
    let (words, rest) = parameters.as_chunks::<4>();
    match (words, rest) {
        ([_, degree, _, _], []) => Some(u32::from_le_bytes(*degree) as usize),
        _ => None,
    }
}

/// Splits the section into sizes, nodes and links.
fn split_layers(layers: &[u32]) -> Result<[&[u32]; 3], DamagedGraph> {
    let (&count, rest) = layers.split_first().ok_or_else(|| length("upper layers", 0, 1))?;
    if count as usize > LAYERS_MAX {
        return Err(DamagedGraph::Layers { found: count as usize });
    }
    let (sizes, rest) = rest
        .split_at_checked(count as usize)
        .ok_or_else(|| length("sizes of layers", rest.len(), count as usize))?;
    let nodes = sizes.iter().map(|&size| size as usize).sum();
    let (nodes, links) =
        rest.split_at_checked(nodes).ok_or_else(|| length("nodes of layers", rest.len(), nodes))?;
    Ok([sizes, nodes, links])
}

const fn length(section: &'static str, found: usize, expected: usize) -> DamagedGraph {
    DamagedGraph::Length { section, found, expected }
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;

    use memfold_simd::{Kernels, Similarity};
    use proptest::prelude::*;

    use super::*;
    use crate::graph::Searcher;
    use crate::{NoProgress, Pool, Row, VectorMatrix};

    const DIM: usize = 24;

    /// Points around a few centres, some of them twice.
    fn values(rows: usize) -> Vec<f32> {
        let value = |at: usize| {
            let mixed = (at as u64).wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 40;
            mixed as f32 / (1 << 24) as f32 - 0.5
        };
        let row = |row: usize| {
            let own = if row.is_multiple_of(9) { row / 9 } else { row };
            (0..DIM)
                .map(move |at| value((own % 40) * DIM + at) * 4.0 + value((own + 99) * DIM + at))
        };
        (0..rows).flat_map(row).collect()
    }

    fn built(values: &[f32]) -> Graph {
        let matrix = VectorMatrix::from_slice(values, DIM).unwrap();
        let (pool, kernels) = (Pool::new(None).unwrap(), Kernels::active());
        Graph::build(&matrix, GraphOptions::default(), &pool, kernels, &NoProgress).unwrap()
    }

    fn mapped(bytes: &[u8]) -> Result<SectionFile, Box<dyn std::error::Error>> {
        let mut file = tempfile::NamedTempFile::new()?;
        file.write_all(bytes)?;
        Ok(SectionFile::open(file.path(), FileKind::Index)?)
    }

    #[test]
    fn a_graph_is_the_same_from_a_file() {
        for rows in [0, 1, 2, 500, 6_000] {
            let values = values(rows);
            let graph = built(&values);
            let bytes = graph.write(Cursor::new(vec![]), [7; 32]).unwrap().into_inner();
            assert_eq!(bytes, graph.write(Cursor::new(vec![]), [7; 32]).unwrap().into_inner());
            let file = mapped(&bytes).unwrap();
            file.verify(&NoProgress).unwrap();
            assert_eq!(file.head().row_count as usize, rows);
            let matrix = VectorMatrix::from_slice(&values, DIM).unwrap();
            let (view, opened) = (graph.view(), GraphView::open(&file).unwrap());
            let kernels = Kernels::active();
            let mut ours = Searcher::new(&view, &matrix, kernels).unwrap();
            let mut theirs = Searcher::new(&opened, &matrix, kernels).unwrap();
            for row in (0..rows as u32).step_by(37) {
                let query = matrix.vector(Row(row));
                assert_eq!(ours.k_nearest(query, 9, 32), theirs.k_nearest(query, 9, 32));
            }
        }
    }

    #[test]
    fn another_file_is_no_graph() {
        let head = FileHead {
            kind: FileKind::Index,
            row_count: 0,
            node_count: 0,
            dim: 3,
            store_identity: [0; 32],
            parameters: vec![1, 2, 3],
        };
        let bytes = SectionFileWriter::new(Cursor::new(vec![]), head).unwrap().finish().unwrap();
        let error = GraphView::open(&mapped(bytes.get_ref()).unwrap()).unwrap_err();
        assert_eq!(error.to_string(), "parameters of 3 bytes that are not those of a graph");
        assert!(error.hint().unwrap().contains("index build"));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// Files that open although their sections were changed are searched without a panic.
        #[test]
        fn damaged_sections_do_no_harm(
            changes in proptest::collection::vec((0_usize..usize::MAX, any::<u32>()), 1..40),
        ) {
            let values = values(5_000);
            let graph = built(&values);
            let sections = graph.sections();
            let damage = |values: &[u32], salt: usize| {
                let mut damaged = values.to_vec();
                for (at, value) in &changes {
                    let length = damaged.len().max(1);
                    if let Some(place) = damaged.get_mut(at.wrapping_add(salt) % length) {
                        *place = *value;
                    }
                }
                damaged
            };
            let (links, starts) = (damage(sections.links, 1), damage(sections.member_starts, 2));
            let (nodes, rows) = (damage(sections.layer_nodes, 3), damage(sections.member_rows, 4));
            let damaged = GraphSections {
                links: &links, member_starts: &starts, layer_nodes: &nodes, member_rows: &rows, ..sections
            };
            let Ok(view) = GraphView::new(damaged) else { return Ok(()) };
            let matrix = VectorMatrix::from_slice(&values, DIM).unwrap();
            let mut searcher = Searcher::new(&view, &matrix, Kernels::active()).unwrap();
            for row in [0, 999, 4_999] {
                let query = matrix.vector(Row(row));
                prop_assert!(searcher.k_nearest(query, 10, 64).is_ok());
                prop_assert!(searcher.range(query, Similarity::new(0.8).unwrap(), 64).is_ok());
            }
        }
    }
}
