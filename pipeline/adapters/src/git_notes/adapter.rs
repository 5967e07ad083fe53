//! [`GitNotes`]: the origin.

use std::path::{Path, PathBuf};

use crate::git_notes::ids::Domain;
use crate::git_notes::ledger::Book;
use crate::git_notes::library::Library;
use crate::git_notes::repository::{NotesRepository, is_unsupported};
use crate::git_notes::write;
use memfold_store::origin::{Origin, OriginContents, OriginError, OriginUnit, Published};

/// The name of the format.
pub const KIND: &str = "git_notes";

/// Where the owner keeps its refs.
const PREFIX_DEFAULT: &str = "refs/notes/mem";
/// The model that the owner embeds with, unless it is told otherwise.
const MODEL_DEFAULT: &str = "all-MiniLM-L6-v2";

/// Memories in the notes of a git repository, and of a second one for those of the user.
///
/// # Examples
///
/// ```no_run
/// use memfold_adapters::git_notes::GitNotes;
/// use memfold_store::origin::Origin as _;
///
/// let contents = GitNotes::new("path/to/repository").read()?;
/// println!("{} memories, {} skipped", contents.records.len(), contents.skipped.len());
/// # Ok::<(), memfold_store::origin::OriginError>(())
/// ```
#[derive(Debug, Clone)]
pub struct GitNotes {
    project: Located,
    user: Option<Located>,
    pub(super) prefix: String,
    pub(super) model: String,
}

/// Tells whether a path is a git repository with memories in its notes.
#[must_use]
pub fn is_one(path: &Path) -> bool {
    match NotesRepository::open(path) {
        Ok(repository) => {
            repository.below(PREFIX_DEFAULT).is_ok_and(|(namespaces, _)| !namespaces.is_empty())
        }
        // Opening it again says what about it is not supported.
        Err(_) => is_unsupported(path),
    }
}

/// Returns the top of a repository that is named by a folder in it or by its `.git`.
#[must_use]
pub fn root(path: &Path) -> PathBuf {
    let repository = NotesRepository::open(path);
    repository.map_or_else(|_| path.to_owned(), |repository| repository.root().to_owned())
}

/// Opens the repository at a path as an origin. Nothing is read yet.
///
/// # Errors
/// Never; only a build without git notes refuses.
pub fn open(path: &Path) -> Result<Box<dyn Origin>, OriginError> {
    Ok(Box::new(GitNotes::new(path)))
}

/// A repository and its index.
#[derive(Debug, Clone)]
struct Located {
    repository: PathBuf,
    index: Option<PathBuf>,
}

impl GitNotes {
    /// Names a repository by its work tree or a folder in it, its `.git` or, when bare, itself. Nothing is read yet.
    #[must_use]
    pub fn new(repository: impl Into<PathBuf>) -> Self {
        Self {
            project: Located { repository: repository.into(), index: None },
            user: None,
            prefix: PREFIX_DEFAULT.to_owned(),
            model: MODEL_DEFAULT.to_owned(),
        }
    }

    /// Adds the memories of the user: their repository and its index (default `.memory/index.db` in it).
    #[must_use]
    pub fn with_user_domain(
        mut self,
        repository: impl Into<PathBuf>,
        index: Option<PathBuf>,
    ) -> Self {
        self.user = Some(Located { repository: repository.into(), index });
        self
    }

    /// Sets the prefix of the refs (default `refs/notes/mem`), `MEMORY_PLUGIN_GIT_NAMESPACE` of the owner.
    #[must_use]
    pub fn with_prefix(mut self, prefix: &str) -> Self {
        prefix.trim_end_matches('/').clone_into(&mut self.prefix);
        self
    }

    /// Sets the index of the repository (default `.memory/index.db` at the top of the work tree).
    #[must_use]
    pub fn with_index(mut self, index: impl Into<PathBuf>) -> Self {
        self.project.index = Some(index.into());
        self
    }

    /// Sets the model whose vectors the index holds (default `all-MiniLM-L6-v2`).
    #[must_use]
    pub fn with_model(mut self, model: &str) -> Self {
        model.clone_into(&mut self.model);
        self
    }

    pub(super) fn repositories(&self) -> impl Iterator<Item = (Domain, &Path)> {
        let project = (Domain::Project, self.project.repository.as_path());
        let user = self.user.as_ref().map(|user| (Domain::User, user.repository.as_path()));
        std::iter::once(project).chain(user)
    }

    pub(super) fn index(&self, domain: Domain) -> Option<&Path> {
        let located = match domain {
            Domain::Project => Some(&self.project),
            Domain::User => self.user.as_ref(),
        };
        located.and_then(|located| located.index.as_deref())
    }
}

impl Origin for GitNotes {
    fn kind(&self) -> &'static str {
        KIND
    }

    fn separate_by(&self) -> &'static [&'static str] {
        // What is the user's own does not go into a repository that is shared.
        &["domain:*"]
    }

    fn advice(&self) -> Vec<String> {
        let repositories = self.repositories().flat_map(|(_, path)| NotesRepository::open(path));
        let stale = repositories.flat_map(|repository| {
            let prefixes = Book::ALL.map(|book| book.prefix(&self.prefix));
            prefixes.map(|prefix| repository.stale_locks(&prefix)).into_iter().flatten()
        });
        let advice = stale.map(|lock| {
            let path = lock.path.display();
            match lock.is_ours {
                true => format!(
                    "{path} was left by a process that was killed: the next run that writes removes it"
                ),
                false => format!(
                    "{path} locks a ref that memfold writes: remove it if no git command runs here"
                ),
            }
        });
        advice.collect()
    }

    fn read(&self) -> Result<OriginContents, OriginError> {
        Ok(Library::load(self)?.contents(self))
    }

    fn write(&self, units: &[OriginUnit]) -> Result<Published, OriginError> {
        write::write(self, units, &mut |_| Ok(()))
    }
}
