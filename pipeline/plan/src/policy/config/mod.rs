//! Configuration: from layers of files, variables and flags to a [`Policy`] and [`Settings`].
//!
//! Each layer becomes a tree whose values know where they come from ([`Source`]). A tree's keys
//! are brought to one spelling, checked against the schema, and laid over the layers below; the
//! result is validated once. Files are read only where the [`ConfigLoader`] was told to; variables
//! and the machine's time zone are handed in.
//!
//! [`Policy`]: crate::policy::Policy

mod document;
mod error;
mod files;
mod keys;
mod layers;
mod hivemind;
mod lifecycle;
mod loader;
#[cfg(test)]
mod markdown;
mod rules;
mod schema;
mod validate;
mod providers;
mod words;

pub use document::{FileLayer, Notice, Source};
pub use error::ConfigError;
pub use keys::{
    ClusterConfig, Config, DetectConfig, EmbedConfig, FlagConfig, GuardConfig, MergeConfig,
    ProtectionConfig, QuickCheckConfig, ScopeConfig,
};
pub use lifecycle::LifecycleConfig;
pub use loader::{ConfigLoader, Configuration, Entry};
pub use rules::{Action, ParamsConfig, RuleConfig, ThenConfig, WhenConfig};
pub use schema::config_schema;
pub(crate) use schema::nearest;
pub use validate::{Settings, time_zone};
pub use words::environment_names;

#[cfg(test)]
mod tests;
