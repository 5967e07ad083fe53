//! The rules of memory folders in JSON files (`profile: hivemind`), each with its exclusions.

use memfold::execute::UndoTarget;
use memfold_core::memory::MemoryId;
use memfold_core::plan::{Action, ActionType};
use memfold_core::time::Instant;
use memfold_tests::{
    PlainMemory, Run, StoreStyle, TestStore, assert_same, memory, merges, store_now, unit_vector,
};

/// A memory of an agent, `age_days` old, with attributes and tags.
fn row(id: &str, content: &str, age_days: i64, categories: &[&str]) -> PlainMemory {
    let created = Instant(store_now().0 - age_days * 86_400_000_000);
    let mut row = PlainMemory::new(id, content, created.to_rfc3339());
    row.categories = categories.iter().map(ToString::to_string).collect();
    row.access_count = 3;
    row
}

const SKILL: [&str; 6] = [
    "type:procedural",
    "subtype:workflow",
    "scope:agent",
    "scope_id:DEV-001",
    "created_by:DEV-001",
    "deploy",
];

fn with<'c>(categories: &[&'c str], from: &str, to: &'c str) -> Vec<&'c str> {
    let replaced = categories.iter().map(|category| if *category == from { to } else { category });
    replaced.collect()
}

fn db(rows: &[PlainMemory]) -> TestStore {
    let db = TestStore::of(rows, StoreStyle::Plain).set("profile=hivemind");
    // All were read today.
    let today = store_now().to_rfc3339();
    db.sql(&format!(
        "ALTER TABLE stm ADD COLUMN last_accessed TEXT; UPDATE stm SET last_accessed = '{today}'"
    ));
    db
}

fn of_type(db: &TestStore, wanted: ActionType) -> Vec<Action> {
    let actions = db.plan().plan.actions;
    actions.into_iter().filter(|action| action.action == wanted).collect()
}

fn ids(actions: &[Action]) -> Vec<&str> {
    actions.iter().flat_map(|action| &action.target_ids).map(MemoryId::as_str).collect()
}

/// Two memories that say the same, each near to the other.
fn pair(older: &[&str], newer: &[&str]) -> Vec<Vec<String>> {
    let text = "Run the database migration before the deploy.";
    let mut rows = [row("old", text, 40, older), row("new", &format!("{text} "), 20, newer)];
    for row in &mut rows {
        row.embedding = memory(0, text, &unit_vector(8, 0)).embedding;
    }
    let plan = db(&rows).plan().plan;
    merges(&plan).into_iter().map(|ids| ids.into_iter().map(str::to_owned).collect()).collect()
}

#[test]
fn duplicates_of_one_kind_merge_into_the_newer() {
    assert_eq!(pair(&SKILL, &SKILL), [["new", "old"]]);
    // Attributes are not tags: 4 of 4 tags are shared.
    let tagged = [&SKILL[..], &["a", "b", "c"]].concat();
    assert_eq!(pair(&tagged, &tagged).len(), 1);
    for (attribute, other) in [
        ("type:procedural", "type:semantic"),
        ("subtype:workflow", "subtype:recipe"),
        ("scope:agent", "scope:team"),
        ("scope_id:DEV-001", "scope_id:DEV-002"),
        ("created_by:DEV-001", "created_by:DEV-002"),
    ] {
        assert!(pair(&SKILL, &with(&SKILL, attribute, other)).is_empty(), "{other}");
    }
    // An overlap of 4 in 5 is not above 80 %.
    let four = [&SKILL[..], &["a", "b", "c"]].concat();
    let five = [&SKILL[..], &["a", "b", "c", "d"]].concat();
    assert!(pair(&four, &five).is_empty());
}

#[test]
fn merge_keeps_one_value_of_each_attribute() {
    let text = "Run the database migration before the deploy.";
    let older = [&SKILL[..], &["priority:high"]].concat();
    let newer = [&SKILL[..], &["priority:low"]].concat();
    let db = db(&[row("old", text, 40, &older), row("new", text, 20, &newer)]);
    let _ = db.complete_run();
    let categories: Vec<String> = db.ask("SELECT categories FROM stm");
    assert_eq!(categories.len(), 1);
    assert!(categories[0].contains("priority:low") && !categories[0].contains("priority:high"));
}

/// An episode of more than 5,000 characters.
fn episode() -> String {
    let chatter = "We kept looking at it for a while and talked about it. ".repeat(100);
    let events: Vec<String> =
        (1..=9).map(|n| format!("timeline: time: 10:0{n}; event: step {n}")).collect();
    format!(
        "Outage of the queue\n{chatter}Port 8080 was closed by ops. {chatter}\noutcome: restarted\nlessons: look \
         earlier\n{}",
        events.join("\n")
    )
}

