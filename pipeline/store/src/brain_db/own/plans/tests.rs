use std::collections::BTreeMap;

use proptest::prelude::*;
use rusqlite::Connection;
use serde_json::{Map, Value, json};

use super::*;
use crate::brain_db::own::tables::migrate;
use memfold_core::memory::MemoryId;
use memfold_core::plan::{
    Action, ActionState, ActionType, Plan, Rationale, Risk, canonical_json, plan_digest, plan_id,
};

fn store() -> Connection {
    let connection = Connection::open_in_memory().unwrap();
    migrate(&connection, || Ok("store".to_owned()), "t").unwrap();
    connection
}

fn action(action: ActionType, ids: &[&str]) -> Action {
    let ids = ids.iter().map(|id| MemoryId::new(*id)).collect();
    let action = Action::new(action, ids, Rationale::new("R", Vec::new()));
    Action { risk: Risk::Trivial, ..action }
}

fn plan_of(actions: Vec<Action>) -> Plan {
    let changes = actions.iter().filter(|action| action.action != ActionType::Noop);
    let ids = changes.flat_map(|action| action.target_ids.clone());
    Plan {
        schema_version: 1,
        store_id: "store".to_owned(),
        config_hash: "sha256:00".to_owned(),
        engine_version: "0".to_owned(),
        now: "2026-06-30T12:00:00Z".to_owned(),
        overrides: Map::new(),
        base_digests: ids.map(|id| (id, "0a".to_owned())).collect(),
        actions,
    }
}

/// A merge, a promotion and a noop.
fn sample() -> Plan {
    plan_of(vec![
        action(ActionType::Merge, &["a", "b"]),
        action(ActionType::Promote, &["a"]),
        action(ActionType::Noop, &["c"]),
    ])
}

fn keep(connection: &Connection, plan: &Plan, saved_at: &str) -> String {
    let name = plan_id(plan);
    let counts = BTreeMap::from([(MemoryId::new("a"), 7)]);
    let all = 0..plan.actions.len();
    save_actions(connection, plan, &name, all, &counts).unwrap();
    assert!(plan_exists(connection, &name).unwrap() || find_plan(connection, &name).is_err());
    save_header(connection, plan, &name, saved_at).unwrap();
    name
}

#[test]
fn a_plan_is_saved_once() {
    let connection = store();
    let name = keep(&connection, &sample(), "t1");
    assert_eq!(name, plan_id(&sample()));
    set_action_state(&connection, &name, 0, &ActionUpdate::of(ActionState::Rejected)).unwrap();
    assert_eq!(keep(&connection, &sample(), "t2"), name);
    let saved = load_plan(&connection, &name).unwrap().unwrap();
    assert_eq!((saved.saved_at.as_str(), saved.actions[0].state), ("t1", ActionState::Rejected));
    assert_eq!(saved.plan, sample());
    assert_eq!(saved.plan_digest, plan_digest(&sample()));
    let counts: Vec<_> = saved.actions.iter().map(|action| action.access_count).collect();
    assert_eq!(counts, [None, Some(7), None]);
    assert_eq!(saved.count(ActionState::Proposed), 1);
}

#[test]
fn what_was_set_on_the_command_line_names_another_plan() {
    let connection = store();
    let mut plan = sample();
    plan.overrides.insert("rules.R2.min_similarity".to_owned(), json!(0.97));
    let name = keep(&connection, &plan, "t");
    assert_ne!(name, plan_id(&sample()));
    assert_eq!(plan_digest(&plan), plan_digest(&sample()));
    let saved = load_plan(&connection, &name).unwrap().unwrap();
    assert_eq!(*saved.overrides(), plan.overrides);
}

#[test]
fn states_and_amendments_are_kept() {
    let connection = store();
    let name = keep(&connection, &sample(), "t");
    let applied = ActionUpdate {
        state: ActionState::Applied,
        run_id: Some("run"),
        unit: Some(3),
        note: Some("why"),
    };
    set_action_state(&connection, &name, 0, &applied).unwrap();
    let swapped = action(ActionType::Merge, &["b", "a"]);
    amend(&connection, &name, 0, Some(&swapped)).unwrap();
    let saved = load_plan(&connection, &name).unwrap().unwrap();
    let first = &saved.actions[0];
    assert_eq!((first.run_id.as_deref(), first.unit), (Some("run"), Some(3)));
    assert_eq!((first.note.as_deref(), first.label()), (Some("why"), "a1".to_owned()));
    assert_eq!((first.effective(), &first.action), (&swapped, &sample().actions[0]));
    assert_eq!(saved.plan, sample(), "the plan stays as it was made");
    set_action_state(&connection, &name, 0, &ActionUpdate::of(ActionState::Proposed)).unwrap();
    amend(&connection, &name, 0, None).unwrap();
    let first = load_plan(&connection, &name).unwrap().unwrap().actions.remove(0);
    assert_eq!((first.run_id, first.unit, first.note, first.amended), (None, None, None, None));
}

