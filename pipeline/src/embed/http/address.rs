//! Addresses: where to post, what to call it, whom to trust with it.

use super::api::Api;

/// Returns where to post: the address as given where it names the path, else with it.
pub(super) fn endpoint(api: Api, base: &str) -> String {
    let (path, query) =
        base.split_once('?').map_or((base, None), |(path, query)| (path, Some(query)));
    let path = path.split('#').next().unwrap_or_default().trim_end_matches('/');
    let (whole, part, rest) = match api {
        Api::Daemon => ("/embed", "", "/embed"),
        Api::Openai => ("/embeddings", "/v1", "/embeddings"),
        Api::Ollama => ("/api/embed", "/api", "/embed"),
    };
    let path = if path.ends_with(whole) {
        path.to_owned()
    } else if path.ends_with(part) {
        format!("{path}{rest}")
    } else {
        format!("{path}{part}{rest}")
    };
    query.map_or_else(|| path.clone(), |query| format!("{path}?{query}"))
}

/// Returns an address as messages name it: without what follows the path, which may be secret.
pub(super) fn shown(url: &str) -> String {
    let plain = url.split(['?', '#']).next().unwrap_or_default();
    let (scheme, rest) = plain.split_once("://").unwrap_or(("", plain));
    let authority = rest.split('/').next().unwrap_or_default();
    let without_user = authority.rsplit('@').next().unwrap_or_default();
    let rest = format!("{without_user}{}", &rest[authority.len()..]);
    let shown = if scheme.is_empty() { rest } else { format!("{scheme}://{rest}") };
    memfold_model::text::excerpt(&shown, SHOWN_CHARS)
}

const SHOWN_CHARS: usize = 200;

/// Tells whether a host is this machine: no proxy stands in between, whatever the environment says.
pub(super) fn is_this_machine(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches([']', '.']);
    host.eq_ignore_ascii_case("localhost")
        || host.to_ascii_lowercase().ends_with(".localhost")
        || host.parse::<std::net::IpAddr>().is_ok_and(|address| address.is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_added_where_they_lack() {
        for (api, base, expected) in [
            (Api::Daemon, "http://localhost:8030", "http://localhost:8030/embed"),
            (Api::Daemon, "http://localhost:8030/", "http://localhost:8030/embed"),
            (Api::Daemon, "http://h/embed", "http://h/embed"),
            (Api::Openai, "http://h:1234", "http://h:1234/v1/embeddings"),
            (Api::Openai, "https://h/v1", "https://h/v1/embeddings"),
            (Api::Openai, "https://h/v1/", "https://h/v1/embeddings"),
            (Api::Openai, "https://h/v1/embeddings", "https://h/v1/embeddings"),
            (Api::Openai, "https://h/x?v=1", "https://h/x/v1/embeddings?v=1"),
            (Api::Ollama, "http://h", "http://h/api/embed"),
            (Api::Ollama, "http://h/api", "http://h/api/embed"),
            (Api::Ollama, "http://h/api/embed", "http://h/api/embed"),
        ] {
            assert_eq!(endpoint(api, base), expected, "{base}");
        }
    }

    #[test]
    fn secrets_of_an_address_are_not_shown() {
        assert_eq!(shown("https://me:secret@h:1/v1?key=secret#x"), "https://h:1/v1");
        assert_eq!(shown("/elsewhere?key=secret"), "/elsewhere");
    }

    #[test]
    fn this_machine_is_known_by_its_names() {
        for host in ["localhost", "LOCALHOST.", "a.localhost", "127.0.0.1", "127.9.9.9", "[::1]"] {
            assert!(is_this_machine(host), "{host}");
        }
        for host in ["localhost.example.org", "10.0.0.1", "example.org", ""] {
            assert!(!is_this_machine(host), "{host}");
        }
    }
}
