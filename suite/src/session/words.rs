//! A case in words: for people in a hurry, and every parameter for those who are not.

use crate::plan::{
    Access, Arrivals, Blocks, Cache, Case, Data, EngineChoice, Layout, Limit, Pace, Place, Rate,
    Rw, Setup, Sync, ThinkTime, Workload,
};
use crate::record::StreamRecord;
use crate::units::{Bytes, Nanos, counted};

/// What a case does, in one line: `random 4KiB reads, depth 32, 10s`.
#[must_use]
pub fn sentence(workload: &Workload) -> String {
    if !workload.streams.is_empty() {
        let streams = workload.streams.iter();
        let each = streams.map(|one| format!("{}: {}", one.name, load(&one.workload).join(", ")));
        let all: Vec<_> = each.chain([limit(workload)]).collect();
        return all.join("; ");
    }
    let mut parts = load(workload);
    parts.push(limit(workload));
    parts.join(", ")
}

/// The same for where streams have lines of their own: what all of them have in common.
#[must_use]
pub fn heading(workload: &Workload) -> String {
    match workload.streams.len() {
        0 => sentence(workload),
        count => format!("{} side by side, {}", counted(count, "stream"), limit(workload)),
    }
}

/// Its streams by their names, and what each does.
#[must_use]
pub fn streams_in_words(workload: &Workload) -> Vec<(String, String)> {
    let streams = workload.streams.iter();
    streams.map(|one| (one.name.clone(), load(&one.workload).join(", "))).collect()
}

fn limit(workload: &Workload) -> String {
    match workload.limit {
        Limit::Runtime(time) => time.to_string(),
        Limit::Amount(bytes) => bytes.to_string(),
    }
}

/// What a load does, but for how long.
fn load(workload: &Workload) -> Vec<String> {
    let order = match (workload.rw.is_random(), workload.once) {
        (true, true) => "every block once:",
        (true, false) => "random",
        (false, _) => "sequential",
    };
    let kinds = match workload.rw {
        Rw::Read | Rw::RandRead => "reads".to_owned(),
        Rw::Write | Rw::RandWrite => "writes".to_owned(),
        Rw::Trim | Rw::RandTrim => "trims".to_owned(),
        Rw::ReadWrite | Rw::RandRw => format!("I/Os, {} reads", workload.read_percent),
    };
    let mut parts = vec![format!("{order} {} {kinds}", blocks(&workload.blocks))];
    parts.extend(access(workload.access));
    if workload.workers > 1 {
        parts.push(format!("{} workers", workload.workers));
    }
    parts.push(format!("depth {}", workload.queue_depth));
    if workload.cache == Cache::Buffered {
        parts.push("buffered".to_owned());
    }
    match workload.sync {
        Sync::None => {}
        Sync::Dsync => parts.push("write-through (dsync)".to_owned()),
        Sync::Sync => parts.push("write-through (sync)".to_owned()),
    }
    if let Some(flush) = workload.flush {
        let call = if flush.data_only { "fdatasync" } else { "fsync" };
        parts.push(format!("{call} every {}", flush.writes));
    }
    if workload.hipri {
        parts.push("polled".to_owned());
    }
    if workload.sqpoll {
        parts.push("submitted by a kernel thread".to_owned());
    }
    if workload.verify {
        parts.push("verified".to_owned());
    }
    parts.extend(pace(workload.pace).map(|(words, _)| words));
    parts
}

/// Every parameter that shapes the load, in the plan's spelling: what two records must have in
/// common to be comparable.
pub(super) fn parameters(case: &Case, setup: &Setup) -> Vec<(String, String)> {
    if case.workload.streams.is_empty() {
        return of_load(&case.workload, setup);
    }
    // What all streams have is said once, and what is one's own with its name.
    let streams = streams(case, setup);
    let common = |pair: &(String, String)| streams.iter().all(|one| one.parameters.contains(pair));
    let names: Vec<_> = streams.iter().map(|stream| stream.name.as_str()).collect();
    let mut list = vec![("streams".to_owned(), names.join(", "))];
    list.extend(streams[0].parameters.iter().filter(|pair| common(pair)).cloned());
    for stream in &streams {
        let own = stream.parameters.iter().filter(|pair| !common(pair));
        list.extend(own.map(|(key, value)| (format!("{}.{key}", stream.name), value.clone())));
    }
    list
}

/// The streams of a case, for its record.
pub(super) fn streams(case: &Case, setup: &Setup) -> Vec<StreamRecord> {
    let streams = case.workload.streams.iter().map(|stream| StreamRecord {
        name: stream.name.clone(),
        what: sentence(&stream.workload),
        parameters: of_load(&stream.workload, setup),
        engine_iops_max: None,
    });
    streams.collect()
}

