//! Rules for lexicons, and the consistency of the built-in one.

use std::collections::BTreeSet;

use super::*;
use crate::stem::word_key;

/// A line of the built-in lexicon.
struct Line {
    file: &'static str,
    section: &'static str,
    text: &'static str,
}

fn lines() -> Vec<Line> {
    let mut lines = Vec::new();
    for (file, text) in FILES {
        let mut section = "";
        for line in text.lines() {
            let line = line.split('#').next().unwrap().trim();
            if let Some(header) = line.strip_prefix('[') {
                section = header.trim_end_matches(']');
            } else if !line.is_empty() {
                lines.push(Line { file, section, text: line });
            }
        }
    }
    lines
}

fn names(text: &str) -> Vec<&str> {
    text.split([',', '|']).map(str::trim).collect()
}

fn is_class(section: &str) -> bool {
    ["exclusive ", "distinct ", "modality "].iter().any(|kind| section.starts_with(kind))
}

fn entry(lexicon: &Lexicon, name: &str) -> u32 {
    let mut buffer = String::new();
    let stems: Vec<u64> = name
        .split([' ', '-'])
        .map(|word| {
            let key = word_key(word, &mut buffer);
            lexicon.form(key.surface).or(lexicon.form(key.stem)).map_or(key.stem, |form| form.base)
        })
        .collect();
    let number = match stems.as_slice() {
        [stem] => lexicon.word(*stem),
        stems => {
            let found = lexicon.phrase(stems).filter(|found| found.word_count == stems.len());
            found.map_or(0, |found| found.entry)
        }
    };
    assert_ne!(number, 0, "{name}");
    number
}

#[test]
fn the_built_in_lexicon_is_large() {
    let lexicon = Lexicon::load(None).unwrap();
    let lines = lines();
    let members = lines.iter().filter(|line| is_class(line.section)).count();
    let opposed = lines.iter().filter(|line| line.section == "opposites");
    let opposites: usize = opposed.map(|line| names(line.text).len() - 1).sum();
    let same = lines.iter().filter(|line| line.section == "synonyms");
    let synonyms: usize = same.map(|line| names(line.text).len() - 1).sum();
    report(&format!(
        "lexicon: {} entries, {members} class members, {opposites} opposites beyond the first of a line, \
         {synonyms} synonyms beyond the first of a line, {} bytes",
        lexicon.roles.len(),
        BUILT_IN.len()
    ));
    assert!(members + opposites >= 2_000, "{members} members, {opposites} opposites");
}

#[expect(clippy::print_stdout, reason = "measurements are for whoever runs the test")]
fn report(line: &str) {
    println!("{line}");
}

#[test]
fn the_tables_are_those_of_the_text() {
    let built_in = format!("{:?}", Lexicon::load(None).unwrap());
    assert!(built_in == format!("{:?}", Lexicon::load_from(BUILT_IN, None).unwrap()));
    let read = Lexicon { user_meanings: u32::MAX, ..Lexicon::load(Some("# nothing")).unwrap() };
    assert!(built_in == format!("{read:?}"));
    assert!(built_in != format!("{:?}", Lexicon::load(Some("[negators]\nnix")).unwrap()));
}

#[test]
fn each_file_starts_with_a_section_and_ends_with_its_line() {
    for (file, text) in FILES {
        let first = text.lines().find(|line| !line.is_empty() && !line.starts_with('#'));
        assert!(first.unwrap().starts_with('['), "{file}");
        assert!(text.ends_with('\n'), "{file}");
    }
}

