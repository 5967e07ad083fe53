//! [`SHAPES`]: how other systems name the fields of a memory, and [`Roles`]: the roles of fields.

use std::collections::{BTreeSet, HashMap};

use crate::DataError;

/// The caller's settings for records: names of fields as dotted paths into objects.
#[derive(Debug, Clone, Default)]
pub struct TextFields {
    /// The system that wrote the file; `None`: it is recognised by the fields.
    pub shape: Option<&'static Shape>,
    /// The field of the text.
    pub text: Option<String>,
    /// The field of the id.
    pub id: Option<String>,
    /// The field of the time at which a memory was made.
    pub time: Option<String>,
    /// The field of the user.
    pub user: Option<String>,
}

/// The role of a record's field.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum TextRole {
    /// The memory.
    Text,
    /// Its id.
    Id,
    /// Categories: a list, a list in a text, or one.
    Tags,
    /// A value that becomes the category `name:value`.
    Attribute(&'static str),
    /// Importance.
    Importance,
    /// How often it was read.
    AccessCount,
    /// When it was made.
    CreatedAt,
    /// When it was changed.
    UpdatedAt,
    /// When it stops to count.
    ExpiresAt,
    /// Where it came from.
    Source,
    /// Its vector: a list of numbers, a text with a list, or base64 of 4-byte floats.
    Vector,
    /// The model of the vector.
    Model,
    /// Whether its system deleted it and kept it.
    Deleted,
    /// Nothing: a column of an exported store that is not named as passed over.
    Ignored,
}

use TextRole::{
    AccessCount, Attribute, CreatedAt, Deleted, ExpiresAt, Id, Ignored, Importance, Model, Source,
    Tags, Text, UpdatedAt, Vector,
};

/// A role and the dotted names of its fields with blanks between them, the best first.
type Fields = (TextRole, &'static str);

/// Categories `scope:value` that keep memories apart, and the fields that hold them.
pub const SCOPES: [(&str, &[&str]); 6] = [
    ("user", &["user_id", "userId", "user", "owner"]),
    ("agent", &["agent_id", "agentId", "agent"]),
    ("app", &["app_id", "appId", "app"]),
    ("ns", &["namespace"]),
    ("run", &["run_id", "runId"]),
    ("session", &["session_id", "sessionId"]),
];

/// How a system spells its memories.
#[derive(Debug, PartialEq, Eq)]
pub struct Shape {
    /// Its name.
    pub name: &'static str,
    /// Where an object holds the list of records, dotted.
    lists: &'static [&'static str],
    /// A record of the system has a field of each of these groups.
    marks: &'static [&'static [&'static str]],
    /// Objects of a record in which usual names count, the record itself before them.
    holders: &'static [&'static str],
    /// Where its own names differ from the usual ones or go before them.
    fields: &'static [Fields],
    /// Whether importance is from 0 to 1.
    pub importance_is_share: bool,
    /// Where further fields of a record stand.
    pub metadata: Option<&'static str>,
}

/// Most shapes look like this.
const PLAIN: Shape = Shape {
    name: "",
    lists: &[],
    marks: &[],
    holders: &["metadata"],
    fields: &[],
    importance_is_share: false,
    metadata: Some("metadata"),
};

