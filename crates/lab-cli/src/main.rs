//! The command `forebay-lab`.

fn main() -> std::process::ExitCode {
    forebay_lab_cli::main()
}
