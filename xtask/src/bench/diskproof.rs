//! diskproof, as it is run and read: a plan for each pattern, and the figures of its record.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::figures::Counted;
use super::places::Spot;
use super::process::{self, Ended, Manner};
use super::rows::{Backend, Place, Work};
use super::sides::Length;

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
    /// Puts what it needs into the folder.
    pub(super) fn new(program: &Path, folder: &Path) -> Result<Self> {
        let out = folder.join("out");
        fs::create_dir_all(&out)?;
        Ok(Self { program: program.to_owned(), plan: folder.join("plan.toml"), out })
    }

    /// The command that runs the plan.
    pub(super) fn command(&self, plan: &str) -> Result<Command> {
        fs::write(&self.plan, plan)?;
        let mut command = Command::new(&self.program);
        command.arg("run").arg(&self.plan).arg("--out").arg(&self.out);
        Ok(command)
    }

    /// Runs a plan to its end.
    pub(super) fn run_plan(&self, plan: &str, manner: Manner) -> Result<Ended> {
        let _ = fs::remove_file(self.record()); // so that an old one is never taken for this run's
        process::run(&mut self.command(plan)?, manner)
    }

    /// Runs a pattern.
    pub(super) fn run(
        &self,
        work: &Work,
        spot: &Spot,
        length: Length,
        manner: Manner,
    ) -> Result<Counted> {
        let ended = self.run_plan(&plan(work, spot, length, manner.cpu)?, manner)?;
        let record = self.record();
        let text = fs::read_to_string(&record)
            .with_context(|| format!("diskproof wrote no {}", record.display()))?;
        Ok(Counted { cpu_ns: ended.cpu_ns, ..parse(&text)? })
    }

    /// Whether this build knows the null device.
    pub(super) fn has_null(&self, work: &Work, spot: &Spot) -> Result<bool> {
        fs::write(&self.plan, plan(work, spot, Length::Microseconds(1000), None)?)?;
        let output = Command::new(&self.program).arg("check").arg(&self.plan).output()?;
        Ok(output.status.success())
    }

    /// Where the record of the last run is.
    pub(super) fn record(&self) -> PathBuf {
        self.out.join("record.json")
    }
}

/// A plan with one case of one round. All payload is zeros, as the others' is.
pub(super) fn plan(work: &Work, spot: &Spot, length: Length, cpu: Option<usize>) -> Result<String> {
    plan_with(work, spot, length, cpu, &[])
}

/// The same with further keys of the workload, a line each.
pub(super) fn plan_with(
    work: &Work,
    spot: &Spot,
    length: Length,
    cpu: Option<usize>,
    keys: &[String],
) -> Result<String> {
    let Work { rw, block_kib, depth, backend } = work;
    let mut lines = vec![disk(spot)?];
    lines.push(format!("[setups.disk]\ndisks = [\"disk\"]\n\n[workloads.load]\nrw = \"{rw}\""));
    lines.push(format!("block_size = \"{block_kib}KiB\"\nqueue_depth = {depth}"));
    if *rw == "randrw" {
        lines.push("read_percent = 70".to_owned());
    }
    if !work.only_reads() {
        lines.push("data = \"zero\"".to_owned());
    }
    if !spot.place.is_direct() {
        lines.push("cache = \"buffered\"".to_owned());
    }
    let engine = match backend {
        Backend::Sync => "sync",
        Backend::Ring => "io_uring",
        Backend::Chosen => "auto",
    };
    lines.push(format!("engine = \"{engine}\""));
    lines.push(match length {
        Length::Microseconds(us) => format!("runtime = \"{us}us\""),
        Length::Ios(ios) => format!("amount = \"{}B\"", ios * work.block_bytes()),
    });
    if let Some(cpu) = cpu {
        lines.push(format!("cpus = \"{cpu}\""));
    }
    lines.extend_from_slice(keys);
    lines.push(END.to_owned());
    Ok(lines.join("\n"))
}

/// What every plan here ends with.
pub(super) const END: &str = r#"
[[expect]]
case = "*"
that = "errors = 0"

[run]
rounds = 1
order = "interleaved"
"#;

