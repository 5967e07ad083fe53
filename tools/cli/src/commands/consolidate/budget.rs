//! `--budget`: which proposals would bring a Markdown file with a limit below it. Nothing is cut for it.

use std::collections::BTreeMap;
use std::path::Path;

use memfold::consolidate::Outcome;
use memfold_adapters::markdown;
use memfold_core::plan::{Action, ActionType};
use memfold_guard::text::excerpt;
use memfold_store::origin::OriginRecord;

use super::ConsolidateArgs;
use crate::failure::Failure;
use crate::writing::counted;

/// Characters of a text that are displayed.
const TEXT_CHARS: usize = 60;

/// A file and how long it may be.
pub(super) struct Budget<'a> {
    file: &'a Path,
    chars_max: u64,
}

impl<'a> Budget<'a> {
    /// Reads `--budget`; an error where the store is not one Markdown file.
    pub(super) fn of(args: &'a ConsolidateArgs) -> Result<Option<Self>, Failure> {
        let Some(chars_max) = args.budget else { return Ok(None) };
        let mirrored = args.db.mirrored();
        let file = mirrored.filter(|found| found.kind == markdown::KIND && found.origin.is_file());
        let file = file.map(|found| found.origin.as_path()).ok_or_else(|| {
            Failure::usage(
                "--budget is for one Markdown file",
                "name a file, such as MEMORY.md, or leave --budget out",
            )
        })?;
        Ok(Some(Self { file, chars_max }))
    }

    /// Returns the lines about a plan: the length after its merges, and the proposals that save
    /// most, the best first, until the file fits.
    pub(super) fn lines(&self, outcome: &Outcome) -> Result<Vec<String>, Failure> {
        let what = format!("read {}", self.file.display());
        let text = std::fs::read_to_string(self.file);
        let text = text.map_err(|error| Failure::new(&what, &error, None))?;
        let contents = memfold_adapters::open(markdown::KIND, self.file).map(|store| store?.read());
        let records = match contents {
            Some(contents) => contents.map_err(|error| Failure::of(&what, &error))?.records,
            None => Vec::new(),
        };
        let sizes = Sizes(records.iter().map(|record| (base(&record.id), record)).collect());
        Ok(self.report(text.chars().count() as u64, &sizes, &outcome.plan.actions))
    }

    fn report(&self, before: u64, sizes: &Sizes<'_>, actions: &[Action]) -> Vec<String> {
        let merges = actions.iter().filter(|action| action.action == ActionType::Merge);
        let mut left = before.saturating_sub(merges.map(|merge| sizes.saved_by(merge)).sum());
        let merged = format!("{left} characters after the merges, {} allowed", self.chars_max);
        if left <= self.chars_max {
            return vec![format!("{merged}: it fits")];
        }
        let proposals = actions.iter().filter(|action| action.action == ActionType::ProposeMerge);
        let mut proposals: Vec<(&Action, u64)> =
            proposals.map(|proposal| (proposal, sizes.saved_by(proposal))).collect();
        let gain = |proposal: &(&Action, u64)| {
            proposal.0.rationale.evidence.probability.unwrap_or_default() * proposal.1 as f64
        };
        proposals.sort_by(|one, other| gain(other).total_cmp(&gain(one)));
        let mut lines = vec![format!("{merged}: these proposals would save most")];
        for (proposal, saved) in proposals {
            if left <= self.chars_max {
                break;
            }
            left = left.saturating_sub(saved);
            let text = proposal.target_ids.get(1).and_then(|id| sizes.find(id.as_str()));
            let text = text.map_or("", |record| &record.text);
            let saved = counted(saved, "character", "characters");
            lines.push(format!("  {saved}: {}", excerpt(text, TEXT_CHARS)));
        }
        lines.push(match left <= self.chars_max {
            true => format!("with all of them {left} are left; decide with `memfold review`"),
            false => {
                format!("with all of them {left} are left: nothing else is near enough to merge")
            }
        });
        lines
    }
}

/// The memories of a file by their ids, without the numbers of equal ones.
struct Sizes<'a>(BTreeMap<&'a str, &'a OriginRecord>);

impl Sizes<'_> {
    fn find(&self, id: &str) -> Option<&OriginRecord> {
        self.0.get(base(id)).copied()
    }

    /// The characters that an action takes out of the file.
    fn saved_by(&self, action: &Action) -> u64 {
        let gone = action.target_ids.iter().skip(1).filter_map(|id| self.find(id.as_str()));
        gone.map(|record| record.raw.chars().count() as u64).sum()
    }
}

fn base(id: &str) -> &str {
    let mut marks = id.match_indices('#').map(|(at, _)| at);
    marks.nth(1).map_or(id, |at| &id[..at])
}
