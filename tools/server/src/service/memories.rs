//! Single memories: check, save, search and recall, and the start of a session.

use std::collections::BTreeMap;

use memfold::lookup::Wanted;
use memfold::ops::{Answered, Found, RecallRequest, SearchRequest};
use memfold::quick_check::{
    Check, Incoming, SaveRequest, Saved, SavedOnce, vector_fault, with_user,
};
use memfold::session_start::session_context;
use memfold_core::memory::{Memory, MemoryId};
use memfold_simd::Similarity;
use memfold_store::StoreError;

use super::problem::{Problem, ProblemKind};
use super::store::ServedStore;

/// Longest text of a memory, in bytes.
const TEXT_BYTES_MAX: usize = 1 << 20;
/// Most memories of an answer.
pub(crate) const MATCHES_MAX: usize = 1_000;
/// Longest `Idempotency-Key`.
const KEY_BYTES_MAX: usize = 255;

/// The result of a save.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum SaveAnswer {
    /// It was done now.
    Now(Box<Saved>),
    /// It was done before; the JSON of the answer of that time.
    Before(String),
}

impl ServedStore {
    /// Decides how a memory would be saved, and writes nothing.
    ///
    /// # Errors
    /// When there is neither text nor vector, or one is too long.
    pub(crate) fn check(&self, incoming: Incoming) -> Result<Check, Problem> {
        check_length(&incoming)?;
        if incoming.text.is_none() && incoming.vector.is_none() {
            return Err(Problem::unprocessable("there is nothing to check")
                .with_hint("give a text, a vector, or both"));
        }
        let check = self.memories.check(incoming, &self.printer)?;
        self.metrics.checked(&self.name, "check", &check);
        Ok(check)
    }

    /// Saves a memory unless it is known already; once for each `key`.
    ///
    /// # Errors
    /// When writing is not allowed, the memory cannot be saved, or the key is another save's.
    pub(crate) fn save(
        &self,
        incoming: Incoming,
        key: Option<&str>,
    ) -> Result<SaveAnswer, Problem> {
        self.may_write()?;
        let digest = digest_of(&incoming);
        check_length(&incoming)?;
        self.pull()?;
        let Some(key) = key else {
            let saved = self.memories.save(incoming, &self.printer)?;
            self.saved(&saved)?;
            return Ok(SaveAnswer::Now(Box::new(saved)));
        };
        if key.is_empty() || key.len() > KEY_BYTES_MAX || !key.bytes().all(|b| b.is_ascii_graphic())
        {
            return Err(Problem::new(ProblemKind::Malformed, "the Idempotency-Key is no name")
                .with_hint(format!("use 1 to {KEY_BYTES_MAX} visible ASCII characters")));
        }
        let request = SaveRequest { key, digest: &digest };
        match self.memories.save_once(incoming, request, &self.printer)? {
            SavedOnce::Saved(saved) => {
                self.saved(&saved)?;
                Ok(SaveAnswer::Now(saved))
            }
            SavedOnce::Before(answer) => {
                // The server may have ended between the save and its publication.
                self.publish()?;
                Ok(SaveAnswer::Before(answer))
            }
            SavedOnce::AnotherRequest => {
                Err(Problem::unprocessable("the Idempotency-Key is that of another save")
                    .with_hint("use a new key for each memory"))
            }
        }
    }

    /// Counts and publishes a save, and seals fresh rows beside the answer, where they are many.
    fn saved(&self, saved: &Saved) -> Result<(), Problem> {
        self.metrics.checked(&self.name, "save", &saved.check);
        self.publish()?;
        let printer = self.printer;
        self.memories.seal_beside(saved, move |error| {
            printer.detail(&format!("note: fresh rows were not sealed: {error}"));
        });
        Ok(())
    }

    /// Finds the nearest memories.
    ///
    /// # Errors
    /// When there is nothing to search by, or the store cannot be searched so.
    pub(crate) fn search(&self, request: &SearchRequest) -> Result<Found, Problem> {
        let limit = limited(request.limit)?;
        check_vector(request.vector.as_deref())?;
        let threshold = request.threshold.map(|least| {
            Similarity::new(least)
                .ok_or_else(|| Problem::unprocessable("the threshold is not from -1 to 1"))
        });
        let query = request.query()?;
        let wanted = Wanted { neighbors: Some(limit), similarity_min: threshold.transpose()? };
        let scope = with_user(&request.categories, request.user_id.as_deref());
        Ok(self.memories.search(query, wanted, &scope, false, &self.printer)?)
    }

