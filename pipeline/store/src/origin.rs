//! Origins: stores of other systems, which are mirrored into a `brain.db` of ours and published back to.
//!
//! An adapter implements [`Origin`]: it reads records as plain data and writes changes. It knows nothing
//! of plans, guards or the mirror.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

/// A store of another system.
pub trait Origin {
    /// Returns the name of the format, as `--store-kind` spells it.
    fn kind(&self) -> &'static str;

    /// Reads every record. Writes nothing.
    ///
    /// # Errors
    /// When the origin cannot be read; a record that cannot be understood is a [`Skipped`], not an error.
    fn read(&self) -> Result<OriginContents, OriginError>;

    /// Writes changes, one unit after the other. Changes that are written already are passed over, so
    /// writing the same units again changes nothing.
    ///
    /// If one record of a unit differs from its state when it was read, the whole unit is left
    /// alone. New records are written and synced before anything is removed.
    ///
    /// # Errors
    /// When the origin cannot be written. Units before the failing one stay written.
    fn write(&self, units: &[OriginUnit]) -> Result<Published, OriginError>;

    /// Returns patterns for `cluster.separate_by` of records that must never be merged across,
    /// beside the configured ones.
    fn separate_by(&self) -> &'static [&'static str] {
        &[]
    }

    /// Returns the name of the rules that its owner has, a profile of the configuration.
    fn rule_profile(&self) -> Option<&'static str> {
        None
    }

    /// Sets the trigger of the run that is written next, for an origin that keeps a log of runs.
    fn begun_by(&mut self, _trigger: &str) {}

    /// Returns the indexes of the origin that list more than they should, each with the category of the memories that
    /// it lists; `None` where they have none in common.
    ///
    /// # Errors
    /// When the origin cannot be read.
    fn overflows(&self) -> Result<Vec<(String, Option<String>)>, OriginError> {
        Ok(Vec::new())
    }

    /// Rebuilds the data that the origin derives from its records (indexes), at a time as RFC 3339.
    /// Returns the parts that were out of date.
    ///
    /// # Errors
    /// When the origin cannot be read or written.
    fn rebuild(&self, _at: &str) -> Result<Vec<String>, OriginError> {
        Ok(Vec::new())
    }

    /// Sets the file for records that are taken out of an origin, where it has no place of its own
    /// for them.
    fn keep_removed_in(&mut self, _file: &Path) {}

    /// Tells whether nothing else than that file has the texts that were taken out, so that it must last.
    fn keeps_removed(&self) -> bool {
        false
    }

    /// Returns advice about the origin itself.
    fn advice(&self) -> Vec<String> {
        Vec::new()
    }

    /// Reads the records of some ids, removed ones as well. Others may be among them.
    ///
    /// # Errors
    /// As [`Self::read`].
    fn read_some(&self, _ids: &BTreeSet<&str>) -> Result<OriginContents, OriginError> {
        self.read()
    }

    /// Names the table of a database and how its rows are taken out; `false` where the origin has no tables.
    ///
    /// # Errors
    /// When the choice is not valid, or cannot be kept.
    fn choose_table(&mut self, _choice: &TableChoice) -> Result<bool, OriginError> {
        Ok(false)
    }

    /// Makes sure that the origin can be used that way, before anything is done.
    ///
    /// # Errors
    /// When it cannot be used that way: the error gives the reason and a fix.
    fn check(&self, _usage: Usage) -> Result<(), OriginError> {
        Ok(())
    }

    /// Says how the origin is understood, where that is not clear from its kind.
    fn description(&self) -> Option<String> {
        None
    }

    /// Returns how its owner can remove records; `None` where that is not done by a script.
    ///
    /// # Errors
    /// When the origin cannot be read, or not changed that way.
    fn removal_script(
        &self,
        _removals: &[PlannedRemoval],
        _form: ScriptForm,
    ) -> Result<Option<String>, OriginError> {
        Ok(None)
    }
}

/// The intended use of an origin.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Usage {
    /// To read it.
    Read,
    /// To add a record.
    Add,
    /// To take records out, or put them back.
    Remove,
}

/// Which table of a database holds memories, and how its rows are taken out. Unnamed parts are
/// detected.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct TableChoice {
    /// The table.
    pub table: Option<String>,
    /// The column of ids.
    pub id: Option<String>,
    /// The column of texts.
    pub text: Option<String>,
    /// The column of times.
    pub time: Option<String>,
    /// The column of users: memories of two are never merged.
    pub user: Option<String>,
    /// The column of vectors, or the table of sqlite-vec that has them.
    pub vector: Option<String>,
    /// How rows are taken out.
    pub removal: Option<Removal>,
}

