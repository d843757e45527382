//! How long a short record waits to be appended while another thread appends long ones, on a real disk:
//! `append_stall <empty directory> [MiB of a long record] [long records]`. Nothing here waits for a flush.
#![expect(clippy::print_stdout, reason = "it is what a measurement is for")]

use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use seawall_io::{Clock, Disk, OsDisk, SystemClock};
use seawall_types::{DatabaseId, TimelineId};
use seawall_wal::{FlushBy, Log, LogOptions, PreparedRecord};

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().ok_or("which directory?")?;
    let long_bytes = arguments.next().map_or(Ok(64), |text| text.parse::<usize>())? << 20;
    let count: u32 = arguments.next().map_or(Ok(5), |text| text.parse())?;
    let disk: Arc<dyn Disk> = Arc::new(OsDisk::new(directory));
    disk.create_directory("")?;
    let options = LogOptions {
        flush_by: FlushBy::Thread,
        spare_segments: 8,
        clock: Some(Arc::new(SystemClock)),
        ..LogOptions::new(DatabaseId::from_bytes([1; 16]), TimelineId::FIRST)
    };
    let log = Log::create(disk, options)?;
    log.prepare_ahead()?;
    let stop = AtomicBool::new(false);
    let (mut longest, mut flushing) = (Duration::ZERO, Duration::ZERO);
    std::thread::scope(|scope| {
        let short = scope.spawn(|| append_short_ones(&log, &stop));
        for _ in 0..count {
            let mut record = PreparedRecord::no_op(long_bytes);
            let started = SystemClock.monotonic();
            let end = append(&log, &mut record);
            longest = longest.max(SystemClock.monotonic() - started);
            log.flush_until(end).expect("the disk works");
            flushing += SystemClock.monotonic() - started;
        }
        stop.store(true, Ordering::SeqCst);
        let mut waits = short.join().expect("it does not panic");
        waits.sort_unstable();
        let at = |share: usize| waits[(waits.len() - 1) * share / 1000];
        println!(
            "{} short records: median {:?}, 99.9 % {:?}, longest {:?}",
            waits.len(),
            at(500),
            at(999),
            at(1000)
        );
    });
    println!(
        "{count} of {long_bytes} bytes: longest append {longest:?}, append and flush {:?} each",
        flushing / count
    );
    println!("{:?}", log.statistics());
    Ok(())
}

fn append(log: &Log, record: &mut PreparedRecord) -> seawall_types::Lsn {
    let Ok((span, ())) = log.append(record, |_| Ok::<_, Infallible>(())).expect("the disk works");
    span.end
}

/// How long each took. A flush is asked for now and then, and not waited for.
fn append_short_ones(log: &Log, stop: &AtomicBool) -> Vec<Duration> {
    let mut waits = Vec::new();
    while !stop.load(Ordering::SeqCst) {
        let started = SystemClock.monotonic();
        append(log, &mut PreparedRecord::no_op(100));
        waits.push(SystemClock.monotonic() - started);
        SystemClock.sleep(Duration::from_micros(50));
    }
    waits
}
