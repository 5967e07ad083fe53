//! Tests of section files: round trips here, damage and mutations in files of their own.

mod damage;
mod mutations;

use std::fs::File;
use std::io::{self, Cursor, Seek, SeekFrom, Write};
use std::path::Path;

use proptest::prelude::*;

use super::format::{BLOCK_BYTES, HEADER_BYTES, PARAMETERS_BYTES_MAX, SECTION_ALIGNMENT, checksum};
use super::*;
use crate::{Mapped, NoProgress};

const CODES: SectionId = SectionId::new(3);
const NORMS: SectionId = SectionId::new(4);
const LINKS: SectionId = SectionId::new(5);
const ROWIDS: SectionId = SectionId::new(9);

pub(crate) fn head(kind: FileKind, row_count: u32) -> FileHead {
    FileHead {
        kind,
        row_count,
        node_count: row_count,
        dim: 3,
        store_identity: *b"thirty-two bytes name this store",
        parameters: b"max_neighbors=16".to_vec(),
    }
}

/// A file of three sections that all end inside a page, one of them empty.
fn small_file() -> Vec<u8> {
    let writer = SectionFileWriter::new(Cursor::new(Vec::new()), head(FileKind::Index, 7)).unwrap();
    let writer = writer.section(CODES, &[1_i8, -2, 3, -4, 5]).unwrap();
    let writer = writer.section::<f32>(NORMS, &[]).unwrap();
    let writer = writer.section(LINKS, &[6_u32, 5, 4, 3]).unwrap();
    writer.finish().unwrap().into_inner()
}

/// Maps bytes through a file without a name, where there is one in memory.
fn map(bytes: &[u8]) -> Mapped {
    let mut file = scratch_file();
    file.write_all(bytes).unwrap();
    Mapped::from_file(&file).unwrap()
}

fn scratch_file() -> File {
    tempfile::tempfile_in("/dev/shm").or_else(|_| tempfile::tempfile()).unwrap()
}

fn open(bytes: &[u8]) -> Result<SectionFile, SectionFileError> {
    SectionFile::from_mapped(map(bytes), Path::new("some.mfi"), FileKind::Index)
}

#[test]
fn sections_come_back_as_they_were_written() {
    let file = open(&small_file()).unwrap();
    assert_eq!(*file.head(), head(FileKind::Index, 7));
    assert_eq!(file.section::<i8>(CODES).unwrap(), [1, -2, 3, -4, 5]);
    assert_eq!(file.section_of::<f32>(NORMS, 0).unwrap(), [] as [f32; 0]);
    assert_eq!(file.section_of::<u32>(LINKS, 4).unwrap(), [6, 5, 4, 3]);
    assert_eq!(file.path(), Path::new("some.mfi"));
    assert!(file.has(LINKS) && !file.has(ROWIDS));
    file.verify(&NoProgress).unwrap();
}

#[test]
fn layout_is_as_documented() {
    let bytes = small_file();
    let file = open(&bytes).unwrap();
    let places: Vec<_> =
        file.sections().iter().map(|s| (s.offset, s.bytes, s.first_block)).collect();
    assert_eq!(places, [(4_096, 5, 0), (8_192, 0, 1), (8_192, 16, 1)]);
    assert_eq!(file.byte_count(), 12_288 + 2 * 8);
    assert_eq!(bytes.len() as u64, file.byte_count());
    assert_eq!(&bytes[..8], b"\x89MFI\r\n\x1a\n");
    assert_eq!(bytes[4_096..4_102], [1, 0xFE, 3, 0xFC, 5, 0]);
    assert_eq!(bytes[8_192..8_200], [6, 0, 0, 0, 5, 0, 0, 0]);
}

/// Changes only with the format's version.
#[test]
fn the_same_input_makes_the_same_bytes_everywhere() {
    let bytes = small_file();
    assert_eq!(bytes, small_file());
    assert_eq!(open(&bytes).unwrap().fingerprint(), checksum(&bytes[..HEADER_BYTES]));
    assert_eq!(format!("{:016x}", checksum(&bytes)), "8d644c75dcc0b3ca");
}

#[test]
fn an_empty_index_is_a_file_too() {
    let writer = SectionFileWriter::new(Cursor::new(Vec::new()), head(FileKind::Index, 0)).unwrap();
    let bytes = writer.finish().unwrap().into_inner();
    assert_eq!(bytes.len(), HEADER_BYTES);
    let file = open(&bytes).unwrap();
    assert!(file.sections().is_empty());
    file.verify(&NoProgress).unwrap();
}

#[test]
fn wrong_requests_are_told_apart() {
    let file = open(&small_file()).unwrap();
    let missing = file.section::<u8>(ROWIDS).unwrap_err();
    assert_eq!(missing.to_string(), "some.mfi: no section 9");
    let other = file.section::<u8>(CODES).unwrap_err();
    assert_eq!(other.to_string(), "some.mfi: section 3 holds i8, expected u8");
    let short = file.section_of::<i8>(CODES, u64::MAX).unwrap_err();
    let expected = "some.mfi: section 3 holds 5 values, expected 18446744073709551615";
    assert_eq!(short.to_string(), expected);
    assert!(short.hint().unwrap().contains("memfold index build"));
    let kind = SectionFile::from_mapped(map(&small_file()), "f".as_ref(), FileKind::Fresh);
    assert_eq!(kind.unwrap_err().to_string(), "f: holds index, expected fresh rows");
}

