//! The `harness` binary: everything is in the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    harness::cli::main()
}
