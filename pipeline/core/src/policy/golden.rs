//! Golden files of the configuration: values with their sources, hashes, and the text of every error.

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

#[test]
fn every_error_says_where_what_and_what_helps() {
    let mut text = String::new();
    // A line `~~~` ends a case.
    let cases = include_str!("wrong_configurations.txt").split("\n~~~\n");
    for given in cases.filter(|case| !case.is_empty()) {
        let shown = Layers { given, ..Layers::default() }.shown();
        let _ = writeln!(text, "{given:?}\n  {shown}");
    }
    for set in include_str!("wrong_words.txt").lines() {
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
fn variables_that_are_read() {
    let names = super::environment_names();
    let lines: Vec<String> = names.iter().map(|(name, key)| format!("{name} {key}")).collect();
    insta::assert_snapshot!(lines.join("\n"));
}
