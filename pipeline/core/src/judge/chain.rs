//! [`Chain`]: models that are asked one after the other until one answers, within a budget.

use std::collections::VecDeque;
use std::thread;
use std::time::{Duration, Instant};

use tracing::field::Empty;
use tracing::info_span;

use crate::judge::ask::{Judge, JudgeError, Reply, Usage};
use crate::judge::chat::{Chat, estimated_tokens};
use crate::judge::decision::Decision;
use crate::judge::http::{Client, Endpoint, HttpError, is_this_machine, key_in};
use crate::judge::opinion::{Opinion, ScoreThresholds};
use crate::judge::prompt::{Prompt, Task};

/// Failures in a row after which a model is left alone.
const FAILURES_MAX: u32 = 3;
/// For how long; then it is tried once.
const REST: Duration = Duration::from_secs(30);
/// How often a request is repeated that found nobody, or a server that is busy or failed.
const RETRIES: u32 = 2;
const MINUTE: Duration = Duration::from_secs(60);
const GLANCE: Duration = Duration::from_millis(50);
const MILLION: f64 = 1e6;

/// A model and where it listens.
#[derive(Debug, Clone, PartialEq)]
pub struct ModelEndpoint {
    /// The server's address, with or without `/v1/chat/completions`; one that ends in `/systemone` is asked for decisions.
    pub url: String,
    /// The model's name; `None`: what the server has loaded.
    pub model: Option<String>,
    /// The name of the environment variable that holds the key.
    pub key_env: Option<String>,
    /// The price of a million tokens of a prompt and of an answer; `None`: unknown, counted as nothing.
    pub price: Option<(f64, f64)>,
}

/// What a run may take.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Budget {
    /// Requests that begin within a minute.
    pub requests_per_minute: u64,
    /// Tokens of the requests that begin within a minute.
    pub tokens_per_minute: u64,
    /// Tokens of the whole run.
    pub tokens_per_run: u64,
    /// What is left of this day's cost.
    pub cost_left: f64,
}

/// Why a chain cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`judge.chain` {problem}")]
pub struct ChainError {
    /// What is wrong.
    pub problem: String,
}

/// Models, the first that answers counts, within the limits on answers.
pub struct Chain {
    links: Vec<Link>,
    budget: Budget,
    timeout: Duration,
    used: Usage,
    /// When requests began within the last minute, and their tokens.
    recent: VecDeque<(Instant, u64)>,
}

/// Why a model did not answer.
pub(crate) enum AnswerError {
    /// There is no answer.
    Http(HttpError),
    /// The answers are none.
    Nonsense(String, Usage),
    /// It answers no such question.
    OtherTask,
    /// The caller asked to stop.
    Cancelled,
}

impl From<HttpError> for AnswerError {
    fn from(error: HttpError) -> Self {
        Self::Http(error)
    }
}

enum Model {
    Chat(Chat),
    Decision(Decision),
}

struct Link {
    model: Model,
    name: String,
    place: String,
    price: Option<(f64, f64)>,
    breaker: Breaker,
}

