//! Damaged files: every single bit, every length, and headers that lie with a straight face.

use super::*;
use crate::file::sections::format::MAGIC;

/// Writes a header's checksum anew, as one who forges it would.
pub(super) fn seal(bytes: &mut [u8]) {
    if bytes.len() >= HEADER_BYTES {
        let sum = checksum(&bytes[..HEADER_BYTES - 8]).to_le_bytes();
        bytes[HEADER_BYTES - 8..HEADER_BYTES].copy_from_slice(&sum);
    }
}

/// Tells whether neither opening nor verifying finds fault.
pub(super) fn is_accepted(bytes: &[u8]) -> bool {
    open(bytes).is_ok_and(|file| file.verify(&NoProgress).is_ok())
}

#[test]
fn every_flipped_bit_is_noticed() {
    let mut bytes = small_file();
    assert!(is_accepted(&bytes));
    for at in 0..bytes.len() {
        for bit in 0..8 {
            bytes[at] ^= 1 << bit;
            // What lies in the header is noticed when opening, what lies behind it when verifying.
            let noticed = match open(&bytes) {
                Ok(file) => at >= HEADER_BYTES && file.verify(&NoProgress).is_err(),
                Err(_) => at < HEADER_BYTES,
            };
            assert!(noticed, "bit {bit} of byte {at}");
            bytes[at] ^= 1 << bit;
        }
    }
}

#[test]
fn every_other_length_is_noticed() {
    let bytes = small_file();
    for length in 0..bytes.len() {
        let error = open(&bytes[..length]).unwrap_err();
        let named = match length {
            0..8 => matches!(error, SectionFileError::NotSections { .. }),
            _ => matches!(error, SectionFileError::Length { .. }),
        };
        assert!(named, "{length}: {error}");
        assert!(error.hint().unwrap().contains("memfold index build"));
    }
    for more in [1, 8, 4_096, 65_536] {
        let longer = [&bytes[..], &vec![0; more]].concat();
        let error = open(&longer).unwrap_err().to_string();
        let found = format!("some.mfi: {} bytes long, expected {}", longer.len(), bytes.len());
        assert_eq!(error, found);
    }
}

#[test]
fn other_files_are_named_for_what_they_are() {
    let found = |bytes: &[u8]| open(bytes).unwrap_err().to_string();
    assert_eq!(found(b""), "some.mfi: not an index file (empty)");
    let arrow = found(b"ARROW1\0\0and more");
    assert_eq!(arrow, "some.mfi: not an index file (begins with \"ARROW1\\x00\\x00\")");
    let zeros =
        "some.mfi: not an index file (begins with zeros, as one does that was never finished)";
    assert_eq!(found(&[0; 10_000]), zeros);
    let mut newer = small_file();
    newer[8] = 2;
    seal(&mut newer);
    assert_eq!(found(&newer), "some.mfi: format version 2, expected 1");
    let text_mode = [&MAGIC[..4], b"\n\x1a\n", &small_file()[8..]].concat();
    assert!(found(&text_mode).contains("not an index file"));
}

/// Entries of sections in the header.
const FIRST: usize = 1_024;
const SECOND: usize = FIRST + 32;
const THIRD: usize = SECOND + 32;

