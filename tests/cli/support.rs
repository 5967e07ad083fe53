//! [`TestFolder`]: the binary in a folder of its own.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use memfold_tests::{
    NOW, PlainMemory, StoreImage, StoreStyle, brain_db, memory, sample_rows, unit_vector,
};
use rusqlite::Connection;
use rusqlite::types::FromSql;
use serde_json::Value;
use tempfile::TempDir;

/// A temporary folder in which commands run.
pub(crate) struct TestFolder {
    folder: TempDir,
    home: TempDir,
}

/// The results of a command.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

/// A command line: a text that is split at its spaces, or a list of words.
pub(crate) trait CommandLine {
    fn words(&self) -> Vec<&str>;
}

impl CommandLine for str {
    fn words(&self) -> Vec<&str> {
        self.split_whitespace().collect()
    }
}

impl<S: AsRef<str>> CommandLine for [S] {
    fn words(&self) -> Vec<&str> {
        self.iter().map(AsRef::as_ref).collect()
    }
}

impl<S: AsRef<str>, const N: usize> CommandLine for [S; N] {
    fn words(&self) -> Vec<&str> {
        self[..].words()
    }
}

impl<S: AsRef<str>> CommandLine for Vec<S> {
    fn words(&self) -> Vec<&str> {
        self[..].words()
    }
}

impl TestFolder {
    pub(crate) fn new() -> Self {
        Self { folder: tempfile::tempdir().unwrap(), home: tempfile::tempdir().unwrap() }
    }

    /// With these memories as `brain.db`.
    pub(crate) fn with(rows: &[PlainMemory]) -> Self {
        let dir = Self::new();
        brain_db(&dir.path("brain.db"), rows, StoreStyle::Plain);
        dir
    }

    /// With the sample as `brain.db`.
    pub(crate) fn with_sample() -> Self {
        Self::with(&sample_rows())
    }

    /// With two equal and one other memory as `brain.db`.
    pub(crate) fn with_pair() -> Self {
        let text = "The kiln is fired on Mondays.";
        Self::with(&[
            memory(0, text, &unit_vector(8, 0)),
            memory(1, text, &unit_vector(8, 0)),
            memory(2, "Tea is ordered from the harbour shop.", &unit_vector(8, 1)),
        ])
    }

    pub(crate) fn folder(&self) -> &Path {
        self.folder.path()
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder().join(name)
    }

    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, text).unwrap();
        path
    }

    pub(crate) fn read(&self, name: &str) -> String {
        std::fs::read_to_string(self.path(name)).unwrap()
    }

    /// Connects to `brain.db` as its owner does.
    pub(crate) fn connect(&self) -> Connection {
        Connection::open(self.path("brain.db")).unwrap()
    }

    /// Changes `brain.db` as its owner could.
    pub(crate) fn sql(&self, sql: &str) {
        self.connect().execute_batch(sql).unwrap_or_else(|error| panic!("{sql}: {error}"));
    }

    /// The value of a query of `brain.db`.
    pub(crate) fn one<T: FromSql>(&self, sql: &str) -> T {
        let found = self.connect().query_row(sql, [], |row| row.get(0));
        found.unwrap_or_else(|error| panic!("{sql}: {error}"))
    }

    /// The first column of a query of `brain.db`.
    pub(crate) fn all<T: FromSql>(&self, sql: &str) -> Vec<T> {
        let store = self.connect();
        let mut statement = store.prepare(sql).unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect()
    }

    /// The ids of the live memories of `brain.db`.
    pub(crate) fn live(&self) -> Vec<String> {
        self.all("SELECT id FROM stm WHERE source NOT LIKE 'archived:%' ORDER BY id")
    }

    /// Everything that the owner of `brain.db` can see.
    pub(crate) fn image(&self) -> StoreImage {
        StoreImage::of(&self.path("brain.db"))
    }

    /// The binary with nothing of this machine's configuration.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        self.program(Path::new(crate::PROGRAM), arguments)
    }

    /// Another program with nothing of this machine's configuration.
    pub(crate) fn program(&self, program: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .current_dir(self.folder())
            .env_clear()
            .env("HOME", self.home.path())
            .env("XDG_CONFIG_HOME", self.home.path())
            .env("TMPDIR", self.home.path())
            .env("TZ", "UTC")
            .env("COLUMNS", "80");
        command
    }

    pub(crate) fn run(&self, arguments: &(impl CommandLine + ?Sized)) -> Answer {
        self.answer(self.command(&arguments.words()).output().unwrap())
    }

    /// As [`Self::run`], with `input` on stdin; a command that refuses does not read it.
    pub(crate) fn run_with(&self, arguments: &[&str], input: &str) -> Answer {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let _unread = child.stdin.take().unwrap().write_all(input.as_bytes());
        self.answer(child.wait_with_output().unwrap())
    }

    /// Runs a command that must succeed and returns its stdout.
    pub(crate) fn succeed(&self, arguments: &(impl CommandLine + ?Sized)) -> String {
        let answer = self.run(arguments);
        assert_eq!(answer.code, Some(0), "{:?}: {answer:?}", arguments.words());
        answer.out
    }

    pub(crate) fn json(&self, arguments: &(impl CommandLine + ?Sized)) -> Value {
        let document: Value = serde_json::from_str(&self.succeed(arguments)).unwrap();
        assert_eq!(document["schema_version"], 1, "{:?}", arguments.words());
        document
    }

    pub(crate) fn answer(&self, output: Output) -> Answer {
        let folder = self.folder().display().to_string();
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap().replace(&folder, "DIR");
        Answer { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    /// The id under which a memory of `brain.db` lives on.
    pub(crate) fn live_id(&self, id: &str) -> Value {
        self.json(&["explain", "brain.db", id, "--depth", "0", "--json"])["live_id"].clone()
    }

    /// The number of entries in the folder for temporary files.
    pub(crate) fn temporary_files(&self) -> usize {
        std::fs::read_dir(self.home.path()).unwrap().count()
    }

    /// As [`Self::files`], without mirrors and what else memfold keeps beside stores of other kinds.
    pub(crate) fn own_files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let is_own = |path: &Path| path.components().all(|part| part.as_os_str() != ".memfold");
        self.files().into_iter().filter(|(path, _)| is_own(path)).collect()
    }

    /// Every file of the folder, recursively, with its bytes.
    pub(crate) fn files(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut files = BTreeMap::new();
        let mut folders = vec![self.folder().to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                if path.is_dir() {
                    folders.push(path);
                } else {
                    files.insert(path.clone(), std::fs::read(path).unwrap());
                }
            }
        }
        files
    }
}

