//! Many seeds on all processors.

use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use seawall_io::{Clock, SystemClock};

use crate::finding::{Finding, Report};
use crate::progress;

/// After so many findings no more seeds begin, unless told otherwise.
pub(crate) const FINDINGS_MAX: usize = 3;

/// The torture `name`: does `work` for each seed, several at a time, and reports what it finds and counts. Those that were
/// tried are counted, and have no gap: after `findings_max` findings no more begin.
pub(crate) fn for_each_seed(
    name: &'static str,
    seeds: Range<u64>,
    findings_max: usize,
    work: impl Fn(u64, &mut Report) -> Result<(), Finding> + Sync,
) -> Report {
    let start = SystemClock.monotonic();
    let mut report = Report::new(name);
    let (next, shared) = (AtomicU64::new(seeds.start), Mutex::new(&mut report));
    let worker = || {
        while shared.lock().findings.len() < findings_max {
            let seed = next.fetch_add(1, Ordering::SeqCst);
            if seed >= seeds.end {
                return;
            }
            let mut own = Report::default();
            progress::seed(seed, &mut own, |own| {
                let finding = work(seed, own).err();
                own.findings.extend(finding);
            });
            shared.lock().add(own);
        }
    };
    std::thread::scope(|scope| {
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        (0..threads).for_each(|_| drop(scope.spawn(worker)));
    });
    report.seconds = (SystemClock.monotonic() - start).as_secs_f64();
    report
}
