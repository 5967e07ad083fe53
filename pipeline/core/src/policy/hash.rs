//! The hash of a policy, which plans carry.

use serde_json::Value;
use sha2::{Digest, Sha256};

use super::validate::Policy;

/// Returns `sha256:<hex>` of the policy and of the lexicon in use: of everything that can change a
/// plan and of nothing else (no path, thread count, output or secret).
///
/// `lexicon` is the built-in lexicon's bytes; the user's own are in the policy. The hash is taken
/// over JSON with sorted keys and without white space, numbers written as RFC 8785 wants them.
#[must_use]
pub fn config_hash(policy: &Policy, lexicon: &[u8]) -> String {
    let mut value = hashed(policy);
    value["lexicon"] = hex(lexicon).into();
    format!("sha256:{}", hex(canonical_json(&value).as_bytes()))
}

/// Conditions that are hashed where they are not set as well; younger ones are left out.
const CONDITIONS: [&str; 12] = [
    "min_similarity",
    "proven_same",
    "min_cluster_size",
    "min_age_days",
    "min_access_count",
    "max_access_count",
    "min_importance",
    "max_importance",
    "categories_any",
    "categories_none",
    "categories_all",
    "tag_overlap_min",
];

/// Returns the policy as it has been hashed since the first version: with values that are fixed by now, and with the
/// settings of an action beside its name.
fn hashed(policy: &Policy) -> Value {
    let mut value =
        serde_json::to_value(policy).expect("a policy has text keys and finite numbers");
    value["detect"]["contradiction_similarity"] =
        policy.detect.contradiction_similarity.get().into();
    value["cluster"]["max_component_rows"] = policy.cluster.max_component_rows.into();
    value["merge"]["importance_cap"] = policy.merge.importance_cap.into();
    value["protection"]["ids"] = policy.protection.ids.clone().into();
    value["protection"]["access_count_min"] = policy.protection.access_count_min.into();
    for rule in value["rules"].as_array_mut().into_iter().flatten() {
        rule.as_object_mut().map(|keys| keys.remove("enabled"));
        for key in CONDITIONS {
            let condition = &mut rule["when"][key];
            match key {
                _ if !condition.is_null() => {}
                "proven_same" => *condition = false.into(),
                "categories_any" | "categories_none" | "categories_all" => {
                    *condition = Value::Array(Vec::new());
                }
                _ => {}
            }
        }
        let params = rule["then"].as_object_mut().and_then(|keys| keys.remove("params"));
        if rule["then"]["action"] == "merge" {
            for key in ["canonical", "absorbed"] {
                rule["then"][key] =
                    params.as_ref().map_or(Value::Null, |params| params[key].clone());
            }
        }
    }
    value
}

/// Returns SHA-256 as lower-case hex.
fn hex(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Writes JSON with keys in byte order and without white space.
fn canonical_json(value: &Value) -> String {
    let list = |items: Vec<String>, open, close| format!("{open}{}{close}", items.join(","));
    match value {
        Value::Object(map) => {
            let mut keys: Vec<&String> = map.keys().collect();
            keys.sort();
            let pair = |key: &String| {
                format!("{}:{}", Value::from(key.as_str()), canonical_json(&map[key]))
            };
            list(keys.into_iter().map(pair).collect(), '{', '}')
        }
        Value::Array(items) => list(items.iter().map(canonical_json).collect(), '[', ']'),
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.is_f64() => canonical_float(float),
            _ => number.to_string(),
        },
        _ => value.to_string(),
    }
}

/// Writes a number as ECMAScript does: the shortest digits, an exponent only where it is far from 1.
fn canonical_float(float: f64) -> String {
    // `+ 0.0` turns −0 into +0.
    let magnitude = float.abs();
    if magnitude >= 1e21 {
        format!("{float:e}").replace('e', "e+")
    } else if magnitude != 0.0 && magnitude < 1e-6 {
        format!("{float:e}")
    } else {
        (float + 0.0).to_string()
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn canonical_json_is_that_of_rfc_8785() {
        let value = json!({
            "b": [1.0, 0.1, -0.0, 1e21, 1e-7, 0.000_001, 1e20, 7, null, true],
            "a": { "é": "\n\"", "": {} },
        });
        let expected = "{\"a\":{\"\":{},\"é\":\"\\n\\\"\"},\"b\":[1,0.1,0,1e+21,1e-7,0.000001,\
                        100000000000000000000,7,null,true]}";
        assert_eq!(canonical_json(&value), expected);
    }
}
