//! Every default, with its reason.

use std::time::Duration;

use crate::summary::Confidence;

use super::{Absorbed, FlagTarget, JoinMethod, JudgeTask, Linkage, Profile, Trigger};

/// The proof carries the merge; below it, near texts are rarely about one thing.
pub(crate) const EXACT_DUPLICATE_SIMILARITY: f64 = 0.85;
/// Who says more may say something else: below it, additions change too often what is meant.
pub(crate) const NEAR_DUPLICATE_SIMILARITY: f64 = 0.95;
/// A merge needs two.
pub(crate) const MERGE_CLUSTER_SIZE_MIN: usize = 2;
/// Exact as far as it is fastest, because it is also complete.
pub const METHOD: JoinMethod = JoinMethod::Auto;
/// A user who asks for most pairs should hear when one in a hundred may be missing.
pub const RECALL_TARGET: f64 = 0.99;
/// Equal texts say the same whatever their vectors are.
pub(crate) const EXACT_TEXT: bool = true;
/// Contradictions are about one topic, and topics begin here.
pub(crate) const CONTRADICTION_SIMILARITY: f64 = 0.85;
/// A sound embedder never gives one vector to so many different texts.
pub const SHARED_VECTOR_TEXTS_MAX: usize = 20;
/// Every absorbed row is at or above the threshold to its survivor, so chains cannot drift.
pub(crate) const LINKAGE: Linkage = Linkage::GreedyComplete;
/// What is somebody's own, or secret, is never merged into what is not.
pub(crate) const SEPARATE_BY: [&str; 6] =
    ["private", "confidential", "user:*", "agent:*", "app:*", "ns:*"];
/// Cosine alone is no evidence: Oct 15th and Oct 16th are 0.99 alike.
pub const GUARD_ENABLED: bool = true;
/// From so far down only what is proven merges.
pub(crate) const PROVEN_SAME: bool = true;
/// What a person marked, wrote or decided is not a machine's to merge.
pub(crate) const PROTECTION_ENABLED: bool = true;
/// Categories and tags that ask to keep.
pub(crate) const PROTECTED_CATEGORIES: [&str; 5] =
    ["permanent", "protected", "pinned", "decision", "decisions"];
