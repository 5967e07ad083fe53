//! The answers of checks and saves.

use std::fmt;

use memfold_core::memory::{CategoryList, MemoryId};
use memfold_core::row::{archives, reserved_prefix};
use memfold_guard::Verdict;
use memfold_guard::text::is_blank;
use schemars::JsonSchema;
use serde::de::value::SeqAccessDeserializer;
use serde::de::{SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};
use tracing::Span;

use super::engine::SaveError;

/// What is to be done with a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Decision {
    /// It becomes a row of its own.
    Insert,
    /// It is there already: no new row.
    Touch,
    /// It is there already, but something newer contradicts it: no new row, and a person looks at the pair.
    TouchAndFlag,
    /// It takes the place of a row that says no more than it does.
    Replace,
    /// It becomes a row of its own, and a person or a later run looks at the pair.
    InsertAndFlag,
}

impl Decision {
    /// Returns the name in JSON.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Insert => "insert",
            Self::Touch => "touch",
            Self::TouchAndFlag => "touch_and_flag",
            Self::Replace => "replace",
            Self::InsertAndFlag => "insert_and_flag",
        }
    }
}

/// How much of the store was looked through.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Coverage {
    /// Texts and vectors.
    Full,
    /// Texts only: there was no vector to compare, or no time.
    ExactOnly,
    /// Nothing.
    None,
}

/// A memory that is alike.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct CheckMatch {
    /// The memory.
    #[schemars(with = "String")]
    pub id: MemoryId,
    /// The canonical similarity of the vectors; `None` where there are not two.
    pub similarity: Option<f64>,
    /// What the fact guard says; `None` without a text.
    pub verdict: Option<Verdict>,
    /// What differs, in words.
    pub differences: Vec<String>,
}

/// What was looked through.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, JsonSchema)]
pub struct IndexUsed {
    /// `graph`, `scan`, or `none`.
    pub kind: &'static str,
    /// Rows of the index.
    pub rows: u64,
    /// Rows that came since; without an index all that were read.
    pub fresh_rows: u64,
}

/// Microseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct ElapsedUs {
    /// Opening index and store.
    pub open: u64,
    /// Looking through them.
    pub search: u64,
    /// Reading the matches again and judging them.
    pub guard: u64,
    /// All of it; of a save also writing.
    pub total: u64,
}

/// What a check says.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Check {
    /// What is to be done.
    pub decision: Decision,
    /// Why, in words.
    pub reason: String,
    /// The nearest memories, at most 100.
    pub matches: Vec<CheckMatch>,
    /// How many there are.
    pub matches_total: u64,
    /// Whether everything was looked through that could be, given what was handed in.
    pub checked: bool,
    /// How much was looked through.
    pub coverage: Coverage,
    /// What was looked through.
    pub index: IndexUsed,
    /// How long it took.
    pub elapsed_us: ElapsedUs,
    /// What a user should know and can do: why something was not looked through.
    pub notes: Vec<String>,
}

impl Check {
    /// Records the decision on a span; the reason may quote a text and is left out.
    pub(super) fn record_on(&self, span: &Span) {
        span.record("decision", self.decision.name()).record("matches", self.matches_total as i64);
        if let Some(verdict) = self.matches.first().and_then(|nearest| nearest.verdict) {
            span.record("verdict", verdict.name());
        }
    }
}

/// What became of a memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Written {
    /// It is a new row.
    Inserted,
    /// It was there.
    Touched,
    /// It is a new row in the place of others.
    Replaced,
}

/// What a save did.
#[derive(Debug, Clone, PartialEq, Serialize, JsonSchema)]
pub struct Saved {
    /// What the check said.
    #[serde(flatten)]
    pub check: Check,
    /// The memory that says it now.
    #[schemars(with = "String")]
    pub id: MemoryId,
    /// What became of it.
    pub written: Written,
    /// The memories that it took the place of.
    #[schemars(with = "Vec<String>")]
    pub replaced: Vec<MemoryId>,
    /// The run by which it can be undone; `None` where there is nothing of memfold's to undo.
    pub run_id: Option<String>,
    /// Rows that the index does not hold yet.
    pub fresh_rows: u64,
    /// Those of them that are in no segment of fresh rows.
    #[serde(skip)]
    pub unsealed_rows: u64,
}

/// A save that a client named.
#[derive(Debug, Clone, Copy)]
pub struct SaveRequest<'a> {
    /// The client's name for it.
    pub key: &'a str,
    /// A hash of the memory to save.
    pub digest: &'a str,
}

/// The result of a save that a client named.
#[derive(Debug, Clone, PartialEq)]
pub enum SavedOnce {
    /// It was saved now.
    Saved(Box<Saved>),
    /// It was saved before; the JSON of the [`Saved`] of that time.
    Before(String),
    /// The name is that of another save; nothing was done.
    AnotherRequest,
}

