//! What `--help` says, in 80 columns.

use crate::support::{Place, listed_commands};

/// The commands, as the help lists them.
fn commands(path: &[&str]) -> Vec<String> {
    listed_commands(&Place::new().succeed(&[path, &["--help"]].concat()))
}

#[test]
fn every_help_is_as_published() {
    let place = Place::new();
    insta::assert_snapshot!("memfold", place.succeed(&["--help"]));
    for command in commands(&[]) {
        let name = command.clone();
        insta::assert_snapshot!(name, place.succeed(&[&command, "--help"]));
        for further in commands(&[&command]) {
            let name = format!("{command}-{further}");
            insta::assert_snapshot!(name, place.succeed(&[&command, &further, "--help"]));
        }
    }
}

#[test]
fn help_fits_eighty_columns() {
    let place = Place::new();
    for command in commands(&[]) {
        let help = place.succeed(&[&command, "--help"]);
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
    place.succeed(&["completions", "--man", "pages"]);
    let names = commands(&[]).into_iter().map(|command| format!("memfold-{command}"));
    for name in std::iter::once("memfold".to_owned()).chain(names) {
        let page = std::fs::read_to_string(place.path(&format!("pages/{name}.1"))).unwrap();
        assert!(page.contains(".TH") && page.contains("NAME"), "{name}");
    }
    assert_eq!(place.run(&["completions"]).code, Some(2));
}
