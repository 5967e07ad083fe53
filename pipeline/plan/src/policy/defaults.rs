//! Every default, with its reason.

use std::num::NonZeroUsize;

use super::{
    Absorbed, Canonical, CategoryMerge, CheckScope, FlagTarget, GraphIndex, JoinMethod, Linkage,
    Profile, Trigger,
};
use crate::policy::Provider;

/// Declares constants whose documentation is their reason, and lists the reasons by key, so that
/// docs/configuration.md says the same as the code.
macro_rules! defaults {
    ($($key:literal $name:ident: $type:ty = $value:expr, $reason:literal;)*) => {
        $(#[doc = $reason] pub const $name: $type = $value;)*

        /// Why each default is what it is: key path (`*` for every rule) and reason.
        #[cfg(test)]
        pub(super) const REASONS: &[(&str, &str)] = &[$(($key, $reason)),*];
    };
}

defaults! {
    "rules.R1-exact-duplicate-merge.when.min_similarity"
    EXACT_DUPLICATE_SIMILARITY: f64 = 0.98,
    "Above it, mostly spelling and punctuation differ.";

    "rules.R1-exact-duplicate-merge.when.or_equal_text"
    OR_EQUAL_TEXT: bool = true,
    "The same words are the same memory, with or without a vector.";

    "rules.R2-near-duplicate-merge.when.min_similarity"
    NEAR_DUPLICATE_SIMILARITY: f64 = 0.95,
    "Below it, texts that say something else become too frequent among the pairs.";

    "rules.*.when.min_cluster_size"
    MERGE_CLUSTER_SIZE_MIN: usize = 2,
    "A merge needs two.";

    "detect.method"
    METHOD: JoinMethod = JoinMethod::Auto,
    "Exact as far as it is fastest, because it is also complete.";

    "detect.index"
    GRAPH_INDEX: GraphIndex = GraphIndex::Memfold,
    "It is built on all threads, comes out the same everywhere and finds more.";

    "detect.recall_target"
    RECALL_TARGET: f64 = 0.99,
    "A user who asks for most pairs should hear when one in a hundred may be missing.";

    "detect.exact_text"
    EXACT_TEXT: bool = true,
    "Equal texts say the same whatever their vectors are.";

    "detect.contradiction_similarity"
    CONTRADICTION_SIMILARITY: f64 = 0.85,
    "Contradictions are about one topic, and topics begin here.";

    "detect.contradiction_threshold"
    CONTRADICTION_THRESHOLD: f64 = 0.7,
    "One strong signal, or two weak ones, make a flag.";

    "detect.shared_vector_texts_max"
    SHARED_VECTOR_TEXTS_MAX: NonZeroUsize = non_zero(20),
    "A sound embedder never gives one vector to so many different texts.";

    "cluster.linkage"
    LINKAGE: Linkage = Linkage::GreedyComplete,
    "Every absorbed row is at or above the threshold to its survivor, so chains cannot drift.";

    "cluster.separate_by"
    SEPARATE_BY: [&str; 4] = ["private", "confidential", "user:*", "agent:*"],
    "What is somebody's own, or secret, is never folded into what is not.";

    "guard.enabled"
    GUARD_ENABLED: bool = true,
    "Cosine alone is no evidence: Oct 15th and Oct 16th are 0.99 alike.";

    "guard.lacking_words_max"
    LACKING_WORDS_MAX: f64 = 0.2,
    "A survivor that lacks more than a fifth of a row's content words does not say the same.";

    "protection.enabled"
    PROTECTION_ENABLED: bool = true,
    "What a person marked, wrote or decided is not a machine's to fold.";

    "protection.categories"
    PROTECTED_CATEGORIES: [&str; 5] = ["permanent", "protected", "pinned", "decision", "decisions"],
    "Categories and tags that ask to keep.";

    "protection.sources"
    PROTECTED_SOURCES: [&str; 2] = ["manual", "user"],
    "Root sources of what a person wrote.";

    "protection.importance_min"
    PROTECTED_IMPORTANCE_MIN: f64 = 3.0,
    "3.0 is critical in the owner's scale.";

    "protection.min_age_hours"
    PROTECTED_AGE_HOURS: f64 = 24.0,
    "Work of the last day is still going on.";

    "merge.canonical"
    CANONICAL: Canonical = Canonical::Newest,
    "What was said last is what holds now.";

    "merge.absorbed"
    ABSORBED: Absorbed = Absorbed::Move,
    "Readers of a brain.db filter no archived rows: left in the table, they would go on being found.";

    "merge.categories"
    CATEGORY_MERGE: CategoryMerge = CategoryMerge::Union,
    "A fact stays findable under every category that it had.";

    "merge.importance_cap"
    IMPORTANCE_CAP: f64 = 3.0,
    "The top of the owner's scale.";

    "flags.max_per_run"
    FLAGS_PER_RUN_MAX: usize = 100,
    "What a person can look through in one sitting.";

    "flags.max_per_memory"
    FLAGS_PER_MEMORY_MAX: usize = 3,
    "One noisy memory must not use up the flags of a run.";

    "flags.write_to"
    FLAG_TARGET: FlagTarget = FlagTarget::Table,
    "Rows of flags in the owner's table would fill what its agent reads first.";

    "rules.R3-promote-high-value-procedural.when.min_access_count"
    PROMOTE_ACCESS_COUNT_MIN: i64 = 5,
    "Read this often, a procedure has proved its worth.";

    "rules.R3-promote-high-value-procedural.when.min_importance"
    PROMOTE_IMPORTANCE_MIN: f64 = 2.0,
    "Only what is notable already is raised.";

    "rules.R3-promote-high-value-procedural.when.categories_any"
    PROMOTE_CATEGORIES: [&str; 4] = ["sop", "procedure", "coding", "trading"],
    "Categories of procedures.";

    "rules.R3-promote-high-value-procedural.then.params.increase"
    PROMOTE_INCREASE: f64 = 0.5,
    "Half a step of the owner's scale.";

    "rules.R4-archive-low-utility.enabled"
    ARCHIVE_ENABLED: bool = false,
    "A tool that finds duplicates must not surprise with archiving what has none.";

    "rules.R4-archive-low-utility.when.min_age_days"
    ARCHIVE_AGE_DAYS: f64 = 30.0,
    "A month without a reader.";

    "rules.R4-archive-low-utility.when.max_access_count"
    ARCHIVE_ACCESS_COUNT_MAX: i64 = 0,
    "Never read.";

    "rules.R4-archive-low-utility.when.max_importance"
    ARCHIVE_IMPORTANCE_MAX: f64 = 1.5,
    "Routine: halfway to notable at most.";

    "enabled"
    ENABLED: bool = true,
    "A store is consolidated unless its owner says no.";

    "read_only"
    READ_ONLY: bool = false,
    "Dry run is the default already: `--execute` is what writes.";

    "trigger"
    TRIGGER: Option<Trigger> = None,
    "A run by hand looks at everything.";

    "detect.pair_budget"
    PAIR_BUDGET: Option<u64> = None,
    "64 × distinct rows: it grows with the store.";

    "cluster.max_cluster_size"
    MAX_CLUSTER_SIZE: Option<NonZeroUsize> = None,
    "Copies of one text are one memory, however many they are.";

    "guard.lexicon"
    LEXICON: Option<&str> = None,
    "The built-in lexicon knows the common words.";

    "protection.profile"
    PROFILE: Profile = Profile::Default,
    "It keeps what a person marked without stopping the run on everything else.";

    "protection.ids"
    PROTECTED_IDS: [&str; 0] = [],
    "Ids are the store's own; only you know which are special.";

    "protection.access_count_min"
    PROTECTED_ACCESS_COUNT_MIN: Option<i64> = None,
    "What is read often is what is worth folding.";

    "scope.categories"
    SCOPE_CATEGORIES: [&str; 0] = [],
    "The whole store, so that no duplicate hides outside.";

    "scope.since"
    SCOPE_SINCE: Option<&str> = None,
    "From the first memory on.";

    "scope.until"
    SCOPE_UNTIL: Option<&str> = None,
    "Up to the last memory.";

    "scope.sources"
    SCOPE_SOURCES: [&str; 0] = [],
    "Duplicates come from several writers of one text.";

    "scope.newest"
    SCOPE_NEWEST: Option<NonZeroUsize> = None,
    "Old and new copies must meet.";

    "quick_check.auto_dedup_threshold"
    AUTO_DEDUP_THRESHOLD: f64 = 0.95,
    "As for merges: what a nightly run would fold may be folded at once.";

    "quick_check.flag_threshold"
    FLAG_THRESHOLD: f64 = 0.85,
    "Topics begin here; what is nearer is worth a second look.";

    "quick_check.scope"
    CHECK_SCOPE: CheckScope = CheckScope::All,
    "A fact saved under two categories is still one fact.";

    "quick_check.time_limit_ms"
    CHECK_TIME_LIMIT_MS: u32 = 50,
    "An agent notices a tenth of a second; a check takes a few milliseconds.";

    "embed.provider"
    EMBED_PROVIDER: Option<Provider> = None,
    "Memories are private: whom their texts are shown to is yours to say.";

    "embed.url"
    EMBED_URL: Option<&str> = None,
    "On this machine, at the provider's own port; elsewhere only where you say so.";

    "embed.model"
    EMBED_MODEL: Option<&str> = None,
    "A store has one model, and vectors of another one would not be comparable.";

    "embed.request_model"
    EMBED_REQUEST_MODEL: Option<&str> = None,
    "Most providers go by the model's own name.";

    "embed.api_key_env"
    EMBED_API_KEY_ENV: Option<&str> = None,
    "Providers on one's own machine want no key.";

    "embed.timeout_ms"
    EMBED_TIMEOUT_MS: u32 = 10_000,
    "A batch takes a processor about a second; ten mean that something is wrong.";

    "embed.retries"
    EMBED_RETRIES: u32 = 2,
    "A provider that restarts is back soon, and one that stays away should be heard of.";

    "embed.batch_size"
    EMBED_BATCH_SIZE: u32 = 32,
    "More at once is hardly faster, and what is lost by an interruption stays small.";

    "embed.inline_timeout_ms"
    EMBED_INLINE_TIMEOUT_MS: u32 = 2_000,
    "An agent waits for it. A provider on this machine answers within a tenth of that.";

    "embed.dir"
    EMBED_DIR: Option<&str> = None,
    "No model comes with memfold.";

    "busy_timeout_ms"
    BUSY_TIMEOUT_MS: u32 = 5_000,
    "What the owner of a `brain.db` waits itself.";

    "helios_metrics"
    HELIOS_METRICS: bool = false,
    "Only dashboards made for that monitor need its names.";

    "reports_dir"
    REPORTS_DIR: Option<&str> = None,
    "Reports belong to the store they are about: `reports/consolidation` beside it.";

    "time_zone"
    TIME_ZONE: Option<&str> = None,
    "Naive times were written on this machine, by its clock.";

    "threshold"
    THRESHOLD: Option<f64> = None,
    "The rules hold the figures: 0.95 for near duplicates, 0.98 for exact ones.";
}

/// The hierarchical linkages need a full distance matrix: 20,000 rows take 1.6 GB.
pub(crate) const MAX_COMPONENT_ROWS: NonZeroUsize = non_zero(20_000);

/// The strict profile's further marks: what is core or critical, what a user made and what was
/// decided, however the tags of other memory systems spell it.
pub(crate) const STRICT_CATEGORIES: [&str; 6] = [
    "core",
    "critical",
    "priority:critical",
    "subtype:decision",
    "type:decision",
    "created_by:user",
];

/// Ids that the strict profile never touches: other memory systems keep their own state there.
pub(crate) const STRICT_IDS: [&str; 4] =
    ["mem_userprofile0", "mem_systemconfig", "mem_learnpattern", "mem_terminology"];

/// The strict profile's age: a week's work is still going on.
pub(crate) const STRICT_AGE_HOURS: f64 = 7.0 * 24.0;

/// The strict profile's access count: what is read this often had better not move.
pub(crate) const STRICT_ACCESS_COUNT_MIN: i64 = 10;

/// The zone of a machine that tells none.
pub(crate) const MACHINE_TIME_ZONE: &str = "UTC";

const fn non_zero(value: usize) -> NonZeroUsize {
    NonZeroUsize::new(value).expect("every default count is above zero")
}
