//! `memfold export`: the live memories of a store with their vectors, as one file.

use clap::{self, Args, ValueHint};
use memfold::export::ExportedTexts;
use memfold::import::ExportedLines;
use memfold::ops::{self, ExportDocument, ExportFormat, ExportRequest, ExtraColumn, StorePath};
use memfold_datasets::texts::Shape;
use memfold_guard::text::excerpt;

use crate::args::store_path;
use crate::call::Call;
use crate::commands::import::preset;
use crate::failure::{Exit, Failure};
use crate::outputs::{Existing, Outputs};
use crate::progress::Bars;
use crate::writing::noun;

/// `memfold export`
#[derive(Debug, Args)]
pub(crate) struct ExportArgs {
    /// The store: a brain.db, or one of another kind (memory.jsonl, …)
    #[arg(value_parser = store_path(), value_hint = ValueHint::AnyPath)]
    pub(crate) db: StorePath,
    #[command(flatten)]
    pub(crate) request: ExportRequest,
    /// Replace the file if it exists
    #[arg(long)]
    pub(crate) force: bool,
    /// Write JSON Lines for the system that `memfold import --preset` read them of
    #[arg(long, value_name = "NAME", value_parser = preset, conflicts_with_all = ["format", "with", "model"])]
    pub(crate) preset: Option<&'static Shape>,
}

pub(crate) fn run(call: Call<'_>, args: &ExportArgs) -> Result<Exit, Failure> {
    let ExportArgs { db, request, force, preset } = args;
    let format = match preset {
        Some(_) => ExportFormat::Jsonl,
        None => request.format()?,
    };
    let mut outputs = Outputs::beside([]).and_store(db);
    outputs.take("--output", &request.output, Existing::forced(*force))?;
    let settings = call.settings(db)?;
    if let Some(preset) = preset {
        let found = ops::export_lines(db, &settings, &request.output, preset)?;
        return tell(call, &found, || {
            let ExportedLines { lines, unchanged, changed, added, left_out } = &found.exported;
            let count = lines.len() as u64;
            vec![format!(
                "wrote {count} {} to {}: {unchanged} as they came in, {changed} changed, {added} \
                 new; {left_out} left out",
                noun(count, "line", "lines"),
                found.output
            )]
        });
    }
    let bars = Bars::new(call.printer);
    if matches!(format, ExportFormat::Jsonl | ExportFormat::Csv) {
        let found = ops::export_texts(db, &settings, request, format, &bars)?;
        drop(bars);
        return tell(call, &found, || {
            let ExportedTexts { rows, with_vector } = found.exported;
            let with = match request.with.contains(&ExtraColumn::Vector) {
                true => format!(", {with_vector} with a vector"),
                false => String::new(),
            };
            let memories = noun(rows, "memory", "memories");
            vec![format!("wrote {rows} {memories} to {}{with}", found.output)]
        });
    }
    let found = ops::export(db, &settings, request, format, &bars)?;
    drop(bars);
    tell(call, &found, || written(&found, request))
}

/// Prints the document, or remarks on the written file.
fn tell(
    call: Call<'_>,
    document: &impl serde::Serialize,
    notes: impl FnOnce() -> Vec<String>,
) -> Result<Exit, Failure> {
    match call.global.json {
        true => call.printer.document(document)?,
        false => notes().iter().for_each(|note| call.printer.note(note)),
    }
    Ok(Exit::Done)
}

fn written(found: &ExportDocument, request: &ExportRequest) -> Vec<String> {
    let ExportDocument { rows, dim, without_vector, seconds, .. } = found;
    let rate = *rows as f64 / seconds.max(f64::MIN_POSITIVE);
    let mut notes = vec![format!(
        "wrote {rows} {} of {} ({dim} dimensions) to {} in {seconds:.2} s, {rate:.0} rows/s",
        noun(*rows, "row", "rows"),
        excerpt(&found.model, 60),
        request.output.display()
    )];
    if *without_vector > 0 {
        let memories = noun(*without_vector, "live memory has", "live memories have");
        notes.push(format!("{without_vector} {memories} no vector of this model"));
    }
    notes
}