/// A memory to check or to save.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(default, deny_unknown_fields)]
#[schemars(rename = "MemoryRequest")]
pub struct Incoming {
    /// What it says; a save needs it.
    pub text: Option<String>,
    /// Its vector; by default made by the configured provider, where there is one.
    pub vector: Option<Vec<f32>>,
    /// The model that made the vector; by default the store's.
    pub model: Option<String>,
    /// Its categories.
    #[serde(deserialize_with = "one_or_several")]
    pub categories: Vec<String>,
    /// Whose memory it is: the category `user:<id>`, across which nothing merges.
    pub user_id: Option<String>,
    /// How important it is; by default 1.0 for a new memory.
    pub importance: Option<f64>,
    /// Where it comes from; by default `agent`.
    pub source: Option<String>,
    /// Its id; saving it again under the same id changes nothing.
    pub id: Option<String>,
}

/// Reads a list of categories; one may stand alone.
fn one_or_several<'de, D: Deserializer<'de>>(given: D) -> Result<Vec<String>, D::Error> {
    given.deserialize_any(OneOrSeveral)
}

struct OneOrSeveral;

impl<'de> Visitor<'de> for OneOrSeveral {
    type Value = Vec<String>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a category or a list of them")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }

    fn visit_str<E>(self, category: &str) -> Result<Self::Value, E> {
        Ok(vec![category.to_owned()])
    }

    fn visit_seq<A: SeqAccess<'de>>(self, list: A) -> Result<Self::Value, A::Error> {
        Vec::deserialize(SeqAccessDeserializer::new(list))
    }
}

/// Returns categories, and with them that of a user.
#[must_use]
pub fn with_user(categories: &[String], user_id: Option<&str>) -> Vec<String> {
    categories.iter().cloned().chain(user_id.map(|user| format!("user:{user}"))).collect()
}

/// Most components of a vector.
const DIM_MAX: usize = 65_536;
/// Most categories of a memory, and bytes of one of them or of an id.
const CATEGORIES_MAX: usize = 1_000;
const NAME_BYTES_MAX: usize = 1_000;

/// Returns why a vector cannot be kept, as saves and imports say it.
#[must_use]
pub fn vector_fault(vector: &[f32]) -> Option<String> {
    let dim = vector.len();
    if !(1..=DIM_MAX).contains(&dim) {
        return Some(format!("a vector of {dim} components, expected 1 to {DIM_MAX}"));
    }
    if let Some(at) = vector.iter().position(|component| !component.is_finite()) {
        return Some(format!("a vector whose component {at} is out of range"));
    }
    let is_zero = vector.iter().all(|component| *component == 0.0);
    is_zero.then(|| "a vector of zeros, which is near to nothing".to_owned())
}

/// Returns why an importance cannot be kept, as saves and imports say it.
pub(crate) fn importance_fault(importance: f64) -> Option<String> {
    let is_valid = importance.is_finite() && importance >= 0.0;
    (!is_valid).then(|| format!("{importance:?}, expected a number from 0 on"))
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

    /// Refuses a memory that cannot be stored as it is.
    pub(super) fn validate(&self) -> Result<(), SaveError> {
        if self.text.as_deref().is_some_and(is_blank) {
            return Err(SaveError::NoText);
        }
        if let Some(prefix) = self.source.as_deref().and_then(reserved_prefix) {
            return Err(SaveError::ReservedSource { prefix });
        }
        if let Some(category) = self.categories.iter().find(|category| archives(category)) {
            return Err(SaveError::ReservedCategory { category: category.clone() });
        }
        self.fault().map_or(Ok(()), |fault| Err(SaveError::Invalid { fault }))
    }

    fn fault(&self) -> Option<String> {
        let too_long = |name: &str| name.len() > NAME_BYTES_MAX;
        let categories = self.all_categories();
        let found = categories.len();
        if self.user_id.as_deref().is_some_and(is_blank) {
            return Some("the user_id has no visible character".to_owned());
        }
        if self.id.as_deref().is_some_and(is_blank) {
            return Some("the id has no visible character".to_owned());
        }
        if self.id.as_deref().is_some_and(too_long) {
            return Some(format!("the id is longer than {NAME_BYTES_MAX} bytes"));
        }
        if found > CATEGORIES_MAX {
            return Some(format!("{found} categories, expected at most {CATEGORIES_MAX}"));
        }
        if categories.iter().any(|category| too_long(category)) {
            return Some(format!("a category is longer than {NAME_BYTES_MAX} bytes"));
        }
        let importance = self.importance.and_then(importance_fault);
        importance
            .map(|fault| format!("the importance is {fault}"))
            .or_else(|| self.vector.as_deref().and_then(vector_fault))
    }

    pub(super) fn source(&self) -> &str {
        self.source.as_deref().unwrap_or(SOURCE_DEFAULT)
    }

    /// Returns its categories, that of its user included.
    pub(super) fn all_categories(&self) -> Vec<String> {
        with_user(&self.categories, self.user_id.as_deref())
    }

    pub(super) fn boxed_categories(&self) -> Vec<Box<str>> {
        self.all_categories().iter().collect::<CategoryList>().into_list()
    }
}
