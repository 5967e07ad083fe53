//! The rules of memory folders in JSON files (`profile: hivemind`), each with its exclusions.

use memfold::execute::UndoTarget;
use memfold_core::memory::MemoryId;
use memfold_core::plan::{Action, ActionType};
use memfold_core::time::Instant;
use memfold_store::brain_db::StoreStyle;
use memfold_tests::{Desk, PlainMemory, Run, StoreImage, diff, merges, store_now, unit_vector};

/// A memory of an agent, so many days old, with attributes and tags.
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

fn desk(rows: &[PlainMemory]) -> Desk {
    let desk = Desk::of(rows, StoreStyle::Plain).set("profile=hivemind");
    // All were read today.
    let today = store_now().to_rfc3339();
    desk.sql(&format!(
        "ALTER TABLE stm ADD COLUMN last_accessed TEXT; UPDATE stm SET last_accessed = '{today}'"
    ));
    desk
}

fn of_type(desk: &Desk, wanted: ActionType) -> Vec<Action> {
    let actions = desk.plan().plan.actions;
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
        row.embedding = Some(memfold_tests::PlainEmbedding {
            model: Some("m".into()),
            vector: unit_vector(8, 0),
            content: None,
        });
    }
    let plan = desk(&rows).plan().plan;
    merges(&plan).into_iter().map(|ids| ids.into_iter().map(str::to_owned).collect()).collect()
}

