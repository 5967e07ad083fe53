//! `memfold explain`: a memory of a store with its lineage, edges and tier, or the verdict of the fact guard on two texts.

use clap::{self, Args, ValueHint};
use console::measure_text_width;
use memfold::lifecycle::EdgeMap;
use memfold::ops::{self, Explained, Settings, StorePath, TextsDocument};
use memfold_core::lifecycle::{TREE_DEPTH_MAX, TierAssignment, TreeLine};
use memfold_core::lineage::{Branch, Explanation, Few, KnownBy, MemoryView, Merge, Resolved};
use memfold_core::memory::{Memory, Status};
use memfold_core::policy::name_of;
use memfold_guard::text::excerpt;
use memfold_guard::{Difference, Side, Step};

use crate::args::store_path;
use crate::call::Call;
use crate::failure::{Exit, Failure};
use crate::printer::{COLUMNS, line};

/// Edges from the memory on that are displayed by default.
const DEPTH: u32 = 3;

/// `memfold explain`
#[derive(Debug, Args)]
pub(crate) struct ExplainArgs {
    /// The store: a brain.db, or one of another kind (memory.jsonl, …)
    #[arg(required_unless_present = "texts", conflicts_with = "texts",
          value_parser = store_path(), value_hint = ValueHint::AnyPath)]
    pub(crate) db: Option<StorePath>,
    /// The memory's id
    #[arg(required_unless_present = "texts", conflicts_with = "texts")]
    pub(crate) id: Option<String>,
    /// Follow so many edges from the memory on, at most 64; 0 shows none and reads less
    #[arg(long, value_name = "N", default_value_t = DEPTH, conflicts_with = "texts",
          value_parser = clap::value_parser!(u32).range(0..=i64::from(TREE_DEPTH_MAX)))]
    pub(crate) depth: u32,
    /// Judge two texts instead: the older one first
    #[arg(long, num_args = 2, value_names = ["A", "B"])]
    pub(crate) texts: Vec<String>,
}

pub(crate) fn run(call: Call<'_>, args: &ExplainArgs) -> Result<Exit, Failure> {
    match (&args.db, &args.id, &args.texts[..]) {
        (Some(db), Some(id), _) => {
            let explained = ops::explain(db, &call.settings(db)?, id, args.depth)?;
            call.show(&explained.document(), || described(&explained))
        }
        (_, _, [older, newer]) => {
            let settings = Settings::load(&call.global.sources, None, &[])?;
            let judged = ops::compare_texts(&settings, older, newer)?;
            call.show(&judged, || describe(&judged, older, newer))
        }
        _ => Err(Failure::usage("nothing to explain", "give DB and ID, or --texts A B")),
    }
}

fn describe(judged: &TextsDocument, older: &str, newer: &str) -> String {
    let TextsDocument { judgement, mergeable, .. } = judged;
    let mut text = format!("verdict: {}\n", judgement.verdict.name());
    let mut line = |content: String| {
        text.push_str(&content);
        text.push('\n');
    };
    match judgement.longer {
        Some(Side::Left) => line("A says more than B".to_owned()),
        Some(Side::Right) => line("B says more than A".to_owned()),
        None => {}
    }
    for Step { kind: step, left, right } in &judgement.steps {
        let (left, right) = (&older[left.clone()], &newer[right.clone()]);
        line(format!("  {}: {left:?} | {right:?}", kind(*step)));
    }
    if let Some(found) = judgement.conflict() {
        let what = if judgement.update { "another value" } else { "both cannot hold" };
        line(format!("conflict: {what}: {}", kind(found)));
    }
    for Difference { kind: found, left_text, right_text, .. } in &judgement.differences {
        line(format!("  differs: {}: {left_text:?} | {right_text:?}", kind(*found)));
    }
    line(format!("A could merge into B: {}", if *mergeable { "yes" } else { "no" }));
    text
}

fn kind(kind: impl serde::Serialize) -> String {
    name_of(kind).replace('_', " ")
}

/// Maximum characters of ids, names and times.
const NAME_CHARS: usize = 80;
/// A text of fewer columns says nothing.
const TEXT_COLUMNS_MIN: usize = 12;
/// Characters of a list of reasons.
const REASONS_CHARS: usize = 200;

