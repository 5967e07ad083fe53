//! What commands open and where they find it: stores, files of vectors, indexes, typed vectors, providers.

use std::ffi::OsString;
use std::io;
use std::net::{TcpStream, ToSocketAddrs};
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use memfold::embed::fill::NewVectors;
use memfold::embed::{EmbedError, Embedder, embedder, store_model};
use memfold::lookup::corpus::CorpusColumns;
use memfold::quick_check::{Incoming, vector_fault};
use memfold_core::plan::Action;
use memfold_datasets::corpus::Corpus;
use memfold_datasets::vector_file::VectorFormat;
use memfold_datasets::{ColumnRole, DataError};
use memfold_index::Progress;
use memfold_index::file::FileMode;
use memfold_index::file::generations::SEARCHED_FILE;
use memfold_store::BrainDb;
use memfold_store::brain_db::OpenOptions;

use crate::args::{ColumnArgs, IndexPlaceArgs};
use crate::failure::{Exit, Failure};
use crate::printer::Printer;
use crate::progress::Bars;
use crate::settings::{self, Settings};

/// Ends the folder's name.
const INDEX_ENDING: &str = ".memfold";

/// Longest file that is read: some vectors of the largest dimension as JSON.
const VECTOR_BYTES_MAX: u64 = 4 << 20;

/// Provider failures in a row after which it is left alone: each may take the whole time limit.
const PROVIDER_FAILURES_MAX: u32 = 3;

/// How long a connection to this machine may take.
const LISTENING_WAIT: Duration = Duration::from_millis(100);

/// Said of a text without a vector, where nobody makes one.
pub(crate) const NO_PROVIDER: &str = "no vector: texts are compared by their words; give --vector, or configure who makes vectors \
                                      (embed.provider; docs/embedding.md)";

/// Opens the store that a command names.
pub fn open_store(path: &Path, settings: &Settings) -> Result<BrainDb, Failure> {
    BrainDb::open(path, open_options(settings)).map_err(|error| {
        let hint = error.hint();
        Failure::new("open the store", &error, hint)
    })
}

/// Returns how patient to be with a store that others hold.
pub fn open_options(settings: &Settings) -> OpenOptions {
    let timeout = Duration::from_millis(settings.configuration.settings.busy_timeout_ms.into());
    OpenOptions::default().busy_timeout(timeout)
}

/// Reads a file of vectors, whose columns have their usual names.
pub fn open_vectors(path: &Path, bars: &Bars) -> Result<Corpus, Failure> {
    open_columns(path, &CorpusColumns::default(), bars)
}

/// The queries in an HDF5 file of ann-benchmarks.com.
const TEST_SET: &str = "test";

/// Reads the queries that an HDF5 file holds beside its vectors; `None`: this one holds none.
pub fn open_test_set(path: &Path, bars: &Bars) -> Result<Option<Corpus>, Failure> {
    if VectorFormat::of_file(path) != Some(VectorFormat::Hdf5) {
        return Ok(None);
    }
    let columns = CorpusColumns { vector: Some(TEST_SET.to_owned()), id: None };
    let options = columns.options(&settings::scratch_dir(), bars);
    let set = match Corpus::open(&[path.to_owned()], &options) {
        Err(DataError::NoColumn { role: ColumnRole::Array, .. }) => None,
        set => Some(set.map_err(|error| unreadable(&error))?),
    };
    bars.end();
    Ok(set)
}

/// Reads some columns of a file of vectors.
pub(crate) fn open_columns(
    path: &Path,
    columns: &CorpusColumns,
    bars: &Bars,
) -> Result<Corpus, Failure> {
    let options = columns.options(&settings::scratch_dir(), bars);
    let corpus = Corpus::open(&[path.to_owned()], &options).map_err(|error| unreadable(&error))?;
    bars.end();
    Ok(corpus)
}

/// Says why a corpus could not be read.
pub(crate) fn unreadable(error: &DataError) -> Failure {
    match error {
        DataError::Cancelled => Failure::interrupted(),
        error => Failure::new("read the vectors", error, data_hint(error)),
    }
}

/// Returns advice about a file of vectors or texts; it names the option of a column or field that is missing or cannot
/// be used.
pub(crate) fn data_hint(error: &DataError) -> Option<String> {
    let option = match error {
        DataError::NoField { role, found, .. } if !found.is_empty() => {
            return Some(format!("name it with --{role}-field NAME"));
        }
        DataError::NoColumn { role, .. } | DataError::ColumnType { role, .. } => match role {
            ColumnRole::Vector | ColumnRole::Array => Some("--vector-column NAME"),
            ColumnRole::Id => Some("--id-column NAME"),
            ColumnRole::Order => Some("--keep column:NAME"),
            _ => None,
        },
        _ => None,
    };
    option.map(|option| format!("choose a column with {option}")).or_else(|| error.hint())
}

