//! [`Plan`] and [`Action`]: proposed changes as plain data; [`SavedPlan`]: the outcome of each action.

use std::collections::BTreeMap;

use super::context::{merged_values, new_categories, new_importance};
use crate::memory::{Memory, MemoryId, named};
use crate::policy::MergePolicy;
use crate::summary::Summary;
use crate::value::{canonical_json, sha256_hex};
use memfold_guard::text;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

named! {
    /// What an action does.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum ActionType {
        /// Merge memories into a survivor.
        Merge = "merge",
        /// Raise importance.
        Promote = "promote",
        /// Archive.
        Archive = "archive",
        /// Flag a contradictory pair.
        FlagContradiction = "flag_contradiction",
        /// A new memory takes the place of others: a model wrote its text.
        Rewrite = "rewrite",
        /// A new memory summarises others, which stay.
        Summarize = "summarize",
        /// Note that a memory holds in the place of an older one, which stays.
        Supersede = "supersede",
        /// Merge memories of which nothing proves that they say the same; done only where a person approved it.
        ProposeMerge = "propose_merge",
        /// Leave alone, and say why.
        Noop = "noop",
    }
}

named! {
    /// How much a person should look at an action.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum Risk {
        /// Equal strict keys, or metadata only.
        Identical = "identical",
        /// Equal loose keys, or only small words differ.
        Trivial = "trivial",
        /// Other words.
        Reworded = "reworded",
    }
}

/// One planned action. Absent options are left out of the JSON.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Action {
    /// What it does.
    #[serde(rename = "type")]
    pub action: ActionType,
    /// The survivor first, then every merged memory; of a rewrite or summary its sources, newest first; of a
    /// supersession the memory that holds, then the other; else the memory or the pair.
    #[schemars(with = "Vec<String>")]
    pub target_ids: Vec<MemoryId>,
    /// The survivor of a merge; the new memory of a rewrite or summary; of a supersession the memory that holds.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    #[schemars(with = "Option<String>")]
    pub canonical_id: Option<MemoryId>,
    /// Whether the survivor is protected: rows merge into it, its own row stays as it is.
    #[serde(skip_serializing_if = "std::ops::Not::not", default)]
    pub survivor_protected: bool,
    /// The text of the new memory of a rewrite or summary: a model's words.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub new_content: Option<String>,
    /// The survivor's or memory's categories afterwards.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub new_categories: Option<Vec<String>>,
    /// The importance afterwards.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub new_importance: Option<f64>,
    /// What a summary holds beside its text.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub summary: Option<Box<Summary>>,
    /// How much a person should look at it.
    pub risk: Risk,
    /// Why.
    pub rationale: Rationale,
}

/// Why an action is planned.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Rationale {
    /// The rule, or `protection`, `guard`, … for noops.
    pub rule_id: String,
    /// A contradiction's score.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub score: Option<f64>,
    /// Reasons in words, each a fragment.
    pub reasons: Vec<String>,
    /// What it rests on.
    pub evidence: Evidence,
}

impl Rationale {
    /// The reasons of a rule, which rest on nothing that was measured.
    #[must_use]
    pub fn new(rule_id: &str, reasons: Vec<String>) -> Self {
        Self { rule_id: rule_id.to_owned(), score: None, reasons, evidence: Evidence::default() }
    }
}

/// What an action rests on.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Evidence {
    /// The smallest similarity among the targets.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub similarity: Option<f64>,
    /// How probable it is that the targets of a proposal say the same, in hundredths: the smallest among its pairs.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub probability: Option<f64>,
    /// The judge whose probability it is; none: the built-in estimate.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub probability_by: Option<String>,
    /// The built-in embedding, with the version of its table, where it compared targets without vectors of their own.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub built_in: Option<String>,
    /// The cluster, `cluster_0001` in plan order.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cluster_id: Option<String>,
    /// Kinds of the contradiction's signs.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub contradiction_signals: Vec<String>,
    /// What differs, in words.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub differences: Vec<String>,
    /// Who decided, where no rule did: a model's name.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub decided_by: Option<String>,
    /// The keys of the judgements that decided, in `memfold_judgements`.
    #[serde(skip_serializing_if = "Vec::is_empty", default)]
    pub judgements: Vec<String>,
}