#[test]
fn an_action_that_is_not_there_cannot_be_changed() {
    let connection = store();
    let name = keep(&connection, &sample(), "t");
    let update = ActionUpdate::of(ActionState::Approved);
    assert!(set_action_state(&connection, &name, 3, &update).is_err());
    assert!(set_action_state(&connection, "p0", 0, &update).is_err());
    assert!(amend(&connection, &name, 3, None).is_err());
}

#[test]
fn plans_are_found_by_name_beginning_and_age() {
    let connection = store();
    // The clock was set back between them.
    let older = keep(&connection, &sample(), "2026-10-25T02:50:00");
    let newer = keep(&connection, &plan_of(Vec::new()), "2026-10-25T02:10:00");
    let found = |wanted: &str| find_plan(&connection, wanted).map(|plan| plan.plan_id);
    assert_eq!(found(&older).unwrap(), older);
    assert_eq!(found(&older[..4]).unwrap(), older);
    assert_eq!(found("latest").unwrap(), newer);
    let unknown = found(&older[..3]).unwrap_err();
    assert_eq!(unknown.hint().unwrap(), format!("name one of {newer}, {older}, or latest"));
    let rename = "UPDATE memfold_plans SET plan_id = 'pabc' || substr(plan_id, 5)";
    connection.execute(rename, []).unwrap();
    let ambiguous = found("pabc").unwrap_err();
    assert_eq!(ambiguous.to_string(), "several saved plans begin with \"pabc\"");
    assert!(matches!(found("%___%"), Err(SessionError::UnknownPlan { .. })));
}

#[test]
fn a_store_without_plans_says_how_to_save_one() {
    let none = Connection::open_in_memory().unwrap();
    for connection in [none, store()] {
        assert!(list_plans(&connection).unwrap().is_empty());
        assert!(load_plan(&connection, "p0").unwrap().is_none());
        let hint = find_plan(&connection, "latest").unwrap_err().hint().unwrap();
        assert_eq!(hint, "save one first: memfold consolidate DB --save-plan");
    }
}

#[test]
fn lists_count_by_type_and_state() {
    let connection = store();
    keep(&connection, &plan_of(Vec::new()), "2026-01-01");
    let name = keep(&connection, &sample(), "2026-01-02");
    set_action_state(&connection, &name, 1, &ActionUpdate::of(ActionState::Approved)).unwrap();
    let summaries = list_plans(&connection).unwrap();
    assert_eq!(
        serde_json::to_value(&summaries[0]).unwrap(),
        json!({
            "plan_id": name,
            "saved_at": "2026-01-02",
            "now": "2026-06-30T12:00:00Z",
            "plan_digest": plan_digest(&sample()),
            "types": {"merge": 1, "promote": 1, "noop": 1},
            "states": {"proposed": 1, "approved": 1},
        })
    );
    assert!(summaries[1].types.is_empty() && summaries.len() == 2);
}

#[test]
fn damage_is_named() {
    for (damage, said) in [
        ("UPDATE memfold_actions SET body = '{' WHERE position = 0", "body: EOF"),
        ("UPDATE memfold_actions SET body = '{}'", "body: missing field"),
        ("UPDATE memfold_actions SET body = x'ff'", "body: Invalid column type"),
        ("UPDATE memfold_actions SET amended = '[]'", "amended: "),
        ("UPDATE memfold_actions SET state = 'done'", "state: done"),
        ("UPDATE memfold_actions SET position = -1 WHERE position = 0", "position: -1"),
        ("UPDATE memfold_actions SET base_digests = '7'", "base_digests: "),
        ("UPDATE memfold_plans SET overrides = ''", "overrides: EOF"),
        ("UPDATE memfold_plans SET schema_version = 'x'", "schema_version: "),
    ] {
        let connection = store();
        let name = keep(&connection, &sample(), "t");
        connection.execute(damage, []).unwrap();
        let error = load_plan(&connection, &name).unwrap_err();
        let expected = format!("saved plan {name} is damaged: {said}");
        assert!(error.to_string().starts_with(&expected), "{damage}: {error}");
        assert!(error.hint().is_some());
    }
    let connection = store();
    keep(&connection, &sample(), "t");
    connection.execute("UPDATE memfold_actions SET type = 'x'", []).unwrap();
    assert!(list_plans(&connection).unwrap_err().to_string().ends_with("is damaged: type: x"));
}

