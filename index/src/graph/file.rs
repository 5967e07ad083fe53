//! A graph in a section file: written once, mapped and searched in place.
//!
//! | section | values |
//! |---|---|
//! | transform | the coding's mean, then its step |
//! | codes, norms, links | as in [`GraphSections`] |
//! | upper layers | the number of layers, the size of each, their nodes, their links |
//! | duplicate groups | where each node's rows start and the last one's end, then the rows |
//!
//! How the graph was built stands in the file's parameters.

use std::io::{Seek, Write};

use super::build::LAYERS_MAX;
use super::{Graph, GraphSections, GraphView};
use crate::codes::DamagedCoding;
use crate::distinct::DistinctError;
use crate::file::{SectionFile, SectionFileWriter, SectionId, WriteSectionFileError};
use crate::index_file::OpenIndexFileError;

/// Centre and quantisation step of the codes.
const TRANSFORM: SectionId = SectionId::new(1);
/// The int8 code of each node.
const CODES: SectionId = SectionId::new(3);
/// The norm of each node's code.
const NORMS: SectionId = SectionId::new(4);
/// Neighbours on level 0.
const LINKS: SectionId = SectionId::new(5);
/// Neighbours above level 0.
const UPPER_LAYERS: SectionId = SectionId::new(6);
/// Rows of equal vectors.
pub(crate) const DUPLICATE_GROUPS: SectionId = SectionId::new(7);

/// Counts the changes of the builder that change what it builds.
pub(crate) const BUILDER: u32 = 2;

impl Graph {
    /// Adds the sections of the graph to a file.
    pub(crate) fn write_sections<W: Write + Seek>(
        &self,
        writer: SectionFileWriter<W>,
    ) -> Result<SectionFileWriter<W>, WriteSectionFileError> {
        let sections = self.sections();
        let layer_count = [sections.layer_sizes.len() as u32];
        let numbers = [&layer_count[..], sections.layer_sizes, sections.layer_nodes];
        let [count, sizes, nodes] = numbers.map(bytemuck::cast_slice::<u32, u8>);
        writer
            .chunks::<f32, _>(TRANSFORM, [sections.mean, &[sections.step]])?
            .section(CODES, sections.codes)?
            .section(NORMS, sections.squared_norms)?
            .section(LINKS, sections.links)?
            .chunks::<u8, _>(UPPER_LAYERS, [count, sizes, nodes, sections.layer_links])?
            .chunks::<u32, _>(DUPLICATE_GROUPS, [sections.member_starts, sections.member_rows])
    }
}

impl<'a> GraphView<'a> {
    /// Takes the graph of a mapped file, in O(1): nothing is copied but the coding's mean.
    pub(crate) fn from_sections(
        file: &'a SectionFile,
        degree: usize,
    ) -> Result<Self, OpenIndexFileError> {
        let head = file.head();
        let transform = file.section_of::<f32>(TRANSFORM, u64::from(head.dim) + 1)?;
        let (step, mean) = transform.split_last().ok_or_else(|| length("the transform", 0, 1))?;
        let layers = file.section::<u8>(UPPER_LAYERS)?;
        let layers = UpperLayers::of(layers)?;
        let groups = file.section::<u32>(DUPLICATE_GROUPS)?;
        let starts = head.node_count as usize + 1;
        let (member_starts, member_rows) = groups
            .split_at_checked(starts)
            .ok_or_else(|| length("starts of members", groups.len(), starts))?;
        Ok(Self::new(GraphSections {
            mean,
            step: *step,
            degree,
            codes: file.section(CODES)?,
            squared_norms: file.section_of(NORMS, u64::from(head.node_count))?,
            links: file.section(LINKS)?,
            layer_sizes: layers.sizes,
            layer_nodes: layers.nodes,
            layer_links: layers.links,
            member_starts,
            member_rows,
        })?)
    }
}

