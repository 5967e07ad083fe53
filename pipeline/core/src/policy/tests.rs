//! Layers of configuration, from files to a policy. Golden files hold values with their sources, hashes, and the text of
//! every error.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use proptest::prelude::*;
use serde_json::{Value, json};
use tempfile::TempDir;

use super::names::environment_names;
use super::*;

fn write(folder: &Path, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
    let path = folder.join(name);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, text).unwrap();
    path
}

/// Writes a file `memfold.yaml` into a folder of its own.
fn written(text: impl AsRef<[u8]>) -> (TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = write(folder.path(), "memfold.yaml", text);
    (folder, path)
}

/// Loads one file given by `--config`.
fn load(text: impl AsRef<[u8]>) -> Result<Configuration, ConfigError> {
    let (_folder, path) = written(text);
    ConfigLoader::new().file(path).load()
}

/// Loads one `--set`.
fn set(text: &str) -> Result<Configuration, ConfigError> {
    ConfigLoader::new().set(text).load()
}

/// Makes the loader of a case: `[layer]` lines begin the text of a layer. The order of the calls does not matter: the last
/// comes first.
fn loader(case: &str, folder: &Path) -> ConfigLoader {
    let layers: Vec<(&str, &str)> =
        case.split("\n[").skip(1).filter_map(|layer| layer.split_once("]\n")).collect();
    layers.iter().rev().fold(ConfigLoader::new(), |loader, (layer, text)| {
        let pairs = text.lines().filter_map(|line| line.split_once('='));
        let flags = pairs.clone().map(|(key, value)| (key, value.parse::<Value>().unwrap()));
        match *layer {
            "system" => {
                write(folder, "system/config.yaml", text);
                loader.system_folder(folder.join("system"))
            }
            "user" => {
                write(folder, "user/config.yaml", text);
                loader.user_folder(folder.join("user"))
            }
            "beside" => {
                write(folder, "beside/memfold.yaml", text);
                loader.store(folder.join("beside/brain.db"))
            }
            "given" => loader.file(write(folder, "given.yaml", text)),
            "zone" => loader.time_zone(text.trim()),
            "variables" => loader.environment(pairs.map(|(name, text)| (name.into(), text.into()))),
            "planned" => text.lines().fold(loader, ConfigLoader::planned_set),
            "planned flag" => {
                flags.fold(loader, |loader, (key, value)| loader.planned_flag(key, value))
            }
            "set" => text.lines().fold(loader, ConfigLoader::set),
            "flag" => flags
                .fold(loader, |loader, (key, value)| loader.flag(format!("--{key}"), key, value)),
            layer => panic!("no layer {layer}"),
        }
    })
}

/// Returns the lines of `config show` and their consequences, or the error.
fn lines(loader: &ConfigLoader) -> Vec<String> {
    let configuration = match loader.load() {
        Ok(configuration) => configuration,
        Err(error) => {
            return vec![format!("{error}\n  hint: {}", error.hint().unwrap_or_default())];
        }
    };
    let (policy, embed) = (&configuration.policy, &configuration.settings.embed);
    let mut lines = vec![config_hash(policy, b"lexicon")];
    lines.extend(configuration.notices.iter().map(|notice| format!("note: {notice}")));
    let entries = configuration.entries();
    lines.extend(
        entries.iter().map(|Entry { key, value, source }| format!("{key} = {value} ({source})")),
    );
    let thresholds =
        [policy.merge_threshold(), policy.join_threshold(), policy.propose_threshold()];
    let [merge, join, propose] = thresholds.map(|t| t.map(memfold_simd::Similarity::get));
    lines.push(format!("* merges from {merge:?}, joins from {join:?}, proposes from {propose:?}"));
    let rules: Vec<&str> = policy.active_rules().map(|rule| rule.id.as_str()).collect();
    lines.push(format!("* runs {}", rules.join(", ")));
    let Policy { protection, scope, time_zone, .. } = policy;
    let (ids, reads) = (&protection.ids, protection.access_count_min);
    lines.push(format!("* protects the ids {ids:?}, and what was read {reads:?} times"));
    lines.push(format!("* is in {time_zone}, since {:?} until {:?}", scope.since, scope.until));
    let (dir, inline) = (&embed.dir, embed.inline());
    lines.push(format!("* asks {:?} at {:?}, {dir:?}", inline.provider, inline.url));
    lines.extend(embed.key_from_elsewhere.iter().map(|elsewhere| format!("* {elsewhere:?}")));
    lines
}

/// Returns the lines of a case that differ from the built-in ones; the folder's path reads `~`.
fn differing(case: &str, builtin: &[String]) -> String {
    let folder = tempfile::tempdir().unwrap();
    let mut lines = lines(&loader(case, folder.path()));
    lines.retain(|line| !builtin.contains(line));
    lines.join("\n").replace(&*folder.path().to_string_lossy(), "~") + "\n"
}

#[test]
fn values_sources_and_hashes() {
    let mut text = String::new();
    let mut builtin = Vec::new();
    for case in include_str!("configurations.txt").split("\n~~~\n") {
        let _ = writeln!(text, "{}\n{}", case.lines().next().unwrap(), differing(case, &builtin));
        builtin = lines(&ConfigLoader::new());
    }
    insta::assert_snapshot!(text);
}

