//! Which layer wins, and how the result knows.

use std::fs;

use proptest::prelude::*;
use serde_json::json;

use super::super::{FileLayer, Source, environment_names};
use super::*;
use crate::policy::{
    Absorbed, Canonical, Linkage, NEAR_DUPLICATE, Policy, Profile, RuleAction, Trigger,
    config_hash, defaults,
};
use memfold_model::time::Instant;

fn near(configuration: &Configuration) -> f64 {
    let rule = configuration.policy.rules.iter().find(|rule| rule.id == NEAR_DUPLICATE).unwrap();
    rule.when.min_similarity.unwrap().get()
}

#[test]
fn without_layers_the_built_in_configuration_holds() {
    let configuration = ConfigLoader::new().load().unwrap();
    assert_eq!(configuration.policy, Policy::builtin());
    assert_eq!(configuration.notices, []);
    let rules = |loader: ConfigLoader| loader.load().unwrap().policy.rules;
    let is_archiving = |rule: &crate::policy::Rule| rule.then == RuleAction::Archive;
    assert!(!rules(ConfigLoader::new()).iter().any(is_archiving), "it is off until asked for");
    let rules = rules(ConfigLoader::new().set("rules.R4-archive-low-utility.enabled=yes"));
    let ids: Vec<&str> = rules.iter().map(|rule| rule.id.as_str()).collect();
    assert_eq!(
        ids,
        [
            "R1-exact-duplicate-merge",
            "R2-near-duplicate-merge",
            "R3-promote-high-value-procedural",
            "R4-archive-low-utility",
            "R5-flag-contradiction",
        ]
    );
    let [exact, near, promote, archive, flag] = &rules[..] else { panic!() };
    assert_eq!(exact.when.min_similarity.map(|s| s.get()), Some(0.85));
    assert!(exact.when.proven_same && !near.when.proven_same);
    assert_eq!(near.when.min_similarity.map(|s| s.get()), Some(0.95));
    assert_eq!((near.trigger, near.when.min_cluster_size), (Trigger::OnSimilarity, Some(2)));
    assert_eq!(promote.then, RuleAction::Promote);
    assert_eq!((promote.when.min_access_count, promote.when.min_importance), (Some(5), Some(2.0)));
    assert_eq!(promote.when.categories_any, ["sop", "procedure", "coding", "trading"]);
    assert_eq!((archive.when.min_age_days, archive.when.max_access_count), (Some(30.0), Some(0)));
    assert_eq!((archive.trigger, archive.when.max_importance), (Trigger::Weekly, Some(1.5)));
    assert_eq!(
        (flag.trigger, &flag.then),
        (Trigger::OnContradiction, &RuleAction::FlagContradiction)
    );
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
    let provenance = configuration.provenance();
    let source = |key: &str| provenance[key].clone();
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
    assert_eq!(entries.len(), provenance.len());
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
        above.then,
        RuleAction::Merge {
            canonical: Some(Canonical::MostInformative),
            absorbed: Some(Absorbed::Move)
        }
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
fn a_list_that_drops_protection_is_noticed() {
    let configuration = set("protection.categories=pinned,legal").unwrap();
    assert_eq!(configuration.policy.protection.categories, ["pinned", "legal"]);
    let notices: Vec<String> = configuration.notices.iter().map(ToString::to_string).collect();
    assert_eq!(
        notices,
        [
            "--set protection.categories=pinned,legal: `protection.categories` replaces the profile's \
          list; no longer protected: permanent, protected, decision, decisions"
        ]
    );
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
    for (loader, place) in
        [(loader.clone(), "line 1"), (ConfigLoader::new().planned_set(&set), "--set")]
    {
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
