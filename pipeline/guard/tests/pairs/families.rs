//! Generated families of wrong merges: pairs of which neither text may take the place of the other.

use super::generate::{Family, families};
use super::{Pair, merges};

/// Pairs of a family.
const PAIRS: usize = 200;
/// Pairs printed of a family that fails.
const SHOWN: usize = 8;

pub(crate) fn all() -> Vec<Family> {
    families(include_str!("../../tests_data/families.txt"), PAIRS)
}

#[test]
fn every_family_has_its_pairs() {
    let families = all();
    assert!(families.len() >= 55, "{}", families.len());
    for family in families {
        assert_eq!(family.pairs.len(), PAIRS, "{}", family.name);
        for Pair { older, newer } in &family.pairs {
            let equal_words = family.name.starts_with("equal texts with relative time");
            assert_eq!(older.text == newer.text, equal_words, "{}: {older:?}", family.name);
        }
    }
}

#[test]
fn no_pair_of_a_family_merges() {
    let mut failures = String::new();
    let (mut merged_count, mut pair_count) = (0, 0);
    for family in all() {
        let merged: Vec<&Pair> = family.pairs.iter().filter(|pair| merges(pair)).collect();
        pair_count += family.pairs.len();
        merged_count += merged.len();
        if merged.is_empty() {
            continue;
        }
        failures += &format!("{}: {} of {}\n", family.name, merged.len(), family.pairs.len());
        for Pair { older, newer } in merged.iter().take(SHOWN) {
            failures += &format!("    {:?} | {:?}\n", older.text, newer.text);
        }
    }
    assert!(failures.is_empty(), "{merged_count} of {pair_count} pairs merge\n{failures}");
}
