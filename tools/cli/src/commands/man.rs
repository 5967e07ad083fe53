//! `memfold man`: one page for the program and one for each command.

use std::path::Path;

use clap::{Command, CommandFactory};

use crate::args::{Cli, ManArgs};
use crate::exit::Exit;
use crate::failure::Failure;
use crate::printer::Printer;

pub(crate) fn run(args: &ManArgs, printer: Printer) -> Result<Exit, Failure> {
    let mut command = Cli::command();
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