/// Root sources of what a person wrote.
pub(crate) const PROTECTED_SOURCES: [&str; 3] = ["manual", "user", "memfold-summary"];
/// 3.0 is critical in the owner's scale.
pub(crate) const PROTECTED_IMPORTANCE_MIN: f64 = 3.0;
/// Work of the last day is still going on.
pub(crate) const PROTECTED_AGE_HOURS: f64 = 24.0;
/// Readers of a brain.db filter no archived rows: left in the table, they would go on being found.
pub(crate) const ABSORBED: Absorbed = Absorbed::Move;
/// What a person undid stays undone until somebody says otherwise.
pub(crate) const MERGE_AGAIN: bool = false;
/// The top of the owner's scale.
pub(crate) const IMPORTANCE_CAP: f64 = 3.0;
/// What a person can look through in one sitting.
pub(crate) const FLAGS_PER_RUN_MAX: usize = 100;
/// One noisy memory must not use up the flags of a run.
pub const FLAGS_PER_MEMORY_MAX: usize = 3;
/// Below it, most pairs of one subject say different things.
pub(crate) const PROPOSE_SIMILARITY_MIN: f64 = 0.80;
/// More questions than that nobody answers in a day.
pub(crate) const PROPOSALS_PER_RUN_MAX: usize = 200;
/// Rows of flags in the owner's table would fill what its agent reads first.
pub(crate) const FLAG_TARGET: FlagTarget = FlagTarget::Table;
/// Read this often, a procedure has proved its worth.
pub(crate) const PROMOTE_ACCESS_COUNT_MIN: i64 = 5;
/// Only what is notable already is raised.
pub(crate) const PROMOTE_IMPORTANCE_MIN: f64 = 2.0;
/// Categories of procedures.
pub(crate) const PROMOTE_CATEGORIES: [&str; 4] = ["sop", "procedure", "coding", "trading"];
/// Half a step of the owner's scale.
pub(crate) const PROMOTE_INCREASE: f64 = 0.5;
/// A tool that finds duplicates must not surprise with archiving what has none.
pub(crate) const ARCHIVE_ENABLED: bool = false;
/// A month without a reader.
pub(crate) const ARCHIVE_AGE_DAYS: f64 = 30.0;
/// Never read.
pub(crate) const ARCHIVE_ACCESS_COUNT_MAX: i64 = 0;
/// Routine: halfway to notable at most.
pub(crate) const ARCHIVE_IMPORTANCE_MAX: f64 = 1.5;
/// A store is consolidated unless its owner says no.
pub(crate) const ENABLED: bool = true;
/// Dry run is the default already: `--execute` is what writes.
pub(crate) const READ_ONLY: bool = false;
/// A run by hand looks at everything.
pub const TRIGGER: Option<Trigger> = None;
/// It keeps what a person marked without stopping the run on everything else.
pub(crate) const PROFILE: Profile = Profile::Default;
/// As for merges: what a nightly run would merge may be merged at once.
pub(crate) const AUTO_DEDUP_THRESHOLD: f64 = 0.95;
/// Topics begin here; what is nearer is worth a second look.
pub(crate) const FLAG_THRESHOLD: f64 = 0.85;
/// An agent notices a tenth of a second; a check takes a few milliseconds.
pub(crate) const CHECK_TIME_LIMIT: Duration = Duration::from_millis(50);
/// A batch takes a processor a second or a few; thirty mean that something is wrong.
pub(crate) const EMBED_TIMEOUT: Duration = Duration::from_millis(30_000);
/// A provider that restarts is back soon, and one that stays away should be heard of.
pub(crate) const EMBED_RETRIES: u32 = 2;
/// More at once is hardly faster, and what is lost by an interruption stays small.
pub(crate) const EMBED_BATCH_SIZE: usize = 32;
/// An agent waits for it. A provider on this machine answers within a tenth of that.
pub(crate) const EMBED_INLINE_TIMEOUT: Duration = Duration::from_millis(2_000);
/// A question has 2 to 10 memories; small models lose the thread of longer prompts.
pub(crate) const JUDGE_BATCH_SIZE: usize = 10;
/// Classifiers are overconfident: most pairs that they entail both ways at all are above it.
pub(crate) const JUDGE_NLI_SAME_MIN: f64 = 0.9;
/// As sure of a contradiction as of sameness.
pub(crate) const JUDGE_NLI_CONFLICT_MIN: f64 = 0.9;
/// Local models on a processor take tens of seconds.
pub(crate) const JUDGE_TIMEOUT: Duration = Duration::from_millis(60_000);
/// Models prefer what stands first: the second vote sees the memories in reverse order.
pub(crate) const JUDGE_VOTES: usize = 2;
/// Where a newer text may take the place of an older one.
pub(crate) const JUDGE_REPLACE_SIMILARITY_MIN: f64 = 0.9;
/// What models are asked unless more is wanted: the rest writes texts or marks memories.
pub(crate) const JUDGE_TASKS: [JudgeTask; 1] = [JudgeTask::Duplicates];
/// Texts stay those of the agent unless a person wants otherwise.
pub(crate) const JUDGE_REWRITE: bool = false;
/// A quarter of a source's words may be said in others.
pub(crate) const JUDGE_CONTENT_WORDS_LOST_MAX: f64 = 0.25;
/// As in the system that golden records come from.
pub(crate) const JUDGE_GOLDEN_SIMILARITY_MIN: f64 = 0.75;
/// As in the system that summaries come from.
pub(crate) const JUDGE_SUMMARY_SIMILARITY_MIN: f64 = 0.85;
/// Nothing less than sure marks a memory.
pub(crate) const JUDGE_SUPERSESSION_CONFIDENCE_MIN: Confidence = Confidence::High;
/// As for runs that nobody reviewed.
pub(crate) const JUDGE_LIVE_SHARE_MAX: f64 = 0.1;
/// What the smallest paid plans allow.
pub(crate) const JUDGE_REQUESTS_PER_MINUTE: u32 = 60;
/// What the smallest paid plans allow.
pub(crate) const JUDGE_TOKENS_PER_MINUTE: u32 = 100_000;
/// 200 proposals take about a fifth of it.
pub(crate) const JUDGE_TOKENS_PER_RUN: u32 = 500_000;
/// In the currency of the prices.
pub(crate) const JUDGE_COST_PER_DAY: f64 = 10.0;
/// What the owner of a `brain.db` waits itself.
pub const BUSY_TIMEOUT_MS: u32 = 5_000;
/// The rules hold the figures: 0.95 for near duplicates, 0.98 for exact ones.
pub const THRESHOLD: Option<f64> = None;

/// The hierarchical linkages need a full distance matrix: 20,000 rows take 1.6 GB.
pub(crate) const MAX_COMPONENT_ROWS: usize = 20_000;

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

/// What the profile `hivemind` sets beside protection: the rules of memory folders in JSON files.
///
/// Overlaps of tags *above* 0.8 count, and 4 of 5 are 0.8. Memories of different creators or scopes stay
/// apart. What is younger than 7 days, critical, permanent, protected, core, a decision, a user's or read at
/// least 10 times is protected by the profile `strict`.
pub(super) const HIVEMIND: &str = include_str!("hivemind.json");
