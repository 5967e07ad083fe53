//! The configuration as people write it, and as runs read it: each key is a field here, with its meaning, its type and
//! its bounds; the built-in values stand in [`defaults`], with their reasons. The schema, docs/configuration.md, the
//! variables and the words of `--set` are made from these types.
//!
//! Fields that are skipped are no keys: they are fixed, or follow from other keys.

use std::path::PathBuf;
use std::time::Duration;

use crate::summary::Confidence;
use memfold_index::{GraphJoin, JoinIndex};
use memfold_simd::Similarity;
use serde::{Deserialize, Serialize};

use super::defaults;
use super::read::{Above, As, Cosine, MAX, Within};

/// Configuration of memfold. Every key may be left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Whether the store may be consolidated. `false` beats `--execute`: nothing is written.
    pub enabled: bool,
    /// Whether nothing may be written, whatever is asked for. Beats `--execute`.
    pub read_only: bool,
    /// Short for `min_similarity` of the rule `R2-near-duplicate-merge`, from -1 to 1. Where it is above
    /// that of `R1-exact-duplicate-merge`, it sets that one too.
    #[serde(with = "As::<Option<Cosine>>", skip_serializing)]
    pub threshold: Option<f64>,
    /// Sets protection, and the rules of another system, at once; keys of the same layer and of later ones beat it.
    pub profile: Profile,
    /// Runs only the rules of this trigger and the `on_*` ones; null runs all.
    pub trigger: Option<Trigger>,
    /// The zone of times that name none: an IANA name or an offset such as `+02:00`; null is the machine's.
    pub time_zone: Option<String>,
    /// Rules in order; the first that matches wins. They merge with those of other layers by `id`, key by
    /// key; new ones are tried before those of the layers below; `enabled: false` removes one.
    pub rules: Vec<Rule>,
    /// How near pairs are found.
    pub detect: DetectPolicy,
    /// How pairs become clusters.
    pub cluster: ClusterPolicy,
    /// How texts are compared.
    pub guard: GuardConfig,
    /// What is never changed or absorbed.
    pub protection: ProtectionPolicy,
    /// How merges are made.
    pub merge: MergePolicy,
    /// How many contradictions are flagged.
    pub flags: FlagPolicy,
    /// Which near pairs are proposed to a person.
    pub propose: ProposePolicy,
    /// Which live memories take part.
    pub scope: ScopeConfig,
    /// How a memory is judged when it is saved.
    pub quick_check: QuickCheckPolicy,
    /// Who makes vectors of texts, for `memfold embed` and for memories that are saved without one. Not
    /// read from the file beside a store.
    pub embed: EmbedSettings,
    /// Which models decide about proposals with `consolidate --judge`. Not read from the file beside a store.
    pub judge: JudgeSettings,
    /// How retention and tiers are computed, and when a run is due.
    pub lifecycle: LifecycleConfig,
    /// How long to wait for a store that others hold, in milliseconds, at most an hour.
    #[serde(with = "As::<Within<u32, 0, 3_600_000>>")]
    pub busy_timeout_ms: u32,
}

/// How near pairs are found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "DetectConfig"))]
#[serde(default, deny_unknown_fields)]
pub struct DetectPolicy {
    /// How pairs are searched.
    pub method: JoinMethod,
    /// Whether equal texts are linked without looking at vectors.
    pub exact_text: bool,
    /// Contradictions are looked for at or above this similarity.
    #[serde(skip)]
    pub contradiction_similarity: Similarity,
}

/// How pairs become clusters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ClusterConfig"))]
#[serde(default, deny_unknown_fields)]
pub struct ClusterPolicy {
    /// How memories are linked into clusters.
    pub linkage: Linkage,
    /// Categories, `*` for any ending: memories that differ in these are never merged.
    pub separate_by: Vec<String>,
    /// The largest connected component for the hierarchical linkages.
    #[serde(skip)]
    pub max_component_rows: usize,
}

/// How texts are compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct GuardConfig {
    /// Whether differences between texts forbid merges. Off together with `--execute` needs `--allow-unguarded`.
    pub enabled: bool,
    /// A file with further words for the lexicon, relative to this file.
    pub lexicon: Option<String>,
}

