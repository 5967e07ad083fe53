//! `memfold`: the program.

use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    memfold_cli::run(&std::env::args_os().collect::<Vec<OsString>>()).into()
}
