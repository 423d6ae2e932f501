//! How a disk behaves: latency and its spread, caps, faults. Driven in virtual time by the
//! simulated back end. Knows nothing of who asks.
//!
//! A [`DiskModel`] is plain data; a [`Disk`] is one that is running. It answers each I/O with the
//! time of its completion, in three steps, as a cloud disk does:
//!
//! 1. **The caps** let I/Os in one after another, no faster than the cap on I/Os and the cap on
//!    bytes allow. What comes faster waits here, so depth beyond a cap shows as latency.
//! 2. **The slots**: so many I/Os are served side by side; the next waits for the first to end.
//! 3. **The service** takes a drawn latency and a time for each byte.
//!
//! All randomness is one stream from a seed: the same I/Os at the same times get the same
//! answers. The arithmetic is that of IEEE 754 and of the C library's `ln` and `exp`, so equal
//! answers are promised on one machine, not across C libraries.

use rand_xoshiro::Xoshiro256PlusPlus;
use rand_xoshiro::rand_core::{Rng, SeedableRng};

use crate::units::Nanos;

/// The behaviour of one disk.
#[derive(Debug, Clone, PartialEq)]
pub struct DiskModel {
    /// Latency of a read, before its bytes.
    pub read: Latency,
    /// Latency of a write, before its bytes.
    pub write: Latency,
    /// Latency of a trim, of which bytes take no time; `None` for that of a write.
    pub trim: Option<Latency>,
    /// Latency of a flush.
    pub flush: Latency,
    /// Time that each byte takes on top, in nanoseconds.
    pub ns_per_byte: f64,
    /// The most reads, writes and trims a second.
    pub iops_cap: Option<f64>,
    /// The most bytes a second.
    pub bandwidth_cap: Option<f64>,
    /// How many I/Os are served side by side; at least 1.
    pub parallel: u32,
    /// I/Os that fail by chance.
    pub errors: Vec<ErrorOdds>,
    /// Times at which the whole disk stands still, in rising order.
    pub stalls: Vec<Stall>,
}

impl Default for DiskModel {
    /// A sane NVMe SSD of the middle class: reads around 80 us and writes into its cache around
    /// 20 us with a tail, 2.5 GB/s through each of 16 ways, at most 400 k IOPS and 3 GB/s.
    fn default() -> Self {
        Self {
            read: Latency::LogNormal { median: Nanos(80_000), sigma: 0.25 },
            write: Latency::LogNormal { median: Nanos(20_000), sigma: 0.3 },
            trim: None,
            flush: Latency::LogNormal { median: Nanos(400_000), sigma: 0.4 },
            ns_per_byte: 0.4,
            iops_cap: Some(400_000.0),
            bandwidth_cap: Some(3e9),
            parallel: 16,
            errors: Vec::new(),
            stalls: Vec::new(),
        }
    }
}

/// How long something takes.
#[derive(Debug, Clone, PartialEq)]
pub enum Latency {
    /// Always the same.
    Fixed(Nanos),
    /// Anything between two times, evenly.
    Uniform {
        /// The shortest.
        low: Nanos,
        /// The longest.
        high: Nanos,
    },
    /// Most near the median, with a long tail: the logarithm is normally distributed.
    LogNormal {
        /// Half take less.
        median: Nanos,
        /// Standard deviation of the natural logarithm.
        sigma: f64,
    },
    /// By percentiles: (share up to here from 0 to 1, time), both rising, with straight lines
    /// between. The first entry stands for what lies below it, the last for what lies above.
    Table(Vec<(f64, Nanos)>),
}

/// What is asked of a disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Operation {
    /// To read.
    Read,
    /// To write.
    Write,
    /// To give up what was written.
    Trim,
    /// To make what was written durable.
    Flush,
}

/// I/Os of a kind that fail by chance.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ErrorOdds {
    /// Of which kind.
    pub operation: Operation,
    /// How likely each of them fails, 0 to 1.
    pub odds: f64,
    /// With which error number.
    pub errno: i32,
}