#[test]
fn duplicates_of_one_kind_merge_into_the_newer() {
    assert_eq!(pair(&SKILL, &SKILL), [["new", "old"]]);
    // Attributes are no tags: 4 of 4 tags are shared.
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
fn what_merges_keeps_one_value_of_each_attribute() {
    let text = "Run the database migration before the deploy.";
    let older = [&SKILL[..], &["priority:high"]].concat();
    let newer = [&SKILL[..], &["priority:low"]].concat();
    let desk = desk(&[row("old", text, 40, &older), row("new", text, 20, &newer)]);
    let _ = desk.good_night();
    let categories: Vec<String> = desk.ask("SELECT categories FROM stm");
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
    let desk = desk(&[row("e", &episode(), 31, &EPISODE)]);
    let before = desk.image();
    let found = of_type(&desk, ActionType::Rewrite);
    let text = found[0].new_content.clone().unwrap();
    let expected = "Outage of the queue\nPort 8080 was closed by ops.\noutcome: restarted\nlessons: look earlier\n";
    assert!(text.starts_with(expected), "{text}");
    assert!(text.contains("step 3") && !text.contains("step 4") && !text.contains("step 6"));
    assert!(text.contains("step 7") && text.ends_with("step 9"));
    let night = desk.good_night();
    let rows: Vec<String> = desk.ask("SELECT content FROM stm");
    assert_eq!(rows, [text]);
    let archived: Vec<i64> = desk.ask("SELECT count(*) FROM memfold_archive");
    assert_eq!(archived, [1], "the full episode is kept");
    assert_eq!(of_type(&desk, ActionType::Rewrite), [], "once");
    let run = night.run_id().to_owned();
    let _ = desk.undo_all(&run);
    assert_same(&before, &desk.image());
    for (why, row) in [
        ("young", row("e", &episode(), 29, &EPISODE)),
        ("short", row("e", &episode()[..4_900], 31, &EPISODE)),
        ("no episode", row("e", &episode(), 31, &with(&EPISODE, "type:episodic", "type:semantic"))),
        ("done", row("e", &episode(), 31, &[&EPISODE[..], &["summarized"]].concat())),
    ] {
        assert_eq!(of_type(&self::desk(&[row]), ActionType::Rewrite), [], "{why}");
    }
}

#[track_caller]
fn assert_same(left: &StoreImage, right: &StoreImage) {
    assert_eq!(diff(left, right), Vec::<String>::new());
}

#[test]
fn skills_are_copied_to_the_team_and_then_to_all_once() {
    let mut skill = row("s", "Run the migration first.", 30, &SKILL);
    skill.access_count = 12;
    let mut desk = desk(&[skill.clone()]);
    let before = desk.image();
    let found = of_type(&desk, ActionType::Promote);
    assert_eq!(ids(&found), ["s"]);
    let copy = found[0].canonical_id.clone().unwrap();
    let run = desk.good_night().run_id().to_owned();
    let own: Vec<String> = desk.ask("SELECT categories FROM stm WHERE id = 's'");
    assert!(own[0].contains("scope:agent") && own[0].contains(&format!("promoted_to:{copy}")));
    let copied: Vec<String> = desk.ask(&format!("SELECT categories FROM stm WHERE id = '{copy}'"));
    for wanted in ["scope:team", "scope_id:development", "promoted", "type:procedural", "deploy"] {
        assert!(copied[0].contains(&format!("\"{wanted}\"")), "{wanted}: {copied:?}");
    }
    assert_eq!(of_type(&desk, ActionType::Promote), [], "once");
    desk.later(8);
    desk.sql(&format!("UPDATE stm SET access_count = 10 WHERE id = '{copy}'"));
    let found = of_type(&desk, ActionType::Promote);
    assert_eq!(ids(&found), [copy.as_str()]);
    assert!(found[0].new_categories.as_ref().unwrap().contains(&"scope:global".to_owned()));
    desk.sql(&format!("UPDATE stm SET access_count = 0 WHERE id = '{copy}'"));
    let _ = desk.try_undo(&UndoTarget::Run(run)).unwrap();
    assert_same(&before, &desk.image());
    for (why, row) in [
        ("read 4 times", PlainMemory { access_count: 4, ..skill.clone() }),
        (
            "no skill",
            PlainMemory {
                categories: owned(&with(&SKILL, "type:procedural", "type:semantic")),
                ..skill.clone()
            },
        ),
        (
            "no agent's",
            PlainMemory {
                categories: owned(&with(&SKILL, "scope:agent", "scope:project")),
                ..skill.clone()
            },
        ),
        (
            "no team known",
            PlainMemory {
                categories: owned(&with(&SKILL, "scope_id:DEV-001", "scope_id:X")),
                ..skill.clone()
            },
        ),
        (
            "a user's",
            PlainMemory {
                categories: owned(&with(&SKILL, "created_by:DEV-001", "created_by:USER")),
                ..skill
            },
        ),
    ] {
        assert_eq!(of_type(&self::desk(&[row]), ActionType::Promote), [], "{why}");
    }
}

fn owned(categories: &[&str]) -> Vec<String> {
    categories.iter().map(ToString::to_string).collect()
}

#[test]
fn what_nobody_reads_is_archived_and_what_is_excluded_is_not() {
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
    let desk = desk(&rows);
    let long_ago = Instant(store_now().0 - 91 * 86_400_000_000).to_rfc3339();
    desk.sql(&format!(
        "UPDATE stm SET last_accessed = '{long_ago}' WHERE id IN ('stale', 'often')"
    ));
    let mut found = of_type(&desk, ActionType::Archive);
    found.sort_by(|a, b| a.target_ids.cmp(&b.target_ids));
    assert_eq!(ids(&found), ["stale", "unread"]);
    let before = desk.image();
    let run = desk.good_night().run_id().to_owned();
    let _ = desk.undo_all(&run);
    assert_same(&before, &desk.image());
}

#[test]
fn rules_can_leave_out_priorities_tags_and_creators() {
    let mut unread = row(
        "a",
        "It says something of its own.",
        60,
        &["priority:high", "created_by:DEV-001", "kept"],
    );
    unread.access_count = 0;
    let others =
        (0..20).map(|number| row(&format!("r{number}"), &format!("Row {number}."), 60, &[]));
    let rows: Vec<PlainMemory> = others.chain([unread]).collect();
    let archives = |condition: &str| {
        let desk = desk(&rows).set(format!("rules.H5-archive-unread.when.{condition}"));
        !of_type(&desk, ActionType::Archive).is_empty()
    };
    for (condition, expected) in [
        ("categories_none=[\"priority:low\"]", true),
        ("categories_none=[\"priority:low\", \"priority:HIGH\"]", false),
        ("categories_none=[other]", true),
        ("categories_none=[Kept]", false),
        ("categories_none=[\"created_by:QA-001\"]", true),
        ("categories_none=[\"created_by:dev-001\"]", false),
        ("min_idle_days=1", false),
    ] {
        assert_eq!(archives(condition), expected, "{condition}");
    }
}

/// What a layer says beats the profile, and without the profile nothing changes.
#[test]
fn the_profile_gives_way() {
    let policy =
        Run::builtin().set("profile=hivemind").set("rules.H5-archive-unread.enabled=no").policy();
    let ids: Vec<&str> = policy.rules.iter().map(|rule| rule.id.as_str()).collect();
    assert_eq!(
        ids,
        [
            "H1-merge-duplicates",
            "H2-summarize-verbose-episodic",
            "H3-promote-to-team",
            "H4-promote-to-global",
            "H6-archive-stale",
            "R5-flag-contradiction",
        ]
    );
    assert_eq!(policy.protection.access_count_min, Some(10));
}

/// What is never consolidated: each exclusion as categories and age, beside a memory that none of them holds for.
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

/// Exclusions were shown for the archive alone.
#[test]
fn what_is_excluded_is_not_merged() {
    let text = "Run the database migration before the deploy.";
    for exclusion in EXCLUDED {
        let older = excluded(exclusion, "old", text, "type:procedural");
        // A copy of a protected memory merges into it, so both are excluded here.
        let id = if exclusion.why == "reserved" { "mem_userprofile0" } else { "new" };
        let newer = PlainMemory { id: id.into(), ..older.clone() };
        let plan = desk(&[older, newer]).plan().plan;
        assert!(merges(&plan).is_empty(), "{}", exclusion.why);
        let free = excluded(FREE, "old", text, "type:procedural");
        let newer = PlainMemory { id: "new".into(), ..free.clone() };
        assert_eq!(merges(&desk(&[free, newer]).plan().plan).len(), 1, "the pair merges without");
    }
}

#[test]
fn what_is_excluded_is_not_shortened() {
    let text = episode();
    for exclusion in EXCLUDED {
        let row = excluded(exclusion, "e", &text, "type:episodic");
        assert_eq!(of_type(&desk(&[row]), ActionType::Rewrite), [], "{}", exclusion.why);
    }
    let free = excluded(FREE, "e", &text, "type:episodic");
    assert_eq!(of_type(&desk(&[free]), ActionType::Rewrite).len(), 1);
}

#[test]
fn bounds_of_ages_reads_and_similarities_are_those_of_the_rules() {
    let promotes = |scope: &str, reads: i64| {
        let mut skill =
            row("s", "Run the migration first.", 30, &with(&SKILL, "scope:agent", scope));
        skill.access_count = reads;
        of_type(&desk(&[skill]), ActionType::Promote).len()
    };
    assert_eq!((promotes("scope:agent", 4), promotes("scope:agent", 5)), (0, 1));
    assert_eq!((promotes("scope:team", 9), promotes("scope:team", 10)), (0, 1));
    let archives = |idle_days: i64| {
        let mut rows = vec![row("stale", "It was read long ago.", 200, &["type:factual"])];
        rows.extend((0..20).map(|n| row(&format!("r{n}"), &format!("Row {n} is read."), 60, &[])));
        let desk = desk(&rows);
        let read = Instant(store_now().0 - idle_days * 86_400_000_000).to_rfc3339();
        desk.sql(&format!("UPDATE stm SET last_accessed = '{read}' WHERE id = 'stale'"));
        of_type(&desk, ActionType::Archive).len()
    };
    assert_eq!((archives(89), archives(91)), (0, 1));
    let merged = |cosine: f32| {
        let mut rows = [
            row("old", "Run the database migration before the deploy.", 40, &SKILL),
            row("new", "Run the database migration before the deploy!", 20, &SKILL),
        ];
        let mut near = vec![0.0; 8];
        (near[0], near[1]) = (cosine, (1.0 - cosine * cosine).sqrt());
        for (row, vector) in rows.iter_mut().zip([unit_vector(8, 0), near]) {
            row.embedding = Some(memfold_tests::PlainEmbedding {
                model: Some("m".into()),
                vector,
                content: None,
            });
        }
        merges(&desk(&rows).set("detect.exact_text=no").plan().plan).len()
    };
    assert_eq!((merged(0.79), merged(0.81)), (0, 1));
}
