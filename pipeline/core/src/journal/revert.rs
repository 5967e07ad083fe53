//! [`revert`]: from what a unit did to what takes it back, given the rows as they are now.

use crate::journal::change::{Change, ColumnChange, JournalEntry, Op, RowImage, RowKey, Table};
use crate::value::Value;

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

    /// Returns the columns of a memory in the archive table, or of an image of one, that hold a value and are in the
    /// owner's tables no more.
    ///
    /// # Errors
    /// When the store cannot be read.
    fn lost_columns(&self, id: &str, image: Option<&RowImage>) -> Result<Vec<String>, Self::Error>;

    /// Returns why rows must not be moved out of the owner's tables, if anything forbids it.
    fn move_refusal(&self) -> Option<&str>;
}

/// What may be done about conflicts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct RevertOptions {
    /// Restores columns that somebody changed since, and takes rows out that somebody changed.
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
    /// Somebody dropped or renamed a column whose value would have no place.
    NoColumn {
        /// The row.
        row: RowKey,
        /// The column.
        column: String,
    },
    /// A row that was put in must not be taken out.
    Held {
        /// The row.
        row: RowKey,
        /// Why.
        reason: String,
    },
}

impl std::fmt::Display for Conflict {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Changed { row, column } => write!(f, "{column} of {row} was changed since"),
            Self::Gone { row, .. } => write!(f, "{row} was deleted since"),
            Self::Taken { row } => write!(f, "another memory has taken the id {row} since"),
            Self::Lost { row } => write!(f, "{row} is no longer in memfold_archive"),
            Self::NoColumn { row, column } => {
                write!(
                    f,
                    "{row} has a value for {column}, a column that was dropped or renamed since"
                )
            }
            Self::Held { row, reason } => write!(f, "{row} must not be taken out: {reason}"),
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
            Self::Gone { can_recreate: false, .. }
            | Self::Taken { .. }
            | Self::Lost { .. }
            | Self::NoColumn { .. }
            | Self::Held { .. } => None,
        }
    }
}

/// Columns that readers and writers touch all day, and references that the owner turned elsewhere: restored where they
/// still hold what was written, else left.
const PASSING: [&str; 3] = ["updated_at", "last_accessed", REFERENCE];
/// The column by which the owner's atoms name a memory.
pub const REFERENCE: &str = "source_memory_id";
/// What counts accesses: reading a row is no reason to keep it.
const COUNTER: &str = "access_count";

fn is_passing(column: &str) -> bool {
    PASSING.iter().any(|passing| passing.eq_ignore_ascii_case(column))
}

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
        Op::Index => Ok(vec![Change::Unindex { id: id(), words: entry.image.clone() }]),
        Op::Unindex => Ok(vec![Change::Index { id: id(), words: entry.image.clone() }]),
        Op::PutIn => match rows.row(row)? {
            Some(now) => take_out(entry, &now, rows.move_refusal(), options),
            // It is gone already, which is what was wanted.
            None => Ok(Vec::new()),
        },
        Op::TakeOut => {
            if rows.row(row)?.is_some() {
                Err(vec![Conflict::Taken { row: row.clone() }])
            } else if rows.is_archived(&row.key)? {
                placed(
                    row,
                    rows.lost_columns(&row.key, None)?,
                    Change::PutIn { id: id(), image: None },
                )
            } else {
                Err(vec![Conflict::Lost { row: row.clone() }])
            }
        }
        Op::Set => match rows.row(row)? {
            Some(now) => set_back(entry, &now, options),
            // It comes back in the same undo, exactly as it went.
            None if comes_back(row, planned) => Ok(vec![restored_as_left(entry)]),
            // What we wrote down about it was pruned, or what named a memory is gone: there is nothing left to withdraw.
            None if row.table != Table::Memories => Ok(Vec::new()),
            None => {
                let lost = match &entry.image {
                    Some(image) => rows.lost_columns(&row.key, Some(image))?,
                    None => Vec::new(),
                };
                recreate(entry, lost, options)
            }
        },
    })
}

/// A row that was put in goes again, unless somebody changed it.
fn take_out(
    entry: &JournalEntry,
    now: &RowImage,
    refusal: Option<&str>,
    options: RevertOptions,
) -> Reverted {
    let row = &entry.row;
    if let Some(reason) = refusal {
        return Err(vec![Conflict::Held { row: row.clone(), reason: reason.to_owned() }]);
    }
    let is_changed = |change: &&ColumnChange| {
        !is_passing(&change.column)
            && !change.column.eq_ignore_ascii_case(COUNTER)
            && now.get(&change.column).is_some_and(|held| *held != change.after)
    };
    let changed = |change: &ColumnChange| Conflict::Changed {
        row: row.clone(),
        column: change.column.clone(),
    };
    let conflicts: Vec<Conflict> = entry.columns.iter().filter(is_changed).map(changed).collect();
    if conflicts.is_empty() || options.force {
        let content = entry.columns.iter().find(|change| change.column == "content");
        let said = content.and_then(|change| change.after.as_text()).map(str::to_owned);
        return Ok(vec![Change::TakeOut { id: row.key.clone(), survivor: None, said }]);
    }
    Err(conflicts)
}