    /// Finds the memories that answer a question.
    ///
    /// # Errors
    /// When the store cannot be read, or the vector does not fit.
    pub(crate) fn recall(&self, request: &RecallRequest) -> Result<Answered, Problem> {
        limited(request.limit)?;
        check_vector(request.vector.as_deref())?;
        Ok(self.memories.recall(request, self.now(), &self.printer)?)
    }

    /// Reads the status and the texts of memories.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn by_id<'i>(
        &self,
        ids: impl IntoIterator<Item = &'i MemoryId>,
    ) -> Result<BTreeMap<MemoryId, Memory>, Problem> {
        let ids: Vec<&MemoryId> = ids.into_iter().collect();
        let found = self.db.look_up(&self.load(self.now()), |reader| {
            let mut by_id = BTreeMap::new();
            for id in ids.iter().copied() {
                if !by_id.contains_key(id)
                    && let Some(memory) = reader.remembered(id.as_str())?
                {
                    by_id.insert(id.clone(), memory);
                }
            }
            Ok::<_, StoreError>(by_id)
        });
        Ok(found?)
    }

    /// Returns the block of memories that a session in a directory starts with; empty where there is nothing to show.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub(crate) fn session_context(&self, directory: &str, branch: &str) -> Result<String, Problem> {
        Ok(session_context(&self.db, &self.settings, directory, branch, self.now())?)
    }
}

/// Refuses a text that is too long to be sent.
fn check_length(request: &Incoming) -> Result<(), Problem> {
    match request.text.as_deref().is_some_and(|text| text.len() > TEXT_BYTES_MAX) {
        true => {
            let detail = format!("the text is longer than {TEXT_BYTES_MAX} bytes");
            Err(Problem::new(ProblemKind::TooLarge, detail))
        }
        false => Ok(()),
    }
}

fn limited(limit: Option<usize>) -> Result<usize, Problem> {
    let limit = limit.unwrap_or(10);
    if (1..=MATCHES_MAX).contains(&limit) {
        return Ok(limit);
    }
    Err(Problem::unprocessable(format!("the limit is {limit}, not from 1 to {MATCHES_MAX}")))
}

fn check_vector(vector: Option<&[f32]>) -> Result<(), Problem> {
    vector.and_then(vector_fault).map_or(Ok(()), |fault| Err(Problem::unprocessable(fault)))
}

/// A hash of the memory to save, independent of the order of the JSON's members.
fn digest_of(request: &Incoming) -> String {
    let json = serde_json::to_vec(request).expect("a request holds strings and numbers only");
    blake3::hash(&json).to_hex().to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_order_of_members_does_not_count_and_everything_else_does() {
        let read = |json: &str| digest_of(&serde_json::from_str(json).unwrap());
        let digest = read(r#"{"text":"a","vector":[1,0.5],"user_id":"u"}"#);
        assert_eq!(digest, read(r#"{"user_id":"u","vector":[1.0,0.5],"text":"a","id":null}"#));
        for other in [
            r#"{"text":"b","vector":[1,0.5],"user_id":"u"}"#,
            r#"{"text":"a","vector":[1,0.5]}"#,
            r#"{"text":"a","vector":[1,0.5],"user_id":"u","importance":1}"#,
        ] {
            assert_ne!(digest, read(other), "{other}");
        }
    }

    #[test]
    fn limits_and_vectors_are_bounded() {
        assert_eq!(limited(None).unwrap(), 10);
        assert!(limited(Some(0)).is_err() && limited(Some(MATCHES_MAX + 1)).is_err());
        assert!(check_vector(Some(&[])).is_err() && check_vector(Some(&[f32::NAN])).is_err());
        assert!(
            check_vector(Some(&[0.0, 0.0])).is_err()
                && check_vector(Some(&vec![1.0; 65_537])).is_err()
        );
        assert!(check_vector(Some(&[1.0])).is_ok() && check_vector(None).is_ok());
    }
}
