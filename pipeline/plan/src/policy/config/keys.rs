//! The configuration as people write it: the keys, their types and what they mean. The built-in
//! values are those of [`crate::policy::defaults`]; ranges stand in the schema, which every layer is checked against.

use std::num::NonZeroUsize;

use memfold_model::summary::Confidence;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::lifecycle::LifecycleConfig;
use super::rules::{RuleConfig, builtin_rules};
use crate::policy::{
    Absorbed, Canonical, CategoryMerge, CheckScope, FlagTarget, GraphIndex, JoinMethod, JudgeTask,
    Linkage, Profile, Provider, RuleProfile, Trigger, defaults,
};

/// Configuration of memfold. Every key may be left out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Config {
    /// Whether the store may be consolidated. `false` beats `--execute`: nothing is written.
    pub enabled: bool,
    /// Whether nothing may be written, whatever is asked for. Beats `--execute`.
    pub read_only: bool,
    /// Short for `min_similarity` of the rule `R2-near-duplicate-merge`, from -1 to 1. Where it is above
    /// that of `R1-exact-duplicate-merge`, it sets that one too.
    #[schemars(range(min = -1.0, max = 1.0))]
    #[serde(skip_serializing)]
    pub threshold: Option<f64>,
    /// Short for the rules and the protection of another system; keys of the same layer and of later ones beat it.
    #[serde(skip_serializing)]
    pub profile: Option<RuleProfile>,
    /// Runs only the rules of this trigger and the `on_*` ones; null runs all.
    pub trigger: Option<Trigger>,
    /// The zone of times that name none: an IANA name or an offset such as `+02:00`; null is the machine's.
    pub time_zone: Option<String>,
    /// Rules in order; the first that matches wins. They merge with those of other layers by `id`, key by
    /// key; new ones are tried before those of the layers below; `enabled: false` removes one.
    pub rules: Vec<RuleConfig>,
    /// How near pairs are found.
    pub detect: DetectConfig,
    /// How pairs become clusters.
    pub cluster: ClusterConfig,
    /// How texts are compared.
    pub guard: GuardConfig,
    /// What is never changed or absorbed.
    pub protection: ProtectionConfig,
    /// How merges are made.
    pub merge: MergeConfig,
    /// How many contradictions are flagged.
    pub flags: FlagConfig,
    /// Which near pairs are proposed to a person.
    pub propose: ProposeConfig,
    /// Which live memories take part.
    pub scope: ScopeConfig,
    /// How a memory is judged when it is saved.
    pub quick_check: QuickCheckConfig,
    /// Who makes vectors of texts, for `memfold embed` and for memories that are saved without one. Not
    /// read from the file beside a store.
    pub embed: EmbedConfig,
    /// Which models decide about proposals with `consolidate --judge`. Not read from the file beside a store.
    pub judge: JudgeConfig,
    /// How retention and tiers are computed, and when a run is due.
    pub lifecycle: LifecycleConfig,
    /// How long to wait for a store that others hold, in milliseconds, at most an hour.
    #[schemars(range(min = 0, max = 3_600_000))]
    pub busy_timeout_ms: u32,
    /// Where reports go, relative to this file; null: `reports/consolidation` beside the store.
    pub reports_dir: Option<String>,
}

/// How near pairs are found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DetectConfig {
    /// How pairs are searched.
    pub method: JoinMethod,
    /// The index that `method: graph` searches by.
    pub index: GraphIndex,
    /// Where `method: graph` may have found a smaller share of the pairs, as measured in the run,
    /// the report says so; from 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub recall_target: f64,
    /// Whether equal texts are linked without looking at vectors.
    pub exact_text: bool,
    /// Distinct pairs that may be found in a space; where there are more, memories with very many neighbours are left out as a series. null: 64 × distinct rows.
    #[schemars(range(min = 1))]
    pub pair_budget: Option<u64>,
    /// From this many different texts under one vector on, the vector takes no part in merging.
    pub shared_vector_texts_max: NonZeroUsize,
}

