//! A save recognises known memories, loses nothing, and never merges across a fact.

mod again;
mod at_once;

use std::collections::BTreeMap;

use memfold::execute::UndoTarget;
use memfold::lookup::TierChoice;
use memfold::quick_check::{
    Coverage, Decision, Incoming, QuickCheck, QuickCheckOptions, SaveError, Saved, Written,
};
use memfold_tests::{PlainMemory, StoreStyle, TestIndex, TestStore, integrity, memory};

const DIM: usize = 8;

/// A unit vector that is `cosine` near the first axis, and leans towards another one.
fn near(cosine: f32, axis: usize) -> Vec<f32> {
    let mut vector = vec![0.0; DIM];
    vector[0] = cosine;
    vector[axis] = (1.0 - cosine * cosine).sqrt();
    vector
}

const OLD: &str = "The release meeting is in the large room.";
const NEW: &str = "The release meeting is in the large room because the kitchen is loud.";

/// A store with one old memory `m000000`, and another one far from it.
fn db() -> TestStore {
    let far = "Grandmother's recipe wants two eggs.";
    let mut other = vec![0.0; DIM];
    other[DIM - 1] = 1.0;
    TestStore::of(&[memory(0, OLD, &near(1.0, 1)), memory(1, far, &other)], StoreStyle::Plain)
}

fn save(quick_check: &QuickCheck, db: &TestStore, incoming: &Incoming) -> Saved {
    quick_check.save(incoming, db.now()).unwrap()
}

fn live(db: &TestStore) -> i64 {
    db.ask("SELECT count(*) FROM stm WHERE source NOT LIKE 'archived:%'")[0]
}

