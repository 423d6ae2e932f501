//! The diskproof program: everything is in the library.

fn main() -> std::process::ExitCode {
    diskproof::cli::main()
}
