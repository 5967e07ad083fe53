//! The binary `memfold-server`.

use std::process::ExitCode;

fn main() -> ExitCode {
    memfold_server::run()
}
