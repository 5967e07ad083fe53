//! Memories in Markdown: every form from the dry run to the undo, and every command on one.

use std::collections::BTreeMap;
use std::path::Path;

use memfold_tests::PATIENT;

use crate::support::{TestFolder, copy};

const NOW: [&str; 2] = ["--now", "2026-11-28T12:00:00Z"];

/// Copies a folder or a file of `tests/data/markdown`; returns the name of the store.
fn copied<'a>(dir: &TestFolder, name: &'a str) -> &'a str {
    let data = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/markdown").join(name);
    copy(&data, &dir.path(name));
    name
}

/// The files of the place with their texts.
fn files(dir: &TestFolder) -> BTreeMap<String, String> {
    let named = dir.files().into_iter().map(|(path, bytes)| {
        let path = path.strip_prefix(dir.folder()).unwrap().to_string_lossy().into_owned();
        (path, String::from_utf8_lossy(&bytes).into_owned())
    });
    named.collect()
}

fn merges(dir: &TestFolder, store: &str) -> u64 {
    let report = dir.json(&[&["consolidate", store, "--json"][..], &NOW].concat());
    report["planned"]["merge"].as_u64().unwrap()
}

fn execute(dir: &TestFolder, store: &str) -> String {
    let words = ["consolidate", store, "--execute", "--max-change-share", "1"];
    let answer = dir.run(&[&words[..], &NOW].concat());
    assert_eq!(answer.code, Some(0), "{answer:?}");
    answer.err
}

/// Lines that a run took out of a file, in their alphabetical order.
fn taken_out(before: &str, after: &str) -> Vec<String> {
    let mut left: Vec<&str> = after.split('\n').collect();
    let gone =
        before.split('\n').filter(|line| match left.iter().position(|other| other == line) {
            Some(at) => {
                left.remove(at);
                false
            }
            None => true,
        });
    let mut gone: Vec<String> = gone.map(str::to_owned).collect();
    gone.sort_unstable();
    gone
}

/// A store of `tests/data/markdown`, and the effects of a run on it.
struct Form {
    store: &'static str,
    merges: u64,
    gone: &'static [Gone],
}

/// Lines that leave a file.
struct Gone {
    file: &'static str,
    lines: &'static [&'static str],
}

const FORMS: [Form; 7] = [
    Form {
        store: "topics",
        merges: 1,
        gone: &[Gone {
            file: "topics/MEMORY.md",
            lines: &[
                "- [Test against a real database](feedback_database.md) — mocks hid a broken migration",
            ],
        }],
    },
    Form {
        store: "project",
        merges: 2,
        gone: &[
            Gone {
                file: "project/AGENTS.md",
                lines: &["- Write commit messages in the imperative"],
            },
            Gone {
                file: "project/CLAUDE.md",
                lines: &[
                    "- Use tabs in Makefiles and spaces elsewhere",
                    "- Write commit messages in the imperative",
                ],
            },
        ],
    },
    Form {
        store: "days",
        merges: 1,
        gone: &[Gone {
            file: "days/memory/2026-05-01.md",
            lines: &["- The invoice of April was paid"],
        }],
    },
    Form {
        store: "section_signs",
        merges: 1,
        gone: &[Gone {
            file: "section_signs/MEMORY.md",
            lines: &["The project is a web service in ~/code/api with Axum", "§"],
        }],
    },
    Form {
        store: "letta",
        merges: 2,
        gone: &[
            Gone { file: "letta/reference/notes.md", lines: &["The build takes eleven minutes."] },
            Gone { file: "letta/system/human.md", lines: &["- Kim leads the platform team"] },
        ],
    },
    Form {
        store: "dashes.md",
        merges: 1,
        gone: &[Gone { file: "dashes.md", lines: &["", "", "---", "The cat is called Tom."] }],
    },
    Form {
        store: "windows.md",
        merges: 2,
        gone: &[Gone {
            file: "windows.md",
            lines: &[
                "\t- since May\r",
                "-\tThe disk is full at 90 percent\r",
                "-\tThe server listens on port 8080\r",
            ],
        }],
    },
];

