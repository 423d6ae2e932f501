//! What the tests of the program share: a scratch folder, the program run to its end or watched
//! while it runs, and private mounts. Nothing here measures; every wait has an end.

use std::fs;
use std::io::{BufRead as _, BufReader, Read};
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use diskproof::record::{Outcome, Record};
use snapbox::{Assert, Data};

use crate::sandbox::hear_signals;

#[path = "../../src/testing.rs"]
mod testing;

pub(crate) use testing::skip;

/// Longer than any run of these tests takes on a machine that has much else to do.
const PATIENCE: Duration = Duration::from_secs(120);

/// The program.
pub(crate) const PROGRAM: &str = env!("CARGO_BIN_EXE_diskproof");

/// The top of the repository.
pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the repository")
}

/// The plan of the product that has this name.
pub(crate) fn shipped(name: &str) -> PathBuf {
    repository().join("plans").join(format!("{name}.toml"))
}

/// Compares each text with the file of its name, and tells of all that differ at once.
/// `SNAPSHOTS=overwrite` writes the files anew.
pub(crate) fn compare(texts: Vec<(PathBuf, String)>) {
    let assert = Assert::new().action_env("SNAPSHOTS");
    let wrong: Vec<_> = texts
        .into_iter()
        .filter_map(|(path, text)| {
            let expected = Data::read_from(&path, None).raw();
            assert.try_eq(Some(&path.display()), text.into(), expected).err()
        })
        .map(|error| error.to_string())
        .collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// A folder on a real file system that goes with the test: the program runs in it, its loopback
/// files are made in `work`, and `run` leaves its reports in `out`.
pub(crate) struct Scratch {
    folder: tempfile::TempDir,
}

impl Scratch {
    pub(crate) fn new() -> Self {
        let folder = tempfile::Builder::new().prefix("diskproof-test-").tempdir_in("/var/tmp");
        let scratch = Self { folder: folder.expect("a folder in /var/tmp") };
        fs::create_dir(scratch.work()).expect("a folder in it");
        scratch
    }

    /// A path in it.
    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Where loopback files are made.
    pub(crate) fn work(&self) -> PathBuf {
        self.path("work")
    }

    /// A file of this text in it.
    pub(crate) fn write(&self, name: &str, text: impl AsRef<[u8]>) -> PathBuf {
        let path = self.path(name);
        fs::write(&path, text).expect("a file in the scratch folder");
        path
    }

    /// The text of a file in it.
    pub(crate) fn read(&self, name: &str) -> String {
        let path = self.path(name);
        fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
    }

    /// The program with these arguments, in this folder.
    pub(crate) fn program<A: AsRef<std::ffi::OsStr>>(&self, args: &[A]) -> Command {
        let mut command = Command::new(PROGRAM);
        command.args(args);
        self.prepare(&mut command);
        command
    }

    /// Runs the program with these arguments to its end.
    pub(crate) fn run<A: AsRef<std::ffi::OsStr>>(&self, args: &[A]) -> Ran {
        Live::start(&mut self.program(args)).finish()
    }

    /// Runs a plan of this text, with its reports in `out`.
    pub(crate) fn run_plan(&self, text: &str, args: &[&str]) -> Ran {
        Live::start(&mut self.plan_command(text, args)).finish()
    }

    /// The command that does so.
    pub(crate) fn plan_command(&self, text: &str, args: &[&str]) -> Command {
        self.write("plan.toml", text);
        let mut all = vec!["run", "plan.toml", "--out", "out"];
        all.extend(args);
        self.program(&all)
    }

    /// Runs a script of the shell in this folder, with the program as `diskproof` on its path and
    /// mounts that nobody else sees and that end with it. `None`, and the test is skipped, where
    /// that can't be.
    pub(crate) fn in_private_mounts(&self, test: &str, script: &str) -> Option<Ran> {
        Some(Live::start(&mut self.private_mounts(test, script)?).finish())
    }

    /// The command that does so.
    pub(crate) fn private_mounts(&self, test: &str, script: &str) -> Option<Command> {
        let mut unshare = vec!["--mount"];
        if !nix::unistd::geteuid().is_root() {
            unshare.push("--map-root-user");
        }
        let can = Command::new("unshare").args(&unshare).arg("true").output();
        if !can.is_ok_and(|output| output.status.success()) {
            skip(test, "mounts of one's own are not allowed here", "run as root");
            return None;
        }
        let mut command = Command::new("unshare");
        command.args(&unshare).args(["sh", "-euc", script]);
        self.prepare(&mut command);
        Some(command)
    }

    /// Sets the folder, and an environment and signals that don't depend on who runs the tests.
    pub(crate) fn prepare(&self, command: &mut Command) {
        command.current_dir(self.folder.path());
        let programs = Path::new(PROGRAM).parent().expect("a folder").display().to_string();
        let path = std::env::var("PATH").unwrap_or_default();
        command.env("PATH", format!("{programs}:{path}"));
        for name in ["CI", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "COLUMNS", "TERM"] {
            command.env_remove(name);
        }
        command.env_remove("DISKPROOF_REQUIRE_ALL").env("LC_ALL", "C.UTF-8");
        command.env("DISKPROOF_WORK_DIR", self.work());
        hear_signals(command);
    }

    /// The record of the last `run_plan`.
    pub(crate) fn record(&self) -> Record {
        record(&self.path("out/record.json"))
    }

    /// Asserts that nothing is left in the work folder.
    pub(crate) fn assert_clean(&self) {
        assert_eq!(names_in(&self.work()), Vec::<String>::new(), "left behind");
    }
}

/// The names of all that is in a folder, sorted.
pub(crate) fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder)
        .expect("a folder")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    let mut names: Vec<_> = entries.collect();
    names.sort();
    names
}

