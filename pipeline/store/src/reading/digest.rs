//! The base digest: what a plan rests on, column by column as stored.

use super::{Cell, RawMemory};
use memfold_model::memory::BaseDigest;

/// Hashes the columns of a row that a plan rests on; [`with_embedding`] completes the digest.
pub(super) fn of_columns(raw: &RawMemory<'_>) -> BaseDigest {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"memfold base columns 1");
    for cell in [
        raw.id,
        raw.content,
        raw.categories,
        raw.importance,
        raw.created_at,
        raw.expires_at,
        raw.source,
        raw.archived_by,
    ] {
        update(&mut hasher, cell);
    }
    BaseDigest(*hasher.finalize().as_bytes())
}

/// Completes the digest of a row with its embedding as stored, NULL where there is none.
pub(super) fn with_embedding(columns: BaseDigest, embedding: Cell<'_>) -> BaseDigest {
    let mut hasher = blake3::Hasher::new();
    hasher.update(b"memfold base row 1");
    hasher.update(&columns.0);
    update(&mut hasher, embedding);
    BaseDigest(*hasher.finalize().as_bytes())
}

/// Adds type tag, length and value, so that no two sequences of cells look the same.
fn update(hasher: &mut blake3::Hasher, cell: Cell<'_>) {
    let number;
    let (tag, bytes): (u8, &[u8]) = match cell {
        Cell::Null => (0, &[]),
        Cell::Integer(value) => {
            number = value.to_le_bytes();
            (1, &number)
        }
        Cell::Real(value) => {
            number = value.to_bits().to_le_bytes();
            (2, &number)
        }
        Cell::Text(bytes) => (3, bytes),
        Cell::Blob(bytes) => (4, bytes),
    };
    let mut head = [tag; 9];
    head[1..].copy_from_slice(&(bytes.len() as u64).to_le_bytes());
    hasher.update(&head);
    hasher.update(bytes);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(id: &'static [u8], content: Cell<'static>, embedding: Cell<'_>) -> BaseDigest {
        let raw = RawMemory { id: Cell::Text(id), content, ..RawMemory::default() };
        with_embedding(of_columns(&raw), embedding)
    }

    #[test]
    fn every_stored_difference_shows() {
        let digests = [
            digest(b"a", Cell::Text(b"bc"), Cell::Null),
            digest(b"ab", Cell::Text(b"c"), Cell::Null),
            digest(b"a", Cell::Blob(b"bc"), Cell::Null),
            digest(b"a", Cell::Text(b"bc"), Cell::Blob(&[])),
            digest(b"a", Cell::Text(b"bc"), Cell::Blob(&[0])),
            digest(b"a", Cell::Integer(1), Cell::Null),
            digest(b"a", Cell::Real(1.0), Cell::Null),
            digest(b"a", Cell::Text(b"1"), Cell::Null),
        ];
        let distinct: std::collections::BTreeSet<_> = digests.iter().collect();
        assert_eq!(distinct.len(), digests.len());
        assert_eq!(digests[0], digest(b"a", Cell::Text(b"bc"), Cell::Null));
    }

    #[test]
    fn counters_do_not_show() {
        let read = RawMemory { access_count: Cell::Integer(7), ..RawMemory::default() };
        assert_eq!(of_columns(&read), of_columns(&RawMemory::default()));
    }
}
