//! Layers of configuration, from files to a policy. The texts of errors are in `golden`.

use std::fs;
use std::path::PathBuf;

use crate::time::Instant;
use proptest::prelude::*;
use serde_json::json;
use tempfile::TempDir;

use super::config::NEAR_DUPLICATE;
use super::*;

/// A folder with one configuration file.
struct Written {
    folder: TempDir,
    path: PathBuf,
}

/// Writes a file `memfold.yaml` into a folder of its own.
fn written(text: impl AsRef<[u8]>) -> Written {
    written_as("memfold.yaml", text)
}

fn written_as(name: &str, text: impl AsRef<[u8]>) -> Written {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    fs::write(&path, text).unwrap();
    Written { folder, path }
}

/// Loads one file given by `--config`.
fn load(text: impl AsRef<[u8]>) -> Result<Configuration, ConfigError> {
    ConfigLoader::new().file(&written(text).path).load()
}

/// Returns where the value of a key comes from.
fn source_of(configuration: &Configuration, key: &str) -> Source {
    let entries = configuration.entries();
    entries.into_iter().find(|entry| entry.key == key).unwrap().source
}

/// Loads one `--set`.
fn set(text: &str) -> Result<Configuration, ConfigError> {
    ConfigLoader::new().set(text).load()
}

/// Loads one environment variable.
fn variable(name: &str, text: &str) -> Result<Configuration, ConfigError> {
    ConfigLoader::new().environment([(name.to_owned(), text.to_owned())]).load()
}

fn near(configuration: &Configuration) -> f64 {
    let rule = configuration.policy.rules.iter().find(|rule| rule.id == NEAR_DUPLICATE).unwrap();
    rule.when.min_similarity.unwrap().get()
}

#[test]
fn later_layers_win_and_every_value_knows_its_layer() {
    let system = written_as("config.yaml", "threshold: 0.90\nflags: { max_per_run: 1 }\n");
    let user = written_as(
        "config.json",
        "{\n\t\"threshold\": 0.91,\n\t\"detect\": { \"exact_text\": false } }",
    );
    let beside = written("threshold: 0.92\ncluster:\n  linkage: average\n");
    let given = written("threshold: 0.93\n");
    let environment = [("MEMFOLD_THRESHOLD".to_owned(), "0.94".to_owned())];
    let layers: [&dyn Fn(ConfigLoader) -> ConfigLoader; 7] = [
        &|loader| loader.system_folder(system.folder.path()),
        &|loader| loader.user_folder(user.folder.path()),
        &|loader| loader.store(beside.folder.path().join("brain.db")),
        &|loader| loader.file(&given.path),
        &|loader| loader.environment(environment.clone()),
        &|loader| loader.set("threshold=0.5").set("threshold=0.96"),
        &|loader| loader.flag("--threshold", "threshold", 0.97),
    ];
    let expected = [0.90, 0.91, 0.92, 0.93, 0.94, 0.96, 0.97];
    for count in 0..=layers.len() {
        // The order of the calls does not matter: add them backwards.
        let loader = layers[..count].iter().rev().fold(ConfigLoader::new(), |l, add| add(l));
        let wins = count.checked_sub(1).map_or(0.95, |last| expected[last]);
        assert!((near(&loader.load().unwrap()) - wins).abs() < 1e-12, "{count} layers");
    }
    let all = layers.iter().fold(ConfigLoader::new(), |loader, add| add(loader));
    let configuration = all.load().unwrap();
    let source = |key: &str| source_of(&configuration, key);
    let similarity = "rules.R2-near-duplicate-merge.when.min_similarity";
    assert_eq!(source(similarity), Source::Flag { name: "--threshold".into() });
    let file =
        |file, written: &Written, line| Source::File { file, path: written.path.clone(), line };
    assert_eq!(source("rules.R2-near-duplicate-merge.id"), Source::BuiltIn);
    assert_eq!(source("flags.max_per_run"), file(FileLayer::System, &system, 2));
    assert_eq!(source("detect.exact_text"), file(FileLayer::User, &user, 3));
    assert_eq!(source("cluster.linkage"), file(FileLayer::Store, &beside, 3));
    assert_eq!(source("cluster.separate_by"), Source::BuiltIn);
    assert_eq!(source("time_zone"), Source::Machine);
    assert_eq!(configuration.policy.cluster.linkage, Linkage::Average);
    let files: Vec<_> = all.files().unwrap().into_iter().map(|(layer, _)| layer).collect();
    assert_eq!(files, [FileLayer::System, FileLayer::User, FileLayer::Store, FileLayer::Given]);

    let entries = configuration.entries();
    let shown = entries.iter().find(|entry| entry.key == "flags.max_per_run").unwrap();
    assert_eq!(
        serde_json::to_value(shown).unwrap(),
        json!({
            "key": "flags.max_per_run", "value": 1,
            "source": { "layer": "file", "file": "system", "path": system.path, "line": 2 },
        })
    );
}

