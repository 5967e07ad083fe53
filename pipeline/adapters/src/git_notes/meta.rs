//! What a line of `mem-meta` says of a memory: tier, accesses, what it was merged into, and what of it
//! changed since it was captured.

use std::collections::BTreeSet;

use jiff::Timestamp;
use jiff::tz::TimeZone;
use memfold_core::lifecycle::{RetentionInput, RetentionPolicy, Tier, TierAssignment, assign};
use memfold_core::time::Instant;
use serde_json::{Value, json};

use crate::git_notes::line::{Fields, text, texts};
use memfold_store::origin::{OriginRecord, OriginStanding};

/// The tier of a memory that no line speaks of.
const TIER_DEFAULT: &str = "hot";
const TIER_ARCHIVED: &str = "archived";
/// What a line has to say of a record beyond the owner's fields, only where it differs from the note.
const OVERRIDES: [&str; 5] = ["text", "tags", "attributes", "importance", "expires_at"];

/// Where a line stands among those of one memory: the last one counts.
///
/// `cat_sort_uniq` sorts lines, so their order in the note says nothing.
pub(super) fn order<'a>(fields: &Fields, line: &'a str) -> (Option<Timestamp>, &'a str) {
    (updated_at(fields), line)
}

fn updated_at(fields: &Fields) -> Option<Timestamp> {
    text(fields, "updated_at").and_then(|time| time.parse().ok())
}

/// Returns the tier that the line speaks of.
pub(super) fn tier(fields: Option<&Fields>) -> &str {
    fields.and_then(|fields| text(fields, "tier")).unwrap_or(TIER_DEFAULT)
}

/// Makes of a record what a line says of it; `resolve` finds ids under their other form.
pub(super) fn overlay(
    record: &mut OriginRecord,
    fields: &Fields,
    line: &str,
    resolve: impl Fn(&str) -> String,
) {
    if let Some(count) = fields.get("activation_count").and_then(Value::as_i64) {
        record.access_count = count;
    }
    if let Some(time) = text(fields, "last_accessed") {
        record.last_accessed = Some(time.to_owned());
    }
    if OVERRIDES.iter().any(|name| fields.contains_key(*name)) {
        record.updated_at = text(fields, "updated_at").map(str::to_owned);
    }
    override_fields(record, fields);
    record.standing = match text(fields, "consolidated_into").filter(|id| !id.is_empty()) {
        Some(into) => OriginStanding::Merged { into: resolve(into) },
        None if tier(Some(fields)) == TIER_ARCHIVED => OriginStanding::Archived,
        None => OriginStanding::Live,
    };
    record.raw.push('\n');
    record.raw.push_str(line);
}

fn override_fields(record: &mut OriginRecord, fields: &Fields) {
    if let Some(text) = text(fields, "text") {
        text.clone_into(&mut record.text);
    }
    if fields.contains_key("tags") {
        record.tags = texts(fields, "tags");
    }
    if let Some(attributes) = fields.get("attributes").and_then(Value::as_object) {
        record.attributes = attributes_of(attributes);
    }
    if let Some(importance) = fields.get("importance").and_then(Value::as_f64) {
        record.importance = importance;
    }
    if let Some(time) = fields.get("expires_at") {
        record.expires_at = time.as_str().map(str::to_owned);
    }
}

/// Reads attributes in the order of their names.
pub(super) fn attributes_of(fields: &Fields) -> Vec<(String, String)> {
    let texts =
        fields.iter().filter_map(|(name, value)| Some((name.clone(), value.as_str()?.to_owned())));
    let mut attributes: Vec<_> = texts.collect();
    attributes.sort();
    attributes
}

/// Writes attributes as a mapping.
pub(super) fn attributes_value(attributes: &[(String, String)]) -> Value {
    let pairs = attributes.iter().map(|(name, value)| (name.clone(), Value::from(value.as_str())));
    Value::Object(pairs.collect())
}

/// Tells whether two states of a memory are the same to everybody who reads them.
pub(super) fn says_the_same(one: &OriginRecord, other: &OriginRecord) -> bool {
    (&one.text, &one.tags, one.access_count, &one.standing, &one.expires_at)
        == (&other.text, &other.tags, other.access_count, &other.standing, &other.expires_at)
        && one.importance.total_cmp(&other.importance).is_eq()
        && sorted(&one.attributes) == sorted(&other.attributes)
}

fn sorted(attributes: &[(String, String)]) -> BTreeSet<&(String, String)> {
    attributes.iter().collect()
}

