//! `memfold_judgements`: opinions of models on proposals, so that no question is asked twice.

use rusqlite::params;

use crate::brain_db::read::access::Columns;
use crate::brain_db::read::open::BrainDb;
use crate::brain_db::write::session::{Session, SessionError};
use crate::memory_store::LoadStoreError;

/// The opinion of one model on one group of memories.
#[derive(Debug, Clone, PartialEq)]
pub struct StoredJudgement {
    /// The hash of the question and of the model.
    pub key: String,
    /// The model.
    pub judge: String,
    /// The ids of the memories.
    pub memories: Vec<String>,
    /// The opinions, as JSON.
    pub opinions: String,
    /// Requests that the answer took.
    pub requests: i64,
    /// Tokens that were sent.
    pub prompt_tokens: i64,
    /// Tokens of the answer.
    pub completion_tokens: i64,
    /// Its cost.
    pub cost: f64,
    /// How long it took.
    pub latency_ms: i64,
}

impl BrainDb {
    /// Returns all stored judgements and their times, in the order of the keys. Rows that cannot be
    /// read are left out.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn judgements(&self) -> Result<Vec<(StoredJudgement, String)>, LoadStoreError> {
        self.consult("memfold_judgements", |connection| {
            if Columns::of(connection, "memfold_judgements")?.is_empty() {
                return Ok(Vec::new());
            }
            let mut statement = connection.prepare(
                "SELECT key, judge, memories, opinions, requests, prompt_tokens, completion_tokens, cost, latency_ms, at
                 FROM memfold_judgements ORDER BY key",
            )?;
            let rows = statement.query_map([], |row| {
                let read = || -> rusqlite::Result<_> {
                    let memories: String = row.get(2)?;
                    let stored = StoredJudgement {
                        key: row.get(0)?,
                        judge: row.get(1)?,
                        memories: serde_json::from_str(&memories).unwrap_or_default(),
                        opinions: row.get(3)?,
                        requests: row.get(4)?,
                        prompt_tokens: row.get(5)?,
                        completion_tokens: row.get(6)?,
                        cost: row.get(7)?,
                        latency_ms: row.get(8)?,
                    };
                    Ok((stored, row.get(9)?))
                };
                Ok(read().ok())
            })?;
            rows.filter_map(Result::transpose).collect()
        })
    }
}

impl Session {
    /// Keeps judgements, all or none; makes memfold's tables where needed. `at` is the time as the owner writes times.
    ///
    /// # Errors
    /// When the store cannot be written.
    pub fn keep_judgements(
        &self,
        judgements: &[StoredJudgement],
        at: &str,
    ) -> Result<(), SessionError> {
        self.write(|writes| {
            writes.prepare(at)?;
            for judgement in judgements {
                writes.execute(
                    "keep a judgement",
                    "INSERT OR REPLACE INTO memfold_judgements
                     (key, judge, memories, opinions, requests, prompt_tokens, completion_tokens, cost, latency_ms, at)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)",
                    params![
                        judgement.key,
                        judgement.judge,
                        serde_json::Value::from(judgement.memories.clone()).to_string(),
                        judgement.opinions,
                        judgement.requests,
                        judgement.prompt_tokens,
                        judgement.completion_tokens,
                        judgement.cost,
                        judgement.latency_ms,
                        at,
                    ],
                )?;
            }
            Ok(())
        })
    }
}
