//! The tools of the MCP reference memory server on the same file, so that a configuration changes one word.
//!
//! Names, parameters, results and messages equal the ones of `@modelcontextprotocol/server-memory`.
//! The differences: no write is lost where several servers have the file, a line that is broken
//! costs only itself, and an observation that another one is proven to say is answered as known.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use memfold::ops::Failure;
use memfold_adapters::mcp_memory::{
    AddedObservations, Entity, GraphError, GraphFile, Nodes, Observations, Relation,
};
use memfold_guard::{Guard, GuardPolicy};
use rmcp::model::{
    CallToolRequestParams, CallToolResponse, CallToolResult, ContentBlock, Implementation,
    JsonObject, ListToolsResult, PaginatedRequestParams, ServerCapabilities, ServerConfig, Tool,
    ToolAnnotations,
};
use rmcp::service::RequestContext;
use rmcp::{ErrorData, RoleServer, ServerHandler, ServiceExt as _};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

/// A tool of the reference server.
struct Described {
    name: &'static str,
    title: &'static str,
    description: &'static str,
    /// Whether it reads only, and whether it destroys.
    effect: Effect,
    input: fn() -> Value,
    output: fn() -> Value,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Effect {
    Reads,
    Adds,
    Deletes,
}

const TOOLS: &[Described] = &[
    Described {
        name: "create_entities",
        title: "Create Entities",
        description: "Create multiple new entities in the knowledge graph",
        effect: Effect::Adds,
        input: || object(json!({ "entities": list(entity()) })),
        output: || object(json!({ "entities": list(entity()) })),
    },
    Described {
        name: "create_relations",
        title: "Create Relations",
        description: "Create multiple new relations between entities in the knowledge graph. Relations should be in active voice",
        effect: Effect::Adds,
        input: || object(json!({ "relations": list(relation()) })),
        output: || object(json!({ "relations": list(relation()) })),
    },
    Described {
        name: "add_observations",
        title: "Add Observations",
        description: "Add new observations to existing entities in the knowledge graph",
        effect: Effect::Adds,
        input: || {
            let name = text("The name of the entity to add the observations to");
            let contents = described(list(plain()), "An array of observation contents to add");
            let item = object(json!({ "entityName": name, "contents": contents }));
            object(json!({ "observations": list(item) }))
        },
        output: || {
            let item = json!({ "entityName": plain(), "addedObservations": list(plain()) });
            object(json!({ "results": list(object(item)) }))
        },
    },
    Described {
        name: "delete_entities",
        title: "Delete Entities",
        description: "Delete multiple entities and their associated relations from the knowledge graph",
        effect: Effect::Deletes,
        input: || {
            let names = described(list(plain()), "An array of entity names to delete");
            object(json!({ "entityNames": names }))
        },
        output: done,
    },
    Described {
        name: "delete_observations",
        title: "Delete Observations",
        description: "Delete specific observations from entities in the knowledge graph",
        effect: Effect::Deletes,
        input: || {
            let name = text("The name of the entity containing the observations");
            let gone = described(list(plain()), "An array of observations to delete");
            let item = object(json!({ "entityName": name, "observations": gone }));
            object(json!({ "deletions": list(item) }))
        },
        output: done,
    },
    Described {
        name: "delete_relations",
        title: "Delete Relations",
        description: "Delete multiple relations from the knowledge graph",
        effect: Effect::Deletes,
        input: || {
            let gone = described(list(relation()), "An array of relations to delete");
            object(json!({ "relations": gone }))
        },
        output: done,
    },
    Described {
        name: "read_graph",
        title: "Read Graph",
        description: "Read the entire knowledge graph",
        effect: Effect::Reads,
        input: || json!({ "type": "object", "properties": {} }),
        output: nodes,
    },
    Described {
        name: "search_nodes",
        title: "Search Nodes",
        description: "Search for nodes in the knowledge graph based on a query",
        effect: Effect::Reads,
        input: || {
            let query = text(
                "The search query to match against entity names, types, and observation content",
            );
            object(json!({ "query": query }))
        },
        output: nodes,
    },
    Described {
        name: "open_nodes",
        title: "Open Nodes",
        description: "Open specific nodes in the knowledge graph by their names",
        effect: Effect::Reads,
        input: || {
            let names = described(list(plain()), "An array of entity names to retrieve");
            object(json!({ "names": names }))
        },
        output: nodes,
    },
];

fn plain() -> Value {
    json!({ "type": "string" })
}

fn text(description: &str) -> Value {
    described(plain(), description)
}

fn described(mut schema: Value, description: &str) -> Value {
    schema["description"] = description.into();
    schema
}

fn list(items: Value) -> Value {
    json!({ "type": "array", "items": items })
}

/// An object with only required fields.
fn object(properties: Value) -> Value {
    let required: Vec<&String> =
        properties.as_object().into_iter().flat_map(|all| all.keys()).collect();
    json!({ "type": "object", "properties": properties, "required": required })
}

fn entity() -> Value {
    let observations =
        described(list(plain()), "An array of observation contents associated with the entity");
    object(json!({
        "name": text("The name of the entity"),
        "entityType": text("The type of the entity"),
        "observations": observations
    }))
}

fn relation() -> Value {
    object(json!({
        "from": text("The name of the entity where the relation starts"),
        "to": text("The name of the entity where the relation ends"),
        "relationType": text("The type of the relation")
    }))
}

fn done() -> Value {
    object(json!({ "success": { "type": "boolean" }, "message": plain() }))
}

fn nodes() -> Value {
    object(json!({ "entities": list(entity()), "relations": list(relation()) }))
}

impl Described {
    fn tool(&self) -> Tool {
        let annotations = ToolAnnotations::new()
            .read_only(self.effect == Effect::Reads)
            .destructive(self.effect == Effect::Deletes)
            .idempotent(self.effect != Effect::Adds)
            .open_world(false);
        let schema = |schema: fn() -> Value| -> Arc<JsonObject> {
            let mut fields = schema().as_object().cloned().unwrap_or_default();
            fields.insert("$schema".to_owned(), "http://json-schema.org/draft-07/schema#".into());
            Arc::new(fields)
        };
        Tool::new(self.name, self.description, schema(self.input))
            .with_title(self.title)
            .with_raw_output_schema(schema(self.output))
            .with_annotations(annotations)
    }
}

/// Parameters of `create_entities`.
#[derive(Deserialize)]
struct Entities {
    entities: Vec<Entity>,
}

/// Parameters of `create_relations` and `delete_relations`.
#[derive(Deserialize)]
struct Relations {
    relations: Vec<Relation>,
}

#[derive(Deserialize)]
struct NewObservations {
    observations: Vec<NewObservation>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NewObservation {
    entity_name: String,
    contents: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct EntityNames {
    entity_names: Vec<String>,
}

#[derive(Deserialize)]
struct Deletions {
    deletions: Vec<Deletion>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Deletion {
    entity_name: String,
    observations: Vec<String>,
}

#[derive(Deserialize)]
struct Query {
    query: String,
}

#[derive(Deserialize)]
struct Names {
    names: Vec<String>,
}

/// The answer of a tool.
struct Answered {
    /// The text, as the reference server writes it.
    text: String,
    document: Value,
    /// Observations that were known already, if any.
    remark: Option<String>,
}

impl Answered {
    fn of(name: &str, value: Value) -> Self {
        Self { text: pretty(&value), document: json!({ name: value }), remark: None }
    }

    fn of_nodes(nodes: &Nodes) -> Self {
        let document = json!({ "entities": nodes.entities, "relations": nodes.relations });
        Self { text: pretty(&document), document, remark: None }
    }

    fn done(message: &str) -> Self {
        let document = json!({ "success": true, "message": message });
        Self { text: message.to_owned(), document, remark: None }
    }

    fn added(results: &[AddedObservations]) -> Self {
        let listed = results.iter().map(
            |result| json!({ "entityName": result.entity, "addedObservations": result.added }),
        );
        let known = results.iter().flat_map(|result| &result.known);
        let known: Vec<String> = known
            .map(|known| format!("known: {:?} says {:?}", known.says_it, known.text))
            .collect();
        Self {
            remark: (!known.is_empty()).then(|| known.join("\n")),
            ..Self::of("results", listed.collect())
        }
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

fn parameters<T: DeserializeOwned>(arguments: JsonObject) -> Result<T, String> {
    serde_json::from_value(Value::Object(arguments))
        .map_err(|error| format!("Invalid arguments: {error}"))
}

/// Executes a tool.
fn call(graph: &mut GraphFile, name: &str, arguments: JsonObject) -> Result<Answered, String> {
    let failed = |error: GraphError| error.to_string();
    let value = |value: Result<Value, serde_json::Error>| value.unwrap_or_default();
    Ok(match name {
        "create_entities" => {
            let Entities { entities } = parameters(arguments)?;
            let new = graph.create_entities(entities).map_err(failed)?;
            Answered::of("entities", value(serde_json::to_value(new)))
        }
        "create_relations" => {
            let Relations { relations } = parameters(arguments)?;
            let new = graph.create_relations(relations).map_err(failed)?;
            Answered::of("relations", value(serde_json::to_value(new)))
        }
        "add_observations" => {
            let NewObservations { observations } = parameters(arguments)?;
            let observations = observations
                .into_iter()
                .map(|new| Observations { entity: new.entity_name, texts: new.contents });
            Answered::added(&graph.add_observations(observations.collect()).map_err(failed)?)
        }
        "delete_entities" => {
            let EntityNames { entity_names } = parameters(arguments)?;
            graph.delete_entities(&entity_names).map_err(failed)?;
            Answered::done("Entities deleted successfully")
        }
        "delete_observations" => {
            let Deletions { deletions } = parameters(arguments)?;
            let deletions = deletions
                .into_iter()
                .map(|gone| Observations { entity: gone.entity_name, texts: gone.observations });
            graph.delete_observations(&deletions.collect::<Vec<_>>()).map_err(failed)?;
            Answered::done("Observations deleted successfully")
        }
        "delete_relations" => {
            let Relations { relations } = parameters(arguments)?;
            graph.delete_relations(&relations).map_err(failed)?;
            Answered::done("Relations deleted successfully")
        }
        "read_graph" => Answered::of_nodes(&graph.read_graph().map_err(failed)?),
        "search_nodes" => {
            let Query { query } = parameters(arguments)?;
            Answered::of_nodes(&graph.search_nodes(&query).map_err(failed)?)
        }
        "open_nodes" => {
            let Names { names } = parameters(arguments)?;
            Answered::of_nodes(&graph.open_nodes(&names).map_err(failed)?)
        }
        _ => return Err(format!("Tool {name} not found")),
    })
}

/// Answers one agent from a file.
#[derive(Debug, Clone)]
struct Reference {
    graph: Arc<Mutex<GraphFile>>,
}

impl ServerHandler for Reference {
    fn get_info(&self) -> ServerConfig {
        ServerConfig::new(ServerCapabilities::builder().enable_tools().build())
            .with_server_info(Implementation::new("memfold", env!("CARGO_PKG_VERSION")))
    }

    async fn list_tools(
        &self,
        _request: Option<PaginatedRequestParams>,
        _context: RequestContext<RoleServer>,
    ) -> Result<ListToolsResult, ErrorData> {
        Ok(ListToolsResult::with_all_items(TOOLS.iter().map(Described::tool).collect()))
    }

    fn get_tool(&self, name: &str) -> Option<Tool> {
        TOOLS.iter().find(|tool| tool.name == name).map(Described::tool)
    }

    async fn call_tool(
        &self,
        request: CallToolRequestParams,
        _context: RequestContext<RoleServer>,
    ) -> Result<CallToolResponse, ErrorData> {
        let graph = Arc::clone(&self.graph);
        let work = move || {
            let mut graph = graph.lock().unwrap_or_else(PoisonError::into_inner);
            call(&mut graph, &request.name, request.arguments.unwrap_or_default())
        };
        let answered = tokio::task::spawn_blocking(work).await;
        let answered =
            answered.map_err(|error| ErrorData::internal_error(error.to_string(), None))?;
        Ok(match answered {
            Ok(Answered { text, document, remark }) => {
                let mut result = CallToolResult::structured(document);
                result.content = vec![ContentBlock::text(text)];
                result.content.extend(remark.map(ContentBlock::text));
                result
            }
            Err(message) => CallToolResult::error(vec![ContentBlock::text(message)]),
        }
        .into())
    }
}

/// Serves one agent on stdin and stdout, until it closes them.
pub(crate) async fn serve_stdio(path: &Path) -> Result<(), Failure> {
    let failed = |error: &(dyn std::error::Error + 'static)| {
        Failure::new("serve MCP on stdin and stdout", error, None)
    };
    let guard = Guard::new(&GuardPolicy::default()).map_err(|error| failed(&error))?;
    let mut graph = GraphFile::new(path, guard);
    let hint =
        || Some("name the file: memfold-server mcp memory.jsonl --as server-memory".to_owned());
    let unread = |error: &GraphError| Failure::new("read the graph", error, hint());
    graph.read_graph().map_err(|error| unread(&error))?;
    let reference = Reference { graph: Arc::new(Mutex::new(graph)) };
    let running =
        reference.serve(rmcp::transport::stdio()).await.map_err(|error| failed(&error))?;
    running.waiting().await.map_err(|error| failed(&error))?;
    Ok(())
}
