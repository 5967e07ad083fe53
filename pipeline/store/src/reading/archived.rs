//! Rows that were moved out of a store's tables, as those tables held them.

use super::{Cell, RawEmbedding, RawMemory};
use crate::journal::{RowImage, StoredValue};

impl<'a> From<&'a StoredValue> for Cell<'a> {
    fn from(value: &'a StoredValue) -> Self {
        match value {
            StoredValue::Null => Cell::Null,
            StoredValue::Integer(value) => Cell::Integer(*value),
            StoredValue::Real(value) => Cell::Real(*value),
            StoredValue::Text(bytes) => Cell::Text(bytes),
            StoredValue::Blob(bytes) => Cell::Blob(bytes),
        }
    }
}

impl<'a> From<&'a RowImage> for RawMemory<'a> {
    fn from(row: &'a RowImage) -> Self {
        let cell = |column| cell(row, column);
        Self {
            id: cell("id"),
            content: cell("content"),
            categories: cell("categories"),
            importance: cell("importance"),
            access_count: cell("access_count"),
            created_at: cell("created_at"),
            expires_at: cell("expires_at"),
            source: cell("source"),
            archived_by: cell("archived_by"),
        }
    }
}

impl<'a> From<&'a RowImage> for RawEmbedding<'a> {
    fn from(row: &'a RowImage) -> Self {
        let cell = |column| cell(row, column);
        Self {
            source_id: cell("source_id"),
            content: cell("content"),
            embedding: cell("embedding"),
            model: cell("model"),
        }
    }
}

fn cell<'a>(row: &'a RowImage, column: &str) -> Cell<'a> {
    row.get(column).map_or(Cell::Null, Cell::from)
}
