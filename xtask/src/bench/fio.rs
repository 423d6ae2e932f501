//! fio, as it is run and read: with its defaults, and in all the ways that may be its best.

use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::figures::Counted;
use super::places::Spot;
use super::process::{self, Manner};
use super::rows::{Backend, Work};
use super::sides::Length;

/// I/Os submitted and waited for at a time, of those ways.
const BATCHES: [u32; 4] = [4, 8, 16, 32];

/// What makes any engine faster and leaves it the total latency of every I/O: no map of the
/// blocks that were used, no process of its own, no halves of the latency, no look at the disk's
/// counters. Without `bw` samples too there would be no clock reading at the end of an I/O.
const LEAN: [&str; 5] =
    ["--norandommap", "--thread", "--disable_slat=1", "--disable_clat=1", "--disk_util=0"];

/// A way to run fio.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Way {
    /// What the table calls it.
    pub name: String,
    args: Vec<String>,
}

/// Its version: `fio-3.33`.
pub(super) fn version() -> Result<String> {
    let output = Command::new("fio").arg("--version").output();
    let output = output.context("fio can't be run; install it with `apt-get install fio`")?;
    Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
}

impl Way {
    /// fio as it is when nothing but the pattern is asked for.
    pub(super) fn default(work: &Work) -> Self {
        let engine = if work.backend == Backend::Ring { "io_uring" } else { "psync" };
        Self { name: engine.to_owned(), args: vec![format!("--ioengine={engine}")] }
    }

    /// All that may be the best for a pattern.
    pub(super) fn candidates(work: &Work) -> Vec<Self> {
        let mut ways = Vec::new();
        let engines: &[&str] = match (work.backend, work.depth) {
            (Backend::Sync, _) => &["psync", "pvsync", "pvsync2"],
            (_, 1) => &["psync", "pvsync2", "libaio", "io_uring"],
            _ => &["libaio", "io_uring"],
        };
        for engine in engines {
            ways.push(Self::lean(engine, None));
            if work.depth > 1 {
                let batches = BATCHES.into_iter().filter(|batch| *batch <= work.depth);
                ways.extend(batches.map(|batch| Self::lean(engine, Some(batch))));
            }
        }
        ways
    }

    /// One of those, without a search: by ring, batches of half the depth, up to 16.
    pub(super) fn lean_of(work: &Work) -> Self {
        match work.backend {
            Backend::Ring if work.depth > 1 => {
                Self::lean("io_uring", Some((work.depth / 2).min(16)))
            }
            Backend::Ring => Self::lean("io_uring", None),
            Backend::Sync | Backend::Chosen => Self::lean("psync", None),
        }
    }

    fn lean(engine: &str, batch: Option<u32>) -> Self {
        let mut args = vec![format!("--ioengine={engine}")];
        args.extend(LEAN.map(str::to_owned));
        if engine == "io_uring" {
            args.extend(["--registerfiles".to_owned(), "--fixedbufs".to_owned()]);
        }
        let Some(batch) = batch else { return Self { name: engine.to_owned(), args } };
        args.push(format!("--iodepth_batch_submit={batch}"));
        args.push(format!("--iodepth_batch_complete_min={batch}"));
        Self { name: format!("{engine}, batches of {batch}"), args }
    }

    /// The whole command.
    pub(super) fn command(&self, work: &Work, spot: &Spot, length: Length) -> Result<Command> {
        let mut command = Command::new("fio");
        command.args(["--name=bench", "--output-format=json", "--eta=never"]);
        // The payload of all is zeros, made once.
        command.args(["--zero_buffers", "--scramble_buffers=0", "--refill_buffers=0"]);
        command.arg(format!("--filename={}", escaped(spot)?));
        command.arg(format!("--filesize={}", spot.bytes));
        command.arg(format!("--direct={}", u8::from(spot.place.is_direct())));
        command.arg(format!("--rw={}", work.rw));
        if work.rw == "randrw" {
            command.arg("--rwmixread=70");
        }
        if work.only_reads() {
            command.arg("--readonly");
        }
        // fio's own `k` is 1024 bytes; its `KiB` would be 1000.
        command.arg(format!("--bs={}k", work.block_kib));
        command.arg(format!("--iodepth={}", work.depth));
        match length {
            Length::Microseconds(us) => {
                command.arg("--time_based").arg(format!("--runtime={us}us"));
            }
            Length::Ios(ios) => {
                command.arg(format!("--io_size={}", ios * work.block_bytes()));
            }
        }
        command.args(&self.args);
        Ok(command)
    }

    /// Runs a pattern.
    pub(super) fn run(
        &self,
        work: &Work,
        spot: &Spot,
        length: Length,
        manner: Manner,
    ) -> Result<Counted> {
        let ended = process::run(&mut self.command(work, spot, length)?, manner)?;
        Ok(Counted { cpu_ns: ended.cpu_ns, ..parse(&ended.stdout, work)? })
    }
}

/// In fio's file names a colon separates several.
fn escaped(spot: &Spot) -> Result<String> {
    let name = spot.path.to_str().context("the path of the file is not UTF-8")?;
    Ok(name.replace('\\', "\\\\").replace(':', "\\:"))
}