/// What a forged header says, where, and what the error says of it.
type Lie = (usize, Vec<u8>, usize, &'static str);

fn u32s(value: u32) -> Vec<u8> {
    value.to_le_bytes().to_vec()
}

fn u64s(value: u64) -> Vec<u8> {
    value.to_le_bytes().to_vec()
}

/// Puts each lie under a true checksum.
fn refuse(lies: Vec<Lie>) {
    for (at, lie, offset, found) in lies {
        let mut bytes = small_file();
        bytes[at..at + lie.len()].copy_from_slice(&lie);
        seal(&mut bytes);
        let error = open(&bytes).expect_err(found);
        assert_eq!(error.to_string(), format!("some.mfi: damaged at byte {offset}: {found}"));
    }
}

#[test]
fn forged_heads_are_refused() {
    refuse(vec![
        (12, u32s(0), 12, "unknown kind of file 0"),
        (12, u32s(7), 12, "unknown kind of file 7"),
        (16, u32s(u32::MAX), 16, "4294967295 rows"),
        (20, u32s(8), 20, "8 nodes of 7 rows"),
        (24, u32s(0), 24, "dimension 0"),
        (24, u32s(65_537), 24, "dimension 65537"),
        (28, u32s(2), 40, "table of checksums at byte 12288, expected 8192"),
        (28, u32s(4), FIRST + 96, "unknown section 0"),
        (28, u32s(65), 28, "65 sections, at most 64"),
        (28, u32s(u32::MAX), 28, "4294967295 sections, at most 64"),
        (32, u64s(12_305), 32, "length of the file 12305, expected 12304"),
        (40, u64s(u64::MAX), 40, "table of checksums at byte 18446744073709551615, expected 12288"),
        (48, u64s(3), 48, "count of checksums 3, expected 2"),
        (48, u64s(u64::MAX), 48, "count of checksums 18446744073709551615, expected 2"),
        (96, u32s(925), 96, "925 bytes of parameters"),
        (96, u32s(u32::MAX), 96, "4294967295 bytes of parameters"),
        (96, u32s(15), 115, "54 in an unused byte"),
        (1_023, vec![1], 1_023, "1 in an unused byte"),
        (THIRD + 32, vec![9], THIRD + 32, "9 in an unused byte"),
        (4_087, vec![255], 4_087, "255 in an unused byte"),
    ]);
}

#[test]
fn forged_sections_are_refused() {
    refuse(vec![
        (FIRST, u32s(0), FIRST, "unknown section 0"),
        (FIRST, u32s(35), FIRST, "unknown section 35"),
        (FIRST, u32s(5), THIRD, "a second section 5"),
        (FIRST + 4, u32s(10), FIRST + 4, "section 3 of unknown numbers 10"),
        (FIRST + 8, u64s(0), FIRST + 8, "section 3 at byte 0, expected 4096"),
        (
            FIRST + 8,
            u64s(u64::MAX),
            FIRST + 8,
            "section 3 at byte 18446744073709551615, expected 4096",
        ),
        (FIRST + 16, u64s(4_097), SECOND + 8, "section 4 at byte 8192, expected 12288"),
        (FIRST + 16, u64s(65_537), SECOND + 8, "section 4 at byte 8192, expected 73728"),
        (
            FIRST + 16,
            u64s(u64::MAX),
            FIRST + 16,
            "section 3 of 18446744073709551615 bytes, not a length of i8",
        ),
        (FIRST + 24, u64s(1), FIRST + 24, "section 3 with checksums from 1, expected 0"),
        (SECOND + 8, u64s(4_096), SECOND + 8, "section 4 at byte 4096, expected 8192"),
        (SECOND + 24, u64s(0), SECOND + 24, "section 4 with checksums from 0, expected 1"),
        (THIRD + 8, u64s(8_193), THIRD + 8, "section 5 at byte 8193, expected 8192"),
        (THIRD + 8, u64s(12_288), THIRD + 8, "section 5 at byte 12288, expected 8192"),
        (THIRD + 16, u64s(15), THIRD + 16, "section 5 of 15 bytes, not a length of u32"),
        (
            THIRD + 16,
            u64s(1 << 57),
            THIRD + 16,
            "section 5 of 144115188075855872 bytes, not a length of u32",
        ),
        (
            THIRD + 16,
            u64s(1 << 56),
            40,
            "table of checksums at byte 12288, expected 72057594037936128",
        ),
        (
            THIRD + 24,
            u64s(u64::MAX),
            THIRD + 24,
            "section 5 with checksums from 18446744073709551615, expected 1",
        ),
    ]);
}

#[test]
fn sections_may_not_change_places() {
    // The entries of two sections, then their contents.
    let mut bytes = small_file();
    let (first, third) = bytes[1_024..1_120].split_at_mut(64);
    first[..32].swap_with_slice(third);
    seal(&mut bytes);
    let error = open(&bytes).unwrap_err().to_string();
    assert_eq!(error, "some.mfi: damaged at byte 1032: section 5 at byte 8192, expected 4096");

    let mut bytes = small_file();
    let (header_and_first, second) = bytes.split_at_mut(8_192);
    header_and_first[4_096..].swap_with_slice(&mut second[..4_096]);
    let error = open(&bytes).unwrap().verify(&NoProgress).unwrap_err();
    assert_eq!(error.to_string(), "some.mfi: damaged: section 3, bytes 4096 to 4101");
}

#[test]
fn the_first_damage_is_named() {
    let writer = SectionFileWriter::new(Cursor::new(Vec::new()), head(FileKind::Index, 7)).unwrap();
    let writer = writer.section(SectionId::new(2), &vec![5_i8; 3 * BLOCK_BYTES + 9]).unwrap();
    let intact = writer.section(LINKS, &[1_u64, 2]).unwrap().finish().unwrap();
    let verify = |damage: &[usize]| {
        let mut bytes = intact.get_ref().clone();
        damage.iter().for_each(|&at| bytes[at] ^= 0x10);
        let error = open(&bytes).unwrap().verify(&NoProgress).unwrap_err();
        assert!(error.hint().unwrap().contains("memfold index build"));
        error.to_string()
    };
    let (slab, links) = (4_096, 4_096 + 3 * BLOCK_BYTES + 4_096);
    let table = links + 4_096;
    let block = "some.mfi: damaged: section 2, bytes";
    assert_eq!(verify(&[slab + BLOCK_BYTES, links]), format!("{block} 69632 to 135168"));
    assert_eq!(verify(&[slab + 3 * BLOCK_BYTES + 8]), format!("{block} 200704 to 200713"));
    let padding = "some.mfi: damaged: byte 200713 behind section 2 is not zero";
    assert_eq!(verify(&[slab + 3 * BLOCK_BYTES + 9, links]), padding);
    let last = format!("some.mfi: damaged: section 5, bytes {links} to {}", links + 16);
    assert_eq!(verify(&[links + 15]), last);
    let padding = format!("some.mfi: damaged: byte {} behind section 5 is not zero", table - 1);
    assert_eq!(verify(&[table - 1]), padding);
    let sums = format!("some.mfi: damaged: checksums from byte {table} on");
    assert_eq!(verify(&[table, slab]), sums);
}