/// How a row of a table is taken out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Removal {
    /// It is deleted.
    Delete,
    /// A column marks it.
    Flag {
        /// The column.
        column: String,
        /// The value as typed: a number, NULL, `now` or text.
        value: String,
    },
}

/// The form of the removals for the owner of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ScriptForm {
    /// As SQL.
    Sql,
    /// As ids, for the interface of the program that owns the store.
    Ids,
}

/// A record that a plan takes out.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedRemoval {
    /// Its id.
    pub id: String,
    /// The record that has the same statement, where there is one.
    pub into: Option<String>,
    /// The rule that caused it.
    pub rule: String,
}

/// The contents of an origin.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct OriginContents {
    /// The records in the order of the origin.
    pub records: Vec<OriginRecord>,
    /// Records that could not be understood.
    pub skipped: Vec<Skipped>,
}

/// A memory as an origin holds it.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
pub struct OriginRecord {
    /// The id: unique in the origin and the same at every reading.
    pub id: String,
    /// Its text, as it is compared and embedded.
    pub text: String,
    /// Tags as written, in their order.
    pub tags: Vec<String>,
    /// Attributes with one value each (type, subtype, scope, priority, created_by, entity, …), in the
    /// order of their names. In the mirror they are categories `name:value`.
    pub attributes: Vec<(String, String)>,
    /// Importance from 0 to 3 as `brain.db` has it.
    pub importance: f64,
    /// How often it was read.
    pub access_count: i64,
    /// When it was made, as RFC 3339 or, if it is not a time, as written.
    pub created_at: Option<String>,
    /// When it was changed last.
    pub updated_at: Option<String>,
    /// When it was read last.
    pub last_accessed: Option<String>,
    /// When it expires.
    pub expires_at: Option<String>,
    /// Where it came from, for rules on sources: the creator where the origin names one.
    pub source: String,
    /// Its explicit links.
    pub links: Vec<OriginLink>,
    /// Its vector with the model that made it, where the origin keeps one.
    pub vector: Option<(String, Vec<f32>)>,
    /// Its status.
    #[serde(rename = "standing")] // the name on disk, which [`mark`](Self::mark) hashes
    pub status: OriginStatus,
    /// Where it stands, for people: a path relative to the origin and a position.
    pub place: String,
    /// The record exactly as written.
    pub raw: String,
}

/// Whether a record counts.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum OriginStatus {
    /// It counts.
    #[default]
    Live,
    /// It was merged into another record.
    Merged {
        /// The id of the other record.
        into: String,
    },
    /// It is archived for another reason.
    Archived,
}

/// A link from a record to another one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct OriginLink {
    /// The relation.
    pub kind: LinkKind,
    /// The id of the other record.
    pub to: String,
}

/// The relation of a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum LinkKind {
    /// It names the other record.
    References,
    /// It takes the place of the other record.
    Supersedes,
}

/// Why something was not read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Skipped {
    /// Where it stands.
    pub place: String,
    /// Why.
    pub reason: String,
}

/// Changes that belong together: all are written or none.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct OriginUnit {
    /// The run that made them.
    pub run_id: String,
    /// When, as RFC 3339 in UTC.
    pub at: String,
    /// The rule that caused them.
    pub rule: String,
    /// The changes; at most one for each record.
    pub changes: Vec<OriginChange>,
}

/// A change of one record. `before` is the digest of the record ([`OriginRecord::digest`]) as it was read or, where
/// memfold wrote it since, as it was written: a record of another digest was changed by others.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub enum OriginChange {
    /// A record that memfold wrote (a summary, a text written anew, a promoted copy).
    Create {
        /// The record; its `raw` and `place` are the adapter's to make, its id is the mirror's.
        record: Box<OriginRecord>,
        /// The records it was made of.
        made_of: Vec<String>,
    },
    /// Text, tags, attributes, importance, access count or links are others now.
    Update {
        /// The digest before.
        before: String,
        /// The record as it shall be; `raw` is as it was read.
        record: Box<OriginRecord>,
        /// The records that were merged into it.
        merged: Vec<String>,
    },
    /// The record stops counting and moves to where the origin keeps old ones.
    Retire {
        /// The digest before.
        before: String,
        /// The id.
        id: String,
        /// The record that has the same statement, where there is one.
        into: Option<String>,
        /// Why.
        reason: String,
    },
    /// The inverse of an earlier change: restores the record to `record.raw`, live, at its place.
    Restore {
        /// The digest before; `None` where it is unknown, so that it is not compared.
        #[serde(default)]
        before: Option<String>,
        /// The record as it was first read.
        record: Box<OriginRecord>,
    },
    /// The inverse of [`Self::Create`].
    Remove {
        /// The digest before; `None` where it is unknown, so that it is not compared.
        #[serde(default)]
        before: Option<String>,
        /// The id.
        id: String,
    },
}

