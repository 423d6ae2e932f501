//! What the program really asks of the kernel, seen by strace and held against what the plan says:
//! kinds, sizes, places, shares, times. Nothing here believes the program's own figures.

use std::process::Command;

use crate::support::{Live, Scratch, skip};

/// One call of a worker.
#[derive(Debug, Clone)]
struct Call {
    /// When, in seconds.
    at: f64,
    /// `pread64` and its like.
    name: String,
    /// Length and offset, of those that have them.
    len: u64,
    offset: u64,
    /// The whole line, for flags.
    line: String,
}

impl Call {
    fn is_read(&self) -> bool {
        self.name.starts_with("pread")
    }
}

/// The calls of the workers of one round of this workload on a disk of 4 MiB, in the order of their
/// time; `None`, and the test is skipped, where strace can't be had.
fn issued(test: &str, workload: &str) -> Option<Vec<Call>> {
    let seen = traced(test, &load(workload), 1)?;
    let calls: Vec<_> = seen.lines().filter_map(parse).collect();
    assert!(!calls.is_empty(), "{seen}");
    Some(calls)
}

/// A workload of this text, by calls that strace sees.
fn load(workload: &str) -> String {
    format!("[workloads.load]\nengine = 'sync'\n{workload}\n")
}

/// What strace says of a run of these workloads on a disk of 4 MiB.
fn traced(test: &str, workloads: &str, rounds: u32) -> Option<String> {
    let can = Command::new("strace").args(["-o", "/dev/null", "true"]).output();
    if !can.is_ok_and(|output| output.status.success()) {
        skip(test, "strace is not there, or may not trace", "install strace, and allow ptrace");
        return None;
    }
    let scratch = Scratch::new();
    let plan = format!(
        "name = 'traced'\ndisks.a.size = '4MiB'\nsetups.s.disks = ['a']\n{workloads}\
         [[expect]]\ncase = '*'\nthat = 'errors = 0'\n[run]\nrounds = {rounds}\n"
    );
    let run = scratch.plan_command(&plan, &["--progress", "none"]);
    let mut traced = Command::new("strace");
    traced.args(["-f", "--decode-pids=comm", "-ttt", "-s", "0", "-qq", "-y", "-o", "trace"]);
    traced.args(["-e", "trace=pread64,pwrite64,pwritev2,fsync,fdatasync,fallocate"]);
    traced.arg(run.get_program()).args(run.get_args());
    scratch.prepare(&mut traced);
    let ran = Live::start(&mut traced).finish();
    assert_eq!(ran.status.code(), Some(0), "{}{}", ran.stdout, ran.stderr);
    Some(scratch.read("trace"))
}

/// A line such as `123<worker 0> 1700000000.000001 pread64(9, ""..., 4096, 8192) = 4096`.
fn parse(line: &str) -> Option<Call> {
    let (thread, _) = line.split_once("> ")?;
    thread.contains("<worker ").then(|| parse_of_any(line))?
}

/// The same of any thread.
fn parse_of_any(line: &str) -> Option<Call> {
    let (_, rest) = line.split_once("> ")?;
    // The second half of a call that was interrupted by another says nothing new.
    // What goes to the null device is the look at what the engine could do at all.
    if rest.contains("<... ") || rest.contains("</dev/null>") {
        return None;
    }
    let (at, rest) = rest.trim_start().split_once(' ')?;
    let (name, arguments) = rest.split_once('(')?;
    let arguments = arguments.split(" <unfinished").next()?;
    let arguments = arguments.rsplit_once(") = ").map_or(arguments, |(inside, _)| inside);
    let number = |text: &str| {
        let digits: String = text.chars().filter(char::is_ascii_digit).collect();
        digits.parse().unwrap_or(0)
    };
    let list: Vec<&str> = arguments.split(", ").collect();
    let (len, offset) = match name {
        "pread64" | "pwrite64" => (number(list.get(2)?), number(list.get(3)?)),
        // strace leaves the list of buffers out: all of it was written, says the result.
        "pwritev2" => (number(line.rsplit("= ").next()?), number(list.get(list.len() - 2)?)),
        "fallocate" => (number(list.get(3)?), number(list.get(2)?)),
        _ => (0, 0),
    };
    let (at, name, line) = (at.parse().ok()?, name.to_owned(), line.to_owned());
    Some(Call { at, name, len, offset, line })
}

