//! From what the workers counted to a [`Measurement`].

use super::driver::{Common, Done};
use super::tally::{Count, Counted, Fault, Lane, NEVER, Tally, Window, data};
use crate::engine::Job;
use crate::measure::{
    BackendUsed, CpuUse, IoFault, IoKind, KindFigures, Measurement, OpenLoop, PerKind, Series,
    Share,
};
use crate::units::Nanos;

use super::tally::Failure;

/// The flush of one member at the end of a job.
#[derive(Debug, Clone, Copy)]
pub(super) struct FinalSync {
    pub(super) started: u64,
    pub(super) ended: u64,
    /// The error number, if it failed.
    pub(super) errno: Option<i32>,
}

/// A run whose I/Os are all done.
pub(super) struct Outcome<'run> {
    pub(super) job: &'run Job,
    pub(super) members: Vec<String>,
    /// The start line.
    pub(super) start: u64,
    pub(super) common: &'run Common,
    pub(super) lanes: &'run [Lane],
    pub(super) workers: Vec<Done>,
    pub(super) backend: BackendUsed,
}

impl Outcome<'_> {
    /// When the last I/O was done.
    pub(super) fn ended(&self) -> u64 {
        self.workers.iter().map(|done| done.counted.ended).max().unwrap_or(self.start)
    }

    /// The measurement, with the flush of each member at the end, if there was one. `cpu` is the
    /// processor time of the window, where there is a processor.
    pub(super) fn measurement(self, syncs: &[FinalSync], cpu: Option<CpuUse>) -> Measurement {
        let job = self.job;
        let lane = Lane::default();
        let last = self.count_syncs(&lane, syncs);
        let window = Window::of(job, self.start);
        let closed = match window.end {
            NEVER => self.ended().max(last.ended),
            end => end.min(self.common.end()),
        };
        let duration = closed.saturating_sub(window.start);
        let latency = |kind| {
            let mut all = lane.latency[kind as usize].snapshot();
            self.lanes.iter().for_each(|lane| all.merge(&lane.latency[kind as usize].snapshot()));
            all
        };
        let mut kinds = PerKind::<KindFigures>::default();
        for kind in IoKind::ALL {
            kinds[kind].latency_ns = latency(kind);
        }
        let drain = match self.common.end() {
            NEVER => 0,
            end => self.ended().saturating_sub(end),
        };
        let open = self.open_loop();
        let counted: Vec<Counted> = self.workers.into_iter().map(|done| done.counted).collect();
        let workers = counted
            .iter()
            .enumerate()
            .map(|(number, counted)| share(format!("worker {number}"), data(&counted.kinds)));
        let mut measured = Measurement {
            duration_ns: Nanos(duration),
            drain_ns: Nanos(drain),
            kinds,
            series: Series::default(),
            queue_depth_achieved: 0.0,
            cpu,
            device: None,
            open,
            verified: None,
            faults: Vec::new(),
            short_transfers: 0,
            clock_anomalies: 0,
            workers: workers.collect(),
            members: self
                .members
                .iter()
                .map(|name| share(name.clone(), Count::default()))
                .collect(),
            backend: self.backend,
            streams: Vec::new(),
        };
        add_all(&mut measured, counted, last, job, &self.members);
        measured
    }

    /// What an open loop has besides.
    fn open_loop(&self) -> Option<OpenLoop> {
        let mut lanes = self.lanes.iter().filter_map(|lane| lane.open.as_ref());
        let first = lanes.next()?;
        let (mut service, mut lateness) = (first.service.snapshot(), first.lateness.snapshot());
        for lane in lanes {
            service.merge(&lane.service.snapshot());
            lateness.merge(&lane.lateness.snapshot());
        }
        let counted = || self.workers.iter().map(|done| &done.counted);
        Some(OpenLoop {
            due: counted().map(|one| one.due + one.dropped).sum(),
            dropped: counted().map(|one| one.dropped).sum(),
            service_ns: service,
            lateness_ns: lateness,
        })
    }

    /// The flush at the end is one I/O, as any other flush of a stripe is: it is done with its
    /// last member, and fails with the first that does.
    fn count_syncs(&self, lane: &Lane, syncs: &[FinalSync]) -> Counted {
        let mut tally = Tally::new(lane, self.job, self.members.len());
        tally.begin(self.job, self.start);
        let started = syncs.iter().map(|sync| sync.started).min();
        let ended = syncs.iter().map(|sync| sync.ended).max();
        if let Some((started, ended)) = started.zip(ended) {
            tally.submitted(started, 1);
            tally.reaped(ended);
            let failed = (0..).zip(syncs).filter_map(|(member, sync)| {
                Some((sync.ended, Failure { errno: sync.errno?, member, offset: 0 }))
            });
            match failed.min_by_key(|(ended, _)| *ended) {
                None => tally.completed(IoKind::Sync, started, 0),
                Some((_, failure)) => tally.failed(IoKind::Sync, failure),
            }
        }
        tally.finish()
    }
}

fn add_all(
    measured: &mut Measurement,
    counted: Vec<Counted>,
    last: Counted,
    job: &Job,
    members: &[String],
) {
    let duration = measured.duration_ns.0;
    let mut depth_ns = 0;
    let mut series = None;
    for counted in counted.into_iter().chain([last]) {
        for kind in IoKind::ALL {
            let Count { ios, bytes } = counted.kinds[kind as usize];
            measured.kinds[kind].completed += ios;
            measured.kinds[kind].bytes += bytes;
        }
        for (share, count) in measured.members.iter_mut().zip(&counted.members) {
            share.completed += count.ios;
            share.bytes += count.bytes;
        }
        for fault in &counted.faults {
            add_fault(&mut measured.faults, fault, members);
        }
        depth_ns += counted.depth_ns;
        if let Some(verified) = &counted.verified {
            measured.verified.get_or_insert_default().add(verified);
        }
        measured.short_transfers += counted.short_transfers;
        measured.clock_anomalies += counted.clock_anomalies;
        series = Some(match series {
            None => counted.series,
            Some(mut all) => {
                super::series::Intervals::merge(&mut all, counted.series);
                all
            }
        });
    }
    if duration > 0 {
        measured.queue_depth_achieved = depth_ns as f64 / duration as f64;
    }
    if let Some(series) = series {
        measured.series = series.finish(duration, job.series_interval.0);
    }
}

fn add_fault(faults: &mut Vec<IoFault>, fault: &Fault, members: &[String]) {
    let errno = fault.first.errno;
    match faults.iter_mut().find(|known| known.kind == fault.kind && known.errno == errno) {
        Some(known) => known.count += fault.count,
        None => faults.push(IoFault {
            kind: fault.kind,
            errno,
            count: fault.count,
            disk: members[fault.first.member as usize].clone(),
            first_offset: fault.first.offset,
        }),
    }
}

fn share(name: String, count: Count) -> Share {
    Share { name, completed: count.ios, bytes: count.bytes }
}
