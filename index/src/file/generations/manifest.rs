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

use std::fmt::Write;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use super::disk::Disk;
use super::{FileMode, GenerationError, names};
use crate::file::sections::{HEADER_BYTES, checksum};

/// Longest manifest.
const BYTES_MAX: u64 = 16_384;

// Five lines of other things, and for each file its name and 61 bytes at most.
const _: () =
    assert!(5 * 64 + names::FILES_MAX * (names::NAME_BYTES_MAX + 61) <= BYTES_MAX as usize);

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

/// Why a text is no manifest.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ManifestFault {
    Version(String),
    Damaged(String),
}

/// Returns the checksum that a manifest gives for a file.
pub(super) fn head_checksum(bytes: &[u8]) -> u64 {
    checksum(&bytes[..bytes.len().min(HEADER_BYTES)])
}

impl Manifest {
    pub(super) fn encode(&self) -> String {
        let previous = self.previous.map_or("none".to_owned(), |number| number.to_string());
        let mut text =
            format!("{TITLE}{VERSION}\ngeneration {}\nprevious {previous}\n", self.number);
        for file in &self.files {
            let ManifestFile { name, bytes, head_checksum, checksum } = file;
            // Writing to a string cannot fail.
            let _ = writeln!(text, "file {name} {bytes} {head_checksum:016x} {checksum:016x}");
        }
        let sum = checksum(text.as_bytes());
        let _ = writeln!(text, "checksum {sum:016x}");
        text
    }

    pub(super) fn decode(bytes: &[u8]) -> Result<Self, ManifestFault> {
        let damaged = |found: &str| ManifestFault::Damaged(found.into());
        let text = std::str::from_utf8(bytes).map_err(|_| damaged("it is no text"))?;
        let (title, rest) = text.split_once('\n').ok_or_else(|| damaged("it is cut short"))?;
        let version = title.strip_prefix(TITLE).ok_or_else(|| damaged("it begins otherwise"))?;
        if version != VERSION {
            return Err(ManifestFault::Version(version.into()));
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
        let path = folder.join(names::MANIFEST);
        let Some(bytes) = read_small(&path)? else {
            return Ok(None);
        };
        match Self::decode(&bytes) {
            Ok(manifest) => Ok(Some(manifest)),
            Err(ManifestFault::Version(found)) => {
                Err(GenerationError::ManifestVersion { path, found })
            }
            Err(ManifestFault::Damaged(found)) => Err(GenerationError::Manifest { path, found }),
        }
    }

    /// Writes it aside, durable, and moves it to its place: from then on this generation is live.
    pub(super) fn publish(
        &self,
        disk: &Disk,
        folder: &Path,
        mode: FileMode,
    ) -> Result<(), GenerationError> {
        let path = folder.join(names::MANIFEST);
        let pending = pending_path(folder);
        disk.remove(&pending)?;
        let mut file = disk.create_file(&pending, mode)?;
        disk.write(&mut file, &pending, self.encode().as_bytes())?;
        disk.sync_file(&file, &pending)?;
        disk.rename(&pending, &path)
    }
}

/// Where a manifest is written before it takes its place.
pub(super) fn pending_path(folder: &Path) -> std::path::PathBuf {
    folder.join(names::MANIFEST.to_owned() + names::PENDING)
}

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
        let name = words.next().filter(|name| names::is_file(name))?.to_owned();
        let bytes = words.next()?.parse().ok()?;
        let head_checksum = u64::from_str_radix(words.next()?, 16).ok()?;
        let checksum = u64::from_str_radix(words.next()?, 16).ok()?;
        files.push(ManifestFile { name, bytes, head_checksum, checksum });
    }
    None
}

/// Reads a small regular file; `None` where there is none.
fn read_small(path: &Path) -> Result<Option<Vec<u8>>, GenerationError> {
    match std::fs::symlink_metadata(path) {
        Ok(found) if found.is_file() => {}
        Ok(_) => return Err(GenerationError::NotAFile { path: path.into() }),
        Err(error) => return absent(path, error).map(|()| None),
    }
    let file = match File::open(path) {
        Ok(file) => file,
        Err(error) => return absent(path, error).map(|()| None),
    };
    let mut bytes = Vec::new();
    file.take(BYTES_MAX + 1).read_to_end(&mut bytes).map_err(GenerationError::io("read", path))?;
    if bytes.len() as u64 > BYTES_MAX {
        let found = format!("it is longer than {BYTES_MAX} bytes");
        return Err(GenerationError::Manifest { path: path.into(), found });
    }
    Ok(Some(bytes))
}