/// The beginning of a plan: its name, and the one disk that it has.
pub(super) fn disk(spot: &Spot) -> Result<String> {
    let text = |path: &Path| -> Result<toml::Value> {
        Ok(toml::Value::from(path.to_str().context("the path of the file is not UTF-8")?))
    };
    let size = format!("size = \"{}B\"", spot.bytes);
    let disk = match spot.place {
        Place::Null => format!("null = true\n{size}"),
        Place::Written => {
            let folder = spot.path.parent().context("the file is in no folder")?;
            format!("directory = {}\n{size}", text(folder)?)
        }
        _ => format!("device = {}", text(&spot.path)?),
    };
    Ok(format!("name = \"bench\"\n\n[disks.disk]\n{disk}\n"))
}

/// Counts from a record with one case of one round, without processor time.
fn parse(text: &str) -> Result<Counted> {
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
    let (mut ios, mut latencies, mut sum) = (0.0, 0.0, 0.0);
    for kind in ["read", "write"] {
        if measurement["kinds"][kind].is_null() {
            continue;
        }
        let path = |of: &str| format!("/kinds/{kind}/{of}");
        ios += number(&path("completed"))?;
        latencies += number(&path("latency_ns/count"))?;
        // The sum is in two halves of 64 bits, the high one first.
        sum += number(&path("latency_ns/sum/0"))? * 2_f64.powi(64);
        sum += number(&path("latency_ns/sum/1"))?;
    }
    let duration_ns = number("/duration_ns")?;
    if ios < 1.0 || latencies < 1.0 || duration_ns < 1.0 {
        bail!("diskproof moved nothing");
    }
    Ok(Counted { ios, duration_ns, latency_ns: sum / latencies, cpu_ns: 0.0 })
}

#[cfg(test)]
mod tests {
    use super::super::rows::ROWS;
    use super::*;

    const RECORD: &str = r#"{
  "format": 1,
  "cases": [{
    "id": "disk/load",
    "rounds": [{
      "round": 1, "seed": 7, "error": null,
      "measurement": {
        "duration_ns": 2000000000,
        "kinds": {
          "read": {
            "completed": 30000, "bytes": 204800000,
            "latency_ns": { "count": 30001, "min": 20, "max": 90, "sum": [0, 900030000],
                            "buckets": [[30, 50001]] }
          },
          "write": {
            "completed": 10000, "latency_ns": { "count": 9999, "sum": [0, 99970000] }
          }
        }
      }
    }]
  }]
}"#;

    #[test]
    #[expect(clippy::float_cmp, reason = "the numbers divide without a rest")]
    fn counts_come_from_the_one_round() {
        let counted = parse(RECORD).unwrap();
        assert_eq!(counted.ios, 40_000.0);
        assert_eq!(counted.duration_ns, 2e9);
        assert_eq!(counted.latency_ns, 25_000.0);
    }

    #[test]
    fn a_record_without_figures_is_refused() {
        let refused = |from: &str, to: &str| {
            let record = RECORD.replace(from, to);
            assert_ne!(record, RECORD);
            parse(&record).unwrap_err().to_string()
        };
        assert!(refused("\"format\": 1", "\"format\": 2").contains("format"));
        assert!(refused("\"completed\": ", "\"complete\": ").contains("read/completed"));
        assert!(refused("2000000000", "0").contains("nothing"));
        let unmeasured =
            r#"{"format":1,"cases":[{"rounds":[{"measurement":null,"error":"why"}]}]}"#;
        assert!(parse(unmeasured).unwrap_err().to_string().contains("why"));
    }

    #[test]
    fn every_plan_is_toml_whatever_the_path() {
        for row in &ROWS {
            let spot = Spot { place: row.place, path: "/a \"b\"\\c/d".into(), bytes: 1 << 20 };
            let text = plan(&row.work, &spot, Length::Microseconds(5), Some(3)).unwrap();
            let plan: toml::Table = text.parse().unwrap();
            let (disk, load) = (&plan["disks"]["disk"], &plan["workloads"]["load"]);
            match row.place {
                Place::Null => assert_eq!(disk["null"].as_bool(), Some(true)),
                Place::Written => assert_eq!(disk["directory"].as_str(), Some("/a \"b\"\\c")),
                _ => assert_eq!(disk["device"].as_str(), Some("/a \"b\"\\c/d")),
            }
            assert_eq!(load["rw"].as_str(), Some(row.work.rw));
            assert_eq!(load.get("data").is_some(), !row.work.only_reads());
            assert_eq!(load["cpus"].as_str(), Some("3"));
        }
    }
}
