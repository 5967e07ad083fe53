//! [`InMemoryStore`]: plain rows, read as any other store's; the model that others are tested against.

use super::reading::{
    Cell, EmbeddingReader, MemoryReader, RawEmbedding, RawMemory, ShapeSurvey, categories_to_json,
};
use super::{LoadRequest, LoadStoreError, MemoryStore, Snapshot, VectorSink};

/// A store that is a list of rows.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct InMemoryStore {
    rows: Vec<PlainMemory>,
}

/// One row of an [`InMemoryStore`].
#[derive(Debug, Clone, PartialEq)]
pub struct PlainMemory {
    /// The id.
    pub id: String,
    /// The text.
    pub content: String,
    /// The categories.
    pub categories: Vec<String>,
    /// The importance.
    pub importance: f64,
    /// How often it was read.
    pub access_count: i64,
    /// When it was made, in any spelling.
    pub created_at: String,
    /// When it stops to count, in any spelling.
    pub expires_at: Option<String>,
    /// Where it came from.
    pub source: String,
    /// What archived it.
    pub archived_by: Option<String>,
    /// Its embedding.
    pub embedding: Option<PlainEmbedding>,
}

/// An embedding of a [`PlainMemory`].
#[derive(Debug, Clone, PartialEq)]
pub struct PlainEmbedding {
    /// The model, if known.
    pub model: Option<String>,
    /// The components.
    pub vector: Vec<f32>,
    /// The text it was made for, if recorded.
    pub content: Option<String>,
}

impl PlainMemory {
    /// Makes a routine memory without an embedding: category `general`, importance 1, source `agent`.
    #[must_use]
    pub fn new(
        id: impl Into<String>,
        content: impl Into<String>,
        created_at: impl Into<String>,
    ) -> Self {
        Self {
            id: id.into(),
            content: content.into(),
            categories: vec!["general".into()],
            importance: 1.0,
            access_count: 0,
            created_at: created_at.into(),
            expires_at: None,
            source: "agent".into(),
            archived_by: None,
            embedding: None,
        }
    }
}

impl InMemoryStore {
    /// Takes rows; of several with one id the first counts.
    #[must_use]
    pub fn new(rows: Vec<PlainMemory>) -> Self {
        Self { rows }
    }

    /// Returns the rows.
    #[must_use]
    pub fn rows(&self) -> &[PlainMemory] {
        &self.rows
    }
}

impl MemoryStore for InMemoryStore {
    fn load(
        &self,
        request: &LoadRequest<'_>,
        sink: &mut dyn VectorSink,
    ) -> Result<Snapshot, LoadStoreError> {
        let mut memories = MemoryReader::new(*request);
        for (position, row) in (1..).zip(&self.rows) {
            let categories = categories_to_json(&row.categories);
            memories.take(&raw_memory(row, &categories), position);
        }
        let read = memories.finish(Vec::new());
        let embedded = || self.rows.iter().filter_map(|row| Some((row, row.embedding.as_ref()?)));
        let mut survey = ShapeSurvey::default();
        for (_, embedding) in embedded() {
            survey.add(embedding.model.as_deref(), None);
        }
        // Plain vectors are never doubles: without lengths, no blob is taken for one.
        let shapes = survey.decide(|_, _| Ok::<_, LoadStoreError>(Vec::new()))?;
        let mut embeddings = EmbeddingReader::new(&read, &shapes);
        for (row, embedding) in embedded() {
            let bytes: Vec<u8> = embedding.vector.iter().flat_map(|v| v.to_le_bytes()).collect();
            let raw = RawEmbedding {
                source_id: Cell::Text(row.id.as_bytes()),
                content: optional(embedding.content.as_deref()),
                embedding: Cell::Blob(&bytes),
                model: optional(embedding.model.as_deref()),
            };
            embeddings.take(&raw, sink).map_err(LoadStoreError::Sink)?;
        }
        let found = embeddings.finish();
        Ok(found.into_snapshot(read, None, Vec::new()))
    }
}

fn raw_memory<'a>(row: &'a PlainMemory, categories: &'a str) -> RawMemory<'a> {
    RawMemory {
        id: Cell::Text(row.id.as_bytes()),
        content: Cell::Text(row.content.as_bytes()),
        categories: Cell::Text(categories.as_bytes()),
        importance: Cell::Real(row.importance),
        access_count: Cell::Integer(row.access_count),
        created_at: Cell::Text(row.created_at.as_bytes()),
        expires_at: optional(row.expires_at.as_deref()),
        source: Cell::Text(row.source.as_bytes()),
        archived_by: optional(row.archived_by.as_deref()),
    }
}

fn optional(text: Option<&str>) -> Cell<'_> {
    text.map_or(Cell::Null, |text| Cell::Text(text.as_bytes()))
}
