//! How many durable appends a second the log takes, and how fast it is read, on a real disk:
//! `flush_rate <empty directory> [threads] [seconds]`. The bare loop of durable writes is what one thread can reach.
#![expect(clippy::print_stdout, reason = "it is what a measurement is for")]

use std::convert::Infallible;
use std::error::Error;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use seawall_io::{AlignedBuffer, Clock, Disk, OpenMode, OsDisk, SystemClock};
use seawall_types::{DatabaseId, Lsn, TimelineId};
use seawall_wal::{CommitBuilder, FlushBy, Log, LogOptions, LogReader};

const DATABASE: DatabaseId = DatabaseId::from_bytes([1; 16]);
const ROW_KEY: [u8; 16] = [0, 0, 0, 0, 0, 0, 0, 9, 1, 2, 3, 4, 5, 6, 7, 8];

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().ok_or("which directory?")?;
    let threads: usize = arguments.next().map_or(Ok(1), |text| text.parse())?;
    let seconds: u64 = arguments.next().map_or(Ok(2), |text| text.parse())?;
    let duration = Duration::from_secs(seconds);
    let disk: Arc<dyn Disk> = Arc::new(OsDisk::new(directory));
    disk.create_directory("")?;
    let bare = bare_rate(&disk, duration.min(Duration::from_secs(1)))?;
    println!("bare loop: {bare:.0} durable writes/s");
    let flush_by = if std::env::var_os("CALLER").is_some() { FlushBy::Caller } else { FlushBy::Thread };
    let options = LogOptions {
        flush_by,
        spare_segments: 4,
        clock: Some(Arc::new(SystemClock)),
        ..LogOptions::new(DATABASE, TimelineId::FIRST)
    };
    let log = Log::create(Arc::clone(&disk), options)?;
    log.prepare_ahead()?;
    measure_appends(&log, threads, duration)?;
    let bytes = log.statistics().record_bytes;
    let end = log.flushed();
    drop(log);
    measure_reading(&disk, bytes, end)
}

fn rate(count: u64, elapsed: Duration) -> f64 {
    f64::from(u32::try_from(count).unwrap_or(u32::MAX)) / elapsed.as_secs_f64()
}

/// One block written durably over and over, each time behind the last.
fn bare_rate(disk: &Arc<dyn Disk>, duration: Duration) -> Result<f64, Box<dyn Error>> {
    let file_bytes = 16 << 20;
    let file = disk.open("bare", OpenMode::Create)?;
    file.fill_zeros(0, file_bytes)?;
    file.sync_data()?;
    drop(file);
    let file = disk.open("bare", OpenMode::Log)?;
    let buffer = AlignedBuffer::zeroed(4096);
    let started = SystemClock.monotonic();
    let mut count = 0;
    while SystemClock.monotonic() - started < duration {
        file.write_durable_at(&buffer, 0..4096, count * 130 / 4096 * 4096 % file_bytes)?;
        count += 1;
    }
    let elapsed = SystemClock.monotonic() - started;
    disk.remove("bare")?;
    Ok(rate(count, elapsed))
}

fn measure_appends(log: &Log, threads: usize, duration: Duration) -> Result<(), Box<dyn Error>> {
    let stop = AtomicBool::new(false);
    let total = AtomicU64::new(0);
    let started = SystemClock.monotonic();
    std::thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                let mut builder = CommitBuilder::new();
                let mut count = 0;
                while !stop.load(Ordering::Relaxed) {
                    builder.begin(0);
                    builder.put(&ROW_KEY, &[7; 95]);
                    let appended = log.append(builder.finish(), |_| Ok::<_, Infallible>(()));
                    let Ok((span, ())) = appended.expect("the disk works");
                    log.flush_until(span.end).expect("the disk works");
                    count += 1;
                }
                total.fetch_add(count, Ordering::SeqCst);
            });
        }
        scope.spawn(|| {
            while SystemClock.monotonic() - started < duration {
                SystemClock.sleep(Duration::from_millis(20));
                log.prepare_ahead().expect("the disk works");
            }
            stop.store(true, Ordering::SeqCst);
        });
    });
    let elapsed = SystemClock.monotonic() - started;
    let statistics = log.statistics();
    let batches = statistics.batches.max(1);
    println!(
        "{threads} threads: {:.0} commits/s, {:.1} a batch, {:.1} us a flush, {} bytes each",
        rate(total.into_inner(), elapsed),
        rate(statistics.records, Duration::from_secs(1)) / rate(batches, Duration::from_secs(1)),
        statistics.flush_time.as_secs_f64() * 1e6 / rate(batches, Duration::from_secs(1)),
        statistics.record_bytes / statistics.records.max(1),
    );
    println!("{statistics:?}");
    Ok(())
}

fn measure_reading(disk: &Arc<dyn Disk>, bytes: u64, end: Lsn) -> Result<(), Box<dyn Error>> {
    let segment_bytes = 16 << 20;
    let from = seawall_wal::LogGeometry::new(segment_bytes)?.first_lsn();
    for limit in [None, Some(end), None, Some(end)] {
        let started = SystemClock.monotonic();
        let mut reader = LogReader::open(Arc::clone(disk), DATABASE, TimelineId::FIRST, segment_bytes, from)?;
        if let Some(limit) = limit {
            reader.set_limit(limit);
        }
        let mut count = 0;
        while reader.next()?.is_some() {
            count += 1;
        }
        let elapsed = SystemClock.monotonic() - started;
        println!(
            "read {count} records, {:.2} GB/s, {:.0} ns a record, {:.1} ms in all, {} what lies behind the end",
            rate(bytes / 1000, elapsed) / 1e6,
            elapsed.as_secs_f64() * 1e9 / rate(count, Duration::from_secs(1)).max(1.0),
            elapsed.as_secs_f64() * 1e3,
            if limit.is_some() { "without" } else { "with" },
        );
    }
    Ok(())
}
