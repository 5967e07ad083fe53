//! [`Tiers`]: built in memory.

use std::io::{Seek, Write};

use memfold_simd::Kernels;

use super::TEXT_KEYS;
use super::parameters::Parameters;
use crate::graph::gate::{self, GateError, GateReport};
use crate::graph::{BuildGraphError, Graph, GraphOptions};
use crate::slab::{PREFIX_TRANSFORM, PrefixSlab};
use crate::snapshot::{FileHead, FileKind, SectionFileWriter, WriteSectionFileError};
use crate::{Pool, Progress, ScanError, VectorMatrix};

/// A slab of some rows, and their graph where one was asked for.
#[derive(Debug, Clone)]
pub struct Tiers {
    slab: PrefixSlab,
    graph: Option<Graph>,
}

/// Why there are no tiers.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BuildTiersError {
    /// A row has no direction.
    #[error(transparent)]
    Row(#[from] ScanError),
    /// The graph could not be built.
    #[error(transparent)]
    Graph(#[from] BuildGraphError),
    /// The caller asked to stop.
    #[error("interrupted")]
    Cancelled,
}

/// What became of the graph.
#[derive(Debug, Clone, PartialEq)]
pub enum GraphOutcome {
    /// None was asked for.
    NotAsked,
    /// It finds its own rows.
    Kept(GateReport),
    /// It does not, so it was thrown away: scans answer.
    Refused(GateError),
}

impl Tiers {
    /// Builds them, and looks up 10,000 rows in the graph: one that cannot find its own rows is not kept.
    ///
    /// Memory: 204 bytes for each row, and with a graph what [`Graph::build`] takes.
    ///
    /// # Errors
    /// When a row has no direction, the graph cannot be built, or the caller asked to stop.
    pub fn build(
        matrix: &VectorMatrix<'_>,
        graph: Option<GraphOptions>,
        (pool, kernels): (&Pool, &'static Kernels),
        progress: &dyn Progress,
    ) -> Result<(Self, GraphOutcome), BuildTiersError> {
        progress.begin("encode vectors", None);
        let slab = PrefixSlab::build(matrix, pool, kernels)?;
        progress.end();
        let Some(options) = graph else {
            return Ok((Self { slab, graph: None }, GraphOutcome::NotAsked));
        };
        let graph = Graph::build(matrix, options, pool, kernels, progress)?;
        let lookups = gate::SAMPLED_LOOKUPS;
        let tools = (pool, kernels);
        match gate::check(&graph.view(), matrix, lookups, tools, progress) {
            Ok(report) => Ok((Self { slab, graph: Some(graph) }, GraphOutcome::Kept(report))),
            Err(GateError::Cancelled) => Err(BuildTiersError::Cancelled),
            Err(refused) => Ok((Self { slab, graph: None }, GraphOutcome::Refused(refused))),
        }
    }

    /// Returns the slab.
    #[must_use]
    pub const fn slab(&self) -> &PrefixSlab {
        &self.slab
    }

    /// Returns the graph, where there is one.
    #[must_use]
    pub const fn graph(&self) -> Option<&Graph> {
        self.graph.as_ref()
    }

    /// Writes a whole `index.mfi`; `text_keys` is what [`TextKeys::sorted`](super::TextKeys::sorted) returned.
    ///
    /// # Errors
    /// When the output fails.
    pub fn write<W: Write + Seek>(
        &self,
        output: W,
        store_identity: [u8; 32],
        text_keys: &[u64],
    ) -> Result<W, WriteSectionFileError> {
        let rows = self.slab.view();
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
            .section(PREFIX_TRANSFORM, self.slab.transform())?;
        writer = self.slab.write_rows(writer)?;
        if let Some(graph) = &self.graph {
            writer = graph.write_sections(writer)?;
        }
        writer.section(TEXT_KEYS, text_keys)?.finish()
    }
}
