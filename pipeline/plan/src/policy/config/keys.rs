//! The configuration as people write it: the keys, their types and what they mean. The built-in
//! values are those of [`crate::policy::defaults`]; ranges stand in the schema, which every layer is checked against.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::lifecycle::LifecycleConfig;
use super::rules::{RuleConfig, builtin_rules};
use crate::policy::{
    Absorbed, FlagTarget, JoinMethod, JudgeTask, Linkage, Profile, Provider, Trigger, defaults,
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
    /// Sets protection, and the rules of another system, at once; keys of the same layer and of later ones beat it.
    pub profile: Profile,
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
}

/// How near pairs are found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct DetectConfig {
    /// How pairs are searched.
    pub method: JoinMethod,
    /// Whether equal texts are linked without looking at vectors.
    pub exact_text: bool,
}

/// How pairs become clusters.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct ClusterConfig {
    /// How memories are linked into clusters.
    pub linkage: Linkage,
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
    /// Memories with any of these categories or tags are protected, whatever their case.
    pub categories: Vec<String>,
    /// Memories whose root source starts with any of these are protected.
    pub sources: Vec<String>,
    /// Memories of at least this importance are protected.
    pub importance_min: f64,
    /// Younger memories are protected, in hours.
    #[schemars(range(min = 0.0))]
    pub min_age_hours: f64,
}

/// How merges are made.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct MergeConfig {
    /// What happens to the others.
    pub absorbed: Absorbed,
}

/// How many contradictions are flagged; the rest is counted.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
pub struct FlagConfig {
    /// Flags that wait for a person at once, those of earlier runs included; highest score first.
    pub max_per_run: usize,
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
    /// `http://localhost:8030` for `daemon`, `http://localhost:11434` for `ollama`. Of `local`: the model's folder,
    /// relative to this file.
    pub url: Option<String>,
    /// The model's name as the store spells it; null: what the provider says, or the store's.
    pub model: Option<String>,
    /// The model's name as the provider spells it; null: as `embed.model`.
    pub request_model: Option<String>,
    /// The name of the environment variable that holds the provider's key, never the key itself; null: no key.
    pub api_key_env: Option<String>,
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
    /// The prices of a million tokens that are sent and of a million that are answered, such as `[0.15, 0.60]`; null:
    /// unknown, counted as nothing.
    #[schemars(length(equal = 2), inner(range(min = 0.0, max = 1_000_000.0)))]
    pub price: Option<Vec<f64>>,
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
            profile: defaults::PROFILE,
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
        }
    }
}

impl Default for JudgeConfig {
    fn default() -> Self {
        Self {
            chain: Vec::new(),
            tasks: defaults::JUDGE_TASKS.to_vec(),
            rewrite: defaults::JUDGE_REWRITE,
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
        Self { method: defaults::METHOD, exact_text: defaults::EXACT_TEXT }
    }
}

impl Default for ClusterConfig {
    fn default() -> Self {
        Self { linkage: defaults::LINKAGE, separate_by: texts(&defaults::SEPARATE_BY) }
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
    pub(super) fn of(profile: Profile) -> Self {
        let default = Self {
            enabled: defaults::PROTECTION_ENABLED,
            categories: texts(&defaults::PROTECTED_CATEGORIES),
            sources: texts(&defaults::PROTECTED_SOURCES),
            importance_min: defaults::PROTECTED_IMPORTANCE_MIN,
            min_age_hours: defaults::PROTECTED_AGE_HOURS,
        };
        match profile {
            Profile::Default => default,
            Profile::Strict | Profile::Hivemind => Self {
                categories: [default.categories, texts(&defaults::STRICT_CATEGORIES)].concat(),
                min_age_hours: defaults::STRICT_AGE_HOURS,
                ..default
            },
        }
    }
}

impl Default for MergeConfig {
    fn default() -> Self {
        Self { absorbed: defaults::ABSORBED }
    }
}

impl Default for FlagConfig {
    fn default() -> Self {
        Self { max_per_run: defaults::FLAGS_PER_RUN_MAX, write_to: defaults::FLAG_TARGET }
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
        }
    }
}

impl Default for QuickCheckConfig {
    fn default() -> Self {
        Self {
            auto_dedup_threshold: defaults::AUTO_DEDUP_THRESHOLD,
            flag_threshold: defaults::FLAG_THRESHOLD,
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
        }
    }
}