#[test]
fn what_cannot_be_read_is_not_written() {
    let refused = |change: fn(&mut FileHead)| {
        let mut head = head(FileKind::Index, 7);
        change(&mut head);
        let error = SectionFileWriter::new(Cursor::new(Vec::new()), head).unwrap_err();
        error.to_string().split_once(": ").unwrap().1.to_owned()
    };
    assert_eq!(refused(|head| head.dim = 0), "dimension 0");
    assert_eq!(refused(|head| head.dim = 65_537), "dimension 65537");
    assert_eq!(refused(|head| head.node_count = 8), "8 nodes of 7 rows");
    assert_eq!(refused(|head| head.row_count = u32::MAX), "4294967295 rows");
    let long = refused(|head| head.parameters = vec![0; PARAMETERS_BYTES_MAX + 1]);
    assert_eq!(long, "925 bytes of parameters");
    let writer = SectionFileWriter::new(Cursor::new(Vec::new()), head(FileKind::Index, 7)).unwrap();
    let writer = writer.section(CODES, &[1_u8]).unwrap();
    let error = writer.section(CODES, &[1_u8]).unwrap_err();
    assert_eq!(error.to_string(), "a second section 3");
}

/// A disk with room for so many bytes.
struct SmallDisk {
    file: Cursor<Vec<u8>>,
    room: usize,
}

impl Write for SmallDisk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let fits = bytes.len().min(self.room);
        if fits == 0 && !bytes.is_empty() {
            return Err(io::ErrorKind::StorageFull.into());
        }
        self.room -= fits;
        self.file.write(&bytes[..fits])
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Seek for SmallDisk {
    fn seek(&mut self, to: SeekFrom) -> io::Result<u64> {
        self.file.seek(to)
    }
}

#[test]
fn a_full_disk_is_an_error_wherever_it_fills() {
    let write = |room| {
        let disk = SmallDisk { file: Cursor::new(Vec::new()), room };
        SectionFileWriter::new(disk, head(FileKind::Index, 7))?
            .section(CODES, &vec![7_u8; 150_000])?
            .chunks(LINKS, (0..9_u32).map(|node| vec![node; 300]))?
            .finish()
    };
    let needed = 4_096 + 151_552 + 12_288 + 4 * 8 + 4_096;
    assert!(write(needed).is_ok());
    for room in (0..needed).step_by(509).chain(needed - 9_000..needed) {
        let Err(error) = write(room) else { panic!("{room} bytes were enough") };
        assert!(error.hint().unwrap().contains("free some space"), "{room}: {error}");
    }
    let part = |room| write(room).map(|_| ()).unwrap_err().to_string();
    assert_eq!(part(0), "write the header");
    assert_eq!(part(4_096), "write section 3");
    assert_eq!(part(4_096 + 151_552), "write section 5");
    assert_eq!(part(needed - 4_100), "write the checksums");
    assert_eq!(part(needed - 1), "write the header");
}

#[test]
fn opening_reads_the_header_only() {
    // 256 GiB of which 8 KiB exist: reading any share of it would take minutes, copying it is impossible.
    let bytes = 1_u64 << 38;
    let mut header =
        header::Header { head: head(FileKind::Index, 7), sections: Vec::new(), table_checksum: 0 };
    let element = ElementType::U64;
    let id = CODES;
    header.sections.push(Section { id, element, offset: 4_096, bytes, first_block: 0 });
    let mut file = scratch_file();
    file.write_all(&header.encode()).unwrap();
    if file.set_len(header.file_bytes()).is_err() {
        return; // No sparse files of this size here.
    }
    let mapped = Mapped::from_file(&file).unwrap();
    let file = SectionFile::from_mapped(mapped, "huge".as_ref(), FileKind::Index).unwrap();
    let values = file.section_of::<u64>(CODES, bytes / 8).unwrap();
    assert_eq!(values.last(), Some(&0));
}

#[test]
fn verifying_can_be_interrupted() {
    let error =
        open(&small_file()).unwrap().verify(&crate::pool::StopAfter::default()).unwrap_err();
    assert!(matches!(error, SectionFileError::Cancelled), "{error}");
    assert_eq!(error.hint(), None);
}

fn any_section() -> impl Strategy<Value = Vec<u32>> {
    let block = BLOCK_BYTES / 4;
    let page = SECTION_ALIGNMENT as usize / 4;
    let length = prop_oneof![
        0..20_usize,
        page - 1..page + 2,
        block - 1..block + 2,
        2 * block - 1..2 * block + 2,
        0..5 * block
    ];
    (length, any::<u32>()).prop_map(|(length, seed)| {
        (0..length as u32).map(|position| position.wrapping_mul(2_654_435_761) ^ seed).collect()
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn any_sections_in_any_pieces_come_back(
        sections in prop::collection::vec(any_section(), 0..5),
        ids in Just((1..=SectionId::MAX).map(SectionId::new).collect::<Vec<_>>()).prop_shuffle(),
        piece in 1..40_000_usize,
    ) {
        let new = || SectionFileWriter::new(Cursor::new(Vec::new()), head(FileKind::Index, 9)).unwrap();
        let (mut whole, mut pieces) = (new(), new());
        for (values, &id) in sections.iter().zip(&ids) {
            whole = whole.section(id, values).unwrap();
            pieces = pieces.chunks(id, values.chunks(piece)).unwrap();
        }
        let bytes = whole.finish().unwrap().into_inner();
        prop_assert!(bytes == pieces.finish().unwrap().into_inner(), "pieces left a trace");
        let file = open(&bytes).unwrap();
        file.verify(&NoProgress).unwrap();
        for (values, &id) in sections.iter().zip(&ids) {
            prop_assert!(file.section::<u32>(id).unwrap() == values);
        }
        for section in file.sections() {
            prop_assert_eq!(section.offset % SECTION_ALIGNMENT, 0);
        }
    }
}
