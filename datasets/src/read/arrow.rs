//! [`ArrowFile`]: an Arrow IPC file or stream of any program.
//!
//! Where its messages lie is checked when it is opened; the decoder is called through
//! [`catch_panic`], because it trusts lengths and offsets in places.

use std::collections::HashMap;
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::{FileDecoder, read_footer_length};
use arrow_ipc::{Block, Message, MessageHeader, MetadataVersion};
use arrow_schema::{Schema, SchemaRef};

use super::source::{Batches, Source, rows_of_batches};
use crate::DataError;
use crate::catch_panic::{catch_panic, decoded};
use crate::input::InputBytes;
use crate::schema::BATCH_ROWS;

/// The first and last bytes of an Arrow IPC file.
pub(crate) const MAGIC: &[u8] = b"ARROW1";
/// The first bytes of an Arrow IPC stream: the marker of its first message.
pub(crate) const STREAM_START: &[u8] = &[0xFF; 4];
/// Bytes before a message: continuation marker and length.
const PREFIX_BYTES: usize = 8;
/// Footer length and magic.
const TRAILER_BYTES: usize = 10;
/// Bytes before a compressed buffer: its length when unfolded.
const LENGTH_BYTES: usize = 8;
/// Stands for the length of a buffer that compression would have made longer.
const NOT_COMPRESSED: i64 = -1;
/// Most bytes that one compressed buffer may unfold to.
const UNFOLDED_BYTES_MAX: u64 = 4 << 30;
/// Most bytes that a compressed byte stands for: a zstd block of 128 KiB takes at least four.
const UNFOLDED_RATIO_MAX: u64 = 1 << 15;

/// An Arrow IPC file or stream; a batch of it is held in memory while its rows are read.
#[derive(Debug, Clone)]
pub(crate) struct ArrowFile {
    bytes: InputBytes,
    messages: Arc<Messages>,
    row_count: usize,
}

/// The messages of a file.
#[derive(Debug, Clone)]
struct Messages {
    schema: SchemaRef,
    /// Metadata in the footer.
    stated: HashMap<String, String>,
    version: MetadataVersion,
    dictionaries: Vec<Placed>,
    batches: Vec<Placed>,
}

/// A message and where it lies, inside the file.
#[derive(Debug, Clone, Copy)]
struct Placed {
    block: Block,
    /// Rows of a record batch, entries of a dictionary.
    rows: usize,
    /// Dictionaries that must be read before.
    dictionaries: usize,
}

/// The bytes of a message, from its prefix to the end of its body.
struct Span {
    start: usize,
    length: usize,
    metadata_length: usize,
}

/// Refuses a block that does not lie inside the first `data_end` bytes.
fn check_block(block: &Block, data_end: usize) -> Result<(), String> {
    let (start, metadata, body) = (block.offset(), block.metaDataLength(), block.bodyLength());
    let parts = [start, metadata.into(), body];
    let end = parts.iter().try_fold(0_u64, |end, part| end.checked_add(u64::try_from(*part).ok()?));
    if end.is_some_and(|end| end <= data_end as u64) && metadata >= PREFIX_BYTES as i32 {
        return Ok(());
    }
    Err(format!(
        "block at {start} of {metadata} + {body} bytes lies outside the data ({data_end} bytes)"
    ))
}

impl ArrowFile {
    /// Checks where the messages lie; reads no rows.
    pub(crate) fn open(bytes: InputBytes) -> Result<Self, DataError> {
        let start = bytes.read(0, STREAM_START.len().min(bytes.len() as usize))?;
        let messages = match start.as_slice() == STREAM_START {
            true => Messages::of_stream(&bytes)?,
            false => Messages::of_file(&bytes)?,
        };
        let row_count = messages.batches.iter().map(|placed| placed.rows).sum();
        Ok(Self { bytes, messages: Arc::new(messages), row_count })
    }

    pub(crate) const fn bytes(&self) -> &InputBytes {
        &self.bytes
    }

    /// Returns the metadata in the footer, which a stream does not have.
    pub(crate) fn stated(&self) -> &HashMap<String, String> {
        &self.messages.stated
    }

