//! MANIFEST: one small text that names the live generation.
//!
//! ```text
//! memfold manifest 2
//! generation 42
//! previous 41
//! file columns.arrow 1540005658 6c5e8f2f9d0a1b34 27d4eb2f165667c5
//! file index.mfi 520183808 0f1e2d3c4b5a6978 85ebca77c2b2ae63
//! checksum 8d644c75dcc0b3ca
//! ```
//!
//! A file's line gives its length, the checksum of its first 4 KiB, which is compared whenever it is
//! opened, and that of all its bytes, which `index info --verify` compares. There is one
//! way to write a manifest; anything else is damage.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{Read as _, Write as _};
use std::path::Path;

use super::disk::{self, MANIFEST};
use super::{FileMode, GenerationError};
use crate::file::sections::{HEADER_BYTES, checksum};

/// Longest manifest, with about 100 files of the longest names; four with short ones are usual.
const BYTES_MAX: u64 = 16_384;

const TITLE: &str = "memfold manifest ";
const VERSION: &str = "2";

/// The live generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Manifest {
    pub(super) number: u64,
    /// The generation before, which is kept.
    pub(super) previous: Option<u64>,
    /// By name.
    pub(super) files: Vec<ManifestFile>,
}

/// A file of the live generation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ManifestFile {
    pub(super) name: String,
    pub(super) bytes: u64,
    /// Of the first 4 KiB, or of all there is.
    pub(super) head_checksum: u64,
    /// Of all bytes.
    pub(super) checksum: u64,
}

impl ManifestFile {
    pub(super) fn of(name: String, bytes: &[u8]) -> Self {
        let (head_checksum, checksum) = (head_checksum(bytes), checksum(bytes));
        Self { name, bytes: bytes.len() as u64, head_checksum, checksum }
    }
}

/// Returns the checksum that is compared whenever a file is opened.
pub(super) fn head_checksum(bytes: &[u8]) -> u64 {
    checksum(&bytes[..bytes.len().min(HEADER_BYTES)])
}

impl Manifest {
    /// Returns the numbers of the generations that stay.
    pub(super) fn kept(&self) -> Vec<u64> {
        [self.number].into_iter().chain(self.previous).collect()
    }

    fn encode(&self) -> String {
        let previous = self.previous.map_or("none".to_owned(), |number| number.to_string());
        let mut text =
            format!("{TITLE}{VERSION}\ngeneration {}\nprevious {previous}\n", self.number);
        // Writing to a string cannot fail.
        for ManifestFile { name, bytes, head_checksum, checksum } in &self.files {
            let _ = writeln!(text, "file {name} {bytes} {head_checksum:016x} {checksum:016x}");
        }
        let sum = checksum(text.as_bytes());
        let _ = writeln!(text, "checksum {sum:016x}");
        text
    }

    fn decode(path: &Path, bytes: &[u8]) -> Result<Self, GenerationError> {
        let damaged = |found: &str| GenerationError::damaged(path, format!("damaged: {found}"));
        if bytes.len() as u64 > BYTES_MAX {
            return Err(damaged(TOO_LONG));
        }
        let text = std::str::from_utf8(bytes).map_err(|_| damaged("it is no text"))?;
        let (title, rest) = text.split_once('\n').ok_or_else(|| damaged("it is cut short"))?;
        let version = title.strip_prefix(TITLE).ok_or_else(|| damaged("it begins otherwise"))?;
        if version != VERSION {
            let found = format!("version {}, expected {VERSION}", version.escape_debug());
            return Err(GenerationError::damaged(path, found));
        }
        let manifest = parse(rest).ok_or_else(|| damaged("a line is missing or misspelt"))?;
        // One way to write it: this settles the checksum, the order of lines, zeros and spaces at once.
        if manifest.encode() != text {
            return Err(damaged("it does not fit its checksum"));
        }
        if !manifest.files.is_sorted_by(|a, b| a.name < b.name) {
            return Err(damaged("files are out of order"));
        }
        Ok(manifest)
    }

    /// Reads the manifest of a folder; `None` where nothing has been published.
    pub(super) fn read(folder: &Path) -> Result<Option<Self>, GenerationError> {
        let path = folder.join(MANIFEST);
        let Some(file) = disk::open_regular("read", &path, OpenOptions::new().read(true))? else {
            return Ok(None);
        };
        let mut bytes = Vec::new();
        let read = file.take(BYTES_MAX + 1).read_to_end(&mut bytes);
        read.map_err(GenerationError::io("read", &path))?;
        Self::decode(&path, &bytes).map(Some)
    }

