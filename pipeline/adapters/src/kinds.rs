//! The kinds of origins that there are: one line for each adapter.

use std::path::{Path, PathBuf};

use memfold_store::origin::{Origin, OriginError};

use crate::git_notes;
use crate::json_folder::{self, JsonFolder};
use crate::markdown::{self, MarkdownMemories};
use crate::mcp_memory::{self, McpMemory};
use crate::sqlite_table::{self, SqliteTable};

/// The kind of stores that need no mirror.
pub const BRAIN_DB: &str = "brain_db";

/// An adapter: the name of its kind, how its stores are recognised, how they are opened.
struct Kind {
    name: &'static str,
    is_one: fn(&Path) -> bool,
    open: fn(&Path) -> Result<Box<dyn Origin>, OriginError>,
    /// Where a store is that a path within it names.
    root: fn(&Path) -> PathBuf,
}

/// An adapter of stores that are where their paths say.
const fn kind(
    name: &'static str,
    is_one: fn(&Path) -> bool,
    open: fn(&Path) -> Result<Box<dyn Origin>, OriginError>,
) -> Kind {
    Kind { name, is_one, open, root: Path::to_path_buf }
}

/// Every adapter, in the order in which they are asked whether a store is theirs.
const KINDS: [Kind; 5] = [
    kind(mcp_memory::KIND, mcp_memory::is_one, |path| Ok(Box::new(McpMemory::open(path)?))),
    kind(json_folder::KIND, json_folder::is_one, |path| Ok(Box::new(JsonFolder::open(path)?))),
    Kind { root: git_notes::root, ..kind(git_notes::KIND, git_notes::is_one, git_notes::open) },
    kind(markdown::KIND, markdown::is_one, |path| Ok(Box::new(MarkdownMemories::open(path)?))),
    kind(sqlite_table::KIND, sqlite_table::is_one, |path| Ok(Box::new(SqliteTable::open(path)?))),
];

/// Returns the kind of the store at a path; `None` for a `brain.db`, and where no adapter recognises it.
#[must_use]
pub fn detect(path: &Path) -> Option<&'static str> {
    KINDS.iter().find(|kind| (kind.is_one)(path)).map(|kind| kind.name)
}

/// Returns the names of all kinds, as `--store-kind` spells them.
pub fn kind_names() -> impl Iterator<Item = &'static str> {
    std::iter::once(BRAIN_DB).chain(KINDS.iter().map(|kind| kind.name))
}

/// Opens an origin; `None` where no adapter has that name.
///
/// # Errors
/// When the store cannot be read, or is not of that kind.
pub fn open(kind: &str, path: &Path) -> Option<Result<Box<dyn Origin>, OriginError>> {
    let kind = KINDS.iter().find(|known| known.name == kind)?;
    Some((kind.open)(path))
}

/// Returns where a store of a kind is: the top of a repository for a folder in it, else the path.
#[must_use]
pub fn root(kind: &str, path: &Path) -> PathBuf {
    let kind = KINDS.iter().find(|known| known.name == kind);
    kind.map_or_else(|| path.to_owned(), |kind| (kind.root)(path))
}
