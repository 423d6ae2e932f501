//! Programs that are allowed less than the tests: without io_uring or libaio, and with an I/O that
//! hangs or fails.
//!
//! The one place in the tests with unsafe code: a filter on system calls is set between `fork` and
//! `exec`.

use std::io;
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::{self, SigHandler, Signal};

use crate::support::skip;

/// `io_uring_setup` on every architecture that has it.
const IO_URING_SETUP: u32 = 425;

/// Lets the program be refused io_uring with `EPERM`, as a container's profile does.
pub(crate) fn forbid_io_uring(command: &mut Command) {
    forbid(command, &[IO_URING_SETUP]);
}

/// Lets the program be refused io_uring and libaio.
pub(crate) fn forbid_every_queue(command: &mut Command) {
    forbid(command, &[IO_URING_SETUP, libc::SYS_io_setup as u32]);
}

fn forbid(command: &mut Command, calls: &[u32]) {
    let instruction = |code: u32, jt, jf, k| libc::sock_filter { code: code as u16, jt, jf, k };
    let load = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    let equals = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    let answer = libc::BPF_RET | libc::BPF_K;
    // The number of the call is the first field of what the filter sees (seccomp(2)).
    let mut filter = vec![instruction(load, 0, 0, 0)];
    for call in calls {
        filter.extend([
            instruction(equals, 0, 1, *call),
            instruction(answer, 0, 0, libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs()),
        ]);
    }
    filter.push(instruction(answer, 0, 0, libc::SECCOMP_RET_ALLOW));
    // SAFETY: the closure runs between fork and exec, and calls nothing there but prctl; it
    // allocates nothing.
    unsafe { command.pre_exec(move || refuse(&mut filter)) };
}

fn refuse(filter: &mut [libc::sock_filter]) -> io::Result<()> {
    let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_mut_ptr() };
    let (yes, no): (libc::c_ulong, libc::c_ulong) = (1, 0);
    // SAFETY: both calls read their arguments alone; the filter lives until they return.
    unsafe {
        Errno::result(libc::prctl(libc::PR_SET_NO_NEW_PRIVS, yes, no, no, no))?;
        let mode = libc::c_ulong::from(libc::SECCOMP_MODE_FILTER);
        Errno::result(libc::prctl(libc::PR_SET_SECCOMP, mode, &raw const program))?;
    }
    Ok(())
}

/// Lets the program hear every signal, whatever those who run the tests ignore (`nohup`, `&`).
pub(crate) fn hear_signals(command: &mut Command) {
    // SAFETY: the closure runs between fork and exec, and calls nothing there but sigaction; it
    // allocates nothing.
    unsafe { command.pre_exec(reset_signals) };
}

fn reset_signals() -> io::Result<()> {
    for signal in [Signal::SIGHUP, Signal::SIGINT, Signal::SIGQUIT, Signal::SIGTERM] {
        // SAFETY: no handler is set that could run anything.
        unsafe { signal::signal(signal, SigHandler::SigDfl) }?;
    }
    Ok(())
}

/// The same command, with system calls that misbehave as strace's `inject` says; `None`, and the
/// test is skipped, where there is no strace or it can't.
pub(crate) fn with_injected(test: &str, command: &Command, inject: &str) -> Option<Command> {
    let can = Command::new("strace").args(["-D", "-o", "/dev/null", "true"]).output();
    if !can.is_ok_and(|output| output.status.success()) {
        skip(test, "strace is not there, or may not trace", "install strace, and allow ptrace");
        return None;
    }
    let (call, _) = inject.split_once(':').expect("CALL:WHAT");
    let mut traced = Command::new("strace");
    // With -D the program is our child, and the tracer is not between us.
    traced.args(["-D", "-f", "-qq", "-o", "/dev/null"]);
    traced.arg("-e").arg(format!("trace={call}")).arg("-e").arg(format!("inject={inject}"));
    traced.arg(command.get_program()).args(command.get_args());
    traced.current_dir(command.get_current_dir().expect("a folder"));
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => traced.env(name, value),
            None => traced.env_remove(name),
        };
    }
    hear_signals(&mut traced);
    Some(traced)
}