/// The systems with recognised exports, the more special ones first.
pub static SHAPES: [Shape; 8] = [
    Shape {
        name: "mem0",
        lists: &["results", "memories"],
        marks: &[&["memory"], &["hash", "user_id", "agent_id", "run_id", "created_at"]],
        fields: &[
            (Id, "id"),
            (Text, "memory"),
            (Tags, "categories"),
            (Attribute("user"), "user_id"),
            (Attribute("agent"), "agent_id"),
            (Attribute("app"), "app_id"),
            (CreatedAt, "created_at"),
            (ExpiresAt, "expiration_date"),
        ],
        ..PLAIN
    },
    Shape {
        name: "letta",
        lists: &["passages"],
        marks: &[&["text"], &["archive_id", "embedding_config", "is_deleted"]],
        fields: &[
            (Id, "id"),
            (Text, "text"),
            (Tags, "tags"),
            (Attribute("agent"), "agent_id"),
            (Attribute("archive"), "archive_id"),
            (CreatedAt, "created_at"),
            (Vector, "embedding"),
            (Model, "embedding_config.embedding_model"),
            (Deleted, "is_deleted"),
        ],
        ..PLAIN
    },
    Shape {
        name: "agentic-memories",
        marks: &[&["document"], &["metadata.layer", "metadata.persona_tags"]],
        fields: &[
            (Id, "id"),
            (Text, "document"),
            (Tags, "metadata.tags"),
            (Tags, "metadata.persona_tags"),
            (Attribute("user"), "metadata.user_id"),
            (Attribute("layer"), "metadata.layer"),
            (Attribute("type"), "metadata.type"),
            (Attribute("confidence"), "metadata.confidence"),
            (Importance, "metadata.importance"),
            (AccessCount, "metadata.usage_count"),
            (CreatedAt, "metadata.timestamp"),
            (ExpiresAt, "metadata.ttl_epoch"),
            (Source, "metadata.source"),
            (Vector, "embedding"),
        ],
        importance_is_share: true,
        ..PLAIN
    },
    Shape {
        name: "chroma",
        marks: &[&["document"], &["embedding", "metadata", "uri"]],
        fields: &[
            (Id, "id"),
            (Text, "document"),
            (Tags, "metadata.tags"),
            (Attribute("user"), "metadata.user_id"),
            (Attribute("agent"), "metadata.agent_id"),
            (CreatedAt, "metadata.created_at"),
            (UpdatedAt, "metadata.updated_at"),
            (Vector, "embedding"),
        ],
        ..PLAIN
    },
    Shape {
        name: "secureyeoman",
        marks: &[&["content"], &["personality_id"]],
        fields: &[
            (Id, "id"),
            (Text, "content"),
            (Tags, "tags"),
            (Attribute("type"), "type"),
            (Attribute("agent"), "personality_id"),
            (Importance, "importance"),
            (AccessCount, "access_count"),
            (CreatedAt, "created_at"),
            (Vector, "embedding"),
        ],
        importance_is_share: true,
        metadata: Some("context"),
        ..PLAIN
    },
    Shape {
        name: "qdrant",
        lists: &["result.points", "points", "result"],
        marks: &[&["payload"]],
        holders: &["payload", "payload.metadata"],
        fields: &[
            (Id, "id"),
            (
                Text,
                "payload.data payload.document payload.text payload.content payload.page_content \
                 payload.memory payload.body",
            ),
            (Tags, "payload.tags"),
            (CreatedAt, "payload.created_at"),
        ],
        metadata: Some("payload"),
        ..PLAIN
    },
    Shape {
        name: "langgraph",
        lists: &["items"],
        marks: &[&["namespace"], &["key"], &["value"]],
        holders: &["value", "value.metadata"],
        fields: &[
            (Id, "key"),
            (
                Text,
                "value.text value.content value.memory value.data value.fact value.content.content",
            ),
            (Tags, "value.tags"),
            (CreatedAt, "created_at"),
        ],
        metadata: Some("value"),
        ..PLAIN
    },
    Shape {
        name: "langchain",
        lists: &["documents"],
        marks: &[&["page_content", "kwargs.page_content"]],
        holders: &["metadata", "kwargs.metadata"],
        fields: &[
            (Text, "page_content kwargs.page_content"),
            (Id, "id kwargs.id"),
            (Tags, "metadata.tags"),
            (CreatedAt, "metadata.created_at"),
        ],
        ..PLAIN
    },
];

/// The shape that is used where no system is recognised.
static USUAL: Shape = Shape {
    lists: &["memories", "results", "items", "records", "documents", "data", "rows"],
    holders: &["metadata", "payload", "value", "attributes"],
    ..PLAIN
};

/// The usual names of fields, the best first. The names of the second part count in a record itself
/// only.
const USUAL_FIELDS: [Fields; 7] = [
    (
        Text,
        "text content memory document page_content data fact body note message observation \
         sentence summary",
    ),
    (Tags, "categories category tags"),
    (Importance, "importance"),
    (AccessCount, "access_count"),
    (CreatedAt, "created_at createdAt created timestamp time date"),
    (UpdatedAt, "updated_at updatedAt modified_at"),
    (ExpiresAt, "expires_at expiresAt expiration_date"),
];
const USUAL_OUTER_FIELDS: [Fields; 5] = [
    (Id, "id _id _id.$oid uuid memory_id"),
    (Source, "source"),
    (Vector, "vector embedding embeddings emb values"),
    (Model, "model embedding_model"),
    (Ignored, "row rowid lineage"),
];

