//! Plans as a store keeps them: what became of each action.

use std::collections::BTreeMap;
use std::fmt::Write;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sha2::{Digest, Sha256};

use super::{Action, ActionType, Plan, action_label};

/// What became of an action.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, schemars::JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum ActionState {
    /// Nobody looked at it yet.
    Proposed,
    /// A person wants it.
    Approved,
    /// A person does not want it.
    Rejected,
    /// It was done.
    Applied,
    /// It was skipped: its memories are no longer what it rests on.
    Stale,
    /// It was done and taken back.
    Undone,
}

/// An action of a saved plan.
#[derive(Debug, Clone, PartialEq)]
pub struct SavedAction {
    /// Its place in the plan, from 0.
    pub position: usize,
    /// As it was planned.
    pub action: Action,
    /// As a person changed it.
    pub amended: Option<Action>,
    /// What became of it.
    pub state: ActionState,
    /// The memory's access count when its promotion was planned.
    pub access_count: Option<i64>,
    /// The run that last dealt with it.
    pub run_id: Option<String>,
    /// The unit of that run.
    pub unit: Option<i64>,
    /// Why it is in this state, in words.
    pub note: Option<String>,
}

/// A plan that was written back to its store.
#[derive(Debug, Clone, PartialEq)]
pub struct SavedPlan {
    /// Its name.
    pub plan_id: String,
    /// The plan as it was made.
    pub plan: Plan,
    /// Digest of the plan's actions as they were made.
    pub plan_digest: String,
    /// When it was saved, in the store's naive local time.
    pub saved_at: String,
    /// Its actions in plan order, and what became of them.
    pub actions: Vec<SavedAction>,
}

/// A line of a list of saved plans.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct PlanSummary {
    /// Its name.
    pub plan_id: String,
    /// When it was saved, in the store's naive local time.
    pub saved_at: String,
    /// The time it was made for, RFC 3339.
    pub now: String,
    /// Digest of its actions.
    pub plan_digest: String,
    /// Actions by type, noops included.
    pub types: BTreeMap<ActionType, u64>,
    /// Actions that are no noops, by state.
    pub states: BTreeMap<ActionState, u64>,
}

impl ActionState {
    const ALL: [Self; 6] =
        [Self::Proposed, Self::Approved, Self::Rejected, Self::Applied, Self::Stale, Self::Undone];

    /// Returns the name that the store and JSON use.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Proposed => "proposed",
            Self::Approved => "approved",
            Self::Rejected => "rejected",
            Self::Applied => "applied",
            Self::Stale => "stale",
            Self::Undone => "undone",
        }
    }

    /// Returns the state of a name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.name() == name)
    }
}

impl SavedAction {
    /// Returns what is to be done: the action as amended, else as planned.
    #[must_use]
    pub fn effective(&self) -> &Action {
        self.amended.as_ref().unwrap_or(&self.action)
    }

    /// Returns the name that people use: `a1`, `a2`, …
    #[must_use]
    pub fn label(&self) -> String {
        action_label(self.position)
    }

    /// Tells whether it would change something.
    #[must_use]
    pub fn is_change(&self) -> bool {
        self.action.action != ActionType::Noop
    }
}

impl SavedPlan {
    /// Returns a plan that no store holds yet: everything in it is proposed.
    #[must_use]
    pub fn proposed(plan: Plan) -> Self {
        let action = |(position, action): (usize, &Action)| SavedAction {
            position,
            action: action.clone(),
            amended: None,
            state: ActionState::Proposed,
            access_count: None,
            run_id: None,
            unit: None,
            note: None,
        };
        Self {
            plan_id: plan_id(&plan),
            plan_digest: plan_digest(&plan),
            saved_at: String::new(),
            actions: plan.actions.iter().enumerate().map(action).collect(),
            plan,
        }
    }

    /// Returns the semantic keys that were set on the command line when the plan was made.
    #[must_use]
    pub const fn overrides(&self) -> &serde_json::Map<String, serde_json::Value> {
        &self.plan.overrides
    }

    /// Returns how many changes are in a state.
    #[must_use]
    pub fn count(&self, state: ActionState) -> u64 {
        self.changes().filter(|action| action.state == state).count() as u64
    }

    /// Returns the actions that are no noops, in plan order.
    pub fn changes(&self) -> impl Iterator<Item = &SavedAction> {
        self.actions.iter().filter(|action| action.is_change())
    }
}

