//! The table of a SQLite file for `memfold consolidate`, and the script that it writes for the
//! file's owner.

use std::path::PathBuf;

use clap::{self, Args};
use memfold::ops::{OpenOrigin, StorePath};
use memfold_core::plan::{ActionType, Plan};
use memfold_store::origin::{PlannedRemoval, Removal, ScriptForm, TableChoice};

use crate::failure::Failure;
use crate::outputs;
use crate::printer::Printer;
use crate::writing::counted;

/// Which table of a SQLite file holds memories. What is typed once is remembered.
#[derive(Debug, Clone, Default, Args)]
#[command(next_help_heading = "A table of a SQLite file")]
pub(crate) struct TableArgs {
    /// The table of the memories [default: recognised by its columns]
    #[arg(long, value_name = "TABLE")]
    pub(crate) table: Option<String>,
    /// The column of their ids [default: id, uuid, …]
    #[arg(long, value_name = "COLUMN", requires = "table")]
    pub(crate) id: Option<String>,
    /// The column of their texts [default: content, text, memory, …]
    #[arg(long, value_name = "COLUMN", requires = "table")]
    pub(crate) text: Option<String>,
    /// The column of the times at which they were made [default: created_at, …]
    #[arg(long, value_name = "COLUMN", requires = "table")]
    pub(crate) time: Option<String>,
    /// The column of users: memories of two are never merged [default: user_id, …]
    #[arg(long, value_name = "COLUMN", requires = "table")]
    pub(crate) user: Option<String>,
    /// The column of vectors, or the table of sqlite-vec that has them
    #[arg(long, value_name = "NAME", requires = "table")]
    pub(crate) vector: Option<String>,
    /// How --execute takes rows out: delete, or COLUMN=VALUE, such as archived=1 or deleted_at=now
    #[arg(long, value_name = "HOW", value_parser = removal)]
    pub(crate) removed: Option<Removal>,
    /// Write an SQL script here that removes the rows, for you to run
    #[arg(long, value_name = "FILE", conflicts_with = "execute")]
    pub(crate) sql: Option<PathBuf>,
    /// Write the ids of these rows here (JSON Lines), for the API of the program that owns the file
    #[arg(long, value_name = "FILE", conflicts_with = "execute")]
    pub(crate) ids: Option<PathBuf>,
}

impl TableArgs {
    /// Returns the choice, where one was made.
    pub(crate) fn choice(&self) -> Option<TableChoice> {
        let choice = TableChoice {
            table: self.table.clone(),
            id: self.id.clone(),
            text: self.text.clone(),
            time: self.time.clone(),
            user: self.user.clone(),
            vector: self.vector.clone(),
            removal: self.removed.clone(),
        };
        let is_made = choice != TableChoice::default() || self.sql.is_some() || self.ids.is_some();
        is_made.then_some(choice)
    }

    /// Writes the requested files about the rows that a plan removes.
    pub(super) fn write(
        &self,
        store: &StorePath,
        plan: &Plan,
        printer: &Printer,
    ) -> Result<(), Failure> {
        for (path, form) in [(&self.sql, ScriptForm::Sql), (&self.ids, ScriptForm::Ids)] {
            let (Some(path), Some(mirrored)) = (path, store.mirrored()) else { continue };
            let removals = removals(plan);
            let script = OpenOrigin::reopen(mirrored)?.removal_script(&removals, form)?;
            outputs::write(path, &script)?;
            let rows = counted(removals.len() as u64, "row", "rows");
            printer.note(&format!("wrote {}: {rows} to remove", path.display()));
        }
        Ok(())
    }
}

/// The memories that a plan takes out.
fn removals(plan: &Plan) -> Vec<PlannedRemoval> {
    let mut removals = Vec::new();
    for action in &plan.actions {
        let rule = &action.rationale.rule_id;
        let removal = |id: &str, into: Option<String>| PlannedRemoval {
            id: id.to_owned(),
            into,
            rule: rule.clone(),
        };
        match action.action {
            ActionType::Merge => {
                let into = action.canonical_id.as_ref().map(ToString::to_string);
                removals.extend(
                    action.merged_ids().iter().map(|id| removal(&id.to_string(), into.clone())),
                );
            }
            ActionType::Archive => {
                removals.extend(action.target_ids.iter().map(|id| removal(&id.to_string(), None)));
            }
            _ => {}
        }
    }
    removals
}

/// Reads `delete` or `COLUMN=VALUE`.
fn removal(typed: &str) -> Result<Removal, String> {
    if typed == "delete" {
        return Ok(Removal::Delete);
    }
    match typed.split_once('=') {
        Some((column, value)) if !column.trim().is_empty() => {
            Ok(Removal::Flag { column: column.trim().to_owned(), value: value.trim().to_owned() })
        }
        _ => Err("expected delete, or COLUMN=VALUE such as archived=1".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn removals_are_read_as_typed() {
        assert_eq!(removal("delete"), Ok(Removal::Delete));
        let flag = |column: &str, value: &str| {
            Ok(Removal::Flag { column: column.to_owned(), value: value.to_owned() })
        };
        assert_eq!(removal("archived=1"), flag("archived", "1"));
        assert_eq!(removal("status=a=b"), flag("status", "a=b"));
        for wrong in ["", "remove", "=1"] {
            assert!(removal(wrong).is_err(), "{wrong}");
        }
    }
}
