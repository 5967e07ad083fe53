//! [`FileMode`]: who may read and write derived files.

use std::fs::Metadata;

/// Permissions of derived files: those of the store that they are derived from.
///
/// On Unix these are the bits of a mode, whatever the process's mask; elsewhere they mean nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileMode {
    bits: u32,
}

impl FileMode {
    /// The owner reads and writes, nobody else does anything.
    pub const PRIVATE: Self = Self { bits: 0o600 };

    /// Takes read and write bits of a Unix mode; the owner has both in any case.
    #[must_use]
    pub const fn from_bits(bits: u32) -> Self {
        Self { bits: bits & 0o666 | 0o600 }
    }

    /// Takes the permissions of a file.
    #[must_use]
    pub fn like(metadata: &Metadata) -> Self {
        #[cfg(unix)]
        {
            use std::os::unix::fs::PermissionsExt;
            Self::from_bits(metadata.permissions().mode())
        }
        #[cfg(not(unix))]
        {
            let _ = metadata;
            Self::PRIVATE
        }
    }

    /// Returns the bits of files.
    #[must_use]
    pub const fn file_bits(self) -> u32 {
        self.bits
    }

    /// Returns the bits of folders: who may read may enter.
    #[must_use]
    pub const fn folder_bits(self) -> u32 {
        self.bits | (self.bits & 0o444) >> 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_can_be_entered_by_those_who_read() {
        assert_eq!(FileMode::from_bits(0o100_664).file_bits(), 0o664);
        assert_eq!(FileMode::from_bits(0o664).folder_bits(), 0o775);
        assert_eq!(FileMode::from_bits(0o640).folder_bits(), 0o750);
        assert_eq!(FileMode::PRIVATE.folder_bits(), 0o700);
        assert_eq!(FileMode::from_bits(0o4_577), FileMode::from_bits(0o666), "no x, no set-id");
        assert_eq!(FileMode::from_bits(0o444).file_bits(), 0o644, "a store that is read-only");
    }
}
