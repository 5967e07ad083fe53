//! [`IndexFiles`]: the mapped files of a generation, built from a store or a file.

use std::io::{Seek, Write};
use std::sync::Arc;

use memfold_core::memory::VectorSpace;
use memfold_datasets::{DataError, MappedColumns};
use memfold_guard::text::{loose_key, strict_key};
use memfold_index::file::generations::{COLUMNS_FILE, INDEX_FILE};
use memfold_index::file::{
    FileHead, FileKind, Generation, SectionFile, SectionFileError, SectionFileWriter, SectionId,
};
use memfold_index::index_file::{IndexView, TEXT_KEYS, TextKeys};
use memfold_index::{Mapped, Row};
use memfold_store::brain_db::Marks;
use memfold_store::reading::ModelShapes;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::IndexError;
use super::search::IdleSearches;
use crate::export::Exported;

/// Which tier answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IndexTier {
    /// The flat index: exact.
    Scan,
    /// The graph: nearly all.
    Graph,
}

impl IndexTier {
    /// Returns its name.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Scan => "scan",
            Self::Graph => "graph",
        }
    }
}

/// Mapped files of one generation.
#[derive(Debug, Clone)]
pub struct IndexFiles {
    generation: Generation,
    tiers: SectionFile,
    columns: MappedColumns,
    tier: IndexTier,
    idle: Arc<IdleSearches>,
}

impl IndexFiles {
    /// Opens the files of a generation, and reads its origin; `dim_of` returns the origin's
    /// dimension.
    pub(super) fn open<T>(
        generation: Generation,
        read_origin: impl FnOnce(&[u8]) -> Result<T, String>,
        dim_of: impl FnOnce(&T) -> u32,
    ) -> Result<(Self, T), IndexError> {
        let bytes = mapped(&generation, ORIGIN_FILE)?;
        let path = generation.folder().join(ORIGIN_FILE);
        let origin = read_origin(bytes).map_err(|reason| IndexError::Origin { path, reason })?;
        let bytes = mapped(&generation, COLUMNS_FILE)?.clone();
        let columns = MappedColumns::from_mapped(bytes, &generation.folder().join(COLUMNS_FILE))?;
        let tiers = generation.index()?;
        let opened = |source| IndexError::IndexFile { path: tiers.path().into(), source };
        let tier = match IndexView::open(&tiers).map_err(opened)?.graph {
            Some(_) => IndexTier::Graph,
            None => IndexTier::Scan,
        };
        let files = Self { generation, tiers, columns, tier, idle: Arc::default() };
        files.check(dim_of(&origin))?;
        Ok((files, origin))
    }

    /// Returns a file of the generation.
    pub(super) fn mapped(&self, name: &'static str) -> Result<&Mapped, IndexError> {
        mapped(&self.generation, name)
    }

    /// Compares rows and dimensions of the parts.
    fn check(&self, origin_dim: u32) -> Result<(), IndexError> {
        let shape = |rows: usize, dim: usize| format!("{rows} rows of dimension {dim}");
        let (columns, head) = (&self.columns, self.tiers.head());
        let found = shape(head.row_count as usize, head.dim as usize);
        let expected = shape(columns.len(), columns.dim());
        let mismatch =
            |what| Err(IndexError::Mismatch { path: self.generation.folder().into(), what });
        if found != expected {
            return mismatch(format!("{INDEX_FILE} has {found}, {COLUMNS_FILE} {expected}"));
        }
        if columns.dim() != origin_dim as usize {
            return mismatch(format!(
                "{ORIGIN_FILE} has dimension {origin_dim}, {COLUMNS_FILE} {expected}"
            ));
        }
        Ok(())
    }

    /// Finds the first row of an id, or the place where it would stand: rows are in the order of their ids.
    pub(super) fn first_row(&self, id: &str) -> Result<Row, DataError> {
        let (mut low, mut high) = (0, self.columns.len() as u32);
        while low < high {
            let middle = u32::midpoint(low, high);
            match self.columns.id_at(Row(middle))? < id {
                true => low = middle + 1,
                false => high = middle,
            }
        }
        Ok(Row(low))
    }

    /// Finds the row of an id.
    pub(super) fn row_of(&self, id: &str) -> Result<Option<Row>, DataError> {
        let row = self.first_row(id)?;
        let is_its = row.index() < self.columns.len() && self.columns.id_at(row)? == id;
        Ok(is_its.then_some(row))
    }

    /// Returns the generation.
    #[must_use]
    pub const fn generation(&self) -> &Generation {
        &self.generation
    }

    /// Returns the file of flat index and graph.
    #[must_use]
    pub const fn tiers(&self) -> &SectionFile {
        &self.tiers
    }