fn of_load(workload: &Workload, setup: &Setup) -> Vec<(String, String)> {
    let mut list = Vec::new();
    let mut say = |key: &str, value: String| list.push((key.to_owned(), value));
    say("disks", setup.disks.len().to_string());
    if let Some(stripe) = setup.stripe {
        say("chunk", stripe.chunk.to_string());
    }
    say("rw", rw_word(workload.rw).to_owned());
    if workload.rw.is_mixed() {
        say("read_percent", workload.read_percent.0.to_string());
    }
    say("block_size", blocks(&workload.blocks));
    say("queue_depth", workload.queue_depth.to_string());
    say("workers", workload.workers.to_string());
    say("layout", if workload.layout == Layout::Shared { "shared" } else { "partitioned" }.into());
    if workload.region.offset != Place::Bytes(Bytes(0)) {
        say("offset", place(workload.region.offset));
    }
    if let Some(size) = workload.region.size {
        say("size", place(size));
    }
    if let Some(access) = access(workload.access) {
        say("access", access);
    }
    if workload.once {
        say("once", "true".to_owned());
    }
    if let Some((_, keys)) = pace(workload.pace) {
        for (key, value) in keys {
            say(key, value);
        }
    }
    match workload.limit {
        Limit::Runtime(time) => say("runtime", time.to_string()),
        Limit::Amount(bytes) => say("amount", bytes.to_string()),
    }
    for (key, time) in [("warmup", workload.warmup), ("cooldown", workload.cooldown)] {
        if time != Nanos(0) {
            say(key, time.to_string());
        }
    }
    say("cache", if workload.cache == Cache::Direct { "direct" } else { "buffered" }.to_owned());
    if workload.writes() {
        write_parameters(workload, &mut say);
    }
    if workload.verify {
        say("verify", "true".to_owned());
    }
    say("engine", engine_word(workload.engine).to_owned());
    for (key, on) in [("hipri", workload.hipri), ("sqpoll", workload.sqpoll)] {
        if on {
            say(key, "true".to_owned());
        }
    }
    if !workload.cpus.is_empty() {
        let cpus: Vec<_> = workload.cpus.iter().map(usize::to_string).collect();
        say("cpus", cpus.join(","));
    }
    say("seed", workload.seed.to_string());
    list
}

fn write_parameters(workload: &Workload, say: &mut impl FnMut(&str, String)) {
    let sync = match workload.sync {
        Sync::None => "none",
        Sync::Dsync => "dsync",
        Sync::Sync => "sync",
    };
    say("sync", sync.to_owned());
    if let Some(flush) = workload.flush {
        let key = if flush.data_only { "fdatasync_every" } else { "fsync_every" };
        say(key, flush.writes.to_string());
    }
    if workload.fsync_at_end {
        say("fsync_at_end", "true".to_owned());
    }
    let data = match workload.data {
        Data::Random => "random".to_owned(),
        Data::Zero => "zero".to_owned(),
        Data::Compressible(share) => format!("compressible {share}"),
        Data::Duplicate(share) => format!("duplicate {share}"),
    };
    say("data", data);
}

/// When I/Os are begun, as a part of a sentence and in the plan's keys; `None` of a closed loop.
fn pace(pace: Pace) -> Option<(String, Vec<(&'static str, String)>)> {
    Some(match pace {
        Pace::Closed => return None,
        Pace::Open { rate, arrivals, max_lateness } => {
            let rate = match rate {
                Rate::Iops(rate) => format!("{rate} iops"),
                Rate::Bandwidth(_) => rate.to_string(),
            };
            let word = if arrivals == Arrivals::Even { "even" } else { "poisson" };
            let words = match arrivals {
                Arrivals::Even => format!("at {rate}"),
                Arrivals::Poisson => format!("at {rate} (Poisson)"),
            };
            let mut keys = vec![("rate", rate), ("arrivals", word.to_owned())];
            keys.extend(max_lateness.map(|most| ("max_lateness", most.to_string())));
            (words, keys)
        }
        Pace::Think(ThinkTime { pause, after: 1 }) => {
            (format!("{pause} apart"), vec![("think_time", pause.to_string())])
        }
        Pace::Think(ThinkTime { pause, after }) => (
            format!("{pause} after every {after}"),
            vec![("think_time", format!("{pause} after {after}"))],
        ),
    })
}

/// `None` where no place is favoured.
fn access(access: Access) -> Option<String> {
    Some(match access {
        Access::Uniform => return None,
        Access::Zipf(theta) => format!("zipf {theta}"),
        Access::Pareto(share) => format!("pareto {share}"),
        Access::Normal(percent) => format!("normal {percent}"),
        Access::Hot { ios, region } => format!("hot {}/{}", ios.0, region.0),
    })
}

fn blocks(blocks: &Blocks) -> String {
    match blocks.0.as_slice() {
        [(only, _)] => only.to_string(),
        several => {
            let shares: Vec<_> =
                several.iter().map(|(size, share)| format!("{size}:{share}")).collect();
            shares.join("/")
        }
    }
}

fn place(place: Place) -> String {
    match place {
        Place::Bytes(bytes) => bytes.to_string(),
        Place::Percent(percent) => percent.to_string(),
    }
}

fn rw_word(rw: Rw) -> &'static str {
    match rw {
        Rw::Read => "read",
        Rw::Write => "write",
        Rw::RandRead => "randread",
        Rw::RandWrite => "randwrite",
        Rw::ReadWrite => "readwrite",
        Rw::RandRw => "randrw",
        Rw::Trim => "trim",
        Rw::RandTrim => "randtrim",
    }
}

fn engine_word(engine: EngineChoice) -> &'static str {
    match engine {
        EngineChoice::Auto => "auto",
        EngineChoice::IoUring => "io_uring",
        EngineChoice::Libaio => "libaio",
        EngineChoice::Sync => "sync",
    }
}
