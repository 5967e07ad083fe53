//! `memfold undo --memory` of an archived memory: it lives again, alone. `--archived` lists
//! memories worth a look.

use memfold::ops::RestoreDocument;
use memfold_guard::text::excerpt;
use memfold_store::upkeep::{Restoration, RestoreCandidate, RestoreReason};

use super::UndoArgs;
use crate::call::Call;
use crate::failure::{Exit, Failure};
use crate::writing::{Words, undo_words};

/// Candidates that are listed one by one.
const SHOWN: usize = 50;
const ID_CHARS: usize = 80;

/// Lists archived memories that were edited since, or lack their survivor.
pub(super) fn listed(args: &UndoArgs, found: &[RestoreCandidate]) -> String {
    if found.is_empty() {
        return "no archived memory was edited since, and every survivor is there\n".to_owned();
    }
    let mut text = String::new();
    for candidate in found.iter().take(SHOWN) {
        text.push_str(&described(args, candidate));
    }
    if found.len() > SHOWN {
        text.push_str(&format!("and {} more (--json lists all)\n", found.len() - SHOWN));
    }
    text
}

fn described(args: &UndoArgs, candidate: &RestoreCandidate) -> String {
    let survivor = candidate.survivor.as_ref().map(|id| excerpt(id.as_str(), ID_CHARS));
    let why = match (candidate.reason, survivor) {
        (RestoreReason::Edited, _) => "its text was edited after it was archived".to_owned(),
        (RestoreReason::SurvivorGone, Some(survivor)) => {
            format!("it was merged into {survivor}, which is gone")
        }
        (RestoreReason::SurvivorGone, None) => "what it was merged into is gone".to_owned(),
    };
    let mut text = format!("{}: {why}\n", excerpt(candidate.id.as_str(), ID_CHARS));
    if let Some(content) = &candidate.text {
        text.push_str(&format!("  \"{content}\"\n"));
    }
    text.push_str(&format!("  {}\n", command(args, candidate.id.as_str())));
    text
}

fn command(args: &UndoArgs, id: &str) -> String {
    Words::default().values("--memory", [id]).word("--execute").command("undo", &args.db)
}

/// Shows the result of restoring a memory, or the expected one.
pub(super) fn show(
    call: Call<'_>,
    args: &UndoArgs,
    restored: &RestoreDocument,
) -> Result<Exit, Failure> {
    let restoration = &restored.restoration;
    call.show_run(restored.run_id.is_some(), restored, || match &restored.run_id {
        None => {
            let next = command(args, restoration.id.as_str());
            format!("{}next: {next}\n", told("would live again", restoration))
        }
        Some(run_id) => {
            let undo = undo_words(&args.db, run_id);
            format!("{}to take it back: {undo}\n", told("lives again", restoration))
        }
    })
}

fn told(what: &str, restoration: &Restoration) -> String {
    let mut text = format!("{} {what}", excerpt(restoration.id.as_str(), ID_CHARS));
    if !restoration.apart_from.is_empty() {
        let ids = restoration.apart_from.iter().map(|id| excerpt(id.as_str(), ID_CHARS));
        let ids = ids.collect::<Vec<_>>().join(" and ");
        text.push_str(&format!(", kept apart from {ids} while their texts stay"));
    }
    text.push('\n');
    if let Some(content) = &restoration.text {
        text.push_str(&format!("  \"{content}\"\n"));
    }
    text
}