/// Pearson's statistic of counts against shares.
fn chi_square(counts: &[u64], shares: &[f64]) -> f64 {
    let all: u64 = counts.iter().sum();
    let whole: f64 = shares.iter().sum();
    let off = |(count, share): (&u64, &f64)| {
        let expected = all as f64 * share / whole;
        (*count as f64 - expected).powi(2) / expected
    };
    counts.iter().zip(shares).map(off).sum()
}

/// How many of the calls start in each of so many equal parts of the disk.
fn places(calls: &[Call], parts: usize) -> Vec<u64> {
    let mut counts = vec![0; parts];
    for call in calls {
        counts[((call.offset * parts as u64) >> 22) as usize] += 1;
    }
    counts
}

#[test]
fn random_reads_are_even_over_the_region_and_aligned() {
    let test = "issued::random_reads_are_even_over_the_region_and_aligned";
    let workload = "rw = 'randread'\namount = '8MiB'\noffset = '1MiB'\nsize = '2MiB'";
    let Some(calls) = issued(test, workload) else { return };
    assert_eq!(calls.len(), 2048);
    assert!(calls.iter().all(|call| call.is_read() && call.len == 4096), "{:?}", calls[0]);
    assert!(calls.iter().all(|call| call.offset.is_multiple_of(4096)));
    let region = (1 << 20)..(3 << 20);
    assert!(calls.iter().all(|call| region.contains(&call.offset)));
    let counts = places(&calls, 32);
    let statistic = chi_square(&counts[8..24], &[1.0; 16]);
    assert!(statistic < 37.70, "15 degrees of freedom at 0.001: {statistic}");
}

#[test]
fn kinds_and_sizes_have_their_exact_shares_and_no_order() {
    let test = "issued::kinds_and_sizes_have_their_exact_shares_and_no_order";
    let workload = "rw = 'randrw'\nread_percent = 70\namount = '32MiB'\n\
                    block_size = { '4KiB' = 60, '16KiB' = 40 }";
    let Some(calls) = issued(test, workload) else { return };
    // Whole decks of a hundred are exact; the last one is cut off by the amount.
    let decks = calls.len() / 100;
    assert!(decks >= 30, "{}", calls.len());
    for deck in calls.chunks_exact(100) {
        assert_eq!(deck.iter().filter(|call| call.is_read()).count(), 70);
        assert_eq!(deck.iter().filter(|call| call.len == 4096).count(), 60);
    }
    // Kinds and sizes know nothing of each other.
    let mut table = [0; 4];
    for call in &calls[..decks * 100] {
        assert!(call.len == 4096 || call.len == 16_384);
        table[usize::from(call.is_read()) * 2 + usize::from(call.len == 4096)] += 1;
    }
    let statistic = chi_square(&table, &[0.3 * 0.4, 0.3 * 0.6, 0.7 * 0.4, 0.7 * 0.6]);
    assert!(statistic < 16.27, "3 degrees of freedom at 0.001: {statistic}");
    // Nor does a kind of the one before it.
    let same = calls.windows(2).filter(|two| two[0].is_read() == two[1].is_read()).count();
    let expected = 0.7 * 0.7 + 0.3 * 0.3;
    let share = same as f64 / (calls.len() - 1) as f64;
    assert!((share - expected).abs() < 0.04, "{share}");
}

