//! The output of `--help`, in 80 columns.

use crate::support::{TestFolder, listed_commands};

/// The commands, as the help lists them.
fn commands(path: &[&str]) -> Vec<String> {
    listed_commands(&TestFolder::new().succeed(&[path, &["--help"]].concat()))
}

#[test]
fn every_help_is_as_published_and_fits_eighty_columns() {
    let dir = TestFolder::new();
    let check = |words: &[&str]| {
        let help = dir.succeed(&[words, &["--help"]].concat());
        let widest = help.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(80), "{words:?}: {widest:?}");
        let name = if words.is_empty() { "memfold".to_owned() } else { words.join("-") };
        insta::assert_snapshot!(name, help);
    };
    check(&[]);
    for command in commands(&[]) {
        check(&[&command]);
        for further in commands(&[&command]) {
            check(&[&command, &further]);
        }
    }
}

#[test]
fn the_version_is_that_of_the_package() {
    let expected = format!("memfold {}\n", env!("CARGO_PKG_VERSION"));
    assert_eq!(TestFolder::new().succeed("--version"), expected);
}

#[test]
fn completions_exist_for_every_shell() {
    let dir = TestFolder::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = dir.succeed(&["completions", shell]);
        assert!(script.contains("memfold") && script.contains("consolidate"), "{shell}");
    }
}

#[test]
fn a_man_page_is_written_for_every_command() {
    let dir = TestFolder::new();
    dir.succeed("completions --man pages");
    let names = commands(&[]).into_iter().map(|command| format!("memfold-{command}"));
    for name in std::iter::once("memfold".to_owned()).chain(names) {
        let page = std::fs::read_to_string(dir.path(&format!("pages/{name}.1"))).unwrap();
        assert!(page.contains(".TH") && page.contains("NAME"), "{name}");
    }
}
