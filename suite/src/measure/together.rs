//! Several measurements of one time, side by side, as one.

use super::{BackendUsed, CpuUse, IoKind, Measurement, OpenLoop, Share, add_shares, merged_faults};
use super::{Series, StreamMeasurement, Verified};

impl Measurement {
    /// What streams that ran side by side over the same window did together: counts added,
    /// histograms merged, depths added, exactly as those of several workers are. `cpu` is the
    /// processor time of all of them, which is not told apart. `None` without any.
    #[must_use]
    pub fn together(streams: Vec<StreamMeasurement>, cpu: Option<CpuUse>) -> Option<Self> {
        let (first, rest) = streams.split_first()?;
        let mut sum = first.measurement.clone();
        sum.workers = named(first);
        for stream in rest {
            sum.join(stream);
        }
        sum.cpu = cpu;
        sum.backend = backend(&streams);
        sum.streams = streams;
        Some(sum)
    }

    fn join(&mut self, stream: &StreamMeasurement) {
        let other = &stream.measurement;
        self.duration_ns = self.duration_ns.max(other.duration_ns);
        self.drain_ns = self.drain_ns.max(other.drain_ns);
        for kind in IoKind::ALL {
            let (figures, more) = (&mut self.kinds[kind], &other.kinds[kind]);
            figures.completed += more.completed;
            figures.bytes += more.bytes;
            figures.latency_ns.merge(&more.latency_ns);
        }
        join_series(&mut self.series, &other.series);
        self.queue_depth_achieved += other.queue_depth_achieved;
        self.open = either(self.open.take(), other.open.clone(), OpenLoop::add);
        self.verified = either(self.verified.take(), other.verified.clone(), Verified::add);
        self.faults = merged_faults(self.faults.iter().chain(&other.faults));
        self.short_transfers += other.short_transfers;
        self.clock_anomalies += other.clock_anomalies;
        self.workers.extend(named(stream));
        add_shares(&mut self.members, &other.members);
    }
}

/// A stream's workers, named for it.
fn named(stream: &StreamMeasurement) -> Vec<Share> {
    let workers = stream.measurement.workers.iter();
    let named = workers
        .map(|share| Share { name: format!("{} {}", stream.name, share.name), ..share.clone() });
    named.collect()
}

fn join_series(mine: &mut Series, theirs: &Series) {
    mine.window_ns = mine.window_ns.max(theirs.window_ns);
    let lists = [(&mut mine.completed, &theirs.completed), (&mut mine.bytes, &theirs.bytes)];
    for (mine, theirs) in lists {
        mine.resize(mine.len().max(theirs.len()), 0);
        mine.iter_mut().zip(theirs).for_each(|(sum, more)| *sum += more);
    }
}

fn either<T>(mine: Option<T>, theirs: Option<T>, add: fn(&mut T, &T)) -> Option<T> {
    match (mine, theirs) {
        (Some(mut mine), Some(theirs)) => {
            add(&mut mine, &theirs);
            Some(mine)
        }
        (mine, theirs) => mine.or(theirs),
    }
}

/// The way of all streams, or those of each.
fn backend(streams: &[StreamMeasurement]) -> BackendUsed {
    let of = |stream: &StreamMeasurement| stream.measurement.backend.clone();
    let mut names: Vec<String> = streams.iter().map(|stream| of(stream).name).collect();
    names.sort_unstable();
    names.dedup();
    let whys = streams.iter().map(|stream| format!("{}: {}", stream.name, of(stream).why));
    let mut features: Vec<String> = Vec::new();
    for feature in streams.iter().flat_map(|stream| of(stream).features) {
        if !features.contains(&feature) {
            features.push(feature);
        }
    }
    let whys: Vec<_> = whys.collect();
    BackendUsed { name: names.join(" and "), why: whys.join("; "), features }
}
