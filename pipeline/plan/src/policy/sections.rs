//! [`Policy`] and its sections: what holds for detection, clusters, merges, protection, scope, flags,
//! the check on save and embeddings.

use std::path::PathBuf;
use std::time::Duration;

use memfold_index::{GraphJoin, JoinIndex};
use memfold_lifecycle::{DuePolicy, RetentionPolicy};
use memfold_model::summary::Confidence;
use memfold_model::time::Instant;
use memfold_simd::Similarity;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use memfold_guard::GuardPolicy;

use super::rule::{Rule, RuleAction, Trigger, instant, similarity};

/// The validated, merged semantic configuration. Nothing in it is a path, a thread count or a secret.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[non_exhaustive]
pub struct Policy {
    /// Rules in order; the first that matches wins.
    pub rules: Vec<Rule>,
    /// How pairs are found.
    pub detect: DetectPolicy,
    /// How pairs become clusters.
    pub cluster: ClusterPolicy,
    /// How texts are compared.
    pub guard: GuardPolicy,
    /// What is never touched.
    pub protection: ProtectionPolicy,
    /// How merges are made.
    pub merge: MergePolicy,
    /// How many contradictions are flagged.
    pub flags: FlagPolicy,
    /// Which near pairs are proposed to a person.
    pub propose: ProposePolicy,
    /// Which memories take part.
    pub scope: Scope,
    /// The resolved zone of naive times: an IANA name or a fixed offset.
    pub time_zone: String,
    /// Runs only the rules of this trigger (and `on_*`); `None`: all.
    pub trigger: Option<Trigger>,
}

impl Policy {
    /// Returns the rules that run, in order: those of [`Self::trigger`] and the `on_*` ones, or all.
    pub(crate) fn active_rules(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(|rule| {
            self.trigger.is_none_or(|trigger| rule.trigger == trigger || rule.trigger.is_always())
        })
    }

    /// Returns what happens to the memories that a rule merges into others: as the rule says, else as all do.
    #[must_use]
    pub fn absorbed_by(&self, rule_id: &str) -> Absorbed {
        let own =
            self.rules.iter().find(|rule| rule.id == rule_id).and_then(|rule| match rule.then {
                RuleAction::Merge { absorbed, .. } => absorbed,
                _ => None,
            });
        own.unwrap_or(self.merge.absorbed)
    }

    /// Returns the lowest `min_similarity` of the merge rules that run: the threshold of the one
    /// clustering. `None` where no merge rule runs.
    #[must_use]
    pub fn merge_threshold(&self) -> Option<Similarity> {
        self.lowest_of_merges(|rule| self.guard.enabled || !rule.when.proven_same)
    }

    /// Returns the lowest similarity at which a text merges that says more than the other.
    #[must_use]
    pub(crate) fn extension_threshold(&self) -> Option<Similarity> {
        self.lowest_of_merges(|rule| !rule.when.proven_same)
    }

    fn lowest_of_merges(&self, counts: impl Fn(&Rule) -> bool) -> Option<Similarity> {
        self.active_rules()
            .filter(|rule| matches!(rule.then, RuleAction::Merge { .. }) && counts(rule))
            .filter_map(|rule| rule.when.min_similarity)
            .min()
    }

    /// Returns the lowest similarity that anything looks at: that of merges, and that of
    /// contradictions where a rule flags them. `None` where no rule needs pairs.
    #[must_use]
    pub fn join_threshold(&self) -> Option<Similarity> {
        let flags = self.active_rules().any(|rule| rule.then == RuleAction::FlagContradiction);
        let contradiction = flags.then_some(self.detect.contradiction_similarity);
        self.merge_threshold().into_iter().chain(contradiction).min()
    }

    /// Returns the similarity from which another value in the same frame is an update.
    #[must_use]
    pub fn update_similarity(&self) -> Similarity {
        let proposing = self.propose_threshold();
        proposing
            .into_iter()
            .chain([self.detect.contradiction_similarity])
            .min()
            .unwrap_or(Similarity::ONE)
    }

    /// Returns the similarity from which pairs are proposed; `None` where nothing is proposed, or nothing compares texts.
    #[must_use]
    pub fn propose_threshold(&self) -> Option<Similarity> {
        let merges = self.merge_threshold().is_some();
        let wanted = merges && self.guard.enabled && self.propose.max_per_run > 0;
        wanted.then_some(self.propose.min_similarity)
    }
}

