use serde_json::Value;

use super::fixture::{AT, Repo, id, merge, note, restore, sha, summarize, unit};
use crate::git_notes::line;
use memfold_store::origin::{Origin as _, OriginChange, OriginError, OriginRecord, OriginStanding};

/// A repository with some decisions and a learning, and the ids of them.
fn repository() -> (Repo, Vec<String>) {
    let repo = Repo::new();
    let commits: Vec<String> = (0..4).map(sha).collect();
    let notes: Vec<_> =
        commits.iter().map(|commit| (commit.as_str(), note(&commit[..4], "body"))).collect();
    let notes: Vec<_> = notes.iter().map(|(commit, note)| (*commit, note.as_str())).collect();
    repo.remember("decisions", &notes[..3]);
    repo.remember("learnings", &notes[3..]);
    let ids =
        (0..4).map(|n| id(if n < 3 { "decisions" } else { "learnings" }, &commits[n])).collect();
    (repo, ids)
}

#[test]
fn a_merge_is_written_beside_the_memories_and_undone() {
    let (repo, ids) = repository();
    let before = repo.notes();
    let (newer, older) = (repo.record(&ids[0]), repo.record(&ids[3]));
    let merged = merge("run-1", &newer, &older);
    let published = repo.origin().write(std::slice::from_ref(&merged)).unwrap();
    assert_eq!((published.units, published.conflicts), (vec![0], vec![]));
    let after = repo.notes();
    for (name, notes) in &before {
        assert_eq!(after.get(name), Some(notes), "{name} is the owner's");
    }
    let names: Vec<_> = repo.written().into_keys().collect();
    let expected =
        ["mem-edges/decisions", "mem-meta/decisions", "mem-meta/learnings", "mem-runs/decisions"];
    assert_eq!(names, expected.map(|name| format!("refs/notes/{name}")));
    let survivor = repo.record(&ids[0]);
    assert_eq!((survivor.access_count, survivor.tags.as_slice()), (1, &["merged".to_owned()][..]));
    assert_eq!(survivor.text, newer.text);
    assert_eq!(repo.record(&ids[3]).standing, OriginStanding::Merged { into: ids[0].clone() });
    let tips = repo.tips();
    assert_eq!(repo.origin().write(&[merged]).unwrap().units, [0]);
    assert_eq!(repo.tips(), tips, "written again, nothing happens");
    let undo = restore("undo-1", &[&newer, &older]);
    assert_eq!(repo.origin().write(std::slice::from_ref(&undo)).unwrap().units, [0]);
    assert!(repo.written().is_empty(), "{:?}", repo.written());
    assert_eq!(repo.record(&ids[0]), newer);
    assert_eq!(repo.record(&ids[3]), older);
    let tips = repo.tips();
    repo.origin().write(&[undo]).unwrap();
    assert_eq!(repo.tips(), tips);
}

/// A ref of memfold's that leads to `main` moved `main`.
#[test]
fn nothing_is_written_through_a_symbolic_ref() {
    let (repo, ids) = repository();
    repo.write("refs/heads/main", &[(&sha(9), "a file of the owner")]);
    let git = repo.open().root().to_owned();
    let git = if git.join(".git").is_dir() { git.join(".git") } else { git };
    let main = || std::fs::read_to_string(git.join("refs/heads/main")).unwrap();
    let before = main();
    let link = git.join("refs/notes/mem-meta/decisions");
    std::fs::create_dir_all(link.parent().unwrap()).unwrap();
    std::fs::write(&link, "ref: refs/heads/main\n").unwrap();
    let (newer, older) = (repo.record(&ids[0]), repo.record(&ids[1]));
    let refused = repo.origin().write(&[merge("run-1", &newer, &older)]).unwrap_err();
    assert!(refused.to_string().contains("symbolic ref"), "{refused}");
    assert_eq!(main(), before);
}

/// One ref that cannot be read hid all others.
#[test]
fn a_bad_ref_hides_no_other() {
    let (repo, ids) = repository();
    let git = repo.open().root().to_owned();
    let git = if git.join(".git").is_dir() { git.join(".git") } else { git };
    std::fs::write(git.join("refs/notes/mem/broken"), format!("{}\n", "1".repeat(40))).unwrap();
    let contents = repo.origin().read().unwrap();
    assert_eq!(contents.records.len(), ids.len());
    assert!(contents.skipped.iter().any(|skipped| skipped.place.contains("broken")));
}