/// What is never changed or absorbed. Lists replace those of the profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ProtectionConfig"))]
#[serde(default, deny_unknown_fields)]
pub struct ProtectionPolicy {
    /// Whether anything is protected. Off together with `--execute` needs `--allow-unguarded`.
    pub enabled: bool,
    /// Memories with any of these categories or tags are protected, whatever their case.
    pub categories: Vec<String>,
    /// Memories whose root source starts with any of these are protected.
    pub sources: Vec<String>,
    /// Memories of at least this importance are protected.
    pub importance_min: f64,
    /// Younger memories are protected, in hours.
    #[serde(with = "As::<Within<f64, 0, MAX>>")]
    pub min_age_hours: f64,
    /// Ids that are never touched (`strict`: the reserved ids of other memory systems).
    #[serde(skip)]
    pub ids: Vec<String>,
    /// Access count from which a row is protected (`strict`), if any.
    #[serde(skip)]
    pub access_count_min: Option<i64>,
}

/// How merges are made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "MergeConfig"))]
#[serde(default, deny_unknown_fields)]
pub struct MergePolicy {
    /// What happens to the others.
    pub absorbed: Absorbed,
    /// Whether memories whose merge was undone may merge again. Set for one run: it is not a key of the configuration,
    /// and not part of its hash, so that the plan is applied as any other.
    #[serde(skip)]
    pub again: bool,
    /// Importance never rises above this by a merge or promotion.
    #[serde(skip)]
    pub importance_cap: f64,
}

/// How many contradictions are flagged; the rest is counted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "FlagConfig"))]
#[serde(default, deny_unknown_fields)]
pub struct FlagPolicy {
    /// Flags that wait for a person at once, those of earlier runs included; highest score first.
    pub max_per_run: usize,
    /// Where flags are written: `table` is `memfold_flags`, `stm` also adds a row to the owner's table.
    pub write_to: FlagTarget,
}

/// Which near memories are proposed for a merge that nothing proves. `memfold review` asks; nothing happens without an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ProposeConfig"))]
#[serde(default, deny_unknown_fields)]
pub struct ProposePolicy {
    /// From this similarity on, in (0, 1].
    #[serde(with = "As::<Above<f64, 0, 1>>")]
    pub min_similarity: Similarity,
    /// Proposals per run, the most probable first; 0: none.
    pub max_per_run: usize,
}

/// Which live memories take part.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct ScopeConfig {
    /// Any of these categories; empty: all.
    pub categories: Vec<String>,
    /// Created at or after: a date, or a date and time with or without offset.
    pub since: Option<String>,
    /// Created before: a date, or a date and time with or without offset.
    pub until: Option<String>,
}

/// How a memory is judged when it is saved.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "QuickCheckConfig"))]
#[serde(default, deny_unknown_fields)]
pub struct QuickCheckPolicy {
    /// A mergeable match at or above this similarity is replaced, from -1 to 1.
    #[serde(with = "As::<Cosine>")]
    pub auto_dedup_threshold: Similarity,
    /// A match at or above this similarity is flagged, from -1 to 1.
    #[serde(with = "As::<Cosine>")]
    pub flag_threshold: Similarity,
    /// How long a check may take before a save goes on without it, in milliseconds, at most a minute.
    #[serde(rename = "time_limit_ms", with = "As::<Within<u32, 1, 60_000>>")]
    pub time_limit: Duration,
}

/// Who makes vectors of texts, for `memfold embed` and for memories that are saved without one. Not read from the file beside
/// a store.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "EmbedConfig"))]
#[serde(default, deny_unknown_fields)]
pub struct EmbedSettings {
    /// Who makes them; null: for a text that is saved, checked or searched the daemon of the store's owner, where it
    /// listens on this machine; otherwise nobody, and no text goes anywhere.
    pub provider: Option<Provider>,
    /// Where the provider listens, `http://` or `https://`, without user name or password; null:
    /// `http://localhost:8030` for `daemon`, `http://localhost:11434` for `ollama`. Of `local`: the model's folder,
    /// relative to this file.
    pub url: Option<String>,
    /// The model's name as the store spells it; null: what the provider says, or the store's.
    pub model: Option<String>,
    /// The model's name as the provider spells it; null: as `embed.model`.
    pub request_model: Option<String>,
    /// The name of the environment variable that holds the provider's key, never the key itself; null: no key.
    pub api_key_env: Option<String>,
    /// How long one request may take, from connecting to the last byte.
    #[serde(skip)]
    pub timeout: Duration,
    /// How often a request is repeated that found nobody, or a provider that is busy or failed.
    #[serde(skip)]
    pub retries: u32,
    /// Texts in one request.
    #[serde(skip)]
    pub batch_size: usize,
    /// The folder of a local model.
    #[serde(skip)]
    pub dir: Option<PathBuf>,
    /// How long somebody who waits for a single vector is kept waiting.
    #[serde(skip)]
    pub inline_timeout: Duration,
    /// How long a call may take with all its repetitions; `None`: as long as these take.
    #[serde(skip)]
    pub time_limit: Option<Duration>,
    /// Where key and address come from, where these are two places: then nobody is asked.
    #[serde(skip)]
    pub key_from_elsewhere: Option<Box<KeyFromElsewhere>>,
}

