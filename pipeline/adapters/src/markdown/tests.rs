//! The store on disk: reading, writing and crashes.

use proptest::prelude::*;

use super::*;
use crate::testing::{at_every_change, create, dying, image, put, records, undo, unit, update};
use memfold_store::origin::OriginChange;

/// A store on disk, and the place of its removed texts.
struct Fixture {
    folder: tempfile::TempDir,
    path: PathBuf,
}

impl Fixture {
    fn new(files: &[(&str, &str)]) -> Self {
        let folder = tempfile::tempdir().unwrap();
        put(&folder.path().join("store"), files.iter().copied());
        Self { path: folder.path().join("store"), folder }
    }

    /// A copy of a folder or a file of `tests/data/markdown`.
    fn of_data(name: &str) -> Self {
        let data =
            Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/data/markdown").join(name);
        let mut fixture = Self::new(&[]);
        if data.is_file() {
            fixture.path.push(name);
        }
        let text = |path: &str| if path.is_empty() { name.to_owned() } else { path.to_owned() };
        put(&fixture.store(), image(&data).into_iter().map(|(path, bytes)| (text(&path), bytes)));
        fixture
    }

    fn store(&self) -> PathBuf {
        self.folder.path().join("store")
    }

    fn removed(&self) -> PathBuf {
        self.folder.path().join("state/removed.json")
    }

    fn open(&self) -> MarkdownMemories {
        let mut store = MarkdownMemories::open(&self.path).unwrap();
        store.keep_removed_in(&self.removed());
        store
    }

    fn records(&self) -> Vec<OriginRecord> {
        self.open().read().unwrap().records
    }

    fn live(&self) -> Vec<OriginRecord> {
        let records = self.records().into_iter();
        records.filter(|record| record.status == OriginStatus::Live).collect()
    }

    fn texts(&self) -> Vec<String> {
        self.live().into_iter().map(|record| record.text).collect()
    }

    /// The files of the store.
    fn image(&self) -> crate::testing::Files {
        image(&self.store())
    }

    fn edit(&self, path: &str, edit: impl FnOnce(String) -> String) {
        let path = self.store().join(path);
        let text = fs::read_to_string(&path).unwrap_or_default();
        fs::write(path, edit(text)).unwrap();
    }

    fn write(&self, changes: Vec<OriginChange>) -> Published {
        self.open().write(&[unit(changes)]).unwrap()
    }
}

fn retire(record: &OriginRecord, into: Option<&OriginRecord>) -> OriginChange {
    crate::testing::retire(record, into.map(|into| &*into.id))
}

fn restore(record: &OriginRecord) -> OriginChange {
    OriginChange::Restore { before: Some(record.digest()), record: Box::new(record.clone()) }
}

fn attribute<'a>(record: &'a OriginRecord, name: &str) -> &'a str {
    crate::shared::attribute(record, name).unwrap_or_default()
}

const FORMS: [(&str, usize); 7] = [
    ("topics", 4),
    ("project", 8),
    ("days", 10),
    ("section_signs", 6),
    ("letta", 6),
    ("dashes.md", 4),
    ("windows.md", 4),
];

#[test]
fn every_form_is_recognised_and_read_whole() {
    for (name, count) in FORMS {
        let fixture = Fixture::of_data(name);
        assert!(is_one(&fixture.path), "{name}");
        let contents = fixture.open().read().unwrap();
        assert_eq!(contents.records.len(), count, "{name}: {:#?}", fixture.texts());
        assert_eq!(contents.skipped, [], "{name}");
        let ids: BTreeSet<&str> = contents.records.iter().map(|record| &*record.id).collect();
        assert_eq!(ids.len(), count, "{name}");
        assert_eq!(fixture.open().read().unwrap(), contents, "{name}");
    }
    let notes = Fixture::new(&[
        ("README.md", "# Notes\n"),
        ("patterns.md", "- Use tabs\n"),
        ("plan.png", ""),
        ("deploy.md", "Deploys run on Friday.\n"),
    ]);
    assert!(is_one(&notes.path), "most of its files are Markdown");
    assert_eq!(notes.live().len(), 2);
    let program =
        [("README.md", "# A program\n"), ("NOTES.md", "- x\n"), ("Cargo.toml", ""), ("a.c", "")];
    for files in [&program[..1], &program[1..], &program] {
        assert!(!is_one(&Fixture::new(files).path), "a folder of a program: {files:?}");
    }
}