#[test]
fn the_lines_have_the_documented_fields() {
    let (repo, ids) = repository();
    let (newer, older) = (repo.record(&ids[0]), repo.record(&ids[3]));
    repo.origin().write(&[merge("run-1", &newer, &older)]).unwrap();
    let line_of = |reference: &str, id: &str| {
        let commit = id.split(':').nth(1).unwrap();
        let content = repo.written()[&format!("refs/notes/{reference}")][commit].clone();
        line::decode(content.trim_end()).unwrap()
    };
    let meta = line_of("mem-meta/learnings", &ids[3]);
    let names: Vec<_> = meta.keys().map(String::as_str).collect();
    let expected = [
        "memory_id",
        "tier",
        "activation_count",
        "last_accessed",
        "retention",
        "superseded_by",
        "consolidated_into",
        "created_at",
        "updated_at",
        "consolidation_run_id",
        "rule",
        "reason",
        "unit",
    ];
    assert_eq!(names, expected);
    assert_eq!(line::text(&meta, "tier"), Some("archived"));
    assert_eq!(line::text(&meta, "consolidated_into"), Some(ids[0].as_str()));
    assert_eq!(line::text(&meta, "updated_at"), Some(AT));
    let edge = line_of("mem-edges/decisions", &ids[0]);
    assert_eq!(line::text(&edge, "edge_type"), Some("consolidates"));
    assert_eq!(
        (line::text(&edge, "source_id"), line::text(&edge, "target_id")),
        (Some(&*ids[0]), Some(&*ids[3]))
    );
    let run = line_of("mem-runs/decisions", &ids[0]);
    assert_eq!(
        (line::text(&run, "run_id"), line::text(&run, "phase")),
        (Some("run-1"), Some("completed"))
    );
    let transitions = run.get("tier_transitions").and_then(Value::as_array).unwrap();
    let archived = transitions.iter().find(|t| t["memory_id"] == ids[3].as_str()).unwrap();
    assert_eq!(
        (&archived["from_tier"], &archived["to_tier"]),
        (&Value::from("hot"), &Value::from("archived"))
    );
    assert!(archived["retention_score"].is_f64());
}

#[test]
fn a_summary_is_a_memory_until_it_is_removed() {
    let (repo, ids) = repository();
    let sources: Vec<_> = ids.iter().map(|id| repo.record(id)).collect();
    let sources: Vec<_> = sources.iter().collect();
    let unit_of = summarize("run-1", "sum_01", &sources);
    repo.origin().write(std::slice::from_ref(&unit_of)).unwrap();
    let summary = repo.record("sum_01");
    let OriginChange::Create { record, .. } = &unit_of.changes[0] else { panic!() };
    assert_eq!(
        (&summary.text, &summary.tags, &summary.created_at),
        (&record.text, &record.tags, &record.created_at)
    );
    assert!(summary.attributes.contains(&("namespace".to_owned(), "decisions".to_owned())));
    assert!(
        ids.iter()
            .all(|id| repo.record(id).standing
                == OriginStanding::Merged { into: "sum_01".to_owned() })
    );
    // A summary is changed and put away like any memory.
    let mut changed = summary.clone();
    changed.text = "other".to_owned();
    changed.importance = 2.5;
    let update = OriginChange::Update {
        before: summary.digest(),
        record: Box::new(changed),
        merged: vec![],
    };
    repo.origin().write(&[unit("run-2", "R9", vec![update])]).unwrap();
    let updated = repo.record("sum_01");
    assert_eq!(
        (updated.text.as_str(), updated.importance.to_string()),
        ("other", "2.5".to_owned())
    );
    repo.origin().write(&[restore("undo-2", &[&summary])]).unwrap();
    assert_eq!(repo.record("sum_01"), summary);
    let mut undo = restore("undo-1", &sources);
    undo.changes.push(OriginChange::Remove { before: None, id: "sum_01".to_owned() });
    repo.origin().write(&[undo]).unwrap();
    assert!(repo.written().is_empty(), "{:?}", repo.written());
}

