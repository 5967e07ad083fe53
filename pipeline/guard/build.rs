//! Lays out the built-in lexicon as Rust, so that no process has to parse it.
//!
//! The modules below are shared with the crate, which reads a user's lexicon with them. Where they
//! or the lexicon change, Cargo builds and runs this again.

#![expect(dead_code, unreachable_pub, reason = "only what reads a lexicon is used")]

use std::io::Write as _;
use std::path::PathBuf;
use std::{env, fs, io};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    writeln!(io::stdout(), "cargo::rerun-if-changed=build.rs")?;
    let folder = PathBuf::from(env::var_os("OUT_DIR").ok_or("Cargo sets OUT_DIR")?);
    fs::write(folder.join("lexicon.rs"), lexicon::rust()?)?;
    Ok(())
}

#[path = "src/stem.rs"]
mod stem;

#[path = "src/lexicon"]
pub(crate) mod lexicon {
    mod built_in;
    mod parse;
    mod tables;

    use std::fmt::Debug;

    use built_in::BUILT_IN;
    use parse::Draft;
    use tables::{Lists, Table};

    /// Returns the built-in lexicon as an expression. The `Debug` output of its elements is Rust.
    pub(crate) fn rust() -> Result<String, String> {
        let mut draft = Draft::default();
        parse::parse(BUILT_IN, &mut draft).map_err(|error| error.to_string())?;
        let lexicon = draft.lay_out();
        let parts = [
            ("roles", array(&lexicon.roles)),
            ("meanings", lists(&lexicon.meanings)),
            ("memberships", lists(&lexicon.memberships)),
            ("words", table(&lexicon.words)),
            ("first_words", table(&lexicon.first_words)),
            ("phrases", lists(&lexicon.phrases)),
            ("forms", table(&lexicon.forms)),
            ("units", table(&lexicon.units)),
            ("marks", table(&lexicon.marks)),
            ("canonical", table(&lexicon.canonical)),
            ("compounds", table(&lexicon.compounds)),
            ("user_meanings", "u32::MAX".to_owned()),
        ];
        let parts = parts.map(|(name, part)| format!("{name}: {part}"));
        Ok(format!("Lexicon {{ {} }}", parts.join(", ")))
    }

    fn array<T: Debug>(elements: &[T]) -> String {
        format!("Cow::Borrowed(&{elements:?})")
    }

    fn lists<T: Debug + Clone>(lists: &Lists<T>) -> String {
        let (starts, elements) = (array(&lists.starts), array(&lists.elements));
        format!("Lists {{ starts: {starts}, elements: {elements} }}")
    }

    fn table<V: Debug + Clone>(table: &Table<V>) -> String {
        format!("Table {{ keys: {}, values: {} }}", lists(&table.keys), array(&table.values))
    }
}
