//! [`Incoming`]: what is to be remembered.

use memfold_model::memory::CategoryList;

/// What is to be remembered, or only asked about.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Incoming {
    /// The id that it shall have; saving it again under this id changes nothing.
    pub id: Option<String>,
    /// What it says; a save needs it.
    pub text: Option<String>,
    /// Its categories.
    pub categories: Vec<String>,
    /// Its importance; `None`: 1.0 where it becomes a row of its own.
    pub importance: Option<f64>,
    /// Where it comes from; `None`: `agent`.
    pub source: Option<String>,
    /// Its vector.
    pub vector: Option<Vec<f32>>,
    /// The model that made the vector; `None`: the store's.
    pub model: Option<String>,
}

/// The source of a memory that names none, as the owner has it.
pub(super) const SOURCE_DEFAULT: &str = "agent";
pub(super) const IMPORTANCE_DEFAULT: f64 = 1.0;

impl Incoming {
    /// Takes a text alone.
    #[must_use]
    pub fn text(text: impl Into<String>) -> Self {
        Self { text: Some(text.into()), ..Self::default() }
    }

    /// Adds a vector.
    #[must_use]
    pub fn with_vector(self, vector: impl Into<Vec<f32>>) -> Self {
        Self { vector: Some(vector.into()), ..self }
    }

    pub(super) fn source(&self) -> &str {
        self.source.as_deref().unwrap_or(SOURCE_DEFAULT)
    }

    pub(super) fn boxed_categories(&self) -> Vec<Box<str>> {
        self.categories.iter().collect::<CategoryList>().into_list()
    }
}