/// Which models decide about proposals with `consolidate --judge`. Not read from the file beside a store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "JudgeConfig"))]
#[serde(default, deny_unknown_fields)]
pub struct JudgeSettings {
    /// The models, the first that answers counts; empty: nobody is asked, and no text goes anywhere.
    pub chain: Vec<JudgeModel>,
    /// A classifier in a folder, which answers in place of the chain.
    pub nli: NliSettings,
    /// What they are asked: `duplicates` (which proposals are the same), `golden` (one new memory for related ones),
    /// `summaries` (of groups of related memories, which stay), `supersession` (which of two holds).
    pub tasks: Vec<JudgeTask>,
    /// Whether a model may write the text of a merge; needs `embed.provider`, as golden records and summaries do.
    pub rewrite: bool,
    /// How long one request may take with its repetitions, in milliseconds, at most ten minutes.
    #[serde(rename = "timeout_ms", with = "As::<Within<u32, 1, 600_000>>")]
    pub timeout: Duration,
    /// How many answers must agree before memories merge, at most 5; every second one sees them in reverse order.
    #[serde(with = "As::<Within<u32, 1, 5>>")]
    pub votes: usize,
    /// What may leave.
    pub loss: JudgeLoss,
    /// What it may take.
    pub budget: JudgeBudget,
    /// The share of a source's content words that a new text may lack, from 0 to 1.
    #[serde(skip)]
    pub content_words_lost_max: f64,
    /// From which similarity on memories may become one golden record.
    #[serde(skip)]
    pub golden_similarity_min: Similarity,
    /// From which similarity on, on average, memories are summarised together.
    #[serde(skip)]
    pub summary_similarity_min: Similarity,
    /// How sure a model must be that a memory no longer holds.
    #[serde(skip)]
    pub supersession_confidence_min: Confidence,
    /// Memories in one request, about.
    #[serde(skip)]
    pub batch_size: usize,
    /// Below this similarity a replacement counts as a merge.
    #[serde(skip)]
    pub replace_similarity_min: f64,
}

/// A classifier that says of two texts whether one entails or contradicts the other, run in this process.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "NliConfig"))]
#[serde(default, deny_unknown_fields)]
pub struct NliSettings {
    /// The folder with `config.json`, `tokenizer.json` and `model.safetensors` of a BERT, DeBERTa or ModernBERT classifier,
    /// relative to the file that names it; needs a build with the feature `local-models`. Null: `judge.chain` answers.
    pub folder: Option<String>,
    /// Two texts say the same where each entails the other with this probability, from 0 to 1; also of a decision endpoint.
    #[serde(with = "As::<Within<f64, 0, 1>>")]
    pub same_min: f64,
    /// Two texts conflict where either contradicts the other with this probability, from 0 to 1; also of a decision endpoint.
    #[serde(with = "As::<Within<f64, 0, 1>>")]
    pub conflict_min: f64,
    /// The folder, found.
    #[serde(skip)]
    pub dir: Option<PathBuf>,
}

/// A model and where it listens.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "JudgeModelConfig"))]
#[serde(default, deny_unknown_fields)]
pub struct JudgeModel {
    /// Where a server speaks `/v1/chat/completions`, `http://` or `https://`, without user name or password; an address that
    /// ends in `/v1/systemone` is asked for decisions with probabilities.
    pub url: String,
    /// The model's name; null: the one that the server has loaded.
    pub model: Option<String>,
    /// The name of the environment variable that holds the key, never the key itself; null: no key.
    pub key_env: Option<String>,
    /// The prices of a million tokens that are sent and of a million that are answered, such as `[0.15, 0.60]`; null:
    /// unknown, counted as nothing.
    #[serde(with = "As::<Option<Vec<Within<f64, 0, 1_000_000>>>>")]
    #[cfg_attr(test, schemars(length(equal = 2)))]
    pub price: Option<Vec<f64>>,
}

/// What may leave when models decide.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "JudgeLossConfig"))]
#[serde(default, deny_unknown_fields)]
pub struct JudgeLoss {
    /// The share of the live memories that may merge into others in one run, from 0 to 1.
    #[serde(with = "As::<Within<f64, 0, 1>>")]
    pub max_live_share_per_run: f64,
}