#[test]
fn a_store_without_a_file_beside_it_has_none() {
    let folder = tempfile::tempdir().unwrap();
    let loader = ConfigLoader::new().store(folder.path().join("brain.db"));
    assert_eq!(loader.files().unwrap(), []);
    assert_eq!(loader.load().unwrap().policy, Policy::builtin());
}

#[test]
fn empty_files_change_nothing() {
    for text in ["", "# nothing\n", "---\n", "{}", "\u{feff}"] {
        assert_eq!(load(text).unwrap().policy, Policy::builtin(), "{text:?}");
    }
}

#[test]
fn rules_merge_by_id_and_new_ones_come_first() {
    let below = written_as(
        "config.yaml",
        "rules:\n- id: below\n  trigger: daily\n  then: { action: noop }\n",
    );
    let loader = ConfigLoader::new().system_folder(below.folder.path());
    let above = written(
        "rules:
- { id: R4-archive-low-utility, enabled: false }
- { id: above, trigger: on_similarity, when: { minSimilarity: 0.9, categoriesAny: [x] }, then: { action: merge, params: { canonical: most_informative, absorbed: move } } }
- { id: R1-exact-duplicate-merge, when: { min_cluster_size: 5 } }
- { id: R3-promote-high-value-procedural, when: { min_importance: null, categories_any: [howto] } }
",
    );
    let configuration = loader.file(&above.path).load().unwrap();
    let ids: Vec<&str> = configuration.policy.rules.iter().map(|rule| &rule.id[..5]).collect();
    assert_eq!(ids, ["above", "below", "R1-ex", "R2-ne", "R3-pr", "R5-fl"]);
    let [above, _, exact, _, promote, _] = &configuration.policy.rules[..] else { panic!() };
    assert_eq!(
        above.then.params,
        Params { canonical: Some(Canonical::MostInformative), absorbed: Some(Absorbed::Move) }
    );
    assert_eq!(above.when.categories_any, ["x"]);
    let policy = &configuration.policy;
    assert_eq!(policy.absorbed_by("above"), Absorbed::Move);
    assert_eq!(policy.absorbed_by("R1-exact-duplicate-merge"), policy.merge.absorbed);
    assert_eq!(exact.when.min_cluster_size, Some(5));
    assert_eq!(exact.when.min_similarity.map(|s| s.get()), Some(0.85));
    assert_eq!((promote.when.min_importance, promote.when.min_access_count), (None, Some(5)));
    assert_eq!(promote.when.categories_any, ["howto"]);
    assert_eq!(configuration.policy.merge_threshold().map(|t| t.get()), Some(0.85));
}

#[test]
fn threshold_sets_the_near_rule_and_never_leaves_the_exact_rule_below_it() {
    let thresholds = |text: &str| {
        let policy = set(text).unwrap().policy;
        let similarity = |at: usize| policy.rules[at].when.min_similarity.unwrap().get();
        (similarity(0), similarity(1), policy.merge_threshold().unwrap().get())
    };
    assert_eq!(thresholds("threshold=0.85"), (0.85, 0.85, 0.85));
    assert_eq!(thresholds("threshold=0.98"), (0.98, 0.98, 0.98));
    assert_eq!(thresholds("threshold=0.99"), (0.99, 0.99, 0.99));
    assert_eq!(thresholds("threshold=null"), (0.85, 0.95, 0.85));
    let mixed = load(
        "threshold: 0.99\nrules:\n- id: R1-exact-duplicate-merge\n  when: { min_similarity: 0.97 }",
    );
    assert_eq!(mixed.unwrap().policy.merge_threshold().map(|t| t.get()), Some(0.99));
}

