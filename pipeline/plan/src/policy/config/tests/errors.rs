//! What every error says, and what it advises.

use std::fs;

use super::*;

/// Asserts message and hint of a file that does not hold; the file's path reads `FILE`.
#[track_caller]
fn assert_error(text: impl AsRef<[u8]>, message: &str, hint: &str) {
    let file = written(text);
    let error = ConfigLoader::new().file(&file.path).load().expect_err("the file is wrong");
    let found = error.to_string().replace(&file.path.display().to_string(), "FILE");
    assert_eq!(found, message);
    assert_eq!(error.hint().unwrap_or_default(), hint);
}

#[test]
fn text_that_is_no_configuration() {
    let advice = "texts with `:`, `#`, `*` or `&` need quotes";
    assert_error("guard: [", "FILE, line 1: unclosed bracket '['", advice);
    assert_error(
        "guard: a: b",
        "FILE, line 1: mapping values are not allowed in this context",
        advice,
    );
    assert_error(
        "guard:\n\tenabled: true\n",
        "FILE, line 2: tabs disallowed within this context (block indentation)",
        "indent with spaces",
    );
    assert_error(
        "threshold: 0.9\n---\nthreshold: 0.95\n",
        "FILE, line 3: more than one YAML document",
        "keep one document per file",
    );
    assert_error(
        "threshold: 0.9\nthreshold: 0.95\n",
        "FILE, line 2: key `threshold` is given twice",
        "keep one of them",
    );
    assert_error(
        "threshold: .nan\n",
        "FILE, line 1: `.nan` is not a finite number",
        "write a number such as 0.95",
    );
    assert_error(
        "{\"threshold\": 1e999}",
        "FILE, line 1: `1e999` is not a finite number",
        "write a number such as 0.95",
    );
    assert_error(
        "- 1\n",
        "FILE, line 1: expected keys and values, found a list",
        "write `key: value` lines, such as `threshold: 0.95`",
    );
    assert_error(
        "threshold 0.9",
        "FILE, line 1: expected keys and values, found the text \"threshold 0.9\"",
        "write `key: value` lines, such as `threshold: 0.95`",
    );
    assert_error(
        [0xff, 0xfe],
        "configuration file FILE is not UTF-8 text",
        "save the file as UTF-8",
    );
    assert_error(
        vec![b'#'; (1 << 20) + 1],
        "configuration file FILE is larger than 1048576 bytes",
        "check that the path is that of a configuration",
    );
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
    assert!(matches!(load(deep), Err(ConfigError::Syntax { .. })));
}

#[test]
fn keys_that_do_not_exist() {
    assert_error(
        "# mine\nguard:\n  enabeld: false\n",
        "FILE, line 3: unknown key `guard.enabeld`",
        "did you mean `guard.enabled`?",
    );
    assert_error(
        "max_live_share_per_run: 0.9\n",
        "FILE, line 1: unknown key `max_live_share_per_run`",
        "did you mean `judge.loss.max_live_share_per_run`?",
    );
    assert_error(
        "colour: red\n",
        "FILE, line 1: unknown key `colour`",
        "`memfold config schema` lists every key",
    );
    assert_error(
        "rules:\n- id: R1-exact-duplicate-merge\n  when: { minSimilarty: 0.9 }\n",
        "FILE, line 3: unknown key `rules.R1-exact-duplicate-merge.when.min_similarty`",
        "did you mean `rules.R1-exact-duplicate-merge.when.min_similarity`?",
    );
    assert_error(
        "\"\\u001b[31mred\": 1\n",
        "FILE, line 1: unknown key `\\u{1b}[31mred`",
        "`memfold config schema` lists every key",
    );
    assert_error(
        "rules:\n- id: R2-near-duplicate-merge\n  when: { minSimilarity: 0.9, min_similarity: 0.8 }\n",
        "FILE, line 3: key `rules.when.min_similarity` is given twice",
        "keep one; camelCase and snake_case are the same key",
    );
    assert_error(
        "enabled: true\nbrain: { consolidation: { enabled: false } }\n",
        "FILE, line 2: key `enabled` is given twice",
        "keep one; camelCase and snake_case are the same key",
    );
}

