//! [`TierViews`]: tiers where they lie in a mapped file.

use super::parameters::Parameters;
use super::{TEXT_KEYS, TextKeys};
use crate::graph::{DamagedGraph, GraphOptions, GraphView};
use crate::slab::{DamagedSlab, PREFIX_TRANSFORM, SlabView};
use crate::snapshot::sections::REBUILD;
use crate::snapshot::{SectionError, SectionFile};
use crate::transform::DamagedTransform;

/// What an `index.mfi` holds, borrowed.
#[derive(Debug, Clone)]
pub struct TierViews<'a> {
    /// What scans read.
    pub slab: SlabView<'a>,
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
pub enum OpenTiersError {
    /// A section is missing or of another kind.
    #[error(transparent)]
    Section(#[from] SectionError),
    /// Sections of the slab do not fit each other.
    #[error("the sections of the slab do not fit each other: {0}")]
    Slab(#[from] DamagedSlab),
    /// Sections of the graph do not fit each other.
    #[error("the sections of the graph do not fit each other: {0}")]
    Graph(#[from] DamagedGraph),
    /// The parameters are those of something else.
    #[error("{found} bytes of parameters that are not those of this version")]
    Parameters {
        /// Bytes found.
        found: usize,
    },
}

impl From<DamagedTransform> for OpenTiersError {
    fn from(error: DamagedTransform) -> Self {
        Self::Slab(error.into())
    }
}

impl OpenTiersError {
    /// Returns what to do about it.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        match self {
            Self::Section(error) => error.hint(),
            _ => Some(REBUILD.into()),
        }
    }
}

impl<'a> TierViews<'a> {
    /// Takes what a mapped file holds, in constant time.
    ///
    /// # Errors
    /// When a section is missing or has another length than the others ask for, or another version wrote it.
    pub fn open(file: &'a SectionFile) -> Result<Self, OpenTiersError> {
        let head = file.head();
        let Some(Parameters { graph: graph_options }) = Parameters::from_bytes(&head.parameters)
        else {
            return Err(OpenTiersError::Parameters { found: head.parameters.len() });
        };
        let transform = file.section(PREFIX_TRANSFORM)?;
        let slab = SlabView::open_rows(file, transform)?;
        let graph = graph_options
            .map(|options| GraphView::from_sections(file, options.degree))
            .transpose()?;
        let text_keys = TextKeys::new(file.section(TEXT_KEYS)?);
        Ok(Self { slab, graph, graph_options, text_keys })
    }
}
