use super::*;
use crate::brain_db::create::FRESH_TABLES;
use crate::brain_db::own::tables::migrate;
use memfold_core::lineage::{Branch, Few, KnownBy};
use memfold_core::memory::Status;

const NOW: Instant = Instant(1_780_272_000_000_000);

/// A store with rows (id, content, categories, source), and memfold's tables where wanted.
fn store(rows: &[(&str, &str, &str, &str)], has_tables: bool) -> Connection {
    let connection = Connection::open_in_memory().unwrap();
    connection.execute_batch(FRESH_TABLES).unwrap();
    for row in rows {
        connection
            .execute(
                "INSERT INTO stm(id, content, categories, source, created_at)
                 VALUES (?1, ?2, ?3, ?4, '2026-01-02T03:04:05')",
                *row,
            )
            .unwrap();
    }
    if has_tables {
        migrate(&connection, || Ok("s".to_owned()), "t").unwrap();
    }
    connection
}

/// c was merged into b, b into a; d was archived.
fn chain(has_tables: bool) -> Connection {
    let into = |id: &str| format!(r#"archived:{{"merged_into":"{id}","previous_source":"agent"}}"#);
    let survivor = r#"consolidation:{"merged_from":["c","b"],"previous_source":"agent"}"#;
    let middle = r#"archived:{"merged_into":"a","previous_source":"user"}"#;
    let rows = [
        ("a", "The kiln is fired on Mondays.", r#"["pottery"]"#, survivor),
        ("b", "the kiln is fired on Mondays", r#"["archived"]"#, middle),
        ("c", "Kiln: Mondays", r#"["archived"]"#, &into("b")),
        ("d", "Old.", r#"["archived"]"#, "archived:low_utility"),
    ];
    let connection = store(&rows, has_tables);
    if has_tables {
        record(&connection, "c", "b", 1);
        record(&connection, "b", "a", 1);
    }
    connection
}

fn record(connection: &Connection, absorbed: &str, survivor: &str, active: i64) {
    connection
        .execute(
            "INSERT INTO memfold_lineage(absorbed_id, survivor_id, similarity, rule_id, reasons,
                                         run_id, unit, at, active)
             VALUES (?1, ?2, 0.97, 'R2', 'similarity >= 0.95', 'r1', 1, 't', ?3)",
            (absorbed, survivor, active),
        )
        .unwrap();
}

fn resolved(connection: &Connection, id: &str) -> Resolved {
    let utc = TimeZone::UTC;
    let lineage = StoreLineage::new(connection, &utc, NOW).unwrap();
    resolve(&lineage, &MemoryId::new(id)).unwrap()
}

fn live(connection: &Connection, id: &str) -> Option<String> {
    resolved(connection, id).live_id().map(ToString::to_string)
}

fn explained(connection: &Connection, id: &str) -> Explanation {
    let utc = TimeZone::UTC;
    let lineage = StoreLineage::new(connection, &utc, NOW).unwrap();
    explain(connection, &MemoryId::new(id), &lineage).unwrap()
}

fn ids(branches: &Few<Branch>) -> Vec<&str> {
    branches.shown.iter().map(|branch| branch.fold.absorbed.as_str()).collect()
}

#[test]
fn ids_lead_to_the_living_with_and_without_tables() {
    for has_tables in [true, false] {
        let connection = chain(has_tables);
        for id in ["a", "b", "c"] {
            assert_eq!(live(&connection, id).as_deref(), Some("a"), "{id} {has_tables}");
        }
        assert_eq!(resolved(&connection, "d").end, Status::Archived);
        assert_eq!(resolved(&connection, "x").end, Status::Unknown);
        let known_by = if has_tables { KnownBy::Lineage } else { KnownBy::Provenance };
        assert!(resolved(&connection, "c").folds.iter().all(|fold| fold.known_by == known_by));
    }
}

#[test]
fn a_memory_is_explained_as_a_tree() {
    for has_tables in [true, false] {
        let explained = explained(&chain(has_tables), "a");
        assert_eq!(ids(&explained.absorbed), ["b"], "{has_tables}");
        let b = &explained.absorbed.shown[0];
        assert_eq!((ids(&b.branches), b.whereabouts), (vec!["c"], Status::Merged));
        assert_eq!(b.text.as_deref(), Some("the kiln is fired on Mondays"));
        assert_eq!(b.fold.similarity, has_tables.then_some(0.97));
        let memory = explained.memory.unwrap();
        assert_eq!((&*memory.root_source, &*memory.categories[0]), ("agent", "pottery"));
    }
}

#[test]
fn a_deleted_ghost_is_found_in_its_survivors_list() {
    let connection = chain(false);
    connection.execute("DELETE FROM stm WHERE id IN ('b', 'c')", []).unwrap();
    assert_eq!(live(&connection, "c").as_deref(), Some("a"));
    assert_eq!(resolved(&connection, "c").whereabouts, Status::Gone);
    let absorbed = explained(&connection, "a").absorbed;
    assert_eq!(ids(&absorbed), ["c", "b"]);
    assert_eq!(absorbed.shown[0].whereabouts, Status::Gone);
}

#[test]
fn a_deleted_survivor_is_told() {
    let connection = chain(true);
    connection.execute("DELETE FROM stm WHERE id = 'a'", []).unwrap();
    let resolved = resolved(&connection, "c");
    assert_eq!((resolved.end, resolved.last().as_str()), (Status::Gone, "a"));
    assert_eq!(resolved.live_id(), None);
}

#[test]
fn what_somebody_brought_back_is_live() {
    let connection = chain(true);
    connection
        .execute("UPDATE stm SET categories = '[]', source = 'agent' WHERE id = 'b'", [])
        .unwrap();
    assert_eq!(live(&connection, "b").as_deref(), Some("b"));
    assert_eq!(live(&connection, "c").as_deref(), Some("b"));
    assert_eq!(explained(&connection, "a").absorbed.shown[0].whereabouts, Status::Live);
}

#[test]
fn withdrawn_lineage_counts_no_more() {
    let connection =
        store(&[("a", "A.", "[]", "agent"), ("z", "Z.", r#"["archived"]"#, "x")], true);
    record(&connection, "z", "a", 0);
    assert_eq!(resolved(&connection, "z").end, Status::Archived);
    assert!(explained(&connection, "a").absorbed.shown.is_empty());
    record(&connection, "z", "a", 1);
    assert_eq!(live(&connection, "z").as_deref(), Some("a"));
}

#[test]
fn moved_memories_are_followed_and_quoted() {
    let connection = store(&[("a", "A.", "[]", "agent")], true);
    connection
        .execute_batch(
            r#"INSERT INTO memfold_archive(memory_id, table_name, row, indexed, survivor_id, run_id, at)
               VALUES ('m', 'stm', '{"id":"m","content":"Moved text."}', 1, 'a', 'r1', 't'),
                      ('m', 'embeddings', '{"id":"e"}', 0, 'a', 'r1', 't'),
                      ('n', 'stm', '{"id":"n","content":"N."}', 1, NULL, 'r1', 't');"#,
        )
        .unwrap();
    record(&connection, "m", "a", 1);
    assert_eq!(live(&connection, "m").as_deref(), Some("a"));
    assert_eq!(resolved(&connection, "n").end, Status::Moved);
    let absorbed = explained(&connection, "a").absorbed;
    assert_eq!(absorbed.shown[0].text.as_deref(), Some("Moved text."));
    assert_eq!(absorbed.shown[0].whereabouts, Status::Moved);
}

#[test]
fn sources_that_lead_in_circles_end() {
    let into = |id: &str| format!("archived:merged_into:{id}");
    let rows = [
        ("a", "A.", "[]", &*into("b")),
        ("b", "B.", "[]", &*into("a")),
        ("s", "S.", "[]", &*into("s")),
    ];
    let connection = store(&rows, false);
    assert!(resolved(&connection, "a").is_circle && resolved(&connection, "s").is_circle);
    assert_eq!(ids(&explained(&connection, "a").absorbed), ["b"]);
}

#[test]
fn ten_thousand_ghosts_are_counted() {
    let connection = store(&[("a", "A.", "[]", "agent")], true);
    connection
        .execute_batch(
            "WITH RECURSIVE n(i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 9999)
             INSERT INTO memfold_lineage(absorbed_id, survivor_id, run_id, unit, at, active)
             SELECT 'm' || i, 'a', 'r', 1, 't', 1 FROM n;",
        )
        .unwrap();
    let absorbed = explained(&connection, "a").absorbed;
    assert_eq!((absorbed.shown.len(), absorbed.more), (20, 9_980));
}

#[test]
fn decisions_and_flags_are_told_while_they_are_active() {
    let connection = store(&[("a", "A.", "[]", "agent"), ("b", "B.", "[]", "agent")], true);
    let hash = memfold_core::decisions::content_hash("A.");
    for active in [0, 1] {
        for (kind, member) in
            [("keep_both", "a"), ("keep_both", "b"), ("promoted", "a"), ("declined", "a")]
        {
            connection
                .execute(
                    "INSERT INTO memfold_decisions(kind, group_id, memory_id, content_hash, action,
                                                   access_count, run_id, unit, at, active)
                     VALUES (?1, 'g', ?2, ?3, 'archive', 7, 'r', 1, 't', ?4)",
                    (kind, member, &hash, active),
                )
                .unwrap();
        }
        connection
            .execute(
                "INSERT INTO memfold_flags(key, left_id, right_id, left_hash, right_hash, score,
                                           state, run_id, unit, at, active)
                 VALUES ('k', 'a', 'b', '', '', 0.9, 'open', 'r', 1, 't', ?1)",
                [active],
            )
            .unwrap();
    }
    let told = explained(&connection, "a");
    assert_eq!(told.promotions.shown.len(), 1);
    assert_eq!(told.promotions.shown[0].access_count, Some(7));
    assert_eq!(told.kept_apart.shown[0].from.shown, [MemoryId::new("b")]);
    assert!(told.kept_apart.shown[0].holds);
    assert_eq!((&*told.declined.shown[0].action, told.declined.shown.len()), ("archive", 1));
    assert_eq!((told.flags.shown.len(), told.flags.shown[0].other.as_str()), (1, "b"));
    assert_eq!(explained(&connection, "b").flags.shown[0].other.as_str(), "a");
    assert!(!explained(&connection, "b").kept_apart.shown[0].holds);
}

#[test]
fn odd_rows_do_not_hinder() {
    let connection = store(&[("a", "A.", "[]", "agent")], false);
    connection
        .execute_batch(
            "INSERT INTO stm(id, content, source, created_at) VALUES
                 (NULL, 'x', 'archived:x', 't'), (x'00ff', 'y', 'archived:merged_into:a', 't'),
                 ('u', 'u', CAST(x'61726368697665643aff' AS TEXT), 't'), (7, 'seven', 'agent', 't'),
                 ('e', '', 'agent', 't');",
        )
        .unwrap();
    assert!(explained(&connection, "a").absorbed.shown.is_empty());
    assert_eq!(live(&connection, "7").as_deref(), Some("7"));
    for id in ["u", "e"] {
        assert_eq!(resolved(&connection, id).end, Status::Unreadable, "{id}");
    }
}