#[test]
fn every_form_is_merged_and_restored_byte_for_byte() {
    for Form { store: name, merges: count, gone: lines } in FORMS {
        let dir = TestFolder::new();
        let store = copied(&dir, name);
        let before = files(&dir);
        assert_eq!(merges(&dir, store), count, "{name}");
        assert_eq!(files(&dir), before, "{name}: a dry run leaves every byte");

        let told = execute(&dir, store);
        assert!(told.contains(&format!("to {store}: ")), "{told}");
        let after = files(&dir);
        let mut gone: Vec<(String, Vec<String>)> = Vec::new();
        for (path, text) in &before {
            // A file that is one memory moves as it is.
            let Some(left) = after.get(path) else {
                let moved = path.replacen('/', "/archive/", 1);
                assert_eq!(after[&moved], *text);
                continue;
            };
            let out = taken_out(text, left);
            if !out.is_empty() {
                gone.push((path.clone(), out));
            }
        }
        let expected = lines.iter().map(|gone| {
            let lines = gone.lines.iter().map(|line| (*line).to_owned()).collect();
            (gone.file.to_owned(), lines)
        });
        assert_eq!(gone, expected.collect::<Vec<_>>(), "{name}");

        assert_eq!(merges(&dir, store), 0, "{name}: a second run plans nothing");
        let _ = execute(&dir, store);
        assert_eq!(files(&dir), after, "{name}");
        let undone = dir.run(&["undo", store, "latest", "--execute"]);
        assert_eq!(undone.code, Some(0), "{name}: {undone:?}");
        assert_eq!(files(&dir), before, "{name}: the bytes that there were");
        assert_eq!(merges(&dir, store), 0, "{name}: what was undone stays undone");
    }
}

#[test]
fn every_command_works_on_a_file() {
    let dir = TestFolder::new();
    let store = copied(&dir, "windows.md");
    let before = files(&dir);
    for (words, expected) in [
        (&["status", store][..], "4 live"),
        (&["recall", store, "port of the server"], "8080"),
        (
            &["check", store, "--text", "The disk is full at 90 percent", "--set", PATIENT],
            "touch: the same text as",
        ),
    ] {
        let answer = dir.run(words);
        assert_eq!(answer.code, Some(0), "{words:?}: {answer:?}");
        assert!(answer.out.contains(expected), "{words:?}: {answer:?}");
    }
    dir.succeed(&["consolidate", store, "--save-plan"]);
    assert_eq!(files(&dir), before);
    let doctor = dir.run(&["doctor", store]).err;
    assert!(doctor.contains("windows.md is of kind markdown: 4 records, 4 live"), "{doctor}");
    let _ = execute(&dir, store);
    let doctor = dir.run(&["doctor", store]);
    assert!(!doctor.out.contains("sql:"), "{}", doctor.out);
    let doctor = doctor.err;
    assert!(doctor.contains("has the only copy of removed texts"), "{doctor}");
    let found = dir.succeed(&["recall", store, "port of the server"]);
    assert!(found.contains("8080"), "{found}");
    let forget = dir.run(&["forget", store, "x", "--execute"]);
    forget.fails_with(2, &["memories of a markdown store are not forgotten", "removed.json"]);
    dir.succeed(&["save", store, "--text", "The backup runs at noon"]);
    let text = &files(&dir)["windows.md"];
    assert!(text.ends_with("- The backup runs at noon\r\n"), "{text:?}");
    let again = ["save", store, "--text", "The backup runs at noon", "--set", PATIENT];
    let known = dir.succeed(&again);
    assert!(known.starts_with("known already"), "{known}");
}