/// A configuration of yesterday does not end in silence: what it sets is refused with what takes its place.
#[test]
fn removed_keys_name_their_successors() {
    for (text, key, successor) in [
        ("schedule: \"0 2 * * *\"", "schedule", "memfold-server --schedule"),
        ("model: null", "model", "`judge.chain`"),
        ("deepConsolidation: { batchSize: 10 }", "deep_consolidation", "rules hold the thresholds"),
        ("helios_metrics: true", "helios_metrics", "there is no successor"),
        (
            "lifecycle: { weights: { recency: 1 } }",
            "lifecycle.weights",
            "they are 0.4, 0.2 and 0.4",
        ),
        (
            "rules: [{ id: R3-promote-high-value-procedural, then: { params: { cap: 2 } } }]",
            "rules.R3-promote-high-value-procedural.then.params.cap",
            "it is 3.0",
        ),
        ("lifecycle: { hot_min: 0.7 }", "lifecycle.hot_min", "it is 0.6"),
        ("judge: { chain: [{ price_in: 1 }] }", "judge.chain.0.price_in", "`price: [IN, OUT]`"),
        (
            "rules: [{ id: R4-archive-low-utility, when: { typesAny: [episodic] } }]",
            "rules.R4-archive-low-utility.when.types_any",
            "`categories_any: [\"type:NAME\"]`",
        ),
    ] {
        let error = load(text).unwrap_err();
        assert!(error.to_string().contains(&format!("unknown key `{key}`")), "{error}");
        assert!(error.hint().unwrap().contains(successor), "{text}");
    }
}

#[test]
fn values_of_another_type_or_outside_their_range() {
    let range = "a number from -1 to 1";
    let meaning = |key: &str| format!("docs/configuration.md tells what `{key}` means");
    let threshold =
        |found: &str| format!("FILE, line 1: `threshold` expects {range}, or null, found {found}");
    assert_error("threshold: 1.5", &threshold("1.5"), &meaning("threshold"));
    assert_error("threshold: yes", &threshold("true"), &meaning("threshold"));
    assert_error(
        "threshold: \"0.9\"",
        &threshold("the text \"0.9\""),
        "write the number without quotes",
    );
    assert_error(
        "propose: { max_per_run: }",
        "FILE, line 1: `propose.max_per_run` expects a whole number of at least 0, found nothing",
        &meaning("propose.max_per_run"),
    );
    assert_error(
        "judge: { loss: { max_live_share_per_run: 2 } }",
        "FILE, line 1: `judge.loss.max_live_share_per_run` expects a number from 0 to 1, found 2",
        &meaning("judge.loss.max_live_share_per_run"),
    );
    assert_error(
        "cluster: { linkage: average_ }",
        "FILE, line 1: `cluster.linkage` expects one of greedy_complete, complete, average, single, found the text \"average_\"",
        "did you mean average?",
    );
    assert_error(
        "judge: { votes: 2.5 }",
        "FILE, line 1: `judge.votes` expects a whole number from 1 to 5, found 2.5",
        &meaning("judge.votes"),
    );
    assert_error(
        "flags: { max_per_run: 18446744073709551615 }",
        "FILE, line 1: `flags.max_per_run` expects a whole number of at least 0, found 18446744073709551615",
        &meaning("flags.max_per_run"),
    );
    assert_error(
        "guard: off",
        "FILE, line 1: `guard` expects keys and values, found false",
        &meaning("guard"),
    );
    assert_error(
        "scope: { categories: work }",
        "FILE, line 1: `scope.categories` expects a list of texts, found the text \"work\"",
        "write it as a list: [ … ]",
    );
    assert_error(
        "scope: { categories: [2026] }",
        "FILE, line 1: `scope.categories` expects a text, found 2026",
        "put it in quotes",
    );
    assert_error(
        "rules: { R6: {} }",
        "FILE, line 1: `rules` expects a list of rules, found a mapping",
        &meaning("rules"),
    );
    assert_error(
        "busy_timeout_ms: 4000000000",
        "FILE, line 1: `busy_timeout_ms` expects a whole number from 0 to 3600000, found 4000000000",
        &meaning("busy_timeout_ms"),
    );
    assert_error("brain: 7", "FILE, line 1: `brain` expects keys and values, found 7", "");
}

