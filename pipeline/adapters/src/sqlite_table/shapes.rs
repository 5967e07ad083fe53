//! Tables of known systems: one line each says how a system's file is recognised and what its columns mean.

use super::schema::Schema;

/// A system's table.
pub(super) struct Shape {
    /// The system.
    pub(super) name: &'static str,
    /// The table of its memories.
    pub(super) table: &'static str,
    /// Columns that it has.
    needs: &'static [&'static str],
    /// Tables that stand beside it.
    beside: &'static [&'static str],
    /// What is read in place of the table.
    pub(super) query: Option<&'static str>,
    pub(super) names: Names,
    /// The column by which it marks rows itself, with the value, as `--removed` takes it.
    pub(super) flag: Option<[&'static str; 2]>,
    /// Why the file is never written, and what to do instead.
    pub(super) own_api: Option<[&'static str; 2]>,
}

/// What columns mean; an empty name is none.
pub(super) struct Names {
    pub(super) id: &'static str,
    /// The texts, one below the other.
    pub(super) text: &'static [&'static str],
    pub(super) time: &'static str,
    pub(super) updated: &'static str,
    /// Attributes with the columns of their values.
    pub(super) attributes: &'static [[&'static str; 2]],
    /// Tags: a JSON array, or words between commas.
    pub(super) tags: &'static str,
    /// A JSON object of further attributes.
    pub(super) metadata: &'static str,
    /// A column of floats, or a table of sqlite-vec.
    pub(super) vector: &'static str,
    pub(super) model: &'static str,
}

const NONE: Names = Names {
    id: "id",
    text: &[],
    time: "",
    updated: "",
    attributes: &[],
    tags: "",
    metadata: "",
    vector: "",
    model: "",
};

const LETTA: Names = Names {
    text: &["text"],
    time: "created_at",
    updated: "updated_at",
    attributes: &[["user", "archive_id"], ["user", "agent_id"]],
    tags: "tags",
    vector: "embedding",
    ..NONE
};

const OPENCLAW: Names = Names {
    text: &["text"],
    updated: "updated_at",
    attributes: &[["file", "path"], ["source", "source"]],
    vector: "embedding",
    model: "model",
    ..NONE
};

const OPENCLAW_API: [&str; 2] = [
    "it is OpenClaw's index of Markdown files, which it makes anew",
    "consolidate the files: memfold consolidate ~/.openclaw/workspace",
];

/// Documents with their metadata; vectors only as long as Chroma's queue has them.
const CHROMA: &str = "SELECT c.name || '/' || e.embedding_id AS id, c.name AS collection, d.string_value AS document,
    e.created_at AS created_at, q.vector AS vector,
    (SELECT json_group_object(m.key, coalesce(m.string_value, m.int_value, m.float_value, m.bool_value))
     FROM embedding_metadata m WHERE m.id = e.id AND m.key <> 'chroma:document') AS metadata
  FROM embeddings e JOIN segments s ON s.id = e.segment_id JOIN collections c ON c.id = s.collection
  LEFT JOIN embedding_metadata d ON d.id = e.id AND d.key = 'chroma:document'
  LEFT JOIN (SELECT substr(topic, -36) AS topic, id, vector, max(seq_id) FROM embeddings_queue
             WHERE vector IS NOT NULL GROUP BY 1, 2) q ON q.id = e.embedding_id AND q.topic = c.id
  ORDER BY e.id";

/// The last event of each memory.
const MEM0: &str = "SELECT memory_id, new_memory, created_at, updated_at, actor_id, role
  FROM (SELECT *, row_number() OVER (PARTITION BY memory_id
          ORDER BY coalesce(updated_at, created_at) DESC, rowid DESC) AS nth FROM history)
  WHERE nth = 1 AND event <> 'DELETE' AND NOT coalesce(is_deleted, 0)";

const SHAPE: Shape = Shape {
    name: "",
    table: "",
    needs: &[],
    beside: &[],
    query: None,
    names: NONE,
    flag: None,
    own_api: None,
};