#[test]
fn proposals_are_reviewed_and_listed_until_a_file_fits() {
    let dir = TestFolder::new();
    let text = concat!(
        "# Memory\n\n## Notes\n",
        "- The nightly backup of the database runs on the server at 02:00\n",
        "- On the server, the nightly backup of the database runs at 02:00 sharp\n",
        "- Kim prefers short answers without a summary at the end\n",
        "- Kim prefers short answers and no summary at the end of them\n",
        "- The garden needs water in July\n",
        "- The garden needs water in July\n",
    );
    dir.write("MEMORY.md", text);
    let budget = |chars: &str| dir.run(&["consolidate", "MEMORY.md", "--budget", chars]).err;
    let all = text.chars().count();
    let left = all - "- The garden needs water in July\n".len();
    let fits = budget(&left.to_string());
    assert!(
        fits.contains(&format!("{left} characters after the merges, {left} allowed: it fits")),
        "{fits}"
    );
    let one = budget(&(left - 1).to_string());
    assert!(one.contains("these proposals would save most"), "{one}");
    assert_eq!(one.matches(" characters: ").count(), 1, "{one}");
    let none = budget("10");
    assert!(none.contains("nothing else is near enough to merge"), "{none}");
    assert_eq!(none.matches(" characters: ").count(), 2, "{none}");
    assert_eq!(files(&dir)["MEMORY.md"], text, "it is never cut");
    let refused = dir.run("consolidate . --budget 10");
    refused.fails_with(2, &["--budget is for one Markdown file"]);

    dir.succeed("consolidate MEMORY.md --save-plan");
    dir.succeed("review MEMORY.md latest a2 --approve");
    dir.succeed("apply MEMORY.md latest --execute");
    assert_eq!(taken_out(text, &files(&dir)["MEMORY.md"]).len(), 1, "{}", files(&dir)["MEMORY.md"]);
    dir.succeed("undo MEMORY.md latest --execute");
    assert_eq!(files(&dir)["MEMORY.md"], text);
}

/// Two memories below titles that name two things are two facts, even with the same text.
#[test]
fn memories_of_two_subjects_never_merge_and_headings_protect() {
    let dir = TestFolder::new();
    dir.write(
        "MEMORY.md",
        "# Staging\n- Port 8080\n\n# Production\n- Port 8080\n\n# Rules\n- Be brief\n- Be brief\n",
    );
    assert_eq!(merges(&dir, "MEMORY.md"), 1);
    dir.write(
        "memfold.yaml",
        "protection:\n  categories: [protected, permanent, pinned, \"section:Rules\"]\n",
    );
    assert_eq!(merges(&dir, "MEMORY.md"), 0);
}

/// A clone of a repository may bring `.memfold` as a link.
#[cfg(unix)]
#[test]
fn a_hostile_folder_is_read_without_its_links() {
    let dir = TestFolder::new();
    let store = copied(&dir, "days");
    std::fs::create_dir(dir.path("victim")).unwrap();
    dir.write("victim/secret.md", "- A secret\n");
    for link in [".memfold", "memory/out", "reports", "archive"] {
        std::os::unix::fs::symlink(dir.path("victim"), dir.path(store).join(link)).unwrap();
    }
    std::os::unix::fs::symlink(dir.path("victim/secret.md"), dir.path(store).join("memory/s.md"))
        .unwrap();
    dir.write("days/memory/bytes.md", b"- \xff\n");
    let doctor = dir.run(&["doctor", store]).err;
    for part in [
        "memory/bytes.md: it is not UTF-8",
        "memory/out: it is a link",
        "memory/s.md: it is a link",
    ] {
        assert!(doctor.contains(part), "{part}: {doctor}");
    }
    let _ = execute(&dir, store);
    let _ = dir.succeed(&["undo", store, "latest", "--execute"]);
    assert_eq!(std::fs::read_dir(dir.path("victim")).unwrap().count(), 1);
    assert_eq!(dir.read("victim/secret.md"), "- A secret\n");
}

/// The built-in embedding knows English: by its vectors, sentences of other scripts are all near.
#[test]
fn texts_of_other_scripts_are_not_compared_by_words() {
    let dir = TestFolder::new();
    let twice = "- 数据检索需要优先依赖本地文本索引。\n";
    dir.write(
        "MEMORY.md",
        format!("# 记忆\n\n{twice}- 机器直连外网不稳定，外部请求需要走代理。\n{twice}"),
    );
    let found = dir.json(&[&["consolidate", "MEMORY.md", "--json"][..], &NOW].concat());
    let planned = &found["planned"];
    assert_eq!((planned["merge"].as_u64(), planned["propose_merge"].as_u64()), (Some(1), Some(0)));
    assert!(found["notes"].to_string().contains("3 memories have no vector"), "{found}");
}