    /// Writes it aside and moves it to its place: from then on this generation is live.
    pub(super) fn publish(&self, folder: &Path, mode: FileMode) -> Result<(), GenerationError> {
        let path = folder.join(MANIFEST);
        let pending = disk::pending(&path);
        let text = self.encode();
        if text.len() as u64 > BYTES_MAX {
            return Err(GenerationError::damaged(&path, format!("damaged: {TOO_LONG}")));
        }
        disk::remove(&pending)?;
        let mut file = disk::create_file(&pending, mode)?;
        file.write_all(text.as_bytes()).map_err(GenerationError::io("write", &pending))?;
        disk::publish(&path, mode)
    }
}

const TOO_LONG: &str = "it is longer than 16384 bytes";

fn parse(text: &str) -> Option<Manifest> {
    let mut lines = text.lines();
    let number = lines.next()?.strip_prefix("generation ")?.parse().ok()?;
    let previous = match lines.next()?.strip_prefix("previous ")? {
        "none" => None,
        number => Some(number.parse().ok()?),
    };
    let mut files = Vec::new();
    for line in lines {
        if line.starts_with("checksum ") {
            return Some(Manifest { number, previous, files });
        }
        let mut words = line.strip_prefix("file ")?.split(' ');
        let name = words.next().filter(|name| disk::is_file_name(name))?.to_owned();
        let bytes = words.next()?.parse().ok()?;
        let mut checksum = || u64::from_str_radix(words.next()?, 16).ok();
        let (head_checksum, checksum) = (checksum()?, checksum()?);
        files.push(ManifestFile { name, bytes, head_checksum, checksum });
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const EXAMPLE: &str = "memfold manifest 2\ngeneration 42\nprevious 41\n\
        file columns.arrow 1540005658 6c5e8f2f9d0a1b34 27d4eb2f165667c5\n\
        file index.mfi 520183808 0f1e2d3c4b5a6978 85ebca77c2b2ae63\n";

    fn decode(bytes: &[u8]) -> Result<Manifest, GenerationError> {
        Manifest::decode(MANIFEST.as_ref(), bytes)
    }

    /// Adds a true checksum.
    fn seal(body: &str) -> String {
        format!("{body}checksum {:016x}\n", checksum(body.as_bytes()))
    }

    /// The bytes change only with the version.
    #[test]
    fn a_manifest_reads_as_documented() {
        let manifest = decode(seal(EXAMPLE).as_bytes()).unwrap();
        assert_eq!((manifest.number, manifest.previous), (42, Some(41)));
        let [columns, index] = &manifest.files[..] else { panic!("{manifest:?}") };
        assert_eq!((&*columns.name, columns.bytes), ("columns.arrow", 1_540_005_658));
        assert_eq!(index.head_checksum, 0x0f1e_2d3c_4b5a_6978);
        assert_eq!(index.checksum, 0x85eb_ca77_c2b2_ae63);
        assert_eq!(manifest.encode(), seal(EXAMPLE));
        let first = Manifest { previous: None, files: Vec::new(), ..manifest };
        assert_eq!(decode(first.encode().as_bytes()).unwrap(), first);
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let mut bytes = seal(EXAMPLE).into_bytes();
        for at in 0..bytes.len() {
            assert!(decode(&bytes[..at]).is_err(), "{at}");
            for bit in 0..8 {
                bytes[at] ^= 1 << bit;
                assert!(decode(&bytes).is_err(), "bit {bit} of byte {at}");
                bytes[at] ^= 1 << bit;
            }
        }
        bytes.push(b'\n');
        assert!(decode(&bytes).is_err());
    }

    /// Forged ones, with a true checksum.
    #[test]
    fn there_is_one_way_to_write_it() {
        let long = "file a 1 0000000000000000 0000000000000000\n".repeat(400);
        for (from, to) in [
            ("generation 42", "generation 042"),
            ("generation 42", "generation +42"),
            ("generation 42", "generation 42 "),
            ("generation 42", "generation 99999999999999999999"),
            ("previous 41", "previous"),
            ("previous 41\n", ""),
            ("42\n", "42\r\n"),
            ("index.mfi", "../../index.mfi"),
            ("index.mfi", "columns.arrow"),
            ("index.mfi", "a"),
            ("0f1e2d", "0F1E2D"),
            (" 85ebca77c2b2ae63", ""),
            ("520183808", "-1"),
            ("file columns.arrow", &*(long + "file columns.arrow")),
        ] {
            let forged = decode(seal(&EXAMPLE.replace(from, to)).as_bytes());
            assert!(matches!(forged, Err(GenerationError::Damaged { .. })), "{to:?}");
        }
        for version in ["1", "3"] {
            let other = seal(&EXAMPLE.replace("manifest 2", &format!("manifest {version}")));
            let error = decode(other.as_bytes()).unwrap_err().to_string();
            assert_eq!(error, format!("MANIFEST: version {version}, expected 2"));
        }
    }
}
