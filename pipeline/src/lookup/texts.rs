//! [`TextRows`]: which rows may hold a text, of those that an index knows by their text alone.
//!
//! | section | numbers |
//! |---|---|
//! | text keys | as in `index.mfi`; a row is a place among the ids |
//! | text ids | u8: ids, one behind the other |
//! | text id ends | u64: where each of them ends |

use std::io::{Seek, Write};

use memfold_index::Row;
use memfold_index::file::{
    FileHead, FileKind, SectionFile, SectionFileWriter, SectionId, WriteSectionFileError,
};
use memfold_index::index_file::{TEXT_KEYS, TextKeys};

use memfold_model::text::{loose_key, strict_key};

/// Ids of the rows, one behind the other.
const TEXT_IDS: SectionId = SectionId::new(16);
/// Where each of the ids ends.
const TEXT_ID_ENDS: SectionId = SectionId::new(17);

/// The file of a generation that holds them.
pub const TEXTS_FILE: &str = "texts.mft";

/// Rows known by their text alone, where they lie in a mapped file.
#[derive(Debug, Clone, Copy)]
pub(super) struct TextRows<'a> {
    keys: TextKeys<'a>,
    ids: &'a [u8],
    ends: &'a [u64],
}

/// Such rows, to be written.
#[derive(Debug, Default)]
pub(super) struct NewTextRows {
    hashes: Vec<u64>,
    ids: Vec<u8>,
    ends: Vec<u64>,
}

impl<'a> TextRows<'a> {
    /// Finds the sections; an error says what is wrong with the file.
    pub(super) fn open(file: &'a SectionFile) -> Result<Self, String> {
        let said = |error: &dyn std::error::Error| error.to_string();
        let keys = file.section(TEXT_KEYS).map_err(|error| said(&error))?;
        let ids: &[u8] = file.section(TEXT_IDS).map_err(|error| said(&error))?;
        let ends: &[u64] = file.section(TEXT_ID_ENDS).map_err(|error| said(&error))?;
        if keys.len() != ends.len() || ends.last().is_some_and(|&end| end != ids.len() as u64) {
            return Err("its text keys do not fit its text ids".to_owned());
        }
        Ok(Self { keys: TextKeys::new(keys), ids, ends })
    }

    pub(super) const fn len(&self) -> usize {
        self.ends.len()
    }

    /// Returns the ids of rows whose text may have this hash.
    pub(super) fn ids(&self, hash: u64) -> impl Iterator<Item = &'a str> + use<'a> {
        let rows = *self;
        self.keys.rows(hash).filter_map(move |row| rows.id(row.index()))
    }

    /// Returns the ids of all rows.
    pub(super) fn all_ids(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let rows = *self;
        (0..rows.len()).filter_map(move |row| rows.id(row))
    }

    fn id(&self, row: usize) -> Option<&'a str> {
        let Self { ids, ends, .. } = *self;
        let end = *ends.get(row)?;
        let start = row.checked_sub(1).map_or(0, |before| ends[before]);
        std::str::from_utf8(ids.get(start as usize..end as usize)?).ok()
    }
}

impl NewTextRows {
    pub(super) fn push(&mut self, id: &str, text: &str) {
        self.hashes.push(text_hash(text));
        self.ids.extend_from_slice(id.as_bytes());
        self.ends.push(self.ids.len() as u64);
    }

    pub(super) const fn len(&self) -> usize {
        self.ends.len()
    }

    /// Writes the sections.
    pub(super) fn write<W: Write + Seek>(
        &self,
        output: SectionFileWriter<W>,
    ) -> Result<SectionFileWriter<W>, WriteSectionFileError> {
        let rows = (0..).map(Row);
        let keys = TextKeys::sorted(self.hashes.iter().copied().zip(rows));
        output
            .section(TEXT_KEYS, &keys)?
            .section(TEXT_IDS, &self.ids)?
            .section(TEXT_ID_ENDS, &self.ends)
    }

    /// Writes a file of its own beside an index.
    pub(super) fn write_file<W: Write + Seek>(
        &self,
        output: W,
        (dim, store_identity): (u32, [u8; 32]),
    ) -> Result<W, WriteSectionFileError> {
        // A store has fewer rows than 2^32.
        let rows = self.len() as u32;
        let head = FileHead {
            kind: FileKind::Texts,
            row_count: rows,
            node_count: rows,
            dim,
            store_identity,
            parameters: Vec::new(),
        };
        self.write(SectionFileWriter::new(output, head)?)?.finish()
    }
}

/// Returns the hash under which texts of one loose key meet (of one strict key, where nothing else is left of them).
pub(crate) fn text_hash(text: &str) -> u64 {
    let key = loose_key(text).unwrap_or_else(|| strict_key(text));
    let hash = blake3::hash(key.as_bytes());
    let (first, _) = hash.as_bytes().as_chunks::<8>();
    u64::from_le_bytes(first[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_are_found_by_loose_key() {
        let mut rows = NewTextRows::default();
        for (id, text) in [("a", "Port 8080."), ("", "?!"), ("ü", "port  8080"), ("d", "port 9090")]
        {
            rows.push(id, text);
        }
        let file = tempfile::NamedTempFile::new().unwrap();
        rows.write_file(file.reopen().unwrap(), (4, [7; 32])).unwrap();
        let file = SectionFile::open(file.path(), FileKind::Texts).unwrap();
        let found = TextRows::open(&file).unwrap();
        let ids = |text| found.ids(text_hash(text)).collect::<Vec<_>>();
        assert_eq!((found.len(), ids("PORT 8080")), (4, vec!["a", "ü"]));
        assert_eq!((ids(" ?! "), ids("! ?")), (vec![""], vec![]));
        assert_eq!((ids("port 9090"), ids("port")), (vec!["d"], vec![]));
    }
}