/// Every known table, in the order in which they are looked for.
const SHAPES: &[Shape] = &[
    Shape {
        name: "claude-mem",
        table: "observations",
        needs: &["memory_session_id", "project", "narrative", "facts"],
        beside: &["sdk_sessions"],
        names: Names {
            text: &["text", "title", "subtitle", "narrative", "facts"],
            time: "created_at",
            attributes: &[["project", "project"], ["type", "type"]],
            tags: "concepts",
            ..NONE
        },
        ..SHAPE
    },
    Shape {
        name: "mcp-memory-service",
        table: "memories",
        needs: &["content_hash", "content", "memory_type"],
        names: Names {
            id: "content_hash",
            text: &["content"],
            time: "created_at",
            updated: "updated_at",
            attributes: &[["type", "memory_type"]],
            tags: "tags",
            vector: "memory_embeddings",
            ..NONE
        },
        flag: Some(["deleted_at", "now"]),
        ..SHAPE
    },
    Shape {
        name: "Chroma",
        table: "embeddings",
        needs: &["segment_id", "embedding_id"],
        beside: &["embedding_metadata", "embeddings_queue", "segments", "collections"],
        query: Some(CHROMA),
        names: Names {
            text: &["document"],
            time: "created_at",
            attributes: &[["collection", "collection"]],
            metadata: "metadata",
            vector: "vector",
            ..NONE
        },
        own_api: Some([
            "Chroma keeps its own index beside the table",
            "list the ids (--ids OUT) and delete them with collection.delete(ids=…)",
        ]),
        ..SHAPE
    },
    Shape {
        name: "OpenClaw",
        table: "memory_index_chunks",
        needs: &["path", "start_line", "text", "embedding"],
        beside: &["memory_index_sources"],
        names: OPENCLAW,
        own_api: Some(OPENCLAW_API),
        ..SHAPE
    },
    Shape {
        name: "OpenClaw",
        table: "chunks",
        needs: &["path", "start_line", "text", "embedding"],
        beside: &["files"],
        names: OPENCLAW,
        own_api: Some(OPENCLAW_API),
        ..SHAPE
    },
    Shape {
        name: "Letta",
        table: "archival_passages",
        needs: &["text", "embedding", "is_deleted"],
        names: LETTA,
        flag: Some(["is_deleted", "1"]),
        ..SHAPE
    },
    Shape {
        name: "Letta",
        table: "agent_passages",
        needs: &["text", "embedding", "is_deleted"],
        names: LETTA,
        flag: Some(["is_deleted", "1"]),
        ..SHAPE
    },
    Shape {
        name: "mem0",
        table: "history",
        needs: &["memory_id", "new_memory", "event"],
        query: Some(MEM0),
        names: Names {
            id: "memory_id",
            text: &["new_memory"],
            time: "created_at",
            updated: "updated_at",
            attributes: &[["user", "actor_id"]],
            ..NONE
        },
        own_api: Some([
            "it is mem0's history; the memories are in its vector store",
            "list the ids (--ids OUT) and delete them with memory.delete(id)",
        ]),
        ..SHAPE
    },
];

/// Returns the system whose file this is.
pub(super) fn recognise(schema: &Schema) -> Option<&'static Shape> {
    SHAPES.iter().find(|shape| {
        let has_columns = schema.table(shape.table).is_some_and(|table| table.has(shape.needs));
        has_columns && shape.beside.iter().all(|name| schema.table(name).is_some())
    })
}

/// Returns the system to which a table belongs.
pub(super) fn shape_of(schema: &Schema, table: &str) -> Option<&'static Shape> {
    recognise(schema).filter(|shape| shape.table.eq_ignore_ascii_case(table))
}

/// Names under which ids are kept.
pub(super) const IDS: &[&str] = &["id", "uuid", "memory_id", "key"];
/// Names under which texts are kept, the most telling first.
pub(super) const TEXTS: &[&str] =
    &["content", "text", "memory", "document", "contents", "body", "fact", "value", "note"];
/// Names under which times are kept.
pub(super) const TIMES: &[&str] = &["created_at", "created", "timestamp", "inserted_at", "date"];
/// Names under which users are kept.
pub(super) const USERS: &[&str] = &["user_id", "user", "owner", "agent_id"];
/// Names under which vectors are kept.
pub(super) const VECTORS: &[&str] = &["embedding", "vector", "embeddings"];
