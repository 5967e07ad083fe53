//! [`LiveReader`]: rows understood one by one, without the others.

use std::io;

use super::embeddings::understand;
use super::facts::{self, RowFacts};
use super::{Cell, ModelShapes, RawEmbedding, RawRow, ShapeSurvey};
use crate::{LiveRow, LiveVisitor, LoadRequest};
use memfold_model::memory::Standing;

/// Shows a visitor the live ones among rows, and looks over their embeddings.
pub(crate) struct LiveReader<'a> {
    request: &'a LoadRequest<'a>,
    shapes: &'a ModelShapes,
    survey: ShapeSurvey,
    embeddings: u64,
    vector: Vec<f32>,
}

impl<'a> LiveReader<'a> {
    /// Begins; `shapes` say how the models write their vectors.
    pub(crate) fn new(request: &'a LoadRequest<'a>, shapes: &'a ModelShapes) -> Self {
        Self { request, shapes, survey: ShapeSurvey::default(), embeddings: 0, vector: Vec::new() }
    }

    /// Takes a row.
    pub(crate) fn take(
        &mut self,
        RawRow { rowid, memory, embedding }: &RawRow<'_>,
        visitor: &mut dyn LiveVisitor,
    ) -> io::Result<()> {
        if let Some(embedding) = embedding {
            self.look_at(embedding);
        }
        let Ok(texts) = facts::texts(memory) else { return Ok(()) };
        let facts = facts::facts(memory, &texts, self.request.time_zone, self.request.now);
        let RowFacts { categories, importance, access_count, root_source, standing, .. } = facts;
        if standing != Standing::Live {
            return Ok(());
        }
        let row = LiveRow {
            rowid: *rowid,
            id: &texts.id,
            content: &texts.content,
            categories: &categories,
            importance,
            access_count,
            created_at: memory.created_at.instant(self.request.time_zone),
            source: &texts.source,
            root_source: &root_source,
        };
        let model = embedding.as_ref().and_then(|embedding| {
            understand(embedding, &texts.content, self.shapes, &mut self.vector).ok()
        });
        visitor.visit(&row, model.as_deref().map(|model| (model, &*self.vector)))
    }

    /// Returns how many embeddings were taken and what they look like.
    pub(crate) fn finish(self) -> (u64, ShapeSurvey) {
        (self.embeddings, self.survey)
    }

    fn look_at(&mut self, embedding: &RawEmbedding<'_>) {
        let named = embedding.model.text().ok().flatten();
        let blob = if let Cell::Blob(bytes) = embedding.embedding { Some(bytes) } else { None };
        self.survey.add(named.as_deref(), blob.map(<[u8]>::len));
        self.embeddings += 1;
    }
}
