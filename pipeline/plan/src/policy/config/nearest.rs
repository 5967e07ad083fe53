//! The name that was probably meant.

/// Returns the candidate nearest to `name`, if it is near enough to be a slip; ties go to the first.
pub(crate) fn nearest<'a>(
    name: &str,
    candidates: impl IntoIterator<Item = &'a str>,
) -> Option<&'a str> {
    let distance_max = (name.chars().count() / 3).max(1);
    candidates
        .into_iter()
        .map(|candidate| (edit_distance(name, candidate), candidate))
        .filter(|(distance, _)| *distance <= distance_max)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, candidate)| candidate)
}

/// Counts the insertions, deletions, substitutions and swaps of neighbours between two names,
/// whatever their case.
pub(super) fn edit_distance(left: &str, right: &str) -> usize {
    let letters = |name: &str| name.to_lowercase().chars().collect::<Vec<_>>();
    let (left, right) = (letters(left), letters(right));
    let mut before = Vec::new();
    let mut last: Vec<usize> = (0..=right.len()).collect();
    for i in 0..left.len() {
        let mut row = vec![i + 1];
        for j in 0..right.len() {
            let substituted = last[j] + usize::from(left[i] != right[j]);
            let mut least = substituted.min(last[j + 1] + 1).min(row[j] + 1);
            if i > 0 && j > 0 && left[i] == right[j - 1] && left[i - 1] == right[j] {
                let swapped: usize = before[j - 1];
                least = least.min(swapped + 1);
            }
            row.push(least);
        }
        before = std::mem::replace(&mut last, row);
    }
    last[right.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slips_are_found_and_strangers_are_not() {
        let keys = ["enabled", "linkage", "lacking_words_max", "guard"];
        assert_eq!(nearest("gaurd", keys), Some("guard"));
        assert_eq!(nearest("enabeld", keys), Some("enabled"));
        assert_eq!(nearest("lackingwords_max", keys), Some("lacking_words_max"));
        assert_eq!(nearest("colour", keys), None);
        assert_eq!(edit_distance("kitten", "sitting"), 3);
        assert_eq!(edit_distance("", "abc"), 3);
    }
}
