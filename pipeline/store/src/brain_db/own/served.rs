//! `memfold_requests` and `memfold_schedule`: the state that servers of a store share.

use rusqlite::{Connection, OptionalExtension as _, params};

use crate::brain_db::read::access::Columns;
use crate::brain_db::read::open::BrainDb;
use crate::brain_db::write::session::{Session, SessionError, Writes};
use crate::memory_store::LoadStoreError;

/// A request that was answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AnsweredRequest {
    /// A hash of the request.
    pub digest: String,
    /// The answer, JSON.
    pub answer: String,
}

impl Writes<'_> {
    /// Returns the answer to an earlier request with this name; memfold's tables must exist.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn answered(&self, key: &str) -> Result<Option<AnsweredRequest>, SessionError> {
        let sql = "SELECT digest, answer FROM memfold_requests WHERE key = ?1";
        self.query("read memfold_requests", |connection| {
            let mut statement = connection.prepare_cached(sql)?;
            let read = |row: &rusqlite::Row<'_>| {
                Ok(AnsweredRequest { digest: row.get(0)?, answer: row.get(1)? })
            };
            statement.query_row([key], read).optional()
        })
    }

    /// Remembers an answer, in the transaction that did the work, and drops answers from before
    /// `forgotten_before`. `memories` are the ids that the answer names, a JSON array; times are as
    /// the owner writes them.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn remember_answer(
        &self,
        key: &str,
        request: &AnsweredRequest,
        memories: &str,
        at: &str,
        forgotten_before: &str,
    ) -> Result<(), SessionError> {
        let drop = "DELETE FROM memfold_requests WHERE at < ?1";
        self.execute("drop old answers", drop, [forgotten_before])?;
        let insert = "INSERT INTO memfold_requests(key, digest, memories, answer, at)
                      VALUES (?1, ?2, ?3, ?4, ?5)";
        let AnsweredRequest { digest, answer } = request;
        self.execute("remember an answer", insert, params![key, digest, memories, answer, at])
            .map(|_| ())
    }
}

/// Scheduled work as the store remembers it. Times are RFC 3339 in UTC.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ScheduleRow {
    /// Its settings, JSON; none if not set.
    pub settings: Option<String>,
    /// The last planned time that was taken.
    pub slot: Option<String>,
    /// Who works on it.
    pub holder: Option<String>,
    /// When the claim ends.
    pub leased_until: Option<String>,
    /// How the last work ended, JSON.
    pub outcome: Option<String>,
}

/// A planned time to take.
#[derive(Debug, Clone, Copy)]
pub struct Lease<'a> {
    /// The planned time.
    pub slot: &'a str,
    /// Who wants it.
    pub holder: &'a str,
    /// The time now.
    pub now: &'a str,
    /// When the claim ends.
    pub until: &'a str,
}

impl BrainDb {
    /// Returns the schedule of this name; the empty row where there is none.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn schedule(&self, name: &str) -> Result<ScheduleRow, LoadStoreError> {
        self.consult("memfold_schedule", |connection| {
            if Columns::of(connection, "memfold_schedule")?.is_empty() {
                return Ok(ScheduleRow::default());
            }
            read(connection, name)
        })
    }
}

impl Session {
    /// Stores the settings of scheduled work; makes memfold's tables where needed. The time before which nothing is made
    /// up for, `slot`, is set where none was taken yet. `at` is the time as the owner writes times.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn set_schedule(
        &self,
        name: &str,
        settings: &str,
        slot: &str,
        at: &str,
    ) -> Result<(), SessionError> {
        self.write(|writes| {
            writes.prepare(at)?;
            add_row(writes, name)?;
            let sql = "UPDATE memfold_schedule SET settings = ?2, slot = coalesce(slot, ?3)
                       WHERE name = ?1";
            writes.execute("store the schedule", sql, params![name, settings, slot]).map(|_| ())
        })
    }

    /// Takes a planned time, unless it or a later one is taken, or work is under way. Returns
    /// whether it was taken.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn take_slot(&self, name: &str, lease: Lease<'_>, at: &str) -> Result<bool, SessionError> {
        let Lease { slot, holder, now, until } = lease;
        self.write(|writes| {
            writes.prepare(at)?;
            add_row(writes, name)?;
            let sql = "UPDATE memfold_schedule SET slot = ?2, holder = ?3, leased_until = ?5
                       WHERE name = ?1 AND (slot IS NULL OR slot < ?2)
                         AND (leased_until IS NULL OR leased_until <= ?4)";
            let changed = writes.execute(
                "take a planned time",
                sql,
                params![name, slot, holder, now, until],
            )?;
            Ok(changed == 1)
        })
    }

    /// Extends the claim on the work. Does nothing where another server took over.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn extend_slot(&self, name: &str, holder: &str, until: &str) -> Result<(), SessionError> {
        self.write(|writes| {
            let sql =
                "UPDATE memfold_schedule SET leased_until = ?3 WHERE name = ?1 AND holder = ?2";
            writes.execute("go on with planned work", sql, params![name, holder, until]).map(|_| ())
        })
    }

    /// Releases a planned time after the work, and stores the outcome. Does nothing where another
    /// server took over.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn end_slot(&self, name: &str, holder: &str, outcome: &str) -> Result<(), SessionError> {
        self.write(|writes| {
            let sql = "UPDATE memfold_schedule SET holder = NULL, leased_until = NULL, outcome = ?3
                       WHERE name = ?1 AND holder = ?2";
            writes.execute("end planned work", sql, params![name, holder, outcome]).map(|_| ())
        })
    }
}

