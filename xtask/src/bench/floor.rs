//! The bare loop, as it is run and read.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use serde_json::Value;

use super::figures::Counted;
use super::places::Spot;
use super::process::{self, Manner};
use super::rows::{Backend, Work};
use super::sides::Length;

/// How many I/Os are submitted, and how many are waited for, at a time; none without a ring.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Batches(Option<(u32, u32)>);

impl Batches {
    /// All that may be the best for a pattern: as many at a time as are waited for, and all at
    /// once.
    pub(super) fn candidates(work: &Work) -> Vec<Self> {
        if work.backend != Backend::Ring {
            return vec![Self(None)];
        }
        let sizes = [1, 4, 8, 16, 32].into_iter().filter(|size| *size < work.depth);
        let mut all: Vec<_> = sizes.map(|size| Self(Some((size, size)))).collect();
        all.push(Self(Some((work.depth, work.depth))));
        if work.depth > 1 {
            all.push(Self(Some((work.depth, 1))));
        }
        all
    }

    /// One of those, without a search: a quarter of the depth.
    pub(super) fn some(work: &Work) -> Self {
        let batch = (work.depth / 4).max(1);
        Self((work.backend == Backend::Ring).then_some((batch, batch)))
    }

    /// What the table calls it.
    pub(super) fn name(self) -> String {
        match self.0 {
            None => "pread and pwrite".to_owned(),
            Some((batch, wait)) if batch == wait => format!("batches of {batch}"),
            Some((batch, wait)) => format!("batches of {batch}, waits for {wait}"),
        }
    }

    /// The whole command; `program` is xtask, built with optimisations.
    pub(super) fn command(
        self,
        program: &Path,
        work: &Work,
        spot: &Spot,
        length: Length,
    ) -> Command {
        let mut command = Command::new(program);
        command.arg("floor").arg("--file").arg(&spot.path);
        command.arg(format!("--size={}", spot.bytes)).arg(format!("--rw={}", work.rw));
        command.arg(format!("--block={}", work.block_bytes()));
        if spot.place.is_direct() {
            command.arg("--direct");
        }
        if let Some((batch, wait)) = self.0 {
            command.arg(format!("--depth={}", work.depth));
            command.arg(format!("--batch={batch}")).arg(format!("--wait={wait}"));
        }
        command.arg(match length {
            Length::Microseconds(us) => format!("--microseconds={us}"),
            Length::Ios(ios) => format!("--count={ios}"),
        });
        command
    }

    /// Runs a pattern.
    pub(super) fn run(
        self,
        program: &Path,
        work: &Work,
        spot: &Spot,
        length: Length,
        manner: Manner,
    ) -> Result<Counted> {
        let ended = process::run(&mut self.command(program, work, spot, length), manner)?;
        Ok(Counted { cpu_ns: ended.cpu_ns, ..parse(&ended.stdout)? })
    }
}

fn parse(output: &str) -> Result<Counted> {
    let line: Value = serde_json::from_str(output.trim()).context("the loop printed no JSON")?;
    let number = |key: &str| line[key].as_f64().filter(|n| *n > 0.0);
    let (ios, ns) = number("ios").zip(number("ns")).context("the loop moved nothing")?;
    // It has no latencies.
    Ok(Counted { ios, duration_ns: ns, latency_ns: f64::NAN, cpu_ns: 0.0 })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_line_is_read() {
        let counted = parse("{\"ios\":5,\"ns\":1000}\n").unwrap();
        assert_eq!((counted.ios, counted.duration_ns), (5.0, 1000.0));
        assert!(parse("{\"ios\":0,\"ns\":1000}").is_err());
        assert!(parse("").is_err());
    }

    #[test]
    fn batches_are_of_at_most_the_depth() {
        let of = |depth, backend| {
            let work = Work { rw: "randread", block_kib: 4, depth, backend };
            Batches::candidates(&work).into_iter().map(|batches| batches.0).collect::<Vec<_>>()
        };
        assert_eq!(of(1, Backend::Ring), [Some((1, 1))]);
        assert_eq!(of(8, Backend::Ring).len(), 4);
        assert!(of(8, Backend::Ring).iter().flatten().all(|(a, b)| *a <= 8 && *b <= 8));
        assert_eq!(of(1, Backend::Chosen), [None]);
    }
}
