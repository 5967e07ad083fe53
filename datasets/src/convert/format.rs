//! [`OutputFormat`]: what can be written, and what it holds.

use std::path::Path;

use super::ComponentType;
use crate::vector_file::VectorFormat;

/// A format that is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum OutputFormat {
    /// Arrow IPC, uncompressed, as it is mapped.
    Arrow,
    /// Parquet, compressed with zstd.
    Parquet,
    /// One JSON object for each row.
    JsonLines,
    /// numpy's array file.
    Npy,
    /// numpy's archive, of one array `vectors`.
    Npz,
    /// One tensor `vectors`.
    Safetensors,
    /// Rows of a 32-bit length and f32.
    Fvecs,
    /// Rows of a 32-bit length and i32.
    Ivecs,
    /// Rows of a 32-bit length and u8.
    Bvecs,
    /// Counts of rows and components, then f32.
    Fbin,
    /// Counts of rows and components, then f16.
    F16bin,
    /// Counts of rows and components, then u8.
    U8bin,
    /// Counts of rows and components, then i8.
    I8bin,
    /// Counts of rows and components, then i32.
    Ibin,
}

impl OutputFormat {
    /// Every format.
    pub const ALL: [Self; 14] = [
        Self::Arrow,
        Self::Parquet,
        Self::JsonLines,
        Self::Npy,
        Self::Npz,
        Self::Safetensors,
        Self::Fvecs,
        Self::Ivecs,
        Self::Bvecs,
        Self::Fbin,
        Self::F16bin,
        Self::U8bin,
        Self::I8bin,
        Self::Ibin,
    ];

    /// Returns what reads it.
    #[must_use]
    pub const fn format(self) -> VectorFormat {
        match self {
            Self::Arrow => VectorFormat::Columns,
            Self::Parquet => VectorFormat::Parquet,
            Self::JsonLines => VectorFormat::Jsonl,
            Self::Npy => VectorFormat::Npy,
            Self::Npz => VectorFormat::Npz,
            Self::Safetensors => VectorFormat::Safetensors,
            Self::Fvecs => VectorFormat::Fvecs,
            Self::Ivecs => VectorFormat::Ivecs,
            Self::Bvecs => VectorFormat::Bvecs,
            Self::Fbin => VectorFormat::Fbin,
            Self::F16bin => VectorFormat::F16bin,
            Self::U8bin => VectorFormat::U8bin,
            Self::I8bin => VectorFormat::I8bin,
            Self::Ibin => VectorFormat::Ibin,
        }
    }

    /// Returns the format's name, which is its first extension.
    #[must_use]
    pub const fn name(self) -> &'static str {
        self.format().name()
    }

    /// Returns the format of a name.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.name() == name)
    }

    /// Recognises the format of a file by its extension.
    #[must_use]
    pub fn of_extension(path: &Path) -> Option<Self> {
        let found = VectorFormat::of_extension(path)?;
        Self::ALL.into_iter().find(|format| format.format() == found)
    }

    /// Tells whether the format holds columns beside the vectors.
    #[must_use]
    pub const fn is_table(self) -> bool {
        matches!(self, Self::Arrow | Self::Parquet | Self::JsonLines)
    }

    /// Returns the one type that the format holds; `None` where it holds all.
    #[must_use]
    pub const fn only_type(self) -> Option<ComponentType> {
        match self {
            Self::Arrow
            | Self::Parquet
            | Self::JsonLines
            | Self::Npy
            | Self::Npz
            | Self::Safetensors => None,
            Self::Fvecs | Self::Fbin => Some(ComponentType::F32),
            Self::F16bin => Some(ComponentType::F16),
            Self::Ivecs | Self::Ibin => Some(ComponentType::I32),
            Self::Bvecs | Self::U8bin => Some(ComponentType::U8),
            Self::I8bin => Some(ComponentType::I8),
        }
    }

    /// Returns the most rows that the format can count.
    pub(super) const fn rows_max(self) -> u64 {
        match self {
            Self::Fbin | Self::F16bin | Self::U8bin | Self::I8bin | Self::Ibin => u32::MAX as u64,
            _ => u64::MAX,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_extensions_tell_the_format() {
        for format in OutputFormat::ALL {
            assert_eq!(OutputFormat::from_name(format.name()), Some(format));
            let path = format!("a.b/rows.{}", format.name().to_uppercase());
            assert_eq!(OutputFormat::of_extension(path.as_ref()), Some(format));
        }
        assert_eq!(OutputFormat::of_extension("rows.feather".as_ref()), Some(OutputFormat::Arrow));
        assert_eq!(OutputFormat::of_extension("rows.csv".as_ref()), None);
        assert_eq!(OutputFormat::of_extension("npy".as_ref()), None);
    }
}
