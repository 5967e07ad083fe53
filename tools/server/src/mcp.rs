//! MCP: eight tools by which agents save and find memories, over stdio and streamable HTTP.
//!
//! The only module that knows rmcp. Answers are short, with ids to ask on; writing needs
//! `--allow-writes`, and to apply a plan an agent must name the digest that it has seen.

mod tools;
mod plans;
mod answers;
mod server_memory;

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{Request, State};
use axum::http::{Method, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse as _, Response};
use futures_util::future::BoxFuture;
use memfold::ops::Failure;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, Implementation, JsonObject,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt as _};
use tokio_util::sync::CancellationToken;

use crate::http::App;
use crate::service::{Problem, ProblemKind};

pub(crate) use server_memory::server_memory;
pub(crate) use tools::agent;

/// A tool: its description and its function.
struct AgentTool {
    tool: Tool,
    call: Box<dyn Fn(JsonObject) -> BoxFuture<'static, CallToolResult> + Send + Sync>,
}

/// Answers one agent with some tools.
#[derive(Clone)]
pub(crate) struct Agent {
    /// What an agent is told when it connects.
    instructions: Option<&'static str>,
    tools: Arc<[AgentTool]>,
    /// The answer to a call of another tool.
    unknown: fn(&str) -> Result<CallToolResult, ErrorData>,
}

impl ServerHandler for Agent {
    fn get_info(&self) -> ServerConfig {
        let config = ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("memfold", env!("CARGO_PKG_VERSION")));
        match self.instructions {
            Some(instructions) => config.with_instructions(instructions),
            None => config,
        }
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        let tools = self.tools.iter().map(|known| known.tool.clone());
        Ok(ListToolsResult::with_all_items(tools.collect()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        self.find(name).map(|known| known.tool.clone())
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let result = match self.find(&request.name) {
            Some(known) => (known.call)(request.arguments.unwrap_or_default()).await,
            None => (self.unknown)(&request.name)?,
        };
        Ok(result.into())
    }
}

impl Agent {
    fn find(&self, name: &str) -> Option<&AgentTool> {
        self.tools.iter().find(|known| known.tool.name == name)
    }

    /// Serves one agent on stdin and stdout, until it closes them.
    pub(crate) async fn serve_stdio(self) -> Result<(), Failure> {
        let failed = |error: &(dyn std::error::Error + 'static)| {
            Failure::new("serve MCP on stdin and stdout", error, None)
        };
        let running = self.serve(rmcp::transport::stdio()).await.map_err(|error| failed(&error))?;
        running.waiting().await.map_err(|error| failed(&error))?;
        Ok(())
    }
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
pub(crate) fn routes(agent: Agent) -> (Router<App>, CancellationToken) {
    let stop = CancellationToken::new();
    let config = StreamableHttpServerConfig::default()
        // The gate stands before all routes, and knows the hosts.
        .disable_allowed_hosts()
        .with_cancellation_token(stop.clone());
    let mut sessions = LocalSessionManager::default();
    sessions.session_config.keep_alive = Some(SESSION_IDLE);
    let sessions = Arc::new(sessions);
    let agents =
        StreamableHttpService::new(move || Ok(agent.clone()), Arc::clone(&sessions), config);
    let routes =
        Router::new().nest_service("/mcp", agents).layer(from_fn_with_state(sessions, bounded));
    (routes, stop)
}