/// Says in words how probable it is that memories say the same.
#[must_use]
pub fn probability_in_words(probability: f64) -> &'static str {
    match probability {
        0.8.. => "very likely the same",
        0.5.. => "likely the same",
        _ => "possibly the same",
    }
}

/// Version of the plan file's format.
pub(crate) const PLAN_SCHEMA_VERSION: u32 = 1;

/// The plan file: what to do, what it rests on, and nothing of when, where or how it was made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// Version of this format.
    pub schema_version: u32,
    /// The store it was made from.
    pub store_id: String,
    /// sha256 of the merged semantic configuration, `sha256:<hex>`.
    pub config_hash: String,
    /// The engine that made it.
    pub engine_version: String,
    /// The injected time, RFC 3339.
    pub now: String,
    /// Semantic keys set on the command line when it was made, so that applying it can use the same
    /// configuration; no part of the digest.
    #[serde(skip_serializing_if = "Map::is_empty", default)]
    pub overrides: Map<String, Value>,
    /// Actions in plan order, noops included.
    pub actions: Vec<Action>,
    /// Base digest (hex) of every memory that a non-noop action touches.
    #[schemars(with = "BTreeMap<String, String>")]
    pub base_digests: BTreeMap<MemoryId, String>,
}

impl ActionType {
    /// Tells whether it changes the store without further questions.
    #[must_use]
    pub const fn is_change(self) -> bool {
        !matches!(self, Self::ProposeMerge | Self::Noop)
    }

    /// Tells whether it merges memories into a survivor.
    #[must_use]
    pub const fn merges(self) -> bool {
        matches!(self, Self::Merge | Self::ProposeMerge)
    }
}

impl Action {
    /// An action on memories that says why; a merge with nothing to show a person, until its fields say otherwise.
    #[must_use]
    pub const fn new(action: ActionType, target_ids: Vec<MemoryId>, rationale: Rationale) -> Self {
        Self {
            action,
            target_ids,
            canonical_id: None,
            survivor_protected: false,
            new_content: None,
            new_categories: None,
            new_importance: None,
            summary: None,
            risk: Risk::Identical,
            rationale,
        }
    }

    /// A merge of memories into one that takes over what they give.
    pub fn merging(
        action: ActionType,
        survivor: &Memory,
        merged: &[&Memory],
        policy: &MergePolicy,
        rationale: Rationale,
    ) -> Self {
        let ids = std::iter::once(&survivor).chain(merged).map(|memory| memory.id.clone());
        let after = merged_values(survivor, merged.iter().copied(), policy);
        Self {
            canonical_id: Some(survivor.id.clone()),
            new_categories: new_categories(&after, survivor),
            new_importance: new_importance(&after, survivor),
            ..Self::new(action, ids.collect(), rationale)
        }
    }

    /// Returns the memories that leave for its survivor: of a merge all but the survivor, of a rewrite its sources; empty
    /// for other actions.
    #[must_use]
    pub fn merged_ids(&self) -> &[MemoryId] {
        match self.action {
            ActionType::Merge | ActionType::ProposeMerge => {
                self.target_ids.get(1..).unwrap_or_default()
            }
            ActionType::Rewrite => &self.target_ids,
            _ => &[],
        }
    }

    /// Returns the memories that must be as they were for the action to be applied, in the order of its targets.
    pub fn rests_on(&self) -> impl Iterator<Item = &MemoryId> {
        let replaced = self.summary.iter().flat_map(|summary| &summary.replaces);
        self.target_ids.iter().chain(replaced)
    }

    /// Returns the memories that leave the owner's table: merged, archived or replaced.
    pub fn leaving_ids(&self) -> impl Iterator<Item = &MemoryId> {
        let archived: &[MemoryId] = match self.action {
            ActionType::Archive => &self.target_ids,
            _ => self.merged_ids(),
        };
        archived.iter().chain(self.summary.iter().flat_map(|summary| &summary.replaces))
    }
}

impl Plan {
    /// Returns how many actions of a type there are.
    #[must_use]
    pub fn count(&self, action: ActionType) -> u64 {
        self.actions.iter().filter(|planned| planned.action == action).count() as u64
    }

