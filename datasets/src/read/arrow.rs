//! [`ArrowFile`]: an Arrow IPC file or stream of any program, mapped.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::RecordBatch;
use arrow_buffer::Buffer;
use arrow_ipc::reader::FileDecoder;
use arrow_ipc::{Block, Message, MessageHeader, MetadataVersion};
use arrow_schema::{Schema, SchemaRef};
use memfold_index::Mapped;

use super::ReadError;
use crate::columns::{BlockSpan, STREAM_START, footer_bytes};
use crate::guarded::guarded;
use crate::schema::BATCH_ROWS;

/// An Arrow IPC file or stream, mapped; columns are lent where they are neither compressed nor
/// misaligned.
#[derive(Debug, Clone)]
pub(crate) struct ArrowFile {
    path: PathBuf,
    bytes: Buffer,
    messages: Arc<Messages>,
    row_count: usize,
}

impl ArrowFile {
    /// Maps the file at `path` and checks where its messages lie; reads no rows.
    pub(crate) fn open(path: &Path) -> Result<Self, ReadError> {
        let mapped = Mapped::open(path).map_err(|source| ReadError::Map { source })?;
        Self::from_buffer(Buffer::from(bytes::Bytes::from_owner(mapped)), path)
    }

    /// Reads the bytes of a file; `path` is the name that errors use.
    pub(super) fn from_buffer(bytes: Buffer, path: &Path) -> Result<Self, ReadError> {
        let messages = Messages::find(&bytes).map_err(|why| match why {
            NoMessages::NotArrow(found) => ReadError::NotArrow { path: path.into(), found },
            NoMessages::Damaged(found) => ReadError::Damaged { path: path.into(), found },
        })?;
        let row_count = messages.batches.iter().map(|placed| placed.rows).sum();
        Ok(Self { path: path.into(), bytes, messages: Arc::new(messages), row_count })
    }

    pub(crate) fn schema(&self) -> &SchemaRef {
        &self.messages.schema
    }

    pub(crate) const fn row_count(&self) -> usize {
        self.row_count
    }

    /// Returns the bytes of the whole file.
    pub(crate) const fn bytes(&self) -> &Buffer {
        &self.bytes
    }

    /// Returns the columns at `positions`, ascending, of all rows in order.
    pub(crate) fn batches(
        &self,
        positions: &[usize],
    ) -> impl Iterator<Item = Result<RecordBatch, ReadError>> + use<> {
        let mut decoder = Decoder::new(self, positions);
        let messages = Arc::clone(&self.messages);
        let batches = 0..messages.batches.len();
        let decoded = batches.map(move |i| decoder.decode(&messages.batches[i]));
        decoded.flat_map(|batch| match batch {
            Ok(batch) => portions(&batch).map(Ok).collect(),
            Err(error) => vec![Err(error)],
        })
    }

    /// Returns the columns at `positions`, ascending, of the rows asked for, ascending: some of them
    /// in each batch.
    pub(crate) fn batches_of_rows(
        &self,
        positions: &[usize],
        rows: &[usize],
    ) -> Result<Vec<RecordBatch>, ReadError> {
        let mut decoder = Decoder::new(self, positions);
        let (mut taken, mut first_row, mut rows) = (Vec::new(), 0, rows);
        for placed in &self.messages.batches {
            let end = first_row + placed.rows;
            let (here, later) = rows.split_at(rows.partition_point(|&row| row < end));
            if !here.is_empty() {
                let batch = decoder.decode(placed)?;
                taken.extend(here.iter().map(|row| batch.slice(row - first_row, 1)));
            }
            (first_row, rows) = (end, later);
        }
        Ok(taken)
    }

    fn bytes_of(&self, placed: &Placed) -> Buffer {
        self.bytes.slice_with_length(placed.span.start, placed.span.length)
    }

    fn damaged(&self, found: String) -> ReadError {
        ReadError::Damaged { path: self.path.clone(), found }
    }
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
        let decoder = FileDecoder::new(file.schema().clone(), file.messages.version)
            .with_projection(positions.to_vec());
        Self { file: file.clone(), decoder, dictionaries_read: 0 }
    }

    fn decode(&mut self, placed: &Placed) -> Result<RecordBatch, ReadError> {
        self.read_dictionaries(placed.dictionaries)?;
        let bytes = self.file.bytes_of(placed);
        let read = guarded(|| self.decoder.read_record_batch(&placed.block, &bytes));
        let batch = read.and_then(|read| read.map_err(|error| error.to_string()));
        let start = placed.span.start;
        let at = |what: String| self.file.damaged(format!("batch at byte {start}: {what}"));
        match batch.map_err(at)? {
            Some(batch) if batch.num_rows() == placed.rows => Ok(batch),
            Some(batch) => Err(at(format!("{} rows, expected {}", batch.num_rows(), placed.rows))),
            None => Err(at("empty message".into())),
        }
    }

    /// Reads dictionaries until `count` were read.
    fn read_dictionaries(&mut self, count: usize) -> Result<(), ReadError> {
        while self.dictionaries_read < count {
            let i = self.dictionaries_read;
            let placed = &self.file.messages.dictionaries[i];
            let bytes = self.file.bytes_of(placed);
            let read = guarded(|| self.decoder.read_dictionary(&placed.block, &bytes));
            read.and_then(|read| read.map_err(|error| error.to_string()))
                .map_err(|what| self.file.damaged(format!("dictionary {i}: {what}")))?;
            self.dictionaries_read += 1;
        }
        Ok(())
    }
}