#[test]
fn once_visits_every_block_once_in_a_pass_and_each_pass_in_another_order() {
    let test = "issued::once_visits_every_block_once_in_a_pass_and_each_pass_in_another_order";
    let Some(calls) = issued(test, "rw = 'randwrite'\nonce = true\namount = '8MiB'") else {
        return;
    };
    assert_eq!(calls.len(), 2048);
    let passes: Vec<Vec<u64>> =
        calls.chunks(1024).map(|pass| pass.iter().map(|call| call.offset).collect()).collect();
    for pass in &passes {
        let mut sorted = pass.clone();
        sorted.sort_unstable();
        assert!(sorted.into_iter().eq((0..1024).map(|block| block * 4096)));
        let rising = pass.windows(2).filter(|two| two[0] < two[1]).count();
        assert!((400..624).contains(&rising), "{rising} of 1023 rise");
    }
    assert_ne!(passes[0], passes[1]);
}

#[test]
fn sequential_writes_of_two_workers_are_one_sequence_or_two() {
    let test = "issued::sequential_writes_of_two_workers_are_one_sequence_or_two";
    let workload = "rw = 'write'\nblock_size = '8KiB'\nworkers = 2\namount = '4MiB'";
    let Some(calls) = issued(test, workload) else { return };
    let mut offsets: Vec<u64> = calls.iter().map(|call| call.offset).collect();
    offsets.sort_unstable();
    let whole: Vec<u64> = (0..512).map(|block| block * 8192).collect();
    assert_eq!(offsets, whole, "shared");
    let Some(calls) = issued(test, &format!("{workload}\nlayout = 'partitioned'")) else { return };
    let of_thread = |half: u64| {
        let mine = calls.iter().filter(move |call| call.offset >> 21 == half);
        mine.map(|call| (call.line.split('>').next().map(str::to_owned), call.offset))
    };
    for half in 0..2 {
        let all: Vec<_> = of_thread(half).collect();
        assert!(all.iter().all(|(thread, _)| *thread == all[0].0), "one worker in each half");
        let offsets = all.iter().map(|(_, offset)| *offset);
        assert!(offsets.eq((0..256).map(|block| (half << 21) + block * 8192)));
    }
}

#[test]
fn favoured_places_get_their_share() {
    let test = "issued::favoured_places_get_their_share";
    let workload = "rw = 'randread'\namount = '16MiB'\naccess = { hot = '90/25' }";
    let Some(calls) = issued(test, workload) else { return };
    let counts = places(&calls, 4);
    let hot = [counts[0], counts[1..].iter().sum()];
    let statistic = chi_square(&hot, &[90.0, 10.0]);
    assert!(statistic < 10.83, "1 degree of freedom at 0.001: {statistic}");
    // Zipf: the blocks by falling count are asked for in proportion to 1/k.
    let workload = "rw = 'randread'\namount = '32MiB'\nsize = '256KiB'\naccess = { zipf = 1 }";
    let Some(calls) = issued(test, workload) else { return };
    let mut counts = vec![0; 64];
    for call in &calls {
        counts[(call.offset >> 12) as usize] += 1;
    }
    counts.sort_unstable_by(|a, b| b.cmp(a));
    // The sorting itself moves the small ones; the eight largest are in no doubt.
    let shares: Vec<f64> = (1..=64).map(|rank| 1.0 / f64::from(rank)).collect();
    let tail = |values: &[u64]| values[8..].iter().sum::<u64>();
    let mut told = counts[..8].to_vec();
    told.push(tail(&counts));
    let mut expected = shares[..8].to_vec();
    expected.push(shares[8..].iter().sum());
    let statistic = chi_square(&told, &expected);
    assert!(statistic < 26.12, "8 degrees of freedom at 0.001: {statistic}");
}