    /// Returns the rows of each batch.
    pub(crate) fn batch_rows(&self) -> impl Iterator<Item = usize> {
        self.messages.batches.iter().map(|placed| placed.rows)
    }

    /// Decodes the columns at `positions`, ascending, of all batches as they are; their buffers
    /// must be aligned, so that nothing is copied from memory.
    pub(crate) fn decode_in_place(
        &self,
        positions: &[usize],
    ) -> Result<Vec<RecordBatch>, DataError> {
        let mut decoder = Decoder::new(self, positions);
        decoder.decoder = decoder.decoder.with_require_alignment(true);
        self.messages.batches.iter().map(|placed| decoder.decode(placed)).collect()
    }

    /// Returns the buffers from the `first` on of a batch in memory; `None` where they are not
    /// there.
    pub(crate) fn buffers<const COUNT: usize>(
        &self,
        batch: usize,
        first: usize,
        count: usize,
    ) -> Option<[&[u8]; COUNT]> {
        let Span { start, length, metadata_length } = self.messages.batches.get(batch)?.span();
        let bytes = self.bytes.memory().get(start..start + length)?;
        let (head, body) = bytes.split_at_checked(metadata_length)?;
        let message = read_message(head.get(PREFIX_BYTES..)?).ok()?;
        let listed = message.header_as_record_batch()?.buffers()?;
        let mut buffers = [&[][..]; COUNT];
        for (number, place) in buffers.iter_mut().take(count).enumerate() {
            let at = first + number;
            let buffer = (at < listed.len()).then(|| listed.get(at))?;
            let start = usize::try_from(buffer.offset()).ok()?;
            let end = start.checked_add(usize::try_from(buffer.length()).ok()?)?;
            *place = body.get(start..end)?;
        }
        Some(buffers)
    }
}

impl Source for ArrowFile {
    fn schema(&self) -> &SchemaRef {
        &self.messages.schema
    }

    fn row_count(&self) -> usize {
        self.row_count
    }

    fn check_unchanged(&self) -> Result<(), DataError> {
        self.bytes.check_unchanged()
    }

    fn batches(&self, positions: &[usize], _: usize) -> Result<Batches, DataError> {
        let mut decoder = Decoder::new(self, positions);
        let messages = Arc::clone(&self.messages);
        let mut left = 0..messages.batches.len();
        let decoded = std::iter::from_fn(move || {
            let batch = decoder.decode(&messages.batches[left.next()?]);
            if batch.is_err() {
                left = 0..0;
            }
            Some(batch)
        });
        Ok(Box::new(decoded.flat_map(|batch| match batch {
            Ok(batch) => portions(&batch).map(Ok).collect(),
            Err(error) => vec![Err(error)],
        })))
    }

    fn batches_of_rows(
        &self,
        position: usize,
        rows: &[usize],
    ) -> Result<Vec<RecordBatch>, DataError> {
        let mut decoder = Decoder::new(self, &[position]);
        let batches = &self.messages.batches;
        rows_of_batches(self.batch_rows(), rows, |at| decoder.decode(&batches[at]))
    }
}

/// Cuts a batch into portions of at most [`BATCH_ROWS`] rows, without a copy.
fn portions(batch: &RecordBatch) -> impl Iterator<Item = RecordBatch> + use<'_> {
    let rows = batch.num_rows();
    (0..rows).step_by(BATCH_ROWS).map(move |start| batch.slice(start, BATCH_ROWS.min(rows - start)))
}

/// Decodes record batches in their order, with the dictionaries before each.
struct Decoder {
    file: ArrowFile,
    decoder: FileDecoder,
    dictionaries_read: usize,
}

impl Decoder {
    /// Decodes the columns at `positions`, ascending.
    fn new(file: &ArrowFile, positions: &[usize]) -> Self {
        let decoder = FileDecoder::new(Arc::clone(file.schema()), file.messages.version)
            .with_projection(positions.to_vec());
        Self { file: file.clone(), decoder, dictionaries_read: 0 }
    }

