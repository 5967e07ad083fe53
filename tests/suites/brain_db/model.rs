//! `BrainDb` reads the same as `InMemoryStore`.

use proptest::prelude::*;

use super::row_by_row::assert_agree;
use super::{by_id, load, load_with};
use memfold_store::VecSink;
use memfold_tests::{InMemoryStore, PlainEmbedding, PlainMemory, StoreStyle, brain_db};

fn embedding() -> impl Strategy<Value = PlainEmbedding> {
    let component =
        prop_oneof![4 => -1.0_f32..1.0, 1 => Just(0.0), 1 => Just(-0.0), 1 => Just(f32::NAN)];
    (prop_oneof![Just("m"), Just("n")], prop::collection::vec(component, 1..5)).prop_map(
        |(model, vector)| PlainEmbedding { model: Some(model.into()), vector, content: None },
    )
}

fn memory() -> impl Strategy<Value = PlainMemory> {
    let source = prop_oneof![
        4 => Just("agent".to_owned()),
        1 => Just("archived:merged_into:stm_0".to_owned()),
        1 => Just("archived:low_utility".to_owned()),
        1 => Just(r#"consolidation:{"merged_from": ["stm_1"], "previous_source": "manual"}"#.to_owned()),
        1 => Just("consolidation:contradiction:00".to_owned()),
    ];
    let time = prop_oneof![4 => "2026-0[1-9]-1[0-9]T1[0-9]:00:0[0-9](\\.[0-9]{1,6})?(Z|\\+02:00)?", 1 => "[a-z ]{0,6}"];
    let expires = prop::option::weighted(0.2, "202[5-7]-01-01");
    (
        "\\PC{0,20}",
        prop::collection::vec(
            prop_oneof![Just("sop".to_owned()), Just("archived".to_owned()), "\\PC{1,6}"],
            0..3,
        ),
        (0.0_f64..4.0, 0_i64..9),
        (time, expires, source),
        prop::option::weighted(0.8, embedding()),
    )
        .prop_map(
            |(
                content,
                categories,
                (importance, access_count),
                (created_at, expires_at, source),
                embedding,
            )| {
                PlainMemory {
                    categories,
                    importance,
                    access_count,
                    expires_at,
                    source,
                    embedding,
                    ..PlainMemory::new("", content, created_at)
                }
            },
        )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn both_read_the_same(rows in prop::collection::vec(memory(), 0..8)) {
        let mut rows = rows;
        for (at, row) in rows.iter_mut().enumerate() {
            row.id = format!("stm_{at}");
        }
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("brain.db");
        brain_db(&path, &rows, StoreStyle::Plain);
        let (found, found_sink) = load(&path);
        let mut sink = VecSink::default();
        let expected = load_with(&InMemoryStore::new(rows), &mut sink).unwrap();
        prop_assert_eq!(by_id(&found), by_id(&expected));
        prop_assert_eq!(found.store_id, expected.store_id);
        prop_assert_eq!(found.skipped, expected.skipped);
        prop_assert_eq!(found.skip_examples, expected.skip_examples);
        prop_assert_eq!(found.rows_total, expected.rows_total);
        prop_assert_eq!(found.decisions, expected.decisions);
        prop_assert_eq!(found_sink, sink);
        assert_agree(&path);
    }
}
