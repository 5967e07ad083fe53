//! The paths of other systems, and the schedule.

use serde_json::{Value, json};

use crate::support::{Server, TestFolder};

const SCHEDULE: &str = "/api/v1/brain/consolidation/schedule";
const HISTORY: &str = "/api/v1/brain/consolidation/history";

#[test]
fn compatible_run_reports_in_the_callers_format() {
    let dir = TestFolder::with_deploys();
    let server = dir.serve_writing();
    let run = |body: &Value| {
        server.post("/api/v1/brain/consolidation/run", body).json()["report"].clone()
    };
    let dry = run(&json!({}));
    assert_eq!((&dry["dryRun"], &dry["totalCandidates"]), (&json!(true), &json!(4)), "{dry}");
    assert_eq!(dry["summary"]["replaced"], 1);
    assert_eq!(dry["actions"][0]["type"], "REPLACE");
    assert_eq!(dry["actions"][0]["sourceIds"].as_array().unwrap().len(), 2);
    assert_eq!(dir.one::<i64>("SELECT count(*) FROM stm"), 4);
    let wet = run(&json!({ "dryRun": false }));
    assert_eq!((&wet["dryRun"], wet["runId"].is_string()), (&json!(false), true), "{wet}");
    assert_eq!(dir.one::<i64>("SELECT count(*) FROM stm"), 3);
    let history = server.get(HISTORY).json();
    assert_eq!(history["reports"], json!([wet, dry]));
}

#[test]
fn compact_honours_its_dry_run_in_every_stage() {
    let dir = TestFolder::with_deploys();
    let server = dir.serve_writing();
    let path = "/v1/maintenance/compact_all?skip_consolidate=true";
    let dry = server.send("POST", path, &[], "").json();
    assert_eq!(dry["results"][0]["stats"]["dedup_removed"], 1, "{dry}");
    assert_eq!(
        (&dry["results"][0]["dry_run"], dir.one::<i64>("SELECT count(*) FROM stm")),
        (&json!(true), 4)
    );
    server.send("POST", "/v1/maintenance/compact", &[], "").assert_problem(422, "unprocessable");
    let nobody = server.send("POST", "/v1/maintenance/compact?user_id=u&dry_run=false", &[], "");
    assert_eq!(nobody.json()["stats"]["dedup_removed"], 0, "{nobody:?}");
    let wet = server.send("POST", &format!("{path}&dry_run=false"), &[], "").json();
    assert_eq!(wet["results"][0]["stats"]["applied_deletes"], 1, "{wet}");
    assert_eq!(dir.one::<i64>("SELECT count(*) FROM stm"), 3);
    let bad = "/v1/maintenance/compact_all?dry_run=perhaps";
    server.send("POST", bad, &[], "").assert_problem(400, "malformed");
}

fn set(server: &Server, settings: &Value) -> crate::support::Answer {
    server.send("PUT", SCHEDULE, &[], &settings.to_string())
}

#[test]
fn a_schedule_is_set_shown_and_shared() {
    let dir = TestFolder::with_deploys();
    let servers = [dir.serve_writing(), dir.serve_writing()];
    let off = servers[0].get(SCHEDULE).json();
    assert_eq!((&off["enabled"], &off["schedule"]), (&json!(false), &json!("0 2 * * *")), "{off}");
    let settings = json!({ "schedule": "30 4 * * 1", "timezone": "Europe/Berlin" });
    let view = set(&servers[0], &settings).json();
    assert_eq!(view["next_runs"].as_array().unwrap().len(), 5, "{view}");
    assert_eq!(view["execute"], "none");
    assert_eq!(servers[1].get(SCHEDULE).json()["schedule"], "30 4 * * 1");
    for wrong in [
        json!({ "schedule": "nonsense" }),
        json!({ "timezone": "Mars/Base" }),
        json!({ "execute": "most" }),
        json!({ "cron": "0 2 * * *" }),
    ] {
        set(&servers[0], &wrong).assert_problem(422, "unprocessable");
    }
    let off = set(&servers[1], &json!({ "enabled": false })).json();
    assert_eq!(off["next_runs"], json!([]));
}