#[test]
fn rules_that_are_none() {
    assert_error(
        "rules:\n- when: {}\n",
        "FILE, line 2: a rule has no `id`",
        "give every rule an `id`; it names the rule in reports",
    );
    assert_error(
        "rules:\n- id: a.b\n",
        "FILE, line 2: rule id \"a.b\" has other characters than letters, digits, `-` and `_`",
        "write an id such as R6-keep-apart",
    );
    assert_error(
        "rules:\n- id: R4-archive-low-utility\n- id: R4-archive-low-utility\n",
        "FILE, line 3: rule R4-archive-low-utility is given twice",
        "join the two, or give one another id",
    );
    assert_error(
        "rules:\n- id: R4-archive-low-utilty\n  enabled: false\n",
        "FILE, line 2: rule R4-archive-low-utilty has no `trigger`",
        "did you mean the rule R4-archive-low-utility?",
    );
    let new = "a new rule needs `id`, `trigger` and `then: { action: … }`; a merge also `when: { min_similarity: … }`";
    assert_error(
        "rules:\n- id: mine\n  trigger: daily\n",
        "FILE, line 2: rule mine has no `then.action`",
        new,
    );
    assert_error(
        "rules:\n- id: mine\n  trigger: daily\n  then: { action: merge }\n",
        "FILE, line 4: rule mine has no `when.min_similarity`",
        new,
    );
    assert_error(
        "rules:\n- id: mine\n  trigger: daily\n  then:\n    action: archive\n    params:\n      absorbed: move\n",
        "FILE, line 7: rule mine sets `absorbed`, which is no setting of the action archive",
        "merge alone has canonical and absorbed",
    );
    assert_error(
        "rules:\n- id: R5-flag-contradiction\n  trigger: daily\n",
        "FILE, line 3: rule R5-flag-contradiction has the action flag_contradiction, which the trigger daily cannot run",
        "flag_contradiction goes with on_contradiction, where noop may stand too; every other action goes with any other trigger",
    );
}

#[test]
fn bounds_that_cross() {
    let hint = "nothing can lie between them; raise one or lower the other";
    assert_error(
        "rules:\n- id: R4-archive-low-utility\n  enabled: true\n  when: { min_access_count: 3 }\n",
        "FILE, line 4: `rules.R4-archive-low-utility.when.min_access_count` is 3, above `rules.R4-archive-low-utility.when.max_access_count`, which is 0",
        hint,
    );
    assert_error(
        "scope:\n  since: 2026-03-01\n  until: 2026-02-01\n",
        "FILE, line 2: `scope.since` is 2026-03-01, above `scope.until`, which is 2026-02-01",
        hint,
    );
    assert_error(
        "quick_check: { flag_threshold: 0.97 }",
        "FILE, line 1: `quick_check.flag_threshold` is 0.97, above `quick_check.auto_dedup_threshold`, which is 0.95",
        hint,
    );
    assert_error(
        "threshold: 0.9\nrules:\n- id: R2-near-duplicate-merge\n  when: { min_similarity: 0.9 }\n",
        "FILE, line 1: `threshold` and `rules.R2-near-duplicate-merge.when.min_similarity` are both given and say the same thing",
        "keep one of them",
    );
}

#[test]
fn times_and_zones_that_do_not_exist() {
    assert_error(
        "time_zone: Mars/Olympus",
        "FILE, line 1: unknown time zone \"Mars/Olympus\"",
        "write an IANA name such as Europe/Berlin, or an offset such as +02:00",
    );
    assert_error(
        "scope: { since: last week }",
        "FILE, line 1: `scope.since` expects a date, or a date and time, found the text \"last week\"",
        "write 2026-03-01, 2026-03-01T12:00 or 2026-03-01T12:00:00Z",
    );
    let error = ConfigLoader::new().time_zone("Nowhere").load().unwrap_err();
    assert_eq!(error.to_string(), "this machine: unknown time zone \"Nowhere\"");
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

#[test]
fn words_that_have_no_meaning() {
    let said = |error: ConfigError| (error.to_string(), error.hint().unwrap_or_default());
    for text in ["guard.enabled", "=1", ""] {
        let (message, hint) = said(set(text).unwrap_err());
        assert_eq!(message, format!("--set {text}: expected KEY=VALUE"));
        assert_eq!(hint, "for example: --set threshold=0.95");
    }
    let (message, hint) = said(set("guard.enabled=maybe").unwrap_err());
    let expected = "--set guard.enabled=maybe: `guard.enabled` expects true or false, found the text \"maybe\"";
    assert_eq!(message, expected);
    assert_eq!(hint, "docs/configuration.md tells what `guard.enabled` means");
    let (message, hint) = said(set("detect.exact_tex=1").unwrap_err());
    assert_eq!(message, "--set detect.exact_tex=1: unknown key `detect.exact_tex`");
    assert_eq!(hint, "did you mean `detect.exact_text`?");
    for text in ["NaN", "inf", "2", "x"] {
        let (message, _) = said(variable("MEMFOLD_THRESHOLD", text).unwrap_err());
        assert!(
            message.starts_with("variable MEMFOLD_THRESHOLD: `threshold` expects"),
            "{message}"
        );
    }
    let (message, _) = said(set("scope.categories=[a").unwrap_err());
    assert_eq!(message, "--set scope.categories=[a: unclosed bracket '['");
    let flag = ConfigLoader::new().flag("--threshold", "threshold", 3.0);
    let (message, _) = said(flag.load().unwrap_err());
    assert_eq!(
        message,
        "--threshold: `threshold` expects a number from -1 to 1, or null, found 3.0"
    );
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
