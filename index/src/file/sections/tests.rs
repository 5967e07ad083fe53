//! Tests of section files: round trips and damage. The suite `fuzzed` changes whole files.

use std::fs::File;
use std::io::{self, Cursor, Seek, SeekFrom, Write};
use std::path::Path;

use proptest::prelude::*;

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

fn writer() -> SectionFileWriter<Cursor<Vec<u8>>> {
    SectionFileWriter::new(Cursor::new(Vec::new()), head(FileKind::Index, 7)).unwrap()
}

/// A file of three sections that all end inside a page, one of them empty.
fn small_file() -> Vec<u8> {
    let writer = writer().section(CODES, &[1_i8, -2, 3, -4, 5]).unwrap();
    let writer = writer.section::<f32>(NORMS, &[]).unwrap();
    let writer = writer.section(LINKS, &[6_u32, 5, 4, 3]).unwrap();
    writer.finish().unwrap().into_inner()
}

fn scratch_file() -> File {
    tempfile::tempfile_in("/dev/shm").or_else(|_| tempfile::tempfile()).unwrap()
}

fn open_as(bytes: &[u8], kind: FileKind) -> Result<SectionFile, SectionFileError> {
    let mut file = scratch_file();
    file.write_all(bytes).unwrap();
    SectionFile::from_mapped(Mapped::from_file(&file).unwrap(), Path::new("some.mfi"), kind)
}

fn open(bytes: &[u8]) -> Result<SectionFile, SectionFileError> {
    open_as(bytes, FileKind::Index)
}

/// Returns the error of opening or verifying, without the file's name.
fn error(bytes: &[u8]) -> String {
    let error = open(bytes).and_then(|file| file.verify(&NoProgress)).unwrap_err();
    assert!(error.hint().unwrap().contains("memfold index build"));
    error.to_string().strip_prefix("some.mfi: ").unwrap().to_owned()
}

/// Writes a header's checksum anew, as one who forges it would.
fn seal(bytes: &mut [u8]) {
    if let Some(header) = bytes.first_chunk_mut::<HEADER_BYTES>() {
        let (fields, sum) = header.split_last_chunk_mut::<8>().unwrap();
        *sum = checksum(fields).to_le_bytes();
    }
}

#[test]
fn sections_come_back_as_they_were_written() {
    let file = open(&small_file()).unwrap();
    assert_eq!(*file.head(), head(FileKind::Index, 7));
    assert_eq!(file.section::<i8>(CODES).unwrap(), [1, -2, 3, -4, 5]);
    assert_eq!(file.section_of::<f32>(NORMS, 0).unwrap(), [] as [f32; 0]);
    assert_eq!(file.section_of::<u32>(LINKS, 4).unwrap(), [6, 5, 4, 3]);
    file.verify(&NoProgress).unwrap();
    let said = |error: SectionFileError| error.to_string();
    let short = "some.mfi: section 3 holds 5 values, expected 18446744073709551615";
    assert_eq!(said(file.section_of::<i8>(CODES, u64::MAX).unwrap_err()), short);
    let wrong = "some.mfi: section 3 holds i8, expected u8";
    assert_eq!(said(file.section::<u8>(CODES).unwrap_err()), wrong);
    assert_eq!(said(file.section::<u8>(ROWIDS).unwrap_err()), "some.mfi: no section 9");
    let kind = open_as(&small_file(), FileKind::Fresh).unwrap_err();
    assert_eq!(said(kind), "some.mfi: holds index, expected fresh rows");

    let stopped = file.verify(&crate::testing::StopAfter::default()).unwrap_err();
    assert!(matches!(stopped, SectionFileError::Cancelled), "{stopped}");
    assert_eq!(stopped.hint(), None);

    let empty = writer().finish().unwrap().into_inner();
    assert_eq!(empty.len(), HEADER_BYTES);
    let file = open(&empty).unwrap();
    assert!(file.sections().is_empty());
    file.verify(&NoProgress).unwrap();
}

/// Changes only with the format's version.
#[test]
fn layout_is_as_documented() {
    let bytes = small_file();
    assert_eq!(format!("{:016x}", checksum(&bytes)), "8d644c75dcc0b3ca");
    let file = open(&bytes).unwrap();
    assert_eq!(file.fingerprint(), checksum(&bytes[..HEADER_BYTES]));
    let places = file.sections().iter().map(|s| (s.offset, s.bytes, s.first_block));
    assert!(places.eq([(4_096, 5, 0), (8_192, 0, 1), (8_192, 16, 1)]));
    assert_eq!((file.byte_count(), bytes.len()), (12_288 + 2 * 8, 12_288 + 2 * 8));
    assert_eq!(&bytes[..8], b"\x89MFI\r\n\x1a\n");
    assert_eq!(bytes[4_096..4_102], [1, 0xFE, 3, 0xFC, 5, 0]);
    assert_eq!(bytes[8_192..8_200], [6, 0, 0, 0, 5, 0, 0, 0]);
    // From the definition of XXH3_64bits with seed 0: the empty input.
    assert_eq!(checksum(b""), 0x2d06_8005_38d3_94c2);
}