/// The result of a write.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Published {
    /// Units that are written now or were already, by position.
    pub units: Vec<usize>,
    /// Units that were left alone.
    pub conflicts: Vec<OriginConflict>,
}

/// A unit that was left alone.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OriginConflict {
    /// The position of the unit.
    pub unit: usize,
    /// The record that differs.
    pub id: String,
    /// The difference.
    pub reason: String,
}

/// Why an origin could not be read or written.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OriginError {
    /// A file cannot be read or written.
    #[error("{action} {}: {source}", path.display())]
    Io {
        /// The step that failed: `read`, `write`, `lock`, …
        action: &'static str,
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: std::io::Error,
    },
    /// A file has an invalid format, so that nothing in it can be trusted.
    #[error("{} is no {kind}: {reason}", path.display())]
    Format {
        /// The file.
        path: PathBuf,
        /// The format.
        kind: &'static str,
        /// The defect and its place.
        reason: String,
    },
    /// This program was built without this kind of store.
    #[error("{} is a store of kind {kind}, and this memfold was built without the feature {feature}", path.display())]
    NotBuilt {
        /// The store.
        path: PathBuf,
        /// Its kind.
        kind: &'static str,
        /// The Cargo feature that adds it.
        feature: &'static str,
    },
    /// The origin cannot be used in the intended way.
    #[error("{}: {reason}", path.display())]
    Refused {
        /// The store.
        path: PathBuf,
        /// Why.
        reason: String,
        /// Advice.
        hint: String,
    },
    /// Another process writes to the origin.
    #[error("{} is being written by another process", path.display())]
    Locked {
        /// The lock.
        path: PathBuf,
    },
}

impl OriginChange {
    /// Returns the id of the record that it is about.
    #[must_use]
    pub fn id(&self) -> &str {
        match self {
            Self::Create { record, .. }
            | Self::Update { record, .. }
            | Self::Restore { record, .. } => &record.id,
            Self::Retire { id, .. } | Self::Remove { id, .. } => id,
        }
    }
}

impl OriginRecord {
    /// Returns the categories of its memory: the tags, then the attributes as `name:value`.
    #[must_use]
    pub fn categories(&self) -> Vec<String> {
        let attributes = self.attributes.iter().map(|(name, value)| format!("{name}:{value}"));
        self.tags.iter().cloned().chain(attributes).collect()
    }

    /// Returns a hash of everything that a mirror keeps of the record, including its status and its
    /// vector: 32 hexadecimal digits. Data beside the raw record (an archive, an index) counts, its
    /// place does not.
    #[must_use]
    pub fn mark(&self) -> String {
        let mut hasher = blake3::Hasher::new();
        let plain = Self { vector: None, place: String::new(), ..self.clone() };
        hasher.update(&serde_json::to_vec(&plain).unwrap_or_default());
        if let Some((model, vector)) = &self.vector {
            hasher.update(model.as_bytes());
            for value in vector {
                hasher.update(&value.to_le_bytes());
            }
        }
        hasher.finalize().to_hex()[..32].to_owned()
    }

    /// Returns the digest of the record as written: 32 hexadecimal digits.
    #[must_use]
    pub fn digest(&self) -> String {
        blake3::hash(self.raw.as_bytes()).to_hex()[..32].to_owned()
    }
}

impl OriginError {
    /// Returns advice for the user.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        Some(match self {
            Self::Io { .. } => "check the path, and who may read and write there".to_owned(),
            Self::Format { .. } => {
                "name its kind with --store-kind, or mend the file with the tool that wrote it"
                    .to_owned()
            }
            Self::NotBuilt { feature, .. } => format!(
                "build it with `cargo install --path tools/cli --locked --features {feature}`"
            ),
            Self::Refused { hint, .. } => hint.clone(),
            Self::Locked { .. } => "wait until the other process is done and try again".to_owned(),
        })
    }
}