    /// Returns how many actions change something without further questions: all but proposals and noops.
    #[must_use]
    pub fn changes(&self) -> u64 {
        self.actions.iter().filter(|planned| planned.action.is_change()).count() as u64
    }
}

/// Returns the name of the action at a position of the plan: `a1`, `a2`, …
#[must_use]
pub fn action_label(position: usize) -> String {
    format!("a{}", position + 1)
}

/// Judges by the texts alone. `loose`: whether an equal loose key suffices, because a guard has seen
/// that no fact differs.
pub(crate) fn risk(survivor: &str, row: &str, loose: bool) -> Risk {
    if survivor == row || text::strict_key(survivor) == text::strict_key(row) {
        return Risk::Identical;
    }
    let loosely_equal =
        || text::loose_key(survivor).is_some_and(|key| text::loose_key(row) == Some(key));
    if (loose && loosely_equal()) || plain_words(survivor) == plain_words(row) {
        Risk::Trivial
    } else {
        Risk::Reworded
    }
}

/// Words that carry no fact of their own. None that negates, bounds or directs.
const SMALL_WORDS: [&str; 36] = [
    "a", "an", "the", "this", "that", "these", "those", "is", "are", "was", "were", "be", "been",
    "being", "am", "do", "does", "did", "has", "have", "had", "and", "also", "then", "so", "very",
    "really", "please", "of", "to", "in", "on", "at", "for", "it", "its",
];

/// The words of a text without edge punctuation, small words and inflection.
fn plain_words(content: &str) -> Vec<String> {
    content
        .split_whitespace()
        .map(|word| word.trim_matches(|mark| PUNCTUATION.contains(mark)))
        .filter(|word| !word.is_empty())
        .map(str::to_lowercase)
        .filter(|word| !SMALL_WORDS.contains(&word.as_str()))
        .map(|word| stem(&word))
        .collect()
}

/// Punctuation that says nothing at the edge of a word. A leading `-` may be a sign, `#` a language.
const PUNCTUATION: &str = ".,;:!?\"'()“”‘’…。，、！？「」";

/// Cuts regular English endings off words of plain letters.
fn stem(word: &str) -> String {
    const STEM_LETTERS_MIN: usize = 4;
    if word.bytes().all(|byte| byte.is_ascii_lowercase()) {
        for ending in ["ing", "ed", "es", "s"] {
            if let Some(stem) = word.strip_suffix(ending)
                && stem.len() >= STEM_LETTERS_MIN
            {
                return stem.trim_end_matches('e').to_owned();
            }
        }
    }
    word.trim_end_matches('e').to_owned()
}

named! {
    /// What became of an action.
    #[derive(Serialize, Deserialize, JsonSchema)]
    #[serde(rename_all = "snake_case")]
    pub enum ActionState {
        /// Nobody looked at it yet.
        Proposed = "proposed",
        /// A person wants it.
        Approved = "approved",
        /// A person does not want it.
        Rejected = "rejected",
        /// It was done.
        Applied = "applied",
        /// It was skipped: its memories are no longer what it rests on.
        Stale = "stale",
        /// It was applied and undone.
        Undone = "undone",
    }
}

/// An action of a saved plan.
#[derive(Debug, Clone, PartialEq)]
pub struct SavedAction {
    /// Its place in the plan, from 0.
    pub position: usize,
    /// As it was planned.
    pub action: Action,
    /// As a person changed it.
    pub amended: Option<Action>,
    /// What became of it.
    pub state: ActionState,
    /// The memory's access count when its promotion was planned.
    pub access_count: Option<i64>,
    /// The run that last dealt with it.
    pub run_id: Option<String>,
    /// The unit of that run.
    pub unit: Option<i64>,
    /// Why it is in this state, in words.
    pub note: Option<String>,
}

/// A plan that was written back to its store.
#[derive(Debug, Clone, PartialEq)]
pub struct SavedPlan {
    /// Its name.
    pub plan_id: String,
    /// The plan as it was made.
    pub plan: Plan,
    /// Digest of the plan's actions as they were made.
    pub plan_digest: String,
    /// When it was saved, in the store's naive local time.
    pub saved_at: String,
    /// Its actions in plan order, and their outcomes.
    pub actions: Vec<SavedAction>,
}

