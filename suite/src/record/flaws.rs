//! What a document that has the right shape may still have wrong.
//!
//! Whoever reads a record adds its counts up and looks its indices up. That is safe on every
//! record that passes here, wherever the file came from.

use std::collections::HashSet;

use super::{CaseRecord, Record};
use crate::measure::{IoKind, Measurement, Series, Share};

impl Record {
    /// The first thing that is wrong, as half a sentence; `None` of a sound record.
    pub(super) fn flaw(&self) -> Option<String> {
        let mut ids = HashSet::new();
        if let Some(case) = self.cases.iter().find(|case| !ids.insert(case.id.as_str())) {
            return Some(format!("two of its cases are called {}", case.id));
        }
        if let Some((case, _)) = self.schedule.iter().find(|(case, _)| *case >= self.cases.len()) {
            return Some(format!(
                "its schedule names case {case}, but it has {} cases",
                self.cases.len()
            ));
        }
        if let Some(case) = self.cases.iter().find(|case| total(case) > u128::from(u64::MAX)) {
            return Some(format!("the counts of case {} are more than can be", case.id));
        }
        for case in &self.cases {
            for measurement in case.measured() {
                if let Some(flaw) = flaw_of(measurement) {
                    return Some(format!("{flaw}, in case {}", case.id));
                }
            }
        }
        self.verdicts.iter().find_map(|verdict| {
            let evidence = &verdict.evidence;
            let single = [evidence.measured, evidence.reference_value, evidence.ratio];
            let mut figures = single
                .iter()
                .chain(&evidence.rounds)
                .flatten()
                .chain(&evidence.limits)
                .filter(|figure| !figure.is_finite());
            figures.next().map(|_| {
                format!("a figure of `{}` on {} is not a number", verdict.condition, verdict.case)
            })
        })
    }
}

fn flaw_of(measurement: &Measurement) -> Option<&'static str> {
    let busy = measurement.device.map_or(0.0, |device| device.utilization_percent);
    if !measurement.queue_depth_achieved.is_finite() || !busy.is_finite() {
        return Some("a queue depth or a utilization is not a number");
    }
    let Series { interval_ns, completed, bytes, .. } = &measurement.series;
    if completed.len() != bytes.len() {
        return Some("a series has other intervals for its I/Os than for its bytes");
    }
    if interval_ns.0 == 0 && !completed.is_empty() {
        return Some("a series has intervals without a length");
    }
    measurement.streams.iter().find_map(|stream| flaw_of(&stream.measurement))
}

/// Every count of a case added up. While that fits 64 bits, so does every sum of some of them.
fn total(case: &CaseRecord) -> u128 {
    case.measured().into_iter().map(total_of_round).sum()
}

fn total_of_round(measurement: &Measurement) -> u128 {
    let shares = |shares: &[Share]| -> u128 {
        shares.iter().map(|share| u128::from(share.completed) + u128::from(share.bytes)).sum()
    };
    let list = |counts: &[u64]| -> u128 { counts.iter().map(|count| u128::from(*count)).sum() };
    let kinds = IoKind::ALL.map(|kind| {
        let figures = &measurement.kinds[kind];
        list(&[figures.completed, figures.bytes, figures.latency_ns.count()])
    });
    let cpu = measurement.cpu.unwrap_or_default();
    let device = measurement.device.unwrap_or_default();
    let faults: u128 = measurement.faults.iter().map(|fault| u128::from(fault.count)).sum();
    let single = [
        measurement.duration_ns.0,
        cpu.user_ns,
        cpu.system_ns,
        device.read_bytes,
        device.written_bytes,
        measurement.short_transfers,
        measurement.clock_anomalies,
    ];
    list(&single)
        + kinds.iter().sum::<u128>()
        + faults
        + list(&measurement.series.completed)
        + list(&measurement.series.bytes)
        + shares(&measurement.workers)
        + shares(&measurement.members)
        + measurement.streams.iter().map(|one| total_of_round(&one.measurement)).sum::<u128>()
}
