//! `memory.jsonl` with the operations of the reference server: its results, files in other shapes, several writers.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::collections::BTreeSet;
use std::path::Path;

use memfold_adapters::mcp_memory::{Entity, GraphError, GraphFile, Observations, Relation};
use memfold_guard::{Guard, GuardPolicy};

fn open(path: &Path) -> GraphFile {
    GraphFile::new(path, Guard::new(&GuardPolicy::default()).unwrap())
}

fn entity(name: &str, observations: &[&str]) -> Entity {
    Entity {
        name: name.to_owned(),
        entity_type: "person".to_owned(),
        observations: observations.iter().map(|text| (*text).to_owned()).collect(),
    }
}

fn relation(from: &str, to: &str) -> Relation {
    Relation { from: from.to_owned(), to: to.to_owned(), relation_type: "knows".to_owned() }
}

fn observations(entity: &str, texts: &[&str]) -> Observations {
    let texts = texts.iter().map(|text| (*text).to_owned()).collect();
    Observations { entity: entity.to_owned(), texts }
}

#[test]
fn operations_have_the_results_of_the_reference_server() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory.jsonl");
    let mut graph = open(&path);
    assert_eq!(graph.read_graph().unwrap().entities, []);
    let new = graph
        .create_entities(vec![entity("Ana", &["likes tea", "lives in Bern"]), entity("Bob", &[])]);
    assert_eq!(new.unwrap().len(), 2);
    let new = graph.create_entities(vec![entity("Ana", &["other"]), entity("Cleo", &[])]).unwrap();
    assert_eq!(new, [entity("Cleo", &[])]);
    let new =
        graph.create_relations(vec![relation("Ana", "Bob"), relation("Bob", "Cleo")]).unwrap();
    assert_eq!(new.len(), 2);
    assert_eq!(graph.create_relations(vec![relation("Ana", "Bob")]).unwrap(), []);
    let added = graph
        .add_observations(vec![observations("Ana", &["likes tea", "Lives in Bern.", "sings"])]);
    let added = added.unwrap().remove(0);
    assert_eq!(added.added, ["sings"]);
    assert_eq!(
        (added.known[0].says_it.as_str(), added.known[0].text.as_str()),
        ("lives in Bern", "Lives in Bern.")
    );
    let before = std::fs::read(&path).unwrap();
    let refused =
        graph.add_observations(vec![observations("Bob", &["swims"]), observations("Zoe", &["x"])]);
    assert!(matches!(refused, Err(GraphError::NoEntity { name }) if name == "Zoe"));
    assert_eq!(std::fs::read(&path).unwrap(), before, "nothing of it is written");
    assert_eq!(graph.search_nodes("TEA").unwrap().relations, [relation("Ana", "Bob")]);
    assert_eq!(
        graph.open_nodes(&["Cleo".to_owned()]).unwrap().relations,
        [relation("Bob", "Cleo")]
    );
    graph.delete_observations(&[observations("Ana", &["likes tea", "none"])]).unwrap();
    graph.delete_entities(&["Bob".to_owned()]).unwrap();
    graph.delete_relations(&[relation("x", "y")]).unwrap();
    // As somebody else reads it.
    let read = open(&path).read_graph().unwrap();
    assert_eq!(read.entities, [entity("Ana", &["lives in Bern", "sings"]), entity("Cleo", &[])]);
    assert_eq!(read.relations, []);
}

#[test]
fn documents_and_broken_lines_are_read_and_kept() {
    let folder = tempfile::tempdir().unwrap();
    let of = "{\"name\":\"Ana\",\"entityType\":\"person\",\"observations\":[{\"text\":\"likes tea\"},\"sings\"]}";
    let knows = "{\"from\":\"Ana\",\"to\":\"Bob\",\"relationType\":\"knows\"}";
    for (name, text) in [
        ("array.json", format!("[\n  {of},\n  {knows},\n  {knows}\n]\n")),
        ("object.json", format!("{{\"entities\": [{of}], \"relations\": [{knows}]}}")),
        ("untyped.jsonl", format!("{of}\n{knows}\n{knows}\n")),
    ] {
        let path = folder.path().join(name);
        std::fs::write(&path, text).unwrap();
        let mut graph = open(&path);
        let read = graph.read_graph().unwrap();
        assert_eq!(read.entities, [entity("Ana", &["likes tea", "sings"])], "{name}");
        assert_eq!(read.relations, [relation("Ana", "Bob")], "{name}");
        graph.add_observations(vec![observations("Ana", &["swims"])]).unwrap();
        graph.create_relations(vec![relation("Ana", "Cleo")]).unwrap();
        let read = open(&path).read_graph().unwrap();
        assert_eq!((read.entities[0].observations.len(), read.relations.len()), (3, 2), "{name}");
    }
    let broken = "{\"type\":\"entity\",\"name\":\"Half\n";
    let lone = "{\"type\":\"entity\",\"name\":\"Ana\",\"entityType\":\"p\",\"observations\":[\"cut \\ud83d\"],\"x\":1}\n";
    let path = folder.path().join("memory.jsonl");
    std::fs::write(&path, format!("{broken}{lone}\u{feff}")).unwrap();
    let mut graph = open(&path);
    assert_eq!(graph.read_graph().unwrap().entities.len(), 1);
    graph.add_observations(vec![observations("Ana", &["swims"])]).unwrap();
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(
        text.starts_with(broken) && text.contains("[\"cut \\ud83d\",\"swims\"],\"x\":1}"),
        "{text}"
    );
}

/// Each writer has the file open by itself, as a process would; locks do not tell the two apart.
#[test]
fn no_write_of_several_writers_is_lost() {
    let (writers, writes) = (8, 60);
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("memory.jsonl");
    std::thread::scope(|threads| {
        for writer in 0..writers {
            let path = &path;
            threads.spawn(move || {
                let (mut graph, own) = (open(path), format!("own-{writer}"));
                graph.create_entities(vec![entity(&own, &[])]).unwrap();
                for at in 0..writes {
                    let name = format!("w{writer}-{at}");
                    match at % 5 {
                        4 => drop(
                            graph.add_observations(vec![observations(&own, &[&name])]).unwrap(),
                        ),
                        _ => drop(graph.create_entities(vec![entity(&name, &[])]).unwrap()),
                    }
                }
            });
        }
    });
    let read = open(&path).read_graph().unwrap();
    let mut found: BTreeSet<&str> =
        read.entities.iter().map(|entity| entity.name.as_str()).collect();
    found.extend(read.entities.iter().flat_map(|entity| &entity.observations).map(String::as_str));
    let lost: Vec<String> = (0..writers)
        .flat_map(|writer| (0..writes).map(move |at| format!("w{writer}-{at}")))
        .filter(|name| !found.contains(&**name))
        .collect();
    assert_eq!(lost, [] as [&str; 0]);
}