/// How pairs become clusters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ClusterConfig {
    /// How memories are linked into clusters.
    pub linkage: Linkage,
    /// Larger clusters are split, always in the same way; null: no limit.
    #[schemars(range(min = 2))]
    pub max_cluster_size: Option<NonZeroUsize>,
    /// Categories, `*` for any ending: memories that differ in these are never merged.
    pub separate_by: Vec<String>,
}

/// How texts are compared.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct GuardConfig {
    /// Whether differences between texts forbid merges. Off together with `--execute` needs `--allow-unguarded`.
    pub enabled: bool,
    /// A file with further words for the lexicon, relative to this file.
    pub lexicon: Option<String>,
}

/// What is never changed or absorbed. Lists replace those of the profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProtectionConfig {
    /// Whether anything is protected. Off together with `--execute` needs `--allow-unguarded`.
    pub enabled: bool,
    /// Sets all other keys of this section at once; keys of the same layer and of later ones beat it.
    pub profile: Profile,
    /// Memories with any of these categories or tags are protected, whatever their case.
    pub categories: Vec<String>,
    /// Memories with these ids are protected.
    pub ids: Vec<String>,
    /// Memories whose root source starts with any of these are protected.
    pub sources: Vec<String>,
    /// Memories of at least this importance are protected.
    pub importance_min: f64,
    /// Younger memories are protected, in hours.
    #[schemars(range(min = 0.0))]
    pub min_age_hours: f64,
    /// Memories read at least this often are protected; null: none.
    #[schemars(range(min = 0))]
    pub access_count_min: Option<i64>,
}

/// How merges are made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MergeConfig {
    /// Who survives.
    pub canonical: Canonical,
    /// What happens to the others.
    pub absorbed: Absorbed,
    /// What becomes of the categories.
    pub categories: CategoryMerge,
}

/// How many contradictions are flagged; the rest is counted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FlagConfig {
    /// Flags that wait for a person at once, those of earlier runs included; highest score first.
    pub max_per_run: usize,
    /// Flags that wait per memory.
    pub max_per_memory: usize,
    /// Where flags are written: `table` is `memfold_flags`, `stm` also adds a row to the owner's table.
    pub write_to: FlagTarget,
}

/// Which near memories are proposed for a merge that nothing proves. `memfold review` asks; nothing happens without an answer.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ProposeConfig {
    /// From this similarity on, in (0, 1].
    #[schemars(extend("exclusiveMinimum" = 0, "maximum" = 1))]
    pub min_similarity: f64,
    /// Proposals per run, those first that gain most; 0: none.
    pub max_per_run: usize,
}

/// Which live memories take part.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ScopeConfig {
    /// Any of these categories; empty: all.
    pub categories: Vec<String>,
    /// Created at or after: a date, or a date and time with or without offset.
    pub since: Option<String>,
    /// Created before: a date, or a date and time with or without offset.
    pub until: Option<String>,
    /// Only the newest so many, archived ones counted; null: all.
    pub newest: Option<NonZeroUsize>,
}

/// How a memory is judged when it is saved.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct QuickCheckConfig {
    /// A mergeable match at or above this similarity is replaced, from -1 to 1.
    #[schemars(range(min = -1.0, max = 1.0))]
    pub auto_dedup_threshold: f64,
    /// A match at or above this similarity is flagged, from -1 to 1.
    #[schemars(range(min = -1.0, max = 1.0))]
    pub flag_threshold: f64,
    /// Among which memories a match is looked for.
    pub scope: CheckScope,
    /// How long a check may take before a save goes on without it, in milliseconds, at most a minute.
    #[schemars(range(min = 1, max = 60_000))]
    pub time_limit_ms: u32,
}

