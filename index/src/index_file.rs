//! `index.mfi`: everything that lookups among the same rows read, in one file.
//!
//! [`IndexBuild`] are built: a flat index always, which scans read, and a graph where there are so many rows that walking it pays.
//! [`IndexView`] are the same where they lie in a mapped file, opened in constant time. [`TextKeys`] say which rows may hold a text.
//!
//! | section | values |
//! |---|---|
//! | transform | the coding's mean, its rotation, its step, and the share of first codes |
//! | codes, links | as in `GraphSections` of [`crate::graph`] |
//! | upper layers | the number of layers, the size of each, their nodes, their links |
//! | duplicate groups | where each node's rows start and the last one's end, then the rows |
//! | prefix transform, prefix codes, prefix norms | read by scans |
//! | text keys | as in [`TextKeys`] |
//!
//! The file is a function of the vectors in their order, the text keys, the options and the identity that the caller gives it.
//! Its parameters are numbers of 32 bits: the version of the flat index's builder, the codes of its first and of its second test, and, with a graph, the
//! version of the graph's builder and [`GraphOptions`].

use std::io::{Seek, Write};

use memfold_simd::Kernels;

use crate::file::sections::REBUILD;
use crate::file::{
    FileHead, FileKind, SectionFile, SectionFileError, SectionFileWriter, SectionId,
};
use crate::flat::{FlatIndex, FlatView};
use crate::graph::verify::{self, GraphReport, VerifyGraphError};
use crate::graph::{
    BuildGraphError, Graph, GraphOptions, GraphSections, GraphView, LAYERS_MAX, layers,
};
use crate::transform::{FINE_CODES, PREFIX_CODES};
use crate::{Damaged, Pool, Progress, Row, VectorMatrix};

/// Centre, rotation and quantisation step of the codes, and the share of the first ones.
const TRANSFORM: SectionId = SectionId::new(1);
/// The int8 codes of each row that scans read.
const PREFIX_CODES_SECTION: SectionId = SectionId::new(2);
/// The int8 code of each node.
const CODES: SectionId = SectionId::new(3);
/// Neighbours on level 0.
const LINKS: SectionId = SectionId::new(5);
/// Neighbours above level 0.
const UPPER_LAYERS: SectionId = SectionId::new(6);
/// Rows of equal vectors.
const DUPLICATE_GROUPS: SectionId = SectionId::new(7);
/// The section of [`TextKeys`].
pub const TEXT_KEYS: SectionId = SectionId::new(8);
/// The section of the middles, directions and steps of the flat index's codes.
pub const PREFIX_TRANSFORM: SectionId = SectionId::new(13);
/// Bounds of each row for scans, beside its codes.
const PREFIX_NORMS: SectionId = SectionId::new(14);

/// Versions of the builders: raised when the same input gives other bytes.
const FLAT_BUILDER: u32 = 1;
const GRAPH_BUILDER: u32 = 4;

const FLAT_PARAMETERS: [u32; 3] = [FLAT_BUILDER, PREFIX_CODES as u32, FINE_CODES as u32];

/// Returns the parameters of a flat index and, where there is one, of a graph.
fn parameters(graph: Option<GraphOptions>) -> Vec<u8> {
    let mut words = FLAT_PARAMETERS.to_vec();
    if let Some(GraphOptions { degree, candidates, probes }) = graph {
        // Each is at most 1,024.
        words.extend([GRAPH_BUILDER, degree as u32, candidates as u32, probes as u32]);
    }
    words.into_iter().flat_map(u32::to_le_bytes).collect()
}

/// Reads the options of the graph back; `None`: the parameters of something else, or of another version.
fn graph_options(parameters: &[u8]) -> Option<Option<GraphOptions>> {
    let (words, []) = parameters.as_chunks::<4>() else { return None };
    let words: Vec<u32> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
    match *words.strip_prefix(&FLAT_PARAMETERS)? {
        [] => Some(None),
        [GRAPH_BUILDER, degree, candidates, probes] => {
            let [degree, candidates, probes] = [degree, candidates, probes].map(|n| n as usize);
            GraphOptions { degree, candidates, probes }.validated().map(Some)
        }
        _ => None,
    }
}

