//! A survivor is reachable in every way that an absorbed row was, takes over what the spec says, and nothing else
//! of the owner's is touched.

use memfold::execute::UnitResult;
use memfold_core::runs::RunState;
use memfold_store::brain_db::StoreStyle;
use memfold_tests::PlainMemory;
use memfold_tests::{
    Desk, diff, facts_findable, integrity, memory, merges, sample_rows, unit_vector,
};
use rusqlite::types::Value;

const KILN: &str = "The kiln is fired on Mondays.";

fn said(number: usize, text: &str, axis: usize) -> PlainMemory {
    PlainMemory { source: "daemon".to_owned(), ..memory(number, text, &unit_vector(16, axis)) }
}

/// Three copies, of which `m000002` survives, and one memory of its own, with the columns of later versions.
fn copies() -> Desk {
    let rows =
        [said(0, KILN, 0), said(1, KILN, 0), said(2, KILN, 0), said(3, "Tea comes on Friday.", 1)];
    let desk = Desk::of(&rows, StoreStyle::Plain);
    desk.sql(
        "ALTER TABLE stm ADD COLUMN confidence REAL DEFAULT 0.5;
         ALTER TABLE stm ADD COLUMN last_accessed INTEGER;
         ALTER TABLE stm ADD COLUMN archived_by TEXT;
         ALTER TABLE stm ADD COLUMN mood TEXT DEFAULT 'calm';",
    );
    desk
}

fn text(value: &str) -> Value {
    Value::Text(value.to_owned())
}

/// Sets a column of the three copies, folds them, and returns what the survivor holds.
#[track_caller]
fn folded(column: &str, values: [&str; 3]) -> Value {
    let desk = copies();
    for (number, value) in values.iter().enumerate() {
        desk.sql(&format!("UPDATE stm SET {column} = {value} WHERE id = 'm00000{number}'"));
    }
    let night = desk.good_night();
    assert_eq!(merges(&night.outcome.plan), [["m000002", "m000001", "m000000"]]);
    desk.cell("m000002", column)
}

/// The newest copy survived though it had no capitals, or had short forms.
#[test]
fn of_two_that_say_the_same_the_better_written_survives() {
    for (first, second, survivor) in [
        ("Tom lives in Berlin", "tom lives in berlin", "m000000"),
        ("tom lives in berlin", "Tom lives in Berlin", "m000001"),
        ("The repository is on the server", "The repo is on the server", "m000000"),
        ("The repo is on the server", "The repository is on the server", "m000001"),
        ("Tom lives in Berlin", "Tom lives in Berlin.", "m000001"),
    ] {
        let desk = Desk::of(&[said(0, first, 0), said(1, second, 0)], StoreStyle::Plain);
        let absorbed = if survivor == "m000000" { "m000001" } else { "m000000" };
        assert_eq!(merges(&desk.plan().plan), [[survivor, absorbed]], "{first} / {second}");
    }
}

const LATE: &str = "'2027-03-01T00:00:00'";
const LATER: &str = "'2027-04-01 00:00:00Z'";

#[test]
fn no_end_beats_any_and_else_the_latest_counts_as_it_is_spelled() {
    assert_eq!(folded("expires_at", ["NULL", LATE, LATER]), Value::Null);
    assert_eq!(folded("expires_at", [LATE, LATER, LATE]), text("2027-04-01 00:00:00Z"));
    assert_eq!(folded("expires_at", [LATE, LATE, LATER]), text("2027-04-01 00:00:00Z"));
    assert_eq!(folded("expires_at", [LATE, LATE, "NULL"]), Value::Null);
    // An integer stays one, in a column that converts nothing.
    let desk = copies();
    desk.sql("ALTER TABLE stm DROP COLUMN expires_at; ALTER TABLE stm ADD COLUMN expires_at;");
    desk.sql("UPDATE stm SET expires_at = '2027-03-01T00:00:00'; UPDATE stm SET expires_at = 1806537600 WHERE id = 'm000000'");
    let _ = desk.good_night();
    assert_eq!(desk.cell("m000002", "expires_at"), Value::Integer(1_806_537_600));
}

