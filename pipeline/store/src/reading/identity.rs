//! Which store it is, where the store itself holds no name.

use super::Cell;

/// The oldest row, by the bytes of its creation time and id: it outlives edits of texts, new rows,
/// added columns, VACUUM and a backup's import, and it is the same in whatever order rows come.
#[derive(Debug, Default)]
pub(crate) struct OldestRow {
    key: Option<(Vec<u8>, Vec<u8>)>,
}

impl OldestRow {
    pub(crate) fn consider(&mut self, created_at: Cell<'_>, id: Cell<'_>) {
        let (Cell::Text(created_at), Cell::Text(id)) = (created_at, id) else { return };
        let older = self
            .key
            .as_ref()
            .is_none_or(|(time, known)| (created_at, id) < (time.as_slice(), known.as_slice()));
        if older {
            self.key = Some((created_at.to_vec(), id.to_vec()));
        }
    }

    /// Returns `store_` and 32 hex digits.
    pub(crate) fn store_id(&self) -> Box<str> {
        let mut hasher = blake3::Hasher::new();
        hasher.update(b"memfold store 1");
        if let Some((created_at, id)) = &self.key {
            hasher.update(&(created_at.len() as u64).to_le_bytes());
            hasher.update(created_at);
            hasher.update(id);
        }
        format!("store_{}", &hasher.finalize().to_hex()[..32]).into()
    }
}
