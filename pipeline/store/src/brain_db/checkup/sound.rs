//! SQLite's own checks.

use std::collections::BTreeMap;

use rusqlite::{Connection, ErrorCode};

/// Complaints that are kept.
const COMPLAINTS_MAX: u32 = 10;

/// Broken references that are counted.
const REFERENCES_MAX: usize = 100_000;

/// Which check, and of what.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Check {
    /// Everything, indexes against tables included.
    Integrity,
    /// Everything but indexes against tables.
    Quick,
    /// The memory table, but not its indexes.
    QuickMemories,
}

impl Check {
    /// Returns what the check complains about; damage that stops it is a complaint, too.
    ///
    /// # Errors
    /// When SQLite cannot check for a reason other than damage.
    pub(super) fn run(self, connection: &Connection) -> rusqlite::Result<Vec<String>> {
        let complaints = match self {
            Self::Integrity => {
                lines(connection, &format!("PRAGMA integrity_check({COMPLAINTS_MAX})"))
            }
            Self::Quick => lines(connection, "PRAGMA quick_check(1)"),
            Self::QuickMemories => lines(connection, "PRAGMA quick_check(stm)"),
        };
        match complaints {
            Ok(lines) => Ok(lines.into_iter().filter(|line| line != "ok").collect()),
            Err(error) if is_damage(&error) => Ok(vec![error.to_string()]),
            Err(error) => Err(error),
        }
    }
}

/// Tells whether SQLite stopped because of what it found in the file.
pub(super) fn is_damage(error: &rusqlite::Error) -> bool {
    matches!(
        error.sqlite_error_code(),
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase | ErrorCode::SystemIoFailure)
    )
}

fn lines(connection: &Connection, pragma: &str) -> rusqlite::Result<Vec<String>> {
    let mut statement = connection.prepare(pragma)?;
    let lines = statement.query_map([], |row| row.get::<_, String>(0))?;
    // One answer can hold several complaints.
    let mut complaints = Vec::new();
    for line in lines {
        complaints.extend(line?.lines().map(str::to_owned));
    }
    complaints.truncate(COMPLAINTS_MAX as usize);
    Ok(complaints)
}

/// Counts rows that refer to a row that is not there, by (table, parent).
pub(super) fn broken_references(
    connection: &Connection,
) -> rusqlite::Result<BTreeMap<(String, String), u64>> {
    let mut statement = connection.prepare("PRAGMA foreign_key_check")?;
    let pairs = statement.query_map([], |row| Ok((row.get(0)?, row.get(2)?)))?;
    let mut counts = BTreeMap::new();
    for pair in pairs.take(REFERENCES_MAX) {
        *counts.entry(pair?).or_insert(0) += 1;
    }
    Ok(counts)
}
