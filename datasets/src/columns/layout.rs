//! Is this Arrow message laid out as our schema says?
//!
//! The decoder trusts lengths and offsets in places and would panic on a damaged file. Here every
//! number that it will use is checked first, with checked arithmetic, against the bytes that exist.

use arrow_ipc::{Block, FieldNode, MetadataVersion};
use arrow_schema::{DataType, Field, Schema, TimeUnit};

use crate::schema::BATCH_ROWS;

/// Buffers start at multiples of this many bytes, a cache line.
pub(crate) const ALIGNMENT: usize = 64;

/// Bytes before a message: continuation marker and length.
pub(super) const PREFIX_BYTES: usize = 8;

/// Where a record batch lies in the file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BlockSpan {
    pub(crate) start: usize,
    pub(crate) length: usize,
    pub(crate) metadata_length: usize,
}

impl BlockSpan {
    /// Accepts a block that lies inside the first `data_end` bytes.
    pub(crate) fn checked(block: &Block, data_end: usize) -> Result<Self, String> {
        let out_of_file = || {
            format!(
                "block at {} of {} + {} bytes lies outside the data ({data_end} bytes)",
                block.offset(),
                block.metaDataLength(),
                block.bodyLength()
            )
        };
        let start = usize::try_from(block.offset()).map_err(|_| out_of_file())?;
        let metadata_length = usize::try_from(block.metaDataLength()).map_err(|_| out_of_file())?;
        let body = usize::try_from(block.bodyLength()).map_err(|_| out_of_file())?;
        let length = metadata_length.checked_add(body).ok_or_else(out_of_file)?;
        let end = start.checked_add(length).ok_or_else(out_of_file)?;
        if end > data_end || metadata_length < PREFIX_BYTES {
            return Err(out_of_file());
        }
        Ok(Self { start, length, metadata_length })
    }
}

/// Checks one message (its bytes from the prefix to the end of the body) and returns its rows.
pub(crate) fn check_batch(bytes: &[u8], span: BlockSpan, schema: &Schema) -> Result<usize, String> {
    if bytes[..4] != [0xFF; 4] {
        return Err("no continuation marker".into());
    }
    let message = arrow_ipc::root_as_message(&bytes[PREFIX_BYTES..span.metadata_length])
        .map_err(|error| format!("unreadable message header: {error}"))?;
    if message.version() != MetadataVersion::V5 {
        return Err(format!("metadata version {:?}, expected V5", message.version()));
    }
    let batch = message
        .header_as_record_batch()
        .ok_or_else(|| format!("a {:?} where a record batch belongs", message.header_type()))?;
    if batch.compression().is_some() {
        return Err("the buffers are compressed".into());
    }
    let rows = usize::try_from(batch.length()).unwrap_or(usize::MAX);
    if rows == 0 || rows > BATCH_ROWS {
        return Err(format!("{} rows, expected 1 to {BATCH_ROWS}", batch.length()));
    }
    if batch.variadicBufferCounts().is_some_and(|counts| !counts.is_empty()) {
        return Err("variadic buffers".into());
    }
    let mut walk = Walk {
        nodes: batch.nodes().into_iter().flat_map(|nodes| nodes.iter()),
        buffers: batch.buffers().into_iter().flat_map(|buffers| buffers.iter()),
        width: 1,
        body_start: span.start + span.metadata_length,
        body_length: span.length - span.metadata_length,
    };
    for field in schema.fields() {
        walk.field(field, Some(rows)).map_err(|what| format!("column {}: {what}", field.name()))?;
    }
    walk.end()?;
    Ok(rows)
}

/// Walks the nodes and buffers of a message in the order of the schema.
struct Walk<Nodes, Buffers> {
    nodes: Nodes,
    buffers: Buffers,
    /// Bytes of one value of the buffer at hand.
    width: usize,
    body_start: usize,
    body_length: usize,
}

