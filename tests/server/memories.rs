//! Check, save, search, recall, flags: the documents of the command line, over HTTP.

use serde_json::json;

use crate::support::{TestFolder, deploys};

#[test]
fn a_check_says_what_the_command_line_would_say_and_writes_nothing() {
    let dir = TestFolder::with_deploys();
    let before = std::fs::read(dir.path("brain.db")).unwrap();
    let server = dir.serve(&[]);
    let known = json!({ "text": "The deploy runs every Friday at noon", "vector": [1, 0, 0, 0] });
    let answer = server.post("/v1/check", &known);
    assert_eq!(answer.status, 200, "{answer:?}");
    let check = answer.json();
    assert_eq!(check["schema_version"], 1);
    assert_eq!(check["decision"], "touch", "{check}");
    assert_eq!(check["reason"], "the same text as m000002", "{check}");
    let new = json!({ "text": "Bob is allergic to walnuts", "vector": [0, 0, 0, 1] });
    assert_eq!(server.post("/v1/check", &new).json()["decision"], "insert");
    server.post("/v1/check", &json!({})).assert_problem(422, "unprocessable");
    server.post("/v1/check", &json!({ "vector": [] })).assert_problem(422, "unprocessable");
    server.post("/v1/save", &new).assert_problem(403, "forbidden");
    assert_eq!(before, std::fs::read(dir.path("brain.db")).unwrap());
}

#[test]
fn a_save_remembers_what_is_new_and_counts_what_is_known() {
    let dir = TestFolder::with_deploys();
    let server = dir.serve_writing();
    let new = json!({ "text": "Bob is allergic to walnuts", "vector": [0, 0, 0, 1],
                      "categories": ["health"], "user_id": "bob", "id": "bob-1" });
    let saved = server.post("/v1/save", &new).json();
    assert_eq!((&saved["written"], &saved["id"]), (&json!("inserted"), &json!("bob-1")), "{saved}");
    assert_eq!(saved["stored"], true);
    let again = server.post("/v1/save", &new).json();
    assert_eq!((&again["written"], &again["id"]), (&json!("touched"), &json!("bob-1")));
    assert_eq!(dir.one::<i64>("SELECT count(*) FROM stm"), 5);
    let sql = "SELECT count(*) FROM stm WHERE categories LIKE '%user:bob%'";
    assert_eq!(dir.one::<i64>(sql), 1);
    let taken = json!({ "text": "Something else", "id": "bob-1" });
    server.post("/v1/save", &taken).assert_problem(409, "conflict");
    server.post("/v1/save", &json!({ "text": " " })).assert_problem(422, "unprocessable");
    for name in ["id", "user_id"] {
        let mut invalid = json!({ "text": "Ana collects stamps" });
        invalid[name] = json!("");
        server.post("/v1/save", &invalid).assert_problem(422, "unprocessable");
        server.post("/v1/check", &invalid).assert_problem(422, "unprocessable");
    }
}

/// A store that another program holds answered 500.
#[test]
fn a_store_that_is_held_is_unavailable() {
    let dir = TestFolder::with_deploys();
    dir.write("held.yaml", "busy_timeout_ms: 50\n");
    let server = dir.serve(&["--allow-writes", "--config", "held.yaml"]);
    let holder = dir.connect();
    holder.execute_batch("BEGIN IMMEDIATE").unwrap();
    let new = json!({ "text": "Bob is allergic to walnuts", "vector": [0, 0, 0, 1] });
    let answer = server.post("/v1/save", &new);
    answer.assert_problem(503, "unavailable");
    assert_eq!(answer.headers["retry-after"], "1");
    holder.execute_batch("ROLLBACK").unwrap();
    assert_eq!(server.post("/v1/save", &new).status, 200);
}

