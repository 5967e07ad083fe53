//! Lays out the built-in lexicon as Rust, so that no process has to parse it.
//!
//! The modules below are those of the crate, by which a user's lexicon is read. Where they or the lexicon change, Cargo
//! builds and runs this again.

#![expect(dead_code, unreachable_pub, reason = "only what reads a lexicon is used")]

use std::io::Write as _;
use std::path::PathBuf;
use std::{env, fs, io};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    writeln!(io::stdout(), "cargo::rerun-if-changed=build.rs")?;
    let folder = PathBuf::from(env::var_os("OUT_DIR").ok_or("Cargo sets OUT_DIR")?);
    fs::write(folder.join("lexicon.rs"), lexicon::rust()?)?;
    fs::write(folder.join("proof_words.rs"), lexicon::proof_words_rust()?)?;
    Ok(())
}

#[path = "src/stem.rs"]
mod stem;

#[path = "src/lexicon"]
pub(crate) mod lexicon {
    mod built_in;
    mod parse;
    mod tables;

    use std::collections::BTreeMap;
    use std::fmt::Debug;

    use built_in::{BUILT_IN, PROOF_WORDS};
    use parse::Draft;
    use tables::{Lists, Marks, Table, word_as_written};

    /// The sections of `lexicon/proof.txt` that mark words.
    const MARKS: [(&str, Marks); 20] = [
        ("core", Marks::CORE),
        ("article", Marks::ARTICLE),
        ("weighed", Marks::WEIGHED),
        ("hazard", Marks::HAZARD),
        ("capital", Marks::CAPITAL),
        ("uninflected", Marks::UNINFLECTED),
        ("counting", Marks::COUNTING),
        ("ambiguous", Marks::AMBIGUOUS),
        ("label", Marks::LABEL),
        ("report", Marks::REPORT),
        ("subject verb", Marks::SUBJECT_VERB),
        ("list head", Marks::LIST_HEAD),
        ("ordered", Marks::ORDERED),
        ("reason", Marks::REASON),
        ("foreign", Marks::FOREIGN),
        ("state", Marks::STATE),
        ("numbered", Marks::NUMBERED),
        ("many valued", Marks::MANY_VALUED),
        ("holds", Marks::HOLDS),
        ("takes one", Marks::TAKES_ONE),
    ];

    /// The sections of it whose lines are `short = full`.
    const PAIRS: [&str; 3] = ["[spelling]", "[contraction]", "[expansion]"];

    /// Returns the built-in lexicon as an expression. What its elements show of themselves is Rust.
    pub(crate) fn rust() -> Result<String, String> {
        let mut draft = Draft::default();
        parse::parse(BUILT_IN, &mut draft).map_err(|error| error.to_string())?;
        let lexicon = draft.lay_out();
        let parts = [
            ("roles", array(&lexicon.roles)),
            ("meanings", lists(&lexicon.meanings)),
            ("memberships", lists(&lexicon.memberships)),
            ("covers", lists(&lexicon.covers)),
            ("kinds", lists(&lexicon.kinds)),
            ("words", table(&lexicon.words)),
            ("first_words", table(&lexicon.first_words)),
            ("phrases", lists(&lexicon.phrases)),
            ("forms", table(&lexicon.forms)),
            ("units", table(&lexicon.units)),
        ];
        let parts = parts.map(|(name, part)| format!("{name}: {part}"));
        Ok(format!("Lexicon {{ {} }}", parts.join(", ")))
    }

    /// Returns the words of proofs in the same way.
    pub(crate) fn proof_words_rust() -> Result<String, String> {
        let mut marks: BTreeMap<u64, Marks> = BTreeMap::new();
        let mut full_forms = BTreeMap::new();
        let (mut section, mut next) = (Marks::default(), 0);
        for line in PROOF_WORDS.split_inclusive('\n') {
            let start = next;
            next += line.len();
            let line = line.trim_end();
            if let Some(name) = line.strip_prefix('[') {
                let known = MARKS.iter().find(|(known, _)| name.strip_suffix(']') == Some(known));
                section = match known {
                    Some((_, marks)) => *marks,
                    None if PAIRS.contains(&line) => Marks::default(),
                    None => return Err(format!("unknown section {line}")),
                };
            } else if let Some((short, full)) = line.split_once(" = ") {
                let end = start + line.len();
                full_forms.insert(word_as_written(short), ((end - full.len()) as u32, end as u32));
            } else if !line.is_empty() && !line.starts_with('#') {
                for word in line.split(", ") {
                    let marks = marks.entry(word_as_written(word)).or_default();
                    *marks = marks.with(section);
                }
            }
        }
        let (marks, full_forms) = (table(&Table::of(marks)), table(&Table::of(full_forms)));
        Ok(format!("ProofWords {{ marks: {marks}, full_forms: {full_forms} }}"))
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
