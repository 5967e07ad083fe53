//! Is an answer what was asked for?

use super::EmbedError;

/// Checks the vectors for `count` texts: as many, of one dimension, finite and not zero.
pub(super) fn checked(
    place: &str,
    count: usize,
    vectors: Vec<Vec<f32>>,
) -> Result<Vec<Vec<f32>>, EmbedError> {
    let place = || place.to_owned();
    if vectors.len() != count {
        return Err(EmbedError::Count { place: place(), expected: count, found: vectors.len() });
    }
    let first = vectors.first().map_or(0, Vec::len);
    if let Some(other) = vectors.iter().map(Vec::len).find(|dim| *dim != first) {
        return Err(EmbedError::Dimensions { place: place(), first, other });
    }
    match vectors.iter().find_map(|vector| problem(vector)) {
        Some(problem) => Err(EmbedError::Vector { place: place(), problem }),
        None => Ok(vectors),
    }
}

fn problem(vector: &[f32]) -> Option<&'static str> {
    if vector.is_empty() {
        return Some("has no components");
    }
    if !vector.iter().all(|component| component.is_finite()) {
        return Some("has components that are no finite numbers");
    }
    vector.iter().all(|component| *component == 0.0).then_some("is all zeros")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_answer_is_named() {
        let check = |count, vectors: &[&[f32]]| {
            let vectors = vectors.iter().map(|vector| vector.to_vec()).collect();
            checked("here", count, vectors).map_err(|error| error.to_string())
        };
        assert_eq!(check(2, &[&[1.0, 0.0], &[0.0, 1.0]]), Ok(vec![vec![1.0, 0.0], vec![0.0, 1.0]]));
        assert_eq!(check(0, &[]), Ok(vec![]));
        for (count, vectors, word) in [
            (2, &[&[1.0][..]][..], "given 2 texts and answered with 1 vectors"),
            (1, &[&[1.0], &[1.0]], "given 1 texts and answered with 2 vectors"),
            (2, &[&[1.0], &[1.0, 0.0]], "of 1 and of 2 dimensions"),
            (1, &[&[]], "no components"),
            (1, &[&[f32::NAN, 1.0]], "no finite numbers"),
            (1, &[&[f32::INFINITY]], "no finite numbers"),
            (2, &[&[1.0, 0.0], &[0.0, -0.0]], "all zeros"),
        ] {
            let error = check(count, vectors).unwrap_err();
            assert!(error.contains(word), "{error}");
        }
    }
}
