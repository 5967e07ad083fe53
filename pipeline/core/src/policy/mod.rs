//! The policy: every setting that can change a plan, validated.
//!
//! A [`Policy`] comes from [`Policy::builtin`] or from a [`ConfigLoader`], which merges files, variables and flags over the
//! built-in configuration and knows where each value came from ([`Source`]). The types in `config` declare each key once:
//! the schema, the checks and docs/configuration.md are made from them.
//!
//! A layer is a tree of values, each with its source. Its keys are brought to one spelling, it is read by serde, which
//! finds unknown keys and wrong values and gives words their types, and is laid over the layers below; the result is
//! validated once. Files are read only where the loader was told to; variables and the machine's time zone are handed in.
//!
//! | file | contents |
//! |---|---|
//! | `config` | keys with their bounds and defaults, built-in rules |
//! | `read` | numbers with bounds, errors of serde, meanings of words |
//! | `layers` | trees, how they are parsed, read and laid over one another |
//! | `names` | removed keys, aliases, variables, suggestions |
//! | `error` | sources, notices and errors |
//! | `loader` | from files, variables and flags to a merged tree |
//! | `validate` | from a merged tree to a policy, and its hash |

mod config;
mod error;
mod layers;
mod loader;
mod names;
mod read;
mod validate;

#[cfg(test)]
mod markdown;
#[cfg(test)]
mod tests;

pub use config::{
    Absorbed, Canonical, ClusterPolicy, Conditions, DetectPolicy, EmbedSettings, FlagPolicy,
    FlagTarget, JoinMethod, JudgeBudget, JudgeLoss, JudgeModel, JudgeSettings, JudgeTask,
    KeyFromElsewhere, Linkage, MergePolicy, NliSettings, Params, ProposePolicy, ProtectionPolicy,
    Provider, QuickCheckPolicy, Rule, RuleAction, Then, Trigger, defaults, name_of,
};
pub use error::{ConfigError, FileLayer, Notice, Source};
pub use loader::{ConfigLoader, Configuration, Entry};
pub use memfold_guard::GuardPolicy;
pub(crate) use names::nearest;
pub use validate::{LifecycleSettings, Policy, Scope, Settings, config_hash, time_zone};

/// Returns the JSON Schema (draft 2020-12) of a configuration file.
#[must_use]
pub const fn config_schema() -> &'static str {
    include_str!("schema.json")
}
