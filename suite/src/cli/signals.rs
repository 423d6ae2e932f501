//! Ctrl-C and its like: the first asks for an end in good order, the second leaves at once.
//!
//! The kernel speaks by signals too, and what it has to say is no reason to fall over with files
//! left behind: a write above the limit on file sizes is an error like any other, and processor
//! time that is used up asks for an end.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM, SIGXCPU, SIGXFSZ};
use signal_hook::iterator::Signals;

use crate::cli::out;
use crate::record::ExitCode;
use crate::rig::Undo;

/// Lets a write above the limit on file sizes (`ulimit -f`) fail rather than end the process.
///
/// # Errors
/// When the system does not let us.
pub(super) fn outlive_file_size_limit() -> std::io::Result<()> {
    // A handler is what counts: with one the write returns EFBIG. Nobody reads the flag.
    signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false))).map(drop)
}

/// Watches for signals from now on.
///
/// The first one sets the flag that is returned: the run drains its I/Os, unmakes what it made,
/// and keeps what it measured. The second one does not wait for I/Os that may never return: what
/// was made is unmade from here, and the process ends.
///
/// # Errors
/// When the system does not let us watch.
pub(super) fn watch(undo: Undo) -> std::io::Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    let mut signals = Signals::new([SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGXCPU])?;
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for _ in signals.forever() {
            if !flag.swap(true, Ordering::SeqCst) {
                out::say("stopping in good order (once more to leave at once)");
                continue;
            }
            for trouble in undo.now() {
                out::error(&trouble.to_string());
            }
            std::process::exit(i32::from(ExitCode::Interrupted.code()));
        }
    })?;
    Ok(stop)
}