#[test]
fn changes_since_the_reading_are_conflicts() {
    let (repo, ids) = repository();
    let records: Vec<_> = ids.iter().map(|id| repo.record(id)).collect();
    let commit = ids[0].split(':').nth(1).unwrap();
    repo.remember("decisions", &[(commit, &note("other", "words"))]);
    let units = [
        merge("run-1", &records[1], &records[0]),
        merge("run-1", &records[1], &records[2]),
        summarize(
            "run-1",
            "sum_02",
            &[&OriginRecord { id: id("decisions", &sha(99)), ..OriginRecord::default() }],
        ),
    ];
    let tips = repo.tips();
    let published = repo.origin().write(&units[..1]).unwrap();
    assert_eq!(repo.tips(), tips, "the unit is left alone as a whole");
    assert_eq!((published.units.len(), published.conflicts[0].id.as_str()), (0, ids[0].as_str()));
    let published = repo.origin().write(&units).unwrap();
    assert_eq!(published.units, [1]);
    let reasons: Vec<_> = published.conflicts.iter().map(|c| (c.unit, c.reason.as_str())).collect();
    let expected = [
        (0, "it was changed since it was read"),
        (2, "there is no commit to attach it to: none of its sources is in a note"),
    ];
    assert_eq!(reasons, expected);
    // What another run has done meanwhile is a change too.
    let published = repo.origin().write(&[merge("run-2", &records[3], &records[2])]).unwrap();
    assert_eq!(published.conflicts.len(), 1);
    // An appended record changes no other.
    let learning = ids[3].split(':').nth(1).unwrap();
    let two = format!("{}\n{}", note(&learning[..4], "body"), note("appended", "later"));
    repo.remember("learnings", &[(learning, &two)]);
    let published =
        repo.origin().write(&[merge("run-3", &records[3], &repo.record(&ids[0]))]).unwrap();
    assert_eq!(published.units, [0], "{:?}", published.conflicts);
}

#[test]
fn later_lines_count_even_at_the_same_time() {
    let (repo, ids) = repository();
    for n in 1..4_i64 {
        let mut record = repo.record(&ids[0]);
        let before = record.digest();
        record.access_count = n;
        record.text = format!("text {n}");
        let update = OriginChange::Update { before, record: Box::new(record), merged: vec![] };
        let published =
            repo.origin().write(&[unit(&format!("run-{n}"), "R3", vec![update])]).unwrap();
        assert_eq!(published.units, [0]);
        let now = repo.record(&ids[0]);
        assert_eq!((now.access_count, now.text), (n, format!("text {n}")));
    }
}

#[test]
fn two_units_of_one_call_may_change_one_record() {
    let (repo, ids) = repository();
    let records: Vec<_> = ids.iter().map(|id| repo.record(id)).collect();
    let units =
        [merge("run-1", &records[0], &records[1]), merge("run-1", &records[0], &records[2])];
    let published = repo.origin().write(&units).unwrap();
    assert_eq!(published.units, [0, 1], "{:?}", published.conflicts);
    let tips = repo.tips();
    assert_eq!(repo.origin().write(&units).unwrap().units, [0, 1]);
    assert_eq!(repo.tips(), tips);
    repo.origin().write(&[restore("undo", &[&records[0], &records[1], &records[2]])]).unwrap();
    assert!(repo.written().is_empty(), "{:?}", repo.written());
}

