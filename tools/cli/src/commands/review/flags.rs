//! `memfold review --flags` and KEYs: the pairs that wait for a person, and the person's decisions
//! on them.

use jiff::tz::TimeZone;
use memfold::ops::{self, FlagsDocument, Settings};
use memfold::settle::{Settled, Settlement};
use memfold_guard::text::excerpt;
use memfold_guard::{Guard, Verdict};
use memfold_store::brain_db::{FlagKind, OpenPair};

use super::ReviewArgs;
use crate::args::GlobalArgs;
use crate::call::Call;
use crate::context::open_store;
use crate::failure::{Exit, Failure};
use crate::printer::{self, wrap};
use crate::writing::{self, Words};

/// Characters of an id and of a text that are displayed.
const ID_CHARS: usize = 40;
const TEXT_CHARS: usize = 200;
const DATE_CHARS: usize = 32;

/// Columns of a text on a terminal.
const TEXT_COLUMNS: usize = 76;

/// Lists the pairs that wait.
pub(super) fn list(
    call: Call<'_>,
    args: &ReviewArgs,
    settings: &Settings,
) -> Result<Exit, Failure> {
    let pairs = open_store(&args.db, settings)?
        .open_flags()
        .map_err(|error| Failure::of("read the flags", &error))?;
    let time_zone = settings.time_zone()?;
    call.show(&FlagsDocument::of(&pairs, &time_zone), || {
        text(call.global, args, &pairs, &time_zone)
    })
}

/// Settles a pair as a person decided, or returns the expected result.
pub(super) fn settle_pair(
    call: Call<'_>,
    args: &ReviewArgs,
    key: &str,
    settlement: Settlement,
    settings: &Settings,
    guard: &Guard,
) -> Result<(), Failure> {
    let (now, writes) = (args.writing.now.as_deref(), call.may_write(settings, &args.writing));
    let done = ops::settle_pair(&args.db, settings, guard, key, settlement, now, writes)?;
    call.show_run(writes, &done, || {
        let next = match &done.run_id {
            Some(run) => format!("to take it back: {}", writing::undo_words(&args.db, run)),
            None => format!("next: {}", command(call.global, args, key, settlement)),
        };
        format!("{}{next}\n", told(&done.settled, writes))
    })?;
    if let Some(note) = done.settled.note.filter(|_| !call.global.json) {
        call.printer.note(&format!("note: {note}"));
    }
    Ok(())
}

fn told(settled: &Settled, is_done: bool) -> String {
    let id = |id: &memfold_core::memory::MemoryId| excerpt(id.as_str(), ID_CHARS);
    let (newer, older) = (id(&settled.newer), id(&settled.older));
    let would = if is_done { "" } else { "would be " };
    let mut text = match settled.settlement {
        Settlement::KeepBoth => format!("{newer} and {older} {would}kept both\n"),
        Settlement::Merge => format!("{older} {would}merged into {newer}\n"),
        Settlement::Supersede => format!("{older} {would}superseded by {newer}\n"),
        Settlement::OlderHolds => format!("{newer} {would}superseded by {older}\n"),
    };
    if let Some(verdict) = settled.guard_says {
        let finds = match verdict {
            Verdict::Conflict => "that the two conflict",
            Verdict::Different => "that the two speak of different things",
            _ => "no proof that the two say the same",
        };
        text.push_str(&format!("by your word; the fact guard finds {finds}\n"));
    }
    text
}

/// The same command, writing.
fn command(global: &GlobalArgs, args: &ReviewArgs, key: &str, settlement: Settlement) -> String {
    let flag = match settlement {
        Settlement::KeepBoth => "--both",
        Settlement::Merge => "--merge",
        Settlement::Supersede => "--newer",
        Settlement::OlderHolds => "--older",
    };
    let words = Words::default().word(key).word(flag).values("--now", &args.writing.now);
    words.word("--execute").global(global).command("review", &args.db)
}

fn text(
    global: &GlobalArgs,
    args: &ReviewArgs,
    pairs: &[OpenPair],
    time_zone: &TimeZone,
) -> String {
    let Some(first) = pairs.first() else { return "no pair waits for a look\n".to_owned() };
    let mut text = String::new();
    for pair in pairs {
        let score = pair.score.map_or_else(String::new, |score| format!("  score {score:.2}"));
        let near =
            pair.similarity.map_or_else(String::new, |near| format!("  similarity {near:.3}"));
        let kind = match pair.kind {
            FlagKind::Contradiction => "contradiction",
            FlagKind::Update => "update",
            FlagKind::Near => "alike",
        };
        text.push_str(&format!("{}  {kind}{score}{near}\n", pair.key));
        let newer = pair.newer(time_zone);
        for side in 0..2 {
            text.push_str(&side_text(pair, side, newer));
        }
    }
    let key = first.key.as_str();
    let example = command(global, args, key, Settlement::KeepBoth);
    text.push_str(&format!(
        "\n{}; a flag closes when you edit or archive a side, or settle it:\n\
         KEY --newer (that one holds), KEY --older, KEY --both (both hold) or KEY --merge\n\
         for example: {example}\n",
        writing::counted(pairs.len() as u64, "pair", "pairs"),
    ));
    text
}

/// A memory of a pair: id, date and text.
fn side_text(pair: &OpenPair, side: usize, newer: Option<usize>) -> String {
    let mut about = excerpt(&pair.ids[side], ID_CHARS);
    if let Some(date) = &pair.created_at[side] {
        about.push_str(&format!(" · {}", excerpt(date, DATE_CHARS)));
    }
    if let Some(newer) = newer {
        about.push_str(if newer == side { " · newer" } else { " · older" });
    }
    if let Some((_, at)) = pair.asserted.as_ref().filter(|(id, _)| *id == pair.ids[side]) {
        about.push_str(&format!(" · said again {}", excerpt(at, DATE_CHARS)));
    }
    let said = pair.texts[side].as_deref();
    let said = said.map_or_else(|| "(gone)".to_owned(), |text| excerpt(text, TEXT_CHARS));
    let lines = if printer::is_terminal() { wrap(&said, TEXT_COLUMNS) } else { vec![said] };
    let lines = lines.iter().map(|line| format!("    {line}\n"));
    format!("  {about}\n{}", lines.collect::<String>())
}
