//! Reading embeddings and nothing else: what a store alone takes.

use rusqlite::Connection;

use super::BrainDb;
use crate::LoadStoreError;

/// Embeddings that were read and dropped.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ReadBlobs {
    /// Rows read.
    pub rows: u64,
    /// Bytes of their vectors as stored.
    pub bytes: u64,
}

impl BrainDb {
    /// Reads the vectors of all memories in the order of the table and drops them: the time that an export cannot
    /// undercut.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn read_blobs(&self) -> Result<ReadBlobs, LoadStoreError> {
        self.consult("embeddings", read_blobs)
    }
}

fn read_blobs(connection: &Connection) -> rusqlite::Result<ReadBlobs> {
    let sql = "SELECT embedding FROM embeddings NOT INDEXED WHERE source_type = 'stm'";
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    let mut read = ReadBlobs::default();
    while let Some(row) = rows.next()? {
        read.rows += 1;
        // What is no blob has no bytes to read.
        let bytes = row.get_ref(0)?.as_bytes_or_null().ok().flatten();
        read.bytes += bytes.map_or(0, |bytes| bytes.len() as u64);
    }
    Ok(read)
}