    fn decode(&mut self, placed: &Placed) -> Result<RecordBatch, DataError> {
        while self.dictionaries_read < placed.dictionaries {
            let i = self.dictionaries_read;
            let dictionary = self.file.messages.dictionaries[i];
            let bytes = self.bytes_of(&dictionary)?;
            decoded(|| self.decoder.read_dictionary(&dictionary.block, &bytes))
                .map_err(|what| self.damaged(&format!("dictionary {i}: {what}")))?;
            self.dictionaries_read += 1;
        }
        let bytes = self.bytes_of(placed)?;
        let batch = decoded(|| self.decoder.read_record_batch(&placed.block, &bytes));
        let at =
            |what: &str| self.damaged(&format!("batch at byte {}: {what}", placed.block.offset()));
        match batch.map_err(|what| at(&what))? {
            Some(batch) if batch.num_rows() == placed.rows => Ok(batch),
            Some(batch) => Err(at(&format!("{} rows, expected {}", batch.num_rows(), placed.rows))),
            None => Err(at("empty message")),
        }
    }

    /// Reads a message; its lengths are checked before memory is allocated for them.
    fn bytes_of(&self, placed: &Placed) -> Result<Buffer, DataError> {
        let Span { start, length, metadata_length } = placed.span();
        let bytes = self.file.bytes.read(start as u64, length)?;
        let (metadata, body) = bytes.split_at(metadata_length);
        let message = read_message(&metadata[PREFIX_BYTES..])
            .and_then(|message| check_unfolded(rows_of(&message)?, body));
        message.map_err(|what| self.damaged(&format!("message at byte {start}: {what}")))?;
        Ok(bytes)
    }

    fn damaged(&self, found: &str) -> DataError {
        DataError::damaged(self.file.bytes.path(), found)
    }
}

impl Messages {
    fn of_file(bytes: &InputBytes) -> Result<Self, DataError> {
        let (footer, data_end) = footer_of(bytes)?;
        let damaged = |found: String| DataError::damaged(bytes.path(), found);
        let footer = arrow_ipc::root_as_footer(&footer)
            .map_err(|error| damaged(format!("unreadable footer: {error}")))?;
        let schema = footer.schema().ok_or_else(|| damaged("no schema in the footer".into()))?;
        let schema = read_schema(schema).map_err(damaged)?;
        let place = |(i, block): (usize, &Block)| {
            check_block(block, data_end).map_err(|what| damaged(format!("message {i}: {what}")))?;
            Placed::read(bytes, block)
        };
        let dictionaries = footer.dictionaries().into_iter().flatten().enumerate().map(place);
        let dictionaries: Vec<Placed> = dictionaries.collect::<Result<_, _>>()?;
        let before = dictionaries.len();
        let batches = footer.recordBatches().into_iter().flatten().enumerate().map(place);
        let batches = batches.map(|batch| Ok(Placed { dictionaries: before, ..batch? }));
        let (version, batches) = (footer.version(), batches.collect::<Result<_, DataError>>()?);
        let pairs = footer.custom_metadata().into_iter().flatten();
        let pairs =
            pairs.filter_map(|pair| Some((pair.key()?.to_owned(), pair.value()?.to_owned())));
        Ok(Self { schema, stated: pairs.collect(), version, dictionaries, batches })
    }

