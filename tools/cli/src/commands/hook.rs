//! `memfold hook`: the block that a session of an agent starts with.

use std::fs::File;
use std::io::{self, IsTerminal as _, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::{self, Args, Subcommand, ValueHint};
use memfold::machine;
use memfold::ops::{Settings, StorePath};
use memfold::session_start::session_context;
use memfold_core::lifecycle::{HookInput, hook_output};
use memfold_core::report::shell_words;
use memfold_guard::text::printable_json;
use memfold_store::BrainDb;
use memfold_store::brain_db::OpenOptions;

use crate::args::store_path;
use crate::call::Call;
use crate::failure::{Exit, Failure};
use crate::mirrored::Named;

/// The store that is searched in the working directory and above.
const STORE_NAME: &str = "brain.db";
/// A host's JSON is far shorter.
const INPUT_BYTES_MAX: u64 = 1 << 20;
/// A branch's name is far shorter.
const HEAD_BYTES_MAX: u64 = 4_096;
/// A session that starts does not wait longer for somebody who holds the store.
const PATIENCE: Duration = Duration::from_millis(250);

/// `memfold hook`
#[derive(Debug, Args)]
pub(crate) struct HookArgs {
    #[command(subcommand)]
    pub(crate) command: HookCommand,
}

/// What to do for a host.
#[derive(Debug, Subcommand)]
pub(crate) enum HookCommand {
    /// Answer a SessionStart hook: reads its JSON on stdin, prints the context as JSON; writes
    /// nothing and ends with exit code 0
    SessionStart(HookStoreArgs),
    /// Print the settings of Claude Code, Codex and Cursor for the hook and the MCP server; edits no
    /// file
    Print(HookStoreArgs),
}

impl HookArgs {
    /// Returns the store where one is named; the settings only mention theirs.
    pub(crate) fn store(&mut self) -> Option<Named<'_>> {
        match &mut self.command {
            HookCommand::SessionStart(args) => args.db.as_mut().and_then(Named::read),
            HookCommand::Print(_) => None,
        }
    }
}

/// Which store.
#[derive(Debug, Args)]
pub(crate) struct HookStoreArgs {
    /// The store [default: brain.db in the working directory or above]
    #[arg(long, value_name = "DB", value_parser = store_path(), value_hint = ValueHint::AnyPath)]
    pub(crate) db: Option<StorePath>,
}

pub(crate) fn run(call: Call<'_>, args: &HookArgs) -> Result<Exit, Failure> {
    match &args.command {
        HookCommand::SessionStart(args) => session_start(call, args),
        HookCommand::Print(args) => call.printer.data(&instructions(args)?).map(|()| Exit::Done),
    }
}

/// Never fails: a host would show the error instead of starting.
fn session_start(call: Call<'_>, args: &HookStoreArgs) -> Result<Exit, Failure> {
    let tell = |problem: &str| {
        let line = problem.split_whitespace().collect::<Vec<_>>().join(" ");
        call.printer.failure_note(&format!("memfold hook: {line}"));
    };
    let input = host_input();
    if let Some(problem) = &input.problem {
        tell(problem);
    }
    let directory = input.cwd.clone().map(PathBuf::from).filter(|directory| directory.is_dir());
    let context = here(directory).and_then(|directory| context(call, args, &directory));
    let context = context.unwrap_or_else(|failure| {
        tell(&failure.message);
        String::new()
    });
    let output = hook_output(&input, &context).to_string();
    // With stdout closed, nobody can read a message.
    let _unread = call.printer.data(&(printable_json(&output) + "\n"));
    Ok(Exit::Done)
}

fn host_input() -> HookInput {
    let stdin = io::stdin();
    if stdin.is_terminal() {
        return HookInput::default();
    }
    let mut bytes = Vec::new();
    match stdin.lock().take(INPUT_BYTES_MAX).read_to_end(&mut bytes) {
        Ok(_) => HookInput::parse(&bytes),
        Err(error) => HookInput {
            problem: Some(format!("hook input cannot be read: {error}")),
            ..HookInput::default()
        },
    }
}

fn here(directory: Option<PathBuf>) -> Result<PathBuf, Failure> {
    directory.map_or_else(std::env::current_dir, std::path::absolute).map_err(|error| {
        Failure::new("find the working directory", &error, Some("change to a folder".to_owned()))
    })
}

/// Returns the block of a store, empty where there is nothing to show or memfold is switched off.
fn context(call: Call<'_>, args: &HookStoreArgs, directory: &Path) -> Result<String, Failure> {
    let store = match &args.db {
        Some(store) => store.clone(),
        None => store_above(directory)?.into(),
    };
    let settings = Settings::load(&call.global.sources, Some(&store), &[])?;
    if !settings.configuration.settings.enabled {
        return Ok(String::new());
    }
    let patience = Duration::from_millis(settings.configuration.settings.busy_timeout_ms.into());
    let options = OpenOptions::default().busy_timeout(patience.min(PATIENCE));
    let branch = git_branch(directory).unwrap_or_default();
    let (store, directory) = (BrainDb::at(&store, options), directory.to_string_lossy());
    session_context(&store, &settings, &directory, &branch, machine::clock())
}

