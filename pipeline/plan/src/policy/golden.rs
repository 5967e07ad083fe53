//! What people see of a configuration, whole: values with their sources, hashes, and what every error says.

use std::fmt::Write as _;
use std::fs;
use std::path::Path;

use super::{ConfigLoader, config_hash};

/// A file beside a store, and below it what else holds; each text is a layer of its own.
#[derive(Default)]
struct Layers<'a> {
    user: &'a str,
    beside: &'a str,
    given: &'a str,
    variables: &'a [(&'a str, &'a str)],
    planned: &'a [&'a str],
    sets: &'a [&'a str],
}

impl Layers<'_> {
    fn loader(&self, folder: &Path) -> ConfigLoader {
        let mut loader = ConfigLoader::new().time_zone("Europe/Berlin");
        let write = |name: &str, text: &str| {
            let path = folder.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(&path, text).unwrap();
            path
        };
        if !self.user.is_empty() {
            write("user/config.yaml", self.user);
            loader = loader.user_folder(folder.join("user"));
        }
        if !self.beside.is_empty() {
            write("beside/memfold.yaml", self.beside);
            loader = loader.store(folder.join("beside/brain.db"));
        }
        if !self.given.is_empty() {
            loader = loader.file(write("given.yaml", self.given));
        }
        let variables = self.variables.iter().map(|(name, text)| ((*name).into(), (*text).into()));
        loader = loader.environment(variables);
        loader = self.planned.iter().fold(loader, |loader, text| loader.planned_set(*text));
        self.sets.iter().fold(loader, |loader, text| loader.set(*text))
    }

    /// Returns what `config show` prints, or the error; the folder's path reads `~`.
    fn shown(&self) -> String {
        let folder = tempfile::tempdir().unwrap();
        let mut text = String::new();
        match self.loader(folder.path()).load() {
            Err(error) => {
                let _ = writeln!(text, "{error}\n  hint: {}", error.hint().unwrap_or_default());
            }
            Ok(configuration) => {
                let _ = writeln!(text, "{}", config_hash(&configuration.policy, b"lexicon"));
                for notice in &configuration.notices {
                    let _ = writeln!(text, "note: {notice}");
                }
                for entry in configuration.entries() {
                    let _ = writeln!(text, "{} = {} ({})", entry.key, entry.value, entry.source);
                }
                let _ = writeln!(text, "{}", configuration.merged());
            }
        }
        text.replace(&*folder.path().to_string_lossy(), "~")
    }
}

#[test]
fn values_sources_and_hashes() {
    let every_layer = Layers {
        user: "threshold: 0.9\nflags: { max_per_run: 1 }\nembed: { provider: daemon, url: \"http://a\" }\n",
        beside: "# mine\nbrain:\n  consolidation:\n    quickCheck: { flagThreshold: 0.8 }\n    deepConsolidation: { dryRun: true }\nembed: { provider: openai }\nrules:\n- { id: R4-archive-low-utility, enabled: true }\n- { id: mine, trigger: daily, when: { minAgeDays: 3, categories_any: [a] }, then: { action: archive } }\n",
        given: "{\"protection\": {\"min_age_hours\": 1, \"categories\": [\"pinned\"]}, \"judge\": {\"chain\": [{\"url\": \"http://b/v1\", \"price\": [1, 2.5]}]}}",
        variables: &[
            ("MEMORY_CONSOLIDATION_ENABLED", "no"),
            ("MEMFOLD_SCOPE_CATEGORIES", "x, y"),
            ("MEMFOLD_DETECT_PAIR_BUDGET", "7"),
            ("MEMFOLD_GUARD_ENABLD", "yes"),
        ],
        planned: &["guard.lexicon=/elsewhere", "scope.since=2026-01-01"],
        sets: &[
            "judge.votes=1",
            "propose.min_similarity=1",
            "rules.R1-exact-duplicate-merge.when.proven_same=null",
            "rules.mine.when.categories_any=",
            "rules.mine.when.same=[type, scope]",
            "merge={absorbed: archive}",
            "lifecycle.halfLifeDays=12",
            "time_zone=utc",
        ],
    };
    let strict = Layers {
        beside: "protection: { min_age_hours: 2.0 }\nprofile: strict\n",
        sets: &["threshold=0.9"],
        ..Layers::default()
    };
    let hivemind = Layers { sets: &["profile=hivemind", "trigger=weekly"], ..Layers::default() };
    let ollama = Layers {
        variables: &[("OLLAMA_URL", "http://b:2"), ("MEMFOLD_EMBED_PROVIDER", "ollama")],
        ..Layers::default()
    };
    let mut text = String::new();
    for (name, layers) in [
        ("built in", Layers::default()),
        ("every layer", every_layer),
        ("strict", strict),
        ("hivemind", hivemind),
        ("ollama", ollama),
    ] {
        let _ = writeln!(text, "## {name}\n{}", layers.shown());
    }
    insta::assert_snapshot!(text);
}