/// A new line for a memory.
pub(super) struct NewMeta<'a> {
    /// The record as it shall be.
    pub(super) record: &'a OriginRecord,
    /// The record without any line.
    pub(super) base: &'a OriginRecord,
    /// The line that counted so far.
    pub(super) prior: Option<&'a Fields>,
    /// What it was merged into, `Some(None)` where it is archived for another reason.
    pub(super) retired: Option<Option<&'a str>>,
    pub(super) at: &'a str,
}

impl NewMeta<'_> {
    /// Returns the fields; the run's own are the caller's to add.
    pub(super) fn fields(&self) -> Fields {
        let prior = |name| self.prior.and_then(|fields| fields.get(name)).cloned();
        let assignment = self.assignment();
        let tier = match (self.retired, assignment.tier) {
            (Some(_), _) => TIER_ARCHIVED,
            (None, Tier::Hot) => "hot",
            (None, Tier::Warm) => "warm",
            // What counts is not archived, however old it is.
            (None, Tier::Cold | Tier::Archived) => "cold",
        };
        let retention = assignment.retention;
        let retention = json!({
            "overall": retention.overall, "recency": rounded(retention.recency),
            "activation": rounded(retention.activation), "importance": rounded(retention.importance),
        });
        let mut fields = Fields::new();
        let mut set = |name: &str, value: Value| fields.insert(name.to_owned(), value);
        set("memory_id", self.base.id.as_str().into());
        set("tier", tier.into());
        set("activation_count", self.record.access_count.into());
        set("last_accessed", self.record.last_accessed.clone().into());
        set("retention", retention);
        set("superseded_by", prior("superseded_by").unwrap_or_default());
        set("consolidated_into", self.retired.flatten().map(str::to_owned).into());
        set("created_at", prior("created_at").unwrap_or_else(|| self.at.into()));
        set("updated_at", self.updated_at().into());
        self.add_overrides(&mut fields);
        for (name, value) in self.prior.into_iter().flatten() {
            if !OWN_FIELDS.contains(&name.as_str()) && !fields.contains_key(name) {
                fields.insert(name.clone(), value.clone());
            }
        }
        fields
    }

    /// Returns the time of the change, moved behind the line that it shall replace.
    fn updated_at(&self) -> String {
        let prior = self.prior.and_then(updated_at);
        let (Ok(at), Some(prior)) = (self.at.parse::<Timestamp>(), prior) else {
            return self.at.to_owned();
        };
        if at > prior {
            return self.at.to_owned();
        }
        Instant(prior.as_microsecond().saturating_add(1)).to_rfc3339()
    }

    fn add_overrides(&self, fields: &mut Fields) {
        let (record, base) = (self.record, self.base);
        let mut set = |name: &str, value: Value| fields.insert(name.to_owned(), value);
        if record.text != base.text {
            set("text", record.text.as_str().into());
        }
        if record.tags != base.tags {
            set("tags", record.tags.clone().into());
        }
        if sorted(&record.attributes) != sorted(&base.attributes) {
            set("attributes", attributes_value(&record.attributes));
        }
        if record.importance.total_cmp(&base.importance).is_ne() {
            set("importance", record.importance.into());
        }
        if record.expires_at != base.expires_at {
            set("expires_at", record.expires_at.clone().into());
        }
    }

    fn assignment(&self) -> TierAssignment {
        let instant = |time: &Option<String>| {
            time.as_ref().and_then(|time| Instant::parse(time, &TimeZone::UTC))
        };
        let namespace = self.record.attributes.iter().find(|(name, _)| name == "namespace");
        let categories: Vec<Box<str>> =
            namespace.map(|(_, value)| value.as_str().into()).into_iter().collect();
        let created_at = instant(&self.record.created_at);
        let input = RetentionInput {
            created_at,
            last_accessed: instant(&self.record.last_accessed),
            access_count: self.record.access_count,
            categories: &categories,
            importance: self.record.importance,
            is_superseded: self.retired.is_some_and(|into| into.is_some()),
            is_pinned: false,
            is_summary: false,
        };
        let now = Instant::parse(self.at, &TimeZone::UTC).or(created_at).unwrap_or(Instant(0));
        assign(&input, now, &RetentionPolicy::default())
    }
}

/// Fields that every line of ours makes anew.
const OWN_FIELDS: [&str; 9] = [
    "consolidation_run_id",
    "rule",
    "reason",
    "unit",
    "text",
    "tags",
    "attributes",
    "importance",
    "expires_at",
];

/// Cuts a share to nine decimals, as the overall retention is.
fn rounded(share: f64) -> f64 {
    (share * 1e9).round() / 1e9
}
