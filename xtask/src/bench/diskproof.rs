//! diskproof, as it is run and read: a plan for each pattern, and the figures of its record.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::Pattern;
use super::figures::Figures;
use super::scratch::Scratch;

/// The form of the record that is read here.
const FORMAT: u64 = 1;

/// The release binary with a folder for its plans and records.
#[derive(Debug)]
pub(super) struct Diskproof {
    program: PathBuf,
    plan: PathBuf,
    out: PathBuf,
}

impl Diskproof {
    /// Puts what it needs beside the file that is read.
    pub(super) fn new(program: &Path, scratch: &Scratch) -> Result<Self> {
        let out = scratch.folder().join("out");
        fs::create_dir_all(&out)?;
        let plan = scratch.folder().join("plan.toml");
        Ok(Self { program: program.to_owned(), plan, out })
    }

    /// Runs a pattern on the file, one round.
    pub(super) fn run(&self, pattern: &Pattern, file: &Path, seconds: u32) -> Result<Figures> {
        let file = file.to_str().context("the path of the file is not UTF-8")?;
        fs::write(&self.plan, plan(pattern, file, seconds))?;
        let record = self.out.join("record.json");
        let _ = fs::remove_file(&record); // so that an old one is never taken for this run's
        let output = Command::new(&self.program)
            .arg("run")
            .arg(&self.plan)
            .arg("--out")
            .arg(&self.out)
            .output()
            .with_context(|| format!("can't run {}", self.program.display()))?;
        if !output.status.success() {
            bail!("diskproof failed: {}\n{}", output.status, text_of(&output));
        }
        let text = fs::read_to_string(&record)
            .with_context(|| format!("diskproof wrote no {}", record.display()))?;
        parse(&text)
    }
}

fn text_of(output: &std::process::Output) -> String {
    let texts = [&output.stdout, &output.stderr];
    texts.map(|text| String::from_utf8_lossy(text).trim().to_owned()).join("\n")
}

fn plan(pattern: &Pattern, file: &str, seconds: u32) -> String {
    let device = toml::Value::from(file);
    let Pattern { rw, block_kib, depth, .. } = pattern;
    format!(
        r#"name = "bench"

[disks.file]
device = {device}

[setups.file]
disks = ["file"]

[workloads.load]
rw = "{rw}"
block_size = "{block_kib}KiB"
queue_depth = {depth}
runtime = "{seconds}s"
engine = "io_uring"

[[expect]]
case = "file/load"
that = "errors = 0"

[run]
rounds = 1
order = "interleaved"
"#
    )
}

/// Figures from a record with one case of one round.
fn parse(text: &str) -> Result<Figures> {
    let record: Value = serde_json::from_str(text).context("the record is not JSON")?;
    if record["format"].as_u64() != Some(FORMAT) {
        bail!("the record has another format than {FORMAT}");
    }
    let cases = record["cases"].as_array().context("the record has no cases")?;
    let [case] = cases.as_slice() else { bail!("the record has not one case") };
    let rounds = case["rounds"].as_array().context("the case has no rounds")?;
    let [round] = rounds.as_slice() else { bail!("the case has not one round") };
    let measurement = &round["measurement"];
    if measurement.is_null() {
        bail!("diskproof could not measure: {}", round["error"]);
    }
    let number = |path: &str| {
        let value = measurement.pointer(path).and_then(Value::as_u64);
        value.map(|n| n as f64).with_context(|| format!("the measurement has no number at {path}"))
    };
    let completed = number("/kinds/read/completed")?;
    let latencies = number("/kinds/read/latency_ns/count")?;
    let duration_ns = number("/duration_ns")?;
    if completed < 1.0 || latencies < 1.0 || duration_ns < 1.0 {
        bail!("diskproof read nothing");
    }
    // The sum is in two halves of 64 bits, the high one first.
    let high = number("/kinds/read/latency_ns/sum/0")?;
    let sum = high * 2_f64.powi(64) + number("/kinds/read/latency_ns/sum/1")?;
    let cpu_ns = number("/cpu/user_ns")? + number("/cpu/system_ns")?;
    Ok(Figures {
        iops: completed / (duration_ns / 1e9),
        latency_ns: sum / latencies,
        cpu_per_io_ns: cpu_ns / completed,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &str = r#"{
  "format": 1,
  "cases": [{
    "id": "file/load",
    "rounds": [{
      "round": 1, "seed": 7, "error": null,
      "measurement": {
        "duration_ns": 2000000000,
        "kinds": {
          "read": {
            "completed": 50000, "bytes": 204800000,
            "latency_ns": { "count": 50001, "min": 20, "max": 90, "sum": [0, 1500030000],
                            "buckets": [[30, 50001]] }
          }
        },
        "cpu": { "user_ns": 100000000, "system_ns": 400000000 }
      }
    }]
  }]
}"#;

    #[test]
    #[expect(clippy::float_cmp, reason = "the numbers divide without a rest")]
    fn figures_come_from_the_one_round() {
        let figures = parse(RECORD).unwrap();
        assert_eq!(figures.iops, 25_000.0);
        assert_eq!(figures.latency_ns, 30_000.0);
        assert_eq!(figures.cpu_per_io_ns, 10_000.0);
    }

    #[test]
    fn a_record_without_figures_is_refused() {
        let refused = |from: &str, to: &str| {
            let record = RECORD.replace(from, to);
            assert_ne!(record, RECORD);
            parse(&record).unwrap_err().to_string()
        };
        assert!(refused("\"format\": 1", "\"format\": 2").contains("format"));
        assert!(refused("\"completed\": 50000", "\"completed\": 0").contains("nothing"));
        assert!(refused("\"user_ns\": 100000000, ", "").contains("/cpu/user_ns"));
        let unmeasured =
            r#"{"format":1,"cases":[{"rounds":[{"measurement":null,"error":"why"}]}]}"#;
        assert!(parse(unmeasured).unwrap_err().to_string().contains("why"));
    }

    #[test]
    fn the_plan_is_toml_whatever_the_path() {
        let text = plan(&super::super::PATTERNS[2], "/a \"b\"\\c", 3);
        let plan: toml::Table = text.parse().unwrap();
        assert_eq!(plan["disks"]["file"]["device"].as_str(), Some("/a \"b\"\\c"));
        assert_eq!(plan["workloads"]["load"]["block_size"].as_str(), Some("128KiB"));
    }
}