/// Files that do not hold.
const WRONG_FILES: &[&str] = &[
    "guard: [",
    "guard: a: b",
    "guard:\n\tenabled: true\n",
    "threshold: 0.9\n---\nthreshold: 0.95\n",
    "threshold: 0.9\nthreshold: 0.95\n",
    "threshold: .nan\n",
    "{\"threshold\": 1e999}",
    "- 1\n",
    "threshold 0.9",
    "7",
    "# mine\nguard:\n  enabeld: false\n",
    "max_live_share_per_run: 0.9\n",
    "colour: red\n",
    "thresold: 0.9\n",
    "gaurd:\n  enabled: false\n",
    "rules:\n- id: R1-exact-duplicate-merge\n  when: { minSimilarty: 0.9 }\n",
    "rules:\n- id: R1-exact-duplicate-merge\n  then: { params: { canonicl: newest } }\n",
    "\"\\u001b[31mred\": 1\n",
    "rules:\n- id: R2-near-duplicate-merge\n  when: { minSimilarity: 0.9, min_similarity: 0.8 }\n",
    "enabled: true\nbrain: { consolidation: { enabled: false } }\n",
    "similarityThreshold: 0.9\nthreshold: 0.9\n",
    "schedule: \"0 2 * * *\"",
    "model: null",
    "deepConsolidation: { batchSize: 10 }",
    "helios_metrics: true",
    "lifecycle: { weights: { recency: 1 } }",
    "rules: [{ id: R3-promote-high-value-procedural, then: { params: { cap: 2 } } }]",
    "lifecycle: { hot_min: 0.7 }",
    "judge: { chain: [{ price_in: 1 }] }",
    "rules: [{ id: R4-archive-low-utility, when: { typesAny: [episodic] } }]",
    "threshold: 1.5",
    "threshold: yes",
    "threshold: \"0.9\"",
    "threshold: [0.9]",
    "propose: { max_per_run: }",
    "propose: { max_per_run: -1 }",
    "propose: { min_similarity: 0 }",
    "propose: { min_similarity: x }",
    "judge: { loss: { max_live_share_per_run: 2 } }",
    "judge: { votes: 2.5 }",
    "judge: { votes: 6 }",
    "judge: { votes: \"2\" }",
    "judge: { rewrite: 1 }",
    "judge: { tasks: [duplicate] }",
    "judge: { tasks: duplicates }",
    "judge: { chain: [{ url: 7 }] }",
    "judge: { chain: [7] }",
    "judge: { chain: { url: x } }",
    "judge: { chain: [{ url: \"http://a\", price: [1, x] }] }",
    "judge: { chain: [{ url: \"http://a\", price: 1 }] }",
    "judge: { chain: [{ url: \"http://a\", price: [1] }] }",
    "judge: { chain: [{ url: \"http://me:pw@a\" }] }",
    "judge: { chain: [{ url: \"http://a\", key_env: sk-x }] }",
    "judge: { chain: [{}] }",
    "judge: { timeout_ms: 0 }",
    "judge: { budget: { cost_per_day: -1 } }",
    "cluster: { linkage: average_ }",
    "cluster: { linkage: 3 }",
    "cluster: { linkage: null }",
    "trigger: hourly",
    "trigger: 4",
    "profile: strickt",
    "flags: { max_per_run: 18446744073709551615 }",
    "flags: { max_per_run: 4.0 }",
    "guard: off",
    "guard: null",
    "guard: { lexicon: 7 }",
    "guard: { lexicon: nowhere.txt }",
    "scope: { categories: work }",
    "scope: { categories:\n    - a\n    - 2026 }",
    "scope: { categories: null }",
    "scope: { since: 2026 }",
    "scope: { since: last week }",
    "scope:\n  since: 2026-03-01\n  until: 2026-02-01\n",
    "time_zone: Mars/Olympus",
    "time_zone: 2",
    "rules: { R6: {} }",
    "rules: [7]",
    "rules: null",
    "busy_timeout_ms: 4000000000",
    "lifecycle: { half_life_days: 0 }",
    "lifecycle: { archive_below: 0.5 }",
    "lifecycle: { due: { new_memories_min: 0 } }",
    "protection: { min_age_hours: -1 }",
    "protection: { importance_min: high }",
    "quick_check: { flag_threshold: 0.97 }",
    "quick_check: { time_limit_ms: 60001 }",
    "brain: 7",
    "rules:\n- when: {}\n",
    "rules:\n- id: a.b\n",
    "rules:\n- id: 7\n",
    "rules:\n- id: R4-archive-low-utility\n- id: R4-archive-low-utility\n",
    "rules:\n- id: R4-archive-low-utilty\n  enabled: false\n",
    "rules:\n- id: mine\n  trigger: daily\n",
    "rules:\n- id: mine\n  trigger: daily\n  then: { action: merge }\n",
    "rules:\n- id: mine\n  trigger: daily\n  then:\n    action: archive\n    params:\n      absorbed: move\n",
    "rules:\n- id: mine\n  trigger: null\n  then: { action: noop }\n",
    "rules:\n- id: mine\n  trigger: daily\n  then: { action: delete }\n",
    "rules:\n- id: mine\n  trigger: daily\n  when: { min_cluster_size: 0, tag_overlap_min: 2 }\n",
    "rules:\n- id: mine\n  when: { tag_overlap_min: 2 }\n",
    "rules:\n- id: R5-flag-contradiction\n  trigger: daily\n",
    "rules:\n- id: R4-archive-low-utility\n  enabled: true\n  when: { min_access_count: 3 }\n",
    "threshold: 0.9\nrules:\n- id: R2-near-duplicate-merge\n  when: { min_similarity: 0.9 }\n",
    "embed: { provider: telepathy }",
    "embed: { provider: openai, url: \"ftp://x\" }",
    "embed: { api_key_env: sk-hunter2 }",
];

