//! `_index.json`: which memories the files beside it and below it hold. Everything in it follows from the
//! memories, so it can be made anew.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use super::{ARCHIVE, Folder, GENERATOR, Place, is_archive, read};
use crate::json::{
    Node, Piece, Style, indent_at, parse, quoted, set, set_existing, with_member, with_pieces,
    with_texts, without_member,
};
use crate::shared::attribute;
use memfold_store::origin::OriginRecord;

/// The name that memfold gives an index.
const INDEX_NAME: &str = "_index.json";

/// Members that list the memories.
const LISTS: [&str; 2] = ["entries", "memories"];

/// Members that count them.
const COUNTS: [&str; 2] = ["entry_count", "memory_count"];

/// Characters of a summary, at most.
const SUMMARY_CHARS_MAX: usize = 200;

/// Returns the items of an index.
pub(super) fn items(index: &Node) -> &[Node] {
    list(index).map(Node::items).unwrap_or_default()
}

fn list(index: &Node) -> Option<&Node> {
    LISTS.iter().find_map(|key| index.get(key).filter(|list| list.is_list()))
}

/// The id of an item: an object with an id, or the id itself.
fn id_of(item: &Node) -> Option<&str> {
    item.text().or_else(|| item.text_of("id"))
}

/// A memory that an index may have to list otherwise.
#[derive(Debug, Clone)]
pub(super) struct Listed {
    pub(super) id: String,
    /// How another index listed it, and the file where it stood then.
    pub(super) moved: Option<(String, String)>,
}

/// Returns the index that answers for a file: that of the nearest folder. The archive has its own.
pub(super) fn governing(folder: &Folder, path: &str) -> Option<String> {
    let mut within = path;
    while let Some((above, _)) = within.rsplit_once('/') {
        let names = [INDEX_NAME, "index.json"].map(|name| format!("{above}/{name}"));
        if let Some(index) = names.into_iter().find(|index| folder.indexes.contains_key(index)) {
            return Some(index);
        }
        within = above;
    }
    if is_archive(path) {
        return (!folder.indexes.is_empty()).then(|| format!("{ARCHIVE}/{INDEX_NAME}"));
    }
    folder.indexes.contains_key(INDEX_NAME).then(|| INDEX_NAME.to_owned())
}

/// Returns the text of an index that lists nothing.
pub(super) fn empty() -> String {
    let index = json!({
        "version": "1.0.0", GENERATOR: "memfold", "last_updated": "", "entry_count": 0,
        "entries": [], "tag_index": {}, "type_index": {},
    });
    Style::usual().write(&index, "") + "\n"
}

/// Tells whether memfold made an index that lists nothing any more.
pub(super) fn is_left_over(text: &str) -> bool {
    parse(text).is_ok_and(|index| index.get(GENERATOR).is_some() && items(&index).is_empty())
}

/// An index that is brought up to date.
pub(super) struct Index<'f> {
    pub(super) path: &'f str,
    pub(super) folder: &'f Folder,
    pub(super) text: String,
}

