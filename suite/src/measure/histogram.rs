//! Latency histograms: log-linear, mergeable, readable while they are being written.
//!
//! Values below 512 have a bucket each. Above, every power of two is divided into 256 buckets, so
//! a bucket is at most 1/256 of its lower edge wide: a quantile read from it is at most 0.39 %
//! above the true one, and never below it, since the upper edge is reported. Minimum, maximum,
//! count and sum are kept exactly beside the buckets.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::units::Percentile;

/// Buckets to a power of two, as a power of two.
const SUB_BITS: u32 = 8;

/// Values below this have a bucket each: two octaves' worth of sub-buckets.
const LINEAR: u64 = 2 << SUB_BITS;

/// Buckets for all of `u64`: the linear part, then 256 for each of the powers 2^9 to 2^63.
const BUCKETS: usize = (LINEAR as usize) + ((64 - 9) << SUB_BITS);

/// The bucket that holds `value`.
#[inline]
fn bucket_of(value: u64) -> usize {
    // Or-ing LINEAR/2 puts every small value into the first octave, whose shift is 0.
    let shift = (value | (LINEAR / 2)).ilog2() - SUB_BITS;
    ((u64::from(shift) << SUB_BITS) + (value >> shift)) as usize
}

/// The greatest value that falls into `bucket`.
fn upper_edge(bucket: usize) -> u64 {
    let bucket = bucket as u64;
    if bucket < LINEAR {
        return bucket;
    }
    let shift = (bucket >> SUB_BITS) - 1;
    let mantissa = bucket - (shift << SUB_BITS);
    // Of the last bucket, mantissa + 1 is 512 and the shift 55: 2^64, which wraps to 0, minus 1.
    ((mantissa + 1) << shift).wrapping_sub(1)
}

/// A histogram with one writer, which others may read while it writes.
///
/// The writer's stores are relaxed: a reader sees counts that are a moment old, never torn ones.
#[derive(Debug)]
pub struct Recorder {
    buckets: Box<[AtomicU64; BUCKETS]>,
    min: AtomicU64,
    max: AtomicU64,
    sum: AtomicU64,
    /// High half of the sum, which passes 2^64 ns after 584 years of latency.
    sum_high: AtomicU64,
}

/// Empty ones, of a number that the compiler knows.
fn buckets() -> Box<[AtomicU64; BUCKETS]> {
    let zeros: Vec<_> = std::iter::repeat_with(AtomicU64::default).take(BUCKETS).collect();
    zeros.into_boxed_slice().try_into().expect("there are as many as were taken")
}

impl Default for Recorder {
    fn default() -> Self {
        Self {
            buckets: buckets(),
            min: AtomicU64::new(u64::MAX),
            max: AtomicU64::new(0),
            sum: AtomicU64::new(0),
            sum_high: AtomicU64::new(0),
        }
    }
}

impl Recorder {
    /// Counts one value. To be called by one thread alone: two writers would lose counts.
    #[inline]
    pub fn record(&self, value: u64) {
        let bucket = &self.buckets[bucket_of(value)];
        bucket.store(bucket.load(Relaxed) + 1, Relaxed);
        let (sum, carry) = self.sum.load(Relaxed).overflowing_add(value);
        self.sum.store(sum, Relaxed);
        if carry {
            self.carry(1);
        }
        self.note_extremes(value);
    }

    #[cold]
    fn carry(&self, high: u64) {
        self.sum_high.store(self.sum_high.load(Relaxed) + high, Relaxed);
    }

    #[inline]
    fn note_extremes(&self, value: u64) {
        if value < self.min.load(Relaxed) {
            self.min.store(value, Relaxed);
        }
        if value > self.max.load(Relaxed) {
            self.max.store(value, Relaxed);
        }
    }

    /// Counts one value `times` over.
    #[inline]
    pub fn record_times(&self, value: u64, times: u64) {
        if times == 0 {
            return;
        }
        let add = |cell: &AtomicU64, more: u64| {
            let (sum, carry) = cell.load(Relaxed).overflowing_add(more);
            cell.store(sum, Relaxed);
            u64::from(carry)
        };
        add(&self.buckets[bucket_of(value)], times);
        let total = u128::from(value) * u128::from(times);
        let carry = add(&self.sum, total as u64);
        let high = (total >> 64) as u64 + carry;
        if high > 0 {
            self.carry(high);
        }
        self.note_extremes(value);
    }