/// Accepts that there is no manifest, but not that there is no folder to hold one.
fn absent(path: &Path, error: io::Error) -> Result<(), GenerationError> {
    match error.kind() {
        io::ErrorKind::NotFound => Ok(()),
        io::ErrorKind::NotADirectory => {
            let folder = path.parent().unwrap_or(path);
            Err(GenerationError::NotAFolder { path: folder.into() })
        }
        _ => Err(GenerationError::io("read", path)(error)),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn example() -> Manifest {
        let file = |name: &str, bytes, head_checksum, checksum| ManifestFile {
            name: name.into(),
            bytes,
            head_checksum,
            checksum,
        };
        let (columns, index) = (names::COLUMNS_FILE, names::INDEX_FILE);
        let files = vec![
            file(columns, 1_540_005_658, 0x6c5e_8f2f_9d0a_1b34, 0x27d4_eb2f_1656_67c5),
            file(index, 520_183_808, 0x0f1e_2d3c_4b5a_6978, 0x85eb_ca77_c2b2_ae63),
        ];
        Manifest { number: 42, previous: Some(41), files }
    }

    #[test]
    fn a_manifest_reads_as_documented() {
        let text = example().encode();
        let expected = "memfold manifest 2\ngeneration 42\nprevious 41\n\
            file columns.arrow 1540005658 6c5e8f2f9d0a1b34 27d4eb2f165667c5\n\
            file index.mfi 520183808 0f1e2d3c4b5a6978 85ebca77c2b2ae63\nchecksum ";
        assert_eq!(text[..text.len() - 17], *expected);
        assert_eq!(Manifest::decode(text.as_bytes()), Ok(example()));
        let first = Manifest { previous: None, files: Vec::new(), ..example() };
        assert_eq!(Manifest::decode(first.encode().as_bytes()), Ok(first));
    }

    #[test]
    fn every_flipped_bit_and_every_cut_is_noticed() {
        let mut bytes = example().encode().into_bytes();
        for at in 0..bytes.len() {
            assert!(Manifest::decode(&bytes[..at]).is_err(), "{at}");
            for bit in 0..8 {
                bytes[at] ^= 1 << bit;
                assert!(Manifest::decode(&bytes).is_err(), "bit {bit} of byte {at}");
                bytes[at] ^= 1 << bit;
            }
        }
        bytes.push(b'\n');
        assert!(Manifest::decode(&bytes).is_err());
    }

    /// What a person might write with a true checksum.
    #[test]
    fn there_is_one_way_to_write_it() {
        let text = example().encode();
        let forged = |from: &str, to: &str| {
            let body = text[..text.len() - 26].replace(from, to);
            let sum = checksum(body.as_bytes());
            Manifest::decode(format!("{body}checksum {sum:016x}\n").as_bytes())
        };
        assert_eq!(forged("", ""), Ok(example()));
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
        ] {
            assert!(matches!(forged(from, to), Err(ManifestFault::Damaged(_))), "{to:?}");
        }
        for version in ["1", "3"] {
            let found = forged("manifest 2", &format!("manifest {version}"));
            assert_eq!(found, Err(ManifestFault::Version(version.into())));
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_error_or_a_manifest(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
            prop_assert!(Manifest::decode(&bytes).is_err());
        }

        #[test]
        fn any_lines_are_an_error_or_a_manifest(
            lines in prop::collection::vec(
                "(generation|previous|file|checksum|memfold manifest) [0-9a-z.]{0,9} ?[0-9a-f]{0,20}",
                0..9,
            ),
        ) {
            let text = format!("memfold manifest 2\n{}\n", lines.join("\n"));
            prop_assert!(Manifest::decode(text.as_bytes()).is_err());
        }
    }
}
