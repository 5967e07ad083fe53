//! What `memfold embed` tells a person.

use memfold_model::text::excerpt;

use super::document::EmbedDocument;
use crate::args::{EmbedArgs, GlobalArgs};
use crate::commands::writing;

/// Refused memories that are told one by one.
const SHOWN: usize = 10;
const ID_CHARS: usize = 60;
const REASON_CHARS: usize = 200;

/// Tells what was found, or done.
pub(super) fn told(found: &EmbedDocument, typed: (&GlobalArgs, &EmbedArgs)) -> String {
    let EmbedDocument { live, with_embedding, missing, stale, invalid, .. } = found;
    let mut text = format!(
        "{live} {} in use: {with_embedding} with an embedding, {missing} without one\n",
        writing::noun(*live, "memory", "memories")
    );
    if *stale > 0 {
        text.push_str(&format!("  {stale} have that of an earlier text, which stays\n"));
    }
    if *invalid > 0 {
        text.push_str(&format!("  {invalid} have one that is no vector, which stays\n"));
    }
    if found.executed() {
        text.push_str(&done(found));
    } else {
        text.push_str(&planned(found, typed));
    }
    text
}

fn planned(found: &EmbedDocument, (global, args): (&GlobalArgs, &EmbedArgs)) -> String {
    let mut text = String::new();
    if let Some(space) = space(found) {
        text.push_str(&format!("the store's vectors: {space}\n"));
    }
    if found.missing == 0 {
        return text;
    }
    match &found.place {
        Some(place) => {
            let texts = writing::noun(found.wanted, "text", "texts");
            text.push_str(&format!("{} {texts} would go to {place}\n", found.wanted));
            text.push_str(&format!("next: {}\n", next(global, args)));
        }
        None => text.push_str(
            "no provider is configured: --set embed.provider=daemon, ollama, openai or\n\
             local (docs/embedding.md)\n",
        ),
    }
    text
}

/// The command that does it, with what was typed.
fn next(global: &GlobalArgs, args: &EmbedArgs) -> String {
    let limit = args.limit.map(|limit| limit.to_string());
    let further = writing::global_words(global);
    let mut words: Vec<&str> = Vec::new();
    words.extend(limit.iter().flat_map(|limit| ["--limit", limit]));
    words.extend(writing::strs(&further));
    words.push("--execute");
    writing::store_words(&["memfold", "embed"], &args.db, &words)
}

fn done(found: &EmbedDocument) -> String {
    let EmbedDocument { filled, present, changed, refused, over_limit, .. } = found;
    let of = space(found).filter(|_| *filled > 0).map_or_else(String::new, |of| format!(": {of}"));
    let mut text = format!("{filled} were given one{of}\n");
    if *present > 0 {
        text.push_str(&format!("  {present} have a row of embeddings meanwhile\n"));
    }
    if *changed > 0 {
        text.push_str(&format!(
            "  {changed} are gone or say something else meanwhile; run again for these\n"
        ));
    }
    if !refused.is_empty() {
        text.push_str(&format!("  {} were refused:\n", refused.len()));
    }
    for one in refused.iter().take(SHOWN) {
        let (id, reason) = (excerpt(&one.id, ID_CHARS), excerpt(&one.reason, REASON_CHARS));
        text.push_str(&format!("    {id}: {reason}\n"));
    }
    if refused.len() > SHOWN {
        text.push_str(&format!("    and {} more (--json lists all)\n", refused.len() - SHOWN));
    }
    if *over_limit > 0 {
        text.push_str(&format!("  {over_limit} are left; running again continues\n"));
    }
    text
}

fn space(found: &EmbedDocument) -> Option<String> {
    let dim = found.dim?;
    let model = found
        .model
        .as_deref()
        .map_or_else(|| "a model that is not named".to_owned(), |model| excerpt(model, ID_CHARS));
    Some(format!("{model}, {dim} dimensions"))
}