/// The section of upper layers, split.
struct UpperLayers<'a> {
    sizes: &'a [u32],
    nodes: &'a [u32],
    links: &'a [u8],
}

impl<'a> UpperLayers<'a> {
    fn of(section: &'a [u8]) -> Result<Self, DamagedGraph> {
        let (count, rest) = split_numbers(section, 1, "upper layers")?;
        let count = count[0] as usize;
        if count > LAYERS_MAX {
            return Err(DamagedGraph::Layers { found: count });
        }
        let (sizes, rest) = split_numbers(rest, count, "sizes of layers")?;
        let nodes = sizes.iter().map(|&size| size as usize).sum();
        let (nodes, links) = split_numbers(rest, nodes, "nodes of layers")?;
        Ok(Self { sizes, nodes, links })
    }
}

/// Splits off so many numbers.
fn split_numbers<'a>(
    bytes: &'a [u8],
    count: usize,
    section: &'static str,
) -> Result<(&'a [u32], &'a [u8]), DamagedGraph> {
    let short = || length(section, bytes.len() / 4, count);
    let split = count.checked_mul(4).and_then(|count| bytes.split_at_checked(count));
    let (numbers, rest) = split.ok_or_else(short)?;
    Ok((bytemuck::try_cast_slice(numbers).map_err(|_| short())?, rest))
}

const fn length(section: &'static str, found: usize, expected: usize) -> DamagedGraph {
    DamagedGraph::Length { section, found, expected }
}

/// Why there is no graph.
#[derive(Debug, Clone, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum BuildGraphError {
    /// A row holds NaN, an infinite value, or only zeros.
    #[error("row {row}: {reason}")]
    InvalidVector {
        /// The row.
        row: u32,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// The vectors are too long for distances of codes.
    #[error(transparent)]
    Coding(#[from] DamagedCoding),
    /// Rows are numbered with 31 bits.
    #[error("{found} rows are more than a graph can number (2,147,483,648)")]
    TooManyRows {
        /// Rows given.
        found: usize,
    },
    /// A parameter is out of range.
    #[error("degree must be 2 to 64, candidates degree to 1,024, probes 1 to 256")]
    Options,
    /// The caller asked to stop.
    #[error("interrupted")]
    Cancelled,
}

impl From<DistinctError> for BuildGraphError {
    fn from(error: DistinctError) -> Self {
        match error {
            DistinctError::InvalidVector { row, reason } => Self::InvalidVector { row, reason },
            DistinctError::Cancelled => Self::Cancelled,
        }
    }
}

/// Slices that are no graph.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DamagedGraph {
    /// The coding is none.
    #[error(transparent)]
    Coding(#[from] DamagedCoding),
    /// A section has another length than the others ask for.
    #[error("{section}: {found} values, expected {expected}")]
    Length {
        /// The section.
        section: &'static str,
        /// Values in it.
        found: usize,
        /// Values that the other sections ask for.
        expected: usize,
    },
    /// The degree is out of range.
    #[error("degree {found}, expected 2 to 64")]
    Degree {
        /// The degree found.
        found: usize,
    },
    /// There are more upper layers than levels in a hash.
    #[error("{found} upper layers, expected 10 at most")]
    Layers {
        /// Layers found.
        found: usize,
    },
    /// The vectors do not belong to this graph.
    #[error("vectors of {found} dimensions, the graph has {expected}")]
    Dimension {
        /// The graph's dimension.
        expected: usize,
        /// The vectors'.
        found: usize,
    },
}

#[cfg(test)]
mod tests {
    use memfold_simd::{Kernels, Similarity};
    use proptest::prelude::*;

    use super::*;
    use crate::graph::{GraphOptions, Searcher};
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
            let mut links = sections.links.to_vec();
            for (at, value) in &changes {
                let place = at % links.len();
                links[place] = *value as u8;
            }
            let starts = damage(sections.member_starts, 2);
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
