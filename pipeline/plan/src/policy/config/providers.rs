//! The sections that say where texts and keys go: `embed` and `judge`.

use std::time::Duration;

use super::document::{Node, Source};
use super::error::ConfigError;
use super::keys::{EmbedConfig, JudgeConfig, JudgeModelConfig};
use super::validate::{path, place, similarity};
use crate::policy::{
    EmbedSettings, JudgeModel, JudgeSettings, KeyFromElsewhere, Provider, defaults,
};

/// Makes the settings of the section.
pub(super) fn embed(merged: &Node, config: &EmbedConfig) -> Result<EmbedSettings, ConfigError> {
    let is_local = config.provider == Some(Provider::Local);
    if let Some(url) = config.url.as_ref().filter(|_| !is_local)
        && let Err(found) = check_url(url)
    {
        let expected = "an address such as http://localhost:8030, without user name or password";
        return Err(refused(merged, "embed.url", expected, found, KEY_ADVICE));
    }
    if let Some(name) = &config.api_key_env
        && !is_variable_name(name)
    {
        let expected = "the name of an environment variable";
        let found = "a text that is no such name";
        return Err(refused(merged, "embed.api_key_env", expected, found, KEY_ADVICE));
    }
    Ok(EmbedSettings {
        provider: config.provider,
        url: config.url.clone(),
        model: config.model.clone(),
        request_model: config.request_model.clone(),
        api_key_env: config.api_key_env.clone(),
        timeout: Duration::from_millis(defaults::EMBED_TIMEOUT_MS.into()),
        retries: defaults::EMBED_RETRIES,
        batch_size: defaults::EMBED_BATCH_SIZE,
        dir: config.url.as_deref().filter(|_| is_local).map(|dir| path(merged, "embed.url", dir)),
        inline_timeout: Duration::from_millis(defaults::EMBED_INLINE_TIMEOUT_MS.into()),
        time_limit: None,
        key_from_elsewhere: key_from_elsewhere(merged, config),
    })
}

/// Makes the settings of the section. A key goes to the address that stands beside it: lists of several layers never mix.
pub(super) fn judge(merged: &Node, config: &JudgeConfig) -> Result<JudgeSettings, ConfigError> {
    let chain = config.chain.iter().map(|model| {
        if let Err(found) = check_url(&model.url) {
            let expected =
                "addresses such as http://localhost:11434/v1, without user name or password";
            return Err(refused(merged, "judge.chain", expected, found, JUDGE_KEY_ADVICE));
        }
        if model.key_env.as_deref().is_some_and(|name| !is_variable_name(name)) {
            let expected = "key_env: the name of an environment variable";
            let found = "a text that is no such name";
            return Err(refused(merged, "judge.chain", expected, found, JUDGE_KEY_ADVICE));
        }
        Ok(JudgeModel {
            url: model.url.clone(),
            model: model.model.clone(),
            key_env: model.key_env.clone(),
            price: price(merged, model)?,
        })
    });
    Ok(JudgeSettings {
        chain: chain.collect::<Result<_, _>>()?,
        tasks: config.tasks.clone(),
        rewrite: config.rewrite,
        content_words_lost_max: defaults::JUDGE_CONTENT_WORDS_LOST_MAX,
        golden_similarity_min: similarity(defaults::JUDGE_GOLDEN_SIMILARITY_MIN),
        summary_similarity_min: similarity(defaults::JUDGE_SUMMARY_SIMILARITY_MIN),
        supersession_confidence_min: defaults::JUDGE_SUPERSESSION_CONFIDENCE_MIN,
        batch_size: defaults::JUDGE_BATCH_SIZE as usize,
        timeout: Duration::from_millis(config.timeout_ms.into()),
        votes: config.votes as usize,
        replace_similarity_min: defaults::JUDGE_REPLACE_SIMILARITY_MIN,
        live_share_max: config.loss.max_live_share_per_run,
        requests_per_minute: config.budget.requests_per_minute.into(),
        tokens_per_minute: config.budget.tokens_per_minute.into(),
        tokens_per_run: config.budget.tokens_per_run.into(),
        cost_per_day: config.budget.cost_per_day,
    })
}

fn price(merged: &Node, model: &JudgeModelConfig) -> Result<Option<(f64, f64)>, ConfigError> {
    match model.price.as_deref() {
        None => Ok(None),
        Some(&[sent, answered]) => Ok(Some((sent, answered))),
        Some(_) => {
            let expected =
                "price: two numbers, for a million tokens that are sent and that are answered";
            Err(refused(merged, "judge.chain", expected, "another number of them", PRICE_ADVICE))
        }
    }
}

const PRICE_ADVICE: &str = "write both: { url: …, model: gpt-4o-mini, price: [0.15, 0.60] }";
const JUDGE_KEY_ADVICE: &str = "put a key into an environment variable, and that variable's name into `key_env`: \
                                { url: https://api.openai.com/v1, model: gpt-4o-mini, key_env: OPENAI_API_KEY }";

/// Says where key and address come from, where these are two places: whoever sets an address without a key did not mean that
/// of another place to go there, nor whoever sets a key that it goes to the address of another place.
fn key_from_elsewhere(merged: &Node, config: &EmbedConfig) -> Option<Box<KeyFromElsewhere>> {
    config.provider.filter(|_| config.api_key_env.is_some())?;
    let key = place(merged, "embed.api_key_env");
    let address = match place(merged, "embed.url") {
        // The address is then that of the provider.
        Source::BuiltIn => place(merged, "embed.provider"),
        url => url,
    };
    if is_one_layer(&key, &address) {
        return None;
    }
    Some(Box::new(KeyFromElsewhere { key: key.layer(), address: address.layer() }))
}

fn is_one_layer(a: &Source, b: &Source) -> bool {
    use Source::{Environment, File, Flag, Set};
    match (a, b) {
        (File { path: a, .. }, File { path: b, .. }) => a == b,
        (Environment { .. }, Environment { .. })
        | (Set { .. } | Flag { .. }, Set { .. } | Flag { .. }) => true,
        _ => false,
    }
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
    let (host, port) = host_and_port(authority).ok_or("one whose host cannot be read")?;
    if !is_host(host) {
        return Err("one whose host is no name and no IP address");
    }
    match port.map(str::parse::<u16>) {
        None | Some(Ok(1..)) => Ok(()),
        Some(_) => Err("one whose port is no number from 1 to 65535"),
    }
}

/// Splits `host:port`; an IPv6 address stands in brackets.
fn host_and_port(authority: &str) -> Option<(&str, Option<&str>)> {
    let end = if authority.starts_with('[') { authority.find(']')? + 1 } else { 0 };
    let (host, port) = match authority[end..].find(':') {
        Some(at) => (&authority[..end + at], Some(&authority[end + at + 1..])),
        None => (authority, None),
    };
    Some((host, port))
}

fn is_host(host: &str) -> bool {
    if let Some(address) = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')) {
        return address.parse::<std::net::Ipv6Addr>().is_ok();
    }
    let is_plain = |char: char| char.is_ascii_alphanumeric() || "-._".contains(char);
    !host.is_empty() && host.chars().all(is_plain)
}

fn is_variable_name(name: &str) -> bool {
    let is_plain = |char: char| char.is_ascii_alphanumeric() || char == '_';
    !name.is_empty()
        && !name.starts_with(|char: char| char.is_ascii_digit())
        && name.chars().all(is_plain)
}

/// An error that repeats neither the value nor the words that set it, which may hold a secret.
fn refused(merged: &Node, key: &str, expected: &str, found: &str, advice: &str) -> ConfigError {
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
