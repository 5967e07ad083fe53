//! The policy: every setting that can change a plan, validated.
//!
//! A [`Policy`] comes from [`Policy::builtin`] or from a [`ConfigLoader`], which merges files,
//! variables and flags over the built-in [`config::Config`] and knows where each value came from. What a
//! policy may hold stands once, in the types of [`config`]: the schema, the checks and
//! docs/configuration.md are made from them.

mod cluster;
pub mod config;
pub mod defaults;
mod detect;
mod embed;
mod hash;
mod merge;
mod protection;
mod quick_check;
mod rule;
mod scope;

use memfold_simd::Similarity;

pub use cluster::{ClusterPolicy, Linkage};
pub use config::{
    ConfigError, ConfigLoader, Configuration, Settings, config_schema, configuration_markdown,
};
pub use detect::{DetectPolicy, GraphIndex, JoinMethod};
pub use embed::{EmbedSettings, KeyFromElsewhere, Provider};
pub use hash::config_hash;
pub use memfold_guard::{GuardPolicy, SignalWeights};
pub use merge::{Absorbed, Canonical, CategoryMerge, MergePolicy};
pub use protection::{Profile, ProtectionPolicy};
pub use quick_check::{CheckScope, QuickCheckPolicy};
pub use rule::{
    ARCHIVE, CONTRADICTION, Conditions, EXACT_DUPLICATE, NEAR_DUPLICATE, PROMOTE, Rule, RuleAction,
    Trigger,
};
pub use scope::{FlagPolicy, FlagTarget, Scope};

/// The validated, merged semantic configuration. Nothing in it is a path, a thread count or a secret.
#[derive(Debug, Clone, PartialEq, serde::Serialize)]
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
    /// Which memories take part.
    pub scope: Scope,
    /// The resolved zone of naive times: an IANA name or a fixed offset.
    pub time_zone: String,
    /// Runs only the rules of this trigger (and `on_*`); `None`: all.
    pub trigger: Option<Trigger>,
}

impl Policy {
    /// Returns what holds where nothing is configured; times without a zone are in UTC.
    #[must_use]
    pub fn builtin() -> Self {
        ConfigLoader::new().load().expect("the built-in configuration is valid").policy
    }

    /// Returns the zone of naive times; `None` where [`Self::time_zone`] was changed to what is none.
    #[must_use]
    pub fn zone(&self) -> Option<jiff::tz::TimeZone> {
        config::time_zone(&self.time_zone)
    }

    /// Returns the rules that run, in order: those of [`Self::trigger`] and the `on_*` ones, or all.
    pub fn active_rules(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(|rule| {
            self.trigger.is_none_or(|trigger| rule.trigger == trigger || rule.trigger.is_always())
        })
    }

    /// Returns what happens to the memories that a rule folds into others: as the rule says, else as all do.
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
        self.active_rules()
            .filter(|rule| matches!(rule.then, RuleAction::Merge { .. }))
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
}