/// A row comes back, unless a value of it would be lost.
fn placed(row: &RowKey, lost: Vec<String>, change: Change) -> Reverted {
    if lost.is_empty() {
        return Ok(vec![change]);
    }
    let no_column = |column| Conflict::NoColumn { row: row.clone(), column };
    Err(lost.into_iter().map(no_column).collect())
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
            // The owner dropped or renamed the column: what was there before would have no place.
            if change.before != Value::Null && !is_passing(&change.column) {
                let column = change.column.clone();
                conflicts.push(Conflict::NoColumn { row: entry.row.clone(), column });
            }
            continue;
        };
        let restored = if *held == change.after || options.force && change.delta.is_none() {
            Some(change.before.clone())
        } else if let Some(delta) = change.delta {
            moved_back(held, delta)
        } else if is_passing(&change.column) {
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
fn moved_back(held: &Value, delta: i64) -> Option<Value> {
    match held {
        Value::Null => Some(Value::Integer(0_i64.saturating_sub(delta).max(0))),
        Value::Integer(value) => Some(Value::Integer(value.saturating_sub(delta).max(0))),
        Value::Real(value) => Some(Value::Real((value - delta as f64).max(0.0))),
        Value::Text(_) | Value::Blob(_) => None,
    }
}

fn recreate(entry: &JournalEntry, lost: Vec<String>, options: RevertOptions) -> Reverted {
    match (&entry.image, options.recreate) {
        (Some(image), true) => {
            let (id, image) = (entry.row.key.clone(), Some(image.clone()));
            placed(&entry.row, lost, Change::PutIn { id, image })
        }
        (image, _) => {
            Err(vec![Conflict::Gone { row: entry.row.clone(), can_recreate: image.is_some() }])
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::collections::BTreeSet;
    use std::convert::Infallible;

    use super::*;

    #[derive(Default)]
    struct Rows {
        rows: BTreeMap<RowKey, RowImage>,
        archived: BTreeSet<String>,
        lost: Vec<String>,
        refusal: Option<&'static str>,
    }

    impl CurrentRows for Rows {
        type Error = Infallible;

        fn row(&self, key: &RowKey) -> Result<Option<RowImage>, Infallible> {
            Ok(self.rows.get(key).cloned())
        }

        fn is_archived(&self, id: &str) -> Result<bool, Infallible> {
            Ok(self.archived.contains(id))
        }

        fn lost_columns(&self, _: &str, _: Option<&RowImage>) -> Result<Vec<String>, Infallible> {
            Ok(self.lost.clone())
        }

        fn move_refusal(&self) -> Option<&str> {
            self.refusal
        }
    }

    fn image(source: &str, count: i64) -> RowImage {
        let cells = vec![
            ("source".to_owned(), source.into()),
            ("access_count".to_owned(), Value::Integer(count)),
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
                change("access_count", Value::Integer(2), Value::Integer(5), Some(3)),
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

    fn after(changes: &[Change]) -> Vec<(&str, &Value)> {
        let Change::Set { columns, .. } = &changes[0] else { panic!("{changes:?}") };
        columns.iter().map(|change| (change.column.as_str(), &change.after)).collect()
    }

    #[test]
    fn an_untouched_row_gets_back_what_it_held() {
        let changes =
            run(&[entry(None)], &with("folded", 5, "now"), RevertOptions::default()).unwrap();
        let expected: [(&str, &Value); 3] = [
            ("source", &"agent".into()),
            ("access_count", &Value::Integer(2)),
            ("updated_at", &"then".into()),
        ];
        assert_eq!(after(&changes), expected);
    }

    #[test]
    fn accesses_since_then_stay_counted() {
        let changes =
            run(&[entry(None)], &with("folded", 9, "later"), RevertOptions::default()).unwrap();
        let expected: [(&str, &Value); 2] =
            [("source", &"agent".into()), ("access_count", &Value::Integer(6))];
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
    #[test]
    fn a_value_without_a_column_is_never_thrown_away() {
        let force = RevertOptions { force: true, recreate: true };
        let mut rows = with("folded", 5, "now");
        let renamed: Vec<_> = image("folded", 5).cells.into_iter().skip(1).collect();
        rows.rows.insert(RowKey::memory("a"), RowImage { rowid: Some(1), cells: renamed });
        let set = run(&[entry(None)], &rows, force).unwrap_err();
        let said = "a has a value for source, a column that was dropped or renamed since";
        assert_eq!((set[0].to_string().as_str(), set[0].remedy()), (said, None));
        let rows = Rows {
            archived: BTreeSet::from(["a".to_owned()]),
            lost: vec!["mood".to_owned()],
            ..Rows::default()
        };
        let moved = JournalEntry { op: Op::TakeOut, columns: Vec::new(), ..entry(None) };
        for entry in [moved, entry(Some(image("agent", 2)))] {
            let conflicts = run(&[entry], &rows, force).unwrap_err();
            assert!(
                matches!(&conflicts[..], [Conflict::NoColumn { column, .. }] if column == "mood")
            );
        }
    }

    #[test]
    fn a_row_of_ours_that_somebody_edited_stays() {
        let put_in = Change::PutIn { id: "a".to_owned(), image: Some(image("flag", 0)) };
        let entry = JournalEntry::of(&put_in, None);
        let undone = |rows: &Rows, options| run(std::slice::from_ref(&entry), rows, options);
        let gone = vec![Change::TakeOut { id: "a".to_owned(), survivor: None, said: None }];
        // Reading it is no edit.
        let read = with("flag", 7, "later");
        assert_eq!(undone(&read, RevertOptions::default()), Ok(gone.clone()));
        let edited = with("mine now", 0, "then");
        let conflicts = undone(&edited, RevertOptions::default()).unwrap_err();
        assert_eq!(conflicts[0].to_string(), "source of a was changed since");
        let force = RevertOptions { force: true, ..RevertOptions::default() };
        assert_eq!(undone(&edited, force), Ok(gone));
        let held = Rows { refusal: Some("table n refers to it"), ..read };
        assert!(matches!(undone(&held, force).unwrap_err()[..], [Conflict::Held { .. }]));
    }
}