/// What asking models may take.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "JudgeBudgetConfig"))]
#[serde(default, deny_unknown_fields)]
pub struct JudgeBudget {
    /// Requests that begin within a minute.
    #[serde(with = "As::<Within<u32, 1, 100_000>>")]
    pub requests_per_minute: u32,
    /// Tokens of the requests that begin within a minute.
    #[serde(with = "As::<Within<u32, 1, 1_000_000_000>>")]
    pub tokens_per_minute: u32,
    /// Tokens of a whole run.
    #[serde(with = "As::<Within<u32, 1, 1_000_000_000>>")]
    pub tokens_per_run: u32,
    /// What a day may cost, in the currency of the prices; without prices it limits nothing.
    #[serde(with = "As::<Within<f64, 0, 1_000_000>>")]
    pub cost_per_day: f64,
}

/// How retention and tiers are computed, and when a run is due; docs/lifecycle.md has the formula.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct LifecycleConfig {
    /// Days in which recency halves, at most 100,000.
    #[serde(with = "As::<Above<f64, 0, 100_000>>")]
    pub half_life_days: f64,
    /// Retention below which a memory is ARCHIVED, from 0 to 1; 0: none is.
    #[serde(with = "As::<Within<f64, 0, 1>>")]
    pub archive_below: f64,
    /// When a run is due.
    pub due: DueConfig,
}

/// When `memfold status --exit-code` says that a run is due.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(default, deny_unknown_fields)]
pub struct DueConfig {
    /// From this many new memories on.
    #[serde(with = "As::<Within<u64, 1, MAX>>")]
    pub new_memories_min: u64,
}

/// A rule: when it fires and what it does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "RuleConfig"))]
#[serde(default, deny_unknown_fields)]
pub struct Rule {
    /// Its name, unique: letters, digits, `-` and `_`.
    pub id: String,
    /// Whether it counts.
    pub enabled: bool,
    /// What runs it.
    pub trigger: Trigger,
    /// Conditions; all must hold.
    pub when: Conditions,
    /// What it does.
    pub then: Then,
}

/// Conditions of a rule; all must hold, and null is none.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "WhenConfig"))]
#[serde(default, deny_unknown_fields)]
pub struct Conditions {
    /// The cluster's smallest pairwise similarity is at least this, from -1 to 1; with `detect.exact_text`, or all members
    /// have the same text.
    #[serde(with = "As::<Option<Cosine>>", skip_serializing_if = "Option::is_none")]
    pub min_similarity: Option<Similarity>,
    /// Only texts that the guard proves to say the same; where one says more, the rule does not hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub proven_same: Option<bool>,
    /// The cluster has at least so many members.
    #[serde(with = "As::<Option<Within<usize, 1, MAX>>>", skip_serializing_if = "Option::is_none")]
    pub min_cluster_size: Option<usize>,
    /// At least so old, in days. A time that cannot be read fires no age rule.
    #[serde(with = "As::<Option<Within<f64, 0, MAX>>>", skip_serializing_if = "Option::is_none")]
    pub min_age_days: Option<f64>,
    /// Read at least so often.
    #[serde(with = "As::<Option<Within<i64, 0, MAX>>>", skip_serializing_if = "Option::is_none")]
    pub min_access_count: Option<i64>,
    /// Read at most so often.
    #[serde(with = "As::<Option<Within<i64, 0, MAX>>>", skip_serializing_if = "Option::is_none")]
    pub max_access_count: Option<i64>,
    /// Importance is at least this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub min_importance: Option<f64>,
    /// Importance is at most this.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub max_importance: Option<f64>,
    /// Has any of these categories; empty: no condition.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub categories_any: Vec<String>,
    /// Has none of these categories.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub categories_none: Vec<String>,
    /// Has all of these categories.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub categories_all: Vec<String>,
    /// Jaccard index of the categories to the survivor's is at least this, from 0 to 1. Attributes (`type:…`, `scope:…`)
    /// are left out.
    #[serde(with = "As::<Option<Within<f64, 0, 1>>>", skip_serializing_if = "Option::is_none")]
    pub tag_overlap_min: Option<f64>,
    /// Not read for so many days, at least; what was never read counts from its creation.
    #[serde(with = "As::<Option<Within<f64, 0, MAX>>>", skip_serializing_if = "Option::is_none")]
    pub min_idle_days: Option<f64>,
    /// All members have the same value of each of these attributes, or none has one: `[type, subtype, scope]` compares
    /// the categories `type:…`, `subtype:…` and `scope:…`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub same: Vec<String>,
}

