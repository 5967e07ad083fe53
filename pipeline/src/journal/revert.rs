//! [`revert`]: from what a unit did to what takes it back, given the rows as they are now.

use super::{Change, ColumnChange, JournalEntry, Op, RowImage, RowKey, StoredValue};

/// The rows as they are now.
pub trait CurrentRows {
    /// Why a row cannot be read.
    type Error;

    /// Returns a row; `None` where it is gone.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn row(&self, key: &RowKey) -> Result<Option<RowImage>, Self::Error>;

    /// Tells whether a memory lies in the archive table.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn is_archived(&self, id: &str) -> Result<bool, Self::Error>;
}

/// What may be done about conflicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RevertOptions {
    /// Restores columns that somebody changed since.
    pub force: bool,
    /// Brings back rows that somebody deleted since, as they were.
    pub recreate: bool,
}

/// Why a unit cannot be taken back.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Conflict {
    /// Somebody changed what was written.
    Changed {
        /// The row.
        row: RowKey,
        /// The column.
        column: String,
    },
    /// Somebody deleted a row that was changed.
    Gone {
        /// The row.
        row: RowKey,
        /// Whether the journal holds the whole row.
        can_recreate: bool,
    },
    /// Somebody took the place of a row that was moved away.
    Taken {
        /// The row.
        row: RowKey,
    },
    /// A row that was moved away is no longer in the archive table.
    Lost {
        /// The row.
        row: RowKey,
    },
}

impl std::fmt::Display for Conflict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Changed { row, column } => write!(f, "{column} of {row} was changed since"),
            Self::Gone { row, .. } => write!(f, "{row} was deleted since"),
            Self::Taken { row } => write!(f, "another memory has taken the id {row} since"),
            Self::Lost { row } => write!(f, "{row} is no longer in memfold_archive"),
        }
    }
}

impl Conflict {
    /// Returns the flag that gets past it, if any.
    #[must_use]
    pub const fn remedy(&self) -> Option<&'static str> {
        match self {
            Self::Changed { .. } => Some("--force"),
            Self::Gone { can_recreate: true, .. } => Some("--recreate"),
            Self::Gone { can_recreate: false, .. } | Self::Taken { .. } | Self::Lost { .. } => None,
        }
    }
}

/// Columns that readers and writers touch all day: restored where they still hold what was written, else left.
const PASSING: [&str; 2] = ["updated_at", "last_accessed"];

/// Returns the changes that take back what the entries of a unit did, last first; or all its conflicts.
///
/// # Errors
/// When a row cannot be read.
pub fn revert<R: CurrentRows>(
    entries: &[JournalEntry],
    rows: &R,
    options: RevertOptions,
) -> Result<Result<Vec<Change>, Vec<Conflict>>, R::Error> {
    let mut changes = Vec::new();
    let mut conflicts = Vec::new();
    for entry in entries.iter().rev() {
        match revert_one(entry, rows, options, &changes)? {
            Ok(reverted) => changes.extend(reverted),
            Err(found) => conflicts.extend(found),
        }
    }
    Ok(if conflicts.is_empty() { Ok(changes) } else { Err(conflicts) })
}

type Reverted = Result<Vec<Change>, Vec<Conflict>>;

fn revert_one<R: CurrentRows>(
    entry: &JournalEntry,
    rows: &R,
    options: RevertOptions,
    planned: &[Change],
) -> Result<Reverted, R::Error> {
    let row = &entry.row;
    let id = || row.key.clone();
    Ok(match entry.op {
        Op::Index => Ok(vec![Change::Unindex { id: id() }]),
        Op::Unindex => Ok(vec![Change::Index { id: id() }]),
        Op::PutIn => match rows.row(row)? {
            Some(_) => Ok(vec![Change::TakeOut { id: id(), survivor: None }]),
            // It is gone already, which is what was wanted.
            None => Ok(Vec::new()),
        },
        Op::TakeOut => {
            if rows.row(row)?.is_some() {
                Err(vec![Conflict::Taken { row: row.clone() }])
            } else if rows.is_archived(&row.key)? {
                Ok(vec![Change::PutIn { id: id(), image: None }])
            } else {
                Err(vec![Conflict::Lost { row: row.clone() }])
            }
        }
        Op::Set => match rows.row(row)? {
            Some(now) => set_back(entry, &now, options),
            // It comes back in the same undo, exactly as it went.
            None if comes_back(row, planned) => Ok(vec![restored_as_left(entry)]),
            // What we wrote down about it was pruned: there is nothing left to withdraw.
            None if row.table.is_own() => Ok(Vec::new()),
            None => recreate(entry, options),
        },
    })
}

