//! A record as a file: read with every doubt, written whole or not at all.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, ErrorKind, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use serde::{Deserialize, Serialize};
use serde_json::error::Category;

use super::layout::Layout;
use super::{FORMAT, Record, RecordError};

/// The largest file that is read. A case of twelve rounds with full histograms is 1 MiB.
const MAX_BYTES: u64 = 1 << 30;

/// What is looked at before the rest of the document.
#[derive(Deserialize)]
struct Header {
    format: Option<serde_json::Value>,
}

impl Record {
    /// Reads a record.
    ///
    /// # Errors
    /// When there is no such file, or it is not a record of this [`FORMAT`].
    pub fn load(path: &Path) -> Result<Self, RecordError> {
        let name = path.display().to_string();
        let failed = |source| RecordError::Io {
            operation: "read",
            path: path.display().to_string(),
            source,
        };
        let malformed = |reason: &str| RecordError::Malformed {
            path: path.display().to_string(),
            reason: reason.to_owned(),
        };
        // Before it is opened: to open a FIFO would be to wait for somebody who writes to it.
        let found = fs::metadata(path).map_err(failed)?;
        if found.is_dir() {
            return Err(malformed("it is a folder; name the record.json in it"));
        }
        if !found.is_file() {
            return Err(malformed("it is not a regular file"));
        }
        // It may grow, hence the second look.
        let too_large = "it is larger than 1 GiB";
        if found.len() > MAX_BYTES {
            return Err(malformed(too_large));
        }
        let mut text = Vec::new();
        let file = File::open(path).map_err(failed)?;
        file.take(MAX_BYTES + 1).read_to_end(&mut text).map_err(failed)?;
        if text.len() as u64 > MAX_BYTES {
            return Err(malformed(too_large));
        }
        Self::parse(&text, &name)
    }

    /// Reads a record from the text of a file that is called `path` in errors.
    pub(super) fn parse(text: &[u8], path: &str) -> Result<Self, RecordError> {
        let malformed = |reason| RecordError::Malformed { path: path.to_owned(), reason };
        let explain = |error: serde_json::Error| malformed(explain(&error));
        if text.iter().all(u8::is_ascii_whitespace) {
            return Err(malformed("it is empty".to_owned()));
        }
        let header: Header = serde_json::from_slice(text).map_err(explain)?;
        let Some(format) = header.format else {
            return Err(malformed("it is JSON, but has no `format`".to_owned()));
        };
        match format.as_u64() {
            Some(found) if found == u64::from(FORMAT) => {}
            Some(found) => return Err(RecordError::Version { path: path.to_owned(), found }),
            None => return Err(malformed("its `format` is not a whole number".to_owned())),
        }
        let record: Self = serde_json::from_slice(text).map_err(explain)?;
        record.flaw().map_or(Ok(record), |flaw| Err(malformed(flaw)))
    }

    /// The document as text: the same record, the same bytes. [`load`](Self::load) gives back
    /// exactly this record, fractions included.
    #[must_use]
    #[expect(clippy::missing_panics_doc, reason = "there is nothing that could panic")]
    pub fn to_json(&self) -> Vec<u8> {
        let mut text = Vec::new();
        self.write_json(&mut text).expect("memory takes it all, and every key is text");
        text
    }

    fn write_json(&self, out: &mut impl Write) -> io::Result<()> {
        let mut writer = serde_json::Serializer::with_formatter(&mut *out, Layout::default());
        self.serialize(&mut writer)?;
        out.write_all(b"\n")
    }

    /// Writes the record to `path`, whole or not at all: what was there before stays until all of
    /// the new one is on stable storage. The folder has to be there.
    ///
    /// # Errors
    /// When it can't be written; nothing is left behind then, and an older record is untouched.
    pub fn save(&self, path: &Path) -> Result<(), RecordError> {
        self.write(path, Fate::Stable)
    }