    /// Walks a stream from message to message; it ends with an empty message.
    fn of_stream(bytes: &InputBytes) -> Result<Self, DataError> {
        let (mut messages, mut start) = (None, 0);
        while let Some((metadata, block)) = next_message(bytes, start)? {
            let at = |what: &str| {
                DataError::damaged(bytes.path(), format!("message at byte {start}: {what}"))
            };
            let message = read_message(&metadata).map_err(|what| at(&what))?;
            match (message.header_type(), &mut messages) {
                (MessageHeader::Schema, None) => {
                    let schema = message.header_as_schema().ok_or_else(|| at("empty"))?;
                    let schema = read_schema(schema).map_err(|what| at(&what))?;
                    let (dictionaries, batches) = (Vec::new(), Vec::new());
                    let (version, stated) = (message.version(), HashMap::new());
                    messages = Some(Self { schema, stated, version, dictionaries, batches });
                }
                (MessageHeader::DictionaryBatch, Some(messages)) => {
                    messages.dictionaries.push(Placed::read(bytes, &block)?);
                }
                (MessageHeader::RecordBatch, Some(messages)) => {
                    // A later dictionary may stand for the rows after it only.
                    let dictionaries = messages.dictionaries.len();
                    messages.batches.push(Placed { dictionaries, ..Placed::read(bytes, &block)? });
                }
                (other, _) => return Err(at(&format!("an unexpected {other:?}"))),
            }
            start += (block.metaDataLength() as i64 + block.bodyLength()).cast_unsigned();
        }
        messages.ok_or_else(|| DataError::format(bytes.path(), "an Arrow stream without a schema"))
    }
}

impl Placed {
    /// Reads the header of a message of dictionary entries or rows.
    fn read(bytes: &InputBytes, block: &Block) -> Result<Self, DataError> {
        let mut placed = Self { block: *block, rows: 0, dictionaries: 0 };
        let Span { start, metadata_length, .. } = placed.span();
        let metadata = bytes.read(start as u64, metadata_length)?;
        let rows = || -> Result<usize, String> {
            if !metadata.starts_with(STREAM_START) {
                return Err("no continuation marker".into());
            }
            let message = read_message(&metadata[PREFIX_BYTES..])?;
            let length = rows_of(&message)?.length();
            let rows = usize::try_from(length).ok().filter(|&rows| rows < u32::MAX as usize);
            rows.ok_or_else(|| format!("{length} rows"))
        };
        let at = |what| format!("message at byte {start}: {what}");
        placed.rows = rows().map_err(|what| DataError::damaged(bytes.path(), at(what)))?;
        Ok(placed)
    }

    fn span(&self) -> Span {
        let metadata_length = self.block.metaDataLength() as usize;
        let length = metadata_length + self.block.bodyLength() as usize;
        Span { start: self.block.offset() as usize, length, metadata_length }
    }
}

/// Returns the rows of a message, or the entries of a dictionary.
fn rows_of<'a>(message: &Message<'a>) -> Result<arrow_ipc::RecordBatch<'a>, String> {
    let batch = match message.header_type() {
        MessageHeader::RecordBatch => message.header_as_record_batch(),
        MessageHeader::DictionaryBatch => {
            message.header_as_dictionary_batch().and_then(|dictionary| dictionary.data())
        }
        other => return Err(format!("a {other:?} where rows belong")),
    };
    batch.ok_or_else(|| "no rows".into())
}

/// Reads the footer of a file; returns it with the end of the data before it.
fn footer_of(bytes: &InputBytes) -> Result<(Buffer, usize), DataError> {
    let unfinished = |found: String| {
        DataError::format(bytes.path(), format!("not a finished Arrow IPC file ({found})"))
    };
    let length = bytes.len() as usize;
    if length < MAGIC.len() + TRAILER_BYTES {
        return Err(unfinished(format!("{length} bytes")));
    }
    let start = bytes.read(0, MAGIC.len())?;
    if start.as_slice() != MAGIC {
        return Err(unfinished(format!("it begins with \"{}\"", start.escape_ascii())));
    }
    let trailer_start = length - TRAILER_BYTES;
    let trailer = bytes.read(trailer_start as u64, TRAILER_BYTES)?;
    let Some(found) = trailer.first_chunk().filter(|_| trailer.ends_with(MAGIC)) else {
        let tail = trailer[TRAILER_BYTES - MAGIC.len()..].escape_ascii();
        return Err(unfinished(format!("it ends with \"{tail}\"")));
    };
    let footer = read_footer_length(*found).map_err(|error| unfinished(error.to_string()))?;
    let start = trailer_start.checked_sub(footer).filter(|start| *start >= MAGIC.len());
    let start = start.ok_or_else(|| unfinished(format!("a footer of {footer} bytes")))?;
    Ok((bytes.read(start as u64, footer)?, start))
}

