//! `memfold completions`: completion scripts and man pages, derived from the description of the command line.

use std::path::{Path, PathBuf};

use clap::{self, Args, Command, CommandFactory as _};

use crate::call::Call;
use crate::cli::Cli;
use crate::failure::{Exit, Failure};
use crate::printer::Printer;

/// `memfold completions`
#[derive(Debug, Args)]
#[command(group = clap::ArgGroup::new("wanted").args(["shell", "man"]).required(true))]
pub(crate) struct CompletionsArgs {
    /// Print the completion script for this shell
    #[arg(value_enum)]
    pub(crate) shell: Option<clap_complete::Shell>,
    /// Write memfold.1 and a man page for each command into this folder
    #[arg(long, value_name = "DIR")]
    pub(crate) man: Option<PathBuf>,
}

pub(crate) fn run(call: Call<'_>, args: &CompletionsArgs) -> Result<Exit, Failure> {
    let mut command = Cli::command();
    if let Some(dir) = &args.man {
        write_pages(command, dir, call.printer)?;
    } else if let Some(shell) = args.shell {
        let mut script = Vec::new();
        clap_complete::generate(shell, &mut command, "memfold", &mut script);
        call.printer.data(&String::from_utf8_lossy(&script))?;
    }
    Ok(Exit::Done)
}

fn write_pages(mut command: Command, dir: &Path, printer: Printer) -> Result<(), Failure> {
    command.build();
    write_page(dir, &command, "memfold")?;
    let mut count = 1;
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        write_page(dir, sub, &format!("memfold-{}", sub.get_name()))?;
        count += 1;
    }
    printer.note(&format!("{count} pages written to {}", dir.display()));
    Ok(())
}

fn write_page(dir: &Path, command: &Command, name: &str) -> Result<(), Failure> {
    let path = dir.join(format!("{name}.1"));
    let mut page = Vec::new();
    let written = clap_mangen::Man::new(command.clone())
        .title(name)
        .render(&mut page)
        .and_then(|()| std::fs::create_dir_all(dir))
        .and_then(|()| std::fs::write(&path, page));
    written.map_err(|error| Failure::new(&format!("write {}", path.display()), &error, None))
}
