//! `memfold man` and `memfold completions`: what is derived from the description of the command line.

use std::path::{Path, PathBuf};

use clap::{self, Args, Command};

use crate::failure::{Exit, Failure};
use crate::printer::Printer;

/// `memfold completions`
#[derive(Debug, Args)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

/// `memfold man`
#[derive(Debug, Args)]
pub(crate) struct ManArgs {
    /// The folder to write memfold.1 and one page for each command into
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
}

pub(crate) fn run(mut command: Command, args: &ManArgs, printer: Printer) -> Result<Exit, Failure> {
    command.build();
    write_page(&args.dir, &command, "memfold")?;
    let mut count = 1;
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        write_page(&args.dir, sub, &format!("memfold-{}", sub.get_name()))?;
        count += 1;
    }
    printer.note(&format!("{count} pages written to {}", args.dir.display()));
    Ok(Exit::Done)
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

pub(crate) fn completions(
    mut command: Command,
    args: &CompletionsArgs,
    printer: Printer,
) -> Result<Exit, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut command, "memfold", &mut script);
    printer.data(&String::from_utf8_lossy(&script))?;
    Ok(Exit::Done)
}