/// A time at which the disk stands still. What is being served then ends later by its length.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stall {
    /// Since the disk was started.
    pub at: Nanos,
    /// For how long.
    pub length: Nanos,
}

/// The answer to one I/O.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Served {
    /// When it is complete; later than it was asked for.
    pub at: Nanos,
    /// The error number, if it failed.
    pub errno: Option<i32>,
}

/// A disk that is running.
#[derive(Debug, Clone)]
pub struct Disk {
    model: DiskModel,
    random: Xoshiro256PlusPlus,
    /// When the caps let the next I/O in, in nanoseconds.
    next_in: f64,
    /// When each slot is free, in nanoseconds: a heap with the earliest first.
    slots: Vec<f64>,
}

impl Latency {
    /// The latency that this share of all I/Os stays at or under, in nanoseconds. `share` is
    /// from 0 to 1.
    #[must_use]
    pub fn quantile(&self, share: f64) -> f64 {
        match self {
            Self::Fixed(time) => time.0 as f64,
            Self::Uniform { low, high } => {
                let low = low.0 as f64;
                low + share * (high.0 as f64 - low)
            }
            Self::LogNormal { median, sigma } => {
                median.0 as f64 * (sigma * normal_quantile(share)).exp()
            }
            Self::Table(points) => from_table(points, share),
        }
    }
}

impl Disk {
    /// Starts a disk at time 0.
    #[must_use]
    pub fn new(model: DiskModel, seed: u64) -> Self {
        let slots = vec![0.0; model.parallel.max(1) as usize];
        Self { model, random: Xoshiro256PlusPlus::seed_from_u64(seed), next_in: 0.0, slots }
    }

    /// Serves one I/O that comes now. Times must not go back from call to call.
    pub fn serve(&mut self, now: Nanos, operation: Operation, bytes: u64) -> Served {
        let asked = now.0 as f64;
        // A trim moves nothing, however long it is.
        let bytes = if operation == Operation::Trim { 0 } else { bytes };
        let let_in = self.let_in(asked, operation, bytes);
        let started = self.after_stalls(let_in.max(self.slots[0]));
        let latency = match operation {
            Operation::Read => &self.model.read,
            Operation::Write => &self.model.write,
            Operation::Trim => self.model.trim.as_ref().unwrap_or(&self.model.write),
            Operation::Flush => &self.model.flush,
        };
        // The draws are made in every case, so that a fault moves nothing but its own I/O.
        let service =
            latency.quantile(even(&mut self.random)) + bytes as f64 * self.model.ns_per_byte;
        let ended = self.through_stalls(started, started + service);
        self.occupy_first_slot(ended);
        let errno = self.errno(operation);
        // Nothing takes no time: simulated time would stand still.
        let at = to_nanos(ended).max(now.0 + 1);
        Served { at: Nanos(at), errno }
    }

    /// When the caps let an I/O in that comes at this time.
    fn let_in(&mut self, asked: f64, operation: Operation, bytes: u64) -> f64 {
        if operation == Operation::Flush {
            return asked;
        }
        let at = asked.max(self.next_in);
        let by_ios = self.model.iops_cap.map_or(0.0, |cap| 1e9 / cap);
        let by_bytes = self.model.bandwidth_cap.map_or(0.0, |cap| bytes as f64 * 1e9 / cap);
        self.next_in = at + by_ios.max(by_bytes);
        at
    }

    /// The first moment from this one on at which the disk doesn't stand still.
    fn after_stalls(&self, mut at: f64) -> f64 {
        for stall in &self.model.stalls {
            let (from, to) = bounds(stall);
            if at >= from && at < to {
                at = to;
            }
        }
        at
    }

    /// The end of what would have ended at `ended`, had the disk not stood still.
    fn through_stalls(&self, started: f64, mut ended: f64) -> f64 {
        for stall in &self.model.stalls {
            let (from, to) = bounds(stall);
            if started < from && ended > from {
                ended += to - from;
            }
        }
        ended
    }

