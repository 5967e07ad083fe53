//! [`Worker`]: the provider in a thread of its own, so that the wish to stop is heard while it works.

use std::sync::mpsc::{self, Receiver, RecvTimeoutError, Sender};
use std::thread;
use std::time::Duration;

use memfold_index::Progress;

use super::FillError;
use crate::embed::{EmbedError, Embedder};

/// How often to look whether somebody wants to stop.
const GLANCE: Duration = Duration::from_millis(50);

/// A provider at work.
pub(super) struct Worker {
    place: String,
    questions: Sender<Vec<String>>,
    answers: Receiver<Answer>,
}

struct Answer {
    vectors: Result<Vec<Vec<f32>>, EmbedError>,
    model: Option<String>,
}

impl Worker {
    /// Hires a provider.
    pub(super) fn start(mut provider: Box<dyn Embedder>) -> Result<Self, FillError> {
        let place = provider.place().to_owned();
        let (questions, asked) = mpsc::channel::<Vec<String>>();
        let (answer, answers) = mpsc::channel();
        let work = move || {
            for texts in asked {
                let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
                let vectors = provider.embed(&texts);
                let model = provider.model().map(str::to_owned);
                if answer.send(Answer { vectors, model }).is_err() {
                    return;
                }
            }
        };
        // It is not waited for: whoever stops does not care for an answer that may never come.
        thread::Builder::new().name("embed".to_owned()).spawn(work).map_err(FillError::Thread)?;
        Ok(Self { place, questions, answers })
    }

    /// Where texts go.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// Returns the vectors of texts and the name of their model.
    pub(super) fn ask(
        &self,
        texts: Vec<String>,
        progress: &dyn Progress,
    ) -> Result<(Vec<Vec<f32>>, Option<String>), FillError> {
        // Where nobody listens, nobody answers either.
        let _heard = self.questions.send(texts);
        loop {
            match self.answers.recv_timeout(GLANCE) {
                Ok(Answer { vectors, model }) => return Ok((vectors?, model)),
                Err(RecvTimeoutError::Timeout) if progress.cancelled() => {
                    return Err(FillError::Cancelled);
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let reason = "it ended unexpectedly".to_owned();
                    let place = self.place.clone();
                    return Err(EmbedError::BrokenOff { place, reason }.into());
                }
            }
        }
    }
}
