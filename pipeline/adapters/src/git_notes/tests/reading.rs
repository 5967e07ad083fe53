//! What is read, and what is passed over.

use super::*;
use crate::git_notes::is_one;
use crate::git_notes::library::tests::write_index;
use memfold_store::origin::{LinkKind, OriginContents, OriginLink, OriginStanding};

/// What is passed over, as text in order.
fn skipped(contents: &OriginContents) -> Vec<String> {
    let mut skipped: Vec<_> =
        contents.skipped.iter().map(|s| format!("{}: {}", s.place, s.reason)).collect();
    skipped.sort();
    skipped
}

#[test]
fn a_record_is_read_with_all_it_says() {
    let repo = Repo::new();
    let (one, two) = (sha(1), sha(2));
    let full = format!(
        "---\ntype: decisions\ntimestamp: '2026-01-02T03:04:05+00:00'\nsummary: Use SQLite\nspec: store\nphase: build\n\
         tags:\n- db\n- ünï\nstatus: resolved\nrelates_to:\n- learnings:{}:0\n- decisions:0000000:0\n---\n\n## Why\n\nfast  \n\n",
        &two[..7]
    );
    repo.remember("decisions", &[(&one, &full)]);
    repo.remember("learnings", &[(&two, &note("Locks", "they wait"))]);
    let contents = repo.origin().read().unwrap();
    assert_eq!(contents.skipped, []);
    assert!(is_one(&repo.path));
    let [decision, learning] = &contents.records[..] else { panic!("{contents:?}") };
    let attributes = [
        ("domain", "project"),
        ("namespace", "decisions"),
        ("phase", "build"),
        ("spec", "store"),
        ("status", "resolved"),
        ("type", "decisions"),
    ];
    let link = |to: String| OriginLink { kind: LinkKind::References, to };
    let expected = OriginRecord {
        id: id("decisions", &one),
        text: "Use SQLite\n## Why\n\nfast".to_owned(),
        tags: vec!["db".to_owned(), "ünï".to_owned()],
        attributes: attributes.map(|(name, value)| (name.to_owned(), value.to_owned())).into(),
        importance: 2.9,
        created_at: Some("2026-01-02T03:04:05+00:00".to_owned()),
        source: "git-notes".to_owned(),
        links: vec![link(id("learnings", &two)), link("decisions:0000000:0".to_owned())],
        place: format!("refs/notes/mem/decisions@{one}#0"),
        raw: full.trim_end().to_owned(),
        ..OriginRecord::default()
    };
    assert_eq!(*decision, expected);
    assert!((learning.importance - 2.6).abs() < 1e-9);
}

#[test]
fn repositories_without_memories_are_empty() {
    let repo = Repo::new();
    assert_eq!(repo.origin().read().unwrap(), OriginContents::default());
    assert!(!is_one(&repo.path) && !is_one(&repo.path.join("nowhere")));
    repo.write(&[]);
    assert!(repo.tips().is_empty());
    let error = GitNotes::new(repo.path.join("nowhere")).read().unwrap_err().to_string();
    assert!(error.contains("is no git repository"), "{error}");
}

#[test]
fn both_domains_are_read() {
    let [project, user] = ["mine", "yours"].map(|summary| {
        let repo = Repo::new();
        repo.remember("decisions", &[(&sha(1), &note(summary, ""))]);
        repo
    });
    let origin = project.origin().with_user_domain(&user.path);
    let records = origin.read().unwrap().records;
    let ids: Vec<_> = records.iter().map(|record| record.id.as_str()).collect();
    assert_eq!(ids, [id("decisions", &sha(1)), format!("user:decisions:{}:0", sha(1))]);
    let domains: Vec<_> = records.iter().map(|record| record.attributes[0].1.as_str()).collect();
    assert_eq!(domains, ["project", "user"]);
}

#[test]
fn what_cannot_be_read_is_skipped_with_a_reason_and_hides_no_other() {
    let repo = Repo::new();
    let two = format!("{}\n---\ntype: x\nsummary: [\n---\nbody\n", note("good", "text"));
    repo.remember("progress", &[(&sha(1), "hello"), (&sha(2), &two)]);
    let contents = repo.origin().read().unwrap();
    assert_eq!((contents.records.len(), contents.skipped.len()), (1, 2));
    for (commit, reason) in
        [(sha(1), "line 1: no front matter"), (sha(2), "line 9: front matter is no YAML")]
    {
        let expected = format!("refs/notes/mem/progress@{commit} {reason}");
        let found = skipped(&contents);
        assert!(found.iter().any(|found| found.starts_with(&expected)), "{found:?}");
    }

    let (repo, _) = Repo::with(&[("progress", &[1])]);
    let name = "refs/notes/mem/progress";
    let update = |content: &[u8]| {
        let repository = repo.open();
        let notes = [(sha(2), Some(content.to_vec()))].into();
        let before = repository.tip(name).unwrap();
        let update = RefUpdate { name, before, notes: &notes, seconds: 0, message: "fixture" };
        repository.hold().unwrap().update(&update).unwrap();
    };
    let only_skipped = || {
        let contents = repo.origin().read().unwrap();
        assert_eq!((contents.records.len(), contents.skipped.len()), (1, 1));
        skipped(&contents).remove(0)
    };
    update(b"---\ntype: x\nsummary: \xff\n---\n");
    assert!(only_skipped().contains("no UTF-8"));
    // A blob that is not here, as in a partial clone.
    update(b"missing");
    let repository = repo.open();
    let notes = repository.notes(repository.tip(name).unwrap().unwrap()).unwrap();
    let blob = notes[&sha(2)].to_string();
    let objects = repo.path.join(".git/objects");
    std::fs::remove_file(objects.join(&blob[..2]).join(&blob[2..])).unwrap();
    assert!(only_skipped().contains(&blob));
    // One ref that cannot be read hid all others.
    std::fs::write(repo.path.join(".git/refs/notes/mem/broken"), format!("{}\n", "1".repeat(40)))
        .unwrap();
    let contents = repo.origin().read().unwrap();
    assert_eq!(contents.records.len(), 1);
    assert!(contents.skipped.iter().any(|skipped| skipped.place.contains("broken")));
}