/// Who makes vectors of texts, for `memfold embed` and for memories that are saved without one. Not read from the file beside
/// a store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct EmbedConfig {
    /// Who makes them; null: for a text that is saved, checked or searched the daemon of the store's owner, where it
    /// listens on this machine; otherwise nobody, and no text goes anywhere.
    pub provider: Option<Provider>,
    /// Where the provider listens, `http://` or `https://`, without user name or password; null:
    /// `http://localhost:8030` for `daemon`, `http://localhost:11434` for `ollama`.
    pub url: Option<String>,
    /// The model's name as the store spells it; null: what the provider says, or the store's.
    pub model: Option<String>,
    /// The model's name as the provider spells it; null: as `embed.model`.
    pub request_model: Option<String>,
    /// The name of the environment variable that holds the provider's key, never the key itself; null: no key.
    pub api_key_env: Option<String>,
    /// How long one request may take, in milliseconds, at most ten minutes.
    #[schemars(range(min = 1, max = 600_000))]
    pub timeout_ms: u32,
    /// How often a request is repeated that found nobody, or a provider that is busy or failed; at most 10.
    #[schemars(range(min = 0, max = 10))]
    pub retries: u32,
    /// Texts in one request, at most 1000.
    #[schemars(range(min = 1, max = 1_000))]
    pub batch_size: u32,
    /// The folder of a local model, relative to this file.
    pub dir: Option<String>,
}

/// Which models decide about proposals with `consolidate --judge`. Not read from the file beside a store.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct JudgeConfig {
    /// The models, the first that answers counts; empty: nobody is asked, and no text goes anywhere.
    pub chain: Vec<JudgeModelConfig>,
    /// What they are asked: `duplicates` (which proposals are the same), `golden` (one new memory for related ones),
    /// `summaries` (of groups of related memories, which stay), `supersession` (which of two holds).
    pub tasks: Vec<JudgeTask>,
    /// Whether a model may write the text of a merge; needs `embed.provider`, as golden records and summaries do.
    pub rewrite: bool,
    /// From which similarity on, each to each, memories may become one golden record, from -1 to 1.
    #[schemars(range(min = -1.0, max = 1.0))]
    pub golden_similarity_min: f64,
    /// From which similarity on, on average, memories are summarised together, from -1 to 1.
    #[schemars(range(min = -1.0, max = 1.0))]
    pub summary_similarity_min: f64,
    /// How sure a model must be that a memory no longer holds.
    pub supersession_confidence_min: Confidence,
    /// How long one request may take with its repetitions, in milliseconds, at most ten minutes.
    #[schemars(range(min = 1, max = 600_000))]
    pub timeout_ms: u32,
    /// How many answers must agree before memories merge, at most 5; every second one sees them in reverse order.
    #[schemars(range(min = 1, max = 5))]
    pub votes: u32,
    /// What may leave.
    pub loss: JudgeLossConfig,
    /// What it may take.
    pub budget: JudgeBudgetConfig,
}

/// A model and where it listens.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct JudgeModelConfig {
    /// Where a server speaks `/v1/chat/completions`, `http://` or `https://`, without user name or password.
    pub url: String,
    /// The model's name; null: the one that the server has loaded.
    pub model: Option<String>,
    /// The name of the environment variable that holds the key, never the key itself; null: no key.
    pub key_env: Option<String>,
    /// The price of a million tokens that are sent; null: unknown, counted as nothing.
    #[schemars(range(min = 0.0, max = 1_000_000.0))]
    pub price_in: Option<f64>,
    /// The price of a million tokens of answers; null: unknown, counted as nothing.
    #[schemars(range(min = 0.0, max = 1_000_000.0))]
    pub price_out: Option<f64>,
}

/// What may leave when models decide.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct JudgeLossConfig {
    /// The share of the live memories that may merge into others in one run, from 0 to 1.
    #[schemars(range(min = 0.0, max = 1.0))]
    pub max_live_share_per_run: f64,
}