    /// The slot that is free first is taken until `ended`.
    fn occupy_first_slot(&mut self, ended: f64) {
        self.slots[0] = ended;
        let mut at = 0;
        loop {
            let (left, right) = (2 * at + 1, 2 * at + 2);
            let mut first = at;
            for child in [left, right] {
                if child < self.slots.len() && self.slots[child] < self.slots[first] {
                    first = child;
                }
            }
            if first == at {
                return;
            }
            self.slots.swap(at, first);
            at = first;
        }
    }

    fn errno(&mut self, operation: Operation) -> Option<i32> {
        let mut errno = None;
        for error in self.model.errors.iter().filter(|error| error.operation == operation) {
            if even(&mut self.random) < error.odds {
                errno = errno.or(Some(error.errno));
            }
        }
        errno
    }
}

fn bounds(stall: &Stall) -> (f64, f64) {
    (stall.at.0 as f64, stall.at.0.saturating_add(stall.length.0) as f64)
}

/// Evenly from 0 (possible) to 1 (not): 53 random bits.
fn even(random: &mut Xoshiro256PlusPlus) -> f64 {
    // The middle of each step, so that neither end of a distribution is ever asked for.
    ((random.next_u64() >> 11) as f64 + 0.5) / (1_u64 << 53) as f64
}

/// The nearest nanosecond.
#[expect(clippy::cast_sign_loss, reason = "times are not negative, and a cast saturates")]
fn to_nanos(time: f64) -> u64 {
    (time + 0.5) as u64
}

fn from_table(points: &[(f64, Nanos)], share: f64) -> f64 {
    let Some(above) = points.iter().position(|(upto, _)| *upto >= share) else {
        return points.last().map_or(0.0, |(_, time)| time.0 as f64);
    };
    let (high_share, high) = (points[above].0, points[above].1.0 as f64);
    let Some((low_share, low)) = above.checked_sub(1).map(|below| points[below]) else {
        return high;
    };
    let low = low.0 as f64;
    low + (high - low) * (share - low_share) / (high_share - low_share)
}

/// Factors of the quotient of polynomials around the median: numerator.
const CENTRE_TOP: [f64; 8] = [
    3.387_132_872_796_366_5,
    1.331_416_678_917_843_8e2,
    1.971_590_950_306_551_3e3,
    1.373_169_376_550_946e4,
    4.592_195_393_154_987e4,
    6.726_577_092_700_87e4,
    3.343_057_558_358_813e4,
    2.509_080_928_730_122_7e3,
];
/// And denominator.
const CENTRE_BOTTOM: [f64; 8] = [
    1.0,
    4.231_333_070_160_091e1,
    6.871_870_074_920_579e2,
    5.394_196_021_424_751e3,
    2.121_379_430_158_659_7e4,
    3.930_789_580_009_271e4,
    2.872_908_573_572_194_3e4,
    5.226_495_278_852_545e3,
];
/// In the tails, down to 1e-11: numerator.
const NEAR_TOP: [f64; 8] = [
    1.423_437_110_749_683_5,
    4.630_337_846_156_546,
    5.769_497_221_460_691,
    3.647_848_324_763_204_5,
    1.270_458_252_452_368_4,
    2.417_807_251_774_506e-1,
    2.272_384_498_926_918_4e-2,
    7.745_450_142_783_414e-4,
];
/// And denominator.
const NEAR_BOTTOM: [f64; 8] = [
    1.0,
    2.053_191_626_637_759,
    1.676_384_830_183_803_8,
    6.897_673_349_851e-1,
    1.481_039_764_274_800_8e-1,
    1.519_866_656_361_645_7e-2,
    5.475_938_084_995_345e-4,
    1.050_750_071_644_416_9e-9,
];
/// Beyond that: numerator.
const FAR_TOP: [f64; 8] = [
    6.657_904_643_501_103,
    5.463_784_911_164_114,
    1.784_826_539_917_291_3,
    2.965_605_718_285_048_7e-1,
    2.653_218_952_657_612_4e-2,
    1.242_660_947_388_078_4e-3,
    2.711_555_568_743_487_6e-5,
    2.010_334_399_292_288_1e-7,
];
/// And denominator.
const FAR_BOTTOM: [f64; 8] = [
    1.0,
    5.998_322_065_558_88e-1,
    1.369_298_809_227_358e-1,
    1.487_536_129_085_061_5e-2,
    7.868_691_311_456_133e-4,
    1.846_318_317_510_054_8e-5,
    1.421_511_758_316_446e-7,
    2.044_263_103_389_939_8e-15,
];