#[test]
fn flushes_and_write_through_are_asked_for_as_often_as_said() {
    let test = "issued::flushes_and_write_through_are_asked_for_as_often_as_said";
    let base = "rw = 'randwrite'\namount = '1MiB'\n";
    for (key, call) in [("fsync_every = 8", "fsync"), ("fdatasync_every = 8", "fdatasync")] {
        let Some(calls) = issued(test, &format!("{base}{key}")) else { return };
        let names: Vec<_> = calls.iter().map(|one| one.name.as_str()).collect();
        assert!(names.iter().all(|name| name.starts_with("pwrite") || *name == call), "{names:?}");
        let turns: Vec<_> = names.split(|name| *name == call).map(<[_]>::len).collect();
        assert_eq!(turns.iter().sum::<usize>(), 256);
        assert!(turns.iter().all(|writes| *writes == 8 || *writes == 0), "{turns:?}");
    }
    for (key, flag) in [("dsync", "RWF_DSYNC"), ("sync", "RWF_SYNC")] {
        let Some(calls) = issued(test, &format!("{base}sync = '{key}'")) else { return };
        assert_eq!(calls.len(), 256);
        assert!(calls.iter().all(|one| one.line.contains(flag)), "{:?}", calls[0]);
    }
}

#[test]
fn trims_punch_holes_where_they_should_and_nothing_is_measured_on_one() {
    let test = "issued::trims_punch_holes_where_they_should_and_nothing_is_measured_on_one";
    let region = "offset = '1MiB'\nsize = '2MiB'\nblock_size = '64KiB'\namount = '2MiB'";
    let Some(calls) = issued(test, &format!("rw = 'trim'\n{region}")) else { return };
    assert!(calls.iter().all(|call| call.name == "fallocate" && call.len == 65_536), "{calls:?}");
    assert!(calls.iter().all(|call| call.line.contains("KEEP_SIZE|FALLOC_FL_PUNCH_HOLE")));
    let offsets = calls.iter().map(|call| call.offset);
    assert!(offsets.eq((16..48).map(|block| block * 65_536)));
    // Of every block, whether it was written and not trimmed since.
    let workloads = format!(
        "[workloads.a]\nengine = 'sync'\nrw = 'randtrim'\nonce = true\n{region}\n\
         [workloads.b]\nengine = 'sync'\nrw = 'randread'\namount = '1MiB'\n"
    );
    let Some(seen) = traced(test, &workloads, 4) else { return };
    let mut written = [false; 1024];
    let (mut trims, mut reads) = (0, 0);
    for line in seen.lines() {
        let Some(call) = parse_of_any(line).filter(|call| call.line.contains("a.img")) else {
            continue;
        };
        let blocks = &mut written[(call.offset >> 12) as usize..][..(call.len >> 12) as usize];
        let by_worker = parse(line).is_some();
        match call.name.as_str() {
            "pwrite64" => blocks.fill(true),
            "fallocate" if by_worker => {
                assert!(blocks.iter().all(|written| *written), "a hole was trimmed: {line}");
                blocks.fill(false);
                trims += 1;
            }
            "pread64" if by_worker => {
                assert!(blocks.iter().all(|written| *written), "a hole was read: {line}");
                reads += 1;
            }
            _ => {}
        }
    }
    assert_eq!((trims, reads), (4 * 32, 4 * 256));
}

/// The gaps between the starts of calls, in seconds.
fn gaps(calls: &[Call]) -> Vec<f64> {
    calls.windows(2).map(|two| two[1].at - two[0].at).collect()
}

/// The mean, and the standard deviation as a share of it.
fn mean_and_spread(values: &[f64]) -> (f64, f64) {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / count;
    (mean, variance.sqrt() / mean)
}

#[test]
fn a_rate_is_kept_and_its_gaps_are_even_or_exponential() {
    let test = "issued::a_rate_is_kept_and_its_gaps_are_even_or_exponential";
    let workload = |arrivals| {
        format!("rw = 'randread'\nruntime = '3s'\nrate = '200 iops'\narrivals = '{arrivals}'")
    };
    // strace holds up each call by a while, and others use the machine, other tests among them:
    // of ten tries one is to be in order.
    let mut told = Vec::new();
    for _ in 0..10 {
        let Some(even) = issued(test, &workload("even")) else { return };
        let Some(poisson) = issued(test, &workload("poisson")) else { return };
        let ((mean, spread), gaps) = (mean_and_spread(&gaps(&even)), gaps(&poisson));
        let (poisson_mean, poisson_spread) = mean_and_spread(&gaps);
        let bound = 3.0 / (gaps.len() as f64).sqrt();
        if (mean / 0.005 - 1.0).abs() < 0.005
            && spread < 0.2
            && (poisson_mean / 0.005 - 1.0).abs() < bound
            && (poisson_spread - 1.0).abs() < bound
        {
            return;
        }
        told.push([mean, spread, poisson_mean, poisson_spread]);
    }
    panic!("means and spreads of even and exponential gaps: {told:?}");
}