/// What asking models may take.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct JudgeBudgetConfig {
    /// Requests that begin within a minute.
    #[schemars(range(min = 1, max = 100_000))]
    pub requests_per_minute: u32,
    /// Tokens of the requests that begin within a minute.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub tokens_per_minute: u32,
    /// Tokens of a whole run.
    #[schemars(range(min = 1, max = 1_000_000_000))]
    pub tokens_per_run: u32,
    /// What a day may cost, in the currency of the prices; without prices it limits nothing.
    #[schemars(range(min = 0.0, max = 1_000_000.0))]
    pub cost_per_day: f64,
}

/// Returns every built-in value.
pub(super) fn builtin_json() -> serde_json::Value {
    serde_json::to_value(Config::default())
        .expect("the built-in configuration has text keys and finite numbers")
}

impl Default for Config {
    fn default() -> Self {
        Self {
            enabled: defaults::ENABLED,
            read_only: defaults::READ_ONLY,
            threshold: defaults::THRESHOLD,
            profile: defaults::RULE_PROFILE,
            trigger: defaults::TRIGGER,
            time_zone: defaults::TIME_ZONE.map(String::from),
            rules: builtin_rules(),
            detect: DetectConfig::default(),
            cluster: ClusterConfig::default(),
            guard: GuardConfig::default(),
            protection: ProtectionConfig::default(),
            merge: MergeConfig::default(),
            flags: FlagConfig::default(),
            propose: ProposeConfig::default(),
            scope: ScopeConfig::default(),
            quick_check: QuickCheckConfig::default(),
            embed: EmbedConfig::default(),
            judge: JudgeConfig::default(),
            lifecycle: LifecycleConfig::default(),
            busy_timeout_ms: defaults::BUSY_TIMEOUT_MS,
            reports_dir: defaults::REPORTS_DIR.map(String::from),
        }
    }
}

impl Default for JudgeConfig {
    fn default() -> Self {
        Self {
            chain: Vec::new(),
            tasks: defaults::JUDGE_TASKS.to_vec(),
            rewrite: defaults::JUDGE_REWRITE,
            golden_similarity_min: defaults::JUDGE_GOLDEN_SIMILARITY_MIN,
            summary_similarity_min: defaults::JUDGE_SUMMARY_SIMILARITY_MIN,
            supersession_confidence_min: defaults::JUDGE_SUPERSESSION_CONFIDENCE_MIN,
            timeout_ms: defaults::JUDGE_TIMEOUT_MS,
            votes: defaults::JUDGE_VOTES,
            loss: JudgeLossConfig::default(),
            budget: JudgeBudgetConfig::default(),
        }
    }
}

impl Default for JudgeLossConfig {
    fn default() -> Self {
        Self { max_live_share_per_run: defaults::JUDGE_LIVE_SHARE_MAX }
    }
}

impl Default for JudgeBudgetConfig {
    fn default() -> Self {
        Self {
            requests_per_minute: defaults::JUDGE_REQUESTS_PER_MINUTE,
            tokens_per_minute: defaults::JUDGE_TOKENS_PER_MINUTE,
            tokens_per_run: defaults::JUDGE_TOKENS_PER_RUN,
            cost_per_day: defaults::JUDGE_COST_PER_DAY,
        }
    }
}

impl Default for DetectConfig {
    fn default() -> Self {
        Self {
            method: defaults::METHOD,
            index: defaults::GRAPH_INDEX,
            recall_target: defaults::RECALL_TARGET,
            exact_text: defaults::EXACT_TEXT,
            pair_budget: defaults::PAIR_BUDGET,
            shared_vector_texts_max: defaults::SHARED_VECTOR_TEXTS_MAX,
        }
    }
}

impl Default for ClusterConfig {
    fn default() -> Self {
        Self {
            linkage: defaults::LINKAGE,
            max_cluster_size: defaults::MAX_CLUSTER_SIZE,
            separate_by: texts(&defaults::SEPARATE_BY),
        }
    }
}