/// What a rule does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ThenConfig"))]
#[serde(default, deny_unknown_fields)]
pub struct Then {
    /// The action.
    pub action: RuleAction,
    /// Settings of the action.
    #[serde(skip_serializing_if = "Params::is_empty")]
    pub params: Params,
}

/// Settings of a rule's action.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "ParamsConfig"))]
#[serde(default, deny_unknown_fields)]
pub struct Params {
    /// `merge`: who survives; null: the newest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub canonical: Option<Canonical>,
    /// `merge`: what happens to the others; null: as `merge.absorbed`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub absorbed: Option<Absorbed>,
}

/// The action of a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = "Action"))]
#[serde(rename_all = "snake_case")]
pub enum RuleAction {
    /// Folds a cluster.
    Merge,
    /// Raises importance by 0.5, to 3.0 at most.
    Promote,
    /// Archives a memory.
    Archive,
    /// Puts a shorter text made of its own sentences in the place of one of more than 5,000 characters, which is archived.
    Summarize,
    /// Copies an agent's memory to its team, and a team's to everybody, once.
    PromoteScope,
    /// Flags a contradictory pair.
    FlagContradiction,
    /// Leaves alone, with this rule as the reason.
    #[default]
    Noop,
}

/// What runs a rule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Trigger {
    /// Every day.
    Daily,
    /// Every week.
    Weekly,
    /// When a session ends.
    SessionEnd,
    /// When an index overflows.
    IndexOverflow,
    /// By hand.
    #[default]
    Manual,
    /// On similar memories, in every run.
    OnSimilarity,
    /// On contradictory memories, in every run.
    OnContradiction,
}

/// How near pairs are searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[cfg_attr(feature = "clap", derive(clap::ValueEnum), value(rename_all = "snake_case"))]
#[serde(rename_all = "snake_case")]
pub enum JoinMethod {
    /// The faster one: at every size measured so far the exact join.
    #[cfg_attr(feature = "clap", value(help = "Exact as far as that is fastest"))]
    Auto,
    /// The exact join.
    #[cfg_attr(feature = "clap", value(help = "The exact join"))]
    Exact,
    /// The graph of memfold, with measured recall.
    #[cfg_attr(
        feature = "clap",
        value(help = "A graph index; how many pairs it found is measured")
    )]
    Graph,
    /// The crate `hnsw_rs`, to compare with; built on one thread.
    #[cfg_attr(feature = "clap", value(help = "The crate hnsw_rs, to compare with"))]
    HnswRs,
}

/// How units are linked into clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Linkage {
    /// Newest first; a unit joins the first cluster whose every member it is linked to.
    GreedyComplete,
    /// Agglomerative, largest distance.
    Complete,
    /// Agglomerative, mean distance.
    Average,
    /// Agglomerative, smallest distance.
    Single,
}

/// Who survives a merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Canonical {
    /// The newest with a valid, fresh embedding.
    Newest,
    /// The one with most specifics and words; newest among equals.
    MostInformative,
}

/// What happens to absorbed memories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Absorbed {
    /// They stay in the table, marked and no longer found by full-text search.
    Archive,
    /// They move to `memfold_archive` with embedding and search entry; where a foreign key or a trigger of the owner
    /// would change other tables along with them, they are archived.
    Move,
}

/// What is protected, and whose rules hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Profile {
    /// Protected is what a person marked, wrote or decided, what is critical, and the last day's work.
    Default,
    /// That, the last 7 days, what is read at least 10 times, reserved ids, and whatever other memory systems mark as
    /// core, critical or a decision.
    Strict,
    /// Protection as `strict`, and the rules of memory folders in JSON files: merging within one type, subtype, scope and
    /// creator, summaries of long episodes, copies in wider scopes, archiving what nobody reads.
    Hivemind,
}

/// Where flags are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum FlagTarget {
    /// Into `memfold_flags` only.
    Table,
    /// Also as rows of `stm`, as the owner's own consolidator does: its agent reads them as memories.
    Stm,
}

/// What models are asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum JudgeTask {
    /// Which proposals say the same.
    Duplicates,
    /// Related memories become one new memory.
    Golden,
    /// Related memories are summarised, and stay.
    Summaries,
    /// Which of two memories holds.
    Supersession,
}

