//! Providers of vectors get requests in their own format; only valid answers are accepted.

use std::net::TcpListener;
use std::time::Duration;

use memfold::embed::{EmbedError, Embedder, HttpError, embedder};
use memfold_core::policy::{ConfigLoader, EmbedSettings};
use memfold_tests::stub_provider::{StubProvider, answer, json_answer, never};
use serde_json::{Value, json};

const KEY: &str = "opensesame-4711";

fn provider(sets: &[&str]) -> Result<Box<dyn Embedder>, EmbedError> {
    let settings = settings(sets);
    let variables = |name: &str| (name == "PROVIDER_KEY").then(|| format!("{KEY}\n"));
    Ok(embedder(&settings, None, &variables)?.unwrap())
}

fn settings(sets: &[&str]) -> EmbedSettings {
    let loader = sets.iter().fold(ConfigLoader::new(), |loader, text| loader.set(*text));
    loader.load().unwrap().settings.embed
}

fn at(stub: &StubProvider, kind: &str, further: &[&str]) -> Box<dyn Embedder> {
    let (kind, url) = (format!("embed.provider={kind}"), format!("embed.url={}", stub.url()));
    provider(&[&[&*kind, &*url], further].concat()).unwrap()
}

fn saying(body: &Value) -> StubProvider {
    let body = json_answer(body);
    StubProvider::start(move |_| body.clone())
}

#[test]
fn the_daemon_is_given_one_text_or_several() {
    let stub = StubProvider::start(|asked| match asked.number {
        0 => json_answer(&json!({ "embedding": [0.5, -1] })),
        _ => json_answer(&json!({ "embeddings": [[1, 0], [0, 1e-3]], "model": "mini" })),
    });
    let mut daemon = at(&stub, "daemon", &[]);
    assert_eq!(daemon.embed(&[]).unwrap(), Vec::<Vec<f32>>::new());
    assert_eq!(daemon.embed(&["süß"]).unwrap(), [[0.5, -1.0]]);
    assert_eq!(daemon.model(), None);
    assert_eq!(daemon.embed(&["a", "b"]).unwrap(), [[1.0, 0.0], [0.0, 0.001]]);
    assert_eq!(daemon.model(), Some("mini"));
    let asked = stub.asked();
    assert_eq!(asked.len(), 2);
    assert!(asked.iter().all(|asked| asked.path == "/embed"));
    assert_eq!(asked[0].body, json!({ "text": "süß" }));
    assert_eq!(asked[1].body, json!({ "texts": ["a", "b"] }));
    assert!(!asked[0].head.to_lowercase().contains("authorization"), "{}", asked[0].head);
}

#[test]
fn openai_is_given_model_and_key_and_may_answer_in_any_order() {
    let (first, second) = (json!([1.0, 0.0]), json!([0.0, 1.0]));
    let stub = saying(
        &json!({ "object": "list", "model": "large", "usage": { "total_tokens": 9 }, "data": [
            { "object": "embedding", "index": 1, "embedding": second },
            { "object": "embedding", "index": 0, "embedding": first },
        ]}),
    );
    let mut openai = at(&stub, "openai", &["embed.model=large", "embed.api_key_env=PROVIDER_KEY"]);
    assert_eq!(openai.embed(&["a", "b"]).unwrap(), [[1.0, 0.0], [0.0, 1.0]]);
    assert_eq!(openai.model(), Some("large"));
    let asked = stub.asked();
    assert_eq!(asked[0].path, "/v1/embeddings");
    assert_eq!(asked[0].body, json!({ "model": "large", "input": ["a", "b"] }));
    assert!(asked[0].head.contains(&format!("Bearer {KEY}")), "{}", asked[0].head);
    assert!(!asked[0].path.contains(KEY));

    let unnumbered = saying(&json!({ "data": [{ "embedding": [1] }, { "embedding": [2] }] }));
    let base = format!("embed.url={}/v1/", unnumbered.url());
    let mut openai = provider(&["embed.provider=openai", &base, "embed.model=m"]).unwrap();
    assert_eq!(openai.embed(&["a", "b"]).unwrap(), [[1.0], [2.0]]);
    assert_eq!(unnumbered.asked()[0].path, "/v1/embeddings");

    for indices in [[0, 0], [1, 2], [0, 7]] {
        let data = indices.map(|index| json!({ "index": index, "embedding": [1.0] }));
        let stub = saying(&json!({ "data": data }));
        let error = at(&stub, "openai", &["embed.model=m"]).embed(&["a", "b"]).unwrap_err();
        assert!(error.to_string().contains("`index`"), "{error}");
    }
}