fn described(explained: &Explained) -> String {
    let Explained { explanation, tier, .. } = explained;
    let Resolved { id, status, .. } = &explanation.resolved;
    let mut text = format!("{} {}\n", shown(id.as_str()), is(*status));
    if let Some(memory) = &explanation.memory {
        text.push_str(&of_memory(memory));
    }
    if let Some(TierAssignment { tier, retention, reasons }) = tier {
        // The first reason is always retention itself.
        let further: Vec<&str> = reasons.iter().skip(1).map(|reason| reason.as_str()).collect();
        let further = match further.is_empty() {
            true => String::new(),
            false => format!(": {}", further.join("; ")),
        };
        text.push_str(&format!("  tier {tier}, retention {:.3}{further}\n", retention.overall));
    }
    if !explanation.resolved.merges.is_empty() {
        text.push_str("\nmerged into\n");
        text.push_str(&of_merges(&explanation.resolved));
    }
    if !explanation.merged.shown.is_empty() || explanation.merged.more > 0 {
        text.push_str("\nmerged into it\n");
        of_branches(&explanation.merged, "", &mut text);
    }
    text.push_str(&of_decisions(explanation));
    if let Some(map) = &explained.map {
        text.push_str(&of_edges(map, &explained.tree()));
    }
    text
}

const fn is(status: Status) -> &'static str {
    match status {
        Status::Live => "is live",
        Status::Expired => "has expired",
        Status::Record => "is a record of a contradiction",
        Status::Merged => "is archived: it was merged into another",
        Status::Archived => "is archived",
        Status::Moved => "is in the archive table",
        Status::Unreadable => "cannot be read",
        Status::Gone => "is gone",
        Status::Unknown => "is not in this store",
    }
}

fn of_memory(memory: &MemoryView) -> String {
    let mut text = String::new();
    if let Some(content) = &memory.text {
        text.push_str(&format!("  \"{content}\"\n"));
    }
    let made = memory
        .created_at
        .as_deref()
        .filter(|made| !made.is_empty())
        .map_or("at an unknown time".to_owned(), shown);
    text.push_str(&format!(
        "  made {made}, source {}, importance {}, read {}\n",
        shown(&memory.root_source),
        memory.importance,
        times(memory.access_count)
    ));
    if !memory.categories.is_empty() {
        let categories = excerpt(&memory.categories.join(", "), REASONS_CHARS);
        text.push_str(&format!("  categories: {categories}\n"));
    }
    text
}

fn of_merges(resolved: &Resolved) -> String {
    let mut text = String::new();
    let last = resolved.merges.len().saturating_sub(1);
    for (position, merge) in resolved.merges.iter().enumerate() {
        let end = match (position == last, resolved.is_circle) {
            (true, true) => " (a circle)".to_owned(),
            (true, false) => format!(" ({})", resolved.end.name()),
            (false, _) => String::new(),
        };
        text.push_str(&format!("  → {}{end}{}\n", shown(merge.survivor.as_str()), figures(merge)));
        for line in circumstances(merge) {
            text.push_str(&format!("      {line}\n"));
        }
    }
    text
}

/// Draws branches below each other; `margin` is the text to the left of them.
fn of_branches(few: &Few<Branch>, margin: &str, text: &mut String) {
    let last = few.shown.len().saturating_sub(1);
    for (position, branch) in few.shown.iter().enumerate() {
        let is_last = position == last && few.more == 0;
        let (fork, below) = if is_last { ("└─ ", "   ") } else { ("├─ ", "│  ") };
        let id = shown(branch.merge.merged.as_str());
        let status = branch.status.name();
        text.push_str(&format!("{margin}{fork}{id} ({status}){}\n", figures(&branch.merge)));
        let below = format!("{margin}{below}");
        let content = branch.text.as_ref().map(|content| format!("\"{content}\""));
        for line in content.into_iter().chain(circumstances(&branch.merge)) {
            text.push_str(&format!("{below}  {line}\n"));
        }
        of_branches(&branch.branches, &below, text);
    }
    if few.more > 0 {
        text.push_str(&format!("{margin}└─ and {} more\n", few.more));
    }
}

