//! [`PackedRows`]: rows copied out of a database, for another thread to understand.

use super::{Cell, MEMORY_CELLS, RawEmbedding, RawMemory};

/// Bytes of cells after which a pack is full: enough to be worth waking a thread for, few enough to be found in a cache.
const PACK_BYTES: usize = 1 << 20;

/// Rows of a memory table, each with its embedding, in memory that is used again.
#[derive(Debug, Default)]
pub(crate) struct PackedRows {
    rows: Vec<PackedRow>,
    /// Each row's own, then its embedding's.
    cells: Vec<PackedCell>,
    /// Texts and blobs, end to end.
    bytes: Vec<u8>,
}

#[derive(Debug, Clone, Copy)]
struct PackedRow {
    rowid: i64,
    first_cell: usize,
    has_embedding: bool,
}

#[derive(Debug, Clone, Copy)]
enum PackedCell {
    Null,
    Integer(i64),
    Real(f64),
    Text { start: usize, end: usize },
    Blob { start: usize, end: usize },
}

/// A row of the memory table, with its embedding.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawRow<'a> {
    pub(crate) rowid: i64,
    pub(crate) memory: RawMemory<'a>,
    pub(crate) embedding: Option<RawEmbedding<'a>>,
}

impl PackedRows {
    /// Begins a row, whose cells follow: those of [`RawMemory`], then those of [`RawEmbedding`] where it has one.
    pub(crate) fn begin(&mut self, rowid: i64, has_embedding: bool) {
        self.rows.push(PackedRow { rowid, first_cell: self.cells.len(), has_embedding });
    }

    /// Copies a cell.
    pub(crate) fn push(&mut self, cell: Cell<'_>) {
        let start = self.bytes.len();
        let mut copy = |bytes: &[u8]| {
            self.bytes.extend_from_slice(bytes);
            start + bytes.len()
        };
        let packed = match cell {
            Cell::Null => PackedCell::Null,
            Cell::Integer(value) => PackedCell::Integer(value),
            Cell::Real(value) => PackedCell::Real(value),
            Cell::Text(bytes) => PackedCell::Text { start, end: copy(bytes) },
            Cell::Blob(bytes) => PackedCell::Blob { start, end: copy(bytes) },
        };
        self.cells.push(packed);
    }

    pub(crate) const fn is_full(&self) -> bool {
        self.bytes.len() >= PACK_BYTES
    }

    /// Forgets the rows and keeps their memory.
    pub(crate) fn clear(&mut self) {
        self.rows.clear();
        self.cells.clear();
        self.bytes.clear();
    }

    /// Returns the rows in the order in which they came.
    pub(crate) fn iter(&self) -> impl Iterator<Item = RawRow<'_>> {
        self.rows.iter().map(|row| RawRow {
            rowid: row.rowid,
            memory: RawMemory::of_cells(self.cells(row.first_cell)),
            embedding: row
                .has_embedding
                .then(|| RawEmbedding::of_cells(self.cells(row.first_cell + MEMORY_CELLS))),
        })
    }

    fn cells<const N: usize>(&self, first: usize) -> [Cell<'_>; N] {
        std::array::from_fn(|at| match self.cells[first + at] {
            PackedCell::Null => Cell::Null,
            PackedCell::Integer(value) => Cell::Integer(value),
            PackedCell::Real(value) => Cell::Real(value),
            PackedCell::Text { start, end } => Cell::Text(&self.bytes[start..end]),
            PackedCell::Blob { start, end } => Cell::Blob(&self.bytes[start..end]),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::EMBEDDING_CELLS;
    use super::*;

    type Row = (i64, [Cell<'static>; MEMORY_CELLS], Option<[Cell<'static>; EMBEDDING_CELLS]>);

    fn pack(packed: &mut PackedRows, (rowid, memory, embedding): &Row) {
        packed.begin(*rowid, embedding.is_some());
        memory.iter().chain(embedding.iter().flatten()).for_each(|cell| packed.push(*cell));
    }

    #[test]
    fn rows_come_out_as_they_went_in() {
        let mut memory = [Cell::Text(b"one"); MEMORY_CELLS];
        (memory[1], memory[3], memory[8]) = (Cell::Text(b"\xff"), Cell::Real(0.5), Cell::Null);
        let embedding =
            [Cell::Integer(-7), Cell::Text(b""), Cell::Blob(&[1, 2]), Cell::Text(b"model")];
        let rows: [Row; 4] = [
            (7, memory, Some(embedding)),
            (-1, [Cell::Null; MEMORY_CELLS], None),
            (0, [Cell::Blob(b"same"); MEMORY_CELLS], Some([Cell::Null; EMBEDDING_CELLS])),
            (i64::MAX, memory, None),
        ];
        let mut packed = PackedRows::default();
        for _ in 0..2 {
            rows.iter().for_each(|row| pack(&mut packed, row));
            let found: Vec<_> = packed.iter().collect();
            assert_eq!(found.len(), rows.len());
            for (found, (rowid, memory, embedding)) in found.into_iter().zip(&rows) {
                assert_eq!(found.rowid, *rowid);
                let RawMemory { id, content, importance, archived_by, .. } = found.memory;
                let known = [memory[0], memory[1], memory[3], memory[8]];
                assert_eq!([id, content, importance, archived_by], known);
                let known = embedding.map(|[source_id, content, embedding, model]| RawEmbedding {
                    source_id,
                    content,
                    embedding,
                    model,
                });
                assert_eq!(format!("{:?}", found.embedding), format!("{known:?}"));
            }
            packed.clear();
        }
        assert_eq!(packed.iter().count(), 0);
    }

    #[test]
    fn packs_are_full_by_bytes() {
        const CONTENT: &[u8] = &[b'x'; PACK_BYTES / 4];
        let mut memory = [Cell::Null; MEMORY_CELLS];
        memory[1] = Cell::Text(CONTENT);
        let mut packed = PackedRows::default();
        let pushed = (1..).find(|&rowid| {
            pack(&mut packed, &(rowid, memory, None));
            packed.is_full()
        });
        assert_eq!(pushed, Some(4));
    }
}
