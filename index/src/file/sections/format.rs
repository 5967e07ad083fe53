//! Numbers and names of the format.

use std::fmt;
use std::hash::Hasher as _;

use bytemuck::Pod;
use twox_hash::XxHash3_64;

/// The first bytes of every file; like PNG's they betray transfers that change line ends or drop a bit.
pub(crate) const MAGIC: [u8; 8] = *b"\x89MFI\r\n\x1a\n";
/// The version that this code writes and the only one that it reads.
pub(crate) const VERSION: u32 = 1;
/// Bytes of the header.
pub(crate) const HEADER_BYTES: usize = 4_096;
/// Sections and the table begin at multiples of this many bytes, a page.
pub(crate) const SECTION_ALIGNMENT: u64 = 4_096;
/// Bytes of a section under one checksum; the last block of a section may be shorter.
pub(crate) const BLOCK_BYTES: usize = 65_536;
/// Bytes of a checksum.
pub(crate) const CHECKSUM_BYTES: u64 = 8;
/// Most bytes of parameters.
pub(crate) const PARAMETERS_BYTES_MAX: usize = 924;
/// Most sections of a file.
pub(crate) const SECTIONS_MAX: usize = 64;
/// Most components of a vector, as in column files.
pub(crate) const DIM_MAX: u32 = 65_536;

/// Returns the checksum of `bytes`: XXH3 of 64 bits, seed 0.
#[must_use]
pub(crate) fn checksum(bytes: &[u8]) -> u64 {
    XxHash3_64::oneshot(bytes)
}

/// The [`checksum`] of bytes that are taken piece by piece.
#[derive(Default)]
pub(crate) struct Checksum(XxHash3_64);

impl Checksum {
    pub(crate) fn update(&mut self, bytes: &[u8]) {
        self.0.write(bytes);
    }

    pub(crate) fn finish(&self) -> u64 {
        self.0.finish()
    }
}

/// Returns how many blocks a section of `length` bytes has.
pub(crate) const fn blocks_of(length: u64) -> u64 {
    length.div_ceil(BLOCK_BYTES as u64)
}

/// What a file is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    /// The index of a generation.
    Index,
    /// Rows that a generation has not seen.
    Fresh,
    /// Texts of rows that an index does not hold.
    Texts,
    /// What the rows of a store looked like when a run had searched them.
    Searched,
    /// Rows that are joined together.
    Tile,
    /// Which tiles there are and which are joined with each other.
    TilePlan,
}

impl FileKind {
    /// Returns its number on disk.
    #[must_use]
    pub const fn number(self) -> u32 {
        match self {
            Self::Index => 1,
            Self::Fresh => 2,
            Self::Texts => 3,
            Self::Searched => 4,
            Self::Tile => 5,
            Self::TilePlan => 6,
        }
    }

    /// Returns the kind with a number.
    #[must_use]
    pub(crate) const fn from_number(number: u32) -> Option<Self> {
        match number {
            1 => Some(Self::Index),
            2 => Some(Self::Fresh),
            3 => Some(Self::Texts),
            4 => Some(Self::Searched),
            5 => Some(Self::Tile),
            6 => Some(Self::TilePlan),
            _ => None,
        }
    }

    /// Returns its name in messages.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Index => "index",
            Self::Fresh => "fresh rows",
            Self::Texts => "texts",
            Self::Searched => "searched rows",
            Self::Tile => "a tile",
            Self::TilePlan => "a plan of tiles",
        }
    }
}

/// The number of a section; what the section holds is known to its writer and its readers alone.
///
/// Whoever needs a new section takes the next number and raises [`SectionId::MAX`]; published numbers keep their meaning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct SectionId(u32);

impl SectionId {
    /// The largest number of this version of the format.
    pub const MAX: u32 = 34;

    /// Names a section by its number, 1 to [`SectionId::MAX`].
    ///
    /// # Panics
    /// When the number is out of range: numbers are constants.
    #[must_use]
    pub const fn new(number: u32) -> Self {
        assert!(number >= 1 && number <= Self::MAX, "no section of this format has this number");
        Self(number)
    }

    /// Returns its number on disk.
    #[must_use]
    pub const fn number(self) -> u32 {
        self.0
    }

    /// Returns the id with a number from a file.
    pub(crate) fn from_number(number: u32) -> Option<Self> {
        (1..=Self::MAX).contains(&number).then_some(Self(number))
    }
}

impl fmt::Display for SectionId {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(formatter)
    }
}

