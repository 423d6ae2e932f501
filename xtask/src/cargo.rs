//! Cargo, as the tasks call it.

use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use serde_json::Value;

/// A build that takes longer than this is not quiet any more: the person should know why they
/// wait.
const PATIENCE: Duration = Duration::from_secs(2);

/// The folder of the workspace.
pub(crate) fn root() -> &'static Path {
    let package = Path::new(env!("CARGO_MANIFEST_DIR"));
    package.parent().unwrap_or(package)
}

/// The cargo that runs us, else the one on the path.
pub(crate) fn program() -> OsString {
    std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into())
}

/// Builds the release binary of a package, which has its name, and returns where it is. Cargo's
/// talk is shown only when the build fails or takes long.
pub(crate) fn build_release(package: &str) -> Result<PathBuf> {
    let mut child = Command::new(program())
        .args(["build", "--release", "--package", package, "--bin", package])
        .args(["--message-format", "json-render-diagnostics"])
        .current_dir(root())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .context("can't start cargo")?;
    let talk = child.stderr.take().context("cargo has no stderr")?;
    let name = package.to_owned();
    let talk = thread::spawn(move || relay_if_long(talk, &name));
    let mut messages = String::new();
    child.stdout.take().context("cargo has no stdout")?.read_to_string(&mut messages)?;
    let status = child.wait().context("can't wait for cargo")?;
    let unshown = talk.join().unwrap_or_default();
    if !status.success() {
        show(&unshown);
        bail!("{package} could not be built");
    }
    let missing = || format!("cargo built no binary called {package}");
    executable(&messages, package).with_context(missing)
}

/// Reads cargo's stderr to its end, and shows it if that takes long. Returns what was not shown.
fn relay_if_long(talk: impl Read + Send + 'static, package: &str) -> Vec<String> {
    let (sender, lines) = mpsc::channel();
    thread::spawn(move || {
        for line in BufReader::new(talk).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    let started = std::time::Instant::now();
    let mut unshown = Vec::new();
    loop {
        match lines.recv_timeout(PATIENCE.saturating_sub(started.elapsed())) {
            Ok(line) => unshown.push(line),
            Err(mpsc::RecvTimeoutError::Disconnected) => return unshown,
            Err(mpsc::RecvTimeoutError::Timeout) => break,
        }
    }
    eprintln!("building {package} with optimisations: a first build takes some minutes");
    show(&unshown);
    for line in lines {
        eprintln!("{line}");
    }
    Vec::new()
}

fn show(lines: &[String]) {
    for line in lines {
        eprintln!("{line}");
    }
}

/// The binary's path in cargo's messages, one JSON object a line.
fn executable(messages: &str, package: &str) -> Option<PathBuf> {
    messages.lines().find_map(|line| {
        let message: Value = serde_json::from_str(line).ok()?;
        let ours = message["target"]["name"] == package && message["target"]["kind"][0] == "bin";
        ours.then(|| message["executable"].as_str().map(PathBuf::from)).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_binary_is_found_among_the_libraries() {
        let messages = r#"{"target":{"kind":["lib"],"name":"diskproof"},"executable":null}
{"target":{"kind":["bin"],"name":"diskproof"},"executable":"/t/release/diskproof"}
{"reason":"build-finished","success":true}"#;
        assert_eq!(executable(messages, "diskproof"), Some(PathBuf::from("/t/release/diskproof")));
        assert_eq!(executable(messages, "xtask"), None);
    }
}
