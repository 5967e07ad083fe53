//! The section `embed`, checked.

use std::time::Duration;

use super::document::Node;
use super::error::ConfigError;
use super::keys::EmbedConfig;
use super::source::Source;
use super::validate::{path, place};
use crate::embed::EmbedSettings;

/// Makes the settings of the section.
pub(super) fn embed(merged: &Node, config: &EmbedConfig) -> Result<EmbedSettings, ConfigError> {
    if let Some(url) = &config.url
        && let Err(found) = check_url(url)
    {
        let expected = "an address such as http://localhost:8030, without user name or password";
        return Err(refused(merged, "embed.url", (expected, found), KEY_ADVICE));
    }
    if let Some(name) = &config.api_key_env
        && !is_variable_name(name)
    {
        let words = ("the name of an environment variable", "a text that is no such name");
        return Err(refused(merged, "embed.api_key_env", words, KEY_ADVICE));
    }
    Ok(EmbedSettings {
        provider: config.provider,
        url: config.url.clone(),
        model: config.model.clone(),
        request_model: config.request_model.clone(),
        api_key_env: config.api_key_env.clone(),
        timeout: Duration::from_millis(config.timeout_ms.into()),
        retries: config.retries,
        batch_size: config.batch_size as usize,
        dir: config.dir.as_deref().map(|dir| path(merged, "embed.dir", dir)),
    })
}

const KEY_ADVICE: &str = "put a key into an environment variable, and that variable's name into `embed.api_key_env`: \
                          export PROVIDER_KEY=…; --set embed.api_key_env=PROVIDER_KEY";

/// Tells what is wrong with an address, without repeating it: it may hold a password.
fn check_url(url: &str) -> Result<(), &'static str> {
    let lower = url.to_ascii_lowercase();
    let rest = lower.strip_prefix("http://").or_else(|| lower.strip_prefix("https://"));
    let Some(rest) = rest else { return Err("a text that begins otherwise") };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    if authority.contains('@') {
        return Err("one with a user name");
    }
    if authority.is_empty() || url.contains(|char: char| char.is_whitespace() || char.is_control())
    {
        return Err("one without a host, or with spaces");
    }
    Ok(())
}

fn is_variable_name(name: &str) -> bool {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || char == '_';
    !name.is_empty()
        && !name.starts_with(|char: char| char.is_ascii_digit())
        && name.chars().all(is_plain)
}

/// An error that repeats neither the value nor the words that set it, which may hold a secret.
fn refused(merged: &Node, key: &str, (expected, found): (&str, &str), advice: &str) -> ConfigError {
    let place = match place(merged, key) {
        Source::Set { .. } => Source::Set { text: format!("{key}=…") },
        other => other,
    };
    ConfigError::WrongValue {
        key: key.into(),
        place,
        expected: expected.into(),
        found: found.into(),
        advice: Some(advice.into()),
    }
}