fn comes_back(row: &RowKey, planned: &[Change]) -> bool {
    planned.iter().any(|change| matches!(change, Change::PutIn { id, .. } if *id == row.key))
}

/// A row left the table after it was changed: it holds what was written when it comes back.
fn restored_as_left(entry: &JournalEntry) -> Change {
    let columns = entry.columns.iter().map(|change| ColumnChange {
        column: change.column.clone(),
        before: change.after.clone(),
        after: change.before.clone(),
        delta: change.delta.map(i64::wrapping_neg),
    });
    Change::Set { row: entry.row.clone(), columns: columns.collect(), image: None }
}

fn set_back(entry: &JournalEntry, now: &RowImage, options: RevertOptions) -> Reverted {
    let mut columns = Vec::new();
    let mut conflicts = Vec::new();
    for change in &entry.columns {
        let Some(held) = now.get(&change.column) else {
            // The owner dropped the column, and with it what was written.
            continue;
        };
        let restored = if *held == change.after || options.force && change.delta.is_none() {
            Some(change.before.clone())
        } else if let Some(delta) = change.delta {
            moved_back(held, delta)
        } else if PASSING.contains(&change.column.to_ascii_lowercase().as_str()) {
            None
        } else {
            let column = change.column.clone();
            conflicts.push(Conflict::Changed { row: entry.row.clone(), column });
            None
        };
        if let Some(after) = restored.filter(|after| after != held) {
            columns.push(ColumnChange {
                column: change.column.clone(),
                before: held.clone(),
                after,
                delta: change.delta.map(i64::wrapping_neg),
            });
        }
    }
    if !conflicts.is_empty() {
        return Err(conflicts);
    }
    if columns.is_empty() {
        return Ok(Vec::new());
    }
    Ok(vec![Change::Set { row: entry.row.clone(), columns, image: None }])
}

/// A counter without our part; a value that is no number is left alone.
fn moved_back(held: &StoredValue, delta: i64) -> Option<StoredValue> {
    match held {
        StoredValue::Null => Some(StoredValue::Integer(0_i64.saturating_sub(delta).max(0))),
        StoredValue::Integer(value) => {
            Some(StoredValue::Integer(value.saturating_sub(delta).max(0)))
        }
        StoredValue::Real(value) => Some(StoredValue::Real((value - delta as f64).max(0.0))),
        StoredValue::Text(_) | StoredValue::Blob(_) => None,
    }
}