impl Default for GuardConfig {
    fn default() -> Self {
        Self { enabled: defaults::GUARD_ENABLED, lexicon: defaults::LEXICON.map(String::from) }
    }
}

impl Default for ProtectionConfig {
    fn default() -> Self {
        Self::of(defaults::PROFILE)
    }
}

impl ProtectionConfig {
    /// Returns what a profile protects.
    #[must_use]
    pub fn of(profile: Profile) -> Self {
        let default = Self {
            enabled: defaults::PROTECTION_ENABLED,
            profile,
            categories: texts(&defaults::PROTECTED_CATEGORIES),
            ids: texts(&defaults::PROTECTED_IDS),
            sources: texts(&defaults::PROTECTED_SOURCES),
            importance_min: defaults::PROTECTED_IMPORTANCE_MIN,
            min_age_hours: defaults::PROTECTED_AGE_HOURS,
            access_count_min: defaults::PROTECTED_ACCESS_COUNT_MIN,
        };
        match profile {
            Profile::Default => default,
            Profile::Strict => Self {
                categories: [default.categories, texts(&defaults::STRICT_CATEGORIES)].concat(),
                ids: texts(&defaults::STRICT_IDS),
                min_age_hours: defaults::STRICT_AGE_HOURS,
                access_count_min: Some(defaults::STRICT_ACCESS_COUNT_MIN),
                ..default
            },
        }
    }
}

impl Default for MergeConfig {
    fn default() -> Self {
        Self {
            canonical: defaults::CANONICAL,
            absorbed: defaults::ABSORBED,
            categories: defaults::CATEGORY_MERGE,
        }
    }
}

impl Default for FlagConfig {
    fn default() -> Self {
        Self {
            max_per_run: defaults::FLAGS_PER_RUN_MAX,
            max_per_memory: defaults::FLAGS_PER_MEMORY_MAX,
            write_to: defaults::FLAG_TARGET,
        }
    }
}

impl Default for ProposeConfig {
    fn default() -> Self {
        Self {
            min_similarity: defaults::PROPOSE_SIMILARITY_MIN,
            max_per_run: defaults::PROPOSALS_PER_RUN_MAX,
        }
    }
}

impl Default for ScopeConfig {
    fn default() -> Self {
        Self {
            categories: texts(&defaults::SCOPE_CATEGORIES),
            since: defaults::SCOPE_SINCE.map(String::from),
            until: defaults::SCOPE_UNTIL.map(String::from),
            newest: defaults::SCOPE_NEWEST,
        }
    }
}

impl Default for QuickCheckConfig {
    fn default() -> Self {
        Self {
            auto_dedup_threshold: defaults::AUTO_DEDUP_THRESHOLD,
            flag_threshold: defaults::FLAG_THRESHOLD,
            scope: defaults::CHECK_SCOPE,
            time_limit_ms: defaults::CHECK_TIME_LIMIT_MS,
        }
    }
}

/// Takes a default list.
pub(super) fn texts(list: &[&str]) -> Vec<String> {
    list.iter().map(|text| (*text).to_owned()).collect()
}

impl Default for EmbedConfig {
    fn default() -> Self {
        Self {
            provider: defaults::EMBED_PROVIDER,
            url: defaults::EMBED_URL.map(String::from),
            model: defaults::EMBED_MODEL.map(String::from),
            request_model: defaults::EMBED_REQUEST_MODEL.map(String::from),
            api_key_env: defaults::EMBED_API_KEY_ENV.map(String::from),
            timeout_ms: defaults::EMBED_TIMEOUT_MS,
            retries: defaults::EMBED_RETRIES,
            batch_size: defaults::EMBED_BATCH_SIZE,
            dir: defaults::EMBED_DIR.map(String::from),
        }
    }
}
