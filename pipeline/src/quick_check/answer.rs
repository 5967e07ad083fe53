//! What a check says, and what a save did.

use memfold_guard::Verdict;
use memfold_model::memory::{CategoryList, MemoryId};
use schemars::JsonSchema;
use serde::Serialize;
use tracing::Span;

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
    /// Records on a span what was decided; the reason may quote a text and is left out.
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
    /// A hash of what is to be saved.
    pub digest: &'a str,
}

/// What became of a save that a client named.
#[derive(Debug, Clone, PartialEq)]
pub enum SavedOnce {
    /// It was saved now.
    Saved(Box<Saved>),
    /// It was saved before; the JSON of the [`Saved`] of that time.
    Before(String),
    /// The name is that of another save; nothing was done.
    AnotherRequest,
}

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
