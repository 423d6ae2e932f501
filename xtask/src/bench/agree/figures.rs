//! The figures that are compared, as each program tells them, and what their medians come to.

use anyhow::{Context, Result, bail};
use serde_json::Value;

use super::super::figures::{median, quantile};

/// How far apart two that agree may be.
pub(super) const WITHIN: f64 = 0.03;

/// Half of the 100 ms for which the kernel deals out a cap: a latency of less is of an I/O that
/// was let through at once, so that the program and the processor decided it.
const CAPPED_NS: f64 = 50e6;

/// One of the figures.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Figure {
    /// I/Os a second.
    Iops,
    /// Mean total latency.
    Mean,
    /// Its percentiles.
    P50,
    P99,
    P999,
}

impl Figure {
    /// All, in the order of a [`Sample`].
    pub(super) const ALL: [Self; 5] = [Self::Iops, Self::Mean, Self::P50, Self::P99, Self::P999];

    /// What the table calls it.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Iops => "IOPS",
            Self::Mean => "mean",
            Self::P50 => "p50",
            Self::P99 => "p99",
            Self::P999 => "p99.9",
        }
    }
}

/// What one run came to, by [`Figure`]: latencies in nanoseconds.
pub(super) type Sample = [f64; Figure::ALL.len()];

/// One round.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Round {
    /// fio, and fio again: what it measured of the I/Os that came back within the time.
    pub fio: [Sample; 2],
    /// What it says itself of the same runs.
    pub summary: [Sample; 2],
    /// diskproof.
    pub ours: Sample,
}

/// How diskproof's figure stands to fio's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// They agree.
    Agrees,
    /// They don't, but fio is as far from itself.
    WithinNoise,
    /// They don't.
    Differs,
    /// The cap didn't decide this one.
    NotOfTheCap,
}

impl Standing {
    /// In words.
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Agrees => "yes",
            Self::WithinNoise => "fio differs from itself",
            Self::Differs => "NO",
            Self::NotOfTheCap => "not the cap's",
        }
    }
}

/// A figure over all rounds.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Compared {
    /// Median of all runs of fio.
    pub fio: f64,
    /// Median of what it says itself.
    pub summary: f64,
    /// Median of diskproof's.
    pub ours: f64,
    /// The 10th and the 90th percentile of fio's second run by its first.
    pub noise: (f64, f64),
    /// What that means.
    pub standing: Standing,
}

/// What the rounds come to.
pub(super) fn compare(rounds: &[Round], figure: Figure) -> Compared {
    let index = figure as usize;
    let both = |of: fn(&Round) -> &[Sample; 2]| {
        median(rounds.iter().flat_map(of).map(|sample| sample[index]))
    };
    let (fio, summary) = (both(|round| &round.fio), both(|round| &round.summary));
    let ours = median(rounds.iter().map(|round| round.ours[index]));
    let again =
        rounds.iter().map(|Round { fio: [first, second], .. }| second[index] / first[index]);
    let again: Vec<_> = again.collect();
    let noise = (quantile(&again, 0.1), quantile(&again, 0.9));
    let ratio = ours / fio;
    let is_of_the_cap = match figure {
        // By Little's law the two belong together.
        Figure::Iops | Figure::Mean => true,
        Figure::P50 | Figure::P99 | Figure::P999 => fio >= CAPPED_NS,
    };
    let standing = if !is_of_the_cap {
        Standing::NotOfTheCap
    } else if (ratio - 1.0).abs() <= WITHIN {
        Standing::Agrees
    } else if (noise.0.min(1.0)..=noise.1.max(1.0)).contains(&ratio) {
        Standing::WithinNoise
    } else {
        Standing::Differs
    };
    Compared { fio, summary, ours, noise, standing }
}

/// fio's, from its log of every I/O's total latency, of those that came back in so many seconds.
/// It goes on to wait for what is in flight at the end, and counts that too, in the same time: up
/// to the depth more I/Os, of which the last ones may have waited for longest.
pub(super) fn of_log(log: &str, seconds: u32) -> Result<Sample> {
    let mut latencies = Vec::new();
    for line in log.lines() {
        let mut fields = line.split(',').map(|field| field.trim().parse::<u64>());
        let (Some(Ok(ms)), Some(Ok(ns))) = (fields.next(), fields.next()) else {
            bail!("fio's log has the line {line}");
        };
        if ms <= u64::from(seconds) * 1000 {
            latencies.push(ns);
        }
    }
    latencies.sort_unstable();
    let count = latencies.len();
    let at = |thousandths: usize| latencies[(count * thousandths).div_ceil(1000).max(1) - 1] as f64;
    if count == 0 {
        bail!("fio moved nothing");
    }
    let mean = latencies.iter().sum::<u64>() as f64 / count as f64;
    Ok([count as f64 / f64::from(seconds), mean, at(500), at(990), at(999)])
}

/// fio's own, of a run whose reads and writes are reported as one.
pub(super) fn of_fio(output: &str) -> Result<Sample> {
    let begin = output.find('{').context("fio printed no JSON")?;
    let end = output.rfind('}').context("fio printed no whole JSON")?;
    let document: Value = serde_json::from_str(&output[begin..=end])?;
    let number = |path: &str| {
        let value = document.pointer(&format!("/jobs/0/{path}")).and_then(Value::as_f64);
        value.with_context(|| format!("fio's output has no number at {path}"))
    };
    if number("error")?.abs() > 0.0 {
        bail!("fio's job ended with an error");
    }
    Ok([
        number("mixed/iops")?,
        number("mixed/lat_ns/mean")?,
        number("mixed/lat_ns/percentile/50.000000")?,
        number("mixed/lat_ns/percentile/99.000000")?,
        number("mixed/lat_ns/percentile/99.900000")?,
    ])
}