#[test]
fn fields_times_sections_and_protection_are_read() {
    let topics = Fixture::of_data("topics").live();
    let freeze = topics.iter().find(|record| record.id == "project_freeze.md").unwrap();
    assert_eq!(freeze.created_at.as_deref(), Some("2026-02-27T00:00:00Z"));
    assert_eq!(attribute(freeze, "type"), "project");
    let days = Fixture::of_data("days").live();
    let tea: Vec<_> = days.iter().filter(|record| record.text.starts_with("Prefers tea")).collect();
    assert_eq!(
        (tea[0].created_at.as_deref(), attribute(tea[0], "section")),
        (None, "Long-term memory/Preferences")
    );
    assert_eq!(tea[1].created_at.as_deref(), Some("2026-05-01T00:00:00Z"));
    assert!(tea.iter().all(|record| attribute(record, "topic").is_empty()), "{tea:#?}");
    let project = Fixture::of_data("project").live();
    let protected = project.iter().filter(|record| record.tags.contains(&"protected".to_owned()));
    assert_eq!(
        protected.map(|record| &*record.text).collect::<Vec<_>>(),
        ["Never delete the file `db/seed.sql`"]
    );
    let letta = Fixture::of_data("letta").live();
    let persona = letta.iter().find(|record| record.text.starts_with("I am")).unwrap();
    assert_eq!(persona.tags, ["protected"], "read_only");
    let apart =
        Fixture::new(&[("MEMORY.md", "# Staging\n- Port 8080\n\n# Production\n- Port 8080\n")])
            .live();
    assert_eq!(
        [attribute(&apart[0], "topic"), attribute(&apart[1], "topic")],
        ["staging", "production"]
    );
}

#[test]
fn all_that_is_taken_out_returns_in_every_form() {
    for (name, count) in FORMS {
        let fixture = Fixture::of_data(name);
        let (before, live) = (fixture.image(), fixture.live());
        let units: Vec<_> = live.iter().map(|record| unit(vec![retire(record, None)])).collect();
        let published = fixture.open().write(&units).unwrap();
        assert_eq!(published.conflicts, [], "{name}");
        assert_eq!(fixture.live().len(), 0, "{name}: {:#?}", fixture.image());
        assert_eq!(fixture.records().len(), count, "{name}");
        let after = fixture.image();
        assert_eq!(
            fixture.open().write(&units).unwrap().units.len(),
            count,
            "{name}: written already"
        );
        assert_eq!(fixture.image(), after, "{name}");
        let back: Vec<_> = live.iter().map(|record| unit(vec![restore(record)])).collect();
        assert_eq!(fixture.open().write(&back).unwrap().conflicts, [], "{name}");
        assert_eq!(fixture.image(), before, "{name}");
        assert_eq!(fixture.live(), live, "{name}");
    }
}

#[test]
fn what_others_changed_is_a_conflict_and_left_alone() {
    let fixture =
        Fixture::new(&[("MEMORY.md", "- a\n- b\n- c\n"), ("t.md", "---\nname: t\n---\nText.\n")]);
    let live = fixture.live();
    fixture.edit("MEMORY.md", |text| text.replace("- b\n", "- b, changed\n"));
    fixture.edit("t.md", |text| text + "More.\n");
    let before = fixture.image();
    let units = [
        unit(vec![retire(&live[1], None), retire(&live[2], None)]),
        unit(vec![retire(&live[3], None)]),
    ];
    let published = fixture.open().write(&units).unwrap();
    let reasons: Vec<&str> = published.conflicts.iter().map(|conflict| &*conflict.reason).collect();
    assert_eq!(reasons, ["it is not in its file any more", "it was changed"]);
    assert_eq!(fixture.image(), before);
    assert_eq!(fixture.write(vec![retire(&live[2], None)]).conflicts, []);
    fixture.edit("MEMORY.md", |text| text + "- d\n");
    assert_eq!(fixture.write(vec![restore(&live[2])]).conflicts, []);
    assert_eq!(fixture.image()["MEMORY.md"], "- a\n- b, changed\n- c\n- d\n");
}

#[test]
fn equal_bullets_keep_their_ids_when_one_goes() {
    let fixture = Fixture::new(&[("MEMORY.md", "- a\n- b\n- a\n- a\n")]);
    let live = fixture.live();
    assert!(live[2].id.ends_with("#2") && live[3].id.ends_with("#3"), "{live:?}");
    assert_eq!(
        fixture
            .write(vec![retire(&live[0], Some(&live[3])), retire(&live[2], Some(&live[3]))])
            .conflicts,
        []
    );
    assert_eq!(fixture.image()["MEMORY.md"], "- b\n- a\n");
    assert_eq!(fixture.live()[1].id, live[3].id);
    assert_eq!(fixture.write(vec![restore(&live[2])]).conflicts, []);
    assert_eq!(
        fixture.live().iter().map(|r| &*r.id).collect::<Vec<_>>(),
        [&*live[1].id, &*live[2].id, &*live[3].id]
    );
}