#[test]
fn unreadable_heads_and_repeated_sections_are_not_written() {
    type Change = fn(&mut FileHead);
    let refusals: [(&str, Change); 5] = [
        ("dimension 0", |head| head.dim = 0),
        ("dimension 65537", |head| head.dim = 65_537),
        ("8 nodes of 7 rows", |head| head.node_count = 8),
        ("4294967295 rows", |head| head.row_count = u32::MAX),
        ("925 bytes of parameters", |h| h.parameters = vec![0; PARAMETERS_BYTES_MAX + 1]),
    ];
    for (reason, change) in refusals {
        let mut head = head(FileKind::Index, 7);
        change(&mut head);
        let error = SectionFileWriter::new(Cursor::new(Vec::new()), head).unwrap_err();
        assert_eq!(error.to_string(), format!("head of an index file: {reason}"));
    }
    let error = writer().section(CODES, &[1_u8]).unwrap().section(CODES, &[1_u8]).unwrap_err();
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
        let part = match room {
            0..4_096 => "the header",
            4_096..155_648 => "section 3",
            155_648..167_936 => "section 5",
            167_936..167_968 => "the checksums",
            _ => "the header",
        };
        assert_eq!(error.to_string(), format!("write {part}"));
    }
}

#[test]
fn opening_reads_the_header_only() {
    // 256 GiB of which 8 KiB exist: reading any share of it would take minutes, copying it is impossible.
    let bytes = 1_u64 << 38;
    let (head, sections) = (head(FileKind::Index, 7), Vec::new());
    let mut header = Header { head, sections, table_checksum: 0 };
    header.push(CODES, ElementType::U64, bytes);
    let mut file = scratch_file();
    file.write_all(&header.encode()).unwrap();
    if file.set_len(header.file_bytes()).is_err() {
        return; // No sparse files of this size here.
    }
    let mapped = Mapped::from_file(&file).unwrap();
    let file = SectionFile::from_mapped(mapped, "huge".as_ref(), FileKind::Index).unwrap();
    assert_eq!(file.section_of::<u64>(CODES, bytes / 8).unwrap().last(), Some(&0));
}

#[test]
fn every_flipped_bit_and_every_other_length_is_noticed() {
    let mut bytes = small_file();
    for at in 0..bytes.len() {
        for bit in 0..8 {
            bytes[at] ^= 1 << bit;
            // Damage in the header is noticed when opening, the rest when verifying.
            let noticed = match open(&bytes) {
                Ok(file) => at >= HEADER_BYTES && file.verify(&NoProgress).is_err(),
                Err(_) => at < HEADER_BYTES,
            };
            assert!(noticed, "bit {bit} of byte {at}");
            bytes[at] ^= 1 << bit;
        }
        let expected = if at < HEADER_BYTES { HEADER_BYTES } else { bytes.len() };
        let length = format!("{at} bytes long, expected {expected}");
        let found = error(&bytes[..at]);
        assert!(found == length || at < 8 && found.starts_with("not an index file"), "{found}");
    }
    for more in [1, 8, 4_096, 65_536] {
        let longer = [&bytes[..], &vec![0; more]].concat();
        let expected = format!("{} bytes long, expected {}", longer.len(), bytes.len());
        assert_eq!(error(&longer), expected);
    }
}

#[test]
fn other_files_are_named_for_what_they_are() {
    let arrow = "not an index file (begins with \"ARROW1\\x00\\x00\")";
    let zeros = "not an index file (begins with zeros, as one does that was never finished)";
    let text_mode = [&MAGIC[..4], b"\n\x1a\n", &small_file()[8..]].concat();
    let begins = "not an index file (begins with \"\\x89MFI\\n\\x1a\\n\\x00\")";
    let mut newer = small_file();
    newer[8] = 2;
    for (bytes, expected) in [
        (&b""[..], "not an index file (empty)"),
        (b"ARROW1\0\0and more", arrow),
        (&[0; 10_000], zeros),
        (&text_mode, &begins.replace("\\x00", "\\x01")),
        (&newer, "format version 2, expected 1"),
    ] {
        assert_eq!(error(bytes), expected);
    }
}

