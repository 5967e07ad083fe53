//! MCP: six tools by which agents ask, over stdio and streamable HTTP.
//!
//! The only module that knows rmcp. Answers are short, with ids to ask on; writing needs `--allow-writes`, and to apply a
//! plan an agent must name the digest that it was shown.

mod tools;
mod answers;

use std::sync::Arc;

use axum::Router;
use memfold_cli::Failure;
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
    ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
};
use rmcp::service::RequestContext;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt as _};
use serde_json::Value;
use tokio_util::sync::CancellationToken;
use tracing::{Instrument as _, info_span};

use crate::http::App;
use crate::service::Service;

/// Said to an agent when it connects.
const INSTRUCTIONS: &str = "\
Memories of this agent. Before you store something, ask memory_check whether it is known. \
memory_duplicates and memory_conflicts show what waits. To clean up: memory_consolidate with \
action plan shows what would be done and its digest; action apply carries it out, given that digest; \
action undo takes a run back. Nothing is merged that differs in a fact.";

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
        if !tools::is_known(&name) {
            return Err(ErrorData::invalid_params(format!("there is no tool {name:?}"), None));
        }
        let arguments = request.arguments.unwrap_or_default();
        let answer = tools::call(&self.service, &name, arguments)
            .instrument(info_span!("mcp.tool", tool = &*name))
            .await;
        self.service.metrics.tool(&name, answer.is_err());
        Ok(match answer {
            // A block for a prompt, which escapes would lengthen.
            Ok(Value::String(block)) => CallToolResult::success(vec![ContentBlock::text(block)]),
            Ok(answer) => CallToolResult::structured(answer),
            Err(problem) => CallToolResult::structured_error(answers::refused(&problem)),
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

/// Returns the routes of agents, and what ends their sessions.
pub(crate) fn routes(service: Arc<Service>) -> (Router<App>, CancellationToken) {
    let stop = CancellationToken::new();
    let config = StreamableHttpServerConfig::default()
        // The gate stands before all routes, and knows the hosts.
        .disable_allowed_hosts()
        .with_cancellation_token(stop.clone());
    let agents = StreamableHttpService::new(
        move || Ok(Agent { service: Arc::clone(&service) }),
        Arc::new(LocalSessionManager::default()),
        config,
    );
    (Router::new().nest_service("/mcp", agents), stop)
}