/// Digits of a plan's name: 48 bits tell the plans of one store apart.
const PLAN_ID_DIGITS: usize = 12;

/// Returns the sha256 (hex) of the canonical JSON of the plan's actions in plan order.
#[must_use]
pub fn plan_digest(plan: &Plan) -> String {
    let actions =
        serde_json::to_value(&plan.actions).expect("actions hold only strings and numbers");
    sha256_hex(&actions)
}

/// Returns the name of a plan: `p` and 12 hex digits of the sha256 of its canonical JSON as a whole.
#[must_use]
pub fn plan_id(plan: &Plan) -> String {
    let plan = serde_json::to_value(plan).expect("a plan holds only strings, numbers and JSON");
    format!("p{}", &sha256_hex(&plan)[..PLAN_ID_DIGITS])
}

fn sha256_hex(value: &Value) -> String {
    let digest = Sha256::digest(canonical_json(value));
    digest.iter().fold(String::with_capacity(64), |mut hex, byte| {
        write!(hex, "{byte:02x}").expect("a String takes every character");
        hex
    })
}

/// Writes a value as RFC 8785 wants it: members sorted by UTF-16 code units, no white space, numbers
/// as ECMAScript prints doubles. Integers beyond 2⁵³ are rounded to a double.
#[must_use]
pub fn canonical_json(value: &Value) -> String {
    let mut json = String::new();
    write_value(&mut json, value);
    json
}

fn write_value(json: &mut String, value: &Value) {
    match value {
        Value::Null => json.push_str("null"),
        Value::Bool(value) => json.push_str(if *value { "true" } else { "false" }),
        Value::Number(number) => {
            let number = number.as_f64().expect("without arbitrary precision numbers fit a double");
            json.push_str(&ecmascript_number(number));
        }
        Value::String(text) => write_string(json, text),
        Value::Array(values) => {
            json.push('[');
            for (position, value) in values.iter().enumerate() {
                if position > 0 {
                    json.push(',');
                }
                write_value(json, value);
            }
            json.push(']');
        }
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            members.sort_by(|(a, _), (b, _)| a.encode_utf16().cmp(b.encode_utf16()));
            json.push('{');
            for (position, (name, value)) in members.into_iter().enumerate() {
                if position > 0 {
                    json.push(',');
                }
                write_string(json, name);
                json.push(':');
                write_value(json, value);
            }
            json.push('}');
        }
    }
}

fn write_string(json: &mut String, text: &str) {
    json.push('"');
    for character in text.chars() {
        match character {
            '"' => json.push_str("\\\""),
            '\\' => json.push_str("\\\\"),
            '\u{8}' => json.push_str("\\b"),
            '\t' => json.push_str("\\t"),
            '\n' => json.push_str("\\n"),
            '\u{c}' => json.push_str("\\f"),
            '\r' => json.push_str("\\r"),
            '\0'..='\u{1f}' => write!(json, "\\u{:04x}", u32::from(character))
                .expect("a String takes every character"),
            _ => json.push(character),
        }
    }
    json.push('"');
}