prop_compose! {
    fn any_action()(
        kind in 0_usize..5,
        targets in prop::collection::vec(any::<String>(), 0..4),
        texts in prop::collection::vec(any::<String>(), 0..3),
        numbers in prop::array::uniform3(prop::option::of(prop::num::f64::NORMAL)),
        protected in any::<bool>(),
    ) -> Action {
        use ActionType::{Archive, FlagContradiction, Merge, Noop, Promote};
        let kind = [Merge, Promote, Archive, FlagContradiction, Noop][kind];
        let ids: Vec<&str> = targets.iter().map(String::as_str).collect();
        let mut action = action(kind, &ids);
        action.canonical_id = action.target_ids.first().cloned();
        action.survivor_protected = protected;
        action.new_content = texts.first().cloned();
        action.new_categories = (!texts.is_empty()).then(|| texts.clone());
        action.new_importance = numbers[0];
        action.rationale.score = numbers[1];
        action.rationale.reasons = texts.clone();
        action.rationale.evidence.similarity = numbers[2];
        action.rationale.evidence.differences = texts;
        action
    }
}

prop_compose! {
    fn any_plan()(
        actions in prop::collection::vec(any_action(), 0..6),
        texts in prop::array::uniform4(any::<String>()),
        number in prop::num::f64::NORMAL,
    ) -> Plan {
        let mut plan = plan_of(actions);
        for (position, digest) in plan.base_digests.values_mut().enumerate() {
            *digest = format!("{position}{}", texts[0]);
        }
        let [key, now, engine_version, store_id] = texts;
        plan.overrides = Map::from_iter([(key, Value::from(number))]);
        Plan { now, engine_version, store_id, ..plan }
    }
}

proptest! {
    #[test]
    fn plans_come_back_to_the_last_bit(plan in any_plan()) {
        let connection = store();
        let name = keep(&connection, &plan, "t");
        let loaded = load_plan(&connection, &name).unwrap().unwrap().plan;
        let json = |plan: &Plan| canonical_json(serde_json::to_value(plan).unwrap());
        prop_assert_eq!(json(&loaded), json(&plan));
        prop_assert_eq!(plan_id(&loaded), name);
    }
}

/// The texts of a rule stood in the body of each of its merges, and digests as hexadecimal digits beside ids.
#[test]
fn what_many_merges_have_in_common_is_kept_once() {
    let merge = |number: usize| {
        let (survivor, other) = (format!("survivor {number}"), format!("other {number}"));
        let mut merge = action(ActionType::Merge, &[&survivor, &other]);
        merge.canonical_id = merge.target_ids.first().cloned();
        merge.rationale.reasons = vec!["similarity >= 0.85".to_owned(), "equal text".to_owned()];
        merge.rationale.evidence.similarity = Some(0.1 + number as f64 / 7.0);
        merge
    };
    let mut judged = merge(7);
    judged.rationale.evidence.decided_by = Some("a model".to_owned());
    let mut plan = plan_of((0..5).map(merge).chain([judged]).collect());
    for (position, digest) in plan.base_digests.values_mut().enumerate() {
        *digest = format!("{position:064x}");
    }
    let connection = store();
    let name = keep(&connection, &plan, "t");
    assert_eq!(load_plan(&connection, &name).unwrap().unwrap().plan, plan);
    let sql = "SELECT body, base_digests FROM memfold_actions ORDER BY position";
    let mut statement = connection.prepare(sql).unwrap();
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap();
    let rows: Vec<(String, String)> = rows.collect::<rusqlite::Result<_>>().unwrap();
    for (body, digests) in &rows[..5] {
        assert!(body.starts_with("[1,") && !body.contains("equal text"), "{body}");
        assert!(digests.len() < 100, "{digests}");
    }
    assert!(rows[5].0.contains("equal text"), "what a model proposed has no form");
    connection.execute("DELETE FROM memfold_forms", []).unwrap();
    let error = load_plan(&connection, &name).unwrap_err().to_string();
    assert!(error.starts_with(&format!("saved plan {name} is damaged: body: ")), "{error}");
}
