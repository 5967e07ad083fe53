//! `memfold check`: is this known already?

use memfold::machine;
use memfold::quick_check::Check;
use memfold_model::text::excerpt;

use super::documents::CheckDocument;
use super::{Provider, incoming, open};
use crate::args::{CheckArgs, GlobalArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::Printer;
use crate::settings::Settings;

/// Matches on the screen, and characters of a line.
const MATCHES_SHOWN: usize = 10;
const LINE_CHARS: usize = 76;

pub(crate) fn run(
    global: &GlobalArgs,
    args: &CheckArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    let settings = Settings::load(global, Some(&args.place.db), &[])?;
    settings.show_notices(printer);
    let quick_check = open(&args.place, &settings)?;
    let mut incoming = incoming(args.text.as_ref(), &args.memory)?;
    let note = Provider::open(&settings, printer)?.fill(&mut incoming);
    let mut check = quick_check.check(&incoming, machine::clock());
    check.notes.extend(note);
    if global.json {
        printer.document(&CheckDocument { schema_version: 1, check: &check })?;
    } else {
        printer.data(&screen(&check))?;
    }
    Ok(Exit::Done)
}

/// Says it in some lines.
pub(super) fn screen(check: &Check) -> String {
    let decision = check.decision.name().replace('_', " ");
    let mut text = format!("{decision}: {}\n", excerpt(&check.reason, 4 * LINE_CHARS));
    for found in check.matches.iter().take(MATCHES_SHOWN) {
        let similarity =
            found.similarity.map_or("      ".to_owned(), |value| format!("{value:.4}"));
        let verdict = found.verdict.map_or("", |verdict| verdict.name());
        let id = excerpt(found.id.as_str(), LINE_CHARS / 2);
        text.push_str(&format!("  {similarity}  {verdict:13}  {id}\n"));
        if let Some(first) = found.differences.first() {
            text.push_str(&format!("      {}\n", excerpt(first, LINE_CHARS - 6)));
        }
    }
    let shown = check.matches.len().min(MATCHES_SHOWN) as u64;
    if check.matches_total > shown {
        text.push_str(&format!("  and {} more\n", check.matches_total - shown));
    }
    for note in &check.notes {
        text.push_str(&format!("note: {note}\n"));
    }
    text
}
