//! Opinions: what a judge answers, and how answers are read.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bytes of an answer that are read; a longer one is no answer.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// Opinions in one answer.
const OPINIONS_MAX: usize = 1_000;
/// Bytes of an answer that an error shows.
const SHOWN_BYTES_MAX: usize = 120;

/// What should become of memories, in the terms of the prompt.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum OpinionKind {
    /// They say the same; one of them stays, or a new text.
    Merge,
    /// A newer one takes the place of older ones.
    Replace,
    /// One of them stays with an amended text.
    Update,
    /// They say different things.
    KeepSeparate,
    /// It cannot be told.
    Skip,
}

/// One answer about some memories of a batch.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Opinion {
    /// What should happen.
    pub action: OpinionKind,
    /// Handles of the memories it speaks of.
    pub ids: Vec<String>,
    /// The handle of the memory that stays; needed for MERGE without a text, REPLACE and UPDATE.
    #[serde(default)]
    pub keep: Option<String>,
    /// The new text of MERGE or UPDATE.
    #[serde(default)]
    pub text: Option<String>,
    /// Why, in a sentence.
    #[serde(default)]
    pub reason: String,
}

/// Why an answer says nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum OpinionsError {
    /// It is empty.
    #[error("the answer is empty")]
    Empty,
    /// It is longer than any answer can be.
    #[error("the answer has {found} bytes, at most {max} are read")]
    TooLong {
        /// Its length in bytes.
        found: usize,
        /// What is read at most.
        max: usize,
    },
    /// It holds no JSON of the expected form.
    #[error("the answer is not the expected JSON ({problem}): {shown:?}")]
    Json {
        /// What is wrong.
        problem: String,
        /// Where, shortened.
        shown: String,
    },
    /// It has more opinions than a batch has memories.
    #[error("the answer has {found} opinions, at most {max} are read")]
    TooMany {
        /// How many.
        found: usize,
        /// What is read at most.
        max: usize,
    },
}

#[derive(Deserialize)]
#[serde(untagged)]
enum Answer {
    Whole { actions: Vec<Opinion> },
    Bare(Vec<Opinion>),
}

/// Reads an answer: an object with `actions`, or an array, alone or within text or a code fence.
///
/// # Errors
/// When it is empty, too long, or holds no such JSON.
pub fn read_opinions(answer: &str) -> Result<Vec<Opinion>, OpinionsError> {
    let answer = answer.trim();
    if answer.is_empty() {
        return Err(OpinionsError::Empty);
    }
    if answer.len() > ANSWER_BYTES_MAX {
        return Err(OpinionsError::TooLong { found: answer.len(), max: ANSWER_BYTES_MAX });
    }
    let (opinions, problem) = match parse(answer) {
        Ok(opinions) => (Some(opinions), String::new()),
        Err(problem) => (embedded(answer), problem),
    };
    let Some(opinions) = opinions else {
        let shown = answer[..answer.floor_char_boundary(SHOWN_BYTES_MAX)].to_owned();
        return Err(OpinionsError::Json { problem, shown });
    };
    if opinions.len() > OPINIONS_MAX {
        return Err(OpinionsError::TooMany { found: opinions.len(), max: OPINIONS_MAX });
    }
    Ok(opinions)
}

fn parse(json: &str) -> Result<Vec<Opinion>, String> {
    match serde_json::from_str(json) {
        Ok(Answer::Whole { actions } | Answer::Bare(actions)) => Ok(actions),
        Err(error) => Err(error.to_string()),
    }
}

/// Finds the JSON in a text around it: from the first opening bracket to the last closing one of its kind.
fn embedded(answer: &str) -> Option<Vec<Opinion>> {
    [('{', '}'), ('[', ']')].into_iter().find_map(|(open, close)| {
        let (from, to) = (answer.find(open)?, answer.rfind(close)?);
        parse(answer.get(from..=to)?).ok()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_read_alone_and_within_text() {
        let json = r#"{"actions":[{"action":"MERGE","ids":["m1","m2"],"keep":"m1"}]}"#;
        let bare = r#"[{"action":"MERGE","ids":["m1","m2"],"keep":"m1"}]"#;
        let fenced = format!("Here it is:\n```json\n{json}\n```\nDone.");
        let expected = read_opinions(json).unwrap();
        assert_eq!(expected[0].action, OpinionKind::Merge);
        assert_eq!(expected[0].keep.as_deref(), Some("m1"));
        for same in [bare, &fenced, &format!("Sure. {bare}")] {
            assert_eq!(read_opinions(same).unwrap(), expected, "{same}");
        }
    }

    #[test]
    fn what_is_no_answer_is_an_error() {
        let long = "x".repeat(ANSWER_BYTES_MAX + 1);
        let many = format!("[{}]", vec![r#"{"action":"SKIP","ids":[]}"#; 1_001].join(","));
        for wrong in [
            "",
            "  \n",
            "no",
            "[",
            "{",
            "}{",
            "][",
            "<html></html>",
            "[1]",
            "{\"actions\":3}",
            "[{\"action\":\"DELETE\",\"ids\":[]}]",
            "[{\"action\":\"MERGE\"}]",
            "[[[[[[[[",
            "{\"actions\":[{\"action\":\"MERGE\",\"ids\":[\"m1\"",
            &long,
            &many,
        ] {
            assert!(read_opinions(wrong).is_err(), "{}", &wrong[..wrong.len().min(80)]);
        }
        let deep = format!("{}{}", "[".repeat(100_000), "]".repeat(100_000));
        assert!(read_opinions(&deep).is_err());
    }
}