#[test]
fn what_means_the_same_excludes_nothing_of_itself() {
    let lexicon = Lexicon::load(None).unwrap();
    let mut faults = Vec::new();
    for line in lines().iter().filter(|line| line.section == "synonyms" || is_class(line.section)) {
        let names = names(line.text);
        for (at, first) in names.iter().enumerate() {
            for second in &names[at + 1..] {
                let conflict = lexicon.conflict(entry(&lexicon, first), entry(&lexicon, second));
                if let Some(conflict) = conflict {
                    faults.push(format!("{}: {first}, {second}: {conflict:?}", line.file));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}:\n{}", faults.len(), faults.join("\n"));
}

#[test]
fn opposites_stand_apart() {
    let lexicon = Lexicon::load(None).unwrap();
    let mut faults = Vec::new();
    for line in lines().iter().filter(|line| line.section == "opposites") {
        let (left, right) = line.text.split_once('|').unwrap();
        for first in names(left) {
            for second in names(right) {
                let (own, theirs) = (entry(&lexicon, first), entry(&lexicon, second));
                if lexicon.may_mean_same(own, theirs) || own == theirs {
                    faults.push(format!("{}: {first} | {second}", line.file));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}:\n{}", faults.len(), faults.join("\n"));
}

/// Roles that turn a statement.
const TURNING: Roles = Roles::NEGATOR.with(Roles::NEGATIVE_VERB);

#[test]
fn what_means_the_same_negates_alike() {
    let lexicon = Lexicon::load(None).unwrap();
    let mut faults = Vec::new();
    for line in lines().iter().filter(|line| line.section == "synonyms") {
        let turning = |name: &&str| lexicon.roles(entry(&lexicon, name)).has(TURNING);
        let names = names(line.text);
        let count = names.iter().filter(|name| turning(name)).count();
        if count != 0 && count != names.len() {
            faults.push(format!("{}: {}", line.file, line.text));
        }
    }
    assert!(faults.is_empty(), "{}:\n{}", faults.len(), faults.join("\n"));
}

/// A phrase takes the place of its words: with `refuse to` known as a phrase, `refuse` is not seen any more.
#[test]
fn phrases_keep_the_negation_of_their_words() {
    let lexicon = Lexicon::load(None).unwrap();
    let mut faults = BTreeSet::new();
    let lists = [
        "forms",
        "past-forms",
        "units",
        "currencies",
        "spelling",
        "abbreviation",
        "compound",
        "hyphen",
    ];
    for line in lines()
        .iter()
        .filter(|line| !lists.contains(&line.section) && !line.section.starts_with("mark "))
    {
        for name in names(line.text).into_iter().filter(|name| name.contains([' ', '-'])) {
            let turning = |word: &str| {
                let stem = word_key(word, &mut String::new()).stem;
                lexicon.roles(lexicon.word(stem)).has(TURNING)
            };
            let roles = lexicon.roles(entry(&lexicon, name));
            let safe = TURNING.with(Roles::DENIAL);
            if name.split([' ', '-']).any(turning) && !roles.has(safe) {
                faults.insert(format!("{}: {name}", line.file));
            }
        }
    }
    let known: BTreeSet<String> =
        NEITHER_NEGATES.iter().map(|(file, name)| format!("{file}: {name}")).collect();
    let faults: Vec<&String> = faults.difference(&known).collect();
    assert!(faults.is_empty(), "{}:\n{faults:#?}", faults.len());
}

/// Phrases with a negating word that negate nothing.
const NEITHER_NEGATES: [(&str, &str); 14] = [
    ("classes/technical.txt", "comic sans"),
    ("classes/technical.txt", "sans serif"),
    ("classes/technical.txt", "full stop"),
    ("classes/technical.txt", "non blocking"),
    ("classes/technical.txt", "stop order"),
    ("grammar.txt", "may or may not"),
    ("grammar.txt", "no doubt"),
    ("grammar.txt", "no matter"),
    ("grammar.txt", "no wonder"),
    ("grammar.txt", "not just"),
    ("grammar.txt", "not only"),
    ("grammar.txt", "or not"),
    ("opposites/technical.txt", "deny all"),
    ("opposites/technical.txt", "non nullable"),
];

/// Words of other languages that English phrases hold.
const FOREIGN_IN_ENGLISH: [&str; 2] = ["sans", "non"];

/// Small words of other languages must not turn English sentences.
#[test]
fn no_language_gives_an_english_word_a_role() {
    let mut buffer = String::new();
    let mut key = |name: &str| word_key(name, &mut buffer).stem;
    let mut english = BTreeSet::new();
    let own = |line: &&Line| !line.file.starts_with("languages/") && line.section != "mark foreign";
    for line in lines().iter().filter(own) {
        let words = line.text.split([',', '|', '=', ' ', '-']).map(str::trim);
        english.extend(words.filter(|word| !FOREIGN_IN_ENGLISH.contains(word)).map(&mut key));
    }
    let lists = |line: &Line| !is_class(line.section) && line.section != "opposites";
    for line in lines().iter().filter(|line| line.file.starts_with("languages/") && lists(line)) {
        for name in names(line.text) {
            assert!(!english.contains(&key(name)), "{}: {name}", line.file);
        }
    }
}

#[test]
fn errors_name_the_line() {
    for (text, line, expected) in [
        ("[synonims]\n", 1, "a known section"),
        ("a, b\n", 1, "a section before the first entry"),
        ("# x\n[opposites]\non, off\n", 3, "two sides apart by `|`"),
        ("[synonyms]\nalone\n", 2, "two or more words apart by commas"),
        ("[exclusive]\n", 1, "a name behind the section"),
        ("[forms]\nx\n", 2, "`base = forms`"),
        ("[synonyms]\na b c d e, f\n", 2, "at most 4 words in a phrase"),
    ] {
        let error = Lexicon::load(Some(text)).unwrap_err();
        assert_eq!((error.line, error.expected), (line, expected), "{text}");
        assert!(error.hint().is_some());
    }
    // A path may lead to a private key: errors never quote the file.
    let error =
        Lexicon::load(Some("[synonyms]\ncar, auto\nhunter2 is the password\n")).unwrap_err();
    assert_eq!(
        error.to_string(),
        "line 3 of the lexicon: expected two or more words apart by commas"
    );
    assert!(!error.hint().unwrap().contains("hunter2"));
    let error = Lexicon::load(Some("[synonims]")).unwrap_err();
    assert!(error.hint().unwrap().contains("did you mean `[synonyms]`"), "{:?}", error.hint());
}

#[test]
fn marks_and_spellings_are_known_as_written() {
    let lexicon = Lexicon::load(None).unwrap();
    let mut buffer = String::new();
    let mut surface = |word: &str| word_key(word, &mut buffer).surface;
    for line in lines().iter().filter(|line| line.file == "words.txt") {
        if let Some(name) = line.section.strip_prefix("mark ") {
            let (_, mark) = Marks::NAMES.iter().find(|(known, _)| *known == name).unwrap();
            assert!(
                names(line.text)
                    .iter()
                    .filter(|name| !name.is_empty())
                    .all(|word| lexicon.marks(surface(word)).has(*mark)),
                "{}",
                line.text
            );
        } else if let Some((short, full)) = line.text.split_once(" = ") {
            assert_eq!(
                lexicon.canonical(surface(short)).unwrap().surface,
                surface(full),
                "{}",
                line.text
            );
        }
    }
    assert!(!lexicon.marks(surface("is")).has(Marks::CAPITAL));
    assert!(lexicon.canonical(surface("zebra")).is_none());
}
