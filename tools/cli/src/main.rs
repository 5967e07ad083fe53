//! `memfold`: the program.

use std::process::ExitCode;

fn main() -> ExitCode {
    memfold_cli::run()
}
