//! What `--help` says, in 80 columns.

use crate::support::{Place, listed_commands};

const COMMANDS: [&str; 34] = [
    "demo",
    "consolidate",
    "plans",
    "review",
    "apply",
    "undo",
    "check",
    "save",
    "search",
    "recall",
    "hook",
    "index",
    "dedup",
    "plan-join",
    "sync",
    "embed",
    "export",
    "import",
    "convert",
    "runs",
    "explain",
    "status",
    "tiers",
    "edges",
    "due",
    "flags",
    "resolve",
    "restore",
    "forget",
    "prune",
    "doctor",
    "config",
    "completions",
    "man",
];

#[test]
fn every_help_is_as_published() {
    let place = Place::new();
    insta::assert_snapshot!("memfold", place.succeed(&["--help"]));
    for command in COMMANDS {
        insta::assert_snapshot!(command, place.succeed(&[command, "--help"]));
    }
    for command in ["build", "info", "verify", "warm", "remove"] {
        let name = format!("index-{command}");
        insta::assert_snapshot!(name, place.succeed(&["index", command, "--help"]));
    }
    for command in ["session-start", "replace", "install"] {
        let name = format!("hook-{command}");
        insta::assert_snapshot!(name, place.succeed(&["hook", command, "--help"]));
    }
    for command in ["show", "schema", "path"] {
        let name = format!("config-{command}");
        insta::assert_snapshot!(name, place.succeed(&["config", command, "--help"]));
    }
}

#[test]
fn no_command_is_without_a_snapshot() {
    let help = Place::new().succeed(&["--help"]);
    assert_eq!(listed_commands(&help), COMMANDS);
}

#[test]
fn help_fits_eighty_columns() {
    let place = Place::new();
    for command in COMMANDS {
        let help = place.succeed(&[command, "--help"]);
        let widest = help.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(80), "{command}: {widest:?}");
    }
}

#[test]
fn the_version_is_that_of_the_package() {
    let expected = format!("memfold {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(Place::new().succeed(&["--version"]), expected);
}

#[test]
fn completions_exist_for_every_shell() {
    let place = Place::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = place.succeed(&["completions", shell]);
        assert!(script.contains("memfold") && script.contains("consolidate"), "{shell}");
    }
}

#[test]
fn a_man_page_is_written_for_every_command() {
    let place = Place::new();
    place.succeed(&["man", "pages"]);
    for name in ["memfold".to_owned()].into_iter().chain(COMMANDS.map(|c| format!("memfold-{c}"))) {
        let page = std::fs::read_to_string(place.path(&format!("pages/{name}.1"))).unwrap();
        assert!(page.contains(".TH") && page.contains("NAME"), "{name}");
    }
}