impl Index<'_> {
    /// Lists memories where they stand now. Unless `removing`, nothing leaves: an item stays until another index
    /// has it.
    pub(super) fn update(mut self, listed: &[Listed], removing: bool, at: &str) -> String {
        let before = self.text.clone();
        self.update_items(listed, removing);
        for memory in listed {
            let record = self.governed(&memory.id);
            let tags = record.as_ref().map(|(record, _)| record.tags.clone()).unwrap_or_default();
            let kind = record.as_ref().and_then(|(record, _)| kind_of(record));
            if record.is_some() || removing {
                self.update_map("tag_index", &memory.id, &tags);
                self.update_map("type_index", &memory.id, kind.as_slice());
            }
        }
        self.finish(&before, at)
    }

    /// Lists everything that the index answers for, and nothing else.
    pub(super) fn rebuild(mut self, at: &str) -> String {
        let before = self.text.clone();
        let Ok(index) = parse(&self.text) else { return before };
        let listed = items(&index).iter().filter_map(id_of);
        let ids: BTreeSet<&str> = listed
            .chain(self.folder.live.keys().chain(self.folder.archived.keys()).map(|id| &**id))
            .collect();
        let listed: Vec<Listed> =
            ids.into_iter().map(|id| Listed { id: id.to_owned(), moved: None }).collect();
        let governed: Vec<(OriginRecord, Place)> =
            listed.iter().filter_map(|memory| self.governed(&memory.id)).collect();
        self.update_items(&listed, true);
        let mut maps = [("tag_index", BTreeMap::new()), ("type_index", BTreeMap::new())];
        for (record, place) in &governed {
            let keys = [record.tags.clone(), Vec::from_iter(kind_of(record))];
            for ((_, map), keys) in maps.iter_mut().zip(keys) {
                for key in keys {
                    map.entry(key).or_insert_with(BTreeSet::new).insert((place, &record.id));
                }
            }
        }
        for (name, map) in maps {
            let ids = |ids: BTreeSet<(&Place, &String)>| {
                ids.into_iter().map(|(_, id)| id.as_str()).collect()
            };
            let map: Map<String, Value> =
                map.into_iter().map(|(key, known)| (key, ids(known))).collect();
            self.set_map(name, map);
        }
        self.finish(&before, at)
    }

    fn set_map(&mut self, name: &str, map: Map<String, Value>) {
        let Ok(index) = parse(&self.text) else { return };
        let Some(old) = index.get(name) else { return };
        let known: Result<Value, _> = serde_json::from_str(old.raw(&self.text));
        let map = Value::Object(map);
        if !known.is_ok_and(|known| same_lists(&known, &map)) {
            let new = Style::of(&self.text).write(&map, indent_at(&self.text, old.span.start));
            self.text = with_member(&self.text, &index, name, &new);
        }
    }

    /// Returns a memory and its place, where this index answers for it.
    fn governed(&self, id: &str) -> Option<(OriginRecord, Place)> {
        let place = self.folder.place(id)?;
        if governing(self.folder, &place.path).as_deref() != Some(self.path) {
            return None;
        }
        let record = read(self.folder.files.get(&place.path)?, place).ok()?;
        Some((record, place.clone()))
    }

    fn update_items(&mut self, listed: &[Listed], removing: bool) {
        let text = std::mem::take(&mut self.text);
        let parsed = parse(&text);
        let Some(list) = parsed.as_ref().ok().and_then(list) else {
            self.text = text;
            return;
        };
        let ids = list.items().iter().map(|item| id_of(item).unwrap_or_default().to_owned());
        let mut pieces: Vec<(String, Piece)> =
            ids.enumerate().map(|(at, id)| (id, Piece::Kept(at))).collect();
        let positions: BTreeMap<String, usize> =
            pieces.iter().enumerate().map(|(at, (id, _))| (id.clone(), at)).collect();
        let mut gone = BTreeSet::new();
        let mut added = Vec::new();
        for memory in listed {
            let known = positions.get(&memory.id).map(|&at| (at, &list.items()[at]));
            match (known, self.governed(&memory.id)) {
                (Some((at, item)), Some((record, _))) if item.is_object() => {
                    let old = item.raw(&text);
                    let new = refreshed(old, &record);
                    if new != old {
                        pieces[at].1 = Piece::New(new);
                    }
                }
                (Some(_), None) if removing => drop(gone.insert(memory.id.clone())),
                (None, Some((record, place))) => {
                    let item = self.item(memory, &record, &text, list, &place.path);
                    added.push((place, memory.id.clone(), item));
                }
                _ => {}
            }
        }
        pieces.retain(|(id, _)| !gone.contains(id));
        added.sort();
        for (place, id, item) in added {
            let later = |(other, _): &(String, Piece)| {
                self.folder.place(other).is_some_and(|at| *at > place)
            };
            let at = pieces.iter().position(later).unwrap_or(pieces.len());
            pieces.insert(at, (id, Piece::New(item)));
        }
        self.text = with_pieces(&text, list, pieces.into_iter().map(|(_, piece)| piece));
    }

    /// Writes a new item.
    fn item(
        &self,
        memory: &Listed,
        record: &OriginRecord,
        text: &str,
        list: &Node,
        path: &str,
    ) -> String {
        if list.items().first().is_some_and(|item| item.text().is_some()) {
            return quoted(&memory.id);
        }
        if let Some((raw, old_path)) = &memory.moved
            && let Ok(item) = parse(raw)
            && item.is_object()
        {
            let old = item.text_of("file_path");
            let moved = old.map(|old| {
                let new = self.file_path(old, old_path, path);
                with_member(raw, &item, "file_path", &quoted(&new))
            });
            return refreshed(moved.as_ref().unwrap_or(raw), record);
        }
        let indent = match list.items().first() {
            Some(first) => indent_at(text, first.span.start).to_owned(),
            None => format!("{}  ", indent_at(text, list.span.start)),
        };
        let summary: String = record.text.chars().take(SUMMARY_CHARS_MAX).collect();
        let [kind, subtype, priority, created_at, updated_at] =
            facts(record).map(|(_, value)| value);
        let mut item = json!({
            "id": record.id, "type": kind, "subtype": subtype, "tags": record.tags, "summary": summary,
            "priority": priority, "created_at": created_at, "updated_at": updated_at, "file_path": path,
        });
        if let Some(members) = item.as_object_mut() {
            members.retain(|_, value| !value.is_null());
        }
        Style::of(text).write(&item, &indent)
    }

    /// Writes a path as the index writes paths: with the prefix that it uses, or from the index's folder on.
    fn file_path(&self, old: &str, old_path: &str, path: &str) -> String {
        if let Some(before) = old.strip_suffix(old_path) {
            return [before, path].concat();
        }
        let folder = self.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let within = path.strip_prefix(folder).map(|rest| rest.trim_start_matches('/'));
        within.unwrap_or(path).to_owned()
    }

    /// Names a memory under these keys of a map from keys to ids, and under no other.
    fn update_map(&mut self, name: &str, id: &str, keys: &[String]) {
        let Ok(index) = parse(&self.text) else { return };
        let Some(map) = index.get(name).filter(|map| map.is_object()) else { return };
        let names = |list: &Node| list.items().iter().any(|item| item.text() == Some(id));
        let wrong = map.members().iter().find_map(|member| {
            let wanted = keys.contains(&member.key);
            (names(&member.value) && !wanted).then(|| (member.key.clone(), false))
        });
        let lacking = keys.iter().find(|key| !map.get(key).is_some_and(names));
        let Some((key, add)) = wrong.or_else(|| lacking.map(|key| (key.clone(), true))) else {
            return;
        };
        self.text = match map.get(&key) {
            Some(list) if add => {
                let at = self.place_in(list, id);
                let mut pieces: Vec<Piece> = (0..list.items().len()).map(Piece::Kept).collect();
                pieces.insert(at, Piece::New(quoted(id)));
                with_pieces(&self.text, list, pieces)
            }
            Some(list) => {
                let items = list.items().iter().enumerate();
                let kept = items.filter(|(_, item)| item.text() != Some(id));
                let kept: Vec<Piece> = kept.map(|(at, _)| Piece::Kept(at)).collect();
                match kept.is_empty() {
                    true => without_member(&self.text, map, &key),
                    false => with_pieces(&self.text, list, kept),
                }
            }
            None => {
                let style = Style::of(&self.text);
                let indent = map.members().first().map_or_else(
                    || format!("{}  ", indent_at(&self.text, map.span.start)),
                    |first| indent_at(&self.text, first.span.start).to_owned(),
                );
                with_member(&self.text, map, &key, &style.write(&json!([id]), &indent))
            }
        };
        self.update_map(name, id, keys);
    }

    /// Returns the position of an id among others, in the order of their places.
    fn place_in(&self, list: &Node, id: &str) -> usize {
        let own = self.folder.place(id);
        let later = |item: &Node| {
            item.text().and_then(|other| self.folder.place(other)).is_some_and(|at| Some(at) > own)
        };
        list.items().iter().position(later).unwrap_or(list.items().len())
    }

    /// Brings the counts up to date and, where anything changed, the time.
    fn finish(mut self, before: &str, at: &str) -> String {
        for name in COUNTS {
            let Ok(index) = parse(&self.text) else { return self.text };
            let count = items(&index).len().to_string();
            let is_other = index.get(name).is_some_and(|old| old.raw(&self.text) != count);
            if is_other && list(&index).is_some() {
                set(&mut self.text, name, &count);
            }
        }
        if self.text != before {
            set_existing(&mut self.text, "last_updated", &quoted(at));
        }
        self.text
    }
}

