//! The conditions of a rule.
//!
//! Of a merge, `min_similarity`, `max_similarity` and the cluster sizes speak of the rows that would
//! really be merged; categories, types and sources of each of them; age, access count and importance
//! of each absorbed row; `tag_overlap_min` and `content_similarity_min` compare each absorbed row with
//! its survivor. Of a promotion or archival, all speak of the memory as the merges of the plan leave
//! it, with the cluster it is the survivor of. Of a flag, of both sides.

use std::collections::BTreeSet;

use memfold_simd::Similarity;

use crate::policy::Conditions;
use memfold_model::text;

/// What conditions on a single memory look at.
#[derive(Debug, Clone, Copy)]
pub(super) struct Subject<'a> {
    pub(super) age_days: Option<f64>,
    pub(super) access_count: i64,
    pub(super) importance: f64,
    pub(super) categories: &'a [Box<str>],
    pub(super) root_source: &'a str,
}

/// Returns the first condition on age, access count or importance that does not hold.
pub(super) fn unmet_measure(when: &Conditions, subject: &Subject<'_>) -> Option<String> {
    let old_enough = |minimum: f64| subject.age_days.is_some_and(|days| days >= minimum);
    let young_enough = |maximum: f64| subject.age_days.is_some_and(|days| days <= maximum);
    None.or_else(|| unmet("age_days >=", when.min_age_days, old_enough))
        .or_else(|| unmet("age_days <=", when.max_age_days, young_enough))
        .or_else(|| unmet("access_count >=", when.min_access_count, |n| subject.access_count >= n))
        .or_else(|| unmet("access_count <=", when.max_access_count, |n| subject.access_count <= n))
        .or_else(|| unmet("importance >=", when.min_importance, |x| subject.importance >= x))
        .or_else(|| unmet("importance <=", when.max_importance, |x| subject.importance <= x))
}

/// Returns the first condition on categories, types or source that does not hold.
pub(super) fn unmet_kind(when: &Conditions, subject: &Subject<'_>) -> Option<String> {
    let has = |wanted: &String| has_category(subject.categories, wanted);
    let is_type = |wanted: &String| has(wanted) || has(&format!("type:{wanted}"));
    let list = |name: &str, wanted: &[String]| format!("{name} {}", wanted.join(", "));
    let (any, none, all) = (&when.categories_any, &when.categories_none, &when.categories_all);
    let from = |prefix: &String| subject.root_source.starts_with(prefix.as_str());
    if !any.is_empty() && !any.iter().any(has) {
        Some(list("categories_any", any))
    } else if none.iter().any(has) {
        Some(list("categories_none", none))
    } else if !all.iter().all(has) {
        Some(list("categories_all", all))
    } else if !when.types_any.is_empty() && !when.types_any.iter().any(is_type) {
        Some(list("types_any", &when.types_any))
    } else if !when.source_prefix_any.is_empty() && !when.source_prefix_any.iter().any(from) {
        Some(list("source_prefix_any", &when.source_prefix_any))
    } else {
        None
    }
}

/// Returns the first condition on likeness to the survivor that does not hold.
pub(super) fn unmet_likeness(
    when: &Conditions,
    categories: (&[Box<str>], &[Box<str>]),
    contents: (&str, &str),
) -> Option<String> {
    let overlap = |minimum: f64| category_overlap(categories.0, categories.1) >= minimum;
    let alike = |minimum: f64| text::jaccard(contents.0, contents.1) >= minimum;
    unmet("tag_overlap >=", when.tag_overlap_min, overlap)
        .or_else(|| unmet("content_similarity >=", when.content_similarity_min, alike))
}

/// Returns the first condition on size or smallest similarity that does not hold.
pub(super) fn unmet_shape(
    when: &Conditions,
    size: usize,
    similarity: Option<Similarity>,
) -> Option<String> {
    let above = |minimum| similarity.is_some_and(|value| value >= minimum);
    let below = |maximum| similarity.is_some_and(|value| value <= maximum);
    unmet("similarity >=", when.min_similarity, above)
        .or_else(|| unmet("similarity <=", when.max_similarity, below))
        .or_else(|| unmet("cluster_size >=", when.min_cluster_size, |minimum| size >= minimum))
        .or_else(|| unmet("cluster_size <=", when.max_cluster_size, |maximum| size <= maximum))
}

/// Returns the conditions of a rule that held, in words.
pub(super) fn met(when: &Conditions) -> Vec<String> {
    let shown = |name: &str, value: Option<String>| value.map(|value| format!("{name} {value}"));
    let lists = [
        ("categories_any", &when.categories_any),
        ("categories_none", &when.categories_none),
        ("categories_all", &when.categories_all),
        ("types_any", &when.types_any),
        ("source_prefix_any", &when.source_prefix_any),
    ];
    [
        shown("similarity >=", when.min_similarity.map(|x| x.to_string())),
        shown("similarity <=", when.max_similarity.map(|x| x.to_string())),
        shown("cluster_size >=", when.min_cluster_size.map(|x| x.to_string())),
        shown("cluster_size <=", when.max_cluster_size.map(|x| x.to_string())),
        shown("age_days >=", when.min_age_days.map(|x| x.to_string())),
        shown("age_days <=", when.max_age_days.map(|x| x.to_string())),
        shown("access_count >=", when.min_access_count.map(|x| x.to_string())),
        shown("access_count <=", when.max_access_count.map(|x| x.to_string())),
        shown("importance >=", when.min_importance.map(|x| x.to_string())),
        shown("importance <=", when.max_importance.map(|x| x.to_string())),
        shown("tag_overlap >=", when.tag_overlap_min.map(|x| x.to_string())),
        shown("content_similarity >=", when.content_similarity_min.map(|x| x.to_string())),
    ]
    .into_iter()
    .flatten()
    .chain(
        lists
            .into_iter()
            .filter(|(_, values)| !values.is_empty())
            .map(|(name, values)| format!("{name} {}", values.join(", "))),
    )
    .collect()
}

/// Tells whether categories hold one, whatever its case.
pub(super) fn has_category(categories: &[Box<str>], wanted: &str) -> bool {
    let wanted = wanted.to_lowercase();
    categories.iter().any(|category| category.to_lowercase() == wanted)
}

/// The Jaccard index of two sets of categories; 1 where both are empty.
fn category_overlap(left: &[Box<str>], right: &[Box<str>]) -> f64 {
    let (left, right): (BTreeSet<_>, BTreeSet<_>) = (left.iter().collect(), right.iter().collect());
    match left.union(&right).count() {
        0 => 1.0,
        all => left.intersection(&right).count() as f64 / all as f64,
    }
}

fn unmet<T: Copy + std::fmt::Display>(
    name: &str,
    bound: Option<T>,
    holds: impl Fn(T) -> bool,
) -> Option<String> {
    bound.filter(|&bound| !holds(bound)).map(|bound| format!("{name} {bound}"))
}