impl Link {
    /// Asks within a span, as the semantic conventions for generative models name things. Prompt, answer and errors,
    /// which may quote them, are left out.
    fn ask(
        &mut self,
        prompt: &Prompt,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<(Vec<Opinion>, Usage), AnswerError> {
        let span = info_span!(
            "judge.request",
            otel.kind = "client",
            gen_ai.operation.name = match self.model {
                Model::Chat(_) => "chat",
                Model::Decision(_) => "decision",
            },
            gen_ai.provider.name = "openai_compatible",
            gen_ai.request.model = self.name,
            gen_ai.usage.input_tokens = Empty,
            gen_ai.usage.output_tokens = Empty,
            server.address = self.place,
            requests = Empty,
            "error.type" = Empty,
        );
        let answer = span.in_scope(|| match &mut self.model {
            Model::Chat(chat) => chat.ask(prompt, cancelled),
            Model::Decision(_) if !matches!(prompt.task, Task::Duplicates { .. }) => {
                Err(AnswerError::OtherTask)
            }
            Model::Decision(decision) => decision.ask(&prompt.batch, cancelled),
        });
        let (usage, error) = match &answer {
            Ok((_, usage)) => (Some(usage), None),
            Err(AnswerError::Nonsense(_, usage)) => (Some(usage), Some("nonsense")),
            Err(AnswerError::OtherTask) => (None, Some("other_task")),
            Err(AnswerError::Cancelled) => (None, Some("cancelled")),
            Err(AnswerError::Http(_)) => (None, Some("http")),
        };
        if let Some(usage) = usage {
            span.record("requests", usage.requests as i64)
                .record("gen_ai.usage.input_tokens", usage.prompt_tokens as i64)
                .record("gen_ai.usage.output_tokens", usage.completion_tokens as i64);
        }
        if let Some(error) = error {
            span.record("error.type", error);
        }
        answer
    }
}

/// Keeps a server that fails from being asked.
#[derive(Default)]
struct Breaker {
    failures: u32,
    closed_until: Option<Instant>,
    is_final: bool,
}

impl Chain {
    /// Makes a chain; connects to nothing yet. `timeout` is for each request with its repetitions, `thresholds` for models
    /// that answer with probabilities.
    ///
    /// # Errors
    /// When it is empty, an address is none, or a variable that should hold a key does not.
    pub fn new(
        endpoints: &[ModelEndpoint],
        timeout: Duration,
        budget: Budget,
        thresholds: ScoreThresholds,
        variables: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, ChainError> {
        if endpoints.is_empty() {
            return Err(ChainError { problem: "is empty: no model may be asked".to_owned() });
        }
        let link = |endpoint: &ModelEndpoint| {
            let key = endpoint.key_env.as_deref().map(|name| key_in(name, variables)).transpose();
            let key = key.map_err(|problem| ChainError { problem })?;
            let is_decision = asks_for_decisions(&endpoint.url);
            let client = Client::new(Endpoint {
                url: if is_decision { endpoint.url.clone() } else { completions(&endpoint.url) },
                key,
                timeout,
                time_limit: Some(timeout),
                retries: RETRIES,
            });
            let client = client.map_err(|error| ChainError { problem: format!("has {error}") })?;
            let place = client.place().to_owned();
            let model = endpoint.model.clone();
            let name = model.clone().unwrap_or_else(|| place.clone());
            Ok(Link {
                name: if is_decision { format!("decision {name} {thresholds}") } else { name },
                model: if is_decision {
                    Model::Decision(Decision::new(client, model, thresholds))
                } else {
                    Model::Chat(Chat::new(client, model))
                },
                place,
                price: endpoint.price,
                breaker: Breaker::default(),
            })
        };
        Ok(Self {
            links: endpoints.iter().map(link).collect::<Result<_, _>>()?,
            budget,
            timeout,
            used: Usage::default(),
            recent: VecDeque::new(),
        })
    }

    /// Returns where questions go, the first choice first: the model and its address, and whether that is this machine.
    #[must_use]
    pub fn places(&self) -> Vec<(String, String, bool)> {
        let place = |link: &Link| {
            let host = link.place.split("://").nth(1).unwrap_or_default();
            let host = host.split('/').next().unwrap_or_default();
            let host = host.rsplit_once(':').map_or(host, |(host, _)| host);
            (link.name.clone(), link.place.clone(), is_this_machine(host))
        };
        self.links.iter().map(place).collect()
    }

    /// Waits until the limits of a minute allow a request.
    fn wait(&mut self, tokens: u64, cancelled: &dyn Fn() -> bool) -> Result<(), JudgeError> {
        loop {
            if cancelled() {
                return Err(JudgeError::Cancelled);
            }
            let now = clock();
            while self.recent.front().is_some_and(|(at, _)| now.duration_since(*at) >= MINUTE) {
                self.recent.pop_front();
            }
            let used: u64 = self.recent.iter().map(|(_, tokens)| tokens).sum();
            let fits = (self.recent.len() as u64) < self.budget.requests_per_minute
                && used + tokens <= self.budget.tokens_per_minute;
            if fits || self.recent.is_empty() {
                self.recent.push_back((now, tokens));
                return Ok(());
            }
            thread::sleep(GLANCE);
        }
    }

    fn check_budget(&self, tokens: u64) -> Result<(), JudgeError> {
        let (used, limit) = (self.used.tokens(), self.budget.tokens_per_run);
        if used + tokens > limit {
            let limit = format!("judge.budget.tokens_per_run is {limit}, {used} are used");
            return Err(JudgeError::Budget { limit });
        }
        let (cost, left) = (self.used.cost, self.budget.cost_left);
        if cost >= left && self.links.iter().any(|link| link.price.is_some()) {
            let limit = "what judge.budget.cost_per_day leaves for this run".to_owned();
            return Err(JudgeError::Budget { limit: format!("{limit} is {left:.4}") });
        }
        Ok(())
    }
}

impl Judge for Chain {
    fn names(&self) -> Vec<String> {
        self.links.iter().map(|link| link.name.clone()).collect()
    }