/// Who makes vectors of texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum Provider {
    /// The embeddings daemon of a `brain.db`'s owner: `POST /embed`.
    Daemon,
    /// Anything that speaks OpenAI's `POST /v1/embeddings`.
    Openai,
    /// Ollama: `POST /api/embed`.
    Ollama,
    /// A model in a folder, run in this process; needs a build with the feature `local-models`.
    Local,
    /// Nobody: no text goes anywhere.
    Off,
}

/// Merges what is equal but for spelling.
pub(crate) const EXACT_DUPLICATE: &str = "R1-exact-duplicate-merge";
/// Merges what says the same; `threshold` sets its `min_similarity`.
pub(crate) const NEAR_DUPLICATE: &str = "R2-near-duplicate-merge";
/// Raises procedures that proved their worth.
const PROMOTE: &str = "R3-promote-high-value-procedural";
/// Archives what nobody reads.
pub const ARCHIVE: &str = "R4-archive-low-utility";
/// Flags contradictions.
pub const CONTRADICTION: &str = "R5-flag-contradiction";

impl Default for Config {
    fn default() -> Self {
        Self {
            enabled: defaults::ENABLED,
            read_only: defaults::READ_ONLY,
            threshold: defaults::THRESHOLD,
            profile: defaults::PROFILE,
            trigger: defaults::TRIGGER,
            time_zone: None,
            rules: builtin_rules(),
            detect: DetectPolicy::default(),
            cluster: ClusterPolicy::default(),
            guard: GuardConfig::default(),
            protection: ProtectionPolicy::of(defaults::PROFILE),
            merge: MergePolicy::default(),
            flags: FlagPolicy::default(),
            propose: ProposePolicy::default(),
            scope: ScopeConfig::default(),
            quick_check: QuickCheckPolicy::default(),
            embed: EmbedSettings::default(),
            judge: JudgeSettings::default(),
            lifecycle: LifecycleConfig::default(),
            busy_timeout_ms: defaults::BUSY_TIMEOUT_MS,
        }
    }
}

impl Default for DetectPolicy {
    fn default() -> Self {
        Self {
            method: defaults::METHOD,
            exact_text: defaults::EXACT_TEXT,
            contradiction_similarity: similarity(defaults::CONTRADICTION_SIMILARITY),
        }
    }
}

impl Default for ClusterPolicy {
    fn default() -> Self {
        Self {
            linkage: defaults::LINKAGE,
            separate_by: texts(&defaults::SEPARATE_BY),
            max_component_rows: defaults::MAX_COMPONENT_ROWS,
        }
    }
}

impl Default for GuardConfig {
    fn default() -> Self {
        Self { enabled: defaults::GUARD_ENABLED, lexicon: None }
    }
}

impl Default for ProtectionPolicy {
    fn default() -> Self {
        Self::of(defaults::PROFILE)
    }
}

impl ProtectionPolicy {
    /// Returns what a profile protects.
    pub(super) fn of(profile: Profile) -> Self {
        let default = Self {
            enabled: defaults::PROTECTION_ENABLED,
            categories: texts(&defaults::PROTECTED_CATEGORIES),
            sources: texts(&defaults::PROTECTED_SOURCES),
            importance_min: defaults::PROTECTED_IMPORTANCE_MIN,
            min_age_hours: defaults::PROTECTED_AGE_HOURS,
            ids: Vec::new(),
            access_count_min: None,
        };
        match profile {
            Profile::Default => default,
            Profile::Strict | Profile::Hivemind => Self {
                categories: [default.categories, texts(&defaults::STRICT_CATEGORIES)].concat(),
                min_age_hours: defaults::STRICT_AGE_HOURS,
                ids: texts(&defaults::STRICT_IDS),
                access_count_min: Some(defaults::STRICT_ACCESS_COUNT_MIN),
                ..default
            },
        }
    }
}

impl Default for MergePolicy {
    fn default() -> Self {
        Self {
            absorbed: defaults::ABSORBED,
            again: defaults::MERGE_AGAIN,
            importance_cap: defaults::IMPORTANCE_CAP,
        }
    }
}

impl Default for FlagPolicy {
    fn default() -> Self {
        Self { max_per_run: defaults::FLAGS_PER_RUN_MAX, write_to: defaults::FLAG_TARGET }
    }
}

impl Default for ProposePolicy {
    fn default() -> Self {
        Self {
            min_similarity: similarity(defaults::PROPOSE_SIMILARITY_MIN),
            max_per_run: defaults::PROPOSALS_PER_RUN_MAX,
        }
    }
}

