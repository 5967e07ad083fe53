//! `memfold explain`: a memory of a store, or what the fact guard says of two texts.

use memfold_guard::{Absorption, Difference, Judgement};
use serde::Serialize;

use crate::args::{ExplainArgs, GlobalArgs};
use crate::commands::explain_memory;
use crate::document::documents;
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::Settings;

documents! { "explain-texts" => TextsDocument }

/// `memfold explain --texts --json`
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct TextsDocument {
    schema_version: u32,
    #[serde(flatten)]
    judgement: Judgement,
    /// Whether the newer text carries all of the older one.
    absorption: Absorption,
    /// Whether the older one could be folded into the newer one.
    mergeable: bool,
}

pub(crate) fn run(
    global: &GlobalArgs,
    args: &ExplainArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    match (&args.db, &args.id, &args.texts[..]) {
        (Some(db), Some(id), _) => explain_memory::run(global, (db, id), printer),
        (_, _, [older, newer]) => explain_texts(global, [older.as_str(), newer.as_str()], printer),
        _ => Err(Failure::usage("nothing to explain", "give DB and ID, or --texts A B")),
    }
}

fn explain_texts(
    global: &GlobalArgs,
    [older, newer]: [&str; 2],
    printer: Printer,
) -> Result<Exit, Failure> {
    let settings = Settings::load(global, None, &[])?;
    let guard = settings.guard()?;
    let (older, newer) = (guard.read(older), guard.read(newer));
    let judgement = guard.judge(&older, &newer);
    let absorption = guard.absorbs(&newer, &older);
    if global.json {
        printer.document(&TextsDocument {
            schema_version: 1,
            mergeable: judgement.verdict.links() && absorption.absorbable,
            judgement,
            absorption,
        })?;
    } else {
        printer.data(&describe(&judgement, &absorption))?;
    }
    Ok(Exit::Done)
}

fn describe(judgement: &Judgement, absorption: &Absorption) -> String {
    let name = format!("{:?}", judgement.verdict).to_lowercase();
    let mut text = format!("verdict: {name}\n");
    let mut line = |content: String| {
        text.push_str(&content);
        text.push('\n');
    };
    line(format!("contradiction score: {:.2}", judgement.contradiction_score));
    for signal in &judgement.signals {
        line(format!("  signal: {} ({:.2})", kind(signal.kind), signal.weight));
    }
    for Difference { kind: found, left_text, right_text, .. } in &judgement.differences {
        line(format!("  differs: {}: {left_text:?} | {right_text:?}", kind(*found)));
    }
    let mergeable = judgement.verdict.links() && absorption.absorbable;
    line(format!("B could absorb A: {}", if mergeable { "yes" } else { "no" }));
    for specific in &absorption.lacking_specifics {
        line(format!("  B lacks: {specific:?}"));
    }
    if !absorption.lacking_words.is_empty() {
        let words = absorption.lacking_words.join(", ");
        let share = absorption.lacking_share * 100.0;
        line(format!("  B lacks {share:.0} % of A's content words: {words}"));
    }
    text
}

fn kind(kind: impl serde::Serialize) -> String {
    match serde_json::to_value(kind) {
        Ok(serde_json::Value::String(name)) => name.replace('_', " "),
        _ => String::new(),
    }
}