#[test]
fn every_error_says_where_what_and_what_helps() {
    let builtin = lines(&ConfigLoader::new());
    let mut text = String::new();
    let mut show = |name: &str, case: String| {
        let shown = differing(&case, &builtin);
        // A value may be a secret: of some keys it is not repeated.
        assert!(!shown.contains("hunter2"), "{shown}");
        let _ = writeln!(text, "{name}\n  {shown}");
    };
    // A line `~~~` ends a case.
    let cases = include_str!("wrong_configurations.txt").split("\n~~~\n");
    for given in cases.filter(|case| !case.is_empty()) {
        show(&format!("{given:?}"), format!("\n[given]\n{given}"));
    }
    for set in include_str!("wrong_words.txt").lines() {
        show(&format!("--set {set}"), format!("\n[set]\n{set}"));
    }
    for variable in ["MEMFOLD_THRESHOLD=inf", "MEMFOLD_JUDGE_VOTES=9", "MEMFOLD_PROFILE=stict"] {
        show(variable, format!("\n[variables]\n{variable}"));
    }
    // Each layer is checked by itself: a later one hides nothing.
    show("hidden", "\n[given]\nthreshold: 1.5\n[set]\nthreshold=0.9".to_owned());
    show("zone", "\n[zone]\nNowhere".to_owned());
    show("flag", "\n[flag]\nthreshold=3.0".to_owned());
    insta::assert_snapshot!(text);
}

#[test]
fn variables_that_are_read() {
    let names = environment_names();
    let lines: Vec<String> = names.iter().map(|(name, key)| format!("{name} {key}")).collect();
    insta::assert_snapshot!(lines.join("\n"));
    let mut unique: Vec<&str> = names.iter().map(|(name, _)| name.as_str()).collect();
    unique.sort_unstable();
    unique.dedup();
    assert_eq!(unique.len(), names.len(), "no two keys share a variable");
    let variable = |name: &str, text: &str| {
        ConfigLoader::new().environment([(name.to_owned(), text.to_owned())]).load().unwrap()
    };
    for words in ["1", "true", "yes", "on", "enabled", "TRUE", " On "] {
        assert!(variable("MEMFOLD_READ_ONLY", words).settings.read_only, "{words}");
    }
    for words in ["0", "false", "no", "off", "disabled", "False"] {
        assert!(!variable("MEMORY_CONSOLIDATION_ENABLED", words).settings.enabled);
        assert!(!variable("MEMFOLD_GUARD_ENABLED", words).policy.guard.enabled);
    }
    assert!(variable("MEMORY_CONSOLIDATION_ENABLED", "").settings.enabled);
}

#[test]
fn files_and_sources_as_json() {
    let folder = tempfile::tempdir().unwrap();
    let system = write(folder.path(), "config.yaml", "flags: { max_per_run: 1 }");
    write(folder.path(), "user/config.json", "{}");
    write(folder.path(), "memfold.yml", "");
    let loader = ConfigLoader::new()
        .file(folder.path().join("given.json"))
        .store(folder.path().join("brain.db"))
        .user_folder(folder.path().join("user"))
        .system_folder(folder.path());
    let files: Vec<FileLayer> =
        loader.files().unwrap().into_iter().map(|(layer, _)| layer).collect();
    assert_eq!(files, [FileLayer::System, FileLayer::User, FileLayer::Store, FileLayer::Given]);
    let entries = ConfigLoader::new().system_folder(folder.path()).load().unwrap().entries();
    let shown = entries.iter().find(|entry| entry.key == "flags.max_per_run").unwrap();
    let source = json!({ "layer": "file", "file": "system", "path": system, "line": 1 });
    assert_eq!(
        serde_json::to_value(shown).unwrap(),
        json!({ "key": "flags.max_per_run", "value": 1, "source": source })
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
fn a_rule_says_what_happens_to_the_memories_that_it_merges() {
    let set = "rules=[{ id: mine, trigger: daily, when: { min_similarity: 0.9 }, \
               then: { action: merge, params: { canonical: most_informative, absorbed: archive } } }]";
    let policy = ConfigLoader::new().set(set).load().unwrap().policy;
    let params =
        Params { canonical: Some(Canonical::MostInformative), absorbed: Some(Absorbed::Archive) };
    assert_eq!(policy.rules[0].then.params, params);
    assert_eq!(policy.absorbed_by("mine"), Absorbed::Archive);
    assert_eq!(policy.absorbed_by("R1-exact-duplicate-merge"), policy.merge.absorbed);
}

/// A cloned folder could bring `[synonyms]` by which facts of its reader were merged.
#[test]
fn a_lexicon_is_read_where_the_user_names_it() {
    let (folder, file) = written("guard: { lexicon: words.txt }\n");
    write(folder.path(), "words.txt", "cat | feline\n");
    let lexicon = |loader: &ConfigLoader| loader.load().unwrap().policy.guard.lexicon;
    assert_eq!(lexicon(&ConfigLoader::new().file(file)).as_deref(), Some("cat | feline\n"));
    let beside = ConfigLoader::new().store(folder.path().join("brain.db"));
    assert_eq!(lexicon(&beside), None);
    let path = folder.path().join("words.txt");
    assert!(lexicon(&beside.set(format!("guard.lexicon={}", path.display()))).is_some());
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
        "embed: { provider: daemon, model: m }",
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