/// Undo of the later of two merges into one memory, as the mirror words it.
#[test]
fn a_partial_undo_goes_back_to_the_state_in_between() {
    let (repo, ids) = repository();
    let records: Vec<_> = ids.iter().map(|id| repo.record(id)).collect();
    repo.origin().write(&[merge("run-1", &records[0], &records[1])]).unwrap();
    let (between, notes) = (repo.origin().read().unwrap(), repo.written());
    let survivor = repo.record(&ids[0]);
    repo.origin().write(&[merge("run-2", &survivor, &records[2])]).unwrap();
    let mut undo = restore("undo-2", &[&records[2]]);
    let before = repo.record(&ids[0]).digest();
    undo.changes.push(OriginChange::Update {
        before,
        record: Box::new(survivor.clone()),
        merged: vec![],
    });
    for _ in 0..2 {
        let published = repo.origin().write(std::slice::from_ref(&undo)).unwrap();
        assert_eq!((published.units, published.conflicts), (vec![0], vec![]));
        assert_eq!((&repo.origin().read().unwrap(), &repo.written()), (&between, &notes));
    }
    // Merged away and back: a restored memory keeps what an earlier run made of it.
    repo.origin().write(&[merge("run-3", &records[3], &survivor)]).unwrap();
    let told = OriginRecord { raw: records[0].raw.clone(), ..survivor.clone() };
    repo.origin().write(&[restore("undo-3", &[&told, &records[3]])]).unwrap();
    assert_eq!((&repo.origin().read().unwrap(), &repo.written()), (&between, &notes));
    // A memory that went from one survivor to another goes back to the first.
    let retire = |run: &str, into: &str| {
        let (before, id) = (repo.record(&ids[1]).digest(), ids[1].clone());
        unit(
            run,
            "R2",
            vec![OriginChange::Retire {
                before,
                id,
                into: Some(into.to_owned()),
                reason: "R2".to_owned(),
            }],
        )
    };
    repo.origin().write(&[retire("run-4", &ids[2])]).unwrap();
    assert_eq!(repo.record(&ids[1]).standing, OriginStanding::Merged { into: ids[2].clone() });
    repo.origin().write(&[retire("undo-4", &ids[0])]).unwrap();
    assert_eq!((&repo.origin().read().unwrap(), &repo.written()), (&between, &notes));
    repo.origin().write(&[restore("undo-1", &[&records[0], &records[1]])]).unwrap();
    assert!(repo.written().is_empty(), "{:?}", repo.written());
}

#[test]
fn a_restored_memory_may_be_another_than_ever() {
    let (repo, ids) = repository();
    let (newer, older) = (repo.record(&ids[0]), repo.record(&ids[1]));
    repo.origin().write(&[merge("run-1", &newer, &older)]).unwrap();
    let told = OriginRecord { access_count: 9, ..older.clone() };
    let undo = restore("undo", &[&told]);
    repo.origin().write(std::slice::from_ref(&undo)).unwrap();
    let record = repo.record(&ids[1]);
    assert_eq!((record.access_count, record.standing), (9, OriginStanding::Live));
    let tips = repo.tips();
    repo.origin().write(&[undo]).unwrap();
    assert_eq!(repo.tips(), tips);
}

#[test]
fn lines_of_others_stay_as_they_are() {
    let (repo, ids) = repository();
    let commit = ids[0].split(':').nth(1).unwrap().to_owned();
    let theirs = format!(
        "{{memory_id: '{}', tier: warm, activation_count: 4, mood: good}}\n\nfree text: [\n",
        ids[0]
    );
    repo.write("refs/notes/mem-meta/decisions", &[(&commit, &theirs)]);
    let before = repo.notes();
    let (newer, older) = (repo.record(&ids[0]), repo.record(&ids[1]));
    assert_eq!(newer.access_count, 4);
    repo.origin().write(&[merge("run-1", &newer, &older)]).unwrap();
    let content = repo.written()["refs/notes/mem-meta/decisions"][&commit].clone();
    let added = content.strip_prefix(&theirs).unwrap();
    let fields = line::decode(added.trim_end()).unwrap();
    assert_eq!(line::text(&fields, "mood"), Some("good"));
    assert_eq!(repo.record(&ids[0]).access_count, 5);
    repo.origin().write(&[restore("undo", &[&newer, &older])]).unwrap();
    let mut after = repo.notes();
    after.retain(|_, notes| !notes.is_empty());
    assert_eq!(after, before);
}

#[test]
fn a_locked_ref_is_reported() {
    let (repo, ids) = repository();
    let folder = repo.path.join(".git/refs/notes/mem-edges");
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("decisions.lock"), "").unwrap();
    let unit = merge("run-1", &repo.record(&ids[0]), &repo.record(&ids[1]));
    let error = repo.origin().write(std::slice::from_ref(&unit)).unwrap_err();
    assert!(matches!(error, OriginError::Locked { .. }), "{error}");
    assert!(error.to_string().contains("mem-edges"), "{error}");
    std::fs::remove_file(folder.join("decisions.lock")).unwrap();
    assert_eq!(repo.origin().write(&[unit]).unwrap().units, [0]);
}