impl Shape {
    /// Finds a shape by its name.
    #[must_use]
    pub fn named(name: &str) -> Option<&'static Self> {
        SHAPES.iter().find(|shape| shape.name == name)
    }

    /// Recognises a system by the dotted names of its records' fields.
    pub(super) fn recognise(names: &BTreeSet<String>) -> &'static Self {
        let has = |group: &&[&str]| group.iter().any(|name| names.contains(*name));
        SHAPES.iter().find(|shape| shape.marks.iter().all(has)).unwrap_or(&USUAL)
    }

    /// Returns where objects may hold a list of records, recognised systems first.
    pub(super) fn all_lists() -> impl Iterator<Item = &'static str> {
        SHAPES.iter().chain([&USUAL]).flat_map(|shape| shape.lists.iter().copied())
    }

    /// Returns the name of the system; `None` where none was recognised.
    pub(super) fn recognised_name(&self) -> Option<&'static str> {
        (!self.name.is_empty()).then_some(self.name)
    }

    /// Returns the dotted names of the fields of a role that differ from the usual ones, the best
    /// first.
    pub fn fields(&self, role: TextRole) -> impl Iterator<Item = &'static str> {
        let own = self.fields.iter().filter(move |(own, _)| *own == role);
        own.flat_map(|(_, names)| names.split(' '))
    }

    /// Returns the names of the attributes that the shape itself knows.
    pub fn attributes(&self) -> impl Iterator<Item = &'static str> {
        self.fields.iter().filter_map(|(role, _)| match role {
            Attribute(name) => Some(*name),
            _ => None,
        })
    }
}

/// The roles of a file's fields.
#[derive(Debug)]
pub(super) struct Roles {
    /// Roles by dotted name, with a rank: of several fields of a role that of the lowest counts.
    by_name: HashMap<String, Ranked>,
    /// Names of objects that hold fields with a role.
    holders: BTreeSet<String>,
    /// Names of attributes in the order of the categories that they become.
    attributes: Vec<&'static str>,
    pub(super) importance_is_share: bool,
}

/// A role, and how good the name is: lower goes first.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Ranked {
    pub(super) role: TextRole,
    pub(super) rank: u16,
}

impl Roles {
    /// Takes the caller's names, else the names of the shape and the usual ones.
    pub(super) fn new(shape: &Shape, given: &TextFields) -> Self {
        let mut roles = Self {
            by_name: HashMap::new(),
            holders: BTreeSet::new(),
            attributes: Vec::new(),
            importance_is_share: shape.importance_is_share,
        };
        let given = given_fields(given);
        for (role, _, name) in &given {
            roles.add(*role, (*name).to_owned());
        }
        let is_given = |role: TextRole| given.iter().any(|(given, ..)| *given == role);
        let own_text = shape.fields.iter().any(|(role, _)| *role == Text);
        for (role, names) in shape.fields.iter().filter(|(role, _)| !is_given(*role)) {
            names.split(' ').for_each(|name| roles.add(*role, name.to_owned()));
        }
        // A usual name is not a memory's text if another field is known to hold it.
        let is_usual = |role: &TextRole| !(is_given(*role) || *role == Text && own_text);
        let usual = USUAL_FIELDS.into_iter().chain(USUAL_OUTER_FIELDS);
        for (role, names) in usual.filter(|(role, _)| is_usual(role)) {
            names.split(' ').for_each(|name| roles.add(role, name.to_owned()));
        }
        for holder in shape.holders {
            for (role, names) in USUAL_FIELDS.into_iter().filter(|(role, _)| is_usual(role)) {
                names.split(' ').for_each(|name| roles.add(role, format!("{holder}.{name}")));
            }
        }
        for (scope, names) in SCOPES.into_iter().filter(|(scope, _)| !is_given(Attribute(scope))) {
            for name in names {
                roles.add(Attribute(scope), (*name).to_owned());
                for holder in shape.holders {
                    roles.add(Attribute(scope), format!("{holder}.{name}"));
                }
            }
        }
        roles
    }