#[test]
fn texts_are_written_in_their_form_and_taken_back() {
    for (text, expected) in [
        ("# M\n\n## A\n- a\n", "# M\n\n## A\n- a\n\n## Notes\n\n- New\n  and more\n"),
        ("- a\n", "- a\n- New\n  and more\n"),
        ("Text", "Text\n\n- New\n  and more\n"),
        ("a\r\n§\r\nb", "a\r\n§\r\nb\r\n§\r\nNew\r\nand more"),
        ("", "- New\n  and more\n"),
    ] {
        let fixture = Fixture::new(&[("MEMORY.md", text)]);
        let before = fixture.image();
        assert_eq!(fixture.write(vec![create("mem_1", "New\nand more")]).conflicts, [], "{text:?}");
        assert_eq!(fixture.image()["MEMORY.md"], expected, "{text:?}");
        let written = fixture.live().pop().unwrap();
        assert_eq!((&*written.id, &*written.text), ("mem_1", "New\nand more"));
        let remove = OriginChange::Remove { before: Some(written.digest()), id: written.id };
        assert_eq!(fixture.write(vec![remove]).conflicts, []);
        assert_eq!(fixture.image(), before, "{text:?}");
        assert!(fixture.image()["MEMORY.md"] == text);
    }
    let fixture =
        Fixture::new(&[("MEMORY.md", "- a\r\n1. Old text\r\n   of two lines\r\n- c\r\n")]);
    let before = fixture.live().remove(1);
    let after = OriginRecord { text: "New text\nof lines".into(), ..before.clone() };
    let update = update(&before, after, &[]);
    assert_eq!(fixture.write(vec![update.clone()]).conflicts, []);
    assert_eq!(fixture.image()["MEMORY.md"], "- a\r\n1. New text\r\n   of lines\r\n- c\r\n");
    assert_eq!(fixture.live()[1].id, before.id);
    assert_eq!(fixture.write(vec![update]).conflicts, [], "written already");
    let back = OriginChange::Restore {
        before: Some(fixture.live()[1].digest()),
        record: Box::new(before.clone()),
    };
    assert_eq!(fixture.write(vec![back]).conflicts, []);
    assert_eq!(fixture.live()[1], before);
    assert!(
        fixture.write(vec![create("mem_2", "[x](x.md)")]).conflicts[0]
            .reason
            .contains("read otherwise")
    );
}

/// A list that a sentence ends would be read as one text without the bullet between them.
#[test]
fn what_would_join_its_neighbours_stays() {
    let fixture = Fixture::new(&[("MEMORY.md", "# A\nText:\n- a\n---\n- b\n")]);
    let live = fixture.live();
    let units = [unit(vec![retire(&live[0], None)]), unit(vec![retire(&live[1], None)])];
    let published = fixture.open().write(&units).unwrap();
    assert_eq!(published.units.len() + published.conflicts.len(), 2);
    assert!(published.units.contains(&1), "{published:?}");
    let left: Vec<String> = fixture.texts();
    assert!(left.len() < 2, "{left:?}");
}