impl Answer {
    /// Asserts an exit code and the words on stderr, with nothing on stdout.
    #[track_caller]
    pub(crate) fn fails(&self, code: i32, error: &str, hint: &str) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert_eq!(self.out, "");
        let expected = format!("error: {error}\nhint: {hint}\n");
        assert_eq!(self.err, expected);
    }

    /// Asserts an exit code and parts of stderr.
    #[track_caller]
    pub(crate) fn fails_with(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.code, Some(code), "{self:?}");
        assert_eq!(self.out, "");
        for part in parts {
            assert!(self.err.contains(part), "no {part:?} in {}", self.err);
        }
    }
}

/// Copies a file or a folder.
pub(crate) fn copy(from: &Path, to: &Path) {
    if from.is_file() {
        std::fs::copy(from, to).unwrap();
        return;
    }
    std::fs::create_dir_all(to).unwrap();
    for item in std::fs::read_dir(from).unwrap() {
        let item = item.unwrap();
        copy(&item.path(), &to.join(item.file_name()));
    }
}

/// The commands that a help lists.
pub(crate) fn listed_commands(help: &str) -> Vec<String> {
    let list = help.split("Commands:\n").nth(1).and_then(|rest| rest.split("\n\n").next());
    list.unwrap_or_default()
        .lines()
        .filter(|line| line.starts_with("  ") && !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

/// Arguments of a run at the sample's time.
pub(crate) fn consolidate<'a>(further: &[&'a str]) -> Vec<&'a str> {
    [&["consolidate", "brain.db", "--now", NOW], further].concat()
}

/// Waits for something that another process or thread does.
pub(crate) fn wait_until(mut is_so: impl FnMut() -> bool) {
    while !is_so() {
        std::thread::sleep(std::time::Duration::from_millis(1));
    }
}

/// Sends SIGINT as soon as the process listens to it.
#[cfg(target_os = "linux")]
pub(crate) fn interrupt(child: &std::process::Child) {
    let status = format!("/proc/{}/status", child.id());
    let listens = || {
        let text = std::fs::read_to_string(&status).unwrap_or_default();
        let caught = text.lines().find_map(|line| line.strip_prefix("SigCgt:"));
        let bits = caught.and_then(|hex| u64::from_str_radix(hex.trim(), 16).ok());
        bits.is_some_and(|bits| bits & 0b10 != 0)
    };
    wait_until(listens);
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
}