    /// Returns the memory of ended searches; clones share it.
    pub(super) fn idle(&self) -> &IdleSearches {
        &self.idle
    }

    /// Returns the rows with ids and vectors; in the index of a file `rowid` is a row's place in it.
    #[must_use]
    pub const fn columns(&self) -> &MappedColumns {
        &self.columns
    }

    /// Returns which tier answers lookups.
    #[must_use]
    pub const fn tier(&self) -> IndexTier {
        self.tier
    }
}

fn mapped<'g>(generation: &'g Generation, name: &'static str) -> Result<&'g Mapped, IndexError> {
    generation.file(name).ok_or_else(|| IndexError::NoFile {
        folder: generation.folder().into(),
        generation: generation.number(),
        name,
    })
}

/// The file of a generation that holds it, JSON.
pub const ORIGIN_FILE: &str = "origin.json";

/// The version of the file.
pub(super) const VERSION: u32 = 2;

/// The origin of a generation.
///
/// The index itself is a function of its memories; facts that depend on the history of the store
/// stand here.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Origin {
    version: u32,
    /// The embedding model.
    pub model: Box<str>,
    /// Components of each vector.
    pub dim: u32,
    /// The name that the store had been given, if any.
    pub store: Option<Box<str>>,
    /// Live memories that have no vector of this model.
    pub without_vector: u64,
    /// Where the store's tables ended.
    pub marks: Marks,
    /// How the store's models write their vectors.
    pub(crate) shapes: ModelShapes,
}

impl Origin {
    pub(crate) fn new(
        exported: &Exported,
        store: Option<Box<str>>,
        marks: Marks,
        shapes: ModelShapes,
    ) -> Self {
        let VectorSpace { model, dim } = exported.space.clone();
        let without_vector = exported.without_vector;
        Self { version: VERSION, model, dim, store, without_vector, marks, shapes }
    }

    /// Reads the file; an error describes the defect.
    pub(crate) fn from_json(bytes: &[u8]) -> Result<Self, String> {
        read_origin(bytes, "corpus", "a file of vectors, not of a store")
    }

    pub(crate) fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec_pretty(self).expect("maps with text keys can be written as JSON")
    }

    /// Returns model and dimension.
    #[must_use]
    pub fn space(&self) -> VectorSpace {
        VectorSpace { model: self.model.clone(), dim: self.dim }
    }
}

/// Reads an origin; one with the field `foreign` belongs to another kind of index, `kind`.
pub(super) fn read_origin<T: DeserializeOwned>(
    bytes: &[u8],
    foreign: &str,
    kind: &str,
) -> Result<T, String> {
    let origin: Value = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if origin.get(foreign).is_some() {
        return Err(format!("this is the index of {kind}"));
    }
    match &origin["version"] {
        version if *version == VERSION => {}
        version => return Err(format!("version {version}, expected {VERSION}")),
    }
    serde_json::from_value(origin).map_err(|error| error.to_string())
}

/// Ids of the rows, one behind the other.
const TEXT_IDS: SectionId = SectionId::new(16);
/// Where each of the ids ends.
const TEXT_ID_ENDS: SectionId = SectionId::new(17);

/// The file of a generation that holds them.
pub(crate) const TEXTS_FILE: &str = "texts.mft";

/// Rows known by their text alone, where they lie in a mapped file.
#[derive(Debug, Clone, Copy)]
pub(super) struct TextRows<'a> {
    keys: TextKeys<'a>,
    ids: &'a [u8],
    ends: &'a [u64],
}

/// Rows known by their text alone, to be written.
#[derive(Debug, Default)]
pub(super) struct NewTextRows {
    hashes: Vec<u64>,
    ids: Vec<u8>,
    ends: Vec<u64>,
}

impl<'a> TextRows<'a> {
    /// Finds the sections; an error describes the defect of the file.
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

    /// Returns the ids of rows that may have a text with this hash.
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
    ) -> Result<SectionFileWriter<W>, SectionFileError> {
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
        dim: u32,
        store_identity: [u8; 32],
    ) -> Result<W, SectionFileError> {
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
        rows.write_file(file.reopen().unwrap(), 4, [7; 32]).unwrap();
        let file = SectionFile::open(file.path(), FileKind::Texts).unwrap();
        let found = TextRows::open(&file).unwrap();
        let ids = |text| found.ids(text_hash(text)).collect::<Vec<_>>();
        assert_eq!((found.len(), ids("PORT 8080")), (4, vec!["a", "ü"]));
        assert_eq!((ids(" ?! "), ids("! ?")), (vec![""], vec![]));
        assert_eq!((ids("port 9090"), ids("port")), (vec!["d"], vec![]));
    }
}
