//! Metrics of the process from `/proc`, under the names that all exporters use. None without `/proc`.

use std::fs;

/// The clock ticks of `/proc/PID/stat`: Linux reports 100 per second on every machine.
const TICKS_PER_S: f64 = 100.0;

#[derive(Clone, Copy, PartialEq, Debug)]
pub(super) struct Process {
    pub(super) cpu_s: f64,
    pub(super) resident_bytes: u64,
    pub(super) open_fds: usize,
    pub(super) max_fds: Option<u64>,
    pub(super) start_s: f64,
    pub(super) threads: u64,
}

impl Process {
    pub(super) fn now() -> Option<Self> {
        let read = |path: &str| fs::read_to_string(path).ok();
        let (stat, status) = (read("/proc/self/stat")?, read("/proc/self/status")?);
        let (machine, limits) = (read("/proc/stat")?, read("/proc/self/limits")?);
        // Behind the process name, which may contain anything.
        let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
        let ticks = |index: usize| fields.get(index)?.parse::<f64>().ok();
        let boot_s: f64 = after(&machine, "btime ")?.parse().ok()?;
        Some(Self {
            cpu_s: (ticks(11)? + ticks(12)?) / TICKS_PER_S,
            resident_bytes: after(&status, "VmRSS:")?.parse::<u64>().ok()? * 1024,
            // One of them is the open directory itself.
            open_fds: fs::read_dir("/proc/self/fd").ok()?.count().saturating_sub(1),
            max_fds: after(&limits, "Max open files").and_then(|max| max.parse().ok()),
            start_s: boot_s + ticks(19)? / TICKS_PER_S,
            threads: fields.get(17)?.parse().ok()?,
        })
    }
}

/// The first word after `name` at the start of a line.
fn after<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace().next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_described() {
        let process = Process::now().unwrap();
        let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap().as_secs_f64();
        assert!(process.start_s < now + 1.0 && process.start_s > now - 3600.0, "{process:?}");
        assert!(process.resident_bytes > 1 << 20 && process.threads > 0, "{process:?}");
        assert!(process.open_fds >= 3, "{process:?}");
        let file = fs::File::open("/proc/self/stat").unwrap();
        assert!(Process::now().unwrap().open_fds > 3, "{file:?}");
    }
}
