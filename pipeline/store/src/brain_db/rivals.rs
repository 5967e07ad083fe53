//! Other consolidators at work on the same store.

use std::path::Path;

use rusqlite::Connection;

use super::columns::Columns;

/// A trace of another consolidator.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rival {
    /// Where it was found.
    pub place: String,
    /// What it means.
    pub what: &'static str,
    /// What to switch off.
    pub stop: &'static str,
    /// How many rows show it, where it is rows that do.
    pub rows: Option<u64>,
}

/// The owner's programs that consolidate, and how each of them is switched off.
const STOP_ENGINE: &str = "switch off the agent's knowledge compression (abstraction engine): it archives memories into \
    summaries of its own";
const STOP_NIGHTLY: &str = "take consolidate.py (memory-hygiene.sh: prune, scan) off the schedule: it deletes memories and \
    leaves their search entries";
const STOP_RULES: &str = "run memory_consolidation_rules.py no longer: it groups archived memories again, and its flags \
    become memories";

/// A habit of another consolidator that shows in the rows of `stm`.
struct Habit {
    /// The column it shows in.
    column: &'static str,
    /// What the rows have there, for people.
    place: &'static str,
    /// Which rows, as SQL on `{}`, the column.
    rows: &'static str,
    what: &'static str,
    stop: &'static str,
}

const HABITS: [Habit; 5] = [
    Habit {
        column: "source",
        place: "source abstraction-engine",
        rows: "{} = 'abstraction-engine'",
        what: "an abstraction engine wrote summaries of other memories",
        stop: STOP_ENGINE,
    },
    Habit {
        column: "categories",
        place: "category compressed",
        rows: "{} LIKE '%\"compressed\"%'",
        what: "an abstraction engine marks its summaries so",
        stop: STOP_ENGINE,
    },
    Habit {
        column: "archived_by",
        place: "a UUID in archived_by",
        rows: "{} LIKE '________-____-____-____-____________'",
        what: "an abstraction engine archived them into summaries of its own",
        stop: STOP_ENGINE,
    },
    Habit {
        column: "content",
        place: "text that begins with [CONSOLIDATED]",
        rows: "{} LIKE '[CONSOLIDATED] %'",
        what: "a nightly consolidator wrote them; it deletes memories without a trace",
        stop: STOP_NIGHTLY,
    },
    Habit {
        column: "source",
        place: "source archived:merged_into or archived:low_utility",
        rows: "({0} LIKE 'archived:merged\\_into:%' ESCAPE '\\' OR {0} = 'archived:low_utility')",
        what: "a rule-based consolidator archived them and kept no record of what they were",
        stop: STOP_RULES,
    },
];

/// Looks for traces of other consolidators in the store and beside it.
pub(super) fn examine(
    connection: &Connection,
    columns: &Columns,
    path: &Path,
) -> rusqlite::Result<Vec<Rival>> {
    let mut rivals = Vec::new();
    if !Columns::of(connection, "compression_log")?.is_empty() {
        let what = "an abstraction engine archives memories into summaries of its own";
        let place = "table compression_log".to_owned();
        rivals.push(Rival { place, what, stop: STOP_ENGINE, rows: None });
    }
    let beside = path.with_file_name("consolidations.db");
    if beside.exists() {
        let place = memfold_model::text::excerpt(&beside.display().to_string(), 200);
        let what = "a nightly consolidator deletes memories without a trace";
        rivals.push(Rival { place, what, stop: STOP_NIGHTLY, rows: None });
    }
    for (habit, count) in HABITS.iter().zip(counts(connection, columns)?) {
        if count > 0 {
            let rows = if count == 1 { "row" } else { "rows" };
            let place = format!("{count} {rows} with {}", habit.place);
            let Habit { what, stop, .. } = *habit;
            rivals.push(Rival { place, what, stop, rows: Some(count) });
        }
    }
    Ok(rivals)
}

/// Counts the rows of every habit in one pass.
fn counts(connection: &Connection, columns: &Columns) -> rusqlite::Result<Vec<u64>> {
    let count = |habit: &Habit| {
        let column = columns.expression(habit.column);
        let rows = habit.rows.replace("{0}", &column).replace("{}", &column);
        format!("count(CASE WHEN {rows} THEN 1 END)")
    };
    let listed: Vec<String> = HABITS.iter().map(count).collect();
    let sql = format!("SELECT {} FROM stm", listed.join(", "));
    connection.query_row(&sql, [], |row| {
        (0..HABITS.len()).map(|at| row.get::<_, i64>(at).map(i64::unsigned_abs)).collect()
    })
}
