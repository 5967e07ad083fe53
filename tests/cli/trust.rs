//! The keys allowed in a file beside a store, and where texts and keys go.
//!
//! A `memfold.yaml` that came with somebody else's store sent texts, and any variable as a bearer token, to an address of its
//! own: `memfold check`, which only reads, was enough.

use memfold_tests::stub_provider::StubProvider;
use memfold_tests::{memory, unit_vector};

use crate::support::{Answer, TestFolder};

const DIM: usize = 8;

fn dir() -> TestFolder {
    let rows = [memory(0, "The kiln is fired on Mondays.", &unit_vector(DIM, 0))];
    TestFolder::with(&rows)
}

/// Runs with secrets in the environment, and the user's configuration in `home`.
fn run(dir: &TestFolder, home: &TestFolder, arguments: &[&str]) -> Answer {
    let mut command = dir.command(arguments);
    command.env("SECRET_TOKEN", "hunter2").env("XDG_CONFIG_HOME", home.folder());
    dir.answer(command.output().unwrap())
}

fn configure(home: &TestFolder, text: &str) {
    std::fs::create_dir_all(home.path("memfold")).unwrap();
    home.write("memfold/config.yaml", text);
}

#[test]
fn a_file_beside_a_store_sends_nothing_anywhere() {
    let stub = StubProvider::daemon(DIM);
    let url = stub.url();
    let (home, texts) = (TestFolder::new(), ["--text", "A new text."]);
    let section = format!("provider: openai, url: \"{url}\", model: m, api_key_env: SECRET_TOKEN");
    for beside in [
        format!("embed: {{ {section} }}\n"),
        format!("brain: {{ consolidation: {{ Embed: {{ {section} }} }} }}\n"),
        format!("embed: {{ provider: daemon, url: \"{url}\" }}\n"),
        "embed: { provider: local, dir: /etc }\n".to_owned(),
    ] {
        let dir = dir();
        dir.write("memfold.yaml", &beside);
        for command in ["check", "save"] {
            let answer = run(&dir, &home, &[&[command, "brain.db"][..], &texts].concat());
            assert_eq!(answer.code, Some(0), "{beside} {answer:?}");
            for words in ["memfold.yaml", "`embed` is not used", "~/.config/memfold/config.yaml"] {
                assert!(answer.err.contains(words), "{beside} {answer:?}");
            }
        }
        let answer = run(&dir, &home, &["search", "brain.db", "--text", "A further text."]);
        assert!(answer.err.contains("`embed` is not used"), "{answer:?}");
        assert!(answer.err.contains("note: compared by words"), "{answer:?}");
        let answer = run(&dir, &home, &["embed", "brain.db", "--execute"]);
        assert_eq!(answer.code, Some(2), "{answer:?}");
    }
    // Nor does it redirect the provider of the user's own configuration.
    configure(&home, "embed: { provider: openai, model: m, api_key_env: SECRET_TOKEN }\n");
    let dir = dir();
    dir.write("memfold.yaml", format!("embed: {{ url: \"{url}\" }}\n"));
    let answer = run(&dir, &home, &["check", "brain.db", "--text", "A new text."]);
    answer.fails_with(2, &["`embed.url` is not set"]);
    assert_eq!(stub.asked(), []);
}

#[test]
fn key_is_sent_only_to_its_own_provider() {
    let (own, other) = (StubProvider::daemon(DIM), StubProvider::daemon(DIM));
    let (home, dir) = (TestFolder::new(), dir());
    let words = ["check", "brain.db", "--text", "A new text."];
    let [own_url, other_url] =
        [&own, &other].map(|stub| format!("embed: {{ provider: daemon, url: \"{}\"", stub.url()));
    // The key of one place, the address of another one.
    configure(&home, &format!("{own_url}, api_key_env: SECRET_TOKEN }}\n"));
    let set = format!("embed.url={}", other.url());
    let mixed = run(&dir, &home, &[&words[..], &["--set", &set]].concat());
    let parts = ["`embed.api_key_env` comes from", "config.yaml", "the command line", "hint: "];
    mixed.fails_with(2, &parts);
    configure(&home, &format!("{other_url} }}\n"));
    let mixed =
        run(&dir, &home, &[&words[..], &["--set", "embed.api_key_env=SECRET_TOKEN"]].concat());
    mixed.fails_with(2, &parts);
    let mut command = dir.command(&words);
    command.env("SECRET_TOKEN", "hunter2").env("EMBEDDINGS_URL", other.url());
    command.env("XDG_CONFIG_HOME", home.folder());
    configure(&home, "embed: { provider: daemon, api_key_env: SECRET_TOKEN }\n");
    let answer = dir.answer(command.output().unwrap());
    answer.fails_with(2, &["the variable EMBEDDINGS_URL"]);
    assert_eq!((own.asked(), other.asked()), (vec![], vec![]));

    // Of one place: the destination is reported before anything goes there.
    configure(&home, &format!("{own_url}, api_key_env: SECRET_TOKEN }}\n"));
    let answer = run(&dir, &home, &words);
    assert_eq!(answer.code, Some(0), "{answer:?}");
    let told = format!("note: texts are sent to {}/embed\n", own.url());
    assert!(answer.err.contains(&told) && !answer.err.contains("hunter2"), "{answer:?}");
    assert!(own.asked()[0].head.contains("Bearer hunter2"), "{:?}", own.asked());
}

