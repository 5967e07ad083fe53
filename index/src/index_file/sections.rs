//! The flat index and the graph in a section file: written once, mapped and searched in place.
//!
//! | section | values |
//! |---|---|
//! | transform | the coding's mean, its rotation, its step, and the share of first codes |
//! | codes, links | as in [`GraphSections`] |
//! | upper layers | the number of layers, the size of each, their nodes, their links |
//! | duplicate groups | where each node's rows start and the last one's end, then the rows |
//! | prefix transform, prefix codes, prefix norms | what scans read |
//!
//! How the graph was built stands in the file's parameters.

use std::io::{Seek, Write};

use super::OpenIndexFileError;
use crate::Damaged;
use crate::file::{SectionFile, SectionFileError, SectionFileWriter, SectionId};
use crate::flat::{FlatIndex, FlatView};
use crate::graph::{Graph, GraphSections, GraphView, LAYERS_MAX, layers};

/// Centre, rotation and quantisation step of the codes, and the share of the first ones.
const TRANSFORM: SectionId = SectionId::new(1);
/// The int8 code of each node.
const CODES: SectionId = SectionId::new(3);
/// Neighbours on level 0.
const LINKS: SectionId = SectionId::new(5);
/// Neighbours above level 0.
const UPPER_LAYERS: SectionId = SectionId::new(6);
/// Rows of equal vectors.
pub(crate) const DUPLICATE_GROUPS: SectionId = SectionId::new(7);

/// Counts the changes of the builder that change what it builds.
pub(crate) const GRAPH_BUILDER: u32 = 4;

impl Graph {
    /// Adds the sections of the graph to a file.
    pub(crate) fn write_sections<W: Write + Seek>(
        &self,
        writer: SectionFileWriter<W>,
    ) -> Result<SectionFileWriter<W>, SectionFileError> {
        let sections = self.sections();
        let layer_count = [sections.layer_sizes.len() as u32];
        let numbers = [&layer_count[..], sections.layer_sizes, sections.layer_nodes];
        let [count, sizes, nodes] = numbers.map(bytemuck::cast_slice::<u32, u8>);
        let scalars = [sections.step, sections.lead_share];
        writer
            .chunks::<f32, _>(TRANSFORM, [sections.mean, sections.rotation, &scalars])?
            .section(CODES, sections.codes)?
            .section(LINKS, sections.links)?
            .chunks::<u8, _>(UPPER_LAYERS, [count, sizes, nodes, sections.layer_links])?
            .chunks::<u32, _>(DUPLICATE_GROUPS, [sections.member_starts, sections.member_rows])
    }
}

impl<'a> GraphView<'a> {
    /// Takes the graph of a mapped file, in O(1): nothing is copied.
    pub(crate) fn from_sections(
        file: &'a SectionFile,
        degree: usize,
    ) -> Result<Self, OpenIndexFileError> {
        let head = file.head();
        let transform = file.section::<f32>(TRANSFORM)?;
        let dim = head.dim as usize;
        let short = || length("the transform", transform.len(), dim + 2);
        let (mean, transform) = transform.split_at_checked(dim).ok_or_else(short)?;
        let (rotation, &[step, lead_share]) = transform.split_last_chunk().ok_or_else(short)?;
        let layers = file.section::<u8>(UPPER_LAYERS)?;
        let layers = UpperLayers::of(layers)?;
        let groups = file.section::<u32>(DUPLICATE_GROUPS)?;
        let starts = head.node_count as usize + 1;
        let (member_starts, member_rows) = groups
            .split_at_checked(starts)
            .ok_or_else(|| length("starts of members", groups.len(), starts))?;
        Ok(Self::new(GraphSections {
            mean,
            rotation,
            step,
            lead_share,
            degree,
            codes: file.section(CODES)?,
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
    fn of(section: &'a [u8]) -> Result<Self, Damaged> {
        let (count, rest) = split_numbers(section, 1, "upper layers")?;
        let count = count[0] as usize;
        if count > LAYERS_MAX {
            return Err(layers(count));
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
) -> Result<(&'a [u32], &'a [u8]), Damaged> {
    let short = || length(section, bytes.len() / 4, count);
    let split = count.checked_mul(4).and_then(|count| bytes.split_at_checked(count));
    let (numbers, rest) = split.ok_or_else(short)?;
    Ok((bytemuck::try_cast_slice(numbers).map_err(|_| short())?, rest))
}

const fn length(part: &'static str, found: usize, expected: usize) -> Damaged {
    Damaged::Length { part, found, expected }
}

/// The section of the middles, directions and steps of the flat index's codes.
pub const PREFIX_TRANSFORM: SectionId = SectionId::new(13);
/// The int8 codes of each row that scans read.
const PREFIX_CODES_SECTION: SectionId = SectionId::new(2);
/// What scans know about each row beside its codes.
const PREFIX_NORMS: SectionId = SectionId::new(14);

/// Counts the changes of the builder that change what it builds.
pub(crate) const FLAT_BUILDER: u32 = 1;

impl FlatIndex {
    /// Adds the sections of the rows, without the transform, to a file of as many rows.
    ///
    /// # Errors
    /// When the output fails.
    pub fn write_rows<W: Write + Seek>(
        &self,
        writer: SectionFileWriter<W>,
    ) -> Result<SectionFileWriter<W>, SectionFileError> {
        writer.chunks(PREFIX_CODES_SECTION, self.codes())?.chunks(PREFIX_NORMS, self.norms())
    }
}

impl<'a> FlatView<'a> {
    /// Takes the rows of a mapped file in constant time, with the numbers of the transform that made them.
    ///
    /// # Errors
    /// When a section is missing or has another length than the others ask for.
    pub fn open_rows(
        file: &'a SectionFile,
        transform: &'a [f32],
    ) -> Result<Self, OpenIndexFileError> {
        let head = file.head();
        Ok(Self::new(
            transform,
            file.section(PREFIX_CODES_SECTION)?,
            file.section(PREFIX_NORMS)?,
            head.row_count as usize,
            head.dim as usize,
        )?)
    }
}