fn recreate(entry: &JournalEntry, options: RevertOptions) -> Reverted {
    match (&entry.image, options.recreate) {
        (Some(image), true) => {
            Ok(vec![Change::PutIn { id: entry.row.key.clone(), image: Some(image.clone()) }])
        }
        (image, _) => {
            Err(vec![Conflict::Gone { row: entry.row.clone(), can_recreate: image.is_some() }])
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeMap, BTreeSet};
    use std::convert::Infallible;

    use super::*;

    #[derive(Default)]
    struct Rows {
        rows: BTreeMap<RowKey, RowImage>,
        archived: BTreeSet<String>,
    }

    impl CurrentRows for Rows {
        type Error = Infallible;

        fn row(&self, key: &RowKey) -> Result<Option<RowImage>, Infallible> {
            Ok(self.rows.get(key).cloned())
        }

        fn is_archived(&self, id: &str) -> Result<bool, Infallible> {
            Ok(self.archived.contains(id))
        }
    }

    fn image(source: &str, count: i64) -> RowImage {
        let cells = vec![
            ("source".to_owned(), source.into()),
            ("access_count".to_owned(), StoredValue::Integer(count)),
            ("updated_at".to_owned(), "then".into()),
        ];
        RowImage { rowid: Some(1), cells }
    }

    /// `a` was set from ("agent", 2, "then") to ("folded", 5, "now").
    fn entry(image: Option<RowImage>) -> JournalEntry {
        let change = |column: &str, before, after, delta| ColumnChange {
            column: column.to_owned(),
            before,
            after,
            delta,
        };
        JournalEntry {
            op: Op::Set,
            row: RowKey::memory("a"),
            columns: vec![
                change("source", "agent".into(), "folded".into(), None),
                change("access_count", StoredValue::Integer(2), StoredValue::Integer(5), Some(3)),
                change("updated_at", "then".into(), "now".into(), None),
            ],
            image,
            survivor: None,
        }
    }

    fn with(source: &str, count: i64, updated_at: &str) -> Rows {
        let mut now = image(source, count);
        now.set("updated_at", updated_at.into());
        Rows { rows: BTreeMap::from([(RowKey::memory("a"), now)]), ..Rows::default() }
    }

    fn run(entries: &[JournalEntry], rows: &Rows, options: RevertOptions) -> Reverted {
        let Ok(reverted) = revert(entries, rows, options);
        reverted
    }

    fn after(changes: &[Change]) -> Vec<(&str, &StoredValue)> {
        let Change::Set { columns, .. } = &changes[0] else { panic!("{changes:?}") };
        columns.iter().map(|change| (change.column.as_str(), &change.after)).collect()
    }

    #[test]
    fn an_untouched_row_gets_back_what_it_held() {
        let changes =
            run(&[entry(None)], &with("folded", 5, "now"), RevertOptions::default()).unwrap();
        let expected: [(&str, &StoredValue); 3] = [
            ("source", &"agent".into()),
            ("access_count", &StoredValue::Integer(2)),
            ("updated_at", &"then".into()),
        ];
        assert_eq!(after(&changes), expected);
    }

    #[test]
    fn accesses_since_then_stay_counted() {
        let changes =
            run(&[entry(None)], &with("folded", 9, "later"), RevertOptions::default()).unwrap();
        let expected: [(&str, &StoredValue); 2] =
            [("source", &"agent".into()), ("access_count", &StoredValue::Integer(6))];
        assert_eq!(after(&changes), expected);
    }

    #[test]
    fn what_somebody_else_wrote_is_a_conflict_unless_forced() {
        let rows = with("edited", 5, "now");
        let conflicts = run(&[entry(None)], &rows, RevertOptions::default()).unwrap_err();
        assert_eq!(conflicts[0].to_string(), "source of a was changed since");
        assert_eq!(conflicts[0].remedy(), Some("--force"));
        let force = RevertOptions { force: true, ..RevertOptions::default() };
        assert_eq!(
            after(&run(&[entry(None)], &rows, force).unwrap())[0],
            ("source", &"agent".into())
        );
    }

    #[test]
    fn a_deleted_row_comes_back_only_on_request() {
        let rows = Rows::default();
        let kept = entry(Some(image("agent", 2)));
        let conflicts =
            run(std::slice::from_ref(&kept), &rows, RevertOptions::default()).unwrap_err();
        assert_eq!(conflicts[0].remedy(), Some("--recreate"));
        let recreate = RevertOptions { recreate: true, ..RevertOptions::default() };
        let changes = run(&[kept], &rows, recreate).unwrap();
        assert_eq!(changes, [Change::PutIn { id: "a".to_owned(), image: Some(image("agent", 2)) }]);
        assert!(run(&[entry(None)], &rows, recreate).is_err());
    }

    #[test]
    fn moves_are_taken_back_from_the_archive_only() {
        let moved = JournalEntry {
            op: Op::TakeOut,
            columns: Vec::new(),
            survivor: Some("b".to_owned()),
            ..entry(None)
        };
        let lost = run(std::slice::from_ref(&moved), &Rows::default(), RevertOptions::default())
            .unwrap_err();
        assert!(matches!(lost[..], [Conflict::Lost { .. }]));
        let mut rows = Rows { archived: BTreeSet::from(["a".to_owned()]), ..Rows::default() };
        let changes = run(std::slice::from_ref(&moved), &rows, RevertOptions::default()).unwrap();
        assert_eq!(changes, [Change::PutIn { id: "a".to_owned(), image: None }]);
        // Changed first, moved then: it comes back and is set back.
        let both = run(&[entry(None), moved.clone()], &rows, RevertOptions::default()).unwrap();
        assert_eq!(both.len(), 2);
        rows.rows.insert(RowKey::memory("a"), image("new", 0));
        let taken = run(&[moved], &rows, RevertOptions::default()).unwrap_err();
        assert!(matches!(taken[..], [Conflict::Taken { .. }]));
    }
}