/// Checks the claimed lengths of compressed buffers before memory is allocated.
fn check_unfolded(batch: arrow_ipc::RecordBatch<'_>, body: &[u8]) -> Result<(), String> {
    if batch.compression().is_none() {
        return Ok(());
    }
    for buffer in batch.buffers().into_iter().flatten() {
        let bytes = usize::try_from(buffer.offset()).ok().and_then(|start| body.get(start..));
        let length = usize::try_from(buffer.length()).ok();
        let bytes = bytes.zip(length).and_then(|(bytes, length)| bytes.get(..length));
        let bytes = bytes.ok_or_else(|| {
            format!("buffer at {} of {} bytes lies outside", buffer.offset(), buffer.length())
        })?;
        let Some(&prefix) = bytes.first_chunk::<LENGTH_BYTES>() else {
            // Nothing is stored of an empty buffer.
            if bytes.is_empty() {
                continue;
            }
            return Err(format!("a compressed buffer of {} bytes", bytes.len()));
        };
        let claimed = i64::from_le_bytes(prefix);
        let credible = ((bytes.len() - LENGTH_BYTES) as u64).saturating_mul(UNFOLDED_RATIO_MAX);
        let limit = credible.min(UNFOLDED_BYTES_MAX);
        let is_credible = u64::try_from(claimed).is_ok_and(|length| length <= limit);
        if claimed != NOT_COMPRESSED && !is_credible {
            return Err(format!("{} compressed bytes that claim to be {claimed}", bytes.len()));
        }
    }
    Ok(())
}

/// Returns the header of the message at `start` of a stream, with the block that it fills.
fn next_message(bytes: &InputBytes, start: u64) -> Result<Option<(Buffer, Block)>, DataError> {
    let cut = |what: &str| {
        let found = format!("an Arrow stream, cut off: {what} at byte {start} of {}", bytes.len());
        DataError::format(bytes.path(), found)
    };
    let damaged = |found| DataError::damaged(bytes.path(), found);
    let left = bytes.len() - start;
    if left == 0 {
        // The mark is optional in a pipe; of a file without it nobody knows whether it is whole.
        return Err(cut("the end mark"));
    }
    if left < PREFIX_BYTES as u64 {
        return Err(cut("a message"));
    }
    let prefix = bytes.read(start, PREFIX_BYTES)?;
    if !prefix.starts_with(STREAM_START) {
        return Err(damaged(format!("no continuation marker at byte {start}")));
    }
    let length = prefix[STREAM_START.len()..].first_chunk().copied().map_or(0, i32::from_le_bytes);
    if length == 0 {
        return Ok(None);
    }
    let size = usize::try_from(length).ok().zip(length.checked_add(PREFIX_BYTES as i32));
    let (size, metadata_length) =
        size.ok_or_else(|| damaged(format!("a message of {length} bytes")))?;
    let left = left - PREFIX_BYTES as u64;
    if size as u64 > left {
        return Err(cut("a message"));
    }
    let metadata = bytes.read(start + PREFIX_BYTES as u64, size)?;
    let body = read_message(&metadata).map_err(damaged)?.bodyLength();
    if u64::try_from(body).map_or(true, |body| body > left - size as u64) {
        return Err(cut("the rows"));
    }
    Ok(Some((metadata, Block::new(start as i64, metadata_length, body))))
}

fn read_message(bytes: &[u8]) -> Result<Message<'_>, String> {
    arrow_ipc::root_as_message(bytes).map_err(|error| format!("unreadable header: {error}"))
}

fn read_schema(schema: arrow_ipc::Schema<'_>) -> Result<SchemaRef, String> {
    if schema.endianness() != arrow_ipc::Endianness::Little {
        return Err("big-endian values".into());
    }
    let schema: Schema = catch_panic(|| arrow_ipc::convert::fb_to_schema(schema))
        .map_err(|what| format!("unreadable schema: {what}"))?;
    Ok(Arc::new(schema))
}