#[test]
fn thresholds_follow_the_rules_that_run() {
    let run = |sets: &[&str]| {
        let policy =
            sets.iter().fold(ConfigLoader::new(), |l, text| l.set(*text)).load().unwrap().policy;
        (policy.merge_threshold().map(|t| t.get()), policy.join_threshold().map(|t| t.get()))
    };
    assert_eq!(run(&[]), (Some(0.85), Some(0.85)));
    assert_eq!(run(&["guard.enabled=no"]), (Some(0.95), Some(0.85)));
    assert_eq!(run(&["threshold=0.8"]), (Some(0.8), Some(0.8)));
    assert_eq!(run(&["rules.R5-flag-contradiction.enabled=no"]), (Some(0.85), Some(0.85)));
    assert_eq!(run(&["rules.R2-near-duplicate-merge.enabled=no"]), (Some(0.85), Some(0.85)));
    assert_eq!(
        run(&["trigger=weekly", "rules.R2-near-duplicate-merge.trigger=daily"]).0,
        Some(0.85)
    );
    assert_eq!(
        run(&["trigger=daily", "rules.R2-near-duplicate-merge.trigger=daily"]).0,
        Some(0.85)
    );
    let off =
        ["rules.R1-exact-duplicate-merge.enabled=0", "rules.R2-near-duplicate-merge.enabled=0"];
    assert_eq!(run(&off), (None, Some(0.85)));
    assert_eq!(run(&[off[0], off[1], "rules.R5-flag-contradiction.enabled=0"]), (None, None));
    let policy = set("trigger=daily").unwrap().policy;
    let active: Vec<&str> = policy.active_rules().map(|rule| &rule.id[..2]).collect();
    assert_eq!(active, ["R1", "R2", "R5"]);
}

#[test]
fn a_profile_sets_all_of_protection_beneath_the_keys_of_its_layer() {
    let strict = load("protection:\n  min_age_hours: 1\nprofile: strict\n").unwrap();
    let protection = &strict.policy.protection;
    assert!((protection.min_age_hours - 1.0).abs() < 1e-12);
    assert_eq!(protection.access_count_min, Some(10));
    assert!(protection.categories.iter().any(|category| category == "core"));
    assert!(protection.categories.iter().any(|category| category == "permanent"));
    assert_eq!(protection.ids.len(), 4);
    assert_eq!(strict.merged()["profile"], json!("strict"));
    // A profile of a later layer beats what stands below it; whether to protect is no part of it.
    let below = written_as("config.yaml", "protection: { min_age_hours: 1, enabled: false }");
    let both = ConfigLoader::new().system_folder(below.folder.path()).set("profile=strict");
    let protection = both.load().unwrap().policy.protection;
    assert!((protection.min_age_hours - defaults::STRICT_AGE_HOURS).abs() < 1e-12);
    assert!(!protection.enabled);
    let back = both.flag("--profile", "profile", "default").load().unwrap();
    assert_eq!(back.policy.protection.access_count_min, None);
    assert_eq!(serde_json::to_value(Profile::Strict).unwrap(), json!("strict"));
}

#[test]
fn the_trees_of_other_systems_are_understood() {
    let configuration = load(
        "brain:
  consolidation:
    enabled: true
    quickCheck:
      autoDedup_threshold: 0.96
      flagThreshold: 0.86
    deepConsolidation:
      dryRun: true
",
    )
    .unwrap();
    let settings = &configuration.settings;
    assert!(settings.enabled && settings.read_only);
    assert_eq!(settings.quick_check.auto_dedup_threshold.get().to_bits(), 0.96_f64.to_bits());
    assert_eq!(settings.quick_check.flag_threshold.get().to_bits(), 0.86_f64.to_bits());
    let set = set("brain.consolidation.quickCheck.flagThreshold=0.5").unwrap();
    assert_eq!(set.settings.quick_check.flag_threshold.get().to_bits(), 0.5_f64.to_bits());
    assert_eq!(near(&load("similarityThreshold: 0.9").unwrap()).to_bits(), 0.9_f64.to_bits());
}

