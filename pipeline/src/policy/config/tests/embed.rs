//! The section `embed`: addresses, names of variables, and no secrets.

use std::time::Duration;

use super::*;
use crate::embed::Provider;
use crate::policy::config_hash;

fn set(sets: &[&str]) -> Result<Configuration, ConfigError> {
    sets.iter().fold(ConfigLoader::new(), |loader, text| loader.set(*text)).load()
}

fn with_variables(sets: &[&str], variables: &[(&str, &str)]) -> Configuration {
    let variables = variables.iter().map(|(name, text)| ((*name).into(), (*text).into()));
    let loader = ConfigLoader::new().environment(variables);
    sets.iter().fold(loader, |loader, text| loader.set(*text)).load().unwrap()
}

#[test]
fn nobody_is_asked_unless_configured() {
    let settings = set(&[]).unwrap().settings.embed;
    assert_eq!(settings.provider, None);
    let configured = set(&[
        "embed.provider=openai",
        "embed.url=https://example.org/v1",
        "embed.timeoutMs=500",
        "embed.retries=0",
        "embed.batch_size=7",
        "embed.api_key_env=MY_KEY",
    ]);
    let settings = configured.unwrap().settings.embed;
    assert_eq!(settings.provider, Some(Provider::Openai));
    assert_eq!(settings.url.as_deref(), Some("https://example.org/v1"));
    assert_eq!(settings.api_key_env.as_deref(), Some("MY_KEY"));
    assert_eq!(settings.timeout, Duration::from_millis(500));
    assert_eq!((settings.retries, settings.batch_size), (0, 7));
}

#[test]
fn who_makes_vectors_changes_no_plan() {
    let plain = config_hash(&set(&[]).unwrap().policy, b"");
    let other = set(&["embed.provider=daemon", "embed.model=m"]).unwrap();
    assert_eq!(config_hash(&other.policy, b""), plain);
}

#[test]
fn others_variables_hold_for_their_provider_where_nothing_is_configured() {
    let variables = [("EMBEDDINGS_URL", "http://a:1"), ("OLLAMA_URL", "http://b:2")];
    let url = |sets: &[&str]| with_variables(sets, &variables).settings.embed.url;
    assert_eq!(url(&[]), None);
    assert_eq!(url(&["embed.provider=daemon"]).as_deref(), Some("http://a:1"));
    assert_eq!(url(&["embed.provider=ollama"]).as_deref(), Some("http://b:2"));
    assert_eq!(url(&["embed.provider=openai"]), None);
    let own = ["embed.provider=daemon", "embed.url=http://c:3"];
    assert_eq!(url(&own).as_deref(), Some("http://c:3"));
    let configuration = with_variables(&["embed.provider=daemon"], &variables);
    assert_eq!(configuration.provenance()["embed.url"].to_string(), "variable EMBEDDINGS_URL");
    assert!(configuration.notices.is_empty(), "{:?}", configuration.notices);
}

#[test]
fn secrets_are_refused_and_not_repeated() {
    for text in [
        "embed.url=http://me:hunter2@example.org",
        "embed.url=ftp://hunter2",
        "embed.url=hunter2",
        "embed.url=http://",
        "embed.url=http:///hunter2",
        "embed.url=http://h hunter2",
        "embed.api_key_env=sk-hunter2",
        "embed.api_key_env=1hunter2",
    ] {
        let error = set(&[text]).unwrap_err();
        let said = format!("{error} {:?}", error.hint());
        assert!(!said.contains("hunter2"), "{said}");
        assert!(said.contains("embed."), "{said}");
    }
}

#[test]
fn ranges_hold() {
    for text in [
        "embed.timeout_ms=0",
        "embed.retries=11",
        "embed.batch_size=0",
        "embed.batch_size=1001",
        "embed.provider=telepathy",
    ] {
        assert!(set(&[text]).is_err(), "{text}");
    }
}
