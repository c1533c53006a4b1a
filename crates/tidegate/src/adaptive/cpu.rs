//! How busy the processors are that this process may use, as Linux reports it.

use std::path::{Path, PathBuf};

use tidegate_core::adaptive::Reading;

/// Deeper control groups than this are not looked at.
const DEPTH_MAX: usize = 32;

#[derive(Debug)]
pub(super) struct Cpu {
    source: CpuSource,
    before: Option<Sample>,
}

#[derive(Debug)]
enum CpuSource {
    /// A control group with a quota: it can be used up while the machine is idle.
    Group(PathBuf),
    /// All processors of the machine, by all processes.
    Machine,
}

/// Busy time and total time, both in the same unit.
#[derive(Clone, Copy, PartialEq, Debug)]
struct Sample {
    busy: f64,
    all: f64,
}

impl Cpu {
    pub(super) fn of_this_machine() -> Self {
        let groups = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let group = group_with_quota(Path::new("/sys/fs/cgroup"), &groups);
        Self { source: group.map_or(CpuSource::Machine, CpuSource::Group), before: None }
    }

    /// The busy share since the last call; missing the first time, and where Linux does not report it.
    pub(super) fn read(&mut self, now_us: u64) -> Reading {
        let sample = match &self.source {
            CpuSource::Group(group) => sample_group(group, now_us),
            CpuSource::Machine => {
                std::fs::read_to_string("/proc/stat").ok().and_then(|text| sample_machine(&text))
            }
        };
        let before = std::mem::replace(&mut self.before, sample);
        match (before, sample) {
            (Some(before), Some(now)) if now.all > before.all => {
                Reading::Value((now.busy - before.busy) / (now.all - before.all))
            }
            _ => Reading::Missing,
        }
    }
}

/// The innermost group around this process that has a quota: `0::/path` is the line of version 2.
fn group_with_quota(root: &Path, groups: &str) -> Option<PathBuf> {
    let own = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    // Within a container the path may not be visible: then only its ancestors are.
    let groups = root.join(own).ancestors().map(Path::to_path_buf).collect::<Vec<_>>();
    let inside = |group: &&PathBuf| group.starts_with(root);
    groups.iter().take(DEPTH_MAX).filter(inside).find(|group| quota(group).is_some()).cloned()
}

/// How many processors a group may use.
fn quota(group: &Path) -> Option<f64> {
    parse_quota(&std::fs::read_to_string(group.join("cpu.max")).ok()?)
}

/// `200000 100000` are two processors, `max 100000` is no quota.
fn parse_quota(text: &str) -> Option<f64> {
    let mut words = text.split_whitespace();
    let (quota, period): (f64, f64) = (words.next()?.parse().ok()?, words.next()?.parse().ok()?);
    let processors = quota / period;
    (processors.is_finite() && processors > 0.0).then_some(processors)
}

fn sample_group(group: &Path, now_us: u64) -> Option<Sample> {
    let stat = std::fs::read_to_string(group.join("cpu.stat")).ok()?;
    Some(Sample { busy: parse_usage(&stat)?, all: to_float(now_us) * quota(group)? })
}

fn parse_usage(stat: &str) -> Option<f64> {
    stat.lines().find_map(|line| line.strip_prefix("usage_usec "))?.trim().parse().ok()
}

/// The first line of `/proc/stat`: user nice system idle iowait irq softirq steal; what guests use is in the first two.
fn sample_machine(stat: &str) -> Option<Sample> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let times: Vec<f64> = line.split_whitespace().take(8).map_while(|it| it.parse().ok()).collect();
    let all: f64 = times.iter().sum();
    let idle = times.get(3)? + times.get(4)?;
    Some(Sample { busy: all - idle, all })
}

#[expect(clippy::cast_precision_loss, reason = "microseconds of this process: far below 2^53")]
const fn to_float(us: u64) -> f64 {
    us as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_linux_tells_is_read() {
        assert_eq!(parse_quota("200000 100000\n"), Some(2.0));
        assert_eq!(parse_quota("50000 100000"), Some(0.5));
        for none in ["max 100000", "", "0 100000", "1 0", "nan 1", "-1 100000"] {
            assert_eq!(parse_quota(none), None, "{none}");
        }
        assert_eq!(parse_usage("usage_usec 1500\nuser_usec 1000\n"), Some(1500.0));
        assert_eq!(parse_usage("user_usec 1000\n"), None);
        let stat = "cpu  100 0 50 800 50 0 0 0 0 0\ncpu0 1 2 3 4\n";
        assert_eq!(sample_machine(stat), Some(Sample { busy: 150.0, all: 1000.0 }));
        assert_eq!(sample_machine("intr 5\n"), None);
        assert_eq!(sample_machine("cpu  1 2\n"), None);
    }

    #[test]
    fn a_quota_counts_and_so_does_that_of_a_group_around() {
        let root = std::env::temp_dir().join(format!("tidegate-cpu-{}", std::process::id()));
        let inner = root.join("pod/container");
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::write(inner.join("cpu.max"), "max 100000\n").unwrap();
        assert_eq!(group_with_quota(&root, "0::/pod/container\n"), None);
        let pod = root.join("pod");
        std::fs::write(pod.join("cpu.max"), "200000 100000\n").unwrap();
        assert_eq!(group_with_quota(&root, "1:cpu:/x\n0::/pod/container\n"), Some(pod.clone()));
        assert_eq!(group_with_quota(&root, "1:cpu:/x\n"), None);
        let mut cpu = Cpu { source: CpuSource::Group(pod.clone()), before: None };
        for (usage_us, now_us, expected) in [
            (1_000, 0, Reading::Missing),
            (1_001_000, 1_000_000, Reading::Value(0.5)), // one of two processors
            (3_001_000, 2_000_000, Reading::Value(1.0)),
            (3_001_000, 2_000_000, Reading::Missing),
        ] {
            std::fs::write(pod.join("cpu.stat"), format!("usage_usec {usage_us}\n")).unwrap();
            assert_eq!(cpu.read(now_us), expected, "{usage_us}");
        }
        std::fs::remove_dir_all(&root).unwrap();
        assert_eq!(cpu.read(3_000_000), Reading::Missing);
    }

    #[test]
    #[cfg(target_os = "linux")]
    fn this_machine_is_read() {
        let mut cpu = Cpu::of_this_machine();
        assert_eq!(cpu.read(0), Reading::Missing);
        // Ticks of /proc/stat are 10 ms: work until one has passed.
        let mut now_us = 0;
        let read = (0..1_000_000).find_map(|n: u64| {
            std::hint::black_box((0..10_000).fold(n, |a, b| a.wrapping_mul(31) ^ b));
            now_us += 10_000;
            match cpu.read(now_us) {
                Reading::Value(share) => Some(share),
                _ => None,
            }
        });
        assert!(read.is_some_and(|share| share >= 0.0), "{read:?}");
    }
}
