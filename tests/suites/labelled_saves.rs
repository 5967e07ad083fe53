//! What people call contradictory is never merged by a save, however near the vectors are.

use memfold::quick_check::{Decision, Incoming, Written};
use memfold_store::brain_db::StoreStyle;
use memfold_tests::Desk;

/// Pairs that people call contradictory, saved one after the other under one and the same vector.
#[test]
fn pairs_labelled_contradictory_are_never_merged() {
    const PAIRS_OF_A_STORE: usize = 300;
    let Some(folder) = std::env::var_os("MEMFOLD_DATA") else {
        return memfold_tests::report_skipped();
    };
    let mut pairs = Vec::new();
    for name in ["sick_dev", "conjnli_dev"] {
        let path = std::path::Path::new(&folder).join(format!("text/{name}.jsonl"));
        for line in std::fs::read_to_string(path).unwrap().lines() {
            let pair: serde_json::Value = serde_json::from_str(line).unwrap();
            if pair["label"] == "contradiction" {
                let text = |side: &str| pair[side].as_str().unwrap().to_owned();
                pairs.push([text("a"), text("b")]);
            }
        }
    }
    assert!(pairs.len() > 100, "{}", pairs.len());
    let (mut merged, mut flagged) = (Vec::new(), 0);
    for part in pairs.chunks(PAIRS_OF_A_STORE) {
        let desk = Desk::of(&[], StoreStyle::Plain);
        let quick_check = desk.quick_check();
        let vectors = memfold_tests::generated_rows(PAIRS_OF_A_STORE as u32, 64, 7);
        for ([a, b], vector) in part.iter().zip(vectors.chunks_exact(64)) {
            let save = |text: &str| {
                let incoming = Incoming::text(text).with_vector(vector);
                quick_check.save(&incoming, desk.now()).unwrap()
            };
            save(a);
            let saved = save(b);
            flagged += u32::from(saved.check.decision == Decision::InsertAndFlag);
            if saved.written == Written::Replaced {
                merged.push(format!("{a} | {b}"));
            }
        }
    }
    assert!(flagged as usize > pairs.len() / 2, "{flagged} of {}", pairs.len());
    assert!(merged.is_empty(), "{} of {}: {merged:#?}", merged.len(), pairs.len());
}