    /// Back to nothing counted.
    pub fn clear(&self) {
        self.buckets.iter().for_each(|bucket| bucket.store(0, Relaxed));
        self.min.store(u64::MAX, Relaxed);
        for cell in [&self.max, &self.sum, &self.sum_high] {
            cell.store(0, Relaxed);
        }
    }

    /// What has been counted so far.
    #[must_use]
    pub fn snapshot(&self) -> Histogram {
        let counted = self.buckets.iter().enumerate().filter_map(|(index, count)| {
            let count = count.load(Relaxed);
            (count > 0).then_some((u32::try_from(index).unwrap_or(u32::MAX), count))
        });
        let buckets: Vec<_> = counted.collect();
        Histogram {
            count: buckets.iter().map(|(_, count)| count).sum(),
            min: self.min.load(Relaxed),
            max: self.max.load(Relaxed),
            sum: u128::from(self.sum.load(Relaxed))
                | (u128::from(self.sum_high.load(Relaxed)) << 64),
            buckets,
        }
    }
}

/// A finished histogram: what a [`Recorder`] counted, stored sparsely.
///
/// Merging is associative and commutative, and merging with an empty one changes nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Histogram {
    count: u64,
    min: u64,
    max: u64,
    sum: u128,
    /// Index and count of each bucket that is not empty, in rising order.
    buckets: Vec<(u32, u64)>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self { count: 0, min: u64::MAX, max: 0, sum: 0, buckets: Vec::new() }
    }
}

impl Histogram {
    /// How many values were counted.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The smallest value, exactly.
    #[must_use]
    pub fn min(&self) -> Option<u64> {
        (self.count > 0).then_some(self.min)
    }

    /// The greatest value, exactly.
    #[must_use]
    pub fn max(&self) -> Option<u64> {
        (self.count > 0).then_some(self.max)
    }

    /// The arithmetic mean, from the exact sum.
    #[must_use]
    pub fn mean(&self) -> Option<f64> {
        (self.count > 0).then(|| self.sum as f64 / self.count as f64)
    }

    /// The standard deviation of the population, from the middles of the buckets: within 0.4 %.
    #[must_use]
    pub fn stddev(&self) -> Option<f64> {
        let mean = self.mean()?;
        let squares = self.buckets.iter().map(|&(index, count)| {
            let (low, high) = edges(index);
            let middle = f64::midpoint(low.max(self.min) as f64, high.min(self.max) as f64);
            (middle - mean).powi(2) * count as f64
        });
        Some((squares.sum::<f64>() / self.count as f64).sqrt())
    }

    /// The percentile by nearest rank: the upper edge of the bucket of that rank, at most 0.39 %
    /// above the sample there, and never above the maximum.
    #[must_use]
    pub fn percentile(&self, percentile: Percentile) -> Option<u64> {
        let rank = percentile.rank(self.count);
        let mut seen = 0;
        let bucket = self.buckets.iter().find(|(_, count)| {
            seen += count;
            seen >= rank
        });
        // The first sample is the minimum, whatever else is in its bucket.
        let value = if rank == 1 { self.min } else { edges(bucket?.0).1 };
        (self.count > 0).then(|| value.min(self.max))
    }

    /// The percentile, if there are samples enough to quote it at all.
    #[must_use]
    pub fn quotable_percentile(&self, percentile: Percentile) -> Option<u64> {
        (self.count >= percentile.samples_needed()).then(|| self.percentile(percentile)).flatten()
    }