fn store_above(directory: &Path) -> Result<PathBuf, Failure> {
    let mut stores = directory.ancestors().map(|folder| folder.join(STORE_NAME));
    stores.find(|store| store.is_file()).ok_or_else(|| {
        Failure::plain(
            format!("no {STORE_NAME} in {} or above", directory.display()),
            "name the store: --db DB",
        )
    })
}

/// Reads the branch from `.git/HEAD`, without running git; none where no branch is checked out.
fn git_branch(directory: &Path) -> Option<String> {
    let git = directory.ancestors().map(|folder| folder.join(".git")).find(|git| git.exists())?;
    let folder = match git.is_dir() {
        true => git,
        // A worktree or submodule says where its folder is.
        false => git.parent()?.join(head_of(&git)?.strip_prefix("gitdir:")?.trim()),
    };
    let head = head_of(&folder.join("HEAD"))?;
    Some(head.strip_prefix("ref:")?.trim().strip_prefix("refs/heads/")?.to_owned())
}

fn head_of(path: &Path) -> Option<String> {
    if !path.is_file() {
        return None;
    }
    let mut text = String::new();
    File::open(path).ok()?.take(HEAD_BYTES_MAX).read_to_string(&mut text).ok()?;
    Some(text)
}

/// Setup instructions, with the store's whole path.
fn instructions(args: &HookStoreArgs) -> Result<String, Failure> {
    let directory = here(None)?;
    let (found, missing) = match &args.db {
        Some(db) => (Some(here(Some(db.to_path_buf()))?), ""),
        None => match store_above(&directory) {
            Ok(store) => (Some(store), ""),
            Err(_) => (None, NO_STORE),
        },
    };
    let store = found.unwrap_or_else(|| PathBuf::from(PLACE_OF_STORE));
    let store = store.to_string_lossy();
    let server = ["memfold-server", "mcp", &*store, "--allow-writes"];
    let hook = shell_words(&["memfold", "hook", "session-start", "--db", &store]);
    let quoted =
        |word: &str| printable_json(&serde_json::Value::from(word).to_string()).into_owned();
    let words = server[1..].iter().map(|word| quoted(word)).collect::<Vec<_>>().join(", ");
    Ok(format!("{missing}{INSTRUCTIONS}")
        .replace("SERVE", &shell_words(&server))
        .replace("WORDS", &words)
        .replace("HOOK", &quoted(&hook)))
}

/// Stands for the path of a store.
const PLACE_OF_STORE: &str = "/PATH/TO/brain.db";
const NO_STORE: &str = "No brain.db is in this folder or above: name the store with --db, or replace its path below.\n\n";

const INSTRUCTIONS: &str = include_str!("hook.txt");

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_branch_is_read_from_a_folder_a_worktree_and_below() {
        let place = tempfile::tempdir().unwrap();
        let below = place.path().join("tree/src/deep");
        std::fs::create_dir_all(&below).unwrap();
        std::fs::create_dir_all(place.path().join("git/worktrees/tree")).unwrap();
        assert_eq!(git_branch(&below), None);
        std::fs::write(place.path().join("tree/.git"), "gitdir: ../git/worktrees/tree\n").unwrap();
        assert_eq!(git_branch(&below), None);
        let head = place.path().join("git/worktrees/tree/HEAD");
        std::fs::write(&head, "ref: refs/heads/recall/two\n").unwrap();
        assert_eq!(git_branch(&below).as_deref(), Some("recall/two"));
        std::fs::write(&head, "0632335aa\n").unwrap();
        assert_eq!(git_branch(&below), None);
        std::fs::remove_file(place.path().join("tree/.git")).unwrap();
        std::fs::create_dir(place.path().join("tree/.git")).unwrap();
        std::fs::write(place.path().join("tree/.git/HEAD"), "ref: refs/heads/main").unwrap();
        assert_eq!(git_branch(&below).as_deref(), Some("main"));
    }

    #[test]
    fn the_settings_are_json_and_name_the_store() {
        let store = "/my \"notes\"/brain.db";
        let args = HookStoreArgs { db: Some(PathBuf::from(store).into()) };
        let text = instructions(&args).unwrap();
        let snippets: Vec<serde_json::Value> = text
            .split("\n\n")
            .filter(|part| part.starts_with('{'))
            .map(|part| serde_json::from_str(part).unwrap())
            .collect();
        let command = "memfold hook session-start --db '/my \"notes\"/brain.db'";
        let arguments = serde_json::json!(["mcp", store, "--allow-writes"]);
        let [claude, claude_hook, codex_hook, cursor, cursor_hook] = &snippets[..] else {
            panic!("{text}")
        };
        for servers in [claude, cursor] {
            assert_eq!(servers["mcpServers"]["memfold"]["args"], arguments);
        }
        for hook in [claude_hook, codex_hook] {
            assert_eq!(hook["hooks"]["SessionStart"][0]["hooks"][0]["command"], command);
        }
        assert_eq!(cursor_hook["hooks"]["sessionStart"][0]["command"], command);
        assert!(
            text.contains("args = [\"mcp\", \"/my \\\"notes\\\"/brain.db\", \"--allow-writes\"]")
        );
    }
}
