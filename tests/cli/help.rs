//! The output of `--help`, in 80 columns.

use crate::support::{TestFolder, listed_commands};

/// The commands, as the help lists them.
fn commands(path: &[&str]) -> Vec<String> {
    listed_commands(&TestFolder::new().succeed(&[path, &["--help"]].concat()))
}

#[test]
fn every_help_is_as_published() {
    let dir = TestFolder::new();
    insta::assert_snapshot!("memfold", dir.succeed("--help"));
    for command in commands(&[]) {
        let name = command.clone();
        insta::assert_snapshot!(name, dir.succeed(&[&command, "--help"]));
        for further in commands(&[&command]) {
            let name = format!("{command}-{further}");
            insta::assert_snapshot!(name, dir.succeed(&[&command, &further, "--help"]));
        }
    }
}

#[test]
fn help_fits_eighty_columns() {
    let dir = TestFolder::new();
    for command in commands(&[]) {
        let help = dir.succeed(&[&command, "--help"]);
        let widest = help.lines().map(|line| line.chars().count()).max();
        assert!(widest <= Some(80), "{command}: {widest:?}");
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
    assert_eq!(dir.run("completions").code, Some(2));
}
