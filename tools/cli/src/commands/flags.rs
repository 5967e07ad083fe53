//! `memfold flags`: the contradictory pairs that wait for a person.

use memfold_pipeline::store::brain_db::OpenPair;
use memfold_pipeline::text::excerpt;
use serde_json::json;

use crate::args::{FlagsArgs, GlobalArgs};
use crate::commands::consolidate::open_store;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::Settings;

/// Characters of an id and of a text that are shown.
const ID_CHARS: usize = 40;
const TEXT_CHARS: usize = 110;

pub(crate) fn run(
    global: &GlobalArgs,
    args: &FlagsArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    let settings = Settings::load(global, Some(&args.db), &[])?;
    settings.show_notices(printer);
    let pairs = open_store(&args.db, &settings)?.open_flags().map_err(|error| {
        let hint = error.hint();
        Failure::new("read the flags", &error, hint)
    })?;
    if global.json {
        printer.json(&json!({ "schema_version": 1, "flags": pairs }))?;
    } else {
        printer.data(&text(&pairs))?;
    }
    Ok(Exit::Done)
}

fn text(pairs: &[OpenPair]) -> String {
    if pairs.is_empty() {
        return "no pair waits for a look\n".to_owned();
    }
    let mut text = String::new();
    for pair in pairs {
        let score = pair.score.map_or_else(String::new, |score| format!("  score {score:.2}"));
        let near =
            pair.similarity.map_or_else(String::new, |near| format!("  similarity {near:.3}"));
        text.push_str(&format!("{}{score}{near}\n", pair.key));
        for (id, said) in pair.ids.iter().zip(&pair.texts) {
            let said =
                said.as_deref().map_or_else(|| "(gone)".to_owned(), |t| excerpt(t, TEXT_CHARS));
            text.push_str(&format!("  {}\n    {said}\n", excerpt(id, ID_CHARS)));
        }
    }
    let plural = if pairs.len() == 1 { "" } else { "s" };
    text.push_str(&format!(
        "\n{} pair{plural}; a flag closes when you edit or archive a side\n",
        pairs.len()
    ));
    text
}
