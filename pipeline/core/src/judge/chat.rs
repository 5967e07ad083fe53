//! One model behind `/v1/chat/completions`.

use memfold_guard::text::excerpt;
use serde::Deserialize;
use serde_json::{Value, json};

use crate::judge::ask::Usage;
use crate::judge::chain::AnswerError;
use crate::judge::http::{Client, HttpError};
use crate::judge::opinion::{Opinion, read_opinions};
use crate::judge::prompt::Prompt;

/// Longest answer that is read.
const REPLY_BYTES: u64 = 2 << 20;
/// How much of a wrong answer the model sees again.
const SHOWN_AGAIN_BYTES: usize = 4 << 10;
/// Bytes of text in a token, about, where the server does not count.
const BYTES_PER_TOKEN: u64 = 4;
const PROBLEM_CHARS: usize = 160;
/// What llama.cpp's server says where an answer does not follow the schema, and older ones where they know no schema.
/// At temperature 0 it says the same again.
const SCHEMA_FAILED: u16 = 500;

const REPAIR: &str = "That is not the JSON that was asked for. Answer again with nothing but the JSON object: \
{\"actions\": [{\"action\": \"MERGE\", \"ids\": [\"m1\", \"m2\"], \"keep\": \"m1\", \"text\": null, \"reason\": \"…\"}]}";

/// What a request may hold beside the messages: some servers and models refuse parts of it. Where an answer comes without a
/// part that was refused, later requests go without it too.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    /// Schema of the answer, temperature 0.
    Full,
    /// Temperature 0.
    Unschemed,
    /// Nothing.
    Bare,
}

/// A model, ready to be asked.
pub(crate) struct Chat {
    client: Client,
    model: Option<String>,
    form: Form,
}

#[derive(Deserialize)]
struct Completion {
    choices: Vec<Choice>,
    usage: Option<Counts>,
}

#[derive(Deserialize)]
struct Choice {
    message: Message,
}

#[derive(Deserialize)]
struct Message {
    content: Option<Value>,
}

#[derive(Deserialize)]
struct Counts {
    prompt_tokens: Option<u64>,
    completion_tokens: Option<u64>,
}

impl Chat {
    pub(crate) const fn new(client: Client, model: Option<String>) -> Self {
        Self { client, model, form: Form::Full }
    }

    /// Asks, and once more where the answer is not in the expected form. Cost and latency are left to the caller.
    pub(crate) fn ask(
        &mut self,
        prompt: &Prompt,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<(Vec<Opinion>, Usage), AnswerError> {
        let mut messages = vec![
            json!({"role": "system", "content": prompt.system}),
            json!({"role": "user", "content": prompt.user}),
        ];
        let mut usage = Usage::default();
        let answer = self.completion(&messages, prompt, &mut usage, cancelled)?;
        if let Ok(opinions) = read_opinions(without_thoughts(&answer)) {
            return Ok((opinions, usage));
        }
        let shown = &answer[..answer.floor_char_boundary(SHOWN_AGAIN_BYTES)];
        messages.push(json!({"role": "assistant", "content": shown}));
        messages.push(json!({"role": "user", "content": REPAIR}));
        let answer = self.completion(&messages, prompt, &mut usage, cancelled)?;
        read_opinions(without_thoughts(&answer)).map(|opinions| (opinions, usage)).map_err(
            |error| {
                let problem = self.client.without_key(error.to_string().as_bytes());
                AnswerError::Nonsense(excerpt(&problem, PROBLEM_CHARS), usage)
            },
        )
    }

    fn completion(
        &mut self,
        messages: &[Value],
        prompt: &Prompt,
        usage: &mut Usage,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<String, AnswerError> {
        let mut form = self.form;
        let mut is_refused = false;
        loop {
            let body = self.body(messages, prompt, form);
            usage.requests += 1;
            let error = match self.post(&body, form, cancelled) {
                Ok(reply) => {
                    if is_refused {
                        self.form = form;
                    }
                    return self.read(&reply, &body, usage);
                }
                Err(error) => error,
            };
            let AnswerError::Http(HttpError::Status { status, .. }) = &error else {
                return Err(error);
            };
            (form, is_refused) = match (status, form) {
                (400 | 422, Form::Full) => (Form::Unschemed, true),
                (400 | 422, Form::Unschemed) => (Form::Bare, true),
                (&SCHEMA_FAILED, Form::Full) => (Form::Unschemed, false),
                _ => return Err(error),
            };
        }
    }

    fn body(&self, messages: &[Value], prompt: &Prompt, form: Form) -> Value {
        let mut body = json!({"messages": messages, "stream": false});
        if let Some(model) = &self.model {
            body["model"] = json!(model);
        }
        if form != Form::Bare {
            body["temperature"] = json!(0);
        }
        if form == Form::Full {
            let schema = json!({"name": "judgements", "schema": prompt.schema});
            body["response_format"] = json!({"type": "json_schema", "json_schema": schema});
        }
        body
    }

    fn post(
        &self,
        body: &Value,
        form: Form,
        cancelled: &dyn Fn() -> bool,
    ) -> Result<Vec<u8>, AnswerError> {
        let mut client = self.client.clone();
        if form == Form::Full {
            client = client.not_repeating(SCHEMA_FAILED);
        }
        client.post_until(body, REPLY_BYTES, cancelled)?.ok_or(AnswerError::Cancelled)
    }

    fn read(&self, reply: &[u8], body: &Value, usage: &mut Usage) -> Result<String, AnswerError> {
        let unexpected = |problem: &str| {
            let expected = "{\"choices\": [{\"message\": {\"content\": …}}]}";
            AnswerError::Http(self.client.unexpected(reply, expected, problem))
        };
        let completion: Completion =
            serde_json::from_slice(reply).map_err(|error| unexpected(&error.to_string()))?;
        let choice = completion.choices.into_iter().next();
        let choice = choice.ok_or_else(|| unexpected("no choices"))?;
        let answer = text_of(choice.message.content);
        let counts = completion.usage;
        let estimated = |bytes: usize| bytes as u64 / BYTES_PER_TOKEN + 1;
        let prompt = counts.as_ref().and_then(|counts| counts.prompt_tokens);
        let said = counts.as_ref().and_then(|counts| counts.completion_tokens);
        usage.prompt_tokens += prompt.unwrap_or_else(|| estimated(body.to_string().len()));
        usage.completion_tokens += said.unwrap_or_else(|| estimated(answer.len()));
        Ok(answer)
    }
}

/// Estimates the tokens that a prompt and its answer take.
pub(crate) fn estimated_tokens(prompt: &Prompt) -> u64 {
    let schema = prompt.schema.to_string();
    let asked = (prompt.system.len() + prompt.user.len() + schema.len()) as u64 / BYTES_PER_TOKEN;
    // An answer has an action and a sentence for some memories, at most as much as it was asked.
    asked + (prompt.user.len() as u64 / BYTES_PER_TOKEN).min(1_000)
}

/// The text of a message: a string, or parts with texts.
fn text_of(content: Option<Value>) -> String {
    match content {
        Some(Value::String(text)) => text,
        Some(Value::Array(parts)) => {
            parts.iter().filter_map(|part| part["text"].as_str()).collect::<Vec<_>>().concat()
        }
        _ => String::new(),
    }
}

/// Cuts off what a model thought aloud.
fn without_thoughts(answer: &str) -> &str {
    answer.rsplit_once("</think>").map_or(answer, |(_, said)| said)
}