#[test]
fn searches_and_recalls_find_and_keep_to_their_scope() {
    let dir = TestFolder::with_deploys();
    let server = dir.serve_writing();
    let near = json!({ "vector": [0, 1, 0.1, 0], "limit": 2 });
    let found = server.post("/v1/search", &near).json();
    assert_eq!(found["matches"][0]["id"], "m000003", "{found}");
    assert_eq!(found["matches"].as_array().unwrap().len(), 2);
    let by_id = server.post("/v1/search", &json!({ "id": "m000001", "limit": 1 })).json();
    assert_eq!(by_id["matches"][0]["id"], "m000002", "{by_id}");
    server.post("/v1/search", &json!({ "id": "gone" })).assert_problem(404, "not-found");
    server.post("/v1/search", &json!({ "vector": [1, 0] })).assert_problem(422, "unprocessable");
    let two = json!({ "id": "a", "text": "b" });
    server.post("/v1/search", &two).assert_problem(422, "unprocessable");
    let many = json!({ "vector": [1, 0, 0, 0], "limit": 100_000 });
    server.post("/v1/search", &many).assert_problem(422, "unprocessable");

    let asked = json!({ "query": "Where does the staging database live?", "mode": "exhaustive" });
    let recalled = server.post("/v1/recall", &asked).json();
    assert_eq!(recalled["matches"][0]["id"], "m000004", "{recalled}");
    let of_bob = json!({ "query": "staging database", "mode": "exhaustive", "user_id": "bob" });
    assert_eq!(server.post("/v1/recall", &of_bob).json()["matches"], json!([]));
}

#[test]
fn flags_are_listed_and_settled_and_the_store_tells_where_it_stands() {
    let mut rows = deploys();
    rows[0].content = "The deploy runs every Friday at noon".to_owned();
    rows[1].content = "The deploy runs every Monday at noon".to_owned();
    let dir = TestFolder::with(&rows);
    let server = dir.serve_writing();
    let plan = server.plan(&json!({ "save_plan": true }));
    let run = server.apply(&plan.0, &plan.1);
    let flags = server.get("/v1/flags").json();
    let key = flags["flags"][0]["key"].as_str().unwrap().to_owned();
    server
        .post("/v1/flags/0000000000000000", &json!({ "settlement": "keep_both" }))
        .assert_problem(404, "not-found");
    server
        .post(&format!("/v1/flags/{key}"), &json!({ "settlement": "guess" }))
        .assert_problem(422, "unprocessable");
    let settled = server.post(&format!("/v1/flags/{key}"), &json!({ "settlement": "keep_both" }));
    assert_eq!(settled.status, 200, "{settled:?}");
    assert_eq!(server.get("/v1/flags").json()["flags"], json!([]));
    let stats = server.get("/v1/stats").json();
    assert_eq!((&stats["live"], &stats["open_flags"]), (&json!(4), &json!(0)), "{stats}");
    assert!(stats["last_run"]["run_id"].is_string() && !run.is_empty());
    let page = server.get("/metrics").body;
    assert!(page.contains("memfold_store_up{store=\"brain\"} 1"), "{page}");
    assert!(page.contains("memfold_runs_total{store=\"brain\",kind=\"apply\",state=\"done\"} 1"));
}

#[test]
fn stores_have_names() {
    let dir = TestFolder::with_deploys();
    std::fs::copy(dir.path("brain.db"), dir.path("other.db")).unwrap();
    let server = dir.serve(&["--store", "second=other.db", "--allow-writes"]);
    let new = json!({ "text": "Only in the second", "vector": [0, 0, 0, 1] });
    assert_eq!(server.post("/v1/save?store=brain", &new).status, 200);
    let known = |store: &str| {
        let check = server.post(&format!("/v1/check?store={store}"), &new).json();
        check["decision"].as_str().unwrap().to_owned()
    };
    assert_eq!((known("brain"), known("second")), ("touch".to_owned(), "insert".to_owned()));
    server.post("/v1/check?store=third", &new).assert_problem(404, "not-found");
}
