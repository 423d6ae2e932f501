//! Plans for tests, made by hand: cases by name, and conditions on them.

use crate::measure::IoKind;
use crate::plan::{
    Access, Against, Assertion, Blocks, Cache, Case, CaseId, Comparison, Condition, Data,
    EngineChoice, Inconclusive, Layout, Level, Limit, Measure, Metric, Order, Place, Plan, Point,
    Region, Rounds, RunOptions, Rw, Sync, Test, Workload,
};
use crate::units::{Bytes, Nanos, Percent, Percentile};

pub(super) const IOPS: Metric = Metric { kind: None, measure: Measure::Iops };
pub(super) const MEAN: Metric = Metric { kind: Some(IoKind::Read), measure: Measure::LatencyMean };
pub(super) const ERRORS: Metric = Metric { kind: None, measure: Measure::Errors };

/// `latency.pN`, of millionths.
pub(super) fn percentile(rank: u32) -> Metric {
    Metric { kind: None, measure: Measure::LatencyPercentile(Percentile(rank)) }
}

/// Every measure there is.
pub(super) const MEASURES: [Measure; 13] = [
    Measure::Iops,
    Measure::Bandwidth,
    Measure::LatencyMin,
    Measure::LatencyMean,
    Measure::LatencyMax,
    Measure::LatencyStddev,
    Measure::LatencyPercentile(Percentile(990_000)),
    Measure::Errors,
    Measure::VerifyErrors,
    Measure::CpuUser,
    Measure::CpuSystem,
    Measure::CpuPerIo,
    Measure::DeviceUtilization,
];

pub(super) fn at_most(limit: f64) -> Test {
    Test::Constant(Comparison::LessOrEqual, limit)
}

pub(super) fn at_least(limit: f64) -> Test {
    Test::Constant(Comparison::GreaterOrEqual, limit)
}

/// `factor x` the case with this index.
pub(super) fn times(comparison: Comparison, factor: f64, case: usize) -> Test {
    Test::Times(comparison, factor, Against::Case(case, "lrs".to_owned()))
}

/// A plan of these cases that wants one round.
pub(super) fn plan(cases: &[&str]) -> Plan {
    Plan {
        name: "sample".to_owned(),
        description: None,
        profile: None,
        disks: Vec::new(),
        setups: Vec::new(),
        cases: cases.iter().map(|id| case(id)).collect(),
        assertions: Vec::new(),
        run: RunOptions {
            rounds: Rounds { min: 1, max: 12 },
            order: Order::Balanced,
            inconclusive: Inconclusive::Open,
        },
    }
}

impl Plan {
    /// The plan with one more gate, on the case with this index.
    pub(super) fn expecting(mut self, case: usize, metric: Metric, test: Test) -> Self {
        self.assertions.push(Assertion {
            stream: None,
            case,
            text: format!("{metric} as expected"),
            condition: Condition { metric, test },
            why: Some("of the test".to_owned()),
            level: Level::Gate,
            line: 7,
        });
        self
    }

    /// The plan whose last condition can't fail the run.
    pub(super) fn warning_only(mut self) -> Self {
        if let Some(last) = self.assertions.last_mut() {
            last.level = Level::Warn;
        }
        self
    }
}

fn case(id: &str) -> Case {
    let (setup, name) = id.split_once('/').expect("setup/workload");
    Case {
        id: CaseId {
            setup: setup.to_owned(),
            setup_point: Point::default(),
            workload: name.to_owned(),
            workload_point: Point::default(),
            stream: None,
        },
        setup: 0,
        workload: workload(),
    }
}

/// A second of random reads, one after the other.
pub(super) fn workload() -> Workload {
    Workload {
        rw: Rw::RandRead,
        read_percent: Percent(100),
        blocks: Blocks(vec![(Bytes(4096), 1)]),
        queue_depth: 1,
        workers: 1,
        layout: Layout::Shared,
        region: Region { offset: Place::Bytes(Bytes(0)), size: None },
        access: Access::Uniform,
        once: false,
        pace: crate::plan::Pace::Closed,
        limit: Limit::Runtime(Nanos(1_000_000_000)),
        warmup: Nanos(0),
        cooldown: Nanos(0),
        cache: Cache::Direct,
        sync: Sync::None,
        flush: None,
        fsync_at_end: false,
        data: Data::Random,
        verify: false,
        engine: EngineChoice::Auto,
        hipri: false,
        sqpoll: false,
        cpus: Vec::new(),
        seed: 1,
        streams: Vec::new(),
    }
}
