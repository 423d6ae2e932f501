//! The machine: what a reader of its figures has to know about it.

use std::fs;

use nix::sched::{CpuSet, sched_getaffinity};
use nix::sys::utsname::{UtsName, uname};
use nix::unistd::Pid;

/// What the machine is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HostFacts {
    /// Its name.
    pub name: String,
    /// Kernel release: `6.18.2`.
    pub kernel: String,
    /// Model of the processor.
    pub cpu_model: String,
    /// Processors that this process may run on.
    pub cpus: u32,
    /// Main memory in bytes; 0 if the kernel doesn't say.
    pub memory_bytes: u64,
}

impl HostFacts {
    /// Asks the running machine. What it doesn't say stands as `unknown` or 0.
    #[must_use]
    pub fn read() -> Self {
        let names = uname().ok();
        let word = |text: Option<&std::ffi::OsStr>| {
            text.map_or_else(|| "unknown".to_owned(), |text| text.to_string_lossy().into_owned())
        };
        let machine = word(names.as_ref().map(UtsName::machine));
        let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let meminfo = fs::read_to_string("/proc/meminfo").unwrap_or_default();
        Self {
            name: word(names.as_ref().map(UtsName::nodename)),
            kernel: word(names.as_ref().map(UtsName::release)),
            cpu_model: cpu_model(&cpuinfo).unwrap_or(machine),
            cpus: cpus_allowed(),
            memory_bytes: memory_bytes(&meminfo).unwrap_or(0),
        }
    }
}

/// Processors in this thread's affinity mask; 1 if it can't be read.
fn cpus_allowed() -> u32 {
    let Ok(set) = sched_getaffinity(Pid::from_raw(0)) else { return 1 };
    let count = (0..CpuSet::count()).filter(|cpu| set.is_set(*cpu).unwrap_or(false)).count();
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// The model in /proc/cpuinfo, whose key depends on the architecture; ARM has none.
fn cpu_model(cpuinfo: &str) -> Option<String> {
    let value = |key: &str| {
        let line = cpuinfo.lines().find(|line| {
            line.split_once(':').is_some_and(|(name, _)| name.trim().eq_ignore_ascii_case(key))
        })?;
        Some(line.split_once(':')?.1.trim().to_owned()).filter(|value| !value.is_empty())
    };
    ["model name", "cpu model", "cpu", "uarch"].into_iter().find_map(value)
}

fn memory_bytes(meminfo: &str) -> Option<u64> {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"))?;
    let kibibytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kibibytes.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn models_of_several_architectures() {
        let intel = "processor\t: 0\nmodel\t\t: 85\nmodel name\t: Intel(R) Xeon(R)\n";
        assert_eq!(cpu_model(intel).as_deref(), Some("Intel(R) Xeon(R)"));
        assert_eq!(cpu_model("cpu\t\t: POWER10\n").as_deref(), Some("POWER10"));
        assert_eq!(cpu_model("CPU implementer : 0x41\nCPU part : 0xd0c\n"), None);
    }

    #[test]
    fn memory_is_in_bytes() {
        assert_eq!(
            memory_bytes("MemTotal:       49463612 kB\nMemFree: 1 kB\n"),
            Some(50_650_738_688)
        );
        assert_eq!(memory_bytes("MemFree: 1 kB\n"), None);
    }

    #[test]
    fn the_running_machine_has_facts() {
        let facts = HostFacts::read();
        assert!(facts.cpus >= 1 && facts.memory_bytes > 0);
        assert_ne!(facts.kernel, "unknown");
    }
}
