//! The configuration as people write it, and as runs read it: each key is a field here, with its meaning, its type, its
//! bounds, and its built-in value with the reason. The schema, docs/configuration.md, the variables and the words of `--set`
//! are made from these types.
//!
//! Fields that are skipped are no keys: they are fixed, or follow from other keys.

use std::path::PathBuf;
use std::time::Duration;

use crate::lifecycle::{ARCHIVE_BELOW, HALF_LIFE_DAYS, NEW_MEMORIES_MIN};
use crate::summary::Confidence;
use memfold_index::{GraphJoin, JoinIndex};
use memfold_simd::Similarity;
use serde::{Deserialize, Serialize};
use serde_json::json;

use super::read::{Above, As, Cosine, MAX, Within};

/// Values that are no keys of the configuration.
pub mod defaults {
    /// A user who asks for most pairs should hear when one in a hundred may be missing.
    pub const RECALL_TARGET: f64 = 0.99;
    /// A sound embedder never gives one vector to so many different texts.
    pub const SHARED_VECTOR_TEXTS_MAX: usize = 20;
    /// One noisy memory must not use up the flags of a run.
    pub const FLAGS_PER_MEMORY_MAX: usize = 3;
    /// Half a step of the owner's scale.
    pub(crate) const PROMOTE_INCREASE: f64 = 0.5;
}

