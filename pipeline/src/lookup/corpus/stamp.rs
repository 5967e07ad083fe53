//! [`FileStamp`]: is this still the file that was indexed?

use std::fs::File;
use std::io::{self, Read as _, Seek as _, SeekFrom};
use std::path::Path;

/// Bytes read at each end.
const END_BYTES: u64 = 65_536;

/// What tells a file from what it was, without reading all of it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct FileStamp {
    /// Its name, for people; files may be renamed.
    pub name: String,
    /// Its length.
    pub bytes: u64,
    /// When it was written last, in UTC; `None` where the system does not tell.
    pub modified: Option<String>,
    /// The blake3 of its first and its last 65,536 bytes, in hexadecimal digits.
    pub ends: String,
}

impl FileStamp {
    /// Looks at the file at `path`.
    ///
    /// # Errors
    /// When it cannot be read.
    pub fn take(path: &Path) -> io::Result<Self> {
        let mut file = File::open(path)?;
        let metadata = file.metadata()?;
        let bytes = metadata.len();
        let mut ends = Vec::new();
        file.by_ref().take(END_BYTES).read_to_end(&mut ends)?;
        file.seek(SeekFrom::Start(bytes.saturating_sub(END_BYTES)))?;
        file.take(END_BYTES).read_to_end(&mut ends)?;
        let modified = metadata.modified().ok().map(jiff::Timestamp::try_from);
        Ok(Self {
            name: path.file_name().unwrap_or_default().to_string_lossy().into_owned(),
            bytes,
            modified: modified.and_then(Result::ok).map(|at| at.to_string()),
            ends: blake3::hash(&ends).to_string(),
        })
    }

    /// Tells whether a file is the same, whatever its name.
    #[must_use]
    pub fn fits(&self, other: &Self) -> bool {
        (self.bytes, &self.modified, &self.ends) == (other.bytes, &other.modified, &other.ends)
    }
}
