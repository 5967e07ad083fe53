use super::fixture::{Repo, id, note, sha, write_notes};
use crate::git_notes::index_db::tests::write_index;
use crate::git_notes::repository::RefUpdate;
use crate::git_notes::{GitNotes, is_one};
use memfold_store::origin::{LinkKind, Origin as _, OriginLink, OriginStanding};

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
    assert_eq!(decision.id, id("decisions", &one));
    assert_eq!(decision.text, "Use SQLite\n## Why\n\nfast");
    assert_eq!(decision.tags, ["db", "ünï"]);
    let attributes: Vec<_> = decision.attributes.iter().map(|(n, v)| format!("{n}={v}")).collect();
    let expected = [
        "domain=project",
        "namespace=decisions",
        "phase=build",
        "spec=store",
        "status=resolved",
        "type=decisions",
    ];
    assert_eq!(attributes, expected);
    assert!((decision.importance - 2.9).abs() < 1e-9 && (learning.importance - 2.6).abs() < 1e-9);
    assert_eq!(decision.created_at.as_deref(), Some("2026-01-02T03:04:05+00:00"));
    assert_eq!(decision.source, "git-notes");
    assert_eq!(decision.place, format!("refs/notes/mem/decisions@{one}#0"));
    assert_eq!(decision.raw, full.trim_end());
    assert_eq!(decision.standing, OriginStanding::Live);
    let link = |to: String| OriginLink { kind: LinkKind::References, to };
    assert_eq!(
        decision.links,
        [link(id("learnings", &two)), link("decisions:0000000:0".to_owned())]
    );
}

#[test]
fn repositories_without_memories_are_empty() {
    let repo = Repo::new();
    let contents = repo.origin().read().unwrap();
    assert_eq!((contents.records.len(), contents.skipped.len()), (0, 0));
    assert!(!is_one(&repo.path) && !is_one(&repo.path.join("nowhere")));
    let tips = repo.tips();
    assert!(repo.origin().write(&[]).unwrap().units.is_empty());
    assert_eq!(repo.tips(), tips);
    let error = GitNotes::new(repo.path.join("nowhere")).read().unwrap_err().to_string();
    assert!(error.contains("is no git repository"), "{error}");
}

#[test]
fn both_domains_and_another_prefix() {
    let (project, user) = (Repo::new(), Repo::new());
    let commit = sha(1);
    write_notes(&project.path, "refs/notes/own/decisions", &[(&commit, &note("mine", "a"))]);
    write_notes(&user.path, "refs/notes/own/decisions", &[(&commit, &note("yours", "b"))]);
    let origin = GitNotes::new(&project.path)
        .with_prefix("refs/notes/own/")
        .with_user_domain(&user.path, None);
    let records = origin.read().unwrap().records;
    let ids: Vec<_> = records.iter().map(|record| record.id.as_str()).collect();
    assert_eq!(ids, [id("decisions", &commit), format!("user:decisions:{commit}:0")]);
    let domains: Vec<_> = records.iter().map(|record| record.attributes[0].1.as_str()).collect();
    assert_eq!(domains, ["project", "user"]);
}

#[test]
fn what_is_no_record_is_skipped_with_a_reason() {
    let repo = Repo::new();
    let commits = [sha(1), sha(2), sha(3)];
    let two = format!("{}\n---\ntype: x\nsummary: [\n---\nbody\n", note("good", "text"));
    repo.remember("progress", &[(&commits[0], "hello"), (&commits[1], &two)]);
    let contents = repo.origin().read().unwrap();
    assert_eq!(contents.records.len(), 1);
    let mut skipped: Vec<_> =
        contents.skipped.iter().map(|s| format!("{}: {}", s.place, s.reason)).collect();
    skipped.sort();
    assert_eq!(skipped.len(), 2, "{skipped:?}");
    let all = skipped.join("\n");
    assert!(
        all.contains(&format!("refs/notes/mem/progress@{} line 1: no front matter", commits[0])),
        "{all}"
    );
    assert!(
        all.contains(&format!(
            "refs/notes/mem/progress@{} line 9: front matter is no YAML",
            commits[1]
        )),
        "{all}"
    );
}