/// Tells a file of vectors from a store.
pub(crate) fn is_corpus(path: &Path) -> bool {
    VectorFormat::of_file(path).is_some()
}

/// Refuses columns of a store, whose columns are known.
pub(crate) fn refuse_columns(columns: &ColumnArgs) -> Result<(), Failure> {
    let ColumnArgs { vector_column, id_column } = columns;
    let option = match (vector_column, id_column) {
        (None, None) => return Ok(()),
        (Some(_), _) => "--vector-column",
        (None, Some(_)) => "--id-column",
    };
    Err(Failure::usage(
        format!("{option} is for files of vectors, not for a store"),
        "leave it out: the columns of a store are known",
    ))
}

/// Returns the folder to read from: the one named, the one beside the store, or, where there is only that, the one in
/// the cache.
pub(crate) fn index_to_read(args: &IndexPlaceArgs) -> Result<PathBuf, Failure> {
    if let Some(folder) = &args.index_dir {
        return Ok(folder.clone());
    }
    let store = store_path(args)?;
    let beside = beside(&store);
    let cached = cached(&store, INDEX_ENDING).filter(|cached| !beside.is_dir() && cached.is_dir());
    Ok(cached.unwrap_or(beside))
}

/// Returns the folders in which an index of a store may be: the one named, the one beside the store, the one in the cache.
pub(crate) fn index_folders(args: &IndexPlaceArgs) -> Result<Vec<PathBuf>, Failure> {
    let store = store_path(args)?;
    let folders = [args.index_dir.clone(), Some(beside(&store)), cached(&store, INDEX_ENDING)];
    Ok(folders.into_iter().flatten().collect())
}

/// Returns the permissions of files that are derived from a store: nobody reads them who may not read the store.
pub fn mode_like(db: &Path) -> FileMode {
    std::fs::metadata(db).map_or(FileMode::PRIVATE, |found| FileMode::like(&found))
}