/// Rows by the hashes of their texts, sorted: 32 bits of hash above 32 bits of row.
///
/// Half a hash proposes only: among a million rows, an absent text meets another's half once in 4,000 times. The
/// caller compares the texts.
///
/// # Examples
/// ```
/// use memfold_index::Row;
/// use memfold_index::index_file::TextKeys;
///
/// let (noon, dusk) = (0xAAAA_0000_0000_0000, 0xBBBB_0000_0000_0000);
/// let sorted = TextKeys::sorted([(noon, Row(0)), (dusk, Row(1)), (noon, Row(2))]);
/// let keys = TextKeys::new(&sorted);
/// assert_eq!(keys.rows(noon).collect::<Vec<_>>(), [Row(0), Row(2)]);
/// assert_eq!(keys.rows(7).count(), 0);
/// ```
#[derive(Debug, Clone, Copy)]
pub struct TextKeys<'a> {
    sorted: &'a [u64],
}

/// The half of a hash that is kept.
const HASH: u64 = !(u32::MAX as u64);

impl<'a> TextKeys<'a> {
    /// Returns the stored keys of rows with these hashes; only the upper half of a hash counts.
    #[must_use]
    pub fn sorted(hashed: impl IntoIterator<Item = (u64, Row)>) -> Vec<u64> {
        let mut keys: Vec<u64> =
            hashed.into_iter().map(|(hash, row)| hash & HASH | u64::from(row.0)).collect();
        keys.sort_unstable();
        keys
    }

    /// Takes the keys that [`sorted`](Self::sorted) returned; other numbers give wrong rows and nothing worse.
    #[must_use]
    pub const fn new(sorted: &'a [u64]) -> Self {
        Self { sorted }
    }

    /// Returns the hash of each row's text, of which the lower half is zero; `None` unless each of `row_count` rows has one.
    #[must_use]
    pub fn hashes(&self, row_count: usize) -> Option<Vec<u64>> {
        let mut hashes = vec![None; row_count];
        for &key in self.sorted {
            // The lower half.
            let hash = hashes.get_mut(key as u32 as usize)?;
            if hash.replace(key & HASH).is_some() {
                return None;
            }
        }
        hashes.into_iter().collect()
    }

    /// Returns the rows whose text may have this hash, ascending.
    pub fn rows(&self, hash: u64) -> impl Iterator<Item = Row> + use<'a> {
        let first = self.sorted.partition_point(|&key| key < hash & HASH);
        let same = self.sorted[first..].iter().take_while(move |&&key| key & HASH == hash & HASH);
        // The lower half.
        same.map(|&key| Row(key as u32))
    }
}

/// The content of an `index.mfi`, borrowed.
#[derive(Debug, Clone)]
pub struct IndexView<'a> {
    /// The part that scans read.
    pub flat: FlatView<'a>,
    /// The graph, where there is one.
    pub graph: Option<GraphView<'a>>,
    /// How the graph was built.
    pub graph_options: Option<GraphOptions>,
    /// Rows by their texts.
    pub text_keys: TextKeys<'a>,
}

/// Why a section file holds nothing that can be searched.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenIndexFileError {
    /// A section is missing or of another kind.
    #[error(transparent)]
    Section(#[from] SectionFileError),
    /// Sections do not fit each other.
    #[error("its sections do not fit each other: {0}")]
    Damaged(#[from] Damaged),
    /// The parameters belong to another builder or version.
    #[error("{found} bytes of parameters that are not those of this version")]
    Parameters {
        /// Bytes found.
        found: usize,
    },
}

impl OpenIndexFileError {
    /// Returns advice.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Section(error) => error.hint(),
            _ => Some(REBUILD.into()),
        }
    }
}