#[test]
fn fanned_out_trees_and_long_bodies_are_read() {
    let repo = Repo::new();
    let body = "long ".repeat(20_000);
    let notes: Vec<(String, String)> =
        (0..600).map(|n| (sha(n), note(&format!("n{n}"), &body[..n * 100]))).collect();
    let notes: Vec<(&str, &str)> = notes.iter().map(|(c, n)| (c.as_str(), n.as_str())).collect();
    repo.remember("patterns", &notes);
    repo.remember("research", &[(&sha(1), &note("long", &body))]);
    let contents = repo.origin().read().unwrap();
    assert_eq!((contents.records.len(), contents.skipped.len()), (601, 0));
    assert_eq!(contents.records[600].text.len(), "long\n".len() + body.trim_end().len());
}

#[test]
fn lines_of_others_decide_standing_and_links() {
    let (repo, ids) = Repo::with(&[("decisions", &[1, 2, 3, 4])]);
    let commits: Vec<&str> = ids.iter().map(|id| commit_of(id)).collect();
    let short = |n: usize| format!("decisions:{}:0", &commits[n][..7]);
    let meta = |n: usize, rest: &str| format!("{{memory_id: '{}', {rest}}}\n", short(n));
    let merged = format!("consolidated_into: '{}', updated_at: '2026-01-02T00:00:00Z'", short(1));
    let merged = meta(0, &format!("tier: archived, {merged}"));
    let earlier =
        meta(0, "tier: hot, activation_count: 9, updated_at: '2026-01-01T23:00:00+00:00'");
    let archived =
        meta(2, "tier: archived, activation_count: 3, last_accessed: '2026-01-01T00:00:00Z'");
    let superseded = meta(3, &format!("tier: cold, superseded_by: '{}'", short(1)));
    let notes = [
        (commits[0], &*(merged + &earlier)),
        (commits[2], &*("nonsense: [\n".to_owned() + &archived)),
        (commits[3], &superseded),
    ];
    repo.set("refs/notes/mem-meta/decisions", &notes);
    let edge = format!(
        "{{source_id: '{}', target_id: '{}', edge_type: REFERENCES}}\n",
        short(1),
        short(2)
    );
    repo.set("refs/notes/mem-edges/decisions", &[(commits[1], &edge)]);
    assert_eq!(repo.origin().read().unwrap().skipped.len(), 1);
    let records = repo.records(&ids);
    assert_eq!(records[0].standing, OriginStanding::Merged { into: ids[1].clone() });
    assert_eq!((&records[2].standing, records[2].access_count), (&OriginStanding::Archived, 3));
    assert_eq!(records[2].last_accessed.as_deref(), Some("2026-01-01T00:00:00Z"));
    assert_eq!(records[3].standing, OriginStanding::Live);
    let link = |kind, to: &String| OriginLink { kind, to: to.clone() };
    let expected = [link(LinkKind::References, &ids[2]), link(LinkKind::Supersedes, &ids[3])];
    assert_eq!(records[1].links, expected);
}

#[test]
fn a_vector_counts_while_its_text_is_the_record() {
    let (repo, ids) = Repo::with(&[("decisions", &[1, 2, 3])]);
    let summary = |n: usize| sha(n)[..4].to_owned();
    std::fs::create_dir(repo.path.join(".memory")).unwrap();
    let index = repo.path.join(".memory/index.db");
    let short = format!("decisions:{}:0", &sha(1)[..7]);
    let (one, two) = (summary(1), summary(2));
    let rows = [
        (short.as_str(), one.as_str(), "body\n", "active", Some(vec![0.5, -0.5])),
        (ids[1].as_str(), two.as_str(), "older body", "active", Some(vec![1.0, 0.0])),
        (ids[2].as_str(), "[ARCHIVED] s", "", "archived", None),
        ("decisions:9999999:0", "gone", "", "active", Some(vec![1.0, 1.0])),
    ];
    write_index(&index, &rows);
    let records = repo.records(&ids);
    assert_eq!(records[0].vector, Some(("all-MiniLM-L6-v2".to_owned(), vec![0.5, -0.5])));
    assert_eq!(records[1].vector, None);
    assert_eq!(records[2].standing, OriginStanding::Archived);
    assert_eq!(repo.origin().read().unwrap().records.len(), 3);
    std::fs::write(&index, "broken").unwrap();
    let contents = repo.origin().read().unwrap();
    assert_eq!((contents.records.len(), contents.skipped.len()), (3, 1));
}