/// The inverse of the standard normal distribution: Wichura's algorithm AS 241 (PPND16, Applied
/// Statistics 37, 1988), exact to about 16 digits.
fn normal_quantile(share: f64) -> f64 {
    let polynomial =
        |factors: &[f64; 8], x: f64| factors.iter().rev().fold(0.0, |sum, factor| sum * x + factor);
    let ratio = |top, bottom, x| polynomial(top, x) / polynomial(bottom, x);
    let from_middle = share - 0.5;
    if from_middle.abs() <= 0.425 {
        let x = 0.180_625 - from_middle * from_middle;
        return from_middle * ratio(&CENTRE_TOP, &CENTRE_BOTTOM, x);
    }
    let tail = if from_middle < 0.0 { share } else { 1.0 - share };
    let x = (-tail.ln()).sqrt();
    let size = if x <= 5.0 {
        ratio(&NEAR_TOP, &NEAR_BOTTOM, x - 1.6)
    } else {
        ratio(&FAR_TOP, &FAR_BOTTOM, x - 5.0)
    };
    if from_middle < 0.0 { -size } else { size }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fixed(ns: u64) -> DiskModel {
        let latency = Latency::Fixed(Nanos(ns));
        DiskModel {
            read: latency.clone(),
            write: latency.clone(),
            trim: None,
            flush: latency,
            ns_per_byte: 0.0,
            iops_cap: None,
            bandwidth_cap: None,
            parallel: 1000,
            errors: Vec::new(),
            stalls: Vec::new(),
        }
    }

    fn at(disk: &mut Disk, now: u64, bytes: u64) -> u64 {
        disk.serve(Nanos(now), Operation::Read, bytes).at.0
    }

    #[test]
    fn the_normal_quantile_is_that_of_the_tables() {
        for (share, expected) in [
            (0.5, 0.0),
            (0.975, 1.959_963_984_540_054),
            (0.25, -0.674_489_750_196_081_7),
            (0.001, -3.090_232_306_167_813_5),
            (0.999_999, 4.753_424_308_822_899),
            (1e-20, -9.262_340_089_798_408),
        ] {
            let found = normal_quantile(share);
            assert!((found - expected).abs() < 1e-9, "{share}: {found}, not {expected}");
        }
    }

    #[test]
    fn quantiles_follow_their_definitions() {
        let uniform = Latency::Uniform { low: Nanos(100), high: Nanos(200) };
        assert!((uniform.quantile(0.25) - 125.0).abs() < 1e-9);
        let skewed = Latency::LogNormal { median: Nanos(1000), sigma: 0.5 };
        assert!((skewed.quantile(0.5) - 1000.0).abs() < 1e-9);
        let expected = 1000.0 * (0.5 * 1.959_963_984_540_054_f64).exp();
        assert!((skewed.quantile(0.975) - expected).abs() < 1e-6);
        let table = Latency::Table(vec![(0.5, Nanos(100)), (0.9, Nanos(300)), (1.0, Nanos(900))]);
        for (share, expected) in [(0.2, 100.0), (0.7, 200.0), (0.95, 600.0), (1.0, 900.0)] {
            assert!((table.quantile(share) - expected).abs() < 1e-6, "{share}");
        }
        assert!(Latency::Table(Vec::new()).quantile(0.5).abs() < 1e-9);
    }

    #[test]
    fn a_byte_takes_its_time() {
        let mut disk = Disk::new(DiskModel { ns_per_byte: 0.5, ..fixed(100) }, 1);
        assert_eq!(at(&mut disk, 0, 4096), 100 + 2048);
    }

    #[test]
    fn caps_queue_in_front() {
        let mut disk = Disk::new(DiskModel { iops_cap: Some(1e6), ..fixed(100) }, 1);
        let ends: Vec<u64> = (0..4).map(|_| at(&mut disk, 0, 4096)).collect();
        assert_eq!(ends, [100, 1100, 2100, 3100]);
        // After a pause there is no credit for it.
        assert_eq!(at(&mut disk, 50_000, 4096), 50_100);
        assert_eq!(at(&mut disk, 50_000, 4096), 51_100);
        let mut disk = Disk::new(DiskModel { bandwidth_cap: Some(1e9), ..fixed(100) }, 1);
        assert_eq!([at(&mut disk, 0, 5000), at(&mut disk, 0, 1)], [100, 5100]);
    }

    #[test]
    fn slots_serve_side_by_side() {
        let mut disk = Disk::new(DiskModel { parallel: 2, ..fixed(100) }, 1);
        let ends: Vec<u64> = (0..5).map(|_| at(&mut disk, 0, 1)).collect();
        assert_eq!(ends, [100, 100, 200, 200, 300]);
        assert_eq!(at(&mut disk, 250, 1), 350);
    }

    #[test]
    fn a_stall_holds_up_what_is_there_and_what_comes() {
        let stall = Stall { at: Nanos(1000), length: Nanos(500) };
        let mut disk = Disk::new(DiskModel { stalls: vec![stall], ..fixed(100) }, 1);
        assert_eq!(at(&mut disk, 800, 1), 900);
        assert_eq!(at(&mut disk, 950, 1), 1550);
        assert_eq!(at(&mut disk, 1200, 1), 1600);
        assert_eq!(at(&mut disk, 1500, 1), 1600);
    }

    #[test]
    fn errors_come_as_often_as_their_odds() {
        let error = ErrorOdds { operation: Operation::Write, odds: 0.01, errno: 5 };
        let mut disk = Disk::new(DiskModel { errors: vec![error], ..fixed(100) }, 9);
        let mut count = |operation| {
            let served = (0..100_000).map(|now| disk.serve(Nanos(now), operation, 1));
            served.filter(|served| served.errno == Some(5)).count()
        };
        assert_eq!(count(Operation::Read), 0);
        // 1000 expected; the deviation is 31.
        assert!((870..1130).contains(&count(Operation::Write)));
    }

    #[test]
    fn nothing_takes_no_time() {
        let mut disk = Disk::new(fixed(0), 1);
        assert_eq!(at(&mut disk, 7, 1), 8);
    }

    #[test]
    fn samples_follow_the_quantiles() {
        let read = DiskModel::default().read;
        // As many slots as samples, so that none waits.
        let model = DiskModel { read: read.clone(), parallel: 100_000, ..fixed(0) };
        let mut disk = Disk::new(model, 4);
        let mut samples: Vec<u64> = (0..100_000).map(|_| at(&mut disk, 0, 0)).collect();
        samples.sort_unstable();
        // Kolmogorov and Smirnov: 1.95 / sqrt(n) at 0.001.
        for share in [0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99] {
            let below = samples.partition_point(|sample| (*sample as f64) <= read.quantile(share));
            let off = (below as f64 / 100_000.0 - share).abs();
            assert!(off < 1.95 / 100_000_f64.sqrt(), "{off} at {share}");
        }
    }

    #[test]
    fn the_same_seed_gives_the_same_answers() {
        let answers = |seed| {
            let mut disk = Disk::new(DiskModel::default(), seed);
            let serve = |now: u64| disk.serve(Nanos(now * 1000), Operation::Write, 4096);
            (0..1000).map(serve).collect::<Vec<_>>()
        };
        assert_eq!(answers(1), answers(1));
        assert_ne!(answers(1), answers(2));
    }
}