#[test]
fn the_largest_confidence_and_the_last_access_win_with_their_storage_class() {
    assert_eq!(folded("confidence", ["0.25", "0.75", "0.5"]), Value::Real(0.75));
    assert_eq!(folded("confidence", ["NULL", "0.25", "NULL"]), Value::Real(0.25));
    assert_eq!(folded("confidence", ["0.1", "NULL", "0.9"]), Value::Real(0.9));
    let (iso, epoch) = ("'2026-06-01T10:00:00'", "1780000000");
    // 1780000000 is the 28th of May 2026.
    assert_eq!(folded("last_accessed", [iso, epoch, "NULL"]), text("2026-06-01T10:00:00"));
    assert_eq!(
        folded("last_accessed", ["'2026-05-01T10:00:00'", epoch, "NULL"]),
        Value::Integer(1_780_000_000)
    );
    assert_eq!(folded("last_accessed", ["'never'", "NULL", epoch]), Value::Integer(1_780_000_000));
    assert_eq!(folded("last_accessed", [epoch, "NULL", "'never'"]), Value::Integer(1_780_000_000));
}

#[test]
fn categories_are_written_as_json_dumps_does_and_only_where_the_set_grows() {
    let joined =
        folded("categories", ["'[\"caf\u{e9}\",\"kiln\"]'", "'general'", "'[\"general\"]'"]);
    assert_eq!(joined, text(r#"["general", "caf\u00e9", "kiln"]"#));
    for same in ["'general'", "'[\"general\",\"general\"]'", "' [ \"general\" ] '"] {
        let Value::Text(kept) = folded("categories", ["'[\"general\"]'", "'general'", same]) else {
            panic!()
        };
        assert_eq!(format!("'{kept}'"), same);
    }
    // Without any, a row has none to lose.
    assert_eq!(folded("categories", ["NULL", "NULL", "NULL"]), Value::Null);
    assert_eq!(folded("categories", ["NULL", "'[]'", "'{garbage'"]), text("{garbage"));
}

#[test]
fn counters_add_up_and_importance_is_the_largest() {
    assert_eq!(folded("access_count", ["3", "NULL", "4"]), Value::Integer(7));
    assert_eq!(folded("access_count", ["NULL", "NULL", "NULL"]), Value::Null);
    assert_eq!(folded("importance", ["NULL", "1.5", "NULL"]), Value::Real(1.5));
    assert_eq!(folded("importance", ["NULL", "0.5", "NULL"]), Value::Null);
    assert_eq!(folded("mood", ["'bright'", "'dark'", "'calm'"]), text("calm"));
}

#[test]
fn a_survivor_becomes_searchable_where_it_was_not() {
    for absorbed in ["archive", "move"] {
        let desk = copies().set(format!("merge.absorbed={absorbed}"));
        desk.sql("INSERT INTO stm_fts (stm_fts, rowid, content) SELECT 'delete', rowid, content FROM stm WHERE id = 'm000002'");
        let before = desk.image();
        let found = || {
            desk.ask::<i64>("SELECT rowid FROM stm_fts WHERE stm_fts MATCH 'kiln' ORDER BY rowid")
        };
        assert_eq!(found(), [1, 2]);
        let night = desk.good_night();
        assert_eq!(found(), [3]);
        let _ = desk.undo_all(night.run_id());
        assert_eq!(diff(&before, &desk.image()), Vec::<String>::new());
    }
}

#[test]
fn a_row_without_an_embedding_does_not_absorb_one_that_has_it() {
    let desk = copies();
    desk.sql("DELETE FROM embeddings WHERE source_id IN ('m000002', 'm000000')");
    let night = desk.good_night();
    assert_eq!(merges(&night.outcome.plan), [["m000001", "m000002", "m000000"]]);
}

#[test]
fn every_planted_fact_is_found_after_a_night_and_after_its_undo() {
    for absorbed in ["archive", "move"] {
        for seed in 0..2 {
            let (desk, facts) = Desk::wild(120, seed);
            let desk = desk.set(format!("merge.absorbed={absorbed}"));
            let night = desk.good_night();
            assert_eq!(facts_findable(desk.path(), &facts), Vec::<String>::new());
            let _ = desk.undo_all(night.run_id());
            assert_eq!(facts_findable(desk.path(), &facts), Vec::<String>::new());
            assert_eq!(integrity(desk.path()), Vec::<String>::new());
        }
    }
}

#[test]
fn protected_rows_and_unknown_columns_stay_as_they_are() {
    for style in [StoreStyle::Plain, StoreStyle::Wild] {
        let desk = Desk::of(&sample_rows(), style).set("merge.absorbed=archive");
        desk.sql("ALTER TABLE stm ADD COLUMN mood TEXT; UPDATE stm SET mood = 'm' || rowid");
        desk.sql(
            "CREATE TABLE guarded AS SELECT id FROM stm WHERE importance >= 3
               OR categories LIKE '%permanent%' OR categories LIKE '%pinned%'
               OR categories LIKE '%decision%' OR source IN ('manual', 'user')",
        );
        let columns = desk.ask::<String>("SELECT name FROM pragma_table_info('stm')");
        let quoted = columns.iter().map(|name| format!("quote({name})")).collect::<Vec<_>>();
        let protected = format!(
            "SELECT {} FROM stm WHERE id IN (SELECT id FROM guarded) ORDER BY rowid",
            quoted.join(" || ',' || ")
        );
        let moods = "SELECT mood FROM stm ORDER BY rowid";
        let before = (desk.ask::<String>(&protected), desk.ask::<String>(moods));
        assert!(before.0.len() > 10);
        let _ = desk.good_night();
        assert_eq!((desk.ask::<String>(&protected), desk.ask::<String>(moods)), before);
    }
}

#[test]
fn moved_rows_leave_the_owners_tables_and_are_still_known() {
    let desk = copies().set("merge.absorbed=move");
    let _ = desk.good_night();
    let left = "SELECT id FROM stm ORDER BY id";
    assert_eq!(desk.ask::<String>(left), ["m000002", "m000003"]);
    assert_eq!(
        desk.ask::<String>("SELECT source_id FROM embeddings ORDER BY 1"),
        ["m000002", "m000003"]
    );
    assert_eq!(desk.ask::<i64>("SELECT id FROM stm_fts_docsize ORDER BY 1"), [3, 4]);
    // A newer row that is near the survivor, and far from what was merged into it, stays by itself.
    let mut far = unit_vector(16, 0);
    far[5] = 0.8;
    let bytes: String =
        far.iter().flat_map(|v| v.to_le_bytes()).map(|byte| format!("{byte:02x}")).collect();
    let text = "Reminder: the kiln is fired on Mondays.";
    let newer = format!(
        "INSERT INTO stm (id, content, categories, created_at, source) VALUES ('n', '{text}', '[\"general\"]', '2026-02-01T00:00:00', 'daemon');
         INSERT INTO embeddings (id, source_type, source_id, embedding, model, created_at) VALUES ('e', 'stm', 'n', x'{bytes}', 'm', '2026-02-01T00:00:00');
         UPDATE embeddings SET embedding = x'{bytes}' WHERE source_id = 'm000002'",
    );
    desk.sql(&newer);
    assert_eq!(merges(&desk.plan().plan), Vec::<Vec<&str>>::new());
    // Without the ghosts they would merge.
    desk.sql("DELETE FROM memfold_archive; DELETE FROM memfold_lineage; UPDATE stm SET source = 'daemon'");
    assert_eq!(merges(&desk.plan().plan).len(), 1);
}

/// `then.params.absorbed` of a rule was accepted and had no effect: all merges did what `merge.absorbed` says.
#[test]
fn a_rule_says_for_its_own_merges_what_becomes_of_the_absorbed() {
    for (rule, all, left) in [("move", "archive", 2), ("archive", "move", 4)] {
        let rules = ["R1-exact-duplicate-merge", "R2-near-duplicate-merge"]
            .map(|id| format!("{{id: {id}, then: {{params: {{absorbed: {rule}}}}}}}"));
        let desk = copies()
            .set(format!("merge.absorbed={all}"))
            .set(format!("rules=[{}]", rules.join(", ")));
        let before = desk.image();
        let night = desk.good_night();
        assert_eq!(desk.ask::<i64>("SELECT count(*) FROM stm"), [left], "{rule}");
        // Each with its embedding.
        let moved = 2 * (4 - left);
        assert_eq!(desk.ask::<i64>("SELECT count(*) FROM memfold_archive"), [moved], "{rule}");
        assert!(merges(&desk.plan().plan).is_empty(), "{rule}");
        let _ = desk.undo_all(night.run_id());
        assert_eq!(diff(&before, &desk.image()), Vec::<String>::new(), "{rule}");
    }
}

/// A rule that moves leaves rows in place for the same reason as `merge.absorbed: move`.
#[test]
fn a_rule_that_moves_leaves_rows_in_place_that_others_refer_to() {
    let rule = "rules=[{id: R1-exact-duplicate-merge, then: {params: {absorbed: move}}}]";
    let desk = copies().set("merge.absorbed=archive").set(rule);
    desk.sql("CREATE TABLE notes (id INTEGER PRIMARY KEY, memory TEXT REFERENCES stm(id))");
    let before = desk.ask::<i64>("SELECT count(*) FROM stm");
    let _ = desk.good_night();
    assert_eq!(desk.ask::<i64>("SELECT count(*) FROM stm"), before);
    assert_eq!(desk.ask::<i64>("SELECT count(*) FROM memfold_archive"), [0]);
}

#[test]
fn a_row_that_its_owner_guards_fails_its_unit_alone() {
    let tea = "Tea comes on Friday.";
    let rows = [said(0, KILN, 0), said(1, KILN, 0), said(2, tea, 1), said(3, tea, 1)];
    for raise in
        ["RAISE(ABORT, 'mine')", "RAISE(FAIL, 'mine')", "RAISE(ROLLBACK, 'mine')", "RAISE(IGNORE)"]
    {
        for absorbed in ["archive", "move"] {
            let desk = Desk::of(&rows, StoreStyle::Plain).set(format!("merge.absorbed={absorbed}"));
            let outcome = desk.plan();
            let guarded = merges(&outcome.plan)[0].last().unwrap().to_string();
            desk.sql(&format!(
                "CREATE TRIGGER keep BEFORE UPDATE ON stm WHEN old.id = '{guarded}' BEGIN SELECT {raise}; END;
                 CREATE TRIGGER stay BEFORE DELETE ON stm WHEN old.id = '{guarded}' BEGIN SELECT {raise}; END;"
            ));
            let before = desk.image();
            let execution = desk.try_apply(&outcome).unwrap();
            let tell = format!("{raise} {absorbed}: {:?}", execution.executed);
            assert_eq!(execution.state, RunState::Partial, "{tell}");
            assert_eq!((execution.executed.failed, execution.executed.stale), (1, 0), "{tell}");
            let failed =
                execution.outcomes.iter().filter(|o| matches!(o.result, UnitResult::Failed(_)));
            assert_eq!(failed.map(|o| o.positions[0]).collect::<Vec<_>>(), [0]);
            let archived =
                "SELECT count(*) FROM memfold_archive WHERE memory_id IN (SELECT id FROM stm)";
            assert_eq!(desk.ask::<i64>(archived), [0], "{tell}");
            let _ = desk.undo_all(&execution.run_id);
            assert_eq!(diff(&before, &desk.image()), Vec::<String>::new());
        }
    }
}

#[test]
fn columns_come_and_go_between_plan_apply_and_undo() {
    let mut desk = copies().set("merge.absorbed=archive");
    let outcome = desk.plan();
    desk.sql(
        "ALTER TABLE stm ADD COLUMN weather TEXT DEFAULT 'fair'; ALTER TABLE stm DROP COLUMN mood",
    );
    let before = desk.image();
    let execution = desk.try_apply(&outcome).unwrap();
    assert_eq!(execution.state, RunState::Done, "{:?}", execution.outcomes);
    assert_eq!(desk.cell("m000000", "weather"), text("fair"));
    let _ = desk.undo_all(&execution.run_id);
    assert_eq!(diff(&before, &desk.image()), Vec::<String>::new());
    desk.sql("DELETE FROM memfold_decisions");
    desk.later(1);
    let desk = desk.set("merge.absorbed=move");
    let run = desk.good_night().run_id().to_owned();
    desk.sql("ALTER TABLE stm ADD COLUMN wind TEXT DEFAULT 'west'; ALTER TABLE stm DROP COLUMN archived_by");
    let _ = desk.undo_all(&run);
    let first = "SELECT id || wind FROM stm ORDER BY rowid LIMIT 1";
    assert_eq!(desk.ask::<String>(first), ["m000000west"]);
}

/// What VACUUM and the import of a backup may do: the same rows under other numbers.
fn renumber(desk: &Desk) {
    desk.sql(
        "VACUUM;
         UPDATE stm SET rowid = rowid + 1000;
         UPDATE embeddings SET rowid = rowid + 500;
         INSERT INTO stm_fts (stm_fts) VALUES ('delete-all');
         INSERT INTO stm_fts (rowid, content) SELECT rowid, content FROM stm;",
    );
}

#[test]
fn undo_goes_by_id_where_rows_got_other_numbers() {
    for absorbed in ["archive", "move"] {
        let desk =
            Desk::of(&sample_rows(), StoreStyle::Plain).set(format!("merge.absorbed={absorbed}"));
        let all = "SELECT quote(id) || quote(content) || quote(categories) || quote(importance) || quote(access_count) || quote(updated_at) || quote(source) || (SELECT quote(group_concat(quote(e.id) || quote(e.embedding))) FROM embeddings e WHERE e.source_id = stm.id) FROM stm ORDER BY id";
        let before = desk.ask::<String>(all);
        let run = desk.good_night().run_id().to_owned();
        renumber(&desk);
        let _ = desk.undo_all(&run);
        assert_eq!(desk.ask::<String>(all), before);
        let indexed =
            "SELECT count(*) FROM stm WHERE rowid NOT IN (SELECT id FROM stm_fts_docsize)";
        assert_eq!(desk.ask::<i64>(indexed), [0]);
        assert_eq!(integrity(desk.path()), Vec::<String>::new());
    }
}

/// Above some 1,400 mutually similar memories the whole run failed, and nothing else was merged either.
#[test]
fn a_series_keeps_nothing_else_from_merging() {
    let vector = |number: usize| {
        let mut vector = vec![1.0_f32; 16];
        vector[number % 16] += 0.01 * (number / 16) as f32;
        vector
    };
    let mut rows: Vec<PlainMemory> = (0..1_500)
        .map(|number| memory(number, format!("Build #{number} passed."), &vector(number)))
        .collect();
    for copy in 0..2 {
        let mut apart = vec![0.0; 16];
        apart[0] = 1.0;
        rows.push(memory(1_500 + copy, "Tea is served at four.", &apart));
    }
    let desk = Desk::of(&rows, StoreStyle::Plain);
    let planned = desk.plan();
    assert_eq!(merges(&planned.plan), [["m001501", "m001500"]]);
    let said = planned.report.notes.join("\n");
    assert!(said.contains("1500 memories are similar to very many others"), "{said}");
}

#[test]
fn provenance_alone_keeps_the_folded_from_being_folded_again() {
    let desk = Desk::of(&sample_rows(), StoreStyle::Plain).set("merge.absorbed=archive");
    let night = desk.good_night();
    let tables = desk.ask::<String>(
        "SELECT name FROM sqlite_master WHERE type = 'table' AND name LIKE 'memfold%'
             AND name NOT GLOB 'memfold_merged_*'",
    );
    assert!(tables.len() > 8);
    tables.iter().for_each(|table| desk.sql(&format!("DROP TABLE {table}")));
    let done = merges(&night.outcome.plan);
    let plan = desk.plan().plan;
    for ids in merges(&plan) {
        let again = done.iter().any(|merge| ids.iter().any(|id| merge[1..].contains(id)));
        assert!(!again, "{ids:?}");
    }
    assert_eq!(merges(&plan), Vec::<Vec<&str>>::new());
}