#[test]
fn notes_that_cannot_be_read_hide_no_others() {
    let repo = Repo::new();
    repo.remember("progress", &[(&sha(1), &note("good", "text"))]);
    let update = |content: &[u8]| {
        let repository = repo.open();
        let name = "refs/notes/mem/progress";
        let update = RefUpdate {
            name,
            before: repository.tip(name).unwrap(),
            notes: &[(sha(2), Some(content.to_vec()))].into(),
            seconds: 0,
            message: "fixture",
        };
        repository.hold().unwrap().update(&update).unwrap();
    };
    update(b"---\ntype: x\nsummary: \xff\n---\n");
    let contents = repo.origin().read().unwrap();
    assert_eq!((contents.records.len(), contents.skipped.len()), (1, 1));
    assert!(contents.skipped[0].reason.starts_with("no UTF-8"), "{:?}", contents.skipped);
    // A blob that is not here, as in a partial clone.
    update(b"missing");
    let repository = repo.open();
    let notes =
        repository.notes(repository.tip("refs/notes/mem/progress").unwrap().unwrap()).unwrap();
    let blob = notes[&sha(2)].to_string();
    std::fs::remove_file(repo.path.join(".git/objects").join(&blob[..2]).join(&blob[2..])).unwrap();
    let contents = repo.origin().read().unwrap();
    assert_eq!((contents.records.len(), contents.skipped.len()), (1, 1));
    assert!(contents.skipped[0].reason.contains(&blob), "{:?}", contents.skipped);
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
    let repo = Repo::new();
    let commits = [sha(1), sha(2), sha(3), sha(4)];
    let notes: Vec<_> = commits.iter().map(|commit| (commit.as_str(), note("s", commit))).collect();
    let notes: Vec<_> = notes.iter().map(|(commit, note)| (*commit, note.as_str())).collect();
    repo.remember("decisions", &notes);
    let short = |n: usize| format!("decisions:{}:0", &commits[n][..7]);
    let meta = |n: usize, rest: &str| format!("{{memory_id: '{}', {rest}}}\n", short(n));
    let merged = meta(
        0,
        &format!(
            "tier: archived, consolidated_into: '{}', updated_at: '2026-01-02T00:00:00+00:00'",
            short(1)
        ),
    );
    let earlier =
        meta(0, "tier: hot, activation_count: 9, updated_at: '2026-01-01T23:00:00+00:00'");
    let archived =
        meta(2, "tier: archived, activation_count: 3, last_accessed: '2026-01-01T00:00:00Z'");
    let superseded = meta(3, &format!("tier: cold, superseded_by: '{}'", short(1)));
    let content = [merged + &earlier, "nonsense: [\n".to_owned() + &archived, superseded];
    repo.write(
        "refs/notes/mem-meta/decisions",
        &[(&commits[0], &content[0]), (&commits[2], &content[1]), (&commits[3], &content[2])],
    );
    let edge = format!(
        "{{source_id: '{}', target_id: '{}', edge_type: REFERENCES, weight: 1.0}}\n",
        short(1),
        short(2)
    );
    repo.write("refs/notes/mem-edges/decisions", &[(&commits[1], &edge)]);
    let contents = repo.origin().read().unwrap();
    assert_eq!(contents.skipped.len(), 1, "{:?}", contents.skipped);
    let record =
        |n: usize| contents.records.iter().find(|r| r.id == id("decisions", &commits[n])).unwrap();
    assert_eq!(record(0).standing, OriginStanding::Merged { into: id("decisions", &commits[1]) });
    assert_eq!((&record(2).standing, record(2).access_count), (&OriginStanding::Archived, 3));
    assert_eq!(record(2).last_accessed.as_deref(), Some("2026-01-01T00:00:00Z"));
    assert_eq!(record(3).standing, OriginStanding::Live);
    let links: Vec<_> = record(1).links.iter().map(|link| (link.kind, link.to.clone())).collect();
    let expected = [
        (LinkKind::References, id("decisions", &commits[2])),
        (LinkKind::Supersedes, id("decisions", &commits[3])),
    ];
    assert_eq!(links, expected);
}

#[test]
fn a_vector_counts_while_its_text_is_the_record() {
    let repo = Repo::new();
    let commits = [sha(1), sha(2), sha(3)];
    let notes: Vec<_> = commits.iter().map(|commit| (commit.as_str(), note("s", "body"))).collect();
    let notes: Vec<_> = notes.iter().map(|(commit, note)| (*commit, note.as_str())).collect();
    repo.remember("decisions", &notes);
    std::fs::create_dir(repo.path.join(".memory")).unwrap();
    let short = format!("decisions:{}:0", &commits[0][..7]);
    let (stale, archived) = (id("decisions", &commits[1]), id("decisions", &commits[2]));
    let rows = [
        (short.as_str(), "s", "body\n", "active", Some(vec![0.5, -0.5])),
        (stale.as_str(), "s", "older body", "active", Some(vec![1.0, 0.0])),
        (archived.as_str(), "[ARCHIVED] s", "", "archived", None),
        ("decisions:9999999:0", "gone", "", "active", Some(vec![1.0, 1.0])),
    ];
    write_index(&repo.path.join(".memory/index.db"), &rows);
    let vector = |n: usize| repo.record(&id("decisions", &commits[n])).vector;
    assert_eq!(vector(0), Some(("all-MiniLM-L6-v2".to_owned(), vec![0.5, -0.5])));
    assert_eq!(vector(1), None);
    assert_eq!(repo.record(&archived).standing, OriginStanding::Archived);
    assert_eq!(repo.origin().read().unwrap().records.len(), 3);
    std::fs::write(repo.path.join(".memory/index.db"), "broken").unwrap();
    let contents = repo.origin().with_model("other").read().unwrap();
    assert_eq!((contents.records.len(), contents.skipped.len()), (3, 1));
}
