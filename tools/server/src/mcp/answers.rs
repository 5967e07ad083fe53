//! Answers to agents: short, whatever they are about.

use memfold_lifecycle::estimated_tokens;
use memfold_model::text::excerpt;
use serde_json::{Map, Value, json};

use crate::service::Problem;

/// Tokens of an answer, by a count that overestimates.
pub(super) const TOKENS_MAX: usize = 2_000;
/// Kept free for what stands around a list.
const TOKENS_AROUND: usize = 250;
/// Characters of a text that are shown.
pub(super) const TEXT_CHARS: usize = 160;

/// Shows the beginning of a text.
pub(super) fn shown(text: &str) -> String {
    excerpt(text, TEXT_CHARS)
}

/// Adds as much of a list as there is room for, and how many more there are. An agent asks on with `after`.
pub(super) fn with_list(
    mut answer: Map<String, Value>,
    name: &str,
    items: impl Iterator<Item = (String, Value)>,
) -> Value {
    let around = estimated_tokens(&Value::Object(answer.clone()).to_string());
    let mut left = (TOKENS_MAX - TOKENS_AROUND).saturating_sub(around);
    let (mut list, mut last, mut more) = (Vec::new(), None, 0_u64);
    for (id, item) in items {
        let tokens = estimated_tokens(&item.to_string()) + 1;
        if more > 0 || tokens > left {
            more += 1;
            continue;
        }
        left -= tokens;
        last = Some(id);
        list.push(item);
    }
    answer.insert(name.to_owned(), list.into());
    answer.insert("more".to_owned(), more.into());
    if more > 0 {
        answer.insert("next_after".to_owned(), last.map_or(Value::Null, Value::from));
    }
    Value::Object(answer)
}

/// Why something was not done.
pub(super) fn refused(problem: &Problem) -> Value {
    json!({
        "error": excerpt(&problem.detail, 800),
        "hint": problem.hint.as_deref().map(|hint| excerpt(hint, 400)),
        "status": problem.kind.status(),
    })
}

/// Makes a value an object.
pub(super) fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(object) => object,
        other => Map::from_iter([("value".to_owned(), other)]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_list_is_longer_than_an_answer_may_be() {
        for text in ["word ", "数", "{}[]\"\\", "a-b_c."] {
            let item = |at: usize| (at.to_string(), json!({ "id": at, "text": text.repeat(60) }));
            let answer = with_list(object(json!({ "a": 1 })), "matches", (0..500).map(item));
            let tokens = estimated_tokens(&answer.to_string());
            assert!(tokens <= TOKENS_MAX, "{text}: {tokens}");
            let shown = answer["matches"].as_array().unwrap().len();
            assert_eq!(shown as u64 + answer["more"].as_u64().unwrap(), 500);
            assert_eq!(answer["next_after"], (shown - 1).to_string());
        }
    }
}