/// Cuts a batch into portions of at most [`BATCH_ROWS`] rows, without a copy.
fn portions(batch: &RecordBatch) -> impl Iterator<Item = RecordBatch> + use<'_> {
    let rows = batch.num_rows();
    (0..rows).step_by(BATCH_ROWS).map(move |start| batch.slice(start, BATCH_ROWS.min(rows - start)))
}

/// Bytes before a message: continuation marker and length.
const PREFIX_BYTES: usize = 8;
/// Bytes before a compressed buffer: its length when unfolded.
const LENGTH_BYTES: usize = 8;
/// What stands for the length of a buffer that compression would have made longer.
const NOT_COMPRESSED: i64 = -1;
/// Most bytes that one compressed buffer may unfold to.
const UNFOLDED_BYTES_MAX: u64 = 4 << 30;
/// Most bytes that a compressed byte stands for: a zstd block of 128 KiB takes at least four.
const UNFOLDED_RATIO_MAX: u64 = 1 << 15;

/// The messages of a file.
#[derive(Debug, Clone)]
pub(super) struct Messages {
    pub(super) schema: SchemaRef,
    pub(super) version: MetadataVersion,
    pub(super) dictionaries: Vec<Placed>,
    pub(super) batches: Vec<Placed>,
}

/// A message and where it lies.
#[derive(Debug, Clone, Copy)]
pub(super) struct Placed {
    pub(super) block: Block,
    pub(super) span: BlockSpan,
    /// Rows of a record batch, entries of a dictionary.
    pub(super) rows: usize,
    /// Dictionaries that must be read before.
    pub(super) dictionaries: usize,
}

/// Why there are no messages.
pub(super) enum NoMessages {
    /// It is no finished Arrow file.
    NotArrow(String),
    /// It is one, and makes no sense.
    Damaged(String),
}

impl From<String> for NoMessages {
    fn from(found: String) -> Self {
        Self::Damaged(found)
    }
}

impl Messages {
    /// Finds the messages of a file or a stream.
    pub(super) fn find(bytes: &[u8]) -> Result<Self, NoMessages> {
        if bytes.starts_with(STREAM_START) {
            return Self::of_stream(bytes);
        }
        let (footer, data_end) = footer_bytes(bytes).map_err(NoMessages::NotArrow)?;
        Ok(Self::of_footer(bytes, footer, data_end)?)
    }

    fn of_footer(bytes: &[u8], footer: &[u8], data_end: usize) -> Result<Self, String> {
        let footer = arrow_ipc::root_as_footer(footer)
            .map_err(|error| format!("unreadable footer: {error}"))?;
        let schema = read_schema(footer.schema().ok_or("no schema in the footer")?)?;
        let placed = |(i, block): (usize, &Block)| {
            let placed = Placed::checked(bytes, block, data_end);
            placed.map_err(|what| format!("message {i}: {what}"))
        };
        let dictionaries = footer.dictionaries().into_iter().flatten().enumerate().map(placed);
        let dictionaries: Vec<Placed> = dictionaries.collect::<Result<_, _>>()?;
        let before = dictionaries.len();
        let batches = footer.recordBatches().into_iter().flatten().enumerate().map(placed);
        let batches = batches.map(|batch| Ok(Placed { dictionaries: before, ..batch? }));
        Ok(Self {
            schema,
            version: footer.version(),
            dictionaries,
            batches: batches.collect::<Result<_, String>>()?,
        })
    }