const EPISODE: [&str; 4] =
    ["type:episodic", "scope:agent", "scope_id:DEV-001", "created_by:DEV-001"];

#[test]
fn long_old_episodes_are_shortened_once() {
    let db = db(&[row("e", &episode(), 31, &EPISODE)]);
    let before = db.image();
    let found = of_type(&db, ActionType::Rewrite);
    let text = found[0].new_content.clone().unwrap();
    let expected = "Outage of the queue\nPort 8080 was closed by ops.\noutcome: restarted\nlessons: look earlier\n";
    assert!(text.starts_with(expected), "{text}");
    assert!(text.contains("step 3") && !text.contains("step 4") && !text.contains("step 6"));
    assert!(text.contains("step 7") && text.ends_with("step 9"));
    let applied = db.complete_run();
    let rows: Vec<String> = db.ask("SELECT content FROM stm");
    assert_eq!(rows, [text]);
    let archived: Vec<i64> = db.ask("SELECT count(*) FROM memfold_archive");
    assert_eq!(archived, [1], "the full episode is kept");
    assert_eq!(of_type(&db, ActionType::Rewrite), [], "once");
    let run = applied.run_id().to_owned();
    let _ = db.undo_all(&run);
    assert_same(&before, &db.image());
    for (why, row) in [
        ("young", row("e", &episode(), 29, &EPISODE)),
        ("short", row("e", &episode()[..4_900], 31, &EPISODE)),
        ("no episode", row("e", &episode(), 31, &with(&EPISODE, "type:episodic", "type:semantic"))),
        ("done", row("e", &episode(), 31, &[&EPISODE[..], &["summarized"]].concat())),
    ] {
        assert_eq!(of_type(&self::db(&[row]), ActionType::Rewrite), [], "{why}");
    }
}

#[test]
fn skills_are_copied_to_the_team_and_then_to_all_once() {
    let mut skill = row("s", "Run the migration first.", 30, &SKILL);
    skill.access_count = 12;
    let mut db = db(&[skill.clone()]);
    let before = db.image();
    let found = of_type(&db, ActionType::Promote);
    assert_eq!(ids(&found), ["s"]);
    let copy = found[0].canonical_id.clone().unwrap();
    let run = db.complete_run().run_id().to_owned();
    let own: Vec<String> = db.ask("SELECT categories FROM stm WHERE id = 's'");
    assert!(own[0].contains("scope:agent") && own[0].contains(&format!("promoted_to:{copy}")));
    let copied: Vec<String> = db.ask(&format!("SELECT categories FROM stm WHERE id = '{copy}'"));
    for wanted in ["scope:team", "scope_id:development", "promoted", "type:procedural", "deploy"] {
        assert!(copied[0].contains(&format!("\"{wanted}\"")), "{wanted}: {copied:?}");
    }
    assert_eq!(of_type(&db, ActionType::Promote), [], "once");
    db.later(8);
    db.sql(&format!("UPDATE stm SET access_count = 10 WHERE id = '{copy}'"));
    let found = of_type(&db, ActionType::Promote);
    assert_eq!(ids(&found), [copy.as_str()]);
    assert!(found[0].new_categories.as_ref().unwrap().contains(&"scope:global".to_owned()));
    db.sql(&format!("UPDATE stm SET access_count = 0 WHERE id = '{copy}'"));
    let _ = db.try_undo(&UndoTarget::Run(run)).unwrap();
    assert_same(&before, &db.image());
    let rarely_read = PlainMemory { access_count: 4, ..skill.clone() };
    assert_eq!(of_type(&self::db(&[rarely_read]), ActionType::Promote), []);
    for (from, to) in [
        ("type:procedural", "type:semantic"),
        ("scope:agent", "scope:project"),
        ("scope_id:DEV-001", "scope_id:of no team"),
        ("created_by:DEV-001", "created_by:USER"),
    ] {
        let mut other = skill.clone();
        other.categories = with(&SKILL, from, to).iter().map(ToString::to_string).collect();
        assert_eq!(of_type(&self::db(&[other]), ActionType::Promote), [], "{to}");
    }
}

