//! MCP: eight tools by which agents save and find memories, over stdio and streamable HTTP.
//!
//! The only module that knows rmcp. Answers are short, with ids to ask on; writing needs
//! `--allow-writes`, and to apply a plan an agent must name the digest that it has seen.

mod tools;
mod plans;
mod answers;
pub(crate) mod server_memory;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use memfold::ops::Failure;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt as _};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, info_span};

use crate::http::App;
use crate::service::{Problem, ProblemKind, Service};

/// Instructions for an agent when it connects.
const INSTRUCTIONS: &str = "\
Memories of this agent. memory_session_context returns what a session should start with, \
memory_recall answers a question, memory_save saves a fact once and says whether it was known, \
replaced an older wording or contradicts a memory; memory_resolve settles such a conflict. To clean \
up: memory_consolidate with action plan returns what would be done and its digest; action apply does \
it, given that digest; action undo undoes a run. Nothing is merged that differs in a fact.";

/// Answers one agent.
#[derive(Debug, Clone)]
struct Agent {
    service: Arc<Service>,
}

impl ServerHandler for Agent {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("memfold", env!("CARGO_PKG_VERSION")))
            .with_instructions(INSTRUCTIONS)
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(tools::list()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        tools::list().into_iter().find(|tool| tool.name == name)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let name = request.name.clone();
        if self.get_tool(&name).is_none() {
            return Err(ErrorData::invalid_params(format!("there is no tool {name:?}"), None));
        }
        let arguments = request.arguments.unwrap_or_default();
        let answer = tools::call(&self.service, &name, arguments)
            .instrument(info_span!("mcp.tool", tool = &*name))
            .await;
        self.service.metrics.tool(&name, answer.is_err());
        Ok(match answer {
            Ok(answer) => {
                let mut result = CallToolResult::structured(answer.document);
                // A block for a prompt, which escapes would lengthen.
                result.content.extend(answer.text.map(ContentBlock::text));
                result.content.drain(..result.content.len() - 1);
                result
            }
            Err(problem) => {
                CallToolResult::error(vec![ContentBlock::text(answers::refused(&problem))])
            }
        }
        .into())
    }
}

/// Serves one agent on stdin and stdout, until it closes them.
pub(crate) async fn serve_stdio(service: Arc<Service>) -> Result<(), Failure> {
    let failed = |error: &(dyn std::error::Error + 'static)| {
        Failure::new("serve MCP on stdin and stdout", error, None)
    };
    let agent = Agent { service };
    let running = agent.serve(rmcp::transport::stdio()).await.map_err(|error| failed(&error))?;
    running.waiting().await.map_err(|error| failed(&error))?;
    Ok(())
}

/// Sessions of agents at once.
const SESSIONS_MAX: usize = 256;
/// A session ends after this long without a request.
const SESSION_IDLE: Duration = Duration::from_secs(300);
/// The header that names a session.
const SESSION_HEADER: &str = "mcp-session-id";

/// Refuses a new session where there are many, and answers its end as the protocol's clients expect.
async fn bounded(
    State(sessions): State<Arc<LocalSessionManager>>,
    request: Request,
    next: Next,
) -> Response {
    let is_new = !request.headers().contains_key(SESSION_HEADER);
    if is_new && sessions.sessions.read().await.len() >= SESSIONS_MAX {
        let detail = format!("{SESSIONS_MAX} sessions are open");
        let seconds = SESSION_IDLE.as_secs() as u32;
        return Problem::new(ProblemKind::Busy, detail)
            .with_hint("end sessions that are not used (DELETE /mcp); idle ones end by themselves")
            .with_retry(seconds)
            .into_response();
    }
    let is_end = request.method() == Method::DELETE;
    let mut response = next.run(request).await;
    if is_end && response.status() == StatusCode::ACCEPTED {
        *response.status_mut() = StatusCode::NO_CONTENT;
    }
    response
}

/// Returns the routes of agents, and the token that ends their sessions.
pub(crate) fn routes(service: Arc<Service>) -> (Router<App>, CancellationToken) {
    let stop = CancellationToken::new();
    let config = StreamableHttpServerConfig::default()
        // The gate stands before all routes, and knows the hosts.
        .disable_allowed_hosts()
        .with_cancellation_token(stop.clone());
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.keep_alive = Some(SESSION_IDLE);
    let sessions = Arc::new(sessions);
    let agents = StreamableHttpService::new(
        move || Ok(Agent { service: Arc::clone(&service) }),
        Arc::clone(&sessions),
        config,
    );
    let routes =
        Router::new().nest_service("/mcp", agents).layer(from_fn_with_state(sessions, bounded));
    (routes, stop)
}
