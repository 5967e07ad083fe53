//! [`Origin`]: what a generation was built from, and how far it reaches.

use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::export::Exported;
use memfold_model::memory::VectorSpace;
use memfold_store::brain_db::Marks;
use memfold_store::reading::ModelShapes;

/// The file of a generation that holds it, JSON.
pub const ORIGIN_FILE: &str = "origin.json";

/// The version of the file.
pub(super) const VERSION: u32 = 2;

/// What a generation was built from.
///
/// The index itself is a function of the memories that it holds; what depends on the history of the store stands here.
#[derive(Debug, Clone, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
pub struct Origin {
    version: u32,
    /// The embedding model.
    pub model: Box<str>,
    /// Components of each vector.
    pub dim: u32,
    /// The name that the store had been given, if any.
    pub store: Option<Box<str>>,
    /// Live memories that have no vector of this model.
    pub without_vector: u64,
    /// Where the store's tables ended.
    pub marks: Marks,
    /// How the store's models write their vectors.
    pub(crate) shapes: ModelShapes,
}

impl Origin {
    pub(crate) fn new(
        exported: &Exported,
        store: Option<Box<str>>,
        marks: Marks,
        shapes: ModelShapes,
    ) -> Self {
        let VectorSpace { model, dim } = exported.space.clone();
        let without_vector = exported.without_vector;
        Self { version: VERSION, model, dim, store, without_vector, marks, shapes }
    }

    /// Reads the file; an error says what is wrong with it.
    pub(crate) fn from_json(bytes: &[u8]) -> Result<Self, String> {
        read_origin(bytes, ("corpus", "a file of vectors, not of a store"))
    }

    pub(crate) fn to_json(&self) -> Vec<u8> {
        serde_json::to_vec_pretty(self).expect("maps with text keys can be written as JSON")
    }

    /// Returns model and dimension.
    #[must_use]
    pub fn space(&self) -> VectorSpace {
        VectorSpace { model: self.model.clone(), dim: self.dim }
    }
}

/// Reads an origin; one with the field `other.0` is that of `other.1`.
pub(super) fn read_origin<T: DeserializeOwned>(
    bytes: &[u8],
    other: (&str, &str),
) -> Result<T, String> {
    let origin: Value = serde_json::from_slice(bytes).map_err(|error| error.to_string())?;
    if origin.get(other.0).is_some() {
        return Err(format!("this is the index of {}", other.1));
    }
    match &origin["version"] {
        version if *version == VERSION => {}
        version => return Err(format!("version {version}, expected {VERSION}")),
    }
    serde_json::from_value(origin).map_err(|error| error.to_string())
}