/// Counts from fio's JSON, without processor time: `bw` and its like are not used, since their
/// units differ.
fn parse(output: &str, work: &Work) -> Result<Counted> {
    // fio may print notes before and after the document.
    let begin = output.find('{').context("fio printed no JSON")?;
    let end = output.rfind('}').context("fio printed no whole JSON")?;
    let document: Value = serde_json::from_str(&output[begin..=end])?;
    let jobs = document["jobs"].as_array().context("fio's output has no jobs")?;
    let [job] = jobs.as_slice() else { bail!("fio's output doesn't have one job") };
    let error = job["error"].as_i64().context("fio's job has no `error`")?;
    if error != 0 {
        bail!("fio's job ended with error {error}");
    }
    let number = |path: &str| {
        let value = job.pointer(path).and_then(Value::as_f64);
        value.with_context(|| format!("fio's output has no number at {path}"))
    };
    let (mut ios, mut bytes, mut rate, mut latency) = (0.0, 0.0, 0.0, 0.0);
    for kind in ["read", "write"] {
        let of_kind = number(&format!("/{kind}/total_ios"))?;
        if of_kind > 0.0 {
            ios += of_kind;
            bytes += number(&format!("/{kind}/io_bytes"))?;
            rate += number(&format!("/{kind}/iops"))?;
            latency += number(&format!("/{kind}/lat_ns/mean"))? * of_kind;
        }
    }
    if ios < 1.0 || rate <= 0.0 {
        bail!("fio moved nothing");
    }
    let block = work.block_bytes() as f64;
    if (bytes / ios / block - 1.0).abs() > 0.01 {
        bail!("fio moved {bytes} bytes with {ios} I/Os, which are not blocks of {block} bytes");
    }
    Ok(Counted { ios, duration_ns: ios / rate * 1e9, latency_ns: latency / ios, cpu_ns: 0.0 })
}

#[cfg(test)]
mod tests {
    use super::super::rows::{Place, ROWS};
    use super::*;

    const OUTPUT: &str = r#"note: both iodepth >= 1 and synchronous I/O engine are selected
{
  "fio version" : "fio-3.33",
  "jobs" : [
    {
      "jobname" : "bench",
      "error" : 0,
      "read" : {
        "io_bytes" : 122880000,
        "iops" : 30000.0,
        "runtime" : 1000,
        "total_ios" : 30000,
        "lat_ns" : { "min" : 19978, "max" : 28429429, "mean" : 31000.5, "N" : 30000 }
      },
      "write" : {
        "io_bytes" : 40960000, "iops" : 10000.0, "total_ios" : 10000,
        "lat_ns" : { "mean" : 11000.5 }
      },
      "usr_cpu" : 4.5
    }
  ]
}
"#;

    fn work() -> Work {
        Work { rw: "randrw", block_kib: 4, depth: 32, backend: Backend::Ring }
    }

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-6 * b
    }

    #[test]
    fn reads_and_writes_are_one_sum() {
        let counted = parse(OUTPUT, &work()).unwrap();
        assert!(close(counted.ios, 40_000.0));
        assert!(close(counted.duration_ns, 1e9));
        // Three of four at 31 µs, one at 11.
        assert!(close(counted.latency_ns, 26_000.5));
    }

    #[test]
    fn what_is_not_the_run_we_asked_for_is_refused() {
        let refused = |from: &str, to: &str| {
            let output = OUTPUT.replace(from, to);
            assert_ne!(output, OUTPUT);
            parse(&output, &work()).unwrap_err().to_string()
        };
        assert!(refused("\"error\" : 0", "\"error\" : 22").contains("error 22"));
        assert!(refused("\"total_ios\" : ", "\"total_ios\" : 0.").contains("nothing"));
        assert!(refused("122880000", "355401984").contains("blocks"));
        assert!(refused("lat_ns", "lat_us").contains("mean"));
        assert!(parse("fio: failed", &work()).is_err());
    }

    #[test]
    fn every_row_has_several_ways_of_its_depth() {
        for row in &ROWS {
            let ways = Way::candidates(&row.work);
            assert!(ways.len() >= 3, "{}", row.key);
            let batched = ways.iter().filter(|way| way.name.contains("batches")).count();
            assert_eq!(batched, if row.work.depth > 1 { 8 } else { 0 }, "{}", row.key);
        }
    }

    #[test]
    fn a_command_writes_only_where_the_pattern_does() {
        let spot = Spot { place: Place::Disk, path: "/a:b".into(), bytes: 1 << 20 };
        let args = |work: &Work, length| {
            let command = Way::default(work).command(work, &spot, length).unwrap();
            let args: Vec<_> = command.get_args().map(|arg| arg.to_str().unwrap()).collect();
            args.join(" ")
        };
        let mix = args(&work(), Length::Ios(10));
        assert!(mix.contains("--filename=/a\\:b --filesize=1048576 --direct=1 --rw=randrw"));
        assert!(mix.contains("--rwmixread=70") && mix.contains("--io_size=40960"));
        assert!(!mix.contains("--readonly"));
        let reads = args(&Work { rw: "randread", ..work() }, Length::Microseconds(1500));
        assert!(reads.contains("--readonly") && reads.contains("--runtime=1500us"));
    }
}