/// Similarity and rule of a merge, each with a space before it.
fn figures(merge: &Merge) -> String {
    let similarity = merge.similarity.map(|value| format!(" {value:.4}")).unwrap_or_default();
    let rule = merge.rule_id.as_deref().map(|rule| format!(" {}", shown(rule))).unwrap_or_default();
    similarity + &rule
}

/// Reasons, run and time of a merge, or its other evidence.
fn circumstances(merge: &Merge) -> Vec<String> {
    if merge.known_by == KnownBy::Provenance {
        return vec!["known from the rows' source only".to_owned()];
    }
    let mut lines = Vec::new();
    lines.extend(merge.reasons.as_deref().map(|reasons| excerpt(reasons, REASONS_CHARS)));
    if let (Some(run_id), Some(at)) = (&merge.run_id, &merge.at) {
        lines.push(by(run_id, at));
    }
    lines
}

fn of_decisions(explained: &Explanation) -> String {
    let mut text = String::new();
    section(&mut text, "promoted", &explained.promotions, |promotion| {
        let count = promotion.access_count.map(|count| format!("at {count} reads, "));
        count.unwrap_or_default() + &by(&promotion.run_id, &promotion.at)
    });
    section(&mut text, "kept apart", &explained.kept_apart, |kept| {
        let ids: Vec<String> = kept.from.shown.iter().map(|id| shown(id.as_str())).collect();
        let more = if kept.from.more > 0 {
            format!(" and {} more", kept.from.more)
        } else {
            String::new()
        };
        let ids = ids.join(", ");
        format!("from {ids}{more}{}, {}", void(kept.holds), by(&kept.run_id, &kept.at))
    });
    section(&mut text, "declined by a person", &explained.declined, |declined| {
        let action = shown(&declined.action);
        format!("{action}{}, {}", void(declined.holds), by(&declined.run_id, &declined.at))
    });
    section(&mut text, "contradicts", &explained.flags, |flag| {
        let score = flag.score.map(|score| format!(" score {score:.2}")).unwrap_or_default();
        let (other, state) = (shown(flag.other.as_str()), shown(&flag.state));
        format!("{other}{score} ({state}), {}", by(&flag.run_id, &flag.at))
    });
    text
}

fn section<T>(text: &mut String, title: &str, few: &Few<T>, line: impl Fn(&T) -> String) {
    if few.shown.is_empty() {
        return;
    }
    text.push_str(&format!("\n{title}\n"));
    for item in &few.shown {
        text.push_str(&format!("  {}\n", line(item)));
    }
    if few.more > 0 {
        text.push_str(&format!("  and {} more\n", few.more));
    }
}

/// The suffix for a decision if the text has changed since.
const fn void(holds: bool) -> &'static str {
    if holds { "" } else { " (void: its text has changed)" }
}

fn by(run_id: &str, at: &str) -> String {
    format!("run {}, {}", shown(run_id), shown(at))
}

fn times(count: i64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{count} times") }
}

fn shown(text: impl AsRef<str>) -> String {
    excerpt(text.as_ref(), NAME_CHARS)
}

/// The tree in lines; nothing where no edge begins or ends at the memory.
fn of_edges(map: &EdgeMap, lines: &[TreeLine<'_>]) -> String {
    if let [only] = lines
        && only.hidden_count == 0
    {
        return String::new();
    }
    let mut text = "\nedges\n".to_owned();
    for at in lines {
        let memory = map.memories.get(at.id).filter(|_| !at.is_repeated);
        text.push_str(&with_text(&at.to_string(), memory));
        text.push('\n');
    }
    text
}

/// Puts the beginning of a text behind a line, as far as it fits into the columns of a screen.
fn with_text(tree_line: &str, memory: Option<&Memory>) -> String {
    let used = measure_text_width(tree_line);
    match memory {
        Some(memory) if used + TEXT_COLUMNS_MIN <= COLUMNS => {
            let mark = if memory.status == Status::Live { "" } else { "(not live) " };
            line(&format!("{tree_line}  {mark}{}", excerpt(&memory.content, COLUMNS)))
        }
        _ => tree_line.to_owned(),
    }
}