impl Default for QuickCheckPolicy {
    fn default() -> Self {
        Self {
            auto_dedup_threshold: similarity(defaults::AUTO_DEDUP_THRESHOLD),
            flag_threshold: similarity(defaults::FLAG_THRESHOLD),
            time_limit: defaults::CHECK_TIME_LIMIT,
        }
    }
}

// Memories are private: nobody is asked for vectors unless a person names somebody.
impl Default for EmbedSettings {
    fn default() -> Self {
        Self {
            provider: None,
            url: None,
            model: None,
            request_model: None,
            api_key_env: None,
            timeout: defaults::EMBED_TIMEOUT,
            retries: defaults::EMBED_RETRIES,
            batch_size: defaults::EMBED_BATCH_SIZE,
            dir: None,
            inline_timeout: defaults::EMBED_INLINE_TIMEOUT,
            time_limit: None,
            key_from_elsewhere: None,
        }
    }
}

impl Default for JudgeSettings {
    fn default() -> Self {
        Self {
            chain: Vec::new(),
            nli: NliSettings::default(),
            tasks: defaults::JUDGE_TASKS.to_vec(),
            rewrite: defaults::JUDGE_REWRITE,
            timeout: defaults::JUDGE_TIMEOUT,
            votes: defaults::JUDGE_VOTES,
            loss: JudgeLoss::default(),
            budget: JudgeBudget::default(),
            content_words_lost_max: defaults::JUDGE_CONTENT_WORDS_LOST_MAX,
            golden_similarity_min: similarity(defaults::JUDGE_GOLDEN_SIMILARITY_MIN),
            summary_similarity_min: similarity(defaults::JUDGE_SUMMARY_SIMILARITY_MIN),
            supersession_confidence_min: defaults::JUDGE_SUPERSESSION_CONFIDENCE_MIN,
            batch_size: defaults::JUDGE_BATCH_SIZE,
            replace_similarity_min: defaults::JUDGE_REPLACE_SIMILARITY_MIN,
        }
    }
}

impl Default for NliSettings {
    fn default() -> Self {
        Self {
            folder: None,
            same_min: defaults::JUDGE_NLI_SAME_MIN,
            conflict_min: defaults::JUDGE_NLI_CONFLICT_MIN,
            dir: None,
        }
    }
}

impl Default for JudgeLoss {
    fn default() -> Self {
        Self { max_live_share_per_run: defaults::JUDGE_LIVE_SHARE_MAX }
    }
}

impl Default for JudgeBudget {
    fn default() -> Self {
        Self {
            requests_per_minute: defaults::JUDGE_REQUESTS_PER_MINUTE,
            tokens_per_minute: defaults::JUDGE_TOKENS_PER_MINUTE,
            tokens_per_run: defaults::JUDGE_TOKENS_PER_RUN,
            cost_per_day: defaults::JUDGE_COST_PER_DAY,
        }
    }
}

// The built-in values are those of `lifecycle`, with their reasons.
impl Default for LifecycleConfig {
    fn default() -> Self {
        Self {
            half_life_days: crate::lifecycle::HALF_LIFE_DAYS,
            archive_below: crate::lifecycle::ARCHIVE_BELOW,
            due: DueConfig::default(),
        }
    }
}

impl Default for DueConfig {
    fn default() -> Self {
        Self { new_memories_min: crate::lifecycle::NEW_MEMORIES_MIN }
    }
}

// A layer may name a rule of the layers below and change one key of it: whether trigger and action are there is checked
// when all layers are merged.
impl Default for Rule {
    fn default() -> Self {
        Self {
            id: String::new(),
            enabled: true,
            trigger: Trigger::default(),
            when: Conditions::default(),
            then: Then::default(),
        }
    }
}

