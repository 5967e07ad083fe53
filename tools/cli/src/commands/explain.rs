//! `memfold explain --texts A B`: what the fact guard says of two texts, for people who tune.

use memfold_pipeline::guard::{Absorption, Difference, Judgement};
use serde_json::json;

use crate::args::{ExplainArgs, GlobalArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::Settings;

pub(crate) fn run(
    global: &GlobalArgs,
    args: &ExplainArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    let settings = Settings::load(global, None, &[])?;
    let guard = settings.guard()?;
    let (older, newer) = (guard.read(&args.texts[0]), guard.read(&args.texts[1]));
    let judgement = guard.judge(&older, &newer);
    let absorption = guard.absorbs(&newer, &older);
    if global.json {
        printer.json(&json!({
            "schema_version": 1,
            "verdict": judgement.verdict,
            "contradiction_score": judgement.contradiction_score,
            "signals": judgement.signals,
            "differences": judgement.differences,
            "absorption": absorption,
            "mergeable": judgement.verdict.links() && absorption.absorbable,
        }))?;
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