/// Removes what a run over changed memories starts from, so that the next one searches everything. It holds ids, and
/// hashes of rows.
pub(crate) fn remove_marks(args: &IndexPlaceArgs) -> Result<(), Failure> {
    for folder in index_folders(args)? {
        let file = folder.join(SEARCHED_FILE);
        match std::fs::remove_file(&file) {
            Err(error)
                if !matches!(
                    error.kind(),
                    io::ErrorKind::NotFound | io::ErrorKind::NotADirectory
                ) =>
            {
                let hint = "delete it yourself: it can be made anew".to_owned();
                return Err(Failure::new(
                    &format!("remove {}", file.display()),
                    &error,
                    Some(hint),
                ));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns the folder to build in: as for reading, and in the cache where the store's folder cannot be written.
pub(crate) fn index_to_build(args: &IndexPlaceArgs) -> Result<PathBuf, Failure> {
    let folder = index_to_read(args)?;
    if args.index_dir.is_some() || folder.is_dir() {
        return Ok(folder);
    }
    let store = store_path(args)?;
    let place = store.parent().unwrap_or(Path::new("."));
    match tempfile::tempfile_in(place) {
        Ok(_) => Ok(folder),
        Err(error) => {
            let cached = cached(&store, INDEX_ENDING).ok_or_else(|| unwritable(place, &error))?;
            let parent = cached.parent().unwrap_or(Path::new("."));
            std::fs::create_dir_all(parent).map_err(|error| unwritable(parent, &error))?;
            Ok(cached)
        }
    }
}

fn unwritable(folder: &Path, error: &io::Error) -> Failure {
    let hint = Some("name a folder that can be written with --index-dir".to_owned());
    Failure::new(&format!("write to {}", folder.display()), error, hint)
}

/// Follows links: a store has one index, whatever it is called.
fn store_path(args: &IndexPlaceArgs) -> Result<PathBuf, Failure> {
    std::fs::canonicalize(&args.db).map_err(|error| {
        let what = format!("open {}", args.db.display());
        Failure::new(&what, &error, Some("name a brain.db or a file of vectors".to_owned()))
    })
}

fn beside(store: &Path) -> PathBuf {
    let mut name = store.as_os_str().to_owned();
    name.push(INDEX_ENDING);
    name.into()
}

/// `$XDG_CACHE_HOME/memfold/brain.db-0123456789abcdef.memfold`, the digits from the store's path.
pub(crate) fn cached(store: &Path, ending: &str) -> Option<PathBuf> {
    of_user("XDG_CACHE_HOME", ".cache", store, ending)
}

/// `$XDG_STATE_HOME/memfold/memory-0123456789abcdef.mirror.db`: for what cannot be made anew.
pub(crate) fn in_state(store: &Path, ending: &str) -> Option<PathBuf> {
    of_user("XDG_STATE_HOME", ".local/state", store, ending)
}

fn of_user(variable: &str, within_home: &str, store: &Path, ending: &str) -> Option<PathBuf> {
    let folder = std::env::var_os(variable).filter(|folder| !folder.is_empty());
    let folder = folder.map(PathBuf::from).or_else(|| {
        let home = std::env::var_os("HOME").filter(|folder| !folder.is_empty())?;
        Some(PathBuf::from(home).join(within_home))
    })?;
    let digest = blake3::hash(store.as_os_str().as_encoded_bytes()).to_hex();
    let mut name = OsString::from(store.file_name()?);
    name.push(format!("-{}{ending}", &digest[..16]));
    Some(folder.join("memfold").join(name))
}

/// Reads a vector: a JSON array, the name of a file that holds one or plain f32 (little-endian), or base64 of such.
pub(crate) fn typed_vector(typed: &str) -> Result<Vec<f32>, Failure> {
    let vector = if typed.trim_start().starts_with('[') {
        from_json(typed.as_bytes())
    } else if Path::new(typed).is_file() {
        from_file(Path::new(typed))
    } else {
        STANDARD.decode(typed.trim()).ok().and_then(|bytes| from_f32(&bytes))
    };
    let vector = vector.filter(|vector| !vector.is_empty());
    vector.ok_or_else(|| {
        let shown: String = typed.chars().take(40).collect();
        Failure::usage(
            format!("--vector {shown:?} is no vector and no file that holds one"),
            "give a file of f32 or JSON, a JSON array, or base64 of f32 (little-endian)",
        )
    })
}

fn from_file(path: &Path) -> Option<Vec<f32>> {
    if path.metadata().ok()?.len() > VECTOR_BYTES_MAX {
        return None;
    }
    let bytes = std::fs::read(path).ok()?;
    if bytes.trim_ascii_start().starts_with(b"[")
        && let Some(vector) = from_json(&bytes)
    {
        return Some(vector);
    }
    from_f32(&bytes)
}

fn from_json(bytes: &[u8]) -> Option<Vec<f32>> {
    serde_json::from_slice(bytes).ok()
}

fn from_f32(bytes: &[u8]) -> Option<Vec<f32>> {
    let (numbers, []) = bytes.as_chunks::<4>() else { return None };
    Some(numbers.iter().map(|number| f32::from_le_bytes(*number)).collect())
}

/// The provider of vectors for somebody who waits: the configured one, or the daemon of the store's owner where it listens
/// on this machine.
pub struct Provider {
    embedder: Option<Box<dyn Embedder>>,
    /// Whether it was told where texts go, or they go nowhere.
    is_told: bool,
    failures: u32,
    printer: Printer,
}

impl Provider {
    /// Opens what the configuration names, by default with the model of the store; nothing is sent yet.
    ///
    /// # Errors
    /// When the configuration names something that cannot be used.
    pub fn open(settings: &Settings, store: &Path, printer: Printer) -> Result<Self, Failure> {
        let variables = |name: &str| std::env::var(name).ok();
        let configured = &settings.configuration.settings.embed;
        let asked = configured.inline();
        let is_absent = configured.is_default() && !listens(asked.url.as_deref());
        let asks_store = !is_absent && asked.model.is_none();
        let model = asks_store.then(|| store_model(&BrainDb::at(store, open_options(settings))));
        let model = model.flatten();
        let made =
            if is_absent { Ok(None) } else { embedder(&asked, model.as_deref(), &variables) };
        let embedder = made.map_err(|error| {
            let hint = error.hint();
            Failure {
                exit: Exit::Usage,
                ..Failure::new("use the embedding provider", &error, hint)
            }
        })?;
        let is_told = configured.provider == Some(memfold::embed::Provider::Local);
        Ok(Self { embedder, is_told, failures: 0, printer })
    }

    /// Tells whether there is anybody to ask.
    pub fn is_there(&self) -> bool {
        self.embedder.is_some()
    }

    /// Returns the vector of a text and the model that made it, or why there is none.
    ///
    /// # Errors
    /// When nobody makes vectors, or the provider failed.
    pub fn vector(&mut self, text: &str) -> Result<(Vec<f32>, Option<String>), String> {
        let Some(embedder) = &mut self.embedder else { return Err(NO_PROVIDER.to_owned()) };
        if self.failures >= PROVIDER_FAILURES_MAX {
            return Err(format!(
                "the provider failed {PROVIDER_FAILURES_MAX} times and is not asked again"
            ));
        }
        if !self.is_told {
            self.printer.note(&format!("note: texts are sent to {}", embedder.place()));
            self.is_told = true;
        }
        match embedder.embed(&[text]) {
            Ok(mut vectors) => {
                self.failures = 0;
                let vector = vectors.pop().unwrap_or_default();
                Ok((vector, embedder.model().map(str::to_owned)))
            }
            Err(error) => {
                self.failures += 1;
                Err(format!("no vector was made of the text: {error}"))
            }
        }
    }

    /// Adds a vector to a memory that has none; returns what should be said where that cannot be done.
    pub fn fill(&mut self, incoming: &mut Incoming) -> Option<String> {
        let (None, Some(text)) = (&incoming.vector, &incoming.text) else { return None };
        match self.vector(text) {
            Ok((vector, _)) if let Some(fault) = vector_fault(&vector) => {
                Some(format!("the provider made no usable vector: {fault}"))
            }
            Ok((vector, model)) => {
                incoming.vector = Some(vector);
                incoming.model = model;
                None
            }
            Err(note) => Some(note),
        }
    }
}

/// Makes the vectors of the texts that actions write, as far as they are carried out. Without a provider, texts that rules
/// made go without one: where their memories have vectors, the store refuses them.
pub(crate) fn new_vectors<'t>(
    actions: impl Iterator<Item = &'t Action>,
    settings: &Settings,
    bars: &Bars,
    printer: Printer,
) -> Result<NewVectors, Failure> {
    let writing: Vec<&Action> = actions.filter(|action| action.new_content.is_some()).collect();
    let texts: Vec<&str> =
        writing.iter().filter_map(|action| action.new_content.as_deref()).collect();
    if texts.is_empty() {
        return Ok(NewVectors::default());
    }
    let configured = &settings.configuration.settings.embed;
    let failed = |error: &EmbedError| {
        let hint = error.hint();
        Failure::new("make the vectors of new texts", error, hint)
    };
    let variables = |name: &str| std::env::var(name).ok();
    let provider = embedder(configured, None, &variables).map_err(|error| failed(&error))?;
    let by_rules = writing.iter().all(|action| action.rationale.evidence.decided_by.is_none());
    if provider.is_none() && by_rules {
        return Ok(NewVectors::default());
    }
    let provider = provider.ok_or_else(|| {
        Failure::usage(
            "the plan writes new texts, and nobody makes their vectors",
            "configure embed.provider (docs/embedding.md), or leave them out: \
             --except rewrite,summarize",
        )
    })?;
    if configured.provider != Some(memfold::embed::Provider::Local) {
        printer.note(&format!("note: {} new texts are sent to {}", texts.len(), provider.place()));
    }
    NewVectors::make(provider, &texts, configured.batch_size, bars).map_err(|error| failed(&error))
}

/// Tells whether somebody listens at an address of this machine. Nothing is sent.
fn listens(url: Option<&str>) -> bool {
    let Some(place) = url.and_then(|url| url.strip_prefix("http://")) else { return false };
    let addresses = place.to_socket_addrs().into_iter().flatten();
    addresses
        .filter(|address| address.ip().is_loopback())
        .any(|address| TcpStream::connect_timeout(&address, LISTENING_WAIT).is_ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_who_listens_on_this_machine_is_asked_unconfigured() {
        let daemon = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", daemon.local_addr().unwrap());
        assert!(listens(Some(&url)));
        drop(daemon);
        for absent in [Some(&*url), Some("http://192.0.2.1:8030"), Some("no address"), None] {
            assert!(!listens(absent), "{absent:?}");
        }
    }

    #[test]
    fn vectors_are_read_in_every_form() {
        let expected = vec![0.5, -2.0];
        let bytes: Vec<u8> = expected.iter().flat_map(|x: &f32| x.to_le_bytes()).collect();
        assert_eq!(typed_vector(" [0.5, -2]").unwrap(), expected);
        assert_eq!(typed_vector(&STANDARD.encode(&bytes)).unwrap(), expected);
        let folder = tempfile::tempdir().unwrap();
        for content in [&bytes[..], b"\n[5e-1, -2]\n"] {
            let path = folder.path().join("vector");
            std::fs::write(&path, content).unwrap();
            assert_eq!(typed_vector(path.to_str().unwrap()).unwrap(), expected);
        }
        for wrong in ["", "[]", "[1", "no vector", "AAA=", "missing.f32"] {
            assert!(typed_vector(wrong).is_err(), "{wrong:?}");
        }
    }
}
