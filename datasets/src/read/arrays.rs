//! [`pick`]: which of several arrays in a file holds the vectors.

use crate::DataError;
use crate::error::ColumnRole;
use crate::input::InputBytes;

/// Names of vectors among other arrays; the first that is there counts.
const NAMES: [&str; 6] = ["vector", "vectors", "embedding", "embeddings", "emb", "arr_0"];
/// Arrays named in an error.
const SHOWN_MAX: usize = 20;

/// An array in a file of several.
pub(super) struct Candidate {
    pub(super) name: String,
    /// Whether its shape and type are those of vectors.
    pub(super) is_matrix: bool,
    /// Its shape and type, for errors.
    pub(super) summary: String,
}

/// Returns the position of the array called `member`; without a name that of the only one, of the
/// only one that is a matrix, or of the first matrix with a usual name.
pub(super) fn pick(
    bytes: &InputBytes,
    candidates: &[Candidate],
    member: Option<&str>,
) -> Result<usize, DataError> {
    let named = |name: &str| candidates.iter().position(|candidate| candidate.name == name);
    let not_found = |expected| DataError::NoColumn {
        path: bytes.path().into(),
        role: ColumnRole::Array,
        expected,
        found: list(candidates),
    };
    if let Some(member) = member {
        return named(member).ok_or_else(|| not_found(format!("{member:?}")));
    }
    if candidates.len() == 1 {
        return Ok(0);
    }
    let matrices: Vec<usize> =
        (0..candidates.len()).filter(|&at| candidates[at].is_matrix).collect();
    if let [only] = matrices[..] {
        return Ok(only);
    }
    let usual = NAMES.iter().filter_map(|name| named(name)).find(|at| matrices.contains(at));
    usual
        .ok_or_else(|| not_found(format!("that is the only matrix, or named {}", NAMES.join(", "))))
}

/// Names the arrays with shapes and types.
fn list(candidates: &[Candidate]) -> String {
    let show = |array: &Candidate| format!("{:?} ({})", array.name, array.summary);
    let mut shown: Vec<String> = candidates.iter().take(SHOWN_MAX).map(show).collect();
    if candidates.len() > SHOWN_MAX {
        shown.push(format!("{} more", candidates.len() - SHOWN_MAX));
    }
    if shown.is_empty() { "none".into() } else { shown.join(", ") }
}

/// Writes a shape as numpy does.
pub(super) fn shape_text<T: ToString>(sizes: &[T]) -> String {
    let sizes: Vec<String> = sizes.iter().map(T::to_string).collect();
    format!("({})", sizes.join(", "))
}
