//! [`Explanation`]: all that is known of one memory.

use serde::Serialize;

use super::tree::TEXT_CHARS;
use super::{Branch, Lineage, Resolved, absorbed_tree, resolve};
use crate::memory::MemoryId;
use crate::text::excerpt;

/// The first of a list, and how many more there are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Few<T> {
    /// Those that are shown.
    pub shown: Vec<T>,
    /// How many are not.
    pub more: u64,
}

impl<T> Default for Few<T> {
    fn default() -> Self {
        Self { shown: Vec::new(), more: 0 }
    }
}

impl<T> FromIterator<T> for Few<T> {
    fn from_iter<I: IntoIterator<Item = T>>(items: I) -> Self {
        let mut few = Self::default();
        for item in items {
            if few.shown.len() < super::tree::SHOWN_MAX {
                few.shown.push(item);
            } else {
                few.more += 1;
            }
        }
        few
    }
}

/// A memory as it is, its text an escaped excerpt, its other texts as stored.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct MemoryView {
    /// An excerpt of its text.
    pub text: Option<String>,
    /// Its categories.
    pub categories: Vec<String>,
    /// Its importance.
    pub importance: f64,
    /// How often it was read.
    pub access_count: i64,
    /// When it was made, as stored.
    pub created_at: Option<String>,
    /// Where it came from at first.
    pub root_source: String,
}

/// A promotion.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Promotion {
    /// How often it had been read then.
    pub access_count: Option<i64>,
    /// The run that promoted it.
    pub run_id: String,
    /// When.
    pub at: String,
}

/// A decision to keep memories apart.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct KeptApart {
    /// From which others.
    pub from: Few<MemoryId>,
    /// Whether the memory's text is still the one that was decided on.
    pub holds: bool,
    /// The run that wrote it down.
    pub run_id: String,
    /// When.
    pub at: String,
}

/// An action that a person took back.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Declined {
    /// Which action.
    pub action: String,
    /// Whether the memory's text is still the one that was decided on.
    pub holds: bool,
    /// The run that wrote it down.
    pub run_id: String,
    /// When.
    pub at: String,
}

/// A contradiction with another memory.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct FlagNote {
    /// The other memory.
    pub other: MemoryId,
    /// `open` or `closed`.
    pub state: String,
    /// How similar they are.
    pub similarity: Option<f64>,
    /// How contradictory they are.
    pub score: Option<f64>,
    /// The run that wrote it down.
    pub run_id: String,
    /// When.
    pub at: String,
}

/// All that is known of one memory.
#[derive(Debug, Clone, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Explanation {
    /// Where it is, and what it was folded into.
    #[serde(flatten)]
    pub resolved: Resolved,
    /// The memory itself, where it is still there.
    pub memory: Option<MemoryView>,
    /// What was folded into it.
    pub absorbed: Few<Branch>,
    /// Its promotions, the latest first.
    pub promotions: Few<Promotion>,
    /// Decisions to keep it apart from others, the latest first.
    pub kept_apart: Few<KeptApart>,
    /// Actions that people took back, the latest first.
    pub declined: Few<Declined>,
    /// Contradictions with other memories, the latest first.
    pub flags: Few<FlagNote>,
}

/// Explains where a memory is and what it is made of; decisions and flags are for the caller to add.
///
/// # Errors
/// Those of the lineage.
pub fn explain_folds<L: Lineage>(
    lineage: &L,
    id: &MemoryId,
    memory: Option<MemoryView>,
) -> Result<Explanation, L::Error> {
    let memory = memory
        .map(|view| MemoryView { text: view.text.map(|text| excerpt(&text, TEXT_CHARS)), ..view });
    Ok(Explanation {
        resolved: resolve(lineage, id)?,
        memory,
        absorbed: absorbed_tree(lineage, id)?,
        promotions: Few::default(),
        kept_apart: Few::default(),
        declined: Few::default(),
        flags: Few::default(),
    })
}