#[cfg(unix)]
#[test]
fn modes_stay_and_links_are_not_followed() {
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    let fixture =
        Fixture::new(&[("MEMORY.md", "- a\n- a\n"), ("t.md", "---\nname: t\n---\nText.\n")]);
    let outside = fixture.folder.path().join("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("secret.md"), "- secret\n").unwrap();
    for (link, target) in
        [("out.md", "../outside/secret.md"), ("far", "../outside"), ("archive", "../outside")]
    {
        symlink(target, fixture.path.join(link)).unwrap();
    }
    fs::write(fixture.path.join("bytes.md"), b"- \xff\xfe\n").unwrap();
    fs::File::create(fixture.path.join("huge.md")).unwrap().set_len((16 << 20) + 1).unwrap();
    for name in ["MEMORY.md", "t.md"] {
        fs::set_permissions(fixture.path.join(name), fs::Permissions::from_mode(0o640)).unwrap();
    }
    let contents = fixture.open().read().unwrap();
    let skipped: Vec<&str> = contents.skipped.iter().map(|skipped| &*skipped.place).collect();
    assert_eq!(skipped, ["bytes.md", "far", "huge.md", "out.md"]);
    assert_eq!(contents.records.len(), 3);
    let refused = fixture.open().write(&[unit(vec![retire(&contents.records[2], None)])]);
    assert!(
        refused.unwrap_err().to_string().contains("enter"),
        "the archive leads out of the folder"
    );
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    fs::remove_file(fixture.path.join("archive")).unwrap();
    let live = fixture.live();
    assert_eq!(
        fixture.write(vec![retire(&live[0], Some(&live[1])), retire(&live[2], None)]).conflicts,
        []
    );
    let mode =
        |name: &str| fixture.path.join(name).metadata().unwrap().permissions().mode() & 0o777;
    assert_eq!([mode("MEMORY.md"), mode("archive/t.md")], [0o640, 0o640]);
    assert_eq!(fixture.removed().metadata().unwrap().permissions().mode() & 0o777, 0o600);
    assert_eq!(fixture.write(vec![restore(&live[2])]).conflicts, []);
    assert_eq!(mode("t.md"), 0o640);
}

/// Two processes with the same removed texts, and one that appends as agents do.
#[test]
fn two_programs_write_at_once() {
    let bullets = |name: &str| (0..40).map(|n| format!("- {name} {n}\n")).collect::<String>();
    let fixture = Fixture::new(&[("MEMORY.md", &(bullets("one") + &bullets("two")))]);
    let (before, live) = (fixture.image(), fixture.live());
    std::thread::scope(|threads| {
        for half in [&live[..40], &live[40..]] {
            let fixture = &fixture;
            threads.spawn(move || {
                for record in half {
                    assert_eq!(fixture.write(vec![retire(record, None)]).conflicts, []);
                }
            });
        }
    });
    assert_eq!(fixture.live().len(), 0);
    let back = live.iter().map(restore).collect();
    assert_eq!(fixture.write(back).conflicts, []);
    assert_eq!(fixture.image(), before);
}

/// A folder with everything that is written: bullets of two files, a whole file with its link, a new text, another one.
fn scene() -> (Fixture, Vec<OriginUnit>, Vec<OriginRecord>) {
    let fixture = Fixture::of_data("topics");
    fixture.edit("MEMORY.md", |text| text + "\n## Facts\n- One\n- Two\n- One\n");
    fixture.edit("notes.md", |_| "# Notes\r\n- One\r\n\r\n## Last\r\n- Three".to_owned());
    let live = fixture.live();
    let find =
        |text: &str, at: usize| live.iter().filter(|record| record.text == text).nth(at).unwrap();
    let [database, testing] = ["feedback_database.md", "feedback_testing.md"]
        .map(|id| live.iter().find(|record| record.id == id).unwrap());
    let two = find("Two", 0);
    let after = OriginRecord { text: "Two and more".into(), ..two.clone() };
    let update = update(two, after, &[]);
    let units = vec![
        unit(vec![
            retire(find("One", 1), Some(find("One", 0))),
            retire(find("One", 2), Some(find("One", 0))),
        ]),
        unit(vec![retire(database, Some(testing))]),
        unit(vec![create("mem_1", "Four"), update, retire(find("Three", 0), None)]),
    ];
    (fixture, units, live)
}

/// Kills the writing of units at a change, and writes them again.
fn killed(fixture: &Fixture, units: &[OriginUnit], left: usize, is_after: bool) -> bool {
    let mut store = fixture.open();
    let ids: BTreeSet<String> = fixture.records().into_iter().map(|record| record.id).collect();
    store.layer = dying(left, is_after);
    let died = store.write(units).is_err();
    let now: BTreeSet<String> = fixture.records().into_iter().map(|record| record.id).collect();
    let lost: Vec<&String> = ids.difference(&now).filter(|id| *id != "mem_1").collect();
    assert!(lost.is_empty(), "lost after {left} changes: {lost:?}");
    let published = fixture.open().write(units).unwrap();
    assert_eq!(published.conflicts, [], "after {left} changes");
    died
}

fn undoing(fixture: &Fixture, live: &[OriginRecord]) -> Vec<OriginUnit> {
    let now = records(&fixture.open());
    vec![unit(undo(&now, &live.iter().collect::<Vec<_>>(), &["mem_1"]))]
}

#[test]
fn a_crash_at_any_change_is_mended_by_writing_again() {
    let (undisturbed, units, _) = scene();
    let before = undisturbed.image();
    assert_eq!(undisturbed.open().write(&units).unwrap().conflicts, []);
    let done = undisturbed.image();
    let expected_ledger = fs::read_to_string(undisturbed.removed()).unwrap();
    let kills = at_every_change(|left, is_after| {
        let (fixture, units, live) = scene();
        let died = killed(&fixture, &units, left, is_after);
        assert_eq!(fixture.image(), done, "after {left} changes");
        assert_eq!(fs::read_to_string(fixture.removed()).unwrap(), expected_ledger);
        killed(&fixture, &undoing(&fixture, &live), left, is_after);
        assert_eq!(fixture.image(), before, "undone after {left} changes");
        died
    });
    assert!(kills >= 12, "{kills}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Kills at any change of any units of a form lose nothing.
    #[test]
    fn random_crashes_lose_nothing(
        form in 0..5_usize,
        chosen in prop::collection::vec(any::<bool>(), 16),
        kills in [(1..10_usize, any::<bool>()), (1..10_usize, any::<bool>())],
    ) {
        let fixture = Fixture::of_data(FORMS[form].0);
        let (before, live) = (fixture.image(), fixture.live());
        let chosen: Vec<_> = live.iter().zip(chosen).filter(|(_, is_chosen)| *is_chosen).map(|(record, _)| record).collect();
        let units: Vec<_> = chosen.iter().map(|record| unit(vec![retire(record, None)])).collect();
        killed(&fixture, &units, kills[0].0, kills[0].1);
        prop_assert_eq!(fixture.live().len(), live.len() - chosen.len());
        let back: Vec<_> = chosen.iter().map(|record| unit(vec![restore(record)])).collect();
        killed(&fixture, &back, kills[1].0, kills[1].1);
        prop_assert_eq!(fixture.image(), before);
    }

    /// Arbitrary texts: nothing panics, and removed memories return.
    #[test]
    fn arbitrary_texts_are_read_written_and_taken_back(text in "(?s).{0,200}", lines in prop::collection::vec("[-#*|§ a`:\\n\\r]{0,8}", 0..20)) {
        let fixture = Fixture::new(&[("MEMORY.md", &text), ("b.md", &lines.join("\n"))]);
        let (before, live) = (fixture.image(), fixture.live());
        let units: Vec<_> = live.iter().map(|record| unit(vec![retire(record, None)])).collect();
        let published = fixture.open().write(&units).unwrap();
        prop_assert_eq!(published.units.len() + published.conflicts.len(), units.len());
        let back = live.iter().map(restore).collect();
        prop_assert_eq!(fixture.write(back).conflicts, vec![]);
        prop_assert_eq!(fixture.image(), before);
    }
}

#[test]
fn titles_that_name_a_subject_keep_memories_apart() {
    let subject = |path: &str, titles: &[&str]| {
        let titles: Vec<String> = titles.iter().map(|title| (*title).to_owned()).collect();
        subject(path, &titles).join("/")
    };
    assert_eq!(subject("MEMORY.md", &["Memory", "Key facts"]), "");
    assert_eq!(subject("memory/2026-11-28.md", &["2026-11-28", "09:15", "Session 3"]), "");
    assert_eq!(subject("MEMORY.md", &["Staging"]), "staging");
    assert_eq!(subject("projects/Kiln/notes.md", &["Rules"]), "projects/kiln");
    assert_eq!(subject("daily/3rd March.md", &["10am"]), "");
    assert_eq!(subject("USER.md", &[]), "user");
}

#[test]
fn front_matter_is_fields() {
    let text = "---\nname: testing\ndescription: No mocks\ntags: [a, b]\ncreated: 2026-05-01\nmetadata:\n  type: \
                feedback\n  originSessionId: 123\n---\nUse a real database.\n";
    let found = front("feedback_testing.md", text, false).unwrap();
    assert!(found.is_topic);
    assert_eq!(found.tags, ["a", "b"]);
    assert_eq!(found.created_at.as_deref(), Some("2026-05-01T00:00:00Z"));
    assert_eq!(
        found.attributes.into_iter().collect::<Vec<_>>(),
        [("type".into(), "feedback".into())]
    );
    let block =
        front("system/human.md", "---\ndescription: The user\nlimit: 5000\n---\nx\n", false)
            .unwrap();
    assert!(!block.is_topic);
    assert!(front("a.md", "---\na: [\n---\n", false).is_err());
    assert!(
        !front("CLAUDE.md", text, true).unwrap().is_topic,
        "a file by itself is read by its bullets"
    );
}
