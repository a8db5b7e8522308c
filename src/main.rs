//! The `harness` binary: everything is in the library.

use std::process::ExitCode;

use mimalloc::MiMalloc;

/// Responses are read on one thread and scored on another, media go from thread to thread: with the system's allocator
/// the threads wait for each other to free them.
#[global_allocator]
static ALLOCATOR: MiMalloc = MiMalloc;

fn main() -> ExitCode {
    harness::cli::main()
}
