//! [`Embedder`]: the provider of vectors for texts, and the checks of its answers.

use memfold_core::judge::http::HttpError;
use memfold_store::StoreError;

/// Makes vectors of texts.
pub trait Embedder: Send {
    /// Returns the model's name as a store should spell it, if it is configured or the provider
    /// named it.
    fn model(&self) -> Option<&str>;

    /// Returns where texts go, for messages: an address without credentials, or a folder.
    fn place(&self) -> &str;

    /// Returns one vector for each text, in the order of the texts: all of one dimension, finite and not zero.
    ///
    /// # Errors
    /// When there is no answer, or an unexpected one.
    fn embed(&mut self, texts: &[&str]) -> Result<Vec<Vec<f32>>, EmbedError>;
}

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

/// Why there are no vectors. Texts in it come from others and are displayed escaped and shortened.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum EmbedError {
    /// The configuration lacks something, or it does not fit.
    #[error("`{key}` {problem}")]
    Setting {
        /// The key.
        key: &'static str,
        /// The problem.
        problem: String,
        /// Advice.
        advice: String,
    },
    /// This program was built without local models.
    #[error("this memfold was built without local models")]
    NotBuilt,
    /// The provider gave no answer.
    #[error(transparent)]
    Http(#[from] HttpError),
    /// Some texts have no vector, or there are too many.
    #[error("{place} was given {expected} texts and answered with {found} vectors")]
    Count {
        /// The address or folder.
        place: String,
        /// How many texts.
        expected: usize,
        /// How many vectors.
        found: usize,
    },
    /// Vectors of one model have one length.
    #[error("{place} answered with vectors of {first} and of {other} dimensions")]
    Dimensions {
        /// The address or folder.
        place: String,
        /// The dimension of the first vector.
        first: usize,
        /// Another one.
        other: usize,
    },
    /// A vector that says nothing.
    #[error("{place} answered with a vector that {problem}")]
    Vector {
        /// The address or folder.
        place: String,
        /// The problem.
        problem: &'static str,
    },
    /// A local model cannot be read or run.
    #[error("the model in {folder} cannot be used: {reason}")]
    Model {
        /// The folder.
        folder: String,
        /// Why.
        reason: String,
    },
    /// The store cannot be read or written.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Vectors of another model cannot be compared with the store's.
    #[error("the store's vectors are of the model {expected:?}, these would be of {found:?}")]
    FillModel {
        /// The store's.
        expected: String,
        /// The provider's.
        found: String,
    },
    /// Vectors of another dimension cannot be compared with the store's.
    #[error("the store's vectors have {expected} dimensions, those of {place} have {found}")]
    Dimension {
        /// The store's.
        expected: u32,
        /// The provider's.
        found: usize,
        /// Who made them.
        place: String,
    },
    /// No thread could be started.
    #[error("no thread could be started: {0}")]
    Thread(#[source] std::io::Error),
    /// The caller cancelled.
    #[error("interrupted")]
    Cancelled,
}

impl EmbedError {
    /// Tells whether the texts may be the cause, so that other texts could succeed.
    #[must_use]
    pub(crate) const fn concerns_texts(&self) -> bool {
        matches!(
            self,
            Self::Http(HttpError::Status { status: 400 | 413 | 422, .. }) | Self::Vector { .. }
        ) || self.may_concern_provider()
    }

    /// Tells whether the cause may be a text or the provider itself: it is the provider if no text
    /// of a batch gets a vector.
    #[must_use]
    pub(crate) const fn may_concern_provider(&self) -> bool {
        matches!(
            self,
            Self::Http(HttpError::Status { status: 500, .. } | HttpError::Unexpected { .. })
                | Self::Count { .. }
        )
    }

    /// Returns advice for the user.
    #[must_use]
    pub fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Store(error) => return error.hint(),
            Self::FillModel { expected, .. } => {
                return Some(format!(
                    "use the store's model; if it is the same under another name, say so: \
                     --set embed.model={expected} --set embed.request_model=NAME"
                ));
            }
            Self::Dimension { .. } => {
                "use the store's model: `memfold doctor DB` names it, `embed.request_model` is what \
                 the provider is asked for"
            }
            Self::Thread(_) => "end other programs, or allow more threads",
            Self::Cancelled => "what was written stays; running again continues",
            Self::Setting { advice, .. } => advice,
            Self::NotBuilt => {
                "build it with `cargo install --path tools/cli --locked --features local-models`, or \
                 ask a provider: --set embed.provider=daemon|ollama|openai"
            }
            Self::Http(error) => http_hint(error),
            Self::Count { .. } | Self::Dimensions { .. } | Self::Vector { .. } => {
                "the provider does not work as it should; nothing of this answer was used"
            }
            Self::Model { .. } => {
                "the folder must hold config.json, tokenizer.json and model.safetensors of a BERT-style \
                 sentence model; docs/embedding.md says more"
            }
        };
        Some(hint.to_owned())
    }

    /// Tells whether the caller cancelled.
    #[must_use]
    pub const fn is_cancelled(&self) -> bool {
        matches!(self, Self::Cancelled | Self::Store(StoreError::Cancelled))
    }
}

/// Advice for a provider that gave no answer.
const fn http_hint(error: &HttpError) -> &'static str {
    match error {
        HttpError::Unreachable { .. } => {
            "is the provider running? `embed.url` says where it is looked for"
        }
        HttpError::Slow { .. } => {
            "is it busy with something else? A faster machine, or a smaller model, answers in time"
        }
        HttpError::BrokenOff { .. } => "try again; if it stays, the provider's log may tell why",
        HttpError::Status { status: 401 | 403, .. } => {
            "`embed.api_key_env` names the environment variable that holds the key"
        }
        HttpError::Status { status: 404 | 405, .. } => {
            "does `embed.provider` fit what listens at `embed.url`, and does it have the model \
             `embed.request_model` (or `embed.model`)?"
        }
        HttpError::Status { status: 400 | 413 | 422, .. } => {
            "a text may be too long for the model; the provider's log may tell more"
        }
        HttpError::Status { .. } => "try again later; the provider's log may tell why",
        HttpError::Resting { .. } => "run again then; what was written stays",
        HttpError::Redirected { .. } => "if texts may go there, put that address into `embed.url`",
        HttpError::TooLong { .. } | HttpError::Unexpected { .. } => {
            "does `embed.provider` fit what listens at `embed.url`?"
        }
        _ => "`embed.url` says where the provider is looked for",
    }
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
