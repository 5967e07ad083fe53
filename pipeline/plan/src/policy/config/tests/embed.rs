//! The section `embed`: addresses, names of variables, and no secrets.

use super::*;
use crate::policy::{Provider, config_hash};

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
        "embed.api_key_env=MY_KEY",
    ]);
    let settings = configured.unwrap().settings.embed;
    assert_eq!(settings.provider, Some(Provider::Openai));
    assert_eq!(settings.url.as_deref(), Some("https://example.org/v1"));
    assert_eq!(settings.api_key_env.as_deref(), Some("MY_KEY"));
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
        "embed.url=http://hunter2:99999",
        "embed.url=http://hunter2:0",
        "embed.url=http://hunter2:",
        "embed.url=http://hunter2:80:80",
        "embed.url=http://[hunter2]:80",
        "embed.url=http://[::1",
        "embed.url=http://hünter2",
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
fn unknown_providers_are_refused() {
    assert!(set(&["embed.provider=telepathy"]).is_err());
}

#[test]
fn addresses_with_a_host_and_a_port_are_taken() {
    for url in [
        "http://localhost:8030",
        "https://api.example.org/v1?x=1",
        "http://[::1]:65535/embed",
        "http://[::1]",
        "HTTP://10.0.0.1:1#part",
        "http://my_host.local",
    ] {
        let found = set(&[&format!("embed.url={url}")]).unwrap().settings.embed.url;
        assert_eq!(found.as_deref(), Some(url));
    }
}

#[test]
fn a_file_beside_a_store_names_no_provider() {
    let beside =
        written("threshold: 0.97\nembed: { provider: daemon, url: \"http://elsewhere\" }\n");
    let loader = ConfigLoader::new().store(beside.folder.path().join("brain.db"));
    let configuration = loader.clone().load().unwrap();
    assert_eq!(configuration.settings.embed.provider, None);
    let [notice] = &configuration.notices[..] else { panic!("{:?}", configuration.notices) };
    assert!(notice.to_string().contains("line 2: `embed` is not used"), "{notice}");
    assert_eq!(configuration.policy.merge_threshold().map(|t| t.get()), Some(0.97));
    // Named by the user, the same file holds.
    let given = ConfigLoader::new().file(&beside.path).load().unwrap();
    assert_eq!(given.settings.embed.provider, Some(Provider::Daemon));
    let unset = ConfigLoader::new().load().unwrap().settings.embed.inline();
    let localhost = Some("http://localhost:8030".to_owned());
    assert_eq!((unset.provider, unset.url), (Some(Provider::Daemon), localhost));
    let off = ConfigLoader::new().set("embed.provider=off").load().unwrap().settings.embed;
    assert_eq!(off.inline().provider, Some(Provider::Off));
}

#[test]
fn key_and_address_come_from_one_layer() {
    let file = written("embed: { provider: openai, url: \"http://a\", api_key_env: A_KEY }\n");
    let mixed = |loader: ConfigLoader| loader.load().unwrap().settings.embed.key_from_elsewhere;
    let of_file = || ConfigLoader::new().file(&file.path);
    assert_eq!(mixed(of_file()), None);
    assert_eq!(mixed(of_file().set("embed.model=m")), None);
    let both = of_file().set("embed.url=http://b").set("embed.api_key_env=B_KEY");
    assert_eq!(mixed(both), None);
    let variables = |names: &[(&str, &str)]| {
        let pairs = names.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned()));
        of_file().environment(pairs.collect::<Vec<_>>())
    };
    for loader in [
        of_file().set("embed.url=http://b"),
        of_file().set("embed.url=null").set("embed.provider=ollama"),
        of_file().set("embed.api_key_env=B_KEY"),
        variables(&[("MEMFOLD_EMBED_URL", "http://b")]),
        variables(&[("MEMFOLD_EMBED_API_KEY_ENV", "B_KEY")]),
    ] {
        assert!(mixed(loader.clone()).is_some(), "{loader:?}");
    }
    // Without a key, or a provider, nothing can go astray.
    assert_eq!(mixed(of_file().set("embed.url=http://b").set("embed.api_key_env=null")), None);
    assert_eq!(mixed(of_file().set("embed.url=http://b").set("embed.provider=null")), None);
}

#[test]
fn a_plan_in_a_store_names_no_provider() {
    // A plan keeps what was typed when it was made, and a store can come from somebody else.
    let loader = ConfigLoader::new()
        .planned_set("embed.provider=daemon")
        .planned_set("consolidation.embed.url=http://elsewhere")
        .planned_set("flags.max_per_run=77")
        .planned_flag("threshold", 0.97);
    let configuration = loader.clone().load().unwrap();
    assert_eq!(configuration.settings.embed.provider, None);
    assert_eq!(configuration.settings.embed.url, None);
    assert_eq!(configuration.policy.flags.max_per_run, 77);
    assert_eq!(configuration.policy.merge_threshold().map(|t| t.get()), Some(0.97));
    assert_eq!(configuration.notices.len(), 2, "{:?}", configuration.notices);
    let own = loader.set("flags.max_per_run=78").load().unwrap();
    assert_eq!(own.policy.flags.max_per_run, 78);
}
