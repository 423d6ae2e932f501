//! The flush of all members that ends a job with an `fsync`.

use std::sync::Arc;
use std::sync::mpsc::channel;

use super::crew::{LOOK_EVERY, no_threads};
use super::files::Files;
use super::guard::Guard;
use super::outcome::FinalSync;
use crate::engine::{Control, EngineError};
use crate::os::clock::monotonic_ns;
use crate::units::Nanos;

/// Flushes all members side by side, each on a thread of its own: one that never returns leaves
/// its thread behind, and not the caller.
pub(super) fn last_flush(files: &Files, control: &Control) -> Result<Vec<FinalSync>, EngineError> {
    let (sender, flushed) = channel();
    for (number, member) in files.members.iter().enumerate() {
        let (file, sender) = (Arc::clone(&member.file), sender.clone());
        let flush = move || {
            let started = monotonic_ns();
            let errno = file.sync_all().err().map(|error| error.raw_os_error().unwrap_or(0));
            let sync = FinalSync { started, ended: monotonic_ns(), errno };
            // Let go of before the caller hears of it, who may want to close it then.
            drop(file);
            // Nobody listens any more when another one is stuck.
            let _ = sender.send((number, sync));
        };
        let thread = std::thread::Builder::new().name(format!("flush {number}"));
        thread.spawn(flush).map_err(|error| no_threads(&error))?;
    }
    let mut done = vec![None; files.members.len()];
    let mut guard = Guard::of_slow(control.patience(), files, monotonic_ns());
    loop {
        if let Some(done) = done.iter().copied().collect() {
            return Ok(done);
        }
        if let Ok((number, sync)) = flushed.recv_timeout(LOOK_EVERY) {
            done[number] = Some(sync);
        }
        let returned = done.iter().flatten().count();
        if let Some(silence) = guard.look(monotonic_ns(), returned as u64, control.stopped()) {
            let left = files.members.iter().zip(&done).filter(|(_, done)| done.is_none());
            return Err(EngineError::Stuck {
                disks: left.map(|(member, _)| member.name.clone()).collect(),
                offset: None,
                silence: Nanos(silence),
                in_flight: done.len() - returned,
            });
        }
    }
}