/// A line of a list of saved plans.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct PlanSummary {
    /// Its name.
    pub plan_id: String,
    /// When it was saved, in the store's naive local time.
    pub saved_at: String,
    /// The time it was made for, RFC 3339.
    pub now: String,
    /// Digest of its actions.
    pub plan_digest: String,
    /// Actions by type, noops included.
    pub types: BTreeMap<ActionType, u64>,
    /// Actions that are no noops, by state.
    pub states: BTreeMap<ActionState, u64>,
}

impl SavedAction {
    /// Returns the effective action: the one as amended, else as planned.
    #[must_use]
    pub fn effective(&self) -> &Action {
        self.amended.as_ref().unwrap_or(&self.action)
    }

    /// Returns the name that people use: `a1`, `a2`, …
    #[must_use]
    pub fn label(&self) -> String {
        action_label(self.position)
    }

    /// Tells whether it would change something.
    #[must_use]
    pub fn is_change(&self) -> bool {
        self.action.action != ActionType::Noop
    }
}

impl SavedPlan {
    /// Returns a plan that no store holds yet: everything in it is proposed.
    #[must_use]
    pub fn proposed(plan: Plan) -> Self {
        let action = |(position, action): (usize, &Action)| SavedAction {
            position,
            action: action.clone(),
            amended: None,
            state: ActionState::Proposed,
            access_count: None,
            run_id: None,
            unit: None,
            note: None,
        };
        Self {
            plan_id: plan_id(&plan),
            plan_digest: plan_digest(&plan),
            saved_at: String::new(),
            actions: plan.actions.iter().enumerate().map(action).collect(),
            plan,
        }
    }

    /// Returns the semantic keys that were set on the command line when the plan was made.
    #[must_use]
    pub const fn overrides(&self) -> &serde_json::Map<String, serde_json::Value> {
        &self.plan.overrides
    }

    /// Returns how many changes are in a state.
    #[must_use]
    pub fn count(&self, state: ActionState) -> u64 {
        self.changes().filter(|action| action.state == state).count() as u64
    }

    /// Returns the actions that are no noops, in plan order.
    pub fn changes(&self) -> impl Iterator<Item = &SavedAction> {
        self.actions.iter().filter(|action| action.is_change())
    }
}

/// Digits of a plan's name: 48 bits tell the plans of one store apart.
const PLAN_ID_DIGITS: usize = 12;

/// Returns the sha256 (hex) of the canonical JSON of the plan's actions in plan order.
#[must_use]
pub fn plan_digest(plan: &Plan) -> String {
    let actions =
        serde_json::to_value(&plan.actions).expect("actions hold only strings and numbers");
    sha256_hex(canonical_json(actions))
}

/// Returns the name of a plan: `p` and 12 hex digits of the sha256 of its canonical JSON as a whole.
#[must_use]
pub fn plan_id(plan: &Plan) -> String {
    let plan = serde_json::to_value(plan).expect("a plan holds only strings, numbers and JSON");
    format!("p{}", &sha256_hex(canonical_json(plan))[..PLAN_ID_DIGITS])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn risk_follows_the_words() {
        for (survivor, row, loose, expected) in [
            ("Port 8080", " Port\n8080 ", true, Risk::Identical),
            ("Port 8080.", "port 8080", true, Risk::Trivial),
            ("The port is 8080", "port 8080", false, Risk::Trivial),
            ("tests passed", "test passes", false, Risk::Trivial),
            ("re-run it", "re run it", true, Risk::Trivial),
            ("timeout 1.5 s", "timeout 15 s", false, Risk::Reworded),
            ("offset -5", "offset 5", false, Risk::Reworded),
            ("written in C#", "written in C", false, Risk::Reworded),
            ("turn the light on", "turn the light off", false, Risk::Reworded),
            ("do not deploy", "do deploy", false, Risk::Reworded),
            ("fast search", "quick search", true, Risk::Reworded),
        ] {
            assert_eq!(risk(survivor, row, loose), expected, "{survivor:?} {row:?}");
        }
    }
}
