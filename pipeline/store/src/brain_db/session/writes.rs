//! [`Writes`]: the statements of one transaction.

use std::path::Path;

use rusqlite::{Connection, Params};

use super::SessionError;
use super::layout::Layout;
use crate::brain_db::load::derived_store_id;
use crate::brain_db::own::{self, MigrateError};

/// One transaction: whoever holds it may read and write until it ends.
pub struct Writes<'a> {
    connection: &'a Connection,
    path: &'a Path,
}

impl std::fmt::Debug for Writes<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writes").field("path", &self.path).finish_non_exhaustive()
    }
}

impl<'a> Writes<'a> {
    pub(super) fn new(connection: &'a Connection, path: &'a Path) -> Self {
        Self { connection, path }
    }

    /// The connection, inside the transaction.
    pub(crate) fn connection(&self) -> &'a Connection {
        self.connection
    }

    /// The store's file.
    pub fn path(&self) -> &'a Path {
        self.path
    }

    /// Looks at the tables as they are in this transaction.
    pub fn layout(&self) -> Result<Layout, SessionError> {
        Layout::of(self.connection).map_err(self.explain("read the tables' columns"))
    }

    /// Makes or renews memfold's tables where needed.
    pub fn prepare(&self, at: &str) -> Result<(), SessionError> {
        let connection = self.connection;
        let migrated =
            own::migrate(connection, || derived_store_id(connection).map(Into::into), at);
        migrated.map_err(|error| match error {
            MigrateError::Newer { found } => {
                SessionError::NewerTables { path: self.path.to_owned(), found }
            }
            MigrateError::Sqlite(error) => self.explain("make memfold's tables")(error),
        })
    }

    /// Runs a statement that writes; returns the number of rows.
    pub(crate) fn execute(
        &self,
        what: &'static str,
        sql: &str,
        params: impl Params,
    ) -> Result<usize, SessionError> {
        let run = || self.connection.prepare_cached(sql)?.execute(params);
        run().map_err(self.explain(what))
    }

    /// Runs statements as one step.
    pub(crate) fn query<T>(
        &self,
        what: &'static str,
        run: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<T, SessionError> {
        run(self.connection).map_err(self.explain(what))
    }

    fn explain(&self, what: &'static str) -> impl Fn(rusqlite::Error) -> SessionError + '_ {
        move |error| SessionError::of_sqlite(self.path, what, &error, None)
    }
}
