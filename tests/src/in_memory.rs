//! [`InMemoryStore`]: plain rows, read as any other store's; the model that others are tested against.

use memfold_core::Snapshot;
use memfold_core::row::categories_to_json;
use memfold_core::value::ValueRef;
use memfold_store::reading::read_rows;
use memfold_store::{LoadRequest, MemoryStore, StoreError, VectorSink};

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
    /// Its archive mark.
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
    ) -> Result<Snapshot, StoreError> {
        let categories: Vec<String> =
            self.rows.iter().map(|row| categories_to_json(&row.categories)).collect();
        let memories: Vec<_> =
            self.rows.iter().zip(&categories).map(|(row, json)| memory_cells(row, json)).collect();
        let embedded = || self.rows.iter().filter_map(|row| Some((row, row.embedding.as_ref()?)));
        let bytes: Vec<Vec<u8>> = embedded()
            .map(|(_, embedding)| embedding.vector.iter().flat_map(|v| v.to_le_bytes()).collect())
            .collect();
        let embeddings: Vec<_> = embedded()
            .zip(&bytes)
            .map(|((row, embedding), bytes)| {
                [
                    ValueRef::Text(row.id.as_bytes()),
                    optional(embedding.content.as_deref()),
                    ValueRef::Blob(bytes),
                    optional(embedding.model.as_deref()),
                ]
            })
            .collect();
        read_rows(request, &memories, &embeddings, sink)
    }
}

fn memory_cells<'a>(row: &'a PlainMemory, categories: &'a str) -> [ValueRef<'a>; 10] {
    [
        ValueRef::Text(row.id.as_bytes()),
        ValueRef::Text(row.content.as_bytes()),
        ValueRef::Text(categories.as_bytes()),
        ValueRef::Real(row.importance),
        ValueRef::Integer(row.access_count),
        ValueRef::Text(row.created_at.as_bytes()),
        optional(row.expires_at.as_deref()),
        ValueRef::Text(row.source.as_bytes()),
        optional(row.archived_by.as_deref()),
        ValueRef::Null,
    ]
}

fn optional(text: Option<&str>) -> ValueRef<'_> {
    text.map_or(ValueRef::Null, |text| ValueRef::Text(text.as_bytes()))
}