/// Reads a record.
pub(crate) fn record(path: &Path) -> Record {
    Record::load(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The outcomes of a record's verdicts on one case.
pub(crate) fn outcomes(record: &Record, case: &str) -> Vec<Outcome> {
    let of_case = record.verdicts.iter().filter(|verdict| verdict.case == case);
    of_case.map(|verdict| verdict.outcome).collect()
}

/// The program after its end.
#[derive(Debug)]
pub(crate) struct Ran {
    pub(crate) status: ExitStatus,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ran {
    /// Asserts how it ended.
    #[track_caller]
    pub(crate) fn expect(self, code: i32) -> Self {
        let Self { status, stdout, stderr } = &self;
        assert_eq!(
            status.code(),
            Some(code),
            "signal {:?}\n--- stdout\n{stdout}\n--- stderr\n{stderr}",
            status.signal()
        );
        self
    }

    /// Asserts that it says this on standard error.
    #[track_caller]
    pub(crate) fn says(self, text: &str) -> Self {
        assert!(self.stderr.contains(text), "no `{text}` in\n{}", self.stderr);
        self
    }

    /// Asserts that it prints this on standard output.
    #[track_caller]
    pub(crate) fn prints(self, text: &str) -> Self {
        assert!(self.stdout.contains(text), "no `{text}` in\n{}", self.stdout);
        self
    }
}

/// The program while it runs.
pub(crate) struct Live {
    child: Child,
    lines: Receiver<String>,
    heard: String,
    stdout: Option<JoinHandle<String>>,
}

impl Live {
    /// Starts a command. What of its streams is not set yet is read.
    pub(crate) fn start(command: &mut Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        Self::follow(command.spawn().expect("the program starts"))
    }

    /// Follows a program that was started.
    pub(crate) fn follow(mut child: Child) -> Self {
        let stdout = child.stdout.take().map(|mut stdout| {
            std::thread::spawn(move || {
                let mut bytes = Vec::new();
                stdout.read_to_end(&mut bytes).expect("its output");
                String::from_utf8(bytes).expect("UTF-8")
            })
        });
        let (sender, lines) = channel();
        if let Some(stderr) = child.stderr.take() {
            std::thread::spawn(move || {
                for line in BufReader::new(stderr).split(b'\n') {
                    let line = line.expect("its talk");
                    // Nobody listens any more when the test has failed.
                    let _ = sender.send(String::from_utf8_lossy(&line).into_owned());
                }
            });
        }
        Self { child, lines, heard: String::new(), stdout }
    }

    /// Waits until a line of its talk contains this.
    #[track_caller]
    pub(crate) fn wait_for(&mut self, text: &str) {
        let end = Instant::now() + PATIENCE;
        loop {
            let line = self.lines.recv_timeout(end.saturating_duration_since(Instant::now()));
            let Ok(line) = line else { panic!("never said `{text}`:\n{}", self.heard) };
            let found = line.contains(text);
            self.heard += &(line + "\n");
            if found {
                return;
            }
        }
    }

    /// Its process.
    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it hasn't ended yet.
    pub(crate) fn is_running(&mut self) -> bool {
        self.child.try_wait().expect("its state").is_none()
    }

    /// Sends it a signal by name: `INT`.
    pub(crate) fn signal(&self, name: &str) {
        let script = format!("kill -{name} {}", self.child.id());
        let status = Command::new("sh").args(["-c", &script]).status();
        assert!(status.expect("a shell").success(), "{script}");
    }

    /// Waits for the end of its process, whoever else still holds its streams.
    #[track_caller]
    pub(crate) fn wait_for_end(&mut self, longest: Duration) -> ExitStatus {
        let end = Instant::now() + longest;
        loop {
            if let Some(status) = self.child.try_wait().expect("its end") {
                return status;
            }
            assert!(Instant::now() < end, "does not end:\n{}", self.heard);
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Waits for its end.
    pub(crate) fn finish(mut self) -> Ran {
        let end = Instant::now() + PATIENCE;
        loop {
            match self.lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) => self.heard += &(line + "\n"),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => {
                    self.child.kill().expect("it can be ended");
                    panic!("does not end:\n{}", self.heard);
                }
            }
        }
        let status = self.child.wait().expect("its end");
        let stdout = self
            .stdout
            .take()
            .map_or_else(String::new, |thread| thread.join().expect("its output"));
        Ran { status, stdout, stderr: std::mem::take(&mut self.heard) }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        // A test that fails leaves no program behind; one that ended is not there any more.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
