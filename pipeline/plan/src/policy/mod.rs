//! The policy: every setting that can change a plan, validated.
//!
//! A [`Policy`] comes from [`Policy::builtin`] or from a [`ConfigLoader`], which merges files,
//! variables and flags over the built-in [`config::Config`] and knows where each value came from.
//! The types of [`config`] say what a policy may hold: the schema, the checks and
//! docs/configuration.md are made from them.

pub mod config;
pub mod defaults;
#[cfg(test)]
mod golden;
mod hash;
mod rule;
mod sections;

pub use config::{ConfigError, ConfigLoader, Configuration, Settings, config_schema};
pub use hash::config_hash;
pub use memfold_guard::GuardPolicy;
pub(crate) use rule::EXACT_DUPLICATE;
pub(crate) use rule::NEAR_DUPLICATE;
pub use rule::{ARCHIVE, CONTRADICTION, Conditions, Rule, RuleAction, Trigger};
pub use sections::{
    Absorbed, Canonical, ClusterPolicy, DetectPolicy, EmbedSettings, FlagPolicy, FlagTarget,
    JoinMethod, JudgeModel, JudgeSettings, JudgeTask, KeyFromElsewhere, LifecycleSettings, Linkage,
    MergePolicy, Policy, Profile, ProposePolicy, ProtectionPolicy, Provider, QuickCheckPolicy,
    Scope,
};
