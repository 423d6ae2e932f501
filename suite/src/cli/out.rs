//! Writing to the person: standard output for what was asked for, standard error for talk.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use anstream::ColorChoice;

use super::Color;
use crate::record::ExitCode;
use crate::units::escaped_lines;

/// Whether standard output stopped taking what it was given (a full disk; a closed pipe is fine).
static OUTPUT_LOST: AtomicBool = AtomicBool::new(false);

/// Decides on colour once, for both streams.
pub(super) fn set_color(color: Color) {
    match color {
        Color::Auto => ColorChoice::Auto,
        Color::Always => ColorChoice::Always,
        Color::Never => ColorChoice::Never,
    }
    .write_global();
}

/// Prints to standard output what the person asked for. The text may hold styles: they are
/// stripped where the stream is not to have them.
pub(super) fn print(text: &str) {
    let mut stream = anstream::stdout().lock();
    if let Err(error) = stream.write_all(text.as_bytes()).and_then(|()| stream.flush()) {
        // Whoever closed the pipe has read enough. Anything else is a loss, and the exit code
        // tells it.
        if error.kind() != io::ErrorKind::BrokenPipe {
            OUTPUT_LOST.store(true, Ordering::Relaxed);
        }
    }
}

/// Says a line of talk on standard error. Nothing can be done if nobody hears it.
pub(super) fn say(text: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{text}");
}

/// Says what is wrong, in the look of a diagnostic without a place. What a plan's author wrote may
/// be part of it, and comes out as text.
pub(super) fn error(message: &str) {
    let message = escaped_lines(message);
    let style = anstyle::Style::new().bold().fg_color(Some(anstyle::AnsiColor::Red.into()));
    say(&format!("{style}error{style:#}: {message}"));
}

/// Whether the person looks at standard error on a terminal.
pub(super) fn talks_to_terminal() -> bool {
    io::stderr().is_terminal()
}

/// Width of the terminal that standard output is, or 100 where it is none.
pub(super) fn width() -> u16 {
    if !io::stdout().is_terminal() {
        return 100;
    }
    let columns = std::env::var("COLUMNS").ok().and_then(|text| text.parse().ok());
    let asked = || terminal_size::terminal_size_of(io::stdout()).map(|(width, _)| width.0);
    columns.or_else(asked).unwrap_or(100).clamp(60, 160)
}

/// The process's exit status. A lost output turns success into an error.
pub(super) fn finish(code: ExitCode) -> std::process::ExitCode {
    let lost = OUTPUT_LOST.load(Ordering::Relaxed);
    if lost && code == ExitCode::Passed {
        error("standard output could not be written to the end");
        return ExitCode::NotMeasured.code().into();
    }
    code.code().into()
}