    /// Adds what another one counted.
    pub fn merge(&mut self, other: &Self) {
        if other.count == 0 {
            return;
        }
        self.count += other.count;
        self.min = self.min.min(other.min);
        self.max = self.max.max(other.max);
        self.sum += other.sum;
        let mut merged = Vec::with_capacity(self.buckets.len().max(other.buckets.len()));
        let (mut mine, mut theirs) =
            (self.buckets.iter().peekable(), other.buckets.iter().peekable());
        loop {
            let next = match (mine.peek(), theirs.peek()) {
                (Some(a), Some(b)) if a.0 == b.0 => {
                    let both = (a.0, a.1 + b.1);
                    theirs.next();
                    mine.next();
                    both
                }
                (Some(a), Some(b)) if a.0 < b.0 => {
                    let first = **a;
                    mine.next();
                    first
                }
                (_, Some(b)) => {
                    let first = **b;
                    theirs.next();
                    first
                }
                (Some(a), None) => {
                    let first = **a;
                    mine.next();
                    first
                }
                (None, None) => break,
            };
            merged.push(next);
        }
        self.buckets = merged;
    }

    /// Each filled bucket as (lower edge, upper edge, count), for drawing.
    pub fn bars(&self) -> impl Iterator<Item = (u64, u64, u64)> + '_ {
        self.buckets.iter().map(|&(index, count)| {
            let (low, high) = edges(index);
            (low, high, count)
        })
    }
}

impl Histogram {
    /// Whether the exact figures are possible ones: minimum and maximum in the first and the last
    /// bucket, and the mean between them.
    fn extremes_fit(&self) -> bool {
        let (Some(first), Some(last)) = (self.buckets.first(), self.buckets.last()) else {
            return self.count == 0;
        };
        let times = |value: u64| u128::from(value) * u128::from(self.count);
        bucket_of(self.min) == first.0 as usize
            && bucket_of(self.max) == last.0 as usize
            && (times(self.min)..=times(self.max)).contains(&self.sum)
    }
}

/// Lower and upper edge of a bucket, both inclusive.
fn edges(index: u32) -> (u64, u64) {
    let index = index as usize;
    let low = if index == 0 { 0 } else { upper_edge(index - 1) + 1 };
    (low, upper_edge(index))
}

/// The form in a record: unit-free integers, `null` where there is no sample.
#[derive(Serialize, Deserialize)]
struct Stored {
    count: u64,
    min: Option<u64>,
    max: Option<u64>,
    /// In two halves, since JSON readers stop at 2^53 or 2^64.
    sum: (u64, u64),
    buckets: Vec<(u32, u64)>,
}

impl Serialize for Histogram {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let low = u64::try_from(self.sum & u128::from(u64::MAX)).unwrap_or_default();
        let high = u64::try_from(self.sum >> 64).unwrap_or_default();
        Stored {
            count: self.count,
            min: self.min(),
            max: self.max(),
            sum: (high, low),
            buckets: self.buckets.clone(),
        }
        .serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for Histogram {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        use serde::de::Error;
        let stored = Stored::deserialize(deserializer)?;
        let total: Option<u64> =
            stored.buckets.iter().try_fold(0_u64, |sum, (_, count)| sum.checked_add(*count));
        let rising = stored.buckets.windows(2).all(|pair| pair[0].0 < pair[1].0);
        let within = stored.buckets.last().is_none_or(|last| (last.0 as usize) < BUCKETS);
        if total != Some(stored.count) || !rising || !within {
            return Err(D::Error::custom("a histogram whose buckets don't add up to its count"));
        }
        if stored.buckets.iter().any(|(_, count)| *count == 0) {
            return Err(D::Error::custom("a histogram with a bucket of no samples"));
        }
        let sum = (u128::from(stored.sum.0) << 64) | u128::from(stored.sum.1);
        let histogram = match (stored.min, stored.max) {
            (None, None) if stored.count == 0 && sum == 0 => Self::default(),
            (Some(min), Some(max)) if stored.count > 0 => {
                Self { count: stored.count, min, max, sum, buckets: stored.buckets }
            }
            _ => {
                return Err(D::Error::custom(
                    "a histogram whose min, max or sum don't fit its count",
                ));
            }
        };
        if histogram.extremes_fit() {
            Ok(histogram)
        } else {
            Err(D::Error::custom("a histogram whose min, max or sum don't fit its buckets"))
        }
    }
}