#[test]
fn ollama_is_asked_by_the_name_that_it_knows() {
    let stub =
        saying(&json!({ "model": "all-minilm", "embeddings": [[3, 4]], "load_duration": 1 }));
    let names = ["embed.model=all-MiniLM-L6-v2", "embed.request_model=all-minilm"];
    let mut ollama = at(&stub, "ollama", &names);
    assert_eq!(ollama.embed(&["a"]).unwrap(), [[3.0, 4.0]]);
    assert_eq!(ollama.model(), Some("all-MiniLM-L6-v2"));
    assert_eq!(stub.asked()[0].path, "/api/embed");
    assert_eq!(stub.asked()[0].body, json!({ "model": "all-minilm", "input": ["a"] }));
}

#[test]
fn invalid_answers_are_refused_without_a_retry() {
    let ok = |body: &str| answer("200 OK", &[], body.as_bytes());
    let short = b"HTTP/1.1 200 OK\r\ncontent-length: 500\r\n\r\n{\"embeddings\": [[1, 2".to_vec();
    let huge = format!("{{\"embeddings\": [[{}1], [1]]}}", "1,".repeat(3 << 20));
    for (reply, words) in [
        (ok(r#"{"embeddings": [[1]]}"#), "was given 2 texts and answered with 1 vectors"),
        (ok(r#"{"embeddings": [[1], [1], [1]]}"#), "was given 2 texts and answered with 3 vectors"),
        (ok(r#"{"embedding": [1]}"#), "was given 2 texts and answered with 1 vectors"),
        (ok(r#"{"embeddings": [[1], [1, 2]]}"#), "vectors of 1 and of 2 dimensions"),
        (ok(r#"{"embeddings": [[], []]}"#), "a vector that has no components"),
        (ok(r#"{"embeddings": [[1], [0]]}"#), "a vector that is all zeros"),
        (ok(r#"{"embeddings": [[1], [1e39]]}"#), "number out of range"),
        (ok(r#"{"embeddings": [[1], [null]]}"#), "null"),
        (ok(r#"{"embeddings": [[1], ["2"]]}"#), "string"),
        (ok(r#"{"embeddings": [[1], [NaN]]}"#), "should answer with {\"embeddings\": [[…]]}"),
        (ok(r#"{"embeddings": null}"#), "no `embeddings`"),
        (ok(r#"{"error": "model is loading"}"#), "model is loading"),
        (ok("<html><body>Welcome</body></html>"), "Welcome"),
        (ok(""), "answered with nothing"),
        (short, "broke off"),
        (answer("200 OK", &[], huge.as_bytes()), "is longer than"),
        (b"SSH-2.0-OpenSSH_9.9\r\n".to_vec(), "should answer with HTTP"),
        (answer("400 Bad Request", &[], b"{\"detail\": \"too long\"}"), "status 400: too long"),
        (answer("404 Not Found", &[], b"<h1>no\x1b[31m</h1>"), "status 404: <h1>no"),
    ] {
        let stub = StubProvider::start(move |_| reply.clone());
        let error = at(&stub, "daemon", &[]).embed(&["a", "b"]).unwrap_err();
        let said = error.to_string();
        assert!(said.contains(words), "{said} lacks {words}");
        assert!(said.contains(&stub.url()), "{said}");
        assert!(said.len() < 400 && !said.contains('\u{1b}'), "{said}");
        assert!(error.hint().is_some(), "{said}");
        assert_eq!(stub.asked().len(), 1, "{said}");
    }
}

#[test]
fn busy_provider_is_asked_again_twice() {
    let then_well = |status: &'static str, headers: &'static [&'static str]| {
        StubProvider::start(move |asked| match asked.number {
            0 => answer(status, headers, b"later"),
            _ => json_answer(&json!({ "embeddings": [[1]] })),
        })
    };
    for stub in [
        then_well("500 Internal Server Error", &[]),
        then_well("503 Service Unavailable", &["retry-after: 1"]),
        then_well("429 Too Many Requests", &["retry-after: 0"]),
        then_well("429 Too Many Requests", &["retry-after: Fri, 31 Dec 1999 23:59:59 GMT"]),
    ] {
        assert_eq!(at(&stub, "daemon", &[]).embed(&["a"]).unwrap(), [[1.0]]);
        assert_eq!(stub.asked().len(), 2);
    }
    let down = StubProvider::start(|_| answer("502 Bad Gateway", &[], b"down"));
    let error = at(&down, "daemon", &[]).embed(&["a"]).unwrap_err();
    assert!(error.to_string().ends_with("answered with status 502: down"), "{error}");
    assert_eq!(down.asked().len(), 3);
    let resting = StubProvider::start(|_| answer("429 Too Many", &["retry-after: 3600"], b""));
    let error = at(&resting, "daemon", &[]).embed(&["a"]).unwrap_err();
    assert!(
        matches!(error, EmbedError::Http(HttpError::Resting { wait, .. }) if wait.as_secs() == 3600),
        "{error}"
    );
    assert_eq!(resting.asked().len(), 1);
}

#[test]
fn a_connection_that_ends_before_an_answer_is_made_again() {
    let stub = StubProvider::start(|asked| match asked.number {
        0 => Vec::new(),
        _ => json_answer(&json!({ "embeddings": [[1]] })),
    });
    assert_eq!(at(&stub, "daemon", &[]).embed(&["a"]).unwrap(), [[1.0]]);
    assert_eq!(stub.asked().len(), 2);
    let gone = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let url = format!("embed.url=http://{gone}");
    let mut daemon = provider(&["embed.provider=daemon", &url]).unwrap();
    let error = daemon.embed(&["a"]).unwrap_err();
    assert!(matches!(error, EmbedError::Http(HttpError::Unreachable { .. })), "{error}");
    assert!(error.to_string().contains(&gone.to_string()), "{error}");
}

#[test]
fn slow_provider_times_out_once() {
    let stub = StubProvider::start(|_| never());
    let url = format!("embed.url={}", stub.url());
    let mut settings = settings(&["embed.provider=daemon", &url]);
    settings.timeout = Duration::from_millis(150);
    let mut slow = embedder(&settings, None, &|_| None).unwrap().unwrap();
    let error = slow.embed(&["a"]).unwrap_err();
    assert!(
        matches!(error, EmbedError::Http(HttpError::Slow { waited, .. }) if waited.as_millis() == 150),
        "{error}"
    );
    assert_eq!(stub.asked().len(), 1);
}

#[test]
fn a_key_is_sent_to_its_provider_alone_and_never_shown() {
    let keyed = ["embed.model=m", "embed.api_key_env=PROVIDER_KEY"];
    for status in ["401 Unauthorized", "403 Forbidden"] {
        let complaint = format!("{{\"error\": {{\"message\": \"wrong key {KEY}\"}}}}");
        let stub = StubProvider::start(move |_| answer(status, &[], complaint.as_bytes()));
        let error = at(&stub, "openai", &keyed).embed(&["a"]).unwrap_err();
        let said = format!("{error} {error:?} {:?}", error.hint());
        assert!(said.contains("wrong key") && !said.contains(KEY), "{said}");
        assert!(said.contains("embed.api_key_env"), "{said}");
        assert_eq!(stub.asked().len(), 1);
    }
    let odd = format!("{{\"data\": \"{KEY}\"}}");
    let stub = StubProvider::start(move |_| answer("200 OK", &[], odd.as_bytes()));
    let error = at(&stub, "openai", &keyed).embed(&["a"]).unwrap_err();
    assert!(!format!("{error:?}").contains(KEY), "{error}");

    let elsewhere = StubProvider::daemon(2);
    let target = format!("location: {}/v1/embeddings?secret=1", elsewhere.url());
    for status in ["301 Moved", "302 Found", "307 Temporary Redirect", "308 Permanent Redirect"] {
        let target = target.clone();
        let stub = StubProvider::start(move |_| answer(status, &[&target], b""));
        let error = at(&stub, "openai", &keyed).embed(&["a"]).unwrap_err();
        assert!(error.to_string().contains(&elsewhere.url()), "{error}");
        assert!(!error.to_string().contains("secret"), "{error}");
    }
    assert_eq!(elsewhere.asked(), []);
}