#[test]
fn new_memory_is_inserted_in_the_owners_format() {
    let db = db();
    let incoming = Incoming {
        categories: vec!["ops".to_owned(), "ops".to_owned(), "grün".to_owned()],
        importance: Some(2.0),
        source: Some("chat".to_owned()),
        ..Incoming::text("Backups run on Sunday.").with_vector(near(0.2, 3))
    };
    let saved = save(&db.quick_check(), &db, &incoming);
    assert_eq!((saved.written, saved.check.decision), (Written::Inserted, Decision::Insert));
    assert!(saved.check.checked && saved.check.coverage == Coverage::Full, "{saved:?}");
    assert_eq!((&saved.run_id, &saved.replaced[..]), (&None, &[][..]));
    let id = saved.id.as_str();
    assert!(id.len() == 16 && id.starts_with("stm_"), "{id}");
    let cell = |column| db.cell(id, column);
    assert_eq!(cell("categories"), r#"["ops", "gr\u00fcn"]"#.to_owned().into());
    assert_eq!((cell("importance"), cell("source")), (2.0.into(), "chat".to_owned().into()));
    assert_eq!(cell("created_at"), db.at().into());
    let found: Vec<String> = db.ask(
        "SELECT stm.id FROM stm_fts JOIN stm ON stm.rowid = stm_fts.rowid WHERE stm_fts MATCH 'sunday'",
    );
    assert_eq!(found, [id]);
    let model: Vec<String> =
        db.ask(&format!("SELECT model FROM embeddings WHERE source_id = '{id}'"));
    assert_eq!(model, ["m"]);
    // A plain insert leaves nothing of memfold's in the store.
    let own: Vec<i64> = db.ask("SELECT count(*) FROM sqlite_master WHERE name LIKE 'memfold%'");
    assert_eq!((own[0], integrity(db.path())), (0, vec![]));
}

/// Rows saved into newer schemas got the defaults of their columns, a confidence of 0.5, where the owner's own writer says
/// 1.0, `last_accessed` as a time and both counts 0. Columns that there are not are left out.
#[test]
fn a_saved_row_has_what_the_owners_writer_gives() {
    let db = db();
    let plain = save(&db.quick_check(), &db, &Incoming::text("Backups run on Sunday."));
    assert_eq!(plain.written, Written::Inserted);
    db.sql(
        "ALTER TABLE stm ADD COLUMN confidence REAL DEFAULT 0.5;
         ALTER TABLE stm ADD COLUMN last_accessed INTEGER DEFAULT 7;
         ALTER TABLE stm ADD COLUMN validation_count INTEGER;
         ALTER TABLE stm ADD COLUMN contradiction_count INTEGER DEFAULT 3;
         ALTER TABLE stm ADD COLUMN mood TEXT DEFAULT 'calm'",
    );
    let saved = save(&db.quick_check(), &db, &Incoming::text("The kiln is fired on Mondays."));
    let cell = |column| db.cell(saved.id.as_str(), column);
    assert_eq!((cell("confidence"), cell("last_accessed")), (1.0.into(), db.at().into()));
    assert_eq!((cell("validation_count"), cell("contradiction_count")), (0.into(), 0.into()));
    assert_eq!(cell("mood"), "calm".to_owned().into());
}

#[test]
fn the_same_text_is_touched_and_its_spelling_kept() {
    let db = db();
    let quick_check = db.quick_check();
    for _ in 0..3 {
        let saved = save(&quick_check, &db, &Incoming::text(OLD));
        assert_eq!((saved.written, saved.id.as_str()), (Written::Touched, "m000000"));
        assert_eq!((saved.check.coverage, saved.check.checked), (Coverage::ExactOnly, true));
        assert_eq!(saved.run_id, None);
    }
    assert_eq!((db.cell("m000000", "access_count"), live(&db)), (3.into(), 2));
    let spaced = Incoming {
        categories: vec!["ops".to_owned()],
        importance: Some(2.5),
        ..Incoming::text(OLD.replace(' ', "  "))
    };
    let saved = save(&quick_check, &db, &spaced);
    assert_eq!((saved.written, saved.id.as_str()), (Written::Touched, "m000000"));
    assert_eq!(db.cell("m000000", "categories"), r#"["general", "ops"]"#.to_owned().into());
    assert_eq!(db.cell("m000000", "importance"), 2.5.into());
    let run = saved.run_id.unwrap();
    // The second time everything is there.
    assert_eq!(save(&quick_check, &db, &spaced).run_id, None);
    let kept: Vec<String> = db.ask("SELECT survivor_id FROM memfold_lineage WHERE active = 1");
    assert_eq!((kept, live(&db)), (vec!["m000000".to_owned()], 2));
    drop(db.undo_all(&run));
    assert_eq!(db.cell("m000000", "importance"), 1.0.into());
    assert_eq!(live(&db), 2, "what was kept beside was never a memory of its own");
    db.assert_sound();
}

/// A copy in lower case took the place of the memory.
#[test]
fn a_copy_that_is_written_worse_replaces_nothing() {
    let db = TestStore::of(&[memory(0, "Tom lives in Berlin", &near(1.0, 1))], StoreStyle::Plain);
    let copy = |text: &str| Incoming::text(text).with_vector(near(1.0, 1));
    let saved = save(&db.quick_check(), &db, &copy("tom lives in berlin"));
    assert_eq!((saved.check.decision, saved.id.as_str()), (Decision::Touch, "m000000"));
    assert!(saved.check.reason.contains("written better"), "{saved:?}");
    assert_eq!(db.cell("m000000", "content"), "Tom lives in Berlin".to_owned().into());
    // Its spelling is kept all the same.
    let kept = "SELECT count(*) FROM memfold_lineage WHERE survivor_id = 'm000000' AND active = 1";
    assert_eq!(db.ask::<i64>(kept), [1]);
    let _ = db.undo_all(saved.run_id.as_deref().unwrap());
    assert_eq!((live(&db), integrity(db.path())), (1, vec![]));
}

#[test]
fn a_newer_wording_takes_the_place_of_the_old_one_and_can_be_undone() {
    let db = db();
    db.sql("UPDATE stm SET categories = '[\"room\"]', importance = 2.0, access_count = 4 WHERE id = 'm000000'");
    let quick_check = db.quick_check();
    let incoming = Incoming {
        categories: vec!["meeting".to_owned()],
        ..Incoming::text(NEW).with_vector(near(0.97, 1))
    };
    let checked = quick_check.check(&incoming, db.now()).unwrap();
    assert_eq!(checked.decision, Decision::Replace, "{checked:?}");
    let saved = save(&quick_check, &db, &incoming);
    assert_eq!((saved.written, saved.replaced[0].as_str()), (Written::Replaced, "m000000"));
    let id = saved.id.as_str();
    assert_eq!(db.cell(id, "categories"), r#"["meeting", "room"]"#.to_owned().into());
    assert_eq!((db.cell(id, "importance"), db.cell(id, "access_count")), (2.0.into(), 4.into()));
    assert_eq!(live(&db), 2);
    let resolved = db.store().resolve(
        &memfold_core::memory::MemoryId::new("m000000"),
        &jiff::tz::TimeZone::UTC,
        db.now(),
    );
    assert_eq!(resolved.unwrap().live_id().unwrap().as_str(), id);
    // The old wording is known: it was merged into the new one.
    let again = save(&quick_check, &db, &Incoming::text(OLD));
    assert_eq!((again.written, again.id.as_str()), (Written::Touched, id));
    drop(db.undo_all(&saved.run_id.unwrap()));
    assert_eq!(live(&db), 3);
    assert_eq!(db.cell("m000000", "categories"), r#"["room"]"#.to_owned().into());
    // And the next night keeps them apart, because a person wanted that.
    let planned = db.plan();
    let merged: Vec<_> = planned
        .plan
        .actions
        .iter()
        .filter(|action| action.action == memfold_core::plan::ActionType::Merge)
        .collect();
    assert!(merged.is_empty(), "{merged:?}");
    db.assert_sound();
}

#[test]
fn no_merge_crosses_a_fact_a_mark_or_a_threshold() {
    let flagged = [
        ("The deploy port is 9090.", 0.99, Decision::InsertAndFlag),
        ("The deploy port is not 8080.", 0.99, Decision::InsertAndFlag),
        ("The deploy port is 8080 for now.", 0.90, Decision::InsertAndFlag),
        ("Ports are for ships.", 0.96, Decision::Insert),
        ("The deploy port is 8080 for now.", 0.80, Decision::Insert),
    ];
    for (text, cosine, expected) in flagged {
        let old = [memory(0, "The deploy port is 8080.", &near(1.0, 1))];
        let db = TestStore::of(&old, StoreStyle::Plain);
        let saved =
            save(&db.quick_check(), &db, &Incoming::text(text).with_vector(near(cosine, 1)));
        assert_eq!(saved.check.decision, expected, "{text}: {:?}", saved.check);
        assert_eq!((saved.written, live(&db)), (Written::Inserted, 2), "{text}");
        let flags = db.store().open_flags().unwrap();
        assert_eq!(flags.len(), usize::from(expected == Decision::InsertAndFlag), "{text}");
        if let Some(run) = &saved.run_id {
            drop(db.undo_all(run));
            assert!(db.store().open_flags().unwrap().is_empty());
        }
    }
}

#[test]
fn protected_and_private_memories_are_left_alone() {
    let protected = "UPDATE stm SET categories = '[\"decision\"]' WHERE id = 'm000000'";
    let private = "UPDATE stm SET categories = '[\"user:ann\"]' WHERE id = 'm000000'";
    let incoming = Incoming::text(NEW).with_vector(near(0.97, 1));
    let db = self::db();
    db.sql(protected);
    let saved = save(&db.quick_check(), &db, &incoming);
    assert_eq!(saved.check.decision, Decision::InsertAndFlag);
    assert!(saved.check.reason.contains("protected: category decision"), "{}", saved.check.reason);
    // A protected memory is counted, and nothing else of it changes.
    let same = Incoming {
        categories: vec!["more".to_owned()],
        importance: Some(3.0),
        ..Incoming::text(OLD)
    };
    assert_eq!(save(&db.quick_check(), &db, &same).id.as_str(), "m000000");
    assert_eq!(db.cell("m000000", "importance"), 1.0.into());
    assert_eq!(db.cell("m000000", "categories"), r#"["decision"]"#.to_owned().into());
    assert_eq!(db.cell("m000000", "access_count"), 1.into());
    let db = self::db();
    db.sql(private);
    let of = |user: &str| Incoming { categories: vec![user.to_owned()], ..Incoming::text(OLD) };
    for incoming in [incoming, Incoming::text(OLD), of("user:Ann")] {
        let saved = save(&db.quick_check(), &db, &incoming);
        assert_eq!(saved.check.decision, Decision::Insert, "{:?}", saved.check);
    }
    assert_eq!(save(&db.quick_check(), &db, &of("user:ann")).id.as_str(), "m000000");
}

#[test]
fn a_chain_of_wordings_ends_in_one_memory_and_every_step_can_be_undone() {
    const STEPS: usize = 50;
    let db = TestStore::of(&[], StoreStyle::Plain);
    let quick_check = db.quick_check();
    let text = |step: usize| {
        let pad = " ".repeat(step % 7 + 1);
        let end = if step.is_multiple_of(2) { "." } else { "!" };
        let quote = if step % 4 < 2 { "`" } else { "" };
        format!("The{pad}weekly review{pad}is held with {quote}music{quote}{end}{end}")
    };
    let mut runs = Vec::new();
    let mut texts = std::collections::BTreeSet::new();
    for step in 0..STEPS {
        // Near every one of the others, at another angle.
        let mut vector = near(0.995, 1 + step % (DIM - 1));
        vector[1 + step % 3] += 0.001 * step as f32;
        let saved = save(&quick_check, &db, &Incoming::text(text(step)).with_vector(vector));
        texts.insert(text(step));
        runs.push((saved.written, saved.run_id));
        assert_eq!(live(&db), 1, "step {step}: {:?}", saved.check);
    }
    assert!(runs.iter().filter(|(written, _)| *written == Written::Replaced).count() >= 3);
    let sources: Vec<String> = db.ask("SELECT source FROM stm");
    assert!(sources.iter().all(|source| source.len() <= 4096));
    let kept: std::collections::BTreeSet<String> = db
        .ask::<String>("SELECT content FROM stm")
        .into_iter()
        .chain(db.ask::<String>("SELECT c1 FROM memfold_archive WHERE table_name = 'stm'"))
        .collect();
    let lost: Vec<_> = texts.difference(&kept).collect();
    assert!(lost.is_empty(), "{lost:?}");
    // All steps are units of one run: the process of one day.
    let run_ids: std::collections::BTreeSet<_> =
        runs.iter().filter_map(|(_, run)| run.clone()).collect();
    assert_eq!(run_ids.len(), 1);
    // From the last one back, step by step.
    let units = db.store().units(run_ids.first().unwrap()).unwrap();
    let mut before = live(&db);
    for unit in units.iter().rev() {
        let label = &unit.memories[0];
        let target = UndoTarget::Memory(memfold_core::memory::MemoryId::new(label.as_str()));
        let undone = db.try_undo(&target).unwrap();
        assert_eq!(undone.executed.applied, 1, "{:?}", undone.outcomes);
        let after = live(&db);
        assert!(after >= before);
        before = after;
        // A touch brings nothing back, a replacement the older wording.
        if before > 1 {
            break;
        }
    }
    assert!(before > 1);
    db.assert_sound();
}

#[test]
fn an_id_makes_a_save_repeatable() {
    let db = db();
    let quick_check = db.quick_check();
    let new =
        Incoming { id: Some("key-1".to_owned()), ..Incoming::text(NEW).with_vector(near(0.97, 1)) };
    let saved = save(&quick_check, &db, &new);
    assert_eq!((saved.written, saved.id.as_str()), (Written::Replaced, "key-1"));
    let image = db.image();
    for _ in 0..3 {
        let again = save(&db.quick_check(), &db, &new);
        assert_eq!((again.written, again.id.as_str()), (Written::Touched, "key-1"));
        assert_eq!(db.image(), image);
    }
    let other = Incoming { text: Some("Something else.".to_owned()), ..new };
    let refused = quick_check.save(&other, db.now()).unwrap_err();
    assert!(matches!(refused, SaveError::IdTaken { .. }), "{refused}");
    assert_eq!(db.image(), image);
    assert!(matches!(quick_check.save(&Incoming::text(" \n"), db.now()), Err(SaveError::NoText)));
}

/// A save under the id "" was accepted, a second one refused, and `forget ""` erased it.
#[test]
fn invalid_memories_are_refused_by_check_and_save() {
    let db = db();
    let quick_check = db.quick_check();
    let image = db.image();
    let of = |change: fn(&mut Incoming)| {
        let mut incoming = Incoming::text("Ana collects stamps.");
        change(&mut incoming);
        incoming
    };
    type Fault = fn(&mut Incoming);
    let hidden = "and the memory would be hidden";
    let category =
        |name: &str| format!("the category \"{name}\" marks archived memories, {hidden}");
    let source = |prefix: &str| {
        let marks = "memfold keeps its own marks there";
        format!("a source cannot begin with \"{prefix}\": {marks}, {hidden}")
    };
    // Saved with such a mark, a memory was hidden at once, or the row that says the same with it.
    let reserved: [(Fault, String); 5] = [
        (|new| new.categories = vec!["archived".to_owned()], category("archived")),
        (|new| new.categories = vec!["archive/ops".to_owned()], category("archive/ops")),
        (|new| new.source = Some("archived:{}".to_owned()), source("archived:")),
        (|new| new.source = Some("Archived:x".to_owned()), source("archived:")),
        (|new| new.source = Some("consolidation:{}".to_owned()), source("consolidation:")),
    ];
    let cases: [(Fault, &str); 12] = [
        (|new| new.id = Some(String::new()), "the id has no visible character"),
        (|new| new.id = Some(" \u{200b}".to_owned()), "the id has no visible character"),
        (|new| new.id = Some("x".repeat(1_001)), "the id is longer than 1000 bytes"),
        (|new| new.text = Some("\u{200b}".to_owned()), "there is no text with a visible character"),
        (
            |new| new.importance = Some(-1e308),
            "the importance is -1e308, expected a number from 0 on",
        ),
        (
            |new| new.importance = Some(f64::NAN),
            "the importance is NaN, expected a number from 0 on",
        ),
        (|new| new.vector = Some(vec![0.0; 4]), "a vector of zeros, which is near to nothing"),
        (
            |new| new.vector = Some(vec![1.0, f32::NAN]),
            "a vector whose component 1 is out of range",
        ),
        (|new| new.vector = Some(vec![]), "a vector of 0 components, expected 1 to 65536"),
        (
            |new| new.vector = Some(vec![1.0; 2_000_000]),
            "a vector of 2000000 components, expected 1 to 65536",
        ),
        (
            |new| new.categories = vec!["a".to_owned(); 1_000_000],
            "1000000 categories, expected at most 1000",
        ),
        (|new| new.categories = vec!["a".repeat(1_001)], "a category is longer than 1000 bytes"),
    ];
    let cases = cases.map(|(change, expected)| (change, expected.to_owned()));
    for (change, expected) in cases.into_iter().chain(reserved) {
        let incoming = of(change);
        let checked = quick_check.check(&incoming, db.now()).unwrap_err().to_string();
        let saved = quick_check.save(&incoming, db.now()).unwrap_err().to_string();
        assert_eq!((&checked, &saved), (&expected, &expected));
    }
    assert_eq!(db.image(), image, "nothing was written");
}

#[test]
fn a_memory_archived_unused_lives_again() {
    let db = db();
    db.sql(
        r#"UPDATE stm SET categories = '["archived", "archive/ops"]',
           source = 'archived:{"reason":"R4-archive-low-utility","run_id":"r","previous_source":"chat"}'
           WHERE id = 'm000000'"#,
    );
    let saved = save(&db.quick_check(), &db, &Incoming::text(OLD));
    assert_eq!((saved.written, saved.id.as_str()), (Written::Touched, "m000000"));
    assert_eq!(db.cell("m000000", "categories"), r#"["ops"]"#.to_owned().into());
    assert_eq!(db.cell("m000000", "source"), "chat".to_owned().into());
    assert_eq!(db.cell("m000000", "access_count"), 1.into());
    drop(db.undo_all(&saved.run_id.unwrap()));
    assert_eq!(
        db.cell("m000000", "categories"),
        r#"["archived", "archive/ops"]"#.to_owned().into()
    );
    // Memories that the owner archived belong to the owner.
    db.sql("UPDATE stm SET source = 'chat' WHERE id = 'm000000'");
    let saved = save(&db.quick_check(), &db, &Incoming::text(OLD));
    assert_eq!(saved.written, Written::Inserted);
}

/// Defects of an index, and whether the check reports them.
type Damage<'a> = (&'a str, &'a dyn Fn(&TestStore, &TestIndex), bool);

#[test]
fn saves_are_right_with_any_index_damage() {
    let removed =
        |_: &TestStore, index: &TestIndex| std::fs::remove_dir_all(index.folder()).unwrap();
    let cut = |_: &TestStore, index: &TestIndex| {
        let manifest = index.folder().join("MANIFEST");
        std::fs::write(manifest, "nonsense").unwrap();
    };
    let renumbered = |db: &TestStore, _: &TestIndex| {
        db.sql("DELETE FROM stm WHERE id LIKE 'm00000%' AND id <> 'm000000'; VACUUM");
        db.sql("UPDATE embeddings SET rowid = rowid + 100000");
    };
    let replaced = |db: &TestStore, _: &TestIndex| {
        db.sql("DELETE FROM embeddings; DELETE FROM stm;");
        db.sql(&format!(
            "INSERT INTO stm (id, content, categories, importance, access_count, created_at, source)
             VALUES ('other', '{OLD}', '[]', 1.0, 0, '2026-01-01T00:00:00', 'agent')"
        ));
    };
    let untouched = |_: &TestStore, _: &TestIndex| {};
    let cases: [Damage<'_>; 5] = [
        ("untouched", &untouched, false),
        ("removed", &removed, false),
        ("manifest", &cut, true),
        ("renumbered", &renumbered, true),
        ("another store", &replaced, true),
    ];
    for (name, damage, is_told) in cases {
        let rows: Vec<PlainMemory> = (0..40)
            .map(|row| {
                let text =
                    if row == 0 { OLD.to_owned() } else { format!("Row number {row} is here.") };
                let mut vector = vec![0.02; DIM];
                vector[row % DIM] = 1.0 + 0.01 * row as f32;
                memory(row, text, &vector)
            })
            .collect();
        let db = TestStore::of(&rows, StoreStyle::Plain);
        let index = TestIndex::of(db.path());
        index.build(TierChoice::Graph);
        damage(&db, &index);
        let quick_check = db.quick_check();
        let saved = save(&quick_check, &db, &Incoming::text(OLD));
        assert_eq!(saved.written, Written::Touched, "{name}: {:?}", saved.check);
        assert_eq!(!saved.check.notes.is_empty(), is_told, "{name}: {:?}", saved.check.notes);
        let new =
            Incoming::text(format!("Nothing like {name} was here.")).with_vector(near(0.3, 5));
        let saved = save(&quick_check, &db, &new);
        assert_eq!(saved.written, Written::Inserted, "{name}: {:?}", saved.check);
        db.assert_sound();
    }
}

#[test]
fn a_large_store_without_an_index_says_so() {
    let rows: Vec<PlainMemory> = (0..2_050)
        .map(|row| memory(row, format!("Row number {row} is here."), &near(0.5, 1 + row % 7)))
        .collect();
    let db = TestStore::of(&rows, StoreStyle::Plain);
    let incoming = Incoming::text("Row number 7 is here.").with_vector(near(0.5, 1));
    let check = db.quick_check().check(&incoming, db.now()).unwrap();
    assert_eq!((check.checked, check.coverage), (false, Coverage::None), "{check:?}");
    assert!(check.notes[0].contains("memfold index build"), "{:?}", check.notes);
    let saved = save(&db.quick_check(), &db, &incoming);
    assert_eq!((saved.written, saved.check.checked), (Written::Inserted, false));
    TestIndex::of(db.path()).build(TierChoice::Scan);
    let check = db.quick_check().check(&incoming, db.now()).unwrap();
    assert_eq!((check.checked, check.decision), (true, Decision::Touch), "{check:?}");
    assert_eq!((check.index.kind, check.index.rows), ("scan", 2_051));
}

#[test]
fn read_only_saves_are_plain_inserts() {
    let db = db();
    let quick_check =
        db.quick_check_with(|options| QuickCheckOptions { read_only: true, ..options });
    let saved = save(&quick_check, &db, &Incoming::text(OLD));
    assert_eq!((saved.written, saved.check.checked), (Written::Inserted, false));
    assert_eq!((live(&db), saved.check.coverage), (3, Coverage::None));
}

#[test]
fn a_wording_that_flips_stays_one_memory() {
    let db = db();
    let quick_check = db.quick_check();
    let incoming = [
        Incoming::text(OLD).with_vector(near(1.0, 1)),
        Incoming::text(NEW).with_vector(near(0.97, 1)),
    ];
    let flips = std::env::var("MEMFOLD_TEST_FLIPS").map_or(60, |flips| flips.parse().unwrap());
    let mut seen: BTreeMap<&str, u32> = BTreeMap::new();
    for flip in 0..flips {
        let saved = save(&quick_check, &db, &incoming[(flip + 1) % 2]);
        *seen.entry(saved.check.decision.name()).or_default() += 1;
        assert_eq!(live(&db), 2, "flip {flip}: {:?}", saved.check);
    }
    assert_eq!((seen["replace"], seen["touch"]), (1, flips as u32 - 1), "{seen:?}");
    let journal: Vec<i64> = db.ask("SELECT count(*) FROM memfold_journal");
    assert!(journal[0] < 10, "{journal:?}");
    let sources: Vec<i64> = db.ask("SELECT max(length(source)) FROM stm");
    assert!(sources[0] < 500, "{sources:?}");
}
