//! Checks what a workload asks of a ring beside the rest of it.

use crate::diag::Diagnostic;

use super::model::{Cache, EngineChoice};
use super::sweep::Draft;

/// What is wrong with `hipri` and `sqpoll` of one point.
pub(super) fn point(draft: &Draft<'_>, errors: &mut Vec<Diagnostic>) {
    let workload = &draft.workload;
    let other_engine = match workload.engine {
        EngineChoice::Auto | EngineChoice::IoUring => None,
        EngineChoice::Libaio => Some("libaio"),
        EngineChoice::Sync => Some("sync"),
    };
    for (key, on) in [("hipri", workload.hipri), ("sqpoll", workload.sqpoll)] {
        if let Some(engine) = other_engine.filter(|_| on && draft.sure(&[key, "engine"])) {
            let message = format!("the engine `{engine}` has no `{key}`");
            errors.push(
                Diagnostic::new("plan::conflict", message, draft.place(key), "of io_uring alone")
                    .context(draft.place("engine"), "")
                    .help("use the engine `io_uring`, which is what `auto` then is"),
            );
        }
    }
    if !workload.hipri || !draft.sure(&["hipri"]) {
        return;
    }
    let mut conflict = |keys: &[&str], message: &str, label: &str, help: &str| {
        if let Some(key) = keys.iter().find(|key| draft.gives(key)).filter(|_| draft.sure(keys)) {
            errors.push(
                Diagnostic::new("plan::conflict", message, draft.place(key), label)
                    .context(draft.place("hipri"), "polls for completions")
                    .help(help),
            );
        }
    };
    if workload.cache == Cache::Buffered {
        conflict(
            &["cache"],
            "through the page cache there is nothing to poll for",
            "passes by the device",
            "use `cache = \"direct\"`, or take `hipri` out",
        );
    }
    if workload.trims() {
        conflict(&["rw"], "a ring that polls can't trim", "trims", "take `hipri` out");
    }
    if workload.flush.is_some() {
        conflict(
            &["fsync_every", "fdatasync_every"],
            "a ring that polls can't flush between writes",
            "flushes",
            "use `sync = \"dsync\"` for writes that are stable, or take `hipri` out",
        );
    }
}
