//! The command `forebay`. Everything it does is in the library beside it, where tests and fuzzers
//! reach it.

fn main() -> std::process::ExitCode {
    forebay_cli::main()
}