impl<'a> IndexView<'a> {
    /// Takes the content of a mapped file, in constant time.
    ///
    /// # Errors
    /// When a section is missing or has another length than the others ask for, or another version wrote it.
    pub fn open(file: &'a SectionFile) -> Result<Self, OpenIndexFileError> {
        let head = file.head();
        let Some(graph_options) = graph_options(&head.parameters) else {
            return Err(OpenIndexFileError::Parameters { found: head.parameters.len() });
        };
        let transform = file.section(PREFIX_TRANSFORM)?;
        let flat = FlatView::open_rows(file, transform)?;
        let graph = graph_options
            .map(|options| GraphView::from_sections(file, options.degree))
            .transpose()?;
        let text_keys = TextKeys::new(file.section(TEXT_KEYS)?);
        Ok(Self { flat, graph, graph_options, text_keys })
    }
}

/// A flat index of some rows, and their graph where one was asked for.
#[derive(Debug)]
pub struct IndexBuild {
    /// The flat index.
    pub flat: FlatIndex,
    graph: Option<Graph>,
}

/// Whether the graph was kept.
#[derive(Debug, Clone, PartialEq)]
pub enum GraphOutcome {
    /// None was asked for.
    NotAsked,
    /// It finds its own rows.
    Kept(GraphReport),
    /// It does not, so it was thrown away: scans answer.
    Refused(VerifyGraphError),
}

impl IndexBuild {
    /// Builds them, and looks up 10,000 rows in the graph: one that cannot find its own rows is not kept.
    ///
    /// Memory: 204 bytes for each row, and with a graph as much as [`Graph::build`] takes.
    ///
    /// # Errors
    /// When a row has no direction, the graph cannot be built, or the caller asked to stop.
    pub fn build(
        matrix: &VectorMatrix<'_>,
        graph: Option<GraphOptions>,
        pool: &Pool,
        kernels: &'static Kernels,
        progress: &dyn Progress,
    ) -> Result<(Self, GraphOutcome), BuildGraphError> {
        progress.begin("encode vectors", None);
        let flat = FlatIndex::build_watched(matrix, pool, kernels, progress)?;
        let flat = flat.ok_or(BuildGraphError::Cancelled)?;
        progress.end();
        let Some(options) = graph else {
            return Ok((Self { flat, graph: None }, GraphOutcome::NotAsked));
        };
        let graph = Graph::build(matrix, options, pool, kernels, progress)?;
        let lookups = verify::SAMPLED_LOOKUPS;
        match verify::check(&graph.view(), matrix, lookups, pool, kernels, progress) {
            Ok(report) => Ok((Self { flat, graph: Some(graph) }, GraphOutcome::Kept(report))),
            Err(VerifyGraphError::Cancelled) => Err(BuildGraphError::Cancelled),
            Err(refused) => Ok((Self { flat, graph: None }, GraphOutcome::Refused(refused))),
        }
    }

    /// Writes a whole `index.mfi`; `text_keys` comes from [`TextKeys::sorted`].
    ///
    /// # Errors
    /// When the output fails.
    pub fn write<W: Write + Seek>(
        &self,
        output: W,
        store_identity: [u8; 32],
        text_keys: &[u64],
    ) -> Result<W, SectionFileError> {
        let rows = self.flat.view();
        let nodes = self.graph.as_ref().map_or(rows.len(), |graph| graph.view().node_count());
        // Rows, nodes and dimensions are numbered with 32 bits.
        let head = FileHead {
            kind: FileKind::Index,
            row_count: rows.len() as u32,
            node_count: nodes as u32,
            dim: rows.dim() as u32,
            store_identity,
            parameters: parameters(self.graph.as_ref().map(|graph| graph.options)),
        };
        let mut writer = SectionFileWriter::new(output, head)?
            .section(PREFIX_TRANSFORM, self.flat.transform())?;
        writer = self.flat.write_rows(writer)?;
        if let Some(graph) = &self.graph {
            writer = graph.write_sections(writer)?;
        }
        writer.section(TEXT_KEYS, text_keys)?.finish()
    }
}

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
        let (count, layers) = split_numbers(file.section(UPPER_LAYERS)?, 1, "upper layers")?;
        let count = count[0] as usize;
        if count > LAYERS_MAX {
            return Err(self::layers(count).into());
        }
        let (layer_sizes, layers) = split_numbers(layers, count, "sizes of layers")?;
        let nodes = layer_sizes.iter().map(|&size| size as usize).sum();
        let (layer_nodes, layer_links) = split_numbers(layers, nodes, "nodes of layers")?;
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
            layer_sizes,
            layer_nodes,
            layer_links,
            member_starts,
            member_rows,
        })?)
    }
}

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