    fn add(&mut self, role: TextRole, name: String) {
        for (at, _) in name.match_indices('.') {
            self.holders.insert(name[..at].to_owned());
        }
        if let Attribute(attribute) = role
            && !self.attributes.contains(&attribute)
        {
            self.attributes.push(attribute);
        }
        let ranked = Ranked { role, rank: self.by_name.len() as u16 };
        // Headers of tables are often capitalised.
        let lower = name.to_ascii_lowercase();
        if lower != name {
            self.by_name.entry(lower).or_insert(ranked);
        }
        self.by_name.entry(name).or_insert(ranked);
    }

    /// Returns the role of a field.
    pub(super) fn of(&self, name: &str) -> Option<Ranked> {
        let found = self.by_name.get(name);
        let found = found.or_else(|| {
            let has_capital = name.bytes().any(|byte| byte.is_ascii_uppercase());
            has_capital.then(|| self.by_name.get(&name.to_ascii_lowercase())).flatten()
        });
        found.copied()
    }

    /// Returns where the category of an attribute stands.
    pub(super) fn attribute_order(&self, attribute: &str) -> usize {
        let found = self.attributes.iter().position(|known| *known == attribute);
        found.unwrap_or(self.attributes.len())
    }

    /// Tells whether an object of this name holds fields with a role.
    pub(super) fn is_holder(&self, name: &str) -> bool {
        self.holders.contains(name)
    }
}

/// Returns the roles of the names that the caller gave, as errors call them, with the names.
fn given_fields(given: &TextFields) -> Vec<(TextRole, &'static str, &str)> {
    let fields = [
        (Text, "text", &given.text),
        (Id, "id", &given.id),
        (CreatedAt, "time", &given.time),
        (Attribute("user"), "user", &given.user),
    ];
    fields
        .into_iter()
        .filter_map(|(role, label, name)| Some((role, label, name.as_deref()?)))
        .collect()
}

/// Refuses names that the caller gave and no record has.
pub(super) fn check_given(given: &TextFields, names: &BTreeSet<String>) -> Result<(), DataError> {
    for (_, role, name) in given_fields(given) {
        if !names.contains(name) && !names.iter().any(|known| known.eq_ignore_ascii_case(name)) {
            let found = names.iter().cloned().collect();
            return Err(DataError::NoField { role, expected: Some(name.to_owned()), found });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(of: &[&str]) -> BTreeSet<String> {
        of.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn every_system_is_recognised_by_its_fields() {
        for (fields, expected) in [
            (&["id", "memory", "hash"][..], "mem0"),
            (&["id", "text", "is_deleted"], "letta"),
            (&["id", "document", "metadata", "metadata.layer"], "agentic-memories"),
            (&["id", "document", "metadata"], "chroma"),
            (&["id", "content", "personality_id"], "secureyeoman"),
            (&["id", "payload", "payload.data", "vector"], "qdrant"),
            (&["namespace", "key", "value", "value.text"], "langgraph"),
            (&["page_content", "metadata"], "langchain"),
            (&["id", "text", "metadata"], ""),
        ] {
            assert_eq!(Shape::recognise(&names(fields)).name, expected);
        }
        assert!(Shape::named("mem0").unwrap().fields(Text).eq(["memory"]));
    }

    #[test]
    fn of_several_names_the_best_has_the_lowest_rank() {
        let roles = Roles::new(&USUAL, &TextFields::default());
        let rank = |name: &str| roles.of(name).unwrap().rank;
        assert!(rank("text") < rank("content") && rank("content") < rank("metadata.text"));
        assert!(rank("user_id") < rank("metadata.user_id"));
        assert_eq!(roles.of("Text"), roles.of("text"));
        assert_eq!(roles.of("mood"), None);
        assert!(roles.is_holder("payload") && !roles.is_holder("text"));
        let given = TextFields { text: Some("a.b".into()), ..TextFields::default() };
        let roles = Roles::new(&USUAL, &given);
        assert_eq!((roles.of("text"), roles.of("a.b").unwrap().role), (None, Text));
        assert!(roles.is_holder("a"));
    }
}