/// How near pairs are found.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct DetectPolicy {
    /// `auto`, `exact` or `graph`.
    pub method: JoinMethod,
    /// Whether equal strict keys link rows without looking at vectors.
    pub exact_text: bool,
    /// Contradictions are looked for at or above this similarity.
    #[serde(serialize_with = "similarity")]
    pub contradiction_similarity: Similarity,
}

/// How near pairs are searched.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum JoinMethod {
    /// The faster one: at every size measured so far the exact join.
    Auto,
    /// The exact join.
    Exact,
    /// The graph of memfold, with measured recall.
    Graph,
    /// The crate `hnsw_rs`, to compare with; built on one thread.
    HnswRs,
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

/// How pairs become clusters.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ClusterPolicy {
    /// The linkage.
    pub linkage: Linkage,
    /// Category patterns (`private`, `user:*`): rows that differ in these are never merged.
    pub separate_by: Vec<String>,
    /// The largest connected component for the hierarchical linkages.
    pub max_component_rows: usize,
}

/// How units are linked into clusters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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

/// How merges are made.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct MergePolicy {
    /// What happens to the others.
    pub absorbed: Absorbed,
    /// Whether memories whose merge was undone may merge again. Set for one run: it is not a key of the configuration,
    /// and not part of its hash, so that the plan is applied as any other.
    #[serde(skip)]
    pub again: bool,
    /// Importance never rises above this by a merge or promotion.
    pub importance_cap: f64,
}

/// Who survives a merge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Canonical {
    /// The newest with a valid, fresh embedding.
    Newest,
    /// The one with most specifics and words; newest among equals.
    MostInformative,
}

/// What happens to absorbed memories.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Absorbed {
    /// They stay in the table, marked and no longer found by full-text search.
    Archive,
    /// They move to `memfold_archive` with embedding and search entry; where a foreign key or a trigger of the owner
    /// would change other tables along with them, they are archived.
    Move,
}

/// What is never changed or absorbed.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProtectionPolicy {
    /// Whether anything is protected.
    pub enabled: bool,
    /// Protecting categories and tags (compared case-insensitively).
    pub categories: Vec<String>,
    /// Ids that are never touched (`strict`: the reserved ids of other memory systems).
    pub ids: Vec<String>,
    /// Protecting root-source prefixes (`manual`, `user`).
    pub sources: Vec<String>,
    /// Importance from which a row is protected.
    pub importance_min: f64,
    /// Younger rows are protected, in hours.
    pub min_age_hours: f64,
    /// Access count from which a row is protected (`strict`), if any.
    pub access_count_min: Option<i64>,
}

/// What is protected, and whose rules hold.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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

/// Which live memories take part.
#[derive(Debug, Clone, PartialEq, Default, Serialize)]
pub struct Scope {
    /// Any of these categories; empty: all.
    pub categories: Vec<String>,
    /// Created at or after.
    #[serde(serialize_with = "instant")]
    pub since: Option<Instant>,
    /// Created before.
    #[serde(serialize_with = "instant")]
    pub until: Option<Instant>,
    /// Root sources starting with any of these; empty: all.
    pub sources: Vec<String>,
}

/// Caps on contradiction flags.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct FlagPolicy {
    /// Flags that wait for a person at once.
    pub max_per_run: usize,
    /// Where flags are written.
    pub write_to: FlagTarget,
}

/// Which near memories are proposed for a merge that nothing proves.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct ProposePolicy {
    /// From which similarity on.
    #[serde(serialize_with = "similarity")]
    pub min_similarity: Similarity,
    /// Proposals per run; 0: none.
    pub max_per_run: usize,
}

/// Where flags are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FlagTarget {
    /// Into `memfold_flags` only.
    Table,
    /// Also as rows of `stm`, as the owner's own consolidator does: its agent reads them as memories.
    Stm,
}

/// How a memory is judged when it is saved.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct QuickCheckPolicy {
    /// A mergeable match at or above this similarity is replaced.
    pub auto_dedup_threshold: Similarity,
    /// A match at or above this similarity is flagged.
    pub flag_threshold: Similarity,
    /// How long a check may take.
    pub time_limit: Duration,
}

