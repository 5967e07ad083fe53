//! [`StubProvider`]: a provider of vectors with answers that a test defines, right or wrong.

use std::io::{Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use serde_json::{Value, json};

/// A request to the provider.
#[derive(Debug, Clone, PartialEq)]
pub struct Asked {
    /// Its number, from 0.
    pub number: usize,
    /// The path, query included.
    pub path: String,
    /// The head of the request, in small letters but for the values.
    pub head: String,
    /// The body, where it is JSON.
    pub body: Value,
    /// The bytes of the body.
    pub bytes: Vec<u8>,
}

impl Asked {
    /// The texts of a request, whichever protocol it is of.
    #[must_use]
    pub fn texts(&self) -> Vec<String> {
        let body = &self.body;
        let listed = body.get("texts").or(body.get("input")).and_then(Value::as_array);
        let one = body.get("text").into_iter();
        let texts = listed.into_iter().flatten().chain(one);
        texts.filter_map(Value::as_str).map(str::to_owned).collect()
    }

    /// The groups of a question to a chat model: handles and texts.
    ///
    /// # Panics
    /// When the request is another one.
    #[must_use]
    pub fn groups(&self) -> Vec<Vec<(String, String)>> {
        let content = self.body["messages"][1]["content"].as_str().expect("a chat has a question");
        let batch: Value = serde_json::from_str(content).expect("the question is JSON");
        let text = |memory: &Value, key: &str| memory[key].as_str().unwrap_or_default().to_owned();
        let member = |memory: &Value| (text(memory, "id"), text(memory, "text"));
        let groups = batch["groups"].as_array().into_iter().flatten();
        let members = |group: &Value| group["memories"].as_array().cloned().unwrap_or_default();
        groups.map(|group| members(group).iter().map(member).collect()).collect()
    }
}

/// Makes the answer: the bytes are sent as they are, then the connection ends.
pub type Answering = dyn Fn(&Asked) -> Vec<u8> + Send + Sync;

/// Listens on this machine, one thread for each connection.
pub struct StubProvider {
    address: SocketAddr,
    asked: Arc<Mutex<Vec<Asked>>>,
    stopped: Arc<AtomicBool>,
    listening: Option<JoinHandle<()>>,
}

impl StubProvider {
    /// Starts to listen.
    ///
    /// # Panics
    /// When this machine has no port to spare.
    pub fn start(answer: impl Fn(&Asked) -> Vec<u8> + Send + Sync + 'static) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port is free");
        let address = listener.local_addr().expect("the listener is bound");
        let answer: Arc<Answering> = Arc::new(answer);
        let (asked, stopped) = (Arc::<Mutex<Vec<Asked>>>::default(), Arc::<AtomicBool>::default());
        let (log, stop) = (Arc::clone(&asked), Arc::clone(&stopped));
        let listening = std::thread::spawn(move || {
            for connection in listener.incoming() {
                if stop.load(Ordering::Relaxed) {
                    return;
                }
                let (log, answer) = (Arc::clone(&log), Arc::clone(&answer));
                let Ok(connection) = connection else { continue };
                std::thread::spawn(move || serve(connection, &log, &*answer));
            }
        });
        Self { address, asked, stopped, listening: Some(listening) }
    }

    /// A daemon that makes vectors of `dim` dimensions of any text.
    #[must_use]
    pub fn daemon(dim: usize) -> Self {
        Self::start(move |asked| embeddings(&asked.texts(), dim))
    }

    /// Its address.
    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    /// The requests until now, in order.
    #[must_use]
    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

impl Drop for StubProvider {
    fn drop(&mut self) {
        self.stopped.store(true, Ordering::Relaxed);
        // Wakes the listener up.
        let _woken = TcpStream::connect(self.address);
        if let Some(listening) = self.listening.take() {
            let _ended = listening.join();
        }
    }
}

/// Never answers: the caller has to give up.
#[must_use]
pub fn never() -> Vec<u8> {
    loop {
        std::thread::park();
    }
}

fn serve(mut connection: TcpStream, log: &Mutex<Vec<Asked>>, answer: &Answering) {
    let Some((head, bytes)) = read(&mut connection) else { return };
    let path = head.split(' ').nth(1).unwrap_or_default().to_owned();
    let body = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
    let asked = {
        let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
        let asked = Asked { number: log.len(), path, head, body, bytes };
        log.push(asked.clone());
        asked
    };
    // The client may be gone.
    let _sent = connection.write_all(&answer(&asked)).and_then(|()| connection.flush());
}

fn read(connection: &mut TcpStream) -> Option<(String, Vec<u8>)> {
    let mut bytes = Vec::new();
    let mut buffer = [0; 4096];
    loop {
        if let Some(end) = bytes.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
            let length = head.lines().find_map(|line| {
                let (name, value) = line.split_once(':')?;
                name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse().ok())?
            });
            let whole = end + 4 + length.unwrap_or(0_usize);
            if bytes.len() >= whole {
                return Some((head, bytes[end + 4..whole].to_vec()));
            }
        }
        match connection.read(&mut buffer) {
            Ok(0) | Err(_) => return None,
            Ok(count) => bytes.extend_from_slice(&buffer[..count]),
        }
    }
}

/// An HTTP answer with a body of a type.
#[must_use]
pub fn answer(status: &str, headers: &[&str], body: &[u8]) -> Vec<u8> {
    let further: String = headers.iter().map(|header| format!("{header}\r\n")).collect();
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\n{further}content-length: {length}\r\nconnection: close\r\n\r\n"
    );
    [head.as_bytes(), body].concat()
}

/// An HTTP answer with JSON.
#[must_use]
pub fn json_answer(body: &Value) -> Vec<u8> {
    answer("200 OK", &["content-type: application/json"], body.to_string().as_bytes())
}

/// The answer of a chat model: 1,100 tokens.
#[must_use]
pub fn chat(content: &str) -> Vec<u8> {
    let usage = json!({ "prompt_tokens": 1_000, "completion_tokens": 100 });
    let message = json!({ "role": "assistant", "content": content });
    json_answer(&json!({ "choices": [{ "message": message }], "usage": usage }))
}

/// The answer of a daemon, or of Ollama, for texts.
#[must_use]
pub fn embeddings(texts: &[String], dim: usize) -> Vec<u8> {
    let vectors: Vec<Vec<f32>> = texts.iter().map(|text| text_vector(text, dim)).collect();
    json_answer(&json!({ "embeddings": vectors }))
}

/// A vector that depends on the text alone: another one for almost every other text.
#[must_use]
pub fn text_vector(text: &str, dim: usize) -> Vec<f32> {
    let seed =
        text.bytes().fold(17_u32, |seed, byte| seed.wrapping_mul(31).wrapping_add(byte.into()));
    (0..dim as u32)
        .map(|axis| {
            (seed.wrapping_add(axis.wrapping_mul(2_654_435_761)) % 1_000) as f32 / 1_000.0 + 0.001
        })
        .collect()
}