fn add_row(writes: &Writes<'_>, name: &str) -> Result<(), SessionError> {
    let sql = "INSERT OR IGNORE INTO memfold_schedule(name) VALUES (?1)";
    writes.execute("store the schedule", sql, [name]).map(|_| ())
}

fn read(connection: &Connection, name: &str) -> rusqlite::Result<ScheduleRow> {
    let sql = "SELECT settings, slot, holder, leased_until, outcome FROM memfold_schedule WHERE name = ?1";
    let row = connection.prepare(sql)?.query_row([name], |row| {
        Ok(ScheduleRow {
            settings: row.get(0)?,
            slot: row.get(1)?,
            holder: row.get(2)?,
            leased_until: row.get(3)?,
            outcome: row.get(4)?,
        })
    });
    Ok(row.optional()?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::brain_db::{BrainDbWriter, CreateOptions, OpenOptions, SessionOptions};

    const AT: &str = "2026-06-30T12:00:00.000000";

    fn session(folder: &std::path::Path) -> Session {
        let path = folder.join("brain.db");
        if !path.exists() {
            BrainDbWriter::create(&path, CreateOptions::default()).unwrap().finish().unwrap();
        }
        let options =
            SessionOptions { busy_timeout: Duration::from_secs(1), holder: "here 1".to_owned() };
        Session::open_beside_runs(&path, &options).unwrap()
    }

    fn lease<'a>(slot: &'a str, holder: &'a str, now: &'a str, until: &'a str) -> Lease<'a> {
        Lease { slot, holder, now, until }
    }

    /// Two servers run a planned time once; the lease of one that died runs out.
    #[test]
    fn a_planned_time_is_taken_once() {
        let folder = tempfile::tempdir().unwrap();
        let (one, other) = (session(folder.path()), session(folder.path()));
        let (first, second) = ("2026-07-01T02:00:00Z", "2026-07-02T02:00:00Z");
        let take = |by: &Session, lease| by.take_slot("work", lease, AT).unwrap();
        assert!(take(&one, lease(first, "one", first, "2026-07-01T03:00:00Z")));
        assert!(!take(&other, lease(first, "other", first, "2026-07-01T03:00:00Z")));
        // Still at work.
        assert!(!take(&other, lease(second, "other", "2026-07-01T02:30:00Z", second)));
        other.end_slot("work", "other", "{}").unwrap();
        assert!(!take(&other, lease(second, "other", "2026-07-01T02:30:00Z", second)));
        one.end_slot("work", "one", "{\"state\":\"done\"}").unwrap();
        assert!(!take(&other, lease(first, "other", "2026-07-01T02:30:00Z", second)));
        assert!(take(&other, lease(second, "other", second, "2026-07-02T03:00:00Z")));
        // It died.
        let third = "2026-07-03T02:00:00Z";
        assert!(take(&one, lease(third, "one", third, "2026-07-03T03:00:00Z")));
        let store = BrainDb::open(one.path(), OpenOptions::default()).unwrap();
        let row = store.schedule("work").unwrap();
        assert_eq!(row.slot.as_deref(), Some(third));
        assert_eq!(row.outcome.as_deref(), Some("{\"state\":\"done\"}"));
        assert_eq!(store.schedule("other work").unwrap(), ScheduleRow::default());
    }

    #[test]
    fn settings_are_kept_and_nothing_before_them_is_made_up_for() {
        let folder = tempfile::tempdir().unwrap();
        let session = session(folder.path());
        session.set_schedule("work", "{}", "2026-07-01T00:00:00Z", AT).unwrap();
        session.set_schedule("work", "{\"a\":1}", "2026-08-01T00:00:00Z", AT).unwrap();
        let store = BrainDb::open(session.path(), OpenOptions::default()).unwrap();
        let row = store.schedule("work").unwrap();
        assert_eq!(row.settings.as_deref(), Some("{\"a\":1}"));
        assert_eq!(row.slot.as_deref(), Some("2026-07-01T00:00:00Z"));
    }
}
