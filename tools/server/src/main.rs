//! The binary `memfold-server`.

use std::process::ExitCode;

/// A run takes tens of megabytes on whichever threads are free. glibc keeps the most that each of its heaps
/// ever held, eight heaps for each processor; this one gives freed pages back.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    memfold_server::run()
}