    /// As [`save`](Self::save), but doesn't wait for stable storage: whatever becomes of this
    /// process, the record is there and whole; a power cut may cost it. For a record that is soon
    /// written again.
    ///
    /// # Errors
    /// As [`save`](Self::save).
    pub fn save_unsynced(&self, path: &Path) -> Result<(), RecordError> {
        self.write(path, Fate::Cached)
    }

    fn write(&self, path: &Path, fate: Fate) -> Result<(), RecordError> {
        let name = || path.display().to_string();
        if let Some(reason) = self.flaw() {
            return Err(RecordError::Unsound { path: name(), reason });
        }
        // A record of many cases has megabytes: they are not gathered first.
        let write = |file: &mut File| {
            let mut out = BufWriter::with_capacity(1 << 16, file);
            self.write_json(&mut out).and_then(|()| out.flush())
        };
        write_whole(path, fate, write).map_err(|source| RecordError::Io {
            operation: "write",
            path: name(),
            source,
        })
    }
}

/// Writes a file whole or not at all: a reader never sees half of it, and a failure leaves what was
/// there before. It is not waited for until that is on stable storage: what is made from a record
/// can be made from it again.
///
/// # Errors
/// What the machine refused.
pub fn write_file(path: &Path, content: &[u8]) -> Result<(), RecordError> {
    let write = |file: &mut File| file.write_all(content);
    write_whole(path, Fate::Cached, write).map_err(|source| RecordError::Io {
        operation: "write",
        path: path.display().to_string(),
        source,
    })
}

/// What serde_json found, in our words, with the place.
fn explain(error: &serde_json::Error) -> String {
    let place = format!("line {}, column {}", error.line(), error.column());
    let whole = error.to_string();
    let message = whole.rsplit_once(" at line ").map_or(whole.as_str(), |(message, _)| message);
    match error.classify() {
        Category::Eof => format!("it breaks off at {place}"),
        Category::Data => format!("it is JSON, but not a record: {message} at {place}"),
        Category::Syntax | Category::Io => format!("it is not JSON: {message} at {place}"),
    }
}

/// Where a file is when it counts as written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fate {
    /// On stable storage: a power cut can't take it.
    Stable,
    /// In the kernel's hands: the end of this process can't take it.
    Cached,
}

/// Lets `write` fill a new file beside `path`, and puts that in the place of `path` once it is
/// where `fate` says.
pub(super) fn write_whole(
    path: &Path,
    fate: Fate,
    write: impl FnOnce(&mut File) -> io::Result<()>,
) -> io::Result<()> {
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    let (mut file, temporary) = new_file_beside(path, folder)?;
    let written = write(&mut file)
        .and_then(|()| if fate == Fate::Stable { file.sync_all() } else { Ok(()) })
        .and_then(|()| fs::rename(&temporary, path));
    if let Err(error) = written {
        // The error that is told is the first one; that this fails too changes nothing.
        let _ = fs::remove_file(&temporary);
        return Err(error);
    }
    if fate == Fate::Cached {
        return Ok(());
    }
    // Some file systems have no such call for folders; the file itself is safe by then.
    match File::open(folder)?.sync_all() {
        Err(error) if matches!(error.kind(), ErrorKind::InvalidInput | ErrorKind::Unsupported) => {
            Ok(())
        }
        done => done,
    }
}

/// A new file in `folder` that nothing else has open, under a name of its own.
fn new_file_beside(path: &Path, folder: &Path) -> io::Result<(File, PathBuf)> {
    static COUNTER: AtomicU64 = AtomicU64::new(0);
    let name = path.file_name().ok_or_else(|| io::Error::from(ErrorKind::IsADirectory))?;
    for _ in 0..1000 {
        let count = COUNTER.fetch_add(1, Ordering::Relaxed);
        let mut unique = std::ffi::OsString::from(".");
        unique.push(name);
        unique.push(format!(".{}-{count}.tmp", std::process::id()));
        let temporary = folder.join(unique);
        match OpenOptions::new().write(true).create_new(true).open(&temporary) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {}
            opened => return opened.map(|file| (file, temporary)),
        }
    }
    Err(io::Error::from(ErrorKind::AlreadyExists))
}