/// Declares sections of the configuration: the type, its name in the schema, and its keys with their built-in values.
macro_rules! sections {
    ($($(#[$attribute:meta])* $visibility:vis struct $name:ident($schema:literal) {
        $($(#[$key_attribute:meta])* $key:ident: $type:ty = $builtin:expr,)*
    })*) => {$(
        $(#[$attribute])*
        #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema), schemars(rename = $schema))]
        #[serde(default, deny_unknown_fields)] $visibility struct $name {
            $($(#[$key_attribute])* $visibility $key: $type,)*
        }

        impl Default for $name {
            fn default() -> Self {
                Self { $($key: $builtin,)* }
            }
        }
    )*};
}

sections! {
    /// Configuration of memfold. Every key may be left out.
    pub(super) struct Config("Config") {
        /// Whether the store may be consolidated. `false` beats `--execute`: nothing is written.
        enabled: bool = true,
        /// Whether nothing may be written, whatever is asked for. Beats `--execute`.
        read_only: bool = false, // `--execute` is what writes
        /// Short for `min_similarity` of the rule `R2-near-duplicate-merge`, from -1 to 1. Where it is above
        /// that of `R1-exact-duplicate-merge`, it sets that one too.
        #[serde(with = "As::<Option<Cosine>>", skip_serializing)] threshold: Option<f64> = None, // the rules have it
        /// Sets protection, and the rules of another system, at once; keys of the same layer and of later ones beat it.
        profile: Profile = Profile::Default,
        /// Runs only the rules of this trigger and the `on_*` ones; null runs all.
        trigger: Option<Trigger> = None, // a run by hand looks at everything
        /// The zone of times that name none: an IANA name or an offset such as `+02:00`; null is the machine's.
        time_zone: Option<String> = None,
        /// Rules in order; the first that matches wins. They merge with those of other layers by `id`, key by
        /// key; new ones are tried before those of the layers below; `enabled: false` removes one.
        rules: Vec<Rule> = builtin_rules(),
        /// How near pairs are found.
        detect: DetectPolicy = DetectPolicy::default(),
        /// How pairs become clusters.
        cluster: ClusterPolicy = ClusterPolicy::default(),
        /// How texts are compared.
        guard: GuardConfig = GuardConfig::default(),
        /// Memories that are never changed or merged into others.
        protection: ProtectionPolicy = ProtectionPolicy::default(),
        /// How merges are made.
        merge: MergePolicy = MergePolicy::default(),
        /// How many contradictions are flagged.
        flags: FlagPolicy = FlagPolicy::default(),
        /// Which near pairs are proposed to a person.
        propose: ProposePolicy = ProposePolicy::default(),
        /// Which live memories take part.
        scope: ScopeConfig = ScopeConfig::default(),
        /// How a memory is judged when it is saved.
        quick_check: QuickCheckPolicy = QuickCheckPolicy::default(),
        /// Who makes vectors of texts, for `memfold embed` and for memories that are saved without one. Not
        /// read from the file beside a store.
        embed: EmbedSettings = EmbedSettings::default(),
        /// Which models decide about proposals with `consolidate --judge`. Not read from the file beside a store.
        judge: JudgeSettings = JudgeSettings::default(),
        /// How retention and tiers are computed, and when a run is due.
        lifecycle: LifecycleConfig = LifecycleConfig::default(),
        /// How long to wait for a store that others hold, in milliseconds, at most an hour.
        #[serde(with = "As::<Within<u32, 0, 3_600_000>>")]
        busy_timeout_ms: u32 = 5_000, // as the owner of a `brain.db` waits
    }

    /// How near pairs are found.
    pub struct DetectPolicy("DetectConfig") {
        /// How pairs are searched.
        method: JoinMethod = JoinMethod::Auto, // exact as far as it is fastest, because it is also complete
        /// Whether equal texts are linked without looking at vectors.
        exact_text: bool = true, // equal texts say the same whatever their vectors are
        /// Contradictions are looked for at or above this similarity.
        #[serde(skip)]
        contradiction_similarity: Similarity = similarity(0.85), // they are about one topic, and topics begin here
    }

    /// How pairs become clusters.
    pub struct ClusterPolicy("ClusterConfig") {
        /// How memories are linked into clusters.
        linkage: Linkage = Linkage::GreedyComplete, // each merged row is near its survivor: chains cannot drift
        /// Categories, `*` for any ending: memories that differ in these are never merged.
        separate_by: Vec<String> = texts("private confidential user:* agent:* app:* ns:*"),
        /// The largest connected component for the hierarchical linkages.
        #[serde(skip)] max_component_rows: usize = 20_000, // they need a full distance matrix: 1.6 GB
    }

    /// How texts are compared.
    pub(super) struct GuardConfig("GuardConfig") {
        /// Whether differences between texts forbid merges. Off together with `--execute` needs `--allow-unguarded`.
        enabled: bool = true, // cosine alone is no evidence: Oct 15th and Oct 16th are 0.99 alike
        /// A file with further words for the lexicon, relative to this file.
        lexicon: Option<String> = None,
    }

    /// Memories that are never changed or merged into others. Lists replace those of the profile.
    pub struct ProtectionPolicy("ProtectionConfig") {
        /// Whether anything is protected. Off together with `--execute` needs `--allow-unguarded`.
        enabled: bool = true, // what a person marked, wrote or decided is not a machine's to merge
        /// Memories with any of these categories or tags are protected, whatever their case.
        categories: Vec<String> = texts("permanent protected pinned decision decisions"),
        /// Memories whose root source starts with any of these are protected.
        sources: Vec<String> = texts("manual user memfold-summary"),
        /// Memories of at least this importance are protected.
        importance_min: f64 = 3.0, // critical in the owner's scale
        /// Younger memories are protected, in hours.
        #[serde(with = "As::<Within<f64, 0, MAX>>")] min_age_hours: f64 = 24.0, // work of the last day is still going on
        /// Ids that are never touched (`strict`: the reserved ids of other memory systems).
        #[serde(skip)] ids: Vec<String> = Vec::new(),
        /// Access count from which a row is protected (`strict`), if any.
        #[serde(skip)] access_count_min: Option<i64> = None,
    }

    /// How merges are made.
    pub struct MergePolicy("MergeConfig") {
        /// Where merged memories go.
        absorbed: Absorbed = Absorbed::Move, // readers of a brain.db would go on finding archived rows in the table
        /// Whether memories whose merge was undone may merge again. Set for one run: it is not a key of the configuration,
        /// and not part of its hash, so that the plan is applied as any other.
        #[serde(skip)] again: bool = false,
        /// Importance never rises above this by a merge or promotion.
        #[serde(skip)] importance_cap: f64 = 3.0, // the top of the owner's scale
    }

    /// How many contradictions are flagged; the rest is counted.
    pub struct FlagPolicy("FlagConfig") {
        /// Flags that wait for a person at once, those of earlier runs included; highest score first.
        max_per_run: usize = 100, // a person can look through so many in one sitting
        /// Where flags are written: `table` is `memfold_flags`, `stm` also adds a row to the owner's table.
        write_to: FlagTarget = FlagTarget::Table, // rows would fill what the owner's agent reads first
    }

    /// Which near memories are proposed for a merge that nothing proves. `memfold review` asks; nothing happens without an answer.
    pub struct ProposePolicy("ProposeConfig") {
        /// From this similarity on, in (0, 1].
        #[serde(with = "As::<Above<f64, 0, 1>>")]
        min_similarity: Similarity = similarity(0.80), // below it, most pairs of one subject say different things
        /// Proposals per run, the most probable first; 0: none.
        max_per_run: usize = 200, // more questions nobody answers in a day
    }

    /// Which live memories take part.
    pub(super) struct ScopeConfig("ScopeConfig") {
        /// Any of these categories; empty: all.
        categories: Vec<String> = Vec::new(),
        /// Created at or after: a date, or a date and time with or without offset.
        since: Option<String> = None,
        /// Created before: a date, or a date and time with or without offset.
        until: Option<String> = None,
    }

    /// How a memory is judged when it is saved.
    #[derive(Copy)]
    pub struct QuickCheckPolicy("QuickCheckConfig") {
        /// A mergeable match at or above this similarity is replaced, from -1 to 1.
        #[serde(with = "As::<Cosine>")]
        auto_dedup_threshold: Similarity = similarity(0.95), // as for merges of a nightly run
        /// A match at or above this similarity is flagged, from -1 to 1.
        #[serde(with = "As::<Cosine>")] flag_threshold: Similarity = similarity(0.85), // topics begin here
        /// How long a check may take before a save goes on without it, in milliseconds, at most a minute.
        #[serde(rename = "time_limit_ms", with = "As::<Within<u32, 1, 60_000>>")]
        time_limit: Duration = Duration::from_millis(50), // an agent notices a tenth of a second
    }

    /// Who makes vectors of texts, for `memfold embed` and for memories that are saved without one. Not read from the file beside
    /// a store.
    #[derive(Eq)]
    pub struct EmbedSettings("EmbedConfig") {
        /// Who makes them; null: for a text that is saved, checked or searched the daemon of the store's owner, where it
        /// listens on this machine; otherwise nobody, and no text goes anywhere.
        provider: Option<Provider> = None,
        /// Where the provider listens, `http://` or `https://`, without user name or password; null:
        /// `http://localhost:8030` for `daemon`, `http://localhost:11434` for `ollama`. Of `local`: the model's folder,
        /// relative to this file.
        url: Option<String> = None,
        /// The model's name as the store spells it; null: what the provider says, or the store's.
        model: Option<String> = None,
        /// The model's name as the provider spells it; null: as `embed.model`.
        request_model: Option<String> = None,
        /// The name of the environment variable that holds the provider's key, never the key itself; null: no key.
        api_key_env: Option<String> = None,
        /// How long one request may take, from connecting to the last byte.
        #[serde(skip)] timeout: Duration = Duration::from_secs(30), // a batch takes a processor a second or a few
        /// How often a request is repeated that found nobody, or a provider that is busy or failed.
        #[serde(skip)] retries: u32 = 2, // a provider that restarts is back soon
        /// Texts in one request.
        #[serde(skip)] batch_size: usize = 32, // more is hardly faster, and an interruption loses little
        /// The folder of a local model.
        #[serde(skip)] dir: Option<PathBuf> = None,
        /// How long somebody who waits for a single vector is kept waiting.
        #[serde(skip)] inline_timeout: Duration = Duration::from_secs(2), // ten times what a provider on this machine takes
        /// How long a call may take with all its repetitions; `None`: as long as these take.
        #[serde(skip)] time_limit: Option<Duration> = None,
        /// Where key and address come from, where these are two places: then nobody is asked.
        #[serde(skip)] key_from_elsewhere: Option<Box<KeyFromElsewhere>> = None,
    }

    /// Which models decide about proposals with `consolidate --judge`. Not read from the file beside a store.
    pub struct JudgeSettings("JudgeConfig") {
        /// The models, the first that answers counts; empty: nobody is asked, and no text goes anywhere.
        chain: Vec<JudgeModel> = Vec::new(),
        /// A classifier in a folder, which answers in place of the chain.
        nli: NliSettings = NliSettings::default(),
        /// What they are asked: `duplicates` (which proposals are the same), `golden` (one new memory for related ones),
        /// `summaries` (of groups of related memories, which stay), `supersession` (which of two holds).
        tasks: Vec<JudgeTask> = vec![JudgeTask::Duplicates], // the rest writes texts or marks memories
        /// Whether a model may write the text of a merge; needs `embed.provider`, as golden records and summaries do.
        rewrite: bool = false,
        /// How long one request may take with its repetitions, in milliseconds, at most ten minutes.
        #[serde(rename = "timeout_ms", with = "As::<Within<u32, 1, 600_000>>")]
        timeout: Duration = Duration::from_secs(60), // local models on a processor take tens of seconds
        /// How many answers must agree before memories merge, at most 5; every second one sees them in reverse order.
        #[serde(with = "As::<Within<u32, 1, 5>>")]
        votes: usize = 2, // models prefer what stands first: the second vote sees the reverse order
        /// What may leave.
        loss: JudgeLoss = JudgeLoss::default(),
        /// What it may take.
        budget: JudgeBudget = JudgeBudget::default(),
        /// The share of a source's content words that a new text may lack, from 0 to 1.
        #[serde(skip)] content_words_lost_max: f64 = 0.25, // they may be said in others
        /// From which similarity on memories may become one golden record.
        #[serde(skip)]
        golden_similarity_min: Similarity = similarity(0.75), // as in the system that golden records come from
        /// From which similarity on, on average, memories are summarised together.
        #[serde(skip)] summary_similarity_min: Similarity = similarity(0.85), // as in the system that summaries come from
        /// How sure a model must be that a memory no longer holds.
        #[serde(skip)] supersession_confidence_min: Confidence = Confidence::High,
        /// Memories in one request, about.
        #[serde(skip)] batch_size: usize = 10, // small models lose the thread of longer prompts
        /// Below this similarity a replacement counts as a merge.
        #[serde(skip)] replace_similarity_min: f64 = 0.9,
    }
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

// Classifiers are overconfident: most pairs that they entail both ways, or contradict, at all are above these.
impl Default for NliSettings {
    fn default() -> Self {
        Self { folder: None, same_min: 0.9, conflict_min: 0.9, dir: None }
    }
}

sections! {
    /// What may leave when models decide.
    pub struct JudgeLoss("JudgeLossConfig") {
        /// The share of the live memories that may merge into others in one run, from 0 to 1.
        #[serde(with = "As::<Within<f64, 0, 1>>")] max_live_share_per_run: f64 = 0.1, // as for runs that nobody reviewed
    }

    /// What asking models may take.
    pub struct JudgeBudget("JudgeBudgetConfig") {
        /// Requests that begin within a minute.
        #[serde(with = "As::<Within<u32, 1, 100_000>>")] requests_per_minute: u32 = 60, // the smallest paid plans allow it
        /// Tokens of the requests that begin within a minute.
        #[serde(with = "As::<Within<u32, 1, 1_000_000_000>>")]
        tokens_per_minute: u32 = 100_000, // the smallest paid plans allow it
        /// Tokens of a whole run.
        #[serde(with = "As::<Within<u32, 1, 1_000_000_000>>")]
        tokens_per_run: u32 = 500_000, // 200 proposals take about a fifth of it
        /// What a day may cost, in the currency of the prices; without prices it limits nothing.
        #[serde(with = "As::<Within<f64, 0, 1_000_000>>")] cost_per_day: f64 = 10.0,
    }

    /// How retention and tiers are computed, and when a run is due; docs/lifecycle.md has the formula.
    pub(super) struct LifecycleConfig("LifecycleConfig") {
        /// Days in which recency halves, at most 100,000.
        #[serde(with = "As::<Above<f64, 0, 100_000>>")] half_life_days: f64 = HALF_LIFE_DAYS,
        /// Retention below which a memory is ARCHIVED, from 0 to 1; 0: none is.
        #[serde(with = "As::<Within<f64, 0, 1>>")] archive_below: f64 = ARCHIVE_BELOW,
        /// When a run is due.
        due: DueConfig = DueConfig::default(),
    }

    /// When `memfold status --exit-code` says that a run is due.
    pub(super) struct DueConfig("DueConfig") {
        /// From this many new memories on.
        #[serde(with = "As::<Within<u64, 1, MAX>>")] new_memories_min: u64 = NEW_MEMORIES_MIN,
    }

    /// A rule: when it fires and what it does.
    // A layer may name a rule of the layers below and change one key of it: whether trigger and action are there is checked
    // when all layers are merged.
    pub struct Rule("RuleConfig") {
        /// Its name, unique: letters, digits, `-` and `_`.
        id: String = String::new(),
        /// Whether it counts.
        enabled: bool = true,
        /// What runs it.
        trigger: Trigger = Trigger::Manual,
        /// Conditions; all must hold.
        when: Conditions = Conditions::default(),
        /// What it does.
        then: Then = Then::default(),
    }

    /// Conditions of a rule; all must hold, and null is none.
    pub struct Conditions("WhenConfig") {
        /// The cluster's smallest pairwise similarity is at least this, from -1 to 1; with `detect.exact_text`, or all members
        /// have the same text.
        #[serde(with = "As::<Option<Cosine>>", skip_serializing_if = "is_unset")]
        min_similarity: Option<Similarity> = None,
        /// Only texts that the guard proves to say the same; where one says more, the rule does not hold.
        #[serde(skip_serializing_if = "is_unset")] proven_same: Option<bool> = None,
        /// The cluster has at least so many members.
        #[serde(with = "As::<Option<Within<usize, 1, MAX>>>", skip_serializing_if = "is_unset")]
        min_cluster_size: Option<usize> = None,
        /// At least so old, in days. A time that cannot be read fires no age rule.
        #[serde(with = "As::<Option<Within<f64, 0, MAX>>>", skip_serializing_if = "is_unset")]
        min_age_days: Option<f64> = None,
        /// Read at least so often.
        #[serde(with = "As::<Option<Within<i64, 0, MAX>>>", skip_serializing_if = "is_unset")]
        min_access_count: Option<i64> = None,
        /// Read at most so often.
        #[serde(with = "As::<Option<Within<i64, 0, MAX>>>", skip_serializing_if = "is_unset")]
        max_access_count: Option<i64> = None,
        /// Importance is at least this.
        #[serde(skip_serializing_if = "is_unset")] min_importance: Option<f64> = None,
        /// Importance is at most this.
        #[serde(skip_serializing_if = "is_unset")] max_importance: Option<f64> = None,
        /// Has any of these categories; empty: no condition.
        #[serde(skip_serializing_if = "is_unset")] categories_any: Vec<String> = Vec::new(),
        /// Has none of these categories.
        #[serde(skip_serializing_if = "is_unset")] categories_none: Vec<String> = Vec::new(),
        /// Has all of these categories.
        #[serde(skip_serializing_if = "is_unset")] categories_all: Vec<String> = Vec::new(),
        /// Jaccard index of the categories to the survivor's is at least this, from 0 to 1. Attributes (`type:…`, `scope:…`)
        /// are left out.
        #[serde(with = "As::<Option<Within<f64, 0, 1>>>", skip_serializing_if = "is_unset")]
        tag_overlap_min: Option<f64> = None,
        /// Not read for so many days, at least; what was never read counts from its creation.
        #[serde(with = "As::<Option<Within<f64, 0, MAX>>>", skip_serializing_if = "is_unset")]
        min_idle_days: Option<f64> = None,
        /// All members have the same value of each of these attributes, or none has one: `[type, subtype, scope]` compares
        /// the categories `type:…`, `subtype:…` and `scope:…`.
        #[serde(skip_serializing_if = "is_unset")] same: Vec<String> = Vec::new(),
    }

    /// What a rule does.
    #[derive(Copy, Eq)]
    pub struct Then("ThenConfig") {
        /// The action.
        action: RuleAction = RuleAction::Noop,
        /// Settings of the action.
        #[serde(skip_serializing_if = "is_unset")] params: Params = Params::default(),
    }

    /// Settings of a rule's action.
    #[derive(Copy, Eq)]
    pub struct Params("ParamsConfig") {
        /// `merge`: who survives; null: the newest.
        #[serde(skip_serializing_if = "is_unset")] canonical: Option<Canonical> = None,
        /// `merge`: where merged memories go; null: as `merge.absorbed`.
        #[serde(skip_serializing_if = "is_unset")] absorbed: Option<Absorbed> = None,
    }
}

impl ProtectionPolicy {
    /// Returns the protection of a profile. `strict` adds core and critical memories, the ones a user made, and decisions,
    /// however the tags of other memory systems spell it; a week's work, the ids under which they keep their own state, and what is
    /// read often.
    pub(super) fn of(profile: Profile) -> Self {
        let mut protection = Self::default();
        if profile != Profile::Default {
            protection.categories.extend(texts(
                "core critical priority:critical subtype:decision type:decision created_by:user",
            ));
            protection.min_age_hours = 7.0 * 24.0;
            protection.ids =
                texts("mem_userprofile0 mem_systemconfig mem_learnpattern mem_terminology");
            protection.access_count_min = Some(10);
        }
        protection
    }
}

/// Declares choices: words in snake_case.
macro_rules! choices {
    ($($(#[$attribute:meta])* $visibility:vis enum $name:ident { $($choices:tt)* })*) => {$(
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
        #[cfg_attr(test, derive(schemars::JsonSchema))]
        #[serde(rename_all = "snake_case")]
        $(#[$attribute])*
        $visibility enum $name { $($choices)* }
    )*};
}

choices! {
    /// The action of a rule.
    #[derive(Default)]
    #[cfg_attr(test, schemars(rename = "Action"))]
    pub enum RuleAction {
        /// Merges a cluster.
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
    #[derive(PartialOrd, Ord, Default)]
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
    #[cfg_attr(feature = "clap", derive(clap::ValueEnum), value(rename_all = "snake_case"))]
    pub enum JoinMethod {
        /// The faster one: at every size measured so far the exact join.
        #[cfg_attr(feature = "clap", value(help = "Exact as far as that is fastest"))]
        Auto,
        /// The exact join.
        #[cfg_attr(feature = "clap", value(help = "The exact join"))]
        Exact,
        /// The graph of memfold, with measured recall.
        #[cfg_attr(feature = "clap", value(help = "A graph index; how many pairs it found is measured"))]
        Graph,
        /// The crate `hnsw_rs`, to compare with; built on one thread.
        #[cfg_attr(feature = "clap", value(help = "The crate hnsw_rs, to compare with"))]
        HnswRs,
    }

    /// How units are linked into clusters.
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
    pub enum Canonical {
        /// The newest with a valid, fresh embedding.
        Newest,
        /// The one with most specifics and words; newest among equals.
        MostInformative,
    }

    /// Where merged memories go.
    pub enum Absorbed {
        /// They stay in the table, marked and no longer found by full-text search.
        Archive,
        /// They move to `memfold_archive` with embedding and search entry; where a foreign key or a trigger of the owner
        /// would change other tables along with them, they are archived.
        Move,
    }

    /// What is protected, and whose rules hold.
    pub(super) enum Profile {
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
    pub enum FlagTarget {
        /// Into `memfold_flags` only.
        Table,
        /// Also as rows of `stm`, as the owner's own consolidator does: its agent reads them as memories.
        Stm,
    }

    /// What models are asked.
    #[derive(PartialOrd, Ord)]
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
}

/// The settings of the profile `hivemind` beside protection: the rules of memory folders in JSON files.
///
/// Overlaps of tags *above* 0.8 count, and 4 of 5 are 0.8. Memories of different creators or scopes stay
/// apart. A memory younger than 7 days, critical, permanent, protected, core, a decision, a user's or read at
/// least 10 times is protected by the profile `strict`.
pub(super) const HIVEMIND: &str = include_str!("hivemind.json");

/// Merges texts that are equal but for spelling.
pub(super) const EXACT_DUPLICATE: &str = "R1-exact-duplicate-merge";
/// Merges texts that say the same; `threshold` sets its `min_similarity`.
pub(super) const NEAR_DUPLICATE: &str = "R2-near-duplicate-merge";

/// Returns the built-in rules, in order.
fn builtin_rules() -> Vec<Rule> {
    let rules = json!([
        // The proof carries the merge; below 0.85, near texts are rarely about one thing.
        { "id": EXACT_DUPLICATE, "trigger": "on_similarity", "then": { "action": "merge" },
          "when": { "min_similarity": 0.85, "proven_same": true, "min_cluster_size": 2 } },
        // Who says more may say something else: below 0.95, additions change the meaning too often.
        { "id": NEAR_DUPLICATE, "trigger": "on_similarity", "then": { "action": "merge" },
          "when": { "min_similarity": 0.95, "min_cluster_size": 2 } },
        // Raises procedures that proved their worth, where they are notable already.
        { "id": "R3-promote-high-value-procedural", "trigger": "weekly", "then": { "action": "promote" },
          "when": { "min_access_count": 5, "min_importance": 2.0,
                    "categories_any": ["sop", "procedure", "coding", "trading"] } },
        // Archives memories that nobody read in a month and that are not notable. Off: a tool that finds
        // duplicates must not surprise with archiving memories without any.
        { "id": "R4-archive-low-utility", "enabled": false, "trigger": "weekly", "then": { "action": "archive" },
          "when": { "min_age_days": 30.0, "max_access_count": 0, "max_importance": 1.5 } },
        { "id": "R5-flag-contradiction", "trigger": "on_contradiction", "then": { "action": "flag_contradiction" } },
    ]);
    serde_json::from_value(rules).expect("the rules are valid")
}

impl Trigger {
    /// Returns whether rules of this trigger run in every run.
    pub(crate) const fn is_always(self) -> bool {
        matches!(self, Self::OnSimilarity | Self::OnContradiction)
    }
}

impl Conditions {
    /// Returns whether only texts that are proven to say the same count.
    pub(crate) fn is_proven_same(&self) -> bool {
        self.proven_same == Some(true)
    }
}

/// Returns whether a key of a rule is left out.
fn is_unset<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Returns the name of a choice (a [`Trigger`], for one) as written.
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

/// Takes a default list, split at spaces.
fn texts(list: &str) -> Vec<String> {
    list.split(' ').map(str::to_owned).collect()
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

    /// Returns the settings for somebody who waits for a single vector: where nothing is configured, the ones of the daemon of
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