#[test]
fn a_pause_lies_between_bursts() {
    let test = "issued::a_pause_lies_between_bursts";
    let workload = "rw = 'randread'\nruntime = '500ms'\n\
                    think_time = { pause = '20ms', after = 4 }";
    let Some(calls) = issued(test, workload) else { return };
    let gaps = gaps(&calls);
    assert!(gaps.len() >= 12, "{}", gaps.len());
    for (number, gap) in gaps.iter().enumerate() {
        if number % 4 == 3 {
            assert!(*gap >= 0.0195, "gap {number}: {gap}");
        }
    }
    let short = gaps.iter().enumerate().filter(|(number, gap)| number % 4 != 3 && **gap < 0.01);
    assert!(short.count() >= gaps.len() / 2, "within a burst there is no pause: {gaps:?}");
}

/// How many pairs of calls were in the kernel at one time with a byte of the disk in common, at
/// least one of them a write. strace holds a thread until it has noted the end of its call, so that
/// what begins because of it is noted later.
fn overlaps(trace: &str) -> usize {
    // Of each call its first line, its last one, and what it was.
    let mut ended: Vec<(usize, usize, Call)> = Vec::new();
    let mut begun = std::collections::HashMap::new();
    for (number, line) in trace.lines().enumerate() {
        let Some((thread, rest)) = line.split_once("> ") else { continue };
        if !thread.contains("<worker ") {
            continue;
        }
        if line.contains("<unfinished ...>") {
            let head = line.split(" <unfinished").next().unwrap_or(line).to_owned();
            begun.insert(thread.to_owned(), (number, head));
            continue;
        }
        let (from, whole) = match rest.split_once(" resumed>") {
            Some((_, tail)) => {
                let Some((from, head)) = begun.remove(thread) else { continue };
                // `pread64(5</a.img>,  <unfinished ...>` and `<... pread64 resumed>""..., 512, 0)`.
                let joint = if head.ends_with(',') && !tail.starts_with(' ') { " " } else { "" };
                (from, format!("{head}{joint}{tail}"))
            }
            None => (number, line.to_owned()),
        };
        if let Some(call) = parse(&whole).filter(|call| call.len > 0) {
            ended.push((from, number, call));
        }
    }
    let meets = |(from, to, one): &(usize, usize, Call), (after, _, other): &(_, _, Call)| {
        (from..=to).contains(&after)
            && !(one.is_read() && other.is_read())
            && one.offset < other.offset + other.len
            && other.offset < one.offset + one.len
    };
    ended.sort_by_key(|(from, ..)| *from);
    let later = |index: usize| ended[index + 1..].iter();
    let pairs = ended.iter().enumerate().map(|(index, one)| {
        later(index).take_while(|(after, ..)| *after <= one.1).filter(|two| meets(one, two)).count()
    });
    assert!(ended.len() > 1000, "{} calls", ended.len());
    pairs.sum()
}

#[test]
fn verified_writes_never_meet_another_on_the_way() {
    let test = "issued::verified_writes_never_meet_another_on_the_way";
    let workload = "rw = 'randrw'\nworkers = 4\nsize = '64KiB'\namount = '16MiB'\n\
                    block_size = { '4KiB' = 50, '8KiB' = 50 }";
    let Some(free) = traced(test, &load(workload), 1) else { return };
    assert!(overlaps(&free) > 0, "without `verify` they do, so that this would be seen");
    let verified = load(&format!("{workload}\nverify = true"));
    let Some(verified) = traced(test, &verified, 1) else { return };
    assert_eq!(overlaps(&verified), 0);
}
