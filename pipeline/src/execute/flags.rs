//! Flags of pairs that saves found alike, judged again.

use memfold_guard::{Guard, Verdict};
use memfold_model::decisions::content_hash;
use memfold_store::brain_db::{Session, SessionError, WaitingFlag, Writes};

/// What became of flags that were judged again.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rejudged {
    /// The two speak of different things: nobody needs to look.
    pub closed: u64,
    /// The two contradict each other: a person should.
    pub contradictory: u64,
}

/// Judges the pairs that saves flagged as alike and that still stand as they were, by the present rules. Those of which a
/// side was folded, edited or deleted close by themselves.
///
/// # Errors
/// When the store cannot be written.
pub fn rejudge_flags(session: &Session, guard: &Guard) -> Result<Rejudged, SessionError> {
    let waiting = session.read(|reads| reads.near_flags())?;
    let mut rejudged = Rejudged::default();
    for flag in waiting {
        session.write(|writes| {
            let Some([left, right]) = texts(writes, &flag)? else { return Ok(()) };
            let judgement = guard.judge(&guard.read(&left), &guard.read(&right));
            match judgement.verdict {
                Verdict::Different => {
                    rejudged.closed += 1;
                    writes.close_flag(flag.id)
                }
                Verdict::Contradictory => {
                    rejudged.contradictory += 1;
                    writes.flag_as_contradiction(flag.id, judgement.contradiction_score)
                }
                Verdict::Compatible | Verdict::Complementary => Ok(()),
            }
        })?;
    }
    Ok(rejudged)
}

/// The texts of a flag's memories, where both are what they were.
fn texts(writes: &Writes<'_>, flag: &WaitingFlag) -> Result<Option<[String; 2]>, SessionError> {
    let layout = writes.layout()?;
    let mut texts = Vec::with_capacity(2);
    for (id, hash) in &flag.sides {
        let row = writes.memory(&layout, &memfold_model::memory::MemoryId::new(id.as_str()))?;
        let text = row.and_then(|row| Some(row.image.get("content")?.as_text()?.to_owned()));
        texts.extend(text.filter(|text| content_hash(text) == *hash));
    }
    Ok(<[String; 2]>::try_from(texts).ok())
}
