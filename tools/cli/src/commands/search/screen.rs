//! The screen of `memfold search`.

use memfold::lookup::Match;
use memfold::lookup::corpus::RowMatch;
use memfold_model::text::excerpt;

use crate::review::wrap::wrap;

/// Characters of an id and of a text that are shown.
const ID_CHARS: usize = 60;
const TEXT_CHARS: usize = 150;
/// Columns of a text behind its margin.
const TEXT_COLUMNS: usize = 72;

pub(super) fn screen(matches: &[Match]) -> String {
    if matches.is_empty() {
        return "no memory is near\n".to_owned();
    }
    let mut text = String::new();
    for Match { memory, similarity } in matches {
        let id = excerpt(memory.id.as_str(), ID_CHARS);
        text.push_str(&format!("{:.4}  {id}\n", similarity.get()));
        for line in wrap(&excerpt(&memory.content, TEXT_CHARS), TEXT_COLUMNS) {
            text.push_str(&format!("        {line}\n"));
        }
    }
    text
}

pub(super) fn rows(matches: &[RowMatch]) -> String {
    if matches.is_empty() {
        return "no row is near\n".to_owned();
    }
    let line = |RowMatch { row, id, similarity }: &RowMatch| {
        let id = id.as_deref().map(|id| format!("  {}", excerpt(id, ID_CHARS)));
        format!("{:.4}  row {row}{}\n", similarity.get(), id.unwrap_or_default())
    };
    matches.iter().map(line).collect()
}
