//! fio, as it is run and read.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::Pattern;
use super::figures::Figures;

/// The fio that is installed.
#[derive(Debug)]
pub(super) struct Fio {
    version: String,
}

impl Fio {
    /// Asks it for its version.
    pub(super) fn find() -> Result<Self> {
        let output = Command::new("fio").arg("--version").output();
        let output = output.context("fio can't be run; install it with `apt-get install fio`")?;
        Ok(Self { version: String::from_utf8_lossy(&output.stdout).trim().to_owned() })
    }

    /// Its version: `fio-3.33`.
    pub(super) fn version(&self) -> &str {
        &self.version
    }

    /// Runs a pattern on the file. Everything that isn't given is fio's default.
    #[expect(clippy::unused_self, reason = "having a `Fio` is the proof that there is one")]
    pub(super) fn run(&self, pattern: &Pattern, file: &Path, seconds: u32) -> Result<Figures> {
        let mut command = Command::new("fio");
        command.args(["--name=bench", "--ioengine=io_uring", "--direct=1", "--time_based"]);
        command.args(["--output-format=json", "--eta=never", "--readonly"]);
        command.arg(format!("--filename={}", escaped(file)?));
        command.arg(format!("--rw={}", pattern.rw));
        // fio's own `k` is 1024 bytes; its `KiB` would be 1000.
        command.arg(format!("--bs={}k", pattern.block_kib));
        command.arg(format!("--iodepth={}", pattern.depth));
        command.arg(format!("--runtime={seconds}"));
        let output = command.output().context("can't run fio")?;
        if !output.status.success() {
            bail!("fio failed: {}", String::from_utf8_lossy(&output.stderr).trim());
        }
        parse(&String::from_utf8_lossy(&output.stdout), pattern)
    }
}

/// In fio's file names a colon separates several.
fn escaped(file: &Path) -> Result<String> {
    let name = file.to_str().context("the path of the file is not UTF-8")?;
    Ok(name.replace('\\', "\\\\").replace(':', "\\:"))
}

/// Figures from fio's JSON: `bw` and its like are not used, since their units differ.
fn parse(output: &str, pattern: &Pattern) -> Result<Figures> {
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
    let number = |object: &Value, key: &str| {
        object[key].as_f64().with_context(|| format!("fio's output has no number `{key}`"))
    };
    let read = &job["read"];
    let (ios, bytes) = (number(read, "total_ios")?, number(read, "io_bytes")?);
    let (runtime_ms, job_ms) = (number(read, "runtime")?, number(job, "job_runtime")?);
    if ios < 1.0 || runtime_ms < 1.0 {
        bail!("fio read nothing");
    }
    let block = f64::from(pattern.block_kib) * 1024.0;
    if (bytes / ios / block - 1.0).abs() > 0.01 {
        bail!("fio read {bytes} bytes with {ios} I/Os, which are not blocks of {block} bytes");
    }
    let cpu_percent = number(job, "usr_cpu")? + number(job, "sys_cpu")?;
    Ok(Figures {
        iops: number(read, "iops")?,
        latency_ns: number(&read["lat_ns"], "mean")?,
        cpu_per_io_ns: cpu_percent / 100.0 * job_ms * 1e6 / ios,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const OUTPUT: &str = r#"note: both iodepth >= 1 and synchronous I/O engine are selected
{
  "fio version" : "fio-3.33",
  "jobs" : [
    {
      "jobname" : "bench",
      "error" : 0,
      "read" : {
        "io_bytes" : 127700992,
        "iops" : 31145.854146,
        "runtime" : 1001,
        "total_ios" : 31177,
        "lat_ns" : { "min" : 19978, "max" : 28429429, "mean" : 31561.176637, "N" : 31177 }
      },
      "write" : { "io_bytes" : 0, "iops" : 0.0 },
      "job_runtime" : 1000,
      "usr_cpu" : 4.5,
      "sys_cpu" : 24.2
    }
  ]
}
"#;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-6 * b
    }

    #[test]
    fn figures_are_in_nanoseconds() {
        let figures = parse(OUTPUT, &super::super::PATTERNS[0]).unwrap();
        assert!(close(figures.iops, 31_145.854_146));
        assert!(close(figures.latency_ns, 31_561.176_637));
        // 28.7 % of a second over 31,177 I/Os.
        assert!(close(figures.cpu_per_io_ns, 287_000_000.0 / 31_177.0));
    }

    #[test]
    fn what_is_not_the_run_we_asked_for_is_refused() {
        let refused = |from: &str, to: &str| {
            let output = OUTPUT.replace(from, to);
            assert_ne!(output, OUTPUT);
            parse(&output, &super::super::PATTERNS[0]).unwrap_err().to_string()
        };
        assert!(refused("\"error\" : 0", "\"error\" : 22").contains("error 22"));
        assert!(refused("\"total_ios\" : 31177", "\"total_ios\" : 0").contains("nothing"));
        assert!(refused("127700992", "255401984").contains("blocks"));
        assert!(refused("lat_ns", "lat_us").contains("mean"));
        assert!(parse("fio: failed", &super::super::PATTERNS[0]).is_err());
    }

    #[test]
    fn colons_in_a_path_are_no_separators() {
        assert_eq!(escaped(Path::new("/a:b")).unwrap(), "/a\\:b");
    }
}