    fn answer(
        &mut self,
        prompt: &Prompt,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Reply, JudgeError> {
        let tokens = estimated_tokens(prompt);
        let mut reasons = Vec::new();
        for at in 0..self.links.len() {
            if let Some(reason) = self.links[at].breaker.refusal() {
                reasons.push(format!("{}: {reason}", self.links[at].place));
                continue;
            }
            self.check_budget(tokens)?;
            self.wait(tokens, cancelled)?;
            let started = clock();
            let link = &mut self.links[at];
            let answer = link.ask(prompt, cancelled);
            let latency_ms = clock().duration_since(started).as_millis() as u64;
            let mut counted = |usage: Usage| {
                let (per_prompt, per_answer) = link.price.unwrap_or_default();
                let cost = usage.prompt_tokens as f64 * per_prompt
                    + usage.completion_tokens as f64 * per_answer;
                let usage = Usage { cost: cost / MILLION, latency_ms, ..usage };
                self.used.add(&usage);
                usage
            };
            match answer {
                Ok((opinions, usage)) => {
                    let usage = counted(usage);
                    link.breaker = Breaker::default();
                    return Ok(Reply { judge: link.name.clone(), opinions, usage });
                }
                Err(AnswerError::Cancelled) => return Err(JudgeError::Cancelled),
                Err(AnswerError::OtherTask) => {
                    reasons.push(format!("{} answers about duplicates only", link.name));
                }
                Err(AnswerError::Nonsense(problem, usage)) => {
                    let usage = counted(usage);
                    link.breaker.fail(false);
                    let judge = link.place.clone();
                    return Err(JudgeError::Nonsense { judge, problem, usage });
                }
                Err(AnswerError::Http(error)) => {
                    link.breaker.fail(is_lasting(&error));
                    reasons.push(error.to_string());
                }
            }
        }
        let is_final = self.links.iter().all(|link| link.breaker.refusal().is_some());
        Err(JudgeError::Unanswered { reasons, is_final })
    }
}

impl std::fmt::Debug for Chain {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Chain")
            .field("places", &self.places())
            .field("budget", &self.budget)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

impl Breaker {
    fn fail(&mut self, is_lasting: bool) {
        self.failures += 1;
        self.is_final |= is_lasting;
        if self.failures >= FAILURES_MAX {
            self.closed_until = Some(clock() + REST);
        }
    }

    /// Says why nobody is asked.
    fn refusal(&self) -> Option<String> {
        if self.is_final {
            return Some("not asked again: what it answered will not change".to_owned());
        }
        let until = self.closed_until.filter(|until| *until > clock())?;
        let left = until.duration_since(clock()).as_secs();
        Some(format!("left alone for {left} s after {} failures", self.failures))
    }
}

/// Tells whether the same request would fail in the same way for the whole run: a wrong key, address or model.
const fn is_lasting(error: &HttpError) -> bool {
    matches!(
        error,
        HttpError::Status { status: 401 | 403 | 404 | 405 | 501, .. }
            | HttpError::Redirected { .. }
    )
}

/// Tells whether an address is that of decisions.
fn asks_for_decisions(url: &str) -> bool {
    let path = url.split(['?', '#']).next().unwrap_or_default();
    path.trim_end_matches('/').ends_with("/systemone")
}

/// Returns where to post: the address as given where it names the path, else with it.
fn completions(base: &str) -> String {
    let (path, query) =
        base.split_once('?').map_or((base, None), |(path, query)| (path, Some(query)));
    let path = path.trim_end_matches('/');
    let path = if path.ends_with("/chat/completions") {
        path.to_owned()
    } else if path.ends_with("/v1") {
        format!("{path}/chat/completions")
    } else {
        format!("{path}/v1/chat/completions")
    };
    query.map_or_else(|| path.clone(), |query| format!("{path}?{query}"))
}

#[expect(
    clippy::disallowed_methods,
    reason = "limits per minute and latencies are real time; no plan depends on them"
)]
fn clock() -> Instant {
    Instant::now()
}
