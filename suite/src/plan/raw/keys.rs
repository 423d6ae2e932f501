//! The words of the plan language: which keys each table has, and what else people call them.

/// Keys of a plan.
pub(super) const PLAN_KEYS: &[&str] =
    &["name", "description", "disks", "setups", "workloads", "expect", "run", "profiles"];

/// Keys of a disk.
pub(super) const DISK_KEYS: &[&str] = &["size", "count", "directory", "device", "null"];

/// Keys of a setup.
pub(super) const SETUP_KEYS: &[&str] = &["disks", "stripe", "workloads"];

/// Keys of a stripe.
pub(super) const STRIPE_KEYS: &[&str] = &["driver", "chunk"];

/// Keys of a workload.
pub(super) const WORKLOAD_KEYS: &[&str] = &[
    "rw",
    "read_percent",
    "block_size",
    "queue_depth",
    "workers",
    "layout",
    "offset",
    "size",
    "access",
    "once",
    "rate",
    "arrivals",
    "max_lateness",
    "think_time",
    "runtime",
    "amount",
    "warmup",
    "cooldown",
    "cache",
    "sync",
    "fsync_every",
    "fdatasync_every",
    "fsync_at_end",
    "data",
    "verify",
    "engine",
    "hipri",
    "sqpoll",
    "cpus",
    "seed",
    STREAMS_KEY,
];

/// Those of them that are of the whole workload where it has streams.
pub(super) const TIME_LINE_KEYS: &[&str] = &[
    "runtime",
    "amount",
    "warmup",
    "cooldown",
    "cache",
    "fsync_at_end",
    "verify",
    "seed",
    STREAMS_KEY,
];

/// Where the streams of a workload stand. No other key of it is a table of tables.
pub(super) const STREAMS_KEY: &str = "streams";

/// Keys of an expectation.
pub(super) const EXPECT_KEYS: &[&str] = &["case", "that", "why", "level"];

/// Keys of `[run]`.
pub(super) const RUN_KEYS: &[&str] = &["rounds", "order", "inconclusive"];

/// Keys of `rounds`.
pub(super) const ROUNDS_KEYS: &[&str] = &["min", "max"];

/// Keys of a profile.
pub(super) const PROFILE_KEYS: &[&str] = &["disks", "workloads", "run"];

/// Keys that are known in other versions of the language: none of them is a typing error.
pub(super) const OTHER_VERSIONS: &[&str] = &[
    "at_cap",
    "confidence",
    "devices",
    "emulate",
    "filesystem",
    "min_abs",
    "records",
    "time_budget",
];

/// Names that mean something else in an expectation.
pub(super) const RESERVED: &[&str] = &["baseline", "record", "x", "of", "between", "within"];

/// What fio, DiskSpd and people call a key, and what it is called here.
const ALSO_CALLED: &[(&str, &str)] = &[
    ("bs", "block_size"),
    ("iodepth", "queue_depth"),
    ("depth", "queue_depth"),
    ("qd", "queue_depth"),
    ("numjobs", "workers"),
    ("jobs", "workers"),
    ("threads", "workers"),
    ("ramp_time", "warmup"),
    ("duration", "runtime"),
    ("time", "runtime"),
    ("readwrite", "rw"),
    ("rwmixread", "read_percent"),
    ("ioengine", "engine"),
    ("io_size", "amount"),
    ("fsync", "fsync_every"),
    ("fdatasync", "fdatasync_every"),
    ("end_fsync", "fsync_at_end"),
    ("iopoll", "hipri"),
    ("sqthread_poll", "sqpoll"),
    ("cpus_allowed", "cpus"),
    ("randseed", "seed"),
    ("rate_iops", "rate"),
    ("iops", "rate"),
    ("thinktime", "think_time"),
    ("rate_process", "arrivals"),
    ("condition", "that"),
    ("reason", "why"),
    ("path", "device"),
    ("dir", "directory"),
    ("stripe_size", "chunk"),
    ("chunk_size", "chunk"),
    ("disk", "disks"),
    ("setup", "setups"),
    ("workload", "workloads"),
    ("expectations", "expect"),
    ("expects", "expect"),
    ("profile", "profiles"),
];

/// The key of `known` that is meant by `name`, if that can be told.
pub(super) fn meant<'k>(name: &str, known: &[&'k str]) -> Option<&'k str> {
    let synonym = ALSO_CALLED.iter().find(|(other, _)| *other == name).map(|(_, ours)| *ours);
    let synonym = synonym.and_then(|ours| known.iter().copied().find(|key| *key == ours));
    synonym.or_else(|| crate::diag::nearest(name, known.iter().copied()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reference_names_every_key() {
        let reference = include_str!("../../../../plans/REFERENCE.md");
        let tables = [
            PLAN_KEYS,
            DISK_KEYS,
            SETUP_KEYS,
            WORKLOAD_KEYS,
            EXPECT_KEYS,
            RUN_KEYS,
            PROFILE_KEYS,
            RESERVED,
        ];
        for key in tables.concat() {
            assert!(reference.contains(&format!("`{key}")), "{key}");
        }
        for key in [STRIPE_KEYS, ROUNDS_KEYS].concat() {
            assert!(reference.contains(key), "{key}");
        }
        for key in OTHER_VERSIONS {
            assert!(!reference.contains(&format!("`{key}`")), "{key} is not of this version");
        }
    }

    #[test]
    fn no_key_is_known_and_unknown() {
        let known = [PLAN_KEYS, DISK_KEYS, SETUP_KEYS, WORKLOAD_KEYS, EXPECT_KEYS, RUN_KEYS];
        for key in known.concat() {
            assert!(!OTHER_VERSIONS.contains(&key), "{key}");
        }
        for (other, ours) in ALSO_CALLED {
            assert!([known.concat(), STRIPE_KEYS.to_vec()].concat().contains(ours), "{ours}");
            assert_ne!(other, ours);
        }
    }
}
