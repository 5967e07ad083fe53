//! The tools of the MCP reference memory server on the same file, so that a configuration changes one word.
//!
//! Names, parameters, results and messages equal the ones of `@modelcontextprotocol/server-memory`.
//! The differences: no write is lost where several servers have the file, a line that is broken
//! costs only itself, and an observation that another one is proven to say is answered as known.

use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};

use futures_util::future::BoxFuture;
use memfold::ops::Failure;
use memfold_adapters::mcp_memory::{
    AddedObservations, GraphError, GraphFile, Nodes, Observations, Relation,
};
use memfold_guard::{Guard, GuardPolicy};
use rmcp::model::{CallToolResult, ContentBlock, JsonObject, Tool, ToolAnnotations};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{Agent, AgentTool};

/// A tool of the reference server.
struct Described {
    name: &'static str,
    title: &'static str,
    description: &'static str,
    /// Whether it reads only, and whether it destroys.
    effect: Effect,
    input: fn() -> Value,
    output: fn() -> Value,
    call: fn(&mut GraphFile, &mut JsonObject) -> Result<Answered, String>,
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
        call: |graph, given| {
            let new = graph.create_entities(take(given, "entities")?).map_err(failed)?;
            Ok(Answered::of("entities", json!(new)))
        },
    },
    Described {
        name: "create_relations",
        title: "Create Relations",
        description: "Create multiple new relations between entities in the knowledge graph. Relations should be in active voice",
        effect: Effect::Adds,
        input: || object(json!({ "relations": list(relation()) })),
        output: || object(json!({ "relations": list(relation()) })),
        call: |graph, given| {
            let new = graph.create_relations(take(given, "relations")?).map_err(failed)?;
            Ok(Answered::of("relations", json!(new)))
        },
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
        call: |graph, given| {
            let new: Vec<NewObservations> = take(given, "observations")?;
            let new = new.into_iter();
            let new = new.map(|new| Observations { entity: new.entity_name, texts: new.contents });
            Ok(Answered::added(&graph.add_observations(new.collect()).map_err(failed)?))
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
        call: |graph, given| {
            let names: Vec<String> = take(given, "entityNames")?;
            graph.delete_entities(&names).map_err(failed)?;
            Ok(Answered::done("Entities deleted successfully"))
        },
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
        call: |graph, given| {
            let gone: Vec<Deletion> = take(given, "deletions")?;
            let gone = gone.into_iter();
            let gone = gone
                .map(|gone| Observations { entity: gone.entity_name, texts: gone.observations });
            graph.delete_observations(&gone.collect::<Vec<_>>()).map_err(failed)?;
            Ok(Answered::done("Observations deleted successfully"))
        },
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
        call: |graph, given| {
            let gone: Vec<Relation> = take(given, "relations")?;
            graph.delete_relations(&gone).map_err(failed)?;
            Ok(Answered::done("Relations deleted successfully"))
        },
    },
    Described {
        name: "read_graph",
        title: "Read Graph",
        description: "Read the entire knowledge graph",
        effect: Effect::Reads,
        input: || json!({ "type": "object", "properties": {} }),
        output: nodes,
        call: |graph, _| Ok(Answered::of_nodes(&graph.read_graph().map_err(failed)?)),
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
        call: |graph, given| {
            let query: String = take(given, "query")?;
            Ok(Answered::of_nodes(&graph.search_nodes(&query).map_err(failed)?))
        },
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
        call: |graph, given| {
            let names: Vec<String> = take(given, "names")?;
            Ok(Answered::of_nodes(&graph.open_nodes(&names).map_err(failed)?))
        },
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

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct NewObservations {
    entity_name: String,
    contents: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Deletion {
    entity_name: String,
    observations: Vec<String>,
}

/// Takes a parameter out of the given ones.
fn take<T: DeserializeOwned>(given: &mut JsonObject, name: &str) -> Result<T, String> {
    let value = given.remove(name).ok_or_else(|| format!("missing field `{name}`"));
    value
        .and_then(|value| serde_json::from_value(value).map_err(|error| error.to_string()))
        .map_err(|error| format!("Invalid arguments: {error}"))
}

fn failed(error: GraphError) -> String {
    error.to_string()
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

    fn result(self) -> CallToolResult {
        let mut result = CallToolResult::structured(self.document);
        result.content = vec![ContentBlock::text(self.text)];
        result.content.extend(self.remark.map(ContentBlock::text));
        result
    }
}

fn pretty(value: &Value) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default()
}

/// Opens a file for one agent.
pub(crate) fn server_memory(path: &Path) -> Result<Agent, Failure> {
    let guard = Guard::new(&GuardPolicy::default())
        .map_err(|error| Failure::new("serve MCP on stdin and stdout", &error, None))?;
    let mut graph = GraphFile::new(path, guard);
    graph.read_graph().map_err(|error| {
        let hint = "name the file: memfold-server mcp memory.jsonl --as server-memory";
        Failure::new("read the graph", &error, Some(hint.to_owned()))
    })?;
    let graph = Arc::new(Mutex::new(graph));
    let tools = TOOLS.iter().map(|described| {
        let graph = Arc::clone(&graph);
        let call = move |mut arguments: JsonObject| -> BoxFuture<'static, CallToolResult> {
            let graph = Arc::clone(&graph);
            let work = move || {
                let mut graph = graph.lock().unwrap_or_else(PoisonError::into_inner);
                (described.call)(&mut graph, &mut arguments)
            };
            let called = tokio::task::spawn_blocking(work);
            let result = async { called.await.unwrap_or_else(|error| Err(error.to_string())) };
            Box::pin(async { result.await.map_or_else(refused, Answered::result) })
        };
        AgentTool { tool: described.tool(), call: Box::new(call) }
    });
    let unknown = |name: &str| Ok(refused(format!("Tool {name} not found")));
    Ok(Agent { instructions: None, tools: tools.collect(), unknown })
}

fn refused(message: String) -> CallToolResult {
    CallToolResult::error(vec![ContentBlock::text(message)])
}