#[test]
fn variables_are_read_by_a_table() {
    let names = environment_names();
    let mut unique: Vec<&str> = names.iter().map(|(name, _)| name.as_str()).collect();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), names.len(), "no two keys share a variable");
    for words in ["1", "true", "yes", "on", "enabled", "TRUE", " On "] {
        assert!(variable("MEMFOLD_READ_ONLY", words).unwrap().settings.read_only, "{words}");
    }
    for words in ["0", "false", "no", "off", "disabled", "False"] {
        assert!(!variable("MEMORY_CONSOLIDATION_ENABLED", words).unwrap().settings.enabled);
        assert!(!variable("MEMFOLD_GUARD_ENABLED", words).unwrap().policy.guard.enabled);
    }
    assert!(variable("MEMORY_CONSOLIDATION_ENABLED", "").unwrap().settings.enabled);
    let scope = variable("MEMFOLD_SCOPE_CATEGORIES", "a, b,,c").unwrap().policy.scope;
    assert_eq!(scope.categories, ["a", "b", "c"]);
    assert_eq!(variable("MEMFOLD_TRIGGER", "none").unwrap().policy.trigger, None);
    let own = [("MEMFOLD_ENABLED", "yes"), ("MEMORY_CONSOLIDATION_ENABLED", "no")];
    let own = own.map(|(name, text)| (name.to_owned(), text.to_owned()));
    assert!(ConfigLoader::new().environment(own).load().unwrap().settings.enabled);
}

#[test]
fn variables_that_are_not_read_are_noticed() {
    let other = variable("MEMORY_CONSOLIDATION_THRESHOLD", "0.85").unwrap();
    assert_eq!(other.policy, Policy::builtin());
    assert_eq!(
        other.notices[0].to_string(),
        "variable MEMORY_CONSOLIDATION_THRESHOLD: not used: it is the threshold of topic summaries, \
         not of merges; set MEMFOLD_THRESHOLD for these"
    );
    let slip = variable("MEMFOLD_THRESOLD", "0.9").unwrap();
    let text = "variable MEMFOLD_THRESOLD: not used; did you mean MEMFOLD_THRESHOLD?";
    assert_eq!(slip.notices[0].to_string(), text);
    let removed = variable("MEMFOLD_DETECT_PAIR_BUDGET", "9").unwrap();
    assert!(removed.notices[0].text.starts_with("not used: there is no successor"), "{removed:?}");
    let unknown = variable("MEMFOLD_SOMETHING_ELSE_ALTOGETHER", "1").unwrap();
    assert!(unknown.notices[0].text.starts_with("not used: there is no such key"), "{unknown:?}");
    for name in ["MEMFOLD_ISA", "MEMFOLD_TEST_RACES", "MEMORY_LINKING_ENABLED"] {
        assert_eq!(variable(name, "1").unwrap().notices, [], "{name}");
    }
    assert_eq!(variable("PATH", "/bin").unwrap().notices, []);
}

#[test]
fn words_of_set_take_the_type_of_their_key() {
    let policy = |text: &str| set(text).unwrap().policy;
    assert_eq!(
        policy("cluster.separate_by=[private, user:*]").cluster.separate_by,
        ["private", "user:*"]
    );
    assert_eq!(policy("cluster.separateBy=").cluster.separate_by, Vec::<String>::new());
    assert_eq!(policy("flags.max_per_run=9").flags.max_per_run, 9);
    assert_eq!(policy("time_zone=europe/berlin").time_zone, "Europe/Berlin");
    assert_eq!(policy("time_zone=+02").time_zone, "+02:00");
    assert_eq!(load("time_zone: +02:00").unwrap().policy.time_zone, "+02:00");
    assert!(!policy("guard={enabled: false}").guard.enabled);
    assert_eq!(policy("scope.categories=2026").scope.categories, ["2026"]);
    let rules = policy("rules=[{id: mine, trigger: daily, then: {action: noop}}]").rules;
    assert_eq!((rules.len(), rules[0].id.as_str()), (5, "mine"));
}

