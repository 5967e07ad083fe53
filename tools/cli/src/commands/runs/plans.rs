//! `memfold runs --plans`: the saved plans of a store, or the actions of one.

use std::collections::BTreeMap;

use memfold::ops::{PlansDocument, SavedPlanDocument, saved_plan};
use memfold_core::memory::MemoryId;
use memfold_core::plan::{
    Action, ActionState, ActionType, PlanSummary, SavedAction, SavedPlan, probability_in_words,
};
use memfold_guard::text::excerpt;
use memfold_store::BrainDb;

use crate::call::Call;
use crate::failure::{Exit, Failure};
use crate::printer::table;
use crate::writing::{few, noun};

/// Characters of an id that are displayed.
const ID_CHARS: usize = 40;

/// Merged memories that are named in a line.
const MERGED_SHOWN_MAX: usize = 3;

/// Characters of a reason that are displayed.
const REASON_CHARS: usize = 160;

/// Shows the plan that was named, or lists all.
pub(super) fn run(call: Call<'_>, store: &BrainDb, wanted: Option<&str>) -> Result<Exit, Failure> {
    if let Some(wanted) = wanted {
        let plan = saved_plan(store, wanted)?;
        return call.show(&SavedPlanDocument::of(&plan), || plan_text(&plan));
    }
    let plans = store.plans().map_err(|error| Failure::of("list the plans", &error))?;
    if plans.is_empty() && !call.global.json {
        call.printer.note("no plan is saved; save one: memfold consolidate DB --save-plan");
        return Ok(Exit::Done);
    }
    let document = PlansDocument::new(plans);
    call.show(&document, || list(&document.plans))
}

fn list(plans: &[PlanSummary]) -> String {
    let rows = plans.iter().map(|plan| {
        vec![
            excerpt(&plan.plan_id, ID_CHARS),
            to_the_minute(&plan.saved_at),
            counts(plan.types.iter().map(|(action, count)| (action.name(), *count))),
            counts(plan.states.iter().map(|(state, count)| (state.name(), *count))),
        ]
    });
    table(&["plan", "saved", "actions", "changes"], rows.collect())
}

/// A naive local time without its seconds.
fn to_the_minute(time: &str) -> String {
    excerpt(time, ID_CHARS).chars().take(16).collect::<String>().replace('T', " ")
}

fn counts<'a>(counts: impl Iterator<Item = (&'a str, u64)>) -> String {
    let counts: Vec<String> = counts.map(|(name, count)| format!("{count} {name}")).collect();
    if counts.is_empty() { "none".to_owned() } else { counts.join(" · ") }
}

fn plan_text(plan: &SavedPlan) -> String {
    let mut states: BTreeMap<ActionState, u64> = BTreeMap::new();
    for action in plan.changes() {
        *states.entry(action.state).or_default() += 1;
    }
    let mut text = format!(
        "{}, saved {}, for {}\n{}\n",
        plan.plan_id,
        to_the_minute(&plan.saved_at),
        excerpt(&plan.plan.now, ID_CHARS),
        counts(states.iter().map(|(state, count)| (state.name(), *count)))
    );
    for action in plan.changes() {
        text.push_str(&line(action));
        text.push('\n');
    }
    let left_alone = plan.actions.len() - plan.changes().count();
    if left_alone > 0 {
        let memories = noun(left_alone as u64, "memory", "memories");
        text.push_str(&format!("and {left_alone} {memories} left alone\n"));
    }
    text
}

/// `a3 approved merge reworded: m7 ← m2, m1: lacks "very" of m1`.
fn line(saved: &SavedAction) -> String {
    let action = saved.effective();
    let risk = match action.action {
        ActionType::Merge => format!(" {}", action.risk.name()),
        _ => String::new(),
    };
    let (label, state, name) = (saved.label(), saved.state.name(), action.action.name());
    let mut line = format!("{label} {state} {name}{risk}: {}", targets(action));
    if let Some(probability) = action.rationale.evidence.probability {
        line.push_str(&format!(", {}", probability_in_words(probability)));
    }
    if let Some(similarity) = action.rationale.evidence.similarity {
        line.push_str(&format!(", similarity {similarity:.4}"));
    }
    if let Some(importance) = action.new_importance {
        line.push_str(&format!(", importance → {importance}"));
    }
    if saved.amended.is_some() {
        line.push_str(", amended");
    }
    let differences = action.rationale.evidence.differences.join("; ");
    for remark in [Some(differences.as_str()), saved.note.as_deref()].into_iter().flatten() {
        if !remark.is_empty() {
            line.push_str(&format!(": {}", excerpt(remark, REASON_CHARS)));
        }
    }
    line
}

fn targets(action: &Action) -> String {
    let ids: Vec<String> =
        action.target_ids.iter().map(|id| excerpt(id.as_str(), ID_CHARS)).collect();
    let [first, rest @ ..] = ids.as_slice() else { return "nothing".to_owned() };
    match action.action {
        ActionType::Merge | ActionType::ProposeMerge => {
            format!("{first} ← {}", few(rest, MERGED_SHOWN_MAX))
        }
        ActionType::FlagContradiction => ids.join(" ↔ "),
        ActionType::Supersede => ids.join(" → "),
        ActionType::Rewrite | ActionType::Summarize => {
            let new = action.canonical_id.as_ref().map_or("", MemoryId::as_str);
            format!("{} ← {}", excerpt(new, ID_CHARS), ids.join(", "))
        }
        _ => first.clone(),
    }
}
