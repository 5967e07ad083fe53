//! The policy: every setting that can change a plan, validated.
//!
//! A [`Policy`] comes from [`Policy::builtin`] or from a [`ConfigLoader`], which merges files, variables and flags over the
//! built-in [`Config`] and knows where each value came from ([`Source`]). The types of [`config`](Config) say what a
//! configuration may hold: the schema, the checks and docs/configuration.md are made from them.
//!
//! A layer is a tree of values with its sources beside it. Its keys are brought to one spelling, it is read by serde, which
//! finds unknown keys and wrong values and gives words their types, and is laid over the layers below; the result is
//! validated once. Files are read only where the loader was told to; variables and the machine's time zone are handed in.

mod config;
pub mod defaults;
mod error;
mod files;
mod hash;
mod layers;
mod loader;
mod names;
mod read;
mod validate;

#[cfg(test)]
mod golden;
#[cfg(test)]
mod markdown;
#[cfg(test)]
mod tests;

pub use config::{
    ARCHIVE, Absorbed, CONTRADICTION, Canonical, ClusterPolicy, Conditions, Config, DetectPolicy,
    DueConfig, EmbedSettings, FlagPolicy, FlagTarget, GuardConfig, JoinMethod, JudgeBudget,
    JudgeLoss, JudgeModel, JudgeSettings, JudgeTask, KeyFromElsewhere, LifecycleConfig, Linkage,
    MergePolicy, NliSettings, Params, Profile, ProposePolicy, ProtectionPolicy, Provider,
    QuickCheckPolicy, Rule, RuleAction, ScopeConfig, Then, Trigger, name_of,
};
pub use error::ConfigError;
pub use hash::config_hash;
pub use layers::{FileLayer, Notice, Source};
pub use loader::{ConfigLoader, Configuration, Entry};
pub use memfold_guard::GuardPolicy;
pub use names::environment_names;
pub(crate) use names::nearest;
pub use validate::{LifecycleSettings, Policy, Scope, Settings, time_zone};

/// Returns the JSON Schema (draft 2020-12) of a configuration file.
#[must_use]
pub const fn config_schema() -> &'static str {
    include_str!("schema.json")
}