// Each id stands at most once in a file, so the table of the header holds them all.
const _: () = assert!(SectionId::MAX as usize <= SECTIONS_MAX);

/// The type of a section's numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u32)]
pub enum ElementType {
    /// Bytes.
    U8 = 1,
    /// Signed bytes.
    I8 = 2,
    /// 16 bits.
    U16 = 3,
    /// 32 bits.
    U32 = 4,
    /// 32 bits, signed.
    I32 = 5,
    /// 64 bits.
    U64 = 6,
    /// 64 bits, signed.
    I64 = 7,
    /// IEEE 754, 32 bits.
    F32 = 8,
    /// IEEE 754, 64 bits.
    F64 = 9,
}

impl ElementType {
    const ALL: [Self; 9] = [
        Self::U8,
        Self::I8,
        Self::U16,
        Self::U32,
        Self::I32,
        Self::U64,
        Self::I64,
        Self::F32,
        Self::F64,
    ];

    /// Returns its number on disk.
    #[must_use]
    pub const fn number(self) -> u32 {
        self as u32
    }

    /// Returns the type with a number.
    #[must_use]
    pub(crate) fn from_number(number: u32) -> Option<Self> {
        Self::ALL.into_iter().find(|element| element.number() == number)
    }

    /// Returns its name, as Rust has it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::U8 => "u8",
            Self::I8 => "i8",
            Self::U16 => "u16",
            Self::U32 => "u32",
            Self::I32 => "i32",
            Self::U64 => "u64",
            Self::I64 => "i64",
            Self::F32 => "f32",
            Self::F64 => "f64",
        }
    }

    /// Returns the bytes of one number.
    #[must_use]
    pub const fn width(self) -> u64 {
        match self {
            Self::U8 | Self::I8 => 1,
            Self::U16 => 2,
            Self::U32 | Self::I32 | Self::F32 => 4,
            Self::U64 | Self::I64 | Self::F64 => 8,
        }
    }
}

/// A number that sections hold, little-endian on disk and therefore as it lies in memory.
pub trait Element: Pod + sealed::Sealed {
    /// Its type.
    const TYPE: ElementType;
}

mod sealed {
    pub trait Sealed {}
}

macro_rules! elements {
    ($($number:ty => $element:ident),* $(,)?) => {$(
        impl sealed::Sealed for $number {}
        impl Element for $number {
            const TYPE: ElementType = ElementType::$element;
        }
    )*};
}

elements! {
    u8 => U8, i8 => I8, u16 => U16, u32 => U32, i32 => I32, u64 => U64, i64 => I64, f32 => F32, f64 => F64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_on_disk_are_told_apart_and_found_again() {
        for number in 1..=SectionId::MAX {
            let id = SectionId::from_number(number);
            assert_eq!(id, Some(SectionId::new(number)));
            assert_eq!(id.map(SectionId::number), Some(number));
        }
        for (position, element) in ElementType::ALL.into_iter().enumerate() {
            assert_eq!(element.number() as usize, position + 1);
            assert_eq!(ElementType::from_number(element.number()), Some(element));
        }
        for kind in [
            FileKind::Index,
            FileKind::Fresh,
            FileKind::Texts,
            FileKind::Searched,
            FileKind::Tile,
            FileKind::TilePlan,
        ] {
            assert_eq!(FileKind::from_number(kind.number()), Some(kind));
        }
        for number in [0, 35, 64, u32::MAX] {
            assert_eq!(SectionId::from_number(number), None);
            assert_eq!(ElementType::from_number(number), None);
            assert_eq!(FileKind::from_number(number), None);
        }
    }

    #[test]
    fn widths_are_those_of_the_numbers() {
        fn check<T: Element>() {
            assert_eq!(T::TYPE.width() as usize, size_of::<T>());
            assert!(T::TYPE.name() == std::any::type_name::<T>());
        }
        check::<u8>();
        check::<i8>();
        check::<u16>();
        check::<u32>();
        check::<i32>();
        check::<u64>();
        check::<i64>();
        check::<f32>();
        check::<f64>();
    }

    #[test]
    fn checksums_are_xxh3() {
        // From the definition of XXH3_64bits with seed 0: the empty input.
        assert_eq!(checksum(b""), 0x2d06_8005_38d3_94c2);
        let bytes: Vec<u8> = (0..100_000_u32).map(|i| (i * 31 % 251) as u8).collect();
        let mut pieces = Checksum::default();
        bytes.chunks(7_777).for_each(|piece| pieces.update(piece));
        assert_eq!(pieces.finish(), checksum(&bytes));
    }
}