/// `--set` and variables that do not hold.
const WRONG_WORDS: &[&str] = &[
    "guard.enabled",
    "=1",
    "guard.enabled=maybe",
    "detect.exact_tex=1",
    "scope.categories=[a",
    "rules.R1-exact-duplicate-merge.when.min_similarity=2",
    "rules.R1-exact-duplicate-merge.enabled=perhaps",
    "rules.R1-exact-duplicate-merge.wen=1",
    "rules.nothing.enabled=no",
    "rules=7",
    "guard={enabled: 3}",
    "guard={enabeld: true}",
    "guard=off",
    "judge.votes=two",
    "judge.chain=http://a",
    "judge.chain=[{url: \"http://me:hunter2@b\"}]",
    "cluster.linkage=doubly",
    "trigger=hourly",
    "embed.url=http://me:hunter2@b",
    "schedule=daily",
    "lifecycle.weights.recency=1",
    "threshold=NaN",
    "threshold=",
    "profile=null",
    "scope.until=soon",
];

#[test]
fn every_error_says_where_what_and_what_helps() {
    let mut text = String::new();
    for given in WRONG_FILES {
        let shown = Layers { given, ..Layers::default() }.shown();
        let _ = writeln!(text, "{given:?}\n  {shown}");
    }
    for set in WRONG_WORDS {
        let _ = writeln!(
            text,
            "--set {set}\n  {}",
            Layers { sets: &[set], ..Layers::default() }.shown()
        );
    }
    for variable in
        [("MEMFOLD_THRESHOLD", "inf"), ("MEMFOLD_JUDGE_VOTES", "9"), ("MEMFOLD_PROFILE", "stict")]
    {
        let shown = Layers { variables: &[variable], ..Layers::default() }.shown();
        let _ = writeln!(text, "{}={}\n  {shown}", variable.0, variable.1);
    }
    // Each layer is checked by itself: a later one hides nothing.
    let hidden = Layers { given: "threshold: 1.5", sets: &["threshold=0.9"], ..Layers::default() };
    let _ = writeln!(text, "hidden\n  {}", hidden.shown());
    insta::assert_snapshot!(text);
}

#[test]
fn the_schema_is_what_the_program_prints() {
    insta::assert_snapshot!(format!("{:#}\n", super::config_schema()));
}

#[test]
fn variables_that_are_read() {
    let names = super::config::environment_names();
    let lines: Vec<String> = names.iter().map(|(name, key)| format!("{name} {key}")).collect();
    insta::assert_snapshot!(lines.join("\n"));
}