#[test]
fn paths_count_from_the_file_that_names_them() {
    let file = written("guard: { lexicon: words.txt }\nembed: { provider: local, url: model }\n");
    fs::write(file.folder.path().join("words.txt"), "cat | feline\n").unwrap();
    let configuration = ConfigLoader::new().file(&file.path).load().unwrap();
    assert_eq!(configuration.policy.guard.lexicon.as_deref(), Some("cat | feline\n"));
    assert_eq!(configuration.settings.embed.dir, Some(file.folder.path().join("model")));
    let set =
        ConfigLoader::new().set("embed.provider=local").set("embed.url=model").load().unwrap();
    assert_eq!(set.settings.embed.dir, Some(PathBuf::from("model")));
}

/// A cloned folder could bring `[synonyms]` by which facts of its reader were merged.
#[test]
fn what_comes_with_a_store_names_no_lexicon() {
    let beside = written("guard: { enabled: true, lexicon: words.txt }\nthreshold: 0.97\n");
    fs::write(beside.folder.path().join("words.txt"), "[synonyms]\ncat, dog\n").unwrap();
    let loader = ConfigLoader::new().store(beside.folder.path().join("brain.db"));
    let set = format!("guard.lexicon={}", beside.folder.path().join("words.txt").display());
    let section = set.replacen(".lexicon=", "={lexicon: ", 1) + "}";
    for (loader, place) in [
        (loader.clone(), "line 1"),
        (ConfigLoader::new().planned_set(&set), "--set"),
        (ConfigLoader::new().planned_set(&section), "--set"),
    ] {
        let configuration = loader.load().unwrap();
        assert_eq!(configuration.policy.guard.lexicon, None);
        let [notice] = &configuration.notices[..] else { panic!("{:?}", configuration.notices) };
        let notice = notice.to_string();
        assert!(notice.contains("`guard.lexicon` is not used"), "{notice}");
        assert!(notice.contains(place) && notice.contains("which words mean the same"), "{notice}");
    }
    assert!(loader.set(set).load().unwrap().policy.guard.lexicon.is_some());
}

#[test]
fn scope_times_are_in_the_zone_of_the_configuration() {
    let loader = ConfigLoader::new().time_zone("Europe/Berlin").set("scope.since=2026-01-01");
    let policy = loader.load().unwrap().policy;
    assert_eq!(policy.time_zone, "Europe/Berlin");
    assert_eq!(policy.zone().unwrap().iana_name(), Some("Europe/Berlin"));
    assert_eq!(policy.scope.since, Some(Instant(1_767_222_000_000_000)));
    let utc = loader.set("time_zone=UTC").load().unwrap().policy;
    assert_eq!(utc.scope.since, Some(Instant(1_767_225_600_000_000)));
    assert_eq!(ConfigLoader::new().load().unwrap().policy.time_zone, "UTC");
}

/// The hash goes into every plan: it changes only with the policy's meaning.
#[test]
fn the_hash_is_that_of_the_meaning_alone() {
    let hash = |configuration: &Configuration| config_hash(&configuration.policy, b"lexicon");
    let builtin = hash(&ConfigLoader::new().load().unwrap());
    assert_eq!(builtin, "sha256:951b96887381ecb46d95d15ad2e06375e4dd64aa11f66059c892cf2cfa8b7771");
    let same = [
        "busy_timeout_ms: 1\nenabled: false\nread_only: true\nquick_check: { flag_threshold: 0.5 }",
        "merge: { absorbed: move }\ntime_zone: utc\nprofile: default",
        "rules: [{ id: mine, enabled: false, trigger: daily, then: { action: noop } }]",
    ];
    for text in same {
        assert_eq!(hash(&load(text).unwrap()), builtin, "{text}");
    }
    let changed = [
        "threshold: 0.96",
        "guard: { enabled: false }",
        "merge: { absorbed: archive }",
        "detect: { method: hnsw_rs }",
        "time_zone: Europe/Berlin",
        "trigger: weekly",
        "scope: { since: 2026-01-01 }",
        "scope: { categories: [a] }",
        "protection: { min_age_hours: 23 }",
        "cluster: { separate_by: [] }",
        "profile: strict",
        "profile: hivemind",
        "rules: [{ id: mine, trigger: daily, then: { action: noop } }]",
        "detect: { exact_text: false }",
        "rules: [{ id: R1-exact-duplicate-merge, when: { proven_same: false } }]",
    ];
    let mut hashes: Vec<String> = changed.iter().map(|text| hash(&load(text).unwrap())).collect();
    hashes.push(builtin);
    hashes.push(config_hash(&Policy::builtin(), b"another lexicon"));
    let count = hashes.len();
    hashes.sort_unstable();
    hashes.dedup();
    assert_eq!(hashes.len(), count);
}