impl<'a, Nodes, Buffers> Walk<Nodes, Buffers>
where
    Nodes: Iterator<Item = &'a FieldNode>,
    Buffers: Iterator<Item = &'a arrow_ipc::Buffer>,
{
    /// Checks a field that must have `rows` values (`None`: as many as its node says).
    fn field(&mut self, field: &Field, rows: Option<usize>) -> Result<(), String> {
        let node = self.nodes.next().ok_or("its length is missing")?;
        let length = usize::try_from(node.length()).map_err(|_| bad_length(node))?;
        if rows.is_some_and(|rows| rows != length) {
            return Err(bad_length(node));
        }
        self.validity(field, node, length)?;
        match field.data_type() {
            DataType::Utf8 => {
                self.offsets(length)?;
                self.buffer(0)
            }
            DataType::List(item) => {
                self.offsets(length)?;
                self.field(item, None)
            }
            DataType::FixedSizeList(item, size) => {
                let values = usize::try_from(*size).ok().and_then(|size| length.checked_mul(size));
                self.field(item, Some(values.ok_or_else(|| bad_length(node))?))
            }
            other => {
                let width = other.primitive_width().ok_or("unexpected type")?;
                self.values(length, width)
            }
        }
    }

    fn validity(&mut self, field: &Field, node: &FieldNode, length: usize) -> Result<(), String> {
        let nulls = usize::try_from(node.null_count()).unwrap_or(usize::MAX);
        if nulls > length || (nulls > 0 && !field.is_nullable()) {
            return Err(format!("{} nulls in {length} values", node.null_count()));
        }
        self.buffer(if nulls > 0 { length.div_ceil(8) } else { 0 })
    }

    /// Takes a buffer of `length` numbers of `width` bytes; it may be padded by whole numbers.
    fn values(&mut self, length: usize, width: usize) -> Result<(), String> {
        self.width = width;
        let checked = self.buffer(length.checked_mul(width).ok_or("too many values")?);
        self.width = 1;
        checked
    }

    fn offsets(&mut self, length: usize) -> Result<(), String> {
        // No values may go without offsets.
        let count = if length == 0 { Some(0) } else { length.checked_add(1) };
        self.values(count.ok_or("too many values")?, 4)
    }

    /// Takes the next buffer, which must hold at least `bytes_min` bytes of the body.
    fn buffer(&mut self, bytes_min: usize) -> Result<(), String> {
        let buffer = self.buffers.next().ok_or("a buffer is missing")?;
        let outside = || {
            format!(
                "buffer at {} of {} bytes lies outside the body ({} bytes)",
                buffer.offset(),
                buffer.length(),
                self.body_length
            )
        };
        let offset = usize::try_from(buffer.offset()).map_err(|_| outside())?;
        let length = usize::try_from(buffer.length()).map_err(|_| outside())?;
        let end = offset.checked_add(length).ok_or_else(outside)?;
        if end > self.body_length {
            return Err(outside());
        }
        if length < bytes_min {
            return Err(format!("buffer of {length} bytes, expected at least {bytes_min}"));
        }
        if !(self.body_start + offset).is_multiple_of(ALIGNMENT)
            || !length.is_multiple_of(self.width)
        {
            return Err(format!("buffer at {offset} of {length} bytes is misaligned"));
        }
        Ok(())
    }

    fn end(&mut self) -> Result<(), String> {
        if self.nodes.next().is_some() || self.buffers.next().is_some() {
            return Err("more buffers than columns".into());
        }
        Ok(())
    }
}

fn bad_length(node: &FieldNode) -> String {
    format!("{} values", node.length())
}

/// Checks that a stored field is what `expected` says, without building one from damaged bytes.
pub(crate) fn check_field(found: arrow_ipc::Field<'_>, expected: &Field) -> Result<(), String> {
    let same = found.dictionary().is_none()
        && found.nullable() == expected.is_nullable()
        && same_type(found, expected.data_type());
    if !same {
        return Err(format!(
            "column {} is {:?}{}, expected {}{}",
            expected.name(),
            found.type_type(),
            if found.nullable() { " or null" } else { "" },
            expected.data_type(),
            if expected.is_nullable() { " or null" } else { "" },
        ));
    }
    let children = found.children();
    match (expected.data_type(), children) {
        (DataType::List(item) | DataType::FixedSizeList(item, _), Some(children))
            if children.len() == 1 =>
        {
            check_field(children.get(0), item)
        }
        (DataType::List(_) | DataType::FixedSizeList(..), _) => {
            Err(format!("column {} has no items", expected.name()))
        }
        _ => Ok(()),
    }
}

fn same_type(found: arrow_ipc::Field<'_>, expected: &DataType) -> bool {
    let int = |width: i32, signed: bool| {
        found.type_as_int().is_some_and(|int| int.bitWidth() == width && int.is_signed() == signed)
    };
    let float = |precision| {
        found.type_as_floating_point().is_some_and(|float| float.precision() == precision)
    };
    match expected {
        DataType::UInt32 => int(32, false),
        DataType::Int64 => int(64, true),
        DataType::Float32 => float(arrow_ipc::Precision::SINGLE),
        DataType::Float64 => float(arrow_ipc::Precision::DOUBLE),
        DataType::Utf8 => found.type_as_utf_8().is_some(),
        DataType::List(_) => found.type_as_list().is_some(),
        DataType::FixedSizeList(_, size) => {
            found.type_as_fixed_size_list().is_some_and(|list| list.listSize() == *size)
        }
        DataType::Timestamp(TimeUnit::Microsecond, zone) => {
            found.type_as_timestamp().is_some_and(|time| {
                time.unit() == arrow_ipc::TimeUnit::MICROSECOND
                    && time.timezone() == zone.as_deref()
            })
        }
        _ => false,
    }
}