/// diskproof's, of a record with one case of one round.
pub(super) fn of_record(text: &str) -> Result<Sample> {
    let record: Value = serde_json::from_str(text).context("the record is not JSON")?;
    let round = &record["cases"][0]["rounds"][0];
    let measurement = &round["measurement"];
    let duration_ns = measurement["duration_ns"].as_f64();
    let duration_ns = duration_ns.with_context(|| format!("not measured: {}", round["error"]))?;
    let (mut ios, mut sum, mut count) = (0.0, 0.0, 0);
    let mut buckets: Vec<(u64, u64)> = Vec::new();
    for kind in ["read", "write"].map(|kind| &measurement["kinds"][kind]) {
        let latencies = &kind["latency_ns"];
        let Some(of_kind) = latencies["count"].as_u64() else { continue };
        ios += kind["completed"].as_f64().context("no count of I/Os")?;
        count += of_kind;
        // The high half of 64 bits is of runs of centuries.
        sum += latencies["sum"][1].as_f64().context("no sum of the latencies")?;
        for pair in latencies["buckets"].as_array().context("no buckets")? {
            buckets
                .push(pair[0].as_u64().zip(pair[1].as_u64()).context("a bucket is two numbers")?);
        }
    }
    if count == 0 {
        bail!("diskproof moved nothing");
    }
    buckets.sort_unstable();
    let at = |share| at_share(&buckets, count, share);
    Ok([ios / duration_ns * 1e9, sum / count as f64, at(0.5), at(0.99), at(0.999)])
}

/// The upper edge of the bucket in which the value of a rank lies: each power of two has 256,
/// those below 512 are of one value.
fn at_share(buckets: &[(u64, u64)], count: u64, share: f64) -> f64 {
    let (rank, mut passed) = (share * count as f64, 0);
    let found = buckets.iter().find(|(_, more)| {
        passed += more;
        passed as f64 >= rank
    });
    let Some((bucket, _)) = found else { return f64::NAN };
    let octave = (bucket >> 8).saturating_sub(1);
    let parts = bucket - (octave << 8) + 1;
    (parts as f64).mul_add((1_u64 << octave) as f64, -1.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) {
        assert!((a - b).abs() < 1e-6 * b, "{a} is not {b}");
    }

    #[test]
    fn both_programs_tell_of_reads_and_writes_together() {
        let fio = r#"note {"jobs": [{"error": 0, "mixed": {"iops": 2000.5, "lat_ns": {"mean": 5.0,
            "percentile": {"50.000000": 6, "99.000000": 7, "99.900000": 8}}}}]}"#;
        for (value, expected) in of_fio(fio).unwrap().into_iter().zip([2000.5, 5.0, 6.0, 7.0, 8.0])
        {
            close(value, expected);
        }
        assert!(of_fio(&fio.replace("\"error\": 0", "\"error\": 5")).is_err());
        let record = r#"{"cases": [{"rounds": [{"measurement":
            {"duration_ns": 2000000000, "kinds": {
            "read": {"completed": 600, "latency_ns":
                {"count": 600, "sum": [0, 60000], "buckets": [[100, 600]]}},
            "write": {"completed": 400, "latency_ns":
                {"count": 400, "sum": [0, 400000], "buckets": [[99, 1], [744, 399]]}}
        }}}]}]}"#;
        let sample = of_record(record).unwrap();
        // Bucket 744 is of the values 976 and 977: (744 - 256 + 1) x 2 - 1.
        for (value, expected) in sample.into_iter().zip([500.0, 460.0, 100.0, 977.0, 977.0]) {
            close(value, expected);
        }
        let nothing = r#"{"cases": [{"rounds": [{"error": "why", "measurement": null}]}]}"#;
        assert!(of_record(nothing).unwrap_err().to_string().contains("why"));
    }

    #[test]
    fn what_comes_back_after_the_end_is_not_of_the_run() {
        let log = "5, 100, 0, 4096, 0, 0\n1000, 300, 1, 4096, 0, 0\n1001, 900, 0, 4096, 0, 0\n";
        for (value, expected) in of_log(log, 1).unwrap().into_iter().zip([2.0, 200.0, 100.0]) {
            close(value, expected);
        }
        close(of_log(log, 1).unwrap()[4], 300.0);
        close(of_log(log, 2).unwrap()[4], 900.0);
        assert!(of_log("", 1).is_err() && of_log("a, b", 1).is_err());
    }

    #[test]
    fn what_the_cap_decides_has_to_agree() {
        let standing = |fio: f64, again: f64, ours: f64, figure| {
            let fio = [[fio; 5], [again; 5]];
            compare(&[Round { fio, summary: fio, ours: [ours; 5] }; 3], figure).standing
        };
        assert_eq!(standing(100.0, 100.0, 102.9, Figure::Iops), Standing::Agrees);
        assert_eq!(standing(100.0, 100.0, 96.9, Figure::Mean), Standing::Differs);
        assert_eq!(standing(100.0, 110.0, 109.0, Figure::Mean), Standing::WithinNoise);
        assert_eq!(standing(9e7, 9e7, 1e8, Figure::P999), Standing::Differs);
        assert_eq!(standing(1e4, 1e4, 2e4, Figure::P50), Standing::NotOfTheCap);
    }
}
