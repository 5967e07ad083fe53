//! [`Ledger`]: the rows that memfold took out of a table, exactly as they were, in a file of its own.
//!
//! One JSON object on a line. Lines are appended and synced before the table changes; a line about a row that stands in
//! its table unmarked holds nothing.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, OpenOptions};
use std::io::{self, Read as _, Seek as _, SeekFrom, Write as _};
use std::path::Path;

use memfold_core::value::Value;
use memfold_store::origin::{OriginError, TableChoice};
use memfold_store::whole_file;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;

use super::layout::Layout;
use super::read::{TableRow, shown};
use crate::changes::digest;
use crate::files::{failed, make_folder_of, read_text};

/// What is kept of a table.
#[derive(Debug, Clone, Default)]
pub(super) struct Ledger {
    pub(super) choice: TableChoice,
    pub(super) kept: HashMap<String, Kept>,
    /// Rows that memfold added, by their keys.
    made: HashMap<String, Made>,
}

/// A line.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Line {
    /// What somebody chose last.
    Choice(TableChoice),
    /// A row that memfold takes out.
    Kept(Kept),
    /// A row that memfold adds, to a table that gives it another id.
    Made(Made),
}

/// A row that memfold added.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Made {
    /// The id of its memory.
    pub(super) id: String,
    pub(super) key: String,
    /// The digest of its text.
    pub(super) text: String,
}

impl Made {
    pub(super) fn new(id: &str, key: String, text: &str) -> Self {
        Self { id: id.to_owned(), key, text: digest(text) }
    }
}

/// A row as it was.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub(super) struct Kept {
    pub(super) id: String,
    pub(super) table: String,
    pub(super) key: Json,
    pub(super) columns: Vec<String>,
    pub(super) cells: Vec<Json>,
    /// The row that says what it said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) merged_into: Option<String>,
    pub(super) rule: String,
    pub(super) run_id: String,
    pub(super) at: String,
}

impl Kept {
    /// Returns the row in the order of a layout's columns; `None` where the table has other columns now.
    pub(super) fn row(&self, layout: &Layout) -> Option<TableRow> {
        if !self.table.eq_ignore_ascii_case(&layout.table)
            || self.columns.len() != layout.columns.len()
        {
            return None;
        }
        let cell = |name: &String| {
            let at = self.columns.iter().position(|column| column == name)?;
            Value::from_json(self.cells.get(at)?)
        };
        let cells = layout.columns.iter().map(cell).collect::<Option<_>>()?;
        Some(TableRow { key: Value::from_json(&self.key)?, cells })
    }
}

impl Ledger {
    /// Reads a ledger; a missing one is empty. What a killed process left of its last line is passed over.
    pub(super) fn read(path: Option<&Path>) -> Result<Self, OriginError> {
        let Some(path) = path else { return Ok(Self::default()) };
        let Some(text) = read_text(path)? else { return Ok(Self::default()) };
        let mut ledger = Self::default();
        let whole = text.rfind('\n').map_or("", |end| &text[..end]);
        for (at, line) in whole.lines().enumerate().filter(|(_, line)| !line.trim().is_empty()) {
            match serde_json::from_str(line) {
                Ok(Line::Choice(choice)) => ledger.choice = choice,
                Ok(Line::Kept(kept)) => drop(ledger.kept.insert(kept.id.clone(), kept)),
                Ok(Line::Made(made)) => drop(ledger.made.insert(made.key.clone(), made)),
                Err(error) => {
                    return Err(OriginError::Format {
                        path: path.to_owned(),
                        kind: "list of removed rows",
                        reason: format!("line {}: {error}", at + 1),
                    });
                }
            }
        }
        Ok(ledger)
    }

    /// Returns what is known of a row that memfold added.
    pub(super) fn made_of(&self, row: &TableRow, text: &str) -> Option<&Made> {
        let made = self.made.get(&shown(&row.key))?;
        (made.text == digest(text)).then_some(made)
    }

    /// Tells whether memfold may have added the row of a key.
    pub(super) fn may_have_made(&self, key: &Value) -> bool {
        self.made.contains_key(&shown(key))
    }

    /// Forgets rows that stand in the table again.
    pub(super) fn forget(path: &Path, restored: &BTreeSet<&str>) -> Result<(), OriginError> {
        let ledger = Self::read(Some(path))?;
        if !restored.iter().any(|id| ledger.kept.contains_key(*id)) {
            return Ok(());
        }
        let kept: BTreeMap<&String, &Kept> =
            ledger.kept.iter().filter(|(id, _)| !restored.contains(id.as_str())).collect();
        let made: BTreeMap<&String, &Made> = ledger.made.iter().collect();
        let kept = kept.into_values().cloned().map(Line::Kept);
        let made = made.into_values().cloned().map(Line::Made);
        let mut bytes = Vec::new();
        for line in [Line::Choice(ledger.choice.clone())].into_iter().chain(kept).chain(made) {
            bytes.extend(serde_json::to_vec(&line).unwrap_or_default());
            bytes.push(b'\n');
        }
        whole_file::replace(path, &bytes, Some(path)).map_err(failed("write", path))
    }

    /// Appends lines and syncs them.
    pub(super) fn append(path: &Path, lines: &[Line]) -> Result<(), OriginError> {
        if lines.is_empty() {
            return Ok(());
        }
        let write = || -> io::Result<()> {
            make_folder_of(path)?;
            let mut options = OpenOptions::new();
            options.create(true).append(true).read(true);
            #[cfg(unix)]
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
            let mut file = options.open(path)?;
            let mut bytes = Vec::new();
            cut_unfinished(&file)?;
            for line in lines {
                serde_json::to_writer(&mut bytes, line)?;
                bytes.push(b'\n');
            }
            file.write_all(&bytes)?;
            file.sync_all()
        };
        write().map_err(failed("write", path))
    }
}

/// Cuts off the line that a killed process left unfinished.
fn cut_unfinished(mut file: &fs::File) -> io::Result<()> {
    if file.seek(SeekFrom::End(0))? == 0 {
        return Ok(());
    }
    let mut last = [0];
    file.seek(SeekFrom::End(-1))?;
    file.read_exact(&mut last)?;
    if last == [b'\n'] {
        return Ok(());
    }
    let mut bytes = Vec::new();
    file.rewind()?;
    file.read_to_end(&mut bytes)?;
    let end = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    file.set_len(end as u64)
}
