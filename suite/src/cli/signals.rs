//! Ctrl-C and its like: the first asks for an end in good order, the second leaves at once.
//!
//! The kernel speaks by signals too, and what it has to say is no reason to fall over with files
//! left behind: a write above the limit on file sizes is an error like any other, and processor
//! time that is used up asks for an end. What whoever started us has chosen to ignore (`nohup`, a
//! shell's `&`) stays ignored. The thread that listens here never waits for anyone: not for a
//! reader of standard error, and not for a file system that doesn't answer.

use std::ffi::c_int;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;
use std::time::Duration;

use nix::libc::{SIGPWR, SIGRTMAX, SIGRTMIN};
use signal_hook::consts::{
    SIGALRM, SIGHUP, SIGINT, SIGIO, SIGPROF, SIGQUIT, SIGTERM, SIGUSR1, SIGUSR2, SIGVTALRM,
    SIGXCPU, SIGXFSZ,
};
use signal_hook::iterator::Signals;

use crate::cli::out;
use crate::record::ExitCode;
use crate::rig::Undo;

/// How people and their programs ask for an end. A second one of these leaves at once; the others
/// come again by themselves (processor time used up: each second) and don't mean it.
const REQUESTS: [c_int; 4] = [SIGINT, SIGTERM, SIGHUP, SIGQUIT];

/// What else would end the process and is no fault of its own, besides the real-time signals.
const OTHERS: [c_int; 7] = [SIGUSR2, SIGALRM, SIGVTALRM, SIGPROF, SIGXCPU, SIGIO, SIGPWR];

/// Longest wait for the undo before leaving at once. Removing a few files takes milliseconds.
const UNDO_TIME: Duration = Duration::from_secs(3);

/// Longest wait for somebody to take the last words.
const LAST_WORDS_TIME: Duration = Duration::from_millis(500);

/// What signals have asked for so far.
#[derive(Debug, Clone, Default)]
pub(super) struct Asked {
    /// An end in good order.
    pub(super) stop: Arc<AtomicBool>,
    /// The state of the run, on standard error. Whoever tells it sets this back.
    pub(super) state: Arc<AtomicBool>,
}

/// Lets a write above the limit on file sizes (`ulimit -f`) fail rather than end the process.
///
/// # Errors
/// When the system does not let us.
pub(super) fn outlive_file_size_limit() -> io::Result<()> {
    // A handler is what counts: with one the write returns EFBIG. Nobody reads the flag.
    signal_hook::flag::register(SIGXFSZ, Arc::new(AtomicBool::new(false))).map(drop)
}

/// Watches for signals from now on.
///
/// The first one that asks for an end sets `stop`: the run drains its I/Os, unmakes what it made,
/// and keeps what it measured. A second one does not wait for I/Os that may never return: what
/// was made is unmade from here, for three seconds at most, and the process ends. SIGUSR1 asks for
/// the state of the run.
///
/// # Errors
/// When the system does not let us watch.
pub(super) fn watch(undo: Undo) -> io::Result<Asked> {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let ignored = ignored(&status);
    let all = REQUESTS.into_iter().chain(OTHERS).chain([SIGUSR1]);
    let mut signals = Signals::new(all.filter(|signal| !is_in(*signal, ignored)))?;
    for signal in (SIGRTMIN()..=SIGRTMAX()).filter(|signal| !is_in(*signal, ignored)) {
        // Who runs the program under its own eyes, as valgrind does, may keep one of these.
        let _ = signals.add_signal(signal);
    }
    let asked = Asked::default();
    let flags = asked.clone();
    std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
        for signal in signals.forever() {
            if signal == SIGUSR1 {
                flags.state.store(true, Ordering::SeqCst);
            } else if !flags.stop.swap(true, Ordering::SeqCst) {
                let words = "stopping in good order (once more to leave at once)";
                within(Duration::ZERO, move || out::say(words));
            } else if REQUESTS.contains(&signal) {
                leave(&undo);
            }
        }
    })?;
    Ok(asked)
}

/// Unmakes what can be unmade in a moment, names the rest, and ends the process.
fn leave(undo: &Undo) -> ! {
    let handle = undo.clone();
    let left = match within(UNDO_TIME, move || handle.now()) {
        Some(troubles) => troubles.iter().map(ToString::to_string).collect(),
        None => unanswered(undo),
    };
    if !left.is_empty() {
        within(LAST_WORDS_TIME, move || left.iter().for_each(|words| out::error(words)));
    }
    // Nothing that others could hold up: no buffers are written out, no locks are taken.
    signal_hook::low_level::exit(ExitCode::Interrupted.code().into())
}

/// What is named when the undo doesn't come to its end.
fn unanswered(undo: &Undo) -> Vec<String> {
    let words = |path: std::path::PathBuf| {
        format!("{} is left behind: its file system does not answer", path.display())
    };
    undo.pending().into_iter().map(words).collect()
}

/// Does something on a thread of its own, and waits for it so long and no longer. `None` when it
/// takes longer.
fn within<T: Send + 'static>(
    time: Duration,
    work: impl FnOnce() -> T + Send + 'static,
) -> Option<T> {
    let (done, wait) = mpsc::channel();
    let work = move || {
        // Nobody waits any more if it took too long.
        let _ = done.send(work());
    };
    std::thread::Builder::new().spawn(work).ok()?;
    wait.recv_timeout(time).ok()
}

/// The set of signals that this process was started to ignore, from the text of
/// `/proc/self/status`: a bit for each, that of signal 1 first. Empty if it isn't told.
fn ignored(status: &str) -> u64 {
    let set = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    set.and_then(|set| u64::from_str_radix(set.trim(), 16).ok()).unwrap_or(0)
}

fn is_in(signal: c_int, set: u64) -> bool {
    let bit = u32::try_from(signal - 1).ok().and_then(|shift| 1_u64.checked_shl(shift));
    bit.is_some_and(|bit| set & bit != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_ignored_is_known() {
        let set = ignored("SigBlk:\t0000000000000000\nSigIgn:\t0000000000001003\nSigCgt:\t0\n");
        assert!(is_in(SIGHUP, set) && is_in(SIGINT, set));
        assert!(!is_in(SIGTERM, set) && !is_in(SIGQUIT, set) && !is_in(64, set));
        assert!(is_in(64, 1 << 63));
        assert_eq!((ignored(""), ignored("SigIgn: none")), (0, 0));
    }

    #[test]
    fn nothing_is_waited_for_longer_than_said() {
        assert_eq!(within(Duration::from_secs(60), || 7), Some(7));
        let began = std::time::Instant::now();
        let slow = || std::thread::sleep(Duration::from_secs(30));
        assert_eq!(within(Duration::from_millis(10), slow), None);
        assert!(began.elapsed() < Duration::from_secs(20));
    }
}