fn sets(sets: &[&str]) -> Result<Configuration, ConfigError> {
    sets.iter().fold(ConfigLoader::new(), |loader, text| loader.set(*text)).load()
}

fn with_variables(sets: &[&str], variables: &[(&str, &str)]) -> Configuration {
    let variables = variables.iter().map(|(name, text)| ((*name).into(), (*text).into()));
    let loader = ConfigLoader::new().environment(variables);
    sets.iter().fold(loader, |loader, text| loader.set(*text)).load().unwrap()
}

#[test]
fn who_makes_vectors_changes_no_plan() {
    let plain = config_hash(&sets(&[]).unwrap().policy, b"");
    let other = sets(&["embed.provider=daemon", "embed.model=m"]).unwrap();
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
    assert_eq!(source_of(&configuration, "embed.url").to_string(), "variable EMBEDDINGS_URL");
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
        let error = set(text).unwrap_err();
        let said = format!("{error} {:?}", error.hint());
        assert!(!said.contains("hunter2"), "{said}");
        assert!(said.contains("embed."), "{said}");
    }
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
        let found = set(&format!("embed.url={url}")).unwrap().settings.embed.url;
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

#[test]
fn a_billion_laughs_are_cut_short() {
    let mut text = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..10 {
        let below = vec![format!("*a{}", level - 1); 10].join(", ");
        text += &format!("a{level}: &a{level} [{below}]\n");
    }
    let error = load(&text).unwrap_err();
    assert!(error.to_string().contains("too much for a configuration"), "{error}");
    let hint = "write values out instead of nesting or repeating them by `&` and `*`";
    assert_eq!(error.hint().as_deref(), Some(hint));
    let deep = format!("a: {}", "[".repeat(100_000));
    assert!(matches!(load(deep), Err(ConfigError::Invalid { .. })));
}

#[test]
fn files_that_cannot_be_read() {
    let folder = tempfile::tempdir().unwrap();
    let missing = folder.path().join("none.yaml");
    let error = ConfigLoader::new().file(&missing).load().unwrap_err();
    let start = format!("configuration file {} cannot be read: ", missing.display());
    assert!(error.to_string().starts_with(&start), "{error}");
    let hint = "check the path; relative paths in a file count from that file's folder";
    assert_eq!(error.hint().as_deref(), Some(hint));
    let error = ConfigLoader::new().file(folder.path()).load().unwrap_err();
    assert!(error.to_string().ends_with(" is a folder"), "{error}");
    assert_eq!(error.hint().as_deref(), Some("name a regular file, or a link to one"));

    fs::write(folder.path().join("memfold.yaml"), "").unwrap();
    fs::write(folder.path().join("memfold.json"), "{}").unwrap();
    let error = ConfigLoader::new().store(folder.path().join("brain.db")).load().unwrap_err();
    assert!(error.to_string().starts_with("two configurations stand in one folder: "), "{error}");
    assert_eq!(error.hint().as_deref(), Some("remove one of them"));
}

