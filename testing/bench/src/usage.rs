//! What this process has used so far, as the kernel counts it: processor, memory, device.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

const SAMPLE_EVERY: Duration = Duration::from_millis(20);

/// The moment, for latencies.
pub(crate) fn now() -> Instant {
    #[expect(clippy::disallowed_methods, reason = "a benchmark measures real time, and only that")]
    Instant::now()
}

/// Processor time that every process of the machine has used since it started.
pub(crate) fn machine_cpu() -> Duration {
    let ticks = busy_ticks(&fs::read_to_string("/proc/stat").unwrap_or_default());
    Duration::from_secs_f64(ticks as f64 / rustix::param::clock_ticks_per_second().max(1) as f64)
}

/// User, nice and system time, interrupts among it; not what the machine was idle or waited for a disk.
fn busy_ticks(stat: &str) -> u64 {
    const BUSY: [usize; 5] = [0, 1, 2, 5, 6];
    let fields = stat.lines().find_map(|line| line.strip_prefix("cpu "));
    let numbers: Vec<u64> = fields.map_or(Vec::new(), |fields| {
        fields.split_whitespace().map(|field| field.parse().unwrap_or(0)).collect()
    });
    BUSY.into_iter().filter_map(|index| numbers.get(index)).sum()
}

/// Bytes written so far to the block device that `directory` is on, by everybody; `None` where the kernel does not say.
///
/// What it counts for a process (`write_bytes`) is too much for pages overwritten here and there: it counts all of a large
/// folio of the page cache as soon as a part of it is dirty.
pub(crate) fn device_written(directory: &Path) -> Option<u64> {
    const SECTOR_BYTES: u64 = 512;
    let device = fs::metadata(directory).ok()?.dev();
    let (major, minor) = (rustix::fs::major(device), rustix::fs::minor(device));
    let stat = fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/stat")).ok()?;
    Some(sectors_written(&stat)? * SECTOR_BYTES)
}

/// The seventh field: see the kernel's Documentation/block/stat.rst.
fn sectors_written(stat: &str) -> Option<u64> {
    stat.split_whitespace().nth(6)?.parse().ok()
}

/// Counters since the process began; `since` gives the part of a run.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Usage {
    pub(crate) cpu: Duration,
    /// Bytes that the process made the device read or write; writes through a memory map count once dirty.
    pub(crate) device_read_bytes: u64,
    pub(crate) device_written_bytes: u64,
    pub(crate) read_calls: u64,
}

impl Usage {
    pub(crate) fn of_this_process() -> Usage {
        let cpu = clock_gettime(ClockId::ProcessCPUTime);
        let seconds = u64::try_from(cpu.tv_sec).unwrap_or(0);
        let nanos = u32::try_from(cpu.tv_nsec).unwrap_or(0);
        let io = fs::read_to_string("/proc/self/io").unwrap_or_default();
        Usage {
            cpu: Duration::new(seconds, nanos),
            device_read_bytes: field(&io, "read_bytes:").unwrap_or(0),
            device_written_bytes: field(&io, "write_bytes:").unwrap_or(0),
            read_calls: field(&io, "syscr:").unwrap_or(0),
        }
    }

    pub(crate) fn since(&self, earlier: &Usage) -> Usage {
        Usage {
            cpu: self.cpu.saturating_sub(earlier.cpu),
            device_read_bytes: self.device_read_bytes.saturating_sub(earlier.device_read_bytes),
            device_written_bytes: self.device_written_bytes.saturating_sub(earlier.device_written_bytes),
            read_calls: self.read_calls.saturating_sub(earlier.read_calls),
        }
    }
}

/// Resident memory of this process, bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Memory {
    pub(crate) resident_peak: u64,
    /// Without pages of mapped files, which the kernel can take back at any time.
    pub(crate) anonymous: u64,
}

impl Memory {
    pub(crate) fn of_this_process() -> Memory {
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        let bytes = |name| field(&status, name).unwrap_or(0) * 1024;
        Memory { resident_peak: bytes("VmHWM:"), anonymous: bytes("RssAnon:") }
    }

    /// Forgets the peak so far, for instance that of the load before the part that is measured. Where the kernel does
    /// not let it, the peak stays that of the whole process.
    pub(crate) fn reset_peak() {
        if let Err(refused) = fs::write("/proc/self/clear_refs", "5") {
            eprintln!("the memory peak includes the preparation: {refused}");
        }
    }
}

/// Runs `body`, and says the most anonymous memory that a sample saw meanwhile.
pub(crate) fn sampled<T>(body: impl FnOnce() -> T) -> (T, u64) {
    let (peak, stop) = (AtomicU64::new(0), AtomicBool::new(false));
    let sample = || peak.fetch_max(Memory::of_this_process().anonymous, Ordering::Relaxed);
    let result = std::thread::scope(|scope| {
        let sampler = scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                sample();
                std::thread::park_timeout(SAMPLE_EVERY);
            }
        });
        let result = body();
        sample();
        stop.store(true, Ordering::Relaxed);
        sampler.thread().unpark();
        result
    });
    (result, peak.into_inner())
}

/// The number after `name` at the start of a line.
fn field(text: &str, name: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix(name))?;
    line.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found_at_line_starts_only() {
        let text = "cancelled_write_bytes: 7\nwrite_bytes: 12\nVmHWM:\t   34 kB\n";
        assert_eq!(field(text, "write_bytes:"), Some(12));
        assert_eq!(field(text, "VmHWM:"), Some(34));
        assert_eq!(field(text, "absent:"), None);
    }

    #[test]
    fn sectors_written_are_the_seventh_field() {
        assert_eq!(sectors_written("  30 1 568 9 202 7 331 2 0 16 31 3 1 10 15 5 4\n"), Some(331));
        assert_eq!(sectors_written("1 2 3"), None);
        assert_eq!(sectors_written("a b c d e f g"), None);
    }

    #[test]
    fn idle_time_is_not_busy_time() {
        assert_eq!(busy_ticks("cpu  10 2 3 900 50 1 4 7 0 0\ncpu0 1 1 1 1\n"), 20);
        assert_eq!(busy_ticks(""), 0);
        assert!(machine_cpu() > Duration::ZERO);
    }

    #[test]
    fn this_process_uses_memory_and_processor() {
        let memory = Memory::of_this_process();
        assert!(memory.resident_peak >= memory.anonymous);
        assert!(memory.anonymous > 0);
        assert!(Usage::of_this_process().cpu > Duration::ZERO);
    }
}
