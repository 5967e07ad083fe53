//! `index.mfi`: everything that lookups among the same rows read, in one file.
//!
//! [`IndexBuild`] are built: a flat index always, which scans read, and a graph where there are so many rows that walking it pays.
//! [`IndexView`] are the same where they lie in a mapped file, opened in constant time. [`TextKeys`] say which rows may hold a text.
//!
//! The file is a function of the vectors in their order, the text keys, the options and the identity that the caller gives it;
//! its sections are described by [`flat`](crate::flat), [`graph`](crate::graph) and [`TextKeys`]. Its parameters are numbers
//! of 32 bits: the version of the flat index's builder, the codes of its first and of its second test, and, with a graph, the
//! version of the graph's builder and [`GraphOptions`].

use std::io::{Seek, Write};

use memfold_simd::Kernels;

use super::Damaged;
use super::file::sections::REBUILD;
use super::file::{
    FileHead, FileKind, SectionFile, SectionFileError, SectionFileWriter, SectionId,
};
use super::flat::{FlatIndex, FlatView};
use super::graph::verify::{self, GraphReport, VerifyGraphError};
use super::graph::{BuildGraphError, Graph, GraphOptions, GraphView};
use super::transform::{FINE_CODES, PREFIX_CODES};
use super::{Pool, Progress, Row, VectorMatrix};
use sections::{FLAT_BUILDER, GRAPH_BUILDER};

mod sections;

pub use sections::PREFIX_TRANSFORM;

#[cfg(test)]
mod tests;

/// Parameters of the flat index, and of the graph where there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Parameters {
    graph: Option<GraphOptions>,
}

const FLAT_WORDS: [u32; 3] = [FLAT_BUILDER, PREFIX_CODES as u32, FINE_CODES as u32];

impl Parameters {
    fn to_bytes(self) -> Vec<u8> {
        let mut words = FLAT_WORDS.to_vec();
        if let Some(GraphOptions { degree, candidates, probes }) = self.graph {
            // Each is at most 1,024.
            words.extend([GRAPH_BUILDER, degree as u32, candidates as u32, probes as u32]);
        }
        words.into_iter().flat_map(u32::to_le_bytes).collect()
    }

    /// Reads them back; `None`: of something else, or of another version.
    fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let (words, []) = bytes.as_chunks::<4>() else { return None };
        let words: Vec<u32> = words.iter().map(|word| u32::from_le_bytes(*word)).collect();
        let graph = match words.strip_prefix(&FLAT_WORDS)? {
            [] => None,
            [GRAPH_BUILDER, degree, candidates, probes] => {
                let [degree, candidates, probes] =
                    [degree, candidates, probes].map(|&n| n as usize);
                Some(GraphOptions { degree, candidates, probes }.validated()?)
            }
            _ => return None,
        };
        Some(Self { graph })
    }
}

/// The section of [`TextKeys`].
pub const TEXT_KEYS: SectionId = SectionId::new(8);

/// Rows by the hashes of their texts, sorted: 32 bits of hash above 32 bits of row.
///
/// Half a hash proposes only: among a million rows, a text that is not there meets another's half once in 4,000 times. Whoever
/// asks compares the texts.
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
    /// Returns what is stored for rows with these hashes, of whose bits the upper ones count.
    #[must_use]
    pub fn sorted(hashed: impl IntoIterator<Item = (u64, Row)>) -> Vec<u64> {
        let mut keys: Vec<u64> =
            hashed.into_iter().map(|(hash, row)| hash & HASH | u64::from(row.0)).collect();
        keys.sort_unstable();
        keys
    }

    /// Takes what [`sorted`](Self::sorted) returned; other numbers give wrong rows and nothing worse.
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

/// What an `index.mfi` holds, borrowed.
#[derive(Debug, Clone)]
pub struct IndexView<'a> {
    /// What scans read.
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
    /// The parameters are those of something else.
    #[error("{found} bytes of parameters that are not those of this version")]
    Parameters {
        /// Bytes found.
        found: usize,
    },
}

impl OpenIndexFileError {
    /// Returns what to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Section(error) => error.hint(),
            _ => Some(REBUILD.into()),
        }
    }
}

impl<'a> IndexView<'a> {
    /// Takes what a mapped file holds, in constant time.
    ///
    /// # Errors
    /// When a section is missing or has another length than the others ask for, or another version wrote it.
    pub fn open(file: &'a SectionFile) -> Result<Self, OpenIndexFileError> {
        let head = file.head();
        let Some(Parameters { graph: graph_options }) = Parameters::from_bytes(&head.parameters)
        else {
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
#[derive(Debug, Clone)]
pub struct IndexBuild {
    flat: FlatIndex,
    graph: Option<Graph>,
}

/// What became of the graph.
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
    /// Memory: 204 bytes for each row, and with a graph what [`Graph::build`] takes.
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

    /// Returns the flat index.
    #[must_use]
    pub const fn flat(&self) -> &FlatIndex {
        &self.flat
    }

    /// Returns the graph, where there is one.
    #[must_use]
    pub const fn graph(&self) -> Option<&Graph> {
        self.graph.as_ref()
    }

    /// Writes a whole `index.mfi`; `text_keys` is what [`TextKeys::sorted`](TextKeys::sorted) returned.
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
        let parameters = Parameters { graph: self.graph.as_ref().map(Graph::options) };
        // Rows, nodes and dimensions are numbered with 32 bits.
        let head = FileHead {
            kind: FileKind::Index,
            row_count: rows.len() as u32,
            node_count: nodes as u32,
            dim: rows.dim() as u32,
            store_identity,
            parameters: parameters.to_bytes(),
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

#[cfg(test)]
mod parameter_tests {
    use super::*;

    #[test]
    fn parameters_come_back() {
        for graph in [None, Some(GraphOptions::default())] {
            let parameters = Parameters { graph };
            let bytes = parameters.to_bytes();
            assert_eq!(Parameters::from_bytes(&bytes), Some(parameters));
            assert_eq!(Parameters::from_bytes(&bytes[1..]), None);
            assert_eq!(Parameters::from_bytes(&[&bytes[..], &[0; 4]].concat()), None);
        }
        let mut other = Parameters { graph: None }.to_bytes();
        other[0] += 1;
        assert_eq!(Parameters::from_bytes(&other), None, "another version of the builder");
    }
}