/// A pipe as configuration or lexicon made the program wait for ever, a device without an end as well.
#[cfg(unix)]
#[test]
fn pipes_and_devices_are_refused_and_links_to_files_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("memfold.yaml");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let beside = ConfigLoader::new().store(folder.path().join("brain.db"));
    let lexicon = ConfigLoader::new().set(format!("guard.lexicon={}", pipe.display()));
    for loader in [ConfigLoader::new().file(&pipe), beside, lexicon] {
        let error = loader.load().unwrap_err();
        assert!(error.to_string().ends_with("memfold.yaml is a pipe"), "{error}");
        assert!(error.hint().unwrap().starts_with("write its contents to a file"));
    }
    let error = ConfigLoader::new().file("/dev/zero").load().unwrap_err();
    assert!(error.to_string().ends_with("/dev/zero is a device"), "{error}");

    let (file, link) = (folder.path().join("real"), folder.path().join("link.yaml"));
    fs::write(&file, "threshold: 0.97").unwrap();
    std::os::unix::fs::symlink(&file, &link).unwrap();
    assert!(ConfigLoader::new().file(&link).load().is_ok());
}

#[test]
fn texts_that_are_too_large_or_not_utf_8_are_refused() {
    let said = |text: Vec<u8>| {
        let error = load(text).unwrap_err();
        (error.to_string(), error.hint().unwrap_or_default())
    };
    let (message, hint) = said(vec![0xff, 0xfe]);
    assert!(message.ends_with("memfold.yaml is not UTF-8 text"), "{message}");
    assert_eq!(hint, "save the file as UTF-8");
    let (message, hint) = said(vec![b'#'; (1 << 20) + 1]);
    assert!(message.ends_with("memfold.yaml is larger than 1048576 bytes"), "{message}");
    assert_eq!(hint, "check that the path is that of a configuration");
}

#[test]
fn zones_and_flags_that_do_not_hold() {
    let error = ConfigLoader::new().time_zone("Nowhere").load().unwrap_err();
    assert_eq!(error.to_string(), "this machine: unknown time zone \"Nowhere\"");
    let error = ConfigLoader::new().flag("--threshold", "threshold", 3.0).load().unwrap_err();
    let expected = "--threshold: `threshold` expects a number from -1 to 1, or null, found 3.0";
    assert_eq!(error.to_string(), expected);
}

/// The beginning of a key's name was an unknown key, and nothing was suggested.
#[test]
fn a_key_that_is_written_in_part_is_suggested() {
    for (text, meant) in [
        ("protection.min_age=0", "protection.min_age_hours"),
        ("min_age=0", "protection.min_age_hours"),
        ("min_age_huors=0", "protection.min_age_hours"),
        ("judge.timeout=1", "judge.timeout_ms"),
        ("quick=1", "quick_check"),
    ] {
        let hint = set(text).unwrap_err().hint();
        assert_eq!(hint, Some(format!("did you mean `{meant}`?")), "{text}");
    }
    let hint = set("x=1").unwrap_err().hint().unwrap();
    assert_eq!(hint, "`memfold config schema` lists every key");
}

proptest! {
    /// Neither the order of keys nor that of mappings in a file matters.
    #[test]
    fn key_order_does_not_matter(order in Just(vec![
        "threshold: 0.9",
        "detect: { method: graph, exact_text: false }",
        "detect: { exact_text: false, method: graph }",
        "flags: { max_per_run: 1 }",
        "profile: strict",
        "protection: { min_age_hours: 2 }",
        "time_zone: Asia/Tokyo",
    ]).prop_shuffle()) {
        let mut given = false;
        let lines = order.into_iter().filter(|line| {
            !line.starts_with("detect") || !std::mem::replace(&mut given, true)
        });
        let configuration = load(lines.collect::<Vec<_>>().join("\n")).unwrap();
        let ordered = load("threshold: 0.9\ndetect: { exact_text: false, method: graph }\nflags: { max_per_run: 1 }\nprotection: { min_age_hours: 2 }\nprofile: strict\ntime_zone: Asia/Tokyo").unwrap();
        prop_assert_eq!(config_hash(&configuration.policy, b""), config_hash(&ordered.policy, b""));
        prop_assert_eq!(configuration.merged(), ordered.merged());
    }

    /// Whatever a file holds, loading it ends in a configuration or in an error with a message.
    #[test]
    fn no_text_makes_the_loader_panic(text in "([a-z_]{1,8}: ?|[-\\[\\]{}&*#\"'\t\n ]|[0-9.]{1,4}|rules:|id|when|null){0,24}") {
        if let Err(error) = load(&text) {
            prop_assert!(!error.to_string().is_empty());
        }
    }
}