/// Tells whether two maps name the same ids under the same keys, in any order.
fn same_lists(left: &Value, right: &Value) -> bool {
    let sets = |map: &Value| -> Option<BTreeMap<String, BTreeSet<String>>> {
        let ids = |list: &Value| -> Option<BTreeSet<String>> {
            list.as_array()?.iter().map(|id| id.as_str().map(str::to_owned)).collect()
        };
        map.as_object()?.iter().map(|(key, list)| Some((key.clone(), ids(list)?))).collect()
    };
    sets(left).is_some() && sets(left) == sets(right)
}

fn kind_of(record: &OriginRecord) -> Option<String> {
    attribute(record, "type").map(str::to_owned)
}

/// Returns the facts that an item states beside the tags.
fn facts(record: &OriginRecord) -> [(&'static str, Option<&str>); 5] {
    [
        ("type", attribute(record, "type")),
        ("subtype", attribute(record, "subtype")),
        ("priority", attribute(record, "priority")),
        ("created_at", record.created_at.as_deref()),
        ("updated_at", record.updated_at.as_deref()),
    ]
}

/// Brings the facts that an item states up to date.
fn refreshed(raw: &str, record: &OriginRecord) -> String {
    let Ok(item) = parse(raw) else { return raw.to_owned() };
    let mut new = match item.get("tags").filter(|tags| tags.is_list()) {
        Some(tags) => with_texts(raw, tags, &record.tags),
        None => raw.to_owned(),
    };
    for (name, value) in facts(record) {
        if let Some(value) = value.filter(|value| item.text_of(name) != Some(value)) {
            set_existing(&mut new, name, &quoted(value));
        }
    }
    new
}