/// Returns the built-in rules, in order.
fn builtin_rules() -> Vec<Rule> {
    let rule = |id: &str, trigger, action, when| {
        let then = Then { action, params: Params::default() };
        Rule { id: id.to_owned(), enabled: true, trigger, when, then }
    };
    let merging = |min_similarity| Conditions {
        min_similarity: Some(similarity(min_similarity)),
        min_cluster_size: Some(defaults::MERGE_CLUSTER_SIZE_MIN),
        ..Conditions::default()
    };
    let exact = Conditions {
        proven_same: Some(defaults::PROVEN_SAME),
        ..merging(defaults::EXACT_DUPLICATE_SIMILARITY)
    };
    let near = merging(defaults::NEAR_DUPLICATE_SIMILARITY);
    let promoting = Conditions {
        min_access_count: Some(defaults::PROMOTE_ACCESS_COUNT_MIN),
        min_importance: Some(defaults::PROMOTE_IMPORTANCE_MIN),
        categories_any: texts(&defaults::PROMOTE_CATEGORIES),
        ..Conditions::default()
    };
    let archiving = Conditions {
        min_age_days: Some(defaults::ARCHIVE_AGE_DAYS),
        max_access_count: Some(defaults::ARCHIVE_ACCESS_COUNT_MAX),
        max_importance: Some(defaults::ARCHIVE_IMPORTANCE_MAX),
        ..Conditions::default()
    };
    let archive = rule(ARCHIVE, Trigger::Weekly, RuleAction::Archive, archiving);
    let flag = RuleAction::FlagContradiction;
    vec![
        rule(EXACT_DUPLICATE, Trigger::OnSimilarity, RuleAction::Merge, exact),
        rule(NEAR_DUPLICATE, Trigger::OnSimilarity, RuleAction::Merge, near),
        rule(PROMOTE, Trigger::Weekly, RuleAction::Promote, promoting),
        Rule { enabled: defaults::ARCHIVE_ENABLED, ..archive },
        rule(CONTRADICTION, Trigger::OnContradiction, flag, Conditions::default()),
    ]
}

impl Trigger {
    /// Returns whether rules of this trigger run in every run.
    #[must_use]
    pub(crate) const fn is_always(self) -> bool {
        matches!(self, Self::OnSimilarity | Self::OnContradiction)
    }
}

impl Conditions {
    /// Returns whether only texts that are proven to say the same count.
    #[must_use]
    pub fn is_proven_same(&self) -> bool {
        self.proven_same == Some(true)
    }
}

impl Params {
    /// Returns whether nothing is set.
    fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

/// Returns the name of a choice, such as a [`Trigger`], as written.
///
/// # Panics
///
/// Where it is not written as one word.
#[must_use]
pub fn name_of(choice: impl Serialize) -> String {
    match serde_json::to_value(choice) {
        Ok(serde_json::Value::String(name)) => name,
        other => unreachable!("a choice is written as one word, not as {other:?}"),
    }
}

/// Takes a default.
fn similarity(value: f64) -> Similarity {
    Similarity::new(value).expect("every default similarity is within -1 and 1")
}

/// Takes a default list.
fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(|text| (*text).to_owned()).collect()
}

impl JoinMethod {
    /// Returns how vectors are joined by a graph; `None`: exactly.
    #[must_use]
    pub fn graph_join(self) -> Option<GraphJoin> {
        let by = GraphJoin::default();
        match self {
            Self::Auto | Self::Exact => None,
            Self::Graph => Some(by),
            Self::HnswRs => Some(GraphJoin { index: JoinIndex::HnswRs, ..by }),
        }
    }
}

impl Provider {
    /// Returns where it listens unless told otherwise; all but one listen on this machine.
    #[must_use]
    pub const fn url_default(self) -> Option<&'static str> {
        match self {
            Self::Daemon => Some("http://localhost:8030"),
            Self::Ollama => Some("http://localhost:11434"),
            Self::Openai | Self::Local | Self::Off => None,
        }
    }
}

/// Two layers of a configuration, one of which names the key and the other one the address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyFromElsewhere {
    /// The one that names the key.
    pub key: String,
    /// The one that names the address.
    pub address: String,
}

impl EmbedSettings {
    /// Tells whether a provider of vectors is configured.
    #[must_use]
    pub fn makes_vectors(&self) -> bool {
        self.provider.is_some_and(|provider| provider != Provider::Off)
    }

    /// Returns the settings for somebody who waits for a single vector: where nothing is configured, those of the daemon of
    /// the store's owner on this machine.
    #[must_use]
    pub fn inline(&self) -> Self {
        let configured = Self { time_limit: Some(self.inline_timeout), ..self.clone() };
        if !self.is_default() {
            return configured;
        }
        let url = Provider::Daemon.url_default().map(str::to_owned);
        let (provider, api_key_env) = (Some(Provider::Daemon), None);
        Self { provider, url, api_key_env, key_from_elsewhere: None, retries: 0, ..configured }
    }

    /// Tells whether neither a provider nor an address is configured.
    #[must_use]
    pub const fn is_default(&self) -> bool {
        self.provider.is_none() && self.url.is_none()
    }
}

impl JudgeModel {
    /// Returns the price of a million tokens that are sent and of a million that are answered, where both are known.
    #[must_use]
    pub fn prices(&self) -> Option<(f64, f64)> {
        match self.price.as_deref() {
            Some(&[sent, answered]) => Some((sent, answered)),
            _ => None,
        }
    }
}