#[cfg(test)]
mod tests {
    use std::io::{Cursor, Write};

    use memfold_simd::{Kernels, Level};

    use super::*;
    use crate::NoProgress;
    use crate::flat::FlatScan;
    use crate::graph::Searcher;
    use crate::testing::{matrix, near, pool};

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
            (0..DIM)
                .map(move |at| value((own % 40) * DIM + at) * 4.0 + value((own + 99) * DIM + at))
        };
        (0..rows).flat_map(row).collect()
    }

    fn built(
        values: &[f32],
        graph: Option<GraphOptions>,
        threads: usize,
        kernels: &'static Kernels,
    ) -> IndexBuild {
        let matrix = matrix(values, DIM);
        let pool = pool(threads);
        let (index, outcome) =
            IndexBuild::build(&matrix, graph, &pool, kernels, &NoProgress).unwrap();
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
                let matrix = matrix(&values, DIM);
                let mut ours = FlatScan::new(index.flat.view(), &matrix, kernels).unwrap();
                let mut theirs = FlatScan::new(views.flat, &matrix, kernels).unwrap();
                let threshold = near(0.9);
                for row in (0..rows as u32).step_by(37) {
                    let query = matrix.vector(Row(row));
                    assert_eq!(
                        ours.k_nearest(query, 9).unwrap(),
                        theirs.k_nearest(query, 9).unwrap()
                    );
                    assert_eq!(
                        ours.range(query, threshold).unwrap(),
                        theirs.range(query, threshold).unwrap()
                    );
                }
                let (Some(graph), Some(opened)) = (&index.graph, &views.graph) else { continue };
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

        for graph in [None, Some(GraphOptions::default())] {
            let bytes = parameters(graph);
            assert_eq!(graph_options(&bytes), Some(graph));
            assert_eq!(graph_options(&bytes[1..]), None);
            assert_eq!(graph_options(&[&bytes[..], &[0; 4]].concat()), None);
            let other_version = [&[bytes[0] + 1], &bytes[1..]].concat();
            assert_eq!(graph_options(&other_version), None);
        }
    }

    /// A forged file: all rows stand behind every other node. Each lookup reranked them once for each node.
    #[test]
    fn rows_behind_many_nodes_are_judged_no_oftener_than_there_are_rows() {
        let (values, kernels) = (values(600), Kernels::active());
        let mut bytes = bytes(&built(&values, Some(GraphOptions::default()), 1, kernels));
        let file = mapped(&bytes);
        let (rows, nodes) = (file.head().row_count, file.head().node_count as usize);
        let groups = file.sections().iter().find(|section| section.id == DUPLICATE_GROUPS).unwrap();
        let starts = &mut bytes[groups.offset as usize..][..4 * (nodes + 1)];
        for (node, start) in starts.as_chunks_mut::<4>().0.iter_mut().enumerate() {
            *start = (node as u32 % 2 * rows).to_le_bytes();
        }
        let file = mapped(&bytes);
        let graph = IndexView::open(&file).unwrap().graph.unwrap();
        let matrix = matrix(&values, DIM);
        let mut searcher = Searcher::new(&graph, &matrix, kernels).unwrap();
        let all = near(-1.0);
        let found = searcher.range(matrix.vector(Row(0)), all, 64).unwrap();
        assert_eq!(found.len(), 600);
        let pool = pool(2);
        let refused = verify::check(&graph, &matrix, usize::MAX, &pool, kernels, &NoProgress);
        assert!(matches!(refused, Err(VerifyGraphError::Lost(_))), "{refused:?}");
    }
}