/// Each field of the header, changed under a true checksum: where, its width and value, and the error with its
/// offset.
#[test]
fn forged_headers_are_refused() {
    // Entries of sections.
    const A: usize = 1_024;
    const B: usize = A + 32;
    const C: usize = B + 32;
    let lengths = "not what the lengths of the sections give";
    for (at, width, value, byte, found) in [
        (12, 4, 0, 12, "unknown kind of file 0"),
        (12, 4, 8, 12, "unknown kind of file 8"),
        (16, 4, u64::MAX, 16, "4294967295 rows"),
        (20, 4, 8, 20, "8 nodes of 7 rows"),
        (24, 4, 0, 24, "dimension 0"),
        (24, 4, 65_537, 24, "dimension 65537"),
        (28, 4, 2, 32, lengths),
        (28, 4, 4, A + 96, "unknown section 0"),
        (28, 4, 65, 28, "65 sections, at most 64"),
        (28, 4, u64::MAX, 28, "4294967295 sections, at most 64"),
        (32, 8, 12_305, 32, lengths),
        (40, 8, u64::MAX, 40, lengths),
        (48, 8, 3, 48, lengths),
        (48, 8, u64::MAX, 48, lengths),
        (96, 4, 925, 96, "925 bytes of parameters"),
        (96, 4, u64::MAX, 96, "4294967295 bytes of parameters"),
        (96, 4, 15, 115, lengths),
        (1_023, 1, 1, 1_023, lengths),
        (C + 32, 1, 9, C + 32, lengths),
        (4_087, 1, 255, 4_087, lengths),
        (A, 4, 0, A, "unknown section 0"),
        (A, 4, 36, A, "unknown section 36"),
        (A, 4, 5, C, "a second section 5"),
        (A + 4, 4, 0, A + 4, "section 3 of unknown numbers 0"),
        (A + 4, 4, 10, A + 4, "section 3 of unknown numbers 10"),
        (A + 8, 8, 0, A + 9, lengths),
        (A + 8, 8, u64::MAX, A + 8, lengths),
        (A + 16, 8, 4_097, 33, lengths),
        (A + 16, 8, 65_537, 32, lengths),
        (
            A + 16,
            8,
            u64::MAX,
            A + 16,
            "section 3 of 18446744073709551615 bytes, not a length of i8",
        ),
        (A + 24, 8, 1, A + 24, lengths),
        (B + 8, 8, 4_096, B + 9, lengths),
        (B + 24, 8, 0, B + 24, lengths),
        (C + 8, 8, 8_193, C + 8, lengths),
        (C + 8, 8, 12_288, C + 9, lengths),
        (C + 16, 8, 15, C + 16, "section 5 of 15 bytes, not a length of u32"),
        (C + 16, 8, 1 << 57, C + 16, "section 5 of 144115188075855872 bytes, not a length of u32"),
        (C + 16, 8, 1 << 56, 32, lengths),
        (C + 24, 8, u64::MAX, C + 24, lengths),
    ] {
        let mut bytes = small_file();
        bytes[at..at + width].copy_from_slice(&value.to_le_bytes()[..width]);
        seal(&mut bytes);
        assert_eq!(error(&bytes), format!("damaged at byte {byte}: {found}"), "{at} {value}");
    }
}

#[test]
fn the_first_damage_is_named() {
    let writer = writer().section(SectionId::new(2), &vec![5_i8; 3 * BLOCK_BYTES + 9]).unwrap();
    let intact = writer.section(LINKS, &[1_u64, 2]).unwrap().finish().unwrap().into_inner();
    // The second section and the table.
    let (links, table) = (204_800, 208_896);
    for (damage, expected) in [
        (&[4_096 + BLOCK_BYTES, links][..], "damaged: section 2, bytes 69632 to 135168"),
        (&[200_712], "damaged: section 2, bytes 200704 to 200713"),
        (&[200_713, links], "damaged: byte 200713 behind section 2 is not zero"),
        (&[links + 15], "damaged: section 5, bytes 204800 to 204816"),
        (&[table - 1], "damaged: byte 208895 behind section 5 is not zero"),
        (&[table, 4_096], "damaged: checksums from byte 208896 on"),
    ] {
        let mut bytes = intact.clone();
        damage.iter().for_each(|&at| bytes[at] ^= 0x10);
        assert_eq!(error(&bytes), expected);
    }
    // Sections may not change places: their entries, then their contents.
    let mut bytes = small_file();
    let (first, third) = bytes[1_024..1_120].split_at_mut(64);
    first[..32].swap_with_slice(third);
    seal(&mut bytes);
    assert!(error(&bytes).starts_with("damaged at byte 1033: "), "{}", error(&bytes));
    let mut bytes = small_file();
    let (first, second) = bytes[4_096..12_288].split_at_mut(4_096);
    first.swap_with_slice(second);
    assert_eq!(error(&bytes), "damaged: section 3, bytes 4096 to 4101");
}

fn any_section() -> impl Strategy<Value = Vec<u32>> {
    let (page, block) = (SECTION_ALIGNMENT as usize / 4, BLOCK_BYTES / 4);
    let near = |length: usize| length - 1..length + 2;
    let length = prop_oneof![0..20_usize, near(page), near(block), near(2 * block), 0..5 * block];
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
        let (mut whole, mut pieces) = (writer(), writer());
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
        prop_assert!(file.sections().iter().all(|s| s.offset.is_multiple_of(SECTION_ALIGNMENT)));
    }
}