/// Prints a finite double as ECMAScript's `Number::toString` does.
fn ecmascript_number(value: f64) -> String {
    if value == 0.0 {
        return "0".to_owned();
    }
    // The shortest digits that read back; of two equally near ones the even one, as ECMAScript wants.
    let shortest = serde_json::json!(value.abs()).to_string();
    let (mantissa, exponent) = shortest.split_once('e').unwrap_or((&shortest, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let exponent: i32 = exponent.parse().expect("an exponent is a small integer");
    let all = format!("{whole}{fraction}");
    let digits = all.trim_start_matches('0');
    let point = whole.len() as i32 - (all.len() - digits.len()) as i32 + exponent;
    let digits = digits.trim_end_matches('0');
    let sign = if value < 0.0 { "-" } else { "" };
    format!("{sign}{}", place_point(digits, point))
}

/// Sets the decimal point of `0.digits × 10^point`.
fn place_point(digits: &str, point: i32) -> String {
    let count = digits.len() as i32;
    let zeros = |many: i32| "0".repeat(many.unsigned_abs() as usize);
    if count <= point && point <= 21 {
        format!("{digits}{}", zeros(point - count))
    } else if 0 < point && point <= 21 {
        let (whole, fraction) = digits.split_at(point.unsigned_abs() as usize);
        format!("{whole}.{fraction}")
    } else if -6 < point && point <= 0 {
        format!("0.{}{digits}", zeros(point))
    } else {
        let (first, rest) = digits.split_at(1);
        let fraction = if rest.is_empty() { String::new() } else { format!(".{rest}") };
        format!("{first}{fraction}e{:+}", point - 1)
    }
}

#[cfg(test)]
mod saved_tests {
    use super::*;

    #[test]
    fn states_have_one_name_each() {
        for state in ActionState::ALL {
            assert_eq!(ActionState::of_name(state.name()), Some(state));
            assert_eq!(serde_json::to_value(state).unwrap(), state.name());
        }
        assert_eq!(ActionState::of_name("done"), None);
    }
}

#[cfg(test)]
mod canonical_tests {
    use super::*;

    /// The table of RFC 8785, appendix B.
    #[test]
    fn numbers_follow_the_rfc() {
        for (bits, expected) in [
            (0x0000_0000_0000_0000_u64, "0"),
            (0x8000_0000_0000_0000, "0"),
            (0x0000_0000_0000_0001, "5e-324"),
            (0x8000_0000_0000_0001, "-5e-324"),
            (0x7fef_ffff_ffff_ffff, "1.7976931348623157e+308"),
            (0xffef_ffff_ffff_ffff, "-1.7976931348623157e+308"),
            (0x4340_0000_0000_0000, "9007199254740992"),
            (0xc340_0000_0000_0000, "-9007199254740992"),
            (0x4430_0000_0000_0000, "295147905179352830000"),
            (0x44b5_2d02_c7e1_4af5, "9.999999999999997e+22"),
            (0x44b5_2d02_c7e1_4af6, "1e+23"),
            (0x44b5_2d02_c7e1_4af7, "1.0000000000000001e+23"),
            (0x444b_1ae4_d6e2_ef4e, "999999999999999700000"),
            (0x444b_1ae4_d6e2_ef4f, "999999999999999900000"),
            (0x444b_1ae4_d6e2_ef50, "1e+21"),
            (0x3eb0_c6f7_a0b5_ed8c, "9.999999999999997e-7"),
            (0x3eb0_c6f7_a0b5_ed8d, "0.000001"),
            (0x41b3_de43_5555_5553, "333333333.3333332"),
            (0x41b3_de43_5555_5554, "333333333.33333325"),
            (0x41b3_de43_5555_5555, "333333333.3333333"),
            (0x41b3_de43_5555_5556, "333333333.3333334"),
            (0x41b3_de43_5555_5557, "333333333.33333343"),
            (0xbecb_f647_612f_3696, "-0.0000033333333333333333"),
            (0x4314_3ff3_c1cb_0959, "1424953923781206.2"),
        ] {
            assert_eq!(ecmascript_number(f64::from_bits(bits)), expected, "{bits:#x}");
        }
    }

    /// The example of RFC 8785, section 3.2.2 and 3.2.3.
    #[test]
    fn structures_follow_the_rfc() {
        let value = serde_json::json!({
            "numbers": [333_333_333.333_333_3, 1e30, 4.50, 2e-3, 0.000_000_000_000_000_000_000_000_001],
            "string": "\u{20ac}$\u{000F}\u{000a}A'\u{0042}\u{0022}\u{005c}\\\"/",
            "literals": [null, true, false],
        });
        assert_eq!(
            canonical_json(&value),
            "{\"literals\":[null,true,false],\
             \"numbers\":[333333333.3333333,1e+30,4.5,0.002,1e-27],\
             \"string\":\"€$\\u000f\\nA'B\\\"\\\\\\\\\\\"/\"}"
        );
    }

    #[test]
    fn members_stand_in_the_order_of_utf16_units() {
        let value = serde_json::json!({
            "\u{20ac}": "Euro Sign", "\r": "Carriage Return", "\u{fb33}": "Hebrew Letter Dalet With Dagesh",
            "1": "One", "\u{1f600}": "Emoji: Grinning Face", "\u{80}": "Control", "\u{f6}": "O With Diaeresis",
        });
        let json = canonical_json(&value);
        let order = ["\\r", "1\"", "\u{80}", "\u{f6}", "\u{20ac}", "\u{1f600}", "\u{fb33}"];
        let places: Vec<_> = order.iter().map(|name| json.find(name)).collect();
        assert!(places.iter().all(Option::is_some) && places.is_sorted(), "{json}");
    }
}