#[test]
fn unread_memories_are_archived_unless_excluded() {
    let plain = ["type:factual", "created_by:DEV-001"];
    let unread = |id: &str, categories: &[&str]| {
        let mut row = row(id, &format!("{id} says something of its own."), 60, categories);
        row.access_count = 0;
        row
    };
    let mut rows = vec![
        unread("unread", &plain),
        unread("critical", &[&plain[..], &["priority:critical"]].concat()),
        unread("permanent", &[&plain[..], &["permanent"]].concat()),
        unread("protected", &[&plain[..], &["protected"]].concat()),
        unread("core", &[&plain[..], &["core"]].concat()),
        unread("user", &with(&plain, "created_by:DEV-001", "created_by:USER")),
        unread("decision", &["type:semantic", "subtype:decision"]),
        unread("mem_userprofile0", &plain),
        PlainMemory {
            created_at: Instant(store_now().0 - 6 * 86_400_000_000).to_rfc3339(),
            ..unread("young", &plain)
        },
    ];
    let mut often = row("often", "It is read often.", 200, &plain);
    often.access_count = 10;
    rows.extend([
        row("stale", "It was read long ago.", 200, &plain),
        often,
        row("read", "It is read.", 200, &plain),
    ]);
    for number in 0..20 {
        rows.push(row(&format!("r{number}"), &format!("Row number {number} is read."), 60, &plain));
    }
    let db = db(&rows);
    let long_ago = Instant(store_now().0 - 91 * 86_400_000_000).to_rfc3339();
    db.sql(&format!("UPDATE stm SET last_accessed = '{long_ago}' WHERE id IN ('stale', 'often')"));
    let mut found = of_type(&db, ActionType::Archive);
    found.sort_by(|a, b| a.target_ids.cmp(&b.target_ids));
    assert_eq!(ids(&found), ["stale", "unread"]);
    let before = db.image();
    let run = db.complete_run().run_id().to_owned();
    let _ = db.undo_all(&run);
    assert_same(&before, &db.image());
}

/// A layer's settings override the profile, and without the profile nothing changes.
#[test]
fn settings_override_the_profile() {
    let policy =
        Run::builtin().set("profile=hivemind").set("rules.H5-archive-unread.enabled=no").policy();
    let ids: Vec<&str> = policy.rules.iter().map(|rule| rule.id.as_str()).collect();
    let expected = "H1-merge-duplicates H2-summarize-verbose-episodic H3-promote-to-team \
                    H4-promote-to-global H6-archive-stale R5-flag-contradiction";
    assert_eq!(ids.join(" "), expected);
    assert_eq!(policy.protection.access_count_min, Some(10));
}

/// Memories that are never consolidated: each exclusion as categories and age, beside a memory that
/// none of them excludes.
const EXCLUDED: [Exclusion; 9] = [
    Exclusion { why: "critical", category: "priority:critical", age: 40 },
    Exclusion { why: "permanent", category: "permanent", age: 40 },
    Exclusion { why: "protected", category: "protected", age: 40 },
    Exclusion { why: "core", category: "core", age: 40 },
    Exclusion { why: "a user's", category: "created_by:USER", age: 40 },
    Exclusion { why: "young", category: "", age: 6 },
    Exclusion { why: "a decision", category: "subtype:decision", age: 40 },
    Exclusion { why: "reserved", category: "", age: 40 },
    Exclusion { why: "read often", category: "", age: 40 },
];

#[derive(Clone, Copy)]
struct Exclusion {
    why: &'static str,
    category: &'static str,
    age: i64,
}

/// Nothing is excluded.
const FREE: Exclusion = Exclusion { why: "none", category: "", age: 40 };

/// A memory of a type to which an exclusion applies.
fn excluded(exclusion: Exclusion, id: &str, text: &str, kind: &str) -> PlainMemory {
    let Exclusion { why, category, age } = exclusion;
    let name = category.split_once(':').map_or(category, |(name, _)| name);
    let mut categories: Vec<&str> = SKILL.to_vec();
    categories.retain(|known| !known.starts_with("type:"));
    if category.contains(':') {
        categories.retain(|known| !known.starts_with(&format!("{name}:")));
    }
    let kind = if why == "a decision" { "type:semantic" } else { kind };
    categories.extend([kind].into_iter().chain(Some(category).filter(|c| !c.is_empty())));
    let mut row =
        row(if why == "reserved" { "mem_terminology" } else { id }, text, age, &categories);
    row.access_count = if why == "read often" { 10 } else { 6 };
    row
}

/// Exclusions were displayed for the archive alone.
#[test]
fn excluded_memories_are_not_merged() {
    let text = "Run the database migration before the deploy.";
    for exclusion in EXCLUDED {
        let older = excluded(exclusion, "old", text, "type:procedural");
        // A copy of a protected memory merges into it, so both are excluded here.
        let id = if exclusion.why == "reserved" { "mem_userprofile0" } else { "new" };
        let newer = PlainMemory { id: id.into(), ..older.clone() };
        let plan = db(&[older, newer]).plan().plan;
        assert!(merges(&plan).is_empty(), "{}", exclusion.why);
        let free = excluded(FREE, "old", text, "type:procedural");
        let newer = PlainMemory { id: "new".into(), ..free.clone() };
        assert_eq!(merges(&db(&[free, newer]).plan().plan).len(), 1, "the pair merges without");
    }
}