    /// Walks a stream from message to message; it ends with an empty message.
    fn of_stream(bytes: &[u8]) -> Result<Self, NoMessages> {
        let (mut messages, mut start) = (None, 0);
        while let Some((message, block)) = next_message(bytes, start)? {
            let version = message.version();
            let at = |what: String| format!("message at byte {start}: {what}");
            let place = || Placed::checked(bytes, &block, bytes.len()).map_err(at);
            match (message.header_type(), &mut messages) {
                (MessageHeader::Schema, None) => {
                    let schema = message.header_as_schema().ok_or_else(|| at("empty".into()))?;
                    let schema = read_schema(schema)?;
                    let (dictionaries, batches) = (Vec::new(), Vec::new());
                    messages = Some(Self { schema, version, dictionaries, batches });
                }
                (MessageHeader::DictionaryBatch, Some(messages)) => {
                    messages.dictionaries.push(place()?);
                }
                (MessageHeader::RecordBatch, Some(messages)) => {
                    // A later dictionary may stand for the rows after it only.
                    let dictionaries = messages.dictionaries.len();
                    messages.batches.push(Placed { dictionaries, ..place()? });
                }
                (other, _) => return Err(at(format!("an unexpected {other:?}")).into()),
            }
            start += (block.metaDataLength() as usize) + (block.bodyLength() as usize);
        }
        messages.ok_or_else(|| NoMessages::NotArrow("a stream without a schema".into()))
    }
}

impl Placed {
    /// Accepts a message of dictionary entries or rows inside the first `data_end` bytes.
    fn checked(bytes: &[u8], block: &Block, data_end: usize) -> Result<Self, String> {
        let span = BlockSpan::checked(block, data_end)?;
        let body_start = span.start + span.metadata_length;
        if bytes[span.start..][..4] != *STREAM_START {
            return Err("no continuation marker".into());
        }
        let message = read_message(&bytes[span.start + PREFIX_BYTES..body_start])?;
        let batch = match message.header_type() {
            MessageHeader::RecordBatch => message.header_as_record_batch(),
            MessageHeader::DictionaryBatch => {
                message.header_as_dictionary_batch().and_then(|dictionary| dictionary.data())
            }
            other => return Err(format!("a {other:?} where rows belong")),
        };
        let batch = batch.ok_or("no rows")?;
        check_unfolded(batch, &bytes[body_start..span.start + span.length])?;
        let rows = usize::try_from(batch.length()).ok().filter(|&rows| rows < u32::MAX as usize);
        let rows = rows.ok_or_else(|| format!("{} rows", batch.length()))?;
        Ok(Self { block: *block, span, rows, dictionaries: 0 })
    }
}

/// Checks what compressed buffers claim to hold, before memory is asked for.
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
        let is_credible = u64::try_from(claimed).is_ok_and(|length| length <= credible);
        if claimed != NOT_COMPRESSED && !is_credible {
            return Err(format!("{} compressed bytes that claim to be {claimed}", bytes.len()));
        }
        if claimed.cast_unsigned() > UNFOLDED_BYTES_MAX && claimed != NOT_COMPRESSED {
            return Err(format!(
                "a buffer of {claimed} bytes, expected at most {UNFOLDED_BYTES_MAX} where compressed"
            ));
        }
    }
    Ok(())
}

/// Returns the message at `start` of a stream with the block that it fills.
fn next_message(bytes: &[u8], start: usize) -> Result<Option<(Message<'_>, Block)>, NoMessages> {
    let cut = |what: &str| {
        NoMessages::NotArrow(format!("cut off: {what} at byte {start} of {}", bytes.len()))
    };
    let rest = &bytes[start..];
    if rest.is_empty() {
        // The mark is optional in a pipe; of a file without it nobody knows whether it is whole.
        return Err(cut("the end mark"));
    }
    let Some((&prefix, rest)) = rest.split_first_chunk::<PREFIX_BYTES>() else {
        return Err(cut("a message"));
    };
    let [marker @ .., b0, b1, b2, b3] = prefix;
    if marker != *STREAM_START {
        return Err(format!("no continuation marker at byte {start}").into());
    }
    let length = i32::from_le_bytes([b0, b1, b2, b3]);
    if length == 0 {
        return Ok(None);
    }
    let size = usize::try_from(length).map_err(|_| format!("a message of {length} bytes"))?;
    let header = rest.get(..size).ok_or_else(|| cut("a message"))?;
    let message = read_message(header)?;
    let body = usize::try_from(message.bodyLength()).ok();
    if body.is_none_or(|body| body > rest.len() - size) {
        return Err(cut("the rows"));
    }
    let Some(metadata) = length.checked_add(PREFIX_BYTES as i32) else {
        return Err(format!("a message of {length} bytes").into());
    };
    Ok(Some((message, Block::new(start as i64, metadata, message.bodyLength()))))
}

fn read_message(bytes: &[u8]) -> Result<Message<'_>, String> {
    arrow_ipc::root_as_message(bytes).map_err(|error| format!("unreadable header: {error}"))
}

fn read_schema(schema: arrow_ipc::Schema<'_>) -> Result<SchemaRef, String> {
    if schema.endianness() != arrow_ipc::Endianness::Little {
        return Err("big-endian values".into());
    }
    let schema: Schema = guarded(|| arrow_ipc::convert::fb_to_schema(schema))
        .map_err(|what| format!("unreadable schema: {what}"))?;
    Ok(Arc::new(schema))
}
