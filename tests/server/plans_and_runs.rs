//! From a plan to its run and back, as a program does it.

use std::io::{BufRead as _, BufReader, Write as _};

use serde_json::{Value, json};

use crate::support::TestFolder;

const LIVE: &str = "SELECT count(*) FROM stm";

#[test]
fn a_plan_is_made_looked_at_applied_and_undone() {
    let dir = TestFolder::with_deploys();
    let server = dir.serve_writing();
    let started = server.post("/v1/runs", &json!({}));
    assert_eq!(started.status, 202);
    let place_of_job = started.headers["location"].clone();
    let job = loop {
        let job = server.get(&place_of_job).json();
        if job["state"] == "done" {
            break job;
        }
        assert!(["queued", "running"].contains(&job["state"].as_str().unwrap()), "{job}");
        std::thread::sleep(std::time::Duration::from_millis(20));
    };
    // A dry run: the store knows nothing of it.
    assert_eq!((&job["result"]["mode"], &job["run_id"]), (&json!("dry_run"), &Value::Null));
    assert_eq!(dir.one::<i64>("SELECT count(*) FROM sqlite_master WHERE name LIKE 'memfold%'"), 0);

    let (id, digest) = (job["plan_id"].as_str().unwrap(), job["plan_digest"].as_str().unwrap());
    let plan = server.get(&format!("/v1/plans/{id}"));
    assert_eq!(plan.headers["etag"], format!("\"{digest}\""));
    assert_eq!(plan.json()["actions"][0]["action"]["type"], "merge", "{}", plan.body);
    assert_eq!(server.get("/v1/plans").json()["plans"][0]["plan_id"], id);

    let apply = format!("/v1/plans/{id}/apply");
    server.post(&apply, &json!({})).assert_problem(428, "digest-missing");
    let other = server.send("POST", &apply, &[("If-Match", "\"abc\"")], "{}");
    other.assert_problem(412, "another-plan");
    let any = server.send("POST", &apply, &[("If-Match", "*")], "{}");
    any.assert_problem(428, "digest-missing");
    let run = server.apply(id, digest);
    assert_eq!(dir.one::<i64>(LIVE), 3);

    let recorded = server.get(&format!("/v1/runs/{run}")).json();
    assert_eq!((&recorded["kind"], &recorded["state"]), (&json!("execute"), &json!("done")));
    let all = server.get("/v1/runs").json();
    assert_eq!(all["audit_chain"]["holds"], true, "{all}");
    assert_eq!(all["jobs"].as_array().unwrap().len(), 2);

    let undone = server.job(&format!("/v1/runs/{run}/undo"), &[], &json!({}));
    assert_eq!(undone["result"]["executed"]["applied"], 1, "{undone}");
    assert_eq!(dir.one::<i64>(LIVE), 4);
    let again = server.post(&format!("/v1/runs/{run}/undo"), &json!({}));
    again.assert_problem(409, "conflict");
    server.post("/v1/runs/none/undo", &json!({})).assert_problem(404, "not-found");
    server.get("/v1/plans/pffffffffffff").assert_problem(404, "not-found");
    server.get("/v1/runs/none").assert_problem(404, "not-found");
}

#[test]
fn decisions_are_written_down_and_followed() {
    let dir = TestFolder::with_deploys();
    let server = dir.serve_writing();
    let (id, digest) = server.plan(&json!({ "save_plan": true }));
    let path = format!("/v1/plans/{id}/decisions");
    let decide = |action: &str, decision: &str| {
        server.post(&path, &json!({ "decisions": [{ "action": action, "decision": decision }] }))
    };
    let state = |answer: crate::support::Answer| answer.json()["actions"][0]["state"].clone();
    assert_eq!(state(decide("a1", "approve")), "approved");
    assert_eq!(state(decide("identical", "reject")), "rejected");
    assert_eq!(state(decide("a1", "undecide")), "proposed");
    let swapped = decide("a1", "swap").json();
    assert_eq!(swapped["actions"][0]["amended"], true, "{swapped}");
    decide("a99", "approve").assert_problem(404, "not-found");
    let body = json!({ "decisions": [] }).to_string();
    let tag = [("If-Match", "\"other\"")];
    server.send("POST", &path, &tag, &body).assert_problem(412, "another-plan");
    assert_eq!(state(decide("a1", "keep_both")), "rejected");
    let again = server.job("/v1/runs", &[], &json!({}));
    assert_eq!(again["result"]["planned"]["merge"], 0, "{again}");
    assert_eq!(server.get("/v1/proposals").json()["schema_version"], 1);
    assert!(!digest.is_empty());
}