impl EmbedSettings {
    /// Tells whether a provider of vectors is configured.
    #[must_use]
    pub fn makes_vectors(&self) -> bool {
        self.provider.is_some_and(|provider| provider != Provider::Off)
    }
}

/// What models are asked.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
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

impl JudgeTask {
    /// Returns the name as configured.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Duplicates => "duplicates",
            Self::Golden => "golden",
            Self::Summaries => "summaries",
            Self::Supersession => "supersession",
        }
    }
}

/// Who makes vectors of texts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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

impl Provider {
    /// Returns the name as configured.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Daemon => "daemon",
            Self::Openai => "openai",
            Self::Ollama => "ollama",
            Self::Local => "local",
            Self::Off => "off",
        }
    }

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

/// Which models decide about proposals, as configured. No secret is in it.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgeSettings {
    /// The models, in the order in which they are asked; empty: nobody is.
    pub chain: Vec<JudgeModel>,
    /// What they are asked.
    pub tasks: Vec<JudgeTask>,
    /// Whether a model may write the text of a merge.
    pub rewrite: bool,
    /// The share of a source's content words that a new text may lack, from 0 to 1.
    pub content_words_lost_max: f64,
    /// From which similarity on memories may become one golden record.
    pub golden_similarity_min: Similarity,
    /// From which similarity on, on average, memories are summarised together.
    pub summary_similarity_min: Similarity,
    /// How sure a model must be that a memory no longer holds.
    pub supersession_confidence_min: Confidence,
    /// Memories in one request, about.
    pub batch_size: usize,
    /// How long one request may take with its repetitions.
    pub timeout: Duration,
    /// How many answers must agree before memories merge.
    pub votes: usize,
    /// Below this similarity a replacement counts as a merge.
    pub replace_similarity_min: f64,
    /// The share of the live memories that may merge into others in one run, from 0 to 1.
    pub live_share_max: f64,
    /// Requests that begin within a minute.
    pub requests_per_minute: u64,
    /// Tokens of the requests that begin within a minute.
    pub tokens_per_minute: u64,
    /// Tokens of a whole run.
    pub tokens_per_run: u64,
    /// What a day may cost, in the currency of the prices.
    pub cost_per_day: f64,
}

/// A model and where it listens.
#[derive(Debug, Clone, PartialEq)]
pub struct JudgeModel {
    /// The server's address.
    pub url: String,
    /// The model's name; `None`: the one that the server has loaded.
    pub model: Option<String>,
    /// The name of the environment variable that holds the key.
    pub key_env: Option<String>,
    /// The price of a million tokens that are sent and of a million that are answered, where both are known.
    pub price: Option<(f64, f64)>,
}

/// How retention and tiers are computed, and when a run is due.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct LifecycleSettings {
    /// Half-life, weights, thresholds and the table of categories.
    pub retention: RetentionPolicy,
    /// When a run is due.
    pub due: DuePolicy,
}

/// How vectors of texts are made, as configured. No secret is in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct EmbedSettings {
    /// Who makes them; `None`: nobody, but see [`Self::inline`].
    pub provider: Option<Provider>,
    /// Where the provider listens; `None`: [`Provider::url_default`].
    pub url: Option<String>,
    /// The model's name as the store spells it; `None`: what the provider says, or the store's.
    pub model: Option<String>,
    /// The model's name as the provider spells it, where that is another.
    pub request_model: Option<String>,
    /// The name of the environment variable that holds the key.
    pub api_key_env: Option<String>,
    /// How long one request may take, from connecting to the last byte.
    pub timeout: Duration,
    /// How often a request is repeated that found nobody, or a provider that is busy or failed.
    pub retries: u32,
    /// Texts in one request.
    pub batch_size: usize,
    /// The folder of a local model.
    pub dir: Option<PathBuf>,
    /// How long somebody who waits for a single vector is kept waiting.
    pub inline_timeout: Duration,
    /// How long a call may take with all its repetitions; `None`: as long as these take.
    pub time_limit: Option<Duration>,
    /// Where key and address come from, where these are two places: then nobody is asked.
    pub key_from_elsewhere: Option<Box<KeyFromElsewhere>>,
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