#[cfg(unix)]
#[test]
fn a_file_that_others_can_write_is_refused() {
    use std::os::unix::fs::{PermissionsExt as _, chown, symlink};

    let (home, dir) = (TestFolder::new(), dir());
    let file = dir.write("memfold.yaml", "threshold: 0.96\n");
    let allow = |mode: u32| {
        std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
    };
    let words = ["consolidate", "brain.db"];
    allow(0o644);
    assert_eq!(run(&dir, &home, &words).code, Some(0));
    allow(0o666);
    let refused = run(&dir, &home, &words);
    refused.fails_with(2, &["memfold.yaml can be written by everybody", "hint: ", "--config"]);
    run(&dir, &home, &["check", "brain.db", "--text", "New."]).fails_with(2, &["by everybody"]);
    // Named by the user it is taken.
    let named = ["consolidate", "other.db", "--config", "memfold.yaml"];
    std::fs::copy(dir.path("brain.db"), dir.path("other.db")).unwrap();
    std::fs::rename(&file, dir.path("mine.yaml")).unwrap();
    assert_eq!(run(&dir, &home, &[&named[..3], &["mine.yaml"]].concat()).code, Some(0));
    std::fs::rename(dir.path("mine.yaml"), &file).unwrap();
    // Only root can give a file away.
    allow(0o664);
    if chown(&file, Some(4711), Some(4711)).is_err() {
        return;
    }
    let foreign = run(&dir, &home, &words);
    foreign.fails_with(2, &["belongs to another user (number 4711)"]);
    chown(&file, Some(0), Some(4711)).unwrap();
    run(&dir, &home, &words).fails_with(2, &["can be written by the group 4711"]);
    // A group of the owner's own is the owner.
    chown(&file, Some(0), Some(0)).unwrap();
    assert_eq!(run(&dir, &home, &words).code, Some(0));
    std::fs::rename(&file, dir.path("real.yaml")).unwrap();
    symlink("real.yaml", &file).unwrap();
    assert_eq!(run(&dir, &home, &words).code, Some(0));
    std::os::unix::fs::lchown(&file, Some(4711), Some(4711)).unwrap();
    run(&dir, &home, &words).fails_with(2, &["is a link that belongs to another user"]);
}

#[test]
fn unknown_variables_are_noted() {
    let dir = dir();
    let said = |variables: &[(&str, &str)]| {
        let mut command = dir.command(&["config", "show"]);
        dir.answer(command.envs(variables.iter().copied()).output().unwrap()).err
    };
    let unknown = [
        ("MEMFOLD_THRESOLD", "not used; did you mean MEMFOLD_THRESHOLD?"),
        ("MEMFOLD_ISSA", "not used; did you mean MEMFOLD_ISA?"),
        ("MEMFOLD_SOMETHING_ELSE_ALTOGETHER", "not used: there is no such key"),
        ("MEMORY_CONSOLIDATION_ENABELD", "not used; did you mean MEMORY_CONSOLIDATION_ENABLED?"),
    ];
    let err = said(&unknown.map(|(name, _)| (name, "1")));
    for (name, words) in unknown {
        assert!(err.contains(&format!("variable {name}: {words}")), "{name}: {err}");
    }
    let known = ["MEMFOLD_DATA", "MEMFOLD_TEST_RACES", "MEMORY_FORGETTING_ENABLED"];
    let known = known.map(|name| (name, "1"));
    assert_eq!(said(&[&known[..], &[("MEMFOLD_ISA", "scalar")]].concat()), "");
}

/// Which zones there are is for the configuration to say.
#[test]
fn invalid_time_zone_is_an_error() {
    let dir = dir();
    let run = |zone: &str, further: &[&str]| {
        let mut command = dir.command(&[&["consolidate", "brain.db"], further].concat());
        dir.answer(command.env("TZ", zone).output().unwrap())
    };
    for zone in ["garbage", "CET-1CEST,M3.5.0,M10.5.0/3"] {
        run(zone, &[]).fails_with(2, &[&format!("TZ={zone}"), "hint: ", "--set time_zone="]);
    }
    assert_eq!(run("garbage", &["--set", "time_zone=Europe/Berlin"]).code, Some(0));
    for zone in ["", "UTC0", "<+03>-3", ":Europe/Berlin"] {
        let answer = run(zone, &[]);
        assert_eq!(answer.code, Some(0), "{zone}: {answer:?}");
    }
}