#[test]
fn a_run_carries_out_as_much_as_it_is_told_to() {
    let dir = TestFolder::with_deploys();
    let server = dir.serve_writing();
    let identical = server.job("/v1/runs", &[], &json!({ "execute": "identical" }));
    assert_eq!(identical["state"], "done", "{identical}");
    assert_eq!(dir.one::<i64>(LIVE), 3);
    let result = &identical["result"];
    assert_eq!((&result["mode"], &result["executed"]["applied"]), (&json!("execute"), &json!(1)));
    assert_eq!(result["run_id"], identical["run_id"]);
    // Nothing is left to do: no run is recorded that could be undone.
    for mode in ["identical", "all"] {
        let nothing = server.job("/v1/runs", &[], &json!({ "execute": mode }));
        assert_eq!(
            (&nothing["state"], &nothing["run_id"]),
            (&json!("done"), &Value::Null),
            "{mode}"
        );
    }
    let run = identical["run_id"].as_str().unwrap();
    server.job(&format!("/v1/runs/{run}/undo"), &[], &json!({ "remerge_ok": true }));
    let reviewed = server.job("/v1/runs", &[], &json!({ "execute": "reviewed" }));
    assert_eq!((&reviewed["run_id"], dir.one::<i64>(LIVE)), (&Value::Null, 4), "{reviewed}");
    let plan = reviewed["plan_id"].as_str().unwrap();
    let approve = json!({ "decisions": [{ "action": "a1", "decision": "approve" }] });
    assert_eq!(server.post(&format!("/v1/plans/{plan}/decisions"), &approve).status, 200);
    server.job("/v1/runs", &[], &json!({ "execute": "reviewed" }));
    assert_eq!(dir.one::<i64>(LIVE), 3);
    for nonsense in [json!({ "threshold": 2 }), json!({ "user_id": "u", "categories": ["a"] })] {
        server.post("/v1/runs", &nonsense).assert_problem(422, "unprocessable");
    }
}

#[test]
fn a_run_can_be_followed_to_its_end() {
    let dir = TestFolder::with_deploys();
    let server = dir.serve(&[]);
    let job = server.post("/v1/runs", &json!({})).json();
    let path = format!("/v1/runs/{}/events", job["id"].as_str().unwrap());
    let mut stream = server.connect();
    let host = &server.address;
    stream.write_all(format!("GET {path} HTTP/1.1\r\nHost: {host}\r\n\r\n").as_bytes()).unwrap();
    let mut kinds = Vec::new();
    for line in BufReader::new(stream).lines() {
        let line = line.unwrap();
        if let Some(kind) = line.strip_prefix("event: ") {
            kinds.push(kind.to_owned());
        }
        if line.starts_with("data: ") && kinds.last().is_some_and(|kind| kind == "end") {
            assert!(line.contains("\"state\":\"done\""), "{line}");
            break;
        }
    }
    assert_eq!(kinds.last().unwrap(), "end");
    assert!(kinds.iter().any(|kind| kind == "stage"), "{kinds:?}");
    // Later all of it is still there, and nothing more than requested.
    let again = server.get(&path);
    assert_eq!(again.headers["content-type"], "text/event-stream");
    assert!(again.body.contains("event: stage") && again.body.contains("event: end"));
    let rest = server.send("GET", &path, &[("Last-Event-ID", "1")], "");
    assert!(!rest.body.contains("id: 1\n") && rest.body.contains("event: end"), "{}", rest.body);
    server.get("/v1/runs/job-0-0/events").assert_problem(404, "not-found");
}

#[test]
fn nothing_is_written_where_the_server_was_not_told_to() {
    let dir = TestFolder::with_deploys();
    let server = dir.serve(&[]);
    for (path, body) in [
        ("/v1/runs", json!({ "execute": "all" })),
        ("/v1/runs", json!({ "save_plan": true })),
        ("/v1/runs/x/undo", json!({})),
        ("/v1/flags/x", json!({ "settlement": "merge" })),
        ("/v1/plans/x/decisions", json!({ "decisions": [] })),
    ] {
        server.post(path, &body).assert_problem(403, "forbidden");
    }
    let (plan, digest) = server.plan(&json!({}));
    let path = format!("/v1/plans/{plan}/apply");
    let tag = format!("\"{digest}\"");
    server.send("POST", &path, &[("If-Match", &tag)], "{}").assert_problem(403, "forbidden");
    let schedule = json!({ "schedule": "0 3 * * *" }).to_string();
    let path = "/api/v1/brain/consolidation/schedule";
    server.send("PUT", path, &[], &schedule).assert_problem(403, "forbidden");
}
