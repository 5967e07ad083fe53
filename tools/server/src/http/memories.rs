//! Handlers about single memories and pairs of them.

use axum::extract::Path;
use axum::http::HeaderMap;
use memfold::ops::{
    CheckDocument, Elapsed, FlagsDocument, RecallDocument, SaveDocument, SearchDocument,
};

use super::answers::{Answer, On, Sent, json, json_bytes};
use crate::service::{
    Incoming, Problem, ProblemKind, RecallRequest, SaveAnswer, SearchRequest, SettleRequest,
};

pub(super) async fn check(on: On, Sent(request): Sent<Incoming>) -> Answer {
    on.work(move |store| json(&CheckDocument::new(&store.check(request)?))).await
}

pub(super) async fn save(on: On, headers: HeaderMap, Sent(request): Sent<Incoming>) -> Answer {
    let key = headers.get("idempotency-key").map(|key| key.to_str().map(str::to_owned));
    let key = key
        .transpose()
        .map_err(|_| Problem::new(ProblemKind::Malformed, "the Idempotency-Key is no name"))?;
    on.work(move |store| match store.save(request, key.as_deref())? {
        SaveAnswer::Now(saved) => json(&SaveDocument::new(None, &saved)),
        SaveAnswer::Before(saved) => Ok(json_bytes(answered_before(&saved))),
    })
    .await
}

/// The document of a save that was answered before, byte for byte.
fn answered_before(saved: &str) -> Vec<u8> {
    let rest = saved.trim_start_matches('{');
    format!("{{\"schema_version\":1,\"stored\":true,{rest}").into_bytes()
}

pub(super) async fn search(on: On, Sent(request): Sent<SearchRequest>) -> Answer {
    on.work(move |store| {
        let found = store.search(&request)?;
        let seconds = Elapsed { open: 0.0, total: found.seconds };
        json(&SearchDocument::new(&found.matches, found.index.as_deref(), seconds))
    })
    .await
}

pub(super) async fn recall(on: On, Sent(request): Sent<RecallRequest>) -> Answer {
    on.work(move |store| {
        let answered = store.recall(&request)?;
        let seconds = Elapsed { open: 0.0, total: answered.seconds };
        let (found, answer) = (&answered.recalled, answered.answer.as_ref());
        json(&RecallDocument::new(&request.query, request.mode, found, answer, seconds))
    })
    .await
}

pub(super) async fn flags(on: On) -> Answer {
    on.work(|store| json(&FlagsDocument::of(&store.flags()?, &store.time_zone))).await
}

pub(super) async fn settle(
    on: On,
    Path(key): Path<String>,
    Sent(request): Sent<SettleRequest>,
) -> Answer {
    on.work(move |store| json(&store.settle(&key, request.settlement)?)).await
}

pub(super) async fn proposals(on: On) -> Answer {
    on.work(|store| json(&store.proposals()?)).await
}

pub(super) async fn stats(on: On) -> Answer {
    on.work(|store| json(&store.status()?.document(None))).await
}

#[cfg(test)]
mod tests {
    use super::answered_before;

    #[test]
    fn an_answer_of_before_is_the_document_of_then() {
        let bytes = answered_before(r#"{"decision":"insert","id":"a"}"#);
        let expected = r#"{"schema_version":1,"stored":true,"decision":"insert","id":"a"}"#;
        assert_eq!(bytes, expected.as_bytes());
    }
}
