//! [`Parts`]: a section file taken apart, changed and written again with true checksums.

use std::io::Cursor;
use std::path::Path;

use memfold_index::file::{
    Element, ElementType, FileHead, FileKind, SectionFile, SectionFileError, SectionFileWriter,
    SectionId,
};
use twox_hash::XxHash3_64;

use super::Changes;
use super::files::map;

/// Bytes of the header; the last 8 are the checksum of the others.
const HEADER_BYTES: usize = 4_096;

type Writer = SectionFileWriter<Cursor<Vec<u8>>>;
type Written = Result<Writer, SectionFileError>;

/// A section file taken apart.
#[derive(Debug, Clone)]
pub(super) struct Parts {
    pub(super) head: FileHead,
    sections: Vec<(SectionId, ElementType, Vec<u8>)>,
}

impl Parts {
    /// Takes an intact file apart.
    pub(super) fn of(bytes: &[u8], kind: FileKind) -> Self {
        let file = SectionFile::from_mapped(map(bytes), Path::new("intact.mfi"), kind);
        let file = file.expect("it was written a moment ago");
        let part = |section: &memfold_index::file::Section| {
            let start = section.offset as usize;
            let values = bytes[start..start + section.bytes as usize].to_vec();
            (section.id, section.element, values)
        };
        Self { head: file.head().clone(), sections: file.sections().iter().map(part).collect() }
    }

    /// Makes a file of these parts as the bytes of a fuzzer say; `None` where no writer would make it.
    pub(super) fn changed(&self, changes: &mut Changes<'_>) -> Option<Vec<u8>> {
        let mut parts = self.clone();
        for _ in 0..changes.below(8) {
            parts.change(changes);
        }
        let mut bytes = parts.written().ok()?;
        changes.apply(&mut bytes);
        seal(&mut bytes);
        Some(bytes)
    }

    fn change(&mut self, changes: &mut Changes<'_>) {
        let at = changes.below(self.sections.len());
        match changes.below(8) {
            0 => {
                let to = changes.below(self.sections.len());
                let (kind, other) = (self.sections[at].0, self.sections[to].0);
                (self.sections[at].0, self.sections[to].0) = (other, kind);
            }
            1 => drop(self.sections.remove(at)),
            2 => self.change_head(changes),
            3 => changes.change(&mut self.head.parameters),
            _ => {
                let (_, element, bytes) = &mut self.sections[at];
                changes.change(bytes);
                let width = element.width() as usize;
                bytes.truncate(bytes.len() / width * width);
            }
        }
        if self.sections.is_empty() {
            self.sections.push((SectionId::new(11), ElementType::U8, Vec::new()));
        }
    }

    fn change_head(&mut self, changes: &mut Changes<'_>) {
        let head = &mut self.head;
        let which = changes.below(4);
        // Wraps where it is larger than the field.
        let number = changes.number() as u32;
        match which {
            0 => head.row_count = number,
            1 => head.node_count = number,
            2 => head.dim = number,
            _ => (head.row_count, head.node_count) = (number, number),
        }
    }

    fn written(&self) -> Result<Vec<u8>, SectionFileError> {
        let mut writer = SectionFileWriter::new(Cursor::new(Vec::new()), self.head.clone())?;
        for (kind, element, bytes) in &self.sections {
            writer = match element {
                ElementType::U8 => writer.section(*kind, bytes)?,
                ElementType::I8 => write(writer, *kind, bytes, i8::from_le_bytes)?,
                ElementType::U16 => write(writer, *kind, bytes, u16::from_le_bytes)?,
                ElementType::U32 => write(writer, *kind, bytes, u32::from_le_bytes)?,
                ElementType::I32 => write(writer, *kind, bytes, i32::from_le_bytes)?,
                ElementType::U64 => write(writer, *kind, bytes, u64::from_le_bytes)?,
                ElementType::I64 => write(writer, *kind, bytes, i64::from_le_bytes)?,
                ElementType::F32 => write(writer, *kind, bytes, f32::from_le_bytes)?,
                ElementType::F64 => write(writer, *kind, bytes, f64::from_le_bytes)?,
            };
        }
        Ok(writer.finish()?.into_inner())
    }
}

fn write<const N: usize, T: Element>(
    writer: Writer,
    kind: SectionId,
    bytes: &[u8],
    value: fn([u8; N]) -> T,
) -> Written {
    let values: Vec<T> = bytes.as_chunks::<N>().0.iter().map(|chunk| value(*chunk)).collect();
    writer.section(kind, &values)
}

/// Writes the checksum of a header anew.
fn seal(bytes: &mut [u8]) {
    if let Some((head, sum)) =
        bytes.get_mut(..HEADER_BYTES).and_then(|header| header.split_last_chunk_mut::<8>())
    {
        *sum = XxHash3_64::oneshot(head).to_le_bytes();
    }
}
