//! Single cells of a mapped file, without decoding the column they stand in.

use arrow_schema::{DataType, Field};
use memfold_index::Row;

use super::MappedColumns;
use super::OpenColumnsError;
use super::layout::PREFIX_BYTES;
use crate::schema::{BATCH_ROWS, Column};

impl MappedColumns {
    /// Returns one id, reading that one only.
    ///
    /// # Errors
    /// When the file holds bare vectors, or the cell is damaged or no UTF-8.
    ///
    /// # Panics
    /// When `row` is not smaller than the number of rows.
    pub fn id_at(&self, row: Row) -> Result<&str, OpenColumnsError> {
        let (buffers, at) = self.buffers(row, Column::Id)?;
        let damaged = || self.damaged(format!("row {}: its id", row.0));
        let offset = |at: usize| {
            let bytes: [u8; 4] = buffers[1].get(4 * at..)?.first_chunk().copied()?;
            usize::try_from(i32::from_le_bytes(bytes)).ok()
        };
        let (start, end) = offset(at).zip(offset(at + 1)).ok_or_else(damaged)?;
        let bytes = buffers[2].get(start..end).ok_or_else(damaged)?;
        std::str::from_utf8(bytes).map_err(|_| damaged())
    }

    /// Returns one of the store's row numbers, reading that one only.
    ///
    /// # Errors
    /// When the file holds bare vectors, or the cell is damaged.
    ///
    /// # Panics
    /// When `row` is not smaller than the number of rows.
    pub fn rowid_at(&self, row: Row) -> Result<i64, OpenColumnsError> {
        let (buffers, at) = self.buffers(row, Column::Rowid)?;
        let bytes = buffers[1].get(8 * at..).and_then(<[u8]>::first_chunk);
        let damaged = || self.damaged(format!("row {}: its rowid", row.0));
        bytes.map(|bytes| i64::from_le_bytes(*bytes)).ok_or_else(damaged)
    }

    /// Returns the buffers of a column in the batch of a row (the third one empty where it has two), and the row's
    /// place in them.
    fn buffers(&self, row: Row, column: Column) -> Result<([&[u8]; 3], usize), OpenColumnsError> {
        let missing = || OpenColumnsError::NoColumn { path: self.path.clone(), column };
        let position = self.meta.columns.columns().position(|other| other == column);
        let position = position.ok_or_else(missing)?;
        let fields = self.schema.fields();
        let first: usize = fields[..position].iter().map(|field| buffer_count(field)).sum();
        let (number, at) = (row.index() / BATCH_ROWS, row.index() % BATCH_ROWS);
        let (_, span) = self.blocks[number];
        let damaged = || self.damaged(format!("batch {number}: its header"));
        let bytes = &self.bytes[span.start..span.start + span.length];
        let (head, body) = bytes.split_at_checked(span.metadata_length).ok_or_else(damaged)?;
        let message = head.get(PREFIX_BYTES..).ok_or_else(damaged)?;
        let message = arrow_ipc::root_as_message(message).map_err(|_| damaged())?;
        let listed = message.header_as_record_batch().and_then(|batch| batch.buffers());
        let listed = listed.ok_or_else(damaged)?;
        let buffer = |number: usize| {
            let buffer = (number < listed.len()).then(|| listed.get(number))?;
            let (start, length) = (buffer.offset(), buffer.length());
            let start = usize::try_from(start).ok()?;
            body.get(start..start.checked_add(usize::try_from(length).ok()?)?)
        };
        let mut buffers = [&[][..]; 3];
        for (number, place) in buffers.iter_mut().take(buffer_count(&fields[position])).enumerate()
        {
            *place = buffer(first + number).ok_or_else(damaged)?;
        }
        Ok((buffers, at))
    }
}

/// Returns how many buffers a column of our schema has.
fn buffer_count(field: &Field) -> usize {
    match field.data_type() {
        DataType::Utf8 => 3,
        DataType::List(item) => 2 + buffer_count(item),
        DataType::FixedSizeList(item, _) => 1 + buffer_count(item),
        _ => 2,
    }
}
