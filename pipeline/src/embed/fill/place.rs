//! Do new vectors belong to those of the store?

use super::FillError;
use memfold_model::memory::VectorSpace;
use memfold_store::reading::MODEL_UNNAMED;

/// Refuses a model that is not the store's; a store whose vectors name none takes any.
///
/// # Errors
/// The two names.
pub fn check_space(space: Option<&VectorSpace>, model: Option<&str>) -> Result<(), FillError> {
    match (named(space), model) {
        (Some(expected), Some(found)) if expected != found => {
            Err(FillError::Model { expected: expected.to_owned(), found: found.to_owned() })
        }
        _ => Ok(()),
    }
}

/// The name of a space's model, where it has one.
pub(super) fn named(space: Option<&VectorSpace>) -> Option<&str> {
    space.map(|space| &*space.model).filter(|model| *model != MODEL_UNNAMED)
}

/// What all vectors of one run have in common.
#[derive(Debug)]
pub(super) struct Common {
    space: Option<VectorSpace>,
    dim: Option<usize>,
}

impl Common {
    pub(super) const fn new(space: Option<VectorSpace>) -> Self {
        Self { space, dim: None }
    }

    /// Checks the vectors of an answer, and returns the model's name to be written with them.
    pub(super) fn check(
        &mut self,
        place: &str,
        (model, vectors): (Option<&str>, &[Vec<f32>]),
    ) -> Result<Option<String>, FillError> {
        check_space(self.space.as_ref(), model)?;
        let expected = self.space.as_ref().map(|space| space.dim as usize).or(self.dim);
        let found = vectors.first().map(Vec::len);
        if let (Some(expected), Some(found)) = (expected, found)
            && expected != found
        {
            let expected = u32::try_from(expected).unwrap_or(u32::MAX);
            return Err(FillError::Dimension { expected, found, place: place.to_owned() });
        }
        self.dim = self.dim.or(found);
        Ok(model.or(named(self.space.as_ref())).map(str::to_owned))
    }

    /// The dimension of the vectors seen.
    pub(super) const fn dim(&self) -> Option<usize> {
        self.dim
    }
}
